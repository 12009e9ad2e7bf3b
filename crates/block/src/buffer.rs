//! Memory for the blocks of files: what a read fills, and what a write takes its bytes from.
//!
//! The first touch of memory costs the host more than copying into it: 1.7 microseconds for each
//! 4 KiB, measured, against 0.2. So large buffers have a piece of [`PIECE_BYTES`], and a piece that
//! is no longer used is kept for the next buffer, without being zeroed. New pieces are not touched
//! here but by the thread that fills them. Huge pages were tried: eight times as fast as small
//! ones, but four to ten times as slow on a virtual machine that gives free memory back to its
//! host.
//!
//! *Invariants*: a piece belongs to one buffer or to the pool. A buffer shows its first `length`
//! bytes; what a piece held before is never shown unless the caller asks for memory that will be
//! overwritten ([`Buffer::unfilled`]). The pool keeps 64 MiB at most, and what [`PoolShare`]s pay
//! for where there are any.
//! *Locking*: the pool is a lock of its own, under which nothing else is taken. It is no
//! [`ShortLock`](crate::ShortLock), because it is no edge: what a buffer holds does not depend on
//! which piece it has.
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

/// Size of a piece in bytes. No larger buffer is pooled.
pub const PIECE_BYTES: usize = 64 << 10;
/// Buffers of at least this many bytes have a piece: more than half of one.
const PIECE_FROM: usize = PIECE_BYTES / 2 + 1;
/// Pieces begin at multiples of this, in bytes: from there a copy takes a tenth less time.
const ALIGNMENT: usize = 64;
/// Pieces in the pool at most: 64 MiB.
const POOL_MAX: usize = 1024;

struct Pool {
    /// Pieces in no buffer. The last one that was given back is the first one to be used again.
    pieces: Vec<Vec<u8>>,
    /// Pieces that those who share the pool pay for, and how many these are. Without any, the pool
    /// may have [`POOL_MAX`] pieces.
    paid: usize,
    shares: usize,
}

impl Pool {
    /// How many pieces may be kept.
    fn limit(&self) -> usize {
        if self.shares == 0 { POOL_MAX } else { self.paid.min(POOL_MAX) }
    }
}

static POOL: Mutex<Pool> = Mutex::new(Pool { pieces: Vec::new(), paid: 0, shares: 0 });

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A part of the pool that somebody pays for, who has a limit of memory. While there are any, the
/// pool keeps no more than all of them together, and 64 MiB at most.
pub struct PoolShare {
    pieces: usize,
}

impl PoolShare {
    /// A share of `bytes`, but at least one piece.
    pub fn new(bytes: usize) -> PoolShare {
        let pieces = (bytes / (PIECE_BYTES + ALIGNMENT)).max(1);
        let mut pool = pool();
        pool.paid = pool.paid.saturating_add(pieces);
        pool.shares += 1;
        let limit = pool.limit();
        pool.pieces.truncate(limit);
        PoolShare { pieces }
    }
}

impl Drop for PoolShare {
    fn drop(&mut self) {
        let mut pool = pool();
        pool.paid = pool.paid.saturating_sub(self.pieces);
        pool.shares -= 1;
        let limit = pool.limit();
        pool.pieces.truncate(limit);
    }
}

/// Memory in the pool, in bytes.
pub fn pooled_bytes() -> usize {
    pool().pieces.len() * (PIECE_BYTES + ALIGNMENT)
}

/// Bytes in memory that is reused. Dereferences to what it shows.
#[derive(Default)]
pub struct Buffer {
    /// A piece with what its alignment takes, or exactly what is shown.
    memory: Vec<u8>,
    is_piece: bool,
    /// Where in the memory the first byte is.
    start: usize,
    length: usize,
}

impl Buffer {
    /// An empty buffer with room for `bytes`.
    pub fn with_room(bytes: usize) -> Buffer {
        let is_piece = (PIECE_FROM..=PIECE_BYTES).contains(&bytes);
        let memory = match is_piece {
            true => {
                let free = pool().pieces.pop();
                free.unwrap_or_else(|| vec![0; PIECE_BYTES + ALIGNMENT])
            }
            false => Vec::with_capacity(bytes),
        };
        let start = match is_piece {
            true => memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT),
            false => 0,
        };
        Buffer { memory, is_piece, start, length: 0 }
    }

    /// A buffer that shows `bytes` of any content, to be overwritten before they are used.
    pub fn unfilled(bytes: usize) -> Buffer {
        match (PIECE_FROM..=PIECE_BYTES).contains(&bytes) {
            true => {
                let mut buffer = Buffer::with_room(bytes);
                buffer.length = bytes;
                buffer
            }
            false => Buffer { memory: vec![0; bytes], is_piece: false, start: 0, length: bytes },
        }
    }

    /// A buffer of zeros.
    pub fn zeros(bytes: usize) -> Buffer {
        let mut buffer = Buffer::unfilled(bytes);
        buffer.fill(0);
        buffer
    }

    /// Adds bytes at the end.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        let fits_later = (PIECE_FROM..=PIECE_BYTES).contains(&end) && !self.is_piece;
        if fits_later || end > PIECE_BYTES && self.is_piece {
            let mut grown = Buffer::with_room(end);
            grown.append(self);
            *self = grown;
        }
        self.append(bytes);
    }

    /// Adds bytes for which it has the right memory.
    fn append(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        match self.is_piece {
            true => self.memory[self.start + self.length..][..bytes.len()].copy_from_slice(bytes),
            false => self.memory.extend_from_slice(bytes),
        }
        self.length = end;
    }

    /// Cuts it to at most `bytes`. Memory that is no longer needed is given back.
    pub fn truncate(&mut self, bytes: usize) {
        if bytes >= self.length {
            return;
        }
        if self.is_piece && bytes >= PIECE_FROM {
            self.length = bytes;
        } else {
            *self = Buffer::from(&self[..bytes]);
        }
    }

    /// How many bytes can be added before it needs other memory.
    pub fn spare(&self) -> usize {
        if self.is_piece { PIECE_BYTES - self.length } else { 0 }
    }

    /// How many bytes of memory it takes.
    pub fn room(&self) -> usize {
        self.memory.capacity()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.is_piece {
            let mut pool = pool();
            if pool.pieces.len() < pool.limit() {
                pool.pieces.push(std::mem::take(&mut self.memory));
            }
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..][..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.length]
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::with_room(bytes.len());
        buffer.append(bytes);
        buffer
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        Buffer::from(&**self)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 251) as u8 + 1).collect()
    }

    #[test]
    fn a_buffer_shows_what_was_added_whatever_memory_it_has() {
        for bytes in [0, 1, 1024, PIECE_BYTES / 2, PIECE_BYTES / 2 + 1, PIECE_BYTES, 200_000] {
            let all = pattern(bytes);
            assert_eq!(*Buffer::from(&all[..]), all[..]);
            for step in [1000, 4096, 65_536] {
                let mut buffer = Buffer::with_room(0);
                all.chunks(step).for_each(|part| buffer.extend_from_slice(part));
                assert!(*buffer == all[..] && buffer.room() >= bytes, "{bytes} by {step}");
                let copy = buffer.clone();
                buffer.fill(0);
                assert!(*copy == all[..], "a copy has memory of its own");
                for cut in [bytes, bytes / 2 + 1, 5, 0] {
                    let mut cut_copy = copy.clone();
                    cut_copy.truncate(cut);
                    assert_eq!(*cut_copy, all[..cut.min(bytes)]);
                    assert!(
                        cut_copy.room() <= cut.max(1) * 2 + ALIGNMENT || cut >= bytes,
                        "{cut} of {bytes}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_piece_is_used_again_and_never_by_two() {
        let mut held: Vec<Buffer> = (0..100).map(|_| Buffer::zeros(PIECE_BYTES)).collect();
        for (number, buffer) in held.iter_mut().enumerate() {
            buffer.fill(number as u8);
        }
        assert!((0..100).all(|number| held[number].iter().all(|byte| *byte == number as u8)));
        drop(held);
        assert!(Buffer::zeros(PIECE_BYTES).iter().all(|byte| *byte == 0), "zeros are zeros");
        assert!(Buffer::with_room(PIECE_BYTES).is_empty(), "nothing of the last use is shown");
    }
}
