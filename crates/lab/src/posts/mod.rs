//! The mailing list posts as experiments: their figures, the scenarios that give ours, and how far
//! the two agree.
//!
//! A post is a file in `crates/lab/posts/reports`: its systems, what is run (scenarios of the
//! ordinary kind, in `crates/lab/posts`, with changes), and its tables. A row says what the post
//! measured, what is measured of our runs (an expression of [`crate::results`]), and which
//! [`Class`] of agreement is asked of it: exact rows and ratios must hold, absolute times are shown
//! with their error, and what is not modelled is shown with the reason.
//!
//! ```text
//! ledger    a part of a document: each row before and now
//! screen    the posts on one screen of a terminal
//! text      the tables for a terminal
//! seeds     several seeds: medians and ranges; without a fitted value
//! effects   what fitted values decide
//! counts    how many rows are judged, by whom, and what they came to
//! judge     whether a row agrees; a row as JSON
//! standing  how `modern` compares with the other columns of a post
//! tables    the rows of a post           figures  what a page draws besides
//! limits    the least that rows ask of the drive
//! value     what is measured of a run    kept     what is known besides its report
//! runs      systems through scenarios    jobs     two at a time, results in order
//! names     reads a file: what it names is in it
//! file      the file of a post, as types          fitted    what no source gives
//! report    tables, rows and cells       limit    the least time that a drive could take
//! verdict   what a row came to
//! readdir_cost   what post 3 asks of the processor, in real time: no part of a report
//! ```
mod counts;
mod effects;
mod figures;
mod file;
mod fitted;
mod jobs;
mod judge;
mod kept;
pub mod ledger;
mod limit;
mod limits;
mod names;
mod readdir_cost;
mod report;
mod runs;
mod screen;
mod seeds;
mod standing;
mod tables;
pub(crate) mod text;
mod value;
mod verdict;

pub use counts::{Judged, Tally, WhoseRow};
pub use effects::{ChangedRow, FittedEffect};
pub use file::Post;
pub use fitted::{Fitted, FittedOrigin, FittedValues};
pub use judge::judge;
pub use limit::{Limit, Need};
pub use readdir_cost::{ReaddirCost, readdir_cost};
pub use report::{
    Cell, Class, Goal, PostColumn, PostReport, PostTable, PostsReport, Quantity, Range, Rank, Row,
    SCHEMA, Scale, TableForm,
};
pub use seeds::{SEEDS_MAX, Seeds, over_seeds, run_seeds, run_seeds_while, without_fitted};
pub use standing::{Frontier, FrontierPoint, NEAR_PERMILLE, Standing};
pub use verdict::Verdict;

use crate::refused::Refused;
use crate::report::{MODEL_VERSION, Report};
use crate::scenario::ScenarioError;
use crate::wanted::Wanted;
use extant_sim::random;
use runs::Runs;
use std::sync::LazyLock;

/// What is asked of a run of the posts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// How large it is.
    pub scale: Scale,
    /// In place of the seeds of the scenarios, all of them.
    pub seed: Option<u64>,
    /// Without the fitted value of this number, from 0, of each post.
    pub without_fitted: Option<usize>,
}

impl From<Scale> for Work {
    /// With the seeds of the scenarios.
    fn from(scale: Scale) -> Work {
        Work { scale, seed: None, without_fitted: None }
    }
}

/// The files of the posts, in the order in which they are shown.
const FILES: [&str; 5] = [
    include_str!("../../posts/reports/post-0.toml"),
    include_str!("../../posts/reports/post-1.toml"),
    include_str!("../../posts/reports/post-2.toml"),
    include_str!("../../posts/reports/post-3.toml"),
    include_str!("../../posts/reports/post-4.toml"),
];

/// The posts that are modelled, in the order in which they are shown.
///
/// # Panics
/// A file that is built in is wrong: a test reads them all.
pub static POSTS: LazyLock<Vec<Post>> = LazyLock::new(|| {
    let read = |text: &&str| names::parse(text).expect("the file of a post is right");
    FILES.iter().map(read).collect()
});

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
        posts.push(run(post, work, &Wanted::default(), progress)?);
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

/// The posts of these numbers, each once, in their order; all that are modelled of none.
///
/// # Errors
/// A number that is no post.
pub fn chosen(numbers: &[u32]) -> Result<Vec<u32>, Refused> {
    let known: Vec<u32> = POSTS.iter().map(|post| post.number).collect();
    if let Some(number) = numbers.iter().find(|number| !known.contains(number)) {
        let known: Vec<String> = known.iter().map(u32::to_string).collect();
        let message = format!("post {number}: is not modelled; there are {}", known.join(", "));
        return Err(Refused::words(message).hint("extant lab list says what each is about"));
    }
    let mut once = if numbers.is_empty() { known } else { numbers.to_vec() };
    once.sort_unstable();
    once.dedup();
    Ok(once)
}

fn run(
    post: &Post,
    work: Work,
    wanted: &Wanted,
    progress: &mut dyn FnMut(&str),
) -> Result<PostReport, ScenarioError> {
    let runs = Runs::make(post, work, wanted, progress)?;
    let seed = runs.reports().next().map_or(1, |report| report.seed);
    let trace_hash = joined_hash(runs.reports());
    Ok(PostReport {
        number: post.number,
        origin: post.origin.clone(),
        title: post.title.clone(),
        question: post.question.clone(),
        claim: post.claim.clone(),
        processor: post.processor.clone(),
        drive: post.drive.clone(),
        fitted: FittedValues(post.fitted.clone()),
        seed,
        seeds: vec![seed],
        tables: tables::tables(&runs),
        figures: figures::figures(&runs),
        notes: post.notes.clone(),
        trace_hashes: vec![trace_hash.clone()],
        trace_hash,
    })
}

/// The trace hashes of several runs as one, in hexadecimal.
fn joined_hash<'a>(reports: impl Iterator<Item = &'a Report>) -> String {
    let mut joined = 0;
    for byte in reports.flat_map(|report| report.trace_hash.bytes()) {
        joined = random::mix(joined ^ u64::from(byte));
    }
    format!("{joined:016x}")
}
