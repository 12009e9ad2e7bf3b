//! Rotating disks against what is published of them, and against what holds of any drive.
use extant_block::Operation;
use extant_sim::drive::file::{DriveKind, DriveSpec, by_name, parse};
use extant_sim::drive::presets::PRESETS;
use extant_sim::drive::rotating::{Rotating, RotatingSpec};
use extant_sim::drive::{Command, Done, Drive};
use extant_sim::random::Random;
use proptest::prelude::*;
use std::sync::LazyLock;

const SECOND: u64 = 1_000_000_000;

/// Hitachi Deskstar 7K80. From its data sheet: 7200 rpm, 82.3 GB on one platter, 0.8 ms from track
/// to track, 8.5 ms on the average, 61 MB/s sustained outside, 8 MB of cache, 0.5 ms of command
/// overhead. Assumed: 15.1 ms for the whole way, 30 MB/s inside, reads of 4 KiB.
const HITACHI_7K80: &str = r#"
name = "7k80"
rpm = 7200
heads = 2
head_switch_ms = 0.8
write_settle_ms = 0.2
[geometry]
capacity_bytes = 82_348_277_760
outer_mb_per_s = 61.4
inner_mb_per_s = 29.8
zones = 30
[seek]
kind = "lee"
min = 0.8
avg = 8.5
max = 15.1
[overhead_ms]
read_miss = 0.5
read_hit = 0.1
write = 0.5
[cache]
segments = 16
segment_sectors = 512
write_segments = 4
write_back = true
bus_bytes_per_s = 100_000_000
"#;

fn facts(spec: &DriveSpec) -> &RotatingSpec {
    match &spec.kind {
        DriveKind::Rotating(facts) => facts,
        _ => panic!("{} is no disk", spec.name),
    }
}

fn disks() -> &'static [DriveSpec] {
    static DISKS: LazyLock<Vec<DriveSpec>> = LazyLock::new(|| {
        let all = PRESETS.iter().map(|preset| by_name(preset.name).expect(preset.name));
        all.filter(|spec| matches!(spec.kind, DriveKind::Rotating(_))).collect()
    });
    &DISKS
}

fn command(id: u64, operation: Operation, offset: u64, bytes: u64) -> Command {
    Command { id, operation, offset, bytes, force_unit_access: false }
}

/// Runs one command to its end on a drive that has nothing else to do.
fn run(drive: &mut dyn Drive, command: Command, now: u64) -> Done {
    drive.submit(command, now);
    let mut done = Vec::new();
    while done.is_empty() {
        let event = drive.next_event().expect("the command is inside");
        drive.advance(event, &mut done);
    }
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].id, command.id);
    assert_eq!(done[0].parts.total(), done[0].at - now, "{:?}", done[0]);
    done[0]
}

/// Bytes a second of commands of that size that follow each other without a pause, once the first
/// has brought the arm there.
fn sequential(
    drive: &mut dyn Drive,
    operation: Operation,
    from: u64,
    bytes: u64,
    each: u64,
) -> u64 {
    let mut now = run(drive, command(0, operation, from, each), 0).at;
    let begin = now;
    for id in 1..=bytes / each {
        now = run(drive, command(id, operation, from + id * each, each), now).at;
    }
    if operation == Operation::Write {
        now = run(drive, command(u64::MAX, Operation::Flush, 0, 0), now).at;
    }
    bytes * SECOND / (now - begin)
}

/// Keeps `depth` random reads of 4 KiB inside; how long so many of them take.
fn random_reads(drive: &mut dyn Drive, depth: u64, count: u64) -> u64 {
    let (mut random, mut done, mut now, mut sent, mut ended) =
        (Random::new(7), Vec::new(), 0, 0, 0);
    let blocks = drive.info().bytes / 4096;
    while ended < count {
        while sent < count && sent - ended < depth {
            drive.submit(
                command(sent, Operation::Read, random.next_u64() % blocks * 4096, 4096),
                now,
            );
            sent += 1;
        }
        now = drive.next_event().expect("commands are inside");
        done.clear();
        drive.advance(now, &mut done);
        ended += done.len() as u64;
    }
    now
}

fn off_by(value: u64, wanted: u64) -> f64 {
    (value as f64 / wanted as f64 - 1.0) * 100.0
}

#[test]
fn hitachi_7k80_reads_4096_random_places_in_55_9_seconds() {
    let spec = parse("7k80.toml", HITACHI_7K80).expect("the test's drive");
    let time = random_reads(spec.build(0).as_mut(), 1, 4096);
    let error = off_by(time, 55_900_000_000);
    println!("{} ms, {error:+.1} %", time / 1_000_000);
    assert!(error.abs() <= 5.0, "{time} ns");
}

#[test]
fn sustained_rates_are_those_of_the_sheet() {
    let outer = [36, 30, 58, 65, 60, 60, 60, 285];
    let inner = [20, 16, 32, 33, 31, 31, 30, 130];
    for (spec, (outer, inner)) in disks().iter().zip(outer.into_iter().zip(inner)) {
        let bytes = 64 << 20;
        let end = spec.build(0).info().bytes / 4096 * 4096;
        for (from, sheet) in [(0, outer), (end - bytes - (256 << 10), inner)] {
            let rate = sequential(spec.build(0).as_mut(), Operation::Read, from, bytes, 256 << 10);
            let error = off_by(rate, sheet * 1_000_000);
            assert!(error.abs() <= 1.0, "{} at {from}: {rate} B/s, {error:+.2} %", spec.name);
        }
    }
}

#[test]
fn sustained_rate_is_that_of_the_formula() {
    for spec in disks() {
        let facts = facts(spec);
        let zone = facts.zones[0];
        let (heads, track) = (u64::from(facts.heads), u64::from(zone.sectors_per_track));
        let skew_ns = |sectors: u32| u64::from(sectors) * facts.revolution_ns / track;
        let switches_ns = (heads - 1) * skew_ns(zone.track_skew) + skew_ns(zone.cylinder_skew);
        let cylinder_ns = switches_ns + heads * facts.revolution_ns;
        let formula = heads * track * u64::from(facts.sector_bytes) * SECOND / cylinder_ns;
        let rate = sequential(spec.build(0).as_mut(), Operation::Read, 0, 256 << 20, 1 << 20);
        let error = off_by(rate, formula);
        assert!(error.abs() <= 1.0, "{}: {rate} against {formula} B/s, {error:+.2} %", spec.name);
        let switch = facts.head_switch_ns + facts.write_settle_ns.unsigned_abs();
        let skew = skew_ns(zone.track_skew);
        assert!(skew >= switch, "{}: writes would lose a turn at each track", spec.name);
    }
}

#[test]
fn sequential_writes_are_as_fast_as_reads() {
    for spec in disks() {
        let read = sequential(spec.build(0).as_mut(), Operation::Read, 0, 128 << 20, 256 << 10);
        let write = sequential(spec.build(0).as_mut(), Operation::Write, 0, 128 << 20, 256 << 10);
        let error = off_by(write, read);
        println!("{}: writes {write}, reads {read} B/s, {error:+.2} %", spec.name);
        assert!(error.abs() <= 2.0, "{}: {write} against {read} B/s, {error:+.2} %", spec.name);
    }
}

#[test]
fn mean_seek_over_random_pairs_is_that_of_the_sheet() {
    let sheets = [8_900, 10_500, 8_900, 8_900, 8_500, 14_000, 12_000, 8_000];
    for (spec, sheet_us) in disks().iter().zip(sheets) {
        let facts = facts(spec);
        let table = facts.seek.table(facts.cylinders);
        let (mut random, pairs) = (Random::new(1), 200_000);
        let mut cylinder = || (random.next_u64() % u64::from(facts.cylinders)) as u32;
        let sum: u64 =
            (0..pairs).map(|_| u64::from(table[cylinder().abs_diff(cylinder()) as usize])).sum();
        let error = off_by(sum / pairs, sheet_us * 1000);
        assert!(error.abs() <= 3.0, "{}: {} us, {error:+.2} %", spec.name, sum / pairs / 1000);
    }
}

#[test]
fn a_full_queue_doubles_the_random_rate() {
    for spec in disks().iter().filter(|spec| facts(spec).queue_depth == 32) {
        let one = random_reads(spec.build(0).as_mut(), 1, 3000);
        let many = random_reads(spec.build(0).as_mut(), 32, 3000);
        let gain = one as f64 / many as f64;
        println!("{}: {gain:.2}", spec.name);
        assert!((1.7..=2.3).contains(&gain), "{}: {gain:.2}", spec.name);
    }
}

/// A queue of near reads that never ends, and one far read: it is answered within the promise of
/// the ageing.
#[test]
fn a_far_command_is_not_starved() {
    const FAR: u64 = u64::MAX;
    let mut drive = by_name("sata-2006-250").expect("a preset").build(0);
    let mut random = Random::new(3);
    let mut near = |id| command(id, Operation::Read, random.next_u64() % 20_000 * 4096, 4096);
    for id in 0..31 {
        drive.submit(near(id), 0);
    }
    drive.submit(command(FAR, Operation::Read, 240_000_000_000, 4096), 0);
    let (mut done, mut sent) = (Vec::new(), 31);
    let answered = loop {
        let now = drive.next_event().expect("commands are inside");
        done.clear();
        drive.advance(now, &mut done);
        if done.iter().any(|done| done.id == FAR) {
            break now;
        }
        for _ in &done {
            drive.submit(near(sent), now);
            sent += 1;
        }
    };
    assert!(answered > 100_000_000, "near ones go first, but {answered} ns");
    assert!(answered < 2 * SECOND, "{answered} ns");
}

#[test]
fn a_flush_leaves_nothing_and_forced_writes_pass() {
    let spec = by_name("ide-2001-7200").expect("a preset");
    let mut drive = Rotating::new(&spec.name, facts(&spec));
    let mut now = 0;
    for (id, block) in [5u64, 900_000, 6, 40, 7].into_iter().enumerate() {
        let done = run(&mut drive, command(id as u64, Operation::Write, block * 4096, 4096), now);
        assert!(done.hit);
        now = done.at;
    }
    let lost = unflushed(&mut drive, now);
    assert_eq!(lost.last(), Some(&(7 * 4096, 4096)));
    assert!(lost.contains(&(900_000 * 4096, 4096)), "in the order of the answers: {lost:?}");
    let mut forced = command(9, Operation::Write, 7 * 4096, 4096);
    forced.force_unit_access = true;
    let done = run(&mut drive, forced, now);
    assert!(done.at - now > 1_000_000, "the medium takes its time");
    assert!(!unflushed(&mut drive, done.at).contains(&(7 * 4096, 4096)));
    let done = run(&mut drive, command(10, Operation::Flush, 0, 0), done.at);
    assert_eq!(unflushed(&mut drive, done.at), []);
    let again = run(&mut drive, command(11, Operation::Flush, 0, 0), done.at);
    assert!(again.hit && again.at - done.at < 1_000_000);
}

/// Random writes of 4 KiB into the cache, one after the other, and a flush at the end where it is
/// asked for: microseconds of each, all in all.
fn random_writes(name: &str, count: u64, last: Operation) -> u64 {
    let mut drive = by_name(name).expect("a preset").build(0);
    let (mut random, mut now) = (Random::new(11), 0);
    let blocks = drive.info().bytes / 4096;
    for id in 0..count {
        let offset = random.next_u64() % blocks * 4096;
        now = run(drive.as_mut(), command(id, Operation::Write, offset, 4096), now).at;
    }
    let bytes = if last == Operation::Flush { 0 } else { 4096 };
    run(drive.as_mut(), command(count, last, 0, bytes), now).at / 1000 / (count + 1)
}

/// What drives of the time were measured at is 4 to 7 ms, a third to a half of a random access.
#[test]
fn what_is_in_the_cache_is_written_in_the_order_of_positioning() {
    let flushed = random_writes("sata-2006-250", 1000, Operation::Flush);
    let pressed = random_writes("sata-2006-250", 4000, Operation::Write);
    let small = random_writes("ide-2001-7200", 1000, Operation::Flush);
    println!("{flushed} us with a flush, {pressed} us without; 512 KB of cache: {small} us");
    assert!((3_000..7_000).contains(&flushed), "{flushed}");
    assert!((2_000..7_000).contains(&pressed), "{pressed}");
    assert!((3_000..9_000).contains(&small), "{small}");
}

#[test]
fn a_far_write_in_the_cache_is_not_starved() {
    let spec = by_name("sata-2006-250").expect("a preset");
    let mut drive = Rotating::new(&spec.name, facts(&spec));
    let far = 240_000_000_000;
    let (mut random, mut now) = (Random::new(5), 0);
    let mut is_waiting = true;
    for id in 0..6000 {
        let near = random.next_u64() % 200_000 * 4096;
        let offset = if id == 500 { far } else { near };
        now = run(&mut drive, command(id, Operation::Write, offset, 4096), now).at;
        is_waiting = id <= 500 || (is_waiting && unflushed(&mut drive, now).contains(&(far, 4096)));
    }
    assert!(!is_waiting, "after {now} ns");
}

#[test]
fn idle_time_empties_the_write_buffer() {
    let spec = by_name("laptop-2008").expect("a preset");
    let mut drive = Rotating::new(&spec.name, facts(&spec));
    let done = run(&mut drive, command(0, Operation::Write, 1 << 30, 4096), 0);
    assert_eq!(unflushed(&mut drive, done.at), [(1 << 30, 4096)]);
    assert_eq!(drive.next_event(), None);
    drive.advance(SECOND, &mut Vec::new());
    assert_eq!(unflushed(&mut drive, SECOND), []);
}

/// What is not on the medium: byte and bytes.
fn unflushed(drive: &mut Rotating, now: u64) -> Vec<(u64, u64)> {
    drive.unflushed(now).iter().map(|left| (left.offset, left.bytes)).collect()
}

/// Two streams, each in steps of 64 KiB, in turn.
fn two_streams(look_ahead: &str) -> u64 {
    let text = HITACHI_7K80.replace("[cache]", &format!("[cache]\n{look_ahead}"));
    let mut drive = parse("7k80.toml", &text).expect("the test's drive").build(0);
    let mut now = 0;
    for step in 0..400u64 {
        let from = if step % 2 == 0 { 0 } else { 40_000_000_000 };
        now = run(
            drive.as_mut(),
            command(step, Operation::Read, from + step / 2 * 65536, 65536),
            now,
        )
        .at;
    }
    now
}

#[test]
fn a_least_read_ahead_lets_two_streams_read_on() {
    let without = two_streams("look_ahead_least_sectors = 0");
    let with = two_streams("look_ahead_least_sectors = 480");
    assert!(with * 10 < without * 8, "{with} against {without}");
    assert!(two_streams("look_ahead = \"off\"") >= without);
}

#[test]
fn reads_that_catch_up_do_not_lose_a_turn() {
    let spec = parse("7k80.toml", HITACHI_7K80).expect("the test's drive");
    let mut drive = spec.build(0);
    let mut now = run(drive.as_mut(), command(0, Operation::Read, 0, 4096), 0).at;
    for id in 1..1000 {
        let done = run(drive.as_mut(), command(id, Operation::Read, id * 4096, 4096), now);
        assert!(done.at - now < 3_000_000, "{done:?}");
        now = done.at;
    }
}

#[test]
fn files_that_no_drive_can_have_are_refused_in_one_line() {
    let cases = [
        (
            "avg = 8.5",
            "avg = 3.0",
            "bad.toml:15: seek.avg: the curve of these three is not valid: a = (-10 min + 15 avg - \
             5 max) / (3 sqrt n) is negative",
        ),
        ("rpm = 7200", "rpm = 0", "bad.toml:3: rpm: has to lie within 100 and 100000, not 0"),
        ("rpm = 7200", "rpm = \"fast\"", "bad.toml:3: rpm: has to be a number"),
        (
            "heads = 2",
            "heads = 1e18",
            "bad.toml:4: heads: has to lie within 1 and 256, not 1000000000000000000",
        ),
        (
            "heads = 2",
            "heads = 1e99",
            "bad.toml:4: heads: has to be a number that a drive can have; this one is too large",
        ),
        ("heads = 2", "heads = 2\nhaeds = 3", "bad.toml:5: haeds: no such key"),
        ("heads = 2", "", "bad.toml:1: heads: is missing"),
        (
            "82_348_277_760",
            "900_000_000_000_000",
            "bad.toml:8: geometry.capacity_bytes: gives 1056335400 cylinders",
        ),
        (
            "outer_mb_per_s = 61.4",
            "outer_mb_per_s = 61400",
            "bad.toml:9: geometry.outer_mb_per_s: gives tracks of",
        ),
        (
            "outer_mb_per_s = 61.4",
            "outer_mb_per_s = 10",
            "bad.toml:10: geometry.inner_mb_per_s: has to be at most outer_mb_per_s",
        ),
        (
            "kind = \"lee\"",
            "kind = \"le\"",
            "bad.toml:13: seek.kind: no such curve as \"le\"; there are table, hpl and lee",
        ),
        ("max = 15.1", "max = -1", "bad.toml:16: seek.max: has to lie within 0 and 1000, not -1"),
        ("segments = 16", "segments = nan", "bad.toml:22: cache.segments: has to be a number"),
        (
            "name = \"7k80\"",
            "name = \"7k80\"\nkind = \"tape\"",
            "bad.toml:3: kind: no such kind as \"tape\"",
        ),
        ("write_back = true", "write_back = maybe", "bad.toml:25:"),
    ];
    for (from, to, message) in cases {
        assert!(HITACHI_7K80.contains(from), "{from}");
        let error =
            parse("bad.toml", &HITACHI_7K80.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.starts_with(message), "{error}\n{message}");
        assert_eq!(error.lines().count(), 1);
    }
    assert!(by_name("ide-1999").expect_err("no preset").to_string().contains("ide-2001-7200"));
}

const MEASURED: &str = r#"
rpm = 5400
heads = 3
cylinders = 100
head_switch_ms = 1
overhead_ms = { read_miss = 1, read_hit = 1, write = 1 }
cache = { segments = 2, segment_sectors = 64, bus_bytes_per_s = 5e6 }
seek = { kind = "table", points = [[1, 2.0], [50, 9.5]] }
zone = [{ cylinders = 60, sectors_per_track = 80, track_skew = 8, cylinder_skew = 18 }, { cylinders = 40, sectors_per_track = 60, track_skew = 6, cylinder_skew = 13 }]
"#;

#[test]
fn measured_files_are_checked_too() {
    let spec = parse("m.toml", MEASURED).expect("a drive");
    assert_eq!((spec.name.as_str(), facts(&spec).sectors), ("m", 3 * (60 * 80 + 40 * 60)));
    let cases = [
        ("[50, 9.5]", "[1, 9.5]", "m.toml:8: seek.points: distances start at 1 and rise"),
        (
            "[50, 9.5]",
            "[50, 2000]",
            "m.toml:8: seek.kind: the curve gives 1021387 us for 26 cylinders",
        ),
        ("[50, 9.5]", "[50]", "m.toml:8: seek.points: has to be pairs of numbers"),
        ("[[1, 2.0], [50, 9.5]]", "[]", "m.toml:8: seek.points: has to hold two pairs at least"),
        (
            "[[1, 2.0], [50, 9.5]]",
            "[[1, 2.0]]",
            "m.toml:8: seek.points: has to hold two pairs at least",
        ),
        (
            "[50, 9.5]",
            "[50, 1.7]",
            "m.toml:8: seek.points: the curve falls: the farthest seek takes 1700 us, a nearer one \
             2000 us",
        ),
        (
            "[50, 9.5]",
            "[32, 9.5]",
            "m.toml:8: seek.points: ends at 32 cylinders; has to reach 33, a third of the drive's \
             100",
        ),
        (
            "cylinders = 100",
            "cylinders = 102",
            "m.toml:4: cylinders: has to be the sum of the zones, 100, or at most one in 100 more, \
             for spare ones",
        ),
        (
            "segment_sectors = 64",
            "segment_sectors = 64, look_ahead_least_sectors = 65",
            "m.toml:7: cache.look_ahead_least_sectors: has to be at most a segment, 64 sectors; is \
             65",
        ),
        (
            "cylinders = 60",
            "cylinders = 61",
            "m.toml:9: zone.cylinders: the zones up to here have 101 cylinders, the drive has 100",
        ),
        (
            "track_skew = 6,",
            "track_skew = 61,",
            "m.toml:9: zone.track_skew: has to lie within 0 and 60, not 61",
        ),
    ];
    for (from, to, message) in cases {
        assert!(MEASURED.contains(from), "{from}");
        let error = parse("m.toml", &MEASURED.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.starts_with(message), "{error}\n{message}");
    }
}

#[test]
fn dents_and_spare_cylinders_of_measured_drives_are_taken() {
    for (from, to) in [
        ("[50, 9.5]", "[50, 9.5], [60, 1.0], [70, 9.0]"),
        ("[50, 9.5]", "[33, 9.5]"),
        ("cylinders = 100", "cylinders = 101"),
    ] {
        let parsed = parse("m.toml", &MEASURED.replacen(from, to, 1));
        assert!(parsed.is_ok(), "{to}: {parsed:?}");
    }
}

#[derive(Clone, Debug)]
struct Step {
    operation: Operation,
    place: u64,
    blocks: u64,
    forced: bool,
    pause: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let operation = prop_oneof![
        4 => Just(Operation::Read),
        4 => Just(Operation::Write),
        1 => Just(Operation::Flush)
    ];
    let place = prop_oneof![0..50u64, 0..9_000_000u64];
    let step = (
        operation,
        place,
        1..400u64,
        prop::bool::weighted(0.1),
        prop_oneof![Just(0), 0..40_000_000u64],
    );
    let step = step.prop_map(|(operation, place, blocks, forced, pause)| Step {
        operation,
        place,
        blocks,
        forced,
        pause,
    });
    prop::collection::vec(step, 1..60)
}

/// Runs steps with at most the drive's depth inside; every answer in order.
fn play(drive: &mut Rotating, steps: &[Step]) -> Vec<Done> {
    let depth = drive.info().queue_depth as usize;
    let (mut now, mut done): (u64, Vec<Done>) = (0, Vec::new());
    for (id, step) in steps.iter().enumerate() {
        while id - done.len() >= depth {
            now = now.max(drive.next_event().expect("commands are inside"));
            drive.advance(now, &mut done);
        }
        let flush = step.operation == Operation::Flush;
        let bytes = if flush { 0 } else { step.blocks * 4096 };
        let mut command = command(id as u64, step.operation, step.place * 4096, bytes);
        command.force_unit_access = step.forced;
        drive.submit(command, now);
        now += step.pause;
        drive.advance(now, &mut done);
    }
    while let Some(event) = drive.next_event() {
        drive.advance(event, &mut done);
    }
    done
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// Every command ends once, in order of time, with parts that add up; the head reads no two at
    /// a time; the same again gives the same; and a flush at the end leaves nothing.
    #[test]
    fn what_holds_of_any_drive(steps in steps(), which in 0..6usize) {
        let spec = &disks()[which];
        let mut drive = Rotating::new(&spec.name, facts(spec));
        let done = play(&mut drive, &steps);
        let mut ids: Vec<u64> = done.iter().map(|done| done.id).collect();
        prop_assert!(done.windows(2).all(|two| two[0].at <= two[1].at));
        ids.sort_unstable();
        let reads = done.iter().filter(|done| steps[done.id as usize].operation == Operation::Read);
        let of_arm = |parts: &extant_sim::drive::Parts| {
            parts.total() - parts.queued - parts.overhead - parts.bus
        };
        let arm_ns: u64 = reads.map(|done| of_arm(&done.parts)).sum();
        prop_assert!(arm_ns <= done.last().map_or(0, |done| done.at), "the arm does one thing at a \
            time");
        prop_assert_eq!(ids, (0..steps.len() as u64).collect::<Vec<_>>());
        let mut again = Rotating::new(&spec.name, facts(spec));
        prop_assert_eq!(&play(&mut again, &steps), &done);
        let now = done.last().map_or(0, |done| done.at) + 100 * SECOND;
        let flushed = run(&mut drive, command(u64::MAX, Operation::Flush, 0, 0), now);
        prop_assert_eq!(drive.unflushed(flushed.at), vec![]);
    }
}
