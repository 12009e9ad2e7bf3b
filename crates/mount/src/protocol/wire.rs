//! The structures of the messages, laid out as in `linux/fuse.h`. Numbers are in the host's order.
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Defines structures of numbers without gaps, that are read from bytes and turned into bytes.
macro_rules! structures {
    ($($(#[$meta:meta])* $name:ident { $($(#[$note:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        #[allow(missing_docs)]
        pub struct $name { $($(#[$note])* pub $field: $type,)* }
    )*};
}

structures! {
    /// Begins each message of the kernel.
    RequestHeader {
        length: u32, operation: u32, unique: u64, node: u64, uid: u32, gid: u32, pid: u32,
        /// Bytes of extensions after the arguments, divided by eight.
        extension_words: u16, unused: u16,
    }
    /// Begins each answer. The error is 0 or a negative errno.
    ReplyHeader { length: u32, error: i32, unique: u64, }
    /// What `stat` shows of an inode. Blocks are of 512 bytes.
    Attributes {
        ino: u64, size: u64, blocks: u64,
        access_seconds: u64, modify_seconds: u64, change_seconds: u64,
        access_nanoseconds: u32, modify_nanoseconds: u32, change_nanoseconds: u32,
        mode: u32, links: u32, uid: u32, gid: u32, device: u32, block_size: u32, flags: u32,
    }
    /// An inode, and for how long the kernel may keep its name and its attributes.
    Entry {
        node: u64, generation: u64, entry_seconds: u64, attribute_seconds: u64,
        entry_nanoseconds: u32, attribute_nanoseconds: u32, attributes: Attributes,
    }
    /// Attributes, and for how long the kernel may keep them.
    AttributesReply {
        valid_seconds: u64, valid_nanoseconds: u32, unused: u32, attributes: Attributes,
    }
    Forget { lookups: u64, }
    BatchForget { count: u32, unused: u32, }
    ForgetOne { node: u64, lookups: u64, }
    GetAttributes { flags: u32, unused: u32, handle: u64, }
    SetAttributes {
        /// Which of the fields are to be set: flags of [`super::numbers::set`].
        valid: u32, unused: u32, handle: u64, size: u64, lock_owner: u64,
        access_seconds: u64, modify_seconds: u64, change_seconds: u64,
        access_nanoseconds: u32, modify_nanoseconds: u32, change_nanoseconds: u32,
        mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    MakeNode { mode: u32, device: u32, umask: u32, unused: u32, }
    MakeDirectory { mode: u32, umask: u32, }
    Rename { to: u64, }
    RenameWithFlags { to: u64, flags: u32, unused: u32, }
    Link { node: u64, }
    Open { flags: u32, open_flags: u32, }
    Create { flags: u32, mode: u32, umask: u32, open_flags: u32, }
    OpenReply {
        handle: u64, flags: u32,
        /// Number of a passthrough file; not used.
        backing: i32,
    }
    Release { handle: u64, flags: u32, release_flags: u32, lock_owner: u64, }
    Flush { handle: u64, unused: u32, unused2: u32, lock_owner: u64, }
    Read {
        handle: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32,
        unused: u32,
    }
    Write {
        handle: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32,
        unused: u32,
    }
    WriteReply { size: u32, unused: u32, }
    StatFsReply {
        blocks: u64, free_blocks: u64, available_blocks: u64, files: u64, free_files: u64,
        block_size: u32, name_length: u32, fragment_size: u32, unused: u32, spare: [u32; 6],
    }
    Sync { handle: u64, flags: u32, unused: u32, }
    /// Without the two fields that only FUSE_SETXATTR_EXT has.
    SetAttribute { size: u32, flags: u32, }
    GetAttribute { size: u32, unused: u32, }
    Access { mask: u32, unused: u32, }
    Init { major: u32, minor: u32, read_ahead_max: u32, flags: u32, }
    /// Follows [`Init`] from 7.36 on.
    InitMore { flags: u32, unused: [u32; 11], }
    InitReply {
        major: u32, minor: u32, read_ahead_max: u32, flags: u32,
        background_max: u16, congestion: u16, write_max: u32, time_granularity: u32,
        pages_max: u16, map_alignment: u16, flags_more: u32, stack_depth_max: u32,
        request_timeout: u16, unused: [u16; 11],
    }
    Interrupt { unique: u64, }
    Ioctl { handle: u64, flags: u32, command: u32, argument: u64, in_size: u32, out_size: u32, }
    IoctlReply { result: i32, flags: u32, in_vectors: u32, out_vectors: u32, }
    Allocate { handle: u64, offset: u64, length: u64, mode: u32, unused: u32, }
    DirectoryEntry { ino: u64, next: u64, name_length: u32, file_type: u32, }
    Seek { handle: u64, offset: u64, whence: u32, unused: u32, }
    SeekReply { offset: u64, }
    CopyRange {
        from_handle: u64, from_offset: u64, to_node: u64, to_handle: u64, to_offset: u64,
        length: u64, flags: u64,
    }
    CopyRangeReply { copied: u64, }
    InvalidateInode { node: u64, offset: i64, length: i64, }
    /// With the number of one node after it.
    Prune { count: u32, unused: u32, spare: u64, node: u64, }
    InvalidateEntry { parent: u64, name_length: u32, flags: u32, }
}
