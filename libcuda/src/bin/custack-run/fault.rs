//! What `--fail` asks for.

use custack_sys::{ERRORS, FUNCTIONS};

/// The same `FUNCTION:N:CODE` with a name that the library counts calls by, and what is to be said of it, if anything.
pub(crate) fn fault(text: &str) -> Result<(String, Option<String>), String> {
    let [function, nth, code] = text.split(':').collect::<Vec<_>>()[..] else {
        return Err(format!("{text:?} is not FUNCTION:N:CODE, such as cuMemAlloc_v2:3:2"));
    };
    let name = function_of(function)?;
    if !nth.parse().is_ok_and(|nth: u64| nth > 0) {
        return Err(format!("{nth:?} is not a number from 1 on: the first call of a function is 1"));
    }
    match code.parse() {
        Ok(0) => return Err("0 is no error, but what a call returns that succeeds".to_owned()),
        Ok(code) if ERRORS.iter().any(|error| error.0 == code) => {}
        _ => {
            return Err(format!(
                "{code:?} is not the number of an error of the driver, such as 2 (CUDA_ERROR_OUT_OF_MEMORY)"
            ));
        }
    }
    let said = (name != function).then(|| format!("{function} is taken for {name}"));
    Ok((format!("{name}:{nth}:{code}"), said))
}

/// The name without the number of the form, such as `_v2`, and without the mark of the default stream of each thread.
fn base(name: &str) -> &str {
    let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    match name.rsplit_once("_v") {
        Some((base, form)) if form.parse::<u32>().is_ok() => base,
        _ => name,
    }
}

/// The function of the library's that is meant: the one of this name, as the program's symbol has it, or else the newest
/// of those that a program may call by this name: headers give `cuMemAlloc` another symbol.
fn function_of(name: &str) -> Result<&'static str, String> {
    let without_mark = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    for exact in [name, without_mark] {
        if let Some(found) = FUNCTIONS.iter().find(|function| **function == exact) {
            return Ok(found);
        }
    }
    if base(name) == without_mark {
        let forms = FUNCTIONS.iter().filter(|function| base(function) == without_mark);
        // Of two forms, the one with the greater number is longer or greater.
        if let Some(newest) = forms.max_by_key(|function| (function.len(), **function)) {
            return Ok(newest);
        }
    }
    let nearest = FUNCTIONS.iter().min_by_key(|function| distance(function, name));
    let nearest = nearest.map_or(String::new(), |nearest| format!("; the nearest is {nearest}"));
    Err(format!("{name} is not a driver function whose calls can fail on purpose{nearest}"))
}

/// How many characters must be put in, left out or replaced in one of the names to get the other, whatever their case.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (at, from) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, to) in other.chars().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
