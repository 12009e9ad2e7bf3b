//! Solid-state drives.
use super::scales::{DEPTHS, FACTORS, RATES, TIMES};
use super::{NO_WRITES, estimate, host};
use crate::fit::family::{Family, Fixed, Parameter, Scale, Written};
use crate::fit::recording::Recording;

const CHANNELS: Scale =
    Scale::Steps(&[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 128.0]);
const STRIPES: Scale = Scale::Steps(&[
    4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131072.0, 262144.0, 524288.0, 1048576.0,
]);

/// The families, with their starts: without work of the host, and with it where there may be some.
pub fn families(recording: &Recording) -> Vec<Family> {
    let own = family(recording);
    let with_host =
        host::Work::estimated(recording).map(|work| work.before(&own, "read_4k_us", 1e3));
    [Some(own), with_host].into_iter().flatten().collect()
}

fn family(recording: &Recording) -> Family {
    let (median, high) = estimate::latency(recording, "random-4k").unwrap_or((1e5, 2.0));
    let (most, _) = estimate::plateau(recording, "4k");
    let link = estimate::highest_rate(recording, "long-1024k")
        .max(estimate::highest_rate(recording, "depth-8-1024k"))
        .max(1e5);
    // What the channels take is the latency without the transfer; a plateau is all of them busy.
    let channels = (most * median / 1e9).clamp(1.0, 128.0);
    let overhead = median / 1e3 * 0.05;
    let first = median.max(4096.0e9 / link * 1.5 + overhead * 1e3);
    let mut parameters = vec![
        Parameter::new(("", "read_4k_us"), TIMES, Written::Decimal, first / 1e3),
        Parameter::new(("", "read_4k_p99_us"), FACTORS, Written::Times(0), high),
        Parameter::new(("", "channels"), CHANNELS, Written::Whole, channels),
        Parameter::new(("", "stripe_bytes"), STRIPES, Written::Whole, 32768.0),
        Parameter::new(("", "read_bytes_per_s"), RATES, Written::Whole, link),
        Parameter::new(("", "overhead_us"), TIMES, Written::Decimal, overhead),
        Parameter::new(("", "queue_depth"), DEPTHS, Written::Whole, 256.0),
    ];
    let first = parameters.len();
    parameters.extend(writes(recording, first, link));
    let facts = &recording.facts;
    let fixed = |key: &'static str, value: String, remark: &'static str| Fixed {
        table: "",
        key,
        value,
        remark,
    };
    Family {
        kind: "ssd",
        parameters,
        fixed: vec![
            fixed("capacity_bytes", facts.bytes.to_string(), ""),
            fixed("sector_bytes", facts.sector_bytes.to_string(), ""),
            fixed("force_unit_access_us", "0".to_owned(), "not identified: not probed"),
        ],
        capacity: facts.bytes,
    }
}

fn writes(recording: &Recording, first: usize, link: f64) -> Vec<Parameter> {
    let links = Scale::Words(&["half-duplex", "full-duplex"]);
    let cache = Scale::Ratio(1.0, 1e15);
    let written = estimate::latency(recording, "write-4k");
    let (median, high) = written.unwrap_or((4096.0e9 / link * 2.0 + 1e5, 1.5));
    let rate = estimate::highest_rate(recording, "write-depth-8-1024k");
    let rate = if rate > 0.0 { rate } else { link };
    let late = estimate::late_rate(recording, "write-depth-8-1024k");
    let late = late.map_or(rate, |per_s| per_s * 1_048_576.0).min(rate);
    let (flush, flush_high) = estimate::flushes(recording).unwrap_or((1e6, 2.0));
    let median = median.max(4096.0e9 / rate * 1.5 + 2e3);
    let all = vec![
        Parameter::new(("", "write_4k_us"), TIMES, Written::Decimal, median / 1e3),
        Parameter::new(("", "write_4k_p99_us"), FACTORS, Written::Times(first), high),
        Parameter::new(("", "write_bytes_per_s"), RATES, Written::Whole, rate),
        Parameter::new(("", "flush_us"), TIMES, Written::Decimal, flush / 1e3),
        Parameter::new(("", "flush_p99_us"), FACTORS, Written::Times(first + 3), flush_high),
        Parameter::new(("", "link"), links, Written::Word, 0.0),
        Parameter::new(("", "write_cache_bytes"), cache, Written::Whole, 1e9),
        Parameter::new(("", "medium_write_bytes_per_s"), RATES, Written::Whole, late),
    ];
    match written {
        Some(_) => all,
        None => all.into_iter().map(|parameter| parameter.unknown(NO_WRITES)).collect(),
    }
}
