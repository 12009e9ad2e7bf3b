//! The order in which a map in memory evicts what it holds: second chance.
//!
//! New keys go to the back. Eviction takes keys from the front, and puts back those that have to
//! stay. A key that left the map in another way stays in the queue until it is taken out or swept.
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::hash::Hash;

/// Keys in the order of insertion, with some that are gone, and duplicates.
pub struct EvictionQueue<K> {
    keys: VecDeque<K>,
}

impl<K> Default for EvictionQueue<K> {
    fn default() -> EvictionQueue<K> {
        EvictionQueue { keys: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash> EvictionQueue<K> {
    /// How many keys it has.
    pub fn queued(&self) -> usize {
        self.keys.len()
    }

    /// Takes the key whose turn it is.
    pub fn pop(&mut self) -> Option<K> {
        self.keys.pop_front()
    }

    /// Adds a key at the end.
    pub fn push(&mut self, key: K) {
        self.keys.push_back(key);
    }

    /// Drops keys that are gone, and duplicates, if it is more than about twice as long as the
    /// `held` keys of the map. So a key costs a bounded amount of memory and time.
    pub fn sweep_if_long(&mut self, held: usize, holds: impl Fn(&K) -> bool) {
        if self.keys.len() > 2 * held + 64 {
            let mut seen = FxHashSet::default();
            self.keys.retain(|key| holds(key) && seen.insert(*key));
        }
    }
}
