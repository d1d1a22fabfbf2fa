//! Answers that are made of several values: what an instruction on memory returned, and what it left there.

/// An odd number by which what came before is multiplied.
const BY: u64 = 0x1e37_79b9_7f4a_7c15;

/// All values in one, in their order.
pub(super) fn folded(values: &[u64]) -> u64 {
    values.iter().fold(0, |all, value| all.wrapping_mul(BY).wrapping_add(*value))
}

/// Lines of PTX that fold, and what they have folded so far.
#[derive(Default)]
pub(super) struct Folding(pub(super) String);

impl Folding {
    pub(super) fn new() -> Folding {
        Folding("{ .reg .b64 %acc, %s, %z, %x, %y8; .reg .b32 %u<12>; .reg .b16 %g<20>; .reg .b128 %v<4>; .reg .b64 %e<12>; \
            .reg .b32 %f<12>; .reg .pred %k; mov.u64 %acc, 0; ".to_owned())
    }

    pub(super) fn line(&mut self, line: &str) {
        self.0 += line;
        self.0.push(' ');
    }

    /// Adds a register of `size` bytes.
    pub(super) fn add(&mut self, register: &str, size: usize) {
        let value = match size {
            2 => format!("cvt.u64.u16 %z, {register};"),
            4 => format!("cvt.u64.u32 %z, {register};"),
            8 => format!("mov.b64 %z, {register};"),
            _ => {
                self.line(&format!("mov.b128 {{%x, %y8}}, {register}; mad.lo.u64 %acc, %acc, {BY:#x}, %x;"));
                "mov.b64 %z, %y8;".to_owned()
            }
        };
        self.line(&format!("{value} mad.lo.u64 %acc, %acc, {BY:#x}, %z;"));
    }

    /// Folds all results of a product, of so many bytes each; or takes the one, or the pair, whose number the operand says.
    pub(super) fn results(&mut self, registers: &[String], size: usize, is_one: bool) {
        if !is_one {
            registers.iter().for_each(|register| self.add(register, size));
            return;
        }
        let per = 8 / size;
        let count = registers.len().div_ceil(per);
        self.line(&format!("shr.u64 %z, $a, 3; rem.u64 %z, %z, {count}; cvt.u32.u64 %u0, %z;"));
        for (number, some) in registers.chunks(per).enumerate() {
            let from = if size == 8 { some[0].clone() } else { format!("{{{}}}", some.join(", ")) };
            self.line(&format!(
                "mov.b64 %x, {from}; setp.eq.u32 %k, %u0, {number}; selp.b64 %acc, %x, %acc, %k;"
            ));
        }
    }

    pub(super) fn end(mut self) -> String {
        self.line("mov.b64 $d, %acc; }");
        self.0
    }
}
