//! Bitmaps and counts, written as a check counts them. Anything else that it finds is a mistake of
//! ours: the volume is refused as it was.
use crate::bitmaps::{self, Marked};
use crate::draft::{Draft, Result};
use crate::error::Error;
use crate::options::Scope;
use crate::outcome::is_clean;
use crate::{quota, superblock};
use extant_block::{BlockDevice, Overlay};
use extant_format::GroupNo;
use extant_inspect::{CheckOptions, Code, Pass, Problem, Severity, Usage, examine};
use std::sync::Arc;

/// Checks after which it is refused.
const ROUNDS_MAX: u32 = 4;

/// Whether a problem is about what follows from the rest of the volume.
fn is_derived(problem: &Problem) -> bool {
    problem.rule().pass == Pass::Bitmaps
}

/// Writes what follows from the rest of the volume, until a check finds nothing. Gives what is in
/// use then; `marked` is what becomes of bitmaps.
///
/// # Errors
/// The device's; something else is wrong.
pub(crate) fn settle(
    overlay: &Arc<Overlay>,
    (how, now): (&CheckOptions, u32),
    marked: Marked,
) -> Result<Usage> {
    for _ in 0..ROUNDS_MAX {
        let over = Arc::clone(overlay) as Arc<dyn BlockDevice>;
        let (report, usage) = examine(over, how)?;
        let is_wrong = |it: &&Problem| !is_derived(it) && it.rule().severity > Severity::Advice;
        let wrong = report.problems.iter().find(is_wrong);
        let (Some(usage), None) = (usage, wrong) else {
            let what = wrong.or(report.problems.first()).map(ToString::to_string);
            return Err(Error::Refused(format!(
                "the result would not be clean, and nothing is written: {}",
                what.unwrap_or_default()
            )));
        };
        let derived: Vec<&Problem> = report.problems.iter().filter(|it| is_derived(it)).collect();
        if derived.is_empty() && is_clean(&report) {
            return Ok(usage);
        }
        let mut draft = Draft::new(overlay, usage, now, Scope::Safe);
        for problem in derived {
            match (problem.group, problem.code, problem.ino) {
                (Some(group), ..) => draft.stale.insert(group),
                (None, Code::QuotaUsage | Code::QuotaFile, Some(ino)) => {
                    quota::mend(&mut draft, ino, problem.code)?
                }
                _ => superblock::mend(&mut draft, problem)?,
            };
        }
        let stale: Vec<GroupNo> = draft.stale.iter().copied().collect();
        stale.into_iter().try_for_each(|group| bitmaps::write(&draft, group, marked))?;
    }
    Err(Error::Refused("the result would not be clean, and nothing is written".into()))
}
