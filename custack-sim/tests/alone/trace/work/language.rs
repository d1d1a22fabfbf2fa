//! The language: which thread calls which function with which arguments by name.
//!
//! One step is one line, `t0 cuStreamWaitEvent s1 e0 0`: the thread, the function, and its arguments in the function's
//! order. Objects are named by their kind and slot: `s1` is a stream, `a0+16` an address in memory that the trace has
//! allocated. `m1+64` is an address in the memory that every trace finds, `h0+8` one in the host's. `here` is a place
//! to write to, and `null` none.

use super::functions::{FUNCTIONS, Function, Param, STREAM_OF_CONFIG, find};
use std::fmt;

/// What a slot can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Context,
    Stream,
    Event,
    Graph,
    Exec,
    Node,
    Pool,
    Module,
    Function,
    Library,
    Kernel,
    Object,
    Memory,
    Fixed,
    Host,
    Link,
}

/// Each kind's letter and how many slots there are of it.
pub(super) const KINDS: [(Kind, char, usize); 16] = [
    (Kind::Context, 'c', 3),
    (Kind::Stream, 's', 4),
    (Kind::Event, 'e', 4),
    (Kind::Graph, 'g', 4),
    (Kind::Exec, 'x', 3),
    (Kind::Node, 'n', 8),
    (Kind::Pool, 'q', 3),
    (Kind::Module, 'u', 3),
    (Kind::Function, 'f', 4),
    (Kind::Library, 'l', 2),
    (Kind::Kernel, 'k', 3),
    (Kind::Object, 'o', 2),
    (Kind::Memory, 'a', 5),
    (Kind::Fixed, 'm', 3),
    (Kind::Host, 'h', 2),
    (Kind::Link, 'j', 2),
];

impl Kind {
    pub(super) fn letter(self) -> char {
        KINDS[self as usize].1
    }

    pub(super) fn slots(self) -> usize {
        KINDS[self as usize].2
    }
}

/// An argument.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Arg {
    Null,
    Here,
    Slot(Kind, usize, u64),
    Number(u64),
    Name(String),
    List(Vec<Arg>),
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Null => f.write_str("null"),
            Arg::Here => f.write_str("here"),
            Arg::Slot(kind, slot, 0) => write!(f, "{}{slot}", kind.letter()),
            Arg::Slot(kind, slot, offset) => write!(f, "{}{slot}+{offset}", kind.letter()),
            Arg::Number(number) => write!(f, "{number}"),
            Arg::Name(name) => write!(f, "\"{name}\""),
            Arg::List(list) => {
                f.write_str("[")?;
                for (at, arg) in list.iter().enumerate() {
                    write!(f, "{}{arg}", if at == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
        }
    }
}

impl Arg {
    fn parse(text: &str) -> Option<Arg> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']')?;
            let words = inner.split(',').filter(|word| !word.is_empty());
            return words.map(Arg::parse).collect::<Option<_>>().map(Arg::List);
        }
        match text {
            "null" => return Some(Arg::Null),
            "here" => return Some(Arg::Here),
            _ => {}
        }
        if let Some(name) = text.strip_prefix('"') {
            return Some(Arg::Name(name.strip_suffix('"')?.to_owned()));
        }
        if let Ok(number) = text.parse() {
            return Some(Arg::Number(number));
        }
        let letter = text.chars().next()?;
        let (kind, ..) = KINDS.iter().find(|(_, known, _)| *known == letter)?;
        let (slot, offset) = text[1..].split_once('+').unwrap_or((&text[1..], "0"));
        let slot = slot.parse().ok().filter(|slot| *slot < kind.slots())?;
        Some(Arg::Slot(*kind, slot, offset.parse().ok()?))
    }

    pub(super) fn number(&self) -> u64 {
        if let Arg::Number(number) = self { *number } else { 0 }
    }

    pub(super) fn list(&self) -> &[Arg] {
        if let Arg::List(list) = self { list } else { &[] }
    }
}

/// One line of a trace.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Step {
    pub(super) thread: usize,
    /// The function's place in the table of functions.
    pub(super) function: usize,
    pub(super) args: Vec<Arg>,
}

impl Step {
    pub(super) fn function(&self) -> &'static Function {
        &FUNCTIONS[self.function]
    }

    /// The stream that it names, as an argument or in the configuration of a launch.
    pub(super) fn stream(&self) -> Option<&Arg> {
        self.function().params.iter().zip(&self.args).find_map(|(param, arg)| match param {
            Param::In(Kind::Stream) | Param::OwnStream => Some(arg),
            Param::Config => arg.list().get(STREAM_OF_CONFIG),
            _ => None,
        })
    }

    pub(super) fn parse(line: &str) -> Option<Step> {
        let mut words = line.split(' ');
        let thread = words.next()?.strip_prefix('t')?.parse().ok()?;
        let function = find(words.next()?)?;
        let args = words.map(Arg::parse).collect::<Option<Vec<_>>>()?;
        (args.len() == FUNCTIONS[function].params.len()).then_some(Step { thread, function, args })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{} {}", self.thread, self.function().name)?;
        self.args.iter().try_for_each(|arg| write!(f, " {arg}"))
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A sequence of steps in one total order over all threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trace {
    pub(super) steps: Vec<Step>,
}

impl Trace {
    pub(super) fn threads(&self) -> usize {
        self.steps.iter().map(|step| step.thread + 1).max().unwrap_or(1)
    }

    #[cfg(test)]
    pub(super) fn parse(text: &str) -> Option<Trace> {
        text.lines().map(Step::parse).collect::<Option<_>>().map(|steps| Trace { steps })
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}
