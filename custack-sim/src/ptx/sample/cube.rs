//! The faces of cubes.

/// The face of the cube that a direction intersects, and where on it, in normalised coordinates.
pub(super) fn face([x, y, z]: [f32; 3]) -> (usize, [f32; 2]) {
    let [ax, ay, az] = [x.abs(), y.abs(), z.abs()];
    // Of axes with equal magnitudes the last one counts, as observed on an H200.
    let (face, m, s, t) = if az >= ax && az >= ay {
        if z >= 0.0 { (4, az, x, -y) } else { (5, az, -x, -y) }
    } else if ay >= ax {
        if y >= 0.0 { (2, ay, x, z) } else { (3, ay, x, -z) }
    } else if x >= 0.0 {
        (0, ax, -z, -y)
    } else {
        (1, ax, z, -y)
    };
    let on_face = |at: f32| if m == 0.0 { 0.5 } else { (at / m + 1.0) / 2.0 };
    (face, [on_face(s), on_face(t)])
}
