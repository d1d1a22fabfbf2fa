//! Two devices.

use crate::harness::{current, drain, parked, run, skip};
use custack::context::{Context, ContextFlags, ContextStack, CurrentContext};
use custack::device::{Device, PeerAttribute};
use custack::error::CudaError;

fn two_devices(test: &str) -> Option<(Device, Device)> {
    crate::harness::start();
    if Device::num_devices().unwrap() < 2 {
        skip(test, "it needs two devices");
        return None;
    }
    Some((Device::get_device(0).unwrap(), Device::get_device(1).unwrap()))
}

fn parked_on(device: Device) -> Context {
    let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, device).unwrap();
    ContextStack::pop().unwrap();
    ctx
}

#[test]
fn a_device_is_not_a_peer_of_itself() {
    run(|| {
        let device = Device::get_device(0).unwrap();
        assert!(!device.can_access_peer(device).unwrap());
        assert_eq!(
            device.peer_attribute(PeerAttribute::AccessSupported, device),
            Err(CudaError::InvalidDevice)
        );
    });
}

#[test]
fn contexts_of_one_device_are_not_peers() {
    run(|| {
        let (a, b) = (parked(), parked());
        let error = a.enable_peer_access(&b).unwrap_err();
        assert_eq!(error, CudaError::PeerAccessUnsupported);
        assert!(crate::harness::said(error).contains(&format!("from context {}", a.id())), "{error}");
        assert_eq!(a.disable_peer_access(&b), Err(CudaError::PeerAccessNotEnabled));
    });
}

#[test]
fn a_destroyed_peer_is_refused() {
    run(|| {
        let a = parked();
        let gone = parked().get_unowned();
        assert_eq!(a.enable_peer_access(&gone), Err(CudaError::ContextIsDestroyed));
        assert_eq!(a.disable_peer_access(&gone), Err(CudaError::ContextIsDestroyed));
        let none = CurrentContext::get_current().unwrap();
        assert_eq!(a.enable_peer_access(&none), Err(CudaError::InvalidContext));
    });
}

#[test]
fn peers_are_enabled_once_and_disabled_once() {
    let Some((first, second)) = two_devices("peers_are_enabled_once_and_disabled_once") else { return };
    run(|| {
        let (a, b) = (parked_on(first), parked_on(second));
        if !first.can_access_peer(second).unwrap() {
            assert_eq!(a.enable_peer_access(&b), Err(CudaError::PeerAccessUnsupported));
            return skip("peers_are_enabled_once_and_disabled_once", "the two devices are not peers");
        }
        a.enable_peer_access(&b).unwrap();
        assert_eq!(a.enable_peer_access(&b), Err(CudaError::PeerAccessAlreadyEnabled));
        a.disable_peer_access(&b).unwrap();
        assert_eq!(a.disable_peer_access(&b), Err(CudaError::PeerAccessNotEnabled));
    });
}

#[test]
fn links_between_devices_have_properties() {
    let Some((first, second)) = two_devices("links_between_devices_have_properties") else { return };
    run(|| {
        let can = first.can_access_peer(second).unwrap();
        let supported = first.peer_attribute(PeerAttribute::AccessSupported, second).unwrap();
        assert_eq!(supported, i32::from(can));
        for attribute in [
            PeerAttribute::PerformanceRank,
            PeerAttribute::NativeAtomicSupported,
            PeerAttribute::CudaArrayAccessSupported,
            PeerAttribute::OnlyPartialNativeAtomicSupported,
        ] {
            assert!(first.peer_attribute(attribute, second).is_ok(), "{attribute:?}");
        }
    });
}

#[test]
fn contexts_of_two_devices_interleave_on_one_thread() {
    let Some((first, second)) = two_devices("contexts_of_two_devices_interleave_on_one_thread") else {
        return;
    };
    run(|| {
        let (a, b) = (parked_on(first), parked_on(second));
        assert_eq!((a.device(), b.device()), (Ok(first), Ok(second)));
        a.scoped(|_| {
            assert_eq!(CurrentContext::get_device()?, first);
            b.scoped(|_| {
                assert_eq!(CurrentContext::get_device()?, second);
                a.synchronize()
            })?;
            assert_eq!(CurrentContext::get_device()?, first);
            Ok(())
        })
        .unwrap();
        assert!(current().is_null());
    });
}

#[test]
fn a_destroyed_context_of_the_second_device_keeps_its_device() {
    let Some((_, second)) = two_devices("a_destroyed_context_of_the_second_device_keeps_its_device") else {
        return;
    };
    run(|| {
        let b = Context::create_and_push(ContextFlags::SCHED_SPIN, second).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || drop(b));
        });
        assert_eq!(CurrentContext::get_device().unwrap(), second);
        assert_eq!(CurrentContext::get_flags().unwrap(), ContextFlags::empty());
        drain();
    });
}
