//! The six benchmarks.
use super::{Job, Part, System, Text, elapsed, ours, permille_up, row, side_by_side};
use crate::posts::{Cell, Class, Limit, Need, PostTable, Quantity, Row, Scale, Work};
use crate::report::{Measure, Report};
use crate::scenario::ScenarioError;
use extant_chart::{Axis, BarChart, Figure, Origin, Unit};
use extant_sim::drive::DriveInfo;

const SEQUENTIAL: Text = Text {
    file: "post-1-sequential.toml",
    text: include_str!("../../../posts/post-1-sequential.toml"),
};
const RANDOM: Text =
    Text { file: "post-1-random.toml", text: include_str!("../../../posts/post-1-random.toml") };
const FSCK: Text =
    Text { file: "post-1-fsck.toml", text: include_str!("../../../posts/post-1-fsck.toml") };
const BUILD: Text =
    Text { file: "post-1-build.toml", text: include_str!("../../../posts/post-1-build.toml") };

const RATIO: Class = Class::Ratio { within_permille: 150 };
const SEQUENTIAL_TIME: Class = Class::Absolute { within_permille: 100 };
const RANDOM_TIME: Class = Class::Absolute { within_permille: 250 };
const SAVED: Class = Class::Absolute { within_permille: 150 };
/// The post's goal, of quotients that are at least 1.
const GOAL: Class = Class::Absolute { within_permille: 1 };

/// What is timed of ordinary I/O, with the post's milliseconds of vanilla and metacluster.
struct Line {
    what: &'static str,
    text: Text,
    measure: &'static str,
    posted_ms: Option<(u64, u64)>,
    class: Class,
    /// What the drive cannot be spared: bytes, and ways of the arm.
    need: Need,
}

const GIB: u64 = 1 << 30;

/// What a row of the whole work needs.
const fn need(bytes_read: u64, bytes_written: u64, seeks: u64) -> Need {
    Need { bytes_read, bytes_written, seeks }
}

static LINES: [Line; 7] = [
    Line {
        what: "1: 10 GB written in a row, sync",
        text: SEQUENTIAL,
        measure: "write, sync",
        posted_ms: Some((189_000, 186_100)),
        class: SEQUENTIAL_TIME,
        need: need(0, 10 * GIB, 1),
    },
    Line {
        what: "2: 10 GB read in a row",
        text: SEQUENTIAL,
        measure: "read",
        posted_ms: Some((194_500, 194_500)),
        class: SEQUENTIAL_TIME,
        need: need(10 * GIB, 0, 1),
    },
    Line {
        what: "3: 512 bytes at random, 5 MB of 300 GB",
        text: RANDOM,
        measure: "512 bytes",
        posted_ms: Some((236_400, 231_400)),
        class: RANDOM_TIME,
        need: need(5 << 20, 0, 10_240),
    },
    Line {
        what: "4: 512 KB at random, 1 % of 300 GB",
        text: RANDOM,
        measure: "512 KB",
        posted_ms: Some((286_300, 284_400)),
        class: RANDOM_TIME,
        need: need(3 * GIB, 0, 6144),
    },
    build("6: sources unpacked, sync", "sources unpacked, sync", need(0, 250 << 20, 1)),
    build("6: sources read, cold", "sources read", need(250 << 20, 0, 1)),
    build("6: objects written, sync", "objects written, sync", need(0, 90 << 20, 1)),
];

/// The drive's part of the sixth benchmark, of which the post has no figure.
const fn build(what: &'static str, measure: &'static str, need: Need) -> Line {
    Line { what, text: BUILD, measure, posted_ms: None, class: Class::Shown, need }
}

/// fsck in milliseconds: vanilla, metacluster.
const FSCK_MS: [u64; 2] = [738_100, 287_000];
/// What fsck saves against vanilla's time, in thousandths: by the post's times, and "with some fsck
/// optimizations".
const FSCK_SAVED_PERMILLE: [u64; 2] = [611, 800];
/// Its user and system time.
const FSCK_PROCESSOR_MS: [u64; 2] = [34_200, 33_100];
/// Nanoseconds of the processor for each KiB that fsck reads, as the scenario has it.
const FSCK_PROCESSOR_NS_PER_KIB: u64 = 5100;

/// Files of the fifth benchmark: how many, and bytes of each.
const FILES: [(u64, u64); 4] =
    [(200, 500_000_000), (100, 1_000_000_000), (40, 2_500_000_000), (10, 10_000_000_000)];

/// The kernel build, in hundredths of a second: vanilla, metacluster.
const BUILD_TIMES: [(&str, u64, u64); 3] = [
    ("6: kernel build, elapsed", 3560, 3512),
    ("6: kernel build, user", 22_879, 22_847),
    ("6: kernel build, system", 2110, 2108),
];
const BUILD_REASON: &str = "the compiler's work: with 32 GB of memory nothing waits for the drive";

/// The columns: vanilla, metacluster, the same with our check, modern. The third is the second's
/// run.
struct Runs {
    /// By text, in the order of [`TEXTS`]; of each: vanilla, metacluster, modern.
    reports: Vec<Report>,
    /// By what counts were divided.
    scale: u64,
}

const TEXTS: [Text; 4] = [SEQUENTIAL, RANDOM, FSCK, BUILD];

fn systems() -> [System; 3] {
    [System::vanilla(), System::metacluster(), System::modern()]
}

pub(super) fn run(work: Work, progress: &mut dyn FnMut(&str)) -> Result<Part, ScenarioError> {
    let divisor = match work.scale {
        Scale::Full => 1,
        Scale::Quick => 10,
    };
    let mut jobs: Vec<Job> = Vec::new();
    for text in TEXTS {
        progress(&format!(
            "post 1: {}: vanilla, metacluster, modern",
            text.file.trim_end_matches(".toml")
        ));
        jobs.extend(systems().iter().map(|system| text.job(system, divisor, &changes(text, work))));
    }
    let runs = Runs { reports: side_by_side(jobs, work)?, scale: divisor };
    let tables = vec![runs.benchmarks(work), runs.goal()];
    Ok(Part { tables, figures: vec![runs.fsck_figure()], reports: runs.reports })
}

/// What the quick form changes besides counts: fsck has to find a full volume, and a tenth of the
/// large file will do.
fn changes(text: Text, work: Work) -> Vec<(&'static str, &'static str)> {
    match (work.scale, text.file == FSCK.file) {
        (Scale::Full, _) => Vec::new(),
        (Scale::Quick, true) => vec![("size = \"380G\"", "size = \"38.1G\"")],
        (Scale::Quick, false) => Vec::new(),
    }
}

impl Runs {
    /// Vanilla, metacluster and modern of a scenario.
    fn of(&self, text: Text) -> [&Report; 3] {
        let first = 3 * TEXTS.iter().position(|other| other.file == text.file).unwrap_or(0);
        std::array::from_fn(|column| &self.reports[first + column])
    }

    fn posted(&self, milliseconds: u64) -> Option<Quantity> {
        Some(Quantity::Nanoseconds(milliseconds * 1_000_000 / self.scale))
    }

    /// Four cells from three runs: what our check has no part in is not measured with it.
    fn cells(&self, text: Text, measure: &str, posted: Option<(u64, u64)>) -> Vec<Cell> {
        let [vanilla, metacluster, modern] = self.of(text).map(|report| elapsed(report, measure));
        let posted = |of: fn((u64, u64)) -> u64| posted.and_then(|both| self.posted(of(both)));
        vec![
            Cell { posted: posted(|both| both.0), ours: vanilla },
            Cell { posted: posted(|both| both.1), ours: metacluster },
            Cell::default(),
            ours(modern),
        ]
    }

    fn benchmarks(&self, work: Work) -> PostTable {
        let mut rows = Vec::new();
        for line in &LINES {
            rows.extend(self.line_rows(line));
            if line.what.starts_with('4') {
                rows.extend(self.fsck_rows());
            }
        }
        rows.extend(BUILD_TIMES.iter().map(|(what, vanilla, metacluster)| {
            let posted = |hundredths: u64| Cell {
                posted: Some(Quantity::Nanoseconds(hundredths * 10_000_000)),
                ours: None,
            };
            let reason = BUILD_REASON.to_owned();
            let cells =
                vec![posted(*vanilla), posted(*metacluster), Cell::default(), Cell::default()];
            row(what, Class::NotModelled { reason }, cells)
        }));
        let [vanilla, metacluster, modern] = systems().map(|system| system.column());
        let checked = crate::posts::PostColumn {
            name: "metacluster, our check".to_owned(),
            policies: metacluster.policies.clone(),
        };
        PostTable {
            title: match work.scale {
                Scale::Full => "The six benchmarks: 400 GB, 8 GB of memory, cold".to_owned(),
                Scale::Quick => {
                    "The six benchmarks, a tenth of the post's work: 8 GB of memory, cold"
                        .to_owned()
                }
            },
            columns: vec![vanilla, metacluster, checked, modern],
            rows,
        }
    }

    /// A row for the ratio and one for the times; only the times where the post has none.
    fn line_rows(&self, line: &Line) -> Vec<Row> {
        let cells = self.cells(line.text, line.measure, line.posted_ms);
        let limit = self.limit(&line.need);
        if line.posted_ms.is_none() {
            return vec![Row { limit, ..row(line.what, Class::Shown, cells) }];
        }
        vec![
            Row { limit, ..row(line.what, RATIO, cells.clone()) },
            row(&format!("{}: times", line.what), line.class.clone(), cells),
        ]
    }

    fn fsck_rows(&self) -> Vec<Row> {
        let [vanilla, metacluster, modern] = self.of(FSCK);
        let era = |report| elapsed(report, ERA);
        let own = |report| elapsed(report, OURS);
        let cell = |posted: u64, ours| Cell { posted: self.posted(posted), ours };
        let cells = vec![
            cell(FSCK_MS[0], era(vanilla)),
            cell(FSCK_MS[1], era(metacluster)),
            ours(own(metacluster)),
            ours(own(modern)),
        ];
        let count = |posted: Option<u64>, report: &Report| Cell {
            posted: posted.map(Quantity::Count),
            ours: map_blocks(report).map(Quantity::Count),
        };
        let expected = Some(self.indirect_blocks());
        let blocks = vec![
            count(expected, vanilla),
            count(expected, metacluster),
            count(expected, metacluster),
            count(None, modern),
        ];
        let limit = modern
            .measure(OURS)
            .and_then(|check| self.limit_of(&need(check.work.bytes_read, 0, 1)));
        vec![
            Row { limit, ..row("5: fsck -f -n of 400 GB", RATIO, cells.clone()) },
            row("5: fsck -f -n of 400 GB: times", RANDOM_TIME, cells),
            self.saved_row(),
            self.processor_row(),
            row("5: indirect blocks", Class::Exact, blocks),
            shown("5: our check", &[own(vanilla), None, own(metacluster), own(modern)]),
            self.reads_row(),
        ]
    }

    /// What is saved of vanilla's time.
    fn saved_row(&self) -> Row {
        let [vanilla, metacluster, modern] = self.of(FSCK);
        let whole = vanilla.measure(ERA).map_or(0, |measure| measure.elapsed_ns);
        let saved = |report: &Report, measure: &str| {
            let left = u128::from(report.measure(measure)?.elapsed_ns) * 1000;
            let left = u64::try_from(left.checked_div(whole.into())?).ok()?;
            Some(Quantity::Permille(1000u64.saturating_sub(left)))
        };
        let cell = |posted, ours| Cell { posted: Some(Quantity::Permille(posted)), ours };
        let cells = vec![
            Cell::default(),
            cell(FSCK_SAVED_PERMILLE[0], saved(metacluster, ERA)),
            cell(FSCK_SAVED_PERMILLE[1], saved(metacluster, OURS)),
            ours(saved(modern, OURS)),
        ];
        row("5: fsck, share of vanilla's time that is saved", SAVED, cells)
    }

    /// The processor's part of fsck: what was charged.
    fn processor_row(&self) -> Row {
        let [vanilla, metacluster, modern] = self.of(FSCK);
        let charged = |report: &Report, measure: &str| {
            let read = report.measure(measure)?.work.bytes_read;
            Some(Quantity::Nanoseconds(read / 1024 * FSCK_PROCESSOR_NS_PER_KIB))
        };
        let cells = vec![
            Cell { posted: self.posted(FSCK_PROCESSOR_MS[0]), ours: charged(vanilla, ERA) },
            Cell { posted: self.posted(FSCK_PROCESSOR_MS[1]), ours: charged(metacluster, ERA) },
            ours(charged(metacluster, OURS)),
            ours(charged(modern, OURS)),
        ];
        let reason =
            "given: charged for each KiB that is read, so that it comes to the post's".to_owned();
        row("5: fsck, user and system time", Class::NotModelled { reason }, cells)
    }

    fn reads_row(&self) -> Row {
        let [vanilla, metacluster, modern] = self.of(FSCK);
        let reads = |report: &Report, measure: &str| {
            let count = |measure: &Measure| Quantity::Count(measure.traffic.reads);
            report.measure(measure).map(count)
        };
        shown(
            "5: reads of fsck",
            &[
                reads(vanilla, ERA),
                reads(metacluster, ERA),
                reads(metacluster, OURS),
                reads(modern, OURS),
            ],
        )
    }

    /// What files of the fifth benchmark need, as many as there are at this scale.
    fn indirect_blocks(&self) -> u64 {
        let of = |(count, bytes): (u64, u64)| (count / self.scale).max(1) * indirect_blocks(bytes);
        FILES.into_iter().map(of).sum()
    }

    /// The post's goal, line by line: the time over vanilla's, at least 1; at most 1.001 is wanted.
    fn goal(&self) -> PostTable {
        let rows = LINES.iter().map(|line| {
            let times = self.of(line.text).map(|report| elapsed(report, line.measure));
            let [vanilla, metacluster, _] = times;
            let over = |time: Option<Quantity>| match permille_up(time?, vanilla?)? {
                Quantity::Permille(over) => Some(Quantity::Permille(over.max(1000))),
                other => Some(other),
            };
            let cells = vec![
                ours(over(vanilla)),
                Cell { posted: Some(Quantity::Permille(1000)), ours: over(metacluster) },
            ];
            row(line.what, GOAL, cells)
        });
        let [vanilla, metacluster, _] = systems().map(|system| system.column());
        PostTable {
            title: "The post's goal: ordinary I/O takes less than 0.1 % longer (what takes less \
                time is shown as 1.00)"
                .to_owned(),
            columns: vec![vanilla, metacluster],
            rows: rows.collect(),
        }
    }

    /// The limit of a line at this scale.
    fn limit(&self, need: &Need) -> Option<Limit> {
        let scaled = |amount: u64| amount.div_ceil(self.scale);
        self.limit_of(&Need {
            bytes_read: scaled(need.bytes_read),
            bytes_written: scaled(need.bytes_written),
            seeks: scaled(need.seeks),
        })
    }

    fn limit_of(&self, need: &Need) -> Option<Limit> {
        let drive = self.reports.first()?.drives.first()?;
        Some(need.limit(&DriveInfo {
            name: drive.name.clone(),
            bytes: drive.bytes,
            sector_bytes: 512,
            queue_depth: 1,
            media_bytes_per_second: drive.media_bytes_per_second,
            least_seek_ns: drive.least_seek_ns,
        }))
    }

    fn fsck_figure(&self) -> Figure {
        let [vanilla, metacluster, modern] = self.of(FSCK);
        let value = |quantity: Option<Quantity>| quantity.map(Quantity::value);
        let group = |name: &str, posted: Option<u64>, ours: Option<Quantity>| {
            let posted = posted.and_then(|posted| value(self.posted(posted)));
            (name.to_owned(), vec![posted, value(ours)])
        };
        let chart = BarChart {
            value: Axis::new("time", Unit::Nanoseconds),
            bars: vec![
                ("the post".to_owned(), Origin::Posted),
                ("the model".to_owned(), Origin::Ours),
            ],
            groups: vec![
                group("vanilla", Some(FSCK_MS[0]), elapsed(vanilla, ERA)),
                group("vanilla, our check", None, elapsed(vanilla, OURS)),
                group("metacluster", Some(FSCK_MS[1]), elapsed(metacluster, ERA)),
                group("metacluster, our check", None, elapsed(metacluster, OURS)),
                group("modern, our check", None, elapsed(modern, OURS)),
            ],
        };
        Figure::new("fsck of a nearly full volume", extant_chart::FigureContent::Bars(chart)).line(
            "Map blocks lie between the data, or together in each group; read in the order of \
            e2fsck, or in ours.",
        )
    }
}

/// Measures of the fifth benchmark: e2fsck's order, and ours.
const ERA: &str = "fsck";
const OURS: &str = "fsck, our order";

fn shown(what: &str, cells: &[Option<Quantity>]) -> Row {
    row(what, Class::Shown, cells.iter().copied().map(ours).collect())
}

fn map_blocks(report: &Report) -> Option<u64> {
    Some(report.filesystems.first()?.layouts.last()?.layout.map_blocks)
}

/// Indirect blocks of a file without holes, on blocks of 4 KiB.
fn indirect_blocks(bytes: u64) -> u64 {
    const POINTERS: u64 = 1024;
    let mapped = bytes.div_ceil(4096).saturating_sub(12);
    let behind_single = mapped.saturating_sub(POINTERS);
    let behind_double = behind_single.saturating_sub(POINTERS * POINTERS);
    let leaves = mapped.div_ceil(POINTERS);
    let doubles = u64::from(behind_single > 0) + behind_double.div_ceil(POINTERS * POINTERS);
    leaves + doubles + u64::from(behind_double > 0)
}

#[cfg(test)]
mod tests {
    use super::{FILES, indirect_blocks};

    #[test]
    fn the_files_of_the_post_have_96_010_indirect_blocks() {
        let all: u64 = FILES.iter().map(|(count, bytes)| count * indirect_blocks(*bytes)).sum();
        assert_eq!(all, 96_010);
        assert_eq!([49_152, 49_153, 4_243_456, 4_243_457].map(indirect_blocks), [0, 1, 1, 3]);
    }
}
