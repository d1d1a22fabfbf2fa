//! Executes a kernel: block by block, and within a block thread by thread, each from one barrier to the next.

use super::decode::{Atomic, Body, Inst, LOCAL_WINDOW, NOWHERE, Op, Operand, SHARED_WINDOW, Space, Special};
use super::values::{Binary, Type, binary, compare, convert, f32_of, f64_of, fused, unary};
use super::{Entry, Program};
use crate::driver::ffi::CUresult;
use crate::sim::memory::{self, Region, View};
use std::sync::Arc;

pub(super) const ILLEGAL_ADDRESS: CUresult = 700;
pub(super) const LAUNCH_TIMEOUT: CUresult = 702;
pub(super) const ILLEGAL_INSTRUCTION: CUresult = 715;
/// For shared addresses from here on the device reports an illegal instruction.
const SHARED_END: u64 = 1 << 24;
pub(super) const MISALIGNED_ADDRESS: CUresult = 716;
pub(super) const LAUNCH_FAILED: CUresult = 719;

/// A kernel that executes this many instructions is assumed not to end.
const MOST_STEPS: u64 = 1 << 33;
const WARP: u64 = 32;

/// Why a kernel failed: the status that the context keeps, and a sentence.
#[derive(Debug)]
pub(in crate::sim) struct Fault {
    pub(in crate::sim) status: CUresult,
    pub(in crate::sim) why: String,
}

/// A kernel with the parameters of a launch.
pub(in crate::sim) struct Launch {
    pub(in crate::sim) program: Arc<Program>,
    pub(in crate::sim) entry: usize,
    /// The addresses of the module's variables.
    pub(in crate::sim) variables: Arc<Vec<u64>>,
    pub(in crate::sim) grid: [u32; 3],
    pub(in crate::sim) block: [u32; 3],
    pub(in crate::sim) dynamic_shared: usize,
    pub(in crate::sim) parameters: Vec<u8>,
}

struct Thread {
    registers: Vec<u64>,
    local: Vec<u8>,
    tid: [u32; 3],
    at: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Waiting,
    Done,
}

struct Block<'a> {
    launch: &'a Launch,
    body: &'a Body,
    ctaid: [u32; 3],
    shared: Vec<u8>,
    steps: &'a mut u64,
    view: &'a View,
}

/// The coordinates of an index in `sizes`, the first dimension fastest.
fn unfold(index: u64, sizes: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = sizes.map(u64::from);
    [index % x, index / x % y, index / (x * y)].map(|part| part as u32)
}

fn count(sizes: [u32; 3]) -> u64 {
    sizes.iter().map(|size| u64::from(*size)).product()
}

impl Launch {
    fn entry(&self) -> &Entry {
        &self.program.entries[self.entry]
    }

    pub(in crate::sim) fn run(&self) -> Result<(), Fault> {
        let body = &self.entry().body;
        let mut steps = 0;
        let view = memory::view();
        for index in 0..count(self.grid) {
            let mut block = Block {
                launch: self,
                body,
                ctaid: unfold(index, self.grid),
                shared: vec![0; body.shared + self.dynamic_shared],
                steps: &mut steps,
                view: &view,
            };
            let name = &self.entry().name;
            block.run().map_err(|fault| Fault { why: format!("kernel {name}, {}", fault.why), ..fault })?;
        }
        Ok(())
    }
}

impl Block<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        let mut threads: Vec<Thread> = (0..count(self.launch.block))
            .map(|index| Thread {
                registers: vec![0; self.body.registers],
                local: vec![0; self.body.local],
                tid: unfold(index, self.launch.block),
                at: 0,
                state: State::Running,
            })
            .collect();
        // A barrier does not wait for threads that have ended, as on the device.
        while threads.iter().any(|thread| thread.state != State::Done) {
            for thread in &mut threads {
                if thread.state == State::Waiting {
                    thread.state = State::Running;
                }
                while thread.state == State::Running {
                    let at = thread.at;
                    self.step(thread).map_err(|fault| {
                        let (line, opcode) = &self.body.written[at];
                        Fault { why: format!("line {line}, {opcode}: {}", fault.why), ..fault }
                    })?;
                }
            }
        }
        Ok(())
    }

    fn value(&self, thread: &Thread, operand: Operand) -> u64 {
        match operand {
            Operand::None => 0,
            Operand::Reg(register) => thread.registers[register as usize],
            Operand::Not(register) => u64::from(thread.registers[register as usize] & 1 == 0),
            Operand::Imm(value) => value,
            Operand::Variable(at) => self.launch.variables[at],
            Operand::Special(special) => self.special(thread, special),
        }
    }

    fn special(&self, thread: &Thread, special: Special) -> u64 {
        let [x, y, z] = thread.tid.map(u64::from);
        let [width, height, _] = self.launch.block.map(u64::from);
        let linear = x + width * (y + height * z);
        match special {
            Special::Tid(axis) => thread.tid[axis as usize].into(),
            Special::Ntid(axis) => self.launch.block[axis as usize].into(),
            Special::Ctaid(axis) => self.ctaid[axis as usize].into(),
            Special::Nctaid(axis) => self.launch.grid[axis as usize].into(),
            Special::Laneid => linear % WARP,
            Special::Warpid => linear / WARP,
            Special::Clock => *self.steps,
        }
    }

    fn step(&mut self, thread: &mut Thread) -> Result<(), Fault> {
        *self.steps += 1;
        if *self.steps > MOST_STEPS {
            return Err(Fault {
                status: LAUNCH_TIMEOUT,
                why: format!("the kernel does not end after {MOST_STEPS} instructions"),
            });
        }
        let inst = self.body.code[thread.at];
        thread.at += 1;
        if let Some((register, negated)) = inst.guard {
            if (thread.registers[register as usize] & 1 != 0) == negated {
                return Ok(());
            }
        }
        let [a, b, c] = [0, 1, 2].map(|at| self.value(thread, inst.from[at]));
        let result = match inst.op {
            Op::Mov(ty) => ty.cut(a),
            Op::Binary(op, ty) => binary(op, ty, a, b),
            Op::Unary(op, ty) => unary(op, ty, a),
            Op::MulWide(ty) => ty.wide().cut((ty.signed(a) * ty.signed(b)) as u64),
            Op::Mad(half, ty) => binary(Binary::Add, ty, binary(half, ty, a, b), c),
            Op::MadWide(ty) => {
                let product = (ty.signed(a) * ty.signed(b)) as u64;
                ty.wide().cut(product.wrapping_add(c))
            }
            Op::Fma(ty) => fused(ty, a, b, c),
            Op::Setp { compare: op, unordered, ty, combine, second } => {
                let first = u64::from(compare(op, unordered, ty, a, b));
                let with = |value| combine.map_or(value, |op| binary(op, Type::Pred, value, c));
                if second != NOWHERE {
                    thread.registers[second as usize] = with(first ^ 1);
                }
                with(first)
            }
            Op::Selp(ty) => ty.cut(if c & 1 != 0 { a } else { b }),
            Op::Cvt { to, from, round } => convert(to, from, round, a),
            Op::Ld(space, ty) => {
                let bits = self.load(thread, space, a.wrapping_add_signed(inst.offset), ty)?;
                ty.cut(bits)
            }
            Op::St(space, ty) => {
                return self.store(thread, space, a.wrapping_add_signed(inst.offset), ty, b);
            }
            Op::Atom(op, space, ty) => {
                let address = a.wrapping_add_signed(inst.offset);
                self.update(thread, space, address, ty, |old| atomic(op, ty, old, b, c))?
            }
            Op::Bra(target) => {
                thread.at = target;
                return Ok(());
            }
            Op::Bar => {
                thread.state = State::Waiting;
                return Ok(());
            }
            Op::Exit => {
                thread.state = State::Done;
                return Ok(());
            }
            Op::Trap => return Err(Fault { status: LAUNCH_FAILED, why: "a trap".to_owned() }),
            Op::Nothing => return Ok(()),
        };
        put(thread, &inst, result);
        Ok(())
    }

    /// The target of an address: shared and local memory have their own addresses, and windows in the generic space.
    fn resolve(&self, thread: &Thread, space: Space, address: u64) -> (Space, u64) {
        if space != Space::Generic {
            return (space, address);
        }
        let within =
            |window: u64, size: usize| address.checked_sub(window).filter(|at| *at < size as u64 + 4096);
        if let Some(at) = within(SHARED_WINDOW, self.shared.len()) {
            return (Space::Shared, at);
        }
        if let Some(at) = within(LOCAL_WINDOW, thread.local.len()) {
            return (Space::Local, at);
        }
        (Space::Global, address)
    }

    fn load(&mut self, thread: &Thread, space: Space, address: u64, ty: Type) -> Result<u64, Fault> {
        let mut bytes = [0u8; 8];
        let size = ty.size();
        let (space, address) = self.resolve(thread, space, address);
        aligned(thread, self.ctaid, address, size)?;
        let from = match space {
            Space::Param => &self.launch.parameters,
            Space::Shared => &self.shared,
            Space::Local => &thread.local,
            _ => {
                let region = self.view.find(address, size);
                let region = region.map_err(|why| illegal(thread, self.ctaid, "reads", &why))?;
                return Ok(match size {
                    1 => region.load::<u8>(address).into(),
                    2 => region.load::<u16>(address).into(),
                    4 => region.load::<u32>(address).into(),
                    _ => region.load::<u64>(address),
                });
            }
        };
        let here = usize::try_from(address).ok().and_then(|at| from.get(at..at.checked_add(size)?));
        let here = here.ok_or_else(|| {
            let why = format!("{size} bytes at {address:#x} of {} bytes of {space} memory", from.len());
            beyond(space, address, illegal(thread, self.ctaid, "reads", &why))
        })?;
        bytes[..size].copy_from_slice(here);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Replaces a value in one step, and returns the old one.
    fn update(
        &mut self,
        thread: &mut Thread,
        space: Space,
        address: u64,
        ty: Type,
        f: impl Fn(u64) -> u64,
    ) -> Result<u64, Fault> {
        // What is wrong with the address is said as for a load.
        let old = ty.cut(self.load(thread, space, address, ty)?);
        if let (Space::Global | Space::Generic, at) = self.resolve(thread, space, address) {
            let found: Result<&Region, _> = self.view.find(at, ty.size());
            let region = found.map_err(|why| illegal(thread, self.ctaid, "reads", &why))?;
            return Ok(match ty.size() {
                2 => region.update(at, |old: u16| f(ty.cut(old.into())) as u16).into(),
                4 => region.update(at, |old: u32| f(ty.cut(old.into())) as u32).into(),
                _ => region.update(at, |old| f(ty.cut(old))),
            });
        }
        self.store(thread, space, address, ty, f(old))?;
        Ok(old)
    }

    fn store(
        &mut self,
        thread: &mut Thread,
        space: Space,
        address: u64,
        ty: Type,
        value: u64,
    ) -> Result<(), Fault> {
        let bytes = &value.to_le_bytes()[..ty.size()];
        let (space, address) = self.resolve(thread, space, address);
        aligned(thread, self.ctaid, address, bytes.len())?;
        let (tid, ctaid) = (thread.tid, self.ctaid);
        let into = match space {
            Space::Shared => &mut self.shared,
            Space::Local => &mut thread.local,
            _ => {
                let region = self.view.find(address, bytes.len());
                let region = region.map_err(|why| illegal_at(tid, ctaid, "writes", &why))?;
                match bytes.len() {
                    1 => region.store(address, value as u8),
                    2 => region.store(address, value as u16),
                    4 => region.store(address, value as u32),
                    _ => region.store(address, value),
                }
                return Ok(());
            }
        };
        let length = into.len();
        let here =
            usize::try_from(address).ok().and_then(|at| into.get_mut(at..at.checked_add(bytes.len())?));
        let here = here.ok_or_else(|| {
            let why = format!("{} bytes at {address:#x} of {length} bytes of {space} memory", bytes.len());
            beyond(space, address, illegal_at(tid, ctaid, "writes", &why))
        })?;
        here.copy_from_slice(bytes);
        Ok(())
    }
}

fn put(thread: &mut Thread, inst: &Inst, value: u64) {
    if inst.to != NOWHERE {
        thread.registers[inst.to as usize] = value;
    }
}

fn aligned(thread: &Thread, ctaid: [u32; 3], address: u64, size: usize) -> Result<(), Fault> {
    if address % size as u64 == 0 {
        return Ok(());
    }
    let why = format!(
        "thread {:?} of block {ctaid:?} uses {size} bytes at {address:#x}, which is not aligned",
        thread.tid
    );
    Err(Fault { status: MISALIGNED_ADDRESS, why })
}

fn illegal(thread: &Thread, ctaid: [u32; 3], does: &str, why: &str) -> Fault {
    illegal_at(thread.tid, ctaid, does, why)
}

fn illegal_at(tid: [u32; 3], ctaid: [u32; 3], does: &str, why: &str) -> Fault {
    Fault { status: ILLEGAL_ADDRESS, why: format!("thread {tid:?} of block {ctaid:?} {does} {why}") }
}

/// Far beyond shared memory the device reports the instruction as illegal.
fn beyond(space: Space, address: u64, fault: Fault) -> Fault {
    let status =
        if space == Space::Shared && address >= SHARED_END { ILLEGAL_INSTRUCTION } else { fault.status };
    Fault { status, ..fault }
}

fn atomic(op: Atomic, ty: Type, old: u64, b: u64, c: u64) -> u64 {
    match op {
        Atomic::Add if ty == Type::F32 => (f32_of(old) + f32_of(b)).to_bits().into(),
        Atomic::Add if ty == Type::F64 => (f64_of(old) + f64_of(b)).to_bits(),
        Atomic::Add => binary(Binary::Add, ty, old, b),
        Atomic::Min => binary(Binary::Min, ty, old, b),
        Atomic::Max => binary(Binary::Max, ty, old, b),
        Atomic::And => binary(Binary::And, ty, old, b),
        Atomic::Or => binary(Binary::Or, ty, old, b),
        Atomic::Xor => binary(Binary::Xor, ty, old, b),
        Atomic::Inc => {
            if old >= ty.cut(b) {
                0
            } else {
                old + 1
            }
        }
        Atomic::Dec => {
            if old == 0 || old > ty.cut(b) {
                b
            } else {
                old - 1
            }
        }
        Atomic::Exch => b,
        Atomic::Cas => {
            if old == ty.cut(b) {
                c
            } else {
                old
            }
        }
    }
}
