//! Disks.
//!
//! The time of a turn is that between two reads of which the second is just before the first. A
//! seek is what a read at a distance takes beyond half a turn on the average, and beyond what a
//! read without one takes. Rates are those of reading in a row across the disk. How far is read
//! ahead, and how many segments there are, is the largest that was found in the drive's memory.
use super::{NO_WRITES, estimate};
use crate::fit::family::{Family, Fixed, Parameter, Scale, Written};
use crate::fit::probes::turning::DISTANCES;
use crate::fit::recording::{Phase, Recording};
use crate::fit::score::{median, quantile_of};

const DEPTHS: Scale = Scale::Steps(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
const HEADS: Scale =
    Scale::Steps(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 18.0, 20.0]);
const BUFFERS: Scale =
    Scale::Steps(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 64.0]);
const RATES: Scale = Scale::Ratio(1e6, 2e10);
const MB_PER_S: Scale = Scale::Ratio(0.2, 2000.0);
const SEEKS: Scale = Scale::Ratio(0.01, 200.0);
const OVERHEADS: Scale = Scale::Ratio(0.001, 20.0);
/// How far from a whole number of turns a pair of reads on a track is at most, as a share of one.
const WHOLE_TURN: f64 = 0.012;
/// Starts whose times are no farther apart than this, as a logarithm, are one.
const ALIKE: f64 = 0.2;
/// Turns a minute.
const TURNS: Scale = Scale::Ratio(2000.0, 40_000.0);

/// Whether the target looks like one with an arm: reads far away take longer than near ones, and
/// both take milliseconds.
pub fn is_turning(recording: &Recording) -> bool {
    let far = estimate::quantile(recording, "random-4k", 0.5).unwrap_or(0.0);
    let near = estimate::quantile(recording, "near-4k", 0.5).unwrap_or(0.0);
    far > 1.2 * near && (2e6..200e6).contains(&far)
}

/// What is estimated first.
struct Start {
    turn_ms: f64,
    miss_ms: f64,
    switch_ms: f64,
    hit_ms: f64,
    bus: f64,
    outer: f64,
    inner: f64,
    seeks: Vec<f64>,
}

/// The family, with a start for each way to read the rate under the head off the pairs on a track
/// where they differ: one alone leads astray.
pub fn families(recording: &Recording) -> Vec<Family> {
    let starts = [Agreeing::Many, Agreeing::Nearly].map(|agreeing| Start::of(recording, agreeing));
    let [many, nearly] = &starts;
    let are_alike = (many.miss_ms / nearly.miss_ms).ln().abs() < ALIKE
        && (many.switch_ms / nearly.switch_ms).ln().abs() < ALIKE;
    starts[..if are_alike { 1 } else { 2 }].iter().map(|start| family(recording, start)).collect()
}

fn family(recording: &Recording, start: &Start) -> Family {
    let depth = estimate::plateau(recording, "4k").1;
    let mut parameters = vec![
        Parameter::new(("", "rpm"), TURNS, Written::Decimal, 60_000.0 / start.turn_ms)
            .within_about(0.004),
        Parameter::new(("", "heads"), HEADS, Written::Whole, 4.0),
        Parameter::new(("", "head_switch_ms"), OVERHEADS, Written::Decimal, start.switch_ms),
        Parameter::new(("", "queue_depth"), DEPTHS, Written::Whole, f64::from(depth)),
        Parameter::new(("geometry", "outer_mb_per_s"), MB_PER_S, Written::Decimal, start.outer)
            .within_about(0.02),
        Parameter::new(("geometry", "inner_mb_per_s"), MB_PER_S, Written::Decimal, start.inner)
            .within_about(0.02),
        Parameter::new(("overhead_ms", "read_miss"), OVERHEADS, Written::Decimal, start.miss_ms),
        Parameter::new(("overhead_ms", "read_hit"), OVERHEADS, Written::Decimal, start.hit_ms)
            .within_about(0.05),
        Parameter::new(("cache", "bus_bytes_per_s"), RATES, Written::Whole, start.bus)
            .within_about(0.05),
    ];
    for (number, share) in DISTANCES.iter().enumerate() {
        let key = format!("points[{number}]");
        let written = Written::Seek(*share);
        let seek = Parameter::new(("seek", &key), SEEKS, written, start.seeks[number]);
        parameters.push(seek.within_about(0.1));
    }
    parameters.extend(cache(recording, start));
    parameters.extend(writes(recording, start));
    Family {
        kind: "rotating",
        parameters,
        fixed: fixed(recording),
        capacity: recording.facts.bytes,
    }
}

fn fixed(recording: &Recording) -> Vec<Fixed> {
    let facts = &recording.facts;
    let line = |table, key, value: String, remark| Fixed { table, key, value, remark };
    let sector = facts.sector_bytes.to_string();
    vec![
        line("", "sector_bytes", sector, ""),
        line("geometry", "capacity_bytes", facts.bytes.to_string(), ""),
        line("geometry", "zones", "16".to_owned(), "not identified: the rates of 17 places"),
        line("seek", "kind", "\"table\"".to_owned(), "cylinders, ms"),
    ]
}

impl Start {
    fn of(recording: &Recording, agreeing: Agreeing) -> Start {
        let rates: Vec<f64> =
            recording.phases_of("zone-").map(|phase| phase.bytes_per_s(3) / 1e6).collect();
        let outer = rates.iter().copied().fold(0.5, f64::max);
        let inner = rates.iter().copied().fold(outer, f64::min).max(0.2);
        let unit_ms = 4.096 / ((outer + inner) / 2.0) * 0.85;
        let turn_ms = turn(recording, unit_ms);
        let track = track(recording, turn_ms, outer, agreeing);
        let miss_ms = track.as_ref().map_or(0.3, |track| track.miss_ms);
        let switch_ms = track.map_or(0.7, |track| track.skew_ms * 0.7);
        let (hit_ms, bus) = hits(recording);
        // The mean of what waits for half a turn; the sum of two independent sorts of errors.
        let beyond = miss_ms + turn_ms / 2.0 + unit_ms;
        let mut seeks: Vec<f64> = (0..DISTANCES.len())
            .map(|number| {
                let phase = recording.phase(&format!("distance-{number}"));
                phase.map_or(1.0, mean_ms) - beyond
            })
            .collect();
        let mut least = 0.05;
        for seek in &mut seeks {
            *seek = seek.max(least);
            least = *seek;
        }
        Start { turn_ms, miss_ms, switch_ms, hit_ms, bus, outer, inner, seeks }
    }
}

fn mean_ms(phase: &Phase) -> f64 {
    let times = phase.times();
    times.iter().sum::<u64>() as f64 / times.len().max(1) as f64 / 1e6
}

/// The time of a turn in ms: that between the ends of reads that step back, and what the head
/// passes between them; or what reads at one distance differ by, where the first has no meaning.
fn turn(recording: &Recording, unit_ms: f64) -> f64 {
    let spread = recording.phase("distance-8").map_or(8.0, |phase| {
        let times = phase.times();
        (quantile_of(&times, 0.95) - quantile_of(&times, 0.05)) / 0.9 / 1e6
    });
    let steps = recording.phases_of("backward-").flat_map(|phase| {
        let ends: Vec<u64> = phase.timings.iter().map(|timing| timing.end_ns).collect();
        ends.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    });
    let turn = median(&steps.collect::<Vec<_>>()) / 1e6 + unit_ms;
    match (0.8..1.25).contains(&(turn / spread)) {
        true => turn,
        false => spread.clamp(1.5, 30.0),
    }
}

/// How the pairs choose the rate under the head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Agreeing {
    /// The one with which most of them agree.
    Many,
    /// The one with which they agree most nearly, of those with which nearly as many do: as many
    /// can agree roughly with a wrong one.
    Nearly,
}

/// What pairs of reads within a track say.
struct Track {
    /// The overhead of a read of the medium, in ms.
    miss_ms: f64,
    /// How long the angle is that a track starts later than the one before, in ms.
    skew_ms: f64,
}

/// Of two reads on one track the second takes a turn less what it is before the first, or a turn
/// more when the controller is too late for that. So the rate under the head is the one with which
/// most pairs agree, and the overhead lies between the shortest that was not too late and the
/// longest that was.
fn track(recording: &Recording, turn_ms: f64, outer: f64, how: Agreeing) -> Option<Track> {
    let phase = recording.phase("track-4k")?;
    let reads = phase.requests.chunks_exact(2).zip(phase.times());
    let pairs: Vec<(f64, f64)> = reads
        .map(|(pair, time)| (pair[0].offset.saturating_sub(pair[1].offset) as f64, time as f64))
        .map(|(back, time)| (back / outer / 1e3, time / 1e6))
        .collect();
    // How many turns a pair takes at a rate that is that many times the sustained one, and how
    // nearly it does: 1 where it is exact, 0 where it is too far from a whole number.
    let turns = |(back, time): &(f64, f64), factor: f64| {
        let turns = (time + back / factor) / turn_ms;
        (turns.round(), (1.0 - (turns - turns.round()).abs() / WHOLE_TURN).max(0.0))
    };
    let all = |factor: f64| pairs.iter().map(move |pair| turns(pair, factor).1);
    let agreeing = |factor: &f64| all(*factor).filter(|agreement| *agreement > 0.0).count();
    let agreement = |factor: f64| all(factor).sum::<f64>();
    let factors = || (0..140).map(|step| 1.0 + f64::from(step) / 200.0);
    let mut factor = factors().max_by_key(agreeing)?;
    if how == Agreeing::Nearly {
        let many = agreeing(&factor) * 9 / 10;
        let nearer = factors().filter(|other| agreeing(other) >= many);
        factor = nearer.max_by(|one, other| agreement(*one).total_cmp(&agreement(*other)))?;
    }
    let of_turns = |count: f64| {
        let of_count = move |pair: &&(f64, f64)| {
            let (turns, agreement) = turns(pair, factor);
            turns == count && agreement > 0.0
        };
        pairs.iter().filter(of_count).map(|pair| pair.1)
    };
    let least = of_turns(1.0).fold(f64::INFINITY, f64::min);
    let late = of_turns(2.0).map(|time| time - turn_ms).fold(0.0, f64::max);
    let late = if late < least { late } else { (least - turn_ms / 50.0).max(0.0) };
    let media_ms = 4.096 / outer / factor;
    least.is_finite().then(|| Track {
        miss_ms: (least.midpoint(late.max(least - turn_ms / 40.0)) - media_ms).max(0.02),
        skew_ms: (turn_ms * (factor - 1.0)).max(0.05),
    })
}

/// Overhead of a hit in ms, and the rate of the interface in bytes a second.
fn hits(recording: &Recording) -> (f64, f64) {
    let of = |name: &str| estimate::quantile(recording, name, 0.5);
    let (Some(small), Some(large)) = (of("hit-4k"), of("hit-128k")) else { return (0.1, 1e8) };
    let bus = (124.0 * 1024.0 * 1e9 / (large - small).max(1.0)).clamp(1e6, 2e10);
    ((small - 4096e9 / bus).max(1e3) / 1e6, bus)
}

/// The largest number in the names of phases of which most requests were answered from memory.
fn largest_hit(recording: &Recording, beginning: &str, start: &Start) -> f64 {
    let limit = (start.hit_ms * 1.5 + 0.3) * 1e6;
    let hit = recording.phases_of(beginning).filter(|phase| {
        let times = phase.times();
        !times.is_empty() && median(&times) < limit
    });
    let number = |phase: &Phase| {
        let digits = phase.name.trim_start_matches(beginning).trim_end_matches('k').parse();
        digits.unwrap_or(0.0)
    };
    hit.map(number).fold(0.0, f64::max)
}

fn cache(recording: &Recording, start: &Start) -> Vec<Parameter> {
    let ahead = largest_hit(recording, "ahead-", start) * 1024.0;
    let segments = largest_hit(recording, "segments-", start).max(1.0);
    let sector = f64::from(recording.facts.sector_bytes);
    let goes_on = recording
        .phases_of("beside-hits-")
        .filter(|phase| median(&phase.times()) < (start.hit_ms * 1.5 + 0.3) * 1e6);
    let kind = match (ahead > 0.0, goes_on.count() >= 2) {
        (false, _) => 0.0,
        (true, false) => 2.0,
        (true, true) => 3.0,
    };
    // Nothing after a single read may still be much after two in a row: that is searched.
    let step = if ahead > 0.0 { 0.0 } else { 0.25 };
    let kinds = Scale::Words(&["off", "on-sequence", "until-command", "continue"]);
    let (many, sectors) = (Scale::Ratio(1.0, 1024.0), Scale::Ratio(1.0, 16_777_216.0));
    vec![
        Parameter::new(("cache", "look_ahead"), kinds, Written::Word, kind).within_about(step),
        Parameter::new(("cache", "segments"), many, Written::Whole, segments).within_about(0.0),
        Parameter::new(
            ("cache", "segment_sectors"),
            sectors,
            Written::Whole,
            (ahead / sector).max(128.0),
        )
        .within_about(step),
    ]
}

fn writes(recording: &Recording, start: &Start) -> Vec<Parameter> {
    let flags = Scale::Words(&["false", "true"]);
    let settles = Scale::Linear(-2.0, 4.0, 0.2);
    let bus_ms = 4096.0 / start.bus * 1e3;
    let rested = estimate::quantile(recording, "write-rested-4k", 0.5).map(|time| time / 1e6);
    let is_back = rested.is_some_and(|time| time < start.turn_ms / 4.0);
    let write_ms = match (rested, is_back) {
        (Some(time), true) => (time - bus_ms).max(0.01),
        _ => start.miss_ms,
    };
    let all = vec![
        Parameter::new(("", "write_settle_ms"), settles, Written::Decimal, 0.1),
        Parameter::new(("overhead_ms", "write"), OVERHEADS, Written::Decimal, write_ms),
        Parameter::new(("cache", "write_back"), flags, Written::Flag, f64::from(u8::from(is_back))),
        Parameter::new(("cache", "write_segments"), BUFFERS, Written::Whole, 2.0),
    ];
    match rested {
        Some(_) => all,
        None => all.into_iter().map(|parameter| parameter.unknown(NO_WRITES)).collect(),
    }
}
