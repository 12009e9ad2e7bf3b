//! Which inodes a directory was listed with, so that they are read together.
//!
//! A program that lists a directory and looks at what is in it (`ls -l`, `rm -r`, `tar`) asks for
//! one inode after the other. Where months of updates have scattered them over the tables each one
//! is a seek, beside other streams each waits for its turn, and a window around each brings inodes
//! of other directories. So with the first one of a listing, or with the second one that is not in
//! memory, the table blocks of those that follow in the listing are asked for at once, with little
//! around each, to be read in the order of the disk. Inodes in a row are left to windows
//! (`table_windows`).
//!
//! *Invariants*: there are [`LISTINGS_MAX`] listings of at most [`INODES_MAX`] inodes each.
//! *Locking*: `listings` and `illegal` are short locks under which no other is taken.
use crate::ranks;
use extant_block::ShortLock;
use extant_format::Ino;
use std::collections::{BTreeSet, VecDeque};

/// Listings that are known: those of a way down a tree.
const LISTINGS_MAX: usize = 8;
/// Inodes of a listing at most; those after them are read as without one.
const INODES_MAX: usize = 4096;
/// Inodes that are asked for at once: the first of them waits until most have come, a third of a
/// second on a disk.
const TOGETHER_MAX: usize = 64;
/// Directories that are remembered to have names that no file may have: there may be any number.
const ILLEGAL_MAX: usize = 64;
/// As many inodes as a small window of a table has, about.
const NEAR_INODES: u32 = 128;

/// What was listed lately.
pub(crate) struct Listings {
    /// The last one is at the back.
    listings: ShortLock<VecDeque<Listed>>,
    /// Directories in which names were passed over that no file may have.
    illegal: ShortLock<BTreeSet<Ino>>,
}

struct Listed {
    directory: Ino,
    /// In the order of the listing.
    inodes: Vec<Ino>,
    /// Where they are, once it was asked.
    spread: Option<Spread>,
    /// How many of them were wanted and not in memory.
    missed: u32,
    /// How far the others were asked for.
    asked: usize,
}

/// Where the inodes of a directory are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spread {
    /// Several of them in most places of the tables that have one.
    Dense,
    /// Most of them are alone.
    Scattered,
}

/// What is read with an inode that is not in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum With {
    /// The window around it, as long as windows are now.
    Window,
    /// The shortest windows around it and around these inodes: what is further belongs to others.
    Listed(Vec<Ino>),
}

/// Which part of a directory was listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// From the beginning on.
    First,
    /// What follows the part before.
    Next,
}

impl Default for Listings {
    fn default() -> Listings {
        Listings {
            listings: ShortLock::ranked(ranks::LAST, VecDeque::new()),
            illegal: ShortLock::ranked(ranks::LAST, BTreeSet::new()),
        }
    }
}

impl Listings {
    /// Notes that a listing passed over a name that no file may have.
    pub(crate) fn note_illegal(&self, directory: Ino) {
        let mut illegal = self.illegal.lock();
        if illegal.len() < ILLEGAL_MAX {
            illegal.insert(directory);
        }
    }

    /// Whether a listing of this directory has, if it is one of the first with such names.
    pub(crate) fn has_illegal(&self, directory: Ino) -> bool {
        self.illegal.lock().contains(&directory)
    }

    /// Notes what a call listed.
    pub(crate) fn note(&self, directory: Ino, part: Part, inodes: &[Ino]) {
        let mut listings = self.listings.lock();
        let known = listings.iter().rposition(|listed| listed.directory == directory);
        let before = known.and_then(|at| listings.remove(at)).filter(|_| part == Part::Next);
        let mut listed = before.unwrap_or(Listed {
            directory,
            inodes: Vec::new(),
            spread: None,
            missed: 0,
            asked: 0,
        });
        listed.spread = None;
        let room = INODES_MAX - listed.inodes.len();
        listed.inodes.extend(inodes.iter().take(room));
        if listings.len() >= LISTINGS_MAX {
            listings.pop_front();
        }
        listings.push_back(listed);
    }

    /// Called for an inode that is not in memory.
    pub(super) fn with(&self, ino: Ino) -> With {
        let mut listings = self.listings.lock();
        for listed in listings.iter_mut().rev() {
            if let Some(at) = listed.inodes.iter().position(|inode| *inode == ino) {
                return listed.with(at);
            }
        }
        With::Window
    }
}

impl Listed {
    /// What is read with the inode at this place of the listing.
    fn with(&mut self, at: usize) -> With {
        let inodes = &self.inodes;
        if *self.spread.get_or_insert_with(|| spread(inodes)) == Spread::Dense {
            return With::Window;
        }
        self.missed = self.missed.saturating_add(1);
        if self.missed < 2 && at > 0 || at < self.asked {
            return With::Listed(Vec::new());
        }
        let end = self.inodes.len().min(at + 1 + TOGETHER_MAX);
        self.asked = end;
        With::Listed(self.inodes.get(at + 1..end).unwrap_or_default().to_vec())
    }
}

/// Where inodes are: scattered if they are in more than half as many places as they are.
fn spread(inodes: &[Ino]) -> Spread {
    let mut places: Vec<u32> = inodes.iter().map(|ino| ino.0 / NEAR_INODES).collect();
    places.sort_unstable();
    places.dedup();
    match places.len() > 2 && places.len() > inodes.len() / 2 {
        true => Spread::Scattered,
        false => Spread::Dense,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inodes(numbers: std::ops::Range<u32>) -> Vec<Ino> {
        numbers.map(|number| Ino(number * 1000)).collect()
    }

    #[test]
    fn the_second_one_that_is_missing_brings_those_after_it_once() {
        let listings = Listings::default();
        listings.note(Ino(2), Part::First, &inodes(10..20));
        listings.note(Ino(2), Part::Next, &inodes(20..30));
        let alone = With::Listed(Vec::new());
        assert_eq!(listings.with(Ino(11_000)), alone);
        assert_eq!(listings.with(Ino(99)), With::Window, "it was not listed");
        assert_eq!(listings.with(Ino(13_000)), With::Listed(inodes(14..30)));
        assert_eq!(listings.with(Ino(15_000)), alone, "it was asked for");
        listings.note(Ino(2), Part::First, &inodes(10..30));
        assert_eq!(listings.with(Ino(11_000)), alone, "another listing begins anew");
        listings.note(Ino(2), Part::First, &inodes(10..30));
        assert_eq!(listings.with(Ino(10_000)), With::Listed(inodes(11..30)), "its first one");
    }

    #[test]
    fn inodes_in_a_row_are_left_to_windows_in_whatever_order_they_are_listed() {
        let listings = Listings::default();
        let mut row: Vec<Ino> = (0..500).map(|number| Ino(11 + number * 7 % 500)).collect();
        row.push(Ino(1_000_000));
        listings.note(Ino(2), Part::First, &row);
        assert!(row.iter().all(|ino| listings.with(*ino) == With::Window));
    }

    #[test]
    fn long_listings_go_on_in_parts_and_memory_is_bounded() {
        let listings = Listings::default();
        for number in 0..100 {
            listings.note(Ino(2), Part::Next, &inodes(number * 1000..number * 1000 + 1000));
            listings.note(Ino(1000 + number), Part::First, &inodes(1..5000));
        }
        let all = inodes(10_000..20_000);
        listings.note(Ino(3), Part::First, &all);
        for at in [0, 1 + TOGETHER_MAX] {
            let expected = all[at + 1..=at + TOGETHER_MAX].to_vec();
            assert_eq!(listings.with(all[at]), With::Listed(expected));
        }
        let listings = listings.listings.lock();
        assert!(listings.len() <= LISTINGS_MAX);
        assert!(listings.iter().all(|listed| listed.inodes.len() <= INODES_MAX));
    }
}
