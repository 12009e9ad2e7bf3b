//! Deep trees, trees in circles, and names that no file may have.
use super::*;
use crate::copy::{Copy, Dereference, Existing, HostSink, ImageSink, Keep, Options, Sparse};
use crate::owner::Owner;
use crate::tree::Reach;
use crate::{Change, ChangeOptions, create, metadata, removal};
use extant_block::edge::{self, Edge};
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, New, NewKind, Options as VolumeOptions};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

type Device = Arc<dyn BlockDevice>;

fn device(megabytes: u64) -> Device {
    device_of(Profile::Ext2, megabytes)
}

/// Without checksums of metadata, so that bytes can be put in place of others.
fn device_of(profile: Profile, megabytes: u64) -> Device {
    let device: Device = Arc::new(MemoryDevice::new(RealClock::new(), megabytes << 20));
    let mut wishes = default_wishes(profile, megabytes << 20, Some(1024), Identity::NONE);
    wishes.blocks = megabytes << 10;
    wishes.inodes = extant_format::layout::Inodes::AtLeast(megabytes << 10);
    let policies: Policies = "modern".parse().unwrap();
    format(Arc::clone(&device), &FormatOptions::new(wishes), &policies).unwrap();
    device
}

fn open(device: &Device, access: Access) -> Filesystem {
    let policies = "modern,throttle=inline".parse().unwrap();
    let data = DataKeeping::Bytes;
    let options = VolumeOptions { access, policies, cache_bytes: 32 << 20, data };
    Filesystem::open(Arc::clone(device), &options).unwrap()
}

/// Directories in each other, each with a file beside the next.
fn deep(device: &Device, levels: usize) {
    let filesystem = open(device, Access::ReadWrite);
    let inodes = filesystem.inodes();
    let mut here = inodes.root().unwrap();
    for _ in 0..levels {
        let new = New { kind: NewKind::Directory, permissions: 0o755, ..New::default() };
        inodes.create(&here, b"file", &New { permissions: 0o644, ..New::default() }).unwrap();
        here = inodes.create(&here, b"dir", &new).unwrap();
    }
    filesystem.close().unwrap();
}

/// How many locks of inodes some work takes: each look-up, each reading and each change takes some.
fn locks(work: impl FnOnce()) -> u64 {
    let count = Rc::new(Cell::new(0));
    let counter = Rc::clone(&count);
    edge::watch(Some(Rc::new(move |edge| {
        if edge == Edge::SleepLock {
            counter.set(counter.get() + 1);
        }
    })));
    work();
    edge::watch(None);
    count.get()
}

fn plain() -> Options {
    Options {
        reach: Reach::Tree,
        dereference: Dereference::Never,
        keep: Keep { mode: true, owner: true, times: true, links: true, attributes: true },
        existing: Existing::Overwrite,
        sparse: Sparse::Auto,
        owner: Owner::default(),
        mode: None,
    }
}

/// A copy that tells its troubles.
fn copied(source: &dyn crate::copy::Source, sink: &dyn crate::copy::Sink, to: &str) -> Vec<String> {
    let (troubles, options) = (RefCell::new(Vec::new()), plain());
    let tell = |error: Error| {
        troubles.borrow_mut().push(error.to_string());
        Ok(())
    };
    let mut copy = Copy::new(source, sink, &options, (&|_| {}, &tell));
    copy.copy(Path::new("/dir"), Path::new(to)).unwrap();
    troubles.into_inner()
}

/// What each kind of walk over so many levels costs in locks.
fn costs(levels: usize) -> Vec<(&'static str, u64)> {
    let device = device(8);
    deep(&device, levels);
    let mut costs = Vec::new();
    let filesystem = open(&device, Access::ReadOnly);
    let mut visited = 0;
    costs.push((
        "a walk",
        locks(|| {
            let tree = ImageTree::new(&filesystem);
            let manner = Manner::plain(Links::Stay);
            walk(&tree, Path::new("/dir"), manner, &mut |event| {
                visited += u64::from(matches!(event, Event::Found(_)));
                Ok(Below::Enter)
            })
            .unwrap();
        }),
    ));
    assert_eq!(visited, 2 * levels as u64 - 1);
    let change = Change::open(Arc::clone(&device), &ChangeOptions::default()).unwrap();
    let owner = Owner { uid: Some(7), gid: None };
    costs.push((
        "chown",
        locks(|| {
            let reach = (Reach::Tree, Links::Stay);
            let count =
                metadata::owner(&change, Path::new("/dir"), owner, reach, &mut Vec::new()).unwrap();
            assert_eq!(count, visited);
        }),
    ));
    costs.push((
        "cp",
        locks(|| {
            let (tree, sink) = (ImageTree::new(&filesystem), ImageSink::new(&change));
            assert_eq!(copied(&tree, &sink, "/copy"), Vec::<String>::new());
        }),
    ));
    costs.push((
        "rm",
        locks(|| {
            let removed =
                removal::remove(&change, Path::new("/dir"), removal::Depth::Tree, &mut Vec::new());
            assert_eq!(removed.unwrap(), visited);
        }),
    ));
    costs.push((
        "mkdir -p",
        locks(|| {
            let path = PathBuf::from("/new".to_owned() + &"/d".repeat(levels));
            create::directory(&change, &path, create::Parents::Make, None).unwrap();
        }),
    ));
    costs
}

#[test]
fn each_level_costs_the_same_however_deep() {
    if !cfg!(debug_assertions) {
        return;
    }
    for ((what, few), (_, many)) in costs(200).into_iter().zip(costs(800)) {
        assert!(few > 0 && many <= 5 * few, "{what}: {few} locks for 200 levels, {many} for 800");
    }
}

#[test]
fn twenty_thousand_levels_and_a_path_of_64_kib() {
    const LEVELS: usize = 20_000;
    let device = device(64);
    deep(&device, LEVELS);
    let longest = "/dir".repeat(LEVELS - 1) + "/file";
    assert!(longest.len() > 64 << 10);
    let filesystem = open(&device, Access::ReadOnly);
    filesystem.metadata(&longest).unwrap();
    // On the host, where no such path can be named, and back.
    let folder = tempfile::tempdir().unwrap();
    let sink = HostSink::new(folder.path()).unwrap();
    assert_eq!(copied(&ImageTree::new(&filesystem), &sink, "dir"), Vec::<String>::new());
    let change = Change::open(Arc::clone(&device), &ChangeOptions::default()).unwrap();
    removal::remove(&change, Path::new("/dir"), removal::Depth::Tree, &mut Vec::new()).unwrap();
    assert!(change.metadata("/dir").is_err());
    let options = plain();
    let (tree, sink) = (HostTree::default(), ImageSink::new(&change));
    let mut copy = Copy::new(&tree, &sink, &options, (&|_| {}, &Err));
    copy.copy(&folder.path().join("dir"), Path::new("/dir")).unwrap();
    assert_eq!(copy.copied().objects, 2 * LEVELS as u64 - 1);
    change.metadata(&longest).unwrap();
    remove_deep(folder.path());
}

/// rm -r of the host, which goes down by descriptors too.
fn remove_deep(folder: &Path) {
    let status = std::process::Command::new("rm").arg("-rf").arg(folder).status();
    assert!(status.unwrap().success());
}

/// Puts bytes in place of others on a device, where they are found.
fn patch(device: &Device, from: &[u8], to: &[u8]) {
    let mut bytes = vec![0; usize::try_from(device.info().bytes).unwrap()];
    device.read(0, &mut bytes).unwrap();
    let places = bytes.windows(from.len()).enumerate().filter(|(_, window)| *window == from);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    // In a journal too.
    places.into_iter().for_each(|at| device.write(at as u64, to).unwrap());
}

/// An entry as it is on disk, from its inode number on; the length of its record is not changed.
fn entry(ino: u32, length: u16, kind: u8, name: &[u8]) -> Vec<u8> {
    let mut bytes = ino.to_le_bytes().to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend([name.len() as u8, kind]);
    bytes.extend(name);
    bytes
}

fn number(device: &Device, path: &str) -> u32 {
    open(device, Access::ReadOnly).symlink_metadata(path).unwrap().ino.0
}

/// What a walk finds, and what it tells.
fn walked(device: &Device) -> (Vec<String>, Vec<String>) {
    let filesystem = open(device, Access::ReadOnly);
    let (mut found, mut told) = (Vec::new(), Vec::new());
    let manner = Manner::plain(Links::Stay);
    walk(&ImageTree::new(&filesystem), Path::new("/dir"), manner, &mut |event| {
        match event {
            Event::Found(visited) => found.push(visited.spot.path.display().to_string()),
            Event::Left(_) => {}
            Event::Trouble(error) => told.push(error.to_string()),
        }
        Ok(Below::Enter)
    })
    .unwrap();
    (found, told)
}

#[test]
fn a_directory_in_itself_is_told_and_the_walk_goes_on() {
    let device = device(2);
    deep(&device, 3);
    // The file in the second directory becomes a name of the first one.
    let (ancestor, file) = (number(&device, "/dir"), number(&device, "/dir/dir/file"));
    patch(&device, &entry(file, 12, 1, b"file"), &entry(ancestor, 12, 2, b"file"));
    let (found, told) = walked(&device);
    assert_eq!(found, ["/dir", "/dir/dir", "/dir/dir/dir", "/dir/file"]);
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("/dir/dir/file: is its own ancestor"), "{told:?}");
    let change = Change::open(Arc::clone(&device), &ChangeOptions::default()).unwrap();
    let mut loops = Vec::new();
    let (dir, owner) = (Path::new("/dir"), Owner { uid: Some(7), gid: None });
    let reach = (Reach::Tree, Links::Stay);
    assert_eq!(metadata::owner(&change, dir, owner, reach, &mut loops).unwrap(), 4);
    assert_eq!(change.metadata("/dir/dir/dir").unwrap().uid, 7);
    // The empty directory and the file go; those that the loop is in stay.
    assert_eq!(removal::remove(&change, dir, removal::Depth::Tree, &mut loops).unwrap(), 2);
    let told: Vec<String> = loops.iter().map(Error::to_string).collect();
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|told| told.starts_with("/dir/dir/file: is its own")), "{told:?}");
    let left = |path: &str| {
        let entries = change.read_dir(path).unwrap();
        entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>()
    };
    assert_eq!((left("/dir"), left("/dir/dir")), (vec![b"dir".to_vec()], vec![b"file".to_vec()]));
}

#[test]
fn an_illegal_name_hides_nothing_and_comes_out_as_another() {
    // Read in the order of the blocks, and by hash.
    for profile in [Profile::Ext2, Profile::Ext3] {
        an_illegal_name(&device_of(profile, 4));
    }
}

fn an_illegal_name(device: &Device) {
    deep(device, 2);
    let file = number(device, "/dir/file");
    patch(device, &entry(file, 12, 1, b"file"), &entry(file, 12, 1, b"../f"));
    let (found, told) = walked(device);
    assert_eq!(found, ["/dir", "/dir/dir"]);
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("\"../f\"") && told[0].contains(&file.to_string()), "{told:?}");
    let filesystem = open(device, Access::ReadOnly);
    let folder = tempfile::tempdir().unwrap();
    let sink = HostSink::new(folder.path()).unwrap();
    let told = copied(&ImageTree::new(&filesystem), &sink, "dir");
    assert!(told.len() == 1 && told[0].contains("..%2Ff"), "{told:?}");
    assert!(folder.path().join("dir/..%2Ff").is_file() && folder.path().join("dir/dir").is_dir());
    assert!(!folder.path().join("f").exists());
    // A library sees both, and is not led astray.
    let entries = filesystem.read_dir("/dir").unwrap();
    let saved: Vec<_> = entries.iter().filter(|entry| entry.stored.is_some()).collect();
    assert_eq!((saved.len(), saved[0].name.as_slice()), (1, &b"..%2Ff"[..]));
    // A mount shows the good ones alone.
    let mut shown = Vec::new();
    let inode = filesystem.inode("/dir").unwrap();
    let listed = filesystem.inodes().read_dir(&inode, 0, &mut |entry| {
        shown.push(entry.name.to_vec());
        std::ops::ControlFlow::Continue(())
    });
    listed.unwrap();
    assert_eq!(shown, [b".".to_vec(), b"..".to_vec(), b"dir".to_vec()]);
}

#[test]
fn the_way_on_the_host_comes_back_through_links() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a").join("b/".repeat(60));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir(folder.path().join("elsewhere")).unwrap();
    // So deep that folders are closed: the one above the link is not where ".." leads to.
    std::os::unix::fs::symlink("../a", folder.path().join("elsewhere/link")).unwrap();
    std::fs::write(deep.join("last"), "").unwrap();
    std::fs::write(folder.path().join("elsewhere/z"), "").unwrap();
    let (tree, mut found) = (HostTree::default(), 0);
    let manner = Manner { named: Links::Follow, below: Links::Follow, illegal: Illegal::Skip };
    walk(&tree, &folder.path().join("elsewhere"), manner, &mut |event| {
        match event {
            Event::Found(visited) => {
                found += usize::from(visited.facts.file_type == FileType::Regular);
            }
            Event::Left(_) => {}
            Event::Trouble(error) => panic!("{error}"),
        }
        Ok(Below::Enter)
    })
    .unwrap();
    assert_eq!(found, 2);
}
