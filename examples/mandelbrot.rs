//! The Mandelbrot set, computed by a kernel in CUDA C++: printed, and as a picture in a PNG file.
//!
//! `cargo run --example mandelbrot`, with a folder for the file if it should not be the temporary one

// A launch is unsafe: nothing checks that the kernel's parameters have the arguments' types.
#![allow(unsafe_code)]

use custack::launch;
use custack::prelude::*;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// The part of the plane that the picture shows: its left and upper edges, and its width.
const LEFT: f32 = -2.25;
const TOP: f32 = 1.0;
const WIDTH: f32 = 3.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    custack::init(CudaFlags::empty())?;
    let (driver, device) = (custack::driver::current()?, Device::get_device(0)?);
    println!("Running on {driver}: {}.", device.name()?);
    let _context = Context::create_and_push(ContextFlags::SCHED_AUTO, device)?;
    let module = Module::load_from_bytes(include_bytes!("mandelbrot.ptx"))?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;

    // A GPU takes milliseconds for the large picture, the interpreter of the simulated driver seconds for the small one.
    let (width, height, most): (u32, u32, u32) =
        if driver.is_simulated() { (480, 320, 192) } else { (1920, 1280, 1000) };
    let mut steps = vec![0u32; (width * height) as usize];
    let mut on_device = DeviceBuffer::from_slice(&steps)?;
    let (blocks, size) = ((width.div_ceil(16), height.div_ceil(16), 1), WIDTH / width as f32);
    // SAFETY: the kernel takes the address of as many numbers as two sizes say, those sizes, three floats and a number.
    unsafe {
        launch!(module.mandelbrot<<<blocks, (16, 16, 1), 0, stream>>>(
            on_device.as_device_ptr(), width, height, LEFT, TOP, size, most
        ))?;
    }
    stream.synchronize()?;
    on_device.copy_to(&mut steps[..])?;

    print(&steps, width as usize, height as usize, most);
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let file = folder.join("mandelbrot.png");
    write(&file, &steps, (width, height), most)?;
    println!("{} has {width} by {height} points.", file.display());
    Ok(())
}

/// The picture in 80 columns; a character is about twice as high as wide.
fn print(steps: &[u32], width: usize, height: usize, most: u32) {
    const SHADES: &[u8] = b" .:-=+*%#";
    let step = width / 80;
    for y in (0..height).step_by(2 * step) {
        let line: String = (0..width)
            .step_by(step)
            .map(|x| match steps[y * width + x] {
                inside if inside == most => '@',
                outside => char::from(SHADES[(outside as usize / 2).min(SHADES.len() - 1)]),
            })
            .collect();
        println!("{}", line.trim_end());
    }
}

/// Writes the picture: what is in the set is black, and around it the colours change with each step.
fn write(file: &Path, steps: &[u32], size: (u32, u32), most: u32) -> Result<(), Box<dyn std::error::Error>> {
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(file)?), size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let colour = |steps: u32| {
        let wave = |phase: f32| (127.5 - 127.5 * (0.12 * steps as f32 + phase).cos()) as u8;
        if steps == most { [0; 3] } else { [wave(0.9), wave(0.45), wave(0.0)] }
    };
    let bytes: Vec<u8> = steps.iter().flat_map(|steps| colour(*steps)).collect();
    encoder.write_header()?.write_image_data(&bytes)?;
    Ok(())
}
