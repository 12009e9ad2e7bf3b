//! Traces are read back as they were written, other tools read them, and damaged ones are refused
//! in one line.
use extant_block::Operation;
use extant_sim::drive::Parts;
use extant_sim::random::Random;
use extant_sim::trace::{TraceError, TraceFormat, TraceRecord, read, write};
use proptest::prelude::*;
use std::io::Write;
use std::process::{Command, Stdio};

fn written(format: TraceFormat, records: &[TraceRecord]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(format, records, "/dev/drive", &mut bytes).expect("writes to memory");
    bytes
}

/// Commands in flight side by side, no two of them on the same sectors.
fn sample(count: u64, seed: u64) -> Vec<TraceRecord> {
    let mut random = Random::new(seed);
    let mut now = 0;
    let mut records = Vec::new();
    for i in 0..count {
        now += random.below(2_000_000);
        let operation = match random.below(10) {
            0 => Operation::Flush,
            1..4 => Operation::Write,
            _ => Operation::Read,
        };
        let bytes = if operation == Operation::Flush { 0 } else { 512 * random.within(1..100) };
        let offset = if bytes == 0 { 0 } else { (i * 7919 % count) * 65536 };
        let dispatch = now + random.below(1_000_000);
        let times = [now, dispatch, dispatch + random.below(10_000_000)];
        let stream = random.below(5) as u32;
        records.push(TraceRecord { stream, ..TraceRecord::plain(operation, offset, bytes, times) });
    }
    // Flushes look alike: they end in the order in which they came.
    let mut last = [0; 3];
    for record in records.iter_mut().filter(|record| record.bytes == 0) {
        let times = [record.arrival_ns, record.dispatch_ns, record.completion_ns];
        for (last, time) in last.iter_mut().zip(times) {
            *last = time.max(*last);
        }
        [record.arrival_ns, record.dispatch_ns, record.completion_ns] = last;
    }
    records
}

#[test]
fn blktrace_comes_back_as_it_was() {
    let records = sample(3000, 1);
    let bytes = written(TraceFormat::Blktrace, &records);
    assert_eq!(bytes.len(), 3000 * 3 * 48);
    assert_eq!(read(TraceFormat::Blktrace, &bytes).expect("it is sound"), records);
    // The same from a machine of the other byte order.
    let mut swapped = bytes.clone();
    for record in swapped.chunks_mut(48) {
        for (at, length) in [
            (0, 4),
            (4, 4),
            (8, 8),
            (16, 8),
            (24, 4),
            (28, 4),
            (32, 4),
            (36, 4),
            (40, 4),
            (44, 2),
            (46, 2),
        ] {
            record[at..at + length].reverse();
        }
    }
    assert_eq!(read(TraceFormat::Blktrace, &swapped).expect("it is sound"), records);
}

#[test]
fn disksim_keeps_arrival_place_and_size() {
    let records = sample(3000, 2);
    let bytes = written(TraceFormat::DiskSim, &records);
    let transfers = records.iter().filter(|record| record.operation != Operation::Flush);
    let kept: Vec<TraceRecord> = transfers
        .map(|record| {
            TraceRecord::plain(
                record.operation,
                record.offset,
                record.bytes,
                [record.arrival_ns; 3],
            )
        })
        .collect();
    assert_eq!(read(TraceFormat::DiskSim, &bytes).expect("it is sound"), kept);
}

#[test]
fn disksim_lines_are_as_documented() {
    let records = [
        TraceRecord::plain(Operation::Read, 4096, 1024, [1_500_001, 2, 3]),
        TraceRecord::plain(Operation::Write, 0, 512, [0, 2, 3]),
    ];
    let text = String::from_utf8(written(TraceFormat::DiskSim, &records)).expect("it is text");
    assert_eq!(text, "0.000000 0 0 1 0\n1.500001 0 8 2 1\n");
    let foreign = b"6.5 1 3962268 12 0x1\r\n\n  7 0 8 1 40\n";
    let read = read(TraceFormat::DiskSim, foreign).expect("it is sound");
    assert_eq!(read[0], TraceRecord::plain(Operation::Read, 3962268 * 512, 6144, [6_500_000; 3]));
    assert_eq!(read[1].operation, Operation::Write);
}

#[test]
fn merged_and_split_commands_come_apart() {
    let plain = |offset, bytes, times| TraceRecord::plain(Operation::Write, offset, bytes, times);
    let queued = [plain(0, 4096, [1, 90, 90]), plain(4096, 4096, [2, 91, 91])];
    let merged = plain(0, 8192, [80, 10, 20]);
    let bytes = written(TraceFormat::Blktrace, &queued);
    let events: Vec<&[u8]> = bytes.chunks(48).collect();
    let mut carrier = merged;
    (carrier.arrival_ns, carrier.dispatch_ns, carrier.completion_ns) = (0, 10, 20);
    let carriers = written(TraceFormat::Blktrace, &[carrier]);
    let carriers: Vec<&[u8]> = carriers.chunks(48).collect();
    // Two Qs, and the D and C of one command that covers both.
    let stream = [events[0], events[1], carriers[1], carriers[2]].concat();
    let found = read(TraceFormat::Blktrace, &stream).expect("it is sound");
    assert_eq!(found, [plain(0, 4096, [1, 10, 20]), plain(4096, 4096, [2, 10, 20])]);
    // One Q, dispatched as two.
    let halves =
        written(TraceFormat::Blktrace, &[plain(0, 4096, [0, 5, 7]), plain(4096, 4096, [0, 6, 9])]);
    let halves: Vec<&[u8]> = halves.chunks(48).collect();
    let stream = [carriers[0], halves[2], halves[3], halves[4], halves[5]].concat();
    let found = read(TraceFormat::Blktrace, &stream).expect("it is sound");
    assert_eq!(found, [plain(0, 4096, [0, 5, 7]), plain(4096, 4096, [0, 6, 9])]);
}

#[test]
fn what_never_completed_is_left_out() {
    let records = sample(50, 3);
    let bytes = written(TraceFormat::Blktrace, &records);
    let cut = read(TraceFormat::Blktrace, &bytes[..bytes.len() - 48]).expect("it is sound");
    assert_eq!(cut.len(), 49);
}

#[test]
fn damage_is_named_by_line_or_record() {
    let error = |format, bytes: &[u8]| read(format, bytes).expect_err("it is damaged").to_string();
    let disksim = |text: &str| error(TraceFormat::DiskSim, text.as_bytes());
    let sound = "0.0 0 0 1 1\n";
    assert_eq!(
        disksim(&format!("{sound}1.0 0 0 1\n")),
        "line 2: it has 4 fields, not arrival, device, block, size and flags"
    );
    assert_eq!(
        disksim(&format!("{sound}{sound}x 0 0 1 1")),
        "line 3: the arrival \"x\" is no time in milliseconds"
    );
    assert!(disksim("5.0 0 0 1 1\n1.0 0 0 1 1\n").starts_with("line 2: it arrives before"));
    assert!(disksim("1e300 0 0 1 1\n").starts_with("line 1"));
    assert!(disksim("1.0 0 0 0 1\n").starts_with("line 1"));
    assert!(disksim("1.0 0 99999999999999999 1 1\n").contains("beyond any drive"));
    assert!(disksim("99999999999999999999 0 0 1 1\n").starts_with("line 1"));
    assert!(error(TraceFormat::DiskSim, &[b'1'; 100_000]).contains("too long"));
    let bytes = written(TraceFormat::Blktrace, &sample(3, 4));
    assert_eq!(
        error(TraceFormat::Blktrace, &bytes[..100]),
        "record 3 at byte 96: 4 bytes are left of its 48"
    );
    let mut damaged = bytes.clone();
    damaged[48] = 0;
    assert!(
        error(TraceFormat::Blktrace, &damaged)
            .starts_with("record 2 at byte 48: it begins with 0x65617400")
    );
    let mut longer = bytes.clone();
    longer[46] = 200;
    longer.truncate(48);
    assert_eq!(
        error(TraceFormat::Blktrace, &longer),
        "record 1 at byte 0: its 200 further bytes are not all there"
    );
    let mut beyond = bytes;
    beyond[16..24].fill(0xff);
    beyond[24] = 1;
    assert!(error(TraceFormat::Blktrace, &beyond).contains("beyond any drive"));
}

#[test]
fn formats_have_names_and_some_are_only_written() {
    for (name, format) in TraceFormat::NAMES {
        assert_eq!(name.parse::<TraceFormat>().expect("it is a name"), format);
    }
    let unknown = "pcap".parse::<TraceFormat>().expect_err("it is none").to_string();
    assert_eq!(
        unknown,
        "no trace format is called \"pcap\"; there are disksim blktrace fio-iolog fio-iolog-3"
    );
    assert!(matches!(read(TraceFormat::FioIolog, b""), Err(TraceError::NotRead(_))));
    let odd = [TraceRecord::plain(Operation::Read, 100, 512, [0; 3])];
    assert!(matches!(
        write(TraceFormat::DiskSim, &odd, "x", &mut Vec::new()),
        Err(TraceError::Unwritable { record: 1, .. })
    ));
    assert!(matches!(
        write(TraceFormat::FioIolog, &[], "a b", &mut Vec::new()),
        Err(TraceError::UnwritableName(_))
    ));
}

#[test]
fn iologs_are_as_the_manual_has_them() {
    let records = [
        TraceRecord::plain(Operation::Read, 4096, 1024, [1_500_001, 2, 3]),
        TraceRecord::plain(Operation::Flush, 0, 0, [2_000_000, 2, 3]),
        TraceRecord::plain(Operation::Write, 0, 512, [0, 2, 3]),
    ];
    let two = "fio version 2 iolog\n/dev/drive add\n/dev/drive open\n/dev/drive write 0 \
        512\n/dev/drive read 4096 1024\n\
               /dev/drive sync 0 0\n/dev/drive close\n";
    let three = "fio version 3 iolog\n0 /dev/drive add\n0 /dev/drive open\n0 /dev/drive write 0 \
        512\n\
                 1500 /dev/drive read 4096 1024\n2000 /dev/drive sync 0 0\n2000 /dev/drive close\n";
    assert_eq!(String::from_utf8_lossy(&written(TraceFormat::FioIolog, &records)), two);
    assert_eq!(String::from_utf8_lossy(&written(TraceFormat::FioIologTimed, &records)), three);
}

#[test]
fn records_survive_json() {
    let parts = Parts { queued: 1, seek: 5, ..Parts::default() };
    let record = TraceRecord { parts, hit: true, queue_depth: 3, ..sample(1, 1)[0] };
    let text = serde_json::to_string(&record).expect("it is plain data");
    assert_eq!(serde_json::from_str::<TraceRecord>(&text).expect("it is its own"), record);
}

/// What a tool prints for this input; `None` with a note when it is not installed.
fn output_of(command: &mut Command, input: &[u8]) -> Option<String> {
    let spawned =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = spawned else {
        eprintln!("note: {command:?} is not installed; not compared");
        return None;
    };
    child.stdin.take().expect("it is piped").write_all(input).expect("the tool reads its input");
    let output = child.wait_with_output().expect("the tool ends");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn blkparse_reads_what_we_write() {
    let records = sample(60, 5);
    let bytes = written(TraceFormat::Blktrace, &records);
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("run.blktrace.0"), &bytes).expect("a file");
    let mut command = Command::new("blkparse");
    command.current_dir(directory.path()).args(["-q", "-i", "run", "-f", "%a %d %S %N %p %T.%t\n"]);
    let Some(text) = output_of(&mut command, b"") else {
        return;
    };
    let mut events: Vec<&str> =
        text.lines().filter(|line| line.starts_with(['Q', 'D', 'C'])).collect();
    let start = records[0].arrival_ns;
    let mut expected = Vec::new();
    for record in &records {
        let kind = match record.operation {
            Operation::Read => "R",
            Operation::Write => "W",
            Operation::Flush => "FW",
        };
        let stages =
            [('Q', record.arrival_ns), ('D', record.dispatch_ns), ('C', record.completion_ns)];
        for (what, time) in stages.map(|(what, time)| (what, time - start)) {
            let (sector, bytes, stream) = (record.offset / 512, record.bytes, record.stream);
            let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
            expected.push(format!("{what} {kind} {sector} {bytes} {stream} {seconds}.{rest:09}"));
        }
    }
    events.sort_unstable();
    expected.sort_unstable();
    assert_eq!(events, expected);
}

#[test]
fn fio_replays_what_we_write() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("drive");
    std::fs::write(&file, vec![0; 1 << 20]).expect("a file");
    let records: Vec<TraceRecord> = (0..16)
        .map(|i| {
            let operation = if i % 4 == 0 { Operation::Write } else { Operation::Read };
            TraceRecord::plain(operation, i * 65536, 8192, [i * 1_000_000; 3])
        })
        .collect();
    for format in [TraceFormat::FioIolog, TraceFormat::FioIologTimed] {
        let log = directory.path().join("log");
        let mut bytes = Vec::new();
        write(format, &records, &file.display().to_string(), &mut bytes).expect("writes to memory");
        std::fs::write(&log, &bytes).expect("a file");
        let mut command = Command::new("fio");
        command.args([
            "--name=replay",
            "--output-format=json",
            &format!("--read_iolog={}", log.display()),
        ]);
        let Some(text) = output_of(&mut command, b"") else {
            return;
        };
        let json: serde_json::Value = serde_json::from_str(&text).expect("fio prints JSON");
        let job = &json["jobs"][0];
        assert_eq!(
            (job["read"]["total_ios"].as_u64(), job["read"]["io_bytes"].as_u64()),
            (Some(12), Some(12 * 8192))
        );
        assert_eq!(
            (job["write"]["total_ios"].as_u64(), job["write"]["io_bytes"].as_u64()),
            (Some(4), Some(4 * 8192))
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_bytes_make_a_reader_fall(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(TraceFormat::DiskSim, &bytes);
        let _ = read(TraceFormat::Blktrace, &bytes);
    }

    #[test]
    fn no_digits_make_a_reader_fall(text in "[0-9a-f.x \n-]{0,200}") {
        if let Ok(records) = read(TraceFormat::DiskSim, text.as_bytes()) {
            let text = written(TraceFormat::DiskSim, &records);
            prop_assert_eq!(read(TraceFormat::DiskSim, &text).expect("it is ours"), records);
        }
    }

    #[test]
    fn no_field_makes_a_reader_fall(
        seed in any::<u64>(),
        hits in proptest::collection::vec((0usize..48, any::<u8>()), 1..40)
    ) {
        let mut bytes = written(TraceFormat::Blktrace, &sample(10, seed));
        for (index, (at, value)) in hits.iter().enumerate() {
            // Magic and length stay, so that the rest is looked at.
            if (4..46).contains(at) {
                bytes[(index * 7 % 30) * 48 + at] = *value;
            }
        }
        if let Ok(records) = read(TraceFormat::Blktrace, &bytes) {
            prop_assert!(records.len() <= 60);
            let in_order = |record: &TraceRecord| {
                [record.arrival_ns, record.dispatch_ns, record.completion_ns].is_sorted()
            };
            prop_assert!(records.iter().all(in_order));
        }
    }
}
