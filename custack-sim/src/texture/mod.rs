//! Texture and surface objects: their handles, and what kernels read and write through them.

pub(super) mod abi;
mod bound;

pub(super) use bound::{Bound, Channel, Grid, Outside, Sampler};

use super::machine::*;
use super::memory;
use bound::{NORMALIZED_COORDINATES, READ_AS_INTEGER};
use custack_sys::ffi::{CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC};

const ARRAY: u32 = 0;
const MIPMAPPED_ARRAY: u32 = 1;
const LINEAR: u32 = 2;
const ROWS: u32 = 3;

const SRGB: u32 = 0x10;
const NO_TRILINEAR_OPTIMIZATION: u32 = 0x20;
const SEAMLESS_CUBEMAP: u32 = 0x40;
/// A flag without a name, which an H200 accepts.
const UNNAMED: u32 = 0x8;

/// Attributes of the device: addresses and pitches are multiples of the first two.
const ALIGNMENT: u64 = 512;
const PITCH_ALIGNMENT: usize = 32;
const MOST_PITCH: usize = 2_097_120;
const MOST_ROWS: [usize; 2] = [131_072, 65_000];

/// A texture or a surface.
#[derive(Clone, Copy)]
pub(super) struct Texture {
    pub(super) context: Handle,
    pub(super) resource: CUDA_RESOURCE_DESC,
    pub(super) descriptor: CUDA_TEXTURE_DESC,
    is_surface: bool,
}

/// What a resource has.
struct Contents {
    grid: Grid,
    channel: Channel,
    channels: u32,
}

impl Machine {
    pub(super) fn create_texture(
        &mut self,
        resource: CUDA_RESOURCE_DESC,
        descriptor: CUDA_TEXTURE_DESC,
        view: Option<CUDA_RESOURCE_VIEW_DESC>,
    ) -> Answer<u64> {
        let context = self.healthy_current()?;
        let Contents { grid, channel, channels } = self.contents(&resource)?;
        if view.is_some() {
            return self.refuse(NOT_SUPPORTED, "another view of an array is not modelled");
        }
        let of_cubes = if grid.is_cube { SEAMLESS_CUBEMAP } else { 0 };
        if descriptor.flags & (SRGB | of_cubes) != 0 {
            return self.refuse(NOT_SUPPORTED, "sRGB and seamless cubes are not modelled");
        }
        let known = READ_AS_INTEGER | NORMALIZED_COORDINATES | NO_TRILINEAR_OPTIMIZATION | UNNAMED;
        let sampler = Sampler::of(&descriptor, channel).filter(|_| descriptor.flags & !known == 0);
        let Some(sampler) = sampler else {
            return self.refuse(INVALID_VALUE, format_args!("a texture with {descriptor:?}"));
        };
        let bound = Bound { grid, channel, channels: channels as usize, sampler: Some(sampler) };
        // An H200's driver does not return the colour of the border.
        let descriptor = CUDA_TEXTURE_DESC { borderColor: [0.0; 4], ..descriptor };
        Ok(self.add_texture(Texture { context, resource, descriptor, is_surface: false }, bound))
    }

    pub(super) fn create_surface(&mut self, resource: CUDA_RESOURCE_DESC) -> Answer<u64> {
        let context = self.healthy_current()?;
        if resource.resType != ARRAY {
            return self.refuse(INVALID_VALUE, "a surface is of an array");
        }
        let Contents { grid, channel, channels } = self.contents(&resource)?;
        let bound = Bound { grid, channel, channels: channels as usize, sampler: None };
        let descriptor = CUDA_TEXTURE_DESC::default();
        Ok(self.add_texture(Texture { context, resource, descriptor, is_surface: true }, bound))
    }

    fn add_texture(&mut self, texture: Texture, bound: Bound) -> u64 {
        let handle = self.objects.add(Object::Texture(Box::new(texture))) as u64;
        memory::lock().bind(handle, texture.context, bound);
        handle
    }

    fn contents(&mut self, resource: &CUDA_RESOURCE_DESC) -> Answer<Contents> {
        let CUDA_RESOURCE_DESC { resType, devPtr, format, numChannels: channels, width, height, .. } =
            *resource;
        if resource.flags != 0 {
            return self.refuse(INVALID_VALUE, "the flags of a resource are 0");
        }
        match resType {
            ARRAY => {
                let array = self.array(devPtr as usize)?;
                if array.context != self.healthy_current()? {
                    return self.refuse(PEER_ACCESS_NOT_ENABLED, "the array is of another context");
                }
                let found = array.descriptor;
                let Some(channel) = Channel::numbered(found.Format) else { return Err(INVALID_VALUE) };
                return Ok(Contents { grid: Grid::of_array(&array), channel, channels: found.NumChannels });
            }
            MIPMAPPED_ARRAY => return self.refuse(NOT_SUPPORTED, "mipmapped arrays are not modelled"),
            LINEAR | ROWS => {}
            other => return self.refuse(INVALID_VALUE, format_args!("a resource of type {other}")),
        }
        let channel = Channel::numbered(format).filter(|_| [1, 2, 4].contains(&channels));
        let Some(channel) = channel else {
            return self.refuse(INVALID_VALUE, format_args!("elements of {channels} times {format:#x}"));
        };
        if devPtr == 0 || devPtr % ALIGNMENT != 0 {
            return self.refuse(INVALID_VALUE, format_args!("a texture of memory at {devPtr:#x}"));
        }
        // Whether there is as much is found out where it is read.
        if let Err(why) = memory::lock().check(devPtr, 1) {
            return self.refuse(INVALID_VALUE, why);
        }
        let element = channel.size() * channels as usize;
        let grid = if resType == LINEAR {
            Grid::of_memory(devPtr, width / element, width)
        } else {
            let pitch = resource.pitchInBytes;
            let fits = pitch > 0 && pitch % PITCH_ALIGNMENT == 0 && pitch <= MOST_PITCH;
            if !fits || width > MOST_ROWS[0] || height > MOST_ROWS[1] {
                return self.refuse(
                    INVALID_VALUE,
                    format_args!("a texture of {height} rows of {width} elements, {pitch} bytes apart"),
                );
            }
            Grid::of_rows(devPtr, [width, height], pitch)
        };
        Ok(Contents { grid, channel, channels })
    }

    /// A texture, or a surface, of the current context.
    pub(super) fn texture(&mut self, handle: u64, is_surface: bool) -> Answer<Texture> {
        let context = self.healthy_current()?;
        match self.objects.get(handle as usize) {
            Some(Object::Texture(found)) if found.context == context && found.is_surface == is_surface => {
                Ok(**found)
            }
            _ => self
                .refuse(INVALID_VALUE, format_args!("{handle:#x} is no such object of the current context")),
        }
    }

    pub(super) fn view_of_texture(&mut self, handle: u64) -> Answer<CUDA_RESOURCE_VIEW_DESC> {
        self.texture(handle, false).map(|_| CUDA_RESOURCE_VIEW_DESC::default())
    }

    /// What is no object of the current context is none that is destroyed, and no error.
    pub(super) fn destroy_texture(&mut self, handle: u64, is_surface: bool) -> Answer<()> {
        let context = self.healthy_current()?;
        if self.texture(handle, is_surface).is_ok_and(|found| found.context == context) {
            memory::lock().unbind(handle);
            self.objects.remove(handle as usize);
        }
        Ok(())
    }
}
