//! Tables of measurements: printed as they come, and kept for a document.

use std::path::Path;

use serde_json::{Value, json};

/// What is printed of a sheet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Print {
    /// Each line as it comes.
    #[default]
    Lines,
    /// Nothing but what [`Sheet::to_json`] returns.
    Json,
}

/// What was printed so far.
#[derive(Debug, Default)]
pub struct Sheet {
    text: String,
    print: Print,
}

impl Sheet {
    /// An empty sheet.
    pub fn new(print: Print) -> Sheet {
        Sheet { text: String::new(), print }
    }

    /// Prints a line, or several, and keeps it.
    pub fn say(&mut self, line: &str) {
        if self.print == Print::Lines {
            println!("{line}");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// How many lines were said so far.
    pub fn lines(&self) -> usize {
        self.text.lines().count()
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

impl Sheet {
    /// Everything that was said: the lines that are no table in `notes`, and in `tables` each table
    /// as a list of rows, which have the heads of its columns as keys (`name` for the first one if
    /// it has no head). A cell that is a number is one; a number with a unit is an object of
    /// `value` and `unit`.
    pub fn to_json(&self, section: &str) -> Value {
        let (mut notes, mut tables): (Vec<Value>, Vec<Value>) = Default::default();
        let mut lines = self.text.lines().filter(|line| !line.is_empty()).peekable();
        let mut title = "";
        while let Some(line) = lines.next() {
            if !line.starts_with('|') {
                title = line;
                notes.push(line.into());
                continue;
            }
            let heads = cells(line);
            let is_rule =
                |line: &str| line.starts_with('|') && !line.contains(char::is_alphanumeric);
            lines.next_if(|line| is_rule(line));
            let mut rows: Vec<Value> = Vec::new();
            while let Some(line) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(heads.iter().copied().zip(cells(line)).map(keyed).collect());
            }
            tables.push(json!({ "title": title, "rows": rows }));
        }
        json!({ "section": section, "notes": notes, "tables": tables })
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

fn keyed((head, cell): (&str, &str)) -> (String, Value) {
    let head = if head.is_empty() { "name" } else { head };
    let with_unit = || {
        let (value, unit) = cell.split_once(' ')?;
        let value: f64 = value.parse().ok()?;
        unit.chars()
            .all(|sign| sign.is_alphabetic() || "/%".contains(sign))
            .then(|| json!({ "value": value, "unit": unit }))
    };
    let value = match cell.parse::<f64>() {
        Ok(number) if head != "name" => number.into(),
        _ => with_unit().unwrap_or_else(|| cell.into()),
    };
    (head.to_owned(), value)
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

    #[test]
    fn tables_are_read_back_from_what_was_said() {
        let mut sheet = Sheet::new(Print::Json);
        sheet.say("a machine; 5 rounds");
        sheet.say("\ncalls\n\n|      | ratio | median | from .. to |\n| ---- | ---: | --: | -: |");
        sheet.say("| stat |  0.25 | 1.50 s | 1 .. 2 s |\n| list | failed: no room |");
        let expected = json!({
            "section": "engine",
            "notes": ["a machine; 5 rounds", "calls"],
            "tables": [{ "title": "calls", "rows": [
                {
                    "name": "stat", "ratio": 0.25,
                    "median": { "value": 1.5, "unit": "s" }, "from .. to": "1 .. 2 s",
                },
                { "name": "list", "ratio": "failed: no room" },
            ] }],
        });
        assert_eq!(sheet.to_json("engine"), expected);
    }
}
