//! How PTX is read: its numbers, its forms, and texts of any size.

mod numbers;
mod size;
mod syntax;
