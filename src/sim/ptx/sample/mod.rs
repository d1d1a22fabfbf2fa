//! What a texture's coordinates stand for: which elements are read, and how they are filtered. The rules are those of the
//! programming guide's appendix on fetching.

mod cube;
mod surface;
mod texel;

pub(super) use surface::{Beyond, outside_of, place};
pub(super) use texel::store_converted;

use crate::sim::texture::{Bound, Grid, Outside, Sampler};
use texel::{Found, Texels, filterable, filtered};

/// How an instruction sees a texture or a surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Geometry {
    One,
    Two,
    Three,
    OneLayered,
    TwoLayered,
    Cube,
    CubeLayered,
}

impl Geometry {
    pub(super) fn is_layered(self) -> bool {
        matches!(self, Geometry::OneLayered | Geometry::TwoLayered | Geometry::CubeLayered)
    }

    /// How many coordinates follow the layer.
    pub(super) fn coordinates(self) -> usize {
        match self {
            Geometry::One | Geometry::OneLayered => 1,
            Geometry::Two | Geometry::TwoLayered => 2,
            Geometry::Three | Geometry::Cube | Geometry::CubeLayered => 3,
        }
    }

    fn is_cube(self) -> bool {
        matches!(self, Geometry::Cube | Geometry::CubeLayered)
    }

    /// Whether a texture of this grid can be read so.
    pub(super) fn fits(self, grid: &Grid) -> bool {
        let dimensions = if self.is_cube() { 2 } else { self.coordinates() as u8 };
        dimensions == grid.dimensions
            && self.is_layered() == grid.is_layered
            && self.is_cube() == grid.is_cube
    }
}

/// Coordinates, as they are in registers.
#[derive(Debug, Clone, Copy)]
pub(super) enum At {
    Floats([f32; 3]),
    Integers([i32; 3]),
}

/// The element on one axis, and how much of the next one is added, in 256ths.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    first: i64,
    next: u32,
}

/// Normalised coordinates have 21 bits behind the point, as observed on an H200; the others are cut off.
const NORMALIZED: f64 = (1 << 21) as f64;
/// Weights have 8 bits behind the point.
const WHOLE: u32 = 256;

/// Which elements a coordinate stands for. What is repeated is so by what is behind the point.
fn step(coordinate: f32, size: usize, (sampler, outside): (&Sampler, Outside), filters: bool) -> Step {
    let mut at = if coordinate.is_subnormal() { 0.0 } else { f64::from(coordinate) };
    let period = match outside {
        Outside::Wrap => 1.0,
        Outside::Mirror => 2.0,
        Outside::Clamp | Outside::Border => 0.0,
    };
    if period > 0.0 {
        at = if at.is_finite() { at - period * (at / period).floor() } else { 0.0 };
    }
    if sampler.is_normalized {
        at = (at * NORMALIZED).floor() / NORMALIZED * size as f64;
    }
    if !filters {
        return Step { first: at.floor() as i64, next: 0 };
    }
    let fixed = ((at * f64::from(WHOLE) + 0.5).floor() as i64).saturating_sub(128);
    Step { first: fixed >> 8, next: (fixed & 255) as u32 }
}

/// The element that is read for one of this number; `None` for none.
fn within(at: i64, size: usize, outside: Outside) -> Option<usize> {
    let size = size as i64;
    let found = match outside {
        _ if (0..size).contains(&at) => at,
        _ if size == 0 => return None,
        Outside::Wrap => at.rem_euclid(size),
        Outside::Mirror => {
            let at = at.rem_euclid(2 * size);
            at.min(2 * size - 1 - at)
        }
        Outside::Clamp => at.clamp(0, size - 1),
        Outside::Border => return None,
    };
    Some(found as usize)
}

/// What is found of the elements around a place: the steps on each axis, and the slice.
struct Footprint {
    steps: [Step; 3],
    axes: usize,
    outside: [Outside; 3],
    slice: usize,
    /// What is beyond where nothing else is read.
    beyond: Found,
}

fn footprint(
    bound: &Bound,
    sampler: &Sampler,
    geometry: Geometry,
    (layer, at): (u32, At),
    filters: bool,
) -> Footprint {
    let grid = &bound.grid;
    let is_beyond = layer as usize >= grid.layers();
    let layer = (layer as usize).min(grid.layers() - 1);
    let mut found = Footprint {
        steps: [Step::default(); 3],
        axes: geometry.coordinates(),
        outside: sampler.outside,
        slice: 0,
        beyond: Found::Border,
    };
    if geometry.is_layered() {
        found.slice = layer;
    }
    let place = match at {
        At::Integers(at) => {
            // Modes are of coordinates that are floats.
            (found.outside, found.beyond) = ([Outside::Border; 3], Found::Nothing);
            found.steps = at.map(|at| Step { first: at.into(), next: 0 });
            if is_beyond && geometry.is_layered() {
                found.steps[0].first = i64::MAX;
            }
            return found;
        }
        At::Floats(at) if geometry.is_cube() => {
            let (face, [s, t]) = cube::face(at);
            found.slice = found.slice * 6 + face;
            found.outside = [Outside::Clamp; 3];
            found.axes = 2;
            [s, t, 0.0]
        }
        // A line is a plane with one row, and is filtered with what is above it.
        At::Floats([x, ..]) if geometry == Geometry::One => {
            found.axes = 2;
            [x, 0.0, 0.0]
        }
        At::Floats(at) => at,
    };
    for (axis, coordinate) in place.into_iter().enumerate().take(found.axes) {
        found.steps[axis] = step(coordinate, grid.size[axis], (sampler, found.outside[axis]), filters);
    }
    found
}

impl Footprint {
    /// What is at a corner, whose bits say on which axes it is the next element.
    fn corner(&self, grid: &Grid, corner: usize) -> Found {
        let mut found = [0, 0, self.slice];
        for (axis, to) in found.iter_mut().enumerate().take(self.axes) {
            let at = self.steps[axis].first + (corner >> axis & 1) as i64;
            match within(at, grid.size[axis], self.outside[axis]) {
                Some(at) => *to = at,
                None => return self.beyond,
            }
        }
        Found::Element(found)
    }

    /// How much of each corner's element is in the result, in 256ths, as an H200 has them: what is on either side in the
    /// third dimension is divided in the first one and then in the second, and rounded each time. Where two are as near,
    /// the corners get more that are equal in both.
    fn weights(&self) -> [u32; 8] {
        let [x, y, z] = self.steps.map(|step| step.next);
        let up = |product: u32| (product + WHOLE / 2) / WHOLE;
        let down = |product: u32| (product + WHOLE / 2 - 1) / WHOLE;
        let mut found = [0; 8];
        for (side, all) in [WHOLE - z, z].into_iter().enumerate() {
            let right = up(all * x);
            let left = all - right;
            let (both, below) = (up(right * y), down(left * y));
            found[4 * side..][..4].copy_from_slice(&[left - below, right - both, below, both]);
        }
        found
    }
}

/// What an instruction reads: four channels, as the bits of floats or as integers.
pub(super) fn fetch<E>(
    bound: &Bound,
    geometry: Geometry,
    at: (u32, At),
    load: impl FnMut(u64, usize) -> Result<u32, E>,
) -> Result<[u32; 4], E> {
    let Some(sampler) = &bound.sampler else { return Ok([0; 4]) };
    let mut texels = Texels { bound, sampler, load };
    // A line is read by integers in linear memory only, and by floats in arrays only; an H200 reads 0 otherwise.
    if geometry == Geometry::One && bound.grid.is_linear == matches!(at.1, At::Floats(_)) {
        return Ok([0; 4]);
    }
    let filters = sampler.is_linear && matches!(at.1, At::Floats(_));
    let print = footprint(bound, sampler, geometry, at, filters);
    if !filters {
        return texels.read(print.corner(&bound.grid, 0));
    }
    let mut sum = [0.0f64; 4];
    for (corner, weight) in print.weights().into_iter().enumerate() {
        // Infinity is not multiplied by nothing.
        if weight > 0 {
            let raw = texels.raw(print.corner(&bound.grid, corner))?;
            let weight = f64::from(weight) / f64::from(WHOLE);
            sum.iter_mut().zip(raw).for_each(|(sum, raw)| *sum += weight * filterable(bound.channel, raw));
        }
    }
    let mut found = sum.map(|sum| filtered(bound.channel, sampler.as_integer, sum));
    found[bound.channels..].fill(0);
    Ok(found)
}

/// One channel of the four elements that would be filtered, counter-clockwise from the lower left.
pub(super) fn gather<E>(
    bound: &Bound,
    geometry: Geometry,
    (at, channel): ((u32, At), usize),
    load: impl FnMut(u64, usize) -> Result<u32, E>,
) -> Result<[u32; 4], E> {
    let Some(sampler) = &bound.sampler else { return Ok([0; 4]) };
    let mut texels = Texels { bound, sampler, load };
    let print = footprint(bound, sampler, geometry, at, true);
    let mut found = [0; 4];
    for (to, corner) in found.iter_mut().zip([0b10, 0b11, 0b01, 0b00]) {
        *to = texels.gathered(print.corner(&bound.grid, corner))?[channel];
    }
    Ok(found)
}
