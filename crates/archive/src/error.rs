//! Why an archive cannot be read.
use crate::text::{printable, reason};
use std::fmt;
use std::io;

/// Why an archive cannot be read, or not any further, and where.
///
/// Displayed as a sentence without a subject, to be put after the archive's name: `corrupt archive:
/// an impossible size at etc/passwd`.
#[derive(Debug)]
pub struct ReadError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The byte of the archive, decompressed, at which the header of the entry under way begins.
    pub offset: u64,
    /// The path of the entry under way; `None` between two entries.
    pub entry: Option<Vec<u8>>,
    /// The path of the last entry that was read whole.
    pub last_whole: Option<Vec<u8>>,
}

/// What is wrong with an archive.
#[derive(Debug)]
pub enum ErrorKind {
    /// It cannot be opened.
    Open(io::Error),
    /// It has no bytes.
    Empty,
    /// It begins with zeros as an empty archive does, but goes on.
    BeginsWithZeros,
    /// It begins with something else than a header.
    NotAnArchive,
    /// It is compressed in a way that is not read here; the name of the tool that reads it.
    ForeignCompression(&'static str),
    /// It is an archive of a form that is not read here; which, with its article.
    ForeignArchive(&'static str),
    /// It begins with the rest of a file of another volume of a set.
    Continuation,
    /// It ends within an entry.
    Truncated,
    /// The host cannot read it, or it does not decompress.
    Read(io::Error),
    /// The bodies cannot be kept: the file for them cannot be made or written.
    Spool(io::Error),
    /// The sink of its bodies did not take them.
    Sink(io::Error),
    /// What it says cannot be.
    Corrupt(Corruption),
}

/// What an archive says that cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Corruption {
    /// A header after the first whose checksum is wrong.
    Checksum,
    /// A field of a header with a value that it cannot have; the name of the field.
    Field(&'static str),
    /// An extended header of more bytes than are read.
    ExtendedHeaderTooLong {
        /// Its bytes.
        bytes: u64,
        /// The most that are read.
        most: u64,
    },
    /// Records of an extended header that do not fit it.
    ExtendedHeaderRecords,
    /// A record of an extended header with a value that it cannot have; its key.
    ExtendedHeaderValue(Vec<u8>),
    /// More extended attributes of one file than are read; the most that are.
    TooManyAttributes(usize),
    /// Extended attributes of one file with more bytes than are read; the most that are.
    AttributesTooLarge(usize),
    /// A map of holes that cannot be.
    Map(MapFault),
}

/// What is wrong with a map of holes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapFault {
    /// A piece ends beyond 64 bits.
    Overflow,
    /// Pieces are out of order, or overlap.
    Order,
    /// A piece ends after the file.
    BeyondEnd,
    /// The pieces have another sum than what is stored.
    Sum,
    /// It is no list of numbers.
    NotNumbers,
    /// It is longer than what is stored of the file.
    TooLong,
    /// More pieces than are read.
    TooManyPieces,
    /// Nothing says how large the file is.
    NoSize,
    /// It has a form that is not known.
    UnknownForm {
        /// The number before the point.
        major: u64,
        /// The number after the point.
        minor: u64,
    },
}

impl From<Corruption> for ErrorKind {
    fn from(corruption: Corruption) -> ErrorKind {
        ErrorKind::Corrupt(corruption)
    }
}

impl From<MapFault> for ErrorKind {
    fn from(fault: MapFault) -> ErrorKind {
        ErrorKind::Corrupt(Corruption::Map(fault))
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = LastWhole(self.last_whole.as_deref());
        match &self.kind {
            ErrorKind::Open(error) => f.write_str(&reason(error)),
            ErrorKind::Empty => f.write_str("is empty, not a tar archive"),
            ErrorKind::BeginsWithZeros => {
                f.write_str("is not a tar archive: it begins with zeros, and goes on")
            }
            ErrorKind::NotAnArchive => f.write_str("is not a tar archive"),
            ErrorKind::ForeignCompression(tool) => {
                write!(f, "is compressed with {tool}, which is not read here")
            }
            ErrorKind::ForeignArchive(what) => write!(f, "is {what}, which is not read here"),
            ErrorKind::Continuation => {
                f.write_str("begins with the rest of a file of another volume")
            }
            ErrorKind::Truncated => write!(f, "truncated archive: {whole}"),
            ErrorKind::Read(error) => {
                write!(f, "cannot be read {}: {}; {whole}", EntryPlace(self), reason(error))
            }
            ErrorKind::Spool(error) => {
                write!(f, "the archive's files cannot be kept: {}", reason(error))
            }
            ErrorKind::Sink(error) => {
                write!(f, "the archive's files cannot be written: {}", reason(error))
            }
            ErrorKind::Corrupt(what) => write!(f, "corrupt archive: {what} {}", EntryPlace(self)),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Open(error)
            | ErrorKind::Read(error)
            | ErrorKind::Spool(error)
            | ErrorKind::Sink(error) => Some(error),
            _ => None,
        }
    }
}

/// Where in the archive, by the names of its entries.
struct EntryPlace<'a>(&'a ReadError);

impl fmt::Display for EntryPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.entry, &self.0.last_whole) {
            (Some(entry), _) => write!(f, "at {}", printable(entry)),
            (None, Some(last)) => write!(f, "after {}", printable(last)),
            (None, None) => f.write_str("at its start"),
        }
    }
}

/// The last entry that was read whole, as part of a sentence.
pub struct LastWhole<'a>(
    /// Its path; `None` if there is none.
    pub Option<&'a [u8]>,
);

impl fmt::Display for LastWhole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("no entry is whole"),
            Some(path) => write!(f, "the last whole entry is {}", printable(path)),
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Corruption::Checksum => f.write_str("a header whose checksum is wrong"),
            Corruption::Field(field) => write!(f, "an impossible {field}"),
            Corruption::ExtendedHeaderTooLong { bytes, most } => {
                write!(f, "an extended header of {bytes} bytes (at most {most} are read)")
            }
            Corruption::ExtendedHeaderRecords => {
                f.write_str("an extended header whose lines have wrong lengths")
            }
            Corruption::ExtendedHeaderValue(key) => {
                write!(f, "an extended header with a wrong {}", printable(key))
            }
            Corruption::TooManyAttributes(most) => {
                write!(f, "more than {most} extended attributes of a file")
            }
            Corruption::AttributesTooLarge(most) => {
                write!(f, "more than {most} bytes of extended attributes of a file")
            }
            Corruption::Map(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for MapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            MapFault::Overflow => "a map of holes beyond all numbers",
            MapFault::Order => "a map of holes that is out of order or overlaps",
            MapFault::BeyondEnd => "a map of holes that goes beyond the end of the file",
            MapFault::Sum => "a map of holes that does not fit the data",
            MapFault::NotNumbers => "a map of holes that is no list of numbers",
            MapFault::TooLong => "a map of holes longer than its file",
            MapFault::TooManyPieces => "a map of holes with more pieces than are read",
            MapFault::NoSize => "a file with holes that has no size",
            MapFault::UnknownForm { major, minor } => {
                return write!(f, "a map of holes of an unknown form {major}.{minor}");
            }
        };
        f.write_str(what)
    }
}
