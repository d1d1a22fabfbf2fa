//! The attributes of kernel nodes: kept and told, and checked as a launch's are. The size of clusters counts; the others
//! change nothing else here.

use super::{Kernel, Operation};
use crate::context::{GREATEST_PRIORITY, LEAST_PRIORITY};
use crate::function::{INVALID_CLUSTER_SIZE, MOST_BLOCKS_OF_CLUSTER, blocks_of_cluster, divides};
use crate::machine::*;
use std::collections::BTreeMap;

/// The first numbers of the value of each attribute that was set.
pub(crate) type KernelAttributes = BTreeMap<u32, [u32; 3]>;

const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const SCHEDULING: u32 = 5;
const PRIORITY: u32 = 8;
const DOMAIN: u32 = 10;
const CARVEOUT: u32 = 14;
/// Those of a kernel node that are not modelled: a window of the cache, a map of domains, and updates from the device.
const NOT_MODELLED: [u32; 3] = [1, 9, 13];

/// How many numbers the value of an attribute has.
fn words_of(attribute: u32) -> Option<usize> {
    match attribute {
        COOPERATIVE | SCHEDULING | PRIORITY | DOMAIN | CARVEOUT => Some(1),
        CLUSTER => Some(3),
        _ => None,
    }
}

impl Machine {
    fn words_of_attribute(&mut self, attribute: u32) -> Answer<usize> {
        match words_of(attribute) {
            Some(words) => Ok(words),
            None if NOT_MODELLED.contains(&attribute) => {
                self.refuse(NOT_SUPPORTED, format_args!("attribute {attribute} of a kernel node"))
            }
            None => self.refuse(INVALID_VALUE, format_args!("a kernel node has no attribute {attribute}")),
        }
    }

    pub(crate) fn kernel_node_attribute(&mut self, node: usize, attribute: u32) -> Answer<Vec<u32>> {
        let kernel = self.node_kernel(node)?;
        let words = self.words_of_attribute(attribute)?;
        let value = kernel.attributes.get(&attribute).copied().unwrap_or_default();
        Ok(value[..words].to_vec())
    }

    pub(crate) fn set_kernel_node_attribute(
        &mut self,
        node: usize,
        attribute: u32,
        read: impl Fn(usize) -> u32,
    ) -> Answer<()> {
        let kernel = self.node_kernel(node)?;
        let (grid, mut attributes) = (kernel.grid, kernel.attributes);
        let words = self.words_of_attribute(attribute)?;
        let mut value = [0; 3];
        (0..words).for_each(|at| value[at] = read(at));
        if attribute == CLUSTER
            && !(divides(value, grid) && blocks_of_cluster(value) <= MOST_BLOCKS_OF_CLUSTER)
        {
            return self.refuse(INVALID_CLUSTER_SIZE, format_args!("clusters of {value:?}"));
        }
        let fits = match attribute {
            DOMAIN => value[0] <= 1,
            CARVEOUT => value[0] <= 100 || value[0] == u32::MAX,
            _ => true,
        };
        if !fits {
            let why = format!("attribute {attribute} of a kernel node cannot be {}", value[0]);
            return self.refuse(INVALID_VALUE, why);
        }
        if attribute == PRIORITY {
            value[0] = (value[0] as i32).clamp(GREATEST_PRIORITY, LEAST_PRIORITY) as u32;
        }
        attributes.insert(attribute, value);
        self.set_kernel_attributes(node, attributes)
    }

    /// Copies all attributes between kernels of one context, whichever contexts the nodes were given.
    pub(crate) fn copy_kernel_attributes(&mut self, to: usize, from: usize) -> Answer<()> {
        let (from, before) = (self.node_kernel(from)?, self.node_kernel(to)?);
        if from.context != before.context {
            return self.refuse(INVALID_VALUE, "attributes are copied between kernels of one context");
        }
        if cluster(&from.attributes).is_some_and(|size| !divides(size, before.grid)) {
            return self.refuse(INVALID_VALUE, "attributes with clusters that do not divide the grid");
        }
        self.set_kernel_attributes(to, from.attributes)
    }

    fn set_kernel_attributes(&mut self, node: usize, attributes: KernelAttributes) -> Answer<()> {
        match self.operation(node)? {
            Operation::Kernel(kernel) => kernel.attributes = attributes,
            _ => return self.refuse(INVALID_VALUE, "the node is no kernel"),
        }
        Ok(())
    }
}

/// The size of the clusters that an attribute says, unless it says none.
pub(super) fn cluster(attributes: &KernelAttributes) -> Option<[u32; 3]> {
    attributes.get(&CLUSTER).copied().filter(|size| *size != [0; 3])
}

impl Kernel {
    /// Whether its blocks run all at once.
    pub(super) fn is_cooperative(&self) -> bool {
        self.attributes.get(&COOPERATIVE).is_some_and(|value| value[0] != 0)
    }
}

impl Operation {
    /// The size of the clusters that the node's attributes say.
    pub(crate) fn cluster(&self) -> Option<[u32; 3]> {
        match self {
            Operation::Kernel(kernel) => cluster(&kernel.attributes),
            _ => None,
        }
    }

    /// The attributes of a kernel node stay when it is given other parameters.
    pub(super) fn keep_attributes(&mut self, before: &Operation) {
        if let (Operation::Kernel(kernel), Operation::Kernel(before)) = (self, before) {
            kernel.attributes.clone_from(&before.attributes);
        }
    }
}
