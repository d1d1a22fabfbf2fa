//! The simulated driver: its own controls, and whether it answers as a real one does.

mod controls;
mod facts;
mod ptx;
mod speed;
mod trace;
