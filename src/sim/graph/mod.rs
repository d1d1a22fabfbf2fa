//! Graphs: work with its order, to be launched as one.

pub(super) mod abi;
