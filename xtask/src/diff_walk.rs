//! `xtask diff-walk`: two trees, or a listing and a tree, compared; every difference is a line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use extant_testkit::compare::{self, Field, Grain, Options};
use extant_testkit::listing;
use extant_testkit::walk::{Depth, walk};

/// What was asked for.
struct Asked {
    listing: Option<PathBuf>,
    print: Option<PathBuf>,
    trees: Vec<PathBuf>,
    options: Options,
}

/// `diff-walk [OPTIONS] LEFT RIGHT`, `diff-walk [OPTIONS] --listing FILE TREE`, `diff-walk --print
/// TREE`, with `--also FIELD,..`, `--skip FIELD,..`, `--exclude PATH`, `--seconds`.
///
/// # Errors
/// There is a difference, or something cannot be read.
pub fn run(words: &[String]) -> Result<(), String> {
    let asked = parse(words)?;
    if let Some(tree) = &asked.print {
        return print(tree);
    }
    let found = match (&asked.listing, &asked.trees[..]) {
        (None, [left, right]) => compare::trees(left, right, &asked.options)?,
        (Some(file), [tree]) => compare::listing_against(file, tree, &asked.options)?,
        _ => return Err("two trees, or --listing FILE and a tree".into()),
    };
    for difference in &found {
        println!("{difference}");
    }
    if found.is_empty() { Ok(()) } else { Err(format!("{} differences", found.len())) }
}

fn parse(words: &[String]) -> Result<Asked, String> {
    let has_listing = words.iter().any(|word| word == "--listing");
    let options = if has_listing { Options::same_image() } else { Options::copy() };
    let mut asked = Asked { listing: None, print: None, trees: Vec::new(), options };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--listing" => asked.listing = Some(value()?.into()),
            "--print" => asked.print = Some(value()?.into()),
            "--also" => asked.options.fields.extend(fields(value()?)?),
            "--skip" => {
                for field in fields(value()?)? {
                    asked.options.fields.remove(&field);
                }
            }
            "--exclude" => asked.options = asked.options.without(value()?.trim_matches('/')),
            "--holes" => {
                asked.options.fields.insert(Field::Holes);
            }
            "--seconds" => asked.options.grain = Grain::Second,
            option if option.starts_with("--") => return Err(format!("no option {option}")),
            tree => asked.trees.push(tree.into()),
        }
    }
    Ok(asked)
}

fn fields(words: &str) -> Result<Vec<Field>, String> {
    let field = |word| {
        let names: Vec<&str> = Field::NAMES.iter().map(|(_, name)| *name).collect();
        Field::by_name(word)
            .ok_or_else(|| format!("no field {word}; there are {}", names.join(", ")))
    };
    words.split(',').map(field).collect()
}

fn print(tree: &Path) -> Result<(), String> {
    let depth = Depth { sha256: true, ..Depth::default() };
    for entry in walk(tree, depth, &BTreeSet::new())? {
        println!("{}", listing::record(&entry));
    }
    Ok(())
}
