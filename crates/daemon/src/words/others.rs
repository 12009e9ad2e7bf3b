//! The words that others have, and that do nothing here.

/// Words, and what is said of them.
pub(super) type Row = (&'static [&'static str], &'static str);

/// Words that are taken without a word: other programs read them, or what they ask for is so.
pub(super) static SILENT: &[Row] = &[
    (&["defaults", "auto", "noauto", "nofail", "comment"], "of fstab, for mount -a and systemd"),
    (&["user", "nouser", "users", "owner", "group"], "mount(8) has judged who may mount"),
    (&["_netdev", "loop", "helper", "uhelper", "subtype", "blkdev"], "mount(8) has done it"),
    (&["loud", "silent", "nodebug"], "of messages of the kernel; there are none here"),
    (&["atime", "norelatime", "nostrictatime"], "relatime, as by default"),
    (&["nolazytime"], "times are kept with each commit"),
    (&["acl", "user_xattr", "bsddf", "noquota", "nogrpid", "sysvgroups"], "it is so"),
    (&["nomand", "noiversion"], "no kernel does it any more"),
    (&["delalloc", "dioread_lock", "block_validity", "noinit_itable"], "it is so"),
    (&["auto_da_alloc"], "a commit writes the data that its names lead to first"),
    (&["nocheck", "check"], "nothing is checked; extant check does that"),
    (&["big_writes", "norellinks"], "it is so"),
];

/// Words that are taken, and named in a note: what they ask for is not done, and nothing is lost.
pub(super) static NOTED: &[Row] = &[
    (&["lazytime"], "times are kept with each commit, which is more"),
    (&["stripe"], "files are not aligned to stripes"),
    (&["inode_readahead_blks"], "as much of the inode table is read as its requests ask for"),
    (&["max_batch_time", "min_batch_time"], "an fsync takes others along that are waiting"),
    (&["journal_ioprio"], "the device's queue is the host's"),
    (&["journal_checksum", "nojournal_checksum"], "the volume's features say it"),
    (&["journal_async_commit"], "a commit waits for its blocks, which is more"),
    (&["init_itable"], "tables that mkfs left are made when they are needed"),
    (&["noauto_da_alloc"], "a commit writes the data that its names lead to first, which is more"),
    (&["noblock_validity", "dioread_nolock"], "of the kernel's way to do it"),
    (&["nombcache", "mb_optimize_scan"], "of the kernel's way to do it"),
    (&["prefetch_block_bitmaps", "no_prefetch_block_bitmaps"], "of the kernel's way to do it"),
    (&["i_version", "iversion"], "no kernel asks a FUSE server for it"),
    (&["debug"], "--timeline and --trace say what happens"),
    (&["sizelimit"], "the volume says how large it is"),
    (&["kernel_cache", "auto_cache", "noforget", "remember"], "the kernel keeps what is valid"),
    (&["entry_timeout", "negative_timeout"], "the kernel keeps names as long as they are valid"),
    (&["attr_timeout", "ac_attr_timeout"], "the kernel keeps attributes likewise"),
];

/// Words that are refused, with the reason.
pub(super) static REFUSED: &[Row] = &[
    (&["nobarrier"], "what an fsync promised has to be on the device"),
    (&["journal_dev"], "the number of a device; journal_path=PATH names it"),
    (&["sb"], "extract --force-read reads by a copy; e2fsck -b repairs with one"),
    (&["abort"], "a mount is ended by extant umount"),
    (&["minixdf"], "df shows the room that files can have"),
    (&["nouid32"], "users and groups have numbers of 32 bits"),
    (&["max_dir_size_kb"], "directories have the limits of the format"),
    (&["grpid", "bsdgroups"], "set-group-ID of a directory does it for what is in it: chmod g+s"),
    (&["noacl"], "access lists of the image count where permissions are checked"),
    (&["nouser_xattr"], "attributes of the image are shown; noxattr hides all of them"),
    (
        &["quota", "usrquota", "grpquota", "prjquota", "usrjquota", "grpjquota", "jqfmt"],
        "limits of quotas are not enforced",
    ),
    (&["dax"], "the data of a FUSE mount is in the page cache"),
    (&["mand"], "no kernel has mandatory locks any more"),
    (&["bind", "rbind", "move"], "mount --bind shows a folder of a mounted file system elsewhere"),
    (&["verity"], "the volume is not checked against dm-verity's hashes"),
    (&["allow_root"], "FUSE knows one user or all of them: allow_other, which checks permissions"),
    (&["auto_unmount"], "a mount whose server was killed is removed by extant umount DIR"),
    (&["direct_io"], "write_through hands each write over; programs open with O_DIRECT"),
    (&["rootmode", "fd", "user_id", "group_id", "blksize"], "the server says it to the kernel"),
    (&["setuid", "drop_privileges"], "mount.fuse3 does it; elsewhere: runuser -u USER"),
    (&["modules", "subdir", "rellinks"], "of libfuse's modules; mount --bind shows a folder"),
    (&["from_code", "to_code"], "of libfuse's modules; names are shown as they are"),
];

/// What is said of a word, if it is among these.
pub(super) fn found(rows: &[Row], name: &str) -> Option<&'static str> {
    let row = rows.iter().find(|(names, _)| names.contains(&name));
    row.map(|(_, said)| *said)
}
