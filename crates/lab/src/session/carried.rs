//! A file trace of one volume, for another with the same files: a node is the inode that has its
//! path there.
use super::record::{Call, FileRecord};
use extant_engine::survey::{ObjectId, Survey};
use extant_format::Ino;
use extant_format::inode::FileType;
use std::collections::{BTreeMap, BTreeSet};

/// The root in a file trace.
pub(crate) const ROOT_NODE: u64 = 1;
/// What a session makes has numbers from here on, apart from those of the volume's inodes.
const MADE: u64 = 1 << 40;

/// Symlinks that one path leads through at most, as in Linux.
const LINKS_MAX: u32 = 40;

/// What a path leads to: symlinks on the way are followed, one at the end is meant itself. With
/// the path that leads there without a symlink.
pub(crate) fn object_at(survey: &Survey, path: &[u8]) -> Option<(ObjectId, Vec<u8>)> {
    // What is passed, from the root on, and the length of the path up to there.
    let mut passed: Vec<(ObjectId, usize)> = vec![(survey.object(Ino::ROOT).ok()?, 0)];
    let (mut clean, mut links) = (Vec::new(), 0);
    let names_of = |path: &[u8]| -> Vec<Vec<u8>> {
        let names = path.split(|byte| *byte == b'/');
        let names = names.filter(|name| !name.is_empty() && *name != b".");
        names.rev().map(<[u8]>::to_vec).collect()
    };
    // Names that are still to come, the next one last.
    let mut names = names_of(path);
    while let Some(name) = names.pop() {
        let (here, length) = *passed.last()?;
        if name == b".." {
            if passed.len() > 1 {
                passed.pop();
            }
            clean.truncate(passed.last()?.1);
            continue;
        }
        let object = survey.object(survey.leads_to(survey.find(here, &name)?)).ok()?;
        if survey.file_type(object) != Some(FileType::Symlink) || names.is_empty() {
            clean.truncate(length);
            clean.push(b'/');
            clean.extend_from_slice(&name);
            passed.push((object, clean.len()));
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return None;
        }
        let target = survey.target(object).ok()?;
        if target.starts_with(b"/") {
            passed.truncate(1);
        }
        names.extend(names_of(&target));
    }
    Some((passed.last()?.0, clean))
}

/// The records of a session on the volume of `from`, as they would be on that of `to`. What is not
/// there has node 0.
pub fn carried(mut records: Vec<FileRecord>, from: &Survey, to: &Survey) -> Vec<FileRecord> {
    let inodes = records.iter().flat_map(nodes).filter_map(|node| u32::try_from(node).ok());
    let paths = from.paths(inodes.collect::<BTreeSet<u32>>().into_iter().map(Ino));
    let numbers: BTreeMap<u64, u64> = paths
        .into_iter()
        .filter_map(|(ino, path)| {
            Some((u64::from(ino.0), u64::from(to.ino(object_at(to, &path)?.0).0)))
        })
        .collect();
    let mut made: BTreeSet<u64> = BTreeSet::new();
    for record in &mut records {
        let is_made = |node: u64, made: &BTreeSet<u64>| made.contains(&node);
        let number = |node: u64, made: &BTreeSet<u64>| match node {
            ROOT_NODE => ROOT_NODE,
            node if is_made(node, made) => node.saturating_add(MADE),
            node => numbers.get(&node).copied().unwrap_or(0),
        };
        record.node = number(record.node, &made);
        match &mut record.call {
            Call::Lookup { found: Some(node), .. } => *node = number(*node, &made),
            Call::Link { from, .. } => *from = number(*from, &made),
            Call::Rename { to, .. } => *to = number(*to, &made),
            Call::Create { made: Some(node), .. }
            | Call::CreateNameless { made: Some(node), .. }
            | Call::MakeNode { made: Some(node), .. }
            | Call::MakeSymlink { made: Some(node), .. } => {
                made.insert(*node);
                *node = node.saturating_add(MADE);
            }
            _ => {}
        }
    }
    records
}

/// The nodes of a record.
fn nodes(record: &FileRecord) -> Vec<u64> {
    let other = match &record.call {
        Call::Lookup { found, .. } => *found,
        Call::Link { from, .. } => Some(*from),
        Call::Rename { to, .. } => Some(*to),
        _ => None,
    };
    std::iter::once(record.node).chain(other).collect()
}
