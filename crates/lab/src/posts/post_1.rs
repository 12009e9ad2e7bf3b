//! Abhishek Rai and Andrew Morton, 2007: clustering indirect blocks in ext3.
//!
//! The post measures ext3 with and without metaclusters: a file of 10 GB written and read, random
//! reads from one of 300 GB, fsck of 400 GB, a kernel build. Then it asks: how large is the
//! cluster, what when it is full, what is wasted, what of more and smaller files? Here are the six
//! benchmarks at the post's size, with our check and with `modern` beside them, and an answer to
//! each question in a table and a plot. The question of what six months of use do is that of
//! `extant lab age`.
//!
//! ```text
//! benchmarks   the six benchmarks as rows                  jobs   runs side by side, results in order
//! questions    cluster size and place, file size, filling
//! ```
mod benchmarks;
mod jobs;
mod questions;

use super::{
    Cell, Class, MODERN_POLICIES, Post, PostColumn, PostReport, PostTable, Quantity, Row, Work,
};
use crate::report::Report;
use crate::scenario::{Layouts, RunOptions, ScenarioError};
use jobs::{Job, side_by_side};

/// The post.
pub const POST: Post = Post {
    number: 1,
    origin: "Abhishek Rai and Andrew Morton, 2007",
    title: "clustering indirect blocks in ext3",
    drive: "sata-2007-400-quiet",
    fitted: &[
        "the preset, by its seeks: only a drive set to quiet seeks takes 23 ms for a random read \
         of 512 bytes",
        "overhead_ms.read_hit = 0.4: what a read costs that the drive has in its cache; fitted to \
         fsck of clustered maps, which has 96,010 \
         of them",
        "not fitted, but assumed: 2 % more capacity: with GB = 1e9 the files of the fifth \
         benchmark, their maps and the inode tables \
         take 407 GB",
        "of the systems, not of the drive: fsck's processor takes 5.1 us for each KiB that it \
         reads, which gives the post's \
         34.2 s of user and system time",
    ],
    run,
};

/// The format of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// That of the post.
    Ext3,
    /// Today's: extents, flex groups, inode tables that need not be read where they hold nothing.
    Ext4,
}

/// A system that is measured.
#[derive(Clone, Debug)]
struct System {
    name: String,
    policies: String,
    format: Format,
}

impl System {
    fn ext3(name: &str, policies: &str) -> System {
        System { name: name.to_owned(), policies: policies.to_owned(), format: Format::Ext3 }
    }

    fn vanilla() -> System {
        System::ext3("vanilla", "linux-2.6")
    }

    fn metacluster() -> System {
        System::ext3("metacluster", "linux-2.6,map-blocks=metacluster,map-read-ahead=metacluster")
    }

    /// With the cluster in another place or of another size: `begin,128`.
    fn clustered(cluster: &str) -> System {
        System::ext3(
            cluster,
            &format!("linux-2.6,map-blocks=metacluster({cluster}),map-read-ahead=metacluster"),
        )
    }

    fn modern() -> System {
        System { format: Format::Ext4, ..System::ext3("modern", MODERN_POLICIES) }
    }

    fn column(&self) -> PostColumn {
        PostColumn { name: self.name.clone(), policies: self.policies.clone() }
    }
}

/// A scenario file that is built in.
#[derive(Clone, Copy)]
struct Text {
    file: &'static str,
    text: &'static str,
}

impl Text {
    /// On the format of its time, or on that of today; with words of the file replaced.
    fn on(&self, format: Format, changes: &[(&str, &str)]) -> String {
        let mut text = self.text.to_owned();
        if format == Format::Ext4 {
            for (old, new) in [
                ("profile = \"ext3\"", "profile = \"ext4\""),
                ("inode_size = 128\n", "inode_size = 256\n"),
                ("bytes_per_inode = 8192\n", "bytes_per_inode = 16384\n"),
            ] {
                text = text.replace(old, new);
            }
        }
        for (old, new) in changes {
            text = text.replace(old, new);
        }
        text
    }

    /// A run of a system, its counts divided by `scale`.
    fn job(&self, system: &System, scale: u64, changes: &[(&str, &str)]) -> Job {
        Job {
            file: self.file,
            text: self.on(system.format, changes),
            options: RunOptions {
                policies: Some(system.policies.clone()),
                scale,
                // A look at 6 GB of inode tables takes as long as the rest.
                layouts: Layouts::AtSteps,
                ..RunOptions::default()
            },
        }
    }
}

fn run(work: Work, progress: &mut dyn FnMut(&str)) -> Result<PostReport, ScenarioError> {
    let benchmarks = benchmarks::run(work, progress)?;
    let questions = questions::run(work, progress)?;
    let reports = benchmarks.reports.iter().chain(&questions.reports);
    let trace_hash = super::joined_hash(reports);
    let mut tables = benchmarks.tables;
    tables.extend(questions.tables);
    let mut figures = benchmarks.figures;
    figures.extend(questions.figures);
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
        trace_hash,
    })
}

/// What some runs gave.
struct Part {
    tables: Vec<PostTable>,
    figures: Vec<extant_chart::Figure>,
    /// All of them, for the trace hash.
    reports: Vec<Report>,
}

const NOTES: [&str; 8] = [
    "GB: 10 GB, 300 GB, 5 MB and 512 KB are taken as powers of 1,024, as dd and du have them; the \
     files of the fifth benchmark as powers \
     of 1,000, for even so they do not fit on 400e9 bytes beside their inode tables. That gives \
     96,010 indirect blocks (102,780 with \
     powers of 1,024)",
    "the large files of benchmarks 3, 4 and 5 are laid at once, by the same policies and without \
     the drive: only what is measured \
     takes its time",
    "fsck: the processor's time is the post's, charged for each KiB that is read; the rest is the \
     drive's. The order is e2fsck's: inode \
     tables 8 blocks at a time, inodes collected 256 at a time, sorted by their first indirect \
     block, one indirect block a read",
    "metacluster, our check: the post says that with some fsck optimizations 80 % are saved, and \
     not which. The inode tables alone take \
     some 155 s of this drive",
    "the goal of 0.1 % is met by writing and reading in a row, and not at random: on the way from \
     a map block to its data the arm \
     crosses a quarter of a group, where vanilla's lies before it, and files of more than 48 KiB \
     in a cold tree are read so too. The \
     post's random reads were 1 to 2 % faster with clusters; ours read no other map block with the \
     one that is wanted",
    "benchmark 6 had 32 GB of memory: a build there waits for the compiler, not for the drive. The \
     three times of the post are shown; \
     what the same work asks of the drive when it is cold is measured",
    "modern is ext4: extents, flex groups, and inode tables of which only the used part is read",
    "what six months of use do to the clusters: extant lab age post-1",
];

/// A row without a limit or a note.
fn row(what: &str, class: Class, cells: Vec<Cell>) -> Row {
    Row { what: what.to_owned(), class, cells, limit: None, note: None }
}

/// How long a measure of a run took.
fn elapsed(report: &Report, measure: &str) -> Option<Quantity> {
    Some(Quantity::Nanoseconds(report.measure(measure)?.elapsed_ns))
}

/// What only we measured.
fn ours(quantity: Option<Quantity>) -> Cell {
    Cell { posted: None, ours: quantity }
}

/// One quantity over another in thousandths, rounded up: for bounds.
fn permille_up(part: Quantity, whole: Quantity) -> Option<Quantity> {
    let whole = u128::from(whole.value());
    let scaled = (u128::from(part.value()) * 1000).checked_add(whole.checked_sub(1)?)?;
    let permille = u64::try_from(scaled.checked_div(whole)?).unwrap_or(u64::MAX);
    Some(Quantity::Permille(permille))
}
