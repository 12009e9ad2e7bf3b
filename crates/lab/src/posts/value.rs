//! What is measured of a run: each [`Value`] of a post's file as a number.
use super::file::{
    CallsField, CallsSpec, Case, DirectoryField, LayoutField, ListingCallField, ListingField, Value,
};
use super::kept;
use super::report::Quantity;
use super::runs::{Ran, Runs, named};
use crate::quantity;
use crate::report::{CallLatency, Measure, Report, StepReport};

const SECOND: u64 = 1_000_000_000;
const GIB: u64 = 1 << 30;
/// Of the volumes whose blocks are counted.
const BLOCK: u64 = 4096;

/// A column of a table, as runs are found by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) system: String,
    pub(super) run: String,
    pub(super) policies: String,
}

/// The cell of a table for which a value is wanted.
#[derive(Clone, Copy)]
pub(super) struct CellPlace<'a> {
    pub(super) runs: &'a Runs<'a>,
    pub(super) columns: &'a [Column],
    pub(super) column: &'a Column,
    /// Other runs than those of the column.
    pub(super) run: Option<&'a str>,
    pub(super) case: Option<&'a Case>,
    pub(super) variant: Option<&'a str>,
    /// Of a run that is drawn several times, which of them.
    pub(super) draw: u64,
}

impl<'a> CellPlace<'a> {
    /// The run of this cell; `None` where there is none at this size.
    pub(super) fn ran(&self) -> Option<&'a Ran> {
        self.ran_in(self.variant)
    }

    fn ran_in(&self, variant: Option<&str>) -> Option<&'a Ran> {
        let run = self.run.unwrap_or(&self.column.run);
        self.runs.find(run, &self.column.system, self.case, variant, self.draw)
    }

    /// How often the run of this cell is drawn.
    pub(super) fn draws(&self) -> u64 {
        self.runs.draws(self.run.unwrap_or(&self.column.run))
    }

    /// The same cell of the column of that name.
    fn in_column(&self, name: &str) -> Option<CellPlace<'a>> {
        let column = self.columns.iter().find(|column| column.name == name)?;
        Some(CellPlace { column, ..*self })
    }

    fn measure(&self, name: &str) -> Option<&'a Measure> {
        self.ran()?.report.measure(&named(name, self.case))
    }

    fn elapsed(&self, name: &str) -> Option<u64> {
        Some(self.measure(name)?.elapsed_ns)
    }

    /// What a value of a file is here; `None` where it was not measured.
    pub(super) fn value(&self, value: &Value) -> Option<Quantity> {
        use Quantity::{Count, Nanoseconds, Permille};
        let count = |name: &str, of: fn(&Measure) -> u64| Some(Count(of(self.measure(name)?)));
        Some(match value {
            Value::Time(name) => Nanoseconds(self.elapsed(name)?),
            Value::Times(names) => Nanoseconds(self.elapsed_in_all(names)?),
            Value::TimePerGib(name) => Nanoseconds(self.per_gib(self.elapsed(name)?)?),
            Value::Throughput(name) => Count(throughput(self.measure(name)?)?),
            Value::Reads(name) => return count(name, |measure| measure.traffic.reads),
            Value::Writes(name) => return count(name, |measure| measure.traffic.writes),
            Value::Commands(name) => return count(name, |measure| measure.traffic.commands),
            Value::Seeks(name) => return count(name, |measure| measure.traffic.seeks),
            Value::MibRead(name) => return count(name, |measure| measure.traffic.bytes_read >> 20),
            Value::MibWritten(name) => {
                return count(name, |measure| measure.traffic.bytes_written >> 20);
            }
            Value::Layout(field) => layout(&self.ran()?.report, *field)?,
            Value::MapBlocksPerGib => {
                let blocks = layout(&self.ran()?.report, LayoutField::MapBlocks)?.value();
                Count(self.per_gib(blocks)?)
            }
            Value::Ended => {
                let ends = self.ran()?.report.processes.iter().map(|process| process.ended_ns);
                Nanoseconds(ends.max()?)
            }
            Value::Over(with) => Permille(self.over(&with.times, &with.column)?.max(1000)),
            Value::Saved(with) => {
                let theirs = with.its_time.as_deref().unwrap_or(&with.time);
                let whole = self.in_column(&with.column)?.elapsed(theirs)?;
                Permille(1000u64.saturating_sub(permille(self.elapsed(&with.time)?, whole)?))
            }
            Value::Charged(charged) => {
                let read = self.measure(&charged.measure)?.work.bytes_read;
                Nanoseconds(read / 1024 * charged.ns_per_kib)
            }
            Value::Rate(names) => Count(rate(&self.ran()?.report, names)? / 1000),
            Value::Kept(kept) => {
                let whole = rate(&self.ran_in(Some(&kept.variant))?.report, &kept.of)?;
                Permille(permille(rate(&self.ran()?.report, &kept.rate)?, whole)?)
            }
            Value::Lost(lost) => {
                let whole = rate(&self.in_column(&lost.column)?.ran()?.report, &lost.rate)?;
                let left = permille(rate(&self.ran()?.report, &lost.rate)?, whole)?;
                Permille(1000u64.saturating_sub(left))
            }
            Value::LeftByReaders(left) => {
                let alone = self.ran_in(Some(&left.variant))?.report.measure(&left.alone)?;
                Permille(left_by_readers(&self.ran()?.report, &left.measure, alone)?)
            }
            Value::Start(start) => {
                let measure = self.measure(&start.measure)?;
                let time = u128::from(measure.elapsed_ns) * u128::from(start.reads);
                let time = time.checked_div(u128::from(measure.work.files))?;
                Nanoseconds(u64::try_from(time).ok()?)
            }
            Value::Calls(calls) => self.calls(calls)?,
            Value::Listing(field) => listing(&self.ran()?.report, *field)?,
            Value::ListingCall(field) => self.listing_call(*field)?,
            Value::Directory(field) => Count(directory(self.ran()?, *field)?),
            Value::Superblock(_) | Value::Group(_) | Value::FreeRun(_) | Value::OddRuns(_) => {
                Count(kept::value(self.ran()?.left.as_ref()?, value)?)
            }
        })
    }

    /// A value of all bytes of the case for each GiB of them.
    fn per_gib(&self, value: u64) -> Option<u64> {
        let total = self.case?.total.max(1);
        let scaled = u128::from(value) * u128::from(GIB) / u128::from(total);
        Some(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// How long several measures took together.
    fn elapsed_in_all(&self, names: &[String]) -> Option<u64> {
        let times: Option<Vec<u64>> = names.iter().map(|name| self.elapsed(name)).collect();
        Some(times?.iter().sum())
    }

    /// The time of measures over that of another column in thousandths, rounded up: for bounds.
    fn over(&self, names: &[String], column: &str) -> Option<u64> {
        let whole = u128::from(self.in_column(column)?.elapsed_in_all(names)?);
        let taken = u128::from(self.elapsed_in_all(names)?) * 1000;
        let scaled = taken.checked_add(whole.checked_sub(1)?)?;
        Some(u64::try_from(scaled.checked_div(whole)?).unwrap_or(u64::MAX))
    }

    fn calls(&self, spec: &CallsSpec) -> Option<Quantity> {
        let mean = |place: &CellPlace<'_>| Some(calls(place.ran()?, spec)?.latency.mean_ns);
        let samples = || calls(self.ran()?, spec).map(|calls| calls.samples_ns.as_slice());
        Some(match &spec.show {
            CallsField::Count => Quantity::Count(samples().map_or(0, <[u64]>::len) as u64),
            CallsField::Mean => Quantity::Nanoseconds(mean(self)?),
            CallsField::Longest => Quantity::Nanoseconds(calls(self.ran()?, spec)?.latency.max_ns),
            CallsField::AtLeast(time) => {
                let (samples, least) = (samples()?, quantity::nanoseconds(time).ok()?);
                let slow = samples.iter().filter(|sample| **sample >= least).count() as u64;
                let all = samples.len() as u64;
                Quantity::Permille((slow * 1000 + all / 2).checked_div(all)?)
            }
            CallsField::BetterThan(column) => {
                Quantity::Permille(permille(mean(&self.in_column(column)?)?, mean(self)?)?)
            }
        })
    }

    fn listing_call(&self, field: ListingCallField) -> Option<Quantity> {
        let number: usize = self.case?.name.parse().ok()?;
        let call = cold(&self.ran()?.report)?.calls.get(number.checked_sub(1)?)?;
        Some(match field {
            ListingCallField::Entries => Quantity::Count(call.entries),
            ListingCallField::Bytes => Quantity::Count(call.bytes),
            ListingCallField::Time => Quantity::Nanoseconds(call.elapsed_ns),
        })
    }
}

/// One over the other, in thousandths, rounded down.
fn permille(part: u64, whole: u64) -> Option<u64> {
    u64::try_from((u128::from(part) * 1000).checked_div(u128::from(whole))?).ok()
}

fn per_second(amount: u64, nanoseconds: u64) -> Option<u64> {
    u64::try_from((u128::from(amount) * u128::from(SECOND)).checked_div(u128::from(nanoseconds))?)
        .ok()
}

/// Bytes a second, both ways.
fn throughput(measure: &Measure) -> Option<u64> {
    per_second(measure.work.bytes_written + measure.work.bytes_read, measure.elapsed_ns)
}

/// Bytes written a second in several measures together.
fn rate(report: &Report, names: &[String]) -> Option<u64> {
    let parts: Vec<&Measure> = names.iter().filter_map(|name| report.measure(name)).collect();
    let bytes = parts.iter().map(|part| part.work.bytes_written).sum();
    per_second(bytes, parts.iter().map(|part| part.elapsed_ns).sum())
}

fn layout(report: &Report, field: LayoutField) -> Option<Quantity> {
    let filesystem = report.filesystems.first()?;
    let layout = &filesystem.layouts.last()?.layout;
    Some(Quantity::Count(match field {
        LayoutField::Fragments => layout.fragments,
        LayoutField::FreeBlocks => layout.free_blocks,
        LayoutField::BlocksInUse => (filesystem.bytes / BLOCK).saturating_sub(layout.free_blocks),
        LayoutField::DataBlocks => layout.data_blocks,
        LayoutField::MapBlocks => layout.map_blocks,
        LayoutField::Score => return layout.layout_score_permille.map(Quantity::Permille),
    }))
}

/// The share of the drive's time, while a writer was measured, that was neither positioning nor
/// reading, less what it lost alone: what the readers of this run left it, in thousandths.
fn left_by_readers(report: &Report, measure: &str, alone: &Measure) -> Option<u64> {
    let rate = report.drives.first().map_or(1, |drive| drive.media_bytes_per_second.max(1));
    let lost = |measure: &Measure| {
        let parts = &measure.traffic.parts;
        let read = per_second(measure.traffic.bytes_read * SECOND, rate).unwrap_or(0);
        let lost = parts.seek + parts.rotation + parts.settle + read / SECOND;
        (lost.saturating_mul(1000)).checked_div(measure.elapsed_ns)
    };
    let beside = lost(report.measure(measure)?)?;
    Some(1000u64.saturating_sub(beside.saturating_sub(lost(alone)?)))
}

fn calls<'a>(ran: &'a Ran, spec: &CallsSpec) -> Option<&'a CallLatency> {
    let processes = &ran.report.processes;
    let process = processes.iter().find(|process| process.name == spec.process)?;
    process.calls.iter().find(|calls| calls.call == spec.call)
}

/// The step that lists a directory from a cold start.
fn cold(report: &Report) -> Option<&StepReport> {
    report.step("cold")
}

fn listing(report: &Report, field: ListingField) -> Option<Quantity> {
    let cold = cold(report)?;
    Some(match field {
        ListingField::Calls => Quantity::Count(cold.calls.len() as u64),
        ListingField::Time => {
            Quantity::Nanoseconds(cold.calls.iter().map(|call| call.elapsed_ns).sum())
        }
        ListingField::Reads => Quantity::Count(cold.traffic.reads),
        ListingField::Commands => Quantity::Count(cold.traffic.commands),
        ListingField::KibRead => Quantity::Count(cold.traffic.bytes_read / 1024),
    })
}

/// Of the recorded directory; the gap is `None` where its blocks are in one piece.
pub(super) fn directory(ran: &Ran, field: DirectoryField) -> Option<u64> {
    let runs = &ran.directory;
    match field {
        DirectoryField::Blocks => Some(runs.iter().map(|run| run.blocks).sum()),
        DirectoryField::Runs => Some(runs.len() as u64),
        DirectoryField::Gap => {
            let gaps =
                runs.windows(2).map(|pair| pair[1].first.abs_diff(pair[0].first + pair[0].blocks));
            (gaps.sum::<u64>() * BLOCK / 1024).checked_div((runs.len() as u64).saturating_sub(1))
        }
    }
}
