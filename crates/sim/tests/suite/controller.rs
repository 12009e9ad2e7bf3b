//! What is known of a drive's controller, mechanism by mechanism, against times that are computed
//! by hand: a drive of one surface that turns in 10 ms, with 100 sectors on a track.
use extant_block::Operation::{self, Read, Write};
use extant_sim::drive::file::{load, load_with, parse, parse_facts};
use extant_sim::drive::{Command, Done, Drive};

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;

const SIMPLE: &str = r#"
name = "simple"
rpm = 6000
heads = 1
cylinders = 1000
head_switch_ms = 0
[overhead_ms]
read_miss = 0.5
read_hit = 0.2
write = 0.4
[cache]
segments = 3
segment_sectors = 64
bus_bytes_per_s = 10_240_000
[seek]
kind = "table"
points = [[1, 1.0], [999, 1.0]]
[[zone]]
cylinders = 1000
sectors_per_track = 100
track_skew = 0
cylinder_skew = 20
"#;

/// The simple drive with more keys in `[cache]` (and in the tables after it).
fn simple(cache: &str) -> Box<dyn Drive> {
    let text = SIMPLE.replace("[cache]", &format!("[cache]\n{cache}"));
    parse("simple.toml", &text).expect("the test's drive").build(0)
}

/// Runs one command to its end; sectors are of 512 bytes.
fn run(drive: &mut dyn Drive, operation: Operation, sector: u64, sectors: u64, now: u64) -> Done {
    let (offset, bytes) = (sector * 512, sectors * 512);
    drive.submit(Command { id: now, operation, offset, bytes, force_unit_access: false }, now);
    let mut done = Vec::new();
    while done.is_empty() {
        let event = drive.next_event().expect("the command is inside");
        drive.advance(event, &mut done);
    }
    assert_eq!(done[0].parts.total(), done[0].at - now, "{:?}", done[0]);
    done[0]
}

/// The end of a read of the sectors 50 to 59, which pass from 5 to 6 ms, in microseconds.
fn first_read(cache: &str) -> u64 {
    run(simple(cache).as_mut(), Read, 50, 10, 0).at / MICROSECOND
}

#[test]
fn the_bus_starts_at_the_water_mark() {
    // A sector is on the medium 0.1 ms, and on the bus 0.05 ms: the last one decides.
    assert_eq!(first_read(""), 6050);
    assert_eq!(first_read("bus_start = 0.5"), 6250, "the second half of it");
    assert_eq!(first_read("bus_start = 1"), 6500, "all of it");
    assert_eq!(
        first_read("bus_start = 0.1\nbus_start_of = \"segment\""),
        6200,
        "7 to 6.05 ms, then 3"
    );
}

#[test]
fn a_slow_bus_goes_on_from_the_water_mark() {
    // 0.2 ms a sector.
    let slow = |cache: &str| {
        let text = SIMPLE.replace("10_240_000", "2_560_000");
        let text = text.replace("[cache]", &format!("[cache]\n{cache}"));
        let mut drive = parse("simple.toml", &text).expect("the test's drive").build(0);
        run(drive.as_mut(), Read, 50, 10, 0).at / MICROSECOND
    };
    assert_eq!(slow(""), 7100);
    assert_eq!(slow("bus_start = 0.5"), 7500);
    assert_eq!(slow("bus_start = 1"), 8000);
}

#[test]
fn the_bus_has_a_rate_for_each_direction() {
    let mut drive = simple("write_back = true\nbus_write_bytes_per_s = 5_120_000");
    let write = run(drive.as_mut(), Write, 50, 10, 0);
    assert_eq!(write.at, 1_400 * MICROSECOND);
    let read = run(drive.as_mut(), Read, 50, 10, write.at);
    assert_eq!(read.at - write.at, 700 * MICROSECOND);
}

#[test]
fn overheads_depend_on_the_operation_before() {
    let text = SIMPLE.replace(
        "write = 0.4",
        "write = 3\nwrite_hit = 0.4\nread_completion = 0.01\nwrite_completion = 0.02\n\
         after_write = { read_hit = 0.6, write_hit = 0.1 }",
    );
    let text = text.replace("[cache]", "[cache]\nwrite_back = true");
    let mut drive = parse("simple.toml", &text).expect("the test's drive").build(0);
    let mut now = 0;
    let mut time = |operation, sector| {
        now += 100 * MILLISECOND;
        let done = run(drive.as_mut(), operation, sector, 1, now);
        (done.at - now) / MICROSECOND
    };
    assert_eq!(time(Write, 10), 400 + 50 + 20);
    assert_eq!(time(Write, 11), 100 + 50 + 20);
    time(Read, 500);
    assert_eq!(time(Read, 500 + 20), 200 + 50 + 10);
    assert_eq!(time(Write, 10), 400 + 50 + 20);
    assert_eq!(time(Read, 500 + 21), 600 + 50 + 10);
}

/// Whether the cache answers each of these reads of one sector, which come 100 ms apart.
fn hits(cache: &str, sectors: &[u64]) -> Vec<bool> {
    let mut drive = simple(cache);
    let mut now = 0;
    let mut hit = |sector: &u64| {
        now += 100 * MILLISECOND;
        run(drive.as_mut(), Read, *sector, 1, now).hit
    };
    sectors.iter().map(&mut hit).collect()
}

#[test]
fn reading_on_begins_at_once_or_with_a_sequence() {
    let row = [10, 11, 12, 13, 14];
    assert_eq!(hits("", &row), [false, true, true, true, true]);
    let on_sequence = "look_ahead = \"on-sequence\"";
    assert_eq!(hits(on_sequence, &row), [false, false, true, true, true]);
    // Two streams: each is a sequence of its own.
    let two = [10, 510, 11, 511, 12, 512];
    assert_eq!(hits(on_sequence, &two), [false, false, false, false, true, true]);
    assert_eq!(hits("look_ahead = \"off\"", &row), [false; 5]);
}

#[test]
fn reading_on_has_a_reach() {
    let reads = [70, 99, 70 + 40];
    assert_eq!(hits("", &reads), [false, true, true]);
    assert_eq!(hits("look_ahead_to = \"track\"", &reads), [false, true, false]);
    assert_eq!(hits("look_ahead_to = \"cylinder\"", &reads), [false, true, false], "one surface");
    assert_eq!(hits("look_ahead_to = \"next-track\"", &reads), [false, true, true]);
    assert_eq!(hits("look_ahead_sectors = 28", &[70, 99]), [false, false]);
    assert_eq!(hits("look_ahead_sectors = 29", &[70, 99]), [false, true]);
    // The segment is full with the read and the 63 after it, or with the 64 after it.
    assert_eq!(hits("keep_request = true", &[20, 20 + 64]), [false, false]);
    assert_eq!(hits("", &[20, 20 + 64]), [false, true]);
    assert_eq!(hits("keep_request = true", &[20, 20]), [false, true]);
    assert_eq!(hits("", &[20, 20]), [false, false], "pushed out by what was read on");
    // After a hit it goes on, or not.
    let far = [20, 60, 60 + 64];
    assert_eq!(hits("", &far), [false, true, true]);
    assert_eq!(hits("look_ahead_after_hit = false", &far), [false, true, false]);
}

#[test]
fn sectors_that_pass_before_the_first_one_can_be_kept() {
    // Ready at 100.5 ms: the head waits from sector 5 on.
    assert_eq!(hits("look_ahead = \"off\"", &[50, 45]), [false, false]);
    let kept = "look_ahead = \"off\"\nread_before = true";
    assert_eq!(hits(kept, &[50, 45]), [false, true]);
    assert_eq!(hits(kept, &[50, 4]), [false, false]);
}

#[test]
fn what_was_written_can_stay_readable() {
    let second = |cache: &str| {
        let mut drive = simple(cache);
        run(drive.as_mut(), Write, 50, 4, 0);
        run(drive.as_mut(), Read, 51, 2, 100 * MILLISECOND).hit
    };
    assert!(!second(""));
    assert!(second("keep_written = true"));
    assert!(!second("write_back = true"));
    assert!(second("write_back = true\nkeep_written = true\nseparate_write_segment = true"));
}

#[test]
fn a_read_as_sectors_pass_ends_within_a_turn() {
    // Ready at 0.5 ms, in front of sector 5: 5 to 9 first, then 0 to 4 until 10.5 ms.
    assert_eq!(run(simple("").as_mut(), Read, 0, 10, 0).at, 11_050 * MICROSECOND);
    let passed = run(simple("read_order = \"as-passed\"").as_mut(), Read, 0, 10, 0).at;
    assert!(passed.abs_diff(10_600 * MICROSECOND) <= 60 * MICROSECOND, "{passed}");
}

#[test]
fn a_write_starts_when_no_sector_comes_too_late() {
    // From 0.4 ms the data come in 0.05 ms a sector: sector 5 can be written at 0.5 ms.
    assert_eq!(run(simple("").as_mut(), Write, 5, 40, 0).at, 4_500 * MICROSECOND);
    // In 0.2 ms a sector: the last of 10 has come at 2.4 ms, so that the first may not start
    // before 1.5 ms.
    let slow = "bus_write_bytes_per_s = 2_560_000";
    assert_eq!(run(simple(slow).as_mut(), Write, 15, 10, 0).at, 2_500 * MICROSECOND);
    assert_eq!(run(simple(slow).as_mut(), Write, 14, 10, 0).at, 12_400 * MICROSECOND);
}

#[test]
fn a_limited_write_cache_takes_what_appends() {
    let cache = "write_back = true\nwrite_runs = 1\nwrite_segments = 2";
    let mut drive = simple(cache);
    let first = run(drive.as_mut(), Write, 50, 4, 0);
    let next = run(drive.as_mut(), Write, 54, 4, first.at);
    assert_eq!(next.at - first.at, 600 * MICROSECOND, "it appends");
    let other = run(drive.as_mut(), Write, 500, 4, next.at);
    assert!(other.at - next.at > MILLISECOND, "it waits for the medium: {other:?}");
}

#[test]
fn facts_are_read_in_the_words_of_disksim() {
    let facts = "[controller]\nhigh_read_water_mark = 1\nbulk_sector_transfer_time = 0.2\n\
        max_queue_length = 7\nread_miss_over_after_read = 1.5\n[bus]\n\
        read_block_transfer_ms = 0.05\nwrite_block_transfer_ms = 0\n";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("simple.toml");
    std::fs::write(&file, SIMPLE).expect("written");
    let end = |spec: &extant_sim::drive::file::DriveSpec| {
        run(spec.build(0).as_mut(), Read, 50, 10, 0).at / MICROSECOND
    };
    let plain = load(&file).expect("a drive");
    assert_eq!((plain.facts.clone(), end(&plain)), (None, 6050));
    let elsewhere = folder.path().join("elsewhere.toml");
    std::fs::write(&elsewhere, facts).expect("written");
    let named = load_with(&file, Some(&elsewhere)).expect("a drive with facts");
    assert_eq!(end(&named), 6500);
    std::fs::create_dir(folder.path().join("facts")).expect("made");
    std::fs::write(folder.path().join("facts/simple.toml"), facts).expect("written");
    let beside = load(&file).expect("a drive with facts");
    assert!(beside.facts.is_some_and(|facts| facts.ends_with("facts/simple.toml")));
    let inside = parse("simple.toml", &format!("{SIMPLE}{facts}")).expect("a drive with facts");
    assert_eq!(end(&inside), 6500);
    // A key of our own in the drive file is kept.
    let own = SIMPLE.replace("[cache]", "[cache]\nbus_start = 0");
    let inside = parse("simple.toml", &format!("{own}{facts}")).expect("a drive with facts");
    assert_eq!(end(&inside), 6050);
}

#[test]
fn a_write_that_the_cache_cannot_hold_goes_past_it() {
    for size in ["segment_size_in_blks = 1", "segment_size_in_blks = 7"] {
        let facts = format!("{SIMPLE}[controller]\n{size}\nfast_write_level = 2\n");
        let mut drive = parse("simple.toml", &facts).expect("a drive with facts").build(0);
        let one = run(drive.as_mut(), Write, 30, 1, 0);
        assert!(one.hit, "{one:?}");
        // The sectors 50 to 57 pass from 15 to 15.8 ms.
        let large = run(drive.as_mut(), Write, 50, 8, 10 * MILLISECOND);
        assert!(!large.hit && large.at == 15_800 * MICROSECOND, "{large:?}");
        // Over sectors that the cache holds the older ones go first.
        let one = run(drive.as_mut(), Write, 50, 1, 20 * MILLISECOND);
        let large = run(drive.as_mut(), Write, 50, 8, one.at);
        assert!(one.hit && large.at > 35 * MILLISECOND, "{large:?}");
    }
}

/// Milliseconds of sequential writes of 50 sectors (half a track), all of them inside.
fn queued_writes(depth: usize, cache: &str) -> u64 {
    let text = SIMPLE.replace("heads = 1", &format!("heads = 1\nqueue_depth = {depth}"));
    let text = text.replace("[cache]", &format!("[cache]\n{cache}"));
    let mut drive = parse("simple.toml", &text).expect("the test's drive").build(0);
    let (mut done, mut now, mut sent) = (Vec::new(), 0, 0);
    while done.len() < 32 {
        while sent < 32 && sent - done.len() < depth {
            let (id, offset) = (sent as u64, sent as u64 * 50 * 512);
            let (operation, bytes) = (Write, 50 * 512);
            drive.submit(Command { id, operation, offset, bytes, force_unit_access: false }, now);
            sent += 1;
        }
        now = drive.next_event().expect("commands are inside");
        drive.advance(now, &mut done);
    }
    now / MILLISECOND
}

#[test]
fn data_of_queued_writes_come_while_the_arm_works() {
    // Each write loses the rest of its turn, and at each second one a cylinder's skew of 2 ms is
    // waited for.
    let alone = queued_writes(1, "");
    assert!(alone > 32 * 10, "{alone}");
    // Each takes half a turn. The first one waits for its sector.
    let queued = queued_writes(4, "");
    assert!(queued <= 10 + 32 * 5 + 16 * 2, "{queued} against {alone}");
    let nowhere = queued_writes(4, "write_segments = 0");
    println!("{alone} ms one at a time, {queued} of four, {nowhere} without a segment for them");
    assert!(nowhere > queued + 32, "{nowhere}: their data have nowhere to be");
}

#[test]
fn no_segment_for_writes_is_no_write_cache() {
    let of = |segments: u64| {
        let facts = format!(
            "{SIMPLE}[controller]\nmaximum_number_of_write_segments = {segments}\n\
             fast_write_level = 2\n"
        );
        let mut drive = parse("simple.toml", &facts).expect("a drive with facts").build(0);
        run(drive.as_mut(), Write, 50, 8, 0)
    };
    assert!(of(1).hit);
    assert_eq!((of(0).hit, of(0).at), (false, 5_800 * MICROSECOND));
}

#[test]
fn bad_facts_are_one_line() {
    let cases = [
        ("", "facts.toml:1: has no table controller, and no table bus"),
        (
            "[controller]\nbuffer_continuous_read = 5",
            "facts.toml:2: controller.buffer_continuous_read: has to lie within 0 and 4, not 5",
        ),
        (
            "[controller]\nprint_stats = 1\nread_hit_over_after_write = -1",
            "facts.toml:3: controller.read_hit_over_after_write: has to lie within 0 and 1000, \
             not -1",
        ),
        (
            "[controller]\nhigh_read_water_mark = \"all\"",
            "facts.toml:2: controller.high_read_water_mark: has to be a number",
        ),
        (
            "[controller]\nfast_write_level = 1\nread_any_free_blcks = 1",
            "facts.toml:3: controller.read_any_free_blcks: no such key; the nearest one is \
             read_any_free_blocks",
        ),
        (
            "[controller]\nminimum_read_ahead_blks = 65\nmaximum_read_ahead_blks = 64",
            "facts.toml:2: controller.minimum_read_ahead_blks: has to be at most \
             maximum_read_ahead_blks, which is 64",
        ),
        (
            "[controller]\nsegment_size_in_blks = 64\nminimum_read_ahead_blks = 65",
            "facts.toml:3: controller.minimum_read_ahead_blks: has to be at most \
             segment_size_in_blks, which is 64",
        ),
        ("[controller]\ncolour = 1", "facts.toml:2: controller.colour: no such key"),
        (
            "[controller]\nprint_stats = \"no\"",
            "facts.toml:2: controller.print_stats: has to be a number",
        ),
        (
            "[bus]\nread_block_transfer_ms = 1e30",
            "facts.toml:2: bus.read_block_transfer_ms: has to be a number that a drive can have; \
             this one is too large",
        ),
        (
            "[bus]\n[cache]",
            "facts.toml:2: cache: no such key; there are about, bus, controller, name",
        ),
    ];
    for (text, message) in cases {
        let error = parse_facts("facts.toml", text).expect_err(text);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn facts_of_another_drive_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, facts) = (folder.path().join("simple.toml"), folder.path().join("facts.toml"));
    std::fs::write(&file, SIMPLE).expect("written");
    let load_named = |name: &str| {
        let text = format!("{name}[controller]\nfast_write_level = 0\n");
        std::fs::write(&facts, text).expect("written");
        load_with(&file, Some(&facts))
    };
    load_named("").expect("facts without a name");
    load_named("name = \"simple\"\n").expect("facts of this drive");
    let error = load_named("about = \"words\"\nname = \"other\"\n").expect_err("of another");
    let line = error.to_string();
    assert!(line.contains("facts.toml:2: name: these are the facts of \"other\""), "{line}");
    assert!(line.ends_with("simple.toml is called \"simple\""), "{line}");
}
