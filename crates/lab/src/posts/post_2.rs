//! Jeffrey W. Baker, 2007: huge improvement with per-device dirty throttling.
//!
//! `du` walks a tree of millions of files while `dd` writes; beside both somebody lists eight
//! directories and starts two programs. The post compares 2.6.20 with 2.6.23-rc2-mm and the
//! throttle of per-device limits, and says itself that much else lies between the two. Here the
//! throttle and the order of the queue are columns that change alone. And two drives with one
//! memory, which is what the per-device limits were made for.
use super::joined_hash;
use super::{
    Cell, Class, Post, PostColumn, PostReport, PostTable, Quantity, Row, RunPost, Scale, Work,
};
use crate::page;
use crate::report::{CallLatency, Measure, Report};
use crate::scenario::{self, Layouts, Prepared, RunOptions, Scenario, ScenarioError};
use extant_chart::{Figure, StemPlot};
use std::path::Path;

mod drives;

/// The post.
pub const POST: Post = Post {
    number: 2,
    origin: "Jeffrey W. Baker, 2007",
    title: "dirty throttling: readers beside a writer",
    drive: "sata-2006-250",
    fitted: &[
        "the preset, by the year: the post says a single SATA disk",
        "filesystem.offset = 180G: where on the disk it lies, so that dd has its 36 MB/s",
        "of the systems, not of the drive: the elevator of 2.6.20 is deadline (with cfq-like, a \
         column beside it, a call takes half as \
         long); how many names the directories have and how many reads a program's start is, by \
         the times of 2.6.23",
    ],
    run: RUN,
};
const RUN: RunPost = run;

const FILE: &str = "post-2.toml";
const TEXT: &str = include_str!("../../posts/post-2.toml");

/// Which of the post's columns a system is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Posted {
    Old,
    New,
    No,
}

struct System {
    name: &'static str,
    policies: &'static str,
    posted: Posted,
    /// Whether it is shown only at full size.
    full_only: bool,
}

const SYSTEMS: [System; 7] = [
    system("2.6.20", "linux-2.6,throttle=global,elevator=deadline", Posted::Old),
    change("the same, cfq-like", "linux-2.6,throttle=global"),
    change("per-device alone", "linux-2.6,throttle=per-device,elevator=deadline"),
    change("queue alone", "linux-2.6,throttle=global,elevator=cfq-like(100,40,8,125,250,4)"),
    system(
        "2.6.23-mm",
        "linux-2.6,throttle=per-device,elevator=cfq-like(100,40,8,125,250,4)",
        Posted::New,
    ),
    change("proportional", "linux-2.6,throttle=proportional,elevator=cfq-like(100,40,8,125,250,4)"),
    system(MODERN, MODERN_POLICIES, Posted::No),
];
const MODERN: &str = "modern";
const MODERN_POLICIES: &str = "modern,atime=none,throttle=proportional,elevator=cfq-like(60,1000,8,10000,10000,2,24),table-read-ahead=around-32";

const fn system(name: &'static str, policies: &'static str, posted: Posted) -> System {
    System { name, policies, posted, full_only: false }
}

const fn change(name: &'static str, policies: &'static str) -> System {
    System { full_only: true, ..system(name, policies, Posted::No) }
}

/// The two parts of the time in which dd is measured: beside du, and beside all that starts too.
const BESIDE_DU: &str = "dd beside du";
const BESIDE_ALL: &str = "dd beside all";
const BOTH: [&str; 2] = [BESIDE_DU, BESIDE_ALL];
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// What the post's first plot has in its first row: calls that did not wait behind the writer.
const SLOW_NS: u64 = 200 * MS;
/// The reads of the browser's start: as many as 2.6.23 makes in the 33 s of the post.
const BROWSER_READS: u64 = 1_880;

/// A system that has run: all of it, and dd alone.
struct Ran {
    system: &'static System,
    report: Report,
    alone: Report,
}

impl Ran {
    fn posted(&self, old: Option<Quantity>, new: Option<Quantity>) -> Option<Quantity> {
        match self.system.posted {
            Posted::Old => old,
            Posted::New => new,
            Posted::No => None,
        }
    }

    /// Bytes a second of the writer in one part of its time, or in both.
    fn rate(report: &Report, parts: &[&str]) -> Option<u64> {
        let parts: Vec<&Measure> = parts.iter().filter_map(|part| report.measure(part)).collect();
        let bytes = parts.iter().map(|part| part.work.bytes_written).sum();
        per_second(bytes, parts.iter().map(|part| part.elapsed_ns).sum())
    }

    /// What it has alone.
    fn alone(&self) -> Option<u64> {
        Ran::rate(&self.alone, &[BESIDE_DU])
    }

    fn elapsed(&self, measure: &str) -> Option<u64> {
        Some(self.report.measure(measure)?.elapsed_ns)
    }

    fn stats(&self) -> Option<&CallLatency> {
        let du = self.report.processes.iter().find(|process| process.name == "du")?;
        du.calls.iter().find(|calls| calls.call == "stat")
    }

    fn samples(&self) -> &[u64] {
        self.stats().map_or(&[], |calls| &calls.samples_ns)
    }

    /// The share of calls of at least so long, in thousandths.
    fn slow(&self, least_ns: u64) -> Option<u64> {
        let samples = self.samples();
        let slow = samples.iter().filter(|sample| **sample >= least_ns).count() as u64;
        (slow * 1000 + samples.len() as u64 / 2).checked_div(samples.len() as u64)
    }

    fn mean(&self) -> Option<u64> {
        Some(self.stats()?.latency.mean_ns)
    }

    /// How long the browser takes to start: its reads at the rate at which those went that were
    /// made.
    fn browser(&self) -> Option<u64> {
        let measure = self.report.measure("browser")?;
        let time = u128::from(measure.elapsed_ns) * u128::from(BROWSER_READS);
        u64::try_from(time.checked_div(u128::from(measure.work.files))?).ok()
    }

    /// The share of the drive's time, while dd was measured, that was neither positioning nor the
    /// controller's, nor reading: what the readers of this run left a writer, in thousandths.
    fn left_by_readers(&self, measure: &str) -> Option<u64> {
        let dd = self.report.measure(measure)?;
        let alone = self.alone.measure(BESIDE_DU)?;
        let lost = |measure: &Measure| {
            let parts = &measure.traffic.parts;
            let read =
                per_second(measure.traffic.bytes_read * SECOND, rate_of_medium(&self.report))
                    .unwrap_or(0);
            let lost = parts.seek + parts.rotation + parts.settle + read / SECOND;
            (lost.saturating_mul(1000)).checked_div(measure.elapsed_ns)
        };
        Some(1000u64.saturating_sub(lost(dd)?.saturating_sub(lost(alone)?)))
    }
}

fn rate_of_medium(report: &Report) -> u64 {
    report.drives.first().map_or(1, |drive| drive.media_bytes_per_second.max(1))
}

fn per_second(amount: u64, nanoseconds: u64) -> Option<u64> {
    u64::try_from((u128::from(amount) * u128::from(SECOND)).checked_div(u128::from(nanoseconds))?)
        .ok()
}

/// One over the other, in thousandths.
fn permille(part: u64, whole: u64) -> Option<u64> {
    u64::try_from((u128::from(part) * 1000).checked_div(u128::from(whole))?).ok()
}

fn run(work: Work, progress: &mut dyn FnMut(&str)) -> Result<PostReport, ScenarioError> {
    let mut ran: Vec<Ran> = Vec::new();
    let chosen = |system: &&'static System| work.scale == Scale::Full || !system.full_only;
    // One volume after the other in memory: each is made once, and all columns begin with it.
    for layout in [Layout::Ext3, Layout::Ext4] {
        let mut made: Option<Prepared> = None;
        for system in SYSTEMS.iter().filter(chosen).filter(|system| Layout::of(system) == layout) {
            if made.is_none() {
                progress(&format!("post 2: a tree of {} files", layout.files(work)));
                made = prepare(layout, work, system)?;
            }
            progress(&format!("post 2: du and dd: {}", system.name));
            ran.push(run_one(system, layout, work, made.clone())?);
        }
    }
    let (between, drive_reports) = drives::table(work, progress)?;
    let mut tables = vec![latencies(&ran), speeds(&ran)];
    tables.extend(ran.iter().filter_map(plot));
    tables.push(between);
    let reports = ran.iter().flat_map(|ran| [&ran.report, &ran.alone]).chain(&drive_reports);
    Ok(PostReport {
        number: POST.number,
        origin: POST.origin.to_owned(),
        title: POST.title.to_owned(),
        drive: POST.drive.to_owned(),
        fitted: POST.fitted.iter().map(|value| (*value).to_owned()).collect(),
        seed: work.seed.unwrap_or(1),
        trace_hash: joined_hash(reports),
        tables,
        figures: figures(&ran),
        notes: NOTES.iter().map(|note| (*note).to_owned()).collect(),
    })
}

/// How long the calls of `du` took, and what the disk did meanwhile.
fn figures(ran: &[Ran]) -> Vec<Figure> {
    let each = ran.iter().flat_map(|ran| {
        let name = ran.system.name;
        let calls = page::latencies_of_process(
            &ran.report,
            "du",
            &format!("How long the calls of du took: {name}"),
        );
        let drive = ran.report.drives.first();
        let disk =
            drive.and_then(|drive| page::of_drive(drive, &format!("What the disk did: {name}")));
        [calls, disk]
    });
    each.flatten().collect()
}

/// The format that a system uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Ext3,
    Ext4,
}

impl Layout {
    fn of(system: &System) -> Layout {
        match system.name {
            MODERN => Layout::Ext4,
            _ => Layout::Ext3,
        }
    }

    fn files(self, work: Work) -> u64 {
        match work.scale {
            Scale::Full => 2_000_000,
            Scale::Quick => 60_000,
        }
    }

    /// The scenario; quick with a thirtieth of the tree and shorter waits, for what happens to a
    /// call does not hang on these.
    fn scenario(self, work: Work) -> Result<Scenario, ScenarioError> {
        let mut text = TEXT.to_owned();
        if self == Layout::Ext4 {
            text = text.replace("profile = \"ext3\"", "profile = \"ext4\"");
        }
        if work.scale == Scale::Quick {
            let smaller = [
                ("files = 2000000", "files = 60000"),
                ("directories = 150000", "directories = 4500"),
                ("bytes = \"26GB\"", "bytes = \"780MB\""),
                ("files = 60000\ndirectories = 3500", "files = 6000\ndirectories = 350"),
                ("for = \"60s\"", "for = \"30s\""),
                ("reads = 50,", "reads = 8,"),
                ("until\", for = \"30s\"", "until\", for = \"10s\""),
                ("chunk = \"1M\", for = \"30s\"", "chunk = \"1M\", for = \"15s\""),
            ];
            for (full, quick) in smaller {
                text = text.replace(full, quick);
            }
        }
        Ok(scenario::parse(FILE, &text, Path::new(""))?)
    }
}

/// Makes the volume: the first process of the scenario.
fn prepare(layout: Layout, work: Work, system: &System) -> Result<Option<Prepared>, ScenarioError> {
    let mut scenario = layout.scenario(work)?;
    scenario.processes.truncate(1);
    let outcome = scenario::run(&scenario, &options(system, work, None))?;
    Ok(outcome.filesystems.first().and_then(|left| left.prepared()))
}

fn options(system: &System, work: Work, prepared: Option<Prepared>) -> RunOptions {
    RunOptions {
        policies: Some(system.policies.to_owned()),
        layouts: Layouts::AtSteps,
        prepared,
        seed: work.seed,
        ..RunOptions::default()
    }
}

fn run_one(
    system: &'static System,
    layout: Layout,
    work: Work,
    made: Option<Prepared>,
) -> Result<Ran, ScenarioError> {
    let mut scenario = layout.scenario(work)?;
    let report = scenario::run(&scenario, &options(system, work, made.clone()))?.report;
    // The writer alone: nobody walks, and the shell, whose end ends all, does no more than wait.
    scenario.processes.retain(|process| process.name != "du");
    for process in scenario.processes.iter_mut().filter(|process| process.name == "shell") {
        process.steps.truncate(1);
    }
    let alone = scenario::run(&scenario, &options(system, work, made))?.report;
    Ok(Ran { system, report, alone })
}

fn nanoseconds(value: Option<u64>) -> Option<Quantity> {
    value.map(Quantity::Nanoseconds)
}

fn cells(ran: &[Ran], cell: impl Fn(&Ran) -> Cell) -> Vec<Cell> {
    ran.iter().map(cell).collect()
}

/// A row of times: what the post says of either system, in milliseconds.
fn times(
    ran: &[Ran],
    what: &str,
    class: Class,
    posted: [Option<u64>; 2],
    ours: impl Fn(&Ran) -> Option<u64>,
) -> Row {
    let [old, new] = posted.map(|milliseconds| nanoseconds(milliseconds.map(|time| time * MS)));
    let cell = |ran: &Ran| Cell { posted: ran.posted(old, new), ours: nanoseconds(ours(ran)) };
    row(what, class, cells(ran, cell))
}

fn row(what: &str, class: Class, cells: Vec<Cell>) -> Row {
    Row { what: what.to_owned(), class, cells, limit: None, note: None }
}

/// A row of shares and ratios in thousandths.
fn shares(
    ran: &[Ran],
    what: &str,
    class: Class,
    posted: [Option<u64>; 2],
    ours: impl Fn(&Ran) -> Option<u64>,
) -> Row {
    let [old, new] = posted.map(|share| share.map(Quantity::Permille));
    let cell =
        |ran: &Ran| Cell { posted: ran.posted(old, new), ours: ours(ran).map(Quantity::Permille) };
    row(what, class, cells(ran, cell))
}

const ABSOLUTE: Class = Class::Absolute { within_permille: 250 };

fn columns(ran: &[Ran]) -> Vec<PostColumn> {
    let column = |ran: &Ran| PostColumn {
        name: ran.system.name.to_owned(),
        policies: ran.system.policies.to_owned(),
    };
    ran.iter().map(column).collect()
}

fn latencies(ran: &[Ran]) -> PostTable {
    let old = ran.iter().find(|ran| ran.system.posted == Posted::Old);
    let old_mean = old.and_then(Ran::mean);
    let better = |ran: &Ran| permille(old_mean?, ran.mean()?);
    let mut browser =
        times(ran, "start of a browser", Class::Shown, [None, Some(33_000)], Ran::browser);
    browser.note = Some(format!(
        "{BROWSER_READS} reads, from those that were made; the post: more than 30 minutes under \
         2.6.20"
    ));
    let mut rows = vec![
        times(ran, "ls -l of eight directories", ABSOLUTE, [Some(55_000), Some(780)], |ran| {
            ran.elapsed("ls")
        }),
        times(ran, "start of a terminal", ABSOLUTE, [Some(110_000), Some(2_333)], |ran| {
            let measure = ran.report.measure("terminal")?;
            // Quick runs make fewer of its fifty reads.
            (measure.elapsed_ns * 50).checked_div(measure.work.files)
        }),
        browser,
        times(ran, "lstat, mean", ABSOLUTE, [Some(75), Some(5)], Ran::mean),
        shares(
            ran,
            "lstat, mean: times better than 2.6.20",
            Class::Between { least: 10_000, most: 20_000 },
            [None, Some(15_000)],
            better,
        ),
        times(ran, "lstat, longest", Class::Shown, [Some(2_900), Some(1_390)], |ran| {
            Some(ran.stats()?.latency.max_ns)
        }),
        shares(
            ran,
            "lstat, calls of 0.2 s and more",
            Class::Between { least: 80, most: 140 },
            [Some(113), None],
            |ran| ran.slow(SLOW_NS),
        ),
        shares(ran, "lstat, calls that read from the disk", Class::Shown, [None, None], |ran| {
            ran.slow(MS)
        }),
    ];
    rows.push(call_counts(ran));
    PostTable {
        title: "du over millions of files beside dd, 2 GB of memory, one disk: who reads"
            .to_owned(),
        columns: columns(ran),
        rows,
    }
}

fn call_counts(ran: &[Ran]) -> Row {
    row(
        "lstat, calls",
        Class::Shown,
        cells(ran, |ran| Cell {
            posted: ran.posted(Some(Quantity::Count(2_035)), Some(Quantity::Count(2_348))),
            ours: Some(Quantity::Count(ran.samples().len() as u64)),
        }),
    )
}

fn speeds(ran: &[Ran]) -> PostTable {
    let rate = |what: &str, class, posted: [Option<u64>; 2], ours: &dyn Fn(&Ran) -> Option<u64>| {
        let [old, new] = posted.map(|rate| rate.map(Quantity::Count));
        let cell = |ran: &Ran| Cell {
            posted: ran.posted(old, new),
            ours: ours(ran).map(|rate| Quantity::Count(rate / 1000)),
        };
        row(what, class, cells(ran, cell))
    };
    let old = ran.iter().find(|ran| ran.system.posted == Posted::Old);
    let old_rate = old.and_then(|ran| Ran::rate(&ran.report, &BOTH));
    let mut loses = shares(
        ran,
        "dd loses, of what it has under 2.6.20",
        Class::Between { least: 300, most: 500 },
        [None, Some(388)],
        |ran| Some(1000u64.saturating_sub(permille(Ran::rate(&ran.report, &BOTH)?, old_rate?)?)),
    );
    loses.note =
        Some("\"slower when writing out, because other processes make progress\"".to_owned());
    let mut rows = vec![
        rate(
            "dd beside du, in the end also what starts",
            ABSOLUTE,
            [Some(35_167), Some(21_550)],
            &|ran| Ran::rate(&ran.report, &BOTH),
        ),
        loses,
        rate("dd beside du", Class::Shown, [None, None], &|ran| {
            Ran::rate(&ran.report, &[BESIDE_DU])
        }),
        rate("dd alone", Class::Shown, [None, None], &Ran::alone),
    ];
    for (measure, beside) in [(BESIDE_DU, "du"), (BESIDE_ALL, "du and what starts")] {
        let kept = |ran: &Ran| permille(Ran::rate(&ran.report, &[measure])?, ran.alone()?);
        let what = format!("dd keeps beside {beside}, of what it has alone");
        rows.push(shares(ran, &what, Class::Shown, [None, None], kept));
        let left = |ran: &Ran| ran.left_by_readers(measure);
        let mut left =
            shares(ran, "what the reads of this time leave it", Class::Shown, [None, None], left);
        left.note = Some(LIMIT.to_owned());
        rows.push(left);
    }
    PostTable {
        title: "the same: who writes (thousands of bytes a second)".to_owned(),
        columns: columns(ran),
        rows,
    }
}

/// What the drive's limit is.
const LIMIT: &str = "the drive's limit: its time without the arm's ways to what is read and back, \
    and the reading; a writer that \
                     keeps as much loses nothing else";

/// The rows of the post's plots: how many calls each has.
const OLD_PLOT: [u64; 15] = [1805, 24, 137, 35, 10, 6, 7, 1, 1, 3, 2, 2, 0, 1, 1];
const NEW_PLOT: [u64; 14] = [2311, 19, 10, 3, 1, 0, 0, 1, 2, 0, 0, 0, 0, 1];

/// The stem plot of a system of the post, in rows as wide as the post's: ours drawn, both counted.
fn plot(ran: &Ran) -> Option<PostTable> {
    let (row_leaves, posted): (u64, &[u64]) = match ran.system.posted {
        Posted::Old => (20, &OLD_PLOT),
        Posted::New => (10, &NEW_PLOT),
        Posted::No => return None,
    };
    let plot = StemPlot::in_rows(ran.samples(), 2, row_leaves, posted.len());
    let rows = plot.lines().into_iter().zip(plot.rows()).enumerate();
    let rows = rows.map(|(number, (line, (_, count)))| {
        let cell = Cell {
            posted: posted.get(number).copied().map(Quantity::Count),
            ours: Some(Quantity::Count(count)),
        };
        row(&line, Class::Shown, vec![cell])
    });
    Some(PostTable {
        title: format!("lstat under {}: {}", ran.system.name, plot.header()),
        columns: vec![PostColumn {
            name: "calls".to_owned(),
            policies: ran.system.policies.to_owned(),
        }],
        rows: rows.collect(),
    })
}

const NOTES: [&str; 6] = [
    "what makes the difference in this model is the order of the queue more than the throttle: \
     under 2.6.20 write-back fills the \
     disk's own queue (32 commands of half a MiB: 16 MB, 0.45 s), and each read comes behind it. \
     Per-device limits alone (a \
     column of the full report) change next to nothing on one disk; the post says itself that much \
     lies between its two systems",
    "what per-device limits do is in the last table: one drive's dirty pages do not hold back the \
     writers of another",
    "the tree: 2,000,000 files in 150,000 directories, which got their inodes at different times, \
     so that one lstat in nine reads \
     from the disk, as the post's plot says. Quick: 60,000 files, and shorter waits",
    "the directories that are listed have 64 names, a terminal's start is 50 dependent reads of \
     files, a browser's 1,880; their \
     inodes are scattered as months of updates leave them. The post does not say how many; these \
     are such that 2.6.23 comes \
     near the post, and what is compared is what 2.6.20 makes of the same",
    "dd is measured from its thirtieth second on, when memory is full of what it wrote; lstat all \
     the time, beside what starts too. \
     Beside du and dd alone a call takes 58 ms under 2.6.20 and 6.5 ms under 2.6.23 (the quick \
     form)",
    "atime, the journal and the memory that programs take are not modelled",
];
