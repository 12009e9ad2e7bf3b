//! `extant age` and `extant lab age` from outside: the same bytes twice, sound volumes, and one
//! line for what is wrong.
use crate::commands::command::{extant_dated, printed_text};
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::process::Command;

/// Standard output of a command that must end with 0.
fn told(words: &[&str]) -> String {
    printed_text(words, extant_dated(words))
}

/// How a command fails: its exit code and what it says.
fn failure(words: &[&str]) -> (i32, String) {
    let output = extant_dated(words);
    assert!(output.stdout.is_empty(), "{words:?} printed a result");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn mkfs(scratch: &Scratch, name: &str) -> String {
    let path = scratch.path().join(name).display().to_string();
    told(&["mkfs", "-q", &path, "96M"]);
    path
}

#[test]
fn an_image_ages_in_place_the_same_each_time_and_stays_sound() {
    let scratch = Scratch::new("age-image");
    let (one, other) = (mkfs(&scratch, "one.img"), mkfs(&scratch, "other.img"));
    let words = ["--profile", "mail", "--days", "4", "--seed", "5", "--target-utilisation", "0.8"];
    let age = |path: &str| told(&[&["age", path, "--json"], &words[..]].concat());
    let report: serde_json::Value = serde_json::from_str(&age(&one)).unwrap();
    age(&other);
    assert!(std::fs::read(&one).unwrap() == std::fs::read(&other).unwrap(), "other bytes");
    assert_eq!(report["schema"], "extant-age/1");
    let used = report["utilisation_ppm"].as_u64().unwrap();
    assert!((760_000..860_000).contains(&used), "{report}");
    assert!(
        report["files_deleted"].as_u64().unwrap() > 0
            && report["files_left"].as_u64().unwrap() > 100
    );
    let judged = Command::new("e2fsck").args(["-fn", &one]).output().unwrap();
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
    // Once more in the same place: what is there is not touched, and that is said before anything
    // is made.
    let (code, said) = failure(&[&["age", &one], &words[..]].concat());
    assert_eq!(code, 1);
    assert!(said.contains("--into DIRECTORY"), "{said}");
}

#[test]
fn what_cannot_be_aged_is_told_and_left_alone() {
    let scratch = Scratch::new("age-refused");
    let image = mkfs(&scratch, "clean.img");
    let (code, said) = failure(&["age", &image, "--profile", "nothing"]);
    assert_eq!(code, 2);
    assert!(said.contains("there are mail, git"), "{said}");
    assert_eq!(failure(&["age", &image, "--profile", "mail", "--into", "aged"]).0, 2);
    assert_eq!(failure(&["age", &image, "--profile", "mail", "--target-utilisation", "1.5"]).0, 2);
    let profile = scratch.path().join("bad.toml");
    std::fs::write(&profile, "name = \"bad\"\nsize = \"lots\"\n").unwrap();
    let (code, said) = failure(&["age", &image, "--profile", &profile.display().to_string()]);
    assert_eq!(code, 1);
    assert!(said.contains("bad.toml:2: size:"), "{said}");
    // s_state, at byte 58 of the superblock: not unmounted in order.
    let mut bytes = std::fs::read(&image).unwrap();
    bytes[1024 + 58] &= !1;
    let dirty = scratch.path().join("dirty.img");
    write(&dirty, &bytes);
    let dirty = dirty.display().to_string();
    // With checksums the changed superblock is refused as damaged, without them as not clean;
    // either way it is left alone.
    let (code, said) = failure(&["age", &dirty, "--profile", "mail"]);
    assert_eq!(code, 1, "{said}");
    assert!(std::fs::read(&dirty).unwrap() == bytes, "it was changed");
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_volume_of_the_laboratory_ages_under_several_policies() {
    let words = [
        "lab",
        "age",
        "git",
        "--size",
        "64M",
        "--months",
        "1",
        "--preset",
        "linux-2.4",
        "--preset",
        "modern",
        "--json",
    ];
    let text = told(&words);
    assert_eq!(text, told(&words), "the same command gives the same bytes");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["schema"], "extant-lab-ageing/1");
    let names: Vec<&str> = report["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["linux-2.4", "modern"]);
    let samples = report["series"][0]["samples"].as_array().unwrap();
    assert_eq!((samples.len(), &samples[1]["day"]), (2, &serde_json::json!(30)));
    for metric in report["metrics"].as_array().unwrap() {
        let key = metric["key"].as_str().unwrap();
        let found = key.split('.').fold(&samples[1], |value, key| &value[key]);
        assert!(!found.is_null(), "{key} is in the table of metrics, and in no sample");
    }
    let text = told(&[
        "lab",
        "age",
        "git",
        "--size",
        "64M",
        "--months",
        "1",
        "--preset",
        "modern",
        "--layout-only",
    ]);
    assert!(text.contains("layout score") && !text.contains("MB/s"), "{text}");
    assert!(told(&["lab", "age"]).contains("post-1"));
    assert_eq!(failure(&["lab", "age", "nothing"]).0, 2);
    assert_eq!(failure(&["lab", "age", "mail", "--preset", "nothing"]).0, 2);
    assert_eq!(failure(&["lab", "age", "mail", "--size", "1K"]).0, 2);
}

#[test]
fn an_image_that_another_command_writes_is_left_alone() {
    let scratch = Scratch::new("age-lock");
    let image = mkfs(&scratch, "locked.img");
    let before = std::fs::read(&image).unwrap();
    let held = std::fs::OpenOptions::new().write(true).open(&image).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let (code, said) = failure(&["age", &image, "--profile", "mail", "--days", "0"]);
    assert!(code == 1 && said.contains("is open for writing elsewhere"), "{said}");
    assert!(std::fs::read(&image).unwrap() == before, "it was changed");
    drop(held);
    assert_eq!(told(&["age", "-q", &image, "--profile", "mail", "--days", "0"]), "");
}

#[test]
fn a_target_that_is_missed_is_told() {
    let scratch = Scratch::new("age-missed");
    let (source, image) = (scratch.path().join("source"), scratch.path().join("full.img"));
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("file"), vec![7; 20 << 20]).unwrap();
    let image = image.display().to_string();
    told(&["build", "-q", "--free", "30%", &source.display().to_string(), &image]);
    let words = ["--profile", "mail", "--days", "1", "--target-utilisation", "0.3"];
    let output = extant_dated(&[&["age", &image], &words[..]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("and the target was 30.0 %"), "{said}");
}

/// The host's file system is full before the image is: what was changed by then is worth a word.
#[test]
fn an_image_that_is_left_half_aged_is_called_so() {
    if !extant_testkit::skips::require_root() {
        return;
    }
    let scratch = Scratch::new("age-half");
    let folder = scratch.path().display().to_string();
    let mount = ["-t", "tmpfs", "-o", "size=8m", "tmpfs", folder.as_str()];
    extant_testkit::command::run("mount", &mount).unwrap();
    let image = mkfs(&scratch, "half.img");
    let output = extant_dated(&["age", &image, "--profile", "mail", "--days", "1"]);
    extant_testkit::command::run("umount", &[folder.as_str()]).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("half aged") && said.contains("host file system is full"), "{said}");
}
