//! Performs the acts on graphs that are built, and on what is made from graphs.

use super::act::{Act, On, Thing};
use super::actor::{Actor, Within};
use super::cells::{Out, order, used};
use super::world::{Built, Effect, Exec, Plan, Step};
use custack::error::{CudaError, CudaResult};
use custack::graph::{FillParams, Graph, GraphExec, InstantiateFlags, Node};
use custack::stream::{CaptureStatus, Stream};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Plan {
    fn of(context: usize) -> Plan {
        Plan { contexts: BTreeSet::from([context]), ..Plan::default() }
    }

    /// The node that the next one comes after.
    fn last(&self) -> Vec<Node> {
        self.steps.iter().rev().find_map(|step| step.node).into_iter().collect()
    }

    fn extend(&mut self, other: &Plan) {
        self.steps.extend(other.steps.iter().map(|step| Step { node: None, effect: step.effect.clone() }));
        self.contexts.extend(&other.contexts);
        self.vague |= other.vague;
        self.allocates |= other.allocates;
    }

    fn cells(&self) -> BTreeSet<usize> {
        self.steps.iter().flat_map(|step| step.effect.cells()).collect()
    }
}

impl Actor {
    /// Adds to the plan of the innermost capture.
    pub(super) fn planned(&mut self, effect: Effect) {
        let frame = self.frames.last_mut().unwrap();
        frame.plan.steps.push(Step { node: None, effect });
    }

    /// Judges a call with a graph or an executable, all of whose contexts must be alive.
    fn judge_plan<T>(&self, what: &str, result: &CudaResult<T>, plan: &Plan, also: &[CudaError]) {
        if plan.vague && matches!(result, Ok(_) | Err(CudaError::ContextIsDestroyed)) {
            return;
        }
        let refused = [CudaError::NotSupported, CudaError::InvalidValue];
        if plan.allocates && result.as_ref().is_err_and(|error| refused.contains(error)) {
            return;
        }
        self.judge(what, result, plan.contexts.iter().copied(), also);
    }

    fn with_graph(&mut self, n: usize, f: impl FnOnce(&mut Actor, &mut Built)) {
        let Some((at, mut built)) = self.world(|world| world.graphs.take(n)) else { return };
        f(self, &mut built);
        self.world(|world| world.graphs.put(at, built));
    }

    /// Adds a node behind the last one; whether that was possible.
    fn add(
        &mut self,
        built: &mut Built,
        contexts: &[usize],
        effect: Effect,
        add: impl FnOnce(&mut Graph, &[Node]) -> CudaResult<Node>,
    ) -> bool {
        if built.plan.closed {
            return false;
        }
        let result = add(&mut built.graph, &built.plan.last());
        let mut plan = built.plan.clone();
        plan.contexts.extend(contexts);
        self.judge_plan("add a node", &result, &plan, &[]);
        let added = result.is_ok();
        if added {
            built.plan = plan;
        } else {
            // A context that was pinned for a node that could not be added stays pinned.
            built.plan.vague |= plan.contexts != built.plan.contexts;
        }
        built.plan.steps.extend(result.ok().map(|node| Step { node: Some(node), effect }));
        added
    }

    pub(super) fn new_graph(&self, graph: Graph, plan: Plan) {
        let dropped = self.world(|world| {
            if world.is_full(Thing::Graph) {
                return Some(graph);
            }
            let id = world.id();
            world.graphs.add(Built { graph, plan, id });
            None
        });
        drop(dropped);
    }

    pub(super) fn new_exec(&self, exec: GraphExec, plan: Plan, of: usize) {
        let dropped = self.world(|world| {
            if world.is_full(Thing::Executable) {
                return Some(exec);
            }
            world.execs.add(Exec { exec, plan, of });
            None
        });
        drop(dropped);
    }

    /// Performs the act, if it is one of these.
    pub(super) fn on_graphs(&mut self, act: &Act, within: Within<'_>) -> bool {
        match *act {
            Act::MakeGraph(n) => {
                let at = self.world(|world| world.context(n));
                let made = Graph::new(&self.handle(at));
                self.judge("make a graph", &made, [at], &[]);
                made.into_iter().for_each(|graph| self.new_graph(graph, Plan::of(at)));
            }
            Act::AddHost(n) => self.with_graph(n, |this, built| {
                let token = this.token();
                let effect = Effect::Call(Arc::clone(&token.0));
                this.add(built, &[], effect, |graph, after| graph.add_host_func(after, move || token.ran()));
            }),
            Act::AddScratch(n) => self.with_graph(n, |this, built| this.add_scratch(built)),
            Act::AddFill(n, cell, value) => self.with_cell(cell, |this, cell| {
                let (memory, fill) =
                    (Arc::clone(&cell.memory), FillParams::elements(cell.address(), value, 4, 4));
                let id = cell.id;
                this.with_graph(n, |this, built| {
                    // A fill is in the graph's own context.
                    if built.graph.context() == memory.context() {
                        this.add(built, &[], Effect::Fill(id, value), |graph, after| {
                            // SAFETY: the graph keeps the memory, and launches come one after the other.
                            unsafe { graph.add_fill(after, &fill, memory) }
                        });
                    }
                });
            }),
            Act::AddPut(n, cell, function, value) => {
                let Some((function, of)) = self.world(|world| world.functions.get(function).cloned()) else {
                    return true;
                };
                self.with_cell(cell, |this, cell| {
                    if cell.context != of {
                        return;
                    }
                    let (memory, address, id) = (Arc::clone(&cell.memory), cell.address(), cell.id);
                    this.with_graph(n, |this, built| {
                        this.add(built, &[of], Effect::Put(id, value), |graph, after| {
                            let to = (&raw const address).cast_mut().cast::<c_void>();
                            let args = [to, (&raw const value).cast_mut().cast()];
                            let keep = (memory, Arc::clone(&function));
                            // SAFETY: the graph keeps the kernel and the memory.
                            unsafe { graph.add_kernel(after, &function, 1, 1, 0, &args, keep) }
                        });
                    });
                });
            }
            Act::AddEvent(n, event, records) => {
                let Some((event, of)) = self.world(|world| world.events.get(event).cloned()) else {
                    return true;
                };
                self.with_graph(n, |this, built| {
                    this.add(built, &[of], Effect::Nothing, |graph, after| match records {
                        true => graph.add_event_record(after, &event),
                        false => graph.add_event_wait(after, &event),
                    });
                });
            }
            Act::AddChild(n, m) => self.with_graph(m, |this, child| {
                if child.plan.vague || child.plan.allocates {
                    return;
                }
                let needs: Vec<_> = child.plan.contexts.iter().copied().collect();
                this.with_graph(n, |this, built| {
                    let add = |graph: &mut Graph, after: &[Node]| graph.add_child(after, &mut child.graph);
                    if this.add(built, &needs, Effect::Nothing, add) {
                        built.plan.extend(&child.plan);
                    }
                });
            }),
            Act::SetHost(n) => self.set_host(n),
            Act::DestroyLast(n) => self.with_graph(n, |this, built| {
                let Some(step) = built.plan.steps.last().filter(|_| !built.plan.closed) else { return };
                let Some(node) = step.node else { return };
                let result = built.graph.destroy_node(node);
                this.judge_plan("destroy a node", &result, &built.plan, &[]);
                if result.is_ok() {
                    built.plan.steps.pop();
                }
            }),
            Act::Keep(n) => {
                let token = self.token();
                self.with_graph(n, |this, built| {
                    let result = built.graph.keep(token);
                    this.judge_plan("keep a value", &result, &built.plan, &[]);
                });
            }
            Act::CloneGraph(n) => self.with_graph(n, |this, built| {
                let result = built.graph.try_clone();
                this.judge_plan("clone a graph", &result, &built.plan, &[]);
                let mut plan = Plan { closed: true, ..Plan::default() };
                plan.extend(&built.plan);
                result.into_iter().for_each(|graph| this.new_graph(graph, plan.clone()));
            }),
            Act::Instantiate(n, stream) => self.instantiate(n, stream),
            Act::Launch(n, on) => self.launch(n, on, within),
            Act::Update(n, m) => self.update(n, m),
            Act::ExecSetHost(n, m) => self.exec_set_host(n, m),
            _ => return false,
        }
        true
    }

    /// Adds nodes that allocate, fill and free.
    fn add_scratch(&mut self, built: &mut Built) {
        // Nothing is taken out of it any more, also if one of these fails.
        built.plan.allocates |= !built.plan.closed;
        let mut made = None;
        self.add(built, &[], Effect::Nothing, |graph, after| {
            let (node, address) = graph.add_allocation(after, 16)?;
            made = Some((node, address));
            Ok(node)
        });
        let Some((allocation, address)) = made else { return };
        let fill = FillParams::elements(address, 7, 4, 4);
        // SAFETY: the graph allocates the memory before it.
        self.add(built, &[], Effect::Nothing, |graph, after| unsafe { graph.add_fill(after, &fill, ()) });
        let freed = self.add(built, &[], Effect::Nothing, |graph, after| graph.add_free(after, allocation));
        if !freed {
            self.problem("memory of a graph is not freed".to_owned());
        }
    }

    /// Gives the first node that calls something another function.
    fn set_host(&mut self, n: usize) {
        let token = self.token();
        self.with_graph(n, |this, built| {
            let Some((at, node)) = first_call(&built.plan) else { return };
            let counter = Arc::clone(&token.0);
            let result = built.graph.set_host_func(node, move || token.ran());
            this.judge_plan("set a function", &result, &built.plan, &[]);
            if result.is_ok() {
                built.plan.steps[at].effect = Effect::Call(counter);
            }
        });
    }

    fn instantiate(&mut self, n: usize, stream: Option<usize>) {
        let upload = stream.and_then(|n| self.stream(On::Own(n), None));
        self.with_graph(n, |this, built| {
            let flags = InstantiateFlags::AUTO_FREE_ON_LAUNCH;
            let mut plan = built.plan.clone();
            let result = match &upload {
                Some((stream, context)) => {
                    plan.contexts.insert(*context);
                    built.graph.instantiate_and_upload(flags, stream)
                }
                None => built.graph.instantiate(flags),
            };
            this.judge_plan("instantiate", &result, &plan, &[]);
            let id = built.id;
            result.into_iter().for_each(|exec| this.new_exec(exec, plan.clone(), id));
        });
    }

    fn launch(&mut self, n: usize, on: On, within: Within<'_>) {
        let Some((stream, context)) = self.stream(on, within) else { return };
        let Some((at, mut exec)) = self.world(|world| world.execs.take(n)) else { return };
        let ids = exec.plan.cells();
        let cells: Option<Vec<Out>> = self.world(|world| {
            if ids.iter().any(|id| world.busy.contains(id)) {
                return None;
            }
            let taken: Vec<_> =
                ids.iter().filter_map(|id| world.cells.take_if(|cell| cell.id == *id)).collect();
            world.busy.extend(taken.iter().map(|(_, cell)| cell.id));
            Some(taken)
        });
        if let Some(mut cells) = cells {
            self.launched(&mut exec, &mut cells, &stream, context);
            self.world(|world| cells.into_iter().for_each(|cell| world.put_cell(cell)));
        }
        self.world(|world| world.execs.put(at, exec));
    }

    fn launched(&mut self, exec: &mut Exec, cells: &mut [Out], stream: &Stream, context: usize) {
        let mut needs: BTreeSet<_> =
            cells.iter().filter_map(|(_, cell)| Some(cell.last.as_ref()?.1)).collect();
        needs.insert(context);
        if stream.capture_status() == Ok(CaptureStatus::None) {
            let before = cells.iter().try_for_each(|(_, cell)| order(cell, stream));
            self.judge("have a stream wait before a launch", &before, needs.iter().copied(), &[]);
            if before.is_err() {
                return;
            }
        }
        let result = exec.exec.launch(stream);
        let plan = Plan {
            contexts: exec.plan.contexts.iter().copied().chain([context]).collect(),
            ..exec.plan.clone()
        };
        self.judge_plan("launch a graph", &result, &plan, &[]);
        if result.is_err() {
            return;
        }
        let mut borrowed: Vec<_> = cells.iter_mut().map(|(_, cell)| cell).collect();
        for step in &plan.steps {
            step.effect.apply(&mut borrowed);
            if let Effect::Call(counter) = &step.effect {
                counter.expected.fetch_add(1, Ordering::SeqCst);
                counter.contexts.lock().unwrap().extend(&plan.contexts);
            }
        }
        cells.iter_mut().for_each(|(_, cell)| used(cell, stream, context));
    }

    fn update(&mut self, n: usize, m: usize) {
        let Some((at, mut exec)) = self.world(|world| world.execs.take(n)) else { return };
        self.with_graph(m, |this, built| {
            let result = exec.exec.update(&mut built.graph).map_err(|refused| refused.error);
            let mut plan = exec.plan.clone();
            plan.contexts.extend(&built.plan.contexts);
            plan.vague |= built.plan.vague;
            plan.allocates |= built.plan.allocates;
            let also = [CudaError::GraphExecUpdateFailure, CudaError::NotSupported];
            this.judge_plan("update an executable", &result, &plan, &also);
            if result.is_ok() {
                plan.steps.clone_from(&built.plan.steps);
                plan.allocates |= built.plan.allocates;
            }
            // Contexts that were pinned for an update stay pinned.
            exec.plan.vague |= result.is_err();
            if result.is_ok() {
                exec.plan = plan;
            }
        });
        self.world(|world| world.execs.put(at, exec));
    }

    fn exec_set_host(&mut self, n: usize, m: usize) {
        let token = self.token();
        let Some((at, mut exec)) = self.world(|world| world.execs.take(n)) else { return };
        self.with_graph(m, |this, built| {
            let Some((_, node)) = first_call(&built.plan) else { return };
            let here = exec.plan.steps.iter().position(|step| step.node == Some(node));
            let (Some(here), true) = (here, exec.of == built.id) else { return };
            let counter = Arc::clone(&token.0);
            let result = exec.exec.set_host_func(&mut built.graph, node, move || token.ran());
            let mut plan = exec.plan.clone();
            plan.contexts.extend(&built.plan.contexts);
            this.judge_plan("set a function of an executable", &result, &plan, &[]);
            if result.is_ok() {
                exec.plan.steps[here].effect = Effect::Call(counter);
            }
        });
        self.world(|world| world.execs.put(at, exec));
    }
}

/// The first node that calls a function, and is known.
fn first_call(plan: &Plan) -> Option<(usize, Node)> {
    let call = |(at, step): (usize, &Step)| {
        Some((at, step.node.filter(|_| matches!(step.effect, Effect::Call(_)))?))
    };
    plan.steps.iter().enumerate().find_map(call)
}
