//! One step of a life: a system call, and who makes it.

use std::fmt;

use rustix::fs::{FallocateFlags, FileType, IFlags, OFlags, RenameFlags, XattrFlags};

/// How many files a life holds open at once.
pub const SLOTS: usize = 5;

/// Who makes a call: the position in [`super::caller::USERS`].
pub type User = usize;

/// A system call with its words. Paths are relative to the root of a tree; a slot is one of
/// [`SLOTS`] descriptors.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is the call of that name in section 2 of the manual")]
pub enum Call {
    Open {
        slot: usize,
        path: Bytes,
        flags: OFlags,
        mode: u32,
    },
    Close {
        slot: usize,
    },
    Read {
        slot: usize,
        length: usize,
    },
    Write {
        slot: usize,
        length: usize,
        seed: u64,
    },
    ReadAt {
        slot: usize,
        offset: u64,
        length: usize,
    },
    WriteAt {
        slot: usize,
        offset: u64,
        length: usize,
        seed: u64,
    },
    Seek {
        slot: usize,
        to: Place,
    },
    StatOpen {
        slot: usize,
    },
    /// Every byte outside of what SEEK_DATA and SEEK_HOLE show as data is zero.
    Ranges {
        slot: usize,
    },
    TruncateOpen {
        slot: usize,
        length: u64,
    },
    Allocate {
        slot: usize,
        mode: FallocateFlags,
        offset: u64,
        length: u64,
    },
    CopyRange {
        from: usize,
        from_offset: u64,
        to: usize,
        to_offset: u64,
        length: usize,
    },
    Sync {
        slot: usize,
        kind: Synced,
    },
    LinkOpen {
        slot: usize,
        path: Bytes,
    },
    ChangeModeOpen {
        slot: usize,
        mode: u32,
    },
    MapRead {
        path: Bytes,
        offset: u64,
        length: u64,
    },
    MapWrite {
        path: Bytes,
        offset: u64,
        length: u64,
        byte: u8,
    },
    Truncate {
        path: Bytes,
        length: u64,
    },
    Stat {
        path: Bytes,
        links: Links,
    },
    Access {
        path: Bytes,
        bits: i32,
    },
    Rename {
        from: Bytes,
        to: Bytes,
        flags: RenameFlags,
    },
    Link {
        from: Bytes,
        to: Bytes,
        links: Links,
    },
    SymbolicLink {
        target: Bytes,
        path: Bytes,
    },
    ReadLink {
        path: Bytes,
    },
    Unlink {
        path: Bytes,
    },
    RemoveDirectory {
        path: Bytes,
    },
    MakeDirectory {
        path: Bytes,
        mode: u32,
    },
    MakeNode {
        path: Bytes,
        kind: FileType,
        mode: u32,
        device: (u32, u32),
    },
    ChangeMode {
        path: Bytes,
        mode: u32,
    },
    ChangeOwner {
        path: Bytes,
        uid: Option<u32>,
        gid: Option<u32>,
        links: Links,
    },
    SetTimes {
        path: Bytes,
        accessed: SetTime,
        modified: SetTime,
        links: Links,
    },
    SetAttribute {
        path: Bytes,
        name: Bytes,
        value: Bytes,
        flags: XattrFlags,
    },
    GetAttribute {
        path: Bytes,
        name: Bytes,
    },
    ListAttributes {
        path: Bytes,
    },
    RemoveAttribute {
        path: Bytes,
        name: Bytes,
    },
    List {
        path: Bytes,
    },
    ListFrom {
        path: Bytes,
        after: usize,
    },
    GetFlags {
        path: Bytes,
    },
    SetFlags {
        path: Bytes,
        set: IFlags,
        clear: IFlags,
    },
    StatVolume,
}

impl Call {
    /// The paths among its words, and its slot, as its text has them.
    pub fn names(&self) -> Vec<String> {
        let text = format!("{self:?}");
        let mut names = Vec::new();
        for word in ["path: ", "from: ", "to: ", "slot: "] {
            let rest = text.split(&[' ', '{'][..]).collect::<Vec<_>>();
            let pairs = rest.windows(2).filter(|pair| pair[0] == word.trim_end());
            names.extend(pairs.map(|pair| pair[1].trim_end_matches(',').to_owned()));
        }
        names
    }
}

/// Whether the last part of a path is followed where it is a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// What it leads to is meant.
    Follow,
    /// The link itself is meant.
    Stay,
}

/// How a file is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// fsync(2).
    All,
    /// fdatasync(2).
    Data,
}

/// Where a seek leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of lseek(2)")]
pub enum Place {
    Start(u64),
    Current(i64),
    End(i64),
}

/// A time for utimensat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// `UTIME_OMIT`.
    Keep,
    /// `UTIME_NOW`.
    Now,
    /// Seconds and nanoseconds.
    At(i64, u32),
}

/// A call and its caller.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Who makes it.
    pub user: User,
    /// What is called.
    pub call: Call,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 300;
        let text: String = format!("{:?}", self.call).chars().take(SHOWN_MAX).collect();
        write!(f, "user {}: {text}", self.user)
    }
}

/// A path, a name or a value.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
