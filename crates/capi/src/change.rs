//! What changes a volume. Each call is whole or did nothing, but for those that say otherwise; in a
//! volume that was opened with `EXTANT_CHANGE`, nothing reaches the image before `extant_commit`.
use crate::failure::{EXTANT_KIND_NOT_DIRECTORY, Failure};
use crate::pointer;
use crate::structs::{Time, file_type, permissions};
use crate::volume::{Volume, at_path};
use std::ffi::{OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Makes a file (root's, 0644), or cuts one that is there to nothing, and writes its content. It
/// may be half done where it fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_write(
    volume: *const Volume,
    path: *const c_char,
    content: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            let content = pointer::given(content.cast(), length, "content")?;
            Ok(volume.write(path, content)?)
        })
    }
}

/// Makes a directory: root's, with the mode 0755.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_mkdir(volume: *const Volume, path: *const c_char) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { at_path(volume, path, |volume, path| Ok(volume.create_dir(path)?)) }
}

/// Makes a directory and those on the way that are missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_mkdir_all(volume: *const Volume, path: *const c_char) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { at_path(volume, path, |volume, path| Ok(volume.create_dir_all(path)?)) }
}

/// Makes a symlink at `path`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_symlink(
    volume: *const Volume,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            Ok(volume.symlink(pointer::path(target, "target")?, path)?)
        })
    }
}

/// Makes a FIFO, a socket or a device, by the type in `mode`; the numbers are a device's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_mknod(
    volume: *const Volume,
    path: *const c_char,
    mode: u32,
    device_major: u32,
    device_minor: u32,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            let numbers = extant::DeviceNumbers { major: device_major, minor: device_minor };
            let file_type = match file_type(mode)? {
                extant::FileType::Regular => {
                    return Err(Failure::invalid("extant_write makes regular files"));
                }
                file_type => file_type,
            };
            Ok(volume.make_node(path, file_type, permissions(mode), numbers)?)
        })
    }
}

/// Gives an object another name. Symlinks are not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_link(
    volume: *const Volume,
    original: *const c_char,
    path: *const c_char,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            Ok(volume.hard_link(pointer::path(original, "original")?, path)?)
        })
    }
}

/// Moves a name, and replaces what has the new one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_rename(
    volume: *const Volume,
    path: *const c_char,
    renamed: *const c_char,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            Ok(volume.rename(path, pointer::path(renamed, "renamed")?)?)
        })
    }
}

/// Removes a name of anything but a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_unlink(volume: *const Volume, path: *const c_char) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            let bytes = path.as_os_str().as_bytes();
            if bytes.ends_with(b"/") {
                let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1);
                let named = Path::new(OsStr::from_bytes(bytes.get(..end).unwrap_or(b"/")));
                if volume.symlink_metadata(named)?.mode & 0o170_000 != 0o040_000 {
                    let words = format!("{}: it is no directory", path.display());
                    return Err(Failure { errno: 20, kind: EXTANT_KIND_NOT_DIRECTORY, words });
                }
            }
            Ok(volume.remove_file(path)?)
        })
    }
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_rmdir(volume: *const Volume, path: *const c_char) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { at_path(volume, path, |volume, path| Ok(volume.remove_dir(path)?)) }
}

/// Removes a name, and of a directory all that is in it. It may be half done where it fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_remove_all(volume: *const Volume, path: *const c_char) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { at_path(volume, path, |volume, path| Ok(volume.remove_all(path)?)) }
}

/// Gives the twelve lower bits of the mode. Symlinks are not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_chmod(
    volume: *const Volume,
    path: *const c_char,
    mode: u32,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { at_path(volume, path, |volume, path| Ok(volume.set_mode(path, permissions(mode))?)) }
}

/// Gives an owner and a group. Symlinks are not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_chown(
    volume: *const Volume,
    path: *const c_char,
    uid: u32,
    gid: u32,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { at_path(volume, path, |volume, path| Ok(volume.set_owner(path, uid, gid)?)) }
}

/// Says when the content changed. Symlinks are not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_set_modify_time(
    volume: *const Volume,
    path: *const c_char,
    time: Time,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { at_path(volume, path, |volume, path| Ok(volume.set_modify_time(path, time.time()?)?)) }
}

/// Sets an extended attribute ("user.note"); the value is stored as it is. Symlinks are not
/// followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_set_attribute(
    volume: *const Volume,
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            let name = pointer::bytes(name, "name")?;
            let value = pointer::given(value.cast(), length, "value")?;
            Ok(volume.set_attribute(path, name, value)?)
        })
    }
}

/// Removes an extended attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_remove_attribute(
    volume: *const Volume,
    path: *const c_char,
    name: *const c_char,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        at_path(volume, path, |volume, path| {
            Ok(volume.remove_attribute(path, pointer::bytes(name, "name")?)?)
        })
    }
}
