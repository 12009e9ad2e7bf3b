//! The host's work before a drive: batches, and what they cost.
use extant_block::Operation::{self, Read, Write};
use extant_sim::drive::file;
use extant_sim::drive::{Command, Done, Drive};
use proptest::prelude::*;

/// A volume whose reads take 100 us each, whatever else it has to do.
const VOLUME: &str = r#"
name = "volume"
kind = "network"
capacity_bytes = 1_073_741_824
queue_depth = 256
read_ms = 0.1
write_ms = 0.1
flush_ms = 0.1
link_bytes_per_s = 1_000_000_000_000
[operations]
per_s = 1_000_000_000
[bytes]
per_s = 1_000_000_000_000
"#;
const HOST: &str = "[host]\nbatch_us = 50\ncommand_us = 15\nbytes_per_s = 4_096_000_000\n";
const MICROSECOND: u64 = 1000;

fn volume(host: &str) -> Box<dyn Drive> {
    file::parse("volume.toml", &format!("{VOLUME}{host}")).expect("it is sound").build(1)
}

fn command(id: u64, operation: Operation) -> Command {
    Command { id, operation, offset: id % 1000 * 4096, bytes: 4096, force_unit_access: false }
}

/// Keeps `depth` reads inside until `count` have ended.
fn closed_loop(drive: &mut dyn Drive, depth: u64, count: u64) -> Vec<Done> {
    let (mut next, mut now, mut ended) = (0, 0, Vec::new());
    let mut arrivals = Vec::new();
    while ended.len() < count as usize {
        while next < count && next - (ended.len() as u64) < depth {
            drive.submit(command(next, Read), now);
            arrivals.push(now);
            next += 1;
        }
        let event = drive.next_event().expect("something is inside");
        assert!(event >= now, "{event} is before {now}");
        now = event;
        drive.advance(now, &mut ended);
    }
    for done in &ended {
        assert_eq!(done.parts.total(), done.at - arrivals[done.id as usize], "{done:?}");
    }
    assert!(ended.is_sorted_by_key(|done| done.at));
    assert_eq!(drive.next_event(), None);
    ended
}

#[test]
fn a_read_takes_the_batch_and_the_work_for_everyone_and_the_drives_own_time() {
    for depth in [1, 2, 4, 16, 64] {
        let ended = closed_loop(&mut *volume(HOST), depth, depth * 10);
        // 15 us, and 1 us for 4 KiB; the volume takes a nanosecond for a byte or so.
        let wanted = (50 + 16 * depth + 100) * MICROSECOND;
        for done in &ended {
            let total = done.parts.total();
            assert!(total.abs_diff(wanted) < 100, "{total} at depth {depth}, not {wanted}");
            assert_eq!(done.parts.overhead, 16 * MICROSECOND);
        }
    }
}

#[test]
fn what_comes_while_a_batch_is_worked_on_waits_for_the_next() {
    let mut drive = volume(HOST);
    drive.submit(command(0, Read), 0);
    // Taken at 50 us, with the one that came by then.
    drive.submit(command(1, Read), 50 * MICROSECOND);
    drive.submit(command(2, Read), 51 * MICROSECOND);
    let mut ended = Vec::new();
    while let Some(event) = drive.next_event() {
        drive.advance(event, &mut ended);
    }
    let ends: Vec<u64> = ended.iter().map(|done| done.at / MICROSECOND).collect();
    // Two batches, of 50 + 32 and 50 + 16 us, and 100 us of the volume after each.
    assert_eq!(ends, [182, 182, 248]);
}

#[test]
fn a_table_without_work_changes_nothing() {
    let times = |host: &str| {
        let ended = closed_loop(&mut *volume(host), 8, 500);
        ended.into_iter().map(|done| (done.id, done.at, done.parts)).collect::<Vec<_>>()
    };
    assert_eq!(times("[host]\n"), times(""));
}

#[test]
fn writes_that_the_host_has_are_lost_at_a_power_cut() {
    let mut drive = volume(HOST);
    for id in 0..3 {
        drive.submit(command(id, Write), 0);
    }
    drive.submit(command(3, Read), 0);
    drive.submit(command(4, Write), 60 * MICROSECOND);
    let ids = |left: Vec<extant_sim::drive::Unflushed>| {
        left.iter().map(|left| (left.id, left.bytes)).collect::<Vec<_>>()
    };
    let held = [(0, 4096), (1, 4096), (2, 4096), (4, 4096)];
    assert_eq!(ids(drive.unflushed(60 * MICROSECOND)), held);
    assert_eq!(ids(drive.power_cut(60 * MICROSECOND)), held);
    assert_eq!((drive.next_event(), ids(drive.unflushed(61 * MICROSECOND))), (None, Vec::new()));
    // It goes on afterwards.
    drive.submit(command(5, Write), 100 * MICROSECOND);
    let mut ended = Vec::new();
    while let Some(event) = drive.next_event() {
        drive.advance(event, &mut ended);
    }
    assert_eq!(ended.iter().map(|done| done.id).collect::<Vec<_>>(), [5]);
    assert_eq!(ids(drive.unflushed(ended[0].at)), []);
}

#[test]
fn what_is_wrong_with_the_table_is_said_in_one_line() {
    let error = |host: &str| {
        let text = format!("{VOLUME}{host}");
        file::parse("volume.toml", &text).expect_err("it is wrong").to_string()
    };
    assert_eq!(
        error("[host]\nbatch = 50"),
        "volume.toml:15: host.batch: no such key; there are batch_us, bytes_per_s, command_us"
    );
    let error_of_time = error("[host]\ncommand_us = -1");
    assert!(error_of_time.starts_with("volume.toml:15: host.command_us:"), "{error_of_time}");
    let error_of_rate = error("[host]\nbytes_per_s = 0");
    assert!(error_of_rate.starts_with("volume.toml:15: host.bytes_per_s:"), "{error_of_rate}");
    let text = format!("{}\n[host]\n", include_str!("../../drives/object-store.toml"));
    let refused = file::parse("store.toml", &text).expect_err("only of two kinds").to_string();
    assert!(refused.contains(" host: no such key"), "{refused}");
}

proptest! {
    #[test]
    fn nothing_is_lost_whatever_the_work(
        batch in 0_u64..2_000_000,
        work in 0_u64..2_000_000,
        rate in 1_u64..1_000_000_000_000,
        depth in 1_u64..70,
    ) {
        let host = format!(
            "[host]\nbatch_us = {}.{:03}\ncommand_us = {}.{:03}\nbytes_per_s = {rate}\n",
            batch / 1000, batch % 1000, work / 1000, work % 1000,
        );
        let ended = closed_loop(&mut *volume(&host), depth, 200);
        let mut ids: Vec<u64> = ended.iter().map(|done| done.id).collect();
        ids.sort_unstable();
        prop_assert!(ids.into_iter().eq(0..200));
    }
}
