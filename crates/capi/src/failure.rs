//! What a call that failed says: a number, a kind, a line.
//!
//! *Locking*: the last failure of a thread is the thread's own.
use extant::ErrorKind;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_int;

/// Result of what is inside of a call.
pub type Result<T> = std::result::Result<T, Failure>;

/// No failure.
pub const EXTANT_KIND_NONE: u32 = 0;
/// No such file, directory, partition or attribute.
pub const EXTANT_KIND_NOT_FOUND: u32 = 1;
/// The name is there already.
pub const EXTANT_KIND_EXISTS: u32 = 2;
/// A part of the path, or the object, is no directory.
pub const EXTANT_KIND_NOT_DIRECTORY: u32 = 3;
/// The object is a directory.
pub const EXTANT_KIND_IS_DIRECTORY: u32 = 4;
/// The directory has names.
pub const EXTANT_KIND_NOT_EMPTY: u32 = 5;
/// The image is in use: mounted, or open elsewhere, and one of the two writes.
pub const EXTANT_KIND_IN_USE: u32 = 6;
/// The volume, the image or the device was opened for reading, or is closed.
pub const EXTANT_KIND_READ_ONLY: u32 = 7;
/// Not allowed on this object, or by the host.
pub const EXTANT_KIND_NOT_PERMITTED: u32 = 8;
/// No room for it.
pub const EXTANT_KIND_NO_SPACE: u32 = 9;
/// Larger than the format has room for.
pub const EXTANT_KIND_TOO_LARGE: u32 = 10;
/// Words, numbers, pointers or paths that make no sense.
pub const EXTANT_KIND_INVALID: u32 = 11;
/// The volume has a feature, or the image a form, with which this cannot be done.
pub const EXTANT_KIND_UNSUPPORTED: u32 = 12;
/// The bytes are no ext2, ext3 or ext4 volume.
pub const EXTANT_KIND_NOT_A_VOLUME: u32 = 13;
/// Something on the volume, in its journal or in an archive is damaged.
pub const EXTANT_KIND_DAMAGED: u32 = 14;
/// The volume is to be checked before it is written.
pub const EXTANT_KIND_NEEDS_CHECK: u32 = 15;
/// The device, or the host, failed.
pub const EXTANT_KIND_IO: u32 = 16;
/// The library itself failed: a fault of it that is to be reported.
pub const EXTANT_KIND_FAULT: u32 = 17;
/// The words say all.
pub const EXTANT_KIND_OTHER: u32 = 18;

/// `EINVAL` of Linux.
pub(crate) const INVALID: c_int = 22;
/// `ERANGE`: the caller's buffer is too small.
const RANGE: c_int = 34;
/// `E2BIG`: a struct asks for what this version does not know.
const TOO_BIG: c_int = 7;
/// `ENOTRECOVERABLE`: the library failed in this handle.
const NOT_RECOVERABLE: c_int = 131;

/// A failure, on its way to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The number of Linux.
    pub errno: c_int,
    /// One of `EXTANT_KIND_..`.
    pub kind: u32,
    /// One line.
    pub words: String,
}

impl Failure {
    /// The caller's words, numbers or pointers make no sense.
    pub fn invalid(words: impl Into<String>) -> Failure {
        Failure { errno: INVALID, kind: EXTANT_KIND_INVALID, words: words.into() }
    }

    /// A pointer is NULL that must not be.
    pub fn null(name: &str) -> Failure {
        Failure::invalid(format!("{name} is NULL"))
    }

    /// A buffer is smaller than what is to be in it.
    pub fn small(length: usize) -> Failure {
        let words = format!("the buffer is too small: {length} bytes are needed");
        Failure { errno: RANGE, ..Failure::invalid(words) }
    }

    /// A struct asks for what this version does not know.
    pub fn newer(name: &str) -> Failure {
        let words = format!("{name} has values that this version of the library does not know");
        Failure { errno: TOO_BIG, ..Failure::invalid(words) }
    }

    /// The library failed, now.
    pub fn panicked(panic: &(dyn Any + Send)) -> Failure {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let words = format!("a fault of the library: {}", said.unwrap_or("it says no more"));
        Failure { errno: NOT_RECOVERABLE, kind: EXTANT_KIND_FAULT, words }
    }

    /// The library failed in an earlier call on this handle.
    pub fn poisoned() -> Failure {
        let words = "an earlier call on this handle ended by a fault of the library";
        Failure { errno: NOT_RECOVERABLE, kind: EXTANT_KIND_FAULT, words: words.to_owned() }
    }
}

impl From<extant::Error> for Failure {
    fn from(error: extant::Error) -> Failure {
        let errno = match error.errno() {
            // A failure is never told as a success.
            number if number <= 0 => INVALID,
            number => number,
        };
        Failure { errno, kind: kind_of(error.kind()), words: error.to_string() }
    }
}

fn kind_of(kind: ErrorKind) -> u32 {
    match kind {
        ErrorKind::NotFound => EXTANT_KIND_NOT_FOUND,
        ErrorKind::Exists => EXTANT_KIND_EXISTS,
        ErrorKind::NotDirectory => EXTANT_KIND_NOT_DIRECTORY,
        ErrorKind::IsDirectory => EXTANT_KIND_IS_DIRECTORY,
        ErrorKind::NotEmpty => EXTANT_KIND_NOT_EMPTY,
        ErrorKind::InUse => EXTANT_KIND_IN_USE,
        ErrorKind::ReadOnly => EXTANT_KIND_READ_ONLY,
        ErrorKind::NotPermitted => EXTANT_KIND_NOT_PERMITTED,
        ErrorKind::NoSpace => EXTANT_KIND_NO_SPACE,
        ErrorKind::TooLarge => EXTANT_KIND_TOO_LARGE,
        ErrorKind::InvalidInput => EXTANT_KIND_INVALID,
        ErrorKind::Unsupported => EXTANT_KIND_UNSUPPORTED,
        ErrorKind::NotAVolume => EXTANT_KIND_NOT_A_VOLUME,
        ErrorKind::Damaged => EXTANT_KIND_DAMAGED,
        ErrorKind::NeedsCheck => EXTANT_KIND_NEEDS_CHECK,
        ErrorKind::Io => EXTANT_KIND_IO,
        _ => EXTANT_KIND_OTHER,
    }
}

thread_local! {
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

/// Keeps a failure for this thread, and returns its number.
pub fn keep(failure: Failure) -> c_int {
    let errno = failure.errno;
    // A thread that ends has nobody left to ask.
    let _ = LAST.try_with(|last| last.replace(Some(failure)));
    errno
}

/// The last failure of this thread.
pub fn last() -> Option<Failure> {
    LAST.try_with(|last| last.borrow().clone()).unwrap_or(None)
}
