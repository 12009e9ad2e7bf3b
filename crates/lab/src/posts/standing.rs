//! Where `modern` is among the columns of a post: what its rows ask of it, all together.
//!
//! Rows with a [`Goal`] take part. In each, the headline aside, `modern` may be a tenth after the
//! best column; in the headline it is the best. Rows of the frontier are two sides of one bargain
//! (a reader beside a writer): there no column may be better on every side. And no column of a
//! post may be better in all of its rows.
use super::judge::{MODERN, permille};
use super::report::{Goal, PostColumn, PostReport, PostTable, PostsReport, Quantity, Rank, Row};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What `modern` may take at most of what the best column of a row takes, in thousandths.
pub const NEAR_PERMILLE: u64 = 1100;

/// How a post's `modern` column compares with the others.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Standing {
    /// Rows with a goal in which `modern` and another column have a value.
    pub rows: usize,
    /// In how many of them no other column is better.
    pub best: usize,
    /// What is asked of it and not the case, a line each.
    pub shortfalls: Vec<String>,
}

/// A value of `modern` beside that of another column.
#[derive(Clone, Copy)]
struct Pair {
    goal: Goal,
    modern: u64,
    other: u64,
}

impl Pair {
    fn of(row: &Row, modern: usize, other: usize) -> Option<Pair> {
        let value = |column: usize| row.cells.get(column)?.ours.map(|ours| ours.value());
        Some(Pair { goal: row.goal?, modern: value(modern)?, other: value(other)? })
    }

    fn rank(&self) -> Rank {
        match self.goal {
            Goal::Less(rank) | Goal::More(rank) => rank,
        }
    }

    fn other_is_better(&self) -> bool {
        match self.goal {
            Goal::Less(_) => self.other < self.modern,
            Goal::More(_) => self.other > self.modern,
        }
    }

    /// How many thousandths of the other's value `modern` takes: above 1000 it is after it.
    fn over_permille(&self) -> Option<u64> {
        match self.goal {
            Goal::Less(_) => permille(self.modern, self.other),
            Goal::More(_) => permille(self.other, self.modern),
        }
    }
}

impl PostReport {
    /// How `modern` compares with the other columns of this post.
    pub fn standing(&self) -> Standing {
        let mut standing = Standing::default();
        let mut by_column: BTreeMap<&str, Vec<Pair>> = BTreeMap::new();
        for table in &self.tables {
            let Some(modern) = table.modern() else { continue };
            let column = table.columns.get(modern);
            standing.shortfalls.extend(column.and_then(|column| self.overrides(column)));
            for row in &table.rows {
                let pairs = pairs(table, row, modern);
                if pairs.is_empty() {
                    continue;
                }
                standing.rows += 1;
                standing.best += usize::from(!pairs.iter().any(|(_, pair)| pair.other_is_better()));
                standing.shortfalls.extend(self.shortfall(row, &pairs));
                pairs.into_iter().for_each(|(name, pair)| {
                    by_column.entry(name).or_default().push(pair);
                });
            }
        }
        for (name, pairs) in by_column {
            if pairs.len() > 1 && pairs.iter().all(Pair::other_is_better) {
                standing.shortfalls.push(format!(
                    "post {}: {name} is better than modern in all of its {} rows",
                    self.number,
                    pairs.len()
                ));
            }
        }
        let modern = self
            .tables
            .iter()
            .find_map(|table| table.modern().and_then(|modern| table.columns.get(modern)));
        let frontier = self.frontier().zip(modern).and_then(|(frontier, modern)| {
            frontier.points.into_iter().find(|point| point.name == modern.name)
        });
        if frontier.is_some_and(|point| !point.is_on_it) {
            let line = format!("post {}: modern is not on the frontier", self.number);
            standing.shortfalls.push(line);
        }
        standing
    }

    /// `modern` is one row of the table of presets, and the same in every post.
    fn overrides(&self, modern: &PostColumn) -> Option<String> {
        let line = || format!("post {}: modern is run as {}", self.number, modern.policies);
        (modern.name == MODERN && modern.policies != MODERN).then(line)
    }

    /// What a row asks by itself.
    fn shortfall(&self, row: &Row, pairs: &[(&str, Pair)]) -> Option<String> {
        let over = |pair: &Pair| pair.over_permille().unwrap_or(u64::MAX);
        let (name, pair) = pairs.iter().max_by_key(|(_, pair)| over(pair))?;
        let most = match pair.rank() {
            Rank::Best => 1000,
            Rank::Near => NEAR_PERMILLE,
            Rank::Frontier => return None,
        };
        // Of large values a thousandth is less than the ratio shows.
        let is_after = over(pair) > most || (most == 1000 && pair.other_is_better());
        is_after.then(|| {
            let over = over(pair);
            let (whole, part) = (over / 1000, over % 1000);
            let times = format!("{whole}.{part:03} times");
            format!("post {}: {}: modern takes {times} what {name} takes", self.number, row.what)
        })
    }
}

/// The values of a row beside that of `modern`, with the names of their columns.
fn pairs<'t>(table: &'t PostTable, row: &Row, modern: usize) -> Vec<(&'t str, Pair)> {
    let others = table.columns.iter().enumerate().filter(|(column, _)| *column != modern);
    let pairs = others
        .filter_map(|(column, other)| Some((other.name.as_str(), Pair::of(row, modern, column)?)));
    pairs.collect()
}

impl PostsReport {
    /// What is asked of `modern` and not the case, a line each: empty when it is among the best of
    /// every post.
    pub fn shortfalls(&self) -> Vec<String> {
        self.posts.iter().flat_map(|post| post.standing().shortfalls).collect()
    }
}

/// The bargain that rows of [`Rank::Frontier`] are sides of: more of one costs another.
#[derive(Clone, PartialEq, Debug)]
pub struct Frontier {
    /// What its sides are, and which values of each are better.
    pub sides: Vec<(String, Goal)>,
    /// The columns that have a value on every side, the best of the first side first.
    pub points: Vec<FrontierPoint>,
}

/// A column of a [`Frontier`].
#[derive(Clone, PartialEq, Debug)]
pub struct FrontierPoint {
    /// The column's name.
    pub name: String,
    /// Its values, side by side.
    pub values: Vec<Quantity>,
    /// No other column is at least as good on every side and better on one.
    pub is_on_it: bool,
}

impl PostReport {
    /// The frontier of this post; `None` if it has no rows of that rank.
    pub fn frontier(&self) -> Option<Frontier> {
        let is_side = |row: &&Row| {
            matches!(row.goal, Some(Goal::Less(Rank::Frontier) | Goal::More(Rank::Frontier)))
        };
        let mut sides: Vec<(String, Goal)> = Vec::new();
        let mut columns: Vec<(String, Vec<Quantity>)> = Vec::new();
        for table in &self.tables {
            for row in table.rows.iter().filter(is_side) {
                sides.extend(row.goal.map(|goal| (row.what.clone(), goal)));
                for (column, cell) in table.columns.iter().zip(&row.cells) {
                    let Some(ours) = cell.ours else { continue };
                    match columns.iter_mut().find(|(name, _)| *name == column.name) {
                        Some((_, values)) => values.push(ours),
                        None => columns.push((column.name.clone(), vec![ours])),
                    }
                }
            }
        }
        columns.retain(|(_, values)| values.len() == sides.len());
        let (_, first) = sides.first()?;
        match first {
            Goal::Less(_) => columns.sort_by_key(|(_, values)| values[0].value()),
            Goal::More(_) => columns.sort_by_key(|(_, values)| Reverse(values[0].value())),
        }
        let is_on_it =
            |values: &[Quantity]| !columns.iter().any(|(_, others)| beats(others, values, &sides));
        let points = columns.iter().map(|(name, values)| FrontierPoint {
            name: name.clone(),
            values: values.clone(),
            is_on_it: is_on_it(values),
        });
        let points = points.collect();
        Some(Frontier { sides, points })
    }
}

/// Whether these values are at least as good as the others on every side, and better on one.
fn beats(values: &[Quantity], others: &[Quantity], sides: &[(String, Goal)]) -> bool {
    let pairs = values.iter().zip(others).zip(sides).map(|((value, other), (_, goal))| Pair {
        goal: *goal,
        modern: other.value(),
        other: value.value(),
    });
    let pairs: Vec<Pair> = pairs.collect();
    let is_worse = |pair: &Pair| !pair.other_is_better() && pair.other != pair.modern;
    pairs.iter().any(Pair::other_is_better) && !pairs.iter().any(is_worse)
}
