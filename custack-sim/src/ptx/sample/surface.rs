//! Addresses of accesses to surfaces.

use super::Geometry;
use crate::texture::{Bound, Grid};

/// The effect of an access outside of the surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Beyond {
    Trap,
    Clamp,
    Zero,
}

/// Whether a surface of this grid cannot be accessed in this geometry. The faces of a cube are layers of a surface.
pub(in super::super) fn outside_of(geometry: Geometry, grid: &Grid) -> bool {
    let is_layered = grid.is_layered || grid.is_cube;
    geometry.coordinates() as u8 != grid.dimensions || geometry.is_layered() != is_layered
}

/// The address of an access of this size in bytes, the first of which is in column `x`. `Ok(None)` is an access outside of
/// the surface without effect, and `Err` one that traps.
pub(in super::super) fn place(
    bound: &Bound,
    geometry: Geometry,
    (layer, at): (u32, [i32; 3]),
    bytes: usize,
    beyond: Beyond,
) -> Result<Option<u64>, ()> {
    let grid = &bound.grid;
    let width = grid.size[0] * bound.element();
    let slices = grid.size[2] as i64;
    let clamp = |at: i64, most: i64| at.clamp(0, most.max(0));
    let [mut x, mut y, mut z] = at.map(i64::from);
    if geometry.coordinates() < 2 {
        y = 0;
    }
    if geometry.coordinates() < 3 {
        // The number of a layer has 16 bits.
        z = if geometry.is_layered() { (layer & 0xffff).into() } else { 0 };
    }
    let last = width as i64 - bytes as i64;
    let rows = grid.size[1] as i64;
    let is_within = (0..=last).contains(&x) && (0..rows).contains(&y) && (0..slices).contains(&z);
    if !is_within {
        match beyond {
            Beyond::Trap => return Err(()),
            Beyond::Zero => return Ok(None),
            Beyond::Clamp if last < 0 => return Ok(None),
            // The last place is a multiple of what is accessed.
            Beyond::Clamp => {
                let end = last / bytes as i64 * bytes as i64;
                (x, y, z) = (clamp(x, end), clamp(y, rows - 1), clamp(z, slices - 1));
            }
        }
    }
    let at = z as usize * grid.pitch[1] + y as usize * grid.pitch[0] + x as usize;
    Ok(Some(grid.address.wrapping_add(at as u64)))
}
