//! Images, mounts that end with their value, commands with a time limit.
use extant_testkit::command::is_root;
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::skip;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Seconds after which a command is killed: a mount that hangs must not hang the tests.
const SECONDS_MAX: &str = "180";

/// Whether this process may mount by FUSE; if not, a line says so.
///
/// # Panics
/// It may not, and this is the gate.
pub fn has_fuse() -> bool {
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    if device.is_ok() && is_root() {
        return true;
    }
    skip("no /dev/fuse, or not root");
    false
}

/// The command with these words, killed after a while.
pub fn command<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Command {
    let mut command = Command::new("timeout");
    command
        .args([
            "-k",
            "5",
            SECONDS_MAX,
            extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")),
        ])
        .args(words);
    command.env_remove("SOURCE_DATE_EPOCH").stdin(Stdio::null());
    command
}

/// How the command ended: its code, and what it said on both outputs.
#[derive(Debug)]
pub struct Told {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Told {
    /// Whether a mount was not taken away, since somebody uses it.
    fn is_busy(&self) -> bool {
        self.code == 32
            && self.stderr.starts_with("extant: umount: ")
            && self.stderr.contains(": is in use\n")
    }
}

impl From<Output> for Told {
    fn from(output: Output) -> Told {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Told {
            code: output.status.code().expect("it ends by itself"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// Runs the command with these words.
pub fn extant<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Told {
    command(words).output().expect("it runs").into()
}

/// Runs it; an unmount is tried again where somebody uses the mount: a process that another test
/// starts just now has our files open until it becomes its own program.
pub fn when_free<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Told {
    const ATTEMPTS: u32 = 100;
    let mut command = command(words);
    let mut run = || Told::from(command.output().expect("it runs"));
    (1..ATTEMPTS).map(|_| run()).find(|told| !told.is_busy()).unwrap_or_else(run)
}

/// Runs it, when the mount is free; it must end with 0 and say nothing on stderr. What it printed.
pub fn done<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> String {
    let told = when_free(words);
    assert!(told.code == 0 && told.stderr.is_empty(), "{told:?}");
    told.stdout
}

/// A folder with an empty image of 32 MiB and a place to mount it.
pub struct Bench {
    folder: Scratch,
}

impl Bench {
    /// ext4 with a journal.
    pub fn new(name: &str) -> Bench {
        let bench = Bench { folder: Scratch::new(name) };
        done(["mkfs", "-q", &bench.image(), "32M"]);
        std::fs::create_dir(bench.point()).expect("a folder to mount on");
        bench
    }

    /// The image's path.
    pub fn image(&self) -> String {
        self.folder.join("disk.img").display().to_string()
    }

    /// The folder that it is mounted on.
    pub fn point(&self) -> String {
        self.folder.join("point").display().to_string()
    }

    /// A path beside both.
    pub fn join(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A path in the mount.
    pub fn inside(&self, name: &str) -> PathBuf {
        self.folder.join("point").join(name)
    }

    /// Mounts it with these options, and nothing is said.
    pub fn mount(&self, options: &str) -> Mounted<'_> {
        let list = (!options.is_empty()).then_some(["-o", options]);
        let (image, point) = (self.image(), self.point());
        done(["mount", &image, &point].into_iter().chain(list.into_iter().flatten()));
        Mounted { bench: self }
    }

    /// The line of the table of mounts, if it is mounted.
    pub fn line(&self) -> Option<String> {
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("a table");
        let point = format!(" {} ", self.point());
        table.lines().rfind(|line| line.contains(&point)).map(str::to_owned)
    }

    /// The image is whole by e2fsck, and nothing has it open.
    pub fn is_whole(&self) {
        let image = PathBuf::from(self.image());
        let clock = extant_block::RealClock::new();
        let open =
            extant_block::FileDevice::open(clock, &image, extant_block::Access::ReadWrite, 0);
        drop(open.expect("nothing has it open"));
        extant_testkit::oracle::e2fsck(&image).expect("whole");
    }
}

/// A mount that is taken away with its value, whatever became of the test.
pub struct Mounted<'a> {
    bench: &'a Bench,
}

impl<'a> Mounted<'a> {
    /// What a test mounts in its own way.
    pub fn of(bench: &'a Bench) -> Mounted<'a> {
        Mounted { bench }
    }

    /// Unmounts it as users do, and judges the image.
    pub fn end(self) {
        done(["umount", &self.bench.point()]);
        assert_eq!(self.bench.line(), None);
        self.bench.is_whole();
    }

    /// The number of the server.
    pub fn server(&self) -> rustix::process::Pid {
        holder_of(Path::new(&self.bench.image()))
    }
}

/// The process that has locked a file or a device node.
///
/// # Panics
/// None is seen.
pub fn holder_of(file: &Path) -> rustix::process::Pid {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(file).expect("it is there");
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    // With its device: files in memory have small numbers, as nodes of devices have.
    let place = format!(" {major:02x}:{minor:02x}:{} ", metadata.ino());
    // The list is read in pieces, and lines are lost where locks of others end between two.
    let number = (0..100).find_map(|_| {
        let locks = std::fs::read_to_string("/proc/locks").expect("locks");
        let line = locks.lines().find(|line| line.contains(&place))?;
        line.split_whitespace().nth(4)?.parse().ok()
    });
    rustix::process::Pid::from_raw(number.expect("a lock")).expect("a process")
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        take_away(&self.bench.inside(""));
    }
}

/// Takes away what a failed test left mounted.
pub fn take_away(point: &Path) {
    let flags = rustix::mount::UnmountFlags::DETACH;
    while rustix::mount::unmount(point, flags).is_ok() {}
}

/// The number of an error.
pub fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}
