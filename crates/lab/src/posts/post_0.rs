//! Andrew Morton, 2001: disk throughput.
//!
//! Kernel trees are untarred, compared, archived and removed, and 100,000 small files are made, on
//! a volume of 176 groups. The post has two systems, stock and patched, and the time of the 100,000
//! files before and after the changes to writing; here each of its changes is a column of its own,
//! with Orlov's rule, which came of it, and with what we would do today.
use super::{
    Cell, Class, Limit, Need, Post, PostColumn, PostReport, PostTable, Quantity, Row, Scale, Work,
};
use super::{MODERN_POLICIES, joined_hash, run_scenario};
use crate::page;
use crate::report::{Measure, Report};
use crate::scenario::step::Action;
use crate::scenario::{self, RunOptions, ScenarioError};
use extant_chart::Figure;
use extant_sim::drive::DriveInfo;
use std::path::Path;

/// The post.
pub const POST: Post = Post {
    number: 0,
    origin: "Andrew Morton, 2001",
    title: "disk throughput",
    drive: "ide-2001-7200",
    fitted: &[
        "the preset, by the year: the post says an IDE disk with 2 MB of cache",
        "cache.grace_ms = 4: how long the drive reads on before another command gets the arm",
        "of the systems, not of the drive: a queue of 2,048 requests with elvtune at 200,000 \
         sectors, which the post does not \
         give; an archive unpacked at 16 MB/s",
    ],
    run,
};

const TREES: Text = Text { file: "post-0.toml", text: include_str!("../../posts/post-0.toml") };
const CREATE: Text =
    Text { file: "post-0-create.toml", text: include_str!("../../posts/post-0-create.toml") };
const CLIENTS: Text =
    Text { file: "post-0-clients.toml", text: include_str!("../../posts/post-0-clients.toml") };

/// A scenario file that is built in.
#[derive(Clone, Copy)]
struct Text {
    file: &'static str,
    text: &'static str,
}

impl Text {
    /// On the format of its time, or on that of today.
    fn on(&self, format: Format) -> String {
        match format {
            Format::Ext2 => self.text.to_owned(),
            Format::Ext4 => self.text.replace("profile = \"ext2\"", "profile = \"ext4\"").replace(
                "features = [\"^dir_index\", \"^resize_inode\"]",
                "features = [\"^has_journal\", \"^resize_inode\"]",
            ),
        }
    }
}

#[derive(Clone, Copy)]
enum Format {
    Ext2,
    Ext4,
}

/// Which of the post's columns a system is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Posted {
    Stock,
    /// With all changes but that of placement.
    Writing,
    Patched,
    No,
}

struct System {
    name: &'static str,
    policies: &'static str,
    posted: Posted,
    format: Format,
    /// Whether it is shown only at full size.
    full_only: bool,
}

const fn change(name: &'static str, policies: &'static str) -> System {
    System { name, policies, posted: Posted::No, format: Format::Ext2, full_only: true }
}

const fn always(name: &'static str, policies: &'static str, posted: Posted) -> System {
    System { posted, full_only: false, ..change(name, policies) }
}

const SYSTEMS: [System; 10] = [
    always("stock", "linux-2.4", Posted::Stock),
    change("placement", "linux-2.4,placement=parent"),
    change("inode write-back", "linux-2.4,inode-write-back=clustered"),
    change("preread", "linux-2.4,inode-creation=preread"),
    change("bitmap lock", "linux-2.4,bitmap-load=outside"),
    change("queue, elvtune", "linux-2.4,requests=2048,elevator=linus(200000,200000)"),
    always("all of writing", "linux-2.4-akpm,placement=spread", Posted::Writing),
    always("patched", "linux-2.4-akpm", Posted::Patched),
    always("orlov", "linux-2.4-akpm,placement=orlov", Posted::No),
    System { format: Format::Ext4, ..always("modern", MODERN_POLICIES, Posted::No) },
];

/// A line of the post's table: what, and seconds of stock and patched.
struct Line {
    what: &'static str,
    measure: &'static str,
    stock: u64,
    patched: u64,
}

const LINES: [Line; 4] = [
    Line { what: "untar one kernel tree, sync", measure: "untar, sync", stock: 31, patched: 14 },
    Line { what: "diff two trees", measure: "diff", stock: 184, patched: 72 },
    Line { what: "tar kernel tree to /dev/null", measure: "tar to null", stock: 15, patched: 3 },
    Line { what: "remove 2 kernel trees, sync", measure: "remove, sync", stock: 30, patched: 10 },
];
/// Seconds for 100,000 files: before, and with the changes to writing.
const CREATE_SECONDS: (u64, u64) = (189, 30);

const RATIO: Class = Class::Ratio { within_permille: 350 };
const ABSOLUTE: Class = Class::Absolute { within_permille: 400 };
const SECOND: u64 = 1_000_000_000;

fn run(work: Work, progress: &mut dyn FnMut(&str)) -> Result<PostReport, ScenarioError> {
    let systems: Vec<&System> =
        SYSTEMS.iter().filter(|system| work.scale == Scale::Full || !system.full_only).collect();
    let trees = run_all(TREES, &systems, work, progress)?;
    let create = run_all(CREATE, &systems, work, progress)?;
    let clients = run_all(CLIENTS, &client_systems(), work, progress)?;
    let mut rows = Vec::new();
    for line in &LINES {
        rows.extend(both(
            line.what,
            tree_cells(line, &systems, &trees),
            tree_limit(line, &trees, work)?,
        ));
    }
    rows.extend(both(
        "create 100,000 files of 4 KiB, sync",
        create_cells(&systems, &create),
        Some(create_limit(&create)),
    ));
    let tables = vec![
        PostTable {
            title: "21 GB, 176 groups, 768 MB of memory, cold; sync included".to_owned(),
            columns: columns(&systems),
            rows,
        },
        PostTable {
            title: "Sixteen clients in the manner of dbench".to_owned(),
            columns: columns(&client_systems()),
            rows: vec![clients_row(&clients)],
        },
    ];
    let figures = figures(&systems, &trees, &create);
    let all = trees.iter().chain(&create).chain(&clients);
    Ok(PostReport {
        number: POST.number,
        origin: POST.origin.to_owned(),
        title: POST.title.to_owned(),
        drive: POST.drive.to_owned(),
        fitted: POST.fitted.iter().map(|fitted| (*fitted).to_owned()).collect(),
        seed: work.seed.unwrap_or(1),
        tables,
        figures,
        notes: NOTES.iter().map(|note| (*note).to_owned()).collect(),
        trace_hash: joined_hash(all),
    })
}

const NOTES: [&str; 6] = [
    "a kernel tree of the time: 10,100 files in 600 directories, 133 MB, in the order of names; \
     unpacked at 16 MB/s of the \
     processor, as archives came compressed (an assumption: the post does not say)",
    "the post gives neither the length of the queue nor the numbers of elvtune that it used: 2,048 \
     requests and 200,000 \
     sectors are ours. With 20,000 sectors a sweep covers 10 MB, and no drive of the time writes \
     the 100,000 files in 30 s so",
    "0:30 for the 100,000 files is taken for all changes but that of placement, which the post \
     tells of afterwards",
    "diff: nearly all reads of both columns are answered by what the drive reads on; the ratio \
     holds, the absolute times \
     come out shorter than the post's, whose archive was not wholly in the order of names",
    "modern runs on ext4 without a journal (extents, flex groups); all others on ext2 without \
     dir_index",
    "limit: bytes at the outer rate, one seek to each place that has to be visited, and the \
     unpacking where that is longer. \
     remove: modern waits for the bitmaps and inode tables of two trees one after the other; \
     reading them in one sorted \
     batch before the first removal would come near the limit",
];

/// Seek plots of the post's systems and of today's: the trees, and the 100,000 files.
fn figures(systems: &[&System], trees: &[Report], create: &[Report]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (reports, what) in [(trees, "kernel trees"), (create, "100,000 files")] {
        for (system, report) in systems.iter().zip(reports) {
            let is_shown = system.posted != Posted::No || system.policies == MODERN_POLICIES;
            let drive = report.drives.first().filter(|_| is_shown);
            let title = format!("{what}, {}", system.name);
            figures.extend(drive.and_then(|drive| page::of_drive(drive, &title)));
        }
    }
    figures.into_iter().map(|figure| figure.section("seeks over time")).collect()
}

/// One run of each system.
fn run_all(
    text: Text,
    systems: &[&System],
    work: Work,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Report>, ScenarioError> {
    let mut reports = Vec::new();
    for system in systems {
        progress(&format!("post 0: {}: {}", text.file.trim_end_matches(".toml"), system.name));
        let options = RunOptions {
            policies: Some(system.policies.to_owned()),
            seed: work.seed,
            ..RunOptions::default()
        };
        reports.push(run_scenario(text.file, &text.on(system.format), &options)?.report);
    }
    Ok(reports)
}

fn columns(systems: &[&System]) -> Vec<PostColumn> {
    let column = |system: &&System| PostColumn {
        name: system.name.to_owned(),
        policies: system.policies.to_owned(),
    };
    systems.iter().map(column).collect()
}

fn elapsed(report: &Report, measure: &str) -> Option<Quantity> {
    let of = |measure: &Measure| Quantity::Nanoseconds(measure.elapsed_ns);
    report.measure(measure).map(of)
}

fn seconds(seconds: u64) -> Option<Quantity> {
    Some(Quantity::Nanoseconds(seconds * SECOND))
}

fn tree_cells(line: &Line, systems: &[&System], reports: &[Report]) -> Vec<Cell> {
    let cell = |(system, report): (&&System, &Report)| Cell {
        posted: match system.posted {
            Posted::Stock => seconds(line.stock),
            Posted::Patched => seconds(line.patched),
            Posted::Writing | Posted::No => None,
        },
        ours: elapsed(report, line.measure),
    };
    systems.iter().zip(reports).map(cell).collect()
}

fn create_cells(systems: &[&System], reports: &[Report]) -> Vec<Cell> {
    let cell = |(system, report): (&&System, &Report)| Cell {
        posted: match system.posted {
            Posted::Stock => seconds(CREATE_SECONDS.0),
            Posted::Writing => seconds(CREATE_SECONDS.1),
            Posted::Patched | Posted::No => None,
        },
        ours: elapsed(report, "create, sync"),
    };
    systems.iter().zip(reports).map(cell).collect()
}

/// A row for the ratio, and one for the times.
fn both(what: &str, cells: Vec<Cell>, limit: Option<Limit>) -> [Row; 2] {
    let row =
        |what: String, class, limit| Row { what, class, cells: cells.clone(), limit, note: None };
    [row(what.to_owned(), RATIO, limit), row(format!("{what}: times"), ABSOLUTE, None)]
}

/// The drive as limits see it.
fn drive(reports: &[Report]) -> Option<DriveInfo> {
    let drive = reports.first()?.drives.first()?;
    Some(DriveInfo {
        name: drive.name.clone(),
        bytes: drive.bytes,
        sector_bytes: 512,
        queue_depth: 1,
        media_bytes_per_second: drive.media_bytes_per_second,
        least_seek_ns: drive.least_seek_ns,
    })
}

const BLOCK: u64 = 4096;
const INODE: u64 = 128;

/// The least that a line of the table asks of the drive: a tree's blocks lie in a row, its inodes
/// and its directories too.
fn tree_limit(line: &Line, reports: &[Report], work: Work) -> Result<Option<Limit>, ScenarioError> {
    let scenario = scenario::parse(TREES.file, TREES.text, Path::new(""))?;
    let made = scenario.processes.iter().flat_map(|process| &process.steps).find_map(|step| {
        let Action::Make { tree, .. } = &step.action else {
            return None;
        };
        tree.build(work.seed.unwrap_or(scenario.seed), 1).ok()
    });
    let (Some(tree), Some(drive)) = (made, drive(reports)) else {
        return Ok(None);
    };
    let totals = tree.totals();
    let content = tree.blocks(BLOCK as u32) * BLOCK;
    let inodes = (totals.files + totals.directories) * INODE;
    let directories = totals.directories * BLOCK;
    let unpacking = u64::try_from(u128::from(totals.bytes) * u128::from(SECOND) / (16 << 20))
        .unwrap_or(u64::MAX);
    let limit = match line.measure {
        "untar, sync" => Need { bytes_written: content + inodes, seeks: 2, ..Need::default() }
            .limit(&drive)
            .beside(unpacking),
        "diff" => {
            Need { bytes_read: 2 * (content + inodes), seeks: 4, ..Need::default() }.limit(&drive)
        }
        "tar to null" => {
            Need { bytes_read: directories + inodes, seeks: 2, ..Need::default() }.limit(&drive)
        }
        _ => Need { bytes_read: 2 * (directories + inodes), bytes_written: 2 * inodes, seeks: 6 }
            .limit(&drive),
    };
    Ok(Some(limit))
}

fn create_limit(reports: &[Report]) -> Limit {
    let need =
        Need { bytes_written: (100_000 + 10_000) * (BLOCK + INODE), seeks: 2, ..Need::default() };
    drive(reports).map_or_else(|| Need::default().limit(&NO_DRIVE), |drive| need.limit(&drive))
}

/// What stands where a report has no drive: there is always one.
const NO_DRIVE: DriveInfo = DriveInfo {
    name: String::new(),
    bytes: 0,
    sector_bytes: 512,
    queue_depth: 1,
    media_bytes_per_second: 1,
    least_seek_ns: 0,
};

const UNDER_LOCK: System = always("under the lock", "linux-2.4", Posted::No);
const OUTSIDE: System = always("outside", "linux-2.4,bitmap-load=outside", Posted::No);

fn client_systems() -> Vec<&'static System> {
    let modern = SYSTEMS.iter().filter(|system| system.name == "modern");
    [&UNDER_LOCK, &OUTSIDE].into_iter().chain(modern).collect()
}

/// The post has no figure for many clients: how long all of them took.
fn clients_row(reports: &[Report]) -> Row {
    let ended = |report: &Report| {
        let ends = report.processes.iter().map(|process| process.ended_ns);
        Cell { posted: None, ours: ends.max().map(Quantity::Nanoseconds) }
    };
    Row {
        what: "sixteen clients: make, read, write, stat, remove, sync, three times".to_owned(),
        class: Class::Shown,
        cells: reports.iter().map(ended).collect(),
        limit: None,
        note: Some(
            "the post says that this change benefits multithreaded workloads such as dbench, \
             without a figure"
                .to_owned(),
        ),
    }
}
