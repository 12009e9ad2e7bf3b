//! What both sides fill in. Fields are only ever added at the end, and no version ends inside of
//! one; so that no byte between fields is looked at, there is none.
use crate::failure::{Failure, Result};
use crate::pointer;
use crate::sized::Versioned;
use extant::{FileType, Metadata, Statfs};
use std::ffi::{c_char, c_int, c_void};

/// Read only: writes nothing, not even a time; a journal that waits is replayed in memory.
pub const EXTANT_READ: u32 = 0;
/// Written as a mount does.
pub const EXTANT_WRITE: u32 = 1;
/// Changed: extant_commit brings all changes to the image, or none.
pub const EXTANT_CHANGE: u32 = 2;

/// Write a volume that is marked as having errors. That may damage it more.
pub const EXTANT_DESPITE_ERRORS: u32 = 1;
/// Read over damage. Not with EXTANT_WRITE and EXTANT_CHANGE.
pub const EXTANT_FORCE_READ: u32 = 2;
/// It is always the second of `time`.
pub const EXTANT_FIXED_TIME: u32 = 4;

/// How a volume is opened. Zeros, and NULL in place of it, are what is most often meant.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct OpenOptions {
    /// The size of this struct.
    pub struct_size: usize,
    /// EXTANT_READ, EXTANT_WRITE or EXTANT_CHANGE.
    pub access: u32,
    /// EXTANT_DESPITE_ERRORS, EXTANT_FORCE_READ, EXTANT_FIXED_TIME.
    pub flags: u32,
    /// The partition of this number, name or identifier. NULL: all of the image, or its only
    /// volume.
    pub partition: *const c_char,
    /// The device of a journal that is on another one. NULL: there is none.
    pub journal: *const c_char,
    /// Where files go and what is durable before what (docs/POLICIES.md). NULL: "modern".
    pub policies: *const c_char,
    /// The volume's first byte in the image, where range_bytes is not 0.
    pub range_start: u64,
    /// The volume's length in bytes; 0: not said.
    pub range_bytes: u64,
    /// Memory for blocks in bytes; 0: 32 MiB.
    pub cache_bytes: u64,
    /// Seconds since 1970, with EXTANT_FIXED_TIME.
    pub time: i64,
}

/// An image behind functions of the program. They return 0 or a number of errno.h, are called from
/// several threads at the same time, and must not call into the library for the same volume.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Device {
    /// The size of this struct.
    pub struct_size: usize,
    /// What the functions get first.
    pub context: *mut c_void,
    /// The length in bytes, which stays as it is.
    pub size: Option<unsafe extern "C" fn(context: *mut c_void) -> u64>,
    /// Fills all of `bytes`, never past the end.
    pub read_at: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            offset: u64,
            bytes: *mut c_void,
            length: usize,
        ) -> c_int,
    >,
    /// Stores all of `bytes`, never past the end. NULL: it is only read.
    pub write_at: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            offset: u64,
            bytes: *const c_void,
            length: usize,
        ) -> c_int,
    >,
    /// Makes durable what was stored. NULL: there is nothing to do.
    pub flush: Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>,
    /// Called once when nothing uses the device any more, also where the call fails that it was
    /// given to; not where struct_size is wrong. NULL: there is nothing to do.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

/// A point in time.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// 0 to 999999999.
    pub nanoseconds: u32,
    /// 0.
    pub reserved: u32,
}

/// What stat tells.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Stat {
    /// The size of this struct.
    pub struct_size: usize,
    /// Number of the inode.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// What it occupies, in units of 512 bytes.
    pub sectors: u64,
    /// Type and permissions, as in st_mode.
    pub mode: u32,
    /// How many names it has.
    pub links: u32,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Of a device, else 0.
    pub device_major: u32,
    /// Of a device, else 0.
    pub device_minor: u32,
    /// Inode flags, as lsattr shows them.
    pub flags: u32,
    /// Distinguishes it from earlier inodes of its number.
    pub generation: u32,
    /// When it was last read.
    pub access_time: Time,
    /// When its inode last changed.
    pub change_time: Time,
    /// When its content last changed.
    pub modify_time: Time,
    /// When it was made; 0 where the inode has no room for that.
    pub create_time: Time,
}

/// Used and free room of a volume.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Space {
    /// The size of this struct.
    pub struct_size: usize,
    /// Blocks.
    pub blocks: u64,
    /// Free ones.
    pub free_blocks: u64,
    /// Free ones that others than root can have.
    pub available_blocks: u64,
    /// Inodes.
    pub inodes: u64,
    /// Free ones.
    pub free_inodes: u64,
    /// Bytes of a block.
    pub block_size: u64,
}

/// A file that the program makes for an image.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct NewFile {
    /// The size of this struct.
    pub struct_size: usize,
    /// Type and permissions, as in st_mode: S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO, S_IFCHR, S_IFBLK.
    pub mode: u32,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Of a device.
    pub device_major: u32,
    /// Of a device.
    pub device_minor: u32,
    /// 0.
    pub reserved: u32,
    /// When its content last changed.
    pub modify_time: Time,
    /// What is in a regular file, which is copied.
    pub content: *const c_void,
    /// How many bytes that are.
    pub content_bytes: usize,
    /// The target of a symlink; of a regular file, another path in the image that it is a second
    /// name of, or NULL.
    pub target: *const c_char,
}

/// ext4.
pub const EXTANT_EXT4: u32 = 0;
/// ext3.
pub const EXTANT_EXT3: u32 = 3;
/// ext2.
pub const EXTANT_EXT2: u32 = 2;

/// Replace an image that is there, and write over a block device.
pub const EXTANT_REPLACE: u32 = 1;
/// All files belong to `uid` and `gid`.
pub const EXTANT_OWNER: u32 = 2;
/// No time is later than `newest`.
pub const EXTANT_NEWEST: u32 = 4;
/// The volume's UUID is `uuid`, and does not follow from the content.
pub const EXTANT_UUID: u32 = 8;

/// What an image is like. Zeros, and NULL in place of it, are ext4, as large as it has to be.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct BuildOptions {
    /// The size of this struct.
    pub struct_size: usize,
    /// EXTANT_EXT4, EXTANT_EXT3 or EXTANT_EXT2.
    pub profile: u32,
    /// EXTANT_REPLACE, EXTANT_OWNER, EXTANT_NEWEST, EXTANT_UUID.
    pub flags: u32,
    /// Bytes of a block: 1024 to 65536; 0: 4096.
    pub block_size: u32,
    /// With EXTANT_OWNER.
    pub uid: u32,
    /// With EXTANT_OWNER.
    pub gid: u32,
    /// 0.
    pub reserved: u32,
    /// Room besides the content, in bytes.
    pub free_bytes: u64,
    /// The image's length in bytes; 0: what it needs.
    pub size: u64,
    /// Seconds since 1970, with EXTANT_NEWEST.
    pub newest: i64,
    /// At most 16 bytes; NULL: none.
    pub label: *const c_char,
    /// With EXTANT_UUID.
    pub uuid: [u8; 16],
}

/// An image that was built.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Built {
    /// The size of this struct.
    pub struct_size: usize,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Those that are free.
    pub free_blocks: u64,
    /// Its inodes.
    pub inodes: u64,
    /// Those that are free.
    pub free_inodes: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// 1 where it has a journal, else 0.
    pub has_journal: u32,
    /// How many warnings extant_builder_warning has.
    pub warnings: u64,
    /// Its UUID.
    pub uuid: [u8; 16],
}

/// Nothing that harms a user of the volume.
pub const EXTANT_ADVICE: u32 = 0;
/// The volume is damaged.
pub const EXTANT_ERROR: u32 = 1;
/// The volume is damaged, and what depends on this cannot be judged.
pub const EXTANT_STOPPING: u32 = 2;
/// Nothing can be checked.
pub const EXTANT_FATAL: u32 = 3;

/// Something that is wrong with a volume.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Problem {
    /// The size of this struct.
    pub struct_size: usize,
    /// Its name in docs/CHECK.md, which never changes. The string is the handle's own.
    pub code: *const c_char,
    /// EXTANT_ADVICE, EXTANT_ERROR, EXTANT_STOPPING or EXTANT_FATAL.
    pub severity: u32,
    /// 0.
    pub reserved: u32,
    /// The inode that it is about, or 0.
    pub ino: u64,
    /// The block of the volume that it is about, or 0.
    pub block: u64,
}

/// All that loses no byte of a file, no name and no attribute.
pub const EXTANT_SCOPE_SAFE: u32 = 0;
/// What e2fsck mends with -p, and nothing if that is not all.
pub const EXTANT_SCOPE_PREEN: u32 = 1;
/// Everything; what is lost by it is said.
pub const EXTANT_SCOPE_ALL: u32 = 2;

/// Only say what would be mended: nothing is written.
pub const EXTANT_DRY_RUN: u32 = 1;
/// Keep nothing for extant_undo.
pub const EXTANT_NO_UNDO: u32 = 2;

/// How a volume is mended. Zeros, and NULL in place of it: what loses nothing, and can be undone.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RepairOptions {
    /// The size of this struct.
    pub struct_size: usize,
    /// EXTANT_SCOPE_SAFE, EXTANT_SCOPE_PREEN or EXTANT_SCOPE_ALL.
    pub scope: u32,
    /// EXTANT_DRY_RUN, EXTANT_NO_UNDO.
    pub flags: u32,
}

/// Check it in any case.
pub const EXTANT_CHECK_ALWAYS: u32 = 1;
/// Keep what was there before for extant_undo; where a damaged log is given up, it always is.
pub const EXTANT_KEEP_UNDO: u32 = 2;

/// How a volume is made ready for use. Zeros, and NULL in place of it: checked only where there is
/// a reason to doubt it, and nothing is kept.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct HealOptions {
    /// The size of this struct.
    pub struct_size: usize,
    /// EXTANT_CHECK_ALWAYS, EXTANT_KEEP_UNDO.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

/// It was clean: nothing was written.
pub const EXTANT_CLEAN: u32 = 0;
/// Its journal was replayed and its orphans were freed; it was not checked.
pub const EXTANT_RECOVERED: u32 = 1;
/// It was checked, and mended where that was needed and allowed.
pub const EXTANT_REPAIRED: u32 = 2;

/// What came of mending a volume.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Outcome {
    /// The size of this struct.
    pub struct_size: usize,
    /// EXTANT_CLEAN, EXTANT_RECOVERED or EXTANT_REPAIRED.
    pub state: u32,
    /// That of fsck: 0 where nothing was wrong, 1 where all is mended or a damaged log was given
    /// up, 4 where something is left.
    pub exit_code: u32,
    /// How many changes extant_mended_change has.
    pub changes: u64,
    /// How many more there are.
    pub omitted: u64,
    /// How many checks there were.
    pub rounds: u64,
    /// Blocks that were written: 0 with EXTANT_DRY_RUN, and where EXTANT_SCOPE_PREEN left
    /// something.
    pub blocks: u64,
}

/// `size` bytes at most: whole blocks, and no last group that is too small.
pub const EXTANT_SIZE_BYTES: u32 = 0;
/// The least size that it can have.
pub const EXTANT_SIZE_LEAST: u32 = 1;
/// As large as its partition, or what it is in.
pub const EXTANT_SIZE_MOST: u32 = 2;

/// The size that a volume is to have.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ResizeOptions {
    /// The size of this struct.
    pub struct_size: usize,
    /// EXTANT_SIZE_BYTES, EXTANT_SIZE_LEAST or EXTANT_SIZE_MOST.
    pub wanted: u32,
    /// EXTANT_DRY_RUN.
    pub flags: u32,
    /// With EXTANT_SIZE_BYTES.
    pub size: u64,
}

/// What came of giving a volume another size.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Resized {
    /// The size of this struct.
    pub struct_size: usize,
    /// Bytes of a block.
    pub block_size: u64,
    /// How many blocks it had.
    pub blocks_before: u64,
    /// How many it has, or would have.
    pub blocks_after: u64,
    /// Blocks of files that are at another place.
    pub blocks_moved: u64,
    /// Blocks that were written through the log: 0 with EXTANT_DRY_RUN.
    pub blocks: u64,
}

/// Clean blocks in use of what was deleted, too.
pub const EXTANT_SCRUB: u32 = 2;

/// What came of a trim.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Trimmed {
    /// The size of this struct.
    pub struct_size: usize,
    /// Bytes of a block.
    pub block_size: u64,
    /// How many blocks are free.
    pub free_blocks: u64,
    /// Blocks in use that nothing reads: 0 without EXTANT_SCRUB.
    pub unread_blocks: u64,
    /// Blocks in use that were cleaned, or would be, through the log.
    pub blocks: u64,
    /// Bytes of free and unread blocks that were no holes.
    pub emptied_bytes: u64,
}

/// The structs of C, and what messages call them.
macro_rules! versioned {
    ($($name:ident: $words:literal)+) => {
        $(
            // SAFETY: `repr(C)`, the size is first, and all else are numbers, pointers and optional
            // functions, which may be 0.
            unsafe impl Versioned for $name {
                const NAME: &'static str = $words;
            }
        )+
    };
}
versioned! {
    OpenOptions: "extant_open_options"
    Device: "extant_device"
    Stat: "extant_metadata"
    Space: "extant_space"
    NewFile: "extant_new_file"
    BuildOptions: "extant_build_options"
    Built: "extant_built"
    Problem: "extant_problem"
    RepairOptions: "extant_repair_options"
    HealOptions: "extant_heal_options"
    Outcome: "extant_outcome"
    ResizeOptions: "extant_resize_options"
    Resized: "extant_resized"
    Trimmed: "extant_trimmed"
}

impl OpenOptions {
    /// As the crate has them.
    ///
    /// # Errors
    /// Flags that are unknown; words that are no UTF-8.
    pub unsafe fn options(&self) -> Result<extant::Options> {
        known(self.flags, EXTANT_DESPITE_ERRORS | EXTANT_FORCE_READ | EXTANT_FIXED_TIME)?;
        if self.access > EXTANT_CHANGE {
            return Err(Failure::invalid(format!("access {} is unknown", self.access)));
        }
        let mut options = extant::Options::new()
            .write(self.access != EXTANT_READ)
            .despite_errors(self.flags & EXTANT_DESPITE_ERRORS != 0)
            .force_read(self.flags & EXTANT_FORCE_READ != 0);
        // SAFETY: strings of the caller, by the promise of every function.
        let (partition, policies) = unsafe {
            (
                pointer::optional_words(self.partition, "partition")?,
                pointer::optional_words(self.policies, "policies")?,
            )
        };
        if let Some(word) = partition {
            options = options.partition(word);
        }
        if let Some(words) = policies {
            options = options.policies(words);
        }
        if !self.journal.is_null() {
            // SAFETY: as above.
            options = options.journal(unsafe { pointer::path(self.journal, "journal") }?);
        }
        if self.range_bytes != 0 {
            let end = self.range_start.saturating_add(self.range_bytes);
            options = options.range(self.range_start..end);
        }
        if self.cache_bytes != 0 {
            options = options.cache_bytes(usize::try_from(self.cache_bytes).unwrap_or(usize::MAX));
        }
        if self.flags & EXTANT_FIXED_TIME != 0 {
            options = options.time(self.time);
        }
        Ok(options)
    }
}

impl RepairOptions {
    /// What may be mended.
    ///
    /// # Errors
    /// A scope that is unknown, or a flag.
    pub fn scope(&self) -> Result<extant::Scope> {
        known(self.flags, EXTANT_DRY_RUN | EXTANT_NO_UNDO)?;
        match self.scope {
            EXTANT_SCOPE_SAFE => Ok(extant::Scope::Safe),
            EXTANT_SCOPE_PREEN => Ok(extant::Scope::Preen),
            EXTANT_SCOPE_ALL => Ok(extant::Scope::All),
            scope => Err(Failure::invalid(format!("scope {scope} is unknown"))),
        }
    }
}

/// Whether all flags are known.
///
/// # Errors
/// One is not.
pub fn known(flags: u32, all: u32) -> Result<()> {
    match flags & !all {
        0 => Ok(()),
        unknown => Err(Failure::invalid(format!("flags {unknown:#x} are unknown"))),
    }
}

impl From<extant::Time> for Time {
    fn from(time: extant::Time) -> Time {
        Time { seconds: time.seconds, nanoseconds: time.nanoseconds, reserved: 0 }
    }
}

impl Time {
    /// As the crate has it.
    ///
    /// # Errors
    /// More nanoseconds than a second has; `reserved` is not 0.
    pub fn time(&self) -> Result<extant::Time> {
        unused(self.reserved, "extant_time")?;
        match self.nanoseconds {
            nanoseconds @ 0..1_000_000_000 => {
                Ok(extant::Time { seconds: self.seconds, nanoseconds })
            }
            more => Err(Failure::invalid(format!("{more} nanoseconds are more than a second"))),
        }
    }
}

impl From<&Metadata> for Stat {
    fn from(metadata: &Metadata) -> Stat {
        let device = metadata.device.unwrap_or(extant::DeviceNumbers { major: 0, minor: 0 });
        Stat {
            struct_size: size_of::<Stat>(),
            ino: u64::from(metadata.ino.0),
            size: metadata.size,
            sectors: metadata.sectors,
            mode: u32::from(metadata.mode),
            links: u32::from(metadata.links),
            uid: metadata.uid,
            gid: metadata.gid,
            device_major: device.major,
            device_minor: device.minor,
            flags: metadata.flags,
            generation: metadata.generation,
            access_time: metadata.access_time.into(),
            change_time: metadata.change_time.into(),
            modify_time: metadata.modify_time.into(),
            create_time: metadata.create_time.unwrap_or_default().into(),
        }
    }
}

impl From<Statfs> for Space {
    fn from(space: Statfs) -> Space {
        Space {
            struct_size: size_of::<Space>(),
            blocks: space.blocks,
            free_blocks: space.free_blocks,
            available_blocks: space.available_blocks,
            inodes: u64::from(space.inodes),
            free_inodes: u64::from(space.free_inodes),
            block_size: u64::from(space.block_size),
        }
    }
}

/// What a later version may give a meaning is 0, so that no program has it otherwise by chance.
///
/// # Errors
/// It is not.
pub fn unused(reserved: u32, name: &str) -> Result<()> {
    if reserved == 0 { Ok(()) } else { Err(Failure::newer(name)) }
}

/// The type in a mode as stat has it.
///
/// # Errors
/// It is none.
pub fn file_type(mode: u32) -> Result<FileType> {
    let types = [
        FileType::Fifo,
        FileType::CharacterDevice,
        FileType::Directory,
        FileType::BlockDevice,
        FileType::Regular,
        FileType::Symlink,
        FileType::Socket,
    ];
    let found = types.into_iter().find(|one| u32::from(one.mode_bits()) == mode & !0o7777);
    found.ok_or_else(|| Failure::invalid(format!("mode {mode:#o} has no type of a file")))
}

/// The permissions in a mode as stat has it.
pub fn permissions(mode: u32) -> u16 {
    u16::try_from(mode & 0o7777).unwrap_or(0)
}
