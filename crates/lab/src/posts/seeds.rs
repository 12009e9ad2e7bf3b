//! A post over several seeds: each value is the median of those of the seeds, with the least and
//! the most of them beside it, and each row is judged on its medians. A row that some seed by
//! itself brings to another verdict is fragile.
//!
//! The first seed is the scenarios' own, or the one that is asked for; the others follow it, one by
//! one. Of an even number of values the median is the lower of the two in the middle, so that it
//! is always a value that was measured.
use super::effects::{self, FittedEffect};
use super::jobs::in_order;
use super::limit::Limit;
use super::report::{Cell, PostReport, PostTable, PostsReport, Quantity, Range, Row, TableForm};
use super::{POSTS, SCHEMA, Verdict, Work, find, judge, run};
use crate::report::MODEL_VERSION;
use crate::scenario::ScenarioError;
use crate::wanted::Wanted;

/// How many seeds can be asked for.
pub const SEEDS_MAX: u32 = 1000;

/// What is asked of a run over seeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seeds {
    /// The work of each; its seed is the first.
    pub work: Work,
    /// How many; 0 counts as 1.
    pub count: u32,
    /// How many posts are run at a time; 0 counts as 1.
    pub threads: usize,
}

impl From<Work> for Seeds {
    /// One, and nothing beside it.
    fn from(work: Work) -> Seeds {
        Seeds { work, count: 1, threads: 1 }
    }
}

/// Runs posts over seeds, several at a time; all that are modelled when none is named. What they
/// give does not depend on how many run at a time. `progress` is told what is being run.
///
/// # Errors
/// One line: a number that is no post, or what went wrong with the first run in order.
pub fn run_seeds(
    numbers: &[u32],
    seeds: Seeds,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<PostsReport, ScenarioError> {
    run_seeds_while(numbers, seeds, &Wanted::default(), progress)
}

/// The same while it is wanted.
///
/// # Errors
/// As [`run_seeds`], and when it is not wanted any more.
pub fn run_seeds_while(
    numbers: &[u32],
    seeds: Seeds,
    wanted: &Wanted,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<PostsReport, ScenarioError> {
    let numbers: Vec<u32> = match numbers {
        [] => POSTS.iter().map(|post| post.number).collect(),
        numbers => numbers.to_vec(),
    };
    let mut jobs = Vec::new();
    for number in &numbers {
        let first = match seeds.work.seed {
            Some(seed) => seed,
            None => find(*number)?.own_seed()?,
        };
        for later in 0..u64::from(seeds.count.clamp(1, SEEDS_MAX)) {
            let seed = match later {
                0 => seeds.work.seed,
                // The largest that an option takes comes before the first again.
                _ => Some(first.wrapping_add(later) & (u64::MAX >> 1)),
            };
            jobs.push((*number, Work { seed, ..seeds.work }));
        }
    }
    let ran = in_order(&jobs, seeds.threads, |(number, work)| {
        find(*number).and_then(|post| run(post, *work, wanted, &mut |line| progress(line)))
    });
    let reports: Vec<PostReport> = ran.into_iter().collect::<Result<_, _>>()?;
    let mut reports = reports.into_iter().peekable();
    let mut posts = Vec::new();
    for number in numbers {
        let mut own = Vec::new();
        while let Some(report) = reports.next_if(|report| report.number == number) {
            own.push(report);
            if own.len() == seeds.count.clamp(1, SEEDS_MAX) as usize {
                break;
            }
        }
        posts.extend(over_seeds(own));
    }
    Ok(PostsReport { schema: SCHEMA, model_version: MODEL_VERSION, scale: seeds.work.scale, posts })
}

/// Runs posts as they are, and without each of their fitted values that can be taken away.
///
/// # Errors
/// As [`run_seeds`].
pub fn without_fitted(
    numbers: &[u32],
    seeds: Seeds,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Vec<FittedEffect>, ScenarioError> {
    let with = run_seeds(numbers, seeds, progress)?;
    let mut effects = Vec::new();
    for report in &with.posts {
        for (at, value) in report.fitted.0.iter().enumerate() {
            let changed = match value.without {
                None => None,
                Some(_) => {
                    let work = Work { without_fitted: Some(at), ..seeds.work };
                    let without = run_seeds(&[report.number], Seeds { work, ..seeds }, progress)?;
                    without.posts.first().map(|without| effects::changed(report, without))
                }
            };
            effects.push(FittedEffect { post: report.number, fitted: value.clone(), changed });
        }
    }
    Ok(effects)
}

/// One report of the reports of a post, one for each seed; `None` of none.
pub fn over_seeds(mut reports: Vec<PostReport>) -> Option<PostReport> {
    if reports.len() < 2 {
        return reports.pop();
    }
    let mut first = reports[0].clone();
    for (at, table) in first.tables.iter_mut().enumerate() {
        if table.form == TableForm::Stem {
            continue;
        }
        let others: Vec<&PostTable> =
            reports.iter().filter_map(|report| report.tables.get(at)).collect();
        for (at, row) in table.rows.iter_mut().enumerate() {
            let rows: Vec<&Row> = others.iter().filter_map(|table| table.rows.get(at)).collect();
            *row = over_rows(row, &rows);
        }
    }
    first.seeds = reports.iter().flat_map(|report| report.seeds.clone()).collect();
    first.trace_hashes = reports.iter().flat_map(|report| report.trace_hashes.clone()).collect();
    Some(first)
}

fn over_rows(first: &Row, rows: &[&Row]) -> Row {
    let cells = (0..first.cells.len()).map(|column| {
        let cells: Vec<Cell> =
            rows.iter().filter_map(|row| row.cells.get(column).copied()).collect();
        over_cells(&cells)
    });
    let mut limits: Vec<Limit> = rows.iter().filter_map(|row| row.limit).collect();
    limits.sort_by_key(|limit| limit.nanoseconds);
    Row {
        cells: cells.collect(),
        limit: limits.get(limits.len().saturating_sub(1) / 2).copied(),
        verdicts: rows.iter().map(|row| judge(row)).collect(),
        ..first.clone()
    }
}

pub(super) fn over_cells(cells: &[Cell]) -> Cell {
    let ranges: Vec<Range> = cells.iter().filter_map(Cell::own_range).collect();
    let least = ranges.iter().map(|range| range.least).min_by_key(|least| least.value());
    let most = ranges.iter().map(|range| range.most).max_by_key(|most| most.value());
    let range = least.zip(most).map(|(least, most)| Range {
        least,
        most,
        values: ranges.iter().map(|range| range.values).sum(),
        as_posted: ranges.iter().map(|range| range.as_posted).sum(),
    });
    Cell {
        posted: median(cells.iter().map(|cell| cell.posted)),
        ours: median(cells.iter().map(|cell| cell.ours)),
        range,
        is_held: cells.iter().any(|cell| cell.is_held),
    }
}

/// The value in the middle; `None` where half or more have none.
fn median(values: impl Iterator<Item = Option<Quantity>>) -> Option<Quantity> {
    let all: Vec<Option<Quantity>> = values.collect();
    let mut there: Vec<Quantity> = all.iter().copied().flatten().collect();
    there.sort_by_key(|quantity| quantity.value());
    match 2 * there.len() > all.len() {
        true => there.get((there.len() - 1) / 2).copied(),
        false => None,
    }
}

impl Cell {
    /// Its range, which of a single value is that value.
    fn own_range(&self) -> Option<Range> {
        let single = |ours: Quantity| Range {
            least: ours,
            most: ours,
            values: 1,
            as_posted: u32::from(self.posted == Some(ours)),
        };
        self.range.or(self.ours.map(single))
    }
}

impl Row {
    /// Whether a seed by itself brings it to another verdict than the medians do.
    pub fn is_fragile(&self) -> bool {
        let together = judge(self);
        self.verdicts.iter().any(|verdict| *verdict != together)
    }

    /// In how many seeds it comes to the verdict of the medians, and how many seeds there are.
    pub fn seeds_that_agree(&self) -> (usize, usize) {
        let together = judge(self);
        let same = self.verdicts.iter().filter(|verdict| **verdict == together).count();
        (same, self.verdicts.len())
    }
}

impl PostsReport {
    /// Rows whose verdict hangs on the seed, a line each.
    pub fn fragile(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for post in &self.posts {
            for table in &post.tables {
                for row in table.rows.iter().filter(|row| row.is_fragile()) {
                    let (same, all) = row.seeds_that_agree();
                    let verdict = match judge(row) {
                        Verdict::Agrees => "agrees",
                        Verdict::Misses => "misses",
                        Verdict::Warns => "is outside",
                        Verdict::Shown => "is shown",
                    };
                    lines.push(format!(
                        "post {}: {}: {}: {verdict} in {same} of {all} seeds",
                        post.number, table.title, row.what
                    ));
                }
            }
        }
        lines
    }
}
