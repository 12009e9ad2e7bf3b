//! What a user should know although nothing failed: what could not be kept, and what was read in a
//! way that may surprise. Counted by kind; the first few of each kind are kept as sentences.
//!
//! Nothing is printed here: a command decides how notices are shown.
use std::collections::BTreeMap;

/// Sentences kept of each kind; the others are only counted.
pub const NAMED_MAX: usize = 5;

/// What a notice is about. They are shown in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NoticeKind {
    /// An archive without the blocks of zeros that end one.
    NoEndMark,
    /// An archive with more than zeros after its end.
    BytesAfterEnd,
    /// An entry of a type that no standard knows, kept as a regular file.
    UnknownType,
    /// A whiteout that is kept as a file, because whiteouts are not applied.
    WhiteoutKept,
    /// A character device 0:0: a whiteout of overlayfs, which is kept as a device.
    OverlayWhiteoutKept,
    /// A whiteout of "", "." or "..".
    WhiteoutOfNothing,
    /// A file below a name that begins with `.wh.`, which no image can hold.
    BelowWhiteout,
    /// A directory that replaced a symlink of an earlier source.
    DirectoryOverSymlink,
    /// Something else that replaced a directory of an earlier source, or of the same.
    FileOverDirectory,
    /// Entries of an access list that name users or groups without their numbers.
    AccessListNames,
    /// An access list of a form that ext does not have.
    AccessListForm,
    /// An attribute whose name ext cannot store.
    AttributeName,
    /// File flags, as chattr sets them.
    FileFlags,
    /// A time that is outside what an inode holds.
    TimeClamped,
    /// A time that is after the present.
    TimeToCome,
    /// Nanoseconds that an inode of 128 bytes has no room for.
    NanosecondsDropped,
    /// A rule that names nothing in the image, or a file that a complete table does not name.
    Rules,
}

impl NoticeKind {
    /// The word for it in JSON and after "N more of this kind".
    pub fn word(self) -> &'static str {
        match self {
            NoticeKind::NoEndMark => "no-end-mark",
            NoticeKind::BytesAfterEnd => "bytes-after-end",
            NoticeKind::UnknownType => "unknown-type",
            NoticeKind::WhiteoutKept => "whiteout-kept",
            NoticeKind::OverlayWhiteoutKept => "overlay-whiteout-kept",
            NoticeKind::WhiteoutOfNothing => "whiteout-of-nothing",
            NoticeKind::BelowWhiteout => "below-whiteout",
            NoticeKind::DirectoryOverSymlink => "directory-over-symlink",
            NoticeKind::FileOverDirectory => "file-over-directory",
            NoticeKind::AccessListNames => "access-list-names",
            NoticeKind::AccessListForm => "access-list-form",
            NoticeKind::AttributeName => "attribute-name",
            NoticeKind::FileFlags => "file-flags",
            NoticeKind::TimeClamped => "time-clamped",
            NoticeKind::TimeToCome => "time-to-come",
            NoticeKind::NanosecondsDropped => "nanoseconds-dropped",
            NoticeKind::Rules => "rules",
        }
    }
}

/// The notices of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// How many there were.
    pub count: u64,
    /// The first [`NAMED_MAX`], a sentence each that begins with a path.
    pub named: Vec<String>,
}

/// All notices so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Notices {
    kinds: BTreeMap<NoticeKind, Tally>,
}

impl Notices {
    /// Counts one more; `sentence` is asked for only while it will be kept.
    pub fn add(&mut self, kind: NoticeKind, sentence: impl FnOnce() -> String) {
        let tally = self.kinds.entry(kind).or_default();
        tally.count += 1;
        if tally.named.len() < NAMED_MAX {
            tally.named.push(sentence());
        }
    }
    /// One sentence that stands for `count` of a kind; nothing for none.
    pub fn add_many(&mut self, kind: NoticeKind, count: u64, sentence: impl FnOnce() -> String) {
        if count == 0 {
            return;
        }
        let tally = self.kinds.entry(kind).or_default();
        tally.count += count;
        tally.named.push(sentence());
    }
    /// The kinds that occurred, in order.
    pub fn kinds(&self) -> impl Iterator<Item = (NoticeKind, &Tally)> {
        self.kinds.iter().map(|(kind, tally)| (*kind, tally))
    }
    /// The tally of one kind; `None` if it did not occur.
    pub fn of(&self, kind: NoticeKind) -> Option<&Tally> {
        self.kinds.get(&kind)
    }
}
