//! Servers that are killed at the worst moment: while the kernel waits for what they have to
//! answer, for a thread of their own or for a process that they started.
use crate::mount::device::LoopDevice;
use crate::mount::fixture::{Bench, Mounted, done, errno, extant, has_fuse, holder_of, when_free};
use extant_testkit::skips::skip;
use extant_testkit::variables::number;
use rustix::fs::{SeekFrom, seek, statfs};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Numbers of system calls.
#[cfg(target_arch = "x86_64")]
mod call {
    pub(super) const WRITEV: &str = "20";
    pub(super) const UMOUNT: &str = "166";
    pub(super) const SYNCFS: &str = "306";
}
#[cfg(not(target_arch = "x86_64"))]
mod call {
    pub(super) const WRITEV: &str = "66";
    pub(super) const UMOUNT: &str = "39";
    pub(super) const SYNCFS: &str = "267";
}

/// What a test waits for at most. A mount that is stuck is so for ever.
const PATIENCE: Duration = Duration::from_secs(180);

fn pid(number: &str) -> Option<Pid> {
    Pid::from_raw(number.parse().ok()?)
}

fn folder_of(process: Pid) -> PathBuf {
    PathBuf::from(format!("/proc/{}", process.as_raw_nonzero()))
}

fn tasks(process: Pid) -> Vec<PathBuf> {
    let tasks = fs::read_dir(folder_of(process).join("task")).into_iter().flatten().flatten();
    tasks.map(|task| task.path()).collect()
}

/// The processes that a process has started.
fn children(process: Pid) -> Vec<Pid> {
    let lists = tasks(process).into_iter();
    let lists = lists.filter_map(|task| fs::read_to_string(task.join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(pid).collect::<Vec<_>>()).collect()
}

/// Whether a thread of a process, or of one that it started, is in a system call.
fn is_in(server: Pid, call: &str, name: &str) -> bool {
    let all = std::iter::once(server).chain(children(server)).flat_map(tasks);
    all.into_iter().any(|task| {
        let of = |file: &str| fs::read_to_string(task.join(file)).unwrap_or_default();
        of("syscall").split(' ').next() == Some(call) && of("comm").starts_with(name)
    })
}

/// Kills a server, without a chance, while a thread of that name is in that call. As long as the
/// server is stopped nobody answers, so that the call does not end. Before it dies, `then` is done.
/// Returns `false` if the server ended by itself before.
fn kill_in(server: Pid, call: &str, name: &str, then: impl FnOnce()) -> bool {
    let is_stopped = || {
        let stat = fs::read_to_string(folder_of(server).join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    loop {
        while !is_in(server, call, name) {
            if tasks(server).is_empty() {
                return false;
            }
            std::thread::yield_now();
        }
        if kill_process(server, Signal::STOP).is_err() {
            return false;
        }
        while !is_stopped() {
            if tasks(server).is_empty() {
                return false;
            }
            std::thread::yield_now();
        }
        // What was answered before it stopped has reached the caller after a while.
        rest(Duration::from_millis(20));
        if is_in(server, call, name) {
            break;
        }
        kill_process(server, Signal::CONT).expect("goes on");
    }
    then();
    kill_process(server, Signal::KILL).expect("is killed");
    true
}

fn rest(time: Duration) {
    let (_sender, receiver) = channel::<()>();
    let _ = receiver.recv_timeout(time);
}

/// Ends the connection with its value, so that a failed test leaves nothing that hangs.
struct Connection(PathBuf, PathBuf);

impl Connection {
    fn of(bench: &Bench) -> Connection {
        let line = bench.line().expect("it is mounted");
        let number = line.split(' ').nth(2).expect("a number");
        let (_, minor) = number.split_once(':').expect("a number");
        let file = Path::new("/sys/fs/fuse/connections").join(minor).join("abort");
        Connection(file, bench.inside(""))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if fs::write(&self.0, "1").is_err() {
            let _ = rustix::mount::unmount(&self.1, rustix::mount::UnmountFlags::FORCE);
        }
    }
}

/// Does it on a thread of its own until it fails; the error comes by the channel.
fn until_it_fails(
    mut work: impl FnMut() -> std::io::Result<()> + Send + 'static,
) -> Receiver<std::io::Error> {
    let (sender, receiver) = channel();
    // tidy: thread because the test goes on beside it, and gives up if it hangs
    let thread = std::thread::Builder::new().spawn(move || {
        loop {
            if let Err(error) = work() {
                let _ = sender.send(error);
                return;
            }
        }
    });
    drop(thread.expect("a thread"));
    receiver
}

/// Writes a file again and again, so that the kernel has always something to send.
fn writing(bench: &Bench) -> Receiver<std::io::Error> {
    let file = File::create(bench.inside("written")).expect("makes it");
    let bytes = vec![7; 1 << 20];
    let point = bench.point();
    until_it_fails(move || {
        (0..8).try_for_each(|at| file.write_all_at(&bytes, at << 20))?;
        // The kernel takes bytes for pages that it has without asking; for this it asks.
        statfs(&point).map(drop).map_err(Into::into)
    })
}

/// The same, and searches it for data.
fn searching(bench: &Bench) -> Receiver<std::io::Error> {
    let file = File::create(bench.inside("written")).expect("makes it");
    let bytes = vec![7; 1 << 20];
    until_it_fails(move || {
        (0..8).try_for_each(|at| file.write_all_at(&bytes, at << 20))?;
        seek(&file, SeekFrom::Data(0)).map(drop).map_err(Into::into)
    })
}

fn program() -> &'static str {
    extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant"))
}

fn keep(bench: &Bench) {
    let file = File::create(bench.inside("kept")).expect("makes it");
    file.write_all_at(b"content", 0).and_then(|()| file.sync_all()).expect("is on the device");
}

/// No program waits for ever.
fn fails(bench: &Bench, running: &Receiver<std::io::Error>) {
    let point = bench.point();
    let looking = until_it_fails(move || statfs(&point).map(drop).map_err(Into::into));
    for waits in [running, &looking] {
        let error = waits.recv_timeout(PATIENCE).expect("a call on a dead mount ends");
        // EIO: what write(2) was given, and the kernel could not send.
        assert!(matches!(error.raw_os_error(), Some(107 | 103 | 5)), "{error:?}");
    }
}

/// Nothing has the image, and it holds what was synced.
fn is_free_and_whole(bench: &Bench) {
    let image = bench.image();
    is_unlocked(&image);
    assert_eq!(extant(["replay", &image]).code, 0);
    bench.is_whole();
    assert_eq!(done(["cat", &format!("{image}:/kept")]), "content");
}

#[test]
fn a_mount_ends_when_its_server_is_killed_while_the_kernel_sends() {
    if !has_fuse() {
        return;
    }
    for _ in 0..3_u64.div_ceil(number("EXTANT_CASES")) {
        let bench = Bench::new("mount-killed-sending");
        let mounted = bench.mount("commit=1");
        let _connection = Connection::of(&bench);
        keep(&bench);
        let running = writing(&bench);
        assert!(kill_in(mounted.server(), call::SYNCFS, "", || ()));
        fails(&bench, &running);
        let told = when_free(["umount", &bench.point()]);
        assert!(told.code == 0 && told.stderr.contains("may be missing"), "{told:?}");
        assert_eq!(bench.line(), None);
        is_free_and_whole(&bench);
    }
}

/// The one thread that has to wait in the kernel for its own mount: the guard ends the connection.
#[test]
fn a_mount_ends_when_its_server_is_killed_while_it_searches() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-killed-searching");
    let mounted = bench.mount("");
    let _connection = Connection::of(&bench);
    keep(&bench);
    let running = searching(&bench);
    assert!(kill_in(mounted.server(), call::WRITEV, "seeks", || ()));
    fails(&bench, &running);
    done_with_warning(&bench);
    is_free_and_whole(&bench);
}

fn done_with_warning(bench: &Bench) {
    let told = when_free(["umount", &bench.point()]);
    assert!(told.code == 0 && told.stderr.contains("may be missing"), "{told:?}");
    assert_eq!(bench.line(), None);
}

/// The guard was killed too, as by a signal to all that run this program.
#[test]
fn umount_ends_a_mount_whose_server_cannot_end() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-killed-both");
    let mounted = bench.mount("");
    let _connection = Connection::of(&bench);
    keep(&bench);
    // Started before: a process that is started while a file of the mount is open here has it too
    // until it becomes its program, and its end of the file would wait for the dead server.
    let line = format!("read go; exec timeout -k 5 180 {} umount {}", program(), bench.point());
    let mut unmounting = Command::new("sh");
    unmounting.args(["-c", &line]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut unmounting = unmounting.spawn().expect("a shell");
    let running = searching(&bench);
    let server = mounted.server();
    let kill_guard = || {
        let guards = children(server);
        assert_eq!(guards.len(), 1, "{guards:?}");
        guards.into_iter().for_each(|guard| kill_process(guard, Signal::KILL).expect("is killed"));
    };
    assert!(kill_in(server, call::WRITEV, "seeks", kill_guard));
    unmounting.stdin.take().expect("a pipe").write_all(b"go\n").expect("it reads");
    let told: crate::mount::fixture::Told = unmounting.wait_with_output().expect("it ends").into();
    assert!(told.code == 0 && told.stderr.contains("the connection was aborted"), "{told:?}");
    assert_eq!(bench.line(), None);
    let error = running.recv_timeout(PATIENCE).expect("a call on a dead mount ends");
    assert!(matches!(error.raw_os_error(), Some(107 | 103 | 5)), "{error:?}");
    is_free_and_whole(&bench);
}

/// A guard that was killed is replaced, and the mount keeps its promise.
#[test]
fn a_guard_that_was_killed_is_replaced() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-guard");
    let mounted = bench.mount("commit=1");
    let _file = File::create(bench.inside("open")).expect("makes it");
    let server = mounted.server();
    let first = children(server);
    assert_eq!(first.len(), 1, "{first:?}");
    kill_process(first[0], Signal::KILL).expect("is killed");
    let replaced = until_it_fails(move || {
        let is_other = |guard: &Pid| *guard != first[0];
        match children(server).iter().any(is_other) {
            true => Err(std::io::Error::other("replaced")),
            false => Ok(()),
        }
    });
    replaced.recv_timeout(PATIENCE).expect("it is replaced");
    drop(_file);
    mounted.end();
}

/// A program that has a file of a dead mount open does not keep it from being taken away.
#[test]
fn a_dead_mount_in_use_is_taken_away() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-killed-busy");
    let mounted = bench.mount("");
    keep(&bench);
    let file = File::open(bench.inside("kept")).expect("opens");
    kill_process(mounted.server(), Signal::KILL).expect("is killed");
    done_with_warning(&bench);
    assert!(matches!(errno(file.sync_all()), Some(107 | 103)), "it is dead");
    is_free_and_whole(&bench);
}

/// While it unmounts a device, the kernel waits for the server to write all.
#[test]
fn an_unmount_ends_when_its_server_is_killed() {
    /// An unmount may be over before it is seen.
    const ROUNDS: usize = 20;
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-killed-unmounting");
    let Some(device) = LoopDevice::over(&[&bench.image()]) else {
        return skip("no loop devices");
    };
    let was_killed = (0..ROUNDS).any(|_| {
        done(["mount", device.path(), &bench.point()]);
        let _mounted = Mounted::of(&bench);
        let _connection = Connection::of(&bench);
        keep(&bench);
        for number in 0..16 {
            fs::write(bench.inside(&number.to_string()), vec![7; 1 << 20]).expect("writes");
        }
        let server = holder_of(Path::new(device.path()));
        kill_process(server, Signal::TERM).expect("a signal");
        let was_killed = kill_in(server, call::UMOUNT, "", || ());
        is_unlocked(device.path());
        was_killed
    });
    assert!(was_killed, "it was never seen");
    drop(device);
    // A device is detached when its last user has gone: the process that unmounted it.
    let image = bench.image();
    let detached = until_it_fails(move || {
        let listed = Command::new("losetup").args(["-j", &image]).output()?;
        match listed.stdout.is_empty() {
            true => Err(std::io::Error::other("detached")),
            false => Ok(()),
        }
    });
    detached.recv_timeout(PATIENCE).expect("the device is detached");
    is_free_and_whole(&bench);
}

/// Waits until nothing has a file or device.
fn is_unlocked(path: &str) {
    let path = PathBuf::from(path);
    let free = until_it_fails(move || match File::open(&path)?.try_lock() {
        Ok(()) => Err(std::io::Error::other("free")),
        Err(_) => Ok(()),
    });
    let error = free.recv_timeout(PATIENCE).expect("it is unlocked");
    assert_eq!(error.to_string(), "free");
}
