//! Whether a recovered volume is one that the promises allow.
//!
//! Names, attributes and sizes are as after some number of steps of each process: not fewer than
//! the syncs made durable, and none without all that was acknowledged before it began. A file whose
//! bytes were changed by metadata alone since it was last durable is exactly the one of that
//! moment; where blocks were written in place, each record is one that the file held at this place
//! since then, and its size is one that it had, or grew through.
use crate::found::{Found, FoundTree};
use crate::history::{Floor, History, Script};
use crate::operation::NodeId;
use crate::tree::{Change, Kind, Node, Tree, Version};
use extant_format::inode::FileType;
use extant_testkit::content::{self, RECORD, Record};
use std::collections::{BTreeMap, BTreeSet};

/// Which bytes a file may show that were not its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bytes {
    /// None.
    Own,
    /// Any, in a file that was written since it was last durable: `journal=writeback`.
    Stale,
}

/// Why a volume is not as promised after a cut at this moment, if it is not.
///
/// # Errors
/// One sentence.
pub fn judge(
    history: &History,
    moment: usize,
    found: &FoundTree,
    bytes: Bytes,
) -> Result<(), String> {
    if history.scripts.len() > 1 {
        shared(history, found)?;
    }
    let floor = history.floor(moment);
    let mut candidates: Vec<Vec<usize>> = Vec::new();
    for (process, script) in history.scripts.iter().enumerate() {
        let seen = Seen { process, script, found, names: own_names(history, process, found) };
        let range = floor.steps[process]..=history.begun(process, moment);
        let judge = Judge { seen, history, floor: &floor, moment, bytes };
        candidates.push(judge.candidates(range)?);
    }
    in_order(history, &candidates)
}

/// Whether the names that belong to no process are those of the beginning.
fn shared(history: &History, found: &FoundTree) -> Result<(), String> {
    let is_shared = |path: &&String| !(0..history.scripts.len()).any(|one| is_marked(path, one));
    let before = history.scripts[0].trees[0].names.keys().filter(|path| !path.is_empty());
    let before: BTreeSet<&String> = before.filter(is_shared).collect();
    let now: BTreeSet<&String> = found.keys().filter(is_shared).collect();
    match before.symmetric_difference(&now).next() {
        None => Ok(()),
        Some(path) => Err(format!("{path}, which is nobody's, came or went")),
    }
}

/// The names of one process: all of them where there is one process, else those whose path has its
/// mark.
fn own_names<'a>(history: &History, process: usize, found: &'a FoundTree) -> Vec<&'a str> {
    let is_own = |path: &&String| history.scripts.len() == 1 || is_marked(path, process);
    found.keys().filter(is_own).map(String::as_str).collect()
}

/// How the names of a process begin, where there are several.
pub fn mark(process: usize) -> String {
    format!("p{process}-")
}

fn is_marked(path: &str, process: usize) -> bool {
    let mark = mark(process);
    path.split('/').any(|name| name.starts_with(&mark))
}

/// Whether one candidate of each process can be chosen so that nothing is there without what was
/// acknowledged before it began.
fn in_order(history: &History, candidates: &[Vec<usize>]) -> Result<(), String> {
    // The least of each, raised as far as the others ask.
    let mut chosen: Vec<usize> = vec![0; candidates.len()];
    loop {
        let mut raised = None;
        for (process, of_process) in candidates.iter().enumerate() {
            let steps = of_process[chosen[process]];
            for (other, of_other) in candidates.iter().enumerate() {
                let asked = history.implied(process, steps, other);
                if of_other[chosen[other]] < asked {
                    raised = Some((process, steps, other, asked));
                }
            }
        }
        let Some((process, steps, other, asked)) = raised else { return Ok(()) };
        let enough = candidates[other].iter().position(|steps| *steps >= asked);
        chosen[other] = enough.ok_or_else(|| {
            format!(
                "process {process} is there with {steps} steps, but process {other} with fewer \
                 than the {asked} that came before"
            )
        })?;
    }
}

/// What is seen of one process.
struct Seen<'a> {
    process: usize,
    script: &'a Script,
    found: &'a FoundTree,
    /// Of all that was found, what belongs to it.
    names: Vec<&'a str>,
}

struct Judge<'a> {
    seen: Seen<'a>,
    history: &'a History,
    floor: &'a Floor,
    moment: usize,
    bytes: Bytes,
}

impl Judge<'_> {
    /// After how many steps the volume may be. At least one.
    fn candidates(&self, range: std::ops::RangeInclusive<usize>) -> Result<Vec<usize>, String> {
        let mut found = Vec::new();
        let mut names = None;
        let mut files: Vec<String> = Vec::new();
        let (first, last) = (*range.start(), *range.end());
        for steps in range {
            let tree = &self.seen.script.trees[steps];
            match self.names(tree).and_then(|inodes| self.files(tree, &inodes)) {
                Ok(()) => found.push(steps),
                Err(Why::Bytes(why)) => files.push(format!("{steps}: {why}")),
                Err(Why::Names(why)) => {
                    names.get_or_insert(why);
                }
            }
        }
        match found.is_empty() {
            false => Ok(found),
            true => Err(format!(
                "process {} is as after none of {first}..={last} steps: {}",
                self.seen.process,
                // Trees that have the right names say more.
                if files.is_empty() { names.unwrap_or_default() } else { files.join("; ") }
            )),
        }
    }

    /// Compares names, types, links, targets and attributes.
    fn names(&self, tree: &Tree) -> Result<BTreeMap<NodeId, u32>, Why> {
        let is_own = |path: &str| {
            !path.is_empty()
                && (self.history.scripts.len() == 1 || is_marked(path, self.seen.process))
        };
        let mut inodes: BTreeMap<NodeId, u32> = BTreeMap::new();
        let mut count = 0;
        for (path, id) in tree.names.iter().filter(|(path, _)| is_own(path)) {
            count += 1;
            let found = self.seen.found.get(path);
            let found = found.ok_or_else(|| Why::Names(format!("{path} is missing")))?;
            if *inodes.entry(*id).or_insert(found.inode) != found.inode {
                return Err(Why::Names(format!("{path} is another file than its other name")));
            }
            let links = tree.names.values().filter(|other| *other == id).count();
            compare(path, &tree.nodes[id], found, links).map_err(Why::Names)?;
        }
        if inodes.values().collect::<BTreeSet<_>>().len() < inodes.len() {
            return Err(Why::Names("two names lead to one file".to_owned()));
        }
        if count < self.seen.names.len() {
            let strange = self.seen.names.iter().find(|path| !tree.names.contains_key(**path));
            return Err(Why::Names(format!("{} is there", strange.unwrap_or(&"?"))));
        }
        Ok(inodes)
    }

    /// Compares the bytes of all files.
    fn files(&self, tree: &Tree, inodes: &BTreeMap<NodeId, u32>) -> Result<(), Why> {
        for (path, id) in tree.names.iter().filter(|(_, id)| inodes.contains_key(id)) {
            let Some(versions) = self.seen.script.contents().get(id) else { continue };
            let now = tree.nodes[id].version;
            let durable = self.floor.versions.get(id).copied().unwrap_or(0);
            let last = self.last_version(*id).max(now);
            let first = durable.min(now);
            let found = &self.seen.found[path].bytes;
            file(&versions[first..=last], now - first, found, self.bytes)
                .map_err(|why| Why::Bytes(format!("{path}: {why}")))?;
        }
        Ok(())
    }

    /// The last version of a file that was asked for by the moment.
    fn last_version(&self, id: NodeId) -> usize {
        let begun = self.history.begun(self.seen.process, self.moment);
        let trees = self.seen.script.trees[..=begun].iter();
        trees.rev().find_map(|tree| tree.nodes.get(&id)).map_or(0, |node| node.version)
    }
}

/// Why a tree is not the one that was found.
enum Why {
    Names(String),
    Bytes(String),
}

fn compare(path: &str, node: &Node, found: &Found, links: usize) -> Result<(), String> {
    let (file_type, target) = match &node.kind {
        Kind::File => (FileType::Regular, None),
        Kind::Directory => (FileType::Directory, None),
        Kind::Symlink(target) => (FileType::Symlink, Some(target)),
    };
    if found.file_type != file_type {
        return Err(format!("{path} is a {:?}", found.file_type));
    }
    if target.is_some_and(|target| *target != *found.bytes) {
        return Err(format!("{path} leads to {:?}", String::from_utf8_lossy(&found.bytes)));
    }
    if file_type == FileType::Regular && usize::from(found.links) != links {
        return Err(format!("{path} counts {} names and has {links}", found.links));
    }
    if found.attributes != node.attributes {
        let names = |attributes: &BTreeMap<Vec<u8>, Vec<u8>>| -> Vec<String> {
            let name = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
            attributes
                .iter()
                .map(|(key, value)| format!("{}: {}", name(key), value.len()))
                .collect()
        };
        let (has, had) = (names(&found.attributes), names(&node.attributes));
        return Err(format!("{path} has the attributes {has:?} and not {had:?}"));
    }
    Ok(())
}

/// Whether a file may hold this: `window` has what it held since it was last durable, and at `now`
/// what it holds if only metadata changed.
fn file(window: &[Version], now: usize, found: &[u8], bytes: Bytes) -> Result<(), String> {
    let is_written = window.iter().skip(1).any(|version| version.change == Change::InPlace);
    if !is_written {
        let now = &window[now].bytes;
        return match **now == *found {
            true => Ok(()),
            false => Err(difference(now, found)),
        };
    }
    size(window, found.len())?;
    if bytes == Bytes::Stale {
        return Ok(());
    }
    // After its blocks have moved, what is written in place is found at other places too.
    let shifted: Option<BTreeSet<&[u8]>> = window
        .iter()
        .skip(1)
        .any(|version| version.change == Change::Shift)
        .then(|| window.iter().flat_map(|version| version.bytes.chunks(RECORD)).collect());
    for (at, piece) in (0..).step_by(RECORD).zip(found.chunks(RECORD)) {
        let is_zero = piece.iter().all(|byte| *byte == 0);
        // What was cut off is gone with the size, although the file grows again.
        let is_cut =
            |version: &Version| version.zeros_first && version.zeros.contains(&(at as u64));
        let since = window[..=now].iter().rposition(is_cut).unwrap_or(0);
        let held = |version: &Version| version.bytes.get(at..at + piece.len()) == Some(piece);
        let is_zeroed = |version: &Version| is_zero && version.zeros.contains(&(at as u64));
        let is_own = window[since..].iter().any(held)
            || window.iter().skip(1).any(is_zeroed)
            || shifted.as_ref().is_some_and(|pieces| is_zero || pieces.contains(piece));
        if !is_own {
            return Err(format!("byte {at} of {}: {}", found.len(), described(piece)));
        }
    }
    Ok(())
}

/// A size that the file had, or grew through.
fn size(window: &[Version], found: usize) -> Result<(), String> {
    let mut before = window[0].bytes.len();
    let mut is_right = before == found;
    for version in &window[1..] {
        let after = version.bytes.len();
        // A size grows with the blocks that are written, whatever asked for it.
        let grew = version.change != Change::Shift && (before..=after).contains(&found);
        is_right |= after == found || grew;
        before = after;
    }
    let sizes: Vec<usize> = window.iter().map(|version| version.bytes.len()).collect();
    if is_right { Ok(()) } else { Err(format!("{found} bytes; it had {sizes:?}")) }
}

fn difference(expected: &[u8], found: &[u8]) -> String {
    let at = expected.iter().zip(found).position(|(one, other)| one != other);
    let at = at.unwrap_or(expected.len().min(found.len())) / RECORD * RECORD;
    let piece = found.get(at..(at + RECORD).min(found.len())).unwrap_or_default();
    let (found, expected) = (found.len(), expected.len());
    format!("{found} bytes, not the {expected} of then; byte {at}: {}", described(piece))
}

fn described(piece: &[u8]) -> String {
    match content::parse(piece) {
        _ if piece.is_empty() => "the end".to_owned(),
        Ok(None) => "zeros, which it never held there".to_owned(),
        Ok(Some(Record { owner: content::SECRET, .. })) => {
            "what a removed file left in a free block".to_owned()
        }
        Ok(Some(record)) => format!("{record:?}"),
        Err(other) => other,
    }
}
