//! `[[result]]`: what a file computes from its measures, checked against the steps that it has.
use super::ProcessEntry;
use super::step::{Action, Rows, Step, each_step};
use crate::fields::{self, Result};
use crate::results::{Count, Named, ResultEntry, Row, RowKind, parse};
use extant_sim::drive::file::Section;

/// No scenario has more results.
const RESULTS_MAX: usize = 1024;
/// What stands for numbers in names.
const PLACES: [&str; 3] = ["{n}", "{r}", "{r2}"];

pub(super) fn parse_results(
    section: &mut Section<'_>,
    processes: &[ProcessEntry],
) -> Result<Vec<ResultEntry>> {
    let tables = section.sections("result")?;
    if tables.len() > RESULTS_MAX {
        return Err(section.error("result", format!("there can be at most {RESULTS_MAX}")));
    }
    let mut results: Vec<ResultEntry> = Vec::new();
    for mut table in tables {
        let name = fields::text(&mut table, "name")?;
        if results.iter().any(|other| other.name == name) {
            return Err(table.error("name", format!("{name:?} is already the name of another")));
        }
        let text = fields::text(&mut table, "value")?;
        let parsed = parse(&text, &results);
        let (expression, unit) = parsed.map_err(|reason| table.error("value", reason))?;
        let mut unknown = None;
        expression.each_name(&mut |named| {
            let found = match named {
                Named::Row(row, count) => unknown_row(row, processes).or_else(|| match count {
                    Count::One => ambiguous(row, processes),
                    Count::Any => None,
                }),
                Named::Process(process) => unknown_process(process, processes),
                Named::Other(other) => Some(format!("there is no other run {other:?}")),
            };
            unknown = unknown.take().or(found);
        });
        if let Some(reason) = unknown {
            return Err(table.error("value", reason));
        }
        table.finish()?;
        results.push(ResultEntry { name, text, expression, unit });
    }
    Ok(results)
}

fn unknown_process(name: &str, processes: &[ProcessEntry]) -> Option<String> {
    if processes.iter().any(|process| process.name == name) {
        return None;
    }
    let known: Vec<&str> = processes.iter().map(|process| process.name.as_str()).collect();
    Some(format!("unknown process {name:?}: known are {}", known.join(", ")))
}

/// Why a row cannot be in the report of these processes; `None` if it can.
fn unknown_row(row: &Row, processes: &[ProcessEntry]) -> Option<String> {
    if let Some(process) = &row.process
        && let Some(reason) = unknown_process(process, processes)
    {
        return Some(reason);
    }
    let mut known: Vec<String> = Vec::new();
    let of = processes.iter().filter(|one| row.process.as_ref().is_none_or(|it| *it == one.name));
    for process in of {
        each_step(&process.steps, &mut |step| known.extend(names(step, row.kind)));
    }
    known.dedup();
    match known.iter().any(|pattern| may_be(pattern, &row.name)) {
        true => None,
        false => {
            let kind = if row.kind == RowKind::Measure { "measure" } else { "step" };
            let known = match known.is_empty() {
                true => "there are none".to_owned(),
                false => format!("known are {}", known.join("; ")),
            };
            match is_other_kind(row, processes) {
                true if row.kind == RowKind::Measure => {
                    Some(format!("{:?} is the label of a step, and no measure", row.name))
                }
                true => Some(format!("{:?} is a measure, and no label of a step", row.name)),
                false => Some(format!("unknown {kind} {:?}: {known}", row.name)),
            }
        }
    }
}

/// Why a row that is wanted alone is one of several; `None` if nothing shows that it is.
fn ambiguous(row: &Row, processes: &[ProcessEntry]) -> Option<String> {
    let has_it = |process: &&ProcessEntry| {
        let mut is_found = false;
        each_step(&process.steps, &mut |step| {
            is_found |= names(step, row.kind).iter().any(|pattern| may_be(pattern, &row.name));
        });
        is_found && row.process.as_ref().is_none_or(|it| *it == process.name)
    };
    let found: Vec<&ProcessEntry> = processes.iter().filter(has_it).collect();
    match &found[..] {
        [_, _, ..] => {
            let names: Vec<&str> = found.iter().map(|process| process.name.as_str()).collect();
            let names = names.join(", ");
            Some(format!("{:?} is in processes {names}: of PROCESS says in which", row.name))
        }
        // Copies have a row together for a measure, and none for a step.
        [one] if one.copies > 1 && row.kind == RowKind::Step => Some(format!(
            "{:?} is a step of {} copies of {}: max(..) or another makes them one",
            row.name, one.copies, one.name
        )),
        _ => None,
    }
}

/// Whether a label of a step stands where a measure is wanted, or the other way round.
fn is_other_kind(row: &Row, processes: &[ProcessEntry]) -> bool {
    let mut is_found = false;
    for process in processes {
        each_step(&process.steps, &mut |step| {
            is_found |= match row.kind {
                RowKind::Measure => step.label == row.name,
                RowKind::Step => step.measure.as_ref() == Some(&row.name),
            };
        });
    }
    is_found
}

/// The names of the rows that a step gives.
fn names(step: &Step, kind: RowKind) -> Vec<String> {
    if kind == RowKind::Step {
        return vec![step.label.clone()];
    }
    let mut names: Vec<String> = step.measure.iter().cloned().collect();
    if let Action::Walk { rows: Rows::Directories(_), .. } = &step.action {
        names.push(format!("{}: {{n}}", step.label));
    }
    names
}

/// Whether a name, or the beginning of one that ends with `*`, fits a pattern with places for
/// numbers and names.
fn may_be(pattern: &str, name: &str) -> bool {
    let parts = PLACES.iter().fold(vec![pattern], |parts, place| {
        parts.into_iter().flat_map(|part| part.split(place)).collect()
    });
    let [first, between @ .., last] = &parts[..] else {
        return match name.strip_suffix('*') {
            Some(beginning) => pattern.starts_with(beginning),
            None => pattern == name,
        };
    };
    if let Some(beginning) = name.strip_suffix('*') {
        return beginning.starts_with(first) || first.starts_with(beginning);
    }
    // What stands in a place may be any text: the first that fits leaves most for the rest.
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::may_be;

    #[test]
    fn names_fit_patterns() {
        assert!(may_be("read", "read") && !may_be("read", "reads"));
        assert!(may_be("pass {r} of {n}", "pass 3 of 12"));
        assert!(!may_be("pass {r} of 4", "pass 3 of 5"));
        assert!(may_be("pass {r}", "pass *") && may_be("pass {r}", "pa*") && may_be("all", "a*"));
        assert!(!may_be("pass {r}", "run *"));
        assert!(may_be("read: {n}", "read: dir-3"));
    }
}
