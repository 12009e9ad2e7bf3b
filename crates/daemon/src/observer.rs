//! What is seen of a mount while it serves: errors, requests for a trace, times of requests.
//!
//! *Locking*: the trace and the times are each under a short lock of their own, taken one after
//! the other, held while one line is written to memory or one time is added.
use super::log::Log;
use extant_block::device::Operation as DeviceOperation;
use extant_block::{DeviceError, ShortLock};
use extant_chart::beside;
use extant_engine::ErrorKind;
use extant_lab::session::{Call, FileRecord, HEAD, Name, write_line};
use extant_mount::protocol::numbers::set;
use extant_mount::protocol::request::DataOnly;
use extant_mount::protocol::{Errno, Operation, Request};
use extant_mount::serve::{Outcome, Watch};
use extant_sim::device::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Sees what a mount does.
pub struct Observer {
    image: String,
    log: Arc<Log>,
    /// Kinds of errors that were said.
    failures: AtomicU8,
    answered: AtomicU64,
    times: Option<ShortLock<BTreeMap<String, Times>>>,
    trace: Option<ShortLock<Trace>>,
}

/// A file trace that is written.
struct Trace {
    writer: BufWriter<File>,
    /// The first failure; nothing is written after it.
    failed: Option<io::Error>,
}

/// The requests of one kind.
#[derive(Default)]
struct Times {
    errors: u64,
    bytes: u64,
    took: Histogram,
}

/// Whether requests are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// They are.
    Kept,
    /// They are not.
    NotAsked,
}

impl Observer {
    /// Says errors in the log; writes requests to a new file of this name.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(
        image: &Path,
        log: Arc<Log>,
        timing: Timing,
        trace: Option<&Path>,
    ) -> io::Result<Observer> {
        let trace = trace.map(|path| {
            let mut writer = BufWriter::new(File::create(path)?);
            writeln!(writer, "{HEAD}")?;
            Ok::<_, io::Error>(ShortLock::new(Trace { writer, failed: None }))
        });
        Ok(Observer {
            image: image.display().to_string(),
            log,
            failures: AtomicU8::new(0),
            answered: AtomicU64::new(0),
            times: (timing == Timing::Kept).then(ShortLock::default),
            trace: trace.transpose()?,
        })
    }

    /// Requests that were answered so far.
    pub fn answered_so_far(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Whether something that programs wrote, and were not told of, did not reach the image: for
    /// want of room.
    pub fn has_refused(&self) -> bool {
        self.failures.load(Ordering::Relaxed) & REFUSED != 0
    }

    /// Finishes the trace.
    ///
    /// # Errors
    /// The first that writing it met.
    pub fn finish(&self) -> io::Result<()> {
        let Some(trace) = &self.trace else { return Ok(()) };
        let mut trace = trace.lock();
        match trace.failed.take() {
            Some(error) => Err(error),
            None => trace.writer.flush(),
        }
    }

    /// The times of requests, by kind; `None` if they are not kept.
    pub fn timeline(&self) -> Option<Timeline> {
        let times = self.times.as_ref()?.lock();
        let line = |(call, times): (&String, &Times)| Line {
            call: call.clone(),
            count: times.took.count(),
            errors: times.errors,
            bytes: times.bytes,
            total_ns: u64::try_from(times.took.sum()).unwrap_or(u64::MAX),
            mean_ns: times.took.mean(),
            median_ns: times.took.permille(500),
            p99_ns: times.took.permille(990),
            max_ns: times.took.max(),
        };
        let mut lines: Vec<Line> = times.iter().map(line).collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.total_ns));
        Some(Timeline {
            schema: "extant-mount-timeline/1",
            image: self.image.clone(),
            calls: lines,
        })
    }
}

impl Watch for Observer {
    fn answered(&self, request: &Request<'_>, outcome: &Outcome) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        if self.times.is_none() && self.trace.is_none() {
            return;
        }
        let Some(call) = call(&request.operation, outcome) else { return };
        let took_ns = outcome.ended.saturating_sub(outcome.began);
        if let Some(times) = &self.times {
            let mut times = times.lock();
            let times = times.entry(call.kind().to_owned()).or_default();
            times.errors += u64::from(outcome.error != 0);
            times.bytes += outcome.bytes;
            times.took.add(took_ns);
        }
        if let Some(trace) = &self.trace {
            let (at_ns, node) = (outcome.began, request.node);
            let error = match call {
                // The kernel is told that the name is absent without an error, and keeps that.
                Call::Lookup { found: None, .. } if outcome.error == 0 => Errno::NOT_FOUND.0,
                _ => outcome.error,
            };
            let record = FileRecord { at_ns, took_ns, node, error, call };
            let mut trace = trace.lock();
            if trace.failed.is_none() {
                trace.failed = write_line(&record, &mut trace.writer).err();
            }
        }
    }

    fn failed(&self, error: &extant_engine::Error) {
        let kind = failure_kind(error);
        // Each kind once: what follows is mostly the same.
        if self.failures.fetch_or(kind, Ordering::Relaxed) & kind == 0 {
            let effect = if kind == WRITE_FAILED { "; no change is taken any more" } else { "" };
            // The device's name is the image's.
            let head = format!("{}: ", self.image);
            let error = error.to_string();
            let reason = error.strip_prefix(&head).unwrap_or(&error);
            self.log.say(&format!("{head}{reason}{effect}"));
        }
    }

    fn left_out(&self, directory: u32, name: &extant_engine::DirectoryEntry) {
        let stored = name.stored.as_deref().unwrap_or(&name.name).escape_ascii();
        self.log.say(&format!(
            "{}: directory inode {directory} has a name that no file may have: \"{stored}\" \
             (inode {}); it is not shown",
            self.image, name.ino.0
        ));
    }
}

/// Kinds of errors that no program asked for: a bit each.
const DAMAGED: u8 = 1;
const READ_FAILED: u8 = 2;
const WRITE_FAILED: u8 = 4;
const REFUSED: u8 = 8;

fn failure_kind(error: &extant_engine::Error) -> u8 {
    let error = match &error.kind {
        ErrorKind::Device(error) => error,
        ErrorKind::NoSpace { .. } => return REFUSED,
        _ => return DAMAGED,
    };
    let device = error.get_ref().and_then(|error| error.downcast_ref::<DeviceError>());
    match device.map(|error| error.operation) {
        Some(DeviceOperation::Read) => READ_FAILED,
        Some(DeviceOperation::Write | DeviceOperation::Flush) | None => WRITE_FAILED,
    }
}

/// The times of a mount's requests, those that took most first.
#[derive(Serialize)]
pub struct Timeline {
    schema: &'static str,
    image: String,
    calls: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    call: String,
    count: u64,
    errors: u64,
    bytes: u64,
    total_ns: u64,
    mean_ns: u64,
    median_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

impl Timeline {
    /// As a table for people: times in microseconds.
    pub fn to_text(&self) -> String {
        let micros = |ns: u64| format!("{}.{}", ns / 1000, ns / 100 % 10);
        let row = |cells: [&str; 8]| {
            let head = format!("{:<18}", cells[0]);
            let rest: String = cells[1..].iter().map(|cell| format!("{cell:>12}")).collect();
            beside(&head, rest.trim_end(), 110)
        };
        let mut text = row([
            "request",
            "count",
            "errors",
            "bytes",
            "mean us",
            "median us",
            "p99 us",
            "max us",
        ]);
        for line in &self.calls {
            text.push_str(&row([
                &line.call,
                &line.count.to_string(),
                &line.errors.to_string(),
                &line.bytes.to_string(),
                &micros(line.mean_ns),
                &micros(line.median_ns),
                &micros(line.p99_ns),
                &micros(line.max_ns),
            ]));
        }
        text
    }
}

/// A request in the words of the laboratory; `None` for those that ask for nothing.
fn call(operation: &Operation<'_>, outcome: &Outcome) -> Option<Call> {
    let name = |bytes: &[u8]| Name(bytes.to_vec());
    let made = outcome.node.filter(|node| *node != 0);
    Some(match operation {
        Operation::Forget { .. } | Operation::BatchForget { .. } => return None,
        Operation::Interrupt { .. } | Operation::Init { .. } | Operation::Destroy => return None,
        Operation::Lookup { name: of } => Call::Lookup { name: name(of), found: made },
        Operation::Create { arguments, name: of } => {
            Call::Create { name: name(of), mode: arguments.mode, made }
        }
        Operation::TemporaryFile { arguments } => {
            Call::CreateNameless { mode: arguments.mode, made }
        }
        Operation::MakeNode { arguments, name: of } => {
            Call::MakeNode { name: name(of), mode: arguments.mode, made }
        }
        Operation::MakeDirectory { arguments, name: of } => {
            Call::MakeNode { name: name(of), mode: DIRECTORY | arguments.mode, made }
        }
        Operation::SymbolicLink { name: of, target } => {
            Call::MakeSymlink { name: name(of), target: name(target), made }
        }
        Operation::Link { node, name: of } => Call::Link { from: *node, name: name(of) },
        Operation::Unlink { name: of } => Call::Unlink { name: name(of) },
        Operation::RemoveDirectory { name: of } => Call::RemoveDirectory { name: name(of) },
        Operation::Rename { name: of, to, to_name, flags } => {
            Call::Rename { name: name(of), to: *to, to_name: name(to_name), flags: *flags }
        }
        _ => return Some(call_of_file(operation)),
    })
}

/// The type of a directory in a mode.
const DIRECTORY: u32 = 0o040_000;

/// The same, for requests about open files and attributes.
fn call_of_file(operation: &Operation<'_>) -> Call {
    let other = |what: &str| Call::Other { what: what.to_owned() };
    match operation {
        Operation::Open(_) => Call::Open,
        Operation::Release { .. } => Call::Close,
        Operation::Read(read) => Call::Read { offset: read.offset, bytes: read.size.into() },
        Operation::Write { arguments, data } => {
            Call::Write { offset: arguments.offset, bytes: data.len() as u64 }
        }
        Operation::SetAttributes(arguments) if arguments.valid & set::SIZE != 0 => {
            Call::SetSize { size: arguments.size }
        }
        Operation::SetAttributes(_) => other("set-attributes"),
        Operation::Allocate(arguments) => Call::Allocate {
            offset: arguments.offset,
            bytes: arguments.length,
            mode: arguments.mode,
        },
        Operation::Sync { data_only: DataOnly::Yes, .. } => Call::SyncData,
        Operation::Sync { .. } | Operation::SyncDirectory { .. } => Call::Sync,
        Operation::SyncFileSystem => Call::SyncAll,
        Operation::ReadDirectory(read) | Operation::ReadDirectoryPlus(read) => {
            Call::List { cookie: read.offset }
        }
        Operation::GetAttributes { .. } => Call::Stat,
        Operation::ReadLink => Call::ReadLink,
        Operation::StatFs => Call::StatFs,
        Operation::SetXattr { .. } => other("set-xattr"),
        Operation::GetXattr { .. } => other("get-xattr"),
        Operation::ListXattr { .. } => other("list-xattr"),
        Operation::RemoveXattr { .. } => other("remove-xattr"),
        Operation::Ioctl { .. } => other("ioctl"),
        Operation::Seek(_) => other("seek"),
        Operation::CopyRange(..) => other("copy-range"),
        Operation::Flush { .. } => other("flush"),
        Operation::Access { .. } => other("access"),
        _ => other("other"),
    }
}
