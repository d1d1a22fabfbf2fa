//! Circles: of functions that call each other, and of nodes that wait for each other.

/// Whether each of `count` nodes is on a circle, where `next` gives the nodes behind a node, one by one.
pub(super) fn on_circles(count: usize, next: impl Fn(usize, usize) -> Option<usize>) -> Vec<bool> {
    // Nodes are on a circle together if each is reached from the other. From the last one that a search has left, searches
    // against the arrows find such groups one by one.
    let (mut before, mut left, mut seen) = (vec![Vec::new(); count], Vec::new(), vec![false; count]);
    let mut found = vec![false; count];
    for start in 0..count {
        let mut open = if seen[start] { Vec::new() } else { vec![(start, 0)] };
        seen[start] = true;
        while let Some((node, at)) = open.pop() {
            let Some(behind) = next(node, at) else {
                left.push(node);
                continue;
            };
            open.push((node, at + 1));
            before[behind].push(node);
            found[behind] |= behind == node;
            if !std::mem::replace(&mut seen[behind], true) {
                open.push((behind, 0));
            }
        }
    }
    for start in left.into_iter().rev() {
        let (mut group, mut at) = (Vec::new(), 0);
        if std::mem::replace(&mut seen[start], false) {
            group.push(start);
        }
        while let Some(node) = group.get(at) {
            let others = before[*node].iter().copied();
            let others: Vec<_> = others.filter(|it| std::mem::replace(&mut seen[*it], false)).collect();
            group.extend(others);
            at += 1;
        }
        if group.len() > 1 {
            group.into_iter().for_each(|node| found[node] = true);
        }
    }
    found
}
