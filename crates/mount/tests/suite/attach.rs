//! Mounts of a small server, as root and by fusermount3, and what is said where there is none.
//!
//! A target that cannot be mounted is refused everywhere; the mounts themselves need /dev/fuse, and
//! are skipped with a line without it.
use extant_block::{Access, Clock, RealClock};
use extant_mount::greeting::{Agreement, Wishes, greet};
use extant_mount::protocol::{Errno, Operation, Reply, Request, numbers, wire};
use extant_mount::serve::Serve;
use extant_mount::transport::{
    AttachError, Audience, Detach, DetachError, Flag, Options, Transport, attach, detach,
};
use extant_mount::workers::{Ending, Settings, Workers};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of this test, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("extant-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Folder(path.canonicalize().expect("a path"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = detach(&self.0, Detach::Lazy);
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// An empty directory; a file whose name is asked for in it has no sense and panics.
struct Empty;

impl Serve for Empty {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>, _space: &mut Vec<u8>) {
        match request.operation {
            Operation::GetAttributes { .. } => reply.value(&wire::AttributesReply {
                attributes: wire::Attributes {
                    ino: 1,
                    mode: 0o40755,
                    links: 2,
                    block_size: 4096,
                    ..Default::default()
                },
                ..Default::default()
            }),
            Operation::Lookup { name: b"broken" } => panic!("a name without sense"),
            Operation::Lookup { .. } => reply.error(Errno::NOT_FOUND),
            Operation::OpenDirectory(_) => reply.value(&wire::OpenReply::default()),
            Operation::ReadDirectory(_) | Operation::ReadDirectoryPlus(_) => reply.done(),
            Operation::ReleaseDirectory { .. } => reply.done(),
            Operation::Forget { .. } | Operation::BatchForget { .. } => reply.none(),
            _ => reply.error(Errno::NOT_IMPLEMENTED),
        }
    }
}

fn can_mount() -> bool {
    let can = Path::new("/dev/fuse").exists();
    if !can {
        extant_testkit::skips::skip("no /dev/fuse");
    }
    can
}

fn serve(target: &Path, options: &Options) -> (Arc<dyn Transport>, Workers, Agreement) {
    let attached = attach(target, options).expect("mounted");
    assert_eq!(attached.target(), target);
    let transport: Arc<dyn Transport> = Arc::new(attached.into_device());
    let agreement = greet(&*transport, &Wishes::default()).expect("agreed");
    let clock: Arc<dyn Clock> = RealClock::new();
    let mut settings = Settings::new(agreement.write_bytes_max);
    settings.workers = 3;
    let workers = Workers::start(clock, Arc::clone(&transport), Arc::new(Empty), settings);
    (transport, workers.expect("threads"), agreement)
}

/// The line of the table of mounts for this target.
fn shown(target: &Path) -> Option<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("a table");
    let target = target.to_string_lossy();
    table.lines().find(|line| line.split(' ').nth(4) == Some(&target)).map(str::to_owned)
}

#[test]
fn a_mount_answers_is_shown_with_its_image_and_goes_away() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new("answers");
    let mut options = Options::new("/tmp/an image,with a comma", Access::ReadOnly);
    options.flags = vec![Flag::NoDevices, Flag::NoPrograms];
    let (_, workers, agreement) = serve(&folder.0, &options);
    assert!(agreement.has(numbers::init::WRITE_BACK_CACHE));
    assert_eq!(std::fs::read_dir(&folder.0).expect("listed").count(), 0);
    let line = shown(&folder.0).expect("in the table");
    for word in [" - fuse.extant /tmp/an\\040image,with\\040a\\040comma ro", "nodev", "noexec"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    let busy = std::fs::File::open(&folder.0).expect("open");
    let error = detach(&folder.0, Detach::WhenFree).expect_err("in use");
    assert!(matches!(error, DetachError::Busy(_)) && error.hint().is_some(), "{error}");
    drop(busy);
    detach(&folder.0, Detach::WhenFree).expect("unmounted");
    assert_eq!(workers.join().expect("served"), Ending::Unmounted);
    assert_eq!(shown(&folder.0), None);
    let error = detach(&folder.0, Detach::WhenFree).expect_err("not there");
    assert!(matches!(error, DetachError::NotMounted(_)), "{error}");
}

#[test]
fn a_lazy_end_waits_for_the_last_file() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new("lazy");
    let (_, workers, _) = serve(&folder.0, &Options::new("x", Access::ReadWrite));
    let open = std::fs::File::open(&folder.0).expect("open");
    detach(&folder.0, Detach::Lazy).expect("detached");
    assert_eq!(shown(&folder.0), None);
    assert!(open.metadata().expect("still served").is_dir());
    drop(open);
    assert_eq!(workers.join().expect("served"), Ending::Unmounted);
}

#[test]
fn a_panic_fails_the_request_and_ends_the_mount_for_all() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new("broken");
    let (_, workers, _) = serve(&folder.0, &Options::new("x", Access::ReadWrite));
    let error = std::fs::metadata(folder.0.join("broken")).expect_err("broken");
    assert!(error.raw_os_error().is_some());
    let said = workers.join().expect_err("a panic").to_string();
    assert!(said.contains("a name without sense"), "{said}");
    // No program hangs: what is asked now fails at once.
    assert!(std::fs::metadata(folder.0.join("other")).is_err());
}

#[test]
fn a_connection_that_is_cut_ends_the_workers() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new("cut");
    let (transport, workers, _) = serve(&folder.0, &Options::new("x", Access::ReadWrite));
    transport.abort().expect("cut");
    let ending = workers.join().expect("no error");
    assert!(matches!(ending, Ending::Aborted | Ending::Unmounted));
}

#[test]
fn a_mount_without_its_server_is_named_as_such() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new("stale");
    drop(attach(&folder.0, &Options::new("x", Access::ReadWrite)).expect("mounted"));
    let error = attach(&folder.0, &Options::new("x", Access::ReadWrite)).err().expect("stale");
    assert!(matches!(error, AttachError::Stale(_)), "{error}");
    assert!(error.hint().expect("a hint").contains("-u"));
}

#[test]
fn a_target_that_cannot_be_covered_is_refused_with_a_hint() {
    let folder = Folder::new("refused");
    let options = Options::new("x", Access::ReadWrite);
    let refused = |target: &Path| {
        let error = attach(target, &options).err().expect("refused");
        assert_eq!(error.to_string().lines().count(), 1);
        assert!(error.to_string().starts_with(&*target.to_string_lossy()), "{error}");
        error
    };
    let missing = folder.0.join("missing");
    assert!(refused(&missing).hint().expect("a hint").contains("mkdir"));
    let file = folder.0.join("file");
    std::fs::write(&file, "x").expect("a file");
    assert!(matches!(refused(&file), AttachError::NotDirectory(_)));
    assert!(matches!(refused(&folder.0), AttachError::NotEmpty(_)));
    std::fs::remove_file(&file).expect("removed");
    if can_mount() {
        let mut everyone = options.clone();
        everyone.audience = Audience::Everyone;
        let (_, workers, _) = serve(&folder.0, &everyone);
        assert!(shown(&folder.0).expect("shown").contains("allow_other"));
        detach(&folder.0, Detach::WhenFree).expect("unmounted");
        workers.join().expect("served");
    }
}
