//! How a volume is opened: for what, which part of its image, with which clock and memory.
use crate::error::{Error, ErrorKind, Result};
use extant_block::{Access, Clock, RealClock, WallTime};
use extant_engine::cache_for_blocks;
use extant_engine::preset::Policies;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Memory for blocks unless something else is asked for, in bytes.
const CACHE_BYTES: usize = 32 << 20;

/// How a volume is opened. By default it is read, takes all of its image or is the only ext volume
/// of a partitioned one, and 32 MiB of memory.
///
/// ```
/// # fn main() -> extant::Result<()> {
/// # let memory = extant::Memory::new();
/// # extant::Builder::new().free(1 << 20).build_memory(&memory)?;
/// let volume = extant::Options::new().write(true).cache_bytes(8 << 20).open(memory)?;
/// volume.write("/hello", b"hello\n")?;
/// volume.close()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) access: Access,
    pub(crate) part: Part,
    pub(crate) journal: Option<PathBuf>,
    cache_bytes: usize,
    policies: String,
    time: Option<i64>,
    pub(crate) errors: Errors,
    pub(crate) damage: Damage,
}

/// Which bytes of an image are the volume.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// All of them, or those of the only partition with an ext volume.
    Found,
    /// These, from the first byte of the image on.
    Bytes(Range<u64>),
    /// Those of the partition of this number, name or identifier.
    Partition(String),
}

/// What becomes of a volume with errors that is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Errors {
    Refuse,
    Ignore,
}

/// What becomes of a damaged volume that is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    Refuse,
    GoOn,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            access: Access::ReadOnly,
            part: Part::Found,
            journal: None,
            cache_bytes: CACHE_BYTES,
            policies: "modern".to_owned(),
            time: None,
            errors: Errors::Refuse,
            damage: Damage::Refuse,
        }
    }
}

impl Options {
    /// Those by default.
    pub fn new() -> Options {
        Options::default()
    }

    /// Whether the volume is written, and its journal replayed on the image; otherwise nothing is
    /// written, not even a time, and a journal is replayed in memory.
    #[must_use]
    pub fn write(mut self, write: bool) -> Self {
        self.access = if write { Access::ReadWrite } else { Access::ReadOnly };
        self
    }

    /// The volume is these bytes of the image; what is past its end is cut off. No other byte is
    /// written.
    #[must_use]
    pub fn range(self, bytes: Range<u64>) -> Options {
        Options { part: Part::Bytes(bytes), ..self }
    }

    /// The volume is the partition of this number, name or identifier (GUID).
    #[must_use]
    pub fn partition(self, word: impl Into<String>) -> Options {
        Options { part: Part::Partition(word.into()), ..self }
    }

    /// The device of the volume's journal, a file or block device, for a volume that has it on
    /// another device. It is replayed, and written where the volume is written; without it such a
    /// volume is refused where its journal waits, or where it is to be written. One that is not
    /// the volume's is [`InvalidInput`](ErrorKind::InvalidInput).
    #[must_use]
    pub fn journal(self, path: impl Into<PathBuf>) -> Options {
        Options { journal: Some(path.into()), ..self }
    }

    /// Memory for blocks, in bytes. Less than a volume needs (2 MiB, or 320 blocks) is refused when
    /// it is opened. A [`Transaction`](crate::Transaction) takes what it needs.
    #[must_use]
    pub fn cache_bytes(self, bytes: usize) -> Options {
        Options { cache_bytes: bytes, ..self }
    }

    /// Where files go, and what is durable before what: `modern` by default, any of those that
    /// `extant lab policies` lists, or a mixture such as `modern,atime=none`.
    #[must_use]
    pub fn policies(self, words: impl Into<String>) -> Options {
        Options { policies: words.into(), ..self }
    }

    /// It is always this second since 1970, so that the same changes give the same bytes.
    #[must_use]
    pub fn time(self, seconds: i64) -> Options {
        Options { time: Some(seconds), ..self }
    }

    /// Whether a volume is written in which errors were found, or which was not closed and has no
    /// journal. That may damage it more.
    #[must_use]
    pub fn despite_errors(mut self, despite_errors: bool) -> Self {
        self.errors = if despite_errors { Errors::Ignore } else { Errors::Refuse };
        self
    }

    /// Whether reading goes on over damage: copies of superblock and descriptors are used, and
    /// checksums are not believed. What was lost is in [`Volume::skipped`](crate::Volume::skipped).
    /// Not with [`Options::write`].
    #[must_use]
    pub fn force_read(mut self, force_read: bool) -> Self {
        self.damage = if force_read { Damage::GoOn } else { Damage::Refuse };
        self
    }

    /// The clock of devices and of the engine.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        match self.time {
            Some(seconds) => RealClock::pinned(WallTime { seconds, nanoseconds: 0 }),
            None => RealClock::new(),
        }
    }

    /// For the engine.
    pub(crate) fn engine(&self) -> Result<extant_engine::Options> {
        let policies: Policies = self.policies.parse().map_err(|error| {
            let words = format!("policies {:?}: {error}", self.policies);
            Error::new(ErrorKind::InvalidInput, words)
        })?;
        Ok(extant_engine::Options {
            access: match self.access {
                Access::ReadOnly => extant_engine::Access::ReadOnly,
                Access::ReadWrite => extant_engine::Access::ReadWrite,
            },
            policies,
            cache_bytes: cache_for_blocks(self.cache_bytes),
            data: extant_engine::DataKeeping::Bytes,
        })
    }
}
