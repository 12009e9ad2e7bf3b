//! Probes for what turns and has an arm. Some are decided by what the ones before them found.
use super::{Plan, Prober};
use crate::fit::score::median;
use crate::fit::target::ProbeRequest;
use std::io;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MILLISECOND: u64 = 1_000_000;

/// Distances of seeks, as shares of all bytes.
pub const DISTANCES: [f64; 12] =
    [0.00001, 0.0001, 0.001, 0.004, 0.015, 0.05, 0.12, 0.25, 0.4, 0.6, 0.8, 0.95];
/// Pairs of reads at each distance, and within a track.
const PAIRS: usize = 80;
const TRACK_PAIRS: usize = 250;
/// Pairs of which the second comes after a rest of that long, in nanoseconds, and a turn at most.
const RESTED_PAIRS: usize = 100;
const RESTED_NS: u64 = 30 * MILLISECOND;
/// Distances of pairs differ by at most this part of them.
const ABOUT: u64 = 20;
/// Places across the target at which it is read in a row, as 33rds.
const ZONES: u64 = 17;
/// Bytes of each read there, and how many.
const ZONE_READ: (u64, u64) = (512 * KIB, 24);
/// Most segments that are looked for.
const SEGMENTS_MOST: u64 = 128;
/// The farthest that reading ahead is looked for.
const AHEAD_MOST: u64 = 32 * MIB;

/// Runs them.
///
/// # Errors
/// Those of the target.
pub fn run(prober: &mut Prober<'_>) -> io::Result<()> {
    backward(prober)?;
    for (number, share) in DISTANCES.iter().enumerate() {
        let requests = pairs(prober, *share);
        prober.run(Plan::new(format!("distance-{number}"), requests).every(2))?;
    }
    let (mut rate, mut outer) = (f64::MAX, 0.0);
    for zone in 0..ZONES {
        let requests = zone_reads(prober, zone);
        let phase = prober.run(Plan::new(format!("zone-{zone}"), requests).preparing(3))?;
        outer = f64::max(outer, phase.bytes_per_s(3));
        rate = rate.min(phase.bytes_per_s(3)).max(1e5);
    }
    let turn_s = prober.recording.phase("backward-0").map_or(8e6, |one| median(&one.times())) / 1e9;
    let requests = within_track(prober, (outer * turn_s * 1.3) as u64);
    prober.run(Plan::new("track-4k", requests).every(2))?;
    let requests = rested(prober, (outer * turn_s * 1.3) as u64);
    prober.run(Plan::new("rested-4k", requests).every(2))?;
    for bytes in [4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB] {
        let bytes = prober.whole(bytes);
        let place = prober.place(bytes);
        let mut requests = vec![ProbeRequest::read(place, bytes)];
        requests.extend(vec![ProbeRequest::read(place, bytes); 15]);
        prober.run(Plan::new(format!("hit-{}k", bytes / KIB), requests).preparing(1))?;
    }
    let hit = prober.recording.phase("hit-4k").map_or(0.0, |phase| median(&phase.times()));
    let is_hit = |time: u64| (time as f64) < hit * 1.5 + 200_000.0;
    let ahead = how_far_ahead(prober, rate, is_hit)?;
    how_many_segments(prober, is_hit)?;
    beside_hits(prober, ahead)
}

/// Reads that step back by a unit each: every one waits for nearly a whole turn.
fn backward(prober: &mut Prober<'_>) -> io::Result<()> {
    let unit = prober.unit();
    for part in 0..3 {
        let start = prober.facts.bytes / 4 * (part + 1) / unit * unit;
        let reads = (0..100).map(|step| ProbeRequest::read(start - step * unit, unit));
        let name = format!("backward-{part}");
        prober.run(Plan::new(name, reads.collect()).preparing(1).for_permille(10))?;
    }
    Ok(())
}

/// Pairs of reads of which the second is about at that distance from the first, inwards and
/// outwards. At one distance exactly all pairs of a zone would wait for the same angle.
fn pairs(prober: &mut Prober<'_>, share: f64) -> Vec<ProbeRequest> {
    let unit = prober.unit();
    let units = prober.facts.bytes / unit;
    let middle = ((units as f64 * share) as u64).clamp(1, units - 1);
    let apart = middle / ABOUT;
    let mut reads = Vec::with_capacity(2 * PAIRS);
    for number in 0..PAIRS {
        let distance = (middle - apart + prober.random.below(2 * apart + 1)).min(units - 1);
        let low = prober.random.below(units - distance);
        let places = [low, low + distance].map(|place| ProbeRequest::read(place * unit, unit));
        match number % 2 {
            0 => reads.extend(places),
            _ => reads.extend(places.into_iter().rev()),
        }
    }
    reads
}

/// Pairs of reads of which the second is less than a track before the first, mostly on the same
/// one, near the outer edge.
fn within_track(prober: &mut Prober<'_>, track: u64) -> Vec<ProbeRequest> {
    let unit = prober.unit();
    let units = (track / unit).max(2);
    let room = prober.facts.bytes / unit / 33;
    let mut reads = Vec::with_capacity(2 * TRACK_PAIRS);
    for _ in 0..TRACK_PAIRS {
        let place = units + prober.random.below(room.max(1));
        let back = 1 + prober.random.below(units - 1);
        reads.push(ProbeRequest::read(place * unit, unit));
        reads.push(ProbeRequest::read((place - back) * unit, unit));
    }
    reads
}

/// The same after rests: whatever the drive still does after a read is then over.
fn rested(prober: &mut Prober<'_>, track: u64) -> Vec<ProbeRequest> {
    let mut reads = within_track(prober, track);
    reads.truncate(2 * RESTED_PAIRS);
    for second in reads.iter_mut().skip(1).step_by(2) {
        *second = second.after(RESTED_NS + prober.random.below(16 * MILLISECOND));
    }
    reads
}

/// Reads in a row, at the same share of the target each time.
fn zone_reads(prober: &mut Prober<'_>, zone: u64) -> Vec<ProbeRequest> {
    let (bytes, count) = ZONE_READ;
    let whole = bytes * count;
    let last = prober.facts.bytes.saturating_sub(whole);
    let start = (last / (ZONES - 1) * zone).min(last) / prober.unit() * prober.unit();
    (0..count).map(|number| ProbeRequest::read(start + number * bytes, bytes)).collect()
}

/// How far the drive reads on when it is left alone: doubled until it is too far, then halved.
/// Returns the bytes; 0 when it does not.
fn how_far_ahead(
    prober: &mut Prober<'_>,
    rate: f64,
    is_hit: impl Fn(u64) -> bool,
) -> io::Result<u64> {
    let (mut least, mut most, mut step) = (0, 0, 16 * KIB);
    while most == 0 && step <= AHEAD_MOST {
        match reads_on(prober, step, rate, &is_hit)? {
            true => (least, step) = (step, step * 2),
            false => most = step,
        }
    }
    for _ in 0..5 {
        let middle = (least + most.saturating_sub(least) / 2) / prober.unit() * prober.unit();
        if most == 0 || middle <= least {
            break;
        }
        match reads_on(prober, middle, rate, &is_hit)? {
            true => least = middle,
            false => most = middle,
        }
    }
    Ok(least)
}

/// Whether what is that far after a read is in the drive's memory a while later, mostly.
fn reads_on(
    prober: &mut Prober<'_>,
    ahead: u64,
    rate: f64,
    is_hit: impl Fn(u64) -> bool,
) -> io::Result<bool> {
    let unit = prober.unit();
    let rest = (ahead as f64 / rate * 1e9 * 1.3) as u64 + 60 * MILLISECOND;
    let mut requests = Vec::new();
    for _ in 0..3 {
        let place = prober.place(unit).min(prober.facts.bytes.saturating_sub(ahead + unit));
        requests.push(ProbeRequest::read(place, unit));
        requests.push(ProbeRequest::read(place + ahead, unit).after(rest));
    }
    let phase = prober.run(Plan::new(format!("ahead-{}k", ahead / KIB), requests).every(2))?;
    Ok(phase.times().into_iter().filter(|time| is_hit(*time)).count() >= 2)
}

/// How many places the drive remembers.
fn how_many_segments(prober: &mut Prober<'_>, is_hit: impl Fn(u64) -> bool) -> io::Result<()> {
    let (mut least, mut most, mut count) = (1, 0, 2);
    while most == 0 && count <= SEGMENTS_MOST {
        match remembers(prober, count, &is_hit)? {
            true => (least, count) = (count, count * 2),
            false => most = count,
        }
    }
    while most > least + 1 {
        let middle = least.midpoint(most);
        match remembers(prober, middle, &is_hit)? {
            true => least = middle,
            false => most = middle,
        }
    }
    Ok(())
}

fn remembers(
    prober: &mut Prober<'_>,
    count: u64,
    is_hit: impl Fn(u64) -> bool,
) -> io::Result<bool> {
    let unit = prober.unit();
    let mut requests = prober.random_reads(count as usize, unit);
    requests.push(requests[0]);
    let plan = Plan::new(format!("segments-{count}"), requests).preparing(count as usize);
    let times = prober.run(plan.for_permille(30))?.times();
    Ok(times.into_iter().any(is_hit))
}

/// Whether the drive goes on reading when another command is answered from its memory.
fn beside_hits(prober: &mut Prober<'_>, ahead: u64) -> io::Result<()> {
    let unit = prober.unit();
    let far = (ahead / 2).max(unit) / unit * unit;
    for number in 0..3 {
        let (other, place) = (prober.place(2 * unit), prober.place(unit));
        let place = place.min(prober.facts.bytes.saturating_sub(far + unit));
        let requests = vec![
            ProbeRequest::read(other, unit),
            ProbeRequest::read(place, unit).after(200 * MILLISECOND),
            // What was read first may have made room for what was read ahead; this has not.
            ProbeRequest::read(other + unit, unit),
            ProbeRequest::read(place + far, unit).after(400 * MILLISECOND),
        ];
        prober.run(Plan::new(format!("beside-hits-{number}"), requests).preparing(3))?;
    }
    Ok(())
}
