//! What happens on a volume: changes of a few names, drawn by a seed, and a memory of everything
//! that was ever written.
use crate::volume::Random;
use extant_engine::{Change, File, Filesystem, Rename, SetAttribute, Size};
use extant_testkit::content;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What was done to one file in its life.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Each write: its number and the bytes that it covered.
    pub writes: BTreeMap<u32, Range<u64>>,
    /// Bytes that read as zeros at some time.
    pub zeros: Vec<Range<u64>>,
}

/// A file as it is now.
#[derive(Clone, Debug, Default)]
struct Now {
    owner: u32,
    size: u64,
    /// What each record holds: the number of a write, or 0 for zeros.
    records: Vec<u32>,
}

/// What a path has to hold when nothing was done to it since a sync.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Moments of the log between which it holds.
    pub from: usize,
    pub until: usize,
    pub path: String,
    /// Every content that is right.
    pub contents: Vec<Vec<u8>>,
}

/// A life so far.
pub struct Life {
    random: Random,
    /// The directory in which it is lived.
    root: String,
    next_owner: u32,
    next_write: u32,
    /// By path.
    files: BTreeMap<String, Now>,
    pub histories: BTreeMap<u32, History>,
    pub targets: BTreeSet<Vec<u8>>,
    pub values: BTreeSet<Vec<u8>>,
    /// What was synced and is still so, by path: since when, and what.
    synced: BTreeMap<String, (usize, Vec<u8>)>,
    pub kept: Vec<Kept>,
}

const DIRECTORIES: &[&str] = &["", "/a", "/b", "/a/c"];
pub const NAMES: &[&str] = &["one", "two", "three", "four", "five", "six"];

impl Life {
    pub fn new(seed: u64) -> Life {
        Life {
            random: Random::new(seed),
            root: String::new(),
            next_owner: 1,
            next_write: 1,
            files: BTreeMap::new(),
            histories: BTreeMap::new(),
            targets: BTreeSet::new(),
            values: BTreeSet::new(),
            synced: BTreeMap::new(),
            kept: Vec::new(),
        }
    }

    /// One of several that are lived at the same time, each in a directory of its own.
    pub fn beside(seed: u64, number: u32) -> Life {
        Life {
            root: format!("/life{number}"),
            next_owner: 1 + number * 1_000_000,
            next_write: 1 + number * 1_000_000,
            ..Life::new(seed ^ u64::from(number) << 32)
        }
    }

    /// Everything that was written in either.
    pub fn and(mut self, other: Life) -> Life {
        self.histories.extend(other.histories);
        self.targets.extend(other.targets);
        self.values.extend(other.values);
        self
    }

    /// Makes the directory in which it is lived.
    pub fn begin(&self, volume: &Filesystem) {
        if !self.root.is_empty() {
            volume.create_dir(&self.root, 0o755).expect("makes it");
        }
    }

    fn path(&mut self) -> String {
        let directory = *self.random.pick(DIRECTORIES);
        format!("{}{directory}/{}", self.root, self.random.pick(NAMES))
    }

    /// Something that happens; `moment` is where the log is now.
    pub fn step(&mut self, volume: &Filesystem, moment: impl Fn() -> usize) {
        let path = self.path();
        match self.random.below(20) {
            0..=4 => self.rewrite(volume, &path, &moment),
            5..=7 => self.change(volume, &path, &moment),
            8 | 9 => self.replace(volume, &path, &moment),
            10 => self.remove(volume, &path, &moment),
            11 => {
                let directory = *self.random.pick(&DIRECTORIES[1..]);
                let _ = volume.create_dir(format!("{}{directory}", self.root), 0o755);
            }
            12 => self.link(volume, &path, &moment),
            13 => self.attribute(volume, &path),
            14 => self.rename(volume, &path, &moment),
            15 | 16 => {
                let synced = volume.open_file(&path).and_then(|file| file.sync());
                drop(synced);
            }
            17 => self.tidy(volume),
            _ => {
                volume.sync().expect("syncs");
                self.note_synced(&moment);
            }
        }
    }

    fn note_synced(&mut self, moment: &impl Fn() -> usize) {
        let at = moment();
        for (path, now) in &self.files {
            let bytes = bytes_of(now);
            self.synced.entry(path.clone()).or_insert((at, bytes));
        }
    }

    /// From now on the path may hold something else: until when it was certain is noted.
    fn touch(&mut self, path: &str, moment: &impl Fn() -> usize) {
        let below = format!("{path}/");
        let touched: Vec<String> = self
            .synced
            .keys()
            .filter(|known| *known == path || known.starts_with(&below))
            .cloned()
            .collect();
        for path in touched {
            if let Some((from, bytes)) = self.synced.remove(&path) {
                self.kept.push(Kept { from, until: moment(), path, contents: vec![bytes] });
            }
        }
    }

    fn history(&mut self, owner: u32) -> &mut History {
        self.histories.entry(owner).or_default()
    }

    /// Writes records into a file and remembers them.
    fn write(&mut self, file: &File, path: &str, offset: u64, length: u64) {
        let owner = self.files[path].owner;
        let write = self.next_write;
        self.next_write += 1;
        // Remembered first: a write that fails half-way has written something.
        let history = self.history(owner);
        history.writes.insert(write, offset..offset + length);
        let bytes = content::record(owner, write, offset, length);
        if file.write_all_at(offset, &bytes).is_err() {
            return;
        }
        let Some(now) = self.files.get_mut(path) else { return };
        if offset > now.size {
            let hole = now.size..offset;
            self.histories.entry(owner).or_default().zeros.push(hole);
        }
        now.size = now.size.max(offset + length);
        now.records.resize((now.size / content::RECORD as u64) as usize, 0);
        let first = (offset / content::RECORD as u64) as usize;
        now.records[first..first + (length / content::RECORD as u64) as usize].fill(write);
    }

    fn length(&mut self, most: u64) -> u64 {
        (1 + self.random.below(most / content::RECORD as u64)) * content::RECORD as u64
    }

    /// Makes a file, or empties it and writes it anew.
    fn rewrite(&mut self, volume: &Filesystem, path: &str, moment: &impl Fn() -> usize) {
        self.touch(path, moment);
        let existed = self.files.contains_key(path);
        let Ok(file) = volume.create_file(path, 0o644) else {
            return;
        };
        if !existed {
            let owner = self.next_owner;
            self.next_owner += 1;
            self.files.insert(path.to_owned(), Now { owner, ..Now::default() });
        }
        if let Some(now) = self.files.get_mut(path) {
            now.size = 0;
            now.records.clear();
        }
        let length = self.length(60_000);
        self.write(&file, path, 0, length);
    }

    /// Changes a file in place.
    fn change(&mut self, volume: &Filesystem, path: &str, moment: &impl Fn() -> usize) {
        let Some(now) = self.files.get(path).cloned() else {
            return;
        };
        self.touch(path, moment);
        let Ok(file) = volume.open_file(path) else { return };
        let place = self.random.below(now.size / 16 + 1) * 16;
        match self.random.below(9) {
            7 => self.scatter(&file, path),
            8 => {
                // Written back without a sync of anything else: a piece of the file has a new
                // place, the rest is dirty.
                let _ = file.sync();
                let length = self.length(3_000);
                self.write(&file, path, place, length);
            }
            0 | 1 => {
                let length = self.length(20_000);
                self.write(&file, path, now.size, length);
            }
            2 => {
                let length = self.length(8_000);
                self.write(&file, path, place, length);
            }
            3 => {
                let hole = self.random.below(1000) * 16;
                let length = self.length(5_000);
                self.write(&file, path, now.size + hole, length);
            }
            4 => self.cut(&file, path, place),
            5 => {
                let length = self.length(30_000);
                // Bytes between the old size and the new one read as zeros, written or not.
                self.history(now.owner).zeros.push(now.size..now.size + length);
                let _ = file.allocate(now.size, length, Size::Keep);
            }
            _ => {
                let length = self.length(10_000).min(now.size - place);
                self.zero(&file, path, place, length);
            }
        }
    }

    /// Makes a range read as zeros: as a hole, or as blocks that need not be written.
    fn zero(&mut self, file: &File, path: &str, place: u64, length: u64) {
        let Some(now) = self.files.get_mut(path) else { return };
        let history = self.histories.entry(now.owner).or_default();
        history.zeros.push(place..place + length);
        let keeps_blocks = (length / content::RECORD as u64).is_multiple_of(2);
        let zeroed = keeps_blocks && file.zero_range(place, length, Size::Keep).is_ok();
        if zeroed || file.punch_hole(place, length).is_ok() {
            let first = (place / 16) as usize;
            now.records[first..first + (length / 16) as usize].fill(0);
        }
    }

    /// Many small pieces, none beside another: maps of many entries.
    fn scatter(&mut self, file: &File, path: &str) {
        for _ in 0..60 {
            let at = self.random.below(300) * 2048;
            self.write(file, path, at, 512);
        }
    }

    fn cut(&mut self, file: &File, path: &str, size: u64) {
        let Some(now) = self.files.get_mut(path) else { return };
        // The rest of the last block is zeroed in place, which a file that was not cut on the disk
        // shows.
        let block = size..size.next_multiple_of(4096);
        self.histories.entry(now.owner).or_default().zeros.push(block);
        if file.set_len(size).is_ok() {
            now.size = size;
            now.records.truncate((size / 16) as usize);
        }
    }

    /// Writes a new file and renames it over the old one, as editors do.
    fn replace(&mut self, volume: &Filesystem, path: &str, moment: &impl Fn() -> usize) {
        let temporary = format!("{path}.new");
        self.rewrite(volume, &temporary, moment);
        let Some(new) = self.files.get(&temporary).cloned() else {
            return;
        };
        let before = self.synced.remove(path);
        let began = moment();
        if volume.rename(&temporary, path, Rename::Replace).is_err() {
            return;
        }
        self.files.remove(&temporary);
        self.files.insert(path.to_owned(), new.clone());
        if let Some((from, bytes)) = before {
            self.kept.push(Kept {
                from,
                until: began,
                path: path.to_owned(),
                contents: vec![bytes.clone()],
            });
            // After the rename it is one or the other, until a sync or another change.
            volume.sync().expect("syncs");
            self.kept.push(Kept {
                from: began,
                until: moment(),
                path: path.to_owned(),
                contents: vec![bytes, bytes_of(&new)],
            });
            self.note_synced(moment);
        }
    }

    fn remove(&mut self, volume: &Filesystem, path: &str, moment: &impl Fn() -> usize) {
        self.touch(path, moment);
        if volume.remove_file(path).is_ok() {
            self.files.remove(path);
        }
    }

    fn link(&mut self, volume: &Filesystem, path: &str, moment: &impl Fn() -> usize) {
        self.touch(path, moment);
        let target: Vec<u8> = (0..60 + self.random.below(300))
            .map(|at| b"abcdefghijklmnopqrstuvwxyz/"[(at * 7 % 27) as usize])
            .collect();
        self.targets.insert(target.clone());
        let name = std::ffi::OsString::from(String::from_utf8(target).expect("letters"));
        let _ = volume.symlink(&name, format!("{path}.link"));
        if self.random.one_in(3) {
            let _ = volume.remove_file(format!("{path}.link"));
        }
    }

    fn attribute(&mut self, volume: &Filesystem, path: &str) {
        let byte = b'a' + self.random.below(26) as u8;
        let value = vec![byte; 100 + self.random.below(500) as usize];
        self.values.insert(value.clone());
        let _ = volume.set_attribute(path, b"user.value", &value, SetAttribute::Any);
        let _ = volume.change(path, &Change::default());
    }

    fn rename(&mut self, volume: &Filesystem, path: &str, moment: &impl Fn() -> usize) {
        let to = self.path();
        self.touch(path, moment);
        self.touch(&to, moment);
        if volume.rename(path, &to, Rename::KeepTarget).is_ok()
            && let Some(now) = self.files.remove(path)
        {
            self.files.insert(to, now);
        }
    }

    /// Memory runs short: what is dirty is written without a sync.
    fn tidy(&mut self, volume: &Filesystem) {
        for number in 0..40 {
            let _ = volume.create_dir(format!("{}/crowd{number}", self.root), 0o700);
        }
        for number in 0..40 {
            let _ = volume.remove_dir(format!("{}/crowd{number}", self.root));
        }
    }
}

fn bytes_of(now: &Now) -> Vec<u8> {
    let records = now.records.iter().zip((0..).step_by(content::RECORD));
    records
        .flat_map(|(write, offset)| match write {
            0 => vec![0; content::RECORD],
            write => content::record(now.owner, *write, offset, content::RECORD as u64),
        })
        .collect()
}
