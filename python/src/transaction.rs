//! What changes a volume, by name: one row a call of the Python side.
use crate::failure::os_error;
use crate::shared::{Shared, path};
use extant::{
    CopyOptions, DeviceNumbers, Difference, DifferenceKind, FileType, Here, Ignored, Kept, Time,
    Which,
};
use pyo3::BoundObject;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// Does one change, whose words are those of the row.
///
/// # Errors
/// The volume's; there is no such change.
pub fn change(
    py: Python<'_>,
    shared: &Shared,
    name: &str,
    words: &Bound<'_, PyTuple>,
) -> PyResult<Py<PyAny>> {
    let at = words.get_item(0)?.extract::<Vec<u8>>()?;
    let bytes = |number: usize| words.get_item(number)?.extract::<Vec<u8>>();
    let number = |number: usize| words.get_item(number)?.extract::<u32>();
    let at = path(&at);
    match name {
        "write" => {
            let content = words.get_item(1)?.extract::<pyo3::pybacked::PyBackedBytes>()?;
            shared.with_change(py, |volume| volume.write(at, &content[..]))
        }
        "mkdir" => shared.with_change(py, |volume| volume.create_dir(at)),
        "makedirs" => shared.with_change(py, |volume| volume.create_dir_all(at)),
        "symlink" => {
            let target = bytes(1)?;
            shared.with_change(py, |volume| volume.symlink(path(&target), at))
        }
        "link" => {
            let original = bytes(1)?;
            shared.with_change(py, |volume| volume.hard_link(path(&original), at))
        }
        "rename" => {
            let to = bytes(1)?;
            shared.with_change(py, |volume| volume.rename(at, path(&to)))
        }
        "unlink" => shared.with_change(py, |volume| volume.remove_file(at)),
        "rmdir" => shared.with_change(py, |volume| volume.remove_dir(at)),
        "remove" => shared.with_change(py, |volume| volume.remove_all(at)),
        "chmod" => {
            let mode = number(1)?;
            shared.with_change(py, |volume| volume.set_mode(at, (mode & 0o7777) as u16))
        }
        "chown" => {
            let (user, group) = (number(1)?, number(2)?);
            shared.with_change(py, |volume| volume.set_owner(at, user, group))
        }
        "utime" => {
            let time = time(words.get_item(1)?.extract()?);
            shared.with_change(py, |volume| volume.set_modify_time(at, time))
        }
        "set_xattr" => {
            let (name, value) = (bytes(1)?, bytes(2)?);
            shared.with_change(py, |volume| volume.set_attribute(at, &name, &value))
        }
        "remove_xattr" => {
            let name = bytes(1)?;
            shared.with_change(py, |volume| volume.remove_attribute(at, &name))
        }
        "mknod" => {
            let (mode, major, minor) = (number(1)?, number(2)?, number(3)?);
            let file_type = node_type(mode)?;
            let numbers = DeviceNumbers { major, minor };
            let mode = (mode & 0o7777) as u16;
            shared.with_change(py, |volume| volume.make_node(at, file_type, mode, numbers))
        }
        _ => Err(os_error(22, &format!("{name}: is no change"))),
    }?;
    Ok(py.None())
}

/// The type that a mode says.
fn node_type(mode: u32) -> PyResult<FileType> {
    match mode & 0o170_000 {
        0o010_000 => Ok(FileType::Fifo),
        0o020_000 => Ok(FileType::CharacterDevice),
        0o060_000 => Ok(FileType::BlockDevice),
        0o140_000 => Ok(FileType::Socket),
        _ => Err(os_error(22, "the mode says no FIFO, socket or device")),
    }
}

/// Nanoseconds since 1970 as a time of the volume.
pub fn time(nanoseconds: i128) -> Time {
    let second = 1_000_000_000;
    let seconds = nanoseconds.div_euclid(second);
    let seconds = i64::try_from(seconds).unwrap_or(if seconds < 0 { i64::MIN } else { i64::MAX });
    // Less than a second.
    let nanoseconds = u32::try_from(nanoseconds.rem_euclid(second)).unwrap_or(0);
    Time { seconds, nanoseconds }
}

/// How a copy is made.
// tidy: boolean because Python has no other word for it
pub fn copy_options(preserve: bool, owner: Option<(u32, u32)>, mode: Option<u16>) -> CopyOptions {
    let mut options = CopyOptions::new();
    options.kept = if preserve { Kept::All } else { Kept::Permissions };
    options.owner = owner;
    options.mode = mode;
    options
}

/// What is not compared.
///
/// # Errors
/// There is no such word.
pub fn ignored(word: &str) -> PyResult<Ignored> {
    match word {
        "times" => Ok(Ignored::Times),
        "directory-times" => Ok(Ignored::DirectoryTimes),
        "nanoseconds" => Ok(Ignored::Nanoseconds),
        "owner" => Ok(Ignored::Owner),
        "mode" => Ok(Ignored::Mode),
        "flags" => Ok(Ignored::Flags),
        "attributes" => Ok(Ignored::Attributes),
        "links" => Ok(Ignored::Links),
        "contents" => Ok(Ignored::Contents),
        _ => Err(os_error(22, &format!("ignore: {word:?} is none of what can be ignored"))),
    }
}

/// What both trees have, as objects.
type Pair = (Option<Py<PyAny>>, Option<Py<PyAny>>);

/// A difference: path, kind, name of an attribute, and both values.
///
/// # Errors
/// No memory.
pub fn difference<'py>(py: Python<'py>, difference: &Difference) -> PyResult<Bound<'py, PyTuple>> {
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).into_any().unbind();
    let optional = |value: &Option<Vec<u8>>| value.as_ref().map(|value| bytes(value));
    let kind = difference.change.word();
    let mut name = None;
    let pair: Pair = match &difference.change {
        DifferenceKind::Only(Which::A, file_type) => {
            (both(py, &Here { a: word(*file_type), b: "" })?.0, None)
        }
        DifferenceKind::Only(Which::B, file_type) => {
            (None, both(py, &Here { a: word(*file_type), b: "" })?.0)
        }
        DifferenceKind::Type(types) => both(py, &Here { a: word(types.a), b: word(types.b) })?,
        DifferenceKind::Mode(modes) => both(py, modes)?,
        DifferenceKind::Owner(owners) => both(py, owners)?,
        DifferenceKind::Flags(flags) => both(py, flags)?,
        DifferenceKind::Time(times) => {
            let nanoseconds = |time: Time| {
                i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
            };
            both(py, &Here { a: nanoseconds(times.a), b: nanoseconds(times.b) })?
        }
        DifferenceKind::Size(sizes) => both(py, sizes)?,
        DifferenceKind::Content(byte) => (both(py, &Here { a: *byte, b: 0 })?.0, None),
        DifferenceKind::Target(targets) => (Some(bytes(&targets.a)), Some(bytes(&targets.b))),
        DifferenceKind::Device(devices) => both(
            py,
            &Here { a: (devices.a.major, devices.a.minor), b: (devices.b.major, devices.b.minor) },
        )?,
        DifferenceKind::Attribute(attribute, values) => {
            name = Some(bytes(attribute));
            (optional(&values.a), optional(&values.b))
        }
        DifferenceKind::Links(firsts) => (optional(&firsts.a), optional(&firsts.b)),
        DifferenceKind::Unreadable(_, reason) => (both(py, &Here { a: &**reason, b: "" })?.0, None),
    };
    (bytes(&difference.path), kind, name, pair.0, pair.1).into_pyobject(py)
}

/// Both values as objects.
fn both<'py, T: Clone + IntoPyObject<'py>>(py: Python<'py>, values: &Here<T>) -> PyResult<Pair> {
    let object = |value: &T| -> PyResult<Py<PyAny>> {
        let object = value.clone().into_pyobject(py).map_err(Into::into)?;
        Ok(object.into_any().unbind())
    };
    Ok((Some(object(&values.a)?), Some(object(&values.b)?)))
}

/// A type as a word.
fn word(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
    }
}
