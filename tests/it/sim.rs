//! The simulated driver's own controls. What it does as a driver is in `facts`.

use crate::harness::{is_simulated, parked, pushed, run, run_alone, skip};
use custack::context::{ContextStack, CurrentContext, PrimaryContext};
use custack::device::Device;
use custack::driver::{account, sim};

/// On the NVIDIA driver there is nothing to control.
fn simulated(test: &str) -> bool {
    if !is_simulated() {
        skip(test, "it is about the simulated driver's controls");
    }
    is_simulated()
}

#[test]
fn accounts_tell_what_is_alive() {
    if !simulated("accounts_tell_what_is_alive") {
        return;
    }
    run_alone(|| {
        let before = sim::contexts_alive();
        let (a, b) = (pushed(), parked());
        assert_eq!((sim::contexts_alive(), sim::depth()), (before + 2, 1));
        let primary = PrimaryContext::retain(Device::get_device(1).unwrap()).unwrap();
        assert_eq!(
            (sim::contexts_alive(), sim::primary_retains(1), sim::primary_retains(9)),
            (before + 3, 1, 0)
        );
        drop((a, b, primary));
        assert_eq!((sim::contexts_alive(), sim::depth(), sim::primary_retains(1)), (before, 0, 0));
    });
}

#[test]
fn the_layers_accounts_agree_with_the_machines() {
    if !simulated("the_layers_accounts_agree_with_the_machines") {
        return;
    }
    run_alone(|| {
        let layer = account::contexts_alive();
        let machine = sim::contexts_alive();
        let kept: Vec<_> = (0..5).map(|_| parked()).collect();
        assert_eq!(account::contexts_alive() - layer, 5);
        assert_eq!(sim::contexts_alive() - machine, 5);
        drop(kept);
        assert_eq!(account::contexts_alive(), layer);
    });
}

#[test]
fn handles_come_once_unless_told_to_come_again() {
    if !simulated("handles_come_once_unless_told_to_come_again") {
        return;
    }
    run_alone(|| {
        let first = parked().as_raw();
        assert_ne!(parked().as_raw(), first);
        sim::reuse_handles(true);
        let reused = parked().as_raw();
        assert_eq!(parked().as_raw(), reused);
        sim::reuse_handles(false);
    });
}

#[test]
fn a_handle_is_freed_when_no_stack_holds_it_and_not_before() {
    if !simulated("a_handle_is_freed_when_no_stack_holds_it_and_not_before") {
        return;
    }
    run_alone(|| {
        sim::reuse_handles(true);
        let a = parked();
        let raw = a.as_raw();
        ContextStack::push(&a).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || drop(a));
        });
        let other = parked();
        assert_ne!(other.as_raw(), raw, "this thread's stack holds it");
        ContextStack::pop().unwrap();
        assert_eq!(parked().as_raw(), raw);
        sim::reuse_handles(false);
    });
}

#[test]
fn a_thread_that_ends_lets_go_of_its_stack() {
    if !simulated("a_thread_that_ends_lets_go_of_its_stack") {
        return;
    }
    run_alone(|| {
        sim::reuse_handles(true);
        let a = parked();
        let raw = a.as_raw();
        std::thread::scope(|scope| {
            scope.spawn(|| CurrentContext::set_current(&a).unwrap()).join().unwrap();
        });
        drop(a);
        assert_eq!(parked().as_raw(), raw, "no stack holds it any more");
        sim::reuse_handles(false);
    });
}

#[test]
fn refusals_leave_sentences() {
    if !simulated("refusals_leave_sentences") {
        return;
    }
    run(|| {
        assert!(ContextStack::pop().is_err());
        CurrentContext::synchronize().unwrap_err();
        assert!(sim::log().pop().unwrap().contains("no context is current on this thread"));
        let ctx = parked();
        ctx.set_limit(custack::context::ResourceLimit::StackSize, 1 << 40).unwrap_err();
        assert!(sim::log().pop().unwrap().contains("limit 0 cannot be set to 1099511627776"));
        for _ in 0..100 {
            CurrentContext::synchronize().unwrap_err();
        }
        assert_eq!(sim::log().len(), 64);
    });
}

#[test]
fn devices_can_be_added_and_not_taken_away() {
    if !simulated("devices_can_be_added_and_not_taken_away") {
        return;
    }
    run_alone(|| {
        let count = Device::num_devices().unwrap() as usize;
        assert!(!sim::set_devices(count - 1) && !sim::set_devices(65));
        assert!(sim::set_devices(count));
        assert_eq!(Device::num_devices().unwrap() as usize, count);
    });
}
