//! Applies forms on the driver.

use super::form::{Form, Kernel, kernels, module};
use super::operands::{Kind, Operands};
use crate::gpu::{Buffer, Config, Context, Module, Result, Stream, pushed};
use std::collections::HashMap;
use std::ffi::{CString, c_void};

/// A form's answers, in the order of its operands.
pub(super) struct Applied<'a> {
    pub(super) operands: &'a Operands,
    /// How many answers are to those operands that also a build that is not optimised tries.
    pub(super) few: usize,
    pub(super) answers: Vec<u64>,
}

/// Operands, and copies of them in the device's memory.
struct Uploaded {
    operands: Operands,
    buffers: Vec<Buffer<u8>>,
}

/// A context of its own, with the operands that were needed so far.
pub(super) struct Device {
    uploaded: HashMap<Vec<Kind>, Uploaded>,
    stream: Stream,
    _context: Context,
}

/// The number of operands that are tried: for instructions of several threads, a multiple of these.
fn count(kernel: &Kernel<'_>, operands: &Operands, full: bool) -> usize {
    let form = kernel.forms[0];
    let all = operands.len().min(form.most);
    if full { all / form.group * form.group } else { few(kernel, operands) }
}

/// How many operands a build that is not optimised tries; of forms that work on memory those of a block, or of two warps.
fn few(kernel: &Kernel<'_>, operands: &Operands) -> usize {
    match kernel.forms[0] {
        form if form.most != usize::MAX => form.most,
        form if form.is_of_groups() => form.group.max(64),
        form if form.on_memory => 256,
        _ => operands.few,
    }
}

/// What is done with a form's answers, or with the error of a form that does not load.
pub(super) type Then<'a> = dyn FnMut(&Form, Result<Applied<'_>>) + 'a;

impl Device {
    pub(super) fn new() -> Device {
        let context = pushed();
        let stream = Stream::new().unwrap();
        Device { uploaded: HashMap::new(), stream, _context: context }
    }

    /// Applies each form to all its operands, or to the first of them.
    pub(super) fn apply(&mut self, forms: &[&Form], full: bool, then: &mut Then<'_>) {
        let kernels = kernels(forms);
        // Modules of a few kernels, as the compiler of a driver takes more than twice as long for twice as much.
        for some in kernels.chunks(8) {
            self.apply_module(some, full, then);
        }
    }

    fn apply_module(&mut self, kernels: &[Kernel<'_>], full: bool, then: &mut Then<'_>) {
        let loaded = Module::load(module(kernels).as_bytes());
        for (at, kernel) in kernels.iter().enumerate() {
            let ran = match &loaded {
                Ok(loaded) => self.run(loaded, &format!("k{at}"), kernel, full),
                Err(error) => Err(*error),
            };
            match ran {
                Ok(all) => {
                    let operands = &self.uploaded[&kernel.forms[0].operands].operands;
                    let few = few(kernel, operands);
                    for (form, answers) in kernel.forms.iter().zip(all) {
                        then(form, Ok(Applied { operands, few, answers }));
                    }
                }
                Err(error) if kernel.forms.len() == 1 && kernels.len() == 1 => {
                    then(kernel.forms[0], Err(error))
                }
                // One that does not load must not hide the others.
                Err(_) => kernel.forms.iter().for_each(|form| {
                    self.apply_module(&[Kernel { forms: vec![form] }], full, then);
                }),
            }
        }
    }

    fn uploaded(&mut self, kinds: &[Kind]) -> &Uploaded {
        self.uploaded.entry(kinds.to_vec()).or_insert_with(|| {
            let operands = Operands::new(kinds);
            let bytes = |(values, kind): (&Vec<u64>, &Kind)| -> Vec<u8> {
                values.iter().flat_map(|value| value.to_le_bytes()[..kind.size()].to_vec()).collect()
            };
            let buffers = operands.values.iter().zip(kinds).map(bytes);
            let buffers = buffers.map(|bytes| Buffer::from_slice(&bytes).unwrap()).collect();
            Uploaded { operands, buffers }
        })
    }

    /// The answers of each form of a kernel.
    fn run(&mut self, module: &Module, name: &str, kernel: &Kernel<'_>, full: bool) -> Result<Vec<Vec<u64>>> {
        let function = module.get_function(&CString::new(name).unwrap())?;
        let (size, forms) = (kernel.forms[0].size, kernel.forms.len());
        let uploaded = self.uploaded(&kernel.forms[0].operands);
        let operands = &uploaded.operands;
        let count = count(kernel, operands, full);
        let mut answers = vec![0u8; forms * count * size];
        let to = Buffer::from_slice(&answers)?;
        let mut addresses: Vec<u64> = uploaded.buffers.iter().map(|buffer| buffer.address()).collect();
        addresses.push(to.address());
        let threads = count as u32;
        let mut arguments: Vec<*mut c_void> =
            addresses.iter().map(|address| std::ptr::from_ref(address).cast_mut().cast()).collect();
        arguments.push(std::ptr::from_ref(&threads).cast_mut().cast());
        let given = super::list::given();
        if kernel.forms[0].on_memory {
            arguments.push(given.as_ptr().cast_mut().cast());
        }
        let made = kernel.forms.iter().filter_map(|form| form.object);
        let made = made.map(|object| object.make()).collect::<Result<Vec<_>, _>>()?;
        let mut objects = [0u64; 16];
        objects.iter_mut().zip(&made).for_each(|(to, made)| *to = made.handle);
        if !made.is_empty() {
            arguments.push(objects.as_mut_ptr().cast());
        }
        let config = Config::new(threads.div_ceil(256), 256);
        // SAFETY: the parameters are those that `form::module` writes, and the buffers have room for `count` of each.
        unsafe { self.stream.launch(function, &config, &mut arguments) }?;
        if kernel.forms[0].after.is_some() {
            let function = module.get_function(&CString::new(format!("after{}", &name[1..])).unwrap())?;
            // SAFETY: as above.
            unsafe { self.stream.launch(function, &config, &mut arguments) }?;
        }
        self.stream.synchronize()?;
        to.copy_to(&mut answers[..])?;
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        Ok(answers.chunks(count * size).map(|form| form.chunks(size).map(word).collect()).collect())
    }
}
