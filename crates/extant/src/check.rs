//! Whether a volume is what its own metadata says it is.
use crate::error::Result;
use crate::image::Image;
use crate::opening;
use crate::options::Options;
use extant_block::Access;
use extant_engine::{judged, without_orphans};
use extant_inspect::{CheckOptions, ReadOrder, SuperblockPlace, SurveyOptions};
use std::num::NonZeroU32;
use std::sync::Arc;

pub use extant_inspect::{
    CheckReport as Report, Code, LayoutReport, Listener as CheckListener, Problem,
    Progress as CheckProgress, Severity,
};

/// Checks a volume, as `extant check` does: as it is after a replay of its journal and without
/// inodes that wait to be freed, in memory. Nothing is written.
///
/// ```
/// # fn main() -> extant::Result<()> {
/// # let memory = extant::Memory::new();
/// # extant::Builder::new().build_memory(&memory)?;
/// let report = extant::check(memory)?;
/// for problem in &report.problems {
///     println!("{}: {problem} [{}]", problem.rule().severity, problem.rule().name);
/// }
/// assert!(report.is_clean());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The image cannot be read. That it is damaged, or no volume, is in the report, with the codes of
/// docs/CHECK.md.
pub fn check(image: impl Into<Image>) -> Result<Report> {
    Options::default().check(image)
}

impl Options {
    /// Checks a volume, as [`check`] does; nothing is written, whatever [`write`](Options::write)
    /// says.
    ///
    /// # Errors
    /// As for [`check`].
    pub fn check(&self, image: impl Into<Image>) -> Result<Report> {
        with(image.into(), self, None)
    }

    /// The same, with a listener for how far it is, which is called from several threads.
    ///
    /// # Errors
    /// As for [`check`].
    pub fn check_told(&self, image: impl Into<Image>, listener: CheckListener) -> Result<Report> {
        with(image.into(), self, Some(listener))
    }

    /// How well the files of a volume are laid out, as `extant layout` tells: as it is after a
    /// replay of its journal, in memory. Nothing is written.
    ///
    /// # Errors
    /// As for [`Options::open`]; the device's.
    pub fn layout(&self, image: impl Into<Image>) -> Result<LayoutReport> {
        let found = opening::find(image.into(), self, Access::ReadOnly)?;
        let device = judged(found.device).device;
        let volume = extant_inspect::Volume::open(device, SuperblockPlace::Primary);
        let survey = SurveyOptions { paths: extant_inspect::Paths::Found, ..Default::default() };
        let report = volume.and_then(|volume| extant_inspect::survey_with(&volume, &survey));
        report.map_err(|error| crate::Error::from(error).at(&found.name))
    }
}

fn with(image: Image, options: &Options, progress: Option<CheckListener>) -> Result<Report> {
    let found = opening::find(image, options, Access::ReadOnly)?;
    let judged = judged(found.device);
    let cut_at = judged.cut_at();
    let (device, waiting) = match without_orphans(&judged.device) {
        Ok(Some((device, counts))) => (device, counts.freed + counts.truncated),
        // Those that cannot be freed are judged as they are.
        Ok(None) | Err(_) => (judged.device, 0),
    };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get().min(64));
    let threads = u32::try_from(threads).ok().and_then(NonZeroU32::new);
    let how = CheckOptions {
        read_order: ReadOrder::DiskOrder,
        threads: threads.unwrap_or(NonZeroU32::MIN),
        progress,
    };
    let report = extant_inspect::check(Arc::clone(&device), &how);
    let mut report = report.map_err(|error| crate::Error::from(error).at(&found.name))?;
    if let Some(sequence) = cut_at {
        report.add(Problem::new(Code::JournalCut).found(sequence));
    }
    if waiting > 0 {
        report.add(Problem::new(Code::OrphansWait).found(waiting));
    }
    Ok(report)
}
