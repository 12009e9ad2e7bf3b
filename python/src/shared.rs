//! An image as its files and tasks share it: where its bytes are, and the turns between reading and
//! a transaction.
//!
//! *Invariants*: between two transactions nobody is kept from writing by more than a reader's
//! claim; while one is open the image shows what it has changed so far. Files of an image are
//! closed with it, and with the transaction that they were opened in.
//! *Locking*: `state` is held shared for a call and alone for a turn; it is waited for without the
//! interpreter, and a turn looks for signals meanwhile. `files` is held for an insertion.
use crate::device::Object;
use crate::failure::{Raised, closed, os_error, raise};
use crate::file::Slot;
use crate::process::Home;
use crate::task::{self, Left, Watch};
use extant::{Memory, Options, Transaction, Volume};
use pyo3::prelude::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError, Weak};
use std::time::Duration;

/// Where the bytes are.
pub enum Source {
    Path(PathBuf),
    Memory(Memory),
    Object(Arc<Object>),
}

/// What an image is being used for.
pub enum State {
    /// It is read.
    Reading(Volume),
    /// It is changed; the device and inode number of its file, if it has one.
    Changing(Box<Transaction>, Option<(u64, u64)>),
    /// Others keep it from being read since a transaction was refused: the next call tries again.
    Away,
    /// Nothing any more.
    Closed,
}

/// An image, as its files and tasks share it.
pub struct Shared {
    home: Home,
    /// Where its bytes are.
    pub source: Source,
    /// How it is opened.
    pub options: Options,
    /// What Python raised in a call.
    pub raised: Raised,
    state: RwLock<State>,
    files: Mutex<Vec<Weak<Slot>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.home.is_here() {
            // Its threads are in the parent, which goes on with it.
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::replace(state, State::Closed));
        }
    }
}

impl State {
    fn volume(&self) -> Option<&Volume> {
        match self {
            State::Reading(volume) => Some(volume),
            State::Changing(transaction, _) => Some(transaction),
            State::Away | State::Closed => None,
        }
    }
}

impl Shared {
    /// One that is not open yet.
    pub fn new(source: Source, options: Options, raised: Raised) -> Shared {
        let (state, files) = (RwLock::new(State::Closed), Mutex::default());
        Shared { home: Home::here(), source, options, raised, state, files }
    }

    /// Opens it for reading.
    ///
    /// # Errors
    /// Those of the library.
    pub fn open(&self, py: Python<'_>) -> PyResult<()> {
        let opened = py.detach(|| self.options.open(self.image()));
        let volume = self.told(py, Some(opened))?;
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::Reading(volume);
        Ok(())
    }

    /// Whether a transaction is open.
    pub fn is_changing(&self, py: Python<'_>) -> bool {
        py.detach(|| {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            matches!(&*state, State::Changing(..))
        })
    }

    /// Whether it is closed.
    pub fn is_closed(&self, py: Python<'_>) -> bool {
        py.detach(|| {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            matches!(&*state, State::Closed)
        })
    }

    /// Reads it again where others kept it from that.
    ///
    /// # Errors
    /// They still do.
    fn come_back(&self, py: Python<'_>) -> PyResult<()> {
        let opened = py.detach(|| {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            if !matches!(&*state, State::Away) {
                return Ok(());
            }
            drop(state);
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            if !matches!(&*state, State::Away) {
                return Ok(());
            }
            *state = State::Reading(self.options.open(self.image())?);
            Ok(())
        });
        self.told(py, Some(opened))
    }

    /// A file of it, which is closed with it.
    pub fn file(&self, file: extant::File) -> Arc<Slot> {
        let object = match &self.source {
            Source::Object(object) => Some(Arc::clone(object)),
            Source::Path(_) | Source::Memory(_) => None,
        };
        let slot = Slot::new(file, (self.home, self.raised.clone(), object));
        self.add(&slot);
        slot
    }

    /// What the library opens.
    pub fn image(&self) -> extant::Image {
        match &self.source {
            Source::Path(path) => path.clone().into(),
            Source::Memory(memory) => memory.clone().into(),
            Source::Object(object) => extant::Image::device(Arc::clone(object) as _),
        }
    }

    /// # Errors
    /// This process is a child of the one that opened it; the file object that the image is on
    /// wants to use the image.
    pub fn check(&self) -> PyResult<()> {
        self.home.check()?;
        match &self.source {
            Source::Object(object) => object.check(),
            Source::Path(_) | Source::Memory(_) => Ok(()),
        }
    }

    /// Works with the volume, in this thread; `None` where it is closed.
    pub fn try_with<T>(&self, work: impl FnOnce(&Volume) -> T) -> Option<T> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.volume().map(work)
    }

    /// What a call came to, as Python has it.
    pub fn told<T>(&self, py: Python<'_>, result: Option<extant::Result<T>>) -> PyResult<T> {
        match result {
            None => Err(closed("image")),
            Some(Err(error)) => Err(raise(py, &error, &self.raised)),
            Some(Ok(value)) => match self.raised.take() {
                // The interpreter wants to end, whatever the engine made of it.
                Some(raised) if !raised.is_instance_of::<pyo3::exceptions::PyException>(py) => {
                    Err(raised)
                }
                _ => Ok(value),
            },
        }
    }

    /// Works with the volume while other threads of Python run.
    ///
    /// # Errors
    /// The work's; the image is closed, or another process's.
    pub fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Volume) -> extant::Result<T> + Send,
    ) -> PyResult<T> {
        self.check()?;
        self.come_back(py)?;
        let result = py.detach(|| self.try_with(work));
        self.told(py, result)
    }

    /// The same, for the transaction that is open.
    ///
    /// # Errors
    /// As [`Shared::with`]; there is none.
    pub fn with_change<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Volume) -> extant::Result<T> + Send,
    ) -> PyResult<T> {
        self.check()?;
        let result = py.detach(|| {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Changing(transaction, _) => Some(work(transaction)),
                State::Reading(_) | State::Away | State::Closed => None,
            }
        });
        match result {
            None => Err(closed("transaction")),
            result => self.told(py, result),
        }
    }

    /// Works with the volume in a thread of its own.
    ///
    /// # Errors
    /// As [`Shared::with`] and [`task::run`].
    pub fn with_task<T: Send + 'static>(
        self: &Arc<Self>,
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
        work: impl FnOnce(&Volume, &Arc<Watch>) -> extant::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.check()?;
        self.come_back(py)?;
        let shared = Arc::clone(self);
        let result = task::run(py, progress, Left::Ended, move |watch| {
            shared.try_with(|volume| work(volume, watch))
        });
        self.told(py, result?)
    }

    /// Changes what the image is used for, alone.
    ///
    /// # Errors
    /// A handler of a signal raised while others were waited for.
    fn turn<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut State) -> T + Send,
    ) -> PyResult<T> {
        /// Between two looks.
        const LOOK: Duration = Duration::from_millis(5);
        self.check()?;
        let mut work = Some(work);
        loop {
            let done = py.detach(|| {
                let mut state = match self.state.try_write() {
                    Ok(state) => state,
                    Err(TryLockError::Poisoned(state)) => state.into_inner(),
                    Err(TryLockError::WouldBlock) => {
                        // tidy: thread because other threads are waited for, beside signals
                        #[allow(clippy::disallowed_methods, reason = "no clock knows Python")]
                        std::thread::sleep(LOOK);
                        return None;
                    }
                };
                work.take().map(|work| work(&mut state))
            });
            match done {
                Some(done) => return Ok(done),
                None => py.check_signals()?,
            }
        }
    }

    /// Files that are open.
    fn open_files(&self) -> Vec<Arc<Slot>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().filter_map(Weak::upgrade).filter(|file| file.is_open()).collect()
    }

    fn close_files(&self) {
        self.open_files().iter().for_each(|file| file.close());
    }

    /// Remembers a file, and forgets those that are gone.
    fn add(&self, file: &Arc<Slot>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() == files.capacity() {
            files.retain(|file| file.strong_count() > 0);
        }
        files.push(Arc::downgrade(file));
    }

    /// Device and inode number of the file that the path leads to now.
    ///
    /// # Errors
    /// The host's.
    pub fn identity(&self) -> extant::Result<Option<(u64, u64)>> {
        match &self.source {
            Source::Path(path) => {
                let found = std::fs::metadata(path)?;
                Ok(Some((found.dev(), found.ino())))
            }
            Source::Memory(_) | Source::Object(_) => Ok(None),
        }
    }

    /// Turns back to reading after a transaction.
    fn read_again(&self, state: &mut State) -> extant::Result<()> {
        let opened = self.options.open(self.image());
        let (next, result) = match opened {
            Ok(volume) => (State::Reading(volume), Ok(())),
            Err(error) => (State::Closed, Err(error)),
        };
        *state = next;
        result
    }

    fn begin_with(&self, state: &mut State) -> extant::Result<bool> {
        if matches!(state, State::Closed) {
            return Ok(false);
        }
        let identity = self.identity()?;
        // The reader's claim would keep it from being written.
        *state = State::Closed;
        match self.options.begin(self.image()) {
            Ok(transaction) => {
                *state = State::Changing(Box::new(transaction), identity);
                Ok(true)
            }
            Err(error) => {
                if self.read_again(state).is_err() {
                    *state = State::Away;
                }
                Err(error)
            }
        }
    }

    fn commit_with(&self, state: &mut State) -> Result<(), Refusal> {
        let State::Changing(_, before) = state else { return Err(Refusal::None) };
        let before = *before;
        if before != self.identity().ok().flatten() {
            return Err(Refusal::Removed);
        }
        let State::Changing(transaction, _) = std::mem::replace(state, State::Closed) else {
            return Err(Refusal::None);
        };
        let committed = transaction.commit();
        let opened = self.read_again(state);
        committed.and(opened).map_err(Refusal::Failed)
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// One is open, or files are; the image's.
    pub fn begin(&self, py: Python<'_>) -> PyResult<()> {
        let shared = self;
        let begun = shared.turn(py, |state| {
            if matches!(state, State::Changing(..)) {
                return Err("a transaction of this image is open already".to_owned());
            }
            match shared.open_files().len() {
                0 => Ok(shared.begin_with(state)),
                files => Err(format!("{files} files of this image are open: close them first")),
            }
        })?;
        match begun {
            Err(words) => Err(os_error(16, &words)),
            Ok(begun) => match shared.told(py, Some(begun))? {
                true => Ok(()),
                false => Err(closed("image")),
            },
        }
    }

    /// Brings the changes to the image.
    ///
    /// # Errors
    /// None is open, the image is gone; the image's.
    pub fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let shared = self;
        let committed = shared.turn(py, |state| {
            shared.close_files();
            shared.commit_with(state)
        })?;
        match committed {
            Ok(()) => shared.told(py, Some(Ok(()))),
            Err(Refusal::None) => Err(closed("transaction")),
            Err(Refusal::Removed) => {
                let words = "the image was removed or replaced while it was changed: nothing is \
                             committed";
                self.roll_back(py)?;
                Err(os_error(2, words))
            }
            Err(Refusal::Failed(error)) => Err(raise(py, &error, &shared.raised)),
        }
    }

    /// Closes it, with its files.
    ///
    /// # Errors
    /// A handler of a signal raised while others were waited for.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.turn(py, |state| {
            self.close_files();
            *state = State::Closed;
        })
    }

    /// Drops the changes, if there are any.
    ///
    /// # Errors
    /// The image cannot be read again.
    pub fn roll_back(&self, py: Python<'_>) -> PyResult<()> {
        let shared = self;
        let dropped = shared.turn(py, |state| {
            if !matches!(state, State::Changing(..)) {
                return Ok(());
            }
            shared.close_files();
            *state = State::Closed;
            shared.read_again(state)
        })?;
        shared.told(py, Some(dropped))
    }
}

/// Why nothing is committed.
enum Refusal {
    /// No transaction is open.
    None,
    /// The image has another file now, or none.
    Removed,
    Failed(extant::Error),
}

/// The path of these bytes.
pub fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
