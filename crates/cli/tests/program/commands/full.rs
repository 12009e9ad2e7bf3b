//! A host disk that becomes full at any point of a repair: the image is as it was, nothing of ours
//! is left beside it, and one line with a hint says why.
use crate::commands::command::command;
use extant_testkit::command as host;
use extant_testkit::scratch::Scratch;
use extant_testkit::{oracle, skips};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What tmpfs gives out at once.
const PAGE_BYTES: u64 = 4096;
/// Pages that no case needs all of.
const PAGES_MAX: u64 = 400;

/// A small file system of the host, unmounted with its value, and the program by the name of
/// e2fsck, which is elsewhere.
struct Small {
    folder: Scratch,
    e2fsck: PathBuf,
}

impl Small {
    fn new(e2fsck: PathBuf) -> Small {
        let folder = Scratch::new("full-host");
        let mut mount = host::program("mount");
        host::output(mount.args(["-t", "tmpfs", "-o", "size=24M", "tmpfs"]).arg(folder.path()))
            .expect("tmpfs");
        let program = extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant"));
        std::os::unix::fs::symlink(program, &e2fsck).expect("scratch has room");
        Small { folder, e2fsck }
    }

    /// Leaves this many pages free.
    fn leave(&self, pages: u64) {
        let mut file = File::create(self.ballast()).expect("it is made");
        let piece = [1; PAGE_BYTES as usize];
        let mut length = 0;
        while file.write_all(&piece).map_err(|error| error.kind())
            != Err(io::ErrorKind::StorageFull)
        {
            length += PAGE_BYTES;
        }
        file.set_len(length.saturating_sub(pages * PAGE_BYTES)).expect("it is cut");
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// The names of what is there, besides the ballast.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("it is read");
        let names =
            entries.map(|it| it.expect("an entry").file_name().into_string().expect("text"));
        let mut names: Vec<String> = names.filter(|name| name != "ballast").collect();
        names.sort();
        names
    }

    /// Files with these names and bytes, and no others; holes stay holes.
    fn reset(&self, files: &[(String, Vec<u8>)]) {
        for name in self.names().iter().map(String::as_str).chain(["ballast"]) {
            let _ = fs::remove_file(self.folder.join(name));
        }
        for (name, bytes) in files {
            let file = File::create(self.folder.join(name)).expect("it is made");
            file.set_len(bytes.len() as u64).expect("it has room");
            for (at, page) in bytes.chunks(PAGE_BYTES as usize).enumerate() {
                if page.iter().any(|byte| *byte != 0) {
                    let place = at as u64 * PAGE_BYTES;
                    std::os::unix::fs::FileExt::write_all_at(&file, page, place).expect("room");
                }
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = oracle::unmount_all(self.folder.path());
    }
}

/// A volume of which a bitmap, counts, a file and the descriptors' copies are damaged, and that has
/// an orphan.
fn damaged(path: &Path) {
    let mut mke2fs = host::program("mke2fs");
    mke2fs.args(["-q", "-F", "-b", "1024", "-g", "2048", "-t", "ext4"]).arg(path).arg("12M");
    host::output(&mut mke2fs).expect("mke2fs makes it");
    let script = path.with_extension("script");
    let requests = "write /proc/version one\nwrite /proc/version two\nmkdir three\nunlink two\n\
                    sif <13> links_count 0\nssv last_orphan 13\nsif one links_count 9\n\
                    freeb 1500 200\nsetb 9000 40\nssv free_blocks_count 7\n";
    fs::write(&script, requests).expect("scratch has room");
    host::output(host::program("debugfs").args(["-w", "-f"]).arg(&script).arg(path))
        .expect("debugfs");
}

fn run(words: &[&str], small: &Small) -> Output {
    let shown = |word: &&str| word.replace('%', small.folder.path().to_str().expect("text"));
    let words: Vec<String> = words.iter().map(shown).collect();
    match words[0].as_str() {
        "e2fsck" => {
            let mut e2fsck = Command::new(&small.e2fsck);
            e2fsck.env("E2FSCK_CONFIG", "/dev/null").args(&words[1..]).output().expect("it runs")
        }
        _ => command(&words).output().expect("it runs"),
    }
}

/// Runs `words` with more room each time until they do what they are to; gives how often they did
/// not.
fn each_room(words: &[&str], fails_with: i32, files: &[(String, Vec<u8>)], small: &Small) -> u64 {
    let mut names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    names.sort();
    for pages in 0..PAGES_MAX {
        small.reset(files);
        small.leave(pages);
        let output = run(words, small);
        fs::remove_file(small.ballast()).expect("it is there");
        let code = output.status.code();
        let said = String::from_utf8_lossy(&output.stderr);
        let image = fs::read(small.folder.join("disk.img")).expect("it is there");
        if code != Some(fails_with) {
            assert!(matches!(code, Some(0 | 1)), "{words:?}, {pages} pages: {code:?}: {said}");
            assert!(image != files[0].1, "{words:?}, {pages} pages: nothing was done");
            return pages;
        }
        assert!(image == files[0].1, "{words:?}, {pages} pages: changed, with {said}");
        assert_eq!(small.names(), names, "{words:?}, {pages} pages: {said}");
        for (name, bytes) in files {
            let now = fs::read(small.folder.join(name)).expect("it is there");
            assert!(now == *bytes, "{words:?}, {pages} pages: {name} is another");
        }
        let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("e2fsck 1.")).collect();
        let is_told = lines.iter().any(|line| line.contains("No space left"));
        assert!(is_told && lines.len() <= 2, "{words:?}, {pages} pages: {said}");
    }
    panic!("{words:?}: {PAGES_MAX} pages are not enough");
}

#[test]
fn a_host_disk_that_is_full_at_any_point_of_a_repair_costs_nothing() {
    if !skips::require_root() || !oracle::require("mke2fs") || !oracle::require("debugfs") {
        return;
    }
    let made = Scratch::new("full-made");
    let small = Small::new(made.join("e2fsck"));
    let path = made.join("disk.img");
    damaged(&path);
    let image = fs::read(&path).expect("it is there");
    let files = [("disk.img".to_owned(), image)];
    for words in [
        &["repair", "--all", "%/disk.img"][..],
        &["repair", "--all", "--no-undo", "%/disk.img"],
        &["repair", "--all", "--no-undo", "-z", "%/disk.e2undo", "%/disk.img"],
        &["repair", "--all", "--log", "%/log", "%/disk.img"],
        &["heal", "--undo", "%/disk.img"],
        &["heal", "--check", "%/disk.img"],
        &["e2fsck", "-fy", "%/disk.img"],
    ] {
        let failures = each_room(words, 8, &files, &small);
        assert!(failures > 3, "{words:?}: {failures}");
    }
    // Larger and smaller, once it is mended.
    small.reset(&files);
    assert_eq!(run(&["repair", "--all", "--no-undo", "%/disk.img"], &small).status.code(), Some(1));
    let whole = [("disk.img".to_owned(), fs::read(small.folder.join("disk.img")).expect("there"))];
    for words in [&["resize", "%/disk.img", "60M"], &["resize", "%/disk.img", "9000"]] {
        let failures = each_room(words, 1, &whole, &small);
        assert!(failures > 3, "{words:?}: {failures}");
    }
    // What is mended, and its undo file.
    small.reset(&files);
    assert_eq!(run(&["repair", "--all", "%/disk.img"], &small).status.code(), Some(1));
    let of =
        |name: &str| (name.to_owned(), fs::read(small.folder.join(name)).expect("it is there"));
    let mended = [of("disk.img"), of(".disk.img.extant-undo")];
    let failures = each_room(&["undo", "%/disk.img"], 1, &mended, &small);
    assert!(failures > 3, "undo: {failures}");
    assert!(fs::read(small.folder.join("disk.img")).expect("it is there") == files[0].1);
}
