//! What the driver knows of the parameters of a module's kernels, asked once for each kernel.

use crate::driver::ffi::CUfunction;
use std::sync::OnceLock;

const BUCKETS: usize = 16;

/// The parameters of the kernels that were found so far. It only grows, so that a kernel can borrow its own, and so that
/// threads that look at once write nothing that they share.
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
    /// The parameters of a kernel of this module; `None` if the driver does not tell, which is not kept.
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
        // Another thread may add one at the same moment, of this kernel too: one of the two is found from then on.
        while let Err(back) = link.set(new) {
            new = back;
            link = link.get().map_or(link, |node| &node.next);
        }
        link.get().map(|node| &*node.sizes)
    }
}

/// Addresses differ in their high or in their low bits, as their allocator has it.
fn bucket(function: usize) -> usize {
    (function as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - BUCKETS.ilog2())
}

impl Drop for Parameters {
    /// One node after the other: dropping a long list would nest as many calls.
    fn drop(&mut self) {
        for link in self.0.iter_mut() {
            let mut next = link.take();
            while let Some(mut node) = next {
                next = node.next.take();
            }
        }
    }
}
