//! What is known of a module's kernels: the driver is asked once for each kernel.

use crate::driver::KernelName;
use crate::driver::ffi::CUfunction;
use std::sync::OnceLock;

const BUCKETS: usize = 16;

/// The kernels that were looked up so far. It only grows, so that functions can borrow from it, and so that concurrent
/// lookups write nothing that threads share.
#[derive(Default)]
pub(crate) struct Kernels(Box<[OnceLock<Box<Known>>; BUCKETS]>);

/// What is known of a kernel.
pub(crate) struct Known {
    function: usize,
    /// The name by which it was found first.
    pub(crate) name: KernelName,
    parameters: OnceLock<Box<[usize]>>,
    next: OnceLock<Box<Known>>,
}

impl Kernels {
    /// The kernel of this module that has this handle, and was found by this name.
    #[inline]
    pub(crate) fn find(&self, function: CUfunction, name: impl FnOnce() -> KernelName) -> &Known {
        let function = function.addr();
        let mut link = &self.0[bucket(function)];
        while let Some(known) = link.get() {
            if known.function == function {
                return known;
            }
            link = &known.next;
        }
        add(link, Known { function, name: name(), parameters: OnceLock::new(), next: OnceLock::new() })
    }
}

/// Adds a kernel behind the last one. Another thread may add one at the same time, even this one: later lookups find
/// the first of the two.
#[cold]
fn add(mut link: &OnceLock<Box<Known>>, new: Known) -> &Known {
    let mut new = Some(Box::new(new));
    loop {
        let known = link.get_or_init(|| new.take().expect("it is taken once, and then the loop ends"));
        if new.is_none() {
            return known;
        }
        link = &known.next;
    }
}

impl Known {
    /// The sizes of its parameters in bytes; `None` if the driver does not say, which is not kept.
    #[inline]
    pub(crate) fn parameters(&self, ask: impl FnOnce() -> Option<Box<[usize]>>) -> Option<&[usize]> {
        if self.parameters.get().is_none() {
            // Another thread may have set the same sizes meanwhile.
            let _ = self.parameters.set(ask()?);
        }
        self.known_parameters()
    }

    /// Like [`parameters`](Self::parameters), without asking the driver.
    #[inline]
    pub(crate) fn known_parameters(&self) -> Option<&[usize]> {
        self.parameters.get().map(|sizes| &**sizes)
    }
}

/// Depending on the allocator, addresses differ in their high or in their low bits.
#[inline]
fn bucket(function: usize) -> usize {
    (function as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - BUCKETS.ilog2())
}

impl Drop for Kernels {
    /// Iterative, because dropping a long list would recurse as deeply.
    #[inline]
    fn drop(&mut self) {
        for link in self.0.iter_mut() {
            let mut next = link.take();
            while let Some(mut known) = next {
                next = known.next.take();
            }
        }
    }
}
