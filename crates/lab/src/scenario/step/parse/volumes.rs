//! Steps about a file system as a whole: what is laid on it, how full it is made, how it is
//! checked.
use super::making::name_pattern;
use super::{StepScope, required_count};
use crate::fields::{self, Result};
use crate::quantity::SIZE_MAX;
use crate::scenario::step::{Action, Filling, PlacedFiles, Problems};
use crate::scenario::tree::ENTRIES_MAX;
use extant_inspect::ReadOrder;
use extant_sim::drive::file::Section;
use std::num::NonZeroU32;

pub(super) fn place_files(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    let tables = section.sections("files")?;
    if tables.is_empty() {
        return Err(section.error("files", "is missing, or has no files"));
    }
    let files = tables.into_iter().enumerate().map(|(number, mut table)| {
        let files = PlacedFiles {
            count: required_count(&mut table, "count", 1..=ENTRIES_MAX)?,
            bytes: fields::size(&mut table, "bytes", 0..=SIZE_MAX)?.unwrap_or(0),
            names: name_pattern(&mut table, "names", &format!("placed-{number}-%d"))?,
        };
        table.finish()?;
        Ok(files)
    });
    Ok(Action::Place { files: files.collect::<Result<_>>()? })
}

pub(super) fn check(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    let plans = [("vanilla", ReadOrder::Vanilla), ("ours", ReadOrder::DiskOrder)];
    let threads = section.whole_within("threads", 1..=64, Some(1))? as u32;
    let problems = [("fail", Problems::Fail), ("count", Problems::Count)];
    let plan = section.choice("plan", &plans, ReadOrder::DiskOrder)?;
    if plan == ReadOrder::Vanilla && threads > 1 {
        return Err(section.error("threads", "goes with plan = \"ours\": vanilla has one thread"));
    }
    Ok(Action::Check {
        plan,
        threads: NonZeroU32::new(threads).unwrap_or(NonZeroU32::MIN),
        processor_ns_per_kib: fields::time(section, "processor_per_kib")?.unwrap_or(0),
        problems: section.choice("problems", &problems, Problems::Fail)?,
    })
}

pub(super) fn fill(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    Ok(Action::Fill {
        at: fields::path(section, "at")?,
        filling: Filling {
            percent: required_count(section, "percent", 1..=100)? as u32,
            bytes: fields::size(section, "size", 1..=SIZE_MAX)?.unwrap_or(2 << 20),
        },
    })
}
