//! Arrays. Their contents are memory at an address that no program is told, row after row, without gaps.

use super::{Kind, lock};
use crate::graph::{Copy, Side};
use crate::machine::*;
use custack_sys::ffi::CUDA_ARRAY3D_DESCRIPTOR;

const LAYERED: u32 = 0x1;
const CUBEMAP: u32 = 0x4;
/// What a copy calls an array.
const ARRAY: u32 = 3;

#[derive(Clone, Copy)]
pub(crate) struct Array {
    pub(crate) context: Handle,
    pub(crate) descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    pub(crate) address: u64,
}

/// Bytes of a channel of this format; `None` if there is none.
pub(crate) fn channel_size(format: u32) -> Option<usize> {
    match format {
        1 | 8 => Some(1),
        2 | 9 | 16 => Some(2),
        3 | 10 | 32 => Some(4),
        _ => None,
    }
}

impl Array {
    pub(crate) fn is_layered(&self) -> bool {
        self.descriptor.Flags & LAYERED != 0
    }

    pub(crate) fn is_cube(&self) -> bool {
        self.descriptor.Flags & CUBEMAP != 0
    }

    /// Bytes of an element.
    fn element(&self) -> usize {
        channel_size(self.descriptor.Format).unwrap_or(1) * self.descriptor.NumChannels as usize
    }

    /// Bytes of a row, rows of a slice, and slices, each of which is at least 1.
    pub(crate) fn extent(&self) -> [usize; 3] {
        let CUDA_ARRAY3D_DESCRIPTOR { Width, Height, Depth, .. } = self.descriptor;
        [Width.saturating_mul(self.element()), Height.max(1), Depth.max(1)]
    }
}

impl Machine {
    pub(crate) fn create_array(
        &mut self,
        has_out: bool,
        descriptor: CUDA_ARRAY3D_DESCRIPTOR,
    ) -> Answer<usize> {
        let context = self.healthy_current()?;
        let known_format = channel_size(descriptor.Format).is_some();
        let channels = [1, 2, 4].contains(&descriptor.NumChannels);
        let layered = descriptor.Flags & LAYERED != 0;
        let cubes = descriptor.Flags & CUBEMAP != 0;
        let cube_like =
            descriptor.Width == descriptor.Height && descriptor.Depth % 6 == 0 && descriptor.Depth > 0;
        let shape = descriptor.Width > 0
            && (layered || descriptor.Depth == 0 || descriptor.Height > 0)
            && (!cubes || cube_like && (layered || descriptor.Depth == 6));
        if !has_out || !known_format || !channels || !shape {
            return self.refuse(INVALID_VALUE, format_args!("an array of {descriptor:?}"));
        }
        let array = Array { context, descriptor, address: 0 };
        let size = array.extent().into_iter().try_fold(1usize, usize::checked_mul);
        let got = size.and_then(|size| lock().allocate(Kind::Array, context, size));
        let Some(address) = got else {
            return self
                .refuse(OUT_OF_MEMORY, format_args!("there is no room for an array of {descriptor:?}"));
        };
        Ok(self.objects.add(Object::Array(Array { address, ..array })))
    }

    pub(crate) fn array(&mut self, handle: usize) -> Answer<Array> {
        self.ready()?;
        let Some(Object::Array(array)) = self.objects.get(handle) else {
            return self.misuse(INVALID_HANDLE, format_args!("{handle:#x} is not an array"));
        };
        let array = *array;
        self.healthy(array.context)?;
        Ok(array)
    }

    /// 0 for what is no array.
    pub(crate) fn context_of_array(&self, handle: usize) -> Handle {
        match self.objects.get(handle) {
            Some(Object::Array(array)) => array.context,
            _ => 0,
        }
    }

    pub(crate) fn destroy_array(&mut self, handle: usize) -> Answer<()> {
        let array = self.array(handle)?;
        lock().free(array.address);
        self.objects.remove(handle);
        Ok(())
    }

    fn array_of(&mut self, side: Side) -> Answer<Array> {
        if side.array == 0 {
            return self.refuse(INVALID_VALUE, "an array is needed, and got NULL");
        }
        self.array(side.array)
    }

    /// The copy with the places of its arrays, each of which has all that is copied of it.
    pub(crate) fn with_arrays(&mut self, copy: Copy) -> Answer<Copy> {
        let (from, to) = (self.placed(copy.from, copy.extent)?, self.placed(copy.to, copy.extent)?);
        Ok(Copy { from, to, ..copy })
    }

    fn placed(&mut self, side: Side, extent: [usize; 3]) -> Answer<Side> {
        if side.kind != ARRAY {
            return Ok(side);
        }
        let array = self.array_of(side)?;
        let has = array.extent();
        let fits = (0..3).all(|at| side.start[at].checked_add(extent[at]).is_some_and(|end| end <= has[at]));
        if !fits || side.level != 0 {
            let start = side.start;
            return self.refuse(
                INVALID_VALUE,
                format_args!("{extent:?} bytes, rows and slices from {start:?} of an array of {has:?}"),
            );
        }
        Ok(Side { device: array.address, pitch: has[0], height: has[1], ..side })
    }
}
