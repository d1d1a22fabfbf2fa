//! The parameters of a module's kernels, which the driver is asked for once for each kernel.

use crate::driver::ffi::CUfunction;
use std::sync::OnceLock;

const BUCKETS: usize = 16;

/// The parameters of the kernels looked up so far. It only grows, so that kernels can borrow from it, and so that
/// concurrent lookups write nothing that threads share.
#[derive(Debug, Default)]
pub(crate) struct Parameters(Box<[OnceLock<Box<Node>>; BUCKETS]>);

#[derive(Debug)]
struct Node {
    function: usize,
    /// In bytes.
    sizes: Box<[usize]>,
    next: OnceLock<Box<Node>>,
}

impl Parameters {
    /// The parameters of a kernel of this module; `None` if the driver does not say, which is not kept.
    pub(crate) fn of(
        &self,
        function: CUfunction,
        ask: impl FnOnce() -> Option<Box<[usize]>>,
    ) -> Option<&[usize]> {
        let function = function.addr();
        let mut link = &self.0[bucket(function)];
        while let Some(node) = link.get() {
            if node.function == function {
                return Some(&node.sizes);
            }
            link = &node.next;
        }
        let mut new = Box::new(Node { function, sizes: ask()?, next: OnceLock::new() });
        // Another thread may add one at the same time, even for this kernel: later lookups find one of the two.
        while let Err(back) = link.set(new) {
            new = back;
            link = link.get().map_or(link, |node| &node.next);
        }
        link.get().map(|node| &*node.sizes)
    }
}

/// Depending on the allocator, addresses differ in their high or in their low bits.
fn bucket(function: usize) -> usize {
    (function as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - BUCKETS.ilog2())
}

impl Drop for Parameters {
    /// Iterative, because dropping a long list would recurse as deeply.
    fn drop(&mut self) {
        for link in self.0.iter_mut() {
            let mut next = link.take();
            while let Some(mut node) = next {
                next = node.next.take();
            }
        }
    }
}
