//! Commands that change a qcow2 image where it is: what is in it then is what the same command
//! makes of the plain image, by QEMU's own reading, and its own check finds nothing.
use crate::commands::command::command;
use extant_testkit::command::{output, program};
use extant_testkit::scratch::Scratch;
use extant_testkit::{oracle, skips};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// A plain image and a qcow2 image of it, `raw` and `x.qcow2`, made by the words for qemu-img.
fn pair(name: &str, options: &[&str]) -> Option<Scratch> {
    let tools = ["mke2fs", "e2fsck", "qemu-img", "qemu-io"];
    if !tools.into_iter().all(oracle::require) {
        return None;
    }
    let folder = Scratch::new(name);
    let mut mke2fs = program("mke2fs");
    output(mke2fs.args(["-q", "-t", "ext4", "-b", "1024"]).arg(folder.join("raw")).arg("16M"))
        .unwrap();
    convert(&folder, options);
    Some(folder)
}

fn convert(folder: &Scratch, options: &[&str]) {
    let words = [&["convert", "-f", "raw", "-O", "qcow2"], options, &["raw", "x.qcow2"]];
    qemu(folder, &words.concat());
}

fn qemu(folder: &Scratch, words: &[&str]) {
    output(program("qemu-img").args(words).current_dir(folder.path())).unwrap();
}

/// What a command says of an image, with its exit code.
fn said(folder: &Scratch, words: &[&str], input: &[u8]) -> (i32, String) {
    let mut command = command(words);
    command.current_dir(folder.path()).env("SOURCE_DATE_EPOCH", "1700000000");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // What is not read is not needed.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// Runs a command on both images: it does the same.
fn both(folder: &Scratch, words: &[&str], input: &[u8]) {
    let of = |image: &str| {
        let words: Vec<String> = words.iter().map(|word| word.replace("IMAGE", image)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        said(folder, &words, input)
    };
    let (plain, qcow2) = (of("raw"), of("x.qcow2"));
    assert_eq!(plain.0, qcow2.0, "{words:?}: {} {}", plain.1, qcow2.1);
    assert!(plain.0 <= 1, "{words:?}: {}", plain.1);
}

/// That QEMU finds nothing wrong, and reads the bytes of the plain image.
fn same(folder: &Scratch) {
    qemu(folder, &["check", "-q", "x.qcow2"]);
    qemu(folder, &["compare", "-q", "-f", "raw", "-F", "qcow2", "raw", "x.qcow2"]);
}

#[test]
fn what_is_changed_in_a_qcow2_image_is_what_is_changed_in_a_plain_one() {
    for options in [
        &["-o", "cluster_size=512"][..],
        &["-c", "-o", "compression_type=zstd"],
        &["-o", "compat=0.10,cluster_size=2M"],
        &["-o", "extended_l2=on"],
    ] {
        let Some(folder) = pair("cli-qcow2", options) else { return };
        qemu(&folder, &["snapshot", "-c", "before", "x.qcow2"]);
        let bytes = vec![b'x'; 700_000];
        both(&folder, &["write", "IMAGE:/file"], &bytes);
        both(&folder, &["edit", "IMAGE", "-"], b"mkdir /folder\nmv /file /folder/name\n");
        both(&folder, &["tune", "-L", "label", "IMAGE"], b"");
        same(&folder);
        both(&folder, &["rm", "-r", "IMAGE:/folder"], b"");
        both(&folder, &["trim", "IMAGE"], b"");
        for image in ["raw", "x.qcow2"] {
            let mut io = program("qemu-io");
            let format = if image == "raw" { "raw" } else { "qcow2" };
            io.args(["-f", format, "-c", "write -q -P 85 4k 3k", image]);
            output(io.current_dir(folder.path())).unwrap();
        }
        both(&folder, &["repair", "IMAGE"], b"");
        same(&folder);
        both(&folder, &["undo", "IMAGE"], b"");
        same(&folder);
        both(&folder, &["repair", "IMAGE"], b"");
        both(&folder, &["heal", "IMAGE"], b"");
        same(&folder);
        oracle::e2fsck(&folder.join("raw")).unwrap();
        // The snapshot is as it was.
        qemu(&folder, &["snapshot", "-a", "before", "x.qcow2"]);
        assert!(said(&folder, &["ls", "x.qcow2"], b"").1.contains("lost+found"));
    }
}

#[test]
fn its_disk_becomes_larger_with_the_volume_and_stays() {
    let Some(folder) = pair("cli-qcow2-resize", &[]) else { return };
    both(&folder, &["write", "IMAGE:/file"], &[7; 300_000]);
    both(&folder, &["resize", "IMAGE", "+900M"], b"");
    same(&folder);
    let (code, text) = said(&folder, &["resize", "x.qcow2", "32M"], b"");
    assert!(code == 0 && text.contains("has 960495616 bytes as before"), "{text}");
    qemu(&folder, &["check", "-q", "x.qcow2"]);
    qemu(&folder, &["convert", "-O", "raw", "x.qcow2", "raw"]);
    oracle::e2fsck(&folder.join("raw")).unwrap();
    assert!(fs::metadata(folder.join("x.qcow2")).unwrap().len() < 8 << 20);
    // What is kept of a disk that was larger is nothing.
    both(&folder, &["resize", "IMAGE", "max"], b"");
    same(&folder);
    let (code, text) = said(&folder, &["resize", "-n", "x.qcow2", "2G"], b"");
    assert!(code == 0 && text.contains("would have"), "{text}");
}

#[test]
fn a_partition_of_it_is_changed_and_gets_another_end() {
    if !oracle::require("sfdisk") {
        return;
    }
    let Some(folder) = pair("cli-qcow2-partition", &[]) else { return };
    let volume = fs::read(folder.join("raw")).unwrap();
    for label in ["gpt", "dos"] {
        let disk = [&vec![0; 1 << 20][..], &volume, &vec![0; 2 << 20]].concat();
        fs::write(folder.join("raw"), disk).unwrap();
        let mut sfdisk = program("sfdisk");
        sfdisk.args(["-q", "raw"]).current_dir(folder.path()).stdin(Stdio::piped());
        let mut child = sfdisk.spawn().unwrap();
        let table = format!("label: {label}\nstart=2048, size=32768\n");
        child.stdin.take().unwrap().write_all(table.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        convert(&folder, &["-o", "cluster_size=4096"]);
        both(&folder, &["write", "IMAGE@1:/file"], &[7; 300_000]);
        same(&folder);
        both(&folder, &["resize", "--partition", "IMAGE@1", "+30M"], b"");
        same(&folder);
        both(&folder, &["rm", "IMAGE@1:/file"], b"");
        qemu(&folder, &["convert", "-O", "raw", "x.qcow2", "again"]);
        let verify =
            program("sfdisk").args(["--verify", "again"]).current_dir(folder.path()).output();
        let verify = verify.unwrap();
        let text = String::from_utf8_lossy(&verify.stdout).into_owned();
        assert!(verify.status.success() && text.contains("No errors"), "{label}: {text}");
        same(&folder);
    }
}

#[test]
fn what_it_is_based_on_is_read_and_never_written() {
    let Some(folder) = pair("cli-qcow2-backing", &[]) else { return };
    both(&folder, &["write", "IMAGE:/old"], &[9; 100_000]);
    fs::rename(folder.join("x.qcow2"), folder.join("base.qcow2")).unwrap();
    let backed = ["create", "-q", "-f", "qcow2", "-b", "base.qcow2", "-F", "qcow2", "x.qcow2"];
    qemu(&folder, &backed);
    let base = fs::read(folder.join("base.qcow2")).unwrap();
    both(&folder, &["write", "IMAGE:/new"], &[7; 300_000]);
    both(&folder, &["rm", "IMAGE:/old"], b"");
    both(&folder, &["trim", "IMAGE"], b"");
    qemu(&folder, &["check", "-q", "x.qcow2"]);
    qemu(&folder, &["convert", "-O", "raw", "x.qcow2", "again"]);
    oracle::e2fsck(&folder.join("again")).unwrap();
    assert_eq!(said(&folder, &["cat", "x.qcow2:/new"], b"").1.len(), 300_000);
    assert!(fs::read(folder.join("base.qcow2")).unwrap() == base, "the base was written");
    // One that is elsewhere could be any file of the host.
    fs::create_dir(folder.join("other")).unwrap();
    fs::rename(folder.join("x.qcow2"), folder.join("other/x.qcow2")).unwrap();
    qemu(&folder, &["rebase", "-u", "-b", "../base.qcow2", "-F", "qcow2", "other/x.qcow2"]);
    let (code, text) = said(&folder, &["ls", "other/x.qcow2"], b"");
    assert!(code == 1 && text.contains("../base.qcow2, that is not in its folder"), "{text}");
}

/// A refusal, with the image as it was.
fn refused(folder: &Scratch, words: &[&str], why: &str) {
    let before = fs::read(folder.join("x.qcow2")).unwrap();
    let (code, text) = said(folder, words, b"");
    assert!(code != 0 && text.contains(why) && text.contains("hint: "), "{words:?}: {text}");
    assert!(fs::read(folder.join("x.qcow2")).unwrap() == before, "{words:?}");
}

#[test]
fn what_is_not_written_is_refused_and_left_as_it_was() {
    let Some(folder) = pair("cli-qcow2-refused", &[]) else { return };
    let change = |at: usize, bytes: &[u8]| {
        let mut image = fs::read(folder.join("x.qcow2")).unwrap();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(folder.join("x.qcow2"), image).unwrap();
    };
    let mkdir = &["mkdir", "x.qcow2:/new"];
    // Where the counts are, in an image of qemu-img with clusters of 64 KiB.
    let counts = 2 << 16;
    for (at, bytes, why) in [
        (79, &[1][..], "qemu-img check -r all x.qcow2"),
        (79, &[2], "corrupt"),
        (79, &[4], "in another file"),
        (35, &[2], "encrypted"),
        (counts + 6, &[0, 0], "a count that is too low"),
    ] {
        let before = fs::read(folder.join("x.qcow2")).unwrap();
        change(at, bytes);
        refused(&folder, mkdir, why);
        fs::write(folder.join("x.qcow2"), before).unwrap();
    }
    refused(&folder, &["age", "--profile", "mail", "--days", "1", "x.qcow2"], "only read here");
    // A machine has it open.
    let mut io = program("qemu-io");
    io.args(["-f", "qcow2", "x.qcow2"]).current_dir(folder.path());
    let mut child = io.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"read 0 512\n").unwrap();
    let mut first = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    refused(&folder, mkdir, "x.qcow2");
    drop(input);
    child.wait().unwrap();
    assert_eq!(said(&folder, mkdir, b"").0, 0);
}

/// A host that is full: the image is whole, and has what it had.
#[test]
fn a_full_host_leaves_it_whole() {
    if !skips::require_root() {
        return;
    }
    let Some(folder) = pair("cli-qcow2-full", &[]) else { return };
    let small = folder.join("small");
    fs::create_dir(&small).unwrap();
    let mut mount = program("mount");
    output(mount.args(["-t", "tmpfs", "-o", "size=4M", "none"]).arg(&small)).unwrap();
    let full = || {
        fs::copy(folder.join("x.qcow2"), small.join("x.qcow2")).unwrap();
        assert_eq!(said(&folder, &["write", "small/x.qcow2:/first"], &[1; 90_000]).0, 0);
        let (code, text) = said(&folder, &["write", "small/x.qcow2:/second"], &[2; 6_000_000]);
        assert!(code == 1 && text.contains("No space left on device"), "{text}");
        qemu(&folder, &["check", "-q", "small/x.qcow2"]);
        qemu(&folder, &["convert", "-O", "raw", "small/x.qcow2", "raw"]);
        let heal = said(&folder, &["heal", "raw"], b"");
        assert_eq!(heal.0, 0, "{}", heal.1);
        oracle::e2fsck(&folder.join("raw")).unwrap();
        let (_, first) = said(&folder, &["cat", "raw:/first"], b"");
        assert!(first.as_bytes() == [1; 90_000]);
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(full));
    unmount(&small);
    outcome.unwrap();
}

fn unmount(folder: &Path) {
    output(program("umount").arg(folder)).unwrap();
}
