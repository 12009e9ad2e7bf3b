//! Volumes with files whose content cannot be changed are written around them: encrypted ones,
//! without the key as Linux, and those with verity.
use crate::volume;

use extant_block::{Clock, FileDevice, RealClock};
use extant_engine::{
    Access, Change, DataKeeping, ErrorKind, Filesystem, Options, Rename, Result, SetAttribute, Size,
};
use extant_testkit::command::run;
use extant_testkit::oracle::{self, debugfs, mount_loop};
use extant_testkit::scratch::Scratch;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use volume::reading;

const LENGTHS: [usize; 8] = [1, 16, 140, 148, 149, 150, 180, 255];

fn open(image: &Path) -> Filesystem {
    let clock: Arc<dyn Clock> = RealClock::new();
    let device = FileDevice::open(clock, image, extant_block::file::Access::ReadWrite, 0)
        .expect("the image opens");
    let options = Options {
        access: Access::ReadWrite,
        policies: "modern".parse().expect("policies"),
        cache_bytes: 24 << 20,
        data: DataKeeping::Bytes,
    };
    Filesystem::open(Arc::new(device), &options).expect("the volume opens")
}

fn make(folder: &Scratch, features: &str) -> PathBuf {
    let image = folder.join("image");
    let path = image.display().to_string();
    let words = ["-q", "-F", "-t", "ext4", "-b", "1024", "-O", features, &path, "16M"];
    run("mke2fs", &words).expect("mke2fs makes it");
    image
}

fn needs_key<T: std::fmt::Debug>(outcome: Result<T>) {
    let error = outcome.expect_err("it takes the key");
    assert!(matches!(error.kind, ErrorKind::NoKey), "{error}");
    assert_eq!((error.errno(), error.kind.to_string().contains("encrypted")), (126, true));
}

/// Names of a folder, as paths.
fn below(volume: &Filesystem, folder: &str) -> Vec<PathBuf> {
    let names = reading::names(volume, Path::new(folder)).expect("lists");
    names.iter().map(|name| Path::new(folder).join(OsStr::from_bytes(name))).collect()
}

/// What Linux refuses without the key.
fn refused(volume: &Filesystem, name: &Path) {
    needs_key(volume.write("/folder/new", b"x"));
    needs_key(volume.create_dir("/folder/new", 0o755));
    needs_key(volume.symlink("target", "/folder/new"));
    needs_key(volume.hard_link("/plain", "/folder/new"));
    needs_key(volume.rename("/plain", "/folder/new", Rename::Replace));
    needs_key(volume.rename(name, "/moved-out", Rename::Replace));
    needs_key(volume.rename(name, "/plain", Rename::Exchange));
    needs_key(volume.rename(name, "/folder/new", Rename::Whiteout));
    needs_key(volume.write("/secret", b"x"));
    let file = volume.open_file("/secret").expect("it is there");
    needs_key(file.write_at(0, b"x"));
    needs_key(file.set_len(0));
    needs_key(file.allocate(0, 9000, Size::Grow));
    needs_key(file.punch_hole(0, 4096));
    needs_key(file.zero_range(0, 4096, Size::Keep));
    needs_key(volume.create_file("/secret", 0o644).map(drop));
}

#[test]
fn encrypted_files_keep_their_content_and_names_and_all_else_is_written() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") || !oracle::can_mount() {
        return;
    }
    for features in ["encrypt", "encrypt,^dir_index,^metadata_csum", "encrypt,^has_journal"] {
        let folder = Scratch::new("sealed");
        let image = make(&folder, features);
        let dummy = "test_dummy_encryption";
        let mounted = mount_loop(&image, oracle::Access::ReadWrite, dummy).expect("mounts");
        let root = mounted.path();
        std::fs::create_dir_all(root.join("folder/small")).expect("makes");
        for length in LENGTHS {
            std::fs::write(root.join("folder/small").join("n".repeat(length)), "x").expect("w");
        }
        for number in 0..60 {
            std::fs::write(root.join(format!("folder/a name among {number}")), "").expect("w");
        }
        symlink("target", root.join("folder/link")).expect("links");
        std::fs::write(root.join("secret"), vec![b'x'; 5000]).expect("writes");
        mounted.unmount().expect("unmounts");

        let volume = open(&image);
        volume.write("/plain", b"content").expect("written");
        let names = below(&volume, "/folder");
        refused(&volume, &names[0]);
        let attributes = [("user.small", 9), ("user.large", 700), ("trusted.t", 40)];
        for (path, keeps) in [("/secret", true), ("/folder", false)] {
            for (name, length) in attributes {
                let (name, value) = (name.as_bytes(), vec![7; length]);
                volume.set_attribute(path, name, &value, SetAttribute::Any).expect("is set");
            }
            if !keeps {
                for (name, _) in attributes {
                    volume.remove_attribute(path, name.as_bytes()).expect("is removed");
                }
            }
            let change = Change { permissions: Some(0o751), uid: Some(7), ..Change::default() };
            volume.change(path, &change).expect("mode and owner change");
        }
        volume.rename("/secret", "/moved", Rename::Replace).expect("its name is not encrypted");
        volume.hard_link("/moved", "/second").expect("linked");
        volume.create_dir("/tree", 0o755).expect("made");
        volume.rename("/folder", "/tree/folder", Rename::Replace).expect("moved");
        let (mut files, mut kept) = (0, 0);
        for path in below(&volume, "/tree/folder") {
            match volume.symlink_metadata(&path).expect("found").file_type {
                extant_format::inode::FileType::Directory => {
                    let inside = below(&volume, path.to_str().expect("text"));
                    assert_eq!(inside.len(), LENGTHS.len());
                    let full = volume.remove_dir(&path).expect_err("it has names");
                    assert!(matches!(full.kind, ErrorKind::NotEmpty), "{full}");
                    inside.iter().for_each(|name| volume.remove_file(name).expect("removed"));
                    volume.remove_dir(&path).expect("it is empty");
                }
                extant_format::inode::FileType::Symlink => volume.remove_file(&path).expect("gone"),
                _ if files % 2 == 0 => {
                    files += 1;
                    volume.remove_file(&path).expect("removed");
                    assert!(volume.symlink_metadata(&path).is_err());
                }
                _ => (files, kept) = (files + 1, kept + 1),
            }
        }
        assert_eq!((files, below(&volume, "/tree/folder").len()), (60, kept));
        volume.close().expect("closes");
        oracle::e2fsck(&image).expect("e2fsck finds nothing");
        let flags = debugfs(&image, "stat /plain").expect("stat");
        assert!(!flags.contains("Flags: 0x80800"), "no new file is encrypted: {flags}");

        // With the key: the contexts are there.
        let mounted = mount_loop(&image, oracle::Access::ReadOnly, dummy).expect("mounts");
        let root = mounted.path();
        for name in ["moved", "second"] {
            let content = std::fs::read(root.join(name)).expect("decrypted");
            assert!(content == vec![b'x'; 5000], "{features}: {name}");
        }
        let listed = std::fs::read_dir(root.join("tree/folder")).expect("lists");
        let listed: Vec<String> = listed
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        assert_eq!(listed.len(), kept);
        assert!(listed.iter().all(|name| name.starts_with("a name among ")), "{listed:?}");
        assert_eq!(std::fs::read(root.join("plain")).expect("reads"), b"content");
        mounted.unmount().expect("unmounts");
    }
}

/// The cut of an encrypted file that a power cut interrupted ends without the key.
#[test]
fn an_encrypted_orphan_is_cut_to_its_size() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("sealed-orphan");
    let image = make(&folder, "encrypt,^has_journal");
    let dummy = "test_dummy_encryption";
    let mounted = mount_loop(&image, oracle::Access::ReadWrite, dummy).expect("mounts");
    std::fs::write(mounted.path().join("secret"), vec![b'x'; 50_000]).expect("writes");
    mounted.unmount().expect("unmounts");
    let ino = debugfs(&image, "stat /secret").expect("stat");
    let ino = ino.split_whitespace().nth(1).expect("its number").to_owned();
    let path = image.display().to_string();
    for request in ["sif /secret size 5000".to_owned(), format!("ssv last_orphan {ino}")] {
        run("debugfs", &["-w", "-R", &request, &path]).expect("it is set");
    }
    let volume = open(&image);
    let metadata = volume.symlink_metadata("/secret").expect("found");
    assert_eq!((metadata.size, metadata.sectors), (5000, 10));
    volume.close().expect("closes");
    oracle::e2fsck(&image).expect("e2fsck finds nothing");
}

#[test]
fn a_file_with_verity_keeps_its_content_and_its_tree_until_it_is_removed() {
    if !oracle::require("mke2fs") || !oracle::require("debugfs") || !oracle::require("e2fsck") {
        return;
    }
    let folder = Scratch::new("sealed-verity");
    let image = make(&folder, "verity");
    let volume = open(&image);
    let free = volume.statfs().free_blocks;
    let content: Vec<u8> = (0..70_000_u32).map(|byte| (byte % 251) as u8).collect();
    volume.write("/sealed", &content).expect("written");
    volume.close().expect("closes");
    let path = image.display().to_string();
    // The tree comes after the content, from the next multiple of 64 KiB on.
    for request in ["sif /sealed size 5000", "sif /sealed flags 0x180000"] {
        run("debugfs", &["-w", "-R", request, &path]).expect("it is set");
    }
    oracle::e2fsck(&image).expect("blocks after the end are those of the tree");
    let before = debugfs(&image, "blocks /sealed").expect("blocks");
    let volume = open(&image);
    let refused = |outcome: Result<()>| {
        let error = outcome.expect_err("verity seals it");
        assert!(matches!(error.kind, ErrorKind::NotPermitted(_)), "{error}");
        assert!(error.to_string().contains("verity"), "{error}");
    };
    refused(volume.write("/sealed", b"x"));
    let file = volume.open_file("/sealed").expect("it is there");
    refused(file.write_at(0, b"x").map(drop));
    refused(file.set_len(9000));
    refused(file.set_len(5000));
    refused(file.allocate(0, 9000, Size::Keep));
    refused(file.punch_hole(0, 4096));
    refused(file.zero_range(0, 4096, Size::Keep));
    refused(file.collapse_range(0, 1024));
    refused(file.insert_range(0, 1024));
    drop(file);
    assert!(volume.read("/sealed").expect("reads") == content[..5000]);
    let set = |name: &[u8]| volume.set_attribute("/moved", name, &[7; 300], SetAttribute::Any);
    volume.rename("/sealed", "/moved", Rename::Replace).expect("renamed");
    volume.hard_link("/moved", "/second").expect("linked");
    volume.change("/moved", &Change { permissions: Some(0o600), ..Change::default() }).expect("ok");
    set(b"user.x").expect("is set");
    volume.close().expect("closes");
    oracle::e2fsck(&image).expect("e2fsck finds nothing");
    assert_eq!(debugfs(&image, "blocks /moved").expect("blocks"), before);
    let volume = open(&image);
    volume.remove_file("/moved").expect("removed");
    volume.remove_file("/second").expect("removed");
    volume.sync().expect("synced");
    assert_eq!(volume.statfs().free_blocks, free, "the tree is free too");
    volume.close().expect("closes");
    oracle::e2fsck(&image).expect("e2fsck finds nothing");
}
