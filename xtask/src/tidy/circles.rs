//! Circles of modules inside a crate.
//!
//! A module is a file. It may use what is below it, and what is below it may use it: a circle in
//! which one module is above all others is fine. Any other is a finding: those modules cannot be
//! read, tested or moved alone, and a layer is missing below them. `modules` says which arrows are
//! not seen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::modules::{Crate, Path, crates};
use super::source::{Place, Source};

/// Which modules a module uses, and by which names.
type Arrows = BTreeMap<Path, BTreeMap<Path, BTreeSet<String>>>;

/// The circles of every crate, the shortest ones first. They share no arrow; so when all of them
/// are opened, others may come to light that went over the same arrows.
pub fn circles(sources: &[Source]) -> Vec<Place> {
    let mut found = Vec::new();
    for read in crates(sources) {
        let mut arrows: Arrows =
            read.files.keys().map(|module| (module.clone(), read.uses(module))).collect();
        while let Some(mut circle) = shortest(&arrows) {
            let first = (0..circle.len()).min_by_key(|at| &circle[*at]).unwrap_or(0);
            circle.rotate_left(first);
            found.push(place(&read, &arrows, &circle));
            for (from, to) in circle.iter().zip(circle.iter().cycle().skip(1)) {
                arrows.entry(from.clone()).or_default().remove(to);
            }
        }
    }
    found
}

/// `a.rs -> b.rs (Name) -> a.rs (Other)`.
fn place(read: &Crate, arrows: &Arrows, circle: &[Path]) -> Place {
    let name = |module: &Path| {
        let path = &read.files[module].path;
        path.strip_prefix(&read.root).unwrap_or(path).to_owned()
    };
    let mut sentence = format!("circle {}", name(&circle[0]));
    for (from, to) in circle.iter().zip(circle.iter().cycle().skip(1)) {
        let names: Vec<&str> = arrows[from][to].iter().map(String::as_str).collect();
        sentence.push_str(&format!(" -> {} ({})", name(to), names.join(", ")));
    }
    Place { path: read.files[&circle[0]].path.clone(), line: 1, sentence }
}

/// A shortest circle without a module above all of it; of those, the first by name.
fn shortest(arrows: &Arrows) -> Option<Vec<Path>> {
    let mut best: Option<Vec<Path>> = None;
    for knot in knots(arrows, arrows.keys().cloned().collect()) {
        let tops: Vec<&Path> =
            knot.iter().filter(|module| !knot.iter().any(|top| is_above(top, module))).collect();
        let top_of = |module: &Path| tops.iter().position(|top| module.starts_with(top));
        for from in &knot {
            for to in arrows[from].keys().filter(|to| knot.contains(*to)) {
                // Only a circle over such an arrow has no module above it.
                if top_of(from) == top_of(to) {
                    continue;
                }
                let Some(circle) = way(arrows, &knot, to, from) else { continue };
                if best.as_ref().is_none_or(|best| circle.len() < best.len()) {
                    best = Some(circle);
                }
            }
        }
    }
    best
}

fn is_above(top: &Path, module: &Path) -> bool {
    top.len() < module.len() && module.starts_with(top)
}

/// The sets of modules among `modules` in which each reaches each other, without those that are
/// only held together by a module above all of them.
fn knots(arrows: &Arrows, modules: BTreeSet<Path>) -> Vec<BTreeSet<Path>> {
    let mut found = Vec::new();
    for mut knot in components(arrows, &modules) {
        let top = knot.iter().find(|top| knot.iter().all(|other| other.starts_with(top))).cloned();
        match top {
            Some(top) => {
                knot.remove(&top);
                found.extend(knots(arrows, knot));
            }
            None => found.push(knot),
        }
    }
    found
}

/// The strongly connected components of two modules and more, by what each reaches: a crate has a
/// hundred modules, so the plain way is quick enough.
fn components(arrows: &Arrows, modules: &BTreeSet<Path>) -> Vec<BTreeSet<Path>> {
    let reached: BTreeMap<&Path, BTreeSet<Path>> =
        modules.iter().map(|module| (module, reached(arrows, modules, module))).collect();
    let mut rest = modules.clone();
    let mut found = Vec::new();
    while let Some(module) = rest.pop_first() {
        let mut component: BTreeSet<Path> = reached[&module]
            .iter()
            .filter(|other| reached[other].contains(&module))
            .cloned()
            .collect();
        component.insert(module);
        rest.retain(|other| !component.contains(other));
        if component.len() > 1 {
            found.push(component);
        }
    }
    found
}

fn reached(arrows: &Arrows, modules: &BTreeSet<Path>, from: &Path) -> BTreeSet<Path> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(module) = next.pop() {
        for to in arrows[module].keys().filter(|to| modules.contains(*to)) {
            if reached.insert(to.clone()) {
                next.push(to);
            }
        }
    }
    reached
}

/// The shortest way inside `knot` that begins with `from` and ends with `to`.
fn way(arrows: &Arrows, knot: &BTreeSet<Path>, from: &Path, to: &Path) -> Option<Vec<Path>> {
    let mut before: BTreeMap<&Path, &Path> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(module) = next.pop_front() {
        if module == to {
            let mut way = vec![to.clone()];
            while let Some(step) = way.last().filter(|step| *step != from).cloned() {
                way.push(before[&step].clone());
            }
            way.reverse();
            return Some(way);
        }
        for other in arrows[module].keys().filter(|other| knot.contains(*other)) {
            if other != from && !before.contains_key(other) {
                before.insert(other, module);
                next.push_back(other);
            }
        }
    }
    None
}
