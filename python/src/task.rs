//! Long work: it has a thread of its own, while the thread that asked for it looks for signals and
//! tells the progress. Python runs handlers of signals in its main thread alone, which therefore
//! may not be the one that works.
//!
//! *Invariants*: the work has ended when [`run`] returns; but for [`Left::Alone`], whose result
//! nobody can miss.
//! *Locking*: none but a channel, which is waited for without the interpreter.
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// How far work is, and whether it is wanted.
#[derive(Default)]
pub struct Watch {
    done: AtomicU64,
    total: AtomicU64,
    is_cancelled: AtomicBool,
}

impl Watch {
    /// Sets both counters.
    pub fn set(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }
}

impl extant::Progress for Watch {
    fn advance(&self, amount: u64) {
        self.done.fetch_add(amount, Ordering::Relaxed);
    }
    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// What becomes of work that is not wanted any more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It is waited for.
    Ended,
    /// It only reads, and goes on until it ends.
    Alone,
}

/// Runs `work`, and calls `progress` with what is done and what there is to do, if that is known.
///
/// # Errors
/// What a handler of a signal or `progress` raised: the work was cancelled then, as far as it lets
/// itself be.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    left: Left,
    work: impl FnOnce(&Arc<Watch>) -> T + Send + 'static,
) -> PyResult<T> {
    let watch = Arc::new(Watch::default());
    let (sender, receiver) = sync_channel(1);
    let receiver = Mutex::new(receiver);
    let watched = Arc::clone(&watch);
    // tidy: thread because Python's main thread has to look for signals meanwhile
    let thread = std::thread::Builder::new().name("extantfs".into()).spawn(move || {
        // Nobody may be left to take it.
        let _ = sender.send(work(&watched));
    })?;
    let mut told = 0;
    let mut tell = || -> PyResult<()> {
        py.check_signals()?;
        let (done, total) =
            (watch.done.load(Ordering::Relaxed), watch.total.load(Ordering::Relaxed));
        match progress {
            Some(progress) if done != told => {
                told = done;
                progress.call1((done, (total > 0).then_some(total))).map(drop)
            }
            _ => Ok(()),
        }
    };
    let mut refused = None;
    let result = loop {
        let received = py
            .detach(|| receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK));
        match received {
            Ok(result) => break result,
            Err(RecvTimeoutError::Timeout) if refused.is_some() => {}
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = tell() {
                    watch.is_cancelled.store(true, Ordering::Relaxed);
                    if left == Left::Alone {
                        return Err(error);
                    }
                    refused = Some(error);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let ended = py.detach(|| thread.join());
                debug_assert!(ended.is_err(), "it ended without a result");
                return Err(PyRuntimeError::new_err("extantfs: the work ended in a panic"));
            }
        }
    };
    // The thread has nothing left to do.
    match refused {
        Some(error) => Err(error),
        None => tell().map(|()| result),
    }
}
