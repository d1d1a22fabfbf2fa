//! Modules as programs ask the driver's table for them.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::KERNELS;
use crate::harness::{pushed, run, table};
use std::ffi::CString;
use std::ptr::null_mut;

const NOT_FOUND: u32 = 500;

#[test]
fn no_module_has_a_texture_or_a_surface_by_a_name() {
    run(|| {
        let _ctx = pushed();
        let t = table();
        let text = CString::new(KERNELS).unwrap();
        let (mut module, mut texture) = (null_mut(), null_mut());
        unsafe {
            assert_eq!((t.cuModuleLoadFatBinary)(&mut module, text.as_ptr().cast()), 0);
            assert_eq!((t.cuModuleGetTexRef)(&mut texture, module, c"picture".as_ptr()), NOT_FOUND);
            assert_eq!((t.cuModuleGetSurfRef)(&mut texture, module, c"picture".as_ptr()), NOT_FOUND);
            assert_eq!((t.cuModuleGetTexRef)(null_mut(), module, c"picture".as_ptr()), 1);
            assert_eq!((t.cuModuleGetSurfRef)(&mut texture, module, std::ptr::null()), 1);
            assert_eq!((t.cuModuleUnload)(module), 0);
            assert_eq!((t.cuModuleLoadFatBinary)(&mut module, std::ptr::null()), 1);
        }
        assert!(texture.is_null());
    });
}

#[test]
fn the_host_and_the_device_have_no_function_in_common() {
    run(|| {
        let _ctx = pushed();
        let t = table();
        let text = CString::new(KERNELS).unwrap();
        let (mut library, mut function) = (null_mut(), null_mut());
        let (none, nothing) = (null_mut(), null_mut());
        unsafe {
            let code = text.as_ptr().cast();
            assert_eq!((t.cuLibraryLoadData)(&mut library, code, none, nothing, 0, none, nothing, 0), 0);
            let ask = t.cuLibraryGetUnifiedFunction;
            assert_eq!(ask(&mut function, library, c"sum".as_ptr()), 1);
            assert_eq!(ask(null_mut(), library, c"sum".as_ptr()), 1);
            assert_eq!((t.cuLibraryUnload)(library), 0);
        }
    });
}
