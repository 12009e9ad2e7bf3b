//! Images from folders, archives and files of the program.
//!
//! *Locking*: one lock for all that a builder has: a second thread waits.
use crate::device;
use crate::failure::{Failure, Result};
use crate::handle::{self, Handle, handles, on};
use crate::pointer;
use crate::sized;
use crate::structs::{self, BuildOptions, Built, Device, NewFile, file_type, known, permissions};
use extant::{FileType, Profile};
use std::ffi::{c_char, c_int};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What goes into an image.
pub struct Builder {
    handle: Handle<Mutex<Parts>>,
}
handles!(Builder: Mutex<Parts>);

/// Files of the program are kept up to here, in bytes, before they go to a temporary file.
const PENDING_BYTES_MAX: usize = 16 << 20;

/// What was added so far.
pub struct Parts {
    /// `None` once it was built.
    builder: Option<extant::Builder>,
    /// Files of the program after the last source.
    pending: Vec<(PathBuf, extant::NewFile)>,
    pending_bytes: usize,
    warnings: Vec<String>,
}

impl Parts {
    /// Takes the builder, which the caller gives back.
    fn take(&mut self) -> Result<extant::Builder> {
        let used = || Failure::invalid("the builder has built already, or failed");
        self.builder.take().ok_or_else(used)
    }

    /// Makes a source of the files that wait.
    fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        let builder = self.take()?.files(|files| {
            pending.into_iter().try_for_each(|(path, file)| files.add(path, file))
        })?;
        self.builder = Some(builder);
        Ok(())
    }

    fn add(&mut self, path: &Path, file: extant::NewFile, bytes: usize) -> Result<()> {
        // Now, while the caller knows which file it is: the rest is found when it is built.
        if path.components().any(|part| part == Component::ParentDir) {
            let words = format!("{}: a path of a file that is built has no `..`", path.display());
            return Err(Failure::invalid(words));
        }
        self.builder = Some(self.take()?);
        self.pending.push((path.to_owned(), file));
        self.pending_bytes = self.pending_bytes.saturating_add(bytes);
        if self.pending_bytes > PENDING_BYTES_MAX { self.flush() } else { Ok(()) }
    }
}

/// A call on what a builder has.
unsafe fn parts(
    builder: *const Builder,
    body: impl FnOnce(&mut MutexGuard<'_, Parts>) -> Result<()>,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { on(builder, |held| body(&mut held.lock().unwrap_or_else(PoisonError::into_inner))) }
}

/// Of nothing yet. The handle ends with extant_builder_close, also after the image was built.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_builder_open(builder: *mut *mut Builder) -> c_int {
    let empty = || {
        let builder = Some(extant::Builder::new());
        Parts { builder, pending: Vec::new(), pending_bytes: 0, warnings: Vec::new() }
    };
    // SAFETY: the promise of the caller, as it is.
    unsafe { handle::begin(builder, || Ok(Mutex::new(empty()))) }
}

/// Ends a builder. NULL is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_builder_close(builder: *mut Builder) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::end(builder, |parts| {
            drop(parts);
            Ok(())
        })
    }
}

/// The number of the last call on this builder that failed, 0 if none did; see extant_error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_builder_error(
    builder: *const Builder,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { handle::failure_of(builder, buffer, size) }
}

/// Adds a folder, or a file with an archive (tar, cpio, a Debian package, compressed or not) or a
/// container image. It is read when the image is built; later sources lie over earlier ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_builder_source(
    builder: *const Builder,
    path: *const c_char,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        parts(builder, |parts| {
            let path = pointer::path(path, "path")?;
            parts.flush()?;
            parts.builder = Some(parts.take()?.source(path));
            Ok(())
        })
    }
}

/// Leaves out what a pattern matches, with all below it: one without "/" matches a name anywhere,
/// one with it a path from the root.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_builder_exclude(
    builder: *const Builder,
    pattern: *const c_char,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        parts(builder, |parts| {
            let pattern = pointer::words(pattern, "pattern")?;
            parts.builder = Some(parts.take()?.exclude(pattern));
            Ok(())
        })
    }
}

/// Adds a file that the program makes. Directories on the way that are missing are made; of two
/// files of one path the last counts. A path with `..`, or numbers that no device has, are EINVAL,
/// and nothing is added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_builder_add(
    builder: *const Builder,
    path: *const c_char,
    file: *const NewFile,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        parts(builder, |parts| {
            let path = pointer::path(path, "path")?;
            if file.is_null() {
                return Err(Failure::null("file"));
            }
            let given = sized::read(file)?;
            structs::unused(given.reserved, "extant_new_file")?;
            parts.add(path, new_file(&given)?, given.content_bytes)
        })
    }
}

/// A file of the program, as the crate has it.
unsafe fn new_file(given: &NewFile) -> Result<extant::NewFile> {
    let (major, minor) = (given.device_major, given.device_minor);
    let numbers = extant::DeviceNumbers { major, minor };
    if major >= 1 << 12 || minor >= 1 << 20 {
        let words = format!("device {major}:{minor}: numbers go up to 4095:1048575");
        return Err(Failure::invalid(words));
    }
    // SAFETY: the promise of the caller about what the struct points to.
    let file = unsafe {
        match file_type(given.mode)? {
            FileType::Regular if !given.target.is_null() => {
                // It has all else of the other name.
                let original = pointer::path(given.target, "target")?;
                return Ok(extant::NewFile::hard_link(original));
            }
            FileType::Regular => {
                let content = pointer::given(given.content.cast(), given.content_bytes, "content")?;
                extant::NewFile::file(content)
            }
            FileType::Directory => extant::NewFile::directory(),
            FileType::Symlink => extant::NewFile::symlink(pointer::path(given.target, "target")?),
            FileType::Fifo => extant::NewFile::fifo(),
            FileType::CharacterDevice => extant::NewFile::character_device(numbers),
            FileType::BlockDevice => extant::NewFile::block_device(numbers),
            FileType::Socket => return Err(Failure::invalid("sockets are not built")),
        }
    };
    let file = file.mode(permissions(given.mode)).owner(given.uid, given.gid);
    Ok(file.time(given.modify_time.time()?))
}

/// Builds into a file, which has its name only when it is whole, or on a block device. `options`
/// and `built` may be NULL. The builder is empty after that, and only its warnings are left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_build(
    builder: *const Builder,
    path: *const c_char,
    options: *const BuildOptions,
    built: *mut Built,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        let path = || pointer::path(path, "path");
        build(builder, options, built, |builder| Ok(builder.build(path()?)?))
    }
}

/// Builds behind functions of the program, from the first byte on. What is after the image stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_build_device(
    builder: *const Builder,
    device: *const Device,
    options: *const BuildOptions,
    built: *mut Built,
) -> c_int {
    let mut made = None;
    // Before all else, so that it is released whatever is wrong.
    let errno = handle::call(|| {
        // SAFETY: the promise of the caller, as it is.
        made = Some(unsafe { device::device(device) }?);
        Ok(())
    });
    let Some(device) = made else { return errno };
    // SAFETY: the promise of the caller, as it is.
    unsafe { build(builder, options, built, |builder| Ok(builder.build_device(device)?)) }
}

unsafe fn build(
    builder: *const Builder,
    options: *const BuildOptions,
    built: *mut Built,
    into: impl FnOnce(extant::Builder) -> Result<extant::Built>,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        parts(builder, |parts| {
            let room = if built.is_null() { None } else { Some(sized::room(built)?) };
            let given = sized::read(options)?;
            known(given.flags, ALL)?;
            structs::unused(given.reserved, "extant_build_options")?;
            parts.flush()?;
            let made = into(configured(parts.take()?, &given)?)?;
            if let Some(room) = room {
                room.fill(&filled(&made));
            }
            parts.warnings = made.warnings;
            Ok(())
        })
    }
}

/// All flags of a build.
const ALL: u32 =
    structs::EXTANT_REPLACE | structs::EXTANT_OWNER | structs::EXTANT_NEWEST | structs::EXTANT_UUID;

/// A builder with what the caller asks for.
unsafe fn configured(builder: extant::Builder, given: &BuildOptions) -> Result<extant::Builder> {
    let has = |flag: u32| given.flags & flag != 0;
    let mut builder = builder.replace(has(structs::EXTANT_REPLACE));
    builder = builder.profile(match given.profile {
        structs::EXTANT_EXT4 => Profile::Ext4,
        structs::EXTANT_EXT3 => Profile::Ext3,
        structs::EXTANT_EXT2 => Profile::Ext2,
        other => return Err(Failure::invalid(format!("profile {other} is unknown"))),
    });
    if given.block_size != 0 {
        builder = builder.block_size(given.block_size);
    }
    if given.size != 0 && given.free_bytes != 0 {
        return Err(Failure::invalid("size and free_bytes contradict each other"));
    }
    if given.size != 0 {
        builder = builder.size(given.size);
    }
    if given.free_bytes != 0 {
        builder = builder.free(given.free_bytes);
    }
    if has(structs::EXTANT_OWNER) {
        builder = builder.owner(given.uid, given.gid);
    }
    if has(structs::EXTANT_NEWEST) {
        builder = builder.newest(given.newest);
    }
    if has(structs::EXTANT_UUID) {
        builder = builder.uuid(given.uuid);
    }
    // SAFETY: the promise of the caller about what the struct points to.
    if let Some(label) = unsafe { pointer::optional_words(given.label, "label") }? {
        builder = builder.label(label);
    }
    Ok(builder)
}

/// What was built, in numbers.
pub(crate) fn filled(made: &extant::Built) -> Built {
    Built {
        struct_size: size_of::<Built>(),
        bytes: made.bytes,
        blocks: made.blocks,
        free_blocks: made.free_blocks,
        inodes: u64::from(made.inodes),
        free_inodes: u64::from(made.free_inodes),
        block_size: made.block_size,
        has_journal: u32::from(made.has_journal),
        warnings: made.warnings.len() as u64,
        uuid: made.uuid,
    }
}

/// What could not be kept, or may surprise, after an image was built: a line, cut to `size` bytes
/// with the NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_builder_warning(
    builder: *const Builder,
    index: usize,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        parts(builder, |parts| {
            let none = || Failure::invalid(format!("there is no warning {index}"));
            pointer::put_words(parts.warnings.get(index).ok_or_else(none)?, buffer, size);
            Ok(())
        })
    }
}
