//! The questions that were asked of the post, each with a table and plots: how large is a cluster
//! and where does it lie, what when it is full, what of more and smaller files, and is anything
//! wasted when the volume is?
use super::{Job, Part, System, Text, elapsed, ours, row, side_by_side};
use crate::posts::{Cell, Class, PostColumn, PostTable, Quantity, Row, Scale, Work};
use crate::report::{LayoutFigures, Report};
use crate::scenario::ScenarioError;
use extant_chart::{Axis, Figure, FigureContent, LineChart, Unit};

const CLUSTER: Text =
    Text { file: "post-1-cluster.toml", text: include_str!("../../../posts/post-1-cluster.toml") };
const SIZES: Text =
    Text { file: "post-1-sizes.toml", text: include_str!("../../../posts/post-1-sizes.toml") };
const FULL: Text =
    Text { file: "post-1-full.toml", text: include_str!("../../../posts/post-1-full.toml") };

const BLOCK: u64 = 4096;
/// What is timed of each volume: the measure, and what its row says.
const TIMES: [(&str, &str); 4] = [
    ("write", "written, sync"),
    ("read", "read"),
    ("fsck", "fsck"),
    ("fsck, our order", "our check"),
];

/// All questions.
pub(super) fn run(work: Work, progress: &mut dyn FnMut(&str)) -> Result<Part, ScenarioError> {
    let mut all = Part { tables: Vec::new(), figures: Vec::new(), reports: Vec::new() };
    for question in [cluster, sizes, full] {
        let part = question(work, progress)?;
        all.tables.extend(part.tables);
        all.figures.extend(part.figures);
        all.reports.extend(part.reports);
    }
    Ok(all)
}

fn layout(report: &Report) -> Option<&LayoutFigures> {
    Some(&report.filesystems.first()?.layouts.last()?.layout)
}

fn count(report: &Report, of: impl Fn(&LayoutFigures) -> u64) -> Option<Quantity> {
    Some(Quantity::Count(of(layout(report)?)))
}

fn shown(what: &str, reports: &[&Report], of: impl Fn(&Report) -> Option<Quantity>) -> Row {
    let cells = reports.iter().map(|report| ours(of(report)));
    row(what, Class::Shown, cells.collect())
}

/// Points of a line: where a run gave a time.
fn points(runs: Vec<(u64, &Report)>, measure: &str) -> Vec<(u64, u64)> {
    runs.into_iter()
        .filter_map(|(x, report)| Some((x, elapsed(report, measure)?.value())))
        .collect()
}

const POSITIONS: [&str; 3] = ["begin", "middle", "end"];
const CLUSTER_TITLE: &str = "How large is a cluster, and where? What when it is full?";

/// Size and place of the cluster. The small ones spill.
fn cluster(work: Work, progress: &mut dyn FnMut(&str)) -> Result<Part, ScenarioError> {
    let (sizes, divisor, changes): (&[u64], u64, &[(&str, &str)]) = match work.scale {
        Scale::Full => (&[16, 64, 256, 512, 4096], 1, &[]),
        Scale::Quick => (&[32, 512], 5, &[("size = \"4G\"", "size = \"1G\"")]),
    };
    progress(&format!("post 1: cluster size and place: {} volumes", 1 + 3 * sizes.len()));
    let mut systems = vec![System::vanilla()];
    for size in sizes {
        systems.extend(POSITIONS.map(|position| System::clustered(&format!("{position},{size}"))));
    }
    let jobs: Vec<Job> =
        systems.iter().map(|system| CLUSTER.job(system, divisor, changes)).collect();
    let reports = side_by_side(jobs, work)?;
    // Reports of a size: vanilla, begin, middle, end.
    let of_size = |number: usize| {
        let first = 1 + 3 * number;
        [&reports[0], &reports[first], &reports[first + 1], &reports[first + 2]]
    };
    let mut rows = Vec::new();
    for (number, size) in sizes.iter().enumerate() {
        let of = of_size(number);
        for (measure, what) in TIMES {
            rows.push(shown(&format!("{size} blocks: {what}"), &of, |report| {
                elapsed(report, measure)
            }));
        }
        let fragments = |report: &Report| count(report, |layout| layout.fragments);
        rows.push(shown(&format!("{size} blocks: fragments"), &of, fragments));
        let free = |report: &Report| count(report, |layout| layout.free_blocks);
        rows.push(not_above_the_first(&format!("{size} blocks: blocks in use"), &of, |report| {
            let total = report.filesystems.first()?.bytes / BLOCK;
            Some(Quantity::Count(total - free(report)?.value()))
        }));
    }
    let figures = TIMES.map(|(measure, what)| {
        let x = Axis::new("cluster of each group of 128 MiB", Unit::Bytes).logarithmic();
        let mut chart = LineChart::new(x, Axis::new("time", Unit::Nanoseconds));
        let all = |column: usize| {
            let runs = sizes.iter().enumerate();
            runs.map(|(number, size)| (size * BLOCK, of_size(number)[column])).collect::<Vec<_>>()
        };
        for (column, name) in ["vanilla", "begin", "middle", "end"].iter().enumerate() {
            chart = chart.series(name, points(all(column), measure));
        }
        let line = "Half of the bytes in files of 100 MB, half in files of 200 KB: some 330 map \
            blocks in a group.";
        Figure::new(&format!("Cluster size and place: {what}"), FigureContent::Lines(chart))
            .line(line)
            .section(CLUSTER_TITLE)
    });
    Ok(Part {
        tables: vec![PostTable {
            title: CLUSTER_TITLE.to_owned(),
            columns: cluster_columns(),
            rows,
        }],
        figures: figures.into(),
        reports,
    })
}

fn cluster_columns() -> Vec<PostColumn> {
    let place = |position: &str| PostColumn {
        name: position.to_owned(),
        policies: System::clustered(&format!("{position},SIZE")).policies,
    };
    let vanilla = std::iter::once(System::vanilla().column());
    vanilla.chain(POSITIONS.into_iter().map(place)).collect()
}

/// A row in which no column may have more than the first.
fn not_above_the_first(
    what: &str,
    reports: &[&Report],
    of: impl Fn(&Report) -> Option<Quantity>,
) -> Row {
    let first = reports.first().and_then(|report| of(report));
    let cells = reports
        .iter()
        .enumerate()
        .map(|(column, report)| Cell { posted: first.filter(|_| column > 0), ours: of(report) });
    row(what, Class::AtMost, cells.collect())
}

const SIZES_TITLE: &str = "More and smaller files: what each GiB takes in files of each size";
const GIB: u64 = 1 << 30;

/// Words of a size, as scenario files have them and people read them.
fn words(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= GIB && bytes.is_multiple_of(GIB) => format!("{}G", bytes >> 30),
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        bytes => format!("{}K", bytes >> 10),
    }
}

/// Files of one size, and how many bytes there are of them.
#[derive(Clone, Copy)]
struct Population {
    size: u64,
    total: u64,
}

impl Population {
    fn job(self, system: &System) -> Job {
        let files = self.total / self.size;
        let counts = format!(
            "count = {files}, directories = {}, size = \"{}\"",
            (files / 100).max(1),
            words(self.size)
        );
        // Four fifths of the volume.
        let volume = format!("size = \"{}M\"", (self.total >> 20) * 5 / 4);
        let changes = [
            ("count = 1024, directories = 10, size = \"1M\"", counts.as_str()),
            ("size = \"1280M\"", volume.as_str()),
        ];
        SIZES.job(system, 1, &changes)
    }

    /// A value of all of them for each GiB.
    fn each_gib(self, value: u64) -> u64 {
        let scaled = u128::from(value) * u128::from(GIB) / u128::from(self.total.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    fn time(self, report: &Report, measure: &str) -> Option<Quantity> {
        let time = elapsed(report, measure)?;
        Some(Quantity::Nanoseconds(self.each_gib(time.value())))
    }
}

/// Files of 4 KiB to 10 GiB. Volumes are as large as what they hold asks for, and times are told
/// for each GiB.
fn sizes(work: Work, progress: &mut dyn FnMut(&str)) -> Result<Part, ScenarioError> {
    let (total, sizes): (u64, &[u64]) = match work.scale {
        Scale::Full => {
            (GIB, &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20, 256 << 20, 10 * GIB])
        }
        Scale::Quick => (160 << 20, &[4 << 10, 64 << 10, 1 << 20, 160 << 20]),
    };
    let populations: Vec<Population> =
        sizes.iter().map(|size| Population { size: *size, total: total.max(*size) }).collect();
    let systems = [System::vanilla(), System::metacluster()];
    progress(&format!("post 1: file sizes: {} volumes", systems.len() * sizes.len()));
    let jobs = populations
        .iter()
        .flat_map(|population| systems.iter().map(|system| population.job(system)));
    let reports = side_by_side(jobs.collect(), work)?;
    let of_size = |number: usize| [&reports[2 * number], &reports[2 * number + 1]];
    let mut rows = Vec::new();
    for (number, population) in populations.iter().enumerate() {
        let (of, size) = (of_size(number), words(population.size));
        for (measure, what) in TIMES {
            let time = |report: &Report| population.time(report, measure);
            rows.push(shown(&format!("{size}iB: {what}"), &of, time));
        }
        let maps = |report: &Report| count(report, |layout| population.each_gib(layout.map_blocks));
        rows.push(shown(&format!("{size}iB: indirect blocks"), &of, maps));
    }
    let figures = TIMES.map(|(measure, what)| {
        let x = Axis::new("size of each file", Unit::Bytes).logarithmic();
        let mut chart = LineChart::new(x, Axis::new("time for each GiB", Unit::Nanoseconds));
        for (column, system) in systems.iter().enumerate() {
            let times = populations.iter().enumerate().filter_map(|(number, population)| {
                let time = population.time(of_size(number)[column], measure)?;
                Some((population.size, time.value()))
            });
            chart = chart.series(&system.name, times);
        }
        Figure::new(&format!("More and smaller files: {what}"), FigureContent::Lines(chart))
            .line("Volumes of which four fifths are files of one size.")
            .section(SIZES_TITLE)
    });
    Ok(Part {
        tables: vec![PostTable {
            title: SIZES_TITLE.to_owned(),
            columns: systems.iter().map(System::column).collect(),
            rows,
        }],
        figures: figures.into(),
        reports,
    })
}

const FULL_TITLE: &str = "Nearly full volumes: is anything wasted?";
/// The stages of filling, in hundredths.
const STAGES: [u64; 4] = [90, 95, 98, 100];

/// A volume filled to its last block.
fn full(work: Work, progress: &mut dyn FnMut(&str)) -> Result<Part, ScenarioError> {
    let changes: &[(&str, &str)] = match work.scale {
        Scale::Full => &[],
        Scale::Quick => &[("size = \"4G\"", "size = \"512M\"")],
    };
    let systems = [
        System::vanilla(),
        System::metacluster(),
        System::clustered("middle,32"),
        System::clustered("middle,4096"),
        System::clustered("end,512"),
    ];
    progress(&format!("post 1: nearly full: {} volumes", systems.len()));
    let jobs: Vec<Job> = systems.iter().map(|system| FULL.job(system, 1, changes)).collect();
    let reports = side_by_side(jobs, work)?;
    let all: Vec<&Report> = reports.iter().collect();
    let mut rows = Vec::new();
    for (way, done) in [("write", "written"), ("read", "read")] {
        for stage in STAGES {
            let measure = format!("{way} to {stage}");
            rows.push(shown(&format!("to {stage} %: {done}"), &all, |report| {
                elapsed(report, &measure)
            }));
        }
    }
    for (measure, what) in [("fsck", "full: fsck"), ("fsck, our order", "full: our check")] {
        rows.push(shown(what, &all, |report| elapsed(report, measure)));
    }
    let fragments = |report: &Report| count(report, |layout| layout.fragments);
    rows.push(shown("full: fragments", &all, fragments));
    let data = |report: &Report| count(report, |layout| layout.data_blocks);
    rows.push(shown("full: blocks of data", &all, data));
    let free = |report: &Report| count(report, |layout| layout.free_blocks);
    rows.push(not_above_the_first("full: blocks that nothing can use", &all, free));
    let figures = [("write", "written"), ("read", "read")].map(|(way, done)| {
        let mut chart = LineChart::new(
            Axis::new("how full the volume is in the end", Unit::Percent),
            Axis::new("rate", Unit::BytesPerSecond),
        );
        for (system, report) in systems.iter().zip(&reports) {
            let rates =
                STAGES.map(|stage| (stage * 10, rate(report, &format!("{way} to {stage}"))));
            let rates = rates.into_iter().filter_map(|(stage, rate)| Some((stage, rate?)));
            chart = chart.series(&system.name, rates);
        }
        Figure::new(&format!("Nearly full volumes: {done}"), FigureContent::Lines(chart))
            .line("Files of 2 MiB until the volume is so full; at 100 % to the last block.")
            .section(FULL_TITLE)
    });
    Ok(Part {
        tables: vec![PostTable {
            title: FULL_TITLE.to_owned(),
            columns: systems.iter().map(System::column).collect(),
            rows,
        }],
        figures: figures.into(),
        reports,
    })
}

/// Bytes a second of a measure.
fn rate(report: &Report, measure: &str) -> Option<u64> {
    let measure = report.measure(measure)?;
    let bytes = u128::from(measure.work.bytes_written + measure.work.bytes_read) * 1_000_000_000;
    u64::try_from(bytes.checked_div(measure.elapsed_ns.into())?).ok()
}
