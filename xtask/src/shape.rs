//! `xtask shape`: how large the house is and how it is built, counted by one rule for every
//! tree, so that a state can be compared with another one, or with another project.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::repository;
use crate::tidy::{Source, sources};

/// `shape [REPOSITORY] [--crates]`: prints a table of what is not test in `crates/*/src` of a
/// checkout (this one without words): lines, files, functions, comments, assertions. With
/// `--crates`, also the lines of each crate.
///
/// # Errors
/// A file cannot be read; words that mean nothing.
pub fn run(words: &[String]) -> Result<(), String> {
    let by_crate = words.iter().any(|word| word == "--crates");
    let folders: Vec<&String> = words.iter().filter(|word| *word != "--crates").collect();
    let root = match folders.as_slice() {
        [] => repository(),
        [folder] => PathBuf::from(folder),
        _ => return Err("shape [REPOSITORY] [--crates]".into()),
    };
    let shape = Shape::of(&sources(&root)?);
    print!("{}", shape.table());
    if by_crate {
        println!("\n| crate | lines |\n| --- | ---: |");
        for (name, lines) in &shape.crates {
            println!("| {name} | {lines} |");
        }
    }
    Ok(())
}

/// What was counted. Lines are those of the file: code, comments and empty ones.
#[derive(Default)]
struct Shape {
    lines: usize,
    crates: BTreeMap<String, usize>,
    files: Vec<usize>,
    functions: Vec<usize>,
    item_comments: usize,
    inner_comments: usize,
    unwraps: usize,
    asserts: usize,
    kept_asserts: usize,
    public: usize,
    types: BTreeMap<String, BTreeSet<String>>,
    test_lines: usize,
    test_programs: usize,
}

impl Shape {
    fn of(sources: &[Source]) -> Shape {
        let mut shape = Shape::default();
        for source in sources.iter().filter(|source| source.path.starts_with("crates/")) {
            shape.test_programs += usize::from(is_test_program(source));
            if !source.is_rust() {
                continue;
            }
            match source.path.split('/').nth(2) == Some("src") && !source.is_test() {
                true => shape.add(source),
                false => shape.test_lines += source.text.lines().count(),
            }
        }
        shape
    }

    fn add(&mut self, source: &Source) {
        let is_kept = |line: &usize| !source.is_test_line(*line);
        let all = source.text.lines().count();
        let lines = (1..=all).filter(is_kept).count();
        self.test_lines += all - lines;
        self.lines += lines;
        self.files.push(lines);
        let name = source.path.split('/').nth(1).unwrap_or_default();
        *self.crates.entry(name.into()).or_default() += lines;
        let functions = source.functions.iter().filter(|each| is_kept(each.lines.start()));
        let mut bodies = BTreeSet::new();
        for function in functions {
            self.functions.push(function.lines.clone().count());
            bodies.extend(function.lines.clone().skip(1));
        }
        for (line, text) in (1..).zip(source.text.lines()).filter(|(line, _)| is_kept(line)) {
            let text = text.trim_start();
            let is_inner = bodies.contains(&line);
            match text.starts_with("//") {
                true if is_inner && !text.starts_with("///") => self.inner_comments += 1,
                true => self.item_comments += 1,
                false => {}
            }
        }
        self.add_words(source);
    }

    fn add_words(&mut self, source: &Source) {
        let words = &source.words;
        for (at, word) in words.iter().enumerate() {
            if source.is_test_line(word.line) {
                continue;
            }
            let next = words.get(at + 1).map_or("", |next| next.text.as_str());
            let before = at.checked_sub(1).map_or("", |at| words[at].text.as_str());
            match (word.text.as_str(), next) {
                ("unwrap" | "expect", "(") if before == "." => self.unwraps += 1,
                ("assert" | "assert_eq" | "assert_ne", "!") => {
                    self.asserts += 1;
                    self.kept_asserts += 1;
                }
                ("debug_assert" | "debug_assert_eq" | "debug_assert_ne", "!") => self.asserts += 1,
                ("pub", next) if next != "(" => self.public += 1,
                ("struct" | "enum" | "trait", name) if !name.is_empty() => {
                    let place = source.path.clone();
                    self.types.entry(name.into()).or_default().insert(place);
                }
                _ => {}
            }
        }
    }

    fn table(&self) -> String {
        let share = |part: usize, whole: usize, of: f64| part as f64 * of / whole.max(1) as f64;
        let spread = |sizes: &[usize]| {
            let mut sizes = sizes.to_vec();
            sizes.sort_unstable();
            let at = |percent: usize| sizes.get(sizes.len() * percent / 100).copied().unwrap_or(0);
            format!("{} / {} / {}", at(50), at(90), sizes.last().copied().unwrap_or(0))
        };
        let twice = self.types.values().filter(|places| places.len() > 1).count();
        let rows = [
            ("lines, files", format!("{}, {}", self.lines, self.files.len())),
            ("lines of tests", self.test_lines.to_string()),
            ("crates", self.crates.len().to_string()),
            ("file median / p90 / max", spread(&self.files)),
            ("function median / p90 / max", spread(&self.functions)),
            (
                "comments: on items + inside bodies, %",
                format!(
                    "{:.1} + {:.1}",
                    share(self.item_comments, self.lines, 100.0),
                    share(self.inner_comments, self.lines, 100.0)
                ),
            ),
            (
                "unwrap, expect per 1,000 lines",
                format!("{:.2}", share(self.unwraps, self.lines, 1e3)),
            ),
            (
                "asserts per 100 functions",
                format!("{:.1}", share(self.asserts, self.functions.len(), 100.0)),
            ),
            ("asserts that a release keeps", self.kept_asserts.to_string()),
            ("public items and fields", self.public.to_string()),
            ("type names in two files or more", twice.to_string()),
            ("test programs beside those of libraries", self.test_programs.to_string()),
        ];
        let mut table = String::from("| measure | |\n| --- | ---: |\n");
        rows.iter().for_each(|(name, value)| table.push_str(&format!("| {name} | {value} |\n")));
        table
    }
}

/// Whether a file is the root of a program of tests: `tests/NAME.rs`, `tests/NAME/main.rs`.
fn is_test_program(source: &Source) -> bool {
    let parts: Vec<&str> = source.path.split('/').collect();
    match parts.as_slice() {
        ["crates", _, "tests", file] => file.ends_with(".rs"),
        ["crates", _, "tests", _, file] => *file == "main.rs",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_tests_is_not_counted() {
        let code = "//! A room.\n/// An item.\npub struct A;\n\nfn f() {\n    // Why.\n    \
                    debug_assert!(true);\n    assert!(g().unwrap());\n}\n#[cfg(test)]\nmod tests \
                    {\n    struct A;\n    fn h() { assert!(x.unwrap()) }\n}\n";
        let sources = [
            Source::new("crates/a/src/lib.rs", code),
            Source::new("crates/b/src/lib.rs", "struct A;\n"),
            Source::new("crates/b/src/tests.rs", "fn f() { assert!(true) }\n"),
            Source::new("crates/b/tests/suite/main.rs", "fn f() {}\n"),
            Source::new("crates/b/tests/suite/other.rs", "fn f() {}\n"),
            Source::new("xtask/src/lib.rs", "fn f() {}\n"),
        ];
        let shape = Shape::of(&sources);
        let counted = (shape.asserts, shape.kept_asserts, shape.unwraps, shape.public);
        assert_eq!(counted, (2, 1, 1, 1));
        assert_eq!((shape.item_comments, shape.inner_comments), (2, 1));
        assert_eq!((shape.functions.as_slice(), shape.test_programs), (&[5][..], 1));
        assert_eq!(shape.types["A"].len(), 2);
        assert_eq!(shape.crates["b"], 1);
        assert_eq!(shape.lines + shape.test_lines, code.lines().count() + 4);
    }
}
