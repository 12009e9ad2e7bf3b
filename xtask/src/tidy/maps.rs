//! The maps: the drawing in the documentation of each `lib.rs`, which names every module.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Crate, Path, crates};
use super::source::{Place, Source};

/// The modules that no map names. A module is looked up on the map of the folder that it is in; if
/// that has none, on the map of the folder above, and so on up to `lib.rs`. A drawing in a folder
/// is its map if it names one of its modules. A folder whose file says why it has none (`tidy: map
/// because ..`) is passed over, such as one whose modules are the rows of a table.
pub fn unnamed(sources: &[Source]) -> Vec<Place> {
    crates(sources).iter().flat_map(unnamed_in).collect()
}

fn unnamed_in(read: &Crate) -> Vec<Place> {
    let mut maps: BTreeMap<&Path, BTreeSet<&str>> =
        read.files.iter().map(|(module, source)| (module, map(source))).collect();
    maps.retain(|folder, map| {
        let mut modules = read.files.keys().filter(|module| module.starts_with(folder));
        modules.any(|module| module.get(folder.len()).is_some_and(|name| map.contains(&**name)))
    });
    let none = BTreeSet::new();
    let mut unnamed: BTreeMap<Path, Vec<String>> = BTreeMap::new();
    for module in read.files.keys() {
        let Some((name, folder)) = module.split_last() else { continue };
        let face = read.files.get(folder);
        if face.is_some_and(|face| face.excuses_file("map")) {
            continue;
        }
        let mut above = (0..=folder.len()).rev().map(|length| folder[..length].to_vec());
        let keeper = above.find(|folder| maps.contains_key(folder)).unwrap_or_default();
        if !maps.get(&keeper).unwrap_or(&none).contains(name.as_str()) {
            unnamed.entry(keeper).or_default().push(module.join("::"));
        }
    }
    let place = |(keeper, modules): (Path, Vec<String>)| Place {
        path: read.files[&keeper].path.clone(),
        line: 1,
        sentence: format!("the map does not name {}", modules.join(", ")),
    };
    unnamed.into_iter().map(place).collect()
}

/// The words of the drawings (` ```text `) in the documentation of a module; none if it has none.
fn map(source: &Source) -> BTreeSet<&str> {
    let mut words = BTreeSet::new();
    let mut is_drawing = false;
    for line in source.text.lines().take_while(|line| line.starts_with("//")) {
        let Some(line) = line.strip_prefix("//!") else { continue };
        match line.trim() {
            "```text" => is_drawing = true,
            line if line.starts_with("```") => is_drawing = false,
            line if is_drawing => {
                words.extend(line.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
            }
            _ => {}
        }
    }
    words.remove("");
    words
}
