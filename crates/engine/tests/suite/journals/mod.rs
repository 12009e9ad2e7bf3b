//! Journals between the kernel, e2fsck and us: each replays what the others wrote, and all find the
//! same volume.
//!
//! ```text
//! theirs   logs of a kernel that was shut down under load, and of debugfs: replayed by us
//! ours     our log, cut anywhere: replayed by the kernel and by e2fsck
//! life     what is done on the volume that is cut
//! ```
mod life;
mod ours;
pub(crate) mod theirs;

use extant_block::{BlockDevice, FileDevice, RealClock, file};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use extant_testkit::compare::{self, Field};
use extant_testkit::journals;
use extant_testkit::variables::chosen;
use extant_testkit::walk::Entry;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of the environment.
/// Does `work` for each number from 0 to `count` on two threads; the faults that it returned.
fn faults_of(count: u64, work: impl Fn(u64) -> Result<(), String> + Sync) -> Vec<String> {
    const THREADS: usize = 2;
    let (next, faults) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let number = next.fetch_add(1, Ordering::Relaxed)
                    && number < count
                {
                    if let Err(fault) = work(number) {
                        eprintln!("{fault}");
                        faults.lock().expect("no panic").push(fault);
                    }
                }
            });
        }
    });
    faults.into_inner().expect("no panic")
}

/// Copies a volume on which something failed to the folder `EXTANT_KEEP`, if there is one.
fn keep(image: &Path) {
    if let (Some(folder), Some(name)) = (chosen("EXTANT_KEEP"), image.file_name()) {
        let _ = std::fs::copy(image, Path::new(&folder).join(name));
    }
}

fn options(policies: &str) -> Options {
    let policies: Policies = policies.parse().expect("such policies");
    Options { access: Access::ReadWrite, policies, cache_bytes: 4 << 20, data: DataKeeping::Bytes }
}

/// Replays the full commits of the log, and nothing else.
fn apply(image: &Path) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("our replay: {error}");
    let device = FileDevice::open(RealClock::new(), image, file::Access::ReadWrite, 0)
        .map_err(|error| failed(&error))?;
    extant_journal::apply(Arc::new(device)).map(drop).map_err(|error| failed(&error))
}

/// Opens the volume for writing, which recovers it, and closes it.
fn recover(image: &Path) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("our recovery: {error}");
    let device = FileDevice::open(RealClock::new(), image, file::Access::ReadWrite, 0)
        .map_err(|error| failed(&error))?;
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let volume = Filesystem::open(device, &options("modern")).map_err(|error| failed(&error))?;
    volume.close().map_err(|error| failed(&error))
}

/// The tree of a volume that we recovered: nothing is left to replay, e2fsck finds nothing wrong.
fn recovered(image: &Path) -> Result<Vec<Entry>, String> {
    recover(image)?;
    if journals::needs_recovery(image)? {
        return Err("our recovery left a log to replay".to_owned());
    }
    journals::clean(image).map_err(|said| format!("after our recovery: {said}"))?;
    journals::tree(image)
}

/// Compares two trees in everything but where holes are.
fn same(what: &str, left: &[Entry], right: &[Entry]) -> Result<(), String> {
    const SHOWN: usize = 3;
    let mut options = compare::Options::same_image();
    options.fields.remove(&Field::Holes);
    let found = compare::entries(left, right, &options);
    if found.is_empty() {
        return Ok(());
    }
    let some: Vec<String> = found.iter().take(SHOWN).map(ToString::to_string).collect();
    Err(format!("{what}: {} differences: {}", found.len(), some.join("; ")))
}
