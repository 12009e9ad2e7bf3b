//! An image that is built: from folders, archives and containers, and from entries that Python
//! makes one after the other.
//!
//! *Locking*: one mutex around what was said so far, held for a call.
use crate::failure::{Raised, os_error, raise};
use crate::process::Home;
use crate::shared::path;
use crate::task::{self, Left};
use crate::transaction::time;
use extant::{Built, ContainerForm, DeviceNumbers, Memory, NewFile, Profile};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use serde_json::json;
use std::sync::{Mutex, PoisonError};

/// What an image is built of, until it is built.
#[pyclass(frozen, module = "extantfs._native")]
pub struct Builder {
    home: Home,
    raised: Raised,
    builder: Mutex<Option<extant::Builder>>,
}

/// Files that Python makes, as the facade asks for them.
type Added = extant::Result<()>;

impl Builder {
    fn take(&self) -> PyResult<extant::Builder> {
        self.home.check()?;
        let taken = self.builder.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| os_error(22, "it is built already"))
    }

    fn change(
        &self,
        change: impl FnOnce(extant::Builder) -> PyResult<extant::Builder>,
    ) -> PyResult<()> {
        let changed = change(self.take()?)?;
        *self.builder.lock().unwrap_or_else(PoisonError::into_inner) = Some(changed);
        Ok(())
    }
}

#[pymethods]
impl Builder {
    #[new]
    fn new(wishes: &Bound<'_, PyDict>) -> PyResult<Builder> {
        let mut builder = extant::Builder::new();
        if let Some(profile) = wishes.get_item("profile")? {
            builder = builder.profile(profile_of(profile.extract()?)?);
        }
        if let Some(bytes) = wishes.get_item("block_size")? {
            builder = builder.block_size(bytes.extract()?);
        }
        if let Some(bytes) = wishes.get_item("free")? {
            builder = builder.free(bytes.extract()?);
        }
        if let Some(bytes) = wishes.get_item("size")? {
            builder = builder.size(bytes.extract()?);
        }
        if let Some(label) = wishes.get_item("label")? {
            builder = builder.label(label.extract::<String>()?);
        }
        if let Some(uuid) = wishes.get_item("uuid")? {
            builder = builder.uuid(uuid.extract::<[u8; 16]>()?);
        }
        if let Some(owner) = wishes.get_item("owner")? {
            let (user, group) = owner.extract()?;
            builder = builder.owner(user, group);
        }
        if let Some(seconds) = wishes.get_item("newest")? {
            builder = builder.newest(seconds.extract()?);
        }
        if let Some(replace) = wishes.get_item("replace")? {
            builder = builder.replace(replace.extract()?);
        }
        for pattern in wishes.get_item("exclude")?.map_or(Ok(Vec::new()), |list| list.extract())? {
            let pattern: String = pattern;
            builder = builder.exclude(pattern);
        }
        let builder = Mutex::new(Some(builder));
        Ok(Builder { home: Home::here(), raised: Raised::default(), builder })
    }

    /// A folder or an archive.
    fn source(&self, at: &[u8]) -> PyResult<()> {
        self.change(|builder| Ok(builder.source(path(at))))
    }

    /// A container image.
    fn container(&self, form: &str, at: &[u8], tag: Option<String>) -> PyResult<()> {
        let form = match form {
            "oci" => ContainerForm::Oci,
            "oci-archive" => ContainerForm::OciArchive,
            "docker-archive" => ContainerForm::DockerArchive,
            _ => return Err(os_error(22, &format!("{form}: is no kind of container image"))),
        };
        self.change(|builder| Ok(builder.container(form, path(at), tag)))
    }

    /// Entries, which are asked for one after the other: path, kind, content, facts.
    fn entries(&self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut refused = None;
        self.change(|builder| {
            let made = builder.files(|files| {
                let mut add_all = || -> PyResult<Added> {
                    for entry in entries.try_iter()? {
                        py.check_signals()?;
                        let entry = entry?.cast_into::<PyTuple>()?;
                        let at = entry.get_item(0)?.extract::<Vec<u8>>()?;
                        let file = new_file(&entry, &self.raised)?;
                        // Streams ask for the interpreter themselves.
                        if let Err(error) = py.detach(|| files.add(path(&at), file)) {
                            return Ok(Err(error));
                        }
                    }
                    Ok(Ok(()))
                };
                add_all().unwrap_or_else(|error| {
                    refused = Some(error);
                    Err(std::io::Error::other("Python raised").into())
                })
            });
            match (made, refused.take()) {
                (Ok(builder), _) => Ok(builder),
                (Err(_), Some(refused)) => Err(refused),
                (Err(error), None) => Err(raise(py, &error, &self.raised)),
            }
        })
    }

    /// Builds into a path, or into bytes: what was built as JSON, and the bytes.
    #[pyo3(signature = (target, progress=None))]
    fn build<'py>(
        &self,
        py: Python<'py>,
        target: Option<Vec<u8>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(String, Option<Bound<'py, PyBytes>>)> {
        let builder = self.take()?;
        let built = task::run(py, progress, Left::Ended, move |watch| {
            let builder = builder.progress(std::sync::Arc::clone(watch) as _);
            match target {
                Some(target) => builder.build(path(&target)).map(|built| (built, None)),
                None => {
                    let memory = Memory::new();
                    builder.build_memory(&memory).map(|built| (built, Some(memory.to_vec())))
                }
            }
        })?;
        let (built, bytes) = built.map_err(|error| raise(py, &error, &self.raised))?;
        Ok((json(&built), bytes.map(|bytes| PyBytes::new(py, &bytes))))
    }
}

fn profile_of(word: &str) -> PyResult<Profile> {
    match word {
        "ext2" => Ok(Profile::Ext2),
        "ext3" => Ok(Profile::Ext3),
        "ext4" => Ok(Profile::Ext4),
        _ => Err(os_error(22, &format!("profile {word:?}: there are ext2, ext3 and ext4"))),
    }
}

fn json(built: &Built) -> String {
    let uuid: String = built.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "bytes": built.bytes,
        "block_size": built.block_size,
        "blocks": built.blocks,
        "free_blocks": built.free_blocks,
        "inodes": built.inodes,
        "free_inodes": built.free_inodes,
        "has_journal": built.has_journal,
        "uuid": uuid,
        "warnings": built.warnings,
    })
    .to_string()
}

/// An entry: path, kind, content, facts (mode, owner, time in nanoseconds, attributes).
fn new_file(entry: &Bound<'_, PyTuple>, raised: &Raised) -> PyResult<NewFile> {
    let kind = entry.get_item(1)?.extract::<String>()?;
    let content = entry.get_item(2)?;
    let facts = entry.get_item(3)?.cast_into::<PyDict>()?;
    let numbers = || -> PyResult<DeviceNumbers> {
        let (major, minor) = content.extract()?;
        Ok(DeviceNumbers { major, minor })
    };
    let bytes = || content.extract::<Vec<u8>>();
    let mut file = match &*kind {
        "file" => NewFile::file(bytes()?),
        "stream" => NewFile::stream(crate::device::Input::new(&content, raised)),
        "directory" => NewFile::directory(),
        "symlink" => NewFile::symlink(path(&bytes()?)),
        "fifo" => NewFile::fifo(),
        "link" => NewFile::hard_link(path(&bytes()?)),
        "character device" => NewFile::character_device(numbers()?),
        "block device" => NewFile::block_device(numbers()?),
        _ => return Err(os_error(22, &format!("entry: {kind:?} is no kind of file"))),
    };
    if let Some(mode) = facts.get_item("mode")? {
        file = file.mode((mode.extract::<u32>()? & 0o7777) as u16);
    }
    if let Some(owner) = facts.get_item("owner")? {
        let (user, group) = owner.extract()?;
        file = file.owner(user, group);
    }
    if let Some(nanoseconds) = facts.get_item("time")? {
        file = file.time(time(nanoseconds.extract()?));
    }
    if let Some(attributes) = facts.get_item("xattrs")? {
        for (name, value) in attributes.cast::<PyDict>()?.iter() {
            file = file.attribute(name.extract::<Vec<u8>>()?, value.extract::<Vec<u8>>()?);
        }
    }
    Ok(file)
}
