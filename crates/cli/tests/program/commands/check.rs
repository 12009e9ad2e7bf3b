//! `extant check` from outside: what it says and with which code it ends, beside what e2fsck says
//! of the same image.
use extant_testkit::scratch::Scratch;
use extant_testkit::{command, oracle};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn check(words: &[&str]) -> Output {
    Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")))
        .arg("check")
        .args(words)
        .output()
        .unwrap()
}

fn words(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A small ext4 with files in it, made by mke2fs; `None` without it.
fn image(folder: &Scratch) -> Option<PathBuf> {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return None;
    }
    let source = folder.join("source");
    std::fs::create_dir_all(source.join("some/where")).unwrap();
    for number in 0..50 {
        std::fs::write(source.join(format!("some/file-{number}")), vec![number; 3000]).unwrap();
    }
    let image = folder.join("disk.img");
    let mut mke2fs = command::program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-d"]).arg(&source).arg(&image).arg("16M");
    command::output(&mut mke2fs).expect("mke2fs makes it");
    Some(image)
}

fn e2fsck(image: &Path) -> Option<i32> {
    command::program("e2fsck").arg("-fn").arg(image).output().unwrap().status.code()
}

#[test]
fn a_clean_image_is_clean_in_every_order_and_with_every_number_of_threads() {
    let folder = Scratch::new("check-clean");
    let Some(image) = image(&folder) else { return };
    let shown = image.to_str().unwrap();
    for more in [&["-j", "1"][..], &["-j", "4"], &["--plan", "vanilla"], &["-fn"]] {
        let (code, said, errors) = words(&check(&[&[shown], more].concat()));
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{more:?}: {said}");
        assert!(said.starts_with(&format!("{shown}: clean; ")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert_eq!(words(&check(&["--quiet", shown])), (Some(0), String::new(), String::new()));
}

#[test]
fn a_damaged_image_ends_with_4_and_a_line_for_each_problem() {
    let folder = Scratch::new("check-damaged");
    let Some(image) = image(&folder) else { return };
    let shown = image.to_str().unwrap();
    // debugfs leaves an image that only e2fsck and we see through.
    let request = "set_inode_field /some/file-9 links_count 3";
    let mut debugfs = command::program("debugfs");
    command::output(debugfs.args(["-w", "-R", "unlink /some/file-7"]).arg(&image)).unwrap();
    let mut debugfs = command::program("debugfs");
    command::output(debugfs.args(["-w", "-R", request]).arg(&image)).unwrap();
    assert_eq!(e2fsck(&image), Some(4));
    let (code, said, errors) = words(&check(&[shown]));
    assert_eq!((code, errors.as_str()), (Some(4), ""), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() >= 3, "{said}");
    assert!(
        lines[..lines.len() - 1]
            .iter()
            .all(|line| line.trim_start().starts_with("error: ") && line.ends_with(']')),
        "{said}"
    );
    // file-7 lost its name, and its inode is in use: what is counted follows. file-9 is another.
    let roots: Vec<&&str> = lines.iter().filter(|line| line.starts_with("error: ")).collect();
    assert!(roots.iter().any(|line| line.contains("(/some/file-9) [link-count]")), "{said}");
    assert!(said.contains("[inode-unattached]"), "{said}");
    let json = check(&["--json", "-j", "3", shown]);
    assert_eq!(json.status.code(), Some(4));
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["schema"], "extant-check/1");
    assert_eq!(report["exit_code"].as_u64(), Some(4));
    assert_eq!(report["problems"].as_array().unwrap().len(), lines.len() - 1);
    assert!(
        report["problems"][0]["code"].is_string() && report["problems"][0]["repair"].is_string()
    );
}

#[test]
fn what_is_no_file_system_ends_with_8_and_wrong_words_with_16() {
    let folder = Scratch::new("check-refused");
    let zeros = folder.join("zeros.img");
    std::fs::write(&zeros, vec![0; 1 << 20]).unwrap();
    let zeros = zeros.to_str().unwrap();
    let cases: [(&[&str], i32); 8] = [
        (&[zeros], 8),
        (&["--json", zeros], 8),
        (&["/nowhere/at all"], 8),
        (&["/"], 8),
        (&[], 16),
        (&["--plan", "sideways", zeros], 16),
        (&["-j", "0", zeros], 16),
        (&["--offset", "2M", zeros], 16),
    ];
    for (case, expected) in cases {
        let (code, said, errors) = words(&check(case));
        assert_eq!(code, Some(expected), "{case:?}: {said}{errors}");
        assert!(!errors.is_empty() || case.contains(&"--json"), "{case:?} says why");
    }
    let unknown = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")))
        .args(["--json", "check", "--no-such"])
        .output()
        .unwrap();
    assert_eq!(unknown.status.code(), Some(16), "also with JSON");
}

#[test]
fn all_problems_that_are_known_are_listed() {
    let (code, said, _) = words(&check(&["--list"]));
    assert_eq!(code, Some(0));
    assert_eq!(said.lines().count(), extant_inspect::CODES.len());
    let json = check(&["--list", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["codes"].as_array().unwrap().len(), extant_inspect::CODES.len());
}

#[test]
fn a_code_is_explained() {
    let (code, said, errors) = words(&check(&["--explain", "link-count"]));
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    for words in ["link-count: inode {ino}", "severity: error", "exit code 4", "store the count"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let json = check(&["--explain", "link-count", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["repair"], "recount");
    let (code, _, errors) = words(&check(&["--explain", "no-such-thing"]));
    assert_eq!(code, Some(16));
    assert!(errors.contains("--list"), "{errors}");
}

#[test]
fn the_verdict_does_not_depend_on_how_much_is_read_of_the_report() {
    let folder = Scratch::new("check-pipe");
    let Some(image) = image(&folder) else { return };
    // Bitmaps and the table of the first group are overwritten: more is said than a pipe holds.
    let mut bytes = std::fs::read(&image).unwrap();
    bytes[20 * 1024..420 * 1024].fill(0xa7);
    std::fs::write(&image, bytes).unwrap();
    let mut extant = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    let mut child =
        extant.args(["check", "--json"]).arg(&image).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let code = child.wait().unwrap().code();
    assert_eq!(code, check(&[image.to_str().unwrap()]).status.code());
    assert!(matches!(code, Some(4 | 12)), "{code:?}");
}
