//! A report as tables for people.
use super::{Distribution, FilesystemReport, Measure, Report, StepReport, TimeKind};
use Alignment::{Left, Right};
use extant_chart::{Alignment, Table, seconds, wrapped};
use std::collections::BTreeMap;

/// What a reader of real times has to know.
const REAL: &str = "the host's own drive: what it did is not counted (-); a remount asks the host \
    to forget a regular file's pages, \
                    those of a device stay in its memory\n";

/// The whole report.
pub(super) fn render(report: &Report, width: usize) -> String {
    let mut text = wrapped(&head(report), width, 4);
    for table in tables(report) {
        text.push_str(&table.render(width));
    }
    text
}

/// Its tables, those that have a row.
pub(super) fn tables(report: &Report) -> Vec<Table> {
    let all = [
        results(report),
        drives(report),
        measures(report),
        power_cuts(report),
        steps(report),
        listings(report),
        calls(report),
        journals(report),
        layouts(report),
    ];
    all.into_iter().filter(|table| !table.is_empty()).collect()
}

fn head(report: &Report) -> String {
    let mut text = format!("{}: {}\n", report.scenario, report.line);
    let time = match report.time {
        TimeKind::Virtual => "virtual time",
        TimeKind::Real => "real time",
    };
    let scale = if report.scale == 1 {
        String::new()
    } else {
        format!(", counts divided by {}", report.scale)
    };
    text.push_str(&format!(
        "{time} {} s, seed {}, model {}, trace {}{scale}\n",
        seconds(report.elapsed_ns),
        report.seed,
        report.model_version,
        if report.trace_hash.is_empty() { "-" } else { &report.trace_hash },
    ));
    if report.time == TimeKind::Real {
        text.push_str(REAL);
    }
    report.filesystems.iter().for_each(|entry| text.push_str(&filesystem(entry)));
    text
}

fn filesystem(entry: &FilesystemReport) -> String {
    let columns: Vec<String> =
        entry.columns.iter().map(|column| format!("{}={}", column.column, column.choice)).collect();
    let origin =
        entry.image.as_ref().map_or_else(String::new, |image| format!(", a copy of {image}"));
    format!(
        "{} on {}: {} MiB in {} groups, blocks of {}, {} MiB of memory, {}{origin}\n  {} ({})\n",
        entry.name,
        entry.drive,
        entry.bytes >> 20,
        entry.groups,
        entry.block_size,
        entry.memory_bytes >> 20,
        entry.policies,
        columns.join(" "),
        entry.features.join(" "),
    )
}

fn results(report: &Report) -> Table {
    let columns = [("result", Left), ("value", Right), ("unit", Left), ("computed as", Left)];
    let mut table = Table::new("results", &columns);
    for result in &report.results {
        let value = result.millionths.map_or("-".to_owned(), decimal);
        let computed = match &result.reason {
            None => result.value.clone(),
            Some(reason) => format!("{}: {reason}", result.value),
        };
        table.row([result.name.clone(), value, result.unit.clone(), computed]);
    }
    table
}

/// Millionths with a point: six digits of values below 1, else three.
pub fn decimal(millionths: i64) -> String {
    let sign = if millionths < 0 { "-" } else { "" };
    let magnitude = millionths.unsigned_abs();
    if magnitude < 1_000_000 {
        return format!("{sign}0.{magnitude:06}");
    }
    let thousandths = magnitude.saturating_add(500) / 1000;
    format!("{sign}{}.{:03}", thousandths / 1000, thousandths % 1000)
}

fn drives(report: &Report) -> Table {
    let columns = [
        ("drive", Left),
        ("model", Left),
        ("elevator", Left),
        ("requests", Right),
        ("busy s", Right),
        ("seek s", Right),
        ("rotation s", Right),
        ("media s", Right),
        ("queued s", Right),
        ("other s", Right),
        ("waiting", Right),
        ("fitted", Left),
    ];
    let mut table = Table::new("drives", &columns);
    for drive in &report.drives {
        let (traffic, parts) = (&drive.traffic, &drive.traffic.parts);
        let other = parts.overhead + parts.settle + parts.bus;
        let depth = drive.queue_depth_mean_permille;
        let fitted =
            if drive.fitted.is_empty() { "nothing".to_owned() } else { drive.fitted.join(", ") };
        let known = |cell: String| if traffic.is_unknown { "-".to_owned() } else { cell };
        table.row([
            drive.name.clone(),
            drive.model_words(),
            known(drive.elevator.clone()),
            known(drive.requests.to_string()),
            known(seconds(traffic.busy_ns)),
            known(seconds(parts.seek)),
            known(seconds(parts.rotation)),
            known(seconds(parts.media)),
            known(seconds(parts.queued)),
            known(seconds(other)),
            known(format!("{}.{}", depth / 1000, depth % 1000 / 100)),
            fitted,
        ]);
    }
    table
}

const TRAFFIC: [(&str, Alignment); 7] = [
    ("s", Right),
    ("reads", Right),
    ("MB read", Right),
    ("writes", Right),
    ("MB written", Right),
    ("commands", Right),
    ("seeks", Right),
];

fn traffic(elapsed_ns: u64, traffic: &super::Traffic) -> [String; 7] {
    if traffic.is_unknown {
        let mut cells: [String; 7] = std::array::from_fn(|_| "-".to_owned());
        cells[0] = seconds(elapsed_ns);
        return cells;
    }
    [
        seconds(elapsed_ns),
        traffic.reads.to_string(),
        megabytes(traffic.bytes_read),
        traffic.writes.to_string(),
        megabytes(traffic.bytes_written),
        traffic.commands.to_string(),
        traffic.seeks.to_string(),
    ]
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{}", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

fn copies(report: &Report, name: &str) -> usize {
    report.processes.iter().filter(|process| process.name == name).count()
}

/// A process with the number of its copies.
fn crowd(report: &Report, name: &str) -> String {
    match copies(report, name) {
        1 => name.to_owned(),
        count => format!("{name} ({count} times)"),
    }
}

fn measures(report: &Report) -> Table {
    let mut columns = vec![("measure", Left), ("process", Left)];
    columns.extend(TRAFFIC);
    let mut table = Table::new("measures", &columns);
    for row in &report.measures {
        let is_together = |all: &Measure| {
            all.copy.is_none() && all.process == row.process && all.measure == row.measure
        };
        if row.copy.is_some() && report.measures.iter().any(is_together) {
            continue;
        }
        let first = [row.measure.clone(), crowd(report, &row.process)];
        table.row(first.into_iter().chain(traffic(row.elapsed_ns, &row.traffic)));
    }
    table
}

/// How long a journal took to be replayed, against what a check of the whole volume took.
fn power_cuts(report: &Report) -> Table {
    let columns = [
        ("process", Left),
        ("requests lost", Right),
        ("KiB lost", Right),
        ("recover s", Right),
        ("check s", Right),
        ("check / recover", Right),
        ("problems", Right),
    ];
    let mut table = Table::new("power cuts", &columns);
    for process in report.processes.iter().filter(|process| process.copy == 0) {
        let of = |kind: &str| {
            let own = report.steps.iter().filter(|step| step.process == process.name);
            let own: Vec<_> = own.filter(|step| step.copy == 0 && step.step == kind).collect();
            let elapsed_ns: u64 = own.iter().map(|step| step.elapsed_ns).sum();
            (own, elapsed_ns)
        };
        let ((cuts, _), (recoveries, recover_ns), (checks, check_ns)) =
            (of("power-cut"), of("recover"), of("check"));
        let lost = cuts.iter().filter_map(|step| step.lost).reduce(|all, lost| all.and(&lost));
        let Some(lost) = lost else { continue };
        let time = |steps: &[&StepReport], elapsed_ns| match steps.is_empty() {
            true => "-".to_owned(),
            false => seconds(elapsed_ns),
        };
        let tenths = u128::from(check_ns) * 10 / u128::from(recover_ns.max(1));
        table.row([
            process.name.clone(),
            lost.requests_lost.to_string(),
            (lost.bytes_lost / 1024).to_string(),
            time(&recoveries, recover_ns),
            time(&checks, check_ns),
            match recoveries.is_empty() || checks.is_empty() {
                true => "-".to_owned(),
                false => format!("{}.{}", tenths / 10, tenths % 10),
            },
            checks.iter().map(|step| step.work.problems).sum::<u64>().to_string(),
        ]);
    }
    table
}

fn steps(report: &Report) -> Table {
    let mut columns = vec![("process", Left), ("", Left), ("step", Left), ("runs", Right)];
    columns.extend(TRAFFIC);
    columns.extend([("directories", Right), ("files", Right)]);
    let mut table = Table::new("steps (where a process has copies, those of the first)", &columns);
    for step in report.steps.iter().filter(|step| step.copy == 0) {
        let first = [step.process.clone(), step.number.clone(), name(step), step.runs.to_string()];
        let last = [step.work.directories.to_string(), step.work.files.to_string()];
        table.row(first.into_iter().chain(traffic(step.elapsed_ns, &step.traffic)).chain(last));
    }
    table
}

fn name(step: &StepReport) -> String {
    if step.label == step.step {
        step.step.clone()
    } else {
        format!("{} ({})", step.label, step.step)
    }
}

fn listings(report: &Report) -> Table {
    let columns =
        [("step", Left), ("call", Right), ("entries", Right), ("bytes", Right), ("us", Right)];
    let mut table = Table::new("getdents, call by call", &columns);
    for step in report.steps.iter().filter(|step| step.copy == 0) {
        for (number, call) in step.calls.iter().enumerate() {
            let microseconds = call.elapsed_ns / 1000;
            let numbers = [number as u64 + 1, call.entries, call.bytes, microseconds];
            table.row([name(step)].into_iter().chain(numbers.map(|number| number.to_string())));
        }
    }
    table
}

fn calls(report: &Report) -> Table {
    let columns = [
        ("process", Left),
        ("call", Left),
        ("count", Right),
        ("mean ms", Right),
        ("median", Right),
        ("99 %", Right),
        ("max", Right),
    ];
    let mut table = Table::new("calls", &columns);
    let milliseconds =
        |nanoseconds: u64| format!("{}.{:03}", nanoseconds / 1_000_000, nanoseconds / 1000 % 1000);
    for entry in report.processes.iter().filter(|entry| entry.copy == 0) {
        let all = report.processes.iter().filter(|other| other.name == entry.name);
        let mut merged: BTreeMap<&str, Distribution> = BTreeMap::new();
        for call in all.flat_map(|process| &process.calls) {
            let known = merged.entry(&call.call).or_default();
            *known = known.and(&call.latency);
        }
        for (call, latency) in merged {
            let times = [latency.mean_ns, latency.median_ns, latency.p99_ns, latency.max_ns]
                .map(milliseconds);
            let first = [crowd(report, &entry.name), call.to_owned(), latency.count.to_string()];
            table.row(first.into_iter().chain(times));
        }
    }
    table
}

fn journals(report: &Report) -> Table {
    let columns = [
        ("file system", Left),
        ("commits", Right),
        ("log blocks", Right),
        ("MB", Right),
        ("checkpoints", Right),
        ("their blocks", Right),
    ];
    let mut table = Table::new("journals", &columns);
    for entry in &report.filesystems {
        let Some(journal) = &entry.journal else { continue };
        table.row([
            entry.name.clone(),
            journal.commits.to_string(),
            journal.log_blocks.to_string(),
            megabytes(journal.log_bytes),
            journal.checkpoints.to_string(),
            journal.checkpoint_blocks.to_string(),
        ]);
    }
    table
}

fn layouts(report: &Report) -> Table {
    let columns = [
        ("file system", Left),
        ("when", Left),
        ("files", Right),
        ("directories", Right),
        ("blocks", Right),
        ("fragments", Right),
        ("score", Right),
        ("same group", Right),
        ("free runs", Right),
    ];
    let mut table = Table::new("layouts", &columns);
    let share = |permille: Option<u64>| {
        permille.map_or("-".to_owned(), |permille| {
            format!("{}.{:03}", permille / 1000, permille % 1000)
        })
    };
    for entry in &report.filesystems {
        for record in &entry.layouts {
            let layout = &record.layout;
            table.row([
                entry.name.clone(),
                record.when.clone(),
                layout.files.to_string(),
                layout.directories.to_string(),
                (layout.data_blocks + layout.directory_blocks + layout.map_blocks).to_string(),
                layout.fragments.to_string(),
                share(layout.layout_score_permille),
                share(layout.names_in_same_group_permille),
                layout.free_runs.to_string(),
            ]);
        }
    }
    table
}
