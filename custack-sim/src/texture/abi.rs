//! The C ABI of the chapters on texture and surface objects.

// C functions that read and write through the pointers that they get.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use crate::abi::{c_abi, call, give_first};
use crate::machine::*;
use custack_sys::ffi::*;

c_abi! {
    fn cuTexObjectCreate(texture: *mut CUtexObject, resource: *const CUDA_RESOURCE_DESC, descriptor: *const CUDA_TEXTURE_DESC, view: *const CUDA_RESOURCE_VIEW_DESC) {
        give_first(texture, |m| {
            if resource.is_null() || descriptor.is_null() {
                return m.refuse(INVALID_VALUE, "a texture needs a resource and a descriptor, and got NULL");
            }
            let view = if view.is_null() { None } else { Some(view.read()) };
            m.create_texture(resource.read(), descriptor.read(), view)
        })
    }
    fn cuTexObjectDestroy(texture: CUtexObject) { call(|m| m.destroy_texture(texture, false)) }
    fn cuTexObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, texture: CUtexObject) {
        give_first(resource, |m| m.texture(texture, false).map(|found| found.resource))
    }
    fn cuTexObjectGetTextureDesc(descriptor: *mut CUDA_TEXTURE_DESC, texture: CUtexObject) {
        give_first(descriptor, |m| m.texture(texture, false).map(|found| found.descriptor))
    }
    fn cuTexObjectGetResourceViewDesc(view: *mut CUDA_RESOURCE_VIEW_DESC, texture: CUtexObject) {
        give_first(view, |m| m.view_of_texture(texture))
    }
    fn cuSurfObjectCreate(surface: *mut CUsurfObject, resource: *const CUDA_RESOURCE_DESC) {
        give_first(surface, |m| {
            if resource.is_null() {
                return m.refuse(INVALID_VALUE, "a surface needs a resource, and got NULL");
            }
            m.create_surface(resource.read())
        })
    }
    fn cuSurfObjectDestroy(surface: CUsurfObject) { call(|m| m.destroy_texture(surface, true)) }
    fn cuSurfObjectGetResourceDesc(resource: *mut CUDA_RESOURCE_DESC, surface: CUsurfObject) {
        give_first(resource, |m| m.texture(surface, true).map(|found| found.resource))
    }
}
