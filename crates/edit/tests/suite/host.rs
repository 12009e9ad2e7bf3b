//! The host's power is cut: a redo log is of use only if it is on the host's disk before the image
//! changes, and may go only after the image is there. What a program sees of its files is in the
//! host's memory; what would be left of them is in the file system on its disk.
use crate::devices::{Recorded, Skipped, Watched};
use crate::volumes::{self, Kind, change, tree_of};
use extant_block::MemoryDevice;
use extant_edit::redo::{self, Finished};
use extant_edit::undo;
use extant_engine::{Access, DataKeeping, Filesystem, Options, Orphans, recovered};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{self, Mounted};
use extant_testkit::scratch::Scratch;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A file system that the kernel has mounted, on a disk that can be looked at.
struct Host {
    /// Before the folder of the disk, which goes last.
    mounted: Mounted,
    disk: PathBuf,
    _folder: Scratch,
}

impl Host {
    /// One that writes nothing back by itself for as long as a test takes. `None`, with a line, if
    /// it cannot be mounted here.
    fn new() -> Option<Host> {
        if !oracle::require("mke2fs") || !oracle::can_mount() {
            return None;
        }
        let folder = Scratch::new("edit-host");
        let disk = folder.join("disk.img");
        output(program("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(&disk).arg("48M"))
            .expect("mke2fs makes it");
        let mounted = oracle::mount_loop(&disk, oracle::Access::ReadWrite, "commit=3600");
        Some(Host { mounted: mounted.expect("it mounts"), disk, _folder: folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mounted.path().join(name)
    }
}

/// What a file on a host's disk holds if the power is cut now; `None` if it is not there.
fn after_cut(disk: &Path, name: &str) -> Option<Vec<u8>> {
    let bytes = std::fs::read(disk).expect("the disk is read");
    let device = Arc::new(MemoryDevice::from_bytes(volumes::clock(), &bytes));
    let device = recovered(device, Orphans::Leave).expect("the host is recovered").device;
    let policies = "modern".parse().expect("policies");
    let (access, data) = (Access::ReadOnly, DataKeeping::Bytes);
    let options = Options { access, policies, cache_bytes: 4 << 20, data };
    let filesystem = Filesystem::open(device, &options).expect("the host opens");
    filesystem.metadata(name).ok()?;
    Some(filesystem.read(name).expect("the file is read"))
}

#[test]
fn the_log_is_on_the_hosts_disk_before_the_image_changes() {
    let Some(host) = Host::new() else { return };
    let log = host.path("log");
    let seen = Arc::new(Mutex::new(None));
    let look = {
        let (disk, log, seen) = (host.disk.clone(), log.clone(), Arc::clone(&seen));
        move || {
            let now = std::fs::read(&log).expect("the log is read");
            *seen.lock().unwrap() = Some((after_cut(&disk, "/log"), now));
        }
    };
    let device = Arc::new(Watched::new(Kind::EXT2_1K.make(), log.clone(), look));
    volumes::change_by_redo(&device, &log);
    assert!(device.has_looked(), "nothing was written after the log");
    let (on_disk, in_memory) = seen.lock().unwrap().take().expect("it was looked at");
    let on_disk = on_disk.expect("a power cut loses the log, and the image is half changed");
    assert!(on_disk == in_memory, "{} bytes of {}", on_disk.len(), in_memory.len());
    assert_eq!(after_cut(&host.disk, "/log"), None, "the log that was applied comes back");
}

/// A repair can be undone from the first block on that it writes.
#[test]
fn the_undo_file_is_on_the_hosts_disk_before_the_image_changes() {
    let Some(host) = Host::new() else { return };
    let log = host.path("log");
    let file = undo::path_of(&log, 0);
    let seen = Arc::new(Mutex::new(None));
    let look = {
        let (disk, file, seen) = (host.disk.clone(), file.clone(), Arc::clone(&seen));
        move || {
            let now = std::fs::read(&file).expect("the undo file is read");
            *seen.lock().unwrap() = Some((after_cut(&disk, "/log.undo"), now));
        }
    };
    let device = Arc::new(Watched::new(Kind::EXT2_1K.make(), log.clone(), look));
    crate::undo::repair(device.clone(), &log, 7).expect("it is applied");
    assert!(device.has_looked(), "nothing was written after the log");
    let (on_disk, in_memory) = seen.lock().unwrap().take().expect("it was looked at");
    assert!(on_disk.as_ref() == Some(&in_memory), "a power cut loses the undo file");
    assert_eq!(after_cut(&host.disk, "/log"), None, "the log that was applied comes back");
}

/// With the log of a change that was cut, as the next program finds it.
#[test]
fn the_image_is_on_the_hosts_disk_when_its_log_is_gone() {
    let Some(host) = Host::new() else { return };
    let base = Kind::EXT2_1K.make();
    let recorded = {
        let folder = Scratch::new("edit-log");
        let log = folder.join("log");
        let recorded = Arc::new(Recorded::new(base.snapshot(), Skipped::None, Some(log.clone())));
        change(&recorded, Some(&log));
        recorded
    };
    let (begun, bytes) = recorded.whole_log().expect("a log was written");
    let after = tree_of(Arc::new(recorded.log.device().snapshot())).expect("it is read");
    let (image, log) = (host.path("image"), host.path("log"));
    let cut = recorded.log.cut(begun).durable(&base).expect("a medium");
    cut.save(&image).expect("it is saved");
    std::fs::write(&log, bytes).expect("it is written");
    let file = OpenOptions::new().read(true).write(true).open(&image).expect("it opens");
    for file in [&file, &std::fs::File::open(&log).expect("it opens")] {
        file.sync_all().expect("it is synced");
    }
    let finished = redo::finish(&log, &file).expect("it is applied");
    assert!(matches!(finished, Finished::Applied(_)), "{finished:?}");
    let on_disk = after_cut(&host.disk, "/image").expect("the image is there");
    assert_eq!(after_cut(&host.disk, "/log"), None, "the log that was applied comes back");
    let device = Arc::new(MemoryDevice::from_bytes(volumes::clock(), &on_disk));
    assert!(tree_of(device) == Ok(after), "the log is gone, and the image is not as it brought it");
}
