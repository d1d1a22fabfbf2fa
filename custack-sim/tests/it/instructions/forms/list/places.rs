//! Where loads, stores and atomic operations find their values: each thread has 32 bytes of its own.

use super::fold::Folding;

/// An opcode in parts.
pub(super) struct Opcode<'a> {
    parts: Vec<&'a str>,
}

impl<'a> Opcode<'a> {
    pub(super) fn new(name: &'a str) -> Opcode<'a> {
        Opcode { parts: name.split(['.', ' ']).collect() }
    }

    pub(super) fn has(&self, part: &str) -> bool {
        self.parts.contains(&part)
    }

    pub(super) fn any(&self, parts: &[&str]) -> Option<&'a str> {
        self.parts.iter().copied().find(|part| parts.contains(part))
    }

    /// How many values lie beside each other.
    pub(super) fn count(&self) -> usize {
        self.any(&["v2", "v4", "v8"]).map_or(1, |part| part[1..].parse().unwrap())
    }

    pub(super) fn ty(&self) -> &'a str {
        self.parts.iter().rev().copied().find(|part| size(part) != 0).unwrap()
    }

    /// The space that is named, or how a generic address is made.
    pub(super) fn space(&self) -> Space {
        match self.any(&["global", "shared", "shared::cta", "local", "const", "param", "param::entry"]) {
            Some("global") => Space::Global,
            Some("shared" | "shared::cta") => Space::Shared,
            Some("local") => Space::Local,
            Some("const") => Space::Constant,
            Some(_) => Space::Parameter,
            None if self.any(&["ldu", "mmio"]).is_some()
                || self.parts.iter().any(|it| it.starts_with("L2")) =>
            {
                Space::GenericGlobal
            }
            None => Space::Generic,
        }
    }
}

/// Bytes of a type; none of what is no type.
pub(super) fn size(ty: &str) -> usize {
    match ty {
        "b8" | "u8" | "s8" => 1,
        "b16" | "u16" | "s16" | "f16" | "bf16" => 2,
        "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" => 4,
        "b64" | "u64" | "s64" | "f64" => 8,
        "b128" => 16,
        _ => 0,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Global,
    Shared,
    Local,
    Constant,
    Parameter,
    /// Of every four threads two have global and two have shared memory.
    Generic,
    GenericGlobal,
}

impl Space {
    /// The modifier of plain accesses.
    pub(super) fn dot(self) -> &'static str {
        match self {
            Space::Global => ".global",
            Space::Shared => ".shared",
            Space::Local => ".local",
            _ => "",
        }
    }

    /// Whether this thread has global memory.
    pub(super) fn is_global(self, thread: u64) -> bool {
        match self {
            Space::Generic => thread & 2 == 0,
            other => matches!(other, Space::Global | Space::GenericGlobal),
        }
    }

    /// Leaves the address of the thread's bytes in `%s`.
    pub(super) fn address(self, folding: &mut Folding) {
        self.address_of(folding, "%i", "%t");
    }

    /// Leaves the address of the bytes of the first of so many threads in `%s`; of the generic ones, every second group
    /// has shared memory.
    pub(super) fn group_address(self, folding: &mut Folding, group: u32) {
        let (mask, by) = (group.wrapping_neg(), group.trailing_zeros() - 1);
        folding.line(&format!(
            "and.b32 %f1, %i, {mask:#x}; and.b32 %f2, %t, {mask:#x}; shr.u32 %f3, %f1, {by};"
        ));
        self.address_of(folding, "%f1", "%f2");
        if self == Space::Generic {
            folding.line("mul.wide.u32 %x, %f2, 32; mov.u64 %z, shared_slots; add.u64 %x, %x, %z; cvta.shared.u64 %x, %x;");
            folding.line("and.b32 %f0, %f3, 2; setp.eq.u32 %k, %f0, 0; selp.b64 %s, %s, %x, %k;");
        }
    }

    fn address_of(self, folding: &mut Folding, index: &str, thread: &str) {
        let global = format!("mul.wide.u32 %s, {index}, 32; mov.u64 %z, global_slots; add.u64 %s, %s, %z;");
        let shared = format!("mul.wide.u32 %x, {thread}, 32; mov.u64 %z, shared_slots; add.u64 %x, %x, %z;");
        folding.line(&match self {
            Space::Global => global,
            Space::Shared => format!("{shared} mov.u64 %s, %x;"),
            Space::Local => "mov.u64 %s, local_slot;".to_owned(),
            Space::GenericGlobal => format!("{global} cvta.global.u64 %s, %s;"),
            Space::Generic => format!(
                "{global} {shared} cvta.global.u64 %s, %s; cvta.shared.u64 %x, %x; and.b32 %f0, {index}, 2; \
                 setp.eq.u32 %k, %f0, 0; selp.b64 %s, %s, %x, %k;"
            ),
            Space::Constant | Space::Parameter => String::new(),
        });
    }
}

/// How many words of 64 bits the tables have that are only read.
pub(super) const TABLE: usize = 256;

/// A word of the tables, and of the parameter `given`.
pub(super) fn of_table(at: usize) -> u64 {
    let z = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ z >> 31
}

/// The variables that the forms use.
pub(in crate::instructions::forms) fn variables() -> String {
    let words: Vec<String> = (0..TABLE).map(|at| format!("{:#x}", of_table(at))).collect();
    let words = words.join(", ");
    format!(
        ".global .align 16 .b8 global_slots[393216];\n.shared .align 16 .b8 shared_slots[8192];\n\
         .const .align 16 .b64 const_table[{TABLE}] = {{{words}}};\n\
         .global .align 16 .b64 global_table[{TABLE}] = {{{words}}};\n"
    )
}

/// The bytes of the parameter `given`.
pub(in crate::instructions::forms) fn given() -> Vec<u8> {
    (0..8).flat_map(|at| of_table(at).to_le_bytes()).collect()
}
