//! Programs in C that ask for memory that is not there.

use super::clients::{compiled, run};
use super::skip;

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
         gone: 1\na fill of it: 1\nwith a hole: 1\nbefore the hole: 0\nof several mappings: 0\nclosed: 1\n\
         unregistered: 0\nunregistered twice: 713\nthe end: 0\n"
    );
}
