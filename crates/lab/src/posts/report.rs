//! What the posts come to: tables of what each measured and what the model gives.
use super::fitted::FittedValues;
use super::limit::Limit;
use super::verdict::Verdict;
use extant_chart::Figure;
use serde::{Deserialize, Serialize};

/// Names the schema of [`PostsReport`].
pub const SCHEMA: &str = "extant-lab-posts/1";

/// How large the work of a post is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Seconds in all: counts are divided where that keeps what the row is about.
    Quick,
    /// As in the post.
    Full,
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

/// What came of one post.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PostReport {
    /// Its number.
    pub number: u32,
    /// Author and year.
    pub origin: String,
    /// What it is about.
    pub title: String,
    /// What it asked: for a page. Not in the JSON.
    #[serde(skip)]
    pub question: String,
    /// What it is about in one line: what the post found, for the screen.
    pub claim: String,
    /// The drive's model.
    pub drive: String,
    /// The processor that every column is charged for.
    pub processor: String,
    /// What the post does not give, with where it comes from.
    #[serde(flatten)]
    pub fitted: FittedValues,
    /// The first seed of its scenarios.
    pub seed: u64,
    /// All seeds that it was run with.
    pub seeds: Vec<u64>,
    /// The tables.
    pub tables: Vec<PostTable>,
    /// What a page shows besides the tables: curves, seek plots, distributions. Not in the JSON.
    #[serde(skip)]
    pub figures: Vec<Figure>,
    /// What a reader has to know: assumptions, what is not modelled.
    pub notes: Vec<String>,
    /// Over the trace hashes of all its runs with the first seed, in hexadecimal.
    pub trace_hash: String,
    /// The same for each seed.
    pub trace_hashes: Vec<String>,
}

/// A table: rows of measurements against columns of systems.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PostTable {
    /// What it shows.
    pub title: String,
    /// What a page puts over it in place of the title. Not in the JSON.
    #[serde(skip)]
    pub heading: Option<String>,
    /// How to read it: for a page. Not in the JSON.
    #[serde(skip)]
    pub caption: String,
    /// What its rows are: for a page. Not in the JSON.
    #[serde(skip)]
    pub form: TableForm,
    /// Systems.
    pub columns: Vec<PostColumn>,
    /// Measurements.
    pub rows: Vec<Row>,
}

/// What the rows of a table are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TableForm {
    /// Measurements, each under its name.
    #[default]
    Rows,
    /// The lines of a stem plot, whose digits are in columns.
    Stem,
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
    /// What is asked of `modern` in this row; `None` of rows that only describe.
    pub goal: Option<Goal>,
    /// Why it is as it is, where that has to be said.
    pub note: Option<String>,
    /// What each seed by itself came to; empty where there was one.
    pub verdicts: Vec<Verdict>,
    /// The block that it is part of: rows that come out or not together, and count once.
    pub block: Option<String>,
}

/// Which values of a row are better, and how near the best column `modern` has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Smaller ones: times.
    Less(Rank),
    /// Larger ones: rates.
    More(Rank),
}

/// How near the best column of a row `modern` has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rank {
    /// The best: the headline of the post.
    Best,
    /// At most [`NEAR_PERMILLE`](super::NEAR_PERMILLE) of the best.
    Near,
    /// More of one row costs another: no column may be better in all rows of this rank together.
    Frontier,
}

/// A row in one column.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Cell {
    /// What the post measured.
    pub posted: Option<Quantity>,
    /// What the model gives: of several seeds or draws the median.
    pub ours: Option<Quantity>,
    /// Between which values it is, where there was more than one seed or draw.
    pub range: Option<Range>,
    /// Whether a bound of our own is asked of it: see [`Class::Bound`].
    pub is_held: bool,
}

/// The values of several seeds or draws.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Range {
    /// The least of them.
    pub least: Quantity,
    /// The most.
    pub most: Quantity,
    /// How many there are.
    pub values: u32,
    /// How many of them are the post's figure.
    pub as_posted: u32,
}

/// Which agreement is asked of a row (tolerances: a missed exact or ratio row fails the tests, a
/// missed absolute row warns).
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "class", rename_all = "kebab-case")]
pub enum Class {
    /// The same number.
    Exact,
    /// A row of ratios to the first column that has a posted value: each agrees with the post's
    /// within this many thousandths.
    Ratio {
        /// 350 is 35 %.
        within_permille: u64,
    },
    /// The time agrees within this many thousandths; a miss is a warning.
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
    /// A bound of our own, or what we ask of our own additions: the post has no figure for it. What
    /// is held to it lies within both ends. Such rows are counted apart.
    Bound {
        /// At least.
        least: Option<Quantity>,
        /// At most.
        most: Option<Quantity>,
    },
    /// The same: what is held to it is at most what the first column has.
    BoundByFirst,
    /// The post's figure is one draw of many that could have been made: among the draws of ours it
    /// occurs.
    Drawn,
    /// The post has no figure for it: shown for comparison.
    Shown,
    /// Not modelled, and why.
    NotModelled {
        /// Why.
        reason: String,
    },
}
