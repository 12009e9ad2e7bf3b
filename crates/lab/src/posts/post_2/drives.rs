//! Two drives, one of them slow, and one memory: does what is dirty on the slow one hold back the
//! writer of the other?
use super::{Layouts, per_second, permille};
use crate::posts::{Cell, Class, PostColumn, PostTable, Quantity, Row, Scale, Work};
use crate::report::Report;
use crate::scenario::{self, RunOptions, ScenarioError};
use std::path::Path;

const FILE: &str = "two-drives.toml";
const TEXT: &str = include_str!("../../../scenarios/two-drives.toml");

/// The throttles, and the least and the most that the writer of the fast drive may keep of its
/// speed alone.
const THROTTLES: [(&str, u64, u64); 3] =
    [("global", 0, 500), ("per-device", 800, 1100), ("proportional", 800, 1100)];

const DISK: &str = "disk";
const STICK: &str = "stick";

/// Bytes a second of both writers, together and each alone.
struct Ran {
    throttle: &'static str,
    bounds: (u64, u64),
    together: Report,
    disk: Report,
    stick: Report,
}

fn rate(report: &Report, measure: &str) -> Option<u64> {
    let measure = report.measure(measure)?;
    per_second(measure.work.bytes_written, measure.elapsed_ns)
}

/// The table, and the reports that it comes from.
pub(super) fn table(
    work: Work,
    progress: &mut dyn FnMut(&str),
) -> Result<(PostTable, Vec<Report>), ScenarioError> {
    let mut all = Vec::new();
    for (throttle, least, most) in THROTTLES {
        progress(&format!("post 2: two drives: {throttle}"));
        all.push(Ran {
            throttle,
            bounds: (least, most),
            together: run(throttle, work, None)?,
            disk: run(throttle, work, Some("stick-writer"))?,
            stick: run(throttle, work, Some("disk-writer"))?,
        });
    }
    let table = PostTable {
        title: "a disk and a slow stick, 128 MiB of memory for both (thousands of bytes a second)"
            .to_owned(),
        columns: all
            .iter()
            .map(|ran| PostColumn {
                name: ran.throttle.to_owned(),
                policies: policies(ran.throttle),
            })
            .collect(),
        rows: rows(&all),
    };
    let reports = all.into_iter().flat_map(|ran| [ran.together, ran.disk, ran.stick]);
    Ok((table, reports.collect()))
}

fn policies(throttle: &str) -> String {
    format!("linux-2.6,throttle={throttle}")
}

/// Without one of its processes.
fn run(throttle: &str, work: Work, without: Option<&str>) -> Result<Report, ScenarioError> {
    let text = match work.scale {
        Scale::Full => TEXT.to_owned(),
        Scale::Quick => TEXT
            .replace("chunk = \"1M\", for = \"20s\"", "chunk = \"1M\", for = \"10s\"")
            .replace("for = \"50s\"", "for = \"25s\""),
    };
    let mut scenario = scenario::parse(FILE, &text, Path::new(""))?;
    scenario.processes.retain(|process| Some(process.name.as_str()) != without);
    let options = RunOptions {
        policies: Some(policies(throttle)),
        layouts: Layouts::AtSteps,
        seed: work.seed,
        ..RunOptions::default()
    };
    Ok(scenario::run(&scenario, &options)?.report)
}

fn rows(all: &[Ran]) -> Vec<Row> {
    let speed = |what: &str, ours: &dyn Fn(&Ran) -> Option<u64>| Row {
        what: what.to_owned(),
        class: Class::Shown,
        cells: all
            .iter()
            .map(|ran| Cell {
                posted: None,
                ours: ours(ran).map(|rate| Quantity::Count(rate / 1000)),
            })
            .collect(),
        limit: None,
        note: None,
    };
    let mut rows = vec![
        speed("disk, alone", &|ran| rate(&ran.disk, DISK)),
        speed("disk, beside the stick", &|ran| rate(&ran.together, DISK)),
        speed("stick, alone", &|ran| rate(&ran.stick, STICK)),
        speed("stick, beside the disk", &|ran| rate(&ran.together, STICK)),
    ];
    rows.extend(all.iter().enumerate().map(|(column, ran)| kept(all.len(), column, ran)));
    rows
}

/// What the disk's writer keeps, as one row for each throttle, for each has bounds of its own.
fn kept(columns: usize, column: usize, ran: &Ran) -> Row {
    let ours = rate(&ran.together, DISK).zip(rate(&ran.disk, DISK));
    let ours = ours.and_then(|(together, alone)| permille(together, alone)).map(Quantity::Permille);
    let mut cells = vec![Cell::default(); columns];
    let (least, most) = ran.bounds;
    if let Some(cell) = cells.get_mut(column) {
        *cell = Cell {
            // The post says that the limits of old starve others; the bound in numbers is ours.
            posted: Some(Quantity::Permille(if least == 0 { most } else { least })),
            ours,
        };
    }
    Row {
        what: format!("the disk's writer keeps, {}", ran.throttle),
        class: Class::Between { least, most },
        cells,
        limit: None,
        note: None,
    }
}
