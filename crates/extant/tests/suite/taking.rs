//! What goes in and comes out as trees: copies, archives, folders, differences, and work that is
//! not wanted any more.
use super::{assert_clean_bytes, sample};
use extant::{
    Builder, CopyOptions, DifferenceKind, ErrorKind, Ignored, Kept, Memory, Options, Present,
    Profile, Progress, Transaction, Tree, Volume, diff,
};
use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// No paths: all of it.
const ALL: &[&str] = &[];

/// Is not wanted from so many calls on.
struct Unwanted;

impl Progress for Unwanted {
    fn advance(&self, _: u64) {}
    fn is_cancelled(&self) -> bool {
        true
    }
}

fn tree(scratch: &Scratch) -> PathBuf {
    let root = scratch.join("tree");
    std::fs::create_dir_all(root.join("sub")).expect("a folder");
    std::fs::write(root.join("sub/file"), "one").expect("a file");
    std::os::unix::fs::symlink("sub/file", root.join("link")).expect("a link");
    root
}

#[test]
fn trees_go_in_and_come_out() {
    let scratch = Scratch::new("taking");
    let root = tree(&scratch);
    let memory = sample(Profile::Ext4);
    let other = Volume::open(sample(Profile::Ext2)).expect("a volume");
    let change = Transaction::begin(memory.clone()).expect("a transaction");
    let mut options = CopyOptions::new();
    assert_eq!(change.copy_in(&root, "/tree", options).expect("a copy").objects, 4);
    options.kept = Kept::All;
    options.owner = Some((3, 4));
    options.mode = Some(0o640);
    change.copy_from(&other, "/dir", "/again", options).expect("a copy");
    change.copy_from(&change, "/etc/hostname", "/inside", CopyOptions::new()).expect("a copy");
    let missing = change.copy_in(scratch.join("none"), "/x", options).expect_err("nothing");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    change.commit().expect("a commit");
    assert_clean_bytes(&memory.to_vec(), "copies");

    let volume = Volume::open(memory).expect("a volume");
    let found = volume.metadata("/again/below/file").expect("a copy");
    assert_eq!((found.uid, found.gid, found.mode & 0o7777), (3, 4, 0o640));
    assert_eq!(volume.read("/inside").expect("a file"), b"extant\n");
    let out = scratch.join("out");
    let taken = volume.extract(&["/tree"], &out, Present::Refuse, &()).expect("a folder");
    assert_eq!((taken.files, taken.symlinks, taken.warnings.len()), (1, 1, 0));
    assert_eq!(std::fs::read(out.join("tree/sub/file")).expect("a file"), b"one");
    let again = volume.extract(&["/tree"], &out, Present::Refuse, &()).expect_err("there");
    assert_eq!(again.kind(), ErrorKind::Exists, "{again}");
    volume.extract(&["/tree"], &out, Present::Replace, &()).expect("replaced");
    let mut archive = Vec::new();
    let taken = volume.tar(&["/etc"], &mut archive, &()).expect("an archive");
    assert_eq!((taken.files, taken.symlinks), (1, 1));
    let unknown = volume.tar(&["/none"], &mut archive, &()).expect_err("no path");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

#[test]
fn differences_are_values() {
    let scratch = Scratch::new("comparing");
    let memory = sample(Profile::Ext4);
    let first = Volume::open(sample(Profile::Ext4)).expect("a volume");
    let change = Options::new().write(true).open(memory.clone()).expect("a volume");
    change.write("/etc/hostname", "Extant\n").expect("a file");
    change.close().expect("closed");
    let second = Volume::open(memory).expect("a volume");
    let of = |volume| Tree::Volume(volume, PathBuf::from("/"));
    let none: &[&str] = &[];
    let found = diff(of(&first), of(&second), &[Ignored::Times], none, &()).expect("a diff");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].path, b"etc/hostname");
    assert_eq!(found[0].change, DifferenceKind::Content(0));
    let excluded = diff(of(&first), of(&second), &[Ignored::Times], &["etc"], &());
    assert_eq!(excluded.expect("a diff"), []);

    let archive = scratch.join("all.tar");
    let mut file = std::fs::File::create(&archive).expect("a file");
    first.tar(ALL, &mut file, &()).expect("an archive");
    let ignored = [Ignored::Nanoseconds];
    let same = diff(of(&first), Tree::Source(archive), &ignored, none, &());
    assert_eq!(same.expect("a diff"), []);
}

#[test]
fn what_is_not_wanted_ends() {
    let scratch = Scratch::new("unwanted");
    let root = tree(&scratch);
    let kind = |error: extant::Error| error.kind();
    let volume = Volume::open(sample(Profile::Ext4)).expect("a volume");
    let taken = volume.tar(ALL, &mut Vec::new(), &Unwanted);
    assert_eq!(taken.map_err(kind), Err(ErrorKind::Cancelled));
    let taken = volume.extract(ALL, scratch.join("out"), Present::Refuse, &Unwanted);
    assert_eq!(taken.map_err(kind), Err(ErrorKind::Cancelled));
    let none: &[&str] = &[];
    let of = || Tree::Volume(&volume, PathBuf::from("/"));
    let compared = diff(of(), of(), &[], none, &Unwanted);
    assert_eq!(compared.map_err(kind), Err(ErrorKind::Cancelled));
    let image = scratch.join("disk.img");
    let built = Builder::new().source(&root).progress(Arc::new(Unwanted)).build(&image);
    assert_eq!(built.map_err(kind), Err(ErrorKind::Cancelled));
    assert!(!Path::new(&image).exists());
}

#[test]
fn a_layout_is_told() {
    let report = Options::new().layout(sample(Profile::Ext4)).expect("a report");
    assert_eq!((report.files, report.faults), (3, 0));
    let none = Options::new().layout(Memory::from(vec![0; 1 << 20])).expect_err("no volume");
    assert_eq!(none.kind(), ErrorKind::NotAVolume, "{none}");
}
