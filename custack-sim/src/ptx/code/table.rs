//! The table of opcodes.

use super::super::inst::Kind;
use super::super::{Refusal, unknown, wrong};
use super::opcode::Opcode;
use super::operands::Operands;
use super::{Builder, Names};

/// Opcodes of PTX that are not modelled. An opcode that is neither here nor below is not PTX.
const OTHERS: &[&str] = &["clusterlaunchcontrol", "istypep", "multimem", "tcgen05", "tensormap", "wgmma"];

/// One line for each opcode: the function that makes its instructions.
macro_rules! opcodes {
    ($($($name:literal)|+ => $method:ident),* $(,)?) => {
        impl Builder<'_> {
            /// Makes the instruction of a statement.
            pub(super) fn fill(
                &mut self,
                names: &Names<'_, '_>,
                op: &mut Opcode<'_>,
                operands: Operands<'_, '_>,
                local: usize,
            ) -> Result<Kind, Refusal> {
                let kind = match op.name {
                    $($($name)|+ => self.$method(names, op, operands)?,)*
                    "call" => self.call(names, op, operands, local)?,
                    other if OTHERS.contains(&other) => return Err(unknown("this instruction")),
                    other => return Err(wrong(format!("{other} is not an instruction"))),
                };
                op.is_all()?;
                Ok(kind)
            }
        }
    };
}

opcodes! {
    "mov" => mov, "cvta" => cvta, "selp" => selp, "slct" => slct, "isspacep" => isspacep,
    "ld" | "ldu" => load, "st" => store, "prefetch" | "prefetchu" | "applypriority" | "discard" => hint,
    "createpolicy" => policy, "fence" | "membar" => fence, "cp" => copy_asynchronously,
    "atom" | "red" => atomic,
    "add" => add, "sub" => sub, "mul" => mul, "mad" => mad, "fma" => fma, "div" => div, "rem" => rem,
    "addc" => addc, "subc" => subc, "madc" => madc, "mul24" => mul24, "mad24" => mad24, "sad" => sad,
    "abs" => abs, "neg" => neg, "min" | "max" => extreme, "rcp" => rcp, "sqrt" => sqrt, "rsqrt" => rsqrt,
    "ex2" | "lg2" | "sin" | "cos" | "tanh" => approximate, "copysign" => copysign, "testp" => testp,
    "and" | "or" | "xor" => logic, "not" => not, "cnot" => cnot, "lop3" => lop3, "shl" | "shr" => shift,
    "shf" => funnel, "popc" | "clz" => count_bits, "brev" => brev, "bfind" => bfind, "fns" => fns, "bfe" => bfe,
    "bfi" => bfi, "prmt" => prmt, "bmsk" => bmsk, "szext" => szext, "dp4a" => dp4a, "dp2a" => dp2a,
    "vadd" | "vsub" | "vabsdiff" | "vmin" | "vmax" | "vshl" | "vshr" | "vset" => video, "vmad" => vmad,
    "vadd2" | "vsub2" | "vabsdiff2" | "vmin2" | "vmax2" | "vavrg2" | "vset2" => video_lanes,
    "vadd4" | "vsub4" | "vabsdiff4" | "vmin4" | "vmax4" | "vavrg4" | "vset4" => video_lanes,
    "setp" => setp, "set" => set, "cvt" => cvt,
    "bra" => bra, "brx" => brx, "ret" => ret, "exit" => exit, "trap" => trap, "brkpt" => brkpt, "pmevent" => hint,
    "bar" | "barrier" => barrier, "nanosleep" => nanosleep, "activemask" => activemask, "shfl" => shfl, "vote" => vote,
    "match" => match_lanes, "redux" => redux, "elect" => elect,
    "wmma" => wmma, "mma" => mma, "ldmatrix" => ldmatrix, "stmatrix" => stmatrix, "movmatrix" => turn_matrix,
    "mbarrier" => mbarrier, "griddepcontrol" | "setmaxnreg" => hint, "mapa" => mapa, "getctarank" => getctarank,
    "alloca" => alloca, "stacksave" => stacksave, "stackrestore" => stackrestore,
    "tex" => texture, "tld4" => gather, "txq" | "suq" => query,
    "suld" => surface_load, "sust" => surface_store, "sured" => surface_reduce,
}
