//! What could not be kept or may surprise: named on stderr, counted in `--json`, and no failure.
use crate::build::command::{Warned, build_command, bytes, extant, judge, refusal};
use extant_testkit::archive::{self, Member};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Builds; what was warned of in the report, and the lines on stderr.
fn warned(options: &str, sources: &[&Path], image: &Path) -> (Vec<Warned>, Vec<String>) {
    let done = build_command(&format!("--force {options}"), sources, image).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    let report: crate::build::command::Report = serde_json::from_slice(&done.stdout).unwrap();
    judge(image, &report);
    let lines = said.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["warning"].as_str().unwrap().to_owned()
    });
    (report.warnings, lines.collect())
}

fn source(folder: &Scratch, files: usize, date: &str) -> PathBuf {
    let source = folder.join("source");
    fs::create_dir(&source).unwrap();
    for number in 0..files {
        fs::write(source.join(format!("file-{number}")), bytes(number as u64, 10)).unwrap();
    }
    let script = "find \"$0\" -type f -exec touch -d \"$1\" {} +; touch -d @1000000000 \"$0\"";
    output(program("sh").arg("-ec").arg(script).arg(&source).arg(date)).unwrap();
    source
}

#[test]
fn times_beyond_the_inode_are_named_and_nanoseconds_counted_once() {
    if !require("tar") {
        return;
    }
    let folder = Scratch::new("build-times");
    let source = source(&folder, 9, "2100-01-01 00:00:00.5 UTC");
    // Not every host keeps such times.
    let tar = folder.join("x.tar");
    output(
        program("tar")
            .args(["--format=posix", "--pax-option=delete=atime,delete=ctime", "-cf"])
            .arg(&tar)
            .arg("-C")
            .arg(&source)
            .arg("."),
    )
    .unwrap();
    let image = folder.join("x.img");
    let (kinds, lines) = warned("", &[&tar], &image);
    let counts: Vec<(&str, u64)> =
        kinds.iter().map(|kind| (kind.kind.as_str(), kind.count)).collect();
    assert_eq!(counts, [("time-to-come", 9)]);
    assert!(lines.len() == 6 && lines[0].contains("its time 2100-01-01"), "{lines:?}");
    let (kinds, lines) = warned("-I 128", &[&tar], &image);
    let counts: Vec<(&str, u64)> =
        kinds.iter().map(|kind| (kind.kind.as_str(), kind.count)).collect();
    assert_eq!(counts, [("time-clamped", 9), ("time-to-come", 9), ("nanoseconds-dropped", 9)]);
    assert_eq!(lines.len(), 13, "twice five names and the others, and one line: {lines:?}");
    assert!(
        lines[0].starts_with("/file-")
            && lines[0].contains("2100-01-01")
            && lines[0].contains("2038-01-19")
    );
    assert!(lines[5].starts_with("and 4 more of this kind"), "{lines:?}");
    assert!(lines[12].starts_with("9 files lose the nanoseconds"), "{lines:?}");
    // Quiet is quiet, and text is lines too.
    let text = extant(["build", "--force", "-I", "128"]).arg(&tar).arg(&image).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&text.stderr).lines().count(), 13);
    let quiet = extant(["build", "--force", "--quiet", "-I", "128"])
        .arg(&tar)
        .arg(&image)
        .output()
        .unwrap();
    assert!(quiet.status.success() && quiet.stderr.is_empty(), "{quiet:?}");
}

#[test]
fn an_archive_without_its_end_is_warned_of_or_refused() {
    let folder = Scratch::new("build-unmarked");
    let (tar, image) = (folder.join("x.tar"), folder.join("x.img"));
    archive::append(&mut File::create(&tar).unwrap(), "file", Member::File(b"content")).unwrap();
    let (kinds, lines) = warned("", &[&tar], &image);
    assert!(kinds[0].kind == "no-end-mark" && kinds[0].count == 1, "{kinds:?}");
    assert_eq!(kinds[0].named, lines);
    assert!(
        lines[0].contains("x.tar: ") && lines[0].contains("last whole entry is file"),
        "{lines:?}"
    );
    let before = fs::read(&image).unwrap();
    let refused = refusal(&mut build_command("--force --strict-archive", &[&tar], &image));
    assert!(
        refused.code == Some(1) && refused.message.contains("two blocks of zeros"),
        "{refused:?}"
    );
    assert_eq!(fs::read(&image).unwrap(), before, "an image that was there stays");
}

#[test]
fn files_and_attributes_that_are_too_large_are_named_and_counted() {
    if !require("tar") || !require("setfattr") {
        return;
    }
    let folder = Scratch::new("build-large");
    let source = source(&folder, 7, "@1000000000");
    for number in 0..7 {
        let file = File::options().write(true).open(source.join(format!("file-{number}"))).unwrap();
        file.set_len(20 << 30).unwrap();
    }
    let image = folder.join("x.img");
    let refused = refusal(&mut build_command("-t ext2 -b 1024", &[&source], &image));
    assert!(refused.message.matches("/file-").count() == 5, "{refused:?}");
    assert!(refused.message.contains(" and 2 more: larger than the "), "{refused:?}");
    assert!(refused.hint.is_some() && refused.code == Some(1) && !image.exists());
    let script = "for file in \"$0\"/*; do truncate -s 0 \"$file\"; setfattr -n user.long -v \
        $(printf %03000d 7) \"$file\"; done";
    output(program("sh").arg("-ec").arg(script).arg(&source)).unwrap();
    let refused = refusal(&mut build_command("-b 1024", &[&source], &image));
    assert!(
        refused.message.contains("/file-") && refused.message.contains("(and 6 more files)"),
        "{refused:?}"
    );
    judge(&image, &crate::build::command::build("-b 4096", &[&source], &image));
}

#[test]
fn a_container_image_is_not_taken_for_a_file_tree_without_a_word() {
    let folder = Scratch::new("build-container");
    let image = folder.join("x.img");
    let cases: [(&[&str], Option<&str>); 4] = [
        (&["manifest.json", "0123.json", "4567/layer.tar"], Some("/manifest.json: ")),
        (&["manifest.json", "repositories", "89ab.tar"], Some("/manifest.json: ")),
        (&["manifest.json", "index.html", "static/layer.js"], None),
        (&["srv/manifest.json", "srv/repositories", "index.json"], None),
    ];
    for (number, (names, wanted)) in cases.into_iter().enumerate() {
        let source = folder.join(&format!("source-{number}"));
        for name in names {
            let file = source.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, b"{}").unwrap();
        }
        match wanted {
            None => {
                let (kinds, lines) = warned("", &[&source], &image);
                assert!(kinds.is_empty() && lines.is_empty(), "{names:?}: {lines:?}");
            }
            Some(file) => {
                let _ = fs::remove_file(&image);
                let refused = refusal(&mut build_command("", &[&source], &image));
                let said = &refused.message;
                assert!(said.contains(file) && said.contains("docker-archive: in front"), "{said}");
                assert!(!image.exists(), "{names:?}");
            }
        }
        // That is what it was asked to be.
        let (kinds, _) = warned("--containers files", &[&source], &image);
        assert!(kinds.is_empty(), "{names:?}");
    }
}
