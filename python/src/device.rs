//! File objects of Python: as the device that an image is on, and as what an archive goes to.
//!
//! An object has one position, and may itself be in an image (one in another). So each has a thread
//! of its own that calls it, one call after the other: none of the engine's locks are held there.
//!
//! *Invariants*: the thread ends with the object. A call that comes from it, for the image on the
//! object, would wait for itself, and is refused.
//! *Locking*: one mutex around the sender, held while it is handed a call; the thread that asks
//! waits without the interpreter.
use crate::failure::{Raised, os_error};
use extant::Device;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;

/// A file object with an image: `read`, `seek`, and `write` where it is written.
#[derive(Debug)]
pub struct Object {
    bytes: u64,
    calls: Mutex<Sender<Call>>,
    caller: ThreadId,
    /// Device and inode number of its file, where it has one and says so.
    pub identity: Option<(u64, u64)>,
}

/// What the object is called for, and where the answer goes.
struct Call {
    what: What,
    answer: SyncSender<io::Result<Vec<u8>>>,
}

enum What {
    Read { offset: u64, length: usize },
    Write { offset: u64, bytes: Vec<u8> },
    Flush,
}

impl Object {
    /// The object, as long as its end is far.
    ///
    /// # Errors
    /// What it raises; it cannot be positioned.
    pub fn new(object: &Bound<'_, PyAny>, raised: Raised) -> PyResult<Object> {
        let end = object.call_method1("seek", (0, 2))?;
        // What io has returns where it is then; others say so when they are asked.
        let end = match (object.hasattr("tell")?, end.is_none()) {
            (true, _) => object.call_method0("tell")?,
            (false, false) => end,
            (false, true) => {
                let words = "the file object says with neither seek nor tell where it ends";
                return Err(PyOSError::new_err((29, words)));
            }
        };
        let end: i64 = end.extract()?;
        let bytes = u64::try_from(end).map_err(|_| {
            PyOSError::new_err((22, format!("the file object says that it ends at {end}")))
        })?;
        let called = object.clone().unbind();
        let (calls, receiver) = channel();
        // tidy: thread because it calls Python, on the time of the host
        let thread = std::thread::Builder::new().name("file object".into());
        let thread = thread.spawn(move || serve(called, bytes, &raised, &receiver))?;
        let (calls, caller) = (Mutex::new(calls), thread.thread().id());
        Ok(Object { bytes, calls, caller, identity: identity(object) })
    }

    /// # Errors
    /// This thread is the one that calls the object, for the image on it.
    pub fn check(&self) -> PyResult<()> {
        match self.caller == std::thread::current().id() {
            true => Err(os_error(35, "the file object uses the image that is on it")),
            false => Ok(()),
        }
    }

    fn call(&self, what: What) -> io::Result<Vec<u8>> {
        let ended = || io::Error::other("the file object is called no more");
        let (answer, answered) = sync_channel(1);
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.send(Call { what, answer }).map_err(|_| ended())?;
        drop(calls);
        answered.recv().map_err(|_| ended())?
    }
}

/// Device and inode number of the file of an object.
fn identity(object: &Bound<'_, PyAny>) -> Option<(u64, u64)> {
    let descriptor = object.call_method0("fileno").ok()?;
    let found = object.py().import("os").ok()?.call_method1("fstat", (descriptor,)).ok()?;
    let number = |name: &str| found.getattr(name).ok()?.extract::<u64>().ok();
    Some((number("st_dev")?, number("st_ino")?))
}

/// Calls the object until nobody asks any more.
fn serve(object: Py<PyAny>, end: u64, raised: &Raised, calls: &Receiver<Call>) {
    for Call { what, answer } in calls {
        let done = attached(raised, |py| {
            let object = object.bind(py);
            match what {
                What::Read { offset, length } => read(object, offset, length, end),
                What::Write { offset, bytes } => {
                    object.call_method1("seek", (offset,))?;
                    write(py, object, &bytes).map(|()| Vec::new())
                }
                What::Flush if !object.hasattr("flush")? => Ok(Vec::new()),
                What::Flush => object.call_method0("flush").map(|_| Vec::new()),
            }
        });
        // Who asked may be gone.
        let _ = answer.send(done);
    }
    // Without an interpreter there is nothing to let go of.
    if Python::try_attach(|_| ()).is_none() {
        std::mem::forget(object);
    }
}

/// Reads exactly so many bytes.
fn read(object: &Bound<'_, PyAny>, offset: u64, length: usize, end: u64) -> PyResult<Vec<u8>> {
    object.call_method1("seek", (offset,))?;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let left = length - bytes.len();
        let piece = object.call_method1("read", (left,))?;
        let piece: Option<pyo3::pybacked::PyBackedBytes> = piece.extract()?;
        match piece {
            Some(piece) if piece.is_empty() => {
                let at = offset.saturating_add(bytes.len() as u64);
                let words = format!("the file object ends at {at}, and said at {end}");
                return Err(PyOSError::new_err((5, words)));
            }
            Some(piece) if piece.len() <= left => bytes.extend_from_slice(&piece),
            _ => {
                let words = "the file object returned nothing, or more than was asked for";
                return Err(PyOSError::new_err((5, words)));
            }
        }
    }
    Ok(bytes)
}

/// Works with the interpreter; what it raises is kept.
fn attached<T>(raised: &Raised, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> io::Result<T> {
    let done = Python::try_attach(|py| work(py).map_err(|error| (words(py, &error), error)));
    match done {
        None => Err(io::Error::other("the interpreter has ended")),
        Some(Ok(value)) => Ok(value),
        Some(Err((error, exception))) => {
            raised.keep(exception);
            Err(error)
        }
    }
}

/// An exception as an error of the host, with its number if it has one.
fn words(py: Python<'_>, error: &PyErr) -> io::Error {
    let number = error.value(py).getattr("errno").ok();
    match number.and_then(|number| number.extract::<i32>().ok()) {
        Some(number) if number > 0 => io::Error::from_raw_os_error(number),
        _ => io::Error::other(format!("the file object raised {error}")),
    }
}

impl Device for Object {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let read = self.call(What::Read { offset, length: bytes.len() })?;
        bytes.copy_from_slice(&read);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.call(What::Write { offset, bytes: bytes.to_vec() }).map(drop)
    }

    fn flush(&self) -> io::Result<()> {
        self.call(What::Flush).map(drop)
    }
}

/// Writes all.
fn write(py: Python<'_>, object: &Bound<'_, PyAny>, bytes: &[u8]) -> PyResult<()> {
    let mut left = bytes;
    while !left.is_empty() {
        let taken = object.call_method1("write", (PyBytes::new(py, left),))?;
        // What returns nothing has taken all.
        let taken = taken.extract::<Option<usize>>()?.unwrap_or(left.len());
        left = match left.get(taken..) {
            Some(rest) if taken > 0 => rest,
            _ => return Err(PyOSError::new_err((5, "the file object takes no bytes"))),
        };
    }
    Ok(())
}

/// A file object that bytes go to, one after the other.
pub struct Output {
    object: Py<PyAny>,
    raised: Raised,
}

impl Output {
    /// The object from where it is.
    pub fn new(object: &Bound<'_, PyAny>, raised: &Raised) -> Output {
        Output { object: object.clone().unbind(), raised: raised.clone() }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        attached(&self.raised, |py| write(py, self.object.bind(py), bytes))?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file object that bytes come from, one after the other.
pub struct Input {
    object: Py<PyAny>,
    raised: Raised,
}

impl Input {
    /// The object from where it is.
    pub fn new(object: &Bound<'_, PyAny>, raised: &Raised) -> Input {
        Input { object: object.clone().unbind(), raised: raised.clone() }
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        attached(&self.raised, |py| {
            let piece = self.object.bind(py).call_method1("read", (bytes.len(),))?;
            let Some(piece) = piece.extract::<Option<pyo3::pybacked::PyBackedBytes>>()? else {
                // One that does not wait; nothing is not the end.
                return Err(PyOSError::new_err((11, "the file object has nothing yet")));
            };
            let Some(place) = bytes.get_mut(..piece.len()) else {
                let words = "the file object returned more than was asked for";
                return Err(PyOSError::new_err((5, words)));
            };
            place.copy_from_slice(&piece);
            Ok(piece.len())
        })
    }
}
