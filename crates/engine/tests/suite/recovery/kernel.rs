//! Volumes that a kernel left when it was shut down in the middle of its work.
use extant_testkit::command::{self, program};
use extant_testkit::compare;
use extant_testkit::oracle::{self, Access, mount_loop};
use extant_testkit::scratch::Scratch;
use extant_testkit::walk::{Depth, Entry, Kind, walk};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Flags of the ioctl that shuts a file system down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown {
    /// The log is written first, data is not.
    LogWritten = 1,
    /// Nothing more is written.
    AtOnce = 2,
}

/// A volume in an image, and the tree that it had when it was shut down.
pub struct Left {
    folder: Scratch,
    pub image: PathBuf,
    pub tree: Vec<Entry>,
}

/// What `mke2fs` is asked for.
#[derive(Clone, Copy)]
pub struct Wish {
    pub features: &'static str,
    pub block_size: u32,
}

/// Whether volumes can be made and judged here.
pub fn is_possible() -> bool {
    ["mke2fs", "e2fsck", "debugfs", "dumpe2fs", "python3"].iter().all(|tool| oracle::require(tool))
        && oracle::can_mount()
}

/// Makes a volume, runs `load` on it, and shuts it down. Files that `load` returns are closed
/// afterwards.
pub fn leave(wish: Wish, shutdown: Shutdown, load: impl FnOnce(&Path) -> Vec<File>) -> Left {
    let folder = Scratch::on_disk("recovery");
    let image = folder.join("left.img");
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-O", wish.features, "-J", "size=4"]);
    mke2fs.args(["-b", &wish.block_size.to_string()]).arg(&image).arg("40M");
    command::output(&mut mke2fs).expect("mke2fs runs");
    let mounted = mount_loop(&image, Access::ReadWrite, "").expect("the kernel mounts it");
    let held = load(mounted.path());
    let tree = tree_at(mounted.path());
    shut_down(mounted.path(), shutdown);
    drop(held);
    mounted.unmount().expect("it is unmounted");
    Left { folder, image, tree }
}

fn shut_down(root: &Path, how: Shutdown) {
    let script = "import fcntl, os, struct, sys\n\
        root = os.open(sys.argv[1], os.O_RDONLY)\n\
        fcntl.ioctl(root, 0x8004587d, struct.pack('I', int(sys.argv[2])))";
    let mut python = program("python3");
    python.args(["-c", script]).arg(root).arg((how as u32).to_string());
    command::output(&mut python).expect("the file system is shut down");
}

impl Left {
    /// How many changes are in its fast commits.
    pub fn changes(&self) -> usize {
        let device = crate::recovery::device(&self.image, extant_block::Access::ReadOnly);
        let found = extant_journal::fast_commits(device).expect("the journal is read");
        found.map_or(0, |found| found.changes.len())
    }

    /// Whether it has fast commits to replay. Linux makes a full commit every few seconds, and then
    /// there may be none.
    pub fn is_fast(&self) -> bool {
        self.changes() > 0
    }

    /// A path for another image beside this one.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A copy of the image.
    pub fn copy(&self, name: &str) -> PathBuf {
        let copy = self.beside(name);
        std::fs::copy(&self.image, &copy).expect("the image is copied");
        copy
    }

    /// What an image holds otherwise than the volume did when it was shut down.
    pub fn differences(&self, image: &Path) -> Vec<String> {
        let mounted = mount_loop(image, Access::ReadOnly, "noload").expect("the kernel mounts it");
        let found = tree_at(mounted.path());
        mounted.unmount().expect("it is unmounted");
        let options = compare::Options::copy();
        compare::entries(&self.tree, &found, &options).iter().map(ToString::to_string).collect()
    }
}

pub fn tree_at(root: &Path) -> Vec<Entry> {
    let depth = Depth { digest: true, ..Depth::default() };
    let mut entries = walk(root, depth, &BTreeSet::new()).expect("the tree is read");
    for entry in entries.iter_mut().filter(|entry| entry.kind == Kind::Directory) {
        // A fast commit says nothing of the times of a directory whose names it changes.
        entry.mtime = (0, 0);
    }
    entries
}

/// `e2fsck -fn`, and no word from it.
pub fn judge(image: &Path, what: &str) {
    if let Err(words) = oracle::e2fsck(image) {
        panic!("{what}: {words}");
    }
}
