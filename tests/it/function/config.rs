//! Launches by a configuration, clusters, and kernels that say how large their blocks are.

#![allow(unsafe_code)]
#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{module, read, stream};
use crate::harness::{device, pushed, run, skip};
use custack::device::DeviceAttribute;
use custack::driver::instrument;
use custack::error::CudaError;
use custack::function::{
    BlockSize, ClusterScheduling, Function, FunctionAttribute, GridSize, LaunchConfig, SettableAttribute,
};
use custack::launch;
use custack::memory::DeviceBuffer;
use custack::module::Module;
use custack::stream::Stream;

/// Kernels that say how large their blocks are.
const SIZED: &str = ".version 7.0 .target sm_70 .address_size 64
    .visible .entry at_most() .maxntid 64 { ret; }
    .visible .entry two_sizes() .maxntid 128, 2 .minnctapersm 4 { ret; }
    .visible .entry exactly() .reqntid 32 { ret; }
    .visible .entry large()
    {
        .shared .b8 bytes[40000];
        .reg .b32 %r<2>;
        st.shared.u32 [bytes], 1;
        ld.shared.u32 %r1, [bytes+4];
        ret;
    }
    .visible .entry plain() { ret; }";

const CLUSTERED: &str = ".version 7.8 .target sm_90 .address_size 64
    .visible .entry of_two() .reqnctapercluster 2 { ret; }
    .visible .entry must_say() .explicitcluster { ret; }
    .visible .entry at_most_four() .explicitcluster .maxclusterrank 4 { ret; }";

fn sized() -> Module {
    Module::load_from_bytes(SIZED.as_bytes()).unwrap()
}

fn has_clusters(test: &str) -> bool {
    let has = device().get_attribute(DeviceAttribute::ComputeCapabilityMajor).unwrap() >= 9;
    if !has {
        skip(test, "the device has no clusters");
    }
    has
}

fn runs(stream: &Stream, function: &Function<'_>, config: LaunchConfig) -> Result<(), CudaError> {
    unsafe { launch!(function<<<config, stream>>>()) }?;
    stream.synchronize()
}

#[test]
fn a_launch_takes_a_configuration_in_place_of_the_sizes() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (module(), stream());
        let mut number = DeviceBuffer::from_slice(&[27u32; 3]).unwrap();
        let pointer = number.as_device_ptr();
        let config = LaunchConfig::new(1, 4).shared_bytes(16);
        unsafe { launch!(module.collatz<<<config, stream>>>(pointer, 1u32)) }.unwrap();
        let function = module.get_function(c"collatz").unwrap();
        let function = &function;
        unsafe { launch!(function<<<&config, stream>>>(pointer, 0u32,)) }.unwrap();
        unsafe { launch!(function<<<LaunchConfig::new((1, 1), (4, 1, 1)), stream>>>(pointer, 0u32)) }
            .unwrap();
        stream.synchronize().unwrap();
        assert_eq!(read(&number), [111, 27, 27]);
        let few = unsafe { launch!(function<<<config, stream>>>(pointer)) };
        assert_eq!(few, Err(CudaError::InvalidValue));
        let nobody = unsafe { launch!(module.nobody<<<config, stream>>>()) };
        assert_eq!(nobody, Err(CudaError::NotFound));
        assert_eq!((config.grid(), config.block()), (GridSize::x(1), BlockSize::x(4)));
    });
}

#[test]
fn a_plain_configuration_costs_what_plain_sizes_cost() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (sized(), stream());
        let function = module.get_function(c"plain").unwrap();
        let during = |config: LaunchConfig| {
            instrument::during(|| unsafe { launch!(function<<<config, stream>>>()) }.unwrap()).1
        };
        let plain = instrument::during(|| unsafe { launch!(function<<<1, 1, 0, stream>>>()) }.unwrap()).1;
        assert_eq!(during(LaunchConfig::new(1, 1)), plain);
        assert_eq!(during(LaunchConfig::new(1, 1).cooperative(true)).of("cuLaunchCooperativeKernel"), 1);
        let more = during(LaunchConfig::new(1, 1).priority(-1));
        assert_eq!((more.of("cuLaunchKernelEx"), more.total()), (1, plain.total()));
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_kernel_that_says_how_large_its_blocks_are_is_launched_so_or_not_at_all() {
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (sized(), stream());
        let most =
            |name| module.get_function(name).unwrap().get_attribute(FunctionAttribute::MaxThreadsPerBlock);
        assert_eq!([most(c"at_most"), most(c"two_sizes"), most(c"exactly")], [Ok(64), Ok(256), Ok(1024)]);
        let launched = |name, block: (u32, u32, u32)| {
            let function = module.get_function(name).unwrap();
            unsafe { launch!(function<<<1, block, 0, stream>>>()) }
        };
        for (name, block) in [
            (c"at_most", (64, 1, 1)),
            (c"at_most", (32, 2, 1)),
            (c"two_sizes", (128, 2, 1)),
            (c"two_sizes", (256, 1, 1)),
            (c"two_sizes", (64, 4, 1)),
            (c"exactly", (32, 1, 1)),
        ] {
            assert_eq!(launched(name, block), Ok(()), "{name:?} {block:?}");
        }
        for (name, block) in [
            (c"at_most", (65, 1, 1)),
            (c"two_sizes", (257, 1, 1)),
            (c"exactly", (31, 1, 1)),
            (c"exactly", (33, 1, 1)),
            (c"exactly", (16, 2, 1)),
        ] {
            assert_eq!(launched(name, block), Err(CudaError::InvalidValue), "{name:?} {block:?}");
        }
        let said = crate::harness::said(launched(c"at_most", (65, 1, 1)).unwrap_err());
        assert!(said.contains("65 threads; this kernel takes at most 64"), "{said}");
        stream.synchronize().unwrap();
    });
}

#[test]
fn what_a_launch_may_ask_for_it_gets() {
    if !has_clusters("what_a_launch_may_ask_for_it_gets") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (sized(), stream());
        let function = module.get_function(c"plain").unwrap();
        let base = LaunchConfig::new(16, 32);
        for config in [
            base.cluster(2),
            base.cluster(8).cooperative(true),
            LaunchConfig::new((4, 4), 32).cluster((2, 2)),
            base.cluster((0, 0, 0)),
            base.cluster(4).cluster_scheduling(ClusterScheduling::Spread),
            base.priority(-3),
            base.priority(-99).programmatic_serialization(true),
            base.preferred_carveout(50),
            base.cooperative(true).priority(7),
        ] {
            assert_eq!(runs(&stream, &function, config), Ok(()), "{config:?}");
        }
        let refused = runs(&stream, &function, base.preferred_carveout(101));
        assert_eq!(refused, Err(CudaError::InvalidValue));
        let large = LaunchConfig::new(1_000_000, 32).cooperative(true).priority(-1);
        assert_eq!(runs(&stream, &function, large), Err(CudaError::CooperativeLaunchTooLarge));
    });
}

#[test]
fn clusters_divide_the_grid_and_are_as_large_as_the_kernel_allows() {
    if !has_clusters("clusters_divide_the_grid_and_are_as_large_as_the_kernel_allows") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let (module, stream) = (sized(), stream());
        let mut function = module.get_function(c"plain").unwrap();
        let base = LaunchConfig::new(48, 32);
        let invalid = Err(CudaError::InvalidClusterSize);
        for cluster in [(5, 1, 1), (0, 1, 1), (2, 0, 1), (2, 2, 1)] {
            let config = base.cluster(cluster);
            let (refused, calls) = instrument::during(|| unsafe { launch!(function<<<config, stream>>>()) });
            assert_eq!((refused, calls.total()), (invalid, 0), "{cluster:?}");
        }
        let refused = runs(&stream, &function, base.cluster(16)).unwrap_err();
        assert_eq!(refused, CudaError::InvalidClusterSize);
        assert!(
            crate::harness::said(refused).contains("a cluster has 16 blocks; this kernel takes at most 8"),
            "{refused}"
        );
        function.set(SettableAttribute::NonPortableClusterSizeAllowed, 1).unwrap();
        assert_eq!(runs(&stream, &function, base.cluster(16)), Ok(()));
        assert_eq!(runs(&stream, &function, LaunchConfig::new(64, 32).cluster(32)), invalid);

        let module = Module::load_from_bytes(CLUSTERED.as_bytes()).unwrap();
        let named = |name| module.get_function(name).unwrap();
        let get = |name, attribute| named(name).get(attribute).unwrap();
        assert_eq!(get(c"of_two", SettableAttribute::RequiredClusterWidth), 2);
        assert_eq!(get(c"of_two", SettableAttribute::ClusterSizeMustBeSet), 0);
        assert_eq!(get(c"must_say", SettableAttribute::ClusterSizeMustBeSet), 1);
        assert_eq!(runs(&stream, &named(c"of_two"), base), Ok(()));
        assert_eq!(runs(&stream, &named(c"of_two"), base.cluster(2)), Ok(()));
        assert_eq!(runs(&stream, &named(c"of_two"), base.cluster(4)), invalid);
        assert_eq!(runs(&stream, &named(c"of_two"), LaunchConfig::new(7, 32)), invalid);
        let silent = runs(&stream, &named(c"must_say"), base).unwrap_err();
        assert!(crate::harness::said(silent).contains("says no size of its clusters"), "{silent}");
        assert_eq!(runs(&stream, &named(c"must_say"), base.cluster(4)), Ok(()));
        assert_eq!(runs(&stream, &named(c"at_most_four"), base.cluster(4)), Ok(()));
        assert_eq!(runs(&stream, &named(c"at_most_four"), base.cluster(8)), invalid);
        let mut of_two = named(c"of_two");
        assert_eq!(of_two.set(SettableAttribute::RequiredClusterWidth, 4), Err(CudaError::InvalidValue));
    });
}

/// Whether this is the device whose numbers follow.
fn is_h200(test: &str) -> bool {
    let is = device().name().unwrap().contains("H200");
    if !is {
        skip(test, "the numbers are an H200's");
    }
    is
}

#[test]
fn the_best_block_is_the_one_that_the_driver_finds() {
    if !is_h200("the_best_block_is_the_one_that_the_driver_finds") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let module = sized();
        type Shared = fn(u32) -> usize;
        let nothing: Shared = |_| 0;
        let much: Shared = |_| 40_000;
        let each: Shared = |threads| threads as usize * 16;
        for (name, shared, limit, wanted) in [
            (c"plain", nothing, 0, (264, 1024)),
            (c"plain", much, 0, (264, 1024)),
            (c"plain", each, 0, (264, 1024)),
            (c"plain", nothing, 100, (4224, 64)),
            (c"plain", nothing, 20, (4224, 20)),
            (c"plain", nothing, 5000, (264, 1024)),
            (c"at_most", nothing, 0, (4224, 64)),
            (c"at_most", much, 0, (660, 64)),
            (c"two_sizes", nothing, 0, (1056, 256)),
            (c"two_sizes", much, 0, (660, 256)),
            (c"large", nothing, 0, (264, 1024)),
            (c"large", each, 0, (528, 512)),
            (c"large", nothing, 100, (660, 100)),
        ] {
            let function = module.get_function(name).unwrap();
            let best = function.max_potential_block_size(shared, limit).unwrap();
            assert_eq!((best.min_grid_size, best.block_size), wanted, "{name:?} {limit}");
        }
        let none =
            module.get_function(c"plain").unwrap().max_potential_block_size(|_| 300_000, 0).unwrap_err();
        assert!(
            none == CudaError::InvalidValue && crate::harness::said(none).contains("of which no block fits"),
            "{none}"
        );
    });
}

#[test]
fn shared_memory_for_so_many_blocks_is_an_h200s() {
    if !is_h200("shared_memory_for_so_many_blocks_is_an_h200s") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let module = sized();
        let bytes = |name, blocks, threads: u32| {
            module.get_function(name).unwrap().available_dynamic_shared_bytes(blocks, threads)
        };
        for (blocks, wanted) in [(1, 49_152), (4, 49_152), (5, 46_592), (8, 29_184), (16, 14_592)] {
            assert_eq!(bytes(c"plain", blocks, 128), Ok(wanted), "{blocks}");
        }
        assert_eq!([bytes(c"plain", 31, 1), bytes(c"plain", 32, 64)], [Ok(7424), Ok(7296)]);
        assert_eq!([bytes(c"large", 4, 32), bytes(c"large", 5, 256)], [Ok(9152), Ok(6592)]);
        for (blocks, threads) in [(0, 32), (33, 32), (17, 128), (3, 1024), (1, 1025), (1, 0)] {
            assert_eq!(bytes(c"plain", blocks, threads), Err(CudaError::InvalidValue), "{blocks} {threads}");
        }
        let said = crate::harness::said(bytes(c"large", 8, 32).unwrap_err());
        assert!(said.contains("the shared memory for 8 blocks of 32 x 1 x 1 threads of `large`"), "{said}");
    });
}

#[test]
fn clusters_that_run_at_once_are_an_h200s() {
    if !is_h200("clusters_that_run_at_once_are_an_h200s") {
        return;
    }
    run(|| {
        let _ctx = pushed();
        let module = sized();
        let mut function = module.get_function(c"plain").unwrap();
        // By blocks of a cluster: with 32 threads, with 1024, and with 40,000 bytes of shared memory.
        for (cluster, wanted) in [
            (1, [1056, 264, 660]),
            (2, [528, 132, 330]),
            (3, [327, 79, 203]),
            (4, [248, 62, 154]),
            (8, [124, 30, 77]),
        ] {
            let base = LaunchConfig::new(cluster * 4, 32).cluster(cluster);
            let large = LaunchConfig::new(cluster * 4, 1024).cluster(cluster);
            let told = [base, large, base.shared_bytes(40_000)].map(|it| function.max_active_clusters(&it));
            assert_eq!(told, wanted.map(Ok), "{cluster}");
        }
        let config = LaunchConfig::new(64, 256);
        assert_eq!(function.max_active_clusters(&config), Ok(0));
        assert_eq!(function.max_potential_cluster_size(&config), Ok(8));
        assert_eq!(function.max_potential_cluster_size(&LaunchConfig::new(64, 1025)), Ok(0));
        let sixteen = config.cluster(16);
        assert_eq!(function.max_active_clusters(&sixteen), Err(CudaError::InvalidClusterSize));
        function.set(SettableAttribute::NonPortableClusterSizeAllowed, 1).unwrap();
        assert_eq!(function.max_potential_cluster_size(&config), Ok(16));
        assert_eq!(function.max_active_clusters(&sixteen), Ok(58));
        assert_eq!(function.max_active_clusters(&LaunchConfig::new(64, 512).cluster(16)), Ok(28));
    });
}
