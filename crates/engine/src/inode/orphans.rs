//! The orphans: inodes that whoever opens the volume after a power cut has to free, because they
//! have no name, or to cut to their size, because that had begun. On disk they are a list: from
//! `last_orphan` of the superblock through the field of each inode's deletion time.
//!
//! *Invariants*: this is the list as the operations so far have left it on the disk. An inode
//! enters at the head and leaves from anywhere; the operation that adds or removes it changes the
//! superblock, or the table entry of the orphan before it, and stores the inode itself.
//! *Locking*: `chain` is a short lock, taken with an operation open. Under it only the frame of a
//! table block, `unstored.inodes` and the record of the superblock are taken.
use crate::ranks;
use extant_block::ShortLock;
use extant_format::Ino;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The list of orphans of one volume.
pub(crate) struct Orphans {
    chain: ShortLock<Chain>,
    /// How many there are, so that most volumes need no lock to know that there are none.
    count: AtomicUsize,
}

#[derive(Default)]
struct Chain {
    head: Option<Ino>,
    links: FxHashMap<Ino, Link>,
}

/// The neighbours of an orphan.
#[derive(Clone, Copy, Default)]
struct Link {
    before: Option<Ino>,
    after: Option<Ino>,
}

/// What points to an orphan on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PointedTo {
    /// The superblock.
    BySuperblock,
    /// The orphan before it.
    By(Ino),
}

impl Default for Orphans {
    /// None.
    fn default() -> Orphans {
        Orphans {
            chain: ShortLock::ranked(ranks::ORPHANS, Chain::default()),
            count: AtomicUsize::new(0),
        }
    }
}

fn number(ino: Option<Ino>) -> u32 {
    ino.map_or(0, |ino| ino.0)
}

impl Orphans {
    /// Takes over the list of a volume that is being opened, in its order, each inode once.
    pub(crate) fn adopt(&self, list: &[Ino]) {
        let mut chain = self.chain.lock();
        chain.head = list.first().copied();
        for (at, ino) in list.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|before| list.get(before)).copied();
            chain.links.insert(*ino, Link { before, after: list.get(at + 1).copied() });
        }
        self.count.store(chain.links.len(), Ordering::Release);
    }

    /// Adds an inode at the head, unless it is in the list. `set_head` notes the new head in the
    /// superblock.
    pub(super) fn insert(&self, ino: Ino, set_head: impl FnOnce(u32)) {
        let mut chain = self.chain.lock();
        if chain.links.contains_key(&ino) {
            return;
        }
        let after = chain.head.replace(ino);
        if let Some(link) = after.and_then(|after| chain.links.get_mut(&after)) {
            link.before = Some(ino);
        }
        chain.links.insert(ino, Link { before: None, after });
        self.count.store(chain.links.len(), Ordering::Release);
        set_head(ino.0);
    }

    /// What points to an inode; `None` if it is not in the list.
    pub(super) fn pointed_to(&self, ino: Ino) -> Option<PointedTo> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let link = self.chain.lock().links.get(&ino).copied()?;
        Some(link.before.map_or(PointedTo::BySuperblock, PointedTo::By))
    }

    /// Removes an inode if this is what points to it. `point_to` changes that to the number of the
    /// orphan after it, or 0; nothing is removed when it fails. Returns whether the inode was
    /// removed: another thread may have removed the orphan before it.
    pub(super) fn remove<E>(
        &self,
        ino: Ino,
        expected: PointedTo,
        point_to: impl FnOnce(u32) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut chain = self.chain.lock();
        let Some(link) = chain.links.get(&ino).copied() else { return Ok(true) };
        if link.before.map_or(PointedTo::BySuperblock, PointedTo::By) != expected {
            return Ok(false);
        }
        point_to(number(link.after))?;
        chain.links.remove(&ino);
        match link.before.and_then(|before| chain.links.get_mut(&before)) {
            Some(before) => before.after = link.after,
            None => chain.head = link.after,
        }
        if let Some(after) = link.after.and_then(|after| chain.links.get_mut(&after)) {
            after.before = link.before;
        }
        self.count.store(chain.links.len(), Ordering::Release);
        Ok(true)
    }

    /// Stores an inode: gives `store` the number of the orphan after it (0 after the last), or
    /// `None` if it is no orphan. For an orphan the list stays as it is meanwhile.
    pub(super) fn store<R>(&self, ino: Ino, store: impl FnOnce(Option<u32>) -> R) -> R {
        if self.count.load(Ordering::Acquire) == 0 {
            return store(None);
        }
        let chain = self.chain.lock();
        match chain.links.get(&ino).copied() {
            Some(link) => store(Some(number(link.after))),
            None => {
                drop(chain);
                store(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// The list from its head.
    fn listed(orphans: &Orphans) -> Vec<u32> {
        let chain = orphans.chain.lock();
        let after = |ino: &Ino| chain.links[ino].after;
        std::iter::successors(chain.head, after).map(|ino| ino.0).collect()
    }

    fn remove(orphans: &Orphans, ino: u32) -> (Option<PointedTo>, u32) {
        let at = orphans.pointed_to(Ino(ino));
        let mut next = u32::MAX;
        if let Some(at) = at {
            let point_to = |to| {
                next = to;
                Ok::<(), Infallible>(())
            };
            assert_eq!(orphans.remove(Ino(ino), at, point_to), Ok(true));
        }
        (at, next)
    }

    #[test]
    fn an_orphan_enters_at_the_head_and_leaves_from_anywhere() {
        let orphans = Orphans::default();
        for ino in [12, 15, 13, 20, 15] {
            orphans.insert(Ino(ino), |head| assert_eq!(head, ino));
        }
        assert_eq!(listed(&orphans), [20, 13, 15, 12]);
        assert_eq!(orphans.store(Ino(13), |next| next), Some(15));
        assert_eq!(orphans.store(Ino(12), |next| next), Some(0));
        assert_eq!(orphans.store(Ino(11), |next| next), None);
        assert_eq!(remove(&orphans, 15), (Some(PointedTo::By(Ino(13))), 12));
        assert_eq!(remove(&orphans, 15), (None, u32::MAX));
        assert_eq!(remove(&orphans, 20), (Some(PointedTo::BySuperblock), 13));
        assert_eq!(remove(&orphans, 12), (Some(PointedTo::By(Ino(13))), 0));
        assert_eq!(listed(&orphans), [13]);
        let moved = orphans.remove(Ino(13), PointedTo::By(Ino(9)), |_| Ok::<(), Infallible>(()));
        assert_eq!(moved, Ok(false));
        assert_eq!(remove(&orphans, 13), (Some(PointedTo::BySuperblock), 0));
        assert!(listed(&orphans).is_empty());
    }

    #[test]
    fn a_removal_that_fails_leaves_the_list_as_it_was() {
        let orphans = Orphans::default();
        orphans.adopt(&[Ino(30), Ino(14), Ino(22)]);
        assert_eq!(orphans.remove(Ino(14), PointedTo::By(Ino(30)), |_| Err("no")), Err("no"));
        assert_eq!(listed(&orphans), [30, 14, 22]);
        assert_eq!(remove(&orphans, 14), (Some(PointedTo::By(Ino(30))), 22));
        assert_eq!(listed(&orphans), [30, 22]);
    }
}
