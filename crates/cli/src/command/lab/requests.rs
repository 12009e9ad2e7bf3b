//! A trace of another system on a drive, request by request: sums and distributions, for traces of
//! any length.
use super::failure;
use super::replay_options::Arguments;
use extant_chart::{Alignment, Table, wrapped};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_lab::observations::ReplayRows;
use extant_lab::page;
use extant_lab::traces::{self, Input, RequestsReport, TraceOptions, drive_words};
use extant_lab::wanted::Wanted;
use extant_sim::drive::file::DriveSpec;
use extant_sim::replay::Answered;
use extant_sim::trace::requests::RequestFormat;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Replays it.
pub(super) fn run(
    arguments: &Arguments,
    spec: &DriveSpec,
    trace: (RequestFormat, Input),
    options: &TraceOptions,
    console: &Console,
) -> Result<Exit, Error> {
    let path = &arguments.trace;
    let mut lists = Lists::open(arguments, &spec.name)?;
    let mut each = |one| lists.add(one);
    let report = traces::replay_requests(spec, path, trace, options, &Wanted::default(), &mut each);
    let summary = report.map_err(|error| {
        Lists::take_back(arguments);
        failure::refused(error)
    })?;
    lists.finish(arguments)?;
    let lines = [head(&summary), sums(&summary).render(console.width()), notes(&summary)];
    arguments.page.write(|| {
        let words = [&lines[0][..], &lines[2]];
        let (times, measured) = (&summary.times, summary.measured.as_ref());
        page::of_requests(&spec.name, &path.display().to_string(), &words, times, measured)
    })?;
    match console.is_json() {
        true => console.print(&summary.to_json())?,
        false => {
            let [head, table, notes] = lines;
            let wide = |text: &str| wrapped(text, console.width(), 2);
            console.report(&format!("{}{table}{}", wide(&head), wide(&notes)))?;
        }
    }
    Ok(Exit::Complete)
}

/// What goes wrong with one of them is about all.
const FILES: &str = "--times, --csv, --jsonl, --parquet";

/// What is written for each request: `--times`, `--csv`, `--jsonl` and `--parquet`.
struct Lists<'a> {
    times: Option<BufWriter<File>>,
    rows: Vec<ReplayRows<'a, BufWriter<File>>>,
    failed: Option<std::io::Error>,
}

impl<'a> Lists<'a> {
    fn open(arguments: &Arguments, drive: &'a str) -> Result<Lists<'a>, Error> {
        let mut rows = Vec::new();
        for (form, out) in arguments.data.open()? {
            let begun = ReplayRows::begin(drive, form, out);
            rows.push(begun.map_err(|error| Error::io(FILES, &error))?);
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
        for rows in &mut self.rows {
            let row = rows.row(took, one.measured_ns);
            self.failed = self.failed.take().or(row.err());
        }
    }

    fn finish(mut self, arguments: &Arguments) -> Result<(), Error> {
        let times = self.times.as_mut().map_or(Ok(()), Write::flush);
        let rows = self.rows.into_iter().map(ReplayRows::finish);
        let ended = rows.fold(times, |ended, one| ended.and(one));
        self.failed.map_or(ended, Err).map_err(|error| {
            Lists::take_back(arguments);
            Error::io(FILES, &error)
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

fn head(summary: &RequestsReport) -> String {
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

fn sums(summary: &RequestsReport) -> Table {
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

/// What was done to the trace, and what it does not say; a line each.
fn notes(summary: &RequestsReport) -> String {
    let counted = [
        (summary.others, "requests of other volumes were left out"),
        (summary.left_out, "lines move no data, such as discards, and were left out"),
        (summary.late, "requests stand after later ones in the trace, and arrive with these"),
    ];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    let mut lines: Vec<String> = counted.map(|(count, words)| format!("{count} {words}")).collect();
    lines.extend(summary.changes());
    lines.extend(summary.notes.iter().map(|note| (*note).to_owned()));
    lines.iter().map(|line| format!("- {line}\n")).collect()
}
