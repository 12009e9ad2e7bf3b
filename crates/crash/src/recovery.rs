//! A medium after a cut is opened, recovered, closed, and judged by those who know nothing of the
//! history: our check, and e2fsck.
use crate::base::Setting;
use crate::found::{self, FoundTree};
use crate::state::{Image, Manner};
use extant_block::{BlockDevice, MemoryDevice};
use extant_engine::{Access, Filesystem};
use extant_inspect::{CheckOptions, check};
use extant_sim::CrashLog;
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::sync::Arc;

/// A volume after its recovery.
pub struct Recovered {
    /// What it shows.
    pub found: FoundTree,
    /// What the recovery asked the device for.
    pub log: CrashLog<MemoryDevice>,
    /// What the device held before it.
    pub before: MemoryDevice,
}

impl Recovered {
    /// A number that is equal for equal media after the recovery.
    ///
    /// # Errors
    /// None is expected.
    pub fn hash(&self, before: u64) -> Result<u64, String> {
        let cut = self.log.cut(self.log.moments());
        let changes = Image::new(&cut, Manner::Prefix).hash(&self.before)?;
        Ok(before ^ changes.rotate_left(1))
    }
}

/// Opens a medium for writing, which recovers it, closes it, and reads it.
///
/// # Errors
/// What the engine refuses, what our check finds, what cannot be read: one sentence.
pub fn recover(setting: &Setting, medium: MemoryDevice) -> Result<Recovered, String> {
    let before = medium.snapshot();
    let log = Arc::new(CrashLog::new(medium));
    let writing = setting.recovery_options(Access::ReadWrite)?;
    let reading = setting.recovery_options(Access::ReadOnly)?;
    let device = || Arc::clone(&log) as Arc<dyn BlockDevice>;
    let volume = Filesystem::open(device(), &writing).map_err(|error| format!("open: {error}"))?;
    volume.close().map_err(|error| format!("close after recovery: {error}"))?;
    let report = check(device(), &CheckOptions::default()).map_err(|error| error.to_string())?;
    if let Some(problem) = report.problems.first() {
        return Err(format!("extant check: {problem} ({} in all)", report.problems.len()));
    }
    let volume = Filesystem::open(device(), &reading).map_err(|error| error.to_string())?;
    let found = found::read(&volume)?;
    drop(volume);
    let log = Arc::into_inner(log).ok_or("a volume that was closed keeps its device")?;
    Ok(Recovered { found, log, before })
}

/// What `e2fsck -fn` says of a medium, if anything.
///
/// # Errors
/// Its words.
pub fn e2fsck(medium: &MemoryDevice) -> Result<(), String> {
    let folder = Scratch::new("crash");
    let image = folder.join("volume.img");
    medium.save(&image).map_err(|error| error.to_string())?;
    oracle::e2fsck_but_advice(&image)
}
