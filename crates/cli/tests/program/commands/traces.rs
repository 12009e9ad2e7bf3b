//! Traces of other systems on a drive, from outside: sums, one volume of several, one line for what
//! is wrong.
use crate::commands::command::{extant, printed_text};
use extant_testkit::command;
use extant_testkit::scratch::Scratch;

fn written(folder: &Scratch, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn replay<'a>(trace: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["lab", "replay", "--drive", "ssd-sata", "--trace", trace][..], more].concat()
}

fn json(trace: &str, more: &[&str]) -> serde_json::Value {
    let words = replay(trace, &[more, &["--json"]].concat());
    serde_json::from_str(&printed_text(&words, extant(&words))).unwrap()
}

fn failure(words: &[&str]) -> (i32, String) {
    let output = extant(words);
    assert!(output.stdout.is_empty(), "{words:?} printed a result");
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Two disks of a host; a request of each every millisecond, 2 ms each where they were traced.
fn msr(requests: u64) -> String {
    let line = |at: u64| {
        let (time, disk, offset) = (128_166_372_003_061_629 + at * 10_000, at % 2, at * 4096);
        format!("{time},hm,{disk},{},{offset},4096,20000\n", ["Read", "Write"][at as usize / 2 % 2])
    };
    (0..requests).map(line).collect()
}

#[test]
fn sums_of_one_volume_are_printed_with_what_the_format_does_not_say() {
    let folder = Scratch::new("extant-lab-foreign");
    let trace = written(&folder, "hm.csv", &msr(400));
    let (code, errors) = failure(&replay(&trace, &[]));
    assert_eq!(code, 1);
    let mixed = "hm.csv: the trace mixes 2 volumes: hm.0, hm.1";
    assert!(errors.contains(mixed) && errors.contains("hint: --volume"), "{errors}");
    let (code, errors) = failure(&replay(&trace, &["--volume", "hm.7"]));
    assert!(code == 1 && errors.contains("has no volume \"hm.7\""), "{errors}");
    let report = json(&trace, &["--volume", "hm.1"]);
    assert_eq!((&report["format"], &report["volume"]), (&"msr".into(), &"hm.1".into()));
    assert_eq!((&report["requests"], &report["others"]), (&200.into(), &200.into()));
    assert_eq!((&report["reads"], &report["writes"]), (&100.into(), &100.into()));
    assert_eq!(report["measured"]["mean_ns"], 2_000_000);
    assert!(report["elapsed_ns"].as_u64().unwrap() > 398_000_000);
    let full = json(&trace, &["--volume", "hm.1", "--pace", "full-speed"]);
    assert!(full["elapsed_ns"].as_u64() < report["elapsed_ns"].as_u64());
    let (times, page) = (folder.join("times"), folder.join("page.html"));
    let (times, page) = (times.to_str().unwrap(), page.to_str().unwrap());
    let words = replay(&trace, &["--volume", "hm.0", "--times", times, "--html", page]);
    let text = printed_text(&words, extant(&words));
    assert!(text.contains("as it was traced") && text.contains("200 requests of other"), "{text}");
    assert_eq!(std::fs::read_to_string(times).unwrap().lines().count(), 200);
    assert!(std::fs::read_to_string(page).unwrap().contains("volume hm.0"));
    // A file that is there is not replaced.
    assert_eq!(failure(&words).0, 1);
}

#[test]
fn compressed_traces_are_recognised_and_read() {
    let folder = Scratch::new("extant-lab-compressed");
    let lines: String =
        (0..5000).map(|at| format!("7,R,{},4096,{}\n", at * 4096, at * 100)).collect();
    let trace = written(&folder, "io.csv", &lines);
    let plain = json(&trace, &[]);
    assert_eq!((&plain["format"], &plain["requests"]), (&"alibaba".into(), &5000.into()));
    command::run("gzip", &["-k", &trace]).unwrap();
    assert_eq!(json(&format!("{trace}.gz"), &[]), plain);
}

#[test]
fn what_is_wrong_with_a_foreign_trace_is_one_line() {
    let folder = Scratch::new("extant-lab-foreign-wrong");
    for (name, text) in [("none.csv", ""), ("none.log", "fio version 2 iolog\n/f add\n")] {
        let none = written(&folder, name, text);
        let format = if name == "none.csv" { "msr" } else { "fio-iolog" };
        let (code, line) = failure(&replay(&none, &["--format", format]));
        assert!(code == 1 && line.contains("holds no request"), "{line}");
    }
    let bad = written(&folder, "bad.csv", "7,R,0,4096,1\n7,R,many,4096,2\n");
    let (code, errors) = failure(&replay(&bad, &[]));
    assert!(code == 1 && errors.contains("bad.csv:2: offset: \"many\""), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let other = failure(&replay(&bad, &["--format", "tencent"]));
    assert!(other.0 == 1 && other.1.contains("bad.csv:1: "), "{}", other.1);
    let measured = written(&folder, "measured", "R Hit 8 8 1000.0 10.0\n");
    let (code, errors) = failure(&replay(&measured, &["--pace", "closed"]));
    assert!(code == 2 && errors.contains("--pace: is for traces of other systems"), "{errors}");
    let words = ["lab", "replay", "--help"];
    let help = printed_text(&words, extant(&words));
    let help_words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help_words.contains("--volume, --pace and --times are for traces of other systems"),
        "{help}"
    );
}

#[test]
fn what_was_moved_is_said_whatever_the_format() {
    let folder = Scratch::new("extant-lab-foreign-moved");
    let far = 1u64 << 40;
    let sector = far / 512;
    let measured = format!("R Hit 8 8 1000 10\nR Hit {sector} 8 1000 10\n");
    let disksim = format!("0.0 0 8 8 1\n1.0 0 {sector} 8 1\n");
    for (name, text, format) in
        [("measured", &measured, "measured"), ("disksim", &disksim, "disksim")]
    {
        let trace = written(&folder, name, text);
        for (beyond, words) in [("move", "moved to end there: 1"), ("wrap", "folded into it: 1")] {
            let words_of = replay(&trace, &["--format", format, "--beyond", beyond]);
            let output = extant(&words_of);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains(words) && said.lines().count() == 1, "{name}: {said}");
            assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
        }
        let report = json(&trace, &["--format", format]);
        assert_eq!((&report["beyond"], &report["beyond_was"]), (&1.into(), &"moved".into()));
        assert_eq!((&report["cut"], &report["widened"]), (&0.into(), &0.into()));
    }
    let notes_of = |trace: &str, more: &[&str]| {
        let words = replay(trace, more);
        // Lines are folded: words are compared.
        let text = printed_text(&words, extant(&words));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let body = format!("/f add\n/f open\n/f read {far} 4096\n/f read 100 512\n");
    let two = written(&folder, "two.log", &format!("fio version 2 iolog\n{body}"));
    let text = notes_of(&two, &[]);
    assert!(text.contains("neither times nor waits"), "{text}");
    assert!(text.contains("moved to end there: 1") && text.contains("all that they touch: 1"));
    let waits = written(&folder, "waits.log", &format!("fio version 2 iolog\n/f wait 5 0\n{body}"));
    assert!(notes_of(&waits, &[]).contains("no times but its waits"));
    let body = body.replace("/f", "7 /f");
    let three = written(&folder, "three.log", &format!("fio version 3 iolog\n{body}"));
    let text = notes_of(&three, &["--beyond", "wrap"]);
    assert!(text.contains("taken for microseconds") && !text.contains("version 2"), "{text}");
    assert!(text.contains("folded into it: 1") && !text.contains("moved"), "{text}");
    let mut record = vec![0; 24];
    record[4..12].copy_from_slice(&sector.to_le_bytes());
    record[12..16].copy_from_slice(&4096u32.to_le_bytes());
    let objects = folder.join("objects");
    std::fs::write(&objects, &record).unwrap();
    let objects = objects.to_str().unwrap();
    let words = ["--format", "oracle-general", "--beyond"];
    let text = notes_of(objects, &[&words[..], &["move"]].concat());
    assert!(text.contains("moved to end there: 1") && !text.contains("folded"), "{text}");
    let text = notes_of(objects, &words[..2]);
    assert!(text.contains("folded into it: 1") && !text.contains("moved"), "{text}");
}

/// The footer of a Parquet file, which is of the length that stands behind it.
fn footer(path: &str) -> Vec<u8> {
    let file = std::fs::read(path).unwrap();
    assert_eq!((&file[..4], &file[file.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]), "{path}");
    let length = &file[file.len() - 8..file.len() - 4];
    let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
    file[file.len() - 8 - length..file.len() - 8].to_vec()
}

#[test]
fn parquet_is_written_beside_the_others_and_replaces_nothing() {
    let folder = Scratch::new("extant-lab-parquet");
    let log = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 0 4096\n\
        /dev/sda write 8192 4096\n/dev/sda close\n";
    let trace = written(&folder, "fio.log", log);
    let (parquet, csv) = (folder.join("rows.parquet"), folder.join("rows.csv"));
    let (parquet, csv) = (parquet.to_str().unwrap(), csv.to_str().unwrap());
    let words = replay(&trace, &["--parquet", parquet, "--csv", csv, "--quiet"]);
    assert_eq!(printed_text(&words, extant(&words)), "");
    let has =
        |bytes: &[u8], words: &str| bytes.windows(words.len()).any(|at| at == words.as_bytes());
    let found = footer(parquet);
    for column in std::fs::read_to_string(csv).unwrap().lines().next().unwrap().split(',') {
        assert!(has(&found, column), "{column}");
    }
    // It is there now, and stays.
    let before = std::fs::read(parquet).unwrap();
    let words = replay(&trace, &["--parquet", parquet]);
    let refused = extant(&words);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("--parquet") && said.contains("exists already"), "{said}");
    assert_eq!(std::fs::read(parquet).unwrap(), before);
    let words = replay(&trace, &["--jsonl", "one", "--parquet", "one"]);
    let refused = extant(&words);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("--jsonl and --parquet: name the same file"), "{said}");
    // Half of a table would pass for all of it: of a trace that is wrong none is left.
    let wrong = written(&folder, "wrong.log", &log.replace("write 8192", "write x"));
    let other = folder.join("other.parquet");
    let words = replay(&wrong, &["--parquet", other.to_str().unwrap()]);
    assert_eq!(extant(&words).status.code(), Some(1));
    assert!(!other.exists());
    // Times that are told one by one, too.
    let times = folder.join("times.parquet");
    let trace = written(&folder, "measured", "R Miss 0 8 9000 100\nR Miss 800 8 9000 100\n");
    let words = replay(&trace, &["--parquet", times.to_str().unwrap()]);
    assert_eq!(printed_text(&words, extant(&words)).lines().count(), 2);
    assert!(has(&footer(times.to_str().unwrap()), "measured_ns"));
}

#[test]
fn csv_has_a_row_for_each_request_of_a_foreign_trace() {
    let folder = Scratch::new("extant-lab-foreign-csv");
    let log = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 0 4096\n\
        /dev/sda write 8192 4096\n/dev/sda read 65536 8192\n/dev/sda close\n";
    let trace = written(&folder, "fio.log", log);
    let (csv, jsonl) = (folder.join("rows.csv"), folder.join("rows.jsonl"));
    let (csv, jsonl) = (csv.to_str().unwrap(), jsonl.to_str().unwrap());
    let words = replay(&trace, &["--csv", csv, "--jsonl", jsonl, "--quiet"]);
    assert_eq!(printed_text(&words, extant(&words)), "", "and quiet is quiet");
    let text = std::fs::read_to_string(csv).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!((rows.len(), rows[0]), (4, "drive,request,time_ns,measured_ns"));
    assert!(rows[1].starts_with("ssd-sata,0,") && rows[3].starts_with("ssd-sata,2,"), "{text}");
    // No times are known of where it was traced.
    assert!(rows[1..].iter().all(|row| row.ends_with(',')), "{text}");
    assert_eq!(std::fs::read_to_string(jsonl).unwrap().lines().count(), 3);
    // Of a trace that has them, they are there: 2 ms each.
    std::fs::remove_file(csv).unwrap();
    let trace = written(&folder, "hm.csv", &msr(20));
    let words = replay(&trace, &["--volume", "hm.1", "--csv", csv]);
    printed_text(&words, extant(&words));
    let text = std::fs::read_to_string(csv).unwrap();
    assert_eq!(text.lines().count(), 11);
    assert!(text.lines().skip(1).all(|row| row.ends_with(",2000000")), "{text}");
    // Half of the rows would pass for all of them.
    std::fs::remove_file(csv).unwrap();
    let trace = written(&folder, "bad.log", &log.replace("read 65536 8192", "read x 8192"));
    let (code, _) = failure(&replay(&trace, &["--csv", csv]));
    assert_eq!((code, std::fs::metadata(csv).is_ok()), (1, false));
}
