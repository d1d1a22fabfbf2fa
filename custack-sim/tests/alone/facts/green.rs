//! Green contexts and the resources that they are made from: what an H200 answered.

use super::{id, retain, state};
use crate::harness::{current, drain, other, run, skip};
use crate::run_alone;
use custack_sys::ffi::*;
use std::ptr::null_mut;

pub(super) const NOTHING: CUdevResource =
    CUdevResource { kind: 0x77, internal: [0; 92], sm: [0; 3], reserved: [0; 9] };
const MOST_GROUPS: usize = 64;

/// All multiprocessors of the first device.
pub(super) fn whole() -> CUdevResource {
    let mut whole = NOTHING;
    assert_eq!(call!(cuDeviceGetDevResource(0, &mut whole, CU_DEV_RESOURCE_TYPE_SM)), 0);
    whole
}

/// The status of a split into at most `room` groups, the groups, and what is left over.
fn split(
    of: &CUdevResource,
    room: u32,
    flags: u32,
    least: u32,
) -> (u32, Vec<CUdevResource>, Option<CUdevResource>) {
    let (mut groups, mut count, mut rest) = (vec![NOTHING; MOST_GROUPS], room, NOTHING);
    let status =
        call!(cuDevSmResourceSplitByCount(groups.as_mut_ptr(), &mut count, of, &mut rest, flags, least));
    if status != 0 {
        assert_eq!((count, rest.kind), (room, 0x77), "a split that fails writes nothing");
        return (status, Vec::new(), None);
    }
    groups.truncate(count as usize);
    (status, groups, (rest.kind != 0).then_some(rest))
}

fn describe(resources: &mut [CUdevResource]) -> (u32, CUdevResourceDesc) {
    let mut description = null_mut();
    let count = resources.len() as u32;
    (call!(cuDevResourceGenerateDesc(&mut description, resources.as_mut_ptr(), count)), description)
}

fn make(resources: &mut [CUdevResource]) -> CUgreenCtx {
    let (status, description) = describe(resources);
    assert_eq!(status, 0);
    let mut green = null_mut();
    assert_eq!(call!(cuGreenCtxCreate(&mut green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM)), 0);
    green
}

/// A green context of one group with at least `least` multiprocessors, and the context for it.
pub(super) fn green(least: u32) -> (CUgreenCtx, CUcontext) {
    let (status, mut groups, _) = split(&whole(), 1, 0, least);
    assert_eq!(status, 0);
    let green = make(&mut groups);
    (green, context(green))
}

fn context(green: CUgreenCtx) -> CUcontext {
    let mut context = null_mut();
    assert_eq!(call!(cuCtxFromGreenCtx(&mut context, green)), 0);
    context
}

pub(super) fn destroy(green: CUgreenCtx) {
    assert_eq!(call!(cuGreenCtxDestroy(green)), 0);
}

/// The resource of a context or a green context: the status, and what is told.
fn resource(ask: impl FnOnce(*mut CUdevResource) -> u32) -> (u32, [u32; 3]) {
    let mut resource = NOTHING;
    (ask(&mut resource), resource.sm)
}

fn has_recorded_number(test: &str) -> bool {
    let has = whole().sm[0] == 132;
    if !has {
        skip(test, "the device has not the 132 multiprocessors of an H200");
    }
    has
}

#[test]
fn every_split_gives_what_the_h200_gave() {
    run(|| {
        if !has_recorded_number("every_split_gives_what_the_h200_gave") {
            return;
        }
        let whole = whole();
        assert_eq!(whole.sm, [132, 8, 8]);
        let mut compared = 0;
        for line in include_str!("splits.txt").lines().filter(|line| !line.starts_with('#')) {
            let (asked, answered) = line.split_once(" -> ").unwrap();
            let number =
                |name: &str| asked.split(' ').find_map(|it| it.strip_prefix(name)?.parse().ok()).unwrap();
            let (status, groups, rest) = split(&whole, number("room="), number("flags="), number("least="));
            let told = |resource: &CUdevResource| {
                assert_eq!((resource.kind, resource.sm[1], resource.sm[2]), (1, 0, 0), "{line}");
                resource.sm[0]
            };
            let each: Vec<u32> = groups.iter().map(told).collect();
            assert!(each.windows(2).all(|two| two[0] == two[1]), "{line}: {each:?}");
            let now = match each.first() {
                Some(size) => {
                    let rest = rest.as_ref().map_or(0, told);
                    format!("{status} groups={} each={size} rest={rest}", each.len())
                }
                None => status.to_string(),
            };
            assert_eq!(now, answered, "{asked}");
            compared += 1;
        }
        assert_eq!(compared, 732);
    });
}

#[test]
fn a_split_without_room_tells_how_many_groups_there_are() {
    run(|| {
        let (whole, mut count) = (whole(), 77);
        let ask = |count: *mut u32, input: *const CUdevResource, least| {
            call!(cuDevSmResourceSplitByCount(null_mut(), count, input, null_mut(), 0, least))
        };
        assert_eq!(ask(null_mut(), &whole, 8), 1);
        assert_eq!(ask(&mut count, std::ptr::null(), 8), 1);
        assert_eq!(count, 77);
        for (least, groups) in [(8, 15), (0, 15), (16, 8)] {
            assert_eq!((ask(&mut count, &whole, least), count), (0, groups), "{least}");
        }
    });
}

#[test]
fn a_part_cannot_be_split_again() {
    run(|| {
        let whole = whole();
        let least = whole.sm[1];
        let (_, groups, rest) = split(&whole, 1, 0, 2 * least);
        for part in groups.iter().chain(&rest) {
            assert_eq!(split(part, 4, 0, 1).0, 915);
            assert_eq!(split(part, 4, 0, least).0, 915);
        }
    });
}

#[test]
fn a_resource_that_was_changed_is_refused() {
    run(|| {
        let whole = whole();
        let zero = CUdevResource { kind: 0, ..NOTHING };
        assert_eq!(split(&zero, 2, 0, 8).0, 914);
        assert_eq!(split(&CUdevResource { sm: [1000, 8, 8], ..whole }, 2, 0, 8).0, 915);
        assert_eq!(split(&CUdevResource { internal: [0; 92], ..whole }, 2, 0, 8).0, 915);
        assert_eq!([split(&whole, 2, 4, 8).0, split(&whole, 2, 7, 8).0], [0, 1]);
        assert_eq!(describe(&mut [zero]).0, 914);
    });
}

#[test]
fn only_multiprocessors_are_a_resource() {
    run(|| {
        let ask = |device, kind| {
            let mut resource = NOTHING;
            let status = call!(cuDeviceGetDevResource(device, &mut resource, kind));
            assert!(status == 0 || resource.kind == 0x77);
            status
        };
        assert_eq!([0, 1, 2, 3, u32::MAX].map(|kind| ask(0, kind)), [914, 0, 914, 914, 914]);
        assert_eq!([ask(99, 1), ask(-1, 1)], [101, 101]);
        assert_eq!(call!(cuDeviceGetDevResource(0, null_mut(), 1)), 1);
    });
}

#[test]
fn parts_are_put_together_even_if_they_overlap() {
    run(|| {
        if !has_recorded_number("parts_are_put_together_even_if_they_overlap") {
            return;
        }
        let whole = whole();
        let (_, groups, rest) = split(&whole, 2, 0, 16);
        let (a, b, rest) = (groups[0], groups[1], rest.unwrap());
        for parts in [vec![a], vec![a, b], vec![a, a], vec![a, whole], vec![whole], vec![rest]] {
            assert_eq!(describe(&mut parts.clone()).0, 0);
        }
        let (mut description, mut parts) = (null_mut(), [a]);
        assert_eq!(call!(cuDevResourceGenerateDesc(null_mut(), parts.as_mut_ptr(), 1)), 1);
        assert_eq!(call!(cuDevResourceGenerateDesc(&mut description, null_mut(), 1)), 1);
        let all = make(&mut [a, b, rest]);
        let asked = resource(|to| call!(cuGreenCtxGetDevResource(all, to, 1)));
        assert_eq!(asked, (0, [132, 2, 2]));
        destroy(all);
        // What is in several parts counts several times, as far as there is so much.
        for (parts, count) in [(vec![a, a], 32), (vec![a, whole], 132), (vec![a, rest], 116)] {
            let of_both = make(&mut parts.clone());
            assert_eq!(resource(|to| call!(cuGreenCtxGetDevResource(of_both, to, 1))).1[0], count);
            destroy(of_both);
        }
    });
}

#[test]
fn a_green_context_is_made_with_its_one_flag() {
    run(|| {
        let (_, mut groups, _) = split(&whole(), 1, 0, 16);
        let (_, description) = describe(&mut groups);
        let make = |device, flags| {
            let mut green = null_mut();
            let status = call!(cuGreenCtxCreate(&mut green, description, device, flags));
            if status == 0 {
                destroy(green);
            }
            status
        };
        assert_eq!([0, 1, 2, 3, 4, 5].map(|flags| make(0, flags)), [1, 0, 1, 1, 1, 1]);
        assert_eq!([make(99, 1), make(99, 0), make(-1, 3)], [101; 3], "the device comes before the flags");
        assert_eq!(call!(cuGreenCtxCreate(null_mut(), description, -1, 3)), 1);
        assert_eq!(call!(cuGreenCtxCreate(null_mut(), description, 0, 1)), 1);
        let mut of_nothing = null_mut();
        assert_eq!(call!(cuGreenCtxCreate(&mut of_nothing, null_mut(), 0, 1)), 0, "NULL is taken");
        destroy(of_nothing);
    });
}

#[test]
fn a_green_context_keeps_the_primary_one() {
    run_alone(|| {
        assert_eq!(state().1, 0, "a test has left the primary context active");
        let (made, of) = green(16);
        assert_eq!((state().1, current()), (1, null_mut()), "it is not made current");
        assert_eq!(call!(cuDevicePrimaryCtxRelease_v2(0)), 800);
        assert_eq!(call!(cuDevicePrimaryCtxReset_v2(0)), 800);
        assert_eq!(state().1, 1);
        other::set(of);
        assert_eq!(call!(cuCtxSynchronize()), 0);
        assert_eq!(drain(), [of]);
        // The share that was released is the green context's.
        destroy(made);
        assert_eq!((state().1, call!(cuDevicePrimaryCtxRelease_v2(0))), (1, 201));
        retain();
        other::release_primary();
        assert_eq!(state().1, 0);
    });
}

#[test]
fn a_green_context_has_the_settings_of_the_primary_one() {
    run_alone(|| {
        let (made, of) = green(16);
        let primary = retain();
        assert_ne!(of, primary);
        assert_eq!(of.addr(), made.addr());
        let (own, of_primary, mut of_green) = (id(of), id(primary), 0);
        assert_eq!(call!(cuGreenCtxGetId(made, &mut of_green)), 0);
        assert_eq!((own, own.1), ((0, of_primary.1 + 1), of_green));
        let (mut version, mut device, mut size, mut flags) = (0, 77, 77, 77);
        assert_eq!((call!(cuCtxGetApiVersion(of, &mut version)), version), (0, 3020));
        other::set(of);
        assert_eq!((call!(cuCtxGetDevice(&mut device)), device), (0, 0));
        let limits = [0, 1, 2, 3, 4, 5, 6, 7].map(|limit| call!(cuCtxGetLimit(&mut size, limit)));
        assert_eq!(limits, [0, 0, 0, 215, 0, 0, 0, 0]);
        assert_eq!((call!(cuCtxGetFlags(&mut flags)), flags), (0, 8));
        assert_eq!([call!(cuCtxSetLimit(0, 4096)), call!(cuCtxSetFlags(4))], [0, 0]);
        for context in [of, primary] {
            other::set(context);
            assert_eq!((call!(cuCtxGetLimit(&mut size, 0)), size), (0, 4096));
            assert_eq!((call!(cuCtxGetFlags(&mut flags)), flags), (0, 0xc));
        }
        other::set(of);
        assert_eq!([call!(cuCtxSetFlags(0)), call!(cuCtxSetLimit(0, 1024))], [0, 0]);
        let mut affinity = CUexecAffinityParam::default();
        assert_eq!(call!(cuCtxGetExecAffinity(&mut affinity, 0)), 201);
        assert_eq!(call!(cuCtxEnablePeerAccess(primary, 0)), 217);
        assert_eq!([call!(cuCtxResetPersistingL2Cache()), call!(cuCtxSetCacheConfig(0))], [0, 0]);
        assert_eq!(drain(), [of]);
        destroy(made);
        other::release_primary();
    });
}

#[test]
fn resources_of_contexts_are_told() {
    run(|| {
        let (made, of) = green(16);
        let (primary, all) = (retain(), whole().sm);
        let sixteen = (0, [16, all[1], all[2]]);
        assert_eq!(resource(|to| call!(cuGreenCtxGetDevResource(made, to, 1))), sixteen);
        assert_eq!(resource(|to| call!(cuCtxGetDevResource(of, to, 1))), sixteen);
        assert_eq!(resource(|to| call!(cuCtxGetDevResource(primary, to, 1))), (0, all));
        assert_eq!(resource(|to| call!(cuCtxGetDevResource(null_mut(), to, 1))).0, 201);
        for kind in [0, 2, 3, 1000, 10_000] {
            assert_eq!(resource(|to| call!(cuGreenCtxGetDevResource(made, to, kind))).0, 914);
            assert_eq!(resource(|to| call!(cuCtxGetDevResource(of, to, kind))).0, 914);
        }
        destroy(made);
        other::release_primary();
    });
}

#[test]
fn a_destroyed_green_context_stays_current() {
    run(|| {
        let primary = retain();
        let (made, of) = green(16);
        other::push(of);
        other::push(primary);
        assert_eq!(other::pop(), Ok(primary));
        assert_eq!(call!(cuCtxDestroy_v2(of)), 201, "it is destroyed as a green context only");
        assert_eq!(current(), of);
        destroy(made);
        let mut device = 77;
        assert_eq!(current(), of);
        assert_eq!((call!(cuCtxGetDevice(&mut device)), device, call!(cuCtxSynchronize())), (0, 0, 709));
        assert_eq!(id(of).0, 709);
        // Made current once more it would be freed twice.
        assert_eq!(drain(), [of]);
        other::release_primary();
    });
}

#[test]
fn what_is_asked_of_a_destroyed_green_context_is_709_and_of_none_201() {
    run(|| {
        let primary = retain();
        let (gone, _) = green(16);
        destroy(gone);
        let (mut context, mut stream) = (null_mut(), null_mut());
        let mut ask = |green| {
            [
                call!(cuGreenCtxDestroy(green)),
                call!(cuCtxFromGreenCtx(&mut context, green)),
                call!(cuGreenCtxStreamCreate(&mut stream, green, 1, 0)),
                resource(|to| call!(cuGreenCtxGetDevResource(green, to, 1))).0,
            ]
        };
        assert_eq!(ask(gone), [709; 4]);
        assert_eq!(ask(null_mut())[..3], [201; 3]);
        assert_eq!(call!(cuCtxFromGreenCtx(null_mut(), gone)), 1);
        assert!(!primary.is_null());
        other::release_primary();
    });
}

#[test]
fn memory_made_in_a_green_context_is_the_primary_one_s() {
    run(|| {
        let primary = retain();
        let ((first, of_first), (second, of_second)) = (green(64), green(64));
        assert_ne!(first, second, "two of the same multiprocessors");
        other::push(of_first);
        let (mut memory, mut owner, mut word) = (0, null_mut::<std::ffi::c_void>(), 5u32);
        assert_eq!(call!(cuMemAlloc_v2(&mut memory, 64)), 0);
        other::push(of_second);
        assert_eq!(call!(cuMemcpyHtoD_v2(memory, (&raw const word).cast(), 4)), 0);
        assert_eq!(call!(cuPointerGetAttribute((&raw mut owner).cast(), 1, memory)), 0);
        assert_eq!(owner.addr(), primary.addr());
        word = 0;
        destroy(first);
        assert_eq!((call!(cuMemcpyDtoH_v2((&raw mut word).cast(), memory, 4)), word), (0, 5));
        assert_eq!(call!(cuMemFree_v2(memory)), 0);
        assert_eq!(drain(), [of_second, of_first]);
        destroy(second);
        other::release_primary();
    });
}

#[test]
fn two_threads_may_have_it_current() {
    run(|| {
        let primary = retain();
        let (made, of) = green(16);
        other::push(of);
        let raw = of.addr();
        let there = std::thread::spawn(move || {
            other::set(raw as CUcontext);
            let mut memory = 0;
            let answers = [call!(cuCtxSynchronize()), call!(cuMemAlloc_v2(&mut memory, 4))];
            assert_eq!(call!(cuMemFree_v2(memory)), 0);
            (answers, drain().len())
        });
        assert_eq!((call!(cuCtxSynchronize()), there.join().unwrap()), (0, ([0, 0], 1)));
        assert_eq!(drain(), [of]);
        destroy(made);
        assert!(!primary.is_null());
        other::release_primary();
    });
}
