//! Pools of memory.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use crate::harness::{device, pushed, run, run_alone};
use crate::stream::stream;
use custack::context::wait_until_retired;
use custack::driver::instrument::{self, When};
use custack::error::CudaError;
use custack::memory::*;
use custack::sim;
use custack::stream::Stream;

const MIB: usize = 1 << 20;

fn own() -> MemoryPool {
    MemoryPool::new(device(), &PoolProperties::new()).unwrap()
}

fn bytes(pool: &MemoryPool, count: usize, stream: &Stream) -> DeviceBuffer<u8> {
    unsafe { DeviceBuffer::uninitialized_in(count, (pool, stream)) }.unwrap()
}

fn reserved(pool: &MemoryPool) -> u64 {
    pool.usage().unwrap().reserved
}

#[test]
fn a_new_pool_keeps_nothing_and_reuses_everything() {
    run(|| {
        let _ctx = pushed();
        let pool = own();
        assert_eq!((pool.usage(), pool.release_threshold()), (Ok(PoolUsage::default()), Ok(0)));
        for reuse in
            [PoolReuse::FollowEventDependencies, PoolReuse::Opportunistic, PoolReuse::InternalDependencies]
        {
            assert_eq!(pool.reuses(reuse), Ok(true));
            pool.set_reuse(reuse, false).unwrap();
            assert_eq!(pool.reuses(reuse), Ok(false));
        }
        pool.set_release_threshold(u64::MAX).unwrap();
        assert_eq!(pool.release_threshold(), Ok(u64::MAX));
        assert_eq!(pool.device(), device());
    });
}

#[test]
fn a_pool_tells_what_is_used_and_reserved_and_the_most_of_each() {
    run(|| {
        let _ctx = pushed();
        let (pool, stream) = (own(), stream());
        let a = bytes(&pool, 1000, &stream);
        let b = bytes(&pool, 3 * MIB, &stream);
        let usage = pool.usage().unwrap();
        assert!(usage.used >= 3_146_728 && usage.used <= usage.reserved, "{usage:?}");
        assert_eq!((usage.used_peak, usage.reserved_peak), (usage.used, usage.reserved));
        drop(b);
        let less = pool.usage().unwrap();
        assert!(less.used < usage.used && less.used_peak == usage.used, "{less:?}");
        pool.reset_peaks().unwrap();
        assert_eq!(pool.usage().unwrap().used_peak, less.used);
        drop(a);
        assert_eq!(pool.usage().unwrap().used, 0, "freed by the call, whenever the stream gets there");
    });
}

#[test]
fn unused_memory_goes_back_when_the_program_waits_unless_the_threshold_keeps_it() {
    run(|| {
        let _ctx = pushed();
        let (pool, stream) = (own(), stream());
        drop(bytes(&pool, 40 * MIB, &stream));
        stream.synchronize().unwrap();
        assert_eq!(reserved(&pool), 0);
        pool.set_release_threshold(u64::MAX).unwrap();
        drop(bytes(&pool, 40 * MIB, &stream));
        stream.synchronize().unwrap();
        assert!(reserved(&pool) >= 40 << 20);
        pool.trim_to(0).unwrap();
        assert_eq!(reserved(&pool), 0);
    });
}

#[test]
fn most_of_the_memory_can_be_allocated_again_and_again() {
    run_alone(|| {
        let _ctx = pushed();
        let (free, _) = info().unwrap();
        let most = free / 10 * 6;
        let streams = [stream(), stream()];
        for round in 0..10 {
            let buffer = unsafe { DeviceBuffer::<u8>::uninitialized_in(most, &streams[round % 2]) };
            drop(buffer.unwrap_or_else(|error| panic!("in round {round}: {error}")));
        }
        streams.iter().for_each(|stream| stream.synchronize().unwrap());
        MemoryPool::of_device(device()).unwrap().trim_to(0).unwrap();
        drop(unsafe { DeviceBuffer::<u8>::uninitialized(most) }.unwrap());
    });
}

#[test]
fn a_pool_of_a_limit_that_hangs_the_driver_is_refused_with_nothing_current() {
    run(|| {
        for most in [1 << 50, usize::MAX] {
            let limited = || MemoryPool::new(device(), &PoolProperties::new().max_size(most)).map(drop);
            let (refused, calls) = instrument::during(limited);
            assert_eq!(calls.of("cuMemPoolCreate"), 0);
            let refused = refused.unwrap_err();
            assert_eq!(refused, CudaError::OutOfMemory);
            assert!(crate::harness::said(refused).contains(&most.to_string()), "{refused}");
        }
        let more_than_there_is = device().total_memory().unwrap() + 1;
        MemoryPool::new(device(), &PoolProperties::new().max_size(more_than_there_is)).unwrap();
    });
}

#[test]
fn a_pool_that_is_full_says_so() {
    run(|| {
        let _ctx = pushed();
        let stream = stream();
        let properties = PoolProperties::new().max_size(40 * MIB);
        let pool = MemoryPool::new(device(), &properties).unwrap();
        let some = bytes(&pool, 30 * MIB, &stream);
        let more = unsafe { DeviceBuffer::<u8>::uninitialized_in(50 * MIB, (&pool, &stream)) };
        assert_eq!(more.unwrap_err(), CudaError::OutOfMemory);
        drop(some);
    });
}

#[test]
fn a_current_pool_serves_the_streams_of_its_device_until_it_is_dropped() {
    run_alone(|| {
        let _ctx = pushed();
        let (pool, stream) = (own(), stream());
        let default = MemoryPool::of_device(device()).unwrap();
        assert_eq!((default.is_current(), pool.is_current()), (Ok(true), Ok(false)));
        pool.make_current().unwrap();
        assert_eq!((default.is_current(), pool.is_current()), (Ok(false), Ok(true)));
        let buffer = DeviceBuffer::from_slice_in(&[7u8; 100], &stream).unwrap();
        assert!(pool.usage().unwrap().used >= 100);
        drop(pool);
        assert_eq!(default.is_current(), Ok(true));
        let mut back = [0; 100];
        buffer.copy_to(&mut back).unwrap();
        assert_eq!(back, [7; 100], "its memory stays");
    });
}

#[test]
fn the_devices_own_pool_is_never_destroyed() {
    run(|| {
        let _ctx = pushed();
        for _ in 0..2 {
            assert!(MemoryPool::drop(MemoryPool::of_device(device()).unwrap()).is_ok());
            drop(MemoryPool::of_device(device()).unwrap());
        }
        drop(DeviceBuffer::from_slice_in(&[1u8], &stream()).unwrap());
    });
}

#[test]
fn a_pool_is_used_and_dropped_with_nothing_current_and_in_callbacks() {
    run_alone(|| {
        let before = sim::objects();
        let pool = own();
        assert_eq!(pool.usage().unwrap().reserved, 0);
        pool.trim_to(0).unwrap();
        drop(pool);
        let _ctx = pushed();
        let (pool, stream) = (own(), stream());
        let (error, pool) = std::thread::scope(|scope| {
            let (sender, result) = std::sync::mpsc::channel();
            scope.spawn(|| {
                let callback = Box::new(move |_| sender.send(MemoryPool::drop(pool).unwrap_err()).unwrap());
                stream.add_callback(callback).unwrap();
            });
            result.recv().unwrap()
        });
        assert_eq!(error, CudaError::NotPermitted);
        assert_eq!(pool.release_threshold(), Ok(0), "it is as it was");
        stream.add_callback(Box::new(move |_| drop(pool))).unwrap();
        stream.synchronize().unwrap();
        wait_until_retired().unwrap();
        drop(stream);
        assert_eq!(sim::objects(), before);
    });
}

#[test]
fn a_pool_whose_destruction_failed_is_given_to_the_driver_no_more() {
    run(|| {
        let _ctx = pushed();
        instrument::fail(Some("cuMemPoolDestroy"), 1, 999, When::After);
        let (error, pool) = MemoryPool::drop(own()).unwrap_err();
        instrument::disarm();
        assert_eq!(error, CudaError::UnknownError);
        let (answer, calls) = instrument::during(|| {
            let stream = stream();
            let made = unsafe { DeviceBuffer::<u8>::uninitialized_in(1, (&pool, &stream)) };
            (pool.usage(), made.map(|_| ()))
        });
        assert_eq!(answer, (Err(CudaError::InvalidHandle), Err(CudaError::InvalidHandle)));
        assert_eq!((calls.of("cuMemPoolGetAttribute"), calls.of("cuMemAllocFromPoolAsync")), (0, 0));
        let ((), calls) = instrument::during(|| drop(pool));
        assert_eq!(calls.total(), 0);
    });
}

#[test]
fn a_device_reads_and_writes_its_own_pools() {
    run(|| {
        let pool = own();
        assert_eq!(pool.access(device()), Ok(PoolAccess::ReadWrite));
        pool.grant(device(), PoolAccess::ReadWrite).unwrap();
        assert_eq!(pool.grant(device(), PoolAccess::None), Err(CudaError::InvalidDevice));
        assert_eq!(pool.access(device()), Ok(PoolAccess::ReadWrite));
        if custack::device::Device::num_devices().unwrap() > 1 {
            let peer = custack::device::Device::get_device(1).unwrap();
            if !peer.can_access_peer(device()).unwrap() {
                return;
            }
            assert_eq!(pool.access(peer), Ok(PoolAccess::None));
            pool.grant(peer, PoolAccess::ReadWrite).unwrap();
            assert_eq!(pool.grant(peer, PoolAccess::Read), Err(CudaError::NotSupported));
            assert_eq!(pool.access(peer), Ok(PoolAccess::ReadWrite));
            pool.grant(peer, PoolAccess::None).unwrap();
            assert_eq!(pool.access(peer), Ok(PoolAccess::None));
        }
    });
}

#[test]
fn a_pool_goes_to_other_threads_and_is_shared() {
    static_assertions::assert_impl_all!(MemoryPool: Send, Sync);
    static_assertions::assert_impl_all!(PitchedBuffer<u32>: Send, Sync);
    static_assertions::assert_impl_all!(RegisteredSlice<'static, u32>: Send, Sync);
}

#[test]
fn a_trim_leaves_memory_whose_free_the_program_has_not_waited_for() {
    run(|| {
        let _ctx = pushed();
        let (pool, stream) = (own(), stream());
        pool.set_release_threshold(u64::MAX).unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let buffer = bytes(&pool, 40 * MIB, &stream);
        stream.launch_host_func(move || wait.recv().unwrap()).unwrap();
        drop(buffer);
        let kept = reserved(&pool);
        pool.trim_to(0).unwrap();
        assert_eq!((reserved(&pool), pool.usage().unwrap().used), (kept, 0), "the stream is not there yet");
        go.send(()).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(reserved(&pool), kept, "the threshold keeps it");
        pool.trim_to(0).unwrap();
        assert_eq!(reserved(&pool), 0);
    });
}
