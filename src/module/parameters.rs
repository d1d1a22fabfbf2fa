//! What the driver knows of the parameters of a module's kernels, asked once for each kernel.

use crate::driver::ffi::CUfunction;
use crate::error::CudaResult;
use std::sync::OnceLock;

/// The sizes of a kernel's parameters, in bytes; `None` if the driver is too old to tell.
pub(crate) type Sizes = Option<Box<[usize]>>;

const BUCKETS: usize = 16;

/// The parameters of the kernels that were found so far. It only grows, so that a kernel can borrow its own, and so that
/// threads that look at once write nothing that they share.
#[derive(Debug, Default)]
pub(crate) struct Parameters(Box<[OnceLock<Box<Node>>; BUCKETS]>);

#[derive(Debug)]
struct Node {
    function: usize,
    sizes: Sizes,
    next: OnceLock<Box<Node>>,
}

impl Parameters {
    /// The parameters of a kernel of this module.
    ///
    /// # Errors
    ///
    /// Those of `ask`, which are not kept.
    pub(crate) fn of(
        &self,
        function: CUfunction,
        ask: impl FnOnce() -> CudaResult<Sizes>,
    ) -> CudaResult<Option<&[usize]>> {
        let function = function.addr();
        let mut link = &self.0[function / 64 % BUCKETS];
        while let Some(node) = link.get() {
            if node.function == function {
                return Ok(node.sizes.as_deref());
            }
            link = &node.next;
        }
        let mut new = Box::new(Node { function, sizes: ask()?, next: OnceLock::new() });
        // Another thread may add one at the same moment, of this kernel too: one of the two is found from then on.
        while let Err(back) = link.set(new) {
            new = back;
            link = link.get().map_or(link, |node| &node.next);
        }
        Ok(link.get().and_then(|node| node.sizes.as_deref()))
    }
}
