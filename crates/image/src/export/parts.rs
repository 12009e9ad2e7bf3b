//! What the threads that read bodies hand over, taken stretch by stretch.
//!
//! *Invariants*: a chunk is exchanged only when all of it was taken, and only by a call of
//! [`BodyParts::map`] or [`BodyParts::take`] while [`BodyParts::is_used_up`]: until then its bytes
//! stay.
use super::body::{Bodies, BodyChunk, Long, Part};
use super::plan::ExportPlan;
use crate::error::Error;
use std::ops::Range;
use std::sync::Arc;

/// A stretch of a body.
pub(crate) enum Taken {
    /// Of [`BodyParts::bytes`].
    Bytes(Range<usize>),
    /// Of the volume.
    Handed(Range<u64>),
    /// Zeros that the volume does not hold.
    Zeros(u64),
    /// What cannot be read, and why.
    Lost(u64, String),
}

impl Taken {
    /// How many bytes of the body it is.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Taken::Bytes(range) => range.len() as u64,
            Taken::Handed(range) => range.end - range.start,
            Taken::Zeros(count) | Taken::Lost(count, _) => *count,
        }
    }
}

/// The bodies of a plan, in its order.
pub(crate) struct BodyParts {
    bodies: Bodies,
    /// What is being used up: the part, and how much of it is taken.
    chunk: BodyChunk,
    part: usize,
    taken: u64,
}

impl BodyParts {
    /// Starts reading.
    pub(crate) fn start(plan: &Arc<ExportPlan>, long: Long) -> BodyParts {
        let bodies = Bodies::start(Arc::clone(plan), long);
        BodyParts { bodies, chunk: BodyChunk::default(), part: 0, taken: 0 }
    }

    /// The bytes of the present chunk.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.chunk.bytes
    }

    /// Whether the next call exchanges the chunk.
    pub(crate) fn is_used_up(&self) -> bool {
        self.part >= self.chunk.parts.len()
    }

    fn next(&mut self) -> Result<&mut Part, Error> {
        while self.is_used_up() {
            self.bodies.give_back(std::mem::take(&mut self.chunk));
            let ended = || Error::new("the reader of the image ended too early");
            (self.chunk, self.part, self.taken) = (self.bodies.next().ok_or_else(ended)?, 0, 0);
        }
        Ok(&mut self.chunk.parts[self.part])
    }

    /// The map that comes next: where the next file holds data, or why that is not known.
    ///
    /// # Errors
    /// The threads ended, or something else comes next.
    pub(crate) fn map(&mut self) -> Result<Result<Vec<Range<u64>>, String>, Error> {
        let map = match self.next()? {
            Part::Map(map) => std::mem::replace(map, Ok(Vec::new())),
            _ => return Err(Error::new("the reader of the image lost its place")),
        };
        (self.part, self.taken) = (self.part + 1, 0);
        Ok(map)
    }

    /// The next bytes, at most `left`, which is reduced by their number.
    ///
    /// # Errors
    /// The threads ended, or a map comes next.
    pub(crate) fn take(&mut self, left: &mut u64) -> Result<Taken, Error> {
        let taken = self.taken;
        let part = self.next()?;
        let available = match part {
            Part::Bytes(range) => range.len() as u64,
            Part::Handed(range) => range.end - range.start,
            Part::Zeros(count) | Part::Lost(count, _) => *count,
            Part::Map(_) => return Err(Error::new("the reader of the image lost its place")),
        };
        // A part that was begun belongs to this chunk; else none of it is taken yet.
        let taken = if taken < available { taken } else { 0 };
        let count = (available - taken).min(*left);
        let piece = match part {
            Part::Bytes(range) => {
                let start = range.start + taken as usize;
                Taken::Bytes(start..start + count as usize)
            }
            Part::Handed(range) => {
                let start = range.start + taken;
                Taken::Handed(start..start + count)
            }
            Part::Lost(_, reason) => Taken::Lost(count, reason.clone()),
            Part::Zeros(_) | Part::Map(_) => Taken::Zeros(count),
        };
        *left -= count;
        self.taken = taken + count;
        if self.taken == available {
            (self.part, self.taken) = (self.part + 1, 0);
        }
        Ok(piece)
    }
}
