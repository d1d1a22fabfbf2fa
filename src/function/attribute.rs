//! Attributes of kernels that can be read, and those that can be set.

use super::Function;
use crate::driver::{Numbered, numbered};
use crate::error::CudaResult;

numbered! {
    /// An attribute of a kernel.
    pub enum FunctionAttribute refuses(__Nonexhaustive = 8) {
        /// The maximum number of threads per block.
        MaxThreadsPerBlock = 0,
        /// Static shared memory per block, in bytes.
        SharedMemorySizeBytes = 1,
        /// Constant memory, in bytes.
        ConstSizeBytes = 2,
        /// Local memory per thread, in bytes.
        LocalSizeBytes = 3,
        /// Registers per thread.
        NumRegisters = 4,
        /// The PTX version: ten times the major version plus the minor.
        PtxVersion = 5,
        /// The version of the machine code: ten times the major version plus the minor.
        BinaryVersion = 6,
        /// Whether it was compiled with all caching enabled.
        CacheModeCa = 7,
    }
}

numbered! {
    /// An attribute of a kernel that can be read and set (CUDA 9.0 and later), besides those of [`FunctionAttribute`].
    #[non_exhaustive]
    pub enum SettableAttribute {
        /// The maximum dynamic shared memory of a launch, in bytes.
        MaxDynamicSharedSizeBytes = 8,
        /// The preferred part of shared memory in the combined on-chip memory, in percent; -1 for no preference.
        PreferredSharedMemoryCarveout = 9,
        /// Whether a launch must specify its cluster size; read-only (CUDA 11.8 and later, like all below).
        ClusterSizeMustBeSet = 10,
        /// The required width of a cluster, in blocks; 0 for none.
        RequiredClusterWidth = 11,
        /// The required height.
        RequiredClusterHeight = 12,
        /// The required depth.
        RequiredClusterDepth = 13,
        /// Whether a cluster may be larger than is portable within the compute capability.
        NonPortableClusterSizeAllowed = 14,
        /// How the blocks of a cluster are scheduled: 0 for the default, 1 for spreading, 2 for load balancing.
        ClusterSchedulingPolicyPreference = 15,
    }
}

impl Function<'_> {
    /// The value of an attribute.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for an attribute without a name.
    #[doc(alias = "cuFuncGetAttribute")]
    #[inline]
    pub fn get_attribute(&self, attr: FunctionAttribute) -> CudaResult<i32> {
        let number = attr.number()?;
        self.with(|driver, function| driver.func_get_attribute(function, number))
    }

    /// The value of a settable attribute.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
    #[doc(alias = "cuFuncGetAttribute")]
    #[inline]
    pub fn get(&self, attr: SettableAttribute) -> CudaResult<i32> {
        let number = attr.number()?;
        self.with(|driver, function| driver.func_get_attribute(function, number))
    }

    /// Sets an attribute.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value that the device does not allow.
    #[doc(alias = "cuFuncSetAttribute")]
    #[inline]
    pub fn set(&mut self, attr: SettableAttribute, value: i32) -> CudaResult<()> {
        let number = attr.number()?;
        let set = self.with(|driver, function| driver.func_set_attribute(function, number, value));
        set.inspect_err(|error| {
            error.note_before(format_args!("to set {attr:?} of {} to {value}", self.label()));
        })
    }
}
