//! What grows while others read it without a lock: a value that is replaced, and a list that gets
//! longer.
//!
//! *Invariants*: what was there stays at its place in memory until all is dropped, so that a reader
//! keeps what it has; there are at most [`STEPS_MAX`] steps.
//! *Locking*: none to read. One thread at a time adds: the caller sees to that.
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often one can grow.
pub const STEPS_MAX: usize = 128;

/// A value of which the newest version counts. Older ones are kept for those who read them.
pub struct Versions<T> {
    first: T,
    later: Box<[OnceLock<Box<T>>]>,
    /// How many of the later ones there are.
    count: AtomicUsize,
}

impl<T> Versions<T> {
    /// The first version.
    pub fn new(first: T) -> Versions<T> {
        let later = (0..STEPS_MAX).map(|_| OnceLock::new()).collect();
        Versions { first, later, count: AtomicUsize::new(0) }
    }

    /// Whether there can be another one.
    pub fn has_room(&self) -> bool {
        self.count.load(Ordering::Acquire) < self.later.len()
    }

    /// Makes this the version that counts.
    ///
    /// # Panics
    /// There is no room for another one.
    pub fn replace(&self, next: T) {
        let count = self.count.load(Ordering::Acquire);
        let is_set = self.later.get(count).is_some_and(|slot| slot.set(Box::new(next)).is_ok());
        assert!(is_set, "a value has at most {STEPS_MAX} later versions");
        self.count.store(count + 1, Ordering::Release);
    }
}

impl<T> Deref for Versions<T> {
    type Target = T;
    fn deref(&self) -> &T {
        let newest = self.count.load(Ordering::Acquire).checked_sub(1);
        let later = newest.and_then(|at| self.later.get(at)).and_then(OnceLock::get);
        later.map_or(&self.first, |later| later)
    }
}

/// A list that gets longer at its end.
pub struct Growing<T> {
    first: Vec<T>,
    later: Box<[OnceLock<Part<T>>]>,
}

/// What came with one step.
struct Part<T> {
    /// The number of its first item in the list.
    from: usize,
    items: Vec<T>,
}

impl<T> Growing<T> {
    /// A list of these.
    pub fn new(first: Vec<T>) -> Growing<T> {
        Growing { first, later: (0..STEPS_MAX).map(|_| OnceLock::new()).collect() }
    }

    /// Adds items at its end.
    ///
    /// # Panics
    /// There is no room for another step.
    pub fn extend(&self, items: Vec<T>) {
        let part = Part { from: self.len(), items };
        let slot = self.later.iter().find(|slot| slot.get().is_none());
        let is_set = slot.is_some_and(|slot| slot.set(part).is_ok());
        assert!(is_set, "a list grows at most {STEPS_MAX} times");
    }

    /// The item with this number.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.first.get(at).or_else(|| {
            let mut parts = self.later.iter().map_while(OnceLock::get);
            parts.find_map(|part| part.items.get(at.checked_sub(part.from)?))
        })
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        let last = self.later.iter().map_while(OnceLock::get).last();
        last.map_or(self.first.len(), |part| part.from + part.items.len())
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All items.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let later = self.later.iter().map_while(OnceLock::get);
        self.first.iter().chain(later.flat_map(|part| &part.items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_keeps_what_it_has_while_a_value_is_replaced() {
        let value = Versions::new(String::from("first"));
        let before: &str = &value;
        value.replace("second".to_owned());
        value.replace("third".to_owned());
        assert_eq!((before, value.as_str()), ("first", "third"));
        assert!(value.has_room());
        (2..STEPS_MAX).for_each(|at| value.replace(at.to_string()));
        assert!(!value.has_room());
    }

    #[test]
    fn a_list_has_its_items_in_their_order_after_each_step() {
        let list = Growing::new(vec![0, 1, 2]);
        let second = list.get(1);
        list.extend(vec![3]);
        list.extend(Vec::new());
        list.extend(vec![4, 5]);
        assert_eq!(second, Some(&1));
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(
            (0..7).map(|at| list.get(at).copied()).collect::<Vec<_>>(),
            [Some(0), Some(1), Some(2), Some(3), Some(4), Some(5), None]
        );
        assert_eq!((list.len(), list.is_empty()), (6, false));
    }
}
