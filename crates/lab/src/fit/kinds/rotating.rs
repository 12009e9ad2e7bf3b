//! Disks.
//!
//! The time of a turn is that between two reads of which the second is just before the first. A
//! seek is what a read at a distance takes beyond half a turn on the average, and beyond what a
//! read without one takes. Rates are those of reading in a row across the disk. How far is read
//! ahead, and how many segments there are, is the largest that was found in the drive's memory.
//! What a read takes longer when another one has just ended is what the drive reads on by all
//! means.
use super::{NO_WRITES, estimate};
use crate::fit::family::{Family, Fixed, Parameter, Scale, Written};
use crate::fit::probes::turning::DISTANCES;
use crate::fit::recording::{Phase, Recording};
use crate::fit::score::{median, quantile_of};
use std::ops::Range;

const DEPTHS: Scale = Scale::Steps(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
const HEADS: Scale =
    Scale::Steps(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 18.0, 20.0]);
const BUFFERS: Scale =
    Scale::Steps(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 64.0]);
const RATES: Scale = Scale::Ratio(1e6, 2e10);
const MB_PER_S: Scale = Scale::Ratio(0.2, 2000.0);
const SEEKS: Scale = Scale::Ratio(0.01, 200.0);
const OVERHEADS: Scale = Scale::Ratio(0.001, 20.0);
/// How nearly the time of a turn is known at the start, as a logarithm.
const TURN_STEP: f64 = 0.000_5;
/// What a turn is of the spread of reads at a distance, to which seeks add up to two fifths; above
/// that, steps back take two turns each.
const TURN_OF_SPREAD: Range<f64> = 0.62..1.25;
/// How far from a whole number of turns a pair of reads on a track is at most, as a share of one.
const WHOLE_TURN: f64 = 0.012;
/// The rate under the head over the sustained one at which the first estimate of a turn is made.
const FACTOR: f64 = 1.06;
const SETTLES: Scale = Scale::Linear(-2.0, 4.0, 0.2);
/// The number of that value in the family: tracks are skewed by the time to switch heads and by it.
const SETTLE: usize = 0;
/// Where the search for the time that a write needs to settle begins, in ms.
const SETTLE_MS: f64 = 0.1;
/// The shortest seek that a search begins with.
const SEEK_LEAST_MS: f64 = 0.05;
/// What a drive reads on by all means is looked for from this share of a turn on.
const READS_ON: f64 = 0.05;
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
    /// The overhead of a read that follows on nothing.
    miss_ms: f64,
    skew_ms: f64,
    hit_ms: f64,
    bus: f64,
    outer: f64,
    inner: f64,
    seeks: Vec<f64>,
    /// How many bytes the drive reads on before another command gets the arm.
    reads_on: f64,
}

/// The family.
pub fn families(recording: &Recording) -> Vec<Family> {
    vec![family(recording, &Start::of(recording))]
}

fn family(recording: &Recording, start: &Start) -> Family {
    let depth = estimate::plateau(recording, "4k").1;
    let mut parameters = vec![
        settle(recording),
        Parameter::new(("", "rpm"), TURNS, Written::Decimal, 60_000.0 / start.turn_ms)
            .within_about(TURN_STEP),
        Parameter::new(("", "head_switch_ms"), OVERHEADS, Written::Less(SETTLE), start.skew_ms),
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
    // Last, when the times are nearly right: with wrong ones a wrong number makes up for them.
    parameters.push(Parameter::new(("", "heads"), HEADS, Written::Whole, 4.0));
    parameters.push(Parameter::new(("", "queue_depth"), DEPTHS, Written::Whole, f64::from(depth)));
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
    fn of(recording: &Recording) -> Start {
        let rates: Vec<f64> =
            recording.phases_of("zone-").map(|phase| phase.bytes_per_s(3) / 1e6).collect();
        let outer = rates.iter().copied().fold(0.5, f64::max);
        let inner = rates.iter().copied().fold(outer, f64::min).max(0.2);
        // The rate under the head and the time of a turn are read off with the help of each other.
        let first = track(recording, turn(recording, FACTOR), outer);
        let factor = first.map_or(FACTOR, |track| track.factor);
        let turn_ms = turn(recording, factor);
        let track = track(recording, turn_ms, outer);
        let between_ms = track.as_ref().map_or(0.3, |track| track.least_ms);
        let skew_ms = track.as_ref().map_or(0.7, |track| track.skew_ms);
        let switch_ms = switch_ms(skew_ms);
        // While the drive rests it reads on to another track.
        let media_ms = 4.096 / outer / factor;
        let rested_ms = estimate::quantile(recording, "rested-4k", 0.01)
            .map_or(between_ms, |time| (time / 1e6 - media_ms - switch_ms).max(0.05));
        let on_ms = between_ms - rested_ms;
        let reads_on =
            if on_ms > turn_ms * READS_ON { between_ms * outer * factor * 1e3 } else { 0.0 };
        let miss_ms = if reads_on > 0.0 { rested_ms } else { between_ms };
        let (hit_ms, bus) = hits(recording);
        // The mean of what waits for half a turn; the sum of two independent sorts of errors.
        let beyond = between_ms + turn_ms / 2.0 + 4.096 * 2.0 / (outer + inner) / factor;
        let seeks: Vec<f64> = (0..DISTANCES.len())
            .map(|number| {
                let phase = recording.phase(&format!("distance-{number}"));
                phase.map_or(1.0, mean_ms) - beyond
            })
            .collect();
        let seeks = rising(&seeks);
        Start { turn_ms, miss_ms, skew_ms, hit_ms, bus, outer, inner, seeks, reads_on }
    }
}

fn mean_ms(phase: &Phase) -> f64 {
    let times = phase.times();
    times.iter().sum::<u64>() as f64 / times.len().max(1) as f64 / 1e6
}

/// The time of a turn in ms: that between the ends of reads that step back, and what the head
/// passes between them; or what reads at one distance differ by, where the first has no meaning.
/// `factor` is the rate under the head over the sustained one.
fn turn(recording: &Recording, factor: f64) -> f64 {
    let spread = recording.phase("distance-8").map_or(8.0, |phase| {
        let times = phase.times();
        (quantile_of(&times, 0.95) - quantile_of(&times, 0.05)) / 0.9 / 1e6
    });
    let of_part = |part: usize| {
        let ends = recording.phase(&format!("backward-{part}"))?.timings.iter();
        let ends: Vec<u64> = ends.map(|timing| timing.end_ns).collect();
        let steps: Vec<u64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // Three quarters of the way inwards are 17 places.
        let rate = recording.phase(&format!("zone-{}", 4 * (part + 1)))?.bytes_per_s(3);
        Some(median(&steps) / 1e6 + 4096.0 / rate.max(1e5) / factor * 1e3)
    };
    let mut turns: Vec<f64> = (0..3).filter_map(of_part).collect();
    turns.sort_by(f64::total_cmp);
    match turns.get(turns.len() / 2) {
        Some(turn) if TURN_OF_SPREAD.contains(&(turn / spread)) => *turn,
        _ => spread.clamp(1.5, 30.0),
    }
}

/// What pairs of reads within a track say.
#[derive(Clone, Copy)]
struct Track {
    /// The rate under the head over the sustained one.
    factor: f64,
    /// The least that passes between the end of a read and the start of the next one on the same
    /// track, in ms.
    least_ms: f64,
    /// How long the angle is that a track starts later than the one before, in ms.
    skew_ms: f64,
}

/// A pair of reads within a track, in turns: how far back the second one is at the sustained rate,
/// and how long it took.
struct Pair {
    back: f64,
    time: f64,
}

impl Pair {
    /// How many turns it takes from a place to itself, at a rate that is that many times the
    /// sustained one.
    fn turns(&self, factor: f64) -> f64 {
        self.time + self.back / factor
    }
}

/// How nearly that is a whole number of turns: 1 where it is exact, 0 where it is too far from one.
fn nearness(turns: f64) -> f64 {
    (1.0 - (turns - turns.round()).abs() / WHOLE_TURN).max(0.0)
}

/// Of two reads on one track the second takes a turn less what it is before the first, or a turn
/// more when the controller is too late for that; on the track before it takes less by the skew. So
/// the rate under the head and the skew are those with which most pairs agree, and the least time
/// is that of the shortest that was not too late.
fn track(recording: &Recording, turn_ms: f64, outer: f64) -> Option<Track> {
    let phase = recording.phase("track-4k")?;
    let reads = phase.requests.chunks_exact(2).zip(phase.times());
    let pairs: Vec<Pair> = reads
        .map(|(pair, time)| Pair {
            back: pair[0].offset.saturating_sub(pair[1].offset) as f64 / outer / 1e3 / turn_ms,
            time: time as f64 / 1e6 / turn_ms,
        })
        .collect();
    let agreement = |factor: f64, skew: f64| {
        pairs.iter().map(|pair| nearness(pair.turns(factor) + skew)).sum::<f64>()
    };
    let mut best = (0.0, FACTOR, 0.0);
    for step in 0..280 {
        let factor = 1.0 + f64::from(step) / 400.0;
        let same = agreement(factor, 0.0);
        // A sustained turn is longer by the mean skew, to which that of a cylinder adds.
        for part in 6..24 {
            let skew = (factor - 1.0) * f64::from(part) / 20.0;
            let other = if skew > 2.0 * WHOLE_TURN { agreement(factor, skew) } else { 0.0 };
            if same + other > best.0 {
                best = (same + other, factor, skew);
            }
        }
    }
    let (_, factor, skew) = best;
    // The shortest of those whose angle is that much farther back.
    let shortest = |skew: f64| {
        let agreeing = pairs.iter().filter(|pair| nearness(pair.turns(factor) + skew) > 0.0);
        agreeing.map(|pair| pair.time * turn_ms).fold(f64::INFINITY, f64::min)
    };
    let skew_ms = (turn_ms * skew).max(0.05);
    // Few pairs are a whole track apart and on the same one; on the one before are many of them.
    let switched = if skew > 0.0 { shortest(skew) - switch_ms(skew_ms) } else { f64::INFINITY };
    let least = shortest(0.0).min(switched);
    let least_ms = (least - 4.096 / outer / factor).max(0.02);
    least.is_finite().then_some(Track { factor, least_ms, skew_ms })
}

/// The nearest times that do not fall: neighbours that do become their mean, one after another.
fn rising(times: &[f64]) -> Vec<f64> {
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for time in times {
        groups.push((time.max(SEEK_LEAST_MS), 1));
        while let [.., (before, count), (last, more)] = groups[..]
            && before > last
        {
            let all = count + more;
            groups.truncate(groups.len() - 2);
            groups.push(((before * count as f64 + last * more as f64) / all as f64, all));
        }
    }
    groups.into_iter().flat_map(|(time, count)| std::iter::repeat_n(time, count)).collect()
}

/// The time to switch heads that makes that skew: the rest is that of writes to settle.
fn switch_ms(skew_ms: f64) -> f64 {
    (skew_ms - SETTLE_MS).max(0.05)
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
    let least = Scale::Linear(0.0, 16_384.0, 32.0);
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
        Parameter::new(
            ("cache", "look_ahead_least_sectors"),
            least,
            Written::Whole,
            if ahead > 0.0 { start.reads_on / sector } else { 0.0 },
        )
        .within_about(if ahead > 0.0 { 0.25 } else { 0.0 }),
    ]
}

fn settle(recording: &Recording) -> Parameter {
    let settle = Parameter::new(("", "write_settle_ms"), SETTLES, Written::Decimal, SETTLE_MS);
    match recording.phase("write-rested-4k") {
        Some(_) => settle,
        None => settle.unknown(NO_WRITES),
    }
}

fn writes(recording: &Recording, start: &Start) -> Vec<Parameter> {
    let flags = Scale::Words(&["false", "true"]);
    let bus_ms = 4096.0 / start.bus * 1e3;
    let rested = estimate::quantile(recording, "write-rested-4k", 0.5).map(|time| time / 1e6);
    let is_back = rested.is_some_and(|time| time < start.turn_ms / 4.0);
    let write_ms = match (rested, is_back) {
        (Some(time), true) => (time - bus_ms).max(0.01),
        _ => start.miss_ms,
    };
    let all = vec![
        Parameter::new(("overhead_ms", "write"), OVERHEADS, Written::Decimal, write_ms),
        Parameter::new(("cache", "write_back"), flags, Written::Flag, f64::from(u8::from(is_back))),
        Parameter::new(("cache", "write_segments"), BUFFERS, Written::Whole, 2.0),
    ];
    match rested {
        Some(_) => all,
        None => all.into_iter().map(|parameter| parameter.unknown(NO_WRITES)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_fall_become_their_mean() {
        assert_eq!(rising(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(rising(&[3.0, 2.0, 1.0]), [2.0; 3]);
        assert_eq!(rising(&[-1.0, 0.5]), [SEEK_LEAST_MS, 0.5]);
    }
}
