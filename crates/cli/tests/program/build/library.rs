//! The crate for programs beside the command: the same bytes, the same problems.
use crate::build::command::{build, bytes, extant};
use ::extant::{Builder, Memory, Profile, Report};
use extant_testkit::command::program;
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

fn tree(folder: &Scratch) -> std::path::PathBuf {
    let root = folder.join("tree");
    fs::create_dir_all(root.join("a/deep/er")).unwrap();
    for number in 0..300 {
        fs::write(root.join(format!("a/{number}")), bytes(number, number as usize * 97)).unwrap();
    }
    fs::write(root.join("zeros"), vec![0; 2 << 20]).unwrap();
    fs::hard_link(root.join("a/7"), root.join("a/deep/seven")).unwrap();
    std::os::unix::fs::symlink("a/7", root.join("seven")).unwrap();
    root
}

/// The words of the command, the same for the builder, and the profile.
type Case = (&'static str, fn(Builder) -> Builder, Profile);

fn several_groups(builder: Builder) -> Builder {
    builder.block_size(1024).size(32 << 20).owner(0, 0)
}

#[test]
fn a_build_in_memory_has_the_bytes_of_the_command() {
    let folder = Scratch::new("build-library");
    let root = tree(&folder);
    let packed = folder.join("tree.tar.gz");
    let tar = program("tar").arg("-czf").arg(&packed).arg("-C").arg(&root).arg(".").status();
    assert!(tar.unwrap().success());
    let plain = |profile| Builder::new().profile(profile);
    let cases: [Case; 5] = [
        ("", |builder| builder, Profile::Ext4),
        ("-t ext2 -b 1024", |builder| builder.block_size(1024), Profile::Ext2),
        ("-t ext3 --free 20M -L label", |all| all.free(20 << 20).label("label"), Profile::Ext3),
        ("-b 1024 --size 32M --owner 0:0", several_groups, Profile::Ext4),
        ("--exclude deep", |builder| builder.exclude("deep"), Profile::Ext4),
    ];
    for (words, options, profile) in cases {
        for source in [&root, &packed] {
            let image = folder.join("x.img");
            let report = build(&format!("--force {words}"), &[source], &image);
            let memory = Memory::new();
            let built = options(plain(profile)).source(source).build_memory(&memory).unwrap();
            let [ours, theirs] = [memory.to_vec(), fs::read(&image).unwrap()];
            assert_eq!((built.bytes, built.free_blocks), (report.bytes, report.free_blocks));
            assert_eq!(ours.len(), theirs.len(), "{words}");
            assert_eq!(Sha256::digest(&ours), Sha256::digest(&theirs), "{words}");
        }
    }
}

fn command_codes(image: &Path) -> Vec<String> {
    let output = extant(["check", "--json"]).arg(image).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = report["problems"].as_array().unwrap();
    problems.iter().map(|problem| problem["code"].as_str().unwrap().to_owned()).collect()
}

fn library_codes(report: &Report) -> Vec<String> {
    report.problems.iter().map(|problem| problem.rule().name.to_owned()).collect()
}

#[test]
fn a_check_has_the_codes_of_the_command() {
    if !require("debugfs") {
        return;
    }
    let folder = Scratch::new("check-library");
    let (root, image) = (tree(&folder), folder.join("x.img"));
    build("--free 20M", &[&root], &image);
    for request in ["set_inode_field /a/7 links_count 9", "clri /a/9", "freeb 1200 300"] {
        let done = program("debugfs").args(["-w", "-R", request]).arg(&image).output().unwrap();
        assert!(done.status.success());
        let report = ::extant::check(&image).unwrap();
        let codes = library_codes(&report);
        assert!(!codes.is_empty(), "{request}");
        assert_eq!(codes, command_codes(&image), "{request}");
    }
    fs::write(&image, vec![0; 1 << 20]).unwrap();
    let report = ::extant::check(&image).unwrap();
    assert_eq!(library_codes(&report), command_codes(&image));
    assert_eq!(report.exit_code(), 8);
}
