//! Numbers of open files.
//!
//! *Invariants*: a number leads to the file for which it was given out, until it is closed; closed
//! numbers are given out again.
//! *Locking*: one short lock, under which nothing is opened, closed or dropped.
use extant_block::ShortLock;
use extant_engine::File;
use std::sync::Arc;

/// An open file.
pub(super) struct OpenFile {
    pub(super) file: File,
    /// Whether it may be written by this handle.
    pub(super) writes: bool,
}

/// Open things by number.
pub(super) struct Handles<T> {
    slots: ShortLock<Slots<T>>,
}

struct Slots<T> {
    things: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

impl<T> Handles<T> {
    pub(super) fn new() -> Handles<T> {
        Handles { slots: ShortLock::new(Slots { things: Vec::new(), free: Vec::new() }) }
    }

    /// Keeps a thing and returns its number, which is not 0.
    pub(super) fn open(&self, thing: T) -> u64 {
        let thing = Arc::new(thing);
        let mut slots = self.slots.lock();
        let slot = slots.free.pop().unwrap_or_else(|| {
            slots.things.push(None);
            slots.things.len() - 1
        });
        slots.things[slot] = Some(thing);
        slot as u64 + 1
    }

    pub(super) fn get(&self, number: u64) -> Option<Arc<T>> {
        let slot = usize::try_from(number.checked_sub(1)?).ok()?;
        self.slots.lock().things.get(slot)?.clone()
    }

    /// Gives the thing back; `None` for a number that is not open.
    pub(super) fn close(&self, number: u64) -> Option<Arc<T>> {
        let slot = usize::try_from(number.checked_sub(1)?).ok()?;
        let mut slots = self.slots.lock();
        let thing = slots.things.get_mut(slot)?.take()?;
        slots.free.push(slot);
        Some(thing)
    }

    /// Closes all.
    pub(super) fn close_all(&self) {
        let things = {
            let mut slots = self.slots.lock();
            slots.free.clear();
            std::mem::take(&mut slots.things)
        };
        drop(things);
    }
}

#[cfg(test)]
mod tests {
    use super::Handles;

    #[test]
    fn numbers_are_used_again_after_they_were_closed() {
        let handles = Handles::new();
        let (first, second) = (handles.open('a'), handles.open('b'));
        assert_eq!(handles.get(first).as_deref(), Some(&'a'));
        assert_eq!(handles.close(first).as_deref(), Some(&'a'));
        assert!(handles.get(first).is_none() && handles.close(first).is_none());
        assert_eq!(handles.open('c'), first);
        assert_eq!(handles.get(second).as_deref(), Some(&'b'));
        for foreign in [0, 3, u64::MAX] {
            assert!(handles.get(foreign).is_none() && handles.close(foreign).is_none());
        }
        handles.close_all();
        assert!(handles.get(second).is_none());
    }
}
