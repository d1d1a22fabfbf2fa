//! Owners, guards and handles of one context are known by the same things, and those of two are not.

use super::green::{all, green};
use crate::harness::{device, other, parked, run_alone};
use custack::context::{ContextHandle, CurrentContext, GreenContext, Origin, PrimaryContext, UnownedContext};
use custack::device::Device;
use custack::driver::instrument::{self, When};
use std::fmt::{Debug, Display};

#[track_caller]
fn is_alike<C: ContextHandle + Display + Debug>(owner: &C, handle: &UnownedContext) {
    assert!(!handle.as_raw().is_null());
    assert_eq!(owner.get_inner(), handle.as_raw());
    assert_eq!(owner.as_unowned(), handle);
    is_said(owner, handle);
}

#[track_caller]
fn is_said(owner: &(impl Display + Debug), handle: &UnownedContext) {
    assert_eq!(owner.to_string(), handle.to_string());
    let (text, raw) = (format!("{owner:?}"), format!("{:?}", handle.as_raw()));
    assert!(text.contains(&raw) && text.contains(&handle.id().to_string()), "{text}");
}

#[test]
fn whatever_stands_for_a_context_says_which_one_it_is() {
    run_alone(|| {
        let created = parked();
        is_alike(&created, &created.get_unowned());
        is_alike(&created.enter().unwrap(), &created.get_unowned());
        let primary = PrimaryContext::retain(device()).unwrap();
        is_alike(&primary, &primary.get_unowned());
        let green = green();
        is_said(&green, green.handle());
    });
}

#[test]
fn owners_are_equal_if_they_are_of_the_same_context() {
    run_alone(|| {
        let devices = (0..Device::num_devices().unwrap()).map(|at| Device::get_device(at).unwrap());
        let primaries: Vec<_> = devices.map(|device| PrimaryContext::retain(device).unwrap()).collect();
        for (at, one) in primaries.iter().enumerate() {
            for (other_at, other) in primaries.iter().enumerate() {
                assert_eq!(one == other, at == other_at);
            }
            assert_eq!(*one, PrimaryContext::retain(one.device()).unwrap());
        }
        let parts = all().split(2, all().count() / 8).unwrap().groups;
        let greens = [0, 1].map(|at| GreenContext::new(&parts[at]).unwrap());
        assert!(greens[0] == greens[0] && greens[0] != greens[1]);
    });
}

#[test]
fn a_primary_context_that_other_code_made_is_said_to_be_primary_once_it_is_retained() {
    run_alone(|| {
        let raw = other::retain_primary();
        other::push(raw);
        instrument::fail(Some("cuCtxGetDevice"), 1, 999, When::Before);
        let met = CurrentContext::get_current().unwrap();
        assert_eq!(met.origin(), Origin::Foreign);
        let primary = PrimaryContext::retain(device()).unwrap();
        assert_eq!(primary.get_unowned(), met);
        assert_eq!(primary.origin(), Origin::Primary);
        let text = format!("{primary:?}");
        assert!(text.contains("Primary") && text.contains("device: Some(0)"), "{text}");
        instrument::disarm();
        assert_eq!(other::pop(), Ok(raw));
        drop(primary);
        other::release_primary();
    });
}
