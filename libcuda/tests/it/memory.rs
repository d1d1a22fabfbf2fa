//! Programs in C that ask for memory that is not there.

use super::clients::{compiled, run};
use super::{folder, skip};
use std::process::Command;

#[test]
fn only_memory_that_the_program_has_is_registered() {
    let name = "only_memory_that_the_program_has_is_registered";
    let Some(program) = compiled("registered") else { return skip(name, "there is no C compiler") };
    let output = run(&program);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        said,
        "there: 0\nthere twice: 712\nin part: 712\nmore than there can be: 1\nmore behind it: 1\n\
         gone: 1\na fill of it: 1\nwith a hole: 1\nbefore the hole: 0\nread-only in part: 1\n\
         of several mappings, to be read: 0\nclosed: 1\n\
         unregistered: 0\nunregistered twice: 713\nthe end: 0\n"
    );
}

#[test]
fn what_the_host_has_no_room_for_is_refused_and_the_program_goes_on() {
    let name = "what_the_host_has_no_room_for_is_refused_and_the_program_goes_on";
    let Some(program) = compiled("room") else { return skip(name, "there is no C compiler") };
    // In KiB, of addresses, whatever memory the machine has.
    let limited = ["-c", "ulimit -v 4000000 && exec timeout 100 \"$0\""];
    let output =
        Command::new("sh").args(limited).arg(program).env("LD_LIBRARY_PATH", folder()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        said,
        "allocates: 0\nallocates again: 0\nfills: 2\nfills later: 2\nfills rows: 2\nfills many short rows: 2\n\
         fills with zeros: 0\ncopies what is zero: 0\nfills a part: 0\ncopies all: 0\nreads: 0\nhas read: 7 0\n\
         page-locks: 2\nallocates managed memory: 2\nallocates less of it: 0\nasks who accesses it: 2\n\
         has done all: 0\nlaunches: 0\nwaits: 2\n"
    );
}
