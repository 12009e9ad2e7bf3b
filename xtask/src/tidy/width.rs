//! Lines that are wider than half a screen.

use super::source::Source;

/// Two files beside each other on a screen.
const COLUMNS_MAX: usize = 100;

/// The lines of code and documents that are too wide. What cannot be broken is left out: raw
/// strings, the rows of tables, the addresses of links, and in Markdown the fenced blocks without a
/// language or of `text` (what a program printed, what a disk looks like).
pub fn wide(source: &Source) -> Vec<(usize, String)> {
    let is_markdown = source.path.ends_with(".md");
    let is_script =
        source.path == "Makefile" || source.is_under(&[".ci/"]) || source.text.starts_with("#!");
    if !(source.is_rust() || is_markdown || is_script) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut fence = Fence::None;
    for (number, line) in (1..).zip(source.text.lines()) {
        if is_row(line) {
            continue;
        }
        let columns = if is_markdown {
            fence = fence.after(line);
            if fence == Fence::Output { 0 } else { without_addresses(line).chars().count() }
        } else {
            line.chars().count()
        };
        if columns > COLUMNS_MAX && !source.is_raw_string(number) {
            found.push((number, format!("{columns} columns, the limit is {COLUMNS_MAX}")));
        }
    }
    found
}

/// Whether `line` is a row of a table, also in a comment of documentation.
fn is_row(line: &str) -> bool {
    let line = line.trim_start();
    let text = line.strip_prefix("//!").or_else(|| line.strip_prefix("///")).unwrap_or(line);
    text.trim_start().starts_with("| ")
}

/// What fenced block of Markdown a line is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fence {
    None,
    Output,
    Code,
}

impl Fence {
    fn after(self, line: &str) -> Fence {
        match (self, line.trim_start().strip_prefix("```")) {
            (_, None) => self,
            (Fence::None, Some("" | "text")) => Fence::Output,
            (Fence::None, Some(_)) => Fence::Code,
            (_, Some(_)) => Fence::None,
        }
    }
}

/// `line` without what is in `](...)` and without words with `://`.
fn without_addresses(line: &str) -> String {
    let mut rest = line;
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let words: Vec<&str> = text.split(' ').filter(|word| !word.contains("://")).collect();
    words.join(" ")
}
