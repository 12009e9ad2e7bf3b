//! Tables of measurements: printed as they come, and kept for a document.

use std::path::Path;

/// What was printed so far.
#[derive(Debug, Default)]
pub struct Sheet {
    text: String,
}

impl Sheet {
    /// Prints a line, or several, and keeps it.
    pub fn say(&mut self, line: &str) {
        println!("{line}");
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Puts what was said into the document at `path`, in place of what is between
    /// `<!-- bench-SECTION:begin -->` and `<!-- bench-SECTION:end -->`.
    ///
    /// # Errors
    /// The document cannot be read or written, or has no such section.
    pub fn write(&self, path: &Path, section: &str) -> Result<(), String> {
        let failed = |error| format!("{}: {error}", path.display());
        let document = std::fs::read_to_string(path).map_err(failed)?;
        let changed = replaced(&document, section, self.text.trim())
            .ok_or_else(|| format!("{}: no section bench-{section}", path.display()))?;
        std::fs::write(path, changed).map_err(failed)
    }
}

/// `document` with `text` as its section; none if it has no such section.
fn replaced(document: &str, section: &str, text: &str) -> Option<String> {
    let begin = format!("<!-- bench-{section}:begin -->");
    let end = format!("<!-- bench-{section}:end -->");
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{text}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_nothing_else() {
        let document = "# A\n<!-- bench-read:begin -->\nold\n<!-- bench-read:end -->\nb\n";
        assert_eq!(
            replaced(document, "read", "new\n\nlines").as_deref(),
            Some("# A\n<!-- bench-read:begin -->\nnew\n\nlines\n<!-- bench-read:end -->\nb\n")
        );
        assert_eq!(replaced(document, "build", "new"), None);
    }
}
