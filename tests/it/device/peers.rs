//! All devices at once: the links among them, access, and copies.

// Copies in streams.
#![allow(unsafe_code)]

use crate::driver::process::child_succeeds;
use crate::harness::{parked, run, skip};
use custack::context::{Context, ContextFlags, ContextStack, PrimaryContext, UnownedContext};
use custack::device::{Device, PeerAttribute};
use custack::error::{CudaError, CudaResult};
use custack::memory::{AsyncCopyDestination, CopyDestination, DeviceBuffer};
use custack::module::Module;
use custack::stream::{Stream, StreamFlags};

fn devices() -> Vec<Device> {
    Device::devices().unwrap().map(Result::unwrap).collect()
}

/// A context on each device, on no stack.
fn contexts() -> Vec<Context> {
    let on = |device| {
        let ctx = Context::create_and_push(ContextFlags::SCHED_AUTO, device).unwrap();
        ContextStack::pop().unwrap();
        ctx
    };
    devices().into_iter().map(on).collect()
}

#[test]
fn the_topology_has_the_link_of_every_pair() {
    run(|| {
        let topology = Device::topology().unwrap();
        let devices = devices();
        assert_eq!(topology.devices(), devices);
        assert_eq!(topology.links().count(), devices.len() * (devices.len() - 1));
        for (from, to, link) in topology.links() {
            assert_eq!(topology.link(from, to), Some(link));
            assert_eq!(from.link_to(to), Ok(link));
            assert_eq!(Ok(link.reaches), from.can_access_peer(to));
            let ask = |attribute| from.peer_attribute(attribute, to).unwrap();
            assert_eq!(link.performance_rank, ask(PeerAttribute::PerformanceRank));
            assert_eq!(link.native_atomics, ask(PeerAttribute::NativeAtomicSupported) != 0);
            assert_eq!(link.arrays, ask(PeerAttribute::CudaArrayAccessSupported) != 0);
        }
        for device in &devices {
            assert_eq!(topology.link(*device, *device), None);
            assert_eq!(device.link_to(*device), Err(CudaError::InvalidDevice));
        }
        let lines: Vec<_> = topology.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), devices.len() + 1, "{topology}");
        assert!(lines[0].starts_with("from \\ to      0"), "{topology}");
        assert!(lines[1].starts_with("        0      -"), "{topology}");
    });
}

#[test]
fn every_device_has_its_primary_context() {
    run(|| {
        let contexts = PrimaryContext::retain_all().unwrap();
        let of: Vec<_> = contexts.iter().map(PrimaryContext::device).collect();
        assert_eq!(of, devices());
        for ctx in &contexts {
            assert_eq!(ctx.device(), UnownedContext::device(ctx).unwrap());
            ctx.synchronize().unwrap();
        }
    });
}

#[test]
fn access_among_contexts_is_enabled_wherever_there_is_a_link() {
    run(|| {
        let contexts = contexts();
        let reached = Device::topology().unwrap().links().filter(|(_, _, link)| link.reaches).count();
        assert_eq!(UnownedContext::enable_peer_access_among(&contexts), Ok(reached));
        assert_eq!(
            UnownedContext::enable_peer_access_among(&contexts),
            Ok(reached),
            "what is enabled counts"
        );
        if reached > 0 {
            let (a, b) = (&contexts[0], &contexts[1]);
            assert_eq!(a.enable_peer_access(b), Err(CudaError::PeerAccessAlreadyEnabled));
            a.disable_peer_access(b).unwrap();
            assert_eq!(UnownedContext::enable_peer_access_among(&contexts), Ok(reached));
        }
        // Contexts of one device need no access.
        let own = [parked(), parked()];
        assert_eq!(UnownedContext::enable_peer_access_among(&own), Ok(0));
        assert_eq!(UnownedContext::enable_peer_access_among::<Context>(&[]), Ok(0));
    });
}

#[test]
fn a_failure_to_enable_access_takes_back_what_was_enabled() {
    run(|| {
        let contexts = contexts();
        if contexts.len() < 2 || !Device::topology().unwrap().is_complete() {
            let test = "a_failure_to_enable_access_takes_back_what_was_enabled";
            return skip(test, "it needs two devices that reach each other");
        }
        let mut handles: Vec<_> = contexts.iter().map(|ctx| ctx.get_unowned()).collect();
        let gone = parked().get_unowned();
        handles.push(gone);
        let error = UnownedContext::enable_peer_access_among(&handles).unwrap_err();
        assert_eq!(error, CudaError::ContextIsDestroyed);
        assert!(crate::harness::said(error).contains("to use context"), "{error}");
        assert_eq!(contexts[0].disable_peer_access(&contexts[1]), Err(CudaError::PeerAccessNotEnabled));
    });
}

/// Copies a buffer of each device to the first one, all at once, and looks at what arrived.
fn gathers(contexts: &[Context]) {
    let values = |at: usize| (0..1000u32).map(|i| i * 7 + at as u32 * 100_000).collect::<Vec<_>>();
    let part = |(at, ctx): (usize, &Context)| ctx.scoped(|_| DeviceBuffer::from_slice(&values(at))).unwrap();
    let parts: Vec<_> = contexts.iter().enumerate().map(part).collect();
    contexts[0]
        .scoped(|_| {
            let mut here = DeviceBuffer::from_slice(&vec![0u32; 1000 * parts.len()])?;
            let streams = parts
                .iter()
                .map(|_| Stream::new(StreamFlags::NON_BLOCKING, None))
                .collect::<Result<Vec<_>, _>>()?;
            for (at, (part, stream)) in parts.iter().zip(&streams).enumerate() {
                // SAFETY: both sides live until the streams are synchronised, and no two copies overlap.
                unsafe { here[at * 1000..(at + 1) * 1000].async_copy_from(part, stream)? };
            }
            streams.iter().try_for_each(Stream::synchronize)?;
            let mut all = vec![0; here.len()];
            here.copy_to(&mut all[..])?;
            for (at, part) in all.chunks(1000).enumerate() {
                assert_eq!(part, values(at), "from device {at}");
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn parts_on_all_devices_are_gathered_in_streams_with_and_without_access() {
    run(|| {
        let contexts = contexts();
        gathers(&contexts);
        UnownedContext::enable_peer_access_among(&contexts).unwrap();
        gathers(&contexts);
    });
}

#[test]
fn a_copy_between_devices_in_a_stream_of_the_source_is_refused() {
    run(|| {
        let contexts = contexts();
        let [first, second, ..] = &contexts[..] else {
            let test = "a_copy_between_devices_in_a_stream_of_the_source_is_refused";
            return skip(test, "it needs two devices");
        };
        let source = second.scoped(|_| DeviceBuffer::from_slice(&[1u8; 8])).unwrap();
        let stream = second.scoped(|_| Stream::new(StreamFlags::NON_BLOCKING, None)).unwrap();
        let mut dest = first.scoped(|_| DeviceBuffer::from_slice(&[0u8; 8])).unwrap();
        // SAFETY: nothing is submitted.
        let error = unsafe { dest.async_copy_from(&source, &stream) }.unwrap_err();
        assert_eq!(error, CudaError::InvalidHandle);
        assert!(crate::harness::said(error).contains("in a stream of"), "{error}");
    });
}

/// Adds twice what `x` has to what `y` has, in this context, wherever they are.
fn adds(ctx: &Context, x: &mut DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) -> CudaResult<()> {
    let count = x.len() as u32;
    ctx.scoped(|_| {
        let module = Module::load_from_bytes(include_bytes!("../../../examples/kernels.ptx"))?;
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
        // SAFETY: the kernel takes a float, two addresses of as many floats as the count says, and that count. That it may
        // not reach one of them is what is tested, in a process of its own.
        unsafe {
            custack::launch!(module.saxpy<<<1, 64, 0, stream>>>(2.0f32, x.as_device_ptr(), y.as_device_ptr(), count))?;
        }
        stream.synchronize()
    })
}

/// The body of the child process, whose contexts are of no use after the kernel that fails.
pub(crate) fn kernel_at_a_peer() {
    custack::init(custack::CudaFlags::empty()).unwrap();
    let contexts = contexts();
    let [first, second, ..] = &contexts[..] else { return println!("no peers") };
    if !first.device().unwrap().can_access_peer(second.device().unwrap()).unwrap() {
        return println!("no peers");
    }
    let mut x = second.scoped(|_| DeviceBuffer::from_slice(&[3.0f32; 64])).unwrap();
    let mut y = first.scoped(|_| DeviceBuffer::from_slice(&[1.0f32; 64])).unwrap();
    first.enable_peer_access(second).unwrap();
    adds(first, &mut x, &mut y).unwrap();
    // Access is in one direction, and ends when it is taken back.
    first.disable_peer_access(second).unwrap();
    let mut sums = [0.0; 64];
    y.copy_to(&mut sums).unwrap();
    assert_eq!(sums, [7.0; 64]);
    assert_eq!(adds(first, &mut x, &mut y), Err(CudaError::IllegalAddress));
    if custack::driver::current().unwrap().is_simulated() {
        let said = custack::sim::log().join("\n");
        assert!(said.contains("on device 1, to whose memory the kernel's context has no access"), "{said}");
        // The other one is well, and reaches its own memory.
        let mut own = second.scoped(|_| DeviceBuffer::from_slice(&[1.0f32; 64])).unwrap();
        adds(second, &mut x, &mut own).unwrap();
    }
    std::mem::forget((x, y));
    println!("reached, and not reached");
}

#[test]
fn a_kernel_reaches_a_peers_memory_only_with_access() {
    let text = child_succeeds("kernel at a peer", &[("CUSTACK_SIM_DEVICES", "2")]);
    if text.contains("no peers") {
        return skip(
            "a_kernel_reaches_a_peers_memory_only_with_access",
            "it needs two devices that are peers",
        );
    }
    assert!(text.contains("reached, and not reached"), "{text}");
}

/// The body of the child process, which cuts links for all of it.
pub(crate) fn cut_links() {
    use custack::sim::set_link;
    custack::init(custack::CudaFlags::empty()).unwrap();
    assert!(set_link(0, 1, None) && set_link(2, 0, Some(3)));
    assert!(!set_link(1, 1, None) && !set_link(0, 64, None));
    let topology = Device::topology().unwrap();
    assert_eq!(
        topology.to_string(),
        "from \\ to      0      1      2\n        0      -   none      0\n        1      0      -      0\n        2      3      0      -"
    );
    assert!(!topology.is_complete());
    let contexts = contexts();
    assert_eq!(UnownedContext::enable_peer_access_among(&contexts), Ok(5));
    let error = contexts[0].enable_peer_access(&contexts[1]).unwrap_err();
    assert_eq!(error, CudaError::PeerAccessUnsupported);
    assert!(custack::sim::log().pop().unwrap().contains("device 0 does not reach device 1"));
    gathers(&contexts);
}

#[test]
fn devices_without_a_link_are_not_peers_and_copy_all_the_same() {
    child_succeeds("links", &[("CUSTACK_DRIVER", "sim"), ("CUSTACK_SIM_DEVICES", "3")]);
}
