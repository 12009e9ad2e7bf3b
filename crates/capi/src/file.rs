//! An open file of a volume.
use crate::failure::Result;
use crate::handle::{self, Handle, Handled, handles, on};
use crate::pointer;
use crate::structs::Stat;
use crate::volume::{Volume, fill};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

/// An open file. It keeps the image in use until it is closed, also after its volume was; but it is
/// written only before that.
pub struct File {
    handle: Handle<extant::File>,
}
handles!(File: extant::File);

unsafe fn open(
    volume: *const Volume,
    path: *const c_char,
    file: *mut *mut File,
    how: impl FnOnce(&extant::Volume, &Path) -> extant::Result<extant::File>,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::begin_on(volume, file, |opened| {
            Ok(how(opened.volume(), pointer::path(path, "path")?)?)
        })
    }
}

/// Opens a file, for writing too where the volume is written. The handle ends with
/// extant_file_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_file_open(
    volume: *const Volume,
    path: *const c_char,
    file: *mut *mut File,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { open(volume, path, file, |volume, path| volume.open_file(path)) }
}

/// Makes a file (root's, 0644), or cuts one that is there to nothing, and opens it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_file_create(
    volume: *const Volume,
    path: *const c_char,
    file: *mut *mut File,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { open(volume, path, file, |volume, path| volume.create_file(path)) }
}

/// Closes a file. Nothing becomes durable by that: see extant_file_sync. NULL is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_file_close(file: *mut File) -> c_int {
    let close = |file: <File as Handled>::Value| -> Result<()> {
        drop(file);
        Ok(())
    };
    // SAFETY: the promise of the caller, as it is.
    unsafe { handle::end(file, close) }
}

/// The number of the last call on this file that failed, 0 if none did; see extant_error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_file_error(
    file: *const File,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { handle::failure_of(file, buffer, size) }
}

/// What fstat tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_file_stat(file: *const File, metadata: *mut Stat) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { on(file, |file| fill(metadata, &file.metadata()?)) }
}

/// Reads at an offset; `length` gets how many bytes: fewer than `size` only at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_file_read(
    file: *const File,
    offset: u64,
    buffer: *mut c_void,
    size: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(file, |file| {
            let length = pointer::place(length, "length")?;
            let bytes = pointer::buffer(buffer.cast(), size, "buffer")?;
            pointer::put(length, file.read_at(offset, bytes)?);
            Ok(())
        })
    }
}

/// Writes all of it at an offset; what is between the end and the offset is a hole. A part of it
/// may be written where it fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_file_write(
    file: *const File,
    offset: u64,
    content: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(file, |file| {
            let content = pointer::given(content.cast(), length, "content")?;
            Ok(file.write_all_at(offset, content)?)
        })
    }
}

/// Sets the size in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_file_truncate(file: *const File, bytes: u64) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { on(file, |file| Ok(file.set_len(bytes)?)) }
}

/// Makes what was written durable, and all that was done before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_file_sync(file: *const File) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { on(file, |file| Ok(file.sync()?)) }
}
