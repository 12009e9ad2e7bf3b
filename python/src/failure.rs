//! Errors as exceptions: OSError and its kin, by number, with the path that they are about.
use extant::{Error, ErrorKind};
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// What a call of Python raised in the midst of work, until that has ended.
///
/// *Locking*: one mutex, held for a copy.
#[derive(Clone, Default, Debug)]
pub struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Keeps the first one.
    pub fn keep(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Takes it.
    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Where the kinds are that the interpreter has no class for.
const CLASSES: &str = "extantfs._errors";

/// An error as an exception; what was raised meanwhile is its cause. A KeyboardInterrupt, or what
/// else ends a program, is raised itself.
pub fn raise(py: Python<'_>, error: &Error, raised: &Raised) -> PyErr {
    let cause = raised.take();
    let cause = match cause {
        Some(cause) if !cause.is_instance_of::<PyException>(py) => return cause,
        cause => cause,
    };
    let exception = exception(py, error).unwrap_or_else(|failed| failed);
    exception.set_cause(py, cause);
    exception
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let special = match error.kind() {
        ErrorKind::NotAVolume => Some("NotAVolumeError"),
        ErrorKind::Damaged => Some("DamagedError"),
        ErrorKind::NeedsCheck => Some("NeedsCheckError"),
        ErrorKind::Unsupported => Some("UnsupportedError"),
        ErrorKind::InUse => Some("InUseError"),
        _ => None,
    };
    let class = match special {
        Some(name) => class_of(py, name)?,
        None => py.get_type::<PyOSError>().into_any(),
    };
    let path = error.path().map(|path| path.as_os_str());
    let value = match path {
        Some(path) => class.call1((error.errno(), error.reason(), path))?,
        None => class.call1((error.errno(), error.reason()))?,
    };
    Ok(PyErr::from_value(value))
}

/// A class that the interpreter has not.
pub fn class_of<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import(CLASSES)?.getattr(name)
}

/// An exception of this number.
pub fn os_error(errno: i32, words: &str) -> PyErr {
    PyOSError::new_err((errno, words.to_owned()))
}

/// What is closed, in the words that Python has for its own files.
pub fn closed(what: &str) -> PyErr {
    PyValueError::new_err(format!("I/O operation on closed {what}"))
}
