//! Names that were looked up lately, and what they lead to: a name that is known, there or not, is
//! found without a look at the directory's blocks.
//!
//! ```text
//!            learn: looked up, or inserted
//! (unknown) -------------------------------> known: an inode, or none
//!     ^                                        |
//!     +-- forget: before the name changes; evicted; the directory's node was evicted or freed
//! ```
//!
//! A directory is known by the serial number of its state in memory, which is never used again. So
//! what is known of a directory ends with its node, and nothing has to be removed when its inode
//! number is given to another one.
//!
//! *Invariants*: what is known of a name is what the directory's blocks say. It is learned under
//! the directory's lock, held shared or exclusively, and forgotten under the exclusive one before
//! the first byte changes, so that a change which fails half-way leaves nothing known. A shard
//! holds at most `bytes_max` bytes, by the nominal size of names.
//! *Locking*: each shard is a short lock, under which no other is taken. The directory's inode is
//! locked around each call.
use crate::ranks;
use crate::store::eviction::EvictionQueue;
use extant_block::{Apart, ShortLock};
use extant_format::Ino;
use extant_format::inode::FileType;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 16;
/// Names that are kept in a shard at least.
const NAMES_MIN: usize = 16;
/// What a known name takes, without the bytes of a long one: its entry in a table that may be half
/// empty, and its place in the queue.
pub(crate) const NAME_BYTES: usize = 144;
/// Bytes of a name that is kept without an allocation of its own.
const SHORT: usize = 22;

/// What a name points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NameTarget {
    pub(crate) ino: Ino,
    /// `None` if the volume does not store types.
    pub(crate) file_type: Option<FileType>,
}

/// A directory, as far as its names are concerned: the serial number of its state in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DirectorySerial(u64);

/// The bytes of a name.
enum Bytes {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

impl Bytes {
    fn of(name: &[u8]) -> Bytes {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..name.len()) {
            Some(start) => {
                start.copy_from_slice(name);
                Bytes::Short { length: name.len() as u8, bytes }
            }
            None => Bytes::Long(name.into()),
        }
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Short { length, bytes } => &bytes[..usize::from(*length)],
            Bytes::Long(bytes) => bytes,
        }
    }

    /// Bytes outside of the entry, with what an allocation takes beside them.
    fn outside(&self) -> usize {
        match self {
            Bytes::Short { .. } => 0,
            Bytes::Long(bytes) => bytes.len().next_multiple_of(16) + 16,
        }
    }
}

struct Known {
    directory: DirectorySerial,
    name: Bytes,
    /// `None` if the directory does not have the name.
    target: Option<NameTarget>,
    /// Used since the eviction last looked at it.
    touched: bool,
}

impl Known {
    /// What it takes, in bytes.
    fn bytes(&self) -> usize {
        NAME_BYTES + self.name.outside()
    }

    fn is(&self, directory: DirectorySerial, name: &[u8]) -> bool {
        self.directory == directory && self.name.as_slice() == name
    }
}

/// Names by the hash of directory and name. Of two with equal hashes the later one is known.
#[derive(Default)]
struct Shard {
    by_hash: FxHashMap<u64, Known>,
    queue: EvictionQueue<u64>,
    /// Memory in use, by [`Known::bytes`].
    bytes: usize,
}

/// The names of one volume that are known.
pub(crate) struct KnownNames {
    shards: Vec<Apart<ShortLock<Shard>>>,
    /// Of each shard.
    bytes_max: usize,
    serial_next: Apart<AtomicU64>,
}

fn hash(directory: DirectorySerial, name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(directory.0);
    hasher.write(name);
    hasher.finish()
}

impl KnownNames {
    /// None yet, and about `bytes_max` bytes of them at most.
    pub(crate) fn new(bytes_max: usize) -> KnownNames {
        KnownNames {
            shards: (0..SHARDS)
                .map(|_| Apart(ShortLock::ranked(ranks::LAST, Shard::default())))
                .collect(),
            bytes_max: (bytes_max / SHARDS).max(NAMES_MIN * NAME_BYTES),
            serial_next: Apart(AtomicU64::new(0)),
        }
    }

    /// A serial number that was never used before.
    pub(crate) fn serial(&self) -> DirectorySerial {
        DirectorySerial(self.serial_next.fetch_add(1, Ordering::Relaxed))
    }

    fn shard(&self, hash: u64) -> &ShortLock<Shard> {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// What is known of a name: what it leads to, or `Some(None)` if it is known not to be there.
    pub(crate) fn get(
        &self,
        directory: DirectorySerial,
        name: &[u8],
    ) -> Option<Option<NameTarget>> {
        let hash = hash(directory, name);
        let mut shard = self.shard(hash).lock();
        let known = shard.by_hash.get_mut(&hash).filter(|known| known.is(directory, name))?;
        known.touched = true;
        Some(known.target)
    }

    /// Notes what a name leads to, as the directory's blocks say.
    pub(crate) fn learn(
        &self,
        directory: DirectorySerial,
        name: &[u8],
        target: Option<NameTarget>,
    ) {
        let hash = hash(directory, name);
        let known = Known { directory, name: Bytes::of(name), target, touched: false };
        let mut shard = self.shard(hash).lock();
        let bytes = known.bytes();
        while shard.bytes + bytes > self.bytes_max && shard.evict() {}
        shard.bytes += bytes;
        match shard.by_hash.insert(hash, known) {
            Some(before) => shard.bytes -= before.bytes(),
            None => {
                let Shard { by_hash, queue, .. } = &mut *shard;
                queue.sweep_if_long(by_hash.len(), |hash| by_hash.contains_key(hash));
                queue.push(hash);
            }
        }
    }

    /// Forgets a name that is about to change.
    pub(crate) fn forget(&self, directory: DirectorySerial, name: &[u8]) {
        let hash = hash(directory, name);
        let mut shard = self.shard(hash).lock();
        if shard.by_hash.get(&hash).is_some_and(|known| known.is(directory, name))
            && let Some(known) = shard.by_hash.remove(&hash)
        {
            shard.bytes -= known.bytes();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            *shard.lock() = Shard::default();
        }
    }

    /// Memory in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }
}

impl Shard {
    /// Evicts the oldest name that was not used since its last turn; after a few turns, any.
    /// Returns whether there was one.
    fn evict(&mut self) -> bool {
        const TURNS: u32 = 8;
        for turn in 1.. {
            let Some(hash) = self.queue.pop() else { return false };
            let Some(known) = self.by_hash.get_mut(&hash) else { continue };
            if std::mem::take(&mut known.touched) && turn < TURNS {
                self.queue.push(hash);
                continue;
            }
            if let Some(known) = self.by_hash.remove(&hash) {
                self.bytes -= known.bytes();
            }
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(ino: u32) -> Option<NameTarget> {
        Some(NameTarget { ino: Ino(ino), file_type: Some(FileType::Regular) })
    }

    #[test]
    fn a_name_is_known_of_its_directory_alone_whatever_its_length() {
        let names = KnownNames::new(1 << 20);
        let (one, other) = (names.serial(), names.serial());
        for length in [1, 2, SHORT - 1, SHORT, SHORT + 1, 255] {
            let name = vec![b'n'; length];
            names.learn(one, &name, target(length as u32));
            names.learn(other, &name, None);
            assert_eq!(names.get(one, &name), Some(target(length as u32)), "{length} bytes");
            assert_eq!(names.get(other, &name), Some(None), "{length} bytes");
            names.forget(one, &name);
            assert_eq!(names.get(one, &name), None, "{length} bytes");
            assert_eq!(names.get(other, &name), Some(None), "{length} bytes");
        }
        names.clear();
        assert_eq!(names.bytes(), 0);
    }

    #[test]
    fn memory_is_bounded_and_names_in_use_stay() {
        const BYTES_MAX: usize = 1 << 20;
        let names = KnownNames::new(BYTES_MAX);
        let directory = names.serial();
        names.learn(directory, b"used", target(1));
        for number in 0..50_000u32 {
            // Every other one is long.
            let name = format!("file-{number:0width$}", width = number as usize % 2 * 200);
            names.learn(directory, name.as_bytes(), target(number));
            assert_eq!(names.get(directory, b"used"), Some(target(1)), "after {number}");
            assert!(names.bytes() <= BYTES_MAX, "{} bytes after {number}", names.bytes());
        }
        assert!(names.bytes() > BYTES_MAX / 2, "{} bytes", names.bytes());
    }
}
