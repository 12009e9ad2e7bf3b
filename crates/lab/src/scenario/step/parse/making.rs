//! Steps that make trees, or place them: the rule of a tree, and how it comes to be.
use super::{COUNT_MAX, StepScope, required_count};
use crate::fields::{self, Result};
use crate::quantity::SIZE_MAX;
use crate::scenario::step::{Action, InodeOrder, MakeStyle, PlacedTree, Stages};
use crate::scenario::tree::{
    BlockTotal, ENTRIES_MAX, FlatOrder, FlatRule, SourceRule, TreeSpec, read_listing,
};
use extant_sim::drive::file::Section;
use std::path::Path;
use std::sync::Arc;

pub(super) fn make(
    section: &mut Section<'_>,
    surroundings: &StepScope<'_>,
    style: MakeStyle,
) -> Result<Action> {
    let at = fields::path(section, "at")?;
    let tree = named_or_own_tree(section, surroundings)?;
    Ok(Action::Make { at, tree, style, stages: stages(section)? })
}

/// `tree`: the name of one, or a table.
pub(super) fn named_or_own_tree(
    section: &mut Section<'_>,
    surroundings: &StepScope<'_>,
) -> Result<TreeSpec> {
    let is_name = section.find("tree").is_some_and(|value| value.get_ref().is_str());
    if is_name {
        let name = fields::text(section, "tree")?;
        let known = || match surroundings.trees.is_empty() {
            true => "there are none".to_owned(),
            false => format!(
                "known are {}",
                surroundings.trees.keys().cloned().collect::<Vec<_>>().join(", ")
            ),
        };
        let found = surroundings.trees.get(&name).cloned();
        found.ok_or_else(|| section.error("tree", format!("unknown tree {name:?}: {}", known())))
    } else {
        let mut tree = section.section("tree")?;
        let spec = parse_tree(&mut tree, surroundings.folder)?;
        tree.finish()?;
        Ok(spec)
    }
}

/// A tree: its `rule`, and the keys of that rule.
pub fn parse_tree(section: &mut Section<'_>, folder: &Path) -> Result<TreeSpec> {
    #[derive(Clone, Copy)]
    enum Rule {
        Source,
        Flat,
        Listing,
    }
    let rules = [("source", Rule::Source), ("flat", Rule::Flat), ("listing", Rule::Listing)];
    if !section.has("rule") {
        return Err(section.error("rule", "is missing; there are source, flat, listing"));
    }
    match section.choice("rule", &rules, Rule::Source)? {
        Rule::Source => source_rule(section).map(TreeSpec::Source),
        Rule::Flat => flat_rule(section, "files", "directories").map(TreeSpec::Flat),
        Rule::Listing => {
            let file = fields::text(section, "file")?;
            let tree = read_listing(&folder.join(file));
            tree.map(|tree| TreeSpec::Listing(Arc::new(tree)))
                .map_err(|error| section.error("file", error.to_string()))
        }
    }
}

fn source_rule(section: &mut Section<'_>) -> Result<SourceRule> {
    let files = required_count(section, "files", 0..=ENTRIES_MAX)?;
    let directories = section.whole_within("directories", 0..=ENTRIES_MAX, Some(files / 17))?;
    // A kernel tree of 2001 has 13.2 KB a file.
    let bytes = fields::size(section, "bytes", 0..=SIZE_MAX)?.unwrap_or(files * 13_200);
    let empty = section.whole_within("empty", 0..=files, Some(0))?;
    let blocks = fields::count(section, "blocks", 1..=1 << 40)?;
    let block_size = fields::size(section, "block_size", 1024..=65536)?;
    let blocks = match (blocks, block_size) {
        (Some(blocks), Some(size)) => Some(BlockTotal { blocks, block_size: size as u32 }),
        (None, None) => None,
        _ => {
            return Err(section.error("blocks", "goes with block_size, and block_size with blocks"));
        }
    };
    Ok(SourceRule { files, directories, empty, bytes, blocks })
}

/// Whether a pattern makes names that a directory can hold.
pub(super) fn name_pattern(section: &mut Section<'_>, key: &str, default: &str) -> Result<String> {
    let pattern = section.optional_text(key)?.unwrap_or(default);
    match pattern.is_empty() || pattern.contains(['/', '\0']) || pattern.len() > 200 {
        true => Err(section
            .error(key, "has to be a file's name of at most 200 letters, with %d for its number")),
        false => Ok(pattern.to_owned()),
    }
}

fn flat_rule(
    section: &mut Section<'_>,
    files_key: &str,
    directories_key: &str,
) -> Result<FlatRule> {
    let most = ENTRIES_MAX;
    let files = required_count(section, files_key, 0..=most)?;
    let directories = section.whole_within(directories_key, 0..=most, Some(0))?;
    if files == 0 && directories == 0 {
        return Err(section.error(files_key, format!("is 0, and so is {directories_key}")));
    }
    if directories == 0
        && let Some(key) = ["directory_names", "order"].into_iter().find(|key| section.has(key))
    {
        return Err(section.error(key, format!("goes with {directories_key}")));
    }
    let size = fields::size(section, "size", 0..=SIZE_MAX)?.unwrap_or(0);
    let size_max = fields::size(section, "size_max", size..=SIZE_MAX)?.unwrap_or(size);
    let orders = [("by-directory", FlatOrder::ByDirectory), ("round-robin", FlatOrder::RoundRobin)];
    Ok(FlatRule {
        files,
        directories,
        bytes: (size, size_max),
        directory_name: name_pattern(section, "directory_names", "dir-%d")?,
        file_name: name_pattern(section, "names", "file-%d")?,
        order: section.choice("order", &orders, FlatOrder::ByDirectory)?,
    })
}

pub(super) fn make_directories(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    let rule = FlatRule {
        files: 0,
        directories: required_count(section, "count", 1..=ENTRIES_MAX)?,
        bytes: (0, 0),
        directory_name: name_pattern(section, "names", "dir-%d")?,
        file_name: String::new(),
        order: FlatOrder::ByDirectory,
    };
    Ok(Action::Make {
        at: fields::path(section, "at")?,
        tree: TreeSpec::Flat(rule),
        style: MakeStyle::Plain,
        stages: Stages::All,
    })
}

pub(super) fn create_files(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    Ok(Action::Make {
        at: fields::path(section, "at")?,
        tree: TreeSpec::Flat(flat_rule(section, "count", "directories")?),
        style: MakeStyle::Plain,
        stages: stages(section)?,
    })
}

pub(super) fn place_trees(
    section: &mut Section<'_>,
    surroundings: &StepScope<'_>,
) -> Result<Action> {
    let tables = section.sections("trees")?;
    if tables.is_empty() {
        return Err(section.error("trees", "is missing, or has no tree"));
    }
    let mut trees: Vec<PlacedTree> = Vec::new();
    for mut table in tables {
        let at = fields::path(&mut table, "at")?;
        let name = at.trim_matches('/');
        if name.is_empty()
            || name.contains('/')
            || trees.iter().any(|other| other.at.trim_matches('/') == name)
        {
            return Err(table.error(
                "at",
                "has to be one name at the top, such as \"/usr\", that no other tree has",
            ));
        }
        let orders = [
            ("in-order", InodeOrder::InOrder),
            ("by-directory", InodeOrder::ByDirectory),
            ("near-parents", InodeOrder::NearParents),
            ("in-group", InodeOrder::InGroup),
            ("scattered", InodeOrder::Scattered),
        ];
        trees.push(PlacedTree {
            at,
            tree: named_or_own_tree(&mut table, surroundings)?,
            inodes: table.choice("inodes", &orders, InodeOrder::InOrder)?,
        });
        table.finish()?;
    }
    Ok(Action::PlaceTrees { trees })
}

/// `stages`: how many, or `"directories"`.
fn stages(section: &mut Section<'_>) -> Result<Stages> {
    let is_word = section.find("stages").is_some_and(|value| value.get_ref().is_str());
    if is_word {
        return match section.optional_text("stages")? {
            Some("directories") => Ok(Stages::Directories),
            _ => Err(section.error("stages", "has to be a number, or \"directories\"")),
        };
    }
    Ok(fields::count(section, "stages", 1..=COUNT_MAX)?.map_or(Stages::All, Stages::Parts))
}
