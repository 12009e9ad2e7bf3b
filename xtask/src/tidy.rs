//! The house rules that a compiler does not know, as a table that an ordinary test checks.
//!
//! A rule reads one file at a time and says where it is broken. An exception stands in the source,
//! beside what it excuses, with its reason: `// tidy: RULE because REASON`, in the comment above
//! the line, or among the first lines of a file for what concerns the whole file.

mod manifest;
mod rules;
mod source;

pub use rules::{RULES, Rule};
pub use source::{Finding, Source};

use std::path::{Path, PathBuf};

use crate::{command, repository};

/// Judges every file of the repository by every rule and prints what is broken, in the order of the
/// files.
///
/// # Errors
/// A rule is broken, or a file cannot be read.
pub fn run(_words: &[String]) -> Result<(), String> {
    let sources = sources(&repository())?;
    let findings = judge(&sources);
    if findings.is_empty() {
        println!("tidy: {} rules, {} files, nothing to say", RULES.len(), sources.len());
        return Ok(());
    }
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    Err(format!("{} places:\n{}", findings.len(), lines.join("\n")))
}

/// What the rules say about `sources`.
pub fn judge(sources: &[Source]) -> Vec<Finding> {
    sources
        .iter()
        .flat_map(|source| RULES.iter().flat_map(move |rule| rule.judge(source)))
        .collect()
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
        match entry.file_type() {
            Ok(kind) if kind.is_file() => found.push(path),
            Ok(kind) if kind.is_dir() && name != "target" && name != ".git" => {
                collect(root, &path, found)
            }
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
        let findings: Vec<String> = judge(&sources).iter().map(ToString::to_string).collect();
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
