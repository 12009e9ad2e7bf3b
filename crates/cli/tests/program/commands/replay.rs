//! Volumes that were not unmounted: read as they are after replay, and replayed.
use crate::commands::command::{extant, printed};
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_engine::preset::Policies;
use extant_engine::{DataKeeping, Filesystem, Options};
use extant_sim::{Fault, Faulty};
use extant_testkit::oracle::{self, Access};
use extant_testkit::scratch::Scratch;
use extant_testkit::{command, compare};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Standard output of a command that ends with 0, and what it says besides.
fn said(words: &[&str]) -> (String, String) {
    let output = extant(words);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {errors}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), errors)
}

/// An image as a power cut leaves it: the kernel has committed to its journal, and has written
/// little in place.
fn cut(folder: &Scratch, features: &str) -> PathBuf {
    let (image, cut) = (folder.join("mounted.img"), folder.join("cut.img"));
    let mut mke2fs = command::program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", features]).arg(&image).arg("32M");
    command::output(&mut mke2fs).expect("mke2fs makes it");
    let mounted = oracle::mount_loop(&image, Access::ReadWrite, "commit=1000").expect("mounted");
    let root = mounted.path();
    std::fs::create_dir(root.join("folder")).expect("a folder");
    for number in 0..40 {
        std::fs::write(root.join(format!("folder/{number}")), vec![7; 5000]).expect("a file");
    }
    command::run("sync", &["-f".as_ref(), root.as_os_str()]).expect("synced");
    std::fs::write(root.join("fast"), "a file that is synced alone\n").expect("a file");
    let fast = std::fs::File::open(root.join("fast")).expect("a file");
    fast.sync_all().expect("synced");
    drop(fast);
    // The loop device writes to the page cache of the image, so that a copy has it all.
    std::fs::copy(&image, &cut).expect("a copy");
    mounted.unmount().expect("unmounted");
    cut
}

fn compare_with_kernel(image: &Path, folder: &Scratch) {
    let theirs = folder.join("theirs.img");
    std::fs::copy(folder.join("cut.img"), &theirs).expect("a copy");
    let ours = oracle::mount_loop(image, Access::ReadOnly, "").expect("mounted");
    let theirs = oracle::mount_loop(&theirs, Access::ReadWrite, "").expect("mounted");
    let differences = compare::trees(theirs.path(), ours.path(), &compare::Options::same_image());
    // Fast commits do not say when a directory changed: Linux takes the time of the replay.
    let is_time = |sentence: &str| sentence.starts_with("mtime") || sentence.starts_with("ctime");
    let mut differences = differences.expect("compared");
    differences.retain(|it| !it.path.as_os_str().is_empty() || !is_time(&it.sentence));
    assert!(differences.is_empty(), "{differences:?}");
}

#[test]
fn a_volume_that_was_cut_is_read_and_judged_as_after_replay_and_nothing_is_written() {
    if !oracle::require("mke2fs") || !oracle::can_mount() {
        return;
    }
    for features in ["metadata_csum,64bit", "^metadata_csum,^64bit", "fast_commit"] {
        let folder = Scratch::on_disk("replay-read");
        let image = cut(&folder, features);
        let before = std::fs::read(&image).expect("the image");
        let name = image.display().to_string();
        let inside = |path: &str| format!("{name}:{path}");
        let archive = folder.join("out.tar").display().to_string();
        let (fast, listed) = (inside("/fast"), inside("/folder"));
        for (words, word) in [
            (&["ls", "-l", &listed][..], "39"),
            (&["cat", &fast], "synced alone"),
            (&["stat", &fast], "Size: 28"),
            (&["tar", "-o", &archive, &name], ""),
            (&["check", &name], "clean"),
            (&["layout", &name], "files"),
            (&["info", &name], "Journal holds:"),
        ] {
            let (out, errors) = said(words);
            assert!(out.contains(word), "{features}, {words:?}: {out}");
            let line = errors.lines().next().unwrap_or_default();
            let is_told = line.contains("its journal was replayed in memory: ");
            assert!(is_told && errors.lines().count() == 1, "{features}, {words:?}: {errors}");
            assert!(std::fs::read(&image).expect("the image") == before, "{words:?} wrote");
        }
        let (out, errors) = said(&["check", "-q", &name]);
        assert!(errors.is_empty(), "{out}{errors}");
        let (info, _) = said(&["info", "-h", "--json", &name]);
        let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
        assert!(info["log"]["transactions"].as_u64() > Some(0), "{info}");
        assert!(info["volume"]["journal"]["start"].as_u64() > Some(0), "{info}");
        let has_fast = info["log"]["fast_commits"].as_u64() > Some(0);
        assert_eq!(has_fast, features == "fast_commit", "{info}");
    }
}

#[test]
fn a_journal_is_replayed_once_and_the_kernel_sees_the_same() {
    if !oracle::require("mke2fs") || !oracle::can_mount() {
        return;
    }
    for features in ["metadata_csum,64bit", "fast_commit"] {
        let folder = Scratch::on_disk("replay-write");
        let image = folder.join("image");
        std::fs::copy(cut(&folder, features), &image).expect("a copy");
        let before = std::fs::read(&image).expect("the image");
        let name = image.display().to_string();
        let (dry, _) = said(&["replay", "--dry-run", &name]);
        assert!(dry.contains("would replay ") && dry.contains("would be emptied"), "{dry}");
        assert!(std::fs::read(&image).expect("the image") == before, "a dry run wrote");
        let (record, errors) = said(&["replay", "--json", &name]);
        let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
        assert_eq!((&record["outcome"], errors.as_str()), (&"replayed".into(), ""), "{record}");
        assert_eq!((&record["end"], &record["dry_run"]), (&"clean".into(), &false.into()));
        assert!(record["blocks"].as_u64() > Some(10), "{record}");
        let (again, _) = said(&["replay", &name]);
        assert!(again.contains("there is nothing to replay"), "{again}");
        let words = ["check", &name];
        let clean = printed(&words, extant(&words));
        assert!(String::from_utf8_lossy(&clean).contains("clean"));
        compare_with_kernel(&image, &folder);
    }
}

#[test]
fn what_cannot_be_replayed_is_said_in_a_line() {
    if !oracle::require("mke2fs") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::on_disk("replay-refused");
    let image = cut(&folder, "^metadata_csum,^64bit,^extent");
    let name = image.display().to_string();
    let place = oracle::debugfs(&image, "bmap <8> 0").expect("debugfs");
    let place = place.trim().parse::<usize>().expect("a block") * 1024;
    let mut bytes = std::fs::read(&image).expect("the image");
    // The length of the journal, in its superblock.
    bytes[place + 16..place + 20].fill(0xff);
    std::fs::write(&image, &bytes).expect("written");
    for words in [&["replay", &name][..], &["ls", &name], &["replay", "-n", &name]] {
        let output = extant(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {errors}");
        assert!(errors.contains("number of blocks 4294967295"), "{words:?}: {errors}");
        assert!(std::fs::read(&image).expect("the image") == bytes, "{words:?} wrote");
    }
    // It is shown nevertheless, as it is.
    let (_, errors) = said(&["info", "-h", &name]);
    assert!(errors.contains("is not replayed: "), "{errors}");
    std::fs::write(&image, vec![0; 1 << 20]).expect("written");
    let output = extant(&["replay", &name]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not an ext2, ext3 or ext4 volume"));
}

/// An image as a power cut leaves it while three files without a name were open.
fn cut_while_open(folder: &Scratch, features: &str) -> PathBuf {
    let (image, cut) = (folder.join("mounted.img"), folder.join("cut.img"));
    let mut mke2fs = command::program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", features]).arg(&image).arg("32M");
    command::output(&mut mke2fs).expect("mke2fs makes it");
    let mounted = oracle::mount_loop(&image, Access::ReadWrite, "").expect("mounted");
    let names = ["one", "two", "three"].map(|name| mounted.path().join(name));
    let held = names.each_ref().map(|name| {
        std::fs::write(name, vec![7; 300_000]).expect("a file");
        std::fs::File::open(name).expect("it is open")
    });
    extant_testkit::oracle::sync(mounted.path());
    names.iter().for_each(|name| std::fs::remove_file(name).expect("unlinked"));
    extant_testkit::oracle::sync(mounted.path());
    std::fs::copy(&image, &cut).expect("a copy");
    drop(held);
    mounted.unmount().expect("unmounted");
    cut
}

#[test]
fn files_that_were_open_without_a_name_are_freed_unless_the_journal_alone_is_wanted() {
    if !oracle::require("mke2fs") || !oracle::can_mount() {
        return;
    }
    for features in ["^orphan_file", "orphan_file", "fast_commit,orphan_file"] {
        let folder = Scratch::on_disk("replay-orphans");
        let cut = cut_while_open(&folder, features);
        let name = cut.display().to_string();
        let judged = |when: &str| {
            let (out, _) = said(&["check", &name]);
            let waits = "advice: 3 deleted inodes wait on the list of orphans to be freed";
            assert!(out.contains(waits) && out.contains("clean; 1 piece"), "{when}: {out}");
        };
        judged("with its journal");
        let (dry, _) = said(&["replay", "--dry-run", &name]);
        assert!(dry.contains("would have 3 deleted inodes freed"), "{dry}");
        let copies = ["json", "edited"].map(|copy| {
            let copy = folder.join(copy);
            std::fs::copy(&cut, &copy).expect("a copy");
            copy.display().to_string()
        });
        let (record, _) = said(&["replay", "--json", &copies[0]]);
        let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
        assert_eq!(record["orphans"], serde_json::json!({ "freed": 3, "truncated": 0 }));
        said(&["mkdir", &format!("{}:/new", copies[1])]);
        for copy in &copies {
            oracle::e2fsck(Path::new(copy)).unwrap_or_else(|words| panic!("{features}: {words}"));
        }
        let (out, _) = said(&["replay", "--journal-only", &name]);
        assert!(out.contains("replayed") && !out.contains("freed"), "{out}");
        assert!(oracle::e2fsck(&cut).is_err(), "{features}: nothing waits");
        judged("after the journal alone");
        let (out, _) = said(&["replay", &name]);
        assert!(out.contains("there is nothing to replay; 3 deleted inodes freed"), "{out}");
        oracle::e2fsck(&cut).unwrap_or_else(|words| panic!("{features}: {words}"));
        let before = std::fs::read(&cut).expect("the image");
        let (out, _) = said(&["replay", &name]);
        assert!(!out.contains("freed"), "{out}");
        assert!(std::fs::read(&cut).expect("the image") == before, "nothing waited: {out}");
    }
}

#[test]
fn a_damaged_list_of_orphans_frees_nothing() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") {
        return;
    }
    let folder = Scratch::on_disk("replay-damaged-orphans");
    let (base, image) = (folder.join("base.img"), folder.join("image"));
    let source = folder.join("source");
    std::fs::write(&source, vec![7; 50_000]).expect("a file");
    let mut mke2fs = command::program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024"]).arg(&base).arg("16M");
    command::output(&mut mke2fs).expect("mke2fs makes it");
    let debug = |image: &Path, request: &str| {
        let mut debugfs = command::program("debugfs");
        command::output(debugfs.args(["-w", "-R", request]).arg(image)).expect("debugfs runs");
    };
    for name in ["one", "two"] {
        debug(&base, &format!("write {} {name}", source.display()));
    }
    let name = image.display().to_string();
    for requests in [
        &["sif one links_count 0", "sif one dtime @12", "ssv last_orphan 12"][..],
        &["sif one links_count 0", "sif one dtime @13", "sif two dtime @12", "ssv last_orphan 12"],
        &["ssv last_orphan 99999"],
        &["ssv last_orphan 8"],
        &["ssv last_orphan 2"],
    ] {
        std::fs::copy(&base, &image).expect("a copy");
        requests.iter().for_each(|request| debug(&image, request));
        let before = std::fs::read(&image).expect("the image");
        for words in [&["replay", &name][..], &["rm", &format!("{name}:/two")]] {
            let output = extant(words);
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{requests:?}, {words:?}: {errors}");
            assert!(errors.contains("list of orphans"), "{requests:?}, {words:?}: {errors}");
            let same = std::fs::read(&image).expect("the image") == before;
            assert!(same, "{requests:?}, {words:?}: it was written");
        }
        let output = extant(&["check", &name]);
        assert!(output.status.code().is_some_and(|code| code <= 12), "{requests:?}");
    }
}

/// An image with two transactions in its log, the second of which does not fit its checksums.
fn with_damaged_log(folder: &Scratch) -> PathBuf {
    let (image, script) = (folder.join("image"), folder.join("script"));
    let mut mke2fs = command::program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", "metadata_csum"]);
    command::output(mke2fs.arg(&image).arg("16M")).expect("mke2fs makes it");
    let transactions = "jo -c\njw -b 7000 /dev/zero\njc\njo\njw -b 7001 /dev/zero\njc\n";
    std::fs::write(&script, transactions).expect("a script");
    let mut debugfs = command::program("debugfs");
    command::output(debugfs.arg("-w").arg("-f").arg(&script).arg(&image)).expect("debugfs runs");
    let start = oracle::debugfs(&image, "bmap <8> 0").expect("debugfs");
    let start = start.trim().parse::<usize>().expect("a block");
    let mut bytes = std::fs::read(&image).expect("the image");
    // Superblock; descriptor, copy, commit; descriptor, copy.
    bytes[(start + 5) * 1024 + 100] ^= 1;
    std::fs::write(&image, bytes).expect("written");
    image
}

#[test]
fn a_log_that_damage_cuts_is_said_wherever_it_is_replayed() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") || !oracle::require("e2fsck") {
        return;
    }
    let folder = Scratch::on_disk("replay-damaged-log");
    let image = with_damaged_log(&folder);
    let before = std::fs::read(&image).expect("the image");
    let name = image.display().to_string();
    let inside = format!("{name}:/");
    let made = format!("{name}:/new");
    for (words, code) in [
        (&["ls", &inside][..], 0),
        (&["stat", &inside], 0),
        (&["info", "-h", &name], 0),
        (&["check", &name], 4),
        (&["check", "-q", &name], 4),
        (&["replay", "-n", &name], 1),
        (&["mkdir", &made], 1),
        (&["replay", &name], 1),
        (&["replay", "-q", &name], 1),
    ] {
        std::fs::write(&image, &before).expect("written");
        let output = extant(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {errors}");
        let lines = errors.lines().filter(|line| line.contains("transaction 2 is damaged"));
        assert_eq!(lines.count(), 1, "{words:?}: {errors}");
    }
    let output = extant(&["check", "--json", &name]);
    let is_marked = oracle::dumpe2fs(&image).expect("dumpe2fs reads it");
    assert_eq!(is_marked.number("Journal start"), Some(0), "the log is empty after the replay");
    assert_eq!(output.status.code(), Some(0), "what was replayed is whole");
    // The volume asks for a check, which e2fsck makes.
    let mut e2fsck = command::program("e2fsck");
    let output = e2fsck.arg("-p").arg(&image).output().expect("e2fsck runs");
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(words.contains("file system with errors, check forced"), "{words}");
    oracle::e2fsck(&image).expect("it is whole");
}

/// An image whose journal was stopped, while we wrote to it, by a log that the device did not take.
fn stopped(folder: &Scratch) -> PathBuf {
    let (bytes, image) = (8 << 20, folder.join("stopped.img"));
    let medium = Arc::new(MemoryDevice::new(RealClock::new(), bytes));
    let mut wishes = default_wishes(Profile::Ext4, bytes, Some(1024), Identity::NONE);
    wishes.blocks = bytes / 1024;
    let policies: Policies = "modern,commit=3600s".parse().expect("policies");
    let shared = Arc::clone(&medium) as Arc<dyn BlockDevice>;
    format(shared, &FormatOptions::new(wishes), &policies).expect("formats");
    let device = Arc::new(Faulty::new(Arc::clone(&medium)));
    let (access, data) = (extant_engine::Access::ReadWrite, DataKeeping::Bytes);
    let options = Options { access, policies, cache_bytes: 4 << 20, data };
    let volume = Filesystem::open(Arc::clone(&device) as _, &options).expect("opens");
    volume.write("/kept", b"synced\n").expect("a file");
    volume.sync().expect("syncs");
    volume.create_dir("/lost", 0o755).expect("a directory");
    device.repair();
    device.add(Fault::NthWrite(1));
    assert!(volume.sync().is_err(), "the log cannot be written");
    assert!(volume.close().is_err(), "close said nothing");
    medium.save(&image).expect("saves");
    image
}

#[test]
fn an_error_in_the_journal_is_blamed_on_nobody() {
    let folder = Scratch::on_disk("replay-stopped");
    let image = stopped(&folder);
    let name = image.display().to_string();
    for words in [&["replay", "--dry-run", &name][..], &["replay", &name]] {
        let (out, errors) = said(words);
        // Whoever wrote to it: the journal does not say.
        assert!(out.contains("; an error had stopped it: Input/output error"), "{words:?}: {out}");
        assert!(!out.contains("Linux") && errors.is_empty(), "{words:?}: {out}{errors}");
    }
    let (out, _) = said(&["cat", &format!("{name}:/kept")]);
    assert_eq!(out, "synced\n");
}
