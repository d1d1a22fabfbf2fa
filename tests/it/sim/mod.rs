//! The simulated driver: its controls, and whether it answers as a real driver does.

mod arith;
mod controls;
mod facts;
mod pool;
mod ptx;
mod speed;
mod trace;
