//! Numbers of operations and flags, as in `linux/fuse.h`.

/// Operations.
#[allow(missing_docs)]
pub mod operation {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GET_ATTRIBUTES: u32 = 3;
    pub const SET_ATTRIBUTES: u32 = 4;
    pub const READ_LINK: u32 = 5;
    pub const SYMBOLIC_LINK: u32 = 6;
    pub const MAKE_NODE: u32 = 8;
    pub const MAKE_DIRECTORY: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const REMOVE_DIRECTORY: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STAT_FS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const SYNC: u32 = 20;
    pub const SET_XATTR: u32 = 21;
    pub const GET_XATTR: u32 = 22;
    pub const LIST_XATTR: u32 = 23;
    pub const REMOVE_XATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPEN_DIRECTORY: u32 = 27;
    pub const READ_DIRECTORY: u32 = 28;
    pub const RELEASE_DIRECTORY: u32 = 29;
    pub const SYNC_DIRECTORY: u32 = 30;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const BATCH_FORGET: u32 = 42;
    pub const ALLOCATE: u32 = 43;
    pub const READ_DIRECTORY_PLUS: u32 = 44;
    pub const RENAME_WITH_FLAGS: u32 = 45;
    pub const SEEK: u32 = 46;
    pub const COPY_RANGE: u32 = 47;
    pub const SYNC_FILE_SYSTEM: u32 = 50;
    pub const TEMPORARY_FILE: u32 = 51;
    pub const COPY_RANGE_64: u32 = 53;
}

/// What the two sides agree on in the first message. The upper half travels in a field of its own.
#[allow(missing_docs)]
pub mod init {
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const ATOMIC_TRUNCATE: u64 = 1 << 3;
    pub const EXPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const IOCTL_OF_DIRECTORIES: u64 = 1 << 11;
    pub const READ_DIRECTORY_PLUS: u64 = 1 << 13;
    pub const READ_DIRECTORY_PLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIRECT_IO: u64 = 1 << 15;
    pub const WRITE_BACK_CACHE: u64 = 1 << 16;
    pub const NO_OPEN: u64 = 1 << 17;
    pub const PARALLEL_DIRECTORIES: u64 = 1 << 18;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const ABORT_ERROR: u64 = 1 << 21;
    pub const PAGES_MAX: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const EXPLICIT_INVALIDATE_DATA: u64 = 1 << 25;
    pub const KILL_PRIVILEGES: u64 = 1 << 28;
    pub const SET_XATTR_MORE: u64 = 1 << 29;
    pub const MORE_FLAGS: u64 = 1 << 30;
    pub const DIRECT_IO_MAY_MAP: u64 = 1 << 36;
}

/// Fields of [`SetAttributes`](super::wire::SetAttributes).
#[allow(missing_docs)]
pub mod set {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ACCESS_TIME: u32 = 1 << 4;
    pub const MODIFY_TIME: u32 = 1 << 5;
    pub const HANDLE: u32 = 1 << 6;
    pub const ACCESS_NOW: u32 = 1 << 7;
    pub const MODIFY_NOW: u32 = 1 << 8;
    pub const LOCK_OWNER: u32 = 1 << 9;
    pub const CHANGE_TIME: u32 = 1 << 10;
    pub const KILL_PRIVILEGES: u32 = 1 << 11;
}

/// What an answer to an open says of the file.
#[allow(missing_docs)]
pub mod opened {
    pub const DIRECT_IO: u32 = 1 << 0;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const CACHE_DIRECTORY: u32 = 1 << 3;
    pub const STREAM: u32 = 1 << 4;
    pub const NO_FLUSH: u32 = 1 << 5;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Flags of single operations.
#[allow(missing_docs)]
pub mod of {
    /// Attributes of an open file: the handle is valid.
    pub const GET_ATTRIBUTES_HANDLE: u32 = 1;
    /// A write from the page cache, by a handle that is guessed.
    pub const WRITE_CACHE: u32 = 1;
    /// A write that takes set-user-ID and set-group-ID away.
    pub const WRITE_KILL_PRIVILEGES: u32 = 4;
    /// An open with truncation that takes them away.
    pub const OPEN_KILL_PRIVILEGES: u32 = 1;
    /// Only the data need be durable.
    pub const SYNC_DATA: u32 = 1;
    /// `renameat2`: fail if the target exists.
    pub const RENAME_KEEP_TARGET: u32 = 1;
    /// `renameat2`: the two change places.
    pub const RENAME_EXCHANGE: u32 = 2;
    /// `renameat2`: leave a whiteout.
    pub const RENAME_WHITEOUT: u32 = 4;
}

/// Messages that the server sends on its own.
#[allow(missing_docs)]
pub mod notice {
    pub const INVALIDATE_INODE: i32 = 2;
    pub const PRUNE: i32 = 9;
}
