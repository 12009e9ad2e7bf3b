//! Steps that walk trees and read in them, or list directories.
use super::{CHUNK_DEFAULT, CHUNK_MAX, COUNT_MAX, StepScope, chunk, end, required_count};
use crate::fields::{self, Result};
use crate::scenario::step::{Action, Detail, Order, Rows, Task, Warmth};
use extant_sim::drive::file::Section;

pub(super) fn order(section: &mut Section<'_>) -> Result<Order> {
    let words = [("directory", Order::Directory), ("name", Order::Name), ("inode", Order::Inode)];
    let words = [&words[..], &[("random", Order::Random)]].concat();
    section.choice("order", &words, Order::Directory)
}

/// `rows`, and whether each of them is `cold`.
fn rows(section: &mut Section<'_>) -> Result<Rows> {
    let warmth = if section.flag("cold")? { Warmth::Cold } else { Warmth::AsItIs };
    let words = [("whole", Rows::Whole), ("directories", Rows::Directories(warmth))];
    let rows = section.choice("rows", &words, Rows::Whole)?;
    match (rows, warmth) {
        (Rows::Whole, Warmth::Cold) => Err(section.error("cold", "needs rows = \"directories\"")),
        _ => Ok(rows),
    }
}

pub(super) fn walk(
    section: &mut Section<'_>,
    surroundings: &StepScope<'_>,
    task: Task,
) -> Result<Action> {
    Ok(Action::Walk {
        at: fields::path(section, "at")?,
        task,
        order: order(section)?,
        chunk: if task == Task::Read { chunk(section, CHUNK_DEFAULT)? } else { CHUNK_DEFAULT },
        end: end(section, surroundings)?,
        rows: rows(section)?,
    })
}

pub(super) fn tar(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    let at = fields::path(section, "at")?;
    // GNU tar notices /dev/null, and then reads no file.
    let targets = [("null", Task::Stat), ("zero", Task::Archive)];
    if !section.has("to") {
        return Err(
            section.error("to", "is missing; there are null, which reads no file, and zero")
        );
    }
    let task = section.choice("to", &targets, Task::Stat)?;
    if task == Task::Stat && section.has("chunk") {
        return Err(section.error("chunk", "goes with to = \"zero\": null reads no file"));
    }
    Ok(Action::Walk {
        at,
        task,
        order: order(section)?,
        chunk: chunk(section, 10 << 10)?,
        end: None,
        rows: rows(section)?,
    })
}

pub(super) fn diff(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    Ok(Action::Diff {
        at: fields::path(section, "at")?,
        with: fields::path(section, "with")?,
        chunk: fields::size(section, "chunk", 1..=CHUNK_MAX)?,
    })
}

pub(super) fn list(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    let detail = if section.flag("long")? { Detail::Long } else { Detail::Names };
    Ok(Action::List { at: fields::path(section, "at")?, detail })
}

pub(super) fn getdents(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    Ok(Action::Getdents {
        at: fields::path(section, "at")?,
        // A buffer has to hold the longest name.
        buffer_bytes: fields::size(section, "buffer", 280..=16 << 20)?.unwrap_or(4096) as u32,
    })
}

pub(super) fn program(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    Ok(Action::Program {
        at: fields::path(section, "at")?,
        reads: required_count(section, "reads", 1..=COUNT_MAX)?,
        bytes: fields::size(section, "bytes", 1..=CHUNK_MAX)?.unwrap_or(4096),
    })
}
