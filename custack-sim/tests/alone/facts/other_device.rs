//! Memory of another device than the current context's: an H100 beside another one gave these answers.

use super::create;
use super::pool::{alloc, free, leave, stream};
use crate::harness::{other, skip};
use crate::run_alone;
use custack_sys::ffi::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Contexts of two devices, of which the first one is current, and a stream of it.
struct Bench {
    here: CUcontext,
    there: CUcontext,
    stream: CUstream,
    /// Memory of the first device, and of the host.
    own: u64,
    host: [u8; 64],
    /// Memory of the second device: allocated by itself, of its pool, and managed.
    plain: u64,
    pooled: u64,
    managed: u64,
}

impl Bench {
    fn new() -> Bench {
        let there = create(0, 1).1;
        let (mut plain, mut managed, stream_there) = (0, 0, stream());
        assert_eq!(call!(cuMemAlloc_v2(&mut plain, 64)), 0);
        assert_eq!(call!(cuMemAllocManaged(&mut managed, 64, 1)), 0);
        let (status, pooled) = alloc(64, stream_there);
        assert_eq!((status, call!(cuStreamSynchronize(stream_there))), (0, 0));
        assert_eq!(other::pop(), Ok(there));
        let (here, mut own) = (create(0, 0).1, 0);
        assert_eq!(call!(cuMemAlloc_v2(&mut own, 64)), 0);
        Bench { here, there, stream: stream(), own, host: [0; 64], plain, pooled, managed }
    }

    /// What each kind of fill answers.
    fn fills(&self, at: u64) -> [u32; 12] {
        let stream = self.stream;
        [
            call!(cuMemsetD8_v2(at, 1, 64)),
            call!(cuMemsetD16_v2(at, 1, 32)),
            call!(cuMemsetD32_v2(at, 1, 16)),
            call!(cuMemsetD2D8_v2(at, 32, 1, 16, 2)),
            call!(cuMemsetD2D16_v2(at, 32, 1, 8, 2)),
            call!(cuMemsetD2D32_v2(at, 32, 1, 4, 2)),
            call!(cuMemsetD8Async(at, 1, 64, stream)),
            call!(cuMemsetD16Async(at, 1, 32, stream)),
            call!(cuMemsetD32Async(at, 1, 16, stream)),
            call!(cuMemsetD2D8Async(at, 32, 1, 16, 2, stream)),
            call!(cuMemsetD2D16Async(at, 32, 1, 8, 2, stream)),
            call!(cuMemsetD2D32Async(at, 32, 1, 4, 2, stream)),
        ]
    }

    /// What each kind of copy answers, to the memory and from it.
    fn copies(&mut self, at: u64) -> [u32; 12] {
        let (stream, own, host) = (self.stream, self.own, self.host.as_mut_ptr().cast::<c_void>());
        let statuses = [
            call!(cuMemcpyHtoD_v2(at, host, 64)),
            call!(cuMemcpyDtoH_v2(host, at, 64)),
            call!(cuMemcpyDtoD_v2(at, own, 64)),
            call!(cuMemcpyDtoD_v2(own, at, 64)),
            call!(cuMemcpy(own, at, 64)),
            call!(cuMemcpy2D_v2(&rows(own, at))),
            call!(cuMemcpyHtoDAsync_v2(at, host, 64, stream)),
            call!(cuMemcpyDtoHAsync_v2(host, at, 64, stream)),
            call!(cuMemcpyDtoDAsync_v2(at, own, 64, stream)),
            call!(cuMemcpyDtoDAsync_v2(own, at, 64, stream)),
            call!(cuMemcpyAsync(at, own, 64, stream)),
            call!(cuMemcpy2DAsync_v2(&rows(at, own), stream)),
        ];
        assert_eq!(call!(cuStreamSynchronize(stream)), 0);
        statuses
    }

    /// What copies between the contexts answer.
    fn between(&self, at: u64) -> [u32; 4] {
        let (own, here, there, stream) = (self.own, self.here, self.there, self.stream);
        [
            call!(cuMemcpyPeer(at, there, own, here, 64)),
            call!(cuMemcpyPeer(own, here, at, there, 64)),
            call!(cuMemcpyPeerAsync(at, there, own, here, 64, stream)),
            call!(cuMemcpyPeerAsync(at, there, at, there, 64, stream)),
        ]
    }

    fn leave(self) {
        assert_eq!((call!(cuMemFree_v2(self.own)), call!(cuStreamSynchronize(self.stream))), (0, 0));
        leave(self.here);
        other::push(self.there);
        assert_eq!((free(self.pooled, null_mut()), call!(cuStreamSynchronize(null_mut()))), (0, 0));
        assert_eq!([self.plain, self.managed].map(|at| call!(cuMemFree_v2(at))), [0; 2]);
        leave(self.there);
    }
}

/// Two rows of 16 bytes.
fn rows(to: u64, from: u64) -> CUDA_MEMCPY2D {
    CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: 2,
        srcHost: null(),
        srcDevice: from,
        srcArray: null_mut(),
        srcPitch: 32,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: 2,
        dstHost: null_mut(),
        dstDevice: to,
        dstArray: null_mut(),
        dstPitch: 32,
        WidthInBytes: 16,
        Height: 2,
    }
}

fn on_two_devices(test: &str, body: impl FnOnce(&mut Bench) + Send) {
    run_alone(|| {
        let (mut count, mut reaches) = (0, 0);
        assert_eq!(call!(cuDeviceGetCount(&mut count)), 0);
        if count < 2 || call!(cuDeviceCanAccessPeer(&mut reaches, 0, 1)) != 0 || reaches == 0 {
            return skip(test, "it needs two devices that reach each other");
        }
        let mut bench = Bench::new();
        body(&mut bench);
        bench.leave();
    });
}

#[test]
fn plain_memory_of_another_device_is_copied_and_is_filled_only_with_access() {
    on_two_devices("plain_memory_of_another_device_is_copied_and_is_filled_only_with_access", |b| {
        let plain = b.plain;
        assert_eq!((b.fills(plain), b.copies(plain), b.between(plain)), ([1; 12], [0; 12], [0; 4]));
        assert_eq!(call!(cuMemsetD8_v2(plain, 1, 0)), 0, "nothing");
        assert_eq!(call!(cuCtxEnablePeerAccess(b.there, 0)), 0);
        assert_eq!((b.fills(plain), b.copies(plain), b.between(plain)), ([0; 12], [0; 12], [0; 4]));
    });
}

#[test]
fn memory_of_another_devices_pool_is_only_copied_between_contexts_until_access_is_granted() {
    let test = "memory_of_another_devices_pool_is_only_copied_between_contexts_until_access_is_granted";
    on_two_devices(test, |b| {
        let pooled = b.pooled;
        assert_eq!((b.fills(pooled), b.copies(pooled), b.between(pooled)), ([1; 12], [1; 12], [0; 4]));
        let mut pool = null_mut();
        assert_eq!(call!(cuDeviceGetDefaultMemPool(&mut pool, 1)), 0);
        let grant = |flags| {
            let access = CUmemAccessDesc { location: CUmemLocation { kind: 1, id: 0 }, flags };
            call!(cuMemPoolSetAccess(pool, &access, 1))
        };
        assert_eq!(grant(3), 0);
        assert_eq!((b.fills(pooled), b.copies(pooled), b.between(pooled)), ([0; 12], [0; 12], [0; 4]));
        assert_eq!((call!(cuStreamSynchronize(b.stream)), grant(0)), (0, 0));
        assert_eq!((b.fills(pooled), b.copies(pooled)), ([1; 12], [1; 12]));
    });
}

#[test]
fn managed_memory_is_no_devices_alone() {
    on_two_devices("managed_memory_is_no_devices_alone", |b| {
        let managed = b.managed;
        assert_eq!((b.fills(managed), b.copies(managed), b.between(managed)), ([0; 12], [0; 12], [0; 4]));
    });
}
