//! Steps that read or write in pieces: in a row, at random, in strides.
use super::{COUNT_MAX, StepScope, chunk, end};
use crate::fields::{self, Result};
use crate::quantity::SIZE_MAX;
use crate::scenario::Workplace;
use crate::scenario::step::{Action, Direction, Durability, Pattern, StreamAction};
use extant_sim::drive::file::Section;

/// No stream has more requests under way.
const DEPTH_MAX: u64 = 256;

/// The kinds of streams that the file tells apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Walkway {
    Sequential,
    Random,
    Stride,
    Writer,
}

fn pattern(section: &mut Section<'_>, walkway: Walkway) -> Result<Pattern> {
    let size = |section: &mut Section<'_>, key| fields::size(section, key, 1..=SIZE_MAX);
    Ok(match walkway {
        Walkway::Sequential | Walkway::Writer => Pattern::Sequential,
        Walkway::Random => size(section, "near")?.map_or(Pattern::Random, Pattern::Near),
        Walkway::Stride => {
            let stride = size(section, "stride")?;
            Pattern::Stride(fields::required(section, "stride", stride)?)
        }
    })
}

fn direction(section: &mut Section<'_>, walkway: Walkway) -> Result<Direction> {
    let directions = [("read", Direction::Read), ("write", Direction::Write)];
    match walkway {
        Walkway::Writer => Ok(Direction::Write),
        _ if !section.has("direction") => {
            Err(section.error("direction", "is missing; there are read, write"))
        }
        _ => section.choice("direction", &directions, Direction::Read),
    }
}

pub(super) fn stream(
    section: &mut Section<'_>,
    surroundings: &StepScope<'_>,
    walkway: Walkway,
) -> Result<Action> {
    let path = match surroundings.workplace {
        Workplace::Filesystem(_) => Some(fields::path(section, "path")?),
        Workplace::Drive(_) if section.has("path") => {
            return Err(section.error("path", "cannot be on a bare drive, which has no files"));
        }
        Workplace::Drive(_) => None,
    };
    let default = if walkway == Walkway::Writer { 1 << 20 } else { 4096 };
    let chunk = chunk(section, default)?;
    let size = |section: &mut Section<'_>, key, least| fields::size(section, key, least..=SIZE_MAX);
    let bytes = size(section, "bytes", 1)?;
    let count = match fields::count(section, "count", 1..=COUNT_MAX)? {
        Some(_) if bytes.is_some() => return Err(section.error("count", "cannot be with bytes")),
        count => count.or(bytes.map(|bytes| bytes.div_ceil(chunk))),
    };
    let end = end(section, surroundings)?;
    if count.is_none() && end.is_none() {
        return Err(section.error(
            "bytes",
            "is missing; so are count, for and process, and something has to end the step",
        ));
    }
    let direction = direction(section, walkway)?;
    if direction == Direction::Read && section.has("synced") {
        return Err(section.error("synced", "is for what is written"));
    }
    let durability = if section.flag("synced")? { Durability::Synced } else { Durability::Cached };
    let pattern = pattern(section, walkway)?;
    let span = size(section, "span", chunk)?;
    let streams = section.whole_within("streams", 1..=64, Some(1))?;
    if let (Pattern::Stride(stride), Some(span)) = (pattern, span)
        && stride > (span / streams / chunk).saturating_sub(1) * chunk
    {
        let reason = "leads out of the span of a stream, whose first piece would come every time";
        return Err(section.error("stride", reason));
    }
    Ok(Action::Stream(StreamAction {
        path,
        direction,
        pattern,
        chunk,
        count,
        offset: size(section, "offset", 0)?.unwrap_or(0),
        span,
        streams: streams as u32,
        rate: size(section, "rate", 1)?,
        durability,
        depth: depth(section, surroundings.workplace, durability)?,
        end,
    }))
}

/// `depth`: of a bare drive, for what need not be on the medium one by one.
fn depth(section: &mut Section<'_>, workplace: Workplace, durability: Durability) -> Result<u32> {
    let depth = section.whole_within("depth", 1..=DEPTH_MAX, Some(1))? as u32;
    match (workplace, durability) {
        (Workplace::Filesystem(_), _) if depth > 1 => {
            Err(section.error("depth", "is of bare drives: a file is read by one call at a time"))
        }
        (_, Durability::Synced) if depth > 1 => {
            Err(section.error("depth", "cannot be with synced"))
        }
        _ => Ok(depth),
    }
}
