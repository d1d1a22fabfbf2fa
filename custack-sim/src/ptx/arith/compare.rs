//! Comparisons, minimum and maximum, and properties of floats.

use super::float::Float;

/// A comparison of `setp` and `set`. Those that end with U are true if an operand is NaN. For integers only those from
/// Eq to Ge exist; `lo`, `ls`, `hi` and `hs` are the same for unsigned numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Neither is NaN.
    Num,
    /// One is NaN.
    Nan,
}

/// Compares floats or integers.
#[inline]
pub(crate) fn compare<T: PartialOrd>(op: Compare, a: T, b: T) -> bool {
    // All three are false if one operand is NaN.
    let (less, equal, greater) = (a < b, a == b, a > b);
    let ordered = less | equal | greater;
    match op {
        Compare::Eq => equal,
        Compare::Ne => less | greater,
        Compare::Lt => less,
        Compare::Le => less | equal,
        Compare::Gt => greater,
        Compare::Ge => greater | equal,
        Compare::Equ => equal | !ordered,
        Compare::Neu => !equal,
        Compare::Ltu => less | !ordered,
        Compare::Leu => !greater,
        Compare::Gtu => greater | !ordered,
        Compare::Geu => !less,
        Compare::Num => ordered,
        Compare::Nan => !ordered,
    }
}

/// A property of `testp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Property {
    Finite,
    Infinite,
    Number,
    NotANumber,
    /// Zero counts as well.
    Normal,
    Subnormal,
}

/// `testp`.
#[inline]
pub(crate) fn testp<T: Float>(property: Property, a: T) -> bool {
    let (nan, infinite, tiny) = (a.is_not_a_number(), a.is_infinity(), a.is_tiny());
    match property {
        Property::Finite => !(nan | infinite),
        Property::Infinite => infinite,
        Property::Number => !nan,
        Property::NotANumber => nan,
        Property::Normal => !(nan | infinite | tiny),
        Property::Subnormal => tiny,
    }
}

/// `min`: a NaN is ignored if the other operand is a number, and -0 is less than +0. Of two equal operands the second
/// is the result.
#[inline]
pub(crate) fn min<T: Float>(a: T, b: T) -> T {
    let first = (a < b) | (b.is_not_a_number() & !a.is_not_a_number()) | ((a == b) & a.is_negative());
    if first { a } else { b }.canonical()
}

/// `max`: a NaN is ignored if the other operand is a number, and +0 is greater than -0. Of two equal operands the
/// second is the result.
#[inline]
pub(crate) fn max<T: Float>(a: T, b: T) -> T {
    let first = (a > b) | (b.is_not_a_number() & !a.is_not_a_number()) | ((a == b) & b.is_negative());
    if first { a } else { b }.canonical()
}

/// `min.NaN`: the result is NaN if an operand is.
#[inline]
pub(crate) fn min_nan<T: Float>(a: T, b: T) -> T {
    let first = a.is_not_a_number() | (a < b) | ((a == b) & a.is_negative());
    if first { a } else { b }.canonical()
}

/// `max.NaN`: the result is NaN if an operand is.
#[inline]
pub(crate) fn max_nan<T: Float>(a: T, b: T) -> T {
    let first = a.is_not_a_number() | (a > b) | ((a == b) & b.is_negative());
    if first { a } else { b }.canonical()
}

/// `min` or `max` of two or three operands, with its modifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extreme {
    /// `max`.
    pub(crate) greatest: bool,
    /// `.NaN`.
    pub(crate) nan: bool,
    /// `.xorsign.abs`: the result has the magnitude of an operand, and the exclusive or of the signs of all.
    pub(crate) xorsign: bool,
}

/// The minimum or maximum of two operands.
#[inline]
pub(crate) fn extreme<T: Float>(how: Extreme, a: T, b: T) -> T {
    let negative = a.is_negative() != b.is_negative();
    signed(how, negative, pick(how, bare(how, a), bare(how, b)))
}

/// The minimum or maximum of three operands.
#[inline]
pub(crate) fn extreme3<T: Float>(how: Extreme, a: T, b: T, c: T) -> T {
    let negative = a.is_negative() ^ b.is_negative() ^ c.is_negative();
    signed(how, negative, pick(how, pick(how, bare(how, a), bare(how, b)), bare(how, c)))
}

#[inline]
fn pick<T: Float>(how: Extreme, a: T, b: T) -> T {
    match (how.greatest, how.nan) {
        (false, false) => min(a, b),
        (false, true) => min_nan(a, b),
        (true, false) => max(a, b),
        (true, true) => max_nan(a, b),
    }
}

#[inline]
fn bare<T: Float>(how: Extreme, a: T) -> T {
    if how.xorsign { a.unsigned() } else { a }
}

#[inline]
fn signed<T: Float>(how: Extreme, negative: bool, a: T) -> T {
    if how.xorsign & negative & !a.is_not_a_number() { a.flipped() } else { a }
}
