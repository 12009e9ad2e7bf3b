//! What programs do with this crate, judged by e2fsck and the kernel.
//!
//! ```text
//! opening       what an image may be, who may have it, and that reading writes nothing
//! writing       files of a volume that is written: what reaches the image, which errors are told
//! taking        copies, archives, folders, differences, and work that is not wanted any more
//! transactions  all or nothing, cut at every write
//! mending       what is repaired, undone and made ready for use
//! building      into a file, memory and a device: the same bytes
//! checking      the report; hostile: images that lie
//! examples      the programs in `examples/`
//! house         what the crate has behind it
//! devices       devices of a program
//! ```
mod building;
mod checking;
mod devices;
mod examples;
mod hostile;
mod house;
mod mending;
mod opening;
mod resizing;
mod taking;
mod transactions;
mod writing;

use extant::{Builder, Memory, NewFile, Profile};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use sha2::{Digest, Sha256};
use std::path::Path;

/// All kinds of volumes.
const PROFILES: [Profile; 3] = [Profile::Ext2, Profile::Ext3, Profile::Ext4];

/// A volume with a few files and room; of 1 KiB blocks, so that a journal is there where the kind
/// has one.
fn sample(profile: Profile) -> Memory {
    let memory = Memory::new();
    let builder = Builder::new().profile(profile).block_size(1024).free(8 << 20);
    let builder = builder.files(|files| {
        files.add("/etc/hostname", NewFile::file("extant\n"))?;
        files.add("/etc/name", NewFile::symlink("hostname"))?;
        files.add("/large", NewFile::file(vec![7; 300_000]).owner(1000, 100))?;
        files.add("/dir/below/file", NewFile::file("below").attribute("user.note", "kept"))
    });
    let built = builder.expect("files").build_memory(&memory).expect("an image");
    assert_eq!(built.bytes, memory.len());
    assert_eq!(built.has_journal, profile != Profile::Ext2);
    assert_eq!(built.warnings, Vec::<String>::new());
    memory
}

/// The same in a file.
fn sample_file(folder: &Scratch, profile: Profile) -> std::path::PathBuf {
    let path = folder.join(&format!("{profile:?}.img"));
    std::fs::write(&path, sample(profile).to_vec()).expect("a file");
    path
}

fn digest(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

/// e2fsck is silent about the image.
fn assert_clean(path: &Path, words: &str) {
    if require("e2fsck") {
        e2fsck(path).unwrap_or_else(|error| panic!("{words}: {error}"));
    }
}

/// The same of bytes.
fn assert_clean_bytes(bytes: &[u8], words: &str) {
    let folder = Scratch::new("extant-clean");
    let path = folder.join("x.img");
    std::fs::write(&path, bytes).expect("a file");
    assert_clean(&path, words);
}
