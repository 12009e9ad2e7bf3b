//! The figures of a row: of a measure or of a step.
use super::{Ratio, Unit};
use crate::report::{Measure, StepReport, Traffic, Work};

/// A figure of a row, by its place among all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure(usize);

/// Where a figure is.
#[derive(Clone, Copy)]
enum Of {
    Row(fn(&Found<'_>) -> u64),
    Drive(fn(&Traffic) -> u64),
    Work(fn(&Work) -> u64),
}

const PLAIN: Unit = Unit { seconds: 0, bytes: 0 };
const FIGURES: [(&str, Unit, Of); 16] = [
    ("time", Unit::SECONDS, Of::Row(|row| row.elapsed_ns)),
    ("busy", Unit::SECONDS, Of::Drive(|drive| drive.busy_ns)),
    ("requests", PLAIN, Of::Drive(|drive| drive.requests)),
    ("reads", PLAIN, Of::Drive(|drive| drive.reads)),
    ("writes", PLAIN, Of::Drive(|drive| drive.writes)),
    ("bytes_read", Unit::BYTES, Of::Drive(|drive| drive.bytes_read)),
    ("bytes_written", Unit::BYTES, Of::Drive(|drive| drive.bytes_written)),
    ("commands", PLAIN, Of::Drive(|drive| drive.commands)),
    ("seeks", PLAIN, Of::Drive(|drive| drive.seeks)),
    ("hits", PLAIN, Of::Drive(|drive| drive.hits)),
    ("files", PLAIN, Of::Work(|work| work.files)),
    ("directories", PLAIN, Of::Work(|work| work.directories)),
    ("file_bytes_read", Unit::BYTES, Of::Work(|work| work.bytes_read)),
    ("file_bytes_written", Unit::BYTES, Of::Work(|work| work.bytes_written)),
    ("problems", PLAIN, Of::Work(|work| work.problems)),
    ("differences", PLAIN, Of::Work(|work| work.differences)),
];

impl Figure {
    /// How long it took: what a row is by itself.
    pub const TIME: Figure = Figure(0);

    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FIGURES.iter().map(|(name, ..)| *name)
    }

    /// The one of that name.
    pub(super) fn named(name: &str) -> Option<Figure> {
        Figure::names().position(|known| known == name).map(Figure)
    }

    pub(super) fn unit(self) -> Unit {
        FIGURES[self.0].1
    }
}

/// A row of either kind.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) name: &'a str,
    pub(super) process: &'a str,
    pub(super) copy: Option<u32>,
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
    pub(super) fn figure(&self, figure: Figure) -> Result<Ratio, String> {
        let (_, unit, of) = FIGURES[figure.0];
        let value = match of {
            Of::Row(value) => value(self),
            Of::Drive(_) if self.traffic.is_unknown => {
                return Err("what the host's own drive did is not counted".to_owned());
            }
            Of::Drive(value) => value(self.traffic),
            Of::Work(value) => value(self.work),
        };
        Ok(if unit == Unit::SECONDS { Ratio::seconds(value) } else { Ratio::whole(value) })
    }
}
