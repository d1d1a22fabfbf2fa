//! Sampling of textures: which elements the coordinates select, and how these are filtered. The rules are those of the
//! appendix on texture fetching in CUDA's programming guide.

mod cube;
mod surface;
mod texel;

pub(super) use surface::{Beyond, outside_of, place};
pub(super) use texel::store_converted;

use crate::texture::{Bound, Grid, Outside, Sampler};
use texel::{Found, Texels, filterable, filtered};

/// The geometry of a texture or a surface as an instruction names it.
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

    /// The number of coordinates after the layer.
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

    /// Whether a texture of this grid can be read in this geometry.
    pub(super) fn fits(self, grid: &Grid) -> bool {
        let dimensions = if self.is_cube() { 2 } else { self.coordinates() as u8 };
        dimensions == grid.dimensions
            && self.is_layered() == grid.is_layered
            && self.is_cube() == grid.is_cube
    }
}

/// Coordinates, in the type of their registers.
#[derive(Debug, Clone, Copy)]
pub(super) enum At {
    Floats([f32; 3]),
    Integers([i32; 3]),
}

/// The element on one axis, and the weight of the next element, in 256ths.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    first: i64,
    next: u32,
}

/// Where elements are filtered, normalised coordinates are truncated to 21 bits of fraction, as observed on an H200.
const NORMALIZED: f64 = (1 << 21) as f64;
/// Weights are fixed-point numbers with 8 bits of fraction.
const WHOLE: u32 = 256;

/// The elements on one axis for a coordinate. Wrapped and mirrored coordinates are reduced to their period first.
fn step(coordinate: f32, size: usize, (sampler, outside): (&Sampler, Outside), filters: bool) -> Step {
    let mut at = if coordinate.is_subnormal() { 0.0 } else { f64::from(coordinate) };
    let period = match outside {
        Outside::Wrap => 1.0,
        Outside::Mirror => 2.0,
        Outside::Clamp | Outside::Border => 0.0,
    };
    if period > 0.0 {
        at = if at.is_finite() { at - period * (at / period).floor() } else { 0.0 };
        // A coordinate just below zero is within the period, too.
        at = at.min(period - f64::EPSILON);
    }
    if sampler.is_normalized {
        at = if filters { (at * NORMALIZED).floor() / NORMALIZED } else { at };
        at *= size as f64;
    }
    if !filters {
        return Step { first: at.floor() as i64, next: 0 };
    }
    let fixed = ((at * f64::from(WHOLE) + 0.5).floor() as i64).saturating_sub(128);
    Step { first: fixed >> 8, next: (fixed & 255) as u32 }
}

/// The index of the element that is read in place of `at`, which may be outside of the texture; `None` if the border
/// is read.
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

/// The elements around a coordinate: the step on each axis, and the slice.
struct Footprint {
    steps: [Step; 3],
    axes: usize,
    outside: [Outside; 3],
    slice: usize,
    /// What is read outside of the texture, if no element is.
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
            // The addressing modes apply to float coordinates only.
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
        // One-dimensional textures are filtered as a plane with one row, at its upper edge: what is above the row
        // counts as much as the row.
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
    /// The element at a corner; the bits of `corner` say on which axes it is the next element.
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

    /// The weight of each corner in the result, in 256ths, as an H200 rounds them: the weight of each slice is divided
    /// along the first axis and then along the second, with a rounding each time. In case of a tie, the corners get
    /// more that are equal in both.
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

/// The four channels that an instruction reads, as the bits of floats or as integers.
pub(super) fn fetch<E>(
    bound: &Bound,
    geometry: Geometry,
    at: (u32, At),
    load: impl FnMut(u64, usize) -> Result<u32, E>,
) -> Result<[u32; 4], E> {
    let Some(sampler) = &bound.sampler else { return Ok([0; 4]) };
    let mut texels = Texels { bound, sampler, load };
    // One-dimensional textures are read with integer coordinates in linear memory only, and with float ones in arrays
    // only; otherwise an H200 reads 0.
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
        // A weight of zero would turn infinity into NaN.
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
