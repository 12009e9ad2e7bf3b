//! The living part of a population: which files there are, where, and when their time comes. No
//! file system is touched here.
//!
//! *Invariants*: `living` holds each used slot of `files` once, at the file's `place`; an entry of
//! `due` counts only while the slot still holds the unit with that number; `blocks` is the sum over
//! all living files, and one for each directory.
//! *Locking*: none; one run owns it.
use super::profile::{Population, Unit};
use extant_sim::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A file that lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileRecord {
    /// Number of its directory.
    pub(super) directory: u32,
    /// The number in its name.
    pub(super) name: u32,
    /// Rises with every content that is written anew: the order of age.
    pub(super) born: u32,
    /// Where it stands in `living`.
    place: u32,
    pub(super) bytes: u64,
    /// When its time comes, in thousandths of days.
    due: u64,
}

/// A directory, by its path in the volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Directory {
    pub(super) path: Box<str>,
    depth: u32,
}

/// A tree that lives.
#[derive(Clone, Default, Debug)]
pub(super) struct TreeRecord {
    number: u32,
    place: u32,
    pub(super) files: Vec<u32>,
    /// Parents before their children.
    pub(super) directories: Vec<u32>,
}

/// The living part of a population.
pub(super) struct Colony {
    pub(super) population: Population,
    block_bytes: u64,
    pub(super) random: Random,
    files: Vec<FileRecord>,
    free_files: Vec<u32>,
    pub(super) living: Vec<u32>,
    pub(super) directories: Vec<Directory>,
    free_directories: Vec<u32>,
    trees: Vec<TreeRecord>,
    free_trees: Vec<u32>,
    living_trees: Vec<u32>,
    /// Units by the time of their end in thousandths of days, then by number: (time, number, slot).
    due: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// The next number of a name, a tree or a content.
    next: u32,
    pub(super) blocks: u64,
    /// Units ever made, and blocks that they took when they were made.
    units: u64,
    unit_blocks: u64,
}

impl Colony {
    /// None yet.
    pub(super) fn new(population: &Population, block_bytes: u64, seed: u64) -> Colony {
        Colony {
            random: Random::for_part(seed, &population.name),
            population: population.clone(),
            block_bytes,
            files: Vec::new(),
            free_files: Vec::new(),
            living: Vec::new(),
            directories: Vec::new(),
            free_directories: Vec::new(),
            trees: Vec::new(),
            free_trees: Vec::new(),
            living_trees: Vec::new(),
            due: BinaryHeap::new(),
            next: 0,
            blocks: 0,
            units: 0,
            unit_blocks: 0,
        }
    }

    pub(super) fn is_trees(&self) -> bool {
        matches!(self.population.unit, Unit::Tree { .. })
    }

    /// A number that none had.
    pub(super) fn number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    pub(super) fn file(&self, slot: u32) -> FileRecord {
        self.files[slot as usize]
    }

    fn blocks_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.block_bytes)
    }

    /// Blocks of a unit on average, as they were made.
    pub(super) fn mean_unit_blocks(&self) -> u64 {
        self.unit_blocks.checked_div(self.units).unwrap_or(0)
    }

    /// Counts a unit that was made whole.
    pub(super) fn count_unit(&mut self, blocks_before: u64) {
        self.units += 1;
        self.unit_blocks += self.blocks.saturating_sub(blocks_before);
    }

    /// Adds a file of a directory, empty; its slot.
    pub(super) fn add_file(&mut self, directory: u32, name: u32) -> u32 {
        let record = FileRecord {
            directory,
            name,
            born: name,
            place: self.living.len() as u32,
            bytes: 0,
            due: 0,
        };
        let slot = match self.free_files.pop() {
            Some(slot) => {
                self.files[slot as usize] = record;
                slot
            }
            None => {
                self.files.push(record);
                self.files.len() as u32 - 1
            }
        };
        self.living.push(slot);
        slot
    }

    /// The file has another size.
    pub(super) fn resize(&mut self, slot: u32, bytes: u64) {
        let before = std::mem::replace(&mut self.files[slot as usize].bytes, bytes);
        self.blocks = (self.blocks + self.blocks_of(bytes)).saturating_sub(self.blocks_of(before));
    }

    /// Its content is new.
    pub(super) fn renew(&mut self, slot: u32) {
        let born = self.number();
        self.files[slot as usize].born = born;
    }

    /// It has another name. Its time comes when it would have come.
    pub(super) fn rename(&mut self, slot: u32, directory: u32, name: u32) {
        let file = &mut self.files[slot as usize];
        (file.directory, file.name) = (directory, name);
        let due = file.due;
        if !self.is_trees() {
            self.set_file_due(slot, due);
        }
    }

    /// It is gone.
    pub(super) fn remove_file(&mut self, slot: u32) {
        self.resize(slot, 0);
        let place = self.files[slot as usize].place;
        self.living.swap_remove(place as usize);
        if let Some(moved) = self.living.get(place as usize) {
            self.files[*moved as usize].place = place;
        }
        self.free_files.push(slot);
        // No entry of `due` fits any more: numbers begin at 1.
        self.files[slot as usize].name = 0;
    }

    /// Has a file end at a time.
    pub(super) fn set_file_due(&mut self, slot: u32, millidays: u64) {
        let file = &mut self.files[slot as usize];
        file.due = millidays;
        self.due.push(Reverse((millidays, file.name, slot)));
    }

    /// Begins a tree; its slot.
    pub(super) fn add_tree(&mut self, number: u32) -> u32 {
        let record =
            TreeRecord { number, place: self.living_trees.len() as u32, ..TreeRecord::default() };
        let slot = match self.free_trees.pop() {
            Some(slot) => {
                self.trees[slot as usize] = record;
                slot
            }
            None => {
                self.trees.push(record);
                self.trees.len() as u32 - 1
            }
        };
        self.living_trees.push(slot);
        slot
    }

    pub(super) fn tree_mut(&mut self, slot: u32) -> &mut TreeRecord {
        &mut self.trees[slot as usize]
    }

    pub(super) fn tree(&self, slot: u32) -> &TreeRecord {
        &self.trees[slot as usize]
    }

    /// Has a tree end at a time.
    pub(super) fn set_tree_due(&mut self, slot: u32, millidays: u64) {
        let number = self.trees[slot as usize].number;
        self.due.push(Reverse((millidays, number, slot)));
    }

    /// The tree is gone, with all that it held.
    pub(super) fn take_tree(&mut self, slot: u32) -> TreeRecord {
        let tree = std::mem::take(&mut self.trees[slot as usize]);
        self.living_trees.swap_remove(tree.place as usize);
        if let Some(moved) = self.living_trees.get(tree.place as usize) {
            self.trees[*moved as usize].place = tree.place;
        }
        self.free_trees.push(slot);
        tree
    }

    /// Adds a directory; its number.
    pub(super) fn add_directory(&mut self, path: String, depth: u32) -> u32 {
        let directory = Directory { path: path.into(), depth };
        self.blocks += 1;
        match self.free_directories.pop() {
            Some(number) => {
                self.directories[number as usize] = directory;
                number
            }
            None => {
                self.directories.push(directory);
                self.directories.len() as u32 - 1
            }
        }
    }

    pub(super) fn remove_directory(&mut self, number: u32) {
        self.blocks = self.blocks.saturating_sub(1);
        self.free_directories.push(number);
    }

    pub(super) fn depth(&self, directory: u32) -> u32 {
        self.directories[directory as usize].depth
    }

    /// Any unit that lives.
    pub(super) fn any_unit(&mut self) -> Option<u32> {
        let units = if self.is_trees() { &self.living_trees } else { &self.living };
        units.get(self.random.below(units.len() as u64) as usize).copied()
    }

    /// The unit whose time comes next, if that is by then; it is struck off.
    pub(super) fn next_due(&mut self, millidays: u64) -> Option<u32> {
        while let Some(Reverse((at, number, slot))) = self.due.peek().copied() {
            if at > millidays {
                return None;
            }
            self.due.pop();
            let holds = match self.is_trees() {
                true => self.trees[slot as usize].number,
                false => self.files[slot as usize].name,
            };
            if holds == number {
                return Some(slot);
            }
        }
        None
    }

    /// The path of a file.
    pub(super) fn path(&self, slot: u32) -> String {
        let file = self.file(slot);
        self.path_of(file.directory, file.name)
    }

    /// The path of a name in a directory.
    pub(super) fn path_of(&self, directory: u32, name: u32) -> String {
        let directory = &self.directories[directory as usize].path;
        let name = self.population.file_names.replace("%d", &name.to_string());
        format!("{}/{name}", directory.trim_end_matches('/'))
    }

    /// So many files by age, the newest or the oldest first, in the order of their paths'
    /// directories.
    pub(super) fn by_age(&self, count: usize, age: Age) -> Vec<(u32, u32)> {
        let mut files: Vec<(u32, u32)> =
            self.living.iter().map(|slot| (self.file(*slot).born, *slot)).collect();
        if count < files.len() {
            match age {
                Age::Oldest => files.select_nth_unstable(count),
                Age::Newest => files.select_nth_unstable_by(count, |one, other| other.cmp(one)),
            };
            files.truncate(count);
        }
        files.sort_unstable();
        files
    }
}

/// Which files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Age {
    /// Those whose content was written last.
    Newest,
    /// Those whose content was written first.
    Oldest,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ageing::file::find;

    #[test]
    fn what_is_struck_off_is_never_due_and_blocks_are_counted() {
        let profile = find("mail").unwrap();
        let mut colony = Colony::new(&profile.populations[0], 4096, 1);
        let directory = colony.add_directory("/mail".to_owned(), 0);
        for at in 0..10u64 {
            let name = colony.number();
            let slot = colony.add_file(directory, name);
            colony.resize(slot, 4097);
            colony.set_file_due(slot, 10 - at);
        }
        assert_eq!((colony.blocks, colony.living.len()), (21, 10));
        colony.remove_file(9);
        colony.remove_file(0);
        assert_eq!(colony.blocks, 17);
        // The slot is used again, by another file: the old entry does not end it.
        let name = colony.number();
        assert_eq!(colony.add_file(directory, name), 0);
        assert_eq!(colony.next_due(1), None, "the first was struck off");
        assert_eq!(colony.next_due(5), Some(8));
        assert_eq!(colony.next_due(100), Some(7));
        assert_eq!(colony.by_age(1, Age::Newest), [(11, 0)]);
        assert_eq!(colony.by_age(2, Age::Oldest), [(2, 1), (3, 2)]);
        assert!(
            colony
                .living
                .iter()
                .enumerate()
                .all(|(at, slot)| colony.file(*slot).place == at as u32)
        );
    }
}
