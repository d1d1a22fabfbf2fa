//! Kernels as compilers write them: what CUDA's compiler made of CUDA C++, and what an H200 computed with it.
//!
//! `README.md` says what `kernels.tsv` has, and how the files were made.

#![allow(clippy::undocumented_unsafe_blocks, reason = "what makes each right is what its test is about")]

mod inputs;
mod near;
pub(crate) mod printf;

use crate::child::child_succeeds;
use crate::gpu::{Buffer, Config, Module, Result, Stream, pushed};
use crate::harness::{run, within};
use inputs::{Parameter, parameter};
use std::ffi::{CString, c_void};

const TABLE: &str = include_str!("kernels.tsv");

/// A line of the table.
struct Row {
    name: &'static str,
    config: Config,
    parameters: Vec<Parameter>,
    result: &'static str,
}

fn sizes(text: &str) -> (u32, u32, u32) {
    let mut sizes = text.split(',').map(|size| size.parse().unwrap());
    (sizes.next().unwrap(), sizes.next().unwrap_or(1), sizes.next().unwrap_or(1))
}

fn rows() -> impl Iterator<Item = Row> {
    TABLE.lines().skip(1).map(|line| {
        let fields: Vec<_> = line.split('\t').collect();
        let [name, grid, block, shared, kind, parameters, result] = fields[..] else { panic!("{line}") };
        let (grid, block) = (sizes(grid), sizes(block));
        let config =
            Config::new(grid, block).shared(shared.parse().unwrap()).cooperative(kind == "cooperative");
        let parameters = parameters.split(' ').zip(0..).map(|(text, at)| parameter(text, at)).collect();
        Row { name, config, parameters, result }
    })
}

fn row(name: &str) -> Row {
    rows().find(|row| row.name == name).unwrap()
}

/// What a parameter is while the kernel runs.
enum Passed {
    Buffer(Buffer<u8>),
    Value(Vec<u8>),
}

/// Runs a kernel, and returns its outputs in the order of its parameters.
fn outputs(row: &Row, text: &str) -> Result<Vec<u8>> {
    let _ctx = pushed();
    let module = Module::load(text.as_bytes())?;
    let stream = Stream::new()?;
    let function = module.get_function(&CString::new(row.name).unwrap())?;
    let passed: Vec<_> = row
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Value(bytes) => Passed::Value(bytes.clone()),
            Parameter::Buffer { bytes, .. } => Passed::Buffer(Buffer::from_slice(bytes).unwrap()),
        })
        .collect();
    let addresses: Vec<u64> = passed
        .iter()
        .map(|passed| match passed {
            Passed::Buffer(buffer) => buffer.address(),
            Passed::Value(_) => 0,
        })
        .collect();
    let mut arguments: Vec<*mut c_void> = passed
        .iter()
        .zip(&addresses)
        .map(|(passed, address)| match passed {
            Passed::Buffer(_) => std::ptr::from_ref(address).cast_mut().cast(),
            Passed::Value(bytes) => bytes.as_ptr().cast_mut().cast(),
        })
        .collect();
    unsafe { stream.launch(function, &row.config, &mut arguments) }?;
    stream.synchronize()?;
    let mut results = Vec::new();
    for (parameter, passed) in row.parameters.iter().zip(&passed) {
        if let (Parameter::Buffer { written: true, .. }, Passed::Buffer(buffer)) = (parameter, passed) {
            let mut bytes = vec![0; buffer.len()];
            buffer.copy_to(&mut bytes[..])?;
            results.extend(bytes);
        }
    }
    Ok(results)
}

/// FNV-1a of 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

fn compare(row: &Row, results: &[u8]) {
    if near::has_bounds(row.result) {
        return near::compare(row, results);
    }
    let found = format!("{:016x}", hash(results));
    let words: Vec<_> = results
        .chunks(4)
        .take(64)
        .map(|bytes| bytes.iter().rev().fold(String::new(), |word, byte| word + &format!("{byte:02x}")))
        .collect();
    assert_eq!(found, row.result, "{}: the outputs begin with {}", row.name, words.join(" "));
}

/// Runs a kernel, and compares what it computes with what an H200 computed.
fn agrees(name: &'static str, text: &'static str) {
    within(120, move || {
        run(|| {
            let row = row(name);
            match outputs(&row, text) {
                Ok(results) => compare(&row, &results),
                Err(error) => panic!("{name}: {error}"),
            }
        });
    });
}

/// The texts of the kernels, and a test for each that is compared here.
macro_rules! kernels {
    ($($name:ident)*; in a process of their own: $($other:ident)*) => {
        $(
            #[test]
            fn $name() {
                agrees(stringify!($name), text(stringify!($name)));
            }
        )*

        const TEXTS: &[(&str, &str)] = &[
            $((stringify!($name), include_str!(concat!(stringify!($name), ".ptx"))),)*
            $((stringify!($other), include_str!(concat!(stringify!($other), ".ptx"))),)*
        ];
    };
}

fn text(name: &str) -> &'static str {
    TEXTS.iter().find(|text| text.0 == name).unwrap().1
}

kernels! {
    deinterleave_pixels orbit_pairs transpose_words_in_shared heap_sort_in_local local_vectors_by_index
    split_and_join_registers kilobyte_message tables_in_constant_and_global
    chain_of_operators binomials_by_recursion structs_returned animals_virtual matrices_from_the_heap assertion_kept
    warp_sorting_network warp_segments_scanned warp_votes_compacted warp_keys_matched warp_reductions
    warp_mailboxes block_votes block_relay_by_named_barriers block_leavers grid_running_sums
    tally_every_operation sums_in_wide_types exchanges_in_turn lock_free_halfwords half_vectors_added
    bits_taken_apart mixing_hashes dots_sums_and_saturation lanes_in_a_word quotients_of_every_width
    interval_arithmetic parts_of_numbers functions_of_one_f32 functions_of_two_f32 functions_of_f64
    functions_made_fast casts_that_saturate polynomials_in_sixteen_bits
    bytecode_of_each_thread far_apart_cases ragged_rows volume_in_three_dimensions many_registers_bounded
    registers_of_the_machine tiles_that_count relaxation_of_a_grid copies_in_two_stages block_copy_by_the_group
    fragments_multiplied scopes_of_inline_code
    sort_by_digits sums_before_each tally_of_bytes product_by_tiles living_cells checksums_of_lines
    digests_of_256_bits shortest_ways longest_common_parts numbers_without_divisors
    queens_on_a_board powers_of_a_prime_field transform_over_a_field text_in_base_64
    runs_of_equal_bytes table_of_open_addresses widths_of_numbers_in_lists large_numbers_multiplied
    places_on_a_curve points_inside_of_a_ring rays_that_meet_balls sums_with_their_errors
    steps_of_three_bodies lines_solved_by_elimination blurred_and_sharpened random_walks_counted
    ways_through_a_graph groups_that_are_connected the_best_of_a_knapsack colours_of_other_spaces
    a_stack_of_lambdas warps_that_share_their_sums numbers_kept_in_order
    sums_of_rows products_of_tiles first_of_the_greatest sums_so_far means_removed
    sorted_in_blocks counted_into_bins steps_to_one halves_exchanged roots_by_newton days_of_dates;
    in a process of their own: report_by_printf assertion_broken
}

#[test]
fn each_kernel_of_the_table_has_its_text() {
    let (mut table, mut texts): (Vec<_>, Vec<_>) =
        (rows().map(|row| row.name).collect(), TEXTS.iter().map(|text| text.0).collect());
    table.sort_unstable();
    texts.sort_unstable();
    assert_eq!(table, texts);
}

#[test]
fn report_by_printf() {
    let said = child_succeeds("kernel", &[("CUSTACK_TEST_KERNEL", "report_by_printf")]);
    for line in ["values: 6.90 -1.232e+00 -8.52419\n", "[pad     |  z|0100|0000beef|1125899906842624| 12]\n"]
    {
        assert_eq!(said.matches(line).count(), 1, "{said}");
    }
}

#[test]
fn assertion_broken() {
    child_succeeds("kernel", &[("CUSTACK_TEST_KERNEL", "assertion_broken")]);
}

/// What the two tests above run in a process of its own: one for what it prints, the other because it takes its process
/// with it on a GPU.
pub(crate) fn in_a_process_of_its_own() {
    let name = std::env::var("CUSTACK_TEST_KERNEL").unwrap();
    let row = row(&name);
    run(|| match (outputs(&row, text(&name)), row.result) {
        (Err(error), "ASSERT") => assert_eq!(error, 710, "{error}"),
        (Ok(results), _) => compare(&row, &results),
        (Err(error), _) => panic!("{name}: {error}"),
    });
}
