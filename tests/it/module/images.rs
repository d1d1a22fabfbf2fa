//! Images that programs have: fatbins, and what the simulated driver finds in them.
//!
//! `fatbinary` (13.5) made those of `images/` of `which.ptx`, with other targets and numbers, and of `kernels.ptx`
//! (`lz4`, `zstd`); nvFatbin (12.4) made `nvfatbin`.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

use super::{KERNELS, stream};
use crate::harness::{device, is_simulated, pushed, run, skip, table};
use custack::device::DeviceAttribute;
use custack::error::CudaError;
use custack::launch;
use custack::library::Library;
use custack::memory::{CopyDestination, DeviceBox, DeviceBuffer};
use custack::module::{JitOptions, Module};
use custack::sim;
use std::ffi::{CString, c_void};
use std::ptr;

const PLAIN: &[u8] = include_bytes!("images/plain.fatbin");
const LZ4: &[u8] = include_bytes!("images/lz4.fatbin");
const ZSTD: &[u8] = include_bytes!("images/zstd.fatbin");
const NVFATBIN: &[u8] = include_bytes!("images/nvfatbin.fatbin");
const TARGETS: &[u8] = include_bytes!("images/targets.fatbin");
const SPECIAL: &[u8] = include_bytes!("images/special.fatbin");
const TOGETHER: &[u8] = include_bytes!("images/together.fatbin");
const MACHINE: &[u8] = include_bytes!("images/machine.fatbin");
const LATER: &[u8] = include_bytes!("images/later.fatbin");
const CUBIN: &[u8] = include_bytes!("images/linked.cubin");

/// The number that the kernel of a module writes: that of its target.
fn which(module: &Module) -> u32 {
    let stream = stream();
    let mut to = DeviceBox::new(&0u32).unwrap();
    let pointer = to.as_device_ptr();
    unsafe { launch!(module.which<<<1, 1, 0, stream>>>(pointer)) }.unwrap();
    stream.synchronize().unwrap();
    let mut value = 0;
    to.copy_to(&mut value).unwrap();
    value
}

fn loaded(image: &[u8]) -> Module {
    Module::load_from_bytes(image).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_ptx_of_a_fatbin_runs_however_it_is_compressed() {
    run(|| {
        let _ctx = pushed();
        assert_eq!(which(&loaded(PLAIN)), 70);
        for image in [LZ4, ZSTD] {
            let (module, stream) = (loaded(image), stream());
            let mut number = DeviceBuffer::from_slice(&[27u32]).unwrap();
            let pointer = number.as_device_ptr();
            unsafe { launch!(module.collatz<<<1, 1, 0, stream>>>(pointer, 1u32)) }.unwrap();
            stream.synchronize().unwrap();
            let mut steps = [0];
            number.copy_to(&mut steps).unwrap();
            assert_eq!(steps, [111]);
            // All that the text has is there.
            for entry in KERNELS.lines().filter_map(|line| line.strip_prefix(".visible .entry ")) {
                let name = entry.split('(').next().unwrap();
                module.get_function(&CString::new(name).unwrap()).unwrap();
            }
        }
    });
}

#[test]
fn of_several_texts_the_one_for_the_best_target_runs() {
    run(|| {
        let capability = [DeviceAttribute::ComputeCapabilityMajor, DeviceAttribute::ComputeCapabilityMinor]
            .map(|attribute| device().get_attribute(attribute).unwrap());
        if capability != [9, 0] {
            return skip(
                "of_several_texts_the_one_for_the_best_target_runs",
                "it is about devices as an H200",
            );
        }
        let _ctx = pushed();
        for (image, target) in [(TARGETS, 90), (SPECIAL, 901), (NVFATBIN, 90)] {
            assert_eq!(which(&loaded(image)), target);
        }
    });
}

#[test]
fn texts_that_are_compressed_together_are_found() {
    if !is_simulated() {
        return skip("texts_that_are_compressed_together_are_found", "older drivers do not know them");
    }
    run(|| {
        let _ctx = pushed();
        assert_eq!(which(&loaded(TOGETHER)), 90);
    });
}

/// What a compiler writes into a program.
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    data: *const c_void,
    name: *const c_void,
}

/// Loads what is at an address, as other code does.
fn load_at(image: *const c_void) -> Result<(), u32> {
    let mut module = ptr::null_mut();
    let status = unsafe { (table().cuModuleLoadData)(&mut module, image) };
    if status != 0 {
        return Err(status);
    }
    let mut function = ptr::null_mut();
    assert_eq!(unsafe { (table().cuModuleGetFunction)(&mut function, module, c"which".as_ptr()) }, 0);
    assert_eq!(unsafe { (table().cuModuleUnload)(module) }, 0);
    Ok(())
}

#[test]
fn a_fatbin_is_loaded_from_an_address_a_file_and_as_a_library_and_its_wrapper_as_a_library_alone() {
    run(|| {
        let _ctx = pushed();
        // Fatbins begin at multiples of 8 bytes.
        let words: Vec<u64> =
            PLAIN.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
        let data = words.as_ptr().cast();
        assert_eq!(load_at(data), Ok(()));
        for version in [1, 2] {
            let wrapper = Wrapper { magic: 0x4662_43b1, version, data, name: ptr::null() };
            let wrapper = ptr::from_ref(&wrapper).cast();
            assert_eq!(load_at(wrapper), Err(200), "{version}");
            let mut library = ptr::null_mut();
            let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
            let status = unsafe {
                (table().cuLibraryLoadData)(&mut library, wrapper, none, nothing, 0, none, nothing, 0)
            };
            assert_eq!(status, 0, "{version}");
            let mut kernel = ptr::null_mut();
            assert_eq!(unsafe { (table().cuLibraryGetKernel)(&mut kernel, library, c"which".as_ptr()) }, 0);
            assert_eq!(unsafe { (table().cuLibraryUnload)(library) }, 0);
        }
        let file = std::env::temp_dir().join(format!("custack-{}.fatbin", std::process::id()));
        std::fs::write(&file, PLAIN).unwrap();
        let name = CString::new(file.to_str().unwrap()).unwrap();
        let mut module = ptr::null_mut();
        assert_eq!(unsafe { (table().cuModuleLoad)(&mut module, name.as_ptr()) }, 0);
        assert_eq!(unsafe { (table().cuModuleUnload)(module) }, 0);
        assert_eq!(which(&Module::load_from_file(&name).unwrap()), 70);
        std::fs::remove_file(&file).unwrap();
        let library = Library::load(PLAIN, &JitOptions::new()).unwrap();
        library.kernel(c"which").unwrap();
    });
}

#[test]
fn a_wrapper_without_a_fatbin_is_no_image() {
    if !is_simulated() {
        return skip("a_wrapper_without_a_fatbin_is_no_image", "a real driver need not survive it");
    }
    run(|| {
        let _ctx = pushed();
        let texts = [c"", c"P", c".version 7.0"];
        let addresses = texts.map(|text| text.as_ptr().cast::<c_void>());
        let wild = [ptr::null(), ptr::without_provenance(0x1000)];
        for data in addresses.into_iter().chain(wild) {
            let wrapper = Wrapper { magic: 0x4662_43b1, version: 1, data, name: ptr::null() };
            assert_eq!(load_at(ptr::from_ref(&wrapper).cast()), Err(200));
        }
        assert!(sim::log().pop().unwrap().contains("the wrapper of a fatbin"));
    });
}

#[test]
fn machine_code_alone_is_refused_with_what_it_is_and_what_to_build() {
    if !is_simulated() {
        let test = "machine_code_alone_is_refused_with_what_it_is_and_what_to_build";
        return skip(test, "a GPU runs machine code");
    }
    run(|| {
        let _ctx = pushed();
        let advice = "`-gencode arch=compute_80,code=compute_80`";
        for (image, has) in [
            (CUBIN, "the image is machine code"),
            (MACHINE, "the fatbin has machine code for sm_80, machine code for sm_90a; "),
            (LATER, "the fatbin has PTX for compute_100; "),
        ] {
            let error = Module::load_from_bytes(image).unwrap_err();
            assert_eq!(error, CudaError::NoBinaryForGpu);
            let said = crate::harness::said(error);
            assert!(said.contains(has) && said.contains(advice), "{said}");
            // A library's error comes with its first use.
            let library = Library::load(image, &JitOptions::new()).unwrap();
            assert_eq!(library.kernel(c"which").unwrap_err(), CudaError::NoBinaryForGpu);
        }
    });
}

#[test]
fn damaged_fatbins_are_refused_or_run_and_do_no_harm() {
    if !is_simulated() {
        let test = "damaged_fatbins_are_refused_or_run_and_do_no_harm";
        return skip(test, "what a real driver makes of them is not known");
    }
    let mut seed = 1u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below.max(1)
    };
    let rounds = std::env::var("CUSTACK_TEST_ROUNDS").map_or(250, |rounds| rounds.parse().unwrap());
    run(move || {
        let _ctx = pushed();
        let file = std::env::temp_dir().join(format!("custack-damaged-{}.fatbin", std::process::id()));
        let name = CString::new(file.to_str().unwrap()).unwrap();
        let mut answers = std::collections::BTreeMap::new();
        for whole in [PLAIN, LZ4, ZSTD, NVFATBIN, TARGETS, SPECIAL, TOGETHER, MACHINE] {
            for _ in 0..rounds {
                let mut image = whole.to_vec();
                for _ in 0..=random(2) {
                    let near = [80, 250, image.len()][random(3)].min(image.len());
                    let (place, size) = (random(near).max(4), [1, 2, 4, 8][random(4)]);
                    let value = match random(6) {
                        0 => 0,
                        1 => u64::MAX >> random(64),
                        2 => 1 << random(64),
                        3 => (image.len() + random(100)) as u64 - 50,
                        4 => random(300) as u64,
                        _ => u64::from(image[place]) ^ 1 << random(8),
                    };
                    for (to, byte) in image.iter_mut().skip(place).zip(value.to_le_bytes()).take(size) {
                        *to = byte;
                    }
                }
                if random(8) == 0 {
                    image.truncate(4 + random(whole.len() - 4));
                }
                std::fs::write(&file, &image).unwrap();
                let mut module = ptr::null_mut();
                let status = unsafe { (table().cuModuleLoad)(&mut module, name.as_ptr()) };
                if status == 0 {
                    assert_eq!(unsafe { (table().cuModuleUnload)(module) }, 0);
                }
                *answers.entry(status).or_insert(0) += 1;
                // Through the safe interface most of them do not reach the driver.
                drop(Module::load_from_bytes(&image));
            }
        }
        std::fs::remove_file(&file).unwrap();
        // Loaded, no image, no code for this device, and what a compiler says of a text that is not what it was.
        for status in [0, 200, 209, 218] {
            assert!(answers.remove(&status).is_some_and(|count| count > 20), "{status}: {answers:?}");
        }
        assert!(answers.keys().all(|status| [222, 801].contains(status)), "{answers:?}");
    });
}
