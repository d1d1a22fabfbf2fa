//! The versions and the targets of PTX: an H100 gave these answers.

use super::pool::leave;
use crate::harness::{other, run};
use std::ffi::CString;
use std::ptr::null_mut;

fn load(version: &str, target: &str) -> u32 {
    let text =
        format!(".version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n");
    let (text, mut module) = (CString::new(text).unwrap(), null_mut());
    let status = call!(cuModuleLoadData(&mut module, text.as_ptr().cast()));
    assert!(status != 0 || call!(cuModuleUnload(module)) == 0);
    status
}

#[test]
fn a_version_that_was_never_released_is_222() {
    run(|| {
        let ctx = other::create();
        for version in ["3.3", "4.9", "5.9", "6.9", "7.9", "8.9", "9.9", "10.0"] {
            assert_eq!(load(version, "sm_50"), 222, "{version}");
        }
        // It is read before the target.
        assert_eq!((load("6.9", "sm_80"), load("8.9", "sm_90"), load("8.9", "sm_71")), (222, 222, 222));
        leave(ctx);
    });
}

#[test]
fn a_target_that_does_not_exist_is_218() {
    run(|| {
        let ctx = other::create();
        for target in ["sm_71", "sm_9", "sm_0", "sm_1000", "sm_70a", "sm_", "sm", "70"] {
            assert_eq!(load("8.0", target), 218, "{target}");
        }
        leave(ctx);
    });
}

#[test]
fn a_version_older_than_its_target_is_218() {
    run(|| {
        let ctx = other::create();
        let refused = [
            ("6.2", "sm_75"),
            ("6.0", "sm_80"),
            ("7.0", "sm_86"),
            ("7.7", "sm_90"),
            ("7.8", "sm_90a"),
            ("1.4", "sm_20"),
        ];
        assert_eq!(refused.map(|(version, target)| load(version, target)), [218; 6]);
        let loaded = [("6.4", "sm_75"), ("7.8", "sm_90"), ("7.0", "sm_70"), ("8.0", "sm_50")];
        assert_eq!(loaded.map(|(version, target)| load(version, target)), [0; 4]);
        leave(ctx);
    });
}
