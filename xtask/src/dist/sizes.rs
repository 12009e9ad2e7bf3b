//! The table of sizes in docs/INSTALL.md.

use std::path::{Path, PathBuf};

use super::binaries::Binaries;
use crate::repository;

/// The document that is written into.
const DOCUMENT: &str = "docs/INSTALL.md";

const START: &str = "<!-- sizes: xtask dist --write -->\n";
const END: &str = "<!-- end -->";

/// Writes what was made, and how large it is, between the marks of the document.
///
/// # Errors
/// A mark is missing, or the document cannot be read or written.
pub fn write(made: &[PathBuf], binaries: &Binaries) -> Result<(), String> {
    let path = repository().join(DOCUMENT);
    let said = |error: std::io::Error| format!("{DOCUMENT}: {error}");
    let text = std::fs::read_to_string(&path).map_err(said)?;
    std::fs::write(&path, with_table(&text, &table(made, binaries)?)?).map_err(said)
}

fn with_table(text: &str, table: &str) -> Result<String, String> {
    let missing = || format!("{DOCUMENT} has no {}", START.trim_end());
    let (before, rest) = text.split_once(START).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{START}{table}{END}{after}"))
}

fn table(made: &[PathBuf], binaries: &Binaries) -> Result<String, String> {
    let mut rows = vec![
        ("the command".to_owned(), bytes(&binaries.command)?),
        ("the command, linked statically".to_owned(), bytes(&binaries.fixed)?),
        ("`libextant.so.0`".to_owned(), bytes(&binaries.shared)?),
    ];
    // The list of digests is no file to install.
    for path in made.iter().filter(|path| path.extension().is_some()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        rows.push((format!("`{name}`"), bytes(path)?));
    }
    let rows = rows.iter().map(|(name, bytes)| format!("| {name} | {} |\n", megabytes(*bytes)));
    Ok(format!("| file | MB |\n| --- | ---: |\n{}", rows.collect::<String>()))
}

fn bytes(path: &Path) -> Result<u64, String> {
    let metadata = std::fs::metadata(path);
    Ok(metadata.map_err(|error| format!("{}: {error}", path.display()))?.len())
}

/// With one digit, rounded up: what is said is not exceeded.
fn megabytes(bytes: u64) -> String {
    let tenths = bytes.div_ceil(100_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_and_replace_those_before() {
        assert_eq!([0, 1, 100_000, 12_340_000].map(megabytes), ["0.0", "0.1", "0.1", "12.4"]);
        let text = format!("before\n{START}old\n{END}\nafter\n");
        let written = with_table(&text, "new\n").expect("marks");
        assert_eq!(written, format!("before\n{START}new\n{END}\nafter\n"));
        assert!(with_table("no marks", "new\n").is_err());
    }

    #[test]
    fn the_document_has_the_marks() {
        let text = std::fs::read_to_string(repository().join(DOCUMENT)).expect("the document");
        assert!(with_table(&text, "").is_ok());
    }
}
