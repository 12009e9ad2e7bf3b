//! The check: whether a volume is what its own metadata says it is. Read-only.
//!
//! ```text
//! passes     what is judged, pass by pass: volume, inodes, duplicates, directories,
//!            connectivity, links, bitmaps, quota
//! maps       maps of files, for passes 1 and 1b: how they are walked, and what is claimed
//! first      what a volume says of itself, alone
//! reader     blocks in the order of the disk, many at a time
//! facts      what the passes share and hand on
//! work       threads over pieces of work         progress   how far they are
//! report     what comes out                      sink       where it is collected
//! problem    one thing that is wrong             options    what is asked for
//! codes      every kind of problem, a table      rule       severities, passes, repairs
//! ```
//!
//! Modules use those below them, `passes` uses all. Problems are data ([`Problem`]): a [`Code`]
//! with its [`Rule`] (sentence, severity, what a repair would do) and the place. The report is the
//! same whatever the number of threads.
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
mod work;

pub use codes::{CODES, Code, Rule};
pub use first::{FirstLook, Trust, check_volume};
pub use options::{CheckOptions, ReadOrder};
pub use problem::Problem;
pub use progress::{Listener, Progress};
pub use report::{CheckReport, Summary};
pub use rule::{Pass, Repair, Severity};

use crate::error::Error;
use extant_block::BlockDevice;
use facts::Facts;
use passes::volume::{Prepared, prepare};
use passes::{bitmaps, connectivity, directories, duplicates, inodes, links, quota};
use std::num::NonZeroU32;
use std::sync::Arc;

/// Checks a volume.
///
/// # Errors
/// When the device fails. What is on it is never an error: it is a problem of the report.
pub fn check(device: Arc<dyn BlockDevice>, options: &CheckOptions) -> Result<CheckReport, Error> {
    let mut options = options.clone();
    if options.read_order == ReadOrder::Vanilla {
        // Checkers of the time had one thread.
        options.threads = NonZeroU32::MIN;
    }
    let mut facts = match prepare(&device, &options)? {
        Prepared::Ready(facts) => facts,
        Prepared::Unusable(problems) => {
            return Ok(CheckReport::new(problems.take(), Summary::default()));
        }
    };
    let mut summary = run(&facts)?;
    if options.threads.get() > 1 && (facts.order_matters() || facts.claims.any_double()) {
        // Which claim of a block comes first decides what follows: once more, by one thread, in the
        // order of the disk.
        options.threads = NonZeroU32::MIN;
        if let Prepared::Ready(again) = prepare(&device, &options)? {
            facts = again;
            summary = run(&facts)?;
        }
    }
    Ok(CheckReport::new(facts.problems.take(), summary))
}

/// The passes after pass 0.
fn run(facts: &Arc<Facts>) -> Result<Summary, Error> {
    let tables = inodes::run(facts)?;
    if facts.claims.any_double() {
        duplicates::run(facts, &tables)?;
    }
    let tree = directories::run(facts)?;
    connectivity::run(facts, &tree);
    links::run(facts)?;
    let summary = bitmaps::run(facts)?;
    quota::judge(facts)?;
    Ok(summary)
}
