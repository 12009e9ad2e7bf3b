//! Linus Torvalds, 2007: readdir of a cold directory.
//!
//! The post's program makes a directory whose blocks lie between the data of its files; listing it
//! cold waits for the disk once for nearly every block. The post lists eleven getdents calls of a
//! hashed directory, and asks for read-ahead and for blocks that lie together: both are columns
//! here, alone and together, for hashed and linear directories.
use super::{Cell, Class, Need, Post, PostColumn, PostReport, PostTable, Quantity, Row, Work};
use super::{MODERN_POLICIES, joined_hash, readdir_cost, run_scenario};
use crate::report::{ListingCall, Report, StepReport};
use crate::scenario::{RunOptions, ScenarioError};
use extant_block::{
    BlockDevice, Clock, Completed, DeviceInfo, Operation, RealClock, Request, Segment,
};
use extant_chart::{Axis, BarChart, Figure, Origin, Unit};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use std::sync::Arc;

/// The post.
pub const POST: Post = Post {
    number: 3,
    origin: "Linus Torvalds, 2007",
    title: "readdir of a cold directory",
    drive: "sata-2006-250",
    fitted: &[
        "the preset, by the year: the post does not name its drive",
        "the seed of the hash: the first that gives the directory the post's 11 blocks (others \
         give 9 or 10)",
    ],
    run,
};

const HASHED: Volume =
    Volume { file: "post-3-hashed.toml", text: include_str!("../../posts/post-3-hashed.toml") };
const LINEAR: Volume =
    Volume { file: "post-3-linear.toml", text: include_str!("../../posts/post-3-linear.toml") };
/// What the program makes.
const DIRECTORY: &str = "/home/user/throwaway";
const BLOCK: u64 = 4096;

/// Entries, bytes and microseconds of the post's calls, cold.
const CALLS: [(u64, u64, u64); 11] = [
    (103, 4088, 34_830),
    (102, 4080, 6_703),
    (102, 4080, 6_719),
    (102, 4080, 354),
    (102, 4080, 17),
    (102, 4080, 5_302),
    (102, 4080, 16_957),
    (102, 4080, 17),
    (102, 4080, 3_530),
    (83, 3320, 296),
    (0, 0, 6),
];
/// Why rows of computing alone have no value here.
const CPU: &str = "CPU only: virtual time charges constants of the preset for it, so a value here \
    would say nothing. What the \
                   engine's own listing costs on this host differs from run to run and stands \
                   apart from this report: \
                   `cargo test --release -p extant-lab --test posts listing -- --nocapture` prints \
                   it";
/// Why `time ls` has none.
const PROGRAM: &str = "contains the cold start of a program (its binary, its libraries, the \
    locale), of which the post says \
                       nothing; the post's getdents calls add up to 74.7 ms of it";

/// Why modern does not come nearer to the limit.
const OVER_LIMIT: &str = "beyond the limit modern takes what lies near the directory and is read \
    with it, one command's overhead, \
                          the transfer over the interface once all is read, and computing: reading \
                          the directory alone would \
                          save half of that, the rest only a drive that sends while it reads";
/// A scenario of the post: with or without the index.
#[derive(Clone, Copy)]
struct Volume {
    file: &'static str,
    text: &'static str,
}

/// A system that lists the directory.
struct System {
    name: &'static str,
    policies: &'static str,
}

/// What the post has in its last paragraphs: each remedy, alone and together.
const SYSTEMS: [System; 7] = [
    System { name: "single, none", policies: "linux-2.6,directory-read-ahead=none" },
    System { name: "single, physical", policies: "linux-2.6,directory-read-ahead=physical" },
    System { name: "single, logical", policies: "linux-2.6,directory-read-ahead=logical" },
    System {
        name: "by 8, none",
        policies: "linux-2.6,directory-read-ahead=none,growth=contiguous-8",
    },
    System {
        name: "by 8, physical",
        policies: "linux-2.6,directory-read-ahead=physical,growth=contiguous-8",
    },
    System {
        name: "by 8, logical",
        policies: "linux-2.6,directory-read-ahead=logical,growth=contiguous-8",
    },
    System { name: "modern", policies: MODERN_POLICIES },
];
/// The kernel of the post: of a hashed directory it reads leaf by leaf; of a linear one, what is
/// contiguous.
const STOCK_HASHED: usize = 0;
const STOCK_LINEAR: usize = 1;
const MODERN: usize = 6;

/// What the post expects of contiguous blocks that are read ahead, and of which systems.
struct Claim {
    /// "Under 25 ms".
    quick: &'static [&'static str],
    /// "A couple of I/Os".
    few_reads: &'static [&'static str],
    note: &'static str,
}

const HASHED_CLAIM: Claim = Claim {
    quick: &["by 8, logical", "modern"],
    few_reads: &["modern"],
    note: "by 8 the eleven blocks lie in three pieces (the one that mkdir took, eight, two), and \
        each is an I/O; contiguous, as \
           the post supposes, they are in modern only",
};
const LINEAR_CLAIM: Claim = Claim {
    quick: &["by 8, physical", "by 8, logical", "modern"],
    few_reads: &["by 8, physical", "by 8, logical", "modern"],
    note: "by 8 the seven blocks lie in two pieces: the one that mkdir took, and six of eight",
};

/// The directory as it was made, and its listing.
struct Ran {
    report: Report,
    cold: StepReport,
    /// Where its blocks lie: the first of each run, and how many.
    runs: Vec<(u64, u64)>,
}

impl Ran {
    fn blocks(&self) -> u64 {
        self.runs.iter().map(|run| run.1).sum()
    }

    /// All calls together.
    fn nanoseconds(&self) -> u64 {
        self.cold.calls.iter().map(|call| call.elapsed_ns).sum()
    }

    fn call(&self, number: usize) -> Option<&ListingCall> {
        self.cold.calls.get(number)
    }

    /// From the end of a run to the start of the next, on average, in KiB.
    fn gap_kib(&self) -> Option<u64> {
        let gaps = self.runs.windows(2).map(|pair| pair[1].0.abs_diff(pair[0].0 + pair[0].1));
        (gaps.sum::<u64>() * BLOCK / 1024).checked_div((self.runs.len() as u64).saturating_sub(1))
    }
}

fn run(work: Work, progress: &mut dyn FnMut(&str)) -> Result<PostReport, ScenarioError> {
    // A thousand files take no time: both scales are the post's.
    let mut all = |volume: Volume, words: &str| -> Result<Vec<Ran>, ScenarioError> {
        let listed = SYSTEMS.iter().map(|system| {
            progress(&format!("post 3: {words}: {}", system.name));
            list(volume, system, work)
        });
        listed.collect()
    };
    let (hashed, linear) = (all(HASHED, "hashed")?, all(LINEAR, "linear")?);
    let reports = hashed.iter().chain(&linear).map(|ran| &ran.report);
    Ok(PostReport {
        number: POST.number,
        origin: POST.origin.to_owned(),
        title: POST.title.to_owned(),
        drive: POST.drive.to_owned(),
        fitted: POST.fitted.iter().map(|value| (*value).to_owned()).collect(),
        seed: hashed[STOCK_HASHED].report.seed,
        trace_hash: joined_hash(reports),
        tables: vec![
            calls(&hashed, &linear),
            remedies(
                "a hashed directory: how it grows, how it is read ahead",
                &hashed,
                &HASHED_CLAIM,
            ),
            remedies(
                "a linear directory: how it grows, how it is read ahead",
                &linear,
                &LINEAR_CLAIM,
            ),
        ],
        figures: vec![remedies_figure(&hashed, &linear)],
        notes: notes(),
    })
}

/// All calls of each remedy, of both directories.
fn remedies_figure(hashed: &[Ran], linear: &[Ran]) -> Figure {
    let groups = SYSTEMS.iter().zip(hashed.iter().zip(linear)).map(|(system, (hashed, linear))| {
        let times = [hashed, linear].map(|ran| Some(ran.nanoseconds()));
        (system.name.to_owned(), times.into())
    });
    let chart = BarChart {
        value: Axis::new("all calls of a cold listing", Unit::Nanoseconds),
        bars: ["hashed", "linear"].map(|name| (name.to_owned(), Origin::Ours)).into(),
        groups: groups.collect(),
    };
    Figure::new("Growth by growth, read-ahead by read-ahead", chart)
        .line("How a directory grows (block by block, or by eight), and what is read ahead in it.")
        .section("the remedies side by side")
}

fn notes() -> Vec<String> {
    [
        "the post's file system was in use; here it is new: 20 GiB of ext3, the directory in a \
         home directory, memory cold",
        "the inode of the directory is in memory when the calls begin, as after open; reads are \
         those of the calls alone",
        "which call waits depends on where the leaves lie in the order of the hash, whose seed the \
         post does not give: calls \
         are shown, their sum is judged",
        "the limit is the directory's bytes under the head: its blocks can lie behind its inode, \
         which opening it reads, and \
         so need no move of the arm and no wait for the sector",
    ]
    .map(str::to_owned)
    .into()
}

fn list(volume: Volume, system: &System, work: Work) -> Result<Ran, ScenarioError> {
    let options = RunOptions {
        policies: Some(system.policies.to_owned()),
        seed: work.seed,
        ..RunOptions::default()
    };
    let outcome = run_scenario(volume.file, volume.text, &options)?;
    let failed = |reason: String| ScenarioError::Run { file: volume.file.to_owned(), reason };
    let policies: Policies = system
        .policies
        .parse()
        .map_err(|error: extant_engine::preset::PresetError| failed(error.to_string()))?;
    let left =
        outcome.filesystems.first().ok_or_else(|| failed("has no file system".to_owned()))?;
    let cold =
        outcome.report.step("cold").ok_or_else(|| failed("has no step \"cold\"".to_owned()))?;
    Ok(Ran {
        cold: cold.clone(),
        runs: places(&left.contents, policies).map_err(|error| failed(error.to_string()))?,
        report: outcome.report,
    })
}

/// Where the blocks of the directory lie.
fn places(
    contents: &Arc<dyn BlockDevice>,
    policies: Policies,
) -> Result<Vec<(u64, u64)>, extant_engine::Error> {
    let device = Arc::new(Still { contents: Arc::clone(contents), clock: RealClock::new() });
    let options = Options {
        access: Access::ReadOnly,
        policies,
        cache_bytes: 1 << 20,
        data: DataKeeping::Bytes,
    };
    let filesystem = Filesystem::open(device, &options)?;
    let runs = filesystem.object(DIRECTORY)?.runs()?;
    Ok(runs.iter().map(|run| (run.run.start.0, u64::from(run.run.length))).collect())
}

/// What a run left, outside of its time.
struct Still {
    contents: Arc<dyn BlockDevice>,
    clock: Arc<dyn Clock>,
}

impl BlockDevice for Still {
    fn info(&self) -> DeviceInfo {
        self.contents.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
    fn submit(&self, request: Request) {
        self.contents.submit(request);
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        self.contents.transfer(operation, offset, segments)
    }
}

/// The post's table: call by call.
fn calls(hashed: &[Ran], linear: &[Ran]) -> PostTable {
    let systems = [&hashed[STOCK_HASHED], &linear[STOCK_LINEAR], &hashed[MODERN]];
    let mut rows = Vec::new();
    for (number, posted) in CALLS.iter().enumerate() {
        rows.extend(call(&systems, number, *posted));
    }
    let total_us: u64 = CALLS.iter().map(|call| call.2).sum();
    let cells = |posted: [Option<Quantity>; 3], of: &dyn Fn(&Ran) -> Option<Quantity>| {
        let cells = systems.iter().zip(posted);
        cells.map(|(ran, posted)| Cell { posted, ours: of(ran) }).collect::<Vec<Cell>>()
    };
    let count = |number: usize| Some(Quantity::Count(number as u64));
    rows.push(row(
        "calls",
        Class::Exact,
        cells([count(CALLS.len()), None, None], &|ran| count(ran.cold.calls.len())),
    ));
    let directory = cells([count(11), count(7), None], &|ran| Some(Quantity::Count(ran.blocks())));
    rows.push(row("blocks of the directory (44 KB, 28 KB)", Class::Exact, directory));
    let sum = cells([microseconds(total_us), None, None], &|ran| {
        Some(Quantity::Nanoseconds(ran.nanoseconds()))
    });
    rows.push(Row {
        limit: limit(systems[2]),
        note: Some(OVER_LIMIT.to_owned()),
        ..row("all calls", Class::Absolute { within_permille: 250 }, sum)
    });
    let reads = cells([None; 3], &|ran| Some(Quantity::Count(ran.cold.traffic.reads)));
    rows.push(row("reads of the drive", Class::Shown, reads));
    let programs = [microseconds(400_000), microseconds(185_000), None];
    rows.push(not_modelled("time ls (0.3 to 0.5 s; 0.185 s)", PROGRAM, programs));
    rows.push(not_modelled(
        "the first call, warm",
        CPU,
        [microseconds(readdir_cost::POSTED_US[0]), None, None],
    ));
    rows.push(not_modelled(
        "all calls, warm",
        CPU,
        [microseconds(readdir_cost::POSTED_US.iter().sum()), None, None],
    ));
    let columns = [
        column("hashed", SYSTEMS[STOCK_HASHED].policies),
        column("linear", SYSTEMS[STOCK_LINEAR].policies),
        column("modern", SYSTEMS[MODERN].policies),
    ];
    PostTable {
        title: "getdents with a buffer of 4096 bytes, cold (modern: hashed)".to_owned(),
        columns: columns.into(),
        rows,
    }
}

/// Entries, bytes and time of one call; the post has those of the hashed directory.
fn call(systems: &[&Ran; 3], number: usize, (entries, bytes, time): (u64, u64, u64)) -> [Row; 3] {
    let cells = |posted: Option<Quantity>, of: fn(&ListingCall) -> Quantity| {
        let cell = |(at, ran): (usize, &&Ran)| Cell {
            posted: posted.filter(|_| at == 0),
            ours: ran.call(number).map(of),
        };
        systems.iter().enumerate().map(cell).collect::<Vec<Cell>>()
    };
    let name = |what: &str| format!("call {}: {what}", number + 1);
    [
        row(
            &name("entries"),
            Class::Exact,
            cells(Some(Quantity::Count(entries)), |call| Quantity::Count(call.entries)),
        ),
        row(
            &name("bytes"),
            Class::Exact,
            cells(Some(Quantity::Count(bytes)), |call| Quantity::Count(call.bytes)),
        ),
        row(
            &name("time"),
            Class::Shown,
            cells(microseconds(time), |call| Quantity::Nanoseconds(call.elapsed_ns)),
        ),
    ]
}

/// What each remedy gives, alone and together, and what the post claims of some.
fn remedies(title: &str, systems: &[Ran], claim: &Claim) -> PostTable {
    let posted =
        |posted: Option<Quantity>, of: &[&str], ours: &dyn Fn(&Ran) -> Option<Quantity>| {
            let cells = systems.iter().zip(&SYSTEMS).map(|(ran, system)| Cell {
                posted: posted.filter(|_| of.contains(&system.name)),
                ours: ours(ran),
            });
            cells.collect::<Vec<Cell>>()
        };
    let shown = |what: &str, ours: &dyn Fn(&Ran) -> Option<Quantity>| {
        row(what, Class::Shown, posted(None, &[], ours))
    };
    let count = |value: u64| Some(Quantity::Count(value));
    let time = |ran: &Ran| Some(Quantity::Nanoseconds(ran.nanoseconds()));
    let rows = vec![
        Row {
            limit: limit(&systems[MODERN]),
            note: Some(OVER_LIMIT.to_owned()),
            ..row(
                "all calls (contiguous and read ahead: under 25 ms)",
                Class::AtMost,
                posted(microseconds(25_000), claim.quick, &time),
            )
        },
        Row {
            note: Some(claim.note.to_owned()),
            ..row(
                "reads of the drive (\"a couple of I/Os\")",
                Class::AtMost,
                posted(count(2), claim.few_reads, &|ran| count(ran.cold.traffic.reads)),
            )
        },
        shown("commands", &|ran| count(ran.cold.traffic.commands)),
        shown("KiB read", &|ran| count(ran.cold.traffic.bytes_read / 1024)),
        shown("blocks", &|ran| count(ran.blocks())),
        shown("runs of blocks", &|ran| count(ran.runs.len() as u64)),
        shown("KiB from run to run", &|ran| ran.gap_kib().map(Quantity::Count)),
    ];
    PostTable {
        title: title.to_owned(),
        columns: SYSTEMS.iter().map(|system| column(system.name, system.policies)).collect(),
        rows,
    }
}

/// The blocks of the directory under the head, once: they can lie behind its inode, so that the arm
/// need not move again.
fn limit(ran: &Ran) -> Option<super::Limit> {
    let drive = ran.report.drives.first()?;
    let need = Need { bytes_read: ran.blocks() * BLOCK, bytes_written: 0, seeks: 0 };
    Some(need.limit(&extant_sim::drive::DriveInfo {
        name: drive.name.clone(),
        bytes: drive.bytes,
        sector_bytes: 512,
        queue_depth: 1,
        media_bytes_per_second: drive.media_bytes_per_second,
        least_seek_ns: drive.least_seek_ns,
    }))
}

fn row(what: &str, class: Class, cells: Vec<Cell>) -> Row {
    Row { what: what.to_owned(), class, cells, limit: None, note: None }
}

fn not_modelled(what: &str, reason: &str, posted: [Option<Quantity>; 3]) -> Row {
    let cells = posted.map(|posted| Cell { posted, ours: None });
    let reason = reason.to_owned();
    row(what, Class::NotModelled { reason }, cells.into())
}

fn column(name: &str, policies: &str) -> PostColumn {
    PostColumn { name: name.to_owned(), policies: policies.to_owned() }
}

fn microseconds(value: u64) -> Option<Quantity> {
    Some(Quantity::Nanoseconds(value * 1000))
}
