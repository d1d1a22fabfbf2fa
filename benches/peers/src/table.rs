//! The table for people, and the file for programs.

use crate::measure::Row;
use crate::tasks::ALL;
use std::fs::File;
use std::io::{BufWriter, Result, Write};

pub fn find<'a>(rows: &'a [Row], task: &str, library: &str, threads: usize) -> Option<&'a Row> {
    rows.iter().find(|row| row.task == task && row.library == library && row.threads == threads)
}

/// Medians in nanoseconds, a line for each task and library, a column for each number of threads.
pub fn print(rows: &[Row], threads: &[usize]) {
    print!("\n| {:<32} | {:<20} |", "nanoseconds, medians; threads:", "");
    threads.iter().for_each(|count| print!(" {count:>7} |"));
    println!("\n|---|---|{}", "---:|".repeat(threads.len()));
    for task in ALL {
        let mut libraries: Vec<&str> = Vec::new();
        for row in rows.iter().filter(|row| row.task == task) {
            if !libraries.contains(&row.library) {
                libraries.push(row.library);
            }
        }
        for library in libraries {
            print!("| {task:<32} | {library:<20} |");
            for count in threads {
                match find(rows, task, library, *count) {
                    Some(row) => print!(" {:>7.1} |", row.median),
                    None => print!(" {:>7} |", "-"),
                }
            }
            println!();
        }
    }
}

pub fn write(rows: &[Row], file: &str) -> Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    writeln!(out, "task\tlibrary\tthreads\tlow\tmedian\thigh")?;
    for row in rows {
        writeln!(
            out,
            "{}\t{}\t{}\t{:.2}\t{:.2}\t{:.2}",
            row.task, row.library, row.threads, row.low, row.median, row.high
        )?;
    }
    out.flush()
}
