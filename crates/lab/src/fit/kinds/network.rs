//! Volumes of a network.
use super::scales::{DEPTHS, FACTORS, RATES, TIMES};
use super::{NO_WRITES, estimate, host};
use crate::fit::family::{Family, Fixed, Parameter, Scale, Written};
use crate::fit::recording::Recording;

const GRAINS: Scale = Scale::Steps(&[
    4096.0, 16384.0, 32768.0, 65536.0, 131072.0, 262144.0, 524288.0, 1048576.0, 4194304.0,
]);
const TOKENS: Scale = Scale::Ratio(1.0, 1e12);

/// The families, with their starts: without work of the host, and with it where there may be some.
pub fn families(recording: &Recording) -> Vec<Family> {
    let own = family(recording);
    let with_host = host::Work::estimated(recording).map(|work| work.before(&own, "read_ms", 1e6));
    [Some(own), with_host].into_iter().flatten().collect()
}

fn family(recording: &Recording) -> Family {
    let (median, high) = estimate::latency(recording, "random-4k").unwrap_or((1e6, 2.0));
    let link = estimate::single_rate(recording, "random-4k", "random-1024k").unwrap_or(1e9);
    let operations = estimate::late_rate(recording, "long-4k").unwrap_or(1e4);
    let bytes = estimate::late_rate(recording, "long-1024k").unwrap_or(1e3) * 1_048_576.0;
    let mut parameters = vec![
        Parameter::new(("", "read_ms"), TIMES, Written::Decimal, median / 1e6),
        Parameter::new(("", "read_p99_ms"), FACTORS, Written::Times(0), high),
        Parameter::new(("operations", "per_s"), TOKENS, Written::Whole, operations),
        Parameter::new(("operations", "burst"), TOKENS, Written::Whole, operations / 10.0),
        Parameter::new(("bytes", "per_s"), RATES, Written::Whole, bytes),
        Parameter::new(("bytes", "burst"), TOKENS, Written::Whole, bytes / 10.0),
        Parameter::new(("", "link_bytes_per_s"), RATES, Written::Whole, link * 2.0),
        Parameter::new(("", "queue_depth"), DEPTHS, Written::Whole, 256.0),
        Parameter::new(("", "operation_bytes"), GRAINS, Written::Whole, 262_144.0),
    ];
    let first = parameters.len();
    let written = estimate::latency(recording, "write-4k");
    let (write, write_high) = written.unwrap_or((median, high));
    let (flush, flush_high) = estimate::flushes(recording).unwrap_or((median, high));
    let writes = vec![
        Parameter::new(("", "write_ms"), TIMES, Written::Decimal, write / 1e6),
        Parameter::new(("", "write_p99_ms"), FACTORS, Written::Times(first), write_high),
        Parameter::new(("", "flush_ms"), TIMES, Written::Decimal, flush / 1e6),
        Parameter::new(("", "flush_p99_ms"), FACTORS, Written::Times(first + 2), flush_high),
    ];
    parameters.extend(match written {
        Some(_) => writes,
        None => writes.into_iter().map(|parameter| parameter.unknown(NO_WRITES)).collect(),
    });
    let facts = &recording.facts;
    let fixed = |key: &'static str, value: String| Fixed { table: "", key, value, remark: "" };
    Family {
        kind: "network",
        parameters,
        fixed: vec![
            fixed("capacity_bytes", facts.bytes.to_string()),
            fixed("sector_bytes", facts.sector_bytes.to_string()),
        ],
        capacity: facts.bytes,
    }
}
