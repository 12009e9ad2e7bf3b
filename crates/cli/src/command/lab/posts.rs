//! `extant lab posts`: what the mailing list posts measured, and what the model gives.
use super::data::DataOption;
use super::failure;
use super::page::PageOption;
use extant_host::arena;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::progress::Status;
use extant_lab::posts::ledger::{self, Before};
use extant_lab::posts::{self, PostTable, PostsReport, Scale, Seeds, Verdict, Work, judge};
use extant_lab::scenario::ScenarioError;
use extant_lab::{observations, page};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Run the mailing list posts as experiments, and show their figures beside ours.
///
/// On one screen: of each post what it found, and for each row that is judged its figures, ours and
/// the verdict, and what the `modern` preset does with the same work on the same drive and
/// processor. With --detail every row of every table, beside the least time that the drive could
/// take. Bounds that we have set ourselves are counted apart. Exit code 1 when a row that has to be
/// exact, a ratio or a bound is missed; with --quiet that is all that is said.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant lab posts
  extant lab posts 3 --detail
  extant lab posts --html posts.html
  extant lab posts 0 4 --full
  extant lab posts 3 --seed 7
  extant lab posts 0 3 --seeds 5
  extant lab posts --full --seeds 5 --table docs/POSTS.md --before bench/posts/before-full.json
  extant lab posts 2 --without-fitted
  extant lab posts 0 --only orlov --only modern
  extant lab posts --json | jq '.posts[].tables[].rows[] | select(.verdict == \"misses\")'")]
pub struct Arguments {
    /// Which posts, by number; all that are modelled if none is given
    #[arg(value_name = "NUMBER")]
    pub numbers: Vec<u32>,
    /// As much work as in the posts: minutes instead of seconds
    #[arg(long)]
    pub full: bool,
    /// Every row of every table, with what was fitted, assumed and left out
    #[arg(long)]
    pub detail: bool,
    /// In place of the seeds of the scenarios: another UUID and hash seed, other trees, other draws
    /// of drives and processes
    #[arg(long, value_name = "NUMBER",
        value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Run with as many seeds: the first, and those that follow it. Each value is the median, with
    /// the least and the most beside it; rows are judged on medians, and a row that another seed
    /// brings to another verdict is fragile
    #[arg(long, value_name = "COUNT", default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(posts::SEEDS_MAX)))]
    pub seeds: u32,
    /// Run each post without each of the values that it does not give too, where that can be taken
    /// away, and say which rows come to another verdict then
    #[arg(long, conflicts_with_all = ["only", "table", "html", "csv", "jsonl", "parquet"])]
    pub without_fitted: bool,
    /// Put a table of every row that is judged into this document, between its marks
    #[arg(long, value_name = "FILE")]
    pub table: Option<PathBuf>,
    /// What --table calls before: the output of an earlier --json
    #[arg(long, value_name = "FILE", requires = "table")]
    pub before: Option<PathBuf>,
    /// Show these columns only, besides the first of each table, to which ratios are formed; may be
    /// given several times
    #[arg(long, value_name = "COLUMN")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub page: PageOption,
    #[command(flatten)]
    pub data: DataOption,
}

/// Runs them. With `--json`: the report, whose schema is in docs/LAB.md.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    let numbers = posts::chosen(&arguments.numbers).map_err(failure::refused)?;
    if arguments.full {
        arena::share();
    }
    arguments.page.check()?;
    arguments.data.check()?;
    let scale = if arguments.full { Scale::Full } else { Scale::Quick };
    let seeds = Seeds {
        work: Work { seed: arguments.seed, ..Work::from(scale) },
        count: arguments.seeds,
        threads: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
    };
    if arguments.without_fitted {
        return without_fitted(&numbers, seeds, console);
    }
    let document = Document::of(arguments)?;
    let mut report = all(&numbers, seeds, console).map_err(|error| failure::ran(&error))?;
    document.map_or(Ok(()), |document| document.write(&report))?;
    keep_columns(&mut report, &arguments.only)?;
    arguments.page.write(|| page::of_posts(&report))?;
    arguments.data.write(|| observations::of_posts(&report))?;
    match (console.is_json(), arguments.detail) {
        (true, _) => console.print(&report.to_json())?,
        (false, true) => console.report(&report.to_text(console.width()))?,
        (false, false) => {
            let screen = report.to_screen(console.width());
            console.report(&format!("{screen}--detail shows every row of every table\n"))?;
        }
    }
    Ok(if misses(&report) { Exit::Incomplete } else { Exit::Complete })
}

/// Runs as many at a time as there are processors.
fn all(numbers: &[u32], seeds: Seeds, console: &Console) -> Result<PostsReport, ScenarioError> {
    let status = Mutex::new(console.status());
    posts::run_seeds(numbers, seeds, &|line| tell(&status, line))
}

fn tell(status: &Mutex<Status>, line: &str) {
    if let Ok(mut status) = status.lock() {
        status.show(line);
    }
}

/// The document of `--table`, read before anything runs.
struct Document<'a> {
    path: &'a Path,
    text: String,
    before: Before,
}

impl Document<'_> {
    fn of(arguments: &Arguments) -> Result<Option<Document<'_>>, Error> {
        let Some(path) = arguments.table.as_deref() else { return Ok(None) };
        let text = text_of(path)?;
        ledger::put_into(&text, "").map_err(|reason| wrong(path, &reason))?;
        let before = match &arguments.before {
            None => Before::default(),
            Some(path) => Before::parse(&text_of(path)?).map_err(|reason| wrong(path, &reason))?,
        };
        Ok(Some(Document { path, text, before }))
    }

    fn write(&self, report: &PostsReport) -> Result<(), Error> {
        let part = ledger::part(report, &self.before);
        let text = ledger::put_into(&self.text, &part);
        let text = text.map_err(|reason| wrong(self.path, &reason))?;
        std::fs::write(self.path, text).map_err(|error| Error::io(self.path.display(), &error))
    }
}

/// No document, and no report, is longer.
const TEXT_BYTES_MAX: u64 = 64 << 20;

fn text_of(path: &Path) -> Result<String, Error> {
    let bytes = failure::contents(path, TEXT_BYTES_MAX)?;
    String::from_utf8(bytes).map_err(|_| wrong(path, "is not text"))
}

fn wrong(path: &Path, reason: &str) -> Error {
    Error::new(format!("{}: {reason}", path.display()))
}

/// What each fitted value decides.
fn without_fitted(numbers: &[u32], seeds: Seeds, console: &Console) -> Result<Exit, Error> {
    let status = Mutex::new(console.status());
    let effects = posts::without_fitted(numbers, seeds, &|line| tell(&status, line));
    drop(status);
    let effects = effects.map_err(|error| failure::ran(&error))?;
    match console.is_json() {
        true => console
            .print_json("extant-lab-posts-without/1", &serde_json::json!({ "effects": effects }))?,
        false => effects.iter().try_for_each(|effect| console.report(&effect.to_text()))?,
    }
    Ok(Exit::Complete)
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
