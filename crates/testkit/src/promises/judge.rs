//! Notes held against a folder after a recovery.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::load::rename;
use super::notes::{Id, Note, Notes};
use crate::content::{self, RECORD};

/// What was found of what was promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations that were noted.
    pub operations: u64,
    /// Files that had to be there with what they held, exactly or but for later writes.
    pub synced_files: u64,
    /// Files looked at.
    pub files: u64,
}

impl Tally {
    /// Both together.
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            operations: self.operations + other.operations,
            synced_files: self.synced_files + other.synced_files,
            files: self.files + other.files,
        }
    }
}

/// The names of a folder.
type Names = BTreeMap<String, Id>;

/// A file as it should be, record by record: the number of the write, 0 for zeros.
#[derive(Clone, Debug, Default)]
struct Content {
    records: Vec<u32>,
}

impl Content {
    fn write(&mut self, write: u32, offset: u64, length: u64) {
        let (start, end) = (offset as usize / RECORD, (offset + length) as usize / RECORD);
        if self.records.len() < end {
            self.records.resize(end, 0);
        }
        self.records[start..end].fill(write);
    }

    fn truncate(&mut self, length: u64) {
        self.records.resize(length as usize / RECORD, 0);
    }
}

/// What the notes say of one file.
#[derive(Clone, Debug, Default)]
struct Story {
    now: Content,
    /// What the last sync that returned has made durable.
    synced: Option<Content>,
    /// What came after that, and may be there or not.
    since: Vec<Note>,
}

/// Whether what a process noted is compatible with its folder.
///
/// # Errors
/// What is not, a line each.
pub fn judge(notes: &Notes, folder: &Path) -> Result<Tally, String> {
    if let Some(failure) = &notes.failure {
        return Err(format!("the load failed: {failure}"));
    }
    let found = read(folder)?;
    let stories = stories(notes);
    let (states, least) = names(notes);
    let mut problems = Vec::new();
    let tally = Tally { operations: notes.operations.len() as u64, ..Tally::default() };
    // The folder is as after one of the states that may be there; of several that have these
    // names, one fits.
    let is_like = |names: &&Names| names.keys().eq(found.keys());
    for names in states.iter().skip(least).filter(is_like) {
        let (wrong, here) = contents(names, &found, &stories);
        if wrong.is_empty() {
            return Ok(tally.plus(here));
        }
        problems = wrong;
    }
    if problems.is_empty() {
        let names: Vec<&String> = found.keys().collect();
        let expected: Vec<&String> = states[least].keys().collect();
        problems.push(format!(
            "the names {names:?} are none of those after operation {least} or later: {expected:?}"
        ));
    }
    problems.truncate(8);
    Err(problems.join("\n"))
}

/// The files of the folder and what they hold.
fn read(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let bytes = std::fs::read(entry.path()).map_err(fail)?;
        found.insert(entry.file_name().to_string_lossy().into_owned(), bytes);
    }
    Ok(found)
}

/// The names after each operation, and the first of these states that may be found.
fn names(notes: &Notes) -> (Vec<Names>, usize) {
    let mut states = vec![Names::new()];
    let mut least = 0;
    // The state since which a file was named as it is.
    let mut named: BTreeMap<Id, usize> = BTreeMap::new();
    for (number, note) in notes.operations.iter().enumerate() {
        let is_done = number < notes.done;
        let mut names = states.last().cloned().unwrap_or_default();
        let mut touched = Vec::new();
        match note {
            Note::Create { id, name } => {
                names.insert(name.clone(), *id);
                touched.push(*id);
            }
            Note::Rename { from, to } => {
                touched.extend([from, to].iter().filter_map(|name| names.get(*name)).copied());
                rename(&mut names, from, to);
            }
            Note::Link { from, to } => {
                if let Some(id) = names.get(from).copied() {
                    names.insert(to.clone(), id);
                    touched.push(id);
                }
            }
            Note::Unlink { name } => touched.extend(names.remove(name)),
            Note::SyncFolder if is_done => least = states.len() - 1,
            Note::Sync { id } if is_done => {
                least = least.max(named.get(id).copied().unwrap_or_default());
            }
            _ => {}
        }
        if touched.is_empty() {
            continue;
        }
        states.push(names);
        touched.iter().for_each(|id| {
            named.insert(*id, states.len() - 1);
        });
    }
    (states, least)
}

fn stories(notes: &Notes) -> BTreeMap<Id, Story> {
    let mut stories: BTreeMap<Id, Story> = BTreeMap::new();
    for (number, note) in notes.operations.iter().enumerate() {
        let is_done = number < notes.done;
        match note {
            Note::Write { id, write, offset, length } => {
                let story = stories.entry(*id).or_default();
                story.now.write(*write, *offset, *length);
                story.since.push(note.clone());
            }
            Note::Truncate { id, length } => {
                let story = stories.entry(*id).or_default();
                story.now.truncate(*length);
                story.since.push(note.clone());
            }
            Note::Sync { id } | Note::SyncData { id } if is_done => {
                let story = stories.entry(*id).or_default();
                story.synced = Some(story.now.clone());
                story.since.clear();
            }
            _ => {}
        }
    }
    stories
}

/// What is wrong with the files if these are their names.
fn contents(
    names: &Names,
    found: &BTreeMap<String, Vec<u8>>,
    stories: &BTreeMap<Id, Story>,
) -> (Vec<String>, Tally) {
    let mut wrong = Vec::new();
    let mut tally = Tally::default();
    for (name, id) in names {
        let (Some(bytes), story) = (found.get(name), stories.get(id).cloned().unwrap_or_default())
        else {
            continue;
        };
        tally.files += 1;
        tally.synced_files += u64::from(story.synced.is_some());
        if let Err(error) = content(*id, bytes, &story) {
            wrong.push(format!("{name}, file {id:#x}: {error}"));
        }
    }
    (wrong, tally)
}

/// Whether a file may hold these bytes.
fn content(id: Id, bytes: &[u8], story: &Story) -> Result<(), String> {
    if !bytes.len().is_multiple_of(RECORD) {
        return Err(format!("{} bytes, which no operation makes", bytes.len()));
    }
    let synced = story.synced.clone().unwrap_or_default();
    sizes(bytes.len() / RECORD, &synced, story)?;
    for (at, chunk) in bytes.chunks_exact(RECORD).enumerate() {
        let place = at * RECORD;
        let record = content::parse(chunk).map_err(|error| format!("byte {place}: {error}"))?;
        if let Some(record) = record
            && (record.owner != id || record.offset != place as u64)
        {
            return Err(format!("byte {place}: a stranger's {record:?}"));
        }
        let write = record.map_or(0, |record| record.write);
        let mut allowed = BTreeSet::from([synced.records.get(at).copied().unwrap_or(0)]);
        for note in &story.since {
            match note {
                Note::Write { write, offset, length, .. }
                    if (*offset..offset + length).contains(&(place as u64)) =>
                {
                    allowed.insert(*write);
                }
                Note::Truncate { length, .. } if *length <= place as u64 => {
                    allowed.insert(0);
                }
                _ => {}
            }
        }
        if !allowed.contains(&write) {
            return Err(format!("byte {place}: write {write}, and not one of {allowed:?}"));
        }
    }
    Ok(())
}

/// Whether a file may have this many records: what it had when it was synced, or anything between
/// the sizes that it had since.
fn sizes(records: usize, synced: &Content, story: &Story) -> Result<(), String> {
    let mut now = synced.clone();
    let mut sizes = vec![now.records.len()];
    for note in &story.since {
        match note {
            Note::Write { write, offset, length, .. } => now.write(*write, *offset, *length),
            Note::Truncate { length, .. } => now.truncate(*length),
            _ => {}
        }
        sizes.push(now.records.len());
    }
    let (least, most) = (sizes.iter().min(), sizes.iter().max());
    if Some(&records) >= least && Some(&records) <= most {
        return Ok(());
    }
    Err(format!("{} bytes, and not from {least:?} to {most:?} records", records * RECORD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::record;
    use crate::scratch::Scratch;

    fn judged(
        notes: &[Note],
        is_last_open: bool,
        files: &[(&str, Vec<u8>)],
    ) -> Result<Tally, String> {
        let folder = Scratch::new("judge");
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).expect("written");
        }
        let done = notes.len() - usize::from(is_last_open);
        let notes = Notes { operations: notes.to_vec(), done, failure: None };
        judge(&notes, folder.path())
    }

    fn written() -> Vec<Note> {
        vec![
            Note::Create { id: 1, name: "a".into() },
            Note::Write { id: 1, write: 1, offset: 0, length: 64 },
        ]
    }

    #[test]
    fn what_was_not_synced_may_be_there_or_not() {
        for bytes in [vec![], vec![0; 32], record(1, 1, 0, 64)] {
            assert!(judged(&written(), false, &[("a", bytes)]).is_ok());
        }
        assert!(judged(&written(), false, &[]).is_ok(), "nor does it need a name");
    }

    #[test]
    fn what_was_synced_is_there() {
        let notes = [written(), vec![Note::Sync { id: 1 }]].concat();
        assert!(judged(&notes, false, &[("a", record(1, 1, 0, 64))]).is_ok());
        // A sync that has not returned promises nothing.
        assert!(judged(&notes, true, &[("a", vec![0; 64])]).is_ok());
        let wrong = [vec![], vec![0; 64], record(1, 1, 0, 48), record(1, 1, 0, 80)];
        for bytes in wrong {
            assert!(judged(&notes, false, &[("a", bytes)]).is_err(), "it is found");
        }
        assert!(judged(&notes, false, &[]).is_err(), "with its name");
    }

    #[test]
    fn later_writes_are_there_in_part() {
        let more = [Note::Sync { id: 1 }, Note::Write { id: 1, write: 2, offset: 32, length: 64 }];
        let notes = [written(), more.to_vec()].concat();
        let whole = |pieces: &[(u32, u64, u64)]| -> Vec<u8> {
            pieces.iter().flat_map(|(write, at, length)| record(1, *write, *at, *length)).collect()
        };
        assert!(judged(&notes, false, &[("a", whole(&[(1, 0, 48), (2, 48, 16)]))]).is_ok());
        assert!(judged(&notes, false, &[("a", whole(&[(1, 0, 32), (2, 32, 64)]))]).is_ok());
        assert!(judged(&notes, false, &[("a", whole(&[(2, 0, 16), (1, 16, 48)]))]).is_err());
    }

    #[test]
    fn bytes_of_others_are_found() {
        for stranger in [record(2, 1, 0, 64), record(1, 1, 16, 64), vec![7; 64]] {
            assert!(judged(&written(), false, &[("a", stranger)]).is_err());
        }
    }

    #[test]
    fn names_are_those_of_a_moment_after_the_folder_was_synced() {
        let notes = [
            written(),
            vec![
                Note::SyncFolder,
                Note::Rename { from: "a".into(), to: "b".into() },
                Note::Create { id: 2, name: "c".into() },
            ],
        ]
        .concat();
        for names in [&["a"][..], &["b"], &["b", "c"]] {
            let files: Vec<(&str, Vec<u8>)> = names.iter().map(|name| (*name, vec![])).collect();
            assert!(judged(&notes, false, &files).is_ok(), "{names:?}");
        }
        for names in [&[][..], &["a", "b"], &["c"], &["a", "c"]] {
            let files: Vec<(&str, Vec<u8>)> = names.iter().map(|name| (*name, vec![])).collect();
            assert!(judged(&notes, false, &files).is_err(), "{names:?}");
        }
    }
}
