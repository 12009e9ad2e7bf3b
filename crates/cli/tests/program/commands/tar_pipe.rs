//! `extant tar` into a pipe, which takes long stretches of an image without a copy of them.
#![allow(
    clippy::disallowed_methods,
    reason = "that a command goes on waiting is seen by the host's clock only"
)]
use crate::commands::command::extant;
use extant_testkit::command::{output, program};
use extant_testkit::scratch::Scratch;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Bytes that differ from page to page.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 4096 * 31 + at % 251) as u8).collect()
}

fn image_of(folder: &Path, words: &[&str], fill: impl FnOnce(&Path)) -> PathBuf {
    let (tree, image) = (folder.join("tree"), folder.join("x.img"));
    fs::create_dir(&tree).unwrap();
    fill(&tree);
    let mut build = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    output(build.args(["build", "-q"]).args(words).arg(&tree).arg(&image)).unwrap();
    image
}

fn start(image: &Path, stdout: Stdio) -> Child {
    let mut tar = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    tar.arg("tar").arg(image).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_pipe_gets_what_a_file_gets() {
    for words in [&["-t", "ext4"][..], &["-t", "ext2", "-b", "1024"], &["-E", "offset=12288"]] {
        let folder = Scratch::new("tar-pipe");
        let image = image_of(folder.path(), words, |tree| {
            for length in [1, 5_000, 65_535, 65_536, 70_001, 1 << 20, (9 << 20) + 77] {
                fs::write(tree.join(format!("{length}")), bytes(length)).unwrap();
            }
            let sparse = File::create(tree.join("sparse")).unwrap();
            for at in [100_000, 3 << 20, 5 << 20] {
                sparse.write_all_at(&bytes(300_001), at).unwrap();
            }
        });
        let offset = if words.contains(&"offset=12288") { &["--offset", "12288"][..] } else { &[] };
        let tar = |more: &[&str]| {
            let image = image.to_string_lossy().into_owned();
            extant(&[&["tar", &image], more, offset].concat())
        };
        let file = folder.join("x.tar");
        let to_file = tar(&["-o", &file.to_string_lossy()]);
        assert!(to_file.status.success(), "{}", String::from_utf8_lossy(&to_file.stderr));
        let piped = tar(&[]);
        assert!(piped.status.success(), "{}", String::from_utf8_lossy(&piped.stderr));
        assert!(piped.stdout == fs::read(&file).unwrap(), "{words:?}");
        // A file that it is told to write to as standard output gets no pages.
        let other = folder.join("y.tar");
        let status = start(&image, File::create(&other).unwrap().into()).wait().unwrap();
        assert!(status.success() == offset.is_empty());
        if offset.is_empty() {
            assert!(piped.stdout == fs::read(&other).unwrap(), "{words:?}: as standard output");
        }
    }
}

#[test]
fn an_image_that_changes_after_the_command_changes_no_archive() {
    let folder = Scratch::new("tar-pipe-drain");
    // All of it is in the pipe at once.
    let content = bytes(200_000);
    let image = image_of(folder.path(), &["-O", "^has_journal"], |tree| {
        fs::write(tree.join("file"), &content).unwrap();
    });
    let mut child = start(&image, Stdio::piped());
    // The command has written everything by then, and must not have ended: what is in the pipe is
    // the image's own.
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it ends before its archive is read");
    let mut archive = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut archive).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(archive.windows(4096).any(|window| window == &content[..4096]));
}

#[test]
fn a_reader_that_leaves_is_no_reason_to_wait() {
    let folder = Scratch::new("tar-pipe-gone");
    let image = image_of(folder.path(), &[], |tree| {
        fs::write(tree.join("file"), bytes(20 << 20)).unwrap();
    });
    let mut child = start(&image, Stdio::piped());
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 1000]).unwrap();
    drop(stdout);
    // A reader that has seen enough ends it, as it ends tar: without a word.
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

#[test]
fn a_log_that_was_not_replayed_counts() {
    let folder = Scratch::new("tar-pipe-log");
    let image = image_of(folder.path(), &["-J", "size=4"], |tree| {
        fs::write(tree.join("file"), bytes(1 << 20)).unwrap();
    });
    if !extant_testkit::oracle::require("debugfs") {
        return;
    }
    // A transaction of one block of the file: what is in its place on the disk is older.
    let debugfs = |words: &str| {
        let run = output(program("debugfs").args(["-w", "-R", words]).arg(&image)).unwrap();
        String::from_utf8_lossy(&run.stdout).trim().to_owned()
    };
    let block: u64 = debugfs("bmap /file 40").parse().unwrap();
    let newer = folder.join("newer");
    fs::write(&newer, [0xa5; 4096]).unwrap();
    let script = format!("jo\njw -b {block} {}\njc\n", newer.display());
    let commands = folder.join("commands");
    fs::write(&commands, script).unwrap();
    output(program("debugfs").args(["-w", "-f"]).arg(&commands).arg(&image)).unwrap();
    let mut on_disk = [0; 4096];
    File::open(&image).unwrap().read_exact_at(&mut on_disk, block * 4096).unwrap();
    assert!(on_disk != [0xa5; 4096], "the block is in the log only");
    let piped = extant(&["tar", &image.to_string_lossy()]);
    assert!(piped.status.success(), "{}", String::from_utf8_lossy(&piped.stderr));
    assert!(piped.stdout.windows(4096).any(|window| window == [0xa5; 4096]));
}
