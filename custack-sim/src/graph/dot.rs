//! Graphs as text, in the language of Graphviz.

use super::update::place;
use super::{Node, Operation};
use crate::machine::*;
use custack_sys::ffi::CUresult;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const OPERATING_SYSTEM: CUresult = 304;
const VERBOSE: u32 = 1;
const HANDLES: u32 = 1 << 10;

impl Machine {
    /// Writes a graph, and then its child graphs, into a file.
    pub(crate) fn write_dot(&mut self, graph: usize, path: &str, flags: u32) -> Answer<()> {
        self.graph(graph)?;
        let mut text = "digraph dot {\n".to_owned();
        let mut open = vec![graph];
        while let Some(graph) = open.pop() {
            let children = self.cluster(graph, flags & (VERBOSE | HANDLES) != 0, &mut text)?;
            open.extend(children.into_iter().rev());
        }
        text.push_str("}\n");
        match std::fs::write(path, text) {
            Ok(()) => Ok(()),
            Err(error) => self.refuse(OPERATING_SYSTEM, format_args!("{path}: {error}")),
        }
    }

    /// Writes a graph, and returns its child graphs.
    fn cluster(&mut self, graph: usize, handles: bool, text: &mut String) -> Answer<Vec<usize>> {
        let number = self.graph(graph)?.number;
        let mut children = Vec::new();
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "subgraph cluster_{number} {{\nlabel=\"graph_{number}\" graph[style=\"dashed\"];");
        let mut places = BTreeMap::new();
        for (at, handle) in self.nodes_of(graph)?.into_iter().enumerate() {
            places.insert(handle, at);
            let title = match *self.operation(handle)? {
                Operation::Child(child) => {
                    children.push(child);
                    format!("graph_{}", self.graph(child)?.number)
                }
                _ => String::new(),
            };
            if let Some(node) = self.graph(graph)?.nodes.get(&handle) {
                node.write(number, at, &title, handles.then_some(handle), text);
            }
        }
        for edge in self.edges_of(graph)? {
            let [from, to] = [edge.from, edge.to].map(|node| places.get(&node).copied().unwrap_or(0));
            let _ = writeln!(text, "\"graph_{number}_node_{from}\" -> \"graph_{number}_node_{to}\";");
        }
        text.push_str("}\n");
        Ok(children)
    }
}

impl Node {
    fn write(&self, graph: usize, at: usize, child: &str, handle: Option<usize>, text: &mut String) {
        let plain = "style=\"solid\" shape=\"rectangle\" ";
        let (look, title, more) = match &self.operation {
            Operation::Kernel(kernel) => {
                ("style=\"bold\" shape=\"octagon\" ", kernel.name.clone(), String::new())
            }
            Operation::Fill(fill) => {
                let bytes = fill.width * fill.height * fill.element as usize;
                (
                    "style=\"solid\" shape=\"invtrapezium\"",
                    "MEMSET".to_owned(),
                    format!("({},{bytes})\n", fill.value),
                )
            }
            Operation::Copy(copy) => {
                let (from, to) = (place(&copy.from), place(&copy.to));
                let bytes: usize = copy.extent.iter().product();
                let look = "style=\"solid\" shape=\"trapezium\"";
                (look, "MEMCPY".to_owned(), format!("({from}to{to},{bytes})\n"))
            }
            Operation::Host(_) => (plain, "HOST".to_owned(), String::new()),
            Operation::Child(_) => (plain, child.to_owned(), String::new()),
            Operation::Empty => (plain, "EMPTY".to_owned(), String::new()),
            Operation::Wait(_) => (plain, "EVENT_WAIT".to_owned(), String::new()),
            Operation::Record(_) => (plain, "EVENT_RECORD".to_owned(), String::new()),
            Operation::Allocate(_) => (plain, "MEM_ALLOC".to_owned(), String::new()),
            Operation::Free(_) => (plain, "MEM_FREE".to_owned(), String::new()),
            Operation::Batch(_) => (plain, "BATCH_MEM_OP".to_owned(), String::new()),
        };
        let handle = handle.map_or_else(String::new, |handle| format!("node handle: {handle:#018X}\n"));
        let _ =
            writeln!(text, "\"graph_{graph}_node_{at}\"[{look}label=\"{at}\n{title}\n{handle}{more}\"];\n");
    }
}
