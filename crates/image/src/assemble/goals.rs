//! Data that is on the volume already gets the blocks that it is in: the allocator is aimed at the
//! first of them, and what it gives is compared with what is there.
//!
//! *Invariants*: no file has blocks other than those that its bytes were written to; else building
//! fails.
//! *Locking*: none; one thread lays out.
use super::job::Job;
use crate::source::Arrival;
use extant_engine::allocation::Packed;
use extant_engine::import::Stretch;
use extant_format::BlockNo;
use std::cell::Cell;

/// The allocator of an image, and where its next data goes.
pub(super) struct Goals<'a> {
    packed: &'a Packed,
    arrival: Option<&'a Arrival>,
    block_size: u64,
    /// The first block that data may have which is not on the volume yet.
    next: Cell<BlockNo>,
}

/// Compares the stretches of one file with where its bytes are.
pub(super) struct Comparison<'a> {
    arrival: &'a Arrival,
    block_size: u64,
    /// Where what is still to come begins, in bytes of the volume, and its length.
    at: u64,
    left: u64,
    agrees: bool,
}

impl<'a> Goals<'a> {
    pub(super) fn new(job: &'a Job<'_>, packed: &'a Packed) -> Goals<'a> {
        let arrival = job.sources.arrival();
        let next = Cell::new(arrival.map_or(BlockNo(0), Arrival::end));
        Goals { packed, arrival, block_size: job.template.wishes.block_size.into(), next }
    }

    /// Aims at a body of this many bytes that is at byte `offset` of the volume.
    pub(super) fn arrived(&self, offset: u64, length: u64) -> Option<Comparison<'a>> {
        self.packed.aim_data(BlockNo(offset / self.block_size));
        let arrival = self.arrival?;
        let block_size = self.block_size;
        Some(Comparison { arrival, block_size, at: offset, left: length, agrees: true })
    }

    /// Aims at the room after everything, and makes there what `make` makes: files whose bytes are
    /// still to be written, long targets.
    pub(super) fn to_come<T>(&self, make: impl FnOnce() -> T) -> T {
        if self.arrival.is_none() {
            return make();
        }
        self.packed.aim_data(self.next.get());
        let made = make();
        self.next.set(self.packed.next_data());
        made
    }
}

impl Comparison<'_> {
    /// The next stretch of the file.
    pub(super) fn add(&mut self, stretch: Stretch) {
        let mut expected = stretch.volume_offset;
        let mut left = stretch.length.min(self.left);
        for piece in self.arrival.pieces(self.at, left) {
            self.agrees &= piece.start == expected;
            let length = piece.end - piece.start;
            (expected, self.at) = (piece.end, piece.end);
            left -= length;
            self.left -= length;
        }
        self.agrees &= left == 0 && stretch.volume_offset.is_multiple_of(self.block_size);
    }

    /// Whether all bytes of the file are in its blocks.
    pub(super) fn agrees(&self) -> bool {
        self.agrees && self.left == 0
    }
}
