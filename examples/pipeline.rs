//! Two streams process one large job in parts: while one computes, the other copies. Events record when each step was
//! done, and the timeline at the end shows whether they overlapped.
//!
//! `cargo run --release --example pipeline`

// Asynchronous copies and launches are unsafe: the memory must stay valid until the stream is done with it.
#![allow(unsafe_code)]

use custack::error::CudaError;
use custack::event::{Event, EventFlags};
use custack::launch;
use custack::memory::{AsyncCopyDestination, LockedBuffer};
use custack::prelude::*;
use custack::stream::StreamWaitEventFlags;

const PART: usize = 1 << 14;
const PARTS: usize = 6;

/// The events before and after each of a part's three steps.
struct Marks([Event; 4]);

impl Marks {
    fn new() -> Result<Marks, CudaError> {
        let mark = || Event::new(EventFlags::DEFAULT);
        Ok(Marks([mark()?, mark()?, mark()?, mark()?]))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _context = custack::quick_init()?;
    println!("Running on {}: {}.", custack::driver::current()?, Device::get_device(0)?.name()?);
    let module = Module::load_from_bytes(include_bytes!("kernels.ptx"))?;
    let streams =
        [Stream::new(StreamFlags::NON_BLOCKING, None)?, Stream::new(StreamFlags::NON_BLOCKING, None)?];

    // Page-locked, so that the device copies without the CPU.
    let mut x = LockedBuffer::new(&0.0f32, PART * PARTS)?;
    x.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
    let mut y = LockedBuffer::new(&1.0f32, PART * PARTS)?;
    // SAFETY: the streams write it before it is read.
    let (mut x_there, mut y_there) =
        unsafe { (DeviceBuffer::uninitialized(PART * PARTS)?, DeviceBuffer::uninitialized(PART * PARTS)?) };

    let start = Event::new(EventFlags::DEFAULT)?;
    start.record(&streams[0])?;
    streams[1].wait_event(&start, StreamWaitEventFlags::DEFAULT)?;
    let mut all_marks = Vec::new();
    for part in 0..PARTS {
        let stream = &streams[part % 2];
        let marks = Marks::new()?;
        let range = part * PART..(part + 1) * PART;
        let count = PART as u32;
        let (x_part, y_part) = (&mut x_there[range.clone()], &mut y_there[range.clone()]);
        // SAFETY: all buffers live until the streams are synchronised below, and no two parts overlap.
        unsafe {
            marks.0[0].record(stream)?;
            x_part.async_copy_from(&x[range.clone()], stream)?;
            y_part.async_copy_from(&y[range.clone()], stream)?;
            marks.0[1].record(stream)?;
            launch!(module.saxpy<<<count / 256, 256, 0, stream>>>(3.0f32, x_part.as_device_ptr(), y_part.as_device_ptr(), count))?;
            marks.0[2].record(stream)?;
            y_part.async_copy_to(&mut y[range], stream)?;
            marks.0[3].record(stream)?;
        }
        all_marks.push(marks);
    }
    streams.iter().try_for_each(Stream::synchronize)?;

    let right = y.iter().enumerate().all(|(i, y)| *y == 3.0f32.mul_add(i as f32, 1.0));
    println!("{} numbers: {}.\n", y.len(), if right { "all right" } else { "some are wrong" });
    draw(&start, &all_marks)?;
    if custack::driver::current()?.is_simulated() {
        println!("These are times of the simulation, not of a GPU.");
    }
    Ok(())
}

/// Prints one line per part: `>` copies to the device, `#` computes, `<` copies back.
fn draw(start: &Event, all_marks: &[Marks]) -> Result<(), CudaError> {
    let times: Vec<[f32; 4]> = all_marks
        .iter()
        .map(|marks| {
            let mut at = [0.0; 4];
            for (at, mark) in at.iter_mut().zip(&marks.0) {
                *at = mark.elapsed_time_f32(start)?;
            }
            Ok(at)
        })
        .collect::<Result<_, CudaError>>()?;
    let end = times.iter().map(|at| at[3]).fold(0.0, f32::max);
    for (part, at) in times.iter().enumerate() {
        let column = |time: f32| (time / end * 64.0) as usize;
        let mut line = [' '; 65];
        for (step, sign) in ['>', '#', '<'].into_iter().enumerate() {
            line[column(at[step])..=column(at[step + 1])].fill(sign);
        }
        println!("stream {}, part {part} |{}|", part % 2, line.iter().collect::<String>());
    }
    let busy: f32 = times.iter().map(|at| at[3] - at[0]).sum();
    println!("\n> is the copy to the device, # the kernel, < the copy back.");
    println!("{end:.3} ms in all; the parts by themselves {busy:.3} ms.");
    Ok(())
}
