//! The driver itself, called through function pointers, as a C program without a stub library would: the baseline.

mod work;

use crate::measure::Bench;
use crate::rusta::Contexts;
use crate::tasks::*;
use libloading::Library;

pub type Handle = usize;
const LIBRARY: &str = "raw";

#[derive(Clone, Copy)]
pub struct Driver {
    push: unsafe extern "C" fn(Handle) -> u32,
    pop: unsafe extern "C" fn(*mut Handle) -> u32,
    set: unsafe extern "C" fn(Handle) -> u32,
    get: unsafe extern "C" fn(*mut Handle) -> u32,
    range: unsafe extern "C" fn(*mut i32, *mut i32) -> u32,
    retain: unsafe extern "C" fn(*mut Handle, i32) -> u32,
}

impl Driver {
    pub fn open() -> Result<Driver, libloading::Error> {
        // SAFETY: the driver's own library, and its functions with the signatures of the manual.
        unsafe {
            let library = Box::leak(Box::new(Library::new("libcuda.so.1")?));
            let init = library.get::<unsafe extern "C" fn(u32) -> u32>(b"cuInit\0")?;
            assert_eq!(init(0), 0, "cuInit failed");
            Ok(Driver {
                push: *library.get(b"cuCtxPushCurrent_v2\0")?,
                pop: *library.get(b"cuCtxPopCurrent_v2\0")?,
                set: *library.get(b"cuCtxSetCurrent\0")?,
                get: *library.get(b"cuCtxGetCurrent\0")?,
                range: *library.get(b"cuCtxGetStreamPriorityRange\0")?,
                retain: *library.get(b"cuDevicePrimaryCtxRetain\0")?,
            })
        }
    }

    #[inline]
    pub fn push(&self, context: Handle) {
        check(unsafe { (self.push)(context) });
    }

    #[inline]
    pub fn pop(&self) -> Handle {
        let mut context = 0;
        check(unsafe { (self.pop)(&mut context) });
        context
    }

    #[inline]
    pub fn set(&self, context: Handle) {
        check(unsafe { (self.set)(context) });
    }

    #[inline]
    fn get(&self) -> Handle {
        let mut context = 0;
        check(unsafe { (self.get)(&mut context) });
        context
    }

    #[inline]
    fn range(&self) -> (i32, i32) {
        let (mut least, mut greatest) = (0, 0);
        check(unsafe { (self.range)(&mut least, &mut greatest) });
        (least, greatest)
    }

    /// The primary context of the first device, which is never released.
    fn primary(&self) -> Handle {
        let mut context = 0;
        check(unsafe { (self.retain)(&mut context, 0) });
        context
    }
}

#[inline]
fn check(status: u32) {
    assert_eq!(status, 0, "the driver answered an error");
}

/// The handle that is current on this thread.
pub fn current() -> Handle {
    Driver::open().map_or(0, |driver| driver.get())
}

pub fn benches(contexts: &Contexts) -> Result<Vec<Bench>, String> {
    let driver = Driver::open().map_err(|error| error.to_string())?;
    let [a, b] = contexts.pair.map(|context| context.raw);
    let mut benches = vec![
        Bench::new(CURRENT, LIBRARY, move |run| {
            driver.push(a);
            run.time(|| {
                driver.push(a);
                driver.pop();
            });
            driver.pop();
        }),
        Bench::new(EMPTY, LIBRARY, move |run| {
            run.time(|| {
                driver.push(a);
                driver.pop();
            });
        }),
        Bench::new(SWITCH, LIBRARY, move |run| {
            driver.push(a);
            run.time(|| {
                driver.push(b);
                driver.pop();
            });
            driver.pop();
        }),
        Bench::new(SWITCH, "raw set and set back", move |run| {
            driver.push(a);
            run.time(|| {
                driver.set(b);
                driver.set(a);
            });
            driver.pop();
        }),
        Bench::new(PUSH_POP, LIBRARY, move |run| {
            run.time(|| {
                driver.push(a);
                driver.pop();
            });
        }),
        Bench::new(SET, LIBRARY, move |run| {
            driver.push(a);
            run.time(|| driver.set(a));
            driver.pop();
        }),
        Bench::new(GET, LIBRARY, move |run| {
            driver.push(a);
            run.time(|| assert_eq!(driver.get(), a));
            driver.pop();
        }),
        Bench::new(QUERY, LIBRARY, move |run| {
            driver.push(a);
            run.time(|| assert_eq!(driver.range().0, 0));
            driver.pop();
        }),
        Bench::new(QUERY_OTHER, LIBRARY, move |run| {
            run.time(|| {
                driver.push(a);
                assert_eq!(driver.range().0, 0);
                driver.pop();
            });
        }),
        Bench::new(FOREIGN, LIBRARY, move |run| {
            driver.set(a);
            run.time(|| assert_eq!(driver.get(), a));
            driver.pop();
        }),
        Bench::new(FOREIGN_SWITCH, LIBRARY, move |run| {
            driver.push(a);
            run.time(|| {
                driver.push(b);
                driver.pop();
            });
            driver.pop();
        }),
    ];
    benches.extend(work::benches(driver, a).map_err(|error| error.to_string())?);
    for (task, depth) in NESTED {
        let mut nested = Bench::new(task, LIBRARY, move |run| {
            run.time(|| {
                for level in 0..depth {
                    driver.push(if level % 2 == 0 { a } else { b });
                }
                for _ in 0..depth {
                    driver.pop();
                }
            });
        });
        nested.per_iteration = depth as u64;
        benches.push(nested);
    }
    if !contexts.devices.is_empty() {
        let contexts: Vec<Handle> = contexts.devices.iter().map(|context| context.raw).collect();
        let count = contexts.len();
        let mut devices = Bench::new(DEVICES, LIBRARY, move |run| {
            run.time(|| {
                for context in &contexts {
                    driver.push(*context);
                    driver.pop();
                }
            });
        });
        devices.per_iteration = count as u64;
        benches.push(devices);
    }
    Ok(benches)
}
