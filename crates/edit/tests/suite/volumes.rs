//! Volumes, a change that touches all that a change can, and what is there.
use crate::devices::{Filling, Recorded, Watched};
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock, WallTime};
use extant_edit::create::{self, Existing, Into, Parents};
use extant_edit::mode::Mode;
use extant_edit::redo::Identity;
use extant_edit::tree::{Links, Reach};
use extant_edit::walk::{self, Below, Event, ImageTree, Manner};
use extant_edit::{Change, ChangeOptions, Outcome, metadata, removal, renaming};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, Options, Orphans, recovered};
use extant_format::inode::FileType;
use extant_testkit::command::{output, program};
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::sync::Arc;

/// A kind of volume.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    name: &'static str,
    words: &'static [&'static str],
    size: &'static str,
}

impl Kind {
    pub const EXT4_1K: Kind = Kind { name: "ext4", words: &["-b", "1024"], size: "8M" };
    pub const EXT4_4K: Kind = Kind { name: "ext4", words: &["-b", "4096"], size: "16M" };
    pub const EXT3_1K: Kind = Kind { name: "ext3", words: &["-b", "1024"], size: "8M" };
    pub const EXT4_PLAIN: Kind = Kind {
        name: "ext4",
        words: &["-b", "2048", "-O", "^metadata_csum,^64bit,uninit_bg"],
        size: "16M",
    };
    pub const EXT4_FAST: Kind =
        Kind { name: "ext4", words: &["-b", "1024", "-O", "fast_commit"], size: "8M" };
    pub const EXT4_CLUSTERS: Kind =
        Kind { name: "ext4", words: &["-b", "1024", "-O", "bigalloc", "-C", "4096"], size: "4M" };
    pub const EXT4_INLINE: Kind =
        Kind { name: "ext4", words: &["-b", "1024", "-O", "inline_data"], size: "4M" };
    pub const EXT4_SMALL: Kind = Kind { name: "ext4", words: &["-b", "1024"], size: "4M" };
    pub const EXT2_1K: Kind = Kind { name: "ext2", words: &["-b", "1024"], size: "4M" };
    pub const EXT2_4K: Kind = Kind { name: "ext2", words: &["-b", "4096"], size: "8M" };

    /// A volume with a tree in it.
    pub fn make(self) -> MemoryDevice {
        let folder = Scratch::new("edit-volume");
        let image = folder.join("image");
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-t", self.name]).args(self.words).arg(&image).arg(self.size);
        output(&mut mke2fs).expect("mke2fs makes it");
        let bytes = std::fs::read(&image).expect("the image");
        let device = Arc::new(MemoryDevice::from_bytes(clock(), &bytes));
        let redo = folder.join("redo");
        let options =
            ChangeOptions { redo: Some((redo, identity(&*device))), ..ChangeOptions::default() };
        let change = Change::open(Arc::clone(&device) as _, &options).expect("it opens");
        fill(&change).expect("it is filled");
        change.commit().expect("it is committed");
        device.snapshot()
    }
}

pub fn clock() -> Arc<dyn Clock> {
    RealClock::pinned(WallTime { seconds: 1_700_000_000, nanoseconds: 0 })
}

pub fn identity(device: &dyn BlockDevice) -> Identity {
    Identity { offset: 0, image_bytes: device.info().bytes }
}

pub fn bytes_of(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.info().bytes as usize];
    device.read(0, &mut bytes).expect("it is read");
    bytes
}

fn fill(change: &Change) -> extant_edit::Result<()> {
    for folder in ["/old/deep/deeper", "/kept", "/moved"] {
        create::directory(change, folder.as_ref(), Parents::Make, None)?;
    }
    for number in 0..60 {
        let path = format!("/old/deep/file-{number}");
        write(change, &path, &path.repeat(100))?;
    }
    write(change, "/kept/config", "before\n")?;
    write(change, "/moved/file", "moved\n")
}

fn write(change: &Change, path: &str, text: &str) -> extant_edit::Result<()> {
    create::write(change, path.as_ref(), Into::Whole, &mut text.as_bytes()).map(drop)
}

/// Removes, makes, moves, links, overwrites and describes anew.
fn work(change: &Change) -> extant_edit::Result<()> {
    removal::remove(change, "/old".as_ref(), removal::Depth::Tree, &mut Vec::new())?;
    create::directory(change, "/new/a".as_ref(), Parents::Make, None)?;
    for number in 0..40 {
        let path = format!("/new/a/file-with-a-longer-name-{number}");
        write(change, &path, &path.repeat(number * 20))?;
    }
    write(change, "/kept/config", &"after\n".repeat(400))?;
    let (from, to) = (Path::new("/moved/file"), Path::new("/new/file"));
    renaming::rename(change, from, to, renaming::Existing::Replace)?;
    create::symlink(change, b"/new/file", "/link".as_ref(), Existing::Refuse)?;
    create::hard_link(change, to, "/kept/second".as_ref(), Existing::Refuse)?;
    let mode = Mode::parse("u=rwX,go=").expect("a mode");
    metadata::permissions(change, "/new".as_ref(), &mode, Reach::Tree, &mut Vec::new())?;
    Ok(())
}

/// Changes the volume on a device, and says how that was committed.
pub fn change(device: &Arc<Recorded>, redo: Option<&Path>) -> Outcome {
    let identity = identity(&**device);
    let redo = redo.map(|path| (path.to_owned(), identity));
    let options = ChangeOptions { redo, ..ChangeOptions::default() };
    let change = Change::open(Arc::clone(device) as _, &options).expect("it opens");
    work(&change).expect("it works");
    change.commit().expect("it is committed").outcome
}

/// The same change of a device that is watched, by a redo log.
pub fn change_by_redo(device: &Arc<Watched>, redo: &Path) {
    let redo = Some((redo.to_owned(), identity(&**device)));
    let options = ChangeOptions { redo, ..ChangeOptions::default() };
    let change = Change::open(Arc::clone(device) as _, &options).expect("it opens");
    work(&change).expect("it works");
    assert_eq!(change.commit().expect("it is committed").outcome, Outcome::RedoLog);
}

/// Bytes of a file that is more than a log of 1 MiB takes.
pub const LARGE_BYTES: usize = 2 << 20;

/// A change of a volume, with memory for 64 blocks.
fn change_large(
    device: &Arc<MemoryDevice>,
    redo: Option<&Path>,
    work: impl FnOnce(&Change) -> extant_edit::Result<()>,
) -> extant_edit::Result<Outcome> {
    let redo = redo.map(|path| (path.to_owned(), identity(&**device)));
    let held_bytes_max = Some(64 << 10);
    let options = ChangeOptions { redo, held_bytes_max, ..ChangeOptions::default() };
    let change = Change::open(Arc::clone(device) as _, &options)?;
    work(&change)?;
    Ok(change.commit()?.outcome)
}

/// Makes a large file: its blocks were free.
pub fn make_large(device: &Arc<MemoryDevice>) -> extant_edit::Result<Outcome> {
    change_large(device, None, |change| write(change, "/large", &"a".repeat(LARGE_BYTES)))
}

/// Writes over its blocks, which are in use.
pub fn overwrite_large(
    device: &Arc<MemoryDevice>,
    redo: Option<&Path>,
) -> extant_edit::Result<Outcome> {
    change_large(device, redo, |change| {
        let file = change.open_file("/large")?;
        Ok(file.write_all_at(0, &vec![b'b'; LARGE_BYTES])?)
    })
}

/// Makes links that need blocks of inodes which were never written.
pub fn fill_inodes(device: &Arc<Filling>, redo: &Path) -> extant_edit::Result<()> {
    let redo = Some((redo.to_owned(), identity(&**device)));
    let options = ChangeOptions { redo, ..ChangeOptions::default() };
    let change = Change::open(Arc::clone(device) as _, &options)?;
    for number in 0..150 {
        let path = format!("/link-{number}");
        create::symlink(&change, b"target", path.as_ref(), Existing::Refuse)?;
    }
    change.commit().map(drop)
}

/// Path, mode, links, owner, size, times and content of an object.
pub type Entry = (String, u16, u16, u32, u64, i64, Vec<u8>);
/// All objects, in the order of their paths.
pub type Tree = Vec<Entry>;

/// What is on a device after recovery, everything read.
pub fn tree_of(device: Arc<dyn BlockDevice>) -> Result<Tree, String> {
    let said = |error: extant_engine::Error| error.to_string();
    let device = recovered(device, Orphans::Finish).map_err(said)?.device;
    let policies: Policies = "modern".parse().map_err(|error| format!("{error}"))?;
    let (access, data) = (Access::ReadOnly, DataKeeping::Bytes);
    let options = Options { access, policies, cache_bytes: 4 << 20, data };
    let filesystem = Filesystem::open(device, &options).map_err(said)?;
    let mut entries = Vec::new();
    let tree = ImageTree::new(&filesystem);
    walk::walk(&tree, "/".as_ref(), Manner::plain(Links::Stay), &mut |event| {
        let visited = match event {
            Event::Found(visited) => visited,
            Event::Left(_) => return Ok(Below::Skip),
            Event::Trouble(error) => return Err(error),
        };
        let path = visited.spot.path;
        let metadata = filesystem.symlink_metadata(path)?;
        let content = match metadata.file_type {
            FileType::Regular => filesystem.read(path)?,
            FileType::Symlink => filesystem.read_link(path)?,
            _ => Vec::new(),
        };
        entries.push((
            path.display().to_string(),
            metadata.mode,
            metadata.links,
            metadata.uid,
            metadata.size,
            metadata.modify_time.seconds,
            content,
        ));
        Ok(Below::Enter)
    })
    .map_err(|error| error.to_string())?;
    entries.sort();
    Ok(entries)
}
