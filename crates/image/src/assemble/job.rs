//! What is known of an image before its first byte is written, and how writing it may fail.
use super::inodes::InodeWish;
use super::medium::Medium;
use super::need::Need;
use super::order::Order;
use super::plan::FlexGroups;
use super::room::ImageSize;
use crate::error::{Error, ErrorKind};
use crate::progress::Progress;
use crate::source::{Owner, Sources};
use crate::tree::Tree;
use extant_block::Clock;
use extant_engine::ErrorKind as EngineErrorKind;
use extant_engine::allocation::MapBlocks;
use extant_engine::mkfs::{Contents, FormatOptions};
use extant_format::inode::Time;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Where an image goes.
#[derive(Clone)]
pub struct Destination<'a> {
    /// What takes the bytes: a file that is open for reading and writing, or another medium.
    pub medium: &'a dyn Medium,
    /// What messages call it.
    pub name: String,
    /// What of it the image takes.
    pub place: Place,
}

/// What of its destination an image takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// All of a regular file, or of memory, which is overwritten and gets the image's length.
    Whole,
    /// A part of a block device or file. Every byte outside of the image stays.
    Part {
        /// Where the place ends in the destination, in bytes: the image ends there or before.
        end_bytes: u64,
        /// What it holds where the image is to be.
        contents: Contents,
    },
}

impl Place {
    /// All of a block device of this many bytes.
    pub fn device(bytes: u64) -> Place {
        Place::Part { end_bytes: bytes, contents: Contents::Unknown }
    }

    /// Where it ends, in bytes; `None` for a file that becomes as long as the image.
    pub fn end_bytes(self) -> Option<u64> {
        match self {
            Place::Whole => None,
            Place::Part { end_bytes, .. } => Some(end_bytes),
        }
    }
}

/// Everything that is known before the first byte is written.
pub struct Job<'a> {
    /// Where map blocks go.
    pub(super) map_blocks: MapBlocks,
    /// What the image holds.
    pub(super) tree: &'a Tree,
    /// Where the bytes are.
    pub(super) sources: &'a Sources,
    /// Where the image goes.
    pub(super) destination: &'a Destination<'a>,
    /// Numbers.
    pub(super) order: Order,
    /// Room for the files.
    pub(super) need: Need,
    /// Format, identity and times; sizes are decided here.
    pub(super) template: FormatOptions,
    /// What decides about flex groups.
    pub(super) flex: FlexGroups,
    /// How large.
    pub(super) size: ImageSize,
    /// How many inodes.
    pub(super) inodes: InodeWish,
    /// When every inode was made.
    pub(super) created: Time,
    /// Time for stamps.
    pub(super) clock: Arc<dyn Clock>,
    /// User and group of the root directory, where they are not its source's.
    pub(super) root_owner: Option<Owner>,
    /// Where the file system begins in the destination, in bytes.
    pub(super) origin: u64,
    /// Whether an attempt wrote to the destination, which then holds more than it did.
    pub(super) has_written: AtomicBool,
    /// Advanced by bytes of data written.
    pub(super) progress: &'a dyn Progress,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Built {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of the image.
    pub blocks: u64,
    /// Blocks free.
    pub free_blocks: u64,
    /// Inodes.
    pub inodes: u32,
    /// Inodes free.
    pub free_inodes: u32,
    /// Whether it has a journal.
    pub has_journal: bool,
    /// Its UUID.
    pub uuid: [u8; 16],
}

impl Built {
    /// Bytes of the volume.
    pub fn bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_size)
    }
}

/// Why an attempt failed: for want of room, which another size mends, or for good.
pub(super) enum Failure {
    NoSpace,
    Device(io::Error),
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

impl From<extant_engine::Error> for Failure {
    fn from(error: extant_engine::Error) -> Failure {
        match error.kind {
            EngineErrorKind::NoSpace { .. } | EngineErrorKind::NoInodes => Failure::NoSpace,
            EngineErrorKind::Device(cause) => Failure::Device(cause),
            _ => Failure::Other(unfit(&error)),
        }
    }
}

/// What no inode, directory or map of this format can hold.
fn unfit(error: &extant_engine::Error) -> Error {
    let kind = match &error.kind {
        EngineErrorKind::FileTooLarge => ErrorKind::FileTooLarge,
        EngineErrorKind::NameTooLong => ErrorKind::TargetTooLong,
        EngineErrorKind::DirectoryFull => ErrorKind::DirectoryFull,
        EngineErrorKind::TooManyLinks => ErrorKind::TooManyLinks,
        _ => ErrorKind::Other,
    };
    Error::new(error.to_string()).of(kind)
}
