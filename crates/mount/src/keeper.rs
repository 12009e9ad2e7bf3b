//! Has the kernel send what it keeps, at intervals: it writes the data of a file back when the file
//! is closed, and else when it is 30 seconds old, which is more than a mount promises.
//!
//! `syncfs(2)` on the mount makes the kernel write everything back, though it does not tell the
//! server, and does not wait. It takes a descriptor of the mount, for a moment: as long as a file
//! is open for writing, without which the kernel has nothing to send, so that it is seldom in the
//! way of an unmount.
//!
//! *Invariants*: only this mount is asked: what is at its path is compared with its device number.
//! *Locking*: one short lock, under which nothing is called.
use extant_block::{Clock, ShortLock, Task, WaitQueue};
use rustix::fs::{Mode, OFlags, fstat, open, syncfs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The thread that does it.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    task: Task,
}

struct Shared {
    has_ended: ShortLock<bool>,
    ended: WaitQueue,
    clock: Arc<dyn Clock>,
}

/// What is kept and where.
struct Kept {
    target: PathBuf,
    device: u64,
    period_ns: u64,
}

impl Keeper {
    /// Begins, for what is mounted at a path, each `seconds`, while `is_written` says that a file
    /// may be written. `None` if the mount cannot be looked at.
    pub(crate) fn start(
        clock: &Arc<dyn Clock>,
        target: &Path,
        seconds: u32,
        is_written: impl Fn() -> bool + Send + 'static,
    ) -> Option<Keeper> {
        let device = rustix::fs::stat(target).ok()?.st_dev;
        let period_ns = u64::from(seconds.max(1)) * SECOND_NS;
        let kept = Kept { target: target.to_owned(), device, period_ns };
        let shared = Arc::new(Shared {
            has_ended: ShortLock::new(false),
            ended: WaitQueue::new(Arc::clone(clock)),
            clock: Arc::clone(clock),
        });
        let mine = Arc::clone(&shared);
        let body = move || {
            while mine.wait(kept.period_ns) {
                if is_written() {
                    kept.send_back();
                }
            }
        };
        let task = clock.spawn("keeper", Box::new(body));
        Some(Keeper { shared, task })
    }

    /// Ends it, and waits for that.
    pub(crate) fn end(self) {
        *self.shared.has_ended.lock() = true;
        self.shared.ended.wake_all();
        self.task.join();
    }
}

impl Shared {
    /// Waits for a time. Returns `false` at the end.
    fn wait(&self, nanoseconds: u64) -> bool {
        let deadline = self.clock.now().saturating_add(nanoseconds);
        let has_ended = |ended: &mut bool| ended.then_some(());
        self.ended.wait_until_deadline(&self.has_ended, deadline, has_ended).is_none()
    }
}

impl Kept {
    /// A mount that is hidden by another, or detached, is left alone; so is one that fails.
    fn send_back(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(root) = open(&self.target, flags, Mode::empty()) else { return };
        if fstat(&root).is_ok_and(|stat| stat.st_dev == self.device) {
            let _ = syncfs(&root);
        }
    }
}
