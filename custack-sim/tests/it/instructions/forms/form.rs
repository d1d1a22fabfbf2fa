//! What a form is, and the kernels that apply forms to arrays of operands.

use super::object::Object;
use super::operands::Kind;
use crate::gpu::Result;
use std::fmt::Write;

/// Computes a form's answer from the bits of its operands, without the interpreter.
type Exact = Box<dyn Fn(&[u64]) -> u64 + Send + Sync>;
/// Says what is wrong with an answer that need not be exact: how far it is from the true one, or from a recorded one.
type Near = Box<dyn Fn(&[u64], Option<u64>, u64) -> Result<(), String> + Send + Sync>;

/// The same of what the threads of a group do together, of the first operand of each.
type Groups = Box<dyn Fn(&[u64]) -> Vec<u64> + Send + Sync>;
/// Says what is wrong with the answers of a group, of which there is not one only: given the first operand of each thread,
/// and a device's answers if there is a record of them.
type Together = Box<dyn Fn(&[u64], Option<&[u64]>, &[u64]) -> Result<(), String> + Send + Sync>;

/// What is known of a form's answers without asking a driver.
pub(super) enum Truth {
    /// The only answer.
    Exact(Exact),
    /// The only answers of the threads of a group.
    Groups(Groups),
    /// What this checks.
    Together(Together),
    /// The manual gives a bound, and this checks it.
    Near(Near),
}

/// An instruction with its modifiers and types.
pub(super) struct Form {
    /// Unique, as one would write it: `add.rn.ftz.f32`.
    pub(super) name: String,
    pub(super) operands: Vec<Kind>,
    /// Bytes of the answer: 2, 4 or 8.
    pub(super) size: usize,
    /// Lines of PTX, in which `$d` is the answer and `$a` to `$e` are operands.
    pub(super) code: String,
    pub(super) truth: Truth,
    /// It needs the variables of `places.rs`.
    pub(super) on_memory: bool,
    /// How many threads compute together: a whole number of such groups is launched.
    pub(super) group: usize,
    /// The texture or surface whose handle is in `%object`.
    pub(super) object: Option<Object>,
    /// Lines that another kernel executes afterwards; only they have an answer.
    pub(super) after: Option<String>,
    /// How many operands are tried at most.
    pub(super) most: usize,
}

impl Form {
    pub(super) fn is_of_groups(&self) -> bool {
        matches!(self.truth, Truth::Groups(_) | Truth::Together(_))
    }

    pub(super) fn is_exact(&self) -> bool {
        !matches!(self.truth, Truth::Near(_) | Truth::Together(_))
    }
}

/// Forms, as they are listed.
#[derive(Default)]
pub(super) struct List(pub(super) Vec<Form>);

impl List {
    fn add(&mut self, name: &str, operands: &[Kind], size: usize, code: String, truth: Truth) -> &mut Form {
        self.0.push(Form {
            name: name.to_owned(),
            operands: operands.to_vec(),
            size,
            code,
            truth,
            on_memory: false,
            group: 1,
            object: None,
            after: None,
            most: usize::MAX,
        });
        self.0.last_mut().unwrap()
    }

    /// An instruction with the operands `$d, $a, $b, ...`.
    pub(super) fn plain(
        &mut self,
        name: impl Into<String>,
        operands: &[Kind],
        size: usize,
        exact: impl Fn(&[u64]) -> u64 + Send + Sync + 'static,
    ) {
        let name = name.into();
        let code = usual(&name, operands.len());
        self.coded(name, operands, size, code, exact);
    }

    /// Lines of PTX.
    pub(super) fn coded(
        &mut self,
        name: impl Into<String>,
        operands: &[Kind],
        size: usize,
        code: impl Into<String>,
        exact: impl Fn(&[u64]) -> u64 + Send + Sync + 'static,
    ) {
        self.add(&name.into(), operands, size, code.into(), Truth::Exact(Box::new(exact)));
    }

    /// Lines of PTX that work on memory, with an answer of 64 bits. Behind the operands comes the number of the thread.
    pub(super) fn on_memory(
        &mut self,
        name: &str,
        operands: &[Kind],
        code: String,
        exact: impl Fn(&[u64]) -> u64 + Send + Sync + 'static,
    ) -> &mut Form {
        let form = self.add(name, operands, 8, code, Truth::Exact(Box::new(exact)));
        form.on_memory = true;
        form
    }

    /// The same with answers that have a bound.
    pub(super) fn near_on_memory(
        &mut self,
        name: &str,
        operands: &[Kind],
        code: String,
        near: impl Fn(&[u64], Option<u64>, u64) -> Result<(), String> + Send + Sync + 'static,
    ) -> &mut Form {
        let form = self.add(name, operands, 8, code, Truth::Near(Box::new(near)));
        form.on_memory = true;
        form
    }

    /// Lines of PTX that the lanes of a warp execute together, each with an answer of 64 bits.
    pub(super) fn of_warps(
        &mut self,
        name: &str,
        code: String,
        exact: impl Fn(&[u64]) -> Vec<u64> + Send + Sync + 'static,
    ) {
        self.of_groups(32, name, code, Truth::Groups(Box::new(exact)));
    }

    /// The same of the threads of a group of any size.
    pub(super) fn of_groups(&mut self, group: usize, name: &str, code: String, truth: Truth) -> &mut Form {
        let form = self.add(name, &[Kind::I64], 8, code, truth);
        (form.on_memory, form.group) = (true, group);
        form
    }

    /// An instruction whose answers have a bound.
    pub(super) fn near(
        &mut self,
        name: impl Into<String>,
        operands: &[Kind],
        size: usize,
        near: impl Fn(&[u64], Option<u64>, u64) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let name = name.into();
        let code = usual(&name, operands.len());
        self.add(&name, operands, size, code, Truth::Near(Box::new(near)));
    }
}

fn usual(name: &str, operands: usize) -> String {
    format!("{name} $d, {};", ["$a", "$b", "$c", "$e"][..operands].join(", "))
}

/// How many forms one kernel has at most.
const FORMS_OF_A_KERNEL: usize = 16;

/// A kernel of some forms that take the same kinds of operands and give answers of one size.
pub(super) struct Kernel<'a> {
    pub(super) forms: Vec<&'a Form>,
}

/// The kernels of an instruction.
pub(super) fn kernels<'a>(forms: &[&'a Form]) -> Vec<Kernel<'a>> {
    let mut kernels: Vec<Kernel<'a>> = Vec::new();
    for &form in forms {
        let has_room = |kernel: &&mut Kernel<'a>| {
            let first = kernel.forms[0];
            first.operands == form.operands
                && first.size == form.size
                && first.on_memory == form.on_memory
                && (first.group, first.most) == (form.group, form.most)
                && first.object.is_some() == form.object.is_some()
                && first.after.is_some() == form.after.is_some()
                && kernel.forms.len() < FORMS_OF_A_KERNEL
        };
        match kernels.iter_mut().rev().find(has_room) {
            Some(kernel) => kernel.forms.push(form),
            None => kernels.push(Kernel { forms: vec![form] }),
        }
    }
    kernels
}

/// The text of a module whose kernels are `k0`, `k1`, ...
///
/// A kernel takes the addresses of its operands, of its answers, and the number of each; the answers of its second form
/// come behind all of its first.
pub(super) fn module(kernels: &[Kernel<'_>]) -> String {
    let mut text =
        String::from(".version 8.8\n.target sm_90\n.address_size 64\n.shared .align 8 .b8 in_shared[64];\n");
    text.push_str(".global .align 8 .b8 in_global[64];\n.const .align 8 .b8 in_constant[64];\n");
    if kernels.iter().any(|kernel| kernel.forms[0].on_memory) {
        text.push_str(&super::list::variables());
    }
    if kernels.iter().flat_map(|kernel| &kernel.forms).any(|form| form.code.contains("_tiles")) {
        text.push_str(super::list::TILES);
    }
    for (at, kernel) in kernels.iter().enumerate() {
        entry(&mut text, &format!("k{at}"), kernel, |form| &form.code);
        if kernel.forms[0].after.is_some() {
            entry(&mut text, &format!("after{at}"), kernel, |form| form.after.as_ref().unwrap());
        }
    }
    text
}

fn entry(text: &mut String, name: &str, kernel: &Kernel<'_>, code: impl Fn(&Form) -> &String) {
    let (operands, size) = (&kernel.forms[0].operands, kernel.forms[0].size);
    let parameters: String = (0..operands.len()).map(|at| format!(".param .u64 from{at}, ")).collect();
    let (on_memory, has_objects) = (kernel.forms[0].on_memory, kernel.forms[0].object.is_some());
    let given = if on_memory { ", .param .align 16 .b8 given[64]" } else { "" };
    let objects = if has_objects { ", .param .align 8 .b8 objects[128]" } else { "" };
    let _ = write!(
        text,
        "\n.visible .entry {name}({parameters}.param .u64 to, .param .u32 count{given}{objects})\n{{\n\
         .reg .pred %p<9>; .reg .b8 %y<9>; .reg .b16 %h<9>; .reg .b32 %w<9>; .reg .b64 %q<9>;\n\
         .reg .b16 %to2; .reg .b32 %to4; .reg .b64 %to8; .reg .pred %out;\n\
         .reg .b32 %i, %n, %t; .reg .b64 %at, %to, %step, %object;\n\
         .local .align 8 .b8 in_local[64];\n\
         mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, %n, %t;\n\
         ld.param.u32 %n, [count]; setp.ge.u32 %out, %i, %n; @%out ret;\n"
    );
    if on_memory {
        text.push_str(".local .align 16 .b8 local_slot[16];\n");
    }
    for (at, kind) in operands.iter().enumerate() {
        let size = kind.size();
        let _ = writeln!(
            text,
            ".reg .b{0} %from{at}; ld.param.u64 %at, [from{at}]; mul.wide.u32 %step, %i, {size}; \
             add.u64 %at, %at, %step; ld.global.b{0} %from{at}, [%at];",
            8 * size
        );
    }
    let _ = writeln!(
        text,
        "ld.param.u64 %to, [to]; mul.wide.u32 %step, %i, {size}; add.u64 %to, %to, %step; \
         mul.wide.u32 %step, %n, {size};"
    );
    if kernel.forms.iter().any(|form| form.code.contains("%raw")) {
        text.push_str(&super::list::raw_words());
    }
    for (number, form) in kernel.forms.iter().enumerate() {
        let mut code = code(form).replace("$d", &format!("%to{size}"));
        for (at, letter) in ["$a", "$b", "$c", "$e"].iter().enumerate() {
            code = code.replace(letter, &format!("%from{at}"));
        }
        if has_objects {
            let _ = writeln!(text, "ld.param.u64 %object, [objects+{}];", 8 * number);
        }
        let _ = writeln!(text, "{code} st.global.b{} [%to], %to{size}; add.u64 %to, %to, %step;", 8 * size);
    }
    text.push_str("ret;\n}\n");
}
