//! Memory that host and device share.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::driver::process::{child, child_succeeds};
use crate::harness::{device, pushed, run};
use crate::stream::stream;
use custack::device::DeviceAttribute;
use custack::driver::Choice;
use custack::error::{CudaError, CudaResult};
use custack::launch;
use custack::memory::*;
use custack::module::Module;
use custack::sim;

#[test]
fn unified_values_behave_as_what_they_hold() {
    use std::collections::HashSet;
    run(|| {
        let _ctx = pushed();
        let (mut one, two) = (UnifiedBox::new(1u32).unwrap(), UnifiedBox::new(2u32).unwrap());
        assert!(one < two && one != two && one.cmp(&two).is_lt());
        assert_eq!(
            (format!("{one}"), format!("{one:p}")),
            ("1".to_owned(), format!("{:p}", one.as_unified_ptr()))
        );
        *one.as_mut() += 1;
        assert_eq!(one, two);
        assert_eq!((*one.as_ref(), *std::borrow::Borrow::<u32>::borrow(&two)), (2, 2));
        assert_eq!(HashSet::from([one, two]).len(), 1);
        let mut buffer = UnifiedBuffer::from_slice(&[3u8, 1, 2]).unwrap();
        buffer.sort_unstable();
        assert_eq!(buffer.as_slice(), [1, 2, 3]);
        assert_eq!(buffer.as_unified_ptr().as_raw(), buffer.as_slice().as_ptr());
        buffer.as_mut_slice()[0] = 9;
        assert_eq!(AsRef::<[u8]>::as_ref(&buffer), [9, 2, 3]);
        let leaked = UnifiedBox::leak(UnifiedBox::new(()).unwrap());
        assert_eq!(*leaked, ());
    });
}

#[test]
fn where_kernels_keep_the_host_from_unified_memory_safe_code_gets_none() {
    child_succeeds("no concurrent access", &[("CUSTACK_DRIVER", "sim"), ("CUSTACK_SIM_DEVICES", "2")]);
}

pub(crate) fn without_concurrent_access() {
    custack::driver::choose(Choice::Sim).unwrap();
    sim::set_concurrent_managed_access(false);
    run(|| {
        let ctx = pushed();
        assert_eq!(device().get_attribute(DeviceAttribute::ConcurrentManagedAccess), Ok(0));
        let made: [CudaResult<()>; 5] = [
            UnifiedBox::new(1u32).map(drop),
            UnifiedBuffer::new(&1u32, 3).map(drop),
            UnifiedBuffer::from_slice(&[1u32, 2]).map(drop),
            ctx.unified_box(1).map(drop),
            ctx.unified_buffer(&[1]).map(drop),
        ];
        for result in made {
            let error = result.unwrap_err();
            assert_eq!(error, CudaError::NotSupported);
            let why = "while a kernel runs on device 0, the host must not access it";
            assert!(crate::harness::said(error).contains(why), "{error}");
        }
        assert_eq!(sim::allocations(), 0);
        // No memory, nothing to be kept from.
        assert!(UnifiedBox::new(()).is_ok() && UnifiedBuffer::<u32>::from_slice(&[]).is_ok());
        // The caller promises to wait for kernels.
        let mut buffer = unsafe { UnifiedBuffer::<u32>::uninitialized(5000) }.unwrap();
        buffer.fill(3);
        let stream = stream();
        let (module, to) = (
            Module::load_from_string(
                c"
            .version 7.0 .target sm_70 .address_size 64
            .visible .entry add(.param .u64 to) {
                .reg .b64 %rd<2>; .reg .b32 %r<2>;
                ld.param.u64 %rd1, [to];
                ld.global.u32 %r1, [%rd1+16000];
                add.u32 %r1, %r1, 4;
                st.global.u32 [%rd1+16000], %r1;
                ret;
            }",
            )
            .unwrap(),
            buffer.as_unified_ptr(),
        );
        unsafe { launch!(module.add<<<1, 1, 0, stream>>>(to)) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!((buffer[4000], buffer[3999]), (7, 3));
        let mut there = DeviceBuffer::from_slice(&[0u32; 5000]).unwrap();
        there.copy_from(&buffer[..]).unwrap();
        there[..1].copy_to(&mut buffer[4000..4001]).unwrap();
        assert_eq!(buffer[4000], 3);
        assert!(UnifiedBuffer::drop(buffer).is_ok());
        sim::set_concurrent_managed_access(true);
        assert_eq!(*UnifiedBox::new(8).unwrap(), 8);
    });
}

#[test]
#[cfg(target_os = "linux")]
fn there_an_access_beside_a_kernel_is_a_fault() {
    use std::os::unix::process::ExitStatusExt;
    let (status, text) = child("access beside a kernel", &[("CUSTACK_DRIVER", "sim")]);
    assert!(status.signal() == Some(11) && text.contains("the kernel runs"), "{status}: {text}");
}

pub(crate) fn access_beside_a_kernel() {
    custack::driver::choose(Choice::Sim).unwrap();
    sim::set_concurrent_managed_access(false);
    run(|| {
        let _ctx = pushed();
        let (stream, mut flags) = (stream(), LockedBuffer::from_slice(&[0u32; 2]).unwrap());
        let unified = unsafe { UnifiedBuffer::<u32>::uninitialized(1) }.unwrap();
        let module = Module::load_from_string(
            c"
            .version 7.0 .target sm_70 .address_size 64
            .visible .entry begins_and_waits(.param .u64 flags) {
                .reg .b64 %rd<2>; .reg .b32 %r<2>; .reg .pred %p<2>;
                ld.param.u64 %rd1, [flags];
                st.volatile.global.u32 [%rd1], 1;
            again:
                ld.volatile.global.u32 %r1, [%rd1+4];
                setp.eq.u32 %p1, %r1, 0;
                @%p1 bra again;
                ret;
            }",
        )
        .unwrap();
        let to = flags.as_device_ptr().unwrap();
        unsafe { launch!(module.begins_and_waits<<<1, 1, 0, stream>>>(to)) }.unwrap();
        while unsafe { flags.as_ptr().read_volatile() } == 0 {
            std::thread::yield_now();
        }
        println!("the kernel runs");
        assert_eq!(unified[0], 0, "this is not reached");
    });
}
