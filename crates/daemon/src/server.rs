//! The server: from the image to the end of the mount.
use super::background::Ready;
use super::checks::{self, Hold, Opened};
use super::end_notice::EndNotice;
use super::ending::{self, Ending, Served, Start};
use super::errand;
use super::log::Log;
use super::name_of_image::NameOfImage;
use super::observer::{Observer, Timing};
use super::options::{Checks, Discards, MountOptions, Over, Replay, Sharing, Writes};
use super::points;
use super::recording::{Recorded, Records};
use extant_block::{Access, BlockDevice, Clock, FileDevice, RealClock, ShortLock, Task};
use extant_engine::{
    Access as VolumeAccess, DataKeeping, ErrorKind, Filesystem, Options as VolumeOptions, Reads,
};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image;
use extant_image::source::IdMap as WordsOfMap;
use extant_mount::greeting::Writing;
use extant_mount::serve::{IdMap, IdRange, Identities, Length, Room, Trimming};
use extant_mount::transport::{AttachError, Audience, Covering, Detach, Flag, Kind, Options};
use extant_mount::workers::Workers;
use extant_mount::{Session, Wishes};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What is to be served.
pub struct Job {
    /// The image.
    pub image: PathBuf,
    /// Where; on a folder that is made for it and removed afterwards, if none is given.
    pub folder: Option<PathBuf>,
    /// How.
    pub options: MountOptions,
    /// A program to run beside it, with its arguments; empty if there is none.
    pub program: Vec<OsString>,
    /// Where a server in the background says what it met.
    pub log: Option<PathBuf>,
    /// Where the traces go: a name, to which `.blktrace` and `.files` are added.
    pub trace: Option<PathBuf>,
    /// Where the times of requests go; `-` is standard output.
    pub timeline: Option<PathBuf>,
}

/// What a server has beside its job.
struct Context<'a> {
    console: &'a Console,
    clock: Arc<dyn Clock>,
    log: Arc<Log>,
    ending: Arc<Ending>,
    tell: Tell<'a>,
}

/// Called when the mount answers.
pub type Tell<'a> = &'a dyn Fn(&Ready, &Log) -> Result<(), Error>;

/// Serves the image until it is unmounted, and all is on its device.
///
/// # Errors
/// It cannot be mounted; what the device returned in the end.
pub fn run(job: &Job, tell: Tell<'_>, console: &Console) -> Result<Exit, Error> {
    // A worker that waits by this clock, for the device say, has another take its place.
    let clock: Arc<dyn Clock> = Workers::clock(RealClock::new());
    let traces = job.trace.iter().flat_map(|name| ["files", "blktrace"].map(|of| named(name, of)));
    let mut written = traces.chain(job.timeline.clone().filter(|path| path.as_os_str() != "-"));
    written.try_for_each(|path| checks::new_file(&path))?;
    let log = Arc::new(Log::new(console, job.log.as_deref())?);
    let ending = Arc::new(Ending::watch(Arc::clone(&log), Arc::clone(&clock))?);
    let context = Context { console, clock, log, ending, tell };
    if let Some(folder) = &job.folder {
        let folder = checks::folder(folder, job.options.over)?;
        return serve(job, &folder, Start::Here, &context);
    }
    let made = tempfile::Builder::new().prefix("extant-").tempdir();
    // Kept: what is removed in the end is an empty folder, never what is mounted on it.
    let folder = made.map_err(|error| Error::io("a folder to mount on", &error))?.keep();
    let resolved = points::resolved(&folder).map_err(|error| Error::io(folder.display(), &error));
    let done = resolved.and_then(|folder| serve(job, &folder, Start::InTheMount, &context));
    let _ = std::fs::remove_dir(&folder);
    done
}

/// Begins it, with our own hold of a device where the kernel's does not do.
fn begin_somehow(
    job: &Job,
    folder: &Path,
    hold: Hold,
    context: &Context<'_>,
) -> Result<Begun, Unbegun> {
    match begin(job, folder, hold, context) {
        // A kernel without fuseblk, or a device that something else holds: then it is said better.
        Err(Unbegun::NotMounted(_)) if hold == Hold::TheKernels => {
            begin(job, folder, Hold::Ours, context)
        }
        begun => begun,
    }
}

/// Serves it on a folder that was checked.
fn serve(job: &Job, folder: &Path, start: Start, context: &Context<'_>) -> Result<Exit, Error> {
    let hold = checks::hold(&job.image);
    let companion = match job.program.is_empty() {
        true => None,
        false => Some(Companion::prepare(job, start, context)?),
    };
    let begun = begin_somehow(job, folder, hold, context);
    let Begun { session, path, access, observer, records } = match begun {
        Ok(begun) => begun,
        Err(unbegun) => {
            companion.into_iter().for_each(Companion::dismiss);
            return Err(unbegun.into_error());
        }
    };
    let name = NameOfImage::of(&path);
    let mount = points::at(folder);
    let served = Served {
        image: job.image.display().to_string(),
        folder: folder.to_owned(),
        device: mount.as_ref().map_or(0, |mount| mount.device),
        observer: Arc::clone(&observer),
    };
    // Without it umount(1) of ours waits for the lock instead.
    let notice = mount.as_ref().map(EndNotice::listen);
    let ready = ready(&path, folder, access);
    match job.program.is_empty() {
        true => context.ending.serves(served.clone()),
        false => context.ending.serves_program(),
    }
    if let Err(error) = (context.tell)(&ready, &context.log) {
        // A caller that could not be told does not know of the mount.
        let _ = errand::unmount(folder, Detach::Lazy);
        let _ = session.serve();
        companion.into_iter().for_each(Companion::dismiss);
        return Err(error);
    }
    let (ended, outcome) = match companion {
        None => (session.serve(), Ok(Exit::Complete)),
        Some(companion) => companion.serve(session, served),
    };
    let ended = ended.map(drop).map_err(|error| failure(&job.image, error));
    // A program that ended well was not told.
    let ended = match (&outcome, observer.has_refused()) {
        (Ok(Exit::OfProgram(0)), true) => ended.and(Err(full(&job.image))),
        _ => ended,
    };
    if let (Err(error), true) = (&ended, context.log.is_alone()) {
        context.log.say(&error.message);
    }
    let lost = name.lost(folder);
    if let (Some(lost), true) = (&lost, ended.is_ok()) {
        context.log.say(lost);
    }
    let said = ended.as_ref().map(|()| lost).map_err(ToString::to_string);
    notice.into_iter().for_each(|notice| notice.say(&said));
    let reported = report(job, &observer, records.as_deref(), context);
    match ended {
        Ok(()) => reported.and(outcome),
        // Said already.
        Err(_) if context.log.is_alone() => Ok(Exit::Failure),
        Err(error) => Err(error),
    }
}

fn ready(path: &Path, folder: &Path, access: Access) -> Ready {
    Ready {
        image: path.display().to_string(),
        folder: folder.display().to_string(),
        access: match access {
            Access::ReadOnly => "read-only".to_owned(),
            Access::ReadWrite => "read-write".to_owned(),
        },
        server: std::process::id(),
    }
}

/// What a program wrote, and was not told of, is not in the image.
fn full(image: &Path) -> Error {
    let said = "not all that the program wrote has reached the image: it is full";
    Error::new(format!("{}: {said}", image.display()))
        .hint("a program learns it when it syncs; extant build --free makes room")
}

/// A mount that answers.
struct Begun {
    session: Session,
    /// The image, without links.
    path: PathBuf,
    access: Access,
    observer: Arc<Observer>,
    records: Option<Arc<Records>>,
}

/// Why a mount does not answer.
enum Unbegun {
    /// mount(2) was refused.
    NotMounted(Error),
    /// Anything else.
    Failed(Error),
}

impl Unbegun {
    fn into_error(self) -> Error {
        match self {
            Unbegun::NotMounted(error) | Unbegun::Failed(error) => error,
        }
    }
}

impl From<Error> for Unbegun {
    fn from(error: Error) -> Unbegun {
        Unbegun::Failed(error)
    }
}

/// What sees the mount.
fn observer(job: &Job, context: &Context<'_>) -> Result<Observer, Error> {
    let timing = if job.timeline.is_some() { Timing::Kept } else { Timing::NotAsked };
    let trace = job.trace.as_deref().map(|name| named(name, "files"));
    let log = Arc::clone(&context.log);
    let made = Observer::new(&job.image, log, timing, trace.as_deref());
    made.map_err(|error| Error::io(trace.unwrap_or_default().display(), &error))
}

/// A file of a trace: its name, and what it holds.
fn named(name: &Path, holds: &str) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".");
    name.push(holds);
    PathBuf::from(name)
}

/// Writes what was seen of the mount.
fn report(
    job: &Job,
    observer: &Observer,
    records: Option<&Records>,
    context: &Context<'_>,
) -> Result<(), Error> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Error::new(format!("{}: {error}", path.display()))
    };
    if let (Some(name), Some(records)) = (&job.trace, records) {
        observer.finish().map_err(|error| failed(&named(name, "files"), &error))?;
        let path = named(name, "blktrace");
        let mut file = File::create(&path).map_err(|error| Error::io(path.display(), &error))?;
        records.write(&mut file).map_err(|error| failed(&path, &error))?;
        if records.left_out() > 0 {
            let left_out = records.left_out();
            let path = path.display();
            context.log.say(&format!("{path}: {left_out} requests were too many"));
        }
    }
    let (Some(path), Some(timeline)) = (&job.timeline, observer.timeline()) else { return Ok(()) };
    let text = match context.console.is_json() {
        true => serde_json::to_string(&timeline).map(|text| text + "\n"),
        false => Ok(timeline.to_text()),
    };
    let text = text.map_err(|error| failed(path, &error))?;
    match path.as_os_str() == "-" {
        true => context.console.print(&text),
        false => std::fs::write(path, text).map_err(|error| Error::io(path.display(), &error)),
    }
}

/// Opens the volume and mounts it.
fn begin(job: &Job, folder: &Path, hold: Hold, context: &Context<'_>) -> Result<Begun, Unbegun> {
    let options = &job.options;
    let opened = checks::open(&job.image, options, hold, context.console)?;
    let Opened { device, path, access, length } = opened;
    let observer = Arc::new(observer(job, context)?);
    let (device, records) = match &job.trace {
        None => (device, None),
        Some(_) => {
            let (recorded, records) = Recorded::new(device);
            (Arc::new(recorded) as Arc<dyn BlockDevice>, Some(records))
        }
    };
    let filesystem = filesystem(job, device, access)?;
    if access == Access::ReadWrite && options.discards == Discards::Told {
        filesystem.discard_freed();
    }
    let mut wishes = wishes(options, &path, access);
    wishes.settings.room = Room(length.map(|file| Arc::new(Whole(file)) as Arc<dyn Length>));
    let block_bytes = filesystem.superblock().block_size();
    if hold == Hold::TheKernels && block_bytes <= PAGE_BYTES {
        wishes.options.kind = Kind::Block { block_bytes };
        wishes.options.source = path.clone().into();
    } else if hold == Hold::TheKernels {
        let error = Error::new(format!("{}: blocks larger than a page", path.display()));
        filesystem.close().map_err(|error| image::failure(&job.image, error))?;
        return Err(Unbegun::NotMounted(error));
    }
    let clock = Arc::clone(&context.clock);
    match Session::begin(filesystem, clock, folder, &wishes, Some(observer.clone())) {
        Ok(session) => Ok(Begun { session, path, access, observer, records }),
        Err(error @ extant_mount::Error::Attach(AttachError::Mount { .. })) => {
            Err(Unbegun::NotMounted(failure(&job.image, error)))
        }
        Err(error) => Err(Unbegun::Failed(failure(&job.image, error))),
    }
}

/// A volume that is all of a file or device.
struct Whole(Arc<FileDevice>);

impl Length for Whole {
    fn bytes(&self) -> io::Result<u64> {
        Ok(rustix::fs::seek(self.0.file(), rustix::fs::SeekFrom::End(0))?)
    }
    fn lengthen(&self, bytes: u64) -> io::Result<()> {
        if self.bytes()? < bytes {
            // A block device is as long as it is: the host says so.
            self.0.file().set_len(bytes)?;
        }
        self.0.set_bytes(bytes.max(self.0.info().bytes));
        Ok(())
    }
    fn shorten(&self, bytes: u64) -> io::Result<()> {
        self.0.set_bytes(bytes);
        self.0.file().set_len(bytes)
    }
}

/// Opens the volume.
fn filesystem(
    job: &Job,
    device: Arc<dyn BlockDevice>,
    access: Access,
) -> Result<Filesystem, Error> {
    let options = &job.options;
    let policies = options.policies().map_err(|error| Error::usage(error.to_string()))?;
    let volume = VolumeOptions {
        access: match access {
            Access::ReadOnly => VolumeAccess::ReadOnly,
            Access::ReadWrite => VolumeAccess::ReadWrite,
        },
        policies,
        cache_bytes: usize::try_from(options.cache_bytes).unwrap_or(usize::MAX),
        data: DataKeeping::Bytes,
    };
    Filesystem::open(device, &volume).map_err(|error| {
        let is_of_cache = matches!(error.kind, ErrorKind::CacheTooSmall { .. });
        let error = image::failure(&job.image, error);
        match (access, &error.hint) {
            (Access::ReadWrite, None) if !is_of_cache => error.hint("-o ro may mount it read-only"),
            _ => error,
        }
    })
}

/// The largest block that the kernel takes for a mount of a block device.
const PAGE_BYTES: u32 = 4096;

/// The options in the server's words.
fn wishes(options: &MountOptions, source: &Path, access: Access) -> Wishes {
    let flags = &options.flags;
    let source = options.name.as_ref().map_or_else(|| source.into(), OsString::from);
    let mut mount = Options::new(source, access);
    mount.audience = match (options.sharing, options.checks) {
        (Sharing::AllUsers, _) => Audience::Everyone,
        (Sharing::OneUser, Checks::Kernel) => Audience::MounterChecked,
        (Sharing::OneUser, Checks::None) => Audience::Mounter,
    };
    mount.flags = [
        (flags.no_devices, Flag::NoDevices),
        (flags.no_set_id, Flag::NoSetUser),
        (flags.no_execute, Flag::NoPrograms),
        (flags.no_access_times, Flag::NoAccessTimes),
        (flags.no_directory_access_times, Flag::NoDirectoryAccessTimes),
        (flags.no_symbolic_links, Flag::NoSymbolicLinks),
        (flags.synchronous, Flag::Synchronous),
        (flags.synchronous_directories, Flag::DirectorySynchronous),
    ]
    .into_iter()
    .filter_map(|(is_set, flag)| is_set.then_some(flag))
    .collect();
    mount.read_bytes_max = options.read_bytes_max;
    if checks::has_labels() {
        mount.labels = options.labels().to_vec();
    }
    mount.covering = match options.over {
        Over::Empty => Covering::EmptyOnly,
        Over::Anything => Covering::Anything,
    };
    let mut wishes = Wishes::new(mount);
    wishes.writing = match options.writes {
        Writes::Back => Writing::Cached,
        Writes::Through => Writing::Through,
    };
    wishes.workers = options.workers;
    wishes.idle = options.idle;
    wishes.settings.xattrs = options.xattrs;
    wishes.settings.trimming = match (access, options.replay) {
        (Access::ReadOnly, Replay::Done) => Trimming::Nothing,
        (Access::ReadOnly, Replay::LeftOut) => Trimming::Refused,
        (Access::ReadWrite, _) => Trimming::Done,
    };
    wishes.settings.masks = options.masks;
    wishes.settings.reserve = options.reserve;
    wishes.settings.reads = match flags.no_directory_access_times {
        true => Reads::ListingsUnnoted,
        false => Reads::Noted,
    };
    wishes.send_seconds = match access {
        Access::ReadOnly => None,
        Access::ReadWrite => options.send_seconds(),
    };
    wishes.guard = (access == Access::ReadWrite).then_some(errand::guard);
    wishes.settings.identities = Identities {
        users: id_map(options.uid, &options.map_users),
        groups: id_map(options.gid, &options.map_groups),
    };
    wishes
}

fn id_map(all: Option<u32>, ranges: &[WordsOfMap]) -> IdMap {
    match all {
        Some(number) => IdMap::All(number),
        None if ranges.is_empty() => IdMap::Same,
        None => IdMap::Ranges(
            ranges
                .iter()
                .map(|map| IdRange { inside: map.from, outside: map.to, count: map.count })
                .collect(),
        ),
    }
}

/// The thread that runs a program beside a mount, unmounts when that ends, and is there before the
/// mount: the host may have none to give.
struct Companion {
    task: Task,
    served: Arc<OnceLock<Option<Served>>>,
    code: Arc<ShortLock<Result<Exit, Error>>>,
}

impl Companion {
    fn prepare(job: &Job, start: Start, context: &Context<'_>) -> Result<Companion, Error> {
        let served: Arc<OnceLock<Option<Served>>> = Arc::default();
        let code = Arc::new(ShortLock::new(Ok(Exit::Complete)));
        let (words, form) = (job.program.clone(), context.console.form);
        let (log, ending) = (Arc::clone(&context.log), Arc::clone(&context.ending));
        let (awaited, of_program) = (Arc::clone(&served), Arc::clone(&code));
        let run = move || {
            let Some(served) = awaited.wait().clone() else { return };
            let ended = ending::run(&words, &served.folder, start, form, &ending);
            *of_program.lock() = ended.map(Exit::OfProgram);
            ending::unmount_after_program(&served, &log);
            ending.serves(served);
        };
        let task = context.clock.try_spawn("program", Box::new(run));
        let task = task.map_err(|error| ending::no_thread(&error))?;
        Ok(Companion { task, served, code })
    }

    /// There is no mount for it.
    fn dismiss(self) {
        // It is set once: here or in `serve`.
        let _ = self.served.set(None);
        self.task.join();
    }

    /// Serves beside the program, and waits for the end of the mount.
    fn serve(
        self,
        session: Session,
        served: Served,
    ) -> (Result<extant_mount::workers::Ending, extant_mount::Error>, Result<Exit, Error>) {
        // As above.
        let _ = self.served.set(Some(served));
        let ended = session.serve();
        self.task.join();
        let outcome = std::mem::replace(&mut *self.code.lock(), Ok(Exit::Complete));
        (ended, outcome)
    }
}

/// What the server says, for the user.
fn failure(image: &Path, error: extant_mount::Error) -> Error {
    match error {
        extant_mount::Error::Attach(error) => {
            let failure = Error::new(error.to_string());
            let failure = match error {
                AttachError::NoDevice | AttachError::NoFusermount => failure.exit(Exit::System),
                AttachError::Device(_) | AttachError::OthersNotAllowed => failure.exit(Exit::Usage),
                _ => failure,
            };
            Error { hint: error.hint(), ..failure }
        }
        extant_mount::Error::Volume(error) => image::failure(image, error),
        extant_mount::Error::Thread(error) => ending::no_thread(&error),
        error => Error::new(format!("{}: {error}", image.display())),
    }
}
