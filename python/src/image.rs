//! An image that is open, as Python calls it.
use crate::device::{Object, Output};
use crate::failure::{Raised, closed, os_error};
use crate::file::File;
use crate::shared::{Shared, Source, path};
use crate::task::{self, Left, Watch};
use crate::transaction;
use extant::{Entry, Memory, Metadata, Options, Present, Taken, Tree};
use extant_host::place::{Part, VolumeName};
use extant_host::size::Size;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use serde_json::json;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are read between two looks for signals.
const PIECE_BYTES: usize = 16 << 20;

/// An image that is open.
#[pyclass(frozen, module = "extantfs._native")]
pub struct Image {
    pub shared: Arc<Shared>,
}

/// What `open` was asked for.
fn options(wishes: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::new();
    if let Some(journal) = wishes.get_item("journal")? {
        options = options.journal(path(&journal.extract::<Vec<u8>>()?));
    }
    if let Some(policies) = wishes.get_item("policies")? {
        options = options.policies(policies.extract::<String>()?);
    }
    if let Some(bytes) = wishes.get_item("cache_bytes")? {
        options = options.cache_bytes(bytes.extract()?);
    }
    if let Some(time) = wishes.get_item("time")? {
        options = options.time(time.extract()?);
    }
    if let Some(force) = wishes.get_item("force_read")? {
        options = options.force_read(force.extract()?);
    }
    if let Some(despite) = wishes.get_item("despite_errors")? {
        options = options.despite_errors(despite.extract()?);
    }
    if let Some(word) = wishes.get_item("partition")? {
        options = options.partition(word.extract::<String>()?);
    }
    if let Some(offset) = wishes.get_item("offset")? {
        options = options.range(offset.extract::<u64>()?..u64::MAX);
    }
    Ok(options)
}

/// The file of a word, and the part of it that comes after an `@`.
fn placed(word: &Path, options: Options) -> PyResult<(PathBuf, Options)> {
    let VolumeName { file, part } = VolumeName::of(word);
    let options = match part {
        Part::Unsaid => options,
        Part::Partition(name) => options.partition(name),
        Part::Byte(words) => {
            let offset = words.parse::<Size>().ok().and_then(|size| size.bytes(1));
            let wrong = || os_error(22, &format!("@@{words}: is no place in the image"));
            options.range(offset.ok_or_else(wrong)?..u64::MAX)
        }
    };
    Ok((file, options))
}

/// An image that is not open yet.
///
/// # Errors
/// The wishes are none; what a file object raises.
pub fn unopened(
    py: Python<'_>,
    kind: &str,
    place: &Bound<'_, PyAny>,
    wishes: &Bound<'_, PyDict>,
) -> PyResult<Shared> {
    let mut options = options(wishes)?;
    let raised = Raised::default();
    let source = match kind {
        "path" => {
            let (file, placed) = placed(path(&place.extract::<Vec<u8>>()?), options)?;
            options = placed;
            Source::Path(file)
        }
        "bytes" => {
            let bytes: pyo3::pybacked::PyBackedBytes = place.extract()?;
            Source::Memory(py.detach(|| Memory::from(&bytes[..])))
        }
        _ => Source::Object(Arc::new(Object::new(place, raised.clone())?)),
    };
    Ok(Shared::new(source, options, raised))
}

/// The report of a check, as JSON, of what may be no volume.
#[pyfunction]
#[pyo3(signature = (kind, place, wishes, progress=None))]
pub fn check(
    py: Python<'_>,
    kind: &str,
    place: &Bound<'_, PyAny>,
    wishes: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    judged(py, &Arc::new(unopened(py, kind, place, wishes)?), progress, checked)
}

/// Checks it.
fn checked(options: &Options, image: extant::Image, watch: &Arc<Watch>) -> extant::Result<String> {
    let watch = Arc::clone(watch);
    let told = move |state: extant::CheckProgress| {
        watch.set(state.done_bytes, state.expected_bytes);
    };
    let report = options.check_told(image, Arc::new(told))?;
    Ok(serde_json::to_string(&report).unwrap_or_default())
}

/// Work with an image.
type Judge = fn(&Options, extant::Image, &Arc<Watch>) -> extant::Result<String>;

/// Works with an image anew, in a thread of its own, which only reads.
fn judged(
    py: Python<'_>,
    shared: &Arc<Shared>,
    progress: Option<&Bound<'_, PyAny>>,
    work: Judge,
) -> PyResult<String> {
    let working = Arc::clone(shared);
    let result = task::run(py, progress, Left::Alone, move |watch| {
        work(&working.options, working.image(), watch)
    })?;
    shared.told(py, Some(result))
}

#[pymethods]
impl Image {
    /// Opens a path (bytes with an `@PART` perhaps), bytes, or a file object.
    #[new]
    fn new(
        py: Python<'_>,
        kind: &str,
        place: &Bound<'_, PyAny>,
        wishes: &Bound<'_, PyDict>,
    ) -> PyResult<Image> {
        let shared = unopened(py, kind, place, wishes)?;
        shared.open(py)?;
        Ok(Image { shared: Arc::new(shared) })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.close(py)
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.shared.check()?;
        Ok(self.shared.is_closed(py))
    }

    #[getter]
    fn is_changing(&self, py: Python<'_>) -> bool {
        self.shared.is_changing(py)
    }

    /// Mode, inode, links, user, group; size, units of 512 bytes, bytes of a block; times in
    /// nanoseconds; numbers of a device.
    // tidy: boolean because Python's own names for it are
    fn stat<'py>(&self, py: Python<'py>, at: &[u8], follow: bool) -> PyResult<Bound<'py, PyTuple>> {
        let found = self.shared.with(py, |volume| {
            let found = match follow {
                true => volume.metadata(path(at)),
                false => volume.symlink_metadata(path(at)),
            };
            found.map(|metadata| (metadata, volume.space().block_size))
        })?;
        stat_tuple(py, &found.0, found.1)
    }

    /// Names and types (as in the mode) of a directory.
    fn scan<'py>(&self, py: Python<'py>, at: &[u8]) -> PyResult<Bound<'py, PyList>> {
        let entries = self.shared.with(py, |volume| {
            let block_size = volume.space().block_size;
            let entries: extant::Result<Vec<Entry>> = volume.read_dir(path(at))?.collect();
            entries.map(|entries| (entries, block_size))
        })?;
        let rows = entries.0.iter().map(|entry| {
            let name = entry.path.file_name().map_or(&b""[..], |name| name.as_bytes());
            let stat = stat_tuple(py, &entry.metadata, entries.1)?;
            PyTuple::new(py, [PyBytes::new(py, name).into_any(), stat.into_any()])
        });
        PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)
    }

    /// At most so many bytes of a file from an offset on; all of them by -1.
    fn read<'py>(
        &self,
        py: Python<'py>,
        at: &[u8],
        offset: u64,
        length: i64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let file = self.shared.with(py, |volume| {
            let file = volume.open_file(path(at))?;
            let size = file.metadata()?.size;
            Ok((file, size))
        });
        let (file, size) = file?;
        let rest = size.saturating_sub(offset);
        let wanted = u64::try_from(length).map_or(rest, |length| length.min(rest));
        let mut bytes = Vec::new();
        let wanted = usize::try_from(wanted)?;
        bytes.try_reserve_exact(wanted).map_err(|_| os_error(12, "no memory for the file"))?;
        while bytes.len() < wanted {
            py.check_signals()?;
            let before = bytes.len();
            let end = wanted.min(before.saturating_add(PIECE_BYTES));
            bytes.resize(end, 0);
            let place = bytes.get_mut(before..).unwrap_or_default();
            let from = offset.saturating_add(before as u64);
            let count = py.detach(|| file.read_at(from, place));
            let count = self.shared.told(py, Some(count))?;
            bytes.truncate(before.saturating_add(count));
            if count == 0 {
                break;
            }
        }
        py.detach(|| drop(file));
        Ok(PyBytes::new(py, &bytes))
    }

    fn read_link<'py>(&self, py: Python<'py>, at: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let target = self.shared.with(py, |volume| volume.read_link(path(at)))?;
        Ok(PyBytes::new(py, target.as_os_str().as_bytes()))
    }

    fn attributes<'py>(&self, py: Python<'py>, at: &[u8]) -> PyResult<Bound<'py, PyDict>> {
        let attributes = self.shared.with(py, |volume| volume.attributes(path(at)))?;
        let found = PyDict::new(py);
        for attribute in attributes {
            found
                .set_item(PyBytes::new(py, &attribute.name), PyBytes::new(py, &attribute.value))?;
        }
        Ok(found)
    }

    /// Opens a file for reading.
    fn open_file(&self, py: Python<'_>, at: &[u8]) -> PyResult<File> {
        let file = self.shared.with(py, |volume| volume.open_file(path(at)))?;
        Ok(self.file(file))
    }

    /// Block size, blocks, free blocks, inodes, free inodes, label, UUID, what was lost of it.
    fn facts(&self, py: Python<'_>) -> PyResult<String> {
        self.shared.with(py, |volume| {
            let space = volume.space();
            let uuid: String = volume.uuid().iter().map(|byte| format!("{byte:02x}")).collect();
            let facts = json!({
                "block_size": space.block_size,
                "blocks": space.blocks,
                "free_blocks": space.free_blocks,
                "inodes": space.inodes,
                "free_inodes": space.free_inodes,
                "label": volume.label(),
                "uuid": uuid,
                "skipped": volume.skipped(),
            });
            Ok(facts.to_string())
        })
    }

    /// Device and inode number of the file that it is on; none of bytes, or where nothing says it.
    fn identity(&self) -> Option<(u64, u64)> {
        match &self.shared.source {
            Source::Object(object) => object.identity,
            Source::Path(_) | Source::Memory(_) => self.shared.identity().ok().flatten(),
        }
    }

    /// All bytes of an image that was opened on bytes.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.shared.check()?;
        let Source::Memory(memory) = &self.shared.source else { return Ok(None) };
        let bytes = py.detach(|| memory.to_vec());
        Ok(Some(PyBytes::new(py, &bytes)))
    }

    /// The report of a check, as JSON.
    #[pyo3(signature = (progress=None))]
    fn check(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        judged(py, self.unchanging(py)?, progress, checked)
    }

    /// How files are laid out, as JSON.
    fn layout(&self, py: Python<'_>) -> PyResult<String> {
        judged(py, self.unchanging(py)?, None, |options, image, _| {
            let report = options.layout(image)?;
            Ok(serde_json::to_string(&report).unwrap_or_default())
        })
    }

    /// Writes an archive to a file object; what it came to, as JSON.
    #[pyo3(signature = (output, paths, progress=None))]
    fn tar(
        &self,
        py: Python<'_>,
        output: &Bound<'_, PyAny>,
        paths: Vec<Vec<u8>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        self.unchanging(py)?;
        let output = Output::new(output, &self.shared.raised);
        let taken = self.shared.with_task(py, progress, move |volume, watch| {
            let paths: Vec<&Path> = paths.iter().map(|bytes| path(bytes)).collect();
            let mut output = std::io::BufWriter::with_capacity(1 << 20, output);
            let taken = volume.tar(&paths, &mut output, &**watch)?;
            output.into_inner().map_err(|error| error.into_error())?;
            Ok(taken)
        });
        Ok(taken_json(&taken?))
    }

    /// Puts what is at the paths into a folder; what it came to, as JSON.
    // tidy: boolean because Python's own names for it are
    #[pyo3(signature = (folder, paths, replace, progress=None))]
    fn extract(
        &self,
        py: Python<'_>,
        folder: Vec<u8>,
        paths: Vec<Vec<u8>>,
        replace: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        self.unchanging(py)?;
        let present = if replace { Present::Replace } else { Present::Refuse };
        let taken = self.shared.with_task(py, progress, move |volume, watch| {
            let paths: Vec<&Path> = paths.iter().map(|bytes| path(bytes)).collect();
            volume.extract(&paths, path(&folder), present, &**watch)
        });
        Ok(taken_json(&taken?))
    }

    /// What differs from another image, or from a folder or an archive at a path: a list of tuples.
    #[pyo3(signature = (at, other, other_at, ignored, exclude, progress=None))]
    #[allow(clippy::too_many_arguments, reason = "the Python side has names for them")]
    fn diff<'py>(
        &self,
        py: Python<'py>,
        at: Vec<u8>,
        other: Option<&Bound<'py, Image>>,
        other_at: Vec<u8>,
        ignored: Vec<String>,
        exclude: Vec<String>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        self.unchanging(py)?;
        let ignored = ignored.iter().map(|word| transaction::ignored(word));
        let ignored = ignored.collect::<PyResult<Vec<_>>>()?;
        let other = other.map(|other| Arc::clone(&other.get().shared));
        if let Some(other) = &other {
            other.check()?;
            refuse_changing(py, other)?;
        }
        let differences = self.shared.with_task(py, progress, move |volume, watch| {
            let this = Tree::Volume(volume, path(&at).to_owned());
            let there = path(&other_at).to_owned();
            match &other {
                None => {
                    let there = Tree::Source(there);
                    extant::diff(this, there, &ignored, &exclude, &**watch).map(Some)
                }
                Some(other) => {
                    let compared = other.try_with(|other| {
                        let there = Tree::Volume(other, there);
                        extant::diff(this, there, &ignored, &exclude, &**watch)
                    });
                    compared.transpose()
                }
            }
        })?;
        let differences = differences.ok_or_else(|| closed("image"))?;
        differences.iter().map(|difference| transaction::difference(py, difference)).collect()
    }

    /// Begins a transaction.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.begin(py)
    }

    /// Brings the changes to the image.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.commit(py)
    }

    /// Drops the changes, if there are any.
    fn roll_back(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.roll_back(py)
    }

    /// One change, by its name.
    fn change(
        &self,
        py: Python<'_>,
        name: &str,
        words: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        transaction::change(py, &self.shared, name, words)
    }

    /// Makes a file, or cuts one that is there to nothing, and opens it.
    fn create_file(&self, py: Python<'_>, at: &[u8]) -> PyResult<File> {
        let file = self.shared.with_change(py, |volume| volume.create_file(path(at)))?;
        Ok(self.file(file))
    }

    /// Copies what is on the host, or in an image, into this one: objects and bytes.
    // tidy: boolean because Python's own names for it are
    #[pyo3(signature = (from, source, to, preserve, owner=None, mode=None))]
    #[allow(clippy::too_many_arguments, reason = "the Python side has names for them")]
    fn copy(
        &self,
        py: Python<'_>,
        from: Option<&Bound<'_, Image>>,
        source: Vec<u8>,
        to: Vec<u8>,
        preserve: bool,
        owner: Option<(u32, u32)>,
        mode: Option<u16>,
    ) -> PyResult<(u64, u64)> {
        let options = transaction::copy_options(preserve, owner, mode);
        let from = from.map(|from| Arc::clone(&from.get().shared));
        let is_own = from.as_ref().is_some_and(|from| Arc::ptr_eq(from, &self.shared));
        if !self.is_changing(py) {
            return Err(closed("transaction"));
        }
        let copied = self.shared.with_task(py, None, move |volume, _| {
            let (source, to) = (path(&source), path(&to));
            match &from {
                None => volume.copy_in(source, to, options).map(Some),
                Some(_) if is_own => volume.copy_from(volume, source, to, options).map(Some),
                Some(from) => {
                    let copied = from.try_with(|from| volume.copy_from(from, source, to, options));
                    copied.transpose()
                }
            }
        })?;
        let copied = copied.ok_or_else(|| closed("image"))?;
        Ok((copied.objects, copied.bytes))
    }
}

impl Image {
    fn file(&self, file: extant::File) -> File {
        File { slot: self.shared.file(file) }
    }

    /// # Errors
    /// It is closed, or another process's; it is being changed.
    fn unchanging(&self, py: Python<'_>) -> PyResult<&Arc<Shared>> {
        let shared = self.open(py)?;
        refuse_changing(py, shared).map(|()| shared)
    }

    /// # Errors
    /// It is closed, or another process's.
    fn open(&self, py: Python<'_>) -> PyResult<&Arc<Shared>> {
        self.shared.check()?;
        match self.closed(py)? {
            true => Err(closed("image")),
            false => Ok(&self.shared),
        }
    }
}

/// Long work reads the image, where nothing of a transaction is yet.
fn refuse_changing(py: Python<'_>, shared: &Shared) -> PyResult<()> {
    match shared.is_changing(py) {
        true => Err(os_error(16, "a transaction of the image is open: end it first")),
        false => Ok(()),
    }
}

fn taken_json(taken: &Taken) -> String {
    json!({
        "files": taken.files,
        "directories": taken.directories,
        "symlinks": taken.symlinks,
        "hard_links": taken.hard_links,
        "specials": taken.specials,
        "data_bytes": taken.data_bytes,
        "warnings": taken.warnings,
    })
    .to_string()
}

fn stat_tuple<'py>(
    py: Python<'py>,
    found: &Metadata,
    block_size: u32,
) -> PyResult<Bound<'py, PyTuple>> {
    let nanoseconds = |time: extant::Time| {
        i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
    };
    let device = found.device.map(|device| (device.major, device.minor));
    (
        (found.mode, found.ino.0, found.links, found.uid, found.gid),
        (found.size, found.sectors, block_size),
        (
            nanoseconds(found.access_time),
            nanoseconds(found.modify_time),
            nanoseconds(found.change_time),
            found.create_time.map(nanoseconds),
        ),
        device,
    )
        .into_pyobject(py)
}
