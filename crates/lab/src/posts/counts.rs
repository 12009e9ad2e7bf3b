//! How many rows of a post are judged, and what they came to.
//!
//! Rows that are held against the post are counted by themselves, and those that are held to a
//! bound of our own apart. Rows of one block come out or not together, so they count once, as the
//! worst of them.
use super::judge::judge;
use super::report::{Class, PostReport, PostTable, PostsReport, Row, Scale, TableForm};
use super::verdict::Verdict;
use serde::Serialize;

/// By whom something is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhoseRow {
    /// The post has a figure for it.
    Post,
    /// We have set a bound.
    Ours,
}

impl Row {
    /// Who judges it.
    pub fn whose(&self) -> WhoseRow {
        match self.class {
            Class::Bound { .. } | Class::BoundByFirst => WhoseRow::Ours,
            _ => WhoseRow::Post,
        }
    }
}

/// A row that is judged, or a block of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged<'a> {
    /// The name of the row, or of the block.
    pub what: &'a str,
    /// Its table.
    pub table: &'a PostTable,
    /// The rows.
    pub rows: Vec<&'a Row>,
    /// By whom.
    pub whose: WhoseRow,
    /// What it came to: of a block the worst of its rows.
    pub verdict: Verdict,
}

impl Judged<'_> {
    /// Whether it is a block of rows.
    pub fn is_block(&self) -> bool {
        self.rows.iter().any(|row| row.block.is_some())
    }

    /// Whether the verdict hangs on the seed.
    pub fn is_fragile(&self) -> bool {
        self.rows.iter().any(|row| row.is_fragile())
    }
}

/// How many there are, and what they came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// Those that are judged.
    pub judged: usize,
    /// Of them, those that agree, or hold.
    pub agree: usize,
    /// Those that had to agree and do not.
    pub miss: usize,
    /// Those outside their tolerance.
    pub outside: usize,
    /// Those whose verdict hangs on the seed.
    pub fragile: usize,
}

/// What is worse comes later.
fn badness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Shown => 0,
        Verdict::Agrees => 1,
        Verdict::Warns => 2,
        Verdict::Misses => 3,
    }
}

impl PostReport {
    /// All that is judged, in the order of the tables; a block is where its first row is.
    pub fn judged(&self) -> Vec<Judged<'_>> {
        let tables = self.tables.iter().filter(|table| table.form == TableForm::Rows);
        let rows = tables.flat_map(|table| table.rows.iter().map(move |row| (table, row)));
        let mut all: Vec<Judged<'_>> = Vec::new();
        for (table, row) in rows {
            let verdict = judge(row);
            if verdict == Verdict::Shown {
                continue;
            }
            let block = row.block.as_deref();
            let known = block.and_then(|name| {
                all.iter_mut().find(|other| other.is_block() && other.what == name)
            });
            match known {
                Some(known) => {
                    known.rows.push(row);
                    if badness(verdict) > badness(known.verdict) {
                        known.verdict = verdict;
                    }
                }
                None => all.push(Judged {
                    what: block.unwrap_or(&row.what),
                    table,
                    rows: vec![row],
                    whose: row.whose(),
                    verdict,
                }),
            }
        }
        all
    }

    /// How many are judged by the post, or by us.
    pub fn tally(&self, whose: WhoseRow) -> Tally {
        let mut tally = Tally::default();
        for one in self.judged().iter().filter(|one| one.whose == whose) {
            tally.judged += 1;
            tally.agree += usize::from(one.verdict == Verdict::Agrees);
            tally.miss += usize::from(one.verdict == Verdict::Misses);
            tally.outside += usize::from(one.verdict == Verdict::Warns);
            tally.fragile += usize::from(one.is_fragile());
        }
        tally
    }
}

impl Tally {
    /// These and those of another.
    #[must_use]
    pub fn and(self, other: Tally) -> Tally {
        Tally {
            judged: self.judged + other.judged,
            agree: self.agree + other.agree,
            miss: self.miss + other.miss,
            outside: self.outside + other.outside,
            fragile: self.fragile + other.fragile,
        }
    }
}

impl PostsReport {
    /// How much is judged, by whom, and what it came to.
    pub(super) fn totals(&self) -> String {
        let all = |whose: WhoseRow| {
            let tallies = self.posts.iter().map(|post| post.tally(whose));
            tallies.fold(Tally::default(), Tally::and)
        };
        let (post, ours) = (all(WhoseRow::Post), all(WhoseRow::Ours));
        let form = match self.scale {
            Scale::Quick => "quick form",
            Scale::Full => "full size",
        };
        let seeds = match self.posts.iter().map(|post| post.seeds.len()).max().unwrap_or(1) {
            1 => "one seed; --seeds 5 judges the median of five".to_owned(),
            count => format!("{count} seeds, {} fragile", post.fragile + ours.fragile),
        };
        format!(
            "{} judged by the post: {} agree, {} outside their tolerance, {} miss; {} bounds of \
             our own: {} hold ({form}, {seeds})\n",
            post.judged, post.agree, post.outside, post.miss, ours.judged, ours.agree
        )
    }
}
