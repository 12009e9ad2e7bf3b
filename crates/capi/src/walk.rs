//! A directory or a tree, entry after entry.
//!
//! *Locking*: one lock for the walk and for the path that it gave last: a second thread waits.
use crate::failure::{Failure, Result};
use crate::handle::{self, Handle, handles, on};
use crate::pointer;
use crate::structs::Stat;
use crate::volume::{Volume, fill};
use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// A walk over a directory or a tree. It keeps the image in use until it ends.
pub struct Walk {
    handle: Handle<Mutex<Steps>>,
}
handles!(Walk: Mutex<Steps>);

/// Where a walk is.
pub struct Steps {
    walk: extant::Walk,
    /// The path that was given last, which the caller looks at.
    path: CString,
}

unsafe fn begin(
    volume: *const Volume,
    path: *const c_char,
    walk: *mut *mut Walk,
    how: impl FnOnce(&extant::Volume, &Path) -> extant::Result<extant::Walk>,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::begin_on(volume, walk, |opened| {
            let walk = how(opened.volume(), pointer::path(path, "path")?)?;
            Ok(Mutex::new(Steps { walk, path: CString::default() }))
        })
    }
}

/// What is in a directory, by name. Symlinks on the way and at the end are followed. The handle
/// ends with extant_walk_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_list(
    volume: *const Volume,
    path: *const c_char,
    walk: *mut *mut Walk,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { begin(volume, path, walk, |volume, path| volume.read_dir(path)) }
}

/// A path and all that is below it: a directory before what is in it. Symlinks that are met are not
/// followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_walk_tree(
    volume: *const Volume,
    path: *const c_char,
    walk: *mut *mut Walk,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { begin(volume, path, walk, |volume, path| volume.walk(path)) }
}

/// Goes to the next entry: its path, as it begins at what the walk was asked for, and what lstat
/// tells of it. `path` gets NULL at the end, which is no failure; `metadata` may be NULL. What
/// cannot be read is a failure in its place, and the next call goes on after it. The string is the
/// walk's own, and there until the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_walk_next(
    walk: *const Walk,
    path: *mut *const c_char,
    metadata: *mut Stat,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(walk, |steps| {
            let place = pointer::place(path, "path")?;
            pointer::put(place, ptr::null());
            if !metadata.is_null() {
                // Before a step that would be lost.
                crate::sized::room(metadata)?;
            }
            let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = steps.walk.next() else { return Ok(()) };
            let entry = entry?;
            if !metadata.is_null() {
                fill(metadata, &entry.metadata)?;
            }
            steps.path = string(entry.path)?;
            pointer::put(place, steps.path.as_ptr());
            Ok(())
        })
    }
}

fn string(path: std::path::PathBuf) -> Result<CString> {
    CString::new(path.into_os_string().into_vec()).map_err(|error| {
        let name = String::from_utf8_lossy(&error.into_vec()).escape_debug().to_string();
        Failure {
            // EUCLEAN.
            errno: 117,
            kind: crate::failure::EXTANT_KIND_DAMAGED,
            words: format!("{name}: a name with a NUL in it"),
        }
    })
}

/// The number of the last call on this walk that failed, 0 if none did; see extant_error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_walk_error(
    walk: *const Walk,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { handle::failure_of(walk, buffer, size) }
}

/// Ends a walk. NULL is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_walk_close(walk: *mut Walk) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::end(walk, |steps| {
            drop(steps);
            Ok(())
        })
    }
}
