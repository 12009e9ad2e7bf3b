//! Traces of other systems: read as their descriptions say, volume by volume, and replayed.
use extant_block::Operation;
use extant_sim::drive::file::by_name;
use extant_sim::random::Random;
use extant_sim::replay::{
    Beyond, Changed, Pace, Replayed, replay_at_recorded_times, replay_requests,
};
use extant_sim::trace::requests::{Request, RequestFormat, RequestReader};
use extant_sim::trace::{Recognised, TraceFormat, TraceRecord, recognise, write};
use extant_testkit::skips::skip;
use proptest::prelude::*;
use std::process::{Command, Stdio};

const FORMATS: [RequestFormat; 6] = [
    RequestFormat::Msr,
    RequestFormat::Alibaba,
    RequestFormat::Tencent,
    RequestFormat::FioIolog,
    RequestFormat::Blkparse,
    RequestFormat::OracleGeneral,
];

type Requests = Result<Vec<Request>, String>;

fn read(format: RequestFormat, bytes: &[u8], volume: Option<&str>) -> Requests {
    let mut reader = RequestReader::new(bytes, format, volume);
    let mut requests = Vec::new();
    while let Some(request) = reader.next_request().map_err(|error| error.to_string())? {
        requests.push(request);
    }
    Ok(requests)
}

fn all(format: RequestFormat, bytes: &[u8]) -> Vec<Request> {
    read(format, bytes, None).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(format: RequestFormat, bytes: &[u8]) -> String {
    read(format, bytes, None).expect_err("it is damaged")
}

fn request(
    arrival_ns: u64,
    operation: Operation,
    offset: u64,
    bytes: u64,
    measured_ns: Option<u64>,
) -> Request {
    Request { arrival_ns, operation, offset, bytes, measured_ns }
}

const MSR: &str = "128166372003061629,hm,0,Read,383496192,32768,413\n\
                   128166372003161629,hm,0,Write,2822144,4096,1000000\n";

/// Times are tenths of microseconds, from the first request on; the README of the traces.
#[test]
fn msr_is_read_as_its_readme_says() {
    let expected = [
        request(0, Operation::Read, 383_496_192, 32768, Some(41_300)),
        request(10_000_000, Operation::Write, 2_822_144, 4096, Some(100_000_000)),
    ];
    assert_eq!(all(RequestFormat::Msr, MSR.as_bytes()), expected);
    let headed = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n{MSR}");
    assert_eq!(all(RequestFormat::Msr, headed.as_bytes()), expected);
}

/// The example of the README: device 0, R, 126703644672, 4096, 1577808000000626 us.
#[test]
fn alibaba_is_read_as_its_readme_says() {
    let text = "0,R,126703644672,4096,1577808000000626\n0,W,8192,16384,1577808000001000\n";
    let expected = [
        request(0, Operation::Read, 126_703_644_672, 4096, None),
        request(374_000, Operation::Write, 8192, 16384, None),
    ];
    assert_eq!(all(RequestFormat::Alibaba, text.as_bytes()), expected);
}

/// Seconds, sectors of 512 bytes, 0 reads and 1 writes.
#[test]
fn tencent_is_read_as_its_readme_says() {
    let text = "1538323199,105352008,584,1,1576\n1538323201,8,8,0,1576\n";
    let expected = [
        request(0, Operation::Write, 105_352_008 * 512, 584 * 512, None),
        request(2_000_000_000, Operation::Read, 4096, 4096, None),
    ];
    assert_eq!(all(RequestFormat::Tencent, text.as_bytes()), expected);
}

#[test]
fn both_versions_of_fio_are_read_as_its_manual_says() {
    let two = "fio version 2 iolog\n/f add\n/f open\n/f read 1011712 4096\n/f wait 1500 0\n/f \
               write 0 512\n/f datasync 0 0\n/f trim 0 512\n/f close\n";
    let expected = [
        request(0, Operation::Read, 1_011_712, 4096, None),
        request(1_500_000, Operation::Write, 0, 512, None),
        request(1_500_000, Operation::Flush, 0, 0, None),
    ];
    assert_eq!(all(RequestFormat::FioIolog, two.as_bytes()), expected);
    // As fio 3.33 wrote it.
    let three = "fio version 3 iolog\n33 /tmp/f add\n32741 /tmp/f open\n32758 /tmp/f read 1011712 \
                 4096\n32801 /tmp/f write 14143488 4096\n180335 /tmp/f close\n";
    let expected = [
        request(0, Operation::Read, 1_011_712, 4096, None),
        request(43_000, Operation::Write, 14_143_488, 4096, None),
    ];
    assert_eq!(all(RequestFormat::FioIolog, three.as_bytes()), expected);
    let mut reader = RequestReader::new(two.as_bytes(), RequestFormat::FioIolog, None);
    while reader.next_request().expect("it is sound").is_some() {}
    assert_eq!((reader.volume().as_str(), reader.counts().left_out), ("/f", 1));
}

/// The example of blkparse's manual, with what is left out beside it.
#[test]
fn blkparse_is_read_as_its_manual_says() {
    let text = "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n\
                \x20 8,0    3        2     0.000001829   697  P   N [kjournald]\n\
                \x20 8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]\n\
                \x20 8,0    3        4     0.000003000   697  Q  RA 16 + 8 [cat]\n\
                \x20 8,0    3        5     0.000004000   697  Q FWS [kjournald]\n\
                \x20 8,0    3        6     0.000005000   697  Q   D 16 + 8 [fstrim]\n\
                \x20 8,0    3        7     0.000006000   697  D   W 223490 + 8 [kjournald]\n\
                \x20 8,0    3        8     1.000000000     0  C   W 223490 + 8 [0]\n\
                CPU3 (sda):\n Reads Queued:           1,        4KiB\n";
    let expected = [
        request(0, Operation::Write, 223_490 * 512, 4096, None),
        request(803, Operation::Read, 8192, 4096, None),
        request(1803, Operation::Flush, 0, 0, None),
    ];
    assert_eq!(all(RequestFormat::Blkparse, text.as_bytes()), expected);
    // A packet command has no blocks; a transfer without them was cut off.
    let packet = "8,0 3 1 0.0 697 Q R 36 (12 00 00 00 24 00) [hald]\n";
    assert_eq!(all(RequestFormat::Blkparse, packet.as_bytes()), []);
    let cut = refusal(RequestFormat::Blkparse, b"8,0 3 1 0.0 697 Q W 223490\n");
    assert!(cut.contains("the number of sectors is missing"), "{cut}");
    let dispatched = "8,0 3 7 0.000006000 697 D W 223490 + 8 [kjournald]\n\
                      8,0 3 9 0.000007000 697 Q W 8 + 8 [kjournald]\n";
    assert_eq!(all(RequestFormat::Blkparse, dispatched.as_bytes()), [expected[0]]);
}

fn object(time: u32, object: u64, bytes: u32) -> Vec<u8> {
    let mut record = time.to_le_bytes().to_vec();
    record.extend(object.to_le_bytes());
    record.extend(bytes.to_le_bytes());
    record.extend((-1i64).to_le_bytes());
    record
}

/// Packed: 4 bytes of time, 8 of the object, 4 of its size, 8 of the next access.
#[test]
fn oracle_general_is_read_as_its_header_says() {
    let bytes = [object(7, 16, 4096), object(7, u64::MAX, 100), object(9, 0, 0)].concat();
    let requests = all(RequestFormat::OracleGeneral, &bytes);
    assert_eq!(requests[0], request(0, Operation::Read, 8192, 4096, None));
    assert_eq!((requests.len(), requests[1].bytes), (2, 100));
    assert!(requests[1].offset < 1 << 62);
    let cut = &bytes[..30];
    assert_eq!(
        refusal(RequestFormat::OracleGeneral, cut),
        "record 2 at byte 24: 6 bytes are left of its 24"
    );
}

#[test]
fn formats_are_recognised_by_their_first_bytes() {
    let requests = |format| Some(Recognised::Requests(format));
    let blkparse = b"  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n";
    let cases: [(&[u8], Option<Recognised>); 13] = [
        (MSR.as_bytes(), requests(RequestFormat::Msr)),
        (
            b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n1,a,0,Read,0,512,3\n",
            requests(RequestFormat::Msr),
        ),
        (b"0,R,126703644672,4096,1577808000000626\n", requests(RequestFormat::Alibaba)),
        (b"1538323199,105352008,584,1,1576\n", requests(RequestFormat::Tencent)),
        (b"fio version 2 iolog\n/f add\n", requests(RequestFormat::FioIolog)),
        (b"fio version 3 iolog\n0 /f add\n", requests(RequestFormat::FioIolog)),
        (blkparse, requests(RequestFormat::Blkparse)),
        (b"0.5 0 100 8 1\n", Some(Recognised::DiskSim)),
        (b"R Hit 3962268 12 6657.0 64047.0\n", Some(Recognised::Measured)),
        (b"\x07\x74\x61\x65 and so on", Some(Recognised::Blktrace)),
        (b"nothing of that kind\n", None),
        (b"", None),
        (b"\n\n", None),
    ];
    for (start, expected) in cases {
        assert_eq!(recognise(start), expected, "{}", String::from_utf8_lossy(start));
    }
    let objects = [object(7, 16, 4096), object(8, 3, 1000)].concat();
    assert_eq!(recognise(&objects), requests(RequestFormat::OracleGeneral));
    let back = [object(9, 16, 4096), object(8, 3, 1000)].concat();
    assert_eq!(recognise(&back), None);
}

#[test]
fn one_volume_is_read_of_a_trace_that_mixes_several() {
    let cases = [
        (
            RequestFormat::Msr,
            "1,usr,0,Read,0,512,1\n2,usr,1,Read,512,512,1\n3,prn,0,Read,1024,512,1\n4,usr,1,Read,0,\
             512,1\n",
            ["usr.0", "usr.1", "prn.0"],
        ),
        (
            RequestFormat::Alibaba,
            "7,R,0,512,1\n8,R,512,512,2\n9,R,1024,512,3\n8,R,0,512,4\n",
            ["7", "8", "9"],
        ),
        (RequestFormat::Tencent, "1,0,1,0,7\n2,1,1,0,8\n3,2,1,0,9\n4,0,1,0,8\n", ["7", "8", "9"]),
        (
            RequestFormat::FioIolog,
            "fio version 2 iolog\n/a read 0 512\n/b read 512 512\n/c read 1024 512\n/b read 0 \
             512\n",
            ["/a", "/b", "/c"],
        ),
        (
            RequestFormat::Blkparse,
            "8,0 0 1 1.0 1 Q R 0 + 1 [a]\n8,1 0 1 2.0 1 Q R 1 + 1 [a]\n8,2 0 1 3.0 1 Q R 2 + 1 \
             [a]\n8,1 0 1 4.0 1 Q R 0 + 1 [a]\n",
            ["8,0", "8,1", "8,2"],
        ),
    ];
    for (format, text, volumes) in cases {
        let error = refusal(format, text.as_bytes());
        let [first, busiest, last] = volumes;
        let (one, other) = if first < last { (first, last) } else { (last, first) };
        assert_eq!(error, format!("the trace mixes 3 volumes: {busiest}, {one}, {other}"));
        let places = |volume: &str| -> Vec<u64> {
            let requests = read(format, text.as_bytes(), Some(volume)).expect("it is there");
            requests.iter().map(|request| request.offset).collect()
        };
        assert_eq!(places(first), [0], "{format:?}");
        assert_eq!(places(busiest), [512, 0], "{format:?}");
        let none = read(format, text.as_bytes(), Some("none.9")).expect_err("it is not there");
        assert!(none.starts_with("the trace has no volume \"none.9\": it has "), "{none}");
    }
}

#[test]
fn requests_come_in_the_order_of_their_times() {
    let mut random = Random::new(3);
    let mut lines: Vec<String> = Vec::new();
    for at in 0..20_000u64 {
        // Up to a thousand places out of order.
        lines.push(format!(
            "0,R,{},512,{}\n",
            at * 512,
            1_000_000 + at * 10 - random.below(10_000)
        ));
    }
    let requests = all(RequestFormat::Alibaba, lines.concat().as_bytes());
    assert_eq!(requests.len(), 20_000);
    assert!(requests.is_sorted_by_key(|request| request.arrival_ns));
    // One that is far too late arrives with those that were given before it.
    let late = lines.concat() + "0,R,0,512,5\n";
    let mut reader = RequestReader::new(late.as_bytes(), RequestFormat::Alibaba, None);
    let mut last = 0;
    while let Some(request) = reader.next_request().expect("it is sound") {
        assert!(request.arrival_ns >= last);
        last = request.arrival_ns;
    }
    assert_eq!((reader.counts().requests, reader.counts().late), (20_001, 1));
}

#[test]
fn what_makes_no_sense_is_named_with_its_line() {
    let cases = [
        (
            RequestFormat::Msr,
            "1,hm,0,Read,0,512,1\n1,hm,0,Reed,0,512,1\n",
            "line 2: Type: has to be Read or Write, not \"Reed\"",
        ),
        (RequestFormat::Msr, "1,hm,0,Read,0,512\n", "line 1: has 6 columns, not 7"),
        (RequestFormat::Msr, "1,hm,0,Read,-1,512,1\n", "line 1: Offset: \"-1\" is no whole number"),
        (
            RequestFormat::Msr,
            "999999999999999999,hm,0,Read,1,512,1\n",
            "line 1: Timestamp: 999999999999999999 is too large",
        ),
        (RequestFormat::Alibaba, "0,R,99999999999999999999,512,1\n", "line 1: offset: "),
        (
            RequestFormat::Alibaba,
            "0,R,18446744073709551615,512,1\n",
            "line 1: byte 18446744073709551615 is beyond any drive",
        ),
        (RequestFormat::Alibaba, "0,X,0,512,1\n", "line 1: opcode: has to be R or W, not \"X\""),
        (RequestFormat::Tencent, "1,1,1,2,1\n", "line 1: IOType: has to be 0 or 1, not \"2\""),
        (
            RequestFormat::Tencent,
            "1,36028797018963968,1,1,1\n",
            "line 1: Offset: 36028797018963968 is too large",
        ),
        (
            RequestFormat::FioIolog,
            "fio version 4 iolog\n",
            "line 1: is not \"fio version 2 iolog\"",
        ),
        (
            RequestFormat::FioIolog,
            "fio version 3 iolog\n/f read 0 512\n",
            "line 2: timestamp: \"/f\" is no whole number",
        ),
        (
            RequestFormat::FioIolog,
            "fio version 3 iolog\n1 /f wait 5 0\n",
            "line 2: action: \"wait\" is none of version 3",
        ),
        (
            RequestFormat::FioIolog,
            "fio version 2 iolog\n/f read 0\n",
            "line 2: has no offset and length",
        ),
        (
            RequestFormat::Blkparse,
            "8,0 3 1 0.0 1 Q W 1 + x [a]\n",
            "line 1: sectors: \"x\" is no whole number",
        ),
        (
            RequestFormat::Blkparse,
            "8,0 3 1 0.0 1 Z W 1 + 1 [a]\n",
            "line 1: action: \"Z\" is none that blkparse prints",
        ),
        (RequestFormat::Blkparse, "hello\n", "line 1: does not begin with a device such as 8,0"),
        (
            RequestFormat::Blkparse,
            "8,0 3 1 0.0123456789 1 Q W 1 + 1 [a]\n",
            "line 1: time: has more than nine digits",
        ),
    ];
    for (format, text, start) in cases {
        let error = refusal(format, text.as_bytes());
        assert!(error.starts_with(start), "{error}\nnot {start}");
    }
    let long = format!("{MSR}{}", "1".repeat(1 << 20));
    assert_eq!(refusal(RequestFormat::Msr, long.as_bytes()), "line 3: is longer than 4096 bytes");
}

fn replayed(drive: &str, requests: &[Request], pace: Pace, beyond: Beyond) -> (Replayed, Vec<u64>) {
    let mut drive = by_name(drive).expect("a preset").build(1);
    let mut rest = requests.iter().copied();
    let mut times = Vec::new();
    let next = &mut || Ok::<_, String>(rest.next());
    let result =
        replay_requests(drive.as_mut(), next, (pace, beyond), &mut |one| times.push(one.took_ns));
    (result.expect("there is no input to fail"), times)
}

/// The same as for records, which are replayed from memory.
#[test]
fn recorded_times_are_an_open_loop() {
    let mut random = Random::new(9);
    let mut now = 0;
    let records: Vec<TraceRecord> = (0..500)
        .map(|_| {
            now += random.below(20_000_000);
            let offset = random.below(1 << 20) * 4096;
            TraceRecord::plain(Operation::Read, offset, 4096, [now; 3])
        })
        .collect();
    let requests: Vec<Request> = records
        .iter()
        .map(|it| request(it.arrival_ns, it.operation, it.offset, it.bytes, None))
        .collect();
    for name in ["ide-2001-7200", "ssd-sata"] {
        let mut drive = by_name(name).expect("a preset").build(1);
        let expected = replay_at_recorded_times(drive.as_mut(), &records, Beyond::Moved).times_ns;
        let (result, times) = replayed(name, &requests, Pace::Recorded, Beyond::Moved);
        assert_eq!(times, expected, "{name}");
        assert_eq!((result.requests, result.times.count()), (500, 500));
    }
}

/// One at a time: the next comes as long after the end of the one before as it came where it was
/// traced.
#[test]
fn a_closed_loop_keeps_the_pauses() {
    let far = 20_000_000_000;
    let requests = [
        request(0, Operation::Read, far, 4096, Some(1_000_000)),
        request(5_000_000, Operation::Read, 0, 4096, Some(1_000_000)),
        request(5_500_000, Operation::Read, far, 4096, Some(1_000_000)),
    ];
    let (result, times) = replayed("ide-2001-7200", &requests, Pace::Closed, Beyond::Moved);
    // Pauses of 4 ms, and of none as the third came before the second had ended.
    assert_eq!(result.ended_ns, times.iter().sum::<u64>() + 4_000_000);
    assert_eq!(result.measured.mean(), 1_000_000);
    let (open, _) = replayed("ide-2001-7200", &requests, Pace::Recorded, Beyond::Moved);
    assert!(open.times.mean() > result.times.mean());
}

#[test]
fn at_full_speed_the_drive_never_waits() {
    let requests: Vec<Request> = (0..1000)
        .map(|at| request(at * 1_000_000_000, Operation::Read, at * 4096, 4096, None))
        .collect();
    let (recorded, _) = replayed("ssd-sata", &requests, Pace::Recorded, Beyond::Moved);
    let (full, times) = replayed("ssd-sata", &requests, Pace::FullSpeed, Beyond::Moved);
    assert!(recorded.ended_ns >= 999_000_000_000);
    assert!(full.ended_ns < 1_000_000_000, "{}", full.ended_ns);
    assert_eq!(times.len(), 1000);
}

#[test]
fn places_beyond_the_drive_are_moved_or_folded_and_counted() {
    let bytes = by_name("ssd-sata").expect("a preset").build(1).info().bytes;
    let requests = [
        request(0, Operation::Read, bytes - 4096, 4096, None),
        request(1, Operation::Write, bytes, 4096, None),
        request(2, Operation::Write, 3 * bytes + 8192, 4096, None),
        request(3, Operation::Flush, 0, 0, None),
        request(4, Operation::Read, 0, 1 << 62, None),
    ];
    for beyond in [Beyond::Moved, Beyond::Wrapped] {
        let (result, times) = replayed("ssd-sata", &requests, Pace::Recorded, beyond);
        let changed = Changed { beyond: 2, cut: 1, widened: 0 };
        assert_eq!((result.changed, times.len()), (changed, 5), "{beyond:?}");
        assert_eq!((result.reads, result.writes, result.flushes), (2, 2, 1));
        assert_eq!(result.bytes_written, 8192);
        assert_eq!(result.bytes_read, 4096 + bytes);
    }
}

fn output_of(command: &mut Command) -> Option<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).stderr(Stdio::null()).output() {
        Ok(output) => Some(output.stdout),
        Err(_) => {
            skip(format_args!("no {name}"));
            None
        }
    }
}

/// The kernel's binary stream, printed by blkparse itself and read by us, gives the requests that
/// were put into the stream.
#[test]
fn what_blkparse_prints_gives_the_requests_of_the_stream() {
    let mut random = Random::new(4);
    let mut now = 0;
    let records: Vec<TraceRecord> = (0..200u64)
        .map(|at| {
            now += 1 + random.below(2_000_000);
            let operation = match random.below(10) {
                0 => Operation::Flush,
                1..4 => Operation::Write,
                _ => Operation::Read,
            };
            let is_flush = operation == Operation::Flush;
            let bytes = if is_flush { 0 } else { 512 * random.within(1..100) };
            let offset = if is_flush { 0 } else { (at * 7919 % 200) * 65536 };
            TraceRecord::plain(operation, offset, bytes, [now, now + 500, now + 900])
        })
        .collect();
    let folder = tempfile::tempdir().expect("a directory");
    let mut stream = Vec::new();
    write(TraceFormat::Blktrace, &records, "drive", &mut stream).expect("writes to memory");
    std::fs::write(folder.path().join("run.blktrace.0"), stream).expect("a file");
    let mut command = Command::new("blkparse");
    let Some(text) = output_of(command.current_dir(folder.path()).args(["-i", "run"])) else {
        return;
    };
    assert_eq!(recognise(&text), Some(Recognised::Requests(RequestFormat::Blkparse)));
    let start = records[0].arrival_ns;
    let expected: Vec<Request> = records
        .iter()
        .map(|it| request(it.arrival_ns - start, it.operation, it.offset, it.bytes, None))
        .collect();
    assert_eq!(all(RequestFormat::Blkparse, &text), expected);
}

/// fio's own log: as many reads and writes as fio says that it made, of the size and within the
/// file that it was given.
#[test]
fn what_fio_writes_is_read() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("file");
    std::fs::write(&file, vec![0; 1 << 20]).expect("a file");
    let log = folder.path().join("log");
    let mut command = Command::new("fio");
    command.args(["--name=a", "--rw=randrw", "--bs=4k", "--size=1M", "--number_ios=60"]);
    command.args(["--ioengine=psync", "--randrepeat=1", "--output-format=json"]);
    command.arg(format!("--filename={}", file.display()));
    command.arg(format!("--write_iolog={}", log.display()));
    let Some(text) = output_of(&mut command) else { return };
    let json: serde_json::Value = serde_json::from_slice(&text).expect("fio prints JSON");
    let made = |what: &str| json["jobs"][0][what]["total_ios"].as_u64().expect("a number");
    let text = std::fs::read(&log).expect("fio wrote it");
    assert_eq!(recognise(&text), Some(Recognised::Requests(RequestFormat::FioIolog)));
    let requests = all(RequestFormat::FioIolog, &text);
    let count = |operation| requests.iter().filter(|it| it.operation == operation).count() as u64;
    assert_eq!((count(Operation::Read), count(Operation::Write)), (made("read"), made("write")));
    assert!(requests.iter().all(|it| it.bytes == 4096 && it.offset + it.bytes <= 1 << 20));
    assert!(requests.is_sorted_by_key(|it| it.arrival_ns));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_bytes_make_a_reader_fall(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = recognise(&bytes);
        for format in FORMATS {
            let _ = read(format, &bytes, None);
            let _ = read(format, &bytes, Some("a.b"));
        }
    }

    #[test]
    fn no_words_make_a_reader_fall(
        head in "(fio version [234] iolog\n)?",
        lines in "[0-9,.RWQD +\\[\\]a/-]{0,80}(\n[0-9,.RWQDadw /+-]{0,80}){0,4}"
    ) {
        let text = head + &lines;
        let _ = recognise(text.as_bytes());
        for format in FORMATS {
            if let Ok(requests) = read(format, text.as_bytes(), None) {
                let (result, _) = replayed("ssd-sata", &requests, Pace::FullSpeed, Beyond::Wrapped);
                prop_assert_eq!(result.requests, requests.len() as u64);
            }
        }
    }
}
