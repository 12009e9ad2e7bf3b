//! The house rules that a compiler does not know, as tables that an ordinary test checks.
//!
//! ```text
//! rules      the rules that read one file at a time     house      those that read a crate, or all
//!   manifest   which crate may know which                 circles    modules that need each other
//!   booleans   parameters that are true or false          maps       the drawing in each lib.rs
//!   width      lines that are too wide                    documents  what guides say of the tree
//!                                                         leaf       how large block is
//! places     the files that rules make exceptions for     modules    where a path ends in a crate
//! source     one file, its words, its tests               scan       what a file declares, names
//! ```
//!
//! An exception is written in the source, next to what it excuses, with its reason: `// tidy: RULE
//! because REASON`, in the comment above the line, or among the first lines of a file for what
//! concerns the whole file. What the tree as a whole still breaks is in `places::DEBTS`.

mod booleans;
mod circles;
mod documents;
mod house;
mod leaf;
mod manifest;
mod maps;
mod modules;
mod places;
mod rules;
mod scan;
mod source;
mod width;

pub use house::{HOUSE_RULES, HouseRule};
pub use rules::{RULES, Rule};
pub use source::{Finding, Source};

use std::path::{Path, PathBuf};

use crate::{command, repository};

/// `tidy [--debts]`: judges the repository by every rule and prints what is broken, in the order of
/// the files; with `--debts` also what is excused as one.
///
/// # Errors
/// A rule is broken, or a file cannot be read.
pub fn run(words: &[String]) -> Result<(), String> {
    let debts = match words {
        [] => places::DEBTS,
        [word] if word == "--debts" => &[],
        _ => return Err(format!("no option {}", words.join(" "))),
    };
    let sources = sources(&repository())?;
    let findings = judge(&sources, debts);
    if findings.is_empty() {
        let rules = RULES.len() + HOUSE_RULES.len();
        println!("tidy: {rules} rules, {} files, nothing to say", sources.len());
        return Ok(());
    }
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    Err(format!("{} places:\n{}", findings.len(), lines.join("\n")))
}

/// What the rules say about the repository `sources`, in the order of the files: without `debts`
/// (a rule, and how paths begin), but with those that are paid.
pub fn judge(sources: &[Source], debts: &[(&str, &str)]) -> Vec<Finding> {
    let files = sources.iter().flat_map(|source| RULES.iter().flat_map(|rule| rule.judge(source)));
    let house = HOUSE_RULES.iter().flat_map(|rule| rule.judge(sources));
    let mut findings = places::without_debts(files.chain(house).collect(), debts);
    findings.sort_by(|one, other| (&one.path, one.line).cmp(&(&other.path, other.line)));
    findings
}

/// Every text file of the repository that is tracked, or could be.
///
/// # Errors
/// A file cannot be read.
pub fn sources(root: &Path) -> Result<Vec<Source>, String> {
    let mut paths = tracked(root);
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        match std::fs::read(root.join(&path)) {
            Ok(bytes) => {
                // A file that is not text is no source.
                if let Ok(text) = String::from_utf8(bytes) {
                    sources.push(Source::new(&path.to_string_lossy(), &text));
                }
            }
            // Removed in the working tree, not yet in the index.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Ok(sources)
}

/// The files as git lists them; without git, every file outside of hidden and build folders.
fn tracked(root: &Path) -> Vec<PathBuf> {
    let mut git = command::program("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    match command::output(&mut git) {
        Ok(output) => {
            let names = String::from_utf8_lossy(&output.stdout).into_owned();
            names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect()
        }
        Err(_) => {
            let mut found = Vec::new();
            collect(root, Path::new(""), &mut found);
            found
        }
    }
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let path = folder.join(&name);
        // In a second working tree `.git` is a file.
        if name == "target" || name == ".git" {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_file() => found.push(path),
            Ok(kind) if kind.is_dir() => collect(root, &path, found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let sources = sources(&repository()).expect("the sources can be read");
        assert!(
            sources.iter().any(|source| source.path == "xtask/src/tidy.rs"),
            "this file is among them"
        );
        let findings: Vec<String> =
            judge(&sources, places::DEBTS).iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }

    #[test]
    fn without_git_the_same_files_are_found() {
        let mut walked = Vec::new();
        collect(&repository(), Path::new(""), &mut walked);
        assert!(walked.contains(&PathBuf::from("xtask/src/tidy.rs")));
        assert!(!walked.iter().any(|path| path.starts_with("target") || path.starts_with(".git")));
    }

    #[test]
    fn every_rule_catches_its_samples_and_lets_the_others_pass() {
        for rule in RULES {
            for (path, text) in rule.bad {
                let found = rule.judge(&Source::new(path, text));
                assert!(
                    !found.is_empty(),
                    "{} does not see what is wrong with {path}:\n{text}",
                    rule.name
                );
            }
            for (path, text) in rule.good {
                let found = rule.judge(&Source::new(path, text));
                assert!(found.is_empty(), "{} is wrong about {path}: {}", rule.name, found[0]);
            }
            assert!(!rule.bad.is_empty() && !rule.reason.is_empty(), "{}", rule.name);
        }
    }

    #[test]
    fn every_rule_of_the_house_catches_its_samples_and_lets_the_others_pass() {
        for rule in HOUSE_RULES {
            let judge = |sample: &[(&str, &str)]| {
                let files = sample.iter().map(|(path, text)| Source::new(path, text));
                rule.judge(&files.collect::<Vec<_>>())
            };
            for sample in rule.bad {
                assert!(!judge(sample).is_empty(), "{} passes {sample:?}", rule.name);
            }
            for sample in rule.good {
                let found = judge(sample);
                assert!(found.is_empty(), "{} is wrong: {}", rule.name, found[0]);
            }
            assert!(!rule.bad.is_empty() && !rule.reason.is_empty(), "{}", rule.name);
        }
    }

    #[test]
    fn a_circle_is_one_line_with_the_names_that_close_it() {
        let rule = HOUSE_RULES.iter().find(|rule| rule.name == "circles").expect("circles");
        let sources: Vec<Source> =
            rule.bad[1].iter().map(|(path, text)| Source::new(path, text)).collect();
        let found: Vec<String> =
            rule.judge(&sources).into_iter().map(|finding| finding.sentence).collect();
        assert_eq!(found, ["circle a/mod.rs -> b.rs (B) -> a/c.rs (f) -> a/mod.rs (A)"]);
    }

    #[test]
    fn a_debt_excuses_its_findings_and_is_one_when_it_is_paid() {
        let finding = |path: &str| Finding {
            path: path.into(),
            line: 7,
            rule: "width",
            sentence: "wide".into(),
            reason: "screens",
        };
        let debts = [("width", "crates/engine/"), ("width", "crates/lab/"), ("map", "crates/cli/")];
        let findings = vec![finding("crates/engine/src/a.rs"), finding("crates/cli/src/b.rs")];
        let left: Vec<String> = places::without_debts(findings, &debts)
            .iter()
            .map(|finding| format!("{}: {}", finding.path, finding.sentence))
            .collect();
        assert_eq!(
            left,
            [
                "crates/cli/src/b.rs: wide",
                "xtask/src/tidy/places.rs: width under crates/lab/ is paid: take the row out",
                "xtask/src/tidy/places.rs: map under crates/cli/ is paid: take the row out",
            ]
        );
    }

    #[test]
    fn an_exception_needs_a_reason() {
        let rule = RULES.iter().find(|rule| rule.name == "hash").expect("the rule of hashes");
        let with = "// tidy: hash because the order never reaches a result\nuse \
            std::collections::HashMap;\n";
        assert!(rule.judge(&Source::new("crates/engine/src/cache.rs", with)).is_empty());
        let without = "// tidy: hash because\nuse std::collections::HashMap;\n";
        assert_eq!(rule.judge(&Source::new("crates/engine/src/cache.rs", without)).len(), 1);
        let other = "// tidy: clock because of something else\nuse std::collections::HashMap;\n";
        assert_eq!(rule.judge(&Source::new("crates/engine/src/cache.rs", other)).len(), 1);
    }

    #[test]
    fn long_files_and_functions_are_measured_in_lines() {
        let lines = |count: usize| "    step();\n".repeat(count);
        let long = |source: &Source| {
            let rule = RULES.iter().find(|rule| rule.name == "long").expect("the rule of lengths");
            rule.judge(source).iter().map(|finding| finding.sentence.clone()).collect::<Vec<_>>()
        };
        let function = |count| {
            Source::new("crates/engine/src/file.rs", &format!("fn step() {{\n{}}}\n", lines(count)))
        };
        assert!(long(&function(68)).is_empty());
        assert_eq!(long(&function(69)), ["function step has 71 lines, the limit is 70"]);
        let excused = format!(
            "/// Steps.\n// tidy: long because it is a table\n#[inline]\nfn f() {{\n{}}}\n",
            lines(90)
        );
        assert!(long(&Source::new("crates/engine/src/file.rs", &excused)).is_empty());
        let tested = format!("#[cfg(test)]\nmod tests {{\nfn f() {{\n{}}}\n}}\n", lines(90));
        assert!(long(&Source::new("crates/engine/src/file.rs", &tested)).is_empty());
        let comment = |count: usize| "// a line\n".repeat(count);
        assert!(long(&Source::new("crates/engine/src/file.rs", &comment(800))).is_empty());
        assert_eq!(long(&Source::new("crates/engine/src/file.rs", &comment(801))).len(), 1);
        assert!(long(&Source::new("crates/engine/tests/file.rs", &comment(1000))).is_empty());
        assert_eq!(long(&Source::new("crates/engine/tests/file.rs", &comment(1001))).len(), 1);
    }
}
