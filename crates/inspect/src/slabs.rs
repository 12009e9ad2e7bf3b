//! A long list of which little is used: pieces of it are made when something in them is first
//! needed.
//!
//! *Invariants*: an element that was never made counts as a default one.
//! *Locking*: none beyond what a `OnceLock` does; elements have their own.
use std::sync::OnceLock;

/// Elements of a piece.
const SLAB: usize = 64;

/// The list.
pub(crate) struct Slabs<T>(Vec<OnceLock<Box<[T]>>>);

impl<T: Default> Slabs<T> {
    /// Room for `count` elements.
    pub(crate) fn new(count: u64) -> Slabs<T> {
        let slabs = usize::try_from(count.div_ceil(SLAB as u64)).unwrap_or(0);
        Slabs((0..slabs).map(|_| OnceLock::new()).collect())
    }

    /// An element, if its piece was made.
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.0.get(index / SLAB)?.get()?.get(index % SLAB)
    }

    /// An element, made if need be; `None` past the end.
    pub(crate) fn make(&self, index: usize) -> Option<&T> {
        let slab = self.0.get(index / SLAB)?;
        let slab = slab.get_or_init(|| (0..SLAB).map(|_| T::default()).collect());
        slab.get(index % SLAB)
    }

    /// All elements that were made, with their indices, rising.
    pub(crate) fn made(&self) -> impl Iterator<Item = (usize, &T)> {
        let slabs = self.0.iter().enumerate();
        slabs.flat_map(|(number, slab)| {
            let elements = slab.get().map(|slab| &slab[..]).unwrap_or_default();
            elements
                .iter()
                .enumerate()
                .map(move |(index, element)| (number * SLAB + index, element))
        })
    }

    /// Whether any piece of these elements was made.
    pub(crate) fn any_made(&self, from: usize, to: usize) -> bool {
        let slabs = self.0.get(from / SLAB..to.div_ceil(SLAB).min(self.0.len()));
        slabs.unwrap_or_default().iter().any(|slab| slab.get().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_is_not_asked_for_is_not_made() {
        let slabs: Slabs<Cell<u32>> = Slabs::new(1 << 20);
        assert!(slabs.get(1000).is_none());
        slabs.make(1000).unwrap().set(7);
        slabs.make(70).unwrap().set(5);
        assert_eq!(slabs.get(1000).unwrap().get(), 7);
        assert_eq!(slabs.get(1001).unwrap().get(), 0, "in the same piece");
        assert!(
            slabs.any_made(900, 1000) && slabs.any_made(0, 1 << 30) && !slabs.any_made(2000, 3000)
        );
        let set: Vec<_> = slabs.made().filter(|(_, cell)| cell.get() > 0).collect();
        assert_eq!(
            set.iter().map(|(index, cell)| (*index, cell.get())).collect::<Vec<_>>(),
            [(70, 5), (1000, 7)]
        );
        assert_eq!(slabs.made().count(), 2 * SLAB);
        assert!(slabs.make(1 << 20).is_none());
    }
}
