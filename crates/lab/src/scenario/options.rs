//! How a scenario is run: where, with what in place of what its file says, and what is recorded.
use super::processor::Processor;
use crate::wanted::Wanted;
use extant_block::MemoryDevice;
use extant_sim::device::{SimDevice, TraceKeeping};
use extant_sim::drive::file::DriveSpec;
use serde::Deserialize;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// What is different from what the file says.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Where it runs.
    pub target: Target,
    /// The first file system is a copy of this image, and is not made anew. Steps with
    /// `skip_on_image` are left out.
    pub image: Option<PathBuf>,
    /// What is on the first drive to begin with: what another run left there. File systems on it
    /// are not made anew, and steps with `skip_on_image` are left out.
    pub prepared: Option<Prepared>,
    /// Whether the report says where everything was before and after.
    pub layouts: Layouts,
    /// In place of every drive.
    pub drive: Option<DriveSpec>,
    /// Policies of every file system: a preset with columns, or columns alone to be changed in
    /// those of the file.
    pub policies: Option<String>,
    /// What all file systems are charged for, whatever their presets.
    pub processor: Option<&'static Processor>,
    /// In place of the file's.
    pub seed: Option<u64>,
    /// All counts of steps and trees are divided by this; 0 counts as 1.
    pub scale: u64,
    /// Whether the report holds every command.
    pub trace: TraceKeeping,
    /// Asked before each call: a run that is not wanted any more ends with an error.
    pub wanted: Wanted,
}

/// What is on a drive: what one run left, to begin others with. It does not change, and takes its
/// memory once.
#[derive(Clone)]
pub struct Prepared(pub(super) Arc<SimDevice>);

impl Prepared {
    /// A copy; quick, for what does not change is shared.
    pub(super) fn contents(&self) -> MemoryDevice {
        self.0.contents().snapshot()
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({} bytes)", self.0.contents().resident_bytes())
    }
}

/// Whether it is recorded where everything is before the first process and in the end: reading a
/// volume of millions of files takes seconds of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layouts {
    /// It is.
    #[default]
    Recorded,
    /// Only where a step says so.
    AtSteps,
    /// It is, and wherever a step says so, with a map of each for a page to draw.
    Drawn,
}

/// Where a scenario runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Target {
    /// On its drives, in virtual time.
    #[default]
    Virtual,
    /// On a file or device of the host, in real time. The scenario has one file system or one bare
    /// drive.
    Real {
        /// Which; a file that does not exist is made.
        path: PathBuf,
        /// What happens to what it holds.
        existing: Existing,
    },
}

/// What happens to what a file or device of the host holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// It is refused, unless it is empty.
    Keep,
    /// It is lost.
    Overwrite,
}
