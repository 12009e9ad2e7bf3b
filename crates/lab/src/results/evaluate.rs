//! The value of an expression in a report.
use super::figure::Found;
use super::{Expression, Member, Operator, Path, Ratio, ResultEntry, Row, RowKind, Summary};
use crate::report::{Distribution, Report, ResultRow};
use serde_json::Value;
use std::cell::OnceCell;

/// Why there is no value.
type Outcome<T> = Result<T, String>;

/// What an expression is evaluated in: a run.
pub(crate) trait Context: Sized {
    /// What the run gave.
    fn report(&self) -> &Report;
    /// A field of it as JSON, or of what else is known of the run.
    fn field(&self, name: &str) -> Option<&Value>;
    /// The result of that name, which is above.
    fn known(&self, name: &str) -> Option<Outcome<Ratio>>;
    /// Another run.
    fn other(&self, name: &str) -> Option<Self>;
}

/// The values of results, in their order, from the rows of a report.
pub fn evaluate(entries: &[ResultEntry], report: &Report) -> Vec<ResultRow> {
    let mut own = Own { report, json: OnceCell::new(), known: Vec::new() };
    let mut rows = Vec::new();
    for entry in entries {
        let value = self::value(&entry.expression, &own);
        let millionths = value.clone().and_then(|value| large(value.millionths()));
        rows.push(ResultRow {
            name: entry.name.clone(),
            value: entry.text.clone(),
            unit: entry.unit.name(),
            millionths: millionths.as_ref().ok().copied(),
            reason: millionths.err(),
        });
        own.known.push((&entry.name, value));
    }
    rows
}

/// The value of an expression in a run.
///
/// # Errors
/// Why there is none.
pub(crate) fn value(expression: &Expression, context: &impl Context) -> Outcome<Ratio> {
    Scope(context).value(expression)
}

/// A report by itself.
struct Own<'a> {
    report: &'a Report,
    json: OnceCell<Value>,
    /// Results above.
    known: Vec<(&'a str, Outcome<Ratio>)>,
}

impl Context for Own<'_> {
    fn report(&self) -> &Report {
        self.report
    }
    fn field(&self, name: &str) -> Option<&Value> {
        let json = || serde_json::to_value(self.report).unwrap_or_default();
        self.json.get_or_init(json).get(name)
    }
    fn known(&self, name: &str) -> Option<Outcome<Ratio>> {
        self.known.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }
    fn other(&self, _: &str) -> Option<Self> {
        None
    }
}

fn large<T>(value: Option<T>) -> Outcome<T> {
    value.ok_or_else(|| "the numbers are too large".to_owned())
}

/// Evaluates in a run.
struct Scope<'a, C>(&'a C);

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

impl<C: Context> Scope<'_, C> {
    fn rows(&self, row: &Row) -> Vec<Found<'_>> {
        let all: Vec<Found<'_>> = match row.kind {
            RowKind::Measure => self.0.report().measures.iter().map(Found::from).collect(),
            RowKind::Step => self.0.report().steps.iter().map(Found::from).collect(),
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
                let none = || Err(format!("there is no result {name:?} above"));
                self.0.known(name).unwrap_or_else(none)
            }
            Expression::Report(path) => match self.numbers(path)?[..] {
                [number] => Ok(number),
                _ => Err(format!("{path} means several")),
            },
            Expression::Floor(inner) => Ok(self.value(inner)?.floor()),
            Expression::In(inner, name) => match self.0.other(name) {
                Some(other) => value(inner, &other),
                None => Err(format!("there is no other run {name:?}")),
            },
            Expression::Summary(summary, members) => match &members[..] {
                [Member::Calls { process, call }] => {
                    of_distribution(*summary, &self.calls(process, call)?)
                }
                members => self.summary(*summary, members),
            },
        }
    }

    fn numbers(&self, path: &Path) -> Outcome<Vec<Ratio>> {
        let first = self.0.field(path.parts().0);
        path.numbers(first.ok_or_else(|| format!("{path} is not there"))?)
    }

    fn calls(&self, process: &str, call: &str) -> Outcome<Distribution> {
        let own = self.0.report().processes.iter().filter(|found| found.name == process);
        let calls = own.flat_map(|process| &process.calls).filter(|found| found.call == call);
        let all = calls.fold(Distribution::default(), |all, one| all.and(&one.latency));
        match all.count {
            0 => Err(format!("{process} made no call to {call}")),
            _ => Ok(all),
        }
    }

    /// The values of a member: one at least, but of one that leaves some out.
    fn member(&self, member: &Member) -> Outcome<Vec<Ratio>> {
        match member {
            Member::Value(expression) => Ok(vec![self.value(expression)?]),
            Member::Rows(figure, row) => {
                let found = self.rows(row).into_iter().filter(|row| row.copy.is_some());
                let own: Vec<Ratio> =
                    found.map(|row| row.figure(*figure)).collect::<Outcome<_>>()?;
                if own.is_empty() { Err(row.missing()) } else { Ok(own) }
            }
            Member::Report(path) => self.numbers(path),
            Member::From(member, least) => {
                let least = self.value(least)?;
                let mut values = self.member(member)?;
                values.retain(|value| value.order(&least).is_ge());
                Ok(values)
            }
            // Beside others, their mean stands for them.
            Member::Calls { process, call } => {
                Ok(vec![of_distribution(Summary::Mean, &self.calls(process, call)?)?])
            }
        }
    }

    fn summary(&self, summary: Summary, members: &[Member]) -> Outcome<Ratio> {
        let mut values = Vec::new();
        for member in members {
            values.extend(self.member(member)?);
        }
        values.sort_by(Ratio::order);
        let count = Ratio::whole(values.len() as u64);
        let sum = || {
            let zero = Ratio::whole(0);
            large(values.iter().try_fold(zero, |sum, value| sum.plus(*value)))
        };
        if values.is_empty() && !matches!(summary, Summary::Count | Summary::Sum) {
            return Err("is of no values".to_owned());
        }
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
