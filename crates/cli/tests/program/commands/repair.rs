//! `extant repair`, `undo` and `heal` from outside, beside what e2fsck says.
use crate::commands::command::{command, extant};
use extant_testkit::scratch::Scratch;
use extant_testkit::{command as host, oracle};
use std::path::{Path, PathBuf};
use std::process::Output;

fn words(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn document(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A small volume with files in it, made by mke2fs; `None` without it.
fn image(folder: &Scratch, kind: &str) -> Option<PathBuf> {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") || !oracle::require("debugfs") {
        return None;
    }
    let source = folder.join("source");
    std::fs::create_dir_all(source.join("some/where")).unwrap();
    for number in 0..20 {
        std::fs::write(source.join(format!("some/file-{number}")), vec![number; 3000]).unwrap();
    }
    let image = folder.join("disk.img");
    let mut mke2fs = host::program("mke2fs");
    mke2fs.args(["-q", "-F", "-b", "1024", "-t", kind, "-d"]).arg(&source).arg(&image).arg("8M");
    host::output(&mut mke2fs).expect("mke2fs makes it");
    Some(image)
}

fn e2fsck(image: &Path) -> Option<i32> {
    host::program("e2fsck").arg("-fn").arg(image).output().unwrap().status.code()
}

fn debugfs(image: &Path, request: &str) {
    let mut debugfs = host::program("debugfs");
    host::output(debugfs.args(["-w", "-R", request]).arg(image)).expect("debugfs");
}

/// The names beside an image that are ours.
fn beside(image: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(image.parent().unwrap()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".extant-")).collect()
}

#[test]
fn a_clean_volume_is_left_as_it_is() {
    let folder = Scratch::new("repair-clean");
    let Some(image) = image(&folder, "ext4") else { return };
    let (shown, before) = (image.to_str().unwrap(), std::fs::read(&image).unwrap());
    for more in [&["-n"][..], &["--preen"], &["--safe"], &["--all"]] {
        let (code, said, errors) = words(&extant(&[&["repair", shown], more].concat()));
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{more:?}: {said}");
        assert_eq!(said, format!("{shown}: clean\n"));
        let (code, said, errors) = words(&extant(&["heal", shown]));
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        assert_eq!(said, format!("{shown}: clean; not checked\n"));
        assert!(std::fs::read(&image).unwrap() == before && beside(&image).is_empty());
    }
    let (code, _, errors) = words(&extant(&["undo", shown]));
    assert!(code == Some(1) && errors.contains("there is no repair to undo"), "{errors}");
    assert_eq!(extant(&["repair", "--preen", "--all", shown]).status.code(), Some(16));
    assert_eq!(extant(&["heal"]).status.code(), Some(16));
    let none = folder.join("none.img");
    assert_eq!(extant(&["repair", none.to_str().unwrap()]).status.code(), Some(8));
}

#[test]
fn what_is_mended_is_clean_for_e2fsck_and_can_be_undone() {
    let folder = Scratch::new("repair-mended");
    let Some(image) = image(&folder, "ext4") else { return };
    let shown = image.to_str().unwrap();
    debugfs(&image, "sif /some/file-3 links_count 7");
    let damaged = std::fs::read(&image).unwrap();
    assert_eq!(e2fsck(&image), Some(4));
    let (code, dry, _) = words(&extant(&["repair", "--dry-run", shown]));
    assert!(std::fs::read(&image).unwrap() == damaged && beside(&image).is_empty(), "{dry}");
    let output = command(["repair", "--json", shown]).output().unwrap();
    assert_eq!(output.status.code(), code, "a dry run says another code");
    let report = document(&output);
    assert_eq!(report["schema"], "extant-repair/1");
    assert_eq!(report["exit_code"], i64::from(code.unwrap()));
    if code == Some(1) {
        assert_eq!(e2fsck(&image), Some(0), "{report}");
        assert!(report["blocks_written"].as_u64() > Some(0), "{report}");
        assert_eq!(beside(&image), [".disk.img.extant-undo"]);
        let (code, said, _) = words(&extant(&["undo", shown]));
        assert_eq!(code, Some(0), "{said}");
        assert!(std::fs::read(&image).unwrap() == damaged, "it is not as it was");
        assert!(beside(&image).is_empty());
    }
}

/// With -z e2undo of e2fsprogs takes a repair back, in a partition too; a file is never replaced.
#[test]
fn what_is_mended_e2undo_takes_back() {
    let folder = Scratch::new("repair-e2undo");
    if !oracle::require("e2undo") {
        return;
    }
    let Some(image) = image(&folder, "ext4") else { return };
    debugfs(&image, "sif /some/file-3 links_count 7");
    let volume = std::fs::read(&image).unwrap();
    let disk = folder.join("whole.img");
    let before = [&[0x77; 1 << 20][..], &volume, &[0x33; 4096]].concat();
    std::fs::write(&disk, &before).unwrap();
    let undo = folder.join("before.e2undo");
    let [shown, kept] = [&disk, &undo].map(|path| path.to_str().unwrap());
    let all = ["repair", "-z", kept, "--no-undo", "--offset", "1M", shown];
    let (code, said, errors) = words(&extant(&all));
    assert_eq!((code, errors.as_str()), (Some(1), ""), "{said}");
    assert!(beside(&disk).is_empty());
    let after = std::fs::read(&disk).unwrap();
    assert!(after != before && after[..1 << 20] == before[..1 << 20]);
    host::output(host::program("e2undo").arg(&undo).arg(&disk)).expect("e2undo");
    assert!(std::fs::read(&disk).unwrap() == before, "it is not as it was");
    let (code, said, errors) = words(&extant(&all));
    assert_eq!(code, Some(8), "{said}");
    assert!(errors.contains("is there already"), "{errors}");
    assert!(std::fs::read(&disk).unwrap() == before, "it was written");
    let (code, ..) = words(&extant(&["repair", "-n", "-z", kept, shown]));
    assert_eq!(code, Some(16));
}

#[test]
fn what_preen_does_not_mend_is_left() {
    let folder = Scratch::new("repair-preen");
    let Some(image) = image(&folder, "ext4") else { return };
    let shown = image.to_str().unwrap();
    // A directory that is lost: nothing that -p decides.
    debugfs(&image, "clri /some");
    let damaged = std::fs::read(&image).unwrap();
    let (code, said, errors) = words(&extant(&["repair", "--preen", shown]));
    assert_eq!(code, Some(4), "{said}");
    assert!(errors.contains("--safe") && said.contains("left"), "{said}{errors}");
    assert!(std::fs::read(&image).unwrap() == damaged && beside(&image).is_empty());
}

#[test]
fn one_that_was_not_unmounted_without_a_journal_is_checked_by_heal() {
    let folder = Scratch::new("heal-dirty");
    let Some(image) = image(&folder, "ext2") else { return };
    let shown = image.to_str().unwrap();
    debugfs(&image, "ssv state 0");
    let output = command(["heal", "--json", shown]).output().unwrap();
    let report = document(&output);
    assert_eq!(report["schema"], "extant-heal/1");
    assert_eq!(report["images"][0]["state"], "repaired", "{report}");
    assert!(report["images"][0]["reason"].as_str().unwrap().contains("not unmounted"));
    assert_eq!(e2fsck(&image), Some(0));
    assert!(beside(&image).is_empty(), "nobody asked for an undo file");
}

#[test]
fn an_orphan_is_freed_by_heal_and_that_is_undone() {
    let folder = Scratch::new("heal-orphan");
    for kind in ["ext4", "ext2"] {
        let Some(image) = image(&folder, kind) else { return };
        let shown = image.to_str().unwrap();
        let stat = oracle::debugfs(&image, "stat /some/file-7").expect("debugfs");
        let number = stat.split_whitespace().nth(1).expect("a number").to_owned();
        debugfs(&image, "unlink /some/file-7");
        debugfs(&image, &format!("sif <{number}> links_count 0"));
        debugfs(&image, &format!("ssv last_orphan {number}"));
        let dirty = std::fs::read(&image).unwrap();
        let (code, said, errors) = words(&extant(&["heal", "--undo", shown]));
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{said}");
        assert!(said.contains("1 deleted inode freed; clean"), "{said}");
        assert_eq!(e2fsck(&image), Some(0), "{kind}");
        assert_eq!(extant(&["undo", shown]).status.code(), Some(0));
        assert!(std::fs::read(&image).unwrap() == dirty, "{kind}: it is not as it was");
    }
}

/// As a power cut leaves it: the kernel has committed to its journal.
#[test]
fn a_journal_is_replayed_by_heal_as_one_change() {
    let folder = Scratch::on_disk("heal-journal");
    let Some(image) = image(&folder, "ext4") else { return };
    if !oracle::can_mount() {
        return;
    }
    let cut = folder.join("cut.img");
    let mounted = oracle::mount_loop(&image, oracle::Access::ReadWrite, "commit=1000").unwrap();
    for number in 0..10 {
        std::fs::write(mounted.path().join(format!("new-{number}")), "text").unwrap();
    }
    host::run("sync", &["-f".as_ref(), mounted.path().as_os_str()]).expect("synced");
    std::fs::copy(&image, &cut).unwrap();
    let refused = words(&extant(&["heal", image.to_str().unwrap()]));
    assert_eq!(refused.0, Some(8), "one that is mounted: {refused:?}");
    mounted.unmount().unwrap();
    let (shown, dirty) = (cut.to_str().unwrap(), std::fs::read(&cut).unwrap());
    let (code, said, errors) = words(&extant(&["heal", "--undo", shown, image.to_str().unwrap()]));
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{said}");
    assert!(said.starts_with(&format!("{shown}: replayed ")), "{said}");
    assert!(said.ends_with(&format!("{}: clean; not checked\n", image.display())), "{said}");
    assert_eq!(e2fsck(&cut), Some(0));
    assert!(said.lines().next().unwrap().ends_with("; clean"), "{said}");
    let (_, again, _) = words(&extant(&["heal", shown]));
    assert_eq!(again, format!("{shown}: clean; not checked\n"));
    assert_eq!(extant(&["undo", shown]).status.code(), Some(0));
    assert!(std::fs::read(&cut).unwrap() == dirty, "it is not as it was");
    // The same by a log elsewhere; and by repair, which has nothing to mend then.
    let log = folder.join("log");
    let words_of_log = ["repair", "--log", log.to_str().unwrap(), shown];
    assert_eq!(extant(&words_of_log).status.code(), Some(0));
    assert!(folder.join("log.undo").exists() && !log.exists());
    assert_eq!(e2fsck(&cut), Some(0));
}

#[test]
fn one_that_another_program_has_open_is_refused() {
    let folder = Scratch::new("repair-busy");
    let Some(image) = image(&folder, "ext2") else { return };
    let shown = image.to_str().unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&image).unwrap();
    file.lock().unwrap();
    for line in [&["repair", shown][..], &["undo", shown], &["heal", "--check", shown]] {
        let (code, said, errors) = words(&extant(line));
        let expected = if line[0] == "undo" { 1 } else { 8 };
        assert_eq!(code, Some(expected), "{line:?}: {said}");
        assert!(errors.contains("--wait"), "{line:?}: {errors}");
    }
}
