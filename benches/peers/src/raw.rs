//! The driver itself, through function pointers, as a C program without a stub library would use it: what the others
//! are measured by.

use crate::measure::Bench;
use crate::tasks::*;
use libloading::Library;

type Handle = usize;
const LIBRARY: &str = "raw";

#[derive(Clone, Copy)]
struct Driver {
    create: unsafe extern "C" fn(*mut Handle, u32, i32) -> u32,
    push: unsafe extern "C" fn(Handle) -> u32,
    pop: unsafe extern "C" fn(*mut Handle) -> u32,
    set: unsafe extern "C" fn(Handle) -> u32,
    get: unsafe extern "C" fn(*mut Handle) -> u32,
    range: unsafe extern "C" fn(*mut i32, *mut i32) -> u32,
    count: unsafe extern "C" fn(*mut i32) -> u32,
}

impl Driver {
    fn open() -> Result<Driver, libloading::Error> {
        // SAFETY: the driver's own library, and its functions with the signatures that the manual gives.
        unsafe {
            let library = Box::leak(Box::new(Library::new("libcuda.so.1")?));
            let init = library.get::<unsafe extern "C" fn(u32) -> u32>(b"cuInit\0")?;
            assert_eq!(init(0), 0, "cuInit failed");
            Ok(Driver {
                create: *library.get(b"cuCtxCreate_v2\0")?,
                push: *library.get(b"cuCtxPushCurrent_v2\0")?,
                pop: *library.get(b"cuCtxPopCurrent_v2\0")?,
                set: *library.get(b"cuCtxSetCurrent\0")?,
                get: *library.get(b"cuCtxGetCurrent\0")?,
                range: *library.get(b"cuCtxGetStreamPriorityRange\0")?,
                count: *library.get(b"cuDeviceGetCount\0")?,
            })
        }
    }

    fn context(&self, device: i32) -> Handle {
        let mut context = 0;
        check(unsafe { (self.create)(&mut context, 0, device) });
        self.pop();
        context
    }

    #[inline]
    fn push(&self, context: Handle) {
        check(unsafe { (self.push)(context) });
    }

    #[inline]
    fn pop(&self) -> Handle {
        let mut context = 0;
        check(unsafe { (self.pop)(&mut context) });
        context
    }

    #[inline]
    fn set(&self, context: Handle) {
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
}

#[inline]
fn check(status: u32) {
    assert_eq!(status, 0, "the driver answered an error");
}

pub fn benches() -> Result<Vec<Bench>, String> {
    let driver = Driver::open().map_err(|error| error.to_string())?;
    let (a, b) = (driver.context(0), driver.context(0));
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
    ];
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
    let mut count = 0;
    check(unsafe { (driver.count)(&mut count) });
    if count > 1 {
        let contexts: Vec<Handle> = (0..count).map(|device| driver.context(device)).collect();
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
