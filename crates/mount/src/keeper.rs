//! Has the kernel send what it keeps, at intervals: it writes the data of a file back when the file
//! is closed, and else when it is 30 seconds old, which is more than a mount promises.
//!
//! `syncfs(2)` on the mount makes the kernel write everything back, though it does not tell the
//! server. Who calls it waits in the kernel for the server's answers, and cannot be interrupted: a
//! server that called it and was killed meanwhile would have a thread that keeps `/dev/fuse` open,
//! and waits for answers that nobody gives. So another process calls it, the *guard*, which has no
//! handle of `/dev/fuse`. It also ends the connection when the server has died and a thread of it
//! is still in the kernel (a search for data waits there: `serve::seeks`).
//!
//! A guard is told by its standard input what to do: the number of the mount's device, a space, the
//! folder and a zero byte; then a byte each time that the kernel is to send; and the end, after
//! which it ends too.
//!
//! *Invariants*: a guard is started before there is a mount, by a thread that lives as long as the
//! mount: Linux tells a process of the death of the thread that started it. It knows of the mount
//! before the caller does: a server that is killed from then on has a guard. One that was killed is
//! replaced.
//! *Locking*: one short lock, under which nothing is called.
use extant_block::{Clock, ShortLock, Task, WaitQueue};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The thread that does it.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    task: Task,
}

struct Shared {
    state: ShortLock<State>,
    changed: WaitQueue,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct State {
    /// How the start of the guard went.
    started: Option<io::Result<()>>,
    kept: Option<Kept>,
    /// The first guard was told of the mount.
    is_told: bool,
    has_ended: bool,
}

/// What is kept, and when.
struct Kept {
    /// The first line for a guard.
    line: Vec<u8>,
    /// Nanoseconds between two rounds; `None` for no rounds.
    period_ns: Option<u64>,
    is_written: Box<dyn Fn() -> bool + Send>,
}

impl Keeper {
    /// Starts a guard by this command, with nothing to do yet.
    ///
    /// # Errors
    /// Those of the host: it gives no thread or no process.
    pub(crate) fn start(clock: &Arc<dyn Clock>, guard: fn() -> Command) -> io::Result<Keeper> {
        let shared = Arc::new(Shared {
            state: ShortLock::default(),
            changed: WaitQueue::new(Arc::clone(clock)),
            clock: Arc::clone(clock),
        });
        let mine = Arc::clone(&shared);
        let task = clock.try_spawn("keeper", Box::new(move || mine.live(guard)))?;
        let started = shared.changed.wait_until(&shared.state, |state| state.started.take());
        match started {
            Ok(()) => Ok(Keeper { shared, task }),
            Err(error) => {
                task.join();
                Err(error)
            }
        }
    }

    /// Begins, for what is mounted at a path under this number of a device, each `seconds` (never,
    /// if there are none), while `is_written` says that a file may be written. Returns when the
    /// guard was told.
    pub(crate) fn begin(
        &self,
        target: &Path,
        device: u64,
        seconds: Option<u32>,
        is_written: impl Fn() -> bool + Send + 'static,
    ) {
        let line = [format!("{device} ").as_bytes(), target.as_os_str().as_bytes(), &[0]].concat();
        let period_ns = seconds.map(|seconds| u64::from(seconds.max(1)) * SECOND_NS);
        let kept = Kept { line, period_ns, is_written: Box::new(is_written) };
        self.shared.state.lock().kept = Some(kept);
        self.shared.changed.wake_all();
        self.shared.changed.wait_until(&self.shared.state, |state| state.is_told.then_some(()));
    }

    /// Ends it and the guard, and waits for that. The connection is to have ended before.
    pub(crate) fn end(self) {
        self.shared.state.lock().has_ended = true;
        self.shared.changed.wake_all();
        self.task.join();
    }
}

impl Shared {
    /// The life of the thread.
    fn live(&self, command: fn() -> Command) {
        let (started, guard) = match Guard::start(command) {
            Ok(guard) => (Ok(()), Some(guard)),
            Err(error) => (Err(error), None),
        };
        self.state.lock().started = Some(started);
        self.changed.wake_all();
        let Some(mut guard) = guard else { return };
        let kept = self.changed.wait_until(&self.state, |state| match state.kept.take() {
            Some(kept) => Some(Some(kept)),
            None => state.has_ended.then_some(None),
        });
        if let Some(kept) = kept {
            let mut is_there = guard.say(&kept.line);
            self.state.lock().is_told = true;
            self.changed.wake_all();
            while self.wait(kept.period_ns) {
                if !is_there && let Ok(other) = Guard::start(command) {
                    std::mem::replace(&mut guard, other).end();
                    is_there = guard.say(&kept.line);
                }
                if is_there && (kept.is_written)() {
                    is_there = guard.say(b".");
                }
            }
        }
        guard.end();
    }

    /// Waits for a time. Returns `false` at the end.
    fn wait(&self, nanoseconds: Option<u64>) -> bool {
        let has_ended = |state: &mut State| state.has_ended.then_some(());
        let Some(nanoseconds) = nanoseconds else {
            self.changed.wait_until(&self.state, has_ended);
            return false;
        };
        let deadline = self.clock.now().saturating_add(nanoseconds);
        self.changed.wait_until_deadline(&self.state, deadline, has_ended).is_none()
    }
}

/// The process.
struct Guard {
    child: Child,
    input: Option<ChildStdin>,
}

impl Guard {
    fn start(command: fn() -> Command) -> io::Result<Guard> {
        let mut command = command();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        if let Some(input) = &input {
            // One that has not ended its round is not waited for.
            fcntl_setfl(input, fcntl_getfl(input)? | OFlags::NONBLOCK)?;
        }
        Ok(Guard { child, input })
    }

    /// Returns `false` if it is not there any more.
    fn say(&mut self, bytes: &[u8]) -> bool {
        let said = self.input.as_mut().map(|input| input.write_all(bytes));
        match said {
            Some(Err(error)) => error.kind() == io::ErrorKind::WouldBlock,
            Some(Ok(())) => true,
            None => false,
        }
    }

    fn end(mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::{RealClock, Unparked, Waker, WallTime};

    /// A clock by which the keeper goes on late after a wait.
    struct Late(Arc<RealClock>);

    impl Clock for Late {
        fn now(&self) -> u64 {
            self.0.now()
        }
        fn wall(&self) -> WallTime {
            self.0.wall()
        }
        fn waker(&self) -> Waker {
            self.0.waker()
        }
        fn park(&self, deadline: Option<u64>) -> Unparked {
            let woken = self.0.park(deadline);
            if std::thread::current().name() == Some("keeper") {
                self.0.park(Some(self.0.now() + SECOND_NS / 4));
            }
            woken
        }
        fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
            self.0.spawn(name, body)
        }
        fn charge(&self, _cpu_ns: u64) {}
    }

    #[test]
    fn a_mount_has_a_guard_that_knows_of_it() {
        let clock: Arc<dyn Clock> = Arc::new(Late(RealClock::new()));
        let keeper = Keeper::start(&clock, || Command::new("cat")).expect("a guard");
        keeper.begin(Path::new("/none/such"), 7, None, || false);
        let is_taken = keeper.shared.state.lock().kept.is_none();
        keeper.end();
        assert!(is_taken, "the guard was not told of the mount");
    }
}
