//! What a texture's coordinates stand for: which elements are read, and how they are filtered. The rules are those of the
//! programming guide's appendix on fetching.

mod cube;
mod surface;
mod texel;

pub(super) use surface::{Beyond, outside_of, place};
pub(super) use texel::store_converted;

use crate::sim::texture::{Bound, Grid, Outside, Sampler};
use texel::Texels;

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

/// Weights have 8 bits behind the point.
const WHOLE: f64 = 256.0;

/// Which elements a coordinate stands for.
fn step(coordinate: f32, size: usize, sampler: &Sampler, filters: bool) -> Step {
    let scale = if sampler.is_normalized { size as f64 } else { 1.0 };
    let at = f64::from(coordinate) * scale;
    if !filters {
        return Step { first: at.floor() as i64, next: 0 };
    }
    let fixed = (at * WHOLE).round_ties_even() as i64;
    let fixed = fixed.saturating_sub(128);
    Step { first: fixed >> 8, next: (fixed & 255) as u32 }
}

/// The element that is read for one of this number; `None` for the border.
fn within(at: i64, size: usize, outside: Outside) -> Option<usize> {
    let size = size as i64;
    let found = match outside {
        _ if (0..size).contains(&at) => at,
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
}

fn footprint(
    bound: &Bound,
    sampler: &Sampler,
    geometry: Geometry,
    (layer, at): (u32, At),
    filters: bool,
) -> Footprint {
    let grid = &bound.grid;
    let layer = (layer as usize).min(grid.layers() - 1);
    let mut found = Footprint { steps: [Step::default(); 3], axes: 0, outside: sampler.outside, slice: 0 };
    if geometry.is_layered() {
        found.slice = layer;
    }
    let place = match at {
        At::Integers(at) => {
            found.axes = geometry.coordinates();
            found.steps = at.map(|at| Step { first: at.into(), next: 0 });
            return found;
        }
        At::Floats(at) if geometry.is_cube() => {
            let (face, [s, t]) = cube::face(at);
            found.slice = found.slice * 6 + face;
            found.outside = [Outside::Clamp; 3];
            found.axes = 2;
            [s, t, 0.0]
        }
        At::Floats(at) => {
            found.axes = geometry.coordinates();
            at
        }
    };
    for axis in 0..found.axes {
        found.steps[axis] = step(place[axis], grid.size[axis], sampler, filters);
    }
    found
}

impl Footprint {
    /// The element at a corner, whose bits say on which axes it is the next one.
    fn corner(&self, grid: &Grid, corner: usize) -> Option<[usize; 3]> {
        let mut found = [0, 0, self.slice];
        for axis in 0..self.axes {
            let at = self.steps[axis].first + (corner >> axis & 1) as i64;
            // Linear memory has no modes.
            let outside = if grid.is_linear { Outside::Border } else { self.outside[axis] };
            found[axis] = within(at, grid.size[axis], outside)?;
        }
        Some(found)
    }

    /// How much of the corner's element is in the result.
    fn weight(&self, corner: usize) -> f64 {
        let on_axis = |axis: usize| {
            let next = f64::from(self.steps[axis].next) / WHOLE;
            if corner >> axis & 1 == 1 { next } else { 1.0 - next }
        };
        (0..self.axes).map(on_axis).product()
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
    let filters =
        sampler.is_linear && !sampler.as_integer && !bound.grid.is_linear && matches!(at.1, At::Floats(_));
    let print = footprint(bound, sampler, geometry, at, filters);
    if sampler.as_integer {
        return texels.integers(print.corner(&bound.grid, 0));
    }
    if !filters {
        return Ok(texels.floats(print.corner(&bound.grid, 0))?.map(f32::to_bits));
    }
    let mut sum = [0.0f64; 4];
    for corner in 0..1 << print.axes {
        let weight = print.weight(corner);
        // Infinity is not multiplied by nothing.
        if weight > 0.0 {
            let values = texels.floats(print.corner(&bound.grid, corner))?;
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * f64::from(value));
        }
    }
    Ok(sum.map(|value| (value as f32).to_bits()))
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
        let place = print.corner(&bound.grid, corner);
        *to = match sampler.as_integer {
            true => texels.integers(place)?[channel],
            false => texels.floats(place)?[channel].to_bits(),
        };
    }
    Ok(found)
}
