//! A trace of another system on a drive, request by request: sums and distributions, for traces of
//! any length.
use super::replay_options::Arguments;
use extant_archive::Decompressed;
use extant_chart::{Alignment, Table, wrapped};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_lab::observations::ReplayRows;
use extant_lab::page;
use extant_lab::report::Distribution;
use extant_sim::drive::file::DriveSpec;
use extant_sim::drive::presets;
use extant_sim::replay::{Answered, Beyond, Changed, Pace, Replayed, replay_requests};
use extant_sim::trace::requests::{ReadCounts, RequestFormat, RequestReader};
use extant_sim::trace::{START_BYTES, TraceError};
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

/// Bytes of a trace at hand.
const BUFFER_BYTES: usize = 1 << 20;

/// The bytes of a trace, decompressed if it is compressed, with the first of them to look at.
pub(super) struct Input {
    /// The first bytes, at most [`START_BYTES`].
    pub(super) start: Vec<u8>,
    /// All of them.
    pub(super) bytes: Box<dyn BufRead>,
}

/// Opens a trace.
pub(super) fn open(path: &Path) -> Result<Input, Error> {
    let failed = |error: std::io::Error| Error::io(path.display(), &error);
    let file = File::open(path).map_err(failed)?;
    let mut rest: Box<dyn BufRead> = match Decompressed::open(file).map_err(failed)? {
        Some(decompressed) => Box::new(decompressed),
        None => {
            let file = File::open(path).map_err(failed)?;
            Box::new(BufReader::with_capacity(BUFFER_BYTES, file))
        }
    };
    let mut start = Vec::new();
    rest.by_ref().take(START_BYTES as u64).read_to_end(&mut start).map_err(failed)?;
    let bytes = Box::new(std::io::Cursor::new(start.clone()).chain(rest));
    Ok(Input { start, bytes })
}

/// What a replay gave, as JSON.
#[derive(Serialize)]
struct Summary {
    drive: String,
    validation: Option<&'static str>,
    format: &'static str,
    volume: String,
    pace: &'static str,
    requests: u64,
    reads: u64,
    writes: u64,
    flushes: u64,
    bytes_read: u64,
    bytes_written: u64,
    /// Of other volumes.
    others: u64,
    left_out: u64,
    late: u64,
    beyond: u64,
    beyond_was: &'static str,
    cut: u64,
    widened: u64,
    elapsed_ns: u64,
    times: Distribution,
    measured: Option<Distribution>,
    notes: Vec<&'static str>,
}

const SCHEMA: &str = "extant-lab-replay/1";

/// Replays it.
pub(super) fn run(
    arguments: &Arguments,
    spec: &DriveSpec,
    (format, input): (RequestFormat, Input),
    console: &Console,
) -> Result<Exit, Error> {
    let path = arguments.trace.display();
    let beyond = arguments.beyond.map_or_else(
        // Numbers of objects are no places: one place for all of them would mean nothing.
        || if format == RequestFormat::OracleGeneral { Beyond::Wrapped } else { Beyond::Moved },
        Beyond::from,
    );
    let pace = Pace::from(arguments.pace.unwrap_or_default());
    let mut lists = Lists::open(arguments, &spec.name)?;
    let mut reader = RequestReader::new(input.bytes, format, arguments.volume.as_deref());
    let mut drive = spec.build(arguments.seed);
    let replayed = replay_requests(
        drive.as_mut(),
        &mut || reader.next_request(),
        (pace, beyond),
        &mut |one| lists.add(one),
    );
    let replayed = replayed.map_err(|error| {
        Lists::take_back(arguments);
        wrong(&arguments.trace, error)
    })?;
    if replayed.requests == 0 {
        Lists::take_back(arguments);
        return Err(none_in(&arguments.trace));
    }
    lists.finish(arguments)?;
    let names = (spec.name.clone(), reader.volume());
    let read = (reader.counts(), reader.notes());
    let summary = summary(names, &replayed, read, (format, pace, beyond));
    let lines = [head(&summary), sums(&summary).render(console.width()), notes(&summary)];
    arguments.page.write(|| {
        let words = [&lines[0][..], &lines[2]];
        let (times, measured) = (&summary.times, summary.measured.as_ref());
        page::of_requests(&spec.name, &path.to_string(), &words, times, measured)
    })?;
    match console.is_json() {
        true => console.print_json(SCHEMA, &summary)?,
        false => {
            let [head, table, notes] = lines;
            let wide = |text: &str| wrapped(text, console.width(), 2);
            console.report(&format!("{}{table}{}", wide(&head), wide(&notes)))?;
        }
    }
    Ok(Exit::Complete)
}

/// What is written for each request: `--times`, `--csv` and `--jsonl`.
struct Lists<'a> {
    times: Option<BufWriter<File>>,
    rows: Vec<(ReplayRows<'a>, BufWriter<File>)>,
    failed: Option<std::io::Error>,
}

impl<'a> Lists<'a> {
    fn open(arguments: &Arguments, drive: &'a str) -> Result<Lists<'a>, Error> {
        let mut rows = Vec::new();
        for (form, mut out) in arguments.data.open()? {
            let begun = ReplayRows::begin(drive, form, &mut out);
            rows.push((begun.map_err(|error| Error::io("--csv, --jsonl", &error))?, out));
        }
        let times = arguments.times.as_deref().map(create).transpose()?;
        Ok(Lists { times, rows, failed: None })
    }

    fn add(&mut self, one: Answered) {
        let took = one.took_ns;
        if let Some(out) = &mut self.times {
            let line = writeln!(out, "{}.{:06}", took / 1_000_000, took % 1_000_000);
            self.failed = self.failed.take().or(line.err());
        }
        for (rows, out) in &mut self.rows {
            let row = rows.row(took, one.measured_ns, out);
            self.failed = self.failed.take().or(row.err());
        }
    }

    fn finish(mut self, arguments: &Arguments) -> Result<(), Error> {
        let outs = self.times.iter_mut().chain(self.rows.iter_mut().map(|(_, out)| out));
        let flushed: std::io::Result<()> = outs.into_iter().try_for_each(Write::flush);
        self.failed.map_or(flushed, Err).map_err(|error| {
            Lists::take_back(arguments);
            Error::io("--times, --csv, --jsonl", &error)
        })
    }

    /// Half of the times would pass for all of them.
    fn take_back(arguments: &Arguments) {
        let _ = arguments.times.as_ref().map(std::fs::remove_file);
        arguments.data.take_back();
    }
}

fn create(path: &Path) -> Result<BufWriter<File>, Error> {
    let file = File::options().write(true).create_new(true).open(path);
    file.map(BufWriter::new).map_err(|error| Error::io(path.display(), &error))
}

/// A trace without a request has nothing to say of a drive.
pub(super) fn none_in(path: &Path) -> Error {
    Error::new(format!("{}: holds no request", path.display()))
}

/// What is wrong with a trace, with its file and line.
fn wrong(path: &Path, error: TraceError) -> Error {
    let path = path.display();
    match error {
        TraceError::Line { line, reason } => Error::new(format!("{path}:{line}: {reason}")),
        error @ (TraceError::Mixed { .. } | TraceError::NoSuchVolume { .. }) => {
            Error::new(format!("{path}: {error}")).hint("--volume selects one of them")
        }
        TraceError::Input(error) => Error::io(path, &error),
        error => Error::new(format!("{path}: {error}")),
    }
}

fn summary(
    (drive, volume): (String, String),
    replayed: &Replayed,
    (counts, notes): (ReadCounts, Vec<&'static str>),
    (format, pace, beyond): (RequestFormat, Pace, Beyond),
) -> Summary {
    let measured = Distribution::from(&replayed.measured);
    Summary {
        validation: presets::standing(&drive),
        drive,
        format: format.name(),
        volume,
        pace: match pace {
            Pace::Recorded => "recorded",
            Pace::Closed => "closed",
            Pace::FullSpeed => "full-speed",
        },
        requests: replayed.requests,
        reads: replayed.reads,
        writes: replayed.writes,
        flushes: replayed.flushes,
        bytes_read: replayed.bytes_read,
        bytes_written: replayed.bytes_written,
        others: counts.others,
        left_out: counts.left_out,
        late: counts.late,
        beyond: replayed.changed.beyond,
        beyond_was: beyond_was(beyond),
        cut: replayed.changed.cut,
        widened: replayed.changed.widened,
        elapsed_ns: replayed.ended_ns,
        times: Distribution::from(&replayed.times),
        measured: Some(measured).filter(|measured| measured.count > 0),
        notes,
    }
}

fn head(summary: &Summary) -> String {
    let volume = match &summary.volume[..] {
        "" => String::new(),
        volume => format!(", volume {volume}"),
    };
    format!(
        "{} requests ({} reads, {} writes, {} flushes) of a trace in the format {}{volume}, on {}, \
         pace {}: {} s\n",
        summary.requests,
        summary.reads,
        summary.writes,
        summary.flushes,
        summary.format,
        drive_words(&summary.drive),
        summary.pace,
        extant_chart::seconds(summary.elapsed_ns),
    )
}

/// A drive's name, and that nothing was measured on it where that is so.
pub(super) fn drive_words(drive: &str) -> String {
    match presets::standing(drive) {
        Some(words) => format!("{drive} ({words})"),
        None => drive.to_owned(),
    }
}

fn sums(summary: &Summary) -> Table {
    let columns = [
        ("", Alignment::Left),
        ("requests", Alignment::Right),
        ("mean ms", Alignment::Right),
        ("median", Alignment::Right),
        ("90 %", Alignment::Right),
        ("99 %", Alignment::Right),
        ("99.9 %", Alignment::Right),
        ("max", Alignment::Right),
    ];
    let mut table = Table::new("response times", &columns);
    let milliseconds =
        |nanoseconds: u64| format!("{}.{:03}", nanoseconds / 1_000_000, nanoseconds / 1000 % 1000);
    for (name, times) in
        [("the model", Some(&summary.times)), ("as it was traced", summary.measured.as_ref())]
    {
        let Some(all) = times else { continue };
        let times = [all.mean_ns, all.median_ns, all.p90_ns, all.p99_ns, all.p999_ns, all.max_ns];
        let times = times.map(milliseconds);
        table.row([name.to_owned(), all.count.to_string()].into_iter().chain(times));
    }
    table
}

/// What a report calls it.
pub(super) fn beyond_was(beyond: Beyond) -> &'static str {
    match beyond {
        Beyond::Moved => "moved",
        Beyond::Wrapped => "wrapped",
    }
}

/// What was changed of the requests, a line each; `beyond_was` is what [`beyond_was`] gave.
pub(super) fn changes(changed: Changed, beyond_was: &str) -> Vec<String> {
    let became = match beyond_was {
        "wrapped" => "beyond the drive's end: folded into it",
        _ => "beyond the drive's end: moved to end there",
    };
    let counted = [
        (changed.beyond, became),
        (changed.cut, "longer than the drive: cut"),
        (changed.widened, "not of whole sectors of the drive: widened to all that they touch"),
    ];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    counted.map(|(count, words)| format!("requests {words}: {count}")).collect()
}

/// What was done to the trace, and what it does not say; a line each.
fn notes(summary: &Summary) -> String {
    let counted = [
        (summary.others, "requests of other volumes were left out"),
        (summary.left_out, "lines move no data, such as discards, and were left out"),
        (summary.late, "requests stand after later ones in the trace, and arrive with these"),
    ];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    let mut lines: Vec<String> = counted.map(|(count, words)| format!("{count} {words}")).collect();
    let (beyond, cut, widened) = (summary.beyond, summary.cut, summary.widened);
    lines.extend(changes(Changed { beyond, cut, widened }, summary.beyond_was));
    lines.extend(summary.notes.iter().map(|note| (*note).to_owned()));
    lines.iter().map(|line| format!("- {line}\n")).collect()
}
