//! What `printf` prints in a kernel: what the host's C library makes of the same format and arguments, if CUDA has the
//! conversion.
//!
//! `printf/recorded.tsv` has a format, its arguments and what glibc prints in each line; `printf/record.c` wrote it. The
//! arguments are hexadecimal, 4 or 8 bytes each; `'` begins a text, of which the argument is the address.

use crate::child::{child_succeeds, command};
use crate::gpu::{Buffer, Module, Result, Stream, pushed};
use crate::harness::{run, within};
use std::ffi::CString;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

const RECORDED: &str = include_str!("printf/recorded.tsv");

/// Formats, their arguments, and what an H200 prints: the conversions that CUDA does not have, as they stand.
const NO_CONVERSIONS: &[(&str, &str, &str)] = &[
    ("%y", "", "%y"),
    ("%5y|%d", "00000007", "%5y|7"),
    ("100%", "", "100%"),
    ("%5%|", "", "%5%|"),
    ("%n|", "", "%n|"),
    ("%m", "", "%m"),
    ("%5.|", "", "%5.|"),
    ("%.-3d|", "00000007", "%.-3d|"),
    ("%zu %ju %td %qd", "0000000000000005", "%zu %ju %td %qd"),
    ("%Lf", "4004000000000000", "%Lf"),
    ("%hhhd %lhd", "00000005", "%hhhd %lhd"),
    ("%3$d", "00000001", "%3$d"),
    ("%'d", "00000001", "%'d"),
    ("%.*f %12.*e %*.*f", "00000004 4004000000000000", "%.*f %12.*e %*.*f"),
    ("%-.*d", "ffffffff", "%-.*d"),
    ("%s|", "0000000000000000", "(null)|"),
    ("%lf %hf", "4004000000000000 4004000000000000", "2.500000 2.500000"),
];

/// Prints each of its formats with the 64 bytes of arguments that belong to it, and returns the results.
const PRINT_ROWS: &str = "
.version 6.0
.target sm_50
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);
.visible .entry print_rows(.param .u64 formats, .param .u64 arguments, .param .u64 results, .param .u32 count)
{
    .local .align 8 .b8 frame[64];
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<16>;
    ld.param.u64 %rd1, [formats];
    ld.param.u64 %rd2, [arguments];
    ld.param.u64 %rd3, [results];
    ld.param.u32 %r1, [count];
    mov.u64 %rd4, frame;
    cvta.local.u64 %rd5, %rd4;
rows:
    mov.u32 %r2, 0;
    mov.u64 %rd6, %rd2;
    mov.u64 %rd7, %rd4;
words:
    ld.global.u64 %rd8, [%rd6];
    st.local.u64 [%rd7], %rd8;
    add.u64 %rd6, %rd6, 8;
    add.u64 %rd7, %rd7, 8;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 8;
    @%p1 bra words;
    ld.global.u64 %rd9, [%rd1];
    {
    .param .b64 param0;
    .param .b64 param1;
    .param .b32 retval0;
    st.param.b64 [param0], %rd9;
    st.param.b64 [param1], %rd5;
    call.uni (retval0), vprintf, (param0, param1);
    ld.param.b32 %r3, [retval0];
    }
    st.global.u32 [%rd3], %r3;
    add.u64 %rd1, %rd1, 8;
    add.u64 %rd2, %rd2, 64;
    add.u64 %rd3, %rd3, 4;
    sub.u32 %r1, %r1, 1;
    setp.gt.u32 %p2, %r1, 0;
    @%p2 bra rows;
    ret;
}
";

/// Texts on the device, and how much of the memory they fill.
struct Texts {
    memory: Buffer<u8>,
    bytes: Vec<u8>,
}

impl Texts {
    /// The address that a text will have.
    fn add(&mut self, text: &str) -> u64 {
        let address = self.memory.address() + self.bytes.len() as u64;
        self.bytes.extend(CString::new(text).unwrap().as_bytes_with_nul());
        address
    }

    /// The 64 bytes of arguments that a line of the table means.
    fn arguments(&mut self, words: &str) -> [u64; 8] {
        let (mut bytes, mut rest) = (Vec::new(), words);
        while !rest.is_empty() {
            let (size, value);
            if let Some(text) = rest.strip_prefix('\'') {
                (size, value, rest) = (8, self.add(text), "");
            } else {
                let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
                (size, value, rest) = (word.len() / 2, u64::from_str_radix(word, 16).unwrap(), behind);
            }
            bytes.resize(bytes.len().next_multiple_of(size), 0);
            bytes.extend(&value.to_le_bytes()[..size]);
        }
        bytes.resize(64, 0);
        std::array::from_fn(|at| u64::from_le_bytes(bytes[8 * at..][..8].try_into().unwrap()))
    }
}

/// Has a kernel print the formats, each with its arguments, and returns the results.
fn print_rows<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Vec<i32>> {
    let memory = Buffer::uninitialized(1 << 20)?;
    let mut texts = Texts { memory, bytes: Vec::new() };
    let (formats, passed): (Vec<u64>, Vec<[u64; 8]>) =
        rows.map(|(format, words)| (texts.add(&format!("{format}\n")), texts.arguments(words))).unzip();
    texts.bytes.resize(1 << 20, 0);
    texts.memory.copy_from(&texts.bytes[..])?;
    let mut results = vec![0; formats.len()];
    let formats = Buffer::from_slice(&formats)?;
    let passed = Buffer::from_slice(&passed.concat())?;
    let printed = Buffer::from_slice(&results)?;
    let module = Module::load(PRINT_ROWS)?;
    let stream = Stream::new()?;
    let addresses = (formats.address(), passed.address(), printed.address());
    // SAFETY: the kernel reads and writes the three buffers within their lengths.
    unsafe {
        launch!(module.print_rows<<<1, 1, 0, stream>>>(addresses.0, addresses.1, addresses.2, results.len() as u32))
    }?;
    stream.synchronize()?;
    printed.copy_to(&mut results[..])?;
    Ok(results)
}

fn recorded() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    RECORDED.lines().map(|line| {
        let mut fields = line.splitn(3, '\t');
        let mut field = || fields.next().unwrap();
        (field(), field(), field())
    })
}

/// What the tests below run in a process of its own, for what it prints.
pub(crate) fn in_a_process_of_its_own() {
    run(|| {
        let _ctx = pushed();
        println!("printed:");
        if std::env::var("CUSTACK_TEST_PRINTF").as_deref() == Ok("to nobody") {
            // The reader goes before this input ends.
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            let results = print_rows(recorded().map(|row| (row.0, row.1))).unwrap();
            return eprintln!("{} results", results.len());
        }
        match std::env::var("CUSTACK_TEST_PRINTF").as_deref() {
            Ok("no conversions") => {
                drop(print_rows(NO_CONVERSIONS.iter().map(|row| (row.0, row.1))).unwrap())
            }
            _ => {
                let results = print_rows(recorded().map(|row| (row.0, row.1))).unwrap();
                for (row, result) in recorded().zip(results) {
                    assert!(row.0.contains('*') || result == 1, "{row:?} gave {result}");
                }
            }
        }
    });
}

/// Checks what a process of its own has printed, line by line.
#[track_caller]
fn printed<'a>(which: &'static str, rows: impl Iterator<Item = (&'a str, &'a str, &'a str)>) {
    let said = child_succeeds("printf", &[("CUSTACK_TEST_PRINTF", which)]);
    let mut lines = said.lines().skip_while(|line| !line.ends_with("printed:")).skip(1);
    let wrong: Vec<_> = rows
        .map(|row| (row, lines.next().unwrap_or("nothing")))
        .filter(|(row, line)| row.2 != *line)
        .collect();
    assert!(wrong.is_empty(), "{} lines are wrong: {:?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

#[test]
fn a_kernel_prints_what_c_prints() {
    printed("recorded", recorded());
}

#[test]
fn what_cuda_does_not_convert_is_printed_as_it_stands() {
    printed("no conversions", NO_CONVERSIONS.iter().copied());
}

#[test]
fn a_kernel_goes_on_when_nobody_reads_what_it_prints() {
    within(60, || {
        let mut command = command("printf");
        command.env("CUSTACK_TEST_PRINTF", "to nobody").stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.map(Result::unwrap).any(|line| line.ends_with("printed:")));
        drop(child.stdin.take());
        let complained = String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned();
        assert!(complained.contains("4000 results"), "{complained}");
    });
}
