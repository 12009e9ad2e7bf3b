//! Partitions: by number, name, identifier and byte, and found by themselves.
use crate::take::command::{refused, told};
use crate::take::made::{TEXT, volume};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// A disk whose table `sfdisk` makes of a script, with a volume at each of these bytes.
fn disk(folder: &Path, name: &str, script: &str, volume: &Path, starts: &[u64]) {
    let disk = folder.join(name);
    fs::File::create(&disk).unwrap().set_len(96 * MIB).unwrap();
    fs::write(folder.join("script"), script).unwrap();
    let mut sfdisk = program("sfdisk");
    let input = fs::File::open(folder.join("script")).unwrap();
    output(sfdisk.arg("-q").arg(&disk).stdin(input)).unwrap();
    put(&disk, volume, starts);
}

fn put(disk: &Path, volume: &Path, starts: &[u64]) {
    let (file, bytes) = (fs::File::options().write(true).open(disk).unwrap(), fs::read(volume));
    for start in starts {
        file.write_all_at(bytes.as_ref().unwrap(), *start).unwrap();
    }
}

fn motd(word: &str, folder: &Path) {
    assert!(told(&["cat", &format!("{word}:/etc/motd")], folder) == TEXT, "{word}");
}

#[test]
fn an_mbr_has_numbers_and_logical_partitions() {
    if !require("sfdisk") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-mbr");
    let image = volume(folder.path(), "8M");
    let script = "label: dos\n2048,4096,c\n10240,,E\n20480,20480,L\n61440,20480,L\n";
    disk(folder.path(), "one.img", script, &image, &[10 * MIB]);
    // The only ext volume is found; so it is by its number, its byte, and a byte with a unit.
    for word in ["one.img", "one.img@5", "one.img@@10485760", "one.img@@10M", "one.img@@20480s"] {
        motd(word, folder.path());
        told(&["check", word], folder.path());
    }
    disk(folder.path(), "two.img", script, &image, &[10 * MIB, 30 * MIB]);
    motd("two.img@6", folder.path());
    let (code, text) = refused(&["ls", "two.img"], folder.path());
    assert!(code == 1 && text.contains("two.img@5 (at byte 10485760), two.img@6"), "{text}");
    for (word, why) in [
        ("two.img@root", "an MBR have numbers, not names"),
        ("two.img@7", "no such partition"),
        ("two.img@1", "not an ext2"),
        ("two.img@@x", "no number of bytes"),
        ("two.img@@1G", "has only"),
        ("volume.img@1", "no partition table"),
    ] {
        let (_, text) = refused(&["ls", word], folder.path());
        assert!(text.contains(why) && text.contains("hint"), "{word}: {text}");
    }
    let (code, text) = refused(&["ls", "--offset", "1M", "two.img@5"], folder.path());
    assert!(code == 2 && text.contains("both say"), "{text}");
    // A file of the whole name is that file.
    fs::copy(&image, folder.join("two.img@5")).unwrap();
    fs::write(folder.join("two.img"), "").unwrap();
    motd("two.img@5", folder.path());
}

#[test]
fn a_gpt_has_names_and_a_copy() {
    if !require("sgdisk") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-gpt");
    let image = volume(folder.path(), "8M");
    let path = folder.join("gpt.img");
    fs::File::create(&path).unwrap().set_len(64 * MIB).unwrap();
    let words = ["-n", "1:2048:+1M", "-c", "1:boot", "-n", "2:8192:+20M", "-c", "2:my root"];
    let more =
        ["-n", "9:65536:+20M", "-c", "9:größe", "-u", "9:11111111-2222-3333-4444-555555555555"];
    output(program("sgdisk").args(words).args(more).arg(&path)).unwrap();
    put(&path, &image, &[4 * MIB, 32 * MIB]);
    for word in ["2", "my root", "9", "größe", "11111111-2222-3333-4444-555555555555"] {
        motd(&format!("gpt.img@{word}"), folder.path());
    }
    let (_, text) = refused(&["ls", "gpt.img"], folder.path());
    assert!(text.contains(r#"gpt.img@2 ("my root", at byte 4194304)"#), "{text}");
    // Without the header at the start that at the end is read; without both nothing is believed.
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"\xff", 512 + 70).unwrap();
    motd("gpt.img@2", folder.path());
    let (_, text) = refused(&["ls", "gpt.img"], folder.path());
    assert!(
        text.contains("the checksum of its header is wrong") && text.contains("copy"),
        "{text}"
    );
    file.write_all_at(b"\xff", 64 * MIB - 512 + 70).unwrap();
    let (_, text) = refused(&["ls", "gpt.img@2"], folder.path());
    assert!(text.contains("damaged GPT"), "{text}");
}

/// Sectors of 4 KiB, as sgdisk sees them on a loop device that has them.
#[test]
fn sectors_of_4096_bytes_are_counted() {
    if !require("sfdisk") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-4k");
    let image = volume(folder.path(), "8M");
    let path = folder.join("four.img");
    fs::File::create(&path).unwrap().set_len(64 * MIB).unwrap();
    fs::write(folder.join("script"), "label: gpt\nsector-size: 4096\nstart=256,size=4096,name=x\n")
        .unwrap();
    let mut losetup = program("losetup");
    let made = output(losetup.args(["-f", "--show", "-b", "4096"]).arg(&path));
    let Ok(made) = made else { return };
    let device = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let input = fs::File::open(folder.join("script")).unwrap();
    let mut sfdisk = program("sfdisk");
    let done = output(sfdisk.args(["-q", "--no-tell-kernel", &device]).stdin(input));
    output(program("losetup").args(["-d", &device])).unwrap();
    done.unwrap();
    put(&path, &image, &[MIB]);
    motd("four.img", folder.path());
    motd("four.img@x", folder.path());
}

#[test]
fn a_volume_ends_with_its_partition() {
    if !require("sfdisk") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-end");
    let image = volume(folder.path(), "8M");
    // The partition has 4 MiB, the volume claims 8.
    let script = "label: dos\n2048,8192,L\n30720,20480,L\n";
    disk(folder.path(), "end.img", script, &image, &[MIB]);
    let (code, text) = refused(&["ls", "end.img"], folder.path());
    assert!(code == 1 && text.contains("cut short"), "{text}");
    assert!(text.contains("extant: ls: end.img"), "{text}");
}

/// What writes changes nothing outside of the partition.
#[test]
fn writers_stay_within_the_partition() {
    if !require("sfdisk") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-write");
    let image = volume(folder.path(), "8M");
    let script = "label: dos\n2048,16384,L\n20480,16384,L\n";
    disk(folder.path(), "two.img", script, &image, &[MIB, 10 * MIB]);
    let path = folder.join("two.img");
    let before = fs::read(&path).unwrap();
    let words = ["age", "--profile", "mail", "--days", "1", "two.img@2"];
    let aged = crate::take::command::extant(&words, folder.path());
    assert!(aged.status.success(), "{}", String::from_utf8_lossy(&aged.stderr));
    told(&["replay", "two.img@2"], folder.path());
    let after = fs::read(&path).unwrap();
    assert!(before.len() == after.len() && before[..10 << 20] == after[..10 << 20]);
    assert!(before[18 << 20..] == after[18 << 20..] && before != after);
    told(&["check", "two.img@2"], folder.path());
    // Nor does an archive of a partition replace the disk.
    let (code, text) = refused(&["tar", "-F", "-o", "two.img", "two.img@2"], folder.path());
    assert!(code == 2 && text.contains("is the image itself"), "{text}");
    let (code, text) = refused(&["tar", "two.img@2:/etc"], folder.path());
    assert!(code == 2 && text.contains("extant tar two.img@2 etc"), "{text}");
    // What makes an image takes no part of one: no file of that name is made.
    for words in [&["mkfs", "two.img@2", "4M"][..], &["build", "tree", "two.img@2"]] {
        let (code, text) = refused(words, folder.path());
        assert!(code == 2 && text.contains("losetup"), "{text}");
        assert!(!folder.join("two.img@2").exists());
    }
}

/// The kernel's view of the partitions of a disk is ours.
#[test]
fn partitions_are_where_the_kernel_has_them() {
    if !require("sfdisk") || !require("mke2fs") || !extant_testkit::oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("take-kernel");
    let image = volume(folder.path(), "8M");
    let script = "label: dos\n2048,16384,L\n20480,,E\n22528,16384,L\n63488,16384,L\n";
    disk(folder.path(), "k.img", script, &image, &[MIB, 11 * MIB, 31 * MIB]);
    let mut partx = program("partx");
    let shown = output(partx.args(["-g", "-o", "NR,START", "--raw"]).arg(folder.join("k.img")));
    let Ok(shown) = shown else { return };
    let mut checked = 0;
    for row in String::from_utf8(shown.stdout).unwrap().lines() {
        let (number, start) = row.split_once(' ').unwrap();
        if number == "2" {
            continue;
        }
        let start: u64 = start.trim().parse().unwrap();
        let by_number = told(&["info", &format!("k.img@{number}")], folder.path());
        let by_byte = told(&["info", &format!("k.img@@{}s", start)], folder.path());
        assert!(by_number == by_byte, "{row}");
        checked += 1;
    }
    assert_eq!(checked, 3);
}
