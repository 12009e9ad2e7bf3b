//! `extant lab posts`: what the mailing list posts measured, and what the model gives.
use super::failure;
use super::page::PageOption;
use crate::console::{Chatter, Console};
use crate::error::{Error, Exit};
use extant_lab::page;
use extant_lab::posts::{
    self, POSTS, PostReport, PostTable, PostsReport, SCHEMA, Scale, Verdict, Work, judge,
};
use extant_lab::report::MODEL_VERSION;
use extant_lab::scenario::ScenarioError;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Run the mailing list posts as experiments, and show their figures beside ours.
///
/// Every row says what the post measured, what the model gives, the ratio of the two, and what the
/// `modern` preset takes for the same work on the same drive, beside the least time that the drive
/// could take. Exit code 1 when a row that has to be exact, or a ratio within its bounds, is
/// missed; with --quiet that is all that is said.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant lab posts
  extant lab posts 3
  extant lab posts --html posts.html
  extant lab posts 0 4 --full
  extant lab posts 3 --seed 7
  extant lab posts 0 --only orlov --only modern
  extant lab posts --json | jq '.posts[].tables[].rows[] | select(.verdict == \"misses\")'")]
pub struct Arguments {
    /// Which posts, by number; all that are modelled if none is given
    #[arg(value_name = "NUMBER")]
    pub numbers: Vec<u32>,
    /// As much work as in the posts: minutes instead of seconds
    #[arg(long)]
    pub full: bool,
    /// In place of the seeds of the scenarios: another UUID and hash seed, other trees, other draws
    /// of drives and processes
    #[arg(long, value_name = "NUMBER",
        value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Show these columns only, besides the first of each table, to which ratios are formed; may be
    /// given several times
    #[arg(long, value_name = "COLUMN")]
    pub only: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub page: PageOption,
}

/// Runs them. With `--json`: the report, whose schema is in docs/LAB.md.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    let numbers = chosen(&arguments.numbers)?;
    arguments.page.check()?;
    let scale = if arguments.full { Scale::Full } else { Scale::Quick };
    let work = Work { scale, seed: arguments.seed };
    let mut report = all(&numbers, work, console).map_err(|error| failure::ran(&error))?;
    keep_columns(&mut report, &arguments.only)?;
    arguments.page.write(|| page::of_posts(&report))?;
    match (console.is_json(), console.chatter) {
        (true, _) => console.print(&report.to_json())?,
        (false, Chatter::Quiet) => {}
        (false, Chatter::Normal) => console.print(&report.to_text(console.width()))?,
    }
    Ok(if misses(&report) { Exit::Incomplete } else { Exit::Complete })
}

fn chosen(numbers: &[u32]) -> Result<Vec<u32>, Error> {
    for number in numbers {
        posts::find(*number).map_err(|_| {
            let known: Vec<String> = POSTS.iter().map(|post| post.number.to_string()).collect();
            Error::usage(format!("post {number}: is not modelled; there are {}", known.join(", ")))
                .hint("extant lab list says what each is about")
        })?;
    }
    Ok(match numbers {
        [] => POSTS.iter().map(|post| post.number).collect(),
        numbers => {
            let mut once = numbers.to_vec();
            once.sort_unstable();
            once.dedup();
            once
        }
    })
}

type Ran = Result<Vec<PostReport>, ScenarioError>;

/// Runs as many at a time as there are processors: each has a clock of its own, so none knows of
/// the others.
fn all(numbers: &[u32], work: Work, console: &Console) -> Result<PostsReport, ScenarioError> {
    let status = Mutex::new(console.status());
    let tell = |line: &str| {
        if let Ok(mut status) = status.lock() {
            status.show(line);
        }
    };
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<Ran>>> = numbers.iter().map(|_| Mutex::new(None)).collect();
    let run = || {
        while let Some((number, slot)) = take(&next, numbers, &slots) {
            let ran = posts::run_posts(&[number], work, &mut |line| tell(line))
                .map(|report| report.posts);
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(ran);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(numbers.len()) {
            scope.spawn(run);
        }
    });
    let mut reports = Vec::new();
    for slot in slots {
        let ran = slot.into_inner().ok().flatten();
        reports.extend(ran.transpose()?.unwrap_or_default());
    }
    Ok(PostsReport {
        schema: SCHEMA,
        model_version: MODEL_VERSION,
        scale: work.scale,
        posts: reports,
    })
}

fn take<'a>(
    next: &AtomicUsize,
    numbers: &[u32],
    slots: &'a [Mutex<Option<Ran>>],
) -> Option<(u32, &'a Mutex<Option<Ran>>)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((*numbers.get(at)?, slots.get(at)?))
}

/// Takes away the columns that were not asked for.
fn keep_columns(report: &mut PostsReport, only: &[String]) -> Result<(), Error> {
    let names: Vec<String> = tables(report)
        .flat_map(|table| table.columns.iter().map(|column| column.name.clone()))
        .collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        let mut known = names.clone();
        known.sort();
        known.dedup();
        return Err(Error::usage(format!(
            "--only {unknown}: no such column; there are {}",
            known.join(", ")
        )));
    }
    if only.is_empty() {
        return Ok(());
    }
    for table in report.posts.iter_mut().flat_map(|post| &mut post.tables) {
        let kept: Vec<bool> = table
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| at == 0 || only.contains(&column.name))
            .collect();
        keep(&mut table.columns, &kept);
        table.rows.iter_mut().for_each(|row| keep(&mut row.cells, &kept));
    }
    Ok(())
}

fn keep<T>(list: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    list.retain(|_| kept.next().copied().unwrap_or(false));
}

fn tables(report: &PostsReport) -> impl Iterator<Item = &PostTable> {
    report.posts.iter().flat_map(|post| &post.tables)
}

fn misses(report: &PostsReport) -> bool {
    tables(report).flat_map(|table| &table.rows).any(|row| judge(row) == Verdict::Misses)
}
