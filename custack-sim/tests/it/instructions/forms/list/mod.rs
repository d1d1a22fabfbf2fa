//! All forms: a file for each family.

mod approximate;
mod atomics;
mod bits;
mod carries;
mod compare;
mod convert;
mod crowds;
mod extremes;
mod floats;
mod fold;
mod fragments;
mod gates;
mod integers;
mod loads;
mod matrices;
mod moves;
mod packed;
mod places;
mod quads;
mod small;
mod sums;
mod surfaces;
mod texels;
mod textures;
mod video;
mod video_lanes;

use super::form::{Form, List};

pub(super) use matrices::{TILES, raw_words};
pub(super) use places::{given, variables};
pub(super) use video::differs;

/// A family: its name, and what lists its forms.
type Family = (&'static str, fn(&mut List));

/// The families, by the names of their tests.
pub(super) const FAMILIES: [Family; 14] = [
    ("integers", integers::list),
    ("packed", packed::list),
    ("carries", carries::list),
    ("bits", bits::list),
    ("floats", floats::list),
    ("extremes", extremes::list),
    ("approximate", approximate::list),
    ("predicates", compare::predicates),
    ("numbers_of_comparisons", compare::numbers),
    ("moves", moves::list),
    ("conversions", convert::list),
    ("small_formats", small::list),
    ("video", video::list),
    ("video_lanes", video_lanes::list),
];

/// Families of forms that work on memory, each of which `share/` has as an example.
pub(super) const ON_MEMORY: [Family; 7] = [
    ("loads_and_stores", loads::list),
    ("atomics", atomics::list),
    ("barriers", gates::list),
    ("matrices", matrices::list),
    ("sums_of_products", matrices::sums),
    ("textures", textures::list),
    ("surfaces", surfaces::list),
];

/// Forms of which the record has nothing, as their answers are not the same every time, and those with a record of their own.
pub(super) fn is_not_recorded(name: &str) -> bool {
    name.ends_with("of different operands of a block, returned")
        || name.ends_with("of any floats")
        || is_only_simulated(name)
        || name.starts_with("tld4")
            && name.contains(", nearest")
            && [" f16,", " f32,"].iter().any(|it| name.contains(it))
        || gates::waits_for_a_state(name)
}

/// Reads of cubes, of which an H200 chooses other elements near to the edges of these, and filters them otherwise, and gathered
/// integers of 8 bits with a sign, whose last bit it rounds otherwise: they are held to the reference on the simulated driver
/// only.
pub(super) fn is_only_simulated(name: &str) -> bool {
    name.contains("cube.") || name.starts_with("tld4") && name.contains("s8 as f32")
}

/// Those of the families that `CUSTACK_FORMS` names, or all.
pub(super) fn chosen() -> Vec<Form> {
    match std::env::var("CUSTACK_FORMS") {
        Ok(names) => names.split(',').flat_map(family).collect(),
        Err(_) => on_memory(),
    }
}

/// All forms that work on memory.
pub(super) fn on_memory() -> Vec<Form> {
    let mut list = List::default();
    ON_MEMORY.iter().for_each(|family| family.1(&mut list));
    list.0
}

pub(super) fn family(name: &str) -> Vec<Form> {
    let mut list = List::default();
    FAMILIES.iter().chain(&ON_MEMORY).find(|family| family.0 == name).unwrap().1(&mut list);
    list.0
}

/// Forms of which only a GPU can say what they compute: the recorder tells where they differ from what is supposed here.
pub(super) fn undecided() -> Vec<Form> {
    let mut list = List::default();
    floats::out_of_bounds(&mut list);
    list.0
}

/// All forms that are compared.
pub(super) fn all() -> Vec<Form> {
    let mut list = List::default();
    FAMILIES.iter().for_each(|family| family.1(&mut list));
    list.0
}
