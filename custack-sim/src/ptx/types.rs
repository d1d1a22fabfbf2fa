//! The types of PTX, and the classes of registers that hold their values.

use std::fmt;

/// The type of an instruction or a variable; sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Pred,
    /// Untyped bits.
    B(u8),
    U(u8),
    S(u8),
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    U16x2,
    S16x2,
    F32,
    F64,
}

impl Type {
    /// Reads `u32`, `.f64`, ...
    pub(super) fn named(name: &str) -> Option<Type> {
        Some(match name.strip_prefix('.').unwrap_or(name) {
            "pred" => Type::Pred,
            "b8" => Type::B(1),
            "b16" => Type::B(2),
            "b32" => Type::B(4),
            "b64" => Type::B(8),
            "b128" => Type::B(16),
            "u8" => Type::U(1),
            "u16" => Type::U(2),
            "u32" => Type::U(4),
            "u64" => Type::U(8),
            "s8" => Type::S(1),
            "s16" => Type::S(2),
            "s32" => Type::S(4),
            "s64" => Type::S(8),
            "f16" => Type::F16,
            "f16x2" => Type::F16x2,
            "bf16" => Type::Bf16,
            "bf16x2" => Type::Bf16x2,
            "u16x2" => Type::U16x2,
            "s16x2" => Type::S16x2,
            "f32" => Type::F32,
            "f64" => Type::F64,
            _ => return None,
        })
    }

    pub(super) fn size(self) -> usize {
        match self {
            Type::Pred => 1,
            Type::B(size) | Type::U(size) | Type::S(size) => size.into(),
            Type::F16 | Type::Bf16 => 2,
            Type::F16x2 | Type::Bf16x2 | Type::U16x2 | Type::S16x2 | Type::F32 => 4,
            Type::F64 => 8,
        }
    }

    pub(super) fn is_signed(self) -> bool {
        matches!(self, Type::S(_))
    }

    pub(super) fn is_float(self) -> bool {
        !matches!(self, Type::Pred | Type::B(_) | Type::U(_) | Type::S(_) | Type::U16x2 | Type::S16x2)
    }

    /// The registers that hold its values.
    pub(super) fn class(self) -> Class {
        match (self, self.size()) {
            (Type::Pred, _) => Class::Pred,
            (_, 1 | 2) => Class::B16,
            (_, 4) => Class::B32,
            (_, 8) => Class::B64,
            _ => Class::B128,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Pred => f.write_str(".pred"),
            Type::B(size) => write!(f, ".b{}", 8 * size),
            Type::U(size) => write!(f, ".u{}", 8 * size),
            Type::S(size) => write!(f, ".s{}", 8 * size),
            Type::F16 => f.write_str(".f16"),
            Type::F16x2 => f.write_str(".f16x2"),
            Type::Bf16 => f.write_str(".bf16"),
            Type::Bf16x2 => f.write_str(".bf16x2"),
            Type::U16x2 => f.write_str(".u16x2"),
            Type::S16x2 => f.write_str(".s16x2"),
            Type::F32 => f.write_str(".f32"),
            Type::F64 => f.write_str(".f64"),
        }
    }
}

/// The width of a register. Values of 8 bits are held in registers of 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Class {
    Pred,
    B16,
    B32,
    B64,
    B128,
}

impl Class {
    pub(super) fn bits(self) -> u32 {
        match self {
            Class::Pred => 1,
            Class::B16 => 16,
            Class::B32 => 32,
            Class::B64 => 64,
            Class::B128 => 128,
        }
    }
}
