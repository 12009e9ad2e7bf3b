//! Object stores.
use super::scales::{DEPTHS, FACTORS, RATES, TIMES};
use super::{NO_WRITES, estimate};
use crate::fit::family::{Family, Fixed, Parameter, Scale, Written};
use crate::fit::recording::Recording;

const OBJECTS: Scale = Scale::Steps(&[
    65536.0, 131072.0, 262144.0, 524288.0, 1048576.0, 2097152.0, 4194304.0, 8388608.0, 16777216.0,
    33554432.0,
]);
const DEEP: Scale = Scale::Steps(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]);

/// The family, with a start for each of several sizes of the objects: one alone leads astray.
pub fn families(recording: &Recording) -> Vec<Family> {
    let sizes = [262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];
    sizes.map(|object_bytes| family(recording, object_bytes)).to_vec()
}

fn family(recording: &Recording, object_bytes: f64) -> Family {
    let (median, high) = estimate::latency(recording, "random-4k").unwrap_or((3e7, 3.0));
    let (most, _) = estimate::plateau(recording, "4k");
    let rate = estimate::single_rate(recording, "random-4k", "random-1024k").unwrap_or(1e8);
    let connections = (most * median / 1e9).clamp(1.0, 256.0);
    let mut parameters = vec![
        Parameter::new(("", "first_byte_ms"), TIMES, Written::Decimal, median / 1e6),
        Parameter::new(("", "first_byte_p99_ms"), FACTORS, Written::Times(0), high),
        Parameter::new(("", "connection_bytes_per_s"), RATES, Written::Whole, rate),
        Parameter::new(("", "object_bytes"), OBJECTS, Written::Whole, object_bytes),
        Parameter::new(("", "connections"), DEPTHS, Written::Whole, connections),
        Parameter::new(("", "queue_depth"), DEEP, Written::Whole, 512.0),
    ];
    let first = parameters.len();
    let written = estimate::latency(recording, "write-4k");
    let (write, write_high) = written.unwrap_or((median, high));
    let carried = object_bytes * 1e9 / rate;
    let put = (write - median - 2.0 * carried).max(median / 4.0);
    let writes = vec![
        Parameter::new(("", "put_ms"), TIMES, Written::Decimal, put / 1e6),
        Parameter::new(("", "put_p99_ms"), FACTORS, Written::Times(first), write_high),
    ];
    parameters.extend(match written {
        Some(_) => writes,
        None => writes.into_iter().map(|parameter| parameter.unknown(NO_WRITES)).collect(),
    });
    let facts = &recording.facts;
    // Objects have to be whole sectors; a larger sector than that of files of the host is rare.
    let fixed = |key: &'static str, value: String| Fixed { table: "", key, value, remark: "" };
    Family {
        kind: "object",
        parameters,
        fixed: vec![
            fixed("capacity_bytes", facts.bytes.to_string()),
            fixed("sector_bytes", facts.sector_bytes.to_string()),
        ],
        capacity: facts.bytes,
    }
}
