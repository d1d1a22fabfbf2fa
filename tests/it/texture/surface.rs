//! What kernels read and write through surfaces.

use super::run_words;
use crate::driver::process::child_succeeds;
use crate::harness::{is_simulated, pushed, run, run_alone};
use custack::error::CudaError;
use custack::memory::array::{ArrayDescriptor, ArrayFormat, ArrayObject, ArrayObjectFlags, Half, Texel};
use custack::texture::Surface;

fn array<T: Texel>(dims: [usize; 3], flags: ArrayObjectFlags, values: &[T]) -> ArrayObject {
    let flags = flags | ArrayObjectFlags::SURFACE_LDST;
    let descriptor = ArrayDescriptor::new(dims, T::FORMAT, T::CHANNELS, flags);
    let array = ArrayObject::from_descriptor(&descriptor).unwrap();
    array.copy_from(values).unwrap();
    array
}

fn plain<T: Texel>(dims: [usize; 3], values: &[T]) -> ArrayObject {
    array(dims, ArrayObjectFlags::empty(), values)
}

fn contents<T: Texel + Default>(array: &ArrayObject, count: usize) -> Vec<T> {
    let mut back = vec![T::default(); count];
    array.copy_to(&mut back).unwrap();
    back
}

#[test]
fn surfaces_are_read_by_bytes_in_a_row() {
    run(|| {
        let _ctx = pushed();
        let numbers: Vec<u32> = (0..24).collect();
        let flat = plain([6, 4, 0], &numbers);
        let surface = Surface::new(&flat).unwrap();
        let read = "suld.b.2d.b32.trap %r4, [%rd0, {%r0, %r1}];";
        let found = run_words(read, surface.as_raw(), &[[0, 0, 0, 0], [20, 1, 0, 0], [4, 3, 0, 0]]).unwrap();
        assert_eq!(found.iter().map(|found| found[0]).collect::<Vec<_>>(), [0, 11, 19]);
        let two = "suld.b.2d.v2.b32.trap {%r4, %r5}, [%rd0, {%r0, %r1}];";
        assert_eq!(run_words(two, surface.as_raw(), &[[8, 2, 0, 0]]).unwrap()[0][..2], [14, 15]);
        let one = plain([24, 0, 0], &numbers);
        let surface = Surface::new(&one).unwrap();
        let four = "suld.b.1d.v4.b32.trap {%r4, %r5, %r6, %r7}, [%rd0, {%r0}];";
        assert_eq!(run_words(four, surface.as_raw(), &[[16, 0, 0, 0]]).unwrap()[0], [4, 5, 6, 7]);
        let solid = plain([3, 4, 2], &numbers);
        let surface = Surface::new(&solid).unwrap();
        let read = "suld.b.3d.b32.trap %r4, [%rd0, {%r0, %r1, %r2, %r2}];";
        assert_eq!(run_words(read, surface.as_raw(), &[[8, 3, 1, 0]]).unwrap()[0][0], 23);
        let layers = array([3, 4, 2], ArrayObjectFlags::LAYERED, &numbers);
        let surface = Surface::new(&layers).unwrap();
        let read = "suld.b.a2d.b32.trap %r4, [%rd0, {%r0, %r1, %r2, %r2}];";
        assert_eq!(run_words(read, surface.as_raw(), &[[1, 4, 2, 0]]).unwrap()[0][0], 19);
        let lines = array([12, 0, 2], ArrayObjectFlags::LAYERED, &numbers);
        let surface = Surface::new(&lines).unwrap();
        let read = "suld.b.a1d.b32.trap %r4, [%rd0, {%r0, %r1}];";
        assert_eq!(run_words(read, surface.as_raw(), &[[1, 4, 0, 0]]).unwrap()[0][0], 13);
    });
}

#[test]
fn surfaces_are_written_in_every_width() {
    run(|| {
        let _ctx = pushed();
        let write = |instruction: &str, array: &ArrayObject, words: [u32; 4]| {
            let surface = Surface::new(array).unwrap();
            run_words(instruction, surface.as_raw(), &[words]).unwrap();
        };
        let bytes = plain([8, 2, 0], &[0u8; 16]);
        write("cvt.u16.u32 %h0, %r2; sust.b.2d.b8.trap [%rd0, {%r0, %r1}], %h0;", &bytes, [3, 1, 0x1ff, 0]);
        let mut wanted = [0; 16];
        wanted[11] = 0xff;
        assert_eq!(contents::<u8>(&bytes, 16), wanted);
        let shorts = plain([4, 0, 0], &[0u16; 4]);
        write("cvt.u16.u32 %h0, %r2; sust.b.1d.b16.trap [%rd0, {%r0}], %h0;", &shorts, [4, 0, 0x1234, 0]);
        assert_eq!(contents::<u16>(&shorts, 4), [0, 0, 0x1234, 0]);
        let words = plain([4, 0, 0], &[0u32; 4]);
        write("sust.b.1d.b32.trap [%rd0, {%r0}], %r2;", &words, [12, 0, 77, 0]);
        write("mov.b64 %l0, {%r2, %r3}; sust.b.1d.b64.trap [%rd0, {%r0}], %l0;", &words, [0, 0, 5, 6]);
        assert_eq!(contents::<u32>(&words, 4), [5, 6, 0, 77]);
        let wide = plain([2, 0, 0], &[[0u32; 4]; 2]);
        write("sust.b.1d.v4.b32.trap [%rd0, {%r0}], {%r0, %r1, %r2, %r3};", &wide, [16, 2, 3, 4]);
        assert_eq!(contents::<u32>(&wide, 8), [0, 0, 0, 0, 16, 2, 3, 4]);
        let layers = array([2, 1, 2], ArrayObjectFlags::LAYERED, &[0u32; 4]);
        write("sust.b.a2d.b32.trap [%rd0, {%r0, %r1, %r2, %r2}], %r3;", &layers, [1, 4, 0, 9]);
        assert_eq!(contents::<u32>(&layers, 4), [0, 0, 0, 9]);
        let solid = plain([2, 2, 2], &[0u32; 8]);
        write("sust.b.3d.b32.trap [%rd0, {%r0, %r1, %r2, %r2}], %r3;", &solid, [4, 0, 1, 9]);
        assert_eq!(contents::<u32>(&solid, 8), [0, 0, 0, 0, 0, 9, 0, 0]);
    });
}

#[test]
fn beyond_a_surface_zero_is_nothing_and_clamp_the_nearest() {
    run(|| {
        let _ctx = pushed();
        let flat = plain([2, 2, 0], &[1u32, 2, 3, 4]);
        let surface = Surface::new(&flat).unwrap();
        let at = [[8, 0, 0, 0], [0, 2, 0, 0], [-4i32 as u32, 1, 0, 0], [100, 100, 0, 0], [4, 1, 0, 0]];
        let read = |mode: &str| {
            let read = format!("suld.b.2d.b32.{mode} %r4, [%rd0, {{%r0, %r1}}];");
            let found = run_words(&read, surface.as_raw(), &at).unwrap();
            found.into_iter().map(|found| found[0]).collect::<Vec<_>>()
        };
        assert_eq!(read("zero"), [0, 0, 0, 0, 4]);
        assert_eq!(read("clamp"), [2, 3, 3, 4, 4]);
        let write = |mode: &str, words: [u32; 4]| {
            let write = format!("sust.b.2d.b32.{mode} [%rd0, {{%r0, %r1}}], %r2;");
            run_words(&write, surface.as_raw(), &[words]).unwrap();
            contents::<u32>(&flat, 4)
        };
        assert_eq!(write("zero", [8, 0, 9, 0]), [1, 2, 3, 4]);
        assert_eq!(write("clamp", [8, 0, 9, 0]), [1, 9, 3, 4]);
        assert_eq!(write("clamp", [-1i32 as u32 & !3, 7, 8, 0]), [1, 9, 8, 4]);
    });
}

#[test]
fn beyond_a_surface_trap_ends_the_kernel() {
    child_succeeds("a trap beyond a surface", &[]);
}

/// Leaves its process in error, on a GPU.
pub(crate) fn traps() {
    run_alone(|| {
        let _ctx = pushed();
        let line = plain([4, 0, 0], &[1u32; 4]);
        let surface = Surface::new(&line).unwrap();
        let read = "suld.b.1d.b32.trap %r4, [%rd0, {%r0}];";
        let failed = run_words(read, surface.as_raw(), &[[16, 0, 0, 0]]);
        assert_eq!(failed, Err(CudaError::IllegalAddress));
        if is_simulated() {
            let log = custack::sim::log();
            assert!(log.iter().any(|why| why.contains("beyond the surface")), "{log:?}");
        }
    });
}

#[test]
fn formatted_writes_convert() {
    run(|| {
        let _ctx = pushed();
        let halves = plain([2, 0, 0], &[Half::default(); 2]);
        let surface = Surface::new(&halves).unwrap();
        let write = "sust.p.1d.b32.trap [%rd0, {%r0}], %r1;";
        run_words(write, surface.as_raw(), &[[1, 1.5f32.to_bits(), 0, 0]]).unwrap();
        assert_eq!(contents::<Half>(&halves, 2).map_bits(), [0, 0x3e00]);
        let bytes = plain([2, 0, 0], &[[0i8; 2]; 2]);
        let surface = Surface::new(&bytes).unwrap();
        let write = "sust.p.1d.v2.b32.trap [%rd0, {%r0}], {%r1, %r2};";
        run_words(write, surface.as_raw(), &[[1, 1000, -1000i32 as u32, 0]]).unwrap();
        assert_eq!(contents::<i8>(&bytes, 4), [0, 0, 127, -128]);
    });
}

trait Bits {
    fn map_bits(self) -> Vec<u16>;
}

impl Bits for Vec<Half> {
    fn map_bits(self) -> Vec<u16> {
        self.into_iter().map(Half::to_bits).collect()
    }
}

#[test]
fn reductions_are_atomic() {
    run(|| {
        let _ctx = pushed();
        let line = plain([5, 0, 0], &[10u32, 10, -5i32 as u32, 0xff, 0x100]);
        let surface = Surface::new(&line).unwrap();
        for (operation, at) in
            [("add.1d.u32", 0), ("min.1d.u32", 4), ("max.1d.s32", 8), ("and.1d.b32", 12), ("or.1d.b32", 16)]
        {
            let (name, ty) = operation.split_once('.').unwrap();
            let reduce = format!("sured.b.{name}.{ty}.trap [%rd0, {{%r0}}], %r1;");
            run_words(&reduce, surface.as_raw(), &[[at, 3, 0, 0]; 32]).unwrap();
        }
        assert_eq!(contents::<u32>(&line, 5), [106, 3, 3, 3, 0x103]);
    });
}

#[test]
fn what_a_surface_writes_a_texture_reads() {
    run(|| {
        use custack::texture::{Texture, TextureDescriptor};
        let _ctx = pushed();
        let line = plain([4, 0, 0], &[0.0f32; 4]);
        let (surface, texture) =
            (Surface::new(&line).unwrap(), Texture::new(&line, &TextureDescriptor::new()).unwrap());
        run_words("sust.b.1d.b32.trap [%rd0, {%r0}], %r1;", surface.as_raw(), &[[8, 2.5f32.to_bits(), 0, 0]])
            .unwrap();
        assert_eq!(super::line(texture.as_raw(), &[2.5, 1.5]), [2.5, 0.0]);
        assert_eq!(line.descriptor().unwrap().format(), ArrayFormat::Float);
    });
}
