//! What can be asked of a kernel, and what can be set.

use super::Function;
use crate::driver::{Numbered, numbered};
use crate::error::CudaResult;

numbered! {
    /// What can be asked of a kernel.
    pub enum FunctionAttribute refuses(__Nonexhaustive = 8) {
        /// The most threads of a block.
        MaxThreadsPerBlock = 0,
        /// Static shared memory of a block, in bytes.
        SharedMemorySizeBytes = 1,
        /// Constant memory, in bytes.
        ConstSizeBytes = 2,
        /// Local memory of a thread, in bytes.
        LocalSizeBytes = 3,
        /// Registers of a thread.
        NumRegisters = 4,
        /// The PTX version: ten times the major, and the minor.
        PtxVersion = 5,
        /// The version of the machine code: ten times the major, and the minor.
        BinaryVersion = 6,
        /// Whether all caching was asked for when it was compiled.
        CacheModeCa = 7,
    }
}

numbered! {
    /// What can be asked of a kernel and set (CUDA 9.0 and later), beside [`FunctionAttribute`].
    #[non_exhaustive]
    pub enum SettableAttribute {
        /// The most dynamic shared memory that a launch may ask for, in bytes.
        MaxDynamicSharedSizeBytes = 8,
        /// How much of the common memory should be shared memory, in percent; -1 for no preference.
        PreferredSharedMemoryCarveout = 9,
        /// Whether a launch must say the size of its clusters; only to ask for (CUDA 11.8 and later, as all below).
        ClusterSizeMustBeSet = 10,
        /// The required width of a cluster, in blocks; 0 for none.
        RequiredClusterWidth = 11,
        /// The required height.
        RequiredClusterHeight = 12,
        /// The required depth.
        RequiredClusterDepth = 13,
        /// Whether a cluster may be larger than all devices of the compute capability allow.
        NonPortableClusterSizeAllowed = 14,
        /// How the blocks of a cluster are spread: 0 for the default, 1 spread, 2 balanced.
        ClusterSchedulingPolicyPreference = 15,
    }
}

impl Function<'_> {
    /// What the kernel is like.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for an attribute without a name.
    #[doc(alias = "cuFuncGetAttribute")]
    pub fn get_attribute(&self, attr: FunctionAttribute) -> CudaResult<i32> {
        let number = attr.number()?;
        self.with(|driver, function| driver.func_get_attribute(function, number))
    }

    /// What a launch of the kernel may ask for.
    ///
    /// # Errors
    ///
    /// [`ContextIsDestroyed`](crate::error::CudaError::ContextIsDestroyed).
    #[doc(alias = "cuFuncGetAttribute")]
    pub fn get(&self, attr: SettableAttribute) -> CudaResult<i32> {
        let number = attr.number()?;
        self.with(|driver, function| driver.func_get_attribute(function, number))
    }

    /// Sets what a launch of the kernel may ask for.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`](crate::error::CudaError::InvalidValue) for a value that the device cannot have.
    #[doc(alias = "cuFuncSetAttribute")]
    pub fn set(&mut self, attr: SettableAttribute, value: i32) -> CudaResult<()> {
        let number = attr.number()?;
        let set = self.with(|driver, function| driver.func_set_attribute(function, number, value));
        set.inspect_err(|error| {
            error.note_before(format_args!("to set {attr:?} of {} to {value}", self.name));
        })
    }
}
