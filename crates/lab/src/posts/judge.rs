//! Whether a row agrees with its post.
//!
//! Everything is compared in whole numbers: a ratio of ratios is a product on either side. A row of
//! ratios has them in its cells, so that a verdict always stands beside what it judges.
use super::limit::Limit;
use super::report::{Cell, Class, Goal, PostReport, PostTable, PostsReport, Quantity, Range, Row};
use super::verdict::Verdict;
use serde::{Serialize, Serializer};

/// Judges a row. A cell that has a posted value and none of ours does not agree; a row in which
/// nothing can be compared is shown only.
pub fn judge(row: &Row) -> Verdict {
    match &row.class {
        Class::Exact => verdict(&row.cells, Verdict::Misses, |posted, ours| posted == ours),
        Class::Ratio { within_permille } => verdict(&row.cells, Verdict::Misses, |posted, ours| {
            agree((ours, 1), (posted, 1), *within_permille)
        }),
        Class::Absolute { within_permille } => {
            verdict(&row.cells, Verdict::Warns, |posted, ours| {
                agree((ours, 1), (posted, 1), *within_permille)
            })
        }
        Class::Between { least, most } => {
            verdict(&row.cells, Verdict::Misses, |_, ours| (*least..=*most).contains(&ours))
        }
        Class::AtMost => verdict(&row.cells, Verdict::Misses, |posted, ours| ours <= posted),
        Class::Bound { least, most } => held(&row.cells, |ours| {
            least.is_none_or(|least| is_at_most(least, ours))
                && most.is_none_or(|most| is_at_most(ours, most))
        }),
        Class::BoundByFirst => {
            let first = row.cells.first().and_then(|cell| cell.ours);
            held(&row.cells, |ours| first.is_some_and(|first| is_at_most(ours, first)))
        }
        Class::Drawn => drawn(&row.cells),
        Class::Shown | Class::NotModelled { .. } => Verdict::Shown,
    }
}

/// The verdict on cells that are compared each for itself.
fn verdict(cells: &[Cell], otherwise: Verdict, is_good: impl Fn(u64, u64) -> bool) -> Verdict {
    let mut posted = cells.iter().filter(|cell| cell.posted.is_some()).peekable();
    if posted.peek().is_none() {
        return Verdict::Shown;
    }
    match posted.all(|cell| pair(cell).is_some_and(|(posted, ours)| is_good(posted, ours))) {
        true => Verdict::Agrees,
        false => otherwise,
    }
}

/// The post's figure is among the draws of each cell that has one.
fn drawn(cells: &[Cell]) -> Verdict {
    let is_among = |cell: &Cell| match cell.range {
        Some(range) => range.as_posted > 0,
        None => pair(cell).is_some_and(|(posted, ours)| posted == ours),
    };
    let mut posted = cells.iter().filter(|cell| cell.posted.is_some()).peekable();
    match posted.peek().is_none() {
        true => Verdict::Shown,
        false if posted.all(is_among) => Verdict::Agrees,
        false => Verdict::Misses,
    }
}

/// The verdict on a bound of our own: of every cell that is held to it.
fn held(cells: &[Cell], is_good: impl Fn(Quantity) -> bool) -> Verdict {
    let mut held = cells.iter().filter(|cell| cell.is_held).peekable();
    match held.peek().is_none() {
        true => Verdict::Shown,
        false if held.all(|cell| cell.ours.is_some_and(&is_good)) => Verdict::Agrees,
        false => Verdict::Misses,
    }
}

/// Whether one quantity is not larger than another of the same unit.
fn is_at_most(one: Quantity, other: Quantity) -> bool {
    of_one_unit(one, other).is_some_and(|(one, other)| one <= other)
}

/// Both values of a cell, when they are of one unit.
fn pair(cell: &Cell) -> Option<(u64, u64)> {
    of_one_unit(cell.posted?, cell.ours?)
}

/// Two quantities as numbers, when they are of one unit.
fn of_one_unit(one: Quantity, other: Quantity) -> Option<(u64, u64)> {
    match (one, other) {
        (Quantity::Nanoseconds(one), Quantity::Nanoseconds(other))
        | (Quantity::Count(one), Quantity::Count(other))
        | (Quantity::Permille(one), Quantity::Permille(other)) => Some((one, other)),
        _ => None,
    }
}

/// Whether the fraction `ours` differs from the fraction `posted` by at most this many thousandths
/// of the latter.
fn agree(ours: (u64, u64), posted: (u64, u64), within_permille: u64) -> bool {
    let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
    let (ours, posted) = (product(ours.0, posted.1), product(posted.0, ours.1));
    // Thousandths of what has more than 100 bits do not fit; its last bits do not decide.
    let excess = (u128::BITS - ours.max(posted).leading_zeros()).saturating_sub(100);
    let (ours, posted) = (ours >> excess, posted >> excess);
    let bound = posted.saturating_mul(u128::from(within_permille));
    ours.abs_diff(posted) * 1000 <= bound
}

impl Quantity {
    /// The number without its unit.
    pub fn value(self) -> u64 {
        match self {
            Quantity::Nanoseconds(value) | Quantity::Count(value) | Quantity::Permille(value) => {
                value
            }
        }
    }
}

impl Cell {
    /// Ours over the post's, in thousandths; `None` where one is missing or the post's is 0.
    pub fn ratio_permille(&self) -> Option<u64> {
        pair(self).and_then(|(posted, ours)| permille(ours, posted))
    }
}

/// A share in thousandths, rounded; `None` of nothing.
pub(super) fn permille(part: u64, whole: u64) -> Option<u64> {
    let whole = u128::from(whole);
    let scaled = (u128::from(part) * 1000 + whole / 2).checked_div(whole)?;
    Some(u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// The name of the column that shows what we do with the same work.
pub(super) const MODERN: &str = "modern";

impl PostTable {
    /// The column of the `modern` preset: the one of that name, else the last whose policies begin
    /// with it.
    pub fn modern(&self) -> Option<usize> {
        let is_modern = |policies: &str| policies.split(',').next() == Some(MODERN);
        let named = self.columns.iter().position(|column| column.name == MODERN);
        named.or_else(|| self.columns.iter().rposition(|column| is_modern(&column.policies)))
    }

    /// Column by column: whether the post has a figure in it.
    pub(crate) fn posted_columns(&self) -> Vec<bool> {
        let is_posted = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.cells.get(column));
            cells.any(|cell| cell.posted.is_some())
        };
        (0..self.columns.len()).map(is_posted).collect()
    }

    /// What `modern` takes over the physical limit of a row, in thousandths.
    pub fn over_limit_permille(&self, row: &Row) -> Option<u64> {
        let limit: Limit = row.limit?;
        match row.cells.get(self.modern()?)?.ours? {
            Quantity::Nanoseconds(ours) => permille(ours, limit.nanoseconds),
            _ => None,
        }
    }

    /// What `modern` takes over what the best of all other columns takes, in thousandths; of times
    /// only.
    pub fn over_best_permille(&self, row: &Row) -> Option<u64> {
        let modern = self.modern()?;
        let time = |cell: &Cell| match cell.ours {
            Some(Quantity::Nanoseconds(ours)) => Some(ours),
            _ => None,
        };
        let others = row.cells.iter().enumerate().filter(|(column, _)| *column != modern);
        let best = others.filter_map(|(_, cell)| time(cell)).min()?;
        permille(time(row.cells.get(modern)?)?, best)
    }
}

impl PostReport {
    /// Rows that came to a verdict, each as `post 3: TABLE: ROW`.
    fn that_came_to(&self, wanted: Verdict) -> impl Iterator<Item = String> {
        let rows =
            self.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
        let rows = rows.filter(move |(_, row)| judge(row) == wanted);
        rows.map(|(table, row)| format!("post {}: {}: {}", self.number, table.title, row.what))
    }
}

impl PostsReport {
    /// The rows that had to agree and do not, a line each: empty when all is well.
    pub fn missed(&self) -> Vec<String> {
        self.posts.iter().flat_map(|post| post.that_came_to(Verdict::Misses)).collect()
    }

    /// The same with how far they are: ours over the post's in thousandths, the least and the most
    /// of the columns that the post has.
    pub fn outside(&self) -> Vec<(String, u64, u64)> {
        let rows = self.posts.iter().flat_map(|post| {
            let tables = post.tables.iter();
            tables.flat_map(move |table| table.rows.iter().map(move |row| (post, table, row)))
        });
        let outside = rows.filter(|(_, _, row)| judge(row) == Verdict::Warns);
        let words = |(post, table, row): (&PostReport, &PostTable, &Row)| {
            let ratios = || row.cells.iter().filter_map(Cell::ratio_permille);
            let name = format!("post {}: {}: {}", post.number, table.title, row.what);
            (name, ratios().min().unwrap_or(0), ratios().max().unwrap_or(u64::MAX))
        };
        outside.map(words).collect()
    }

    /// The absolute rows outside their tolerance, a line each.
    pub fn warned(&self) -> Vec<String> {
        self.posts.iter().flat_map(|post| post.that_came_to(Verdict::Warns)).collect()
    }
}

/// A row as JSON has it: with its verdict and its ratios.
#[derive(Serialize)]
struct Judged<'a> {
    what: &'a str,
    #[serde(flatten)]
    class: &'a Class,
    verdict: Verdict,
    /// What each seed by itself came to; empty where there was one.
    verdicts: &'a [Verdict],
    fragile: bool,
    block: Option<&'a str>,
    cells: Vec<JudgedCell>,
    limit: Option<Limit>,
    goal: Option<Goal>,
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct JudgedCell {
    posted: Option<Quantity>,
    ours: Option<Quantity>,
    ratio_permille: Option<u64>,
    range: Option<Range>,
    is_held: bool,
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cells = self.cells.iter().map(|cell| JudgedCell {
            posted: cell.posted,
            ours: cell.ours,
            ratio_permille: cell.ratio_permille(),
            range: cell.range,
            is_held: cell.is_held,
        });
        let judged = Judged {
            what: &self.what,
            class: &self.class,
            verdict: judge(self),
            verdicts: &self.verdicts,
            fragile: self.is_fragile(),
            block: self.block.as_deref(),
            cells: cells.collect(),
            limit: self.limit,
            goal: self.goal,
            note: self.note.as_deref(),
        };
        judged.serialize(serializer)
    }
}
