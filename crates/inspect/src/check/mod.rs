//! The check: whether a volume is what its own metadata says it is. Read-only.
//!
//! ```text
//! passes     what is judged, pass by pass: volume, inodes, duplicates, directories,
//!            connectivity, links, bitmaps, quota
//! maps       maps of files, for passes 1 and 1b: how they are walked, and what is claimed
//! first      what a volume says of itself, alone
//! reader     blocks in the order of the disk, many at a time
//! facts      what the passes share and hand on
//! again      a check after bitmaps, counters, links and names were mended
//! work       threads over pieces of work         progress   how far they are
//! causes     which problem follows from which
//! report     what comes out                      sink       where it is collected
//! usage      what is known at the end, for who mends
//! problem    one thing that is wrong             options    what is asked for
//! codes      every kind of problem, a table      rule       severities, passes, repairs
//! ```
//!
//! Modules use those below them, `passes` uses all. Problems are data ([`Problem`]): a [`Code`]
//! with its [`Rule`] (sentence, severity, what a repair would do) and the place. The report is the
//! same whatever the number of threads.
mod again;
mod causes;
mod codes;
mod facts;
mod first;
mod maps;
mod options;
mod passes;
mod problem;
mod progress;
mod reader;
mod report;
mod rule;
mod sink;
mod usage;
mod work;

pub use again::examine_again;
pub use codes::{CODES, Code, Rule};
pub use first::{FirstLook, Trust, check_volume};
pub use options::{CheckOptions, ReadOrder};
pub use passes::bitmaps::ExpectedBits;
pub use problem::Problem;
pub use progress::{Listener, Progress};
pub use report::{CheckReport, Summary};
pub use rule::{Pass, Repair, Severity};
pub use usage::Usage;

use crate::error::Error;
use crate::paths::{NameOf, PathTable};
use extant_block::BlockDevice;
use extant_format::Ino;
use facts::Facts;
use passes::directories::Tree;
use passes::volume::{Prepared, prepare};
use passes::{bitmaps, connectivity, directories, duplicates, inodes, links, quota};
use std::num::NonZeroU32;
use std::sync::Arc;

/// Checks a volume.
///
/// # Errors
/// When the device fails. What is on it is never an error: it is a problem of the report.
pub fn check(device: Arc<dyn BlockDevice>, options: &CheckOptions) -> Result<CheckReport, Error> {
    Ok(examine(device, options)?.0)
}

/// As [`check`], and what is in use on the volume; `None` where nothing could be checked.
///
/// # Errors
/// As for [`check`].
pub fn examine(
    device: Arc<dyn BlockDevice>,
    options: &CheckOptions,
) -> Result<(CheckReport, Option<Usage>), Error> {
    let mut options = options.clone();
    if options.read_order == ReadOrder::Vanilla {
        // Checkers of the time had one thread.
        options.threads = NonZeroU32::MIN;
    }
    let mut facts = match prepare(&device, &options)? {
        Prepared::Ready(facts) => facts,
        Prepared::Unusable(problems) => {
            return Ok((CheckReport::new(problems.take(), Summary::default()), None));
        }
    };
    let mut tree = None;
    let mut summary = run(&facts, &mut tree)?;
    if options.threads.get() > 1 && (facts.order_matters() || facts.claims.any_double()) {
        // Which claim of a block comes first decides what follows: once more, by one thread, in the
        // order of the disk.
        options.threads = NonZeroU32::MIN;
        if let Prepared::Ready(again) = prepare(&device, &options)? {
            facts = again;
            summary = run(&facts, &mut tree)?;
        }
    }
    let mut report = CheckReport::new(facts.problems.take(), summary);
    name(&mut report, &facts, tree.as_deref())?;
    Ok((report, Some(Usage::new(facts, tree))))
}

/// Says what the inodes are called that problems are about: once more through all directories.
fn name(report: &mut CheckReport, facts: &Facts, tree: Option<&Tree>) -> Result<(), Error> {
    let is_about_inodes = || report.problems.iter().any(|problem| problem.ino.is_some());
    let Some(tree) = tree.filter(|_| is_about_inodes()) else { return Ok(()) };
    let wanted = report.problems.iter().filter_map(|problem| problem.ino).collect();
    let mut paths = PathTable::of(wanted);
    directories::each_entry(facts, tree, &mut |owner, entry| {
        let ino = Ino(entry.ino);
        let kind = match facts.inodes.get(ino).is_directory() {
            true => NameOf::Directory,
            false => NameOf::Other,
        };
        if ino != owner {
            paths.note(owner, ino, entry.name, kind);
        }
    })?;
    for problem in &mut report.problems {
        problem.path = problem.ino.and_then(|ino| paths.path(ino));
    }
    Ok(())
}

/// The passes after pass 0. Leaves the directories as a tree.
fn run(facts: &Arc<Facts>, found: &mut Option<Arc<Tree>>) -> Result<Summary, Error> {
    let tables = inodes::run(facts)?;
    facts.check_read()?;
    if facts.claims.any_double() {
        duplicates::run(facts, &tables)?;
    }
    run_names(facts, found)
}

/// The passes over names and what is counted, when what inodes have is known.
fn run_names(facts: &Arc<Facts>, found: &mut Option<Arc<Tree>>) -> Result<Summary, Error> {
    let tree = found.insert(directories::run(facts)?);
    run_links(facts, tree)
}

/// The passes over what is counted, when the directories are known.
fn run_links(facts: &Arc<Facts>, tree: &Tree) -> Result<Summary, Error> {
    connectivity::run(facts, tree);
    links::run(facts)?;
    let summary = bitmaps::run(facts)?;
    quota::judge(facts)?;
    Ok(summary)
}
