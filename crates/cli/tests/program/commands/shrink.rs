//! `extant shrink`, and `extant resize --partition`: the table is judged by sfdisk and sgdisk, the
//! volumes by e2fsck and the kernel, and what must stay is compared byte by byte.
use crate::commands::command::extant;
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;

/// A disk with a table, and a volume in each of its partitions: their numbers, and where they begin
/// in MiB; each has 20 MiB. `None` without the programs for it.
struct Disk {
    folder: Scratch,
    path: PathBuf,
    label: &'static str,
    starts: Vec<(u32, usize)>,
}

impl Disk {
    fn new(label: &'static str, starts: &[(u32, usize)]) -> Option<Disk> {
        if !["sfdisk", "sgdisk", "mke2fs", "e2fsck"].into_iter().all(require) {
            return None;
        }
        let folder = Scratch::new("shrink-disk");
        let (path, tree) = (folder.join("disk.img"), folder.join("tree"));
        fs::create_dir(&tree).unwrap();
        for number in 0..40_u8 {
            let bytes = vec![number; 3000 * usize::from(number) + 7];
            fs::write(tree.join(format!("file-{number}")), bytes).unwrap();
        }
        fs::File::create(&path).unwrap().set_len(100 << 20).unwrap();
        let kind = if label == "gpt" { "linux" } else { "L" };
        let lines = starts.iter().map(|(number, start)| {
            let shown = path.display();
            format!("{shown}{number} : start={}, size=40960, type={kind}\n", start * 2048)
        });
        let script = folder.join("script");
        fs::write(&script, format!("label: {label}\n{}", lines.collect::<String>())).unwrap();
        let mut sfdisk = program("sfdisk");
        sfdisk.arg("-q").arg(&path).stdin(fs::File::open(&script).unwrap());
        output(&mut sfdisk).expect("sfdisk makes it");
        for (number, start) in starts {
            let mut mke2fs = program("mke2fs");
            let kind = if number % 2 == 0 { "ext3" } else { "ext4" };
            mke2fs.args(["-q", "-F", "-b", "1024", "-t", kind, "-d"]).arg(&tree);
            mke2fs.arg("-E").arg(format!("offset={}", start * MIB));
            output(mke2fs.arg(&path).arg("20M")).expect("mke2fs makes it");
        }
        Some(Disk { folder, path, label, starts: starts.to_vec() })
    }

    fn word(&self, number: u32) -> String {
        format!("{}@{number}", self.path.display())
    }

    fn done(&self, words: &[&str]) -> String {
        let output = extant(words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The table and all volumes are sound; the files are those that were there.
    fn judged(&self, path: &Path) {
        let text = |run: std::process::Output| String::from_utf8_lossy(&run.stdout).into_owned();
        if self.label == "gpt" {
            let said = text(output(program("sgdisk").arg("-v").arg(path)).expect("sgdisk looks"));
            assert!(said.contains("No problems found"), "{said}");
        }
        output(program("sfdisk").arg("--verify").arg(path)).expect("sfdisk finds nothing");
        for (number, start) in &self.starts {
            let place = format!("{}?offset={}", path.display(), start * MIB);
            output(program("e2fsck").args(["-fn", &place])).expect("e2fsck finds nothing");
            let shown = path.display();
            let out = self.folder.join(&format!("out-{number}"));
            let _ = fs::remove_dir_all(&out);
            self.done(&["extract", "-q", &format!("{shown}@{number}"), out.to_str().unwrap()]);
            for file in 0..40 {
                let read = |root: &Path| fs::read(root.join(format!("file-{file}"))).unwrap();
                assert!(read(&out) == read(&self.folder.join("tree")), "{number}: file-{file}");
            }
        }
    }

    /// Names, identifiers and places in the table, but for the size of one partition.
    fn table(&self, path: &Path, but: u32) -> String {
        let dump = output(program("sfdisk").arg("-d").arg(path)).expect("sfdisk reads it").stdout;
        let text = String::from_utf8_lossy(&dump).into_owned();
        let lines = text.lines().filter(|line| !line.starts_with("last-lba"));
        let lines = lines.map(|line| match line.split_once(" :") {
            Some((node, rest)) if node.ends_with(&format!("img{but}")) => {
                let parts = rest.split(',').filter(|part| !part.contains("size="));
                format!("{but}: {}\n", parts.collect::<String>())
            }
            Some((node, rest)) => {
                let number = node.rsplit("img").next().unwrap_or_default();
                format!("{number}: {rest}\n")
            }
            None if line.starts_with("device:") => String::new(),
            None => format!("{line}\n"),
        });
        lines.collect()
    }
}

#[test]
fn the_end_of_a_partition_moves_and_nothing_else() {
    // Numbers with gaps between them, as those of cloud images.
    for (label, starts) in
        [("gpt", &[(3, 1), (14, 22), (1, 45)][..]), ("dos", &[(1, 1), (2, 22), (4, 45)])]
    {
        let Some(disk) = Disk::new(label, starts) else { return };
        let (second, last) = (starts[1].0, starts[2].0);
        let before = fs::read(&disk.path).unwrap();
        let table = disk.table(&disk.path, last);
        let others = MIB..45 * MIB;
        for words in [&["+9M"][..], &["150M"], &["6M"], &["max"], &["min"]] {
            disk.done(&[&["resize", "--partition", &disk.word(last)], words].concat());
            disk.judged(&disk.path);
            let after = fs::read(&disk.path).unwrap();
            assert!(after[others.clone()] == before[others.clone()], "{label} {words:?}");
            assert_eq!(disk.table(&disk.path, last), table, "{label} {words:?}");
        }
        // One that another follows, with 3 MiB between them.
        let table = disk.table(&disk.path, second);
        disk.done(&["resize", "--partition", &disk.word(second), "max"]);
        disk.judged(&disk.path);
        assert_eq!(disk.table(&disk.path, second), table, "{label}");
        let word = disk.word(second);
        let output = extant(&["resize", "--partition", &word, "24M"]);
        assert_eq!(output.status.code(), Some(1), "it would be on the next one");
        disk.judged(&disk.path);
    }
}

#[test]
fn an_image_is_as_small_as_can_be_with_its_table() {
    for (label, starts) in [("gpt", &[(15, 1), (2, 22)][..]), ("dos", &[(1, 1), (2, 22)])] {
        let Some(disk) = Disk::new(label, starts) else { return };
        let before = fs::read(&disk.path).unwrap();
        let last = disk.word(2);
        for name in ["small.img", "small.img.zst", "small.img.gz", "small.qcow2"] {
            let out = disk.folder.join(name);
            let shown = out.to_str().unwrap();
            disk.done(&["shrink", &last, shown]);
            assert!(fs::read(&disk.path).unwrap() == before, "it is only read");
            let refused = extant(&["shrink", &last, shown]);
            assert_eq!(refused.status.code(), Some(1), "{shown} is there");
            if name == "small.img" {
                assert!(fs::metadata(&out).unwrap().len() < 35 << 20);
                disk.judged(&out);
                assert_eq!(disk.table(&out, 2), disk.table(&disk.path, 2), "{label}");
            }
            let word = format!("{shown}@2");
            let listed = disk.done(&["ls", &format!("{word}:/")]);
            assert!(listed.contains("file-39"), "{listed}");
        }
        let small = fs::metadata(disk.folder.join("small.img")).unwrap().len();
        let free = disk.done(&["shrink", "--json", "--free", "5M", "-n", &last]);
        let free: serde_json::Value = serde_json::from_str(&free).unwrap();
        let wanted = free["disk_bytes_after"].as_u64().unwrap();
        assert!((4 << 20..8 << 20).contains(&(wanted - small)), "{free}");
        assert!(fs::read(&disk.path).unwrap() == before, "a dry run");
        disk.done(&["shrink", &last]);
        assert_eq!(fs::metadata(&disk.path).unwrap().len(), small);
        disk.judged(&disk.path);
        assert!(fs::read(&disk.path).unwrap()[MIB..22 * MIB] == before[MIB..22 * MIB]);
    }
}

/// What is behind a volume, in its partition or after that, is not cut off without a word.
#[test]
fn what_follows_a_volume_stays_unless_it_is_to_be_cut() {
    for at in [30 * MIB, 60 * MIB] {
        let Some(disk) = Disk::new("gpt", &[(1, 1)]) else { return };
        // A partition of 40 MiB, a volume of 20.
        let word = disk.word(1);
        disk.done(&["resize", "--partition", &word, "40M"]);
        disk.done(&["resize", &word, "20M"]);
        disk.done(&["shrink", "--cut", "-n", &word]);
        let mut bytes = fs::read(&disk.path).unwrap();
        bytes[21 * MIB..].iter_mut().take(20 * MIB).for_each(|byte| *byte = 0);
        bytes[at..at + 6].copy_from_slice(b"FOOTER");
        fs::write(&disk.path, &bytes).unwrap();
        let out = disk.folder.join("out.img");
        let copied = extant(&["shrink", &word, out.to_str().unwrap()]);
        let in_place = extant(&["shrink", &word]);
        for (output, path) in [(copied, &out), (in_place, &disk.path)] {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(0) && errors.contains("--cut"), "{errors}");
            let after = fs::read(path).unwrap();
            assert_eq!(after.len(), bytes.len(), "{at}");
            assert!(&after[at..at + 6] == b"FOOTER", "{at}");
            disk.judged(path);
        }
        disk.done(&["shrink", "--cut", &word]);
        assert!(fs::metadata(&disk.path).unwrap().len() < 20 << 20);
        disk.judged(&disk.path);
    }
}

#[test]
fn tables_that_do_not_fit_their_disk_are_refused() {
    let Some(disk) = Disk::new("dos", &[(1, 1), (2, 22)]) else { return };
    let whole = fs::read(&disk.path).unwrap();
    let refused = |number: u32, said: &str| {
        let before = fs::read(&disk.path).unwrap();
        for size in ["max", "min", "25M"] {
            let output = extant(&["resize", "--partition", &disk.word(number), size]);
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(1) && errors.contains(said), "{size}: {errors}");
            assert!(fs::read(&disk.path).unwrap() == before, "{size}");
        }
    };
    // The first partition reaches into the second.
    let mut bytes = whole.clone();
    bytes[446 + 12..446 + 16].copy_from_slice(&90_000_u32.to_le_bytes());
    fs::write(&disk.path, &bytes).unwrap();
    refused(1, "overlaps another one");
    // The disk was cut short.
    fs::write(&disk.path, &whole[..40 * MIB]).unwrap();
    refused(2, "past the end");
    // A GPT whose partitions the MBR names, too.
    let Some(disk) = Disk::new("gpt", &[(1, 1), (2, 22)]) else { return };
    let mut sgdisk = program("sgdisk");
    output(sgdisk.args(["-h", "1:EE"]).arg(&disk.path)).expect("sgdisk makes it hybrid");
    let before = fs::read(&disk.path).unwrap();
    let run = extant(&["resize", "--partition", &disk.word(1), "min"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("hybrid"));
    assert!(fs::read(&disk.path).unwrap() == before);
}

/// A fixed VHD has its own sector after the disk: no copy of a table is written over that.
#[test]
fn what_follows_a_gpt_is_not_written_over() {
    let Some(disk) = Disk::new("gpt", &[(1, 1), (2, 22)]) else { return };
    let mut bytes = fs::read(&disk.path).unwrap();
    let mut footer = [0; 512];
    footer[..8].copy_from_slice(b"conectix");
    bytes.extend_from_slice(&footer);
    fs::write(&disk.path, &bytes).unwrap();
    let word = disk.word(2);
    for words in [&["resize", "--partition", &word, "min"][..], &["shrink", &word]] {
        let run = extant(words);
        let errors = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.code() == Some(1) && errors.contains("follows"), "{words:?}: {errors}");
        assert!(fs::read(&disk.path).unwrap() == bytes, "{words:?}");
    }
    // Zeros are nothing.
    bytes.truncate(100 * MIB);
    bytes.resize(120 * MIB, 0);
    fs::write(&disk.path, &bytes).unwrap();
    disk.done(&["resize", "--partition", &word, "max"]);
    disk.judged(&disk.path);
}

/// As large as can be is that the second time, too.
#[test]
fn max_is_as_large_as_the_disk() {
    let Some(disk) = Disk::new("gpt", &[(1, 1)]) else { return };
    for _ in 0..3 {
        disk.done(&["resize", "--partition", &disk.word(1), "max"]);
        assert_eq!(fs::metadata(&disk.path).unwrap().len(), 100 << 20);
        disk.judged(&disk.path);
    }
    // What has that size already gets its table nevertheless: a cut may have kept it from it.
    disk.done(&["resize", &disk.word(1), "min"]);
    disk.done(&["resize", "--partition", &disk.word(1), "min"]);
    let dump = output(program("sfdisk").arg("-d").arg(&disk.path)).expect("sfdisk reads it");
    assert!(!String::from_utf8_lossy(&dump.stdout).contains("size=      202"), "{dump:?}");
    disk.judged(&disk.path);
}

/// What follows a volume that is alone in its file is not cut off.
#[test]
fn a_volume_alone_is_cut_unless_something_follows() {
    if !require("mke2fs") || !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("shrink-alone");
    let image = folder.join("disk.img");
    let shown = image.to_str().unwrap();
    for footer in [&b""[..], b"conectix and so on"] {
        let _ = fs::remove_file(&image);
        output(program("mke2fs").args(["-q", "-F", "-b", "1024"]).arg(&image).arg("16M")).unwrap();
        let mut bytes = fs::read(&image).unwrap();
        bytes.extend_from_slice(footer);
        fs::write(&image, &bytes).unwrap();
        let out = extant(&["shrink", shown]);
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        let after = fs::read(&image).unwrap();
        match footer.is_empty() {
            true => assert!(after.len() < 4 << 20, "{}", after.len()),
            false => assert!(after.ends_with(footer) && after.len() == bytes.len()),
        }
        if footer.is_empty() {
            oracle::e2fsck(&image).expect("it is sound");
        }
    }
}
