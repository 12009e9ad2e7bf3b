//! A volume: opened, looked at, closed.
use crate::device;
use crate::failure::{Failure, Result};
use crate::handle::{self, Handle, handles, on};
use crate::pointer;
use crate::sized;
use crate::structs::{Device, EXTANT_CHANGE, OpenOptions, Space, Stat};
use extant::{Image, Metadata, Transaction};
use std::ffi::{OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An open volume, or changes of one.
pub struct Volume {
    handle: Handle<Opened>,
}
handles!(Volume: Opened);

/// What a volume of C is.
pub enum Opened {
    /// Read, or written as a mount does.
    Volume(extant::Volume),
    /// Changed: all or nothing.
    Change(Transaction),
}

impl Opened {
    /// The volume, as the changes have left it.
    pub fn volume(&self) -> &extant::Volume {
        match self {
            Opened::Volume(volume) => volume,
            Opened::Change(change) => change,
        }
    }
}

/// A call with a path in the volume.
pub(crate) unsafe fn at_path(
    volume: *const Volume,
    path: *const c_char,
    body: impl FnOnce(&extant::Volume, &Path) -> Result<()>,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(volume, |opened| {
            let path = pointer::path(path, "path")?;
            check_form(opened.volume(), path)?;
            body(opened.volume(), path)
        })
    }
}

/// What Linux asks of the form of a path: it is not empty, and only a directory has a `.`.
fn check_form(volume: &extant::Volume, path: &Path) -> Result<()> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(extant::Error::from(std::io::Error::from_raw_os_error(2)).into());
    }
    if let Some(before @ [.., b'/']) = bytes.strip_suffix(b".") {
        // What ends with a slash has to be a directory.
        volume.metadata(OsStr::from_bytes(before))?;
    }
    Ok(())
}

unsafe fn open(
    image: impl FnOnce() -> Result<Image>,
    options: *const OpenOptions,
    target: *mut *mut Volume,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::begin(target, || {
            // Before the options, so that a device is released whatever they are.
            let image = image()?;
            let given = sized::read(options)?;
            let options = given.options()?;
            Ok(match given.access {
                EXTANT_CHANGE => Opened::Change(options.begin(image)?),
                _ => Opened::Volume(options.open(image)?),
            })
        })
    }
}

/// Opens the volume in an image or on a block device of the host. `options` may be NULL. The handle
/// is stored in `volume`, or NULL where it fails; it ends with extant_close or extant_commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_open(
    path: *const c_char,
    options: *const OpenOptions,
    volume: *mut *mut Volume,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { open(|| Ok(Image::from(pointer::path(path, "path")?)), options, volume) }
}

/// The same behind functions of the program. The struct is copied; what it points to is used until
/// `release` is called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_open_device(
    device: *const Device,
    options: *const OpenOptions,
    volume: *mut *mut Volume,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { open(|| Ok(Image::device(device::device(device)?)), options, volume) }
}

/// Ends a volume: makes durable what was written, and leaves it clean. An error is one of the
/// writes: not all of them are in the image. Changes that were not committed are dropped. The
/// handle is gone whatever is returned; NULL is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_close(volume: *mut Volume) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::end(volume, |opened| match opened {
            Opened::Volume(volume) => Ok(volume.close()?),
            Opened::Change(change) => {
                drop(change);
                Ok(())
            }
        })
    }
}

/// Ends changes: all of them reach the image, or none. The handle is gone whatever is returned. A
/// volume that was not opened with EXTANT_CHANGE is EINVAL, and is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_commit(volume: *mut Volume) -> c_int {
    if volume.is_null() {
        return handle::call(|| Err(Failure::null("handle")));
    }
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::end(volume, |opened| match opened {
            Opened::Change(change) => Ok(change.commit()?),
            Opened::Volume(volume) => {
                volume.close()?;
                let words = "the volume was not opened with EXTANT_CHANGE: it was only closed";
                Err(Failure::invalid(words))
            }
        })
    }
}

/// The number of the last call on this volume that failed, 0 if none did; see extant_error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_volume_error(
    volume: *const Volume,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { handle::failure_of(volume, buffer, size) }
}

/// Makes durable all that was written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_sync(volume: *const Volume) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { on(volume, |opened| Ok(opened.volume().sync()?)) }
}

/// Makes durable what a path leads to, and all that was done before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_sync_path(volume: *const Volume, path: *const c_char) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { at_path(volume, path, |volume, path| Ok(volume.sync_path(path)?)) }
}

/// Used and free room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_statfs(volume: *const Volume, space: *mut Space) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(volume, |opened| {
            let room = sized::room(space)?;
            room.fill(&Space::from(opened.volume().space()));
            Ok(())
        })
    }
}

/// The volume's label, as UTF-8, cut to `size` bytes with the NUL, and the 16 bytes of its UUID;
/// either may be NULL. A label needs 17 bytes, 49 where it is no UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_identity(
    volume: *const Volume,
    label: *mut c_char,
    size: usize,
    uuid: *mut u8,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(volume, |opened| {
            pointer::put_words(&opened.volume().label(), label, size);
            pointer::put(uuid.cast::<[u8; 16]>(), opened.volume().uuid());
            Ok(())
        })
    }
}

/// How many lines extant_lost has: what EXTANT_FORCE_READ has passed over. 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_lost_count(volume: *const Volume) -> usize {
    let mut count = 0;
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(volume, |opened| {
            count = opened.volume().skipped().len();
            Ok(())
        });
    }
    count
}

/// A line about what was lost of a damaged volume, cut to `size` bytes with the NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_lost(
    volume: *const Volume,
    index: usize,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(volume, |opened| {
            let line = opened.volume().skipped().get(index);
            let none = || Failure::invalid(format!("there is no line {index}"));
            pointer::put_words(line.ok_or_else(none)?, buffer, size);
            Ok(())
        })
    }
}

/// What stat tells; symlinks are followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_stat(
    volume: *const Volume,
    path: *const c_char,
    metadata: *mut Stat,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { at_path(volume, path, |volume, path| fill(metadata, &volume.metadata(path)?)) }
}

/// What lstat tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_lstat(
    volume: *const Volume,
    path: *const c_char,
    metadata: *mut Stat,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { at_path(volume, path, |volume, path| fill(metadata, &volume.symlink_metadata(path)?)) }
}

/// Fills in what a caller knows of it.
pub(crate) unsafe fn fill(target: *mut Stat, metadata: &Metadata) -> Result<()> {
    // SAFETY: the promise of the caller about the struct.
    unsafe {
        let room = sized::room(target)?;
        room.fill(&Stat::from(metadata));
    }
    Ok(())
}

/// Reads from a file at an offset; `length` gets how many bytes: fewer than `size` only at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_read(
    volume: *const Volume,
    path: *const c_char,
    offset: u64,
    buffer: *mut std::ffi::c_void,
    size: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            let length = pointer::place(length, "length")?;
            let bytes = pointer::buffer(buffer.cast(), size, "buffer")?;
            pointer::put(length, volume.open_file(path)?.read_at(offset, bytes)?);
            Ok(())
        })
    }
}

/// The target of a symlink, without a NUL. `length` gets how long it is; ERANGE where the buffer is
/// smaller, but a size of 0 only asks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_readlink(
    volume: *const Volume,
    path: *const c_char,
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            let target = volume.read_link(path)?;
            pointer::put_bytes(target.as_os_str().as_bytes(), buffer.cast(), size, length)
        })
    }
}

/// The names of all extended attributes, each with a NUL after it. As for extant_readlink; symlinks
/// are not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_list_attributes(
    volume: *const Volume,
    path: *const c_char,
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            let mut names = Vec::new();
            for attribute in volume.attributes(path)? {
                names.extend_from_slice(&attribute.name);
                names.push(0);
            }
            pointer::put_bytes(&names, buffer.cast(), size, length)
        })
    }
}

/// The value of an extended attribute ("user.note"); access lists in the form of getxattr. As for
/// extant_readlink; symlinks are not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_get_attribute(
    volume: *const Volume,
    path: *const c_char,
    name: *const c_char,
    buffer: *mut std::ffi::c_void,
    size: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            let name = pointer::bytes(name, "name")?;
            let attributes = volume.attributes(path)?;
            let found = attributes.iter().find(|attribute| attribute.name == name);
            let none = || Failure {
                // ENODATA.
                errno: 61,
                kind: crate::failure::EXTANT_KIND_NOT_FOUND,
                words: format!("{}: no such attribute", path.display()),
            };
            pointer::put_bytes(&found.ok_or_else(none)?.value, buffer.cast(), size, length)
        })
    }
}
