//! What differs, as a value.
use extant_format::inode::{Device, FileType, Time};

/// One of the two trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// The first one.
    A,
    /// The second one.
    B,
}

/// A difference, and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// From the root, without a slash in front; empty for the root.
    pub path: Vec<u8>,
    /// What it is.
    pub change: Change,
}

/// Both values of something that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Here<T> {
    /// In the first tree.
    pub a: T,
    /// In the second tree.
    pub b: T,
}

/// What differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// It is in one tree only, with all that is in it.
    Only(Which, FileType),
    /// What it is; nothing else is compared then.
    Type(Here<FileType>),
    /// The lower twelve bits of the mode.
    Mode(Here<u16>),
    /// User and group.
    Owner(Here<(u32, u32)>),
    /// Flags as chattr sets them, compared where both trees tell them.
    Flags(Here<u32>),
    /// The modify time.
    Time(Here<Time>),
    /// Bytes of a regular file.
    Size(Here<u64>),
    /// The first byte that differs, or at which the shorter file ends.
    Content(u64),
    /// Where a symlink leads.
    Target(Here<Vec<u8>>),
    /// The numbers of a device.
    Device(Here<Device>),
    /// An extended attribute, by name; `None` where there is none.
    Attribute(Vec<u8>, Here<Option<Vec<u8>>>),
    /// The first name of the same file; `None` where it has no name before this one.
    Links(Here<Option<Vec<u8>>>),
    /// It cannot be read in one of the trees, and why: the comparison is not complete.
    Unreadable(Which, String),
}

impl Change {
    /// The word for its kind, in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Change::Only(Which::A, _) => "removed",
            Change::Only(Which::B, _) => "added",
            Change::Type(_) => "type",
            Change::Mode(_) => "mode",
            Change::Owner(_) => "owner",
            Change::Flags(_) => "flags",
            Change::Time(_) => "time",
            Change::Size(_) => "size",
            Change::Content(_) => "content",
            Change::Target(_) => "target",
            Change::Device(_) => "device",
            Change::Attribute(..) => "attribute",
            Change::Links(_) => "links",
            Change::Unreadable(..) => "unreadable",
        }
    }
}
