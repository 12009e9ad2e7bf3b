//! A whole volume at once, for programs that need all of it: every inode in use and every name,
//! read in the order of the disk.
//!
//! Walking from name to name through an ordinary file system reads one inode and one block at a
//! time, here and there on the disk. A survey reads the used part of each inode table in large
//! reads, then all blocks of all directories, sorted by their place on disk. Maps that do not fit
//! into an inode are read with the file itself, because they are next to it.
//!
//! ```text
//! tables  reads inodes into       objects   72 bytes per inode in use: owner, times, size, where
//!                                           its content is
//!                                 index     12 bytes per 64 slots of inode tables: which are in
//!                                           use, and how many before them
//! names   reads directories into  names     16 bytes per name, sorted by directory, and the bytes
//!                                           of all names, end to end
//! data    finds where the bytes of files are
//! paths   finds by which names inodes are reached
//! ```
//! Together that is about 110 bytes per file.
//!
//! *Invariants*: damage of an inode is kept as that inode's fault, and matters only to callers that
//! reach it through a name. No block is used for a directory twice, so a survey holds no more names
//! than the volume does. A survey does not check that the names form a tree: a hostile volume may
//! lead to a directory twice, or in circles.
//! *Locking*: none; once made, a survey is only read, by any number of threads.
mod data;
mod names;
mod paths;
mod tables;

pub use data::{Data, Pieces};

use crate::api::filesystem::Filesystem;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::flush::Core;
use crate::inode::{self, NodeState};
use crate::name::directory::Legality;
use extant_block::{BlockDevice, Holes};
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, FileType, Inode, Time, flags};
use extant_format::superblock::{Feature, Features, Superblock};
use extant_format::{BlockNo, Ino, fold};
use extant_tree::Facts;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// Size of one read from the device at most, in bytes.
const READ_BYTES_MAX: usize = 1 << 20;
/// A gap between two wanted places is read with them if it is at most this long, in bytes.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// An inode in use, in the order of the inode tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u32);

/// A name in a directory, other than "." and "..".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NameId(pub u32);

/// Everything on a volume.
pub struct Survey {
    core: Arc<Core>,
    objects: Vec<Object>,
    index: Index,
    names: Vec<NameRecord>,
    /// Names and short symlink targets, end to end.
    text: Vec<u8>,
    /// Where in `text` the bytes are that are on disk, of names that no file may have.
    stored: FxHashMap<NameId, Range<usize>>,
    /// Runs of files that have several and keep them in the inode.
    runs: Vec<FileRun>,
    faults: Vec<Error>,
    uses: Features,
}

/// One inode in use.
struct Object {
    size: u64,
    /// Access, change, modify.
    times: [PackedTime; 3],
    content: Content,
    ino: Ino,
    uid: u32,
    gid: u32,
    /// Index into `faults` plus 1, or 0 for no fault.
    fault: u32,
    mode: u16,
    attributes: Attributes,
    flags: u32,
    case: Case,
}

/// Whether an inode may have extended attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attributes {
    None,
    Perhaps,
}

/// Whether the names in a directory are told from each other by their case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Counts,
    /// Names that are the same when folded are (casefold).
    Ignored,
}

impl Case {
    /// That of names without a key: they are what they are shown as.
    fn of(inode: &Inode, superblock: &Superblock) -> Case {
        let is_folded = inode.flags & flags::CASEFOLDED != 0 && superblock.has(Feature::CASEFOLD);
        match is_folded && !inode.is_encrypted(superblock) {
            true => Case::Ignored,
            false => Case::Counts,
        }
    }
}

/// What an inode holds, and where.
#[derive(Clone, Copy)]
enum Content {
    Nothing,
    /// A file in one run from its first block on.
    Run {
        start: BlockNo,
        length: u32,
    },
    /// Several runs: a range of `runs`.
    Runs {
        first: u32,
        count: u32,
    },
    /// The map is larger than the inode; it, or the data it maps, begins here.
    Mapped {
        near: BlockNo,
    },
    /// A symlink's target: a range of `text`.
    Target {
        start: u32,
        length: u32,
    },
    Device(Device),
    /// A file or target in its inode.
    Inline,
    /// A directory's names: a range of `names`.
    Names {
        first: u32,
        count: u32,
    },
}

/// A run of a file: in the file, and on the volume.
#[derive(Clone, Copy)]
struct FileRun {
    block: u32,
    length: u32,
    start: BlockNo,
}

#[derive(Clone, Copy)]
struct NameRecord {
    directory: ObjectId,
    ino: Ino,
    start: u32,
    length: u8,
    legality: Legality,
}

/// A time in 34 bits of seconds from 1901 on and 30 of nanoseconds, which is all an inode keeps.
#[derive(Clone, Copy)]
struct PackedTime(u64);

const SECONDS_MIN: i64 = i32::MIN as i64;

impl PackedTime {
    fn new(time: Time) -> PackedTime {
        let seconds =
            time.seconds.saturating_sub(SECONDS_MIN).clamp(0, (1 << 34) - 1).cast_unsigned();
        PackedTime(seconds << 30 | u64::from(time.nanoseconds.min(999_999_999)))
    }
    fn time(self) -> Time {
        let seconds = (self.0 >> 30).cast_signed() + SECONDS_MIN;
        Time { seconds, nanoseconds: (self.0 & 0x3fff_ffff) as u32 }
    }
}

/// The index from inode numbers to objects.
#[derive(Default)]
struct Index {
    /// Where each group's words begin, with one more entry than there are groups.
    groups: Vec<u32>,
    words: Vec<IndexWord>,
}

#[derive(Clone, Copy)]
struct IndexWord {
    used: u64,
    /// How many objects come before the first of these.
    before: u32,
}

impl Filesystem {
    /// Reads all inodes in use and all names. The file system must not change meanwhile.
    ///
    /// # Errors
    /// Those that keep the whole from being read, such as more names than fit into 32 bits. Damage
    /// of single inodes is reported by [`Survey::fault`].
    pub fn survey(&self) -> Result<Survey> {
        let mut survey = Survey {
            core: Arc::clone(&self.core),
            objects: Vec::new(),
            index: Index::default(),
            names: Vec::new(),
            text: Vec::new(),
            stored: FxHashMap::default(),
            runs: Vec::new(),
            faults: Vec::new(),
            uses: Features::default(),
        };
        let directories = tables::read(&mut survey)?;
        names::read(&mut survey, directories)?;
        Ok(survey)
    }
}

impl Survey {
    /// Features that keep something which no [`Facts`] say, and that inodes in use have: projects,
    /// fs-verity, encryption.
    pub fn uses(&self) -> Features {
        self.uses
    }

    /// How many inodes are in use, including those without a name.
    pub fn object_count(&self) -> u32 {
        self.objects.len() as u32
    }

    /// How many names there are.
    pub fn name_count(&self) -> u32 {
        self.names.len() as u32
    }

    /// The object with that inode number.
    ///
    /// # Errors
    /// `Corrupt` if it is free, reserved, or outside the volume: a name that points there is
    /// damaged.
    pub fn object(&self, ino: Ino) -> Result<ObjectId> {
        let superblock = &self.core.inodes.volume.store.superblock;
        let nowhere = |reason| {
            Error::field(Place::Inode(ino), "directory entry", "inode", ino.0.into(), reason)
        };
        let (group, at) =
            superblock.group_of_inode(ino).ok_or_else(|| nowhere("beyond the last inode"))?;
        if !superblock.is_usable(ino) {
            return Err(nowhere("reserved"));
        }
        self.index.find(group.0, at).map(ObjectId).ok_or_else(|| nowhere("not in use"))
    }

    fn record(&self, id: ObjectId) -> &Object {
        &self.objects[id.0 as usize]
    }

    /// The inode number of an object.
    ///
    /// # Panics
    /// Like all functions here, if the id comes from another survey.
    pub fn ino(&self, id: ObjectId) -> Ino {
        self.record(id).ino
    }

    /// What is wrong with an inode: its facts, names or data cannot be relied on.
    pub fn fault(&self, id: ObjectId) -> Option<&Error> {
        let at = self.record(id).fault.checked_sub(1)?;
        self.faults.get(at as usize)
    }

    /// What is known of an object; `None` if not even its type is known.
    pub fn facts(&self, id: ObjectId) -> Option<Facts> {
        let object = self.record(id);
        let [access_time, change_time, modify_time] = object.times.map(PackedTime::time);
        Some(Facts {
            file_type: FileType::from_mode(object.mode)?,
            permissions: object.mode & 0o7777,
            uid: object.uid,
            gid: object.gid,
            size: object.size,
            modify_time,
            access_time: Some(access_time),
            change_time: Some(change_time),
            device: match object.content {
                Content::Device(device) => device,
                _ => Device::default(),
            },
            flags: Some(object.flags),
        })
    }

    /// The type; `None` if it is not known.
    pub fn file_type(&self, id: ObjectId) -> Option<FileType> {
        FileType::from_mode(self.record(id).mode)
    }

    /// The size in bytes.
    pub fn size(&self, id: ObjectId) -> u64 {
        self.record(id).size
    }

    /// The names in a directory, in no particular order; empty for anything else.
    pub fn names(&self, directory: ObjectId) -> impl ExactSizeIterator<Item = NameId> + use<> {
        let range = match self.record(directory).content {
            Content::Names { first, count } => first..first + count,
            _ => 0..0,
        };
        range.map(NameId)
    }

    /// What a path means by a name of a directory: the entry with exactly these bytes, or else,
    /// where its names know no case, the first one that is the same when both are folded.
    pub fn find(&self, directory: ObjectId, name: &[u8]) -> Option<NameId> {
        let exact = self.names(directory).find(|found| self.name(*found) == name);
        if exact.is_some() || self.record(directory).case == Case::Counts {
            return exact;
        }
        let wanted = fold::folded(name);
        self.names(directory).find(|found| fold::folded(self.name(*found)) == wanted)
    }

    /// The bytes of a name: no slash, no NUL, never "." or "..". One that no file may have is what
    /// it is written as.
    pub fn name(&self, name: NameId) -> &[u8] {
        let record = &self.names[name.0 as usize];
        &self.text[record.start as usize..record.start as usize + usize::from(record.length)]
    }

    /// The bytes on disk of a name that no file may have; `None` for any other.
    pub fn stored_name(&self, name: NameId) -> Option<&[u8]> {
        self.text.get(self.stored.get(&name)?.clone())
    }

    /// The inode number that a name points to, whatever it is.
    pub fn leads_to(&self, name: NameId) -> Ino {
        self.names[name.0 as usize].ino
    }

    /// The directory that contains a name.
    pub fn directory_of(&self, name: NameId) -> ObjectId {
        self.names[name.0 as usize].directory
    }

    /// Where on the volume a file's data begins, or its map; `None` if it has neither.
    pub fn position(&self, id: ObjectId) -> Option<BlockNo> {
        match self.record(id).content {
            Content::Run { start, .. } => Some(start),
            Content::Runs { first, .. } => self.runs.get(first as usize).map(|run| run.start),
            Content::Mapped { near } => Some(near),
            _ => None,
        }
    }

    /// Extended attributes in the order in which they are stored, access lists in the form of
    /// getxattr.
    ///
    /// # Errors
    /// `Corrupt`; what the device returns.
    pub fn attributes(&self, id: ObjectId) -> Result<Vec<Attribute>> {
        match self.record(id).attributes {
            Attributes::None => Ok(Vec::new()),
            Attributes::Perhaps => {
                crate::inode::attribute::list(&self.core.inodes.volume, &self.state(id)?)
            }
        }
    }

    /// The target of a symlink: at least one byte, no NUL.
    ///
    /// # Errors
    /// `Corrupt`; what the device returns; `InvalidArgument` for anything but a symlink.
    pub fn target(&self, id: ObjectId) -> Result<Vec<u8>> {
        let object = self.record(id);
        let target = match object.content {
            Content::Target { start, length } => {
                self.text[start as usize..start as usize + length as usize].to_vec()
            }
            _ => {
                let node = self.core.inodes.nodes.get(&self.core.inodes.volume, object.ino)?;
                self.core.inodes.read_link(&node)?
            }
        };
        if target.is_empty() || target.contains(&0) {
            let (length, reason) =
                (target.len() as u64, "that of no path: it is empty, or has a NUL in it");
            return Err(Error::field(
                Place::Inode(object.ino),
                "symlink",
                "target's length",
                length,
                reason,
            ));
        }
        Ok(target)
    }

    /// The device that offsets on the volume refer to.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.core.inodes.volume.store.device
    }

    /// Size of a block in bytes.
    pub fn block_size(&self) -> u32 {
        self.core.inodes.volume.store.block_size()
    }

    /// The superblock of the volume.
    pub fn superblock(&self) -> &Superblock {
        &self.core.inodes.volume.store.superblock
    }

    /// Reads the inode again, for what is too large or too rare to be kept.
    fn state(&self, id: ObjectId) -> Result<NodeState> {
        let ino = self.record(id).ino;
        Ok(NodeState::new(
            &self.core.inodes.volume,
            ino,
            inode::load(&self.core.inodes.volume, ino)?,
        ))
    }

    fn add_fault(&mut self, id: ObjectId, error: Error) {
        let object = &mut self.objects[id.0 as usize];
        if object.fault == 0 {
            self.faults.push(error);
            object.fault = self.faults.len() as u32;
        }
    }

    /// Keeps bytes, and returns where.
    fn keep_text(&mut self, bytes: &[u8]) -> Result<u32> {
        let start = u32::try_from(self.text.len()).map_err(|_| too_much())?;
        self.text.extend_from_slice(bytes);
        Ok(start)
    }
}

impl Index {
    /// Starts the next group.
    fn begin_group(&mut self) -> Result<()> {
        self.groups.push(u32::try_from(self.words.len()).map_err(|_| too_much())?);
        Ok(())
    }

    /// Marks an inode of the group begun last as an object. Words are stored as far as there are
    /// objects.
    fn insert(&mut self, at: u32) {
        let first = self.groups.last().map_or(0, |first| *first as usize);
        let word = first + (at / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, IndexWord { used: 0, before: 0 });
        }
        self.words[word].used |= 1 << (at % 64);
    }

    /// Counts the objects of the group begun last, with `before` objects in the groups before it.
    fn end_group(&mut self, mut before: u32) {
        let first = self.groups.last().map_or(0, |first| *first as usize);
        for word in self.words.get_mut(first..).unwrap_or_default() {
            word.before = before;
            before += word.used.count_ones();
        }
    }

    fn find(&self, group: u32, at: u32) -> Option<u32> {
        let (start, end) =
            (*self.groups.get(group as usize)?, *self.groups.get(group as usize + 1)?);
        let word = self.words.get(start as usize..end as usize)?.get((at / 64) as usize)?;
        let bit = 1u64 << (at % 64);
        (word.used & bit != 0).then(|| word.before + (word.used & (bit - 1)).count_ones())
    }
}

/// The error for more names or bytes than 32 bits can count.
fn too_much() -> Error {
    ErrorKind::OperationUnsupported("the volume has more names than can be surveyed at once").into()
}

/// A buffer that is used for many reads.
struct Reads {
    bytes: Vec<u8>,
    holes: Holes,
}

impl Reads {
    fn new() -> Reads {
        Reads { bytes: Vec::new(), holes: Holes::default() }
    }

    /// The offset of the first byte at or after `from` that may not be zero.
    fn next_data(&mut self, device: &dyn BlockDevice, from: u64) -> Result<u64> {
        Ok(self.holes.next_data(device, from)?)
    }

    /// Reads a range of at most `READ_BYTES_MAX`.
    fn read(&mut self, device: &dyn BlockDevice, range: Range<u64>) -> Result<&[u8]> {
        let length =
            usize::try_from(range.end - range.start).unwrap_or(READ_BYTES_MAX).min(READ_BYTES_MAX);
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        device.read(range.start, &mut self.bytes[..length])?;
        Ok(&self.bytes[..length])
    }
}
