//! The value of an expression in a report.
use super::{Expression, Figure, Member, Operator, Ratio, ResultEntry, Row, RowKind, Summary};
use crate::report::{Distribution, Measure, Report, ResultRow, StepReport, Traffic, Work};

/// Why there is no value.
type Outcome<T> = Result<T, String>;

/// The values of results, in their order, from the rows of a report.
pub fn evaluate(entries: &[ResultEntry], report: &Report) -> Vec<ResultRow> {
    let mut known: Vec<(&str, Outcome<Ratio>)> = Vec::new();
    let mut rows = Vec::new();
    for entry in entries {
        let scope = Scope { report, known: &known };
        let value = scope.value(&entry.expression);
        let millionths = value.clone().and_then(|value| large(value.millionths()));
        rows.push(ResultRow {
            name: entry.name.clone(),
            value: entry.text.clone(),
            unit: entry.unit.name(),
            millionths: millionths.as_ref().ok().copied(),
            reason: millionths.err(),
        });
        known.push((&entry.name, value));
    }
    rows
}

fn large<T>(value: Option<T>) -> Outcome<T> {
    value.ok_or_else(|| "the numbers are too large".to_owned())
}

struct Scope<'a> {
    report: &'a Report,
    /// Results above.
    known: &'a [(&'a str, Outcome<Ratio>)],
}

/// A row of either kind.
#[derive(Clone, Copy)]
struct Found<'a> {
    name: &'a str,
    process: &'a str,
    copy: Option<u32>,
    elapsed_ns: u64,
    traffic: &'a Traffic,
    work: &'a Work,
}

impl<'a> From<&'a Measure> for Found<'a> {
    fn from(row: &'a Measure) -> Found<'a> {
        Found {
            name: &row.measure,
            process: &row.process,
            copy: row.copy,
            elapsed_ns: row.elapsed_ns,
            traffic: &row.traffic,
            work: &row.work,
        }
    }
}

impl<'a> From<&'a StepReport> for Found<'a> {
    fn from(step: &'a StepReport) -> Found<'a> {
        Found {
            name: &step.label,
            process: &step.process,
            copy: Some(step.copy),
            elapsed_ns: step.elapsed_ns,
            traffic: &step.traffic,
            work: &step.work,
        }
    }
}

impl Found<'_> {
    fn figure(&self, figure: Figure) -> Outcome<Ratio> {
        let (traffic, work) = (self.traffic, self.work);
        let of_drive = !matches!(
            figure,
            Figure::Time
                | Figure::Files
                | Figure::Directories
                | Figure::FileBytesRead
                | Figure::FileBytesWritten
                | Figure::Problems
                | Figure::Differences
        );
        if of_drive && traffic.is_unknown {
            return Err("what the host's own drive did is not counted".to_owned());
        }
        Ok(match figure {
            Figure::Time => Ratio::seconds(self.elapsed_ns),
            Figure::Busy => Ratio::seconds(traffic.busy_ns),
            Figure::Requests => Ratio::whole(traffic.requests),
            Figure::Reads => Ratio::whole(traffic.reads),
            Figure::Writes => Ratio::whole(traffic.writes),
            Figure::BytesRead => Ratio::whole(traffic.bytes_read),
            Figure::BytesWritten => Ratio::whole(traffic.bytes_written),
            Figure::Commands => Ratio::whole(traffic.commands),
            Figure::Seeks => Ratio::whole(traffic.seeks),
            Figure::Hits => Ratio::whole(traffic.hits),
            Figure::Files => Ratio::whole(work.files),
            Figure::Directories => Ratio::whole(work.directories),
            Figure::FileBytesRead => Ratio::whole(work.bytes_read),
            Figure::FileBytesWritten => Ratio::whole(work.bytes_written),
            Figure::Problems => Ratio::whole(work.problems),
            Figure::Differences => Ratio::whole(work.differences),
        })
    }
}

impl Row {
    fn is(&self, found: &Found<'_>) -> bool {
        let is_named = match self.name.strip_suffix('*') {
            Some(start) => found.name.starts_with(start),
            None => found.name == self.name,
        };
        is_named && self.process.as_ref().is_none_or(|process| found.process == process)
    }

    fn missing(&self) -> String {
        format!("{:?} was not reached", self.name)
    }
}

impl Scope<'_> {
    fn rows(&self, row: &Row) -> Vec<Found<'_>> {
        let all: Vec<Found<'_>> = match row.kind {
            RowKind::Measure => self.report.measures.iter().map(Found::from).collect(),
            RowKind::Step => self.report.steps.iter().map(Found::from).collect(),
        };
        all.into_iter().filter(|found| row.is(found)).collect()
    }

    fn value(&self, expression: &Expression) -> Outcome<Ratio> {
        match expression {
            Expression::Number(number, _) => Ok(*number),
            Expression::Negative(inner) => large(self.value(inner)?.negative()),
            Expression::Both(operator, both) => {
                let (one, other) = (self.value(&both[0])?, self.value(&both[1])?);
                match operator {
                    Operator::Add => large(one.plus(other)),
                    Operator::Subtract => large(other.negative().and_then(|it| one.plus(it))),
                    Operator::Multiply => large(one.times(other)),
                    Operator::Divide if other.is_zero() => Err("divides by 0".to_owned()),
                    Operator::Divide => large(one.over(other)),
                }
            }
            Expression::Figure(figure, row) => {
                // Of several copies the row of all together comes first.
                let rows = self.rows(row);
                let found = rows.first().copied().ok_or_else(|| row.missing())?;
                let is_other =
                    |other: &&Found| (other.process, other.copy) == (found.process, found.copy);
                match rows.iter().filter(is_other).count() {
                    1 => found.figure(*figure),
                    several => Err(format!(
                        "{:?} means {several} rows: sum(..) or another makes them one",
                        row.name
                    )),
                }
            }
            Expression::Result(name) => {
                let found = self.known.iter().find(|(known, _)| known == name);
                found.map_or_else(
                    || Err(format!("there is no result {name:?} above")),
                    |(_, value)| value.clone(),
                )
            }
            Expression::Summary(summary, members) => match &members[..] {
                [Member::Calls { process, call }] => {
                    of_distribution(*summary, &self.calls(process, call)?)
                }
                members => self.summary(*summary, members),
            },
        }
    }

    fn calls(&self, process: &str, call: &str) -> Outcome<Distribution> {
        let own = self.report.processes.iter().filter(|found| found.name == process);
        let calls = own.flat_map(|process| &process.calls).filter(|found| found.call == call);
        let all = calls.fold(Distribution::default(), |all, one| all.and(&one.latency));
        match all.count {
            0 => Err(format!("{process} made no call to {call}")),
            _ => Ok(all),
        }
    }

    fn summary(&self, summary: Summary, members: &[Member]) -> Outcome<Ratio> {
        let mut values = Vec::new();
        for member in members {
            match member {
                Member::Value(expression) => values.push(self.value(expression)?),
                Member::Rows(figure, row) => {
                    let found = self.rows(row).into_iter().filter(|row| row.copy.is_some());
                    let own: Vec<Ratio> =
                        found.map(|row| row.figure(*figure)).collect::<Outcome<_>>()?;
                    if own.is_empty() {
                        return Err(row.missing());
                    }
                    values.extend(own);
                }
                Member::Calls { process, call } => {
                    // Beside others, their mean stands for them.
                    values.push(of_distribution(Summary::Mean, &self.calls(process, call)?)?);
                }
            }
        }
        values.sort_by(Ratio::order);
        let count = Ratio::whole(values.len() as u64);
        let sum = || {
            let zero = Ratio::whole(0);
            large(values.iter().try_fold(zero, |sum, value| sum.plus(*value)))
        };
        let at = |index: usize| values.get(index).copied().ok_or("nothing".to_owned());
        match summary {
            Summary::Count => Ok(count),
            Summary::Sum => sum(),
            Summary::Mean => large(sum()?.over(count)),
            Summary::Least => at(0),
            Summary::Most => at(values.len() - 1),
            Summary::Median => {
                let (one, other) = (at((values.len() - 1) / 2)?, at(values.len() / 2)?);
                large(one.plus(other).and_then(|both| both.over(Ratio::whole(2))))
            }
            Summary::Permille(permille) => {
                let rank = (values.len() * permille as usize).div_ceil(1000);
                at(rank.max(1) - 1)
            }
        }
    }
}

fn of_distribution(summary: Summary, all: &Distribution) -> Outcome<Ratio> {
    let shortest = || all.steps.first().map_or(0, |(longest, _)| *longest);
    Ok(match summary {
        Summary::Count => Ratio::whole(all.count),
        Summary::Sum => Ratio::seconds(all.total_ns),
        Summary::Mean => large(Ratio::seconds(all.total_ns).over(Ratio::whole(all.count)))?,
        Summary::Median => Ratio::seconds(all.median_ns),
        Summary::Least => Ratio::seconds(shortest()),
        Summary::Most => Ratio::seconds(all.max_ns),
        Summary::Permille(900) => Ratio::seconds(all.p90_ns),
        Summary::Permille(990) => Ratio::seconds(all.p99_ns),
        Summary::Permille(_) => Ratio::seconds(all.p999_ns),
    })
}
