//! PTX's types and their arithmetic. A register has 64 bits; an operation reads as many as its type has.

/// The type of an instruction or a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Pred,
    /// Bits or unsigned integers, with the size in bytes.
    U(u8),
    /// Signed integers, with the size in bytes.
    S(u8),
    F32,
    F64,
}

impl Type {
    /// Reads `u32`, `.f64`, ...
    pub(super) fn named(name: &str) -> Option<Type> {
        Some(match name.trim_start_matches('.') {
            "pred" => Type::Pred,
            "b8" | "u8" => Type::U(1),
            "b16" | "u16" => Type::U(2),
            "b32" | "u32" => Type::U(4),
            "b64" | "u64" => Type::U(8),
            "s8" => Type::S(1),
            "s16" => Type::S(2),
            "s32" => Type::S(4),
            "s64" => Type::S(8),
            "f32" => Type::F32,
            "f64" => Type::F64,
            _ => return None,
        })
    }

    pub(super) fn size(self) -> usize {
        match self {
            Type::Pred => 1,
            Type::U(size) | Type::S(size) => size.into(),
            Type::F32 => 4,
            Type::F64 => 8,
        }
    }

    pub(super) fn bits(self) -> u32 {
        self.size() as u32 * 8
    }

    /// The unsigned type of the same width.
    pub(super) fn plain(self) -> Type {
        Type::U(self.size() as u8)
    }

    /// The type of twice the width, which `mul.wide` returns.
    pub(super) fn wide(self) -> Type {
        match self {
            Type::S(size) => Type::S(size * 2),
            other => Type::U(other.size() as u8 * 2),
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Type::F32 | Type::F64)
    }

    /// Truncates a value to the type's width; a signed one is sign-extended.
    pub(super) fn cut(self, value: u64) -> u64 {
        let spare = 64 - self.bits();
        match self {
            Type::Pred => u64::from(value & 1 != 0),
            Type::S(_) => ((value << spare) as i64 >> spare) as u64,
            _ => value << spare >> spare,
        }
    }

    pub(super) fn signed(self, value: u64) -> i128 {
        match self {
            Type::S(_) => self.cut(value) as i64 as i128,
            _ => self.cut(value) as i128,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Sub,
    /// The low half of a product.
    Mul,
    /// Its high half.
    MulHigh,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Neg,
    Abs,
    Not,
    Popc,
    Clz,
    Brev,
    Sqrt,
    Rsqrt,
    Rcp,
    Sin,
    Cos,
    Ex2,
    Lg2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// How a conversion rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    /// To the nearest value of the target type.
    Nearest,
    NearestInt,
    ZeroInt,
    DownInt,
    UpInt,
}

pub(super) fn f32_of(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

pub(super) fn f64_of(value: u64) -> f64 {
    f64::from_bits(value)
}

pub(super) fn binary(op: Binary, ty: Type, a: u64, b: u64) -> u64 {
    match ty {
        Type::F32 => {
            let (a, b) = (f32_of(a), f32_of(b));
            let value = match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div => a / b,
                Binary::Min => a.min(b),
                Binary::Max => a.max(b),
                _ => f32::NAN,
            };
            value.to_bits().into()
        }
        Type::F64 => {
            let (a, b) = (f64_of(a), f64_of(b));
            let value = match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div => a / b,
                Binary::Min => a.min(b),
                Binary::Max => a.max(b),
                _ => f64::NAN,
            };
            value.to_bits()
        }
        _ => integer(op, ty, a, b),
    }
}

fn integer(op: Binary, ty: Type, a: u64, b: u64) -> u64 {
    let (x, y) = (ty.signed(a), ty.signed(b));
    let value = match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x.wrapping_mul(y),
        Binary::MulHigh => x.wrapping_mul(y) >> ty.bits(),
        // The device returns all ones.
        Binary::Div => x.checked_div(y).unwrap_or(-1),
        Binary::Rem => x.checked_rem(y).unwrap_or(x),
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        // The amount is an unsigned 32-bit number; the type's width or more shifts everything out.
        Binary::Shl if b as u32 >= ty.bits() => 0,
        Binary::Shl => x << (b as u32),
        Binary::Shr => x >> (b as u32).min(127),
    };
    ty.cut(value as u64)
}

pub(super) fn unary(op: Unary, ty: Type, a: u64) -> u64 {
    match ty {
        Type::F32 => {
            let a = f32_of(a);
            let value = match op {
                Unary::Neg => -a,
                Unary::Abs => a.abs(),
                Unary::Sqrt => a.sqrt(),
                Unary::Rsqrt => 1.0 / a.sqrt(),
                Unary::Rcp => 1.0 / a,
                Unary::Sin => a.sin(),
                Unary::Cos => a.cos(),
                Unary::Ex2 => a.exp2(),
                Unary::Lg2 => a.log2(),
                _ => f32::NAN,
            };
            value.to_bits().into()
        }
        Type::F64 => {
            let a = f64_of(a);
            let value = match op {
                Unary::Neg => -a,
                Unary::Abs => a.abs(),
                Unary::Sqrt => a.sqrt(),
                Unary::Rsqrt => 1.0 / a.sqrt(),
                Unary::Rcp => 1.0 / a,
                _ => f64::NAN,
            };
            value.to_bits()
        }
        _ => {
            let a = ty.cut(a);
            let bits = ty.plain().cut(a);
            ty.cut(match op {
                Unary::Neg => a.wrapping_neg(),
                Unary::Abs => (a as i64).unsigned_abs(),
                Unary::Not => !a,
                Unary::Popc => bits.count_ones().into(),
                Unary::Clz => (bits.leading_zeros() - (64 - ty.bits())).into(),
                Unary::Brev => bits.reverse_bits() >> (64 - ty.bits()),
                _ => 0,
            })
        }
    }
}

/// A product and a sum, rounded once.
pub(super) fn fused(ty: Type, a: u64, b: u64, c: u64) -> u64 {
    match ty {
        Type::F32 => f32_of(a).mul_add(f32_of(b), f32_of(c)).to_bits().into(),
        _ => f64_of(a).mul_add(f64_of(b), f64_of(c)).to_bits(),
    }
}

/// Comparisons of floats with NaN are false; `unordered` ones are true.
pub(super) fn compare(op: Compare, unordered: bool, ty: Type, a: u64, b: u64) -> bool {
    let order = match ty {
        Type::F32 => f32_of(a).partial_cmp(&f32_of(b)),
        Type::F64 => f64_of(a).partial_cmp(&f64_of(b)),
        _ => Some(ty.signed(a).cmp(&ty.signed(b))),
    };
    let Some(order) = order else { return unordered };
    match op {
        Compare::Eq => order.is_eq(),
        Compare::Ne => order.is_ne(),
        Compare::Lt => order.is_lt(),
        Compare::Le => order.is_le(),
        Compare::Gt => order.is_gt(),
        Compare::Ge => order.is_ge(),
    }
}

pub(super) fn convert(to: Type, from: Type, round: Round, value: u64) -> u64 {
    if !from.is_float() {
        let value = from.signed(value);
        return match to {
            Type::F32 => (value as f32).to_bits().into(),
            Type::F64 => (value as f64).to_bits(),
            _ => to.cut(value as u64),
        };
    }
    let wide = if from == Type::F32 { f64::from(f32_of(value)) } else { f64_of(value) };
    let rounded = match round {
        Round::Nearest => wide,
        Round::NearestInt => wide.round_ties_even(),
        Round::ZeroInt => wide.trunc(),
        Round::DownInt => wide.floor(),
        Round::UpInt => wide.ceil(),
    };
    match to {
        Type::F32 => (rounded as f32).to_bits().into(),
        Type::F64 => rounded.to_bits(),
        Type::S(size) => {
            let most = (1i128 << (8 * size - 1)) - 1;
            to.cut((rounded as i128).clamp(-most - 1, most) as u64)
        }
        _ => {
            let most = (1i128 << to.bits()) - 1;
            to.cut((rounded as i128).clamp(0, most) as u64)
        }
    }
}
