//! Memory is held: whatever is done, what a file system says that it takes, and what its process
//! takes, stay within `cache_bytes` and a tenth.
use crate::{again, in_memory};
use extant_block::{BlockDevice, FileDevice, RealClock, file};
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, MemoryUse, Options, SetAttribute};
use extant_testkit::variables::number;
use std::sync::Arc;

const MIB: usize = 1 << 20;
/// Set in the processes that do the work: how many MiB their limit is.
const LIMIT: &str = "EXTANT_TEST_MEMORY_MIB";
/// What a process takes beyond its limit and a tenth, whatever the limit: requests under way,
/// stacks, what calls return.
const BESIDE: usize = 32 * MIB;
/// The part of the limit that the allocator may keep in holes: after small files it has small ones,
/// which a large file does not fit into. How many depends on which thread freed what, so runs
/// differ: 330 to 366 MiB were resident with a limit of 256.
const HOLES: usize = 3;
const VOLUME: u64 = 3 << 30;
const DIRECTORIES: u32 = 50;
/// For each MiB of the limit: enough to reach it, in each kind of memory.
const FILES_PER_MIB: usize = 160;
/// Pieces of 64 KiB of the large file, for each MiB of the limit: twice as much as it holds.
const PIECES_PER_MIB: usize = 32;

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("the kernel's account");
    let pages: usize = statm.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap();
    pages * 4096
}

/// Looks at memory every now and then.
struct Account<'f> {
    filesystem: &'f Filesystem,
    before: usize,
    limit: usize,
    looks: u32,
    /// The most that was seen of each kind, and in all.
    most: MemoryUse,
    most_said: usize,
    most_resident: usize,
}

impl Account<'_> {
    fn look(&mut self, doing: &str) {
        self.looks += 1;
        if !self.looks.is_multiple_of(500) {
            return;
        }
        let (now, most) = (self.filesystem.memory_use(), &mut self.most);
        most.metadata = most.metadata.max(now.metadata);
        most.journal = most.journal.max(now.journal);
        most.data = most.data.max(now.data);
        most.inodes = most.inodes.max(now.inodes);
        most.names = most.names.max(now.names);
        most.buffers = most.buffers.max(now.buffers);
        let resident = resident().saturating_sub(self.before);
        self.most_said = self.most_said.max(now.total());
        self.most_resident = self.most_resident.max(resident);
        let allowed = self.limit / 10 * 11;
        let said = now.total();
        assert!(said <= allowed, "{doing}: {said} bytes said of {allowed}: {now:?}");
        let allowed = allowed + self.limit / HOLES + BESIDE;
        assert!(resident <= allowed, "{doing}: {resident} bytes of {allowed}: {now:?}");
    }

    fn report(&self, doing: &str) {
        let mib = |bytes: usize| bytes / MIB;
        let now = self.filesystem.memory_use();
        let MemoryUse { metadata, journal, data, neighbours, inodes, names, buffers } = now;
        eprintln!(
            "{doing}: {} MiB said, {} resident ({} and {} at most), {:?} MiB",
            mib(now.total()),
            mib(resident().saturating_sub(self.before)),
            mib(self.most_said),
            mib(self.most_resident),
            [metadata, journal, data, neighbours, inodes, names, buffers].map(mib)
        );
    }
}

/// Most names are long.
fn path(number: u32) -> String {
    let directory = number % DIRECTORIES;
    format!("/d{directory}/{number:0width$}", width = 10 + (number % 7) as usize * 35)
}

/// Fills everything there is: inodes, names, attributes in blocks of their own, small files, a
/// large one that is written and read, and what reading all of it again brings.
fn fill(account: &mut Account<'_>) -> extant_engine::Result<()> {
    let filesystem = account.filesystem;
    let files = (account.limit / MIB * FILES_PER_MIB) as u32;
    let pieces = (account.limit / MIB * PIECES_PER_MIB) as u64;
    for directory in 0..DIRECTORIES {
        filesystem.create_dir(format!("/d{directory}"), 0o755)?;
    }
    for number in 0..files {
        let path = path(number);
        filesystem.write(&path, &vec![number as u8; (number % 4) as usize * 2500])?;
        let value = format!("{number:0>1500}");
        filesystem.set_attribute(&path, b"user.large", value.as_bytes(), SetAttribute::Any)?;
        account.look("making files");
    }
    account.report("files made");
    let mut piece = vec![7; 64 << 10];
    let large = filesystem.create_file("/large", 0o644)?;
    for at in 0..pieces {
        large.write_all_at(at * piece.len() as u64, &piece)?;
        account.look("writing");
    }
    account.report("written");
    for _ in 0..2 {
        for at in 0..pieces {
            large.read_at(at * piece.len() as u64, &mut piece)?;
            account.look("reading");
        }
    }
    account.report("read");
    for number in 0..files {
        let path = path(number);
        filesystem.metadata(&path)?;
        filesystem.read(&path)?;
        filesystem.attributes(&path)?;
        assert!(filesystem.metadata(path + "x").is_err());
        account.look("reading files");
    }
    account.report("files read");
    for number in (0..files).step_by(2) {
        filesystem.remove_file(path(number))?;
        account.look("removing");
    }
    account.report("removed");
    Ok(())
}

/// The work of one process; nothing where it was not asked for.
#[test]
fn the_work_of_a_process_with_a_limit() {
    let Some(mib) = std::env::var(LIMIT).ok().and_then(|mib| mib.parse::<usize>().ok()) else {
        return;
    };
    let scratch = in_memory("memory");
    let image = scratch.path().join("image");
    std::fs::File::create(&image).and_then(|file| file.set_len(VOLUME)).expect("a sparse file");
    let device = FileDevice::open(RealClock::new(), &image, file::Access::ReadWrite, 0);
    let device: Arc<dyn BlockDevice> = Arc::new(device.expect("it was just made"));
    let policies: Policies = "modern".parse().expect("a preset");
    let wishes = default_wishes(Profile::Ext4, VOLUME, Some(4096), Identity::NONE);
    format(Arc::clone(&device), &FormatOptions::new(wishes), &policies).expect("a new volume");
    let before = resident();
    let (limit, access, data) = (mib * MIB, Access::ReadWrite, DataKeeping::Bytes);
    let options = Options { access, policies, cache_bytes: limit, data };
    let filesystem = Filesystem::open(device, &options).expect("the new volume");
    let mut account = Account {
        filesystem: &filesystem,
        before,
        limit,
        looks: 0,
        most: MemoryUse::default(),
        most_said: 0,
        most_resident: 0,
    };
    fill(&mut account).expect("room for all of it");
    let most = account.most;
    // The work is enough to reach the limits of each kind.
    assert!(most.metadata > limit / 4 && most.data > limit / 4, "{most:?}");
    assert!(most.inodes > limit / 25 && most.names > limit / 50, "{most:?}");
    filesystem.close().expect("a sound device");
}

#[test]
fn memory_is_held_whatever_is_done() {
    let most = number("EXTANT_MEMORY_MIB");
    for mib in [64, 256].into_iter().filter(|mib| *mib <= most).map(|mib| mib.to_string()) {
        let (good, told) = again("resident::the_work_of_a_process_with_a_limit", (LIMIT, &mib));
        eprintln!("{mib} MiB\n{told}");
        assert!(good, "with {mib} MiB: {told}");
    }
}
