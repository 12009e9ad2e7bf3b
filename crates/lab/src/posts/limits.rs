//! The least that rows of posts ask of the drive.
use super::file::{Divided, LimitSpec, RowSpec, Value};
use super::limit::{Limit, Need};
use super::report::Quantity;
use super::runs::Runs;
use super::value::{CellPlace, Column};
use extant_sim::drive::DriveInfo;

/// The limit of a row on the drive of its first column; `None` where it has none, or a part of it
/// was not measured.
pub(super) fn of_row(runs: &Runs<'_>, columns: &[Column], row: &RowSpec) -> Option<Limit> {
    let spec: &LimitSpec = row.limit.as_ref()?;
    let run = row.run.as_deref();
    let column = columns.first()?;
    let place = CellPlace { runs, columns, column, run, case: None, variant: None, draw: 0 };
    let divisor = match row.divided.contains(&Divided::Limit) {
        true => runs.divisor(run.unwrap_or(&column.run)),
        false => 1,
    };
    let amount = |value: &Option<Value>| match value {
        Some(value) => place.value(value).map(Quantity::value),
        None => Some(0),
    };
    let need = Need {
        bytes_read: amount(&spec.bytes_read)?.div_ceil(divisor),
        bytes_written: amount(&spec.bytes_written)?.div_ceil(divisor),
        seeks: spec.seeks.div_ceil(divisor),
    };
    let drive = place.ran()?.report.drives.first()?;
    let limit = need.limit(&DriveInfo {
        name: drive.name.clone(),
        bytes: drive.bytes,
        sector_bytes: 512,
        queue_depth: 1,
        media_bytes_per_second: drive.media_bytes_per_second,
        least_seek_ns: drive.least_seek_ns,
    });
    Some(limit.beside(amount(&spec.beside)?))
}
