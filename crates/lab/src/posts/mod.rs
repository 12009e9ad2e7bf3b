//! The mailing list posts as experiments: their rows, their figures, the scenarios that give ours,
//! and how far they agree.
//!
//! Each post is a module with one function that runs its scenarios (TOML files of the ordinary
//! kind, in `crates/lab/posts`) and gives a [`PostReport`]. A row says what the post measured, what
//! the model gives, and which [`Class`] of agreement is asked of it: exact rows and ratios must
//! hold, absolute times are shown with their error, and what is not modelled is shown with the
//! reason.
//!
//! ```text
//! post_N   the scenarios, figures and rows of a post        judge   whether a row agrees; a row as JSON
//! limit    the least time that a drive could take           text    the tables
//! readdir_cost   what post 3 asks of the processor, in real time: no part of a report
//! ```
mod judge;
mod limit;
mod post_0;
mod post_1;
mod post_2;
mod post_3;
mod post_4;
mod readdir_cost;
pub(crate) mod text;

pub use judge::{Verdict, judge};
pub use limit::{Limit, Need};
pub use readdir_cost::{ReaddirCost, readdir_cost};

use crate::report::{MODEL_VERSION, Report};
use crate::scenario::{self, Outcome, RunOptions, ScenarioError};
use extant_chart::Figure;
use extant_sim::random;
use serde::Serialize;
use std::path::Path;

/// Names the schema of [`PostsReport`].
pub const SCHEMA: &str = "extant-lab-posts/1";

/// What `modern` does with the work of a post: without access times, because the systems that it
/// stands beside are modelled without. They all get them together, with the other corrections to
/// these systems.
const MODERN_POLICIES: &str = "modern,atime=none";

/// How large the work of a post is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Seconds in all: counts are divided where that keeps what the row is about.
    Quick,
    /// As in the post.
    Full,
}

/// One of the posts.
pub struct Post {
    /// Its number, as in its file's name.
    pub number: u32,
    /// Author and year.
    pub origin: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// The drive that stands for the one that the post does not name.
    pub drive: &'static str,
    /// Which of the drive's values were fitted (at most two), with the reason.
    pub fitted: &'static [&'static str],
    /// Runs its scenarios.
    pub run: RunPost,
}

/// What is asked of a run of the posts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// How large it is.
    pub scale: Scale,
    /// In place of the seeds of the scenarios, all of them.
    pub seed: Option<u64>,
}

impl From<Scale> for Work {
    /// With the seeds of the scenarios.
    fn from(scale: Scale) -> Work {
        Work { scale, seed: None }
    }
}

/// Runs the scenarios of a post as is asked, and tells what it is running.
pub type RunPost = fn(Work, &mut dyn FnMut(&str)) -> Result<PostReport, ScenarioError>;

/// The posts that are modelled, in the order in which they are shown.
pub static POSTS: &[Post] = &[post_0::POST, post_1::POST, post_2::POST, post_3::POST, post_4::POST];

/// Runs posts one after another, in the order asked for; all that are modelled when none is named.
/// `progress` is told what is being run, a line at a time.
///
/// # Errors
/// One line: a number that is no post, or what went wrong with a scenario.
pub fn run_posts(
    numbers: &[u32],
    work: impl Into<Work>,
    progress: &mut dyn FnMut(&str),
) -> Result<PostsReport, ScenarioError> {
    let work = work.into();
    let chosen: Vec<&Post> = match numbers {
        [] => POSTS.iter().collect(),
        numbers => numbers.iter().map(|number| find(*number)).collect::<Result<_, _>>()?,
    };
    let mut posts = Vec::new();
    for post in chosen {
        progress(&format!("post {}: {} ({})", post.number, post.title, post.origin));
        posts.push((post.run)(work, progress)?);
    }
    Ok(PostsReport { schema: SCHEMA, model_version: MODEL_VERSION, scale: work.scale, posts })
}

/// The post of that number.
///
/// # Errors
/// One line that names those that there are.
pub fn find(number: u32) -> Result<&'static Post, ScenarioError> {
    POSTS.iter().find(|post| post.number == number).ok_or_else(|| {
        let known: Vec<String> = POSTS.iter().map(|post| post.number.to_string()).collect();
        ScenarioError::Run {
            file: "posts".to_owned(),
            reason: format!("post {number} is not modelled; those that are: {}", known.join(", ")),
        }
    })
}

/// Runs the scenario of a text that is built in; `name` is its file's.
fn run_scenario(name: &str, text: &str, options: &RunOptions) -> Result<Outcome, ScenarioError> {
    let scenario = scenario::parse(name, text, Path::new(""))?;
    scenario::run(&scenario, options)
}

/// The trace hashes of several runs as one, in hexadecimal.
fn joined_hash<'a>(reports: impl IntoIterator<Item = &'a Report>) -> String {
    let mut joined = 0;
    for byte in reports.into_iter().flat_map(|report| report.trace_hash.bytes()) {
        joined = random::mix(joined ^ u64::from(byte));
    }
    format!("{joined:016x}")
}

/// All that was run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PostsReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// See [`crate::report::MODEL_VERSION`].
    pub model_version: u32,
    /// Quick or full.
    pub scale: Scale,
    /// In the order asked for.
    pub posts: Vec<PostReport>,
}

impl PostsReport {
    /// As JSON, indented, with a line end. Rows have, besides what [`Row`] says, `class`, `verdict`
    /// and each cell's `ratio_permille`; absent values are `null`.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self)
            .unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
        json.push('\n');
        json
    }

    /// As tables for people, in lines of at most `width` columns, ending in the rows that do not
    /// agree.
    pub fn to_text(&self, width: usize) -> String {
        text::render(self, width)
    }
}

/// What came of one post.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PostReport {
    /// Its number.
    pub number: u32,
    /// Author and year.
    pub origin: String,
    /// What it is about.
    pub title: String,
    /// The drive's model.
    pub drive: String,
    /// What of it was fitted.
    pub fitted: Vec<String>,
    /// The seed of its scenarios.
    pub seed: u64,
    /// The tables.
    pub tables: Vec<PostTable>,
    /// What a page shows besides the tables: curves, seek plots, distributions. Not in the JSON.
    #[serde(skip)]
    pub figures: Vec<Figure>,
    /// What a reader has to know: assumptions, what is not modelled.
    pub notes: Vec<String>,
    /// Over the trace hashes of all its runs, in hexadecimal.
    pub trace_hash: String,
}

/// A table: rows of measurements against columns of systems.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PostTable {
    /// What it shows.
    pub title: String,
    /// Systems.
    pub columns: Vec<PostColumn>,
    /// Measurements.
    pub rows: Vec<Row>,
}

/// A system that was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PostColumn {
    /// Its heading: "stock".
    pub name: String,
    /// The words that give its policies: "linux-2.4,placement=orlov".
    pub policies: String,
}

/// A quantity with its unit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(tag = "unit", content = "value", rename_all = "kebab-case")]
pub enum Quantity {
    /// Time in nanoseconds.
    Nanoseconds(u64),
    /// A number of things.
    Count(u64),
    /// A ratio in thousandths.
    Permille(u64),
}

/// What was measured, in one line of a table. As JSON it has its class, its verdict and the ratio
/// of each cell too.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// What.
    pub what: String,
    /// Which agreement is asked for.
    pub class: Class,
    /// One for each column of the table.
    pub cells: Vec<Cell>,
    /// The least time that the drive could take for the same work, with what it is made of.
    pub limit: Option<Limit>,
    /// Why it is as it is, where that has to be said.
    pub note: Option<String>,
}

/// A row in one column.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Cell {
    /// What the post measured.
    pub posted: Option<Quantity>,
    /// What the model gives.
    pub ours: Option<Quantity>,
}

/// Which agreement is asked of a row (tolerances: a missed exact or ratio row fails the tests, a
/// missed absolute row warns).
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "class", rename_all = "kebab-case")]
pub enum Class {
    /// The same number.
    Exact,
    /// The ratio of each column to the first one that has a posted value agrees with the posts'
    /// within so many thousandths.
    Ratio {
        /// 350 is 35 %.
        within_permille: u64,
    },
    /// The time agrees within so many thousandths; a miss is a warning.
    Absolute {
        /// 250 is 25 %.
        within_permille: u64,
    },
    /// Ours, a ratio in thousandths, lies within these where the post has a figure, whatever that
    /// is: where a post is one of many measurements that could have been made.
    Between {
        /// At least.
        least: u64,
        /// At most.
        most: u64,
    },
    /// The post says a bound in words ("under 25 ms"): ours must be at most the posted value.
    AtMost,
    /// The post has no figure for it: shown for comparison.
    Shown,
    /// Not modelled, and why.
    NotModelled {
        /// Why.
        reason: String,
    },
}
