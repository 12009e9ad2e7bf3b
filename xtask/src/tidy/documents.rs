//! What the documents say of the tree.

use super::source::{Place, Source};

/// The documents that lead a reader through the tree.
const GUIDES: &[&str] = &["DESIGN.md", "docs/TOUR.md"];

/// The paths in backticks in a guide that nothing in the repository has. A path may leave out what
/// it begins with (`engine/src/lib.rs`, `lib.rs`) and `.rs` at its end.
pub fn missing(sources: &[Source]) -> Vec<Place> {
    let mut found = Vec::new();
    for guide in sources.iter().filter(|source| GUIDES.contains(&source.path.as_str())) {
        for (number, line) in (1..).zip(guide.text.lines()) {
            let quoted = line.split('`').skip(1).step_by(2);
            for path in quoted.filter(|path| is_path(path) && !exists(path, sources)) {
                let sentence = format!("{path} is not there");
                found.push(Place { path: guide.path.clone(), line: number, sentence });
            }
        }
    }
    found
}

fn is_path(text: &str) -> bool {
    let is_plain = text.chars().all(|letter| letter.is_alphanumeric() || "_.-/".contains(letter));
    is_plain && !text.starts_with(['/', '.']) && (text.contains('/') || text.ends_with(".rs"))
}

fn exists(path: &str, sources: &[Source]) -> bool {
    let path = format!("/{}", path.trim_end_matches('/'));
    let (file, folder) = (format!("{path}.rs"), format!("{path}/"));
    sources.iter().map(|source| format!("/{}", source.path)).any(|source| {
        source.ends_with(&path) || source.ends_with(&file) || source.contains(&folder)
    })
}
