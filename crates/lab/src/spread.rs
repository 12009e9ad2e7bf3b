//! What several seeds give: of each figure the median and the range, and where seeds do not agree
//! on which of two is the smaller one.
//!
//! # Schema
//! [`Spread::to_json`] writes the fields under their names. Values are millionths of their unit
//! (`_millionths`), whole numbers; `values_millionths` has one for each seed, in the order of
//! `seeds`, `null` where that seed gave none. Of an even number of values the median is the lower
//! of the two in the middle, so that it was always measured.
use crate::ageing::AgeingReport;
use crate::observations::{Observations, Row};
use crate::report::Report;
use crate::session::SessionReport;
use extant_chart::{Alignment, Table, wrapped};
use serde::Serialize;
use serde_json::json;

/// Names the schema.
pub const SCHEMA: &str = "extant-lab-seeds/1";

/// A figure of one run. Those of one kind and unit are compared with each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figure {
    /// What it is: `result`, `measure`, `step`, the name of a metric.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Of its value.
    pub unit: String,
    /// In millionths of the unit; `None` where the run has none.
    pub millionths: Option<i64>,
}

/// What several seeds gave.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Spread {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What was run.
    pub what: String,
    /// The drive, where there is one, and that nothing was measured on it where that is so.
    pub drive: String,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The figures, in the order of the first run.
    pub rows: Vec<SpreadRow>,
    /// Pairs of figures whose order hangs on the seed.
    pub reversed: Vec<Reversal>,
}

/// A figure over the seeds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SpreadRow {
    /// As [`Figure::kind`].
    pub kind: String,
    /// As [`Figure::name`].
    pub name: String,
    /// As [`Figure::unit`].
    pub unit: String,
    /// The value in the middle.
    pub median_millionths: Option<i64>,
    /// The least.
    pub least_millionths: Option<i64>,
    /// The most.
    pub most_millionths: Option<i64>,
    /// Seed by seed.
    pub values_millionths: Vec<Option<i64>>,
}

/// Two figures of which some seeds say that the one is smaller, and others that the other is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reversal {
    /// Of both.
    pub kind: String,
    /// The one with the smaller median.
    pub smaller: String,
    /// The other one.
    pub larger: String,
    /// The seeds by which it is the other way round.
    pub seeds: Vec<u64>,
}

impl Spread {
    /// Of the figures of each run, in the order of `seeds`.
    pub fn of(what: &str, drive: &str, seeds: &[u64], runs: &[Vec<Figure>]) -> Spread {
        let first = runs.first().map_or(&[][..], Vec::as_slice);
        let rows: Vec<SpreadRow> = first.iter().map(|figure| row(figure, runs)).collect();
        let mut reversed = Vec::new();
        for (at, one) in rows.iter().enumerate() {
            reversed.extend(rows[at + 1..].iter().filter_map(|other| reversal(one, other, seeds)));
        }
        Spread {
            schema: SCHEMA,
            what: what.to_owned(),
            drive: drive.to_owned(),
            seeds: seeds.to_vec(),
            rows,
            reversed,
        }
    }

    /// One JSON document, with a line's end.
    pub fn to_json(&self) -> String {
        crate::report::json(self)
    }

    /// The figures as a table.
    pub fn table(&self) -> Table {
        let (left, right) = (Alignment::Left, Alignment::Right);
        let columns = [
            ("", left),
            ("", left),
            ("median", right),
            ("least", right),
            ("most", right),
            ("unit", left),
        ];
        let mut table = Table::new(&format!("{} seeds", self.seeds.len()), &columns);
        for row in &self.rows {
            let ends = [row.median_millionths, row.least_millionths, row.most_millionths];
            let ends = ends.map(|end| end.map_or_else(|| "-".to_owned(), crate::report::decimal));
            let words = [row.kind.clone(), row.name.clone()].into_iter();
            table.row(words.chain(ends).chain([row.unit.clone()]));
        }
        table
    }

    /// Which orders hang on the seed, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let all = self.seeds.len();
        let line = |one: &Reversal| {
            let seeds: Vec<String> = one.seeds.iter().map(u64::to_string).collect();
            format!(
                "{}: {:?} is smaller than {:?} by the medians, and not in {} of {all} seeds ({})",
                one.kind,
                one.smaller,
                one.larger,
                seeds.len(),
                seeds.join(", ")
            )
        };
        self.reversed.iter().map(line).collect()
    }

    /// A table for people, in lines of at most `width` columns, and the warnings.
    pub fn to_text(&self, width: usize) -> String {
        let seeds = crate::posts::text::seeds(&self.seeds);
        let drive = match self.drive.as_str() {
            "" => String::new(),
            drive => format!(", on {drive}"),
        };
        let mut text = wrapped(&format!("{}{drive}: {seeds}\n", self.what), width, 2);
        text.push_str(&self.table().render(width));
        for line in self.warnings() {
            text.push_str(&wrapped(&format!("warning: order by seed: {line}\n"), width, 2));
        }
        text
    }

    /// A row for each figure, with the names of those whose order to it hangs on the seed.
    pub fn observations(&self) -> Observations<'static> {
        const FIRST: [&str; 9] =
            ["what", "drive", "seeds", "kind", "name", "unit", "median", "least", "most"];
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        let rows = self.rows.iter().map(|row| {
            let others = self.reversed.iter().filter(|one| one.kind == row.kind);
            let others: Vec<&str> = others
                .filter_map(|one| match (one.smaller == row.name, one.larger == row.name) {
                    (true, _) => Some(one.larger.as_str()),
                    (_, true) => Some(one.smaller.as_str()),
                    _ => None,
                })
                .collect();
            Row::from(json!({
                "what": self.what,
                "drive": self.drive,
                "seeds": seeds.join(" "),
                "kind": row.kind,
                "name": row.name,
                "unit": row.unit,
                "median_millionths": row.median_millionths,
                "least_millionths": row.least_millionths,
                "most_millionths": row.most_millionths,
                "reversed_by_seed": others.join("; "),
            }))
        });
        let first = FIRST.map(|name| match name {
            "median" => "median_millionths",
            "least" => "least_millionths",
            "most" => "most_millionths",
            name => name,
        });
        Observations::of_rows(&first, rows.collect())
    }
}

fn row(figure: &Figure, runs: &[Vec<Figure>]) -> SpreadRow {
    let is_same = |other: &&Figure| other.kind == figure.kind && other.name == figure.name;
    let of = |run: &Vec<Figure>| run.iter().find(is_same).and_then(|figure| figure.millionths);
    let values: Vec<Option<i64>> = runs.iter().map(of).collect();
    let mut there: Vec<i64> = values.iter().flatten().copied().collect();
    there.sort_unstable();
    SpreadRow {
        kind: figure.kind.clone(),
        name: figure.name.clone(),
        unit: figure.unit.clone(),
        median_millionths: there.get(there.len().saturating_sub(1) / 2).copied(),
        least_millionths: there.first().copied(),
        most_millionths: there.last().copied(),
        values_millionths: values,
    }
}

/// Of two figures that can be compared: whether some seeds order them the other way round than the
/// medians do, or, where those are equal, both ways.
fn reversal(one: &SpreadRow, other: &SpreadRow, seeds: &[u64]) -> Option<Reversal> {
    if one.kind != other.kind || one.unit != other.unit {
        return None;
    }
    let (smaller, larger) = match one.median_millionths? <= other.median_millionths? {
        true => (one, other),
        false => (other, one),
    };
    let pairs = smaller.values_millionths.iter().zip(&larger.values_millionths).zip(seeds);
    let is_reversed = |small: &Option<i64>, large: &Option<i64>| {
        small.zip(*large).is_some_and(|(small, large)| small > large)
    };
    let reversed: Vec<u64> = pairs
        .clone()
        .filter(|((small, large), _)| is_reversed(small, large))
        .map(|(_, seed)| *seed)
        .collect();
    let is_tied = smaller.median_millionths == larger.median_millionths;
    let both = pairs.clone().any(|((small, large), _)| is_reversed(large, small));
    (!reversed.is_empty() && (!is_tied || both)).then(|| Reversal {
        kind: smaller.kind.clone(),
        smaller: smaller.name.clone(),
        larger: larger.name.clone(),
        seeds: reversed,
    })
}

/// Nanoseconds as millionths of a second.
fn micros(nanoseconds: u64) -> Option<i64> {
    i64::try_from(nanoseconds / 1000).ok()
}

fn time(kind: &str, name: String, nanoseconds: u64) -> Figure {
    Figure { kind: kind.to_owned(), name, unit: "s".to_owned(), millionths: micros(nanoseconds) }
}

/// The figures of a run: what its scenario computes, its measures, and the whole time. Without
/// measures its steps.
pub fn of_report(report: &Report) -> Vec<Figure> {
    let mut all: Vec<Figure> = Vec::new();
    all.extend(report.results.iter().map(|result| Figure {
        kind: "result".to_owned(),
        name: result.name.clone(),
        unit: result.unit.clone(),
        millionths: result.millionths,
    }));
    let processes: Vec<&str> =
        report.measures.iter().map(|measure| measure.process.as_str()).collect();
    let is_alone = processes.windows(2).all(|pair| pair[0] == pair[1]);
    for measure in &report.measures {
        // Of several copies all of them together say it.
        let has_whole = report.measures.iter().any(|other| {
            other.copy.is_none()
                && (&other.process, &other.measure) == (&measure.process, &measure.measure)
        });
        if measure.copy.is_some() && has_whole {
            continue;
        }
        let copy = match measure.copy {
            Some(copy) if copy > 0 => format!(" {copy}"),
            _ => String::new(),
        };
        let name = match is_alone && copy.is_empty() {
            true => measure.measure.clone(),
            false => format!("{}{copy}: {}", measure.process, measure.measure),
        };
        all.push(time("measure", name, measure.elapsed_ns));
    }
    if report.measures.is_empty() {
        for step in &report.steps {
            let name = format!("{} {}: {} {}", step.process, step.number, step.step, step.label);
            all.push(time("step", name.trim_end().to_owned(), step.elapsed_ns));
        }
    }
    all.push(time("whole", "elapsed".to_owned(), report.elapsed_ns));
    all
}

/// The figures of a session: how long its calls took on average, kind by kind, and the whole time.
pub fn of_session(report: &SessionReport) -> Vec<Figure> {
    let calls = report.calls.iter().filter(|(_, times)| times.replay.count() > 0);
    let means = calls.map(|(call, times)| time("call, mean", call.clone(), times.replay.mean()));
    means.chain([time("whole", "elapsed".to_owned(), report.elapsed_ns)]).collect()
}

/// The figures of ageing: of each metric, each series in its last month.
pub fn of_ageing(report: &AgeingReport) -> Vec<Figure> {
    let mut all = Vec::new();
    for metric in report.drawable() {
        for series in &report.series {
            let value = series.samples.last().and_then(metric.value);
            all.push(Figure {
                kind: metric.name.to_owned(),
                name: series.name.clone(),
                unit: metric.unit.to_owned(),
                millionths: value.map(|value| (value * 1e6).round() as i64),
            });
        }
    }
    all
}

/// The seeds of a run over several: the first, and those that follow it.
pub fn seeds(first: u64, count: u32) -> Vec<u64> {
    // The largest that an option takes comes before the first again.
    (0..u64::from(count)).map(|later| first.wrapping_add(later) & (u64::MAX >> 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: [i64; 3]) -> Vec<Figure> {
        let figure = |(name, value): (&str, i64)| Figure {
            kind: "measure".to_owned(),
            name: name.to_owned(),
            unit: "s".to_owned(),
            millionths: Some(value * 1_000_000),
        };
        ["128", "256", "512"].into_iter().zip(values).map(figure).collect()
    }

    #[test]
    fn one_seed_that_says_the_opposite_is_told() {
        // As inode sizes on an object store: by the first seed 512 is the slowest.
        let runs = [run([10, 30, 40]), run([11, 50, 37]), run([12, 60, 38])];
        let spread = Spread::of("inodes", "object-store (not validated)", &[1, 2, 3], &runs);
        let row = &spread.rows[2];
        assert_eq!(row.median_millionths, Some(38_000_000));
        assert_eq!(
            (row.least_millionths, row.most_millionths),
            (Some(37_000_000), Some(40_000_000))
        );
        let told = Reversal {
            kind: "measure".to_owned(),
            smaller: "512".to_owned(),
            larger: "256".to_owned(),
            seeds: vec![1],
        };
        assert_eq!(spread.reversed, [told]);
        let text = spread.to_text(200);
        assert!(text.contains("not in 1 of 3 seeds (1)"), "{text}");
        assert!(text.contains("not validated"), "{text}");
        let mut csv = Vec::new();
        spread.observations().write(crate::observations::DataForm::Csv, &mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert!(csv.lines().nth(3).is_some_and(|line| line.ends_with(",256")), "{csv}");
        assert!(csv.lines().nth(1).is_some_and(|line| line.ends_with(',')), "{csv}");
    }

    #[test]
    fn equal_medians_are_an_order_by_seed_only_where_both_are_smaller_once() {
        let both =
            Spread::of("x", "", &[1, 2, 3], &[run([5, 5, 9]), run([4, 6, 9]), run([6, 4, 9])]);
        assert_eq!(both.reversed.len(), 1);
        let one =
            Spread::of("x", "", &[1, 2, 3], &[run([5, 5, 9]), run([5, 5, 9]), run([6, 5, 9])]);
        assert_eq!(one.reversed, []);
        assert_eq!(seeds(i64::MAX as u64, 2), [i64::MAX as u64, 0]);
    }
}
