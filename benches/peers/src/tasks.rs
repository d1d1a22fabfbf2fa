//! The tasks, by their names in the table.

use std::ffi::CStr;

pub const CURRENT: &str = "a. scope, context current";
pub const EMPTY: &str = "b. scope from an empty stack";
pub const SWITCH: &str = "c. scope over another context";
pub const PUSH_POP: &str = "d. push + pop";
pub const SET: &str = "d. set_current";
pub const GET: &str = "d. get_current";
pub const QUERY: &str = "e. priority range, current";
pub const QUERY_OTHER: &str = "e. priority range, not current";
pub const HANDLE: &str = "f. handle made and dropped";
pub const NESTED: [(&str, usize); 4] = [
    ("g. nested, depth 1", 1),
    ("g. nested, depth 10", 10),
    ("g. nested, depth 100", 100),
    ("g. nested, depth 1000", 1000),
];
pub const DEVICES: &str = "h. scope on each device in turn";
pub const LAUNCH: &str = "i. launch of an empty kernel";
pub const RECORD: &str = "j. event record";
pub const PASSED: &str = "k. event query";
pub const IDLE: &str = "l. stream synchronize, idle";
pub const STREAM: &str = "m. stream made and dropped";
pub const FUNCTION: &str = "n. get_function";
pub const LAUNCH_NAMED: &str = "o. launch by name";
pub const COPY: &str = "p. async copy of 4 KiB, locked";
pub const BUFFER: &str = "q. 4 KiB buffer made and dropped";
pub const FOREIGN: &str = "r. scope, foreign and current";
pub const FOREIGN_SWITCH: &str = "s. scope over a foreign context";
pub const GRAPHS: [(&str, usize); 3] = [
    ("t. graph of 1 empty kernel", 1),
    ("t. graph of 10 empty kernels", 10),
    ("t. graph of 100 empty kernels", 100),
];
pub const ORDERED: &str = "u. 4 KiB in stream order";
pub const AWAITED: &str = "v. empty kernel, until awake";
pub const LONG: &str = "w. kernel of 1 ms, until awake";

/// What is done in the first device's primary context: `cuda-async` uses no other.
pub const IN_PRIMARY: [&str; 2] = [AWAITED, LONG];

/// The kernel that is launched.
pub const EMPTY_KERNEL: &CStr = c".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty(.param .u64 a, .param .u32 b) { ret; }\n";

/// A kernel that runs for a millisecond.
pub const LONG_KERNEL: &CStr = c".version 7.0
.target sm_70
.address_size 64
.visible .entry long() {
    .reg .u64 %begun, %now;
    .reg .pred %over;
    mov.u64 %begun, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begun;
    setp.ge.u64 %over, %now, 1000000;
    @!%over bra again;
    ret;
}
";

/// The size in bytes of copies and buffers.
pub const SIZE: usize = 4096;

/// In the order of the table.
pub const ALL: [&str; 31] = [
    CURRENT,
    EMPTY,
    SWITCH,
    PUSH_POP,
    SET,
    GET,
    QUERY,
    QUERY_OTHER,
    HANDLE,
    NESTED[0].0,
    NESTED[1].0,
    NESTED[2].0,
    NESTED[3].0,
    DEVICES,
    LAUNCH,
    RECORD,
    PASSED,
    IDLE,
    STREAM,
    FUNCTION,
    LAUNCH_NAMED,
    COPY,
    BUFFER,
    FOREIGN,
    FOREIGN_SWITCH,
    GRAPHS[0].0,
    GRAPHS[1].0,
    GRAPHS[2].0,
    ORDERED,
    AWAITED,
    LONG,
];
