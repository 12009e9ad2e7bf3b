//! What is recorded of a mount, and lived again in the laboratory.
use crate::mount::fixture::{Bench, done, extant, has_fuse};
use std::fs;

/// What programs do in these sessions.
const LIFE: &str = "mkdir -p a/b; dd if=/dev/zero of=a/big bs=64k count=40 2>/dev/null
    for n in 1 2 3 4 5 6 7 8 9; do echo content $n > a/b/$n; done
    ln a/b/1 'a name'; ln -s ../big a/b/link; mv a/b/2 a/two; rm a/b/3
    cat a/b/4 a/big a/b/link > /dev/null; ls -lR . > /dev/null; test ! -e nothing
    mkfifo pipe; sync -d a/two; rm -r a/b; dd if=/dev/zero of=a/kept bs=64k count=40 2>/dev/null
    truncate -s 5000 a/big; exit 0";

#[test]
fn a_session_is_lived_again_on_a_drive() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-session");
    let before = bench.join("before.img").display().to_string();
    fs::copy(bench.image(), &before).unwrap();
    let trace = bench.join("life").display().to_string();
    let timeline = bench.join("times.json").display().to_string();
    let mount = ["mount", "--json", "--trace", &trace, "--timeline", &timeline, &bench.image()];
    done(mount.into_iter().chain(["--", "sh", "-c", LIFE]));
    bench.is_whole();

    let times: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&timeline).unwrap()).unwrap();
    let count = |call: &str| {
        let calls = times["calls"].as_array().unwrap();
        let line = calls.iter().find(|line| line["call"] == call);
        line.map_or(0, |line| line["count"].as_u64().unwrap())
    };
    assert_eq!((count("create"), count("make-symlink"), count("rename")), (11, 1, 1), "{times}");
    let files = format!("{trace}.files");
    let lines = fs::read_to_string(&files).unwrap();
    assert!(lines.contains("\"name\":\"a name\""), "{lines}");

    let session = |preset: &str| -> serde_json::Value {
        let words = ["lab", "session", "--json", &files, "--image", &before];
        let words = words.into_iter().chain(["--drive", "hdd-2022-20t", "--preset", preset]);
        serde_json::from_str(&done(words)).unwrap()
    };
    let report = session("modern");
    assert_eq!(report["differ"], 0, "{report}");
    assert!(report["traffic"]["bytes_written"].as_u64() > Some(40 * 65_536), "{report}");
    let creates = report["calls"].as_array().unwrap().iter().find(|line| line["call"] == "create");
    assert_eq!(creates.unwrap()["count"], 11, "{report}");
    assert_eq!(session("modern"), report, "the same bytes each time");
    assert_eq!(session("linux-2.6")["differ"], 0);

    let blocks = format!("{trace}.blktrace");
    let words = ["lab", "replay", "--json", "--format", "blktrace", "--trace", &blocks];
    let replayed = done(words.into_iter().chain(["--drive", "ssd-sata"]));
    let replayed: serde_json::Value = serde_json::from_str(&replayed).unwrap();
    assert!(replayed["requests"].as_u64() > Some(10), "{replayed}");
    assert!(replayed["mean_ms"].as_f64() > Some(0.0), "{replayed}");
}

#[test]
fn a_trace_that_is_none_is_refused() {
    let bench = Bench::new("mount-no-session");
    let trace = bench.join("x.files");
    fs::write(&trace, "hello\n").unwrap();
    let trace = trace.display().to_string();
    let words = ["lab", "session", &trace, "--image", &bench.image(), "--drive", "ssd-sata"];
    let told = extant(words);
    assert!(told.code == 1 && told.stderr.contains(":1: is not {"), "{told:?}");
    let words = ["mount", "--timeline", "-", &bench.image(), &bench.point()];
    let told = extant(words);
    assert!(told.code == 1 && told.stderr.contains("in the background"), "{told:?}");
}

#[test]
fn times_are_shown_as_a_table() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-times");
    let script = ["--", "sh", "-c", "echo content > a"];
    let table = done(["mount", "--timeline", "-", &bench.image()].into_iter().chain(script));
    let mut lines = table.lines();
    assert!(lines.next().unwrap().starts_with("request"), "{table}");
    assert!(lines.any(|line| line.starts_with("create ") && line.contains(" 1 ")), "{table}");
}
