//! The functions that the device provides: `vprintf`, `__assertfail`, `malloc` and `free`.

use super::super::Space;
use super::super::inst::Builtin;
use super::block::Env;
use super::fault::{ASSERT, Fault};
use super::heap;
use super::lanes::{Lanes, lanes_of};
use super::printf::{Conversion, MOST, Parts, Width};
use std::io::Write;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};

/// The maximum number of arguments of a `printf`.
const MOST_ARGUMENTS: u64 = 32;

/// The offsets in the caller's frame of the arguments, and of the result.
pub(super) struct Places<'a> {
    pub(super) passed: &'a [(usize, usize, usize)],
    pub(super) returned: &'a [(usize, usize, usize)],
}

pub(super) fn call(
    which: Builtin,
    places: &Places<'_>,
    lanes: &mut Lanes<'_>,
    env: &Env<'_>,
) -> Result<(), Fault> {
    let frame = lanes.frame;
    for lane in lanes_of(lanes.mask) {
        let argument = |lanes: &Lanes<'_>, number: usize| {
            let place = places.passed.get(number);
            place.map_or(0, |(from, _, size)| lanes.local.load(lane, frame + from, *size) as u64)
        };
        let (a, b) = (argument(lanes, 0), argument(lanes, 1));
        let result = match which {
            Builtin::Printf => printf(lanes, lane, a, b)?,
            Builtin::Malloc => heap::allocate(env.running.launch.context, a),
            Builtin::Free => {
                heap::free(env.running.launch.context, a);
                0
            }
            Builtin::Assert => {
                let (line, function) = (argument(lanes, 2), argument(lanes, 3));
                return Err(assertion(lanes, lane, [a, b, function], line));
            }
        };
        if let Some((to, _, size)) = places.returned.first() {
            lanes.local.store(lane, frame + to, *size, result.into());
        }
    }
    Ok(())
}

fn text(lanes: &mut Lanes<'_>, lane: usize, address: u64, most: usize) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    for at in 0..most as u64 {
        match lanes.load_one(lane, Space::Generic, address.wrapping_add(at), 1)? {
            0 => break,
            byte => text.push(byte as u8),
        }
    }
    Ok(text)
}

fn assertion(lanes: &mut Lanes<'_>, lane: usize, texts: [u64; 3], line: u64) -> Fault {
    let [what, file, function] = texts
        .map(|at| String::from_utf8_lossy(&text(lanes, lane, at, MOST).unwrap_or_default()).into_owned());
    let super::fault::Thread { tid, ctaid } = lanes.thread(lane);
    let why = format!(
        "{file}:{line}: {function}: block: [{},{},{}], thread: [{},{},{}] Assertion `{what}` failed",
        ctaid[0], ctaid[1], ctaid[2], tid[0], tid[1], tid[2]
    );
    eprintln!("{why}.");
    Fault::new(ASSERT, why)
}

/// Prints as C does, and returns how many arguments were printed.
fn printf(lanes: &mut Lanes<'_>, lane: usize, format: u64, arguments: u64) -> Result<u64, Fault> {
    if format == 0 {
        return Ok(u64::from(u32::MAX));
    }
    let format = text(lanes, lane, format, MOST)?;
    let mut passed = Passed { lane, at: arguments, taken: 0 };
    let (mut out, mut rest) = (Vec::new(), &format[..]);
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let conversion = Some(behind).filter(|_| *first == b'%' && passed.taken < MOST_ARGUMENTS);
        // What is not a conversion is printed as it is.
        let Some((conversion, length)) = conversion.and_then(Conversion::read) else {
            out.push(*first);
            continue;
        };
        rest = &behind[length..];
        if conversion.kind == b'%' {
            out.push(b'%');
            continue;
        }
        let width = match conversion.width {
            Width::Written(width) => width as i32,
            Width::Passed => passed.next(4, lanes) as u32 as i32,
        };
        let precision = conversion.precision;
        let value = passed.next(conversion.passed(), lanes);
        let parts = match conversion.kind {
            b's' => {
                Parts { prefix: String::new(), body: string(lanes, lane, value, precision)?, zeros: false }
            }
            _ => conversion.number(value, precision),
        };
        out.extend(conversion.padded(parts, width));
    }
    print(&out);
    Ok(passed.taken)
}

/// The arguments of a `printf`, and how many of them are already used.
struct Passed {
    lane: usize,
    at: u64,
    taken: u64,
}

impl Passed {
    /// The next argument. An argument that was not passed is undefined: here it is zero if it cannot be read.
    fn next(&mut self, size: u64, lanes: &mut Lanes<'_>) -> u64 {
        let at = self.at.wrapping_add(size - 1) & !(size - 1);
        self.at = at.wrapping_add(size);
        self.taken += 1;
        lanes.load_one(self.lane, Space::Generic, at, size as usize).unwrap_or(0) as u64
    }
}

/// The text that `%s` prints.
fn string(
    lanes: &mut Lanes<'_>,
    lane: usize,
    address: u64,
    precision: Option<usize>,
) -> Result<Vec<u8>, Fault> {
    const NULL: &[u8] = b"(null)";
    let most = precision.unwrap_or(MOST);
    if address == 0 {
        return Ok(if most < NULL.len() { Vec::new() } else { NULL.to_vec() });
    }
    text(lanes, lane, address, most)
}

/// Prints a text. A text that cannot be written is lost, as on the device.
fn print(text: &[u8]) {
    static LOST: AtomicBool = AtomicBool::new(false);
    let mut stdout = std::io::stdout().lock();
    if LOST.load(Ordering::Relaxed) || stdout.flush().is_err() {
        return;
    }
    match std::str::from_utf8(text) {
        Ok(text) => {
            drop(stdout);
            // `print!` is what a test harness captures. It panics where other ways to write return an error.
            if catch_unwind(|| print!("{text}")).is_err() {
                LOST.store(true, Ordering::Relaxed);
            }
        }
        Err(_) => drop(stdout.write_all(text)),
    }
    drop(std::io::stdout().flush());
}
