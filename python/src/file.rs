//! An open file of an image, from any number of threads.
//!
//! *Invariants*: it is closed with its image; a file in a child process only fails.
//! *Locking*: one lock, held shared for a read or a write and alone to close it, without the
//! interpreter.
use crate::device::Object;
use crate::failure::{Raised, closed, raise};
use crate::process::Home;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, PoisonError, RwLock};

/// Where a file is until it is closed.
pub struct Slot {
    home: Home,
    raised: Raised,
    /// What its image is on.
    object: Option<Arc<Object>>,
    file: RwLock<Option<extant::File>>,
}

impl Slot {
    /// An open one.
    pub fn new(
        file: extant::File,
        (home, raised, object): (Home, Raised, Option<Arc<Object>>),
    ) -> Arc<Slot> {
        Arc::new(Slot { home, raised, object, file: RwLock::new(Some(file)) })
    }

    /// Whether it is not closed.
    pub fn is_open(&self) -> bool {
        self.file.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Closes it, when what is under way has ended.
    pub fn close(&self) {
        let file = self.file.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(file);
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&extant::File) -> extant::Result<T> + Send,
    ) -> PyResult<T> {
        self.home.check()?;
        if let Some(object) = &self.object {
            object.check()?;
        }
        let result = py.detach(|| {
            let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
            file.as_ref().map(work)
        });
        match result {
            None => Err(closed("file")),
            Some(result) => result.map_err(|error| raise(py, &error, &self.raised)),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.home.is_here() {
            let file = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(file.take());
        }
    }
}

/// An open file.
#[pyclass(frozen, module = "extantfs._native")]
pub struct File {
    pub slot: Arc<Slot>,
}

#[pymethods]
impl File {
    /// At most so many bytes at an offset; fewer at the end only.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.slot.with(py, |file| {
            let rest = file.metadata()?.size.saturating_sub(offset);
            let length = length.min(usize::try_from(rest).unwrap_or(usize::MAX));
            let mut bytes = vec![0; length];
            let count = file.read_at(offset, &mut bytes)?;
            bytes.truncate(count);
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn write_at(&self, py: Python<'_>, offset: u64, bytes: &[u8]) -> PyResult<()> {
        self.slot.with(py, |file| file.write_all_at(offset, bytes))
    }

    fn truncate(&self, py: Python<'_>, length: u64) -> PyResult<()> {
        self.slot.with(py, |file| file.set_len(length))
    }

    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.slot.with(py, |file| Ok(file.metadata()?.size))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.home.check()?;
        py.detach(|| self.slot.close());
        Ok(())
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.slot.home.is_here() && !py.detach(|| self.slot.is_open())
    }
}
