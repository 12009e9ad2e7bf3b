//! Signals, kills, and what they leave.
use crate::edit::bench::{Bench, bytes, clean, command, done, extant, has_tools, said};
use crate::names;
use extant_testkit::command::{output, program, with_default_signals};
use extant_testkit::skips::skip;
use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};

/// A command that waits for its standard input, with some of it read.
fn waiting(image: &str) -> Child {
    let command = command(&["write", &format!("{image}:/stream")]);
    let mut command = with_default_signals(&command);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    // When this returns all but what fits into the pipe was read.
    child.stdin.as_mut().unwrap().write_all(&vec![b'x'; 3 << 20]).unwrap();
    child
}

#[test]
fn what_is_stopped_has_changed_nothing() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    for (kind, signal, code) in
        [("ext4", "INT", Some(130)), ("ext2", "TERM", Some(143)), ("ext4", "KILL", None)]
    {
        let image = bench.image(&format!("{kind}-{signal}"), &["-t", kind]);
        done(&["write", "--text", "kept", &format!("{image}:/stream")]);
        let tree = done(&["ls", "-lR", &format!("{image}:/")]);
        let mut child = waiting(&image);
        // Someone else is refused meanwhile.
        let told = extant(&["rm", &format!("{image}:/stream")]);
        assert!(told.code == 1 && told.err.contains("is open for writing elsewhere"), "{told:?}");
        // It must not see the end of its input before the signal.
        let input = child.stdin.take();
        output(program("kill").args(["-s", signal, &child.id().to_string()])).unwrap();
        let ended = child.wait().expect("it ends");
        drop(input);
        assert_eq!(ended.code(), code, "{signal}");
        assert_eq!(done(&["ls", "-lR", &format!("{image}:/")]), tree, "{signal}");
        assert_eq!(done(&["cat", &format!("{image}:/stream")]), "kept", "{signal}");
        clean(&image);
    }
}

/// Bytes of a block of the images with a redo log.
const BLOCK: usize = 1024;

/// A redo log for a change from one image of 1 KiB blocks to another, as the documents describe it.
/// `passed` are blocks that were free and that the change wrote.
fn redo_log(before: &[u8], after: &[u8], passed: &[usize]) -> Vec<u8> {
    let blocks: Vec<usize> = (0..before.len() / BLOCK)
        .filter(|at| before[at * BLOCK..][..BLOCK] != after[at * BLOCK..][..BLOCK])
        .filter(|at| !passed.contains(at))
        .collect();
    let mut log = b"EXTREDO4".to_vec();
    log.extend((BLOCK as u32).to_le_bytes());
    log.extend((passed.len() as u32).to_le_bytes());
    log.extend(&before[1024 + 0x68..][..16]);
    log.extend(0_u64.to_le_bytes());
    log.extend((before.len() as u64).to_le_bytes());
    log.extend((blocks.len() as u64).to_le_bytes());
    // No sector of the superblock says "not clean".
    log.extend([0; 8]);
    for at in passed {
        log.extend((*at as u64).to_le_bytes());
        log.extend(1_u32.to_le_bytes());
        log.extend(crc32(&after[at * BLOCK..][..BLOCK]).to_le_bytes());
    }
    for at in blocks {
        log.extend((at as u64).to_le_bytes());
        let bytes = &before[at * BLOCK..][..BLOCK];
        bytes.chunks(512).for_each(|sector| log.extend(crc32(sector).to_le_bytes()));
        log.extend(&after[at * BLOCK..][..BLOCK]);
    }
    let mut sum = program("sha256sum");
    let mut sum = sum.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    sum.stdin.take().unwrap().write_all(&log).unwrap();
    let sum = String::from_utf8(sum.wait_with_output().unwrap().stdout).unwrap();
    let byte = |at: usize| u8::from_str_radix(&sum[2 * at..2 * at + 2], 16).unwrap();
    log.extend((0..32).map(byte));
    log
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}

/// A redo log as a command leaves it that is killed while it is applied.
#[test]
fn a_redo_log_that_was_left_is_seen_by_all_and_ended_by_writers() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext2", "-b", "1024"]);
    let log = bench.join(".image.extant-redo");
    done(&["write", "--text", "before", &format!("{image}:/file")]);
    let before = bytes(&image);
    done(&["write", "--text", "after", &format!("{image}:/file")]);
    let whole = redo_log(&before, &bytes(&image), &[]);
    fs::write(&image, &before).unwrap();
    fs::write(&log, &whole).unwrap();
    // Readers see through it, and write nothing.
    assert_eq!(done(&["cat", &format!("{image}:/file")]), "after");
    assert!(bytes(&image) == before && log.exists());
    assert_eq!(extant(&["check", &image]).code, 0);
    // What mends before others use the volume ends it, also where it finds nothing to mend: others
    // know nothing of the log.
    for words in [&["-p"][..], &["-fp"], &["-y"]] {
        let told = said(names::extant("e2fsck").args(words).arg(&image));
        assert!(told.code <= 1 && told.err.contains("was ended"), "{words:?}: {told:?}");
        assert!(!log.exists(), "{words:?}");
        clean(&image);
        assert_eq!(done(&["cat", &format!("{image}:/file")]), "after");
        fs::write(&image, &before).unwrap();
        fs::write(&log, &whole).unwrap();
    }
    let told = said(names::extant("e2fsck").args(["-n", &image]));
    assert!(told.err.contains("was interrupted") && log.exists(), "{told:?}");
    let told = extant(&["heal", &image]);
    assert!(told.code <= 1 && !log.exists(), "{told:?}");
    assert_eq!(done(&["cat", &format!("{image}:/file")]), "after");
    fs::write(&image, &before).unwrap();
    fs::write(&log, &whole).unwrap();
    // A writer ends it first, and says so.
    let told = extant(&["mkdir", &format!("{image}:/new")]);
    assert!(told.code == 0 && told.err.contains("was ended"), "{told:?}");
    assert!(!log.exists());
    assert_eq!(done(&["cat", &format!("{image}:/file")]), "after");
    clean(&image);
    // One that is not whole means that nothing had happened.
    fs::write(&image, &before).unwrap();
    fs::write(&log, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(done(&["cat", &format!("{image}:/file")]), "before");
    let told = extant(&["mkdir", &format!("{image}:/new")]);
    assert!(told.code == 0 && told.err.contains("left no trace"), "{told:?}");
    assert!(!log.exists());
    // One of another state is refused by readers and writers.
    fs::write(&log, &whole).unwrap();
    output(program("debugfs").args(["-w", "-R", "mkdir /other", &image])).unwrap();
    output(program("debugfs").args(["-w", "-R", "rm /file", &image])).unwrap();
    for words in [["cat", &format!("{image}:/file")], ["mkdir", &format!("{image}:/x")]] {
        let told = extant(&words);
        assert!(told.code == 1 && told.err.contains("another state"), "{told:?}");
    }
    // A new image in its place has nothing to do with it.
    let told = said(&mut command(&["mkfs", "--force", &image, "8M"]));
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(done(&["ls", &format!("{image}:/")]), "lost+found\n");
}

/// A log of a change whose new data is not there: a copy from before it was put in its place.
#[test]
fn a_redo_log_is_not_applied_to_a_copy_from_before_its_change() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext2", "-b", "1024"]);
    let before = bytes(&image);
    done(&["write", "--text", "new content", &format!("{image}:/file")]);
    let after = bytes(&image);
    let is_new = |at: &usize| after[at * BLOCK..].starts_with(b"new content");
    let passed: Vec<usize> = (0..after.len() / BLOCK).filter(is_new).collect();
    assert_eq!(passed.len(), 1);
    let log = bench.join(".image.extant-redo");
    fs::write(&log, redo_log(&before, &after, &passed)).unwrap();
    fs::write(&image, &before).unwrap();
    for words in [["cat", &format!("{image}:/file")], ["mkdir", &format!("{image}:/x")]] {
        let told = extant(&words);
        assert!(told.code == 1 && told.err.contains("another state"), "{told:?}");
    }
    assert!(bytes(&image) == before);
    let mut cut = before;
    let at = passed[0] * BLOCK;
    cut[at..at + BLOCK].copy_from_slice(&after[at..at + BLOCK]);
    fs::write(&image, &cut).unwrap();
    assert_eq!(done(&["cat", &format!("{image}:/file")]), "new content");
}

#[test]
fn what_is_no_log_of_ours_is_refused_and_not_waited_for() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext2", "-b", "1024"]);
    let log = bench.join(".image.extant-redo");
    let place = format!("{image}:/");
    let shown = log.display().to_string();
    output(program("mkfifo").arg(&log)).unwrap();
    let told = extant(&["ls", &place]);
    assert!(told.code == 1 && told.err.contains("is no redo log"), "{told:?}");
    fs::remove_file(&log).unwrap();
    fs::write(&log, "x").unwrap();
    let given = output(program("chown").args(["12345", &shown]));
    if given.is_ok() {
        let told = extant(&["ls", &place]);
        assert!(told.code == 1 && told.err.contains("is no redo log"), "{told:?}");
    }
}

#[test]
fn a_change_of_what_dm_verity_protects_warns() {
    let bench = Bench::new();
    let image = bench.join("image").display().to_string();
    for words in [["--verity", "-F"], ["--verity", "--partition=gpt"]] {
        let tree = bench.tree().display().to_string();
        let mut all = vec!["build", "-F"];
        all.extend(words.into_iter().filter(|word| *word != "-F"));
        all.extend([tree.as_str(), image.as_str()]);
        let told = extant(&all);
        assert_eq!(told.code, 0, "{told:?}");
        let told = extant(&["chmod", "600", &format!("{image}:/plain")]);
        assert!(told.code == 0 && told.err.contains("dm-verity"), "{told:?}");
        fs::remove_dir_all(&tree).unwrap();
    }
    let told = extant(&["cat", &format!("{image}:/plain")]);
    assert!(told.code == 0 && told.err.is_empty(), "{told:?}");
}

/// A loop device over an image; detached with its value.
struct LoopDevice(String);

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = output(program("losetup").args(["--detach", &self.0]));
    }
}

#[test]
fn a_device_without_a_journal_needs_a_place_for_its_log() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext2"]);
    let Ok(made) = output(program("losetup").args(["--find", "--show", &image])) else {
        return skip("no loop devices");
    };
    let device = LoopDevice(String::from_utf8(made.stdout).unwrap().trim().to_owned());
    let place = format!("{}:/new", device.0);
    let told = extant(&["mkdir", &place]);
    assert!(told.code == 1 && told.err.contains("--log FILE"), "{told:?}");
    let log = bench.join("log");
    let shown = log.display().to_string();
    let told = done(&["--json", "mkdir", "--log", &shown, &place]);
    assert!(told.contains("\"committed\":\"redo-log\"") && !log.exists(), "{told}");
    assert_eq!(done(&["ls", &format!("{}:/", device.0)]), "lost+found\nnew\n");
    // What was cut off is ended with the same option.
    let before = bytes(&device.0);
    done(&["rmdir", "--log", &shown, &place]);
    fs::write(&log, redo_log(&before, &bytes(&device.0), &[])).unwrap();
    fs::OpenOptions::new().write(true).open(&device.0).unwrap().write_all(&before).unwrap();
    let told = extant(&["touch", "-c", "--log", &shown, &place]);
    assert!(told.code == 0 && told.err.contains("was ended"), "{told:?}");
    assert_eq!(done(&["ls", &format!("{}:/", device.0)]), "lost+found\n");
    drop(device);
    clean(&image);
}
