//! The columns of the presets: whatever is chosen, volumes stay sound; and each choice does what
//! its line says, by what reaches the drive.
use extant_block::{BlockDevice, Clock, MemoryDevice, Operation, ShortLock, Task, Traced};
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, Options, cache_for_blocks};
use extant_lab::scenario::{self, RunOptions, Scenario};
use extant_lab::setup::{self, Setup};
use extant_sim::clock::{Settings, VirtualClock};
use extant_sim::device::{DeviceSettings, PowerCuts, SimDevice, TraceKeeping};
use extant_sim::drive::file::by_name;
use extant_sim::{Fault, Faulty};
use extant_testkit::variables::number;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

// ---- Every choice of every column, alone ----

/// Two processes at once that make, overwrite, append and remove; then all is read again, cold.
const WORK: &str = r#"
name = "columns"
[[drive]]
name = "disk"
model = "ide-2001-7200"
[[filesystem]]
name = "volume"
size = "64M"
block_size = 1024
inodes = 4096
memory = "2M"
profile = "PROFILE"
[[process]]
name = "one"
steps = [
    { step = "make-tree", at = "/one", tree = { rule = "source", files = 60, directories = 8, bytes = "900K" } },
    { step = "random", direction = "write", path = "/one/over", count = 60, span = "600K" },
    { step = "sync" },
    { step = "sequential", direction = "write", path = "/one/log", bytes = "500K", chunk = "10K", span = "600K", streams = 2 },
]
[[process]]
name = "two"
steps = [
    { step = "create-files", at = "/gone", count = 40, directories = 4, size = 0, size_max = "30K", order = "round-robin" },
    { step = "untar", at = "/two", tree = { rule = "source", files = 40, directories = 3 } },
    { step = "remove", at = "/gone" },
    { step = "create-files", at = "/flat", count = 120, size = "1K" },
    { step = "wait", process = "one" },
    { step = "sync" },
    { step = "remount" },
    { step = "read-all", at = "/", label = "all" },
]
"#;

fn parse(text: &str) -> Scenario {
    scenario::parse("columns.toml", text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

/// What the engine is told on the machine of a preset's time.
fn engine(words: &str) -> Policies {
    words.parse::<Setup>().unwrap().policies
}

/// The base itself, and each choice of each column that it has not.
fn rows(base: &str) -> Vec<String> {
    let base_setup: Setup = base.parse().unwrap();
    let mut rows = vec![base.to_owned()];
    for (column, (_, own)) in setup::columns().into_iter().zip(base_setup.columns()) {
        let mut choices: Vec<&str> = column.choices.into_iter().map(|(name, _)| name).collect();
        match column.name {
            "requests" => choices.extend(["4", "1000"]),
            "commit" => choices.extend(["1s", "30s", "5s+data"]),
            "elevator" => choices.push("linus(20,20)"),
            _ => assert!(choices.len() > 1, "{}", column.name),
        }
        let others = choices.into_iter().filter(|name| *name != own);
        rows.extend(others.map(|name| format!("{base},{}={name}", column.name)));
    }
    rows
}

fn every_choice(base: &str, profile: &str) {
    let scenario = parse(&WORK.replace("PROFILE", profile));
    let scratch = tempfile::tempdir().unwrap();
    let mut expected = None;
    let rows = rows(base);
    assert!(rows.len() > 35, "{}", rows.len());
    let again = number("EXTANT_AGAIN");
    for (row, policies) in (0..).zip(rows) {
        let options = RunOptions { policies: Some(policies.clone()), ..RunOptions::default() };
        let run = || {
            scenario::run(&scenario, &options).unwrap_or_else(|error| panic!("{policies}: {error}"))
        };
        let first = run();
        if u64::is_multiple_of(row, again) {
            let second = run().report;
            assert_eq!(first.report.trace_hash, second.trace_hash, "{policies}");
            assert_eq!(first.report.elapsed_ns, second.elapsed_ns, "{policies}");
        }
        assert_eq!(first.report.filesystems[0].policies, policies);
        let found = first.filesystems[0].check(&scratch.path().join("image")).unwrap();
        assert_eq!(found, "", "{policies}");
        // Whatever the policies, the same files are there, as long as they should be.
        let work = &first.report.step("all").unwrap().work;
        let there = (work.files, work.directories, work.bytes_read);
        assert_eq!(*expected.get_or_insert(there), there, "{policies}");
    }
    let (files, _, bytes) = expected.unwrap();
    assert!(files == 60 + 2 + 40 + 120 && bytes > 2_000_000, "{files} files, {bytes} bytes");
}

#[test]
fn every_choice_on_linux_2_4_leaves_the_same_files_on_a_sound_volume() {
    every_choice("linux-2.4", "ext2");
}

#[test]
fn every_choice_on_modern_leaves_the_same_files_on_a_sound_volume() {
    every_choice("modern", "ext4");
}

#[test]
fn every_preset_leaves_a_sound_volume_on_every_profile() {
    let scratch = tempfile::tempdir().unwrap();
    for profile in ["ext2", "ext3", "ext4"] {
        let scenario = parse(&WORK.replace("PROFILE", profile));
        for preset in extant_engine::preset::PRESETS {
            for mount in ["async", "sync"] {
                let options = RunOptions {
                    policies: Some(format!("{},mount={mount}", preset.name)),
                    ..RunOptions::default()
                };
                let outcome =
                    scenario::run(&scenario, &options).unwrap_or_else(|error| panic!("{error}"));
                let found = outcome.filesystems[0].check(&scratch.path().join("image")).unwrap();
                assert_eq!(found, "", "{profile}, {}, {mount}", preset.name);
            }
        }
    }
}

// ---- What a choice does, request by request ----

/// A request as the engine made it.
type Record = (Operation, Range<u64>);

/// A volume in virtual time, on memory or on a drive, with all that the engine asks for.
struct Machine {
    clock: Arc<VirtualClock>,
    device: Arc<Traced<Arc<dyn BlockDevice>>>,
    policies: String,
    cache_bytes: usize,
}

const BLOCK: u64 = 1024;

impl Machine {
    /// Ends the test when anything in `body` fails. The volume is made with `policies`, of 1 KiB
    /// blocks, on a drive that takes its time or on memory.
    fn run<T: Send + 'static>(
        drive: Option<&str>,
        policies: &str,
        cache_bytes: usize,
        body: impl FnOnce(&Machine) -> T + Send + 'static,
    ) -> T {
        let clock = VirtualClock::new(Settings::default());
        let bytes = 640 << 20;
        let device: Arc<dyn BlockDevice> = match drive {
            None => Arc::new(MemoryDevice::new(Arc::clone(&clock) as Arc<dyn Clock>, bytes)),
            Some(name) => {
                let settings = DeviceSettings {
                    name: "disk".to_owned(),
                    queue: Default::default(),
                    trace: TraceKeeping::None,
                    power_cuts: PowerCuts::Excluded,
                };
                SimDevice::new(Arc::clone(&clock), by_name(name).unwrap().build(1), settings)
            }
        };
        let machine = Machine {
            clock: Arc::clone(&clock),
            device: Arc::new(Traced::new(device)),
            policies: policies.to_owned(),
            cache_bytes,
        };
        let outcome = clock.run("test", move || {
            let mut wishes =
                default_wishes(Profile::Ext2, bytes, Some(BLOCK as u32), Identity::NONE);
            wishes.uuid = *b"a volume to test";
            wishes.created_seconds = 978_000_000;
            wishes.inode_size = 128;
            let policies = engine(&machine.policies);
            format(machine.traced(), &FormatOptions::new(wishes), &policies).unwrap();
            body(&machine)
        });
        outcome.unwrap_or_else(|error| panic!("{policies}: {error}"))
    }

    fn traced(&self) -> Arc<dyn BlockDevice> {
        Arc::clone(&self.device) as Arc<dyn BlockDevice>
    }

    /// Opens it, cold, and forgets what was asked for.
    fn open(&self) -> Filesystem {
        let options = Options {
            access: Access::ReadWrite,
            policies: engine(&self.policies),
            cache_bytes: cache_for_blocks(self.cache_bytes),
            data: DataKeeping::Phantom,
        };
        let volume = Filesystem::open(self.traced(), &options).unwrap();
        self.device.take_records();
        volume
    }

    /// What was asked for since the last call.
    fn asked(&self) -> Vec<Record> {
        let records = self.device.take_records();
        records
            .into_iter()
            .map(|record| (record.operation, record.offset..record.offset + record.bytes))
            .collect()
    }

    fn sleep(&self, nanoseconds: u64) {
        let until = self.clock.now() + nanoseconds;
        while self.clock.now() < until {
            self.clock.park(Some(until));
        }
    }
}

/// Where the metadata of each group lies: bytes, from the descriptors as they are on the medium.
struct Groups {
    block_bitmaps: Vec<u64>,
    inode_bitmaps: Vec<u64>,
    tables: Vec<Range<u64>>,
}

impl Groups {
    fn of(volume: &Filesystem, device: &dyn BlockDevice) -> Groups {
        let superblock = volume.superblock();
        let count = superblock.group_count();
        let mut bytes = vec![0; count as usize * 32];
        device.read(2 * BLOCK, &mut bytes).unwrap();
        let word = |group: usize, at: usize| {
            let at = group * 32 + at;
            u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())) * BLOCK
        };
        let table_bytes = u64::from(superblock.inodes_per_group) * 128;
        let groups = 0..count as usize;
        Groups {
            block_bitmaps: groups.clone().map(|group| word(group, 0)).collect(),
            inode_bitmaps: groups.clone().map(|group| word(group, 4)).collect(),
            tables: groups.map(|group| word(group, 8)..word(group, 8) + table_bytes).collect(),
        }
    }

    fn in_table(&self, at: u64) -> bool {
        self.tables.iter().any(|table| table.contains(&at))
    }

    /// In blocks of files and directories: not in a table, a bitmap, nor before them.
    fn in_data(&self, at: u64) -> bool {
        let bitmap = self.block_bitmaps.contains(&at) || self.inode_bitmaps.contains(&at);
        !bitmap && !self.in_table(at) && at > self.tables[0].end
    }
}

fn of_tables<'a>(
    records: &'a [Record],
    groups: &'a Groups,
    operation: Operation,
) -> Vec<&'a Range<u64>> {
    let wanted =
        records.iter().filter(|(what, bytes)| *what == operation && groups.in_table(bytes.start));
    wanted.map(|(_, bytes)| bytes).collect()
}

fn blocks(ranges: &[&Range<u64>]) -> u64 {
    ranges.iter().map(|range| (range.end - range.start) / BLOCK).sum()
}

/// 400 empty files in a directory of a volume that was just opened: what was asked for while they
/// were made, and by the sync.
fn created(policies: &str) -> (Vec<Record>, Vec<Record>, Groups) {
    Machine::run(None, policies, 8 << 20, |machine| {
        let volume = machine.open();
        volume.create_dir("/d", 0o755).unwrap();
        // A file of each table block, so that none is fresh and all have to be kept.
        for number in 0..400 {
            volume.write(format!("/d/old {number}"), b"").unwrap();
        }
        for number in (0..400).filter(|number| number % 8 != 3) {
            volume.remove_file(format!("/d/old {number}")).unwrap();
        }
        volume.close().unwrap();
        let volume = machine.open();
        let groups = Groups::of(&volume, &*machine.traced());
        assert_eq!(volume.read_dir("/d").unwrap().len(), 50);
        machine.asked();
        for number in 0..350 {
            volume.write(format!("/d/new {number}"), b"some bytes").unwrap();
        }
        let making = machine.asked();
        volume.sync().unwrap();
        let syncing = machine.asked();
        volume.close().unwrap();
        (making, syncing, groups)
    })
}

#[test]
fn interleaved_reads_a_table_block_between_writes_and_clustered_reads_runs_before_them() {
    for (policy, interleaved) in [("interleaved", true), ("clustered", false)] {
        let (_, syncing, groups) = created(&format!(
            "linux-2.4,throttle=inline,placement=parent,inode-write-back={policy}"
        ));
        let reads = of_tables(&syncing, &groups, Operation::Read);
        assert!((45..=60).contains(&blocks(&reads)), "{policy}: {reads:?}");
        assert!(reads.is_sorted_by_key(|range| range.start), "{policy}");
        let is_table_read =
            |(what, bytes): &Record| *what == Operation::Read && groups.in_table(bytes.start);
        let first = syncing.iter().position(is_table_read).unwrap();
        let last = syncing.iter().rposition(is_table_read).unwrap();
        let between = &syncing[first..last];
        let writes = between.iter().filter(|(what, _)| *what == Operation::Write).count();
        if interleaved {
            assert!(reads.iter().all(|range| range.end - range.start == BLOCK), "{reads:?}");
            assert!(writes >= 40 * 6, "{writes}");
        } else {
            assert!(reads.len() <= 4, "{reads:?}");
            assert_eq!(writes, 0, "{reads:?}");
        }
    }
}

#[test]
fn a_sync_of_2_4_writes_blocks_by_age_then_reads_tables_and_writes_them() {
    for (policy, longest_read) in [("interleaved", 1), ("clustered", 32)] {
        let (_, syncing, groups) = created(&format!(
            "linux-2.4,throttle=kupdate,placement=parent,inode-write-back={policy}"
        ));
        let places = |wanted: Operation, in_table: bool| {
            let matches =
                |(what, bytes): &Record| *what == wanted && groups_of(&groups, bytes, in_table);
            let positions = syncing.iter().enumerate().filter(|(_, record)| matches(record));
            positions.map(|(at, _)| at).collect::<Vec<_>>()
        };
        let (reads, tables) = (places(Operation::Read, true), places(Operation::Write, true));
        let (first_read, last_read) = (reads[0], reads[reads.len() - 1]);
        // 350 files of a block each: all of them are under way before the first table block is
        // read. Interleaved, each table block is on its way before the next one is read; clustered,
        // nothing is written before all are read.
        let data: Vec<usize> = places(Operation::Write, false);
        assert!(data.iter().filter(|at| **at < first_read).count() >= 350, "{policy}");
        let between = |at: &&usize| **at > first_read && **at < last_read;
        assert_eq!(data.iter().filter(between).count(), 0, "{policy}");
        let alternating = tables.iter().filter(between).count();
        let expected = if longest_read == 1 { reads.len() - 1 } else { 0 };
        assert_eq!(alternating, expected, "{policy}: {} reads", reads.len());
        assert!(tables.iter().any(|at| *at > last_read), "{policy}");
        let longest = of_tables(&syncing, &groups, Operation::Read)
            .iter()
            .map(|range| (range.end - range.start) / BLOCK)
            .max();
        assert_eq!(longest.map(|blocks| blocks > 1), Some(longest_read > 1), "{policy}");
    }
}

fn groups_of(groups: &Groups, bytes: &Range<u64>, in_table: bool) -> bool {
    match in_table {
        true => groups.in_table(bytes.start),
        false => groups.in_data(bytes.start),
    }
}

#[test]
fn kupdate_puts_inodes_into_their_tables_within_five_seconds_and_writes_them_after_thirty() {
    let policies = "linux-2.4,placement=parent";
    Machine::run(None, policies, 8 << 20, |machine| {
        let volume = machine.open();
        for number in 0..30 {
            volume.write(format!("/{number}"), b"old").unwrap();
        }
        volume.close().unwrap();
        let volume = machine.open();
        let groups = Groups::of(&volume, &*machine.traced());
        machine.asked();
        volume.write("/new", b"new").unwrap();
        // At most the root's table block.
        assert!(of_tables(&machine.asked(), &groups, Operation::Read).len() <= 1);
        machine.sleep(6_000_000_000);
        let after = machine.asked();
        assert_eq!(of_tables(&after, &groups, Operation::Read).len(), 1, "the new inode's");
        assert_eq!(written_bytes(&after), 0);
        // A read makes its inode dirty too: it waits for 30 s of its own.
        volume.read("/3").unwrap();
        machine.sleep(23_000_000_000);
        assert_eq!(written_bytes(&machine.asked()), 0);
        machine.sleep(15_000_000_000);
        let written = machine.asked();
        assert_eq!(blocks(&of_tables(&written, &groups, Operation::Write)), 3, "{written:?}");
        volume.close().unwrap();
    });
}

#[test]
fn table_blocks_are_read_at_creation_or_at_write_back_or_never() {
    // Choice, blocks read while files are made, and by the sync.
    let table = [
        ("read-on-write", 0..=1, 45..=60),
        ("preread", 45..=60, 0..=0),
        ("zero-fill", 45..=60, 0..=0),
    ];
    for (policy, at_creation, at_sync) in table {
        let (making, syncing, groups) =
            created(&format!("linux-2.4,throttle=inline,placement=parent,inode-creation={policy}"));
        let made = blocks(&of_tables(&making, &groups, Operation::Read));
        let synced = blocks(&of_tables(&syncing, &groups, Operation::Read));
        assert!(
            at_creation.contains(&made) && at_sync.contains(&synced),
            "{policy}: {made}, then {synced}"
        );
    }
    // Where no other inode of a block is in use.
    let table = [("read-on-write", 0, 45..=60), ("preread", 45, 0..=0), ("zero-fill", 0, 0..=0)];
    for (policy, at_creation, at_sync) in table {
        let policies =
            format!("linux-2.4,throttle=inline,placement=parent,inode-creation={policy}");
        let (made, synced) = Machine::run(None, &policies, 8 << 20, |machine| {
            let volume = machine.open();
            let groups = Groups::of(&volume, &*machine.traced());
            volume.create_dir("/d", 0o755).unwrap();
            machine.asked();
            for number in 0..400 {
                volume.write(format!("/d/new {number}"), b"").unwrap();
            }
            let making = machine.asked();
            volume.sync().unwrap();
            let syncing = machine.asked();
            volume.close().unwrap();
            let reads = |records: &[Record]| blocks(&of_tables(records, &groups, Operation::Read));
            (reads(&making), reads(&syncing))
        });
        assert!((at_creation..=at_creation + 8).contains(&made), "{policy}: {made} while making");
        assert!(at_sync.contains(&synced), "{policy}: {synced} by the sync");
    }
}

#[test]
fn a_bitmap_that_is_read_makes_others_wait_or_does_not() {
    for (policy, waits) in [("under-lock", true), ("outside", false)] {
        let policies = format!("linux-2.4,throttle=inline,bitmap-load={policy}");
        let (cold_ns, warm_ns) =
            Machine::run(Some("ide-2001-7200"), &policies, 8 << 20, |machine| {
                let volume = machine.open();
                volume.create_dir("/a", 0o755).unwrap();
                volume.create_dir("/b", 0o755).unwrap();
                volume.close().unwrap();
                let volume = machine.open();
                // The bitmaps of /b's group are in memory, of /a's only the directory.
                volume.write("/b/warm", b"").unwrap();
                volume.read_dir("/a").unwrap();
                let times = Arc::new(ShortLock::new([0; 2]));
                let maker = |slot: usize, path: &'static str| {
                    let (clock, volume, times) =
                        (Arc::clone(&machine.clock), volume.clone(), Arc::clone(&times));
                    let body = move || {
                        let before = clock.now();
                        volume.write(path, b"").unwrap();
                        times.lock()[slot] = clock.now() - before;
                    };
                    machine.clock.spawn(path, Box::new(body))
                };
                let tasks = [maker(0, "/a/new"), maker(1, "/b/new")];
                tasks.into_iter().for_each(Task::join);
                volume.close().unwrap();
                let times = times.lock();
                (times[0], times[1])
            });
        assert!(cold_ns > 1_000_000, "{policy}: the bitmap took {cold_ns} ns");
        assert_eq!(warm_ns > cold_ns / 2, waits, "{policy}: {warm_ns} ns beside {cold_ns} ns");
    }
}

#[test]
fn an_early_synchronous_mount_has_written_a_new_indirect_block_when_the_write_returns() {
    for (mount, blocks) in [("sync-maps", 1), ("sync", 0), ("async", 0)] {
        let policies = format!("freebsd-5.2,mount={mount}");
        let (first, second, third) = Machine::run(None, &policies, 8 << 20, |machine| {
            let volume = machine.open();
            let file = volume.create_file("/file", 0o644).unwrap();
            machine.asked();
            let write = |from: usize, to: usize| {
                let bytes = vec![b'a'; (to - from) * BLOCK as usize];
                file.write_all_at(from as u64 * BLOCK, &bytes).unwrap();
                let asked = machine.asked();
                asked.iter().filter(|(what, _)| *what == Operation::Write).count()
            };
            // Twelve direct blocks; the first block after them needs a map, the next one does not.
            let counts = (write(0, 12), write(12, 13), write(13, 14));
            drop(file);
            volume.close().unwrap();
            counts
        });
        assert_eq!((first, second, third), (0, blocks, 0), "{mount}");
    }
}

#[test]
fn a_synchronous_mount_has_written_the_change_when_the_call_returns() {
    for (mount, written) in [("sync", true), ("async", false)] {
        for preset in ["linux-2.4", "freebsd-5.2", "freebsd-2010", "linux-2.6", "modern"] {
            let policies = format!("{preset},mount={mount}");
            let calls = Machine::run(None, &policies, 8 << 20, |machine| {
                let volume = machine.open();
                let groups = Groups::of(&volume, &*machine.traced());
                volume.create_dir("/d", 0o755).unwrap();
                volume.write("/d/there", b"").unwrap();
                machine.asked();
                type Call = fn(&Filesystem) -> extant_engine::Result<()>;
                let calls: [(&str, Call); 5] = [
                    ("create", |volume| volume.create_file("/d/new", 0o644).map(drop)),
                    ("link", |volume| volume.hard_link("/d/there", "/d/linked")),
                    ("rename", |volume| {
                        volume.rename("/d/new", "/d/newer", extant_engine::Rename::Replace)
                    }),
                    ("mkdir", |volume| volume.create_dir("/d/deep", 0o755)),
                    ("remove", |volume| volume.remove_file("/d/linked")),
                ];
                let counts = calls.map(|(name, call)| {
                    call(&volume).unwrap();
                    let asked = machine.asked();
                    let writes = asked.iter().filter(|(what, _)| *what == Operation::Write);
                    let (mut tables, mut directories) = (0, 0);
                    for (_, bytes) in writes {
                        // A write may begin with a bitmap and go on into the table behind it.
                        let mut blocks = (bytes.start..bytes.end).step_by(BLOCK as usize);
                        tables += u32::from(blocks.clone().any(|at| groups.in_table(at)));
                        directories += u32::from(blocks.any(|at| groups.in_data(at)));
                    }
                    (name, tables, directories)
                });
                volume.close().unwrap();
                counts
            });
            for (name, tables, directories) in calls {
                if written {
                    assert!(
                        tables >= 1 && directories >= 1,
                        "{policies}: {name}: {tables}, {directories}"
                    );
                    assert!(
                        tables + directories <= 6,
                        "{policies}: {name}: {tables}, {directories}"
                    );
                } else {
                    assert_eq!((tables, directories), (0, 0), "{policies}: {name}");
                }
            }
        }
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn throttles_begin_to_write_where_their_lines_say() {
    // Of 256 MiB: where the flusher begins, and where writers are made to write. The flusher comes
    // to its turn some MiB later, and up to 64 MiB are on their way when a writer has to wait.
    let table = [
        ("inline", 255..=258, 255..=258),
        ("bdflush", 76..=86, 153..=225),
        // 32 blocks for each that becomes dirty soon fill what may be on its way at once.
        ("kupdate", 102..=104, 102..=106),
        ("write-behind", 8..=18, 102..=175),
    ];
    for (policy, begins, writers_write) in table {
        let policies = format!(
            "linux-2.4,bitmap-load=outside,inode-creation=zero-fill,allocation=multi-block,\
             throttle={policy}"
        );
        let (begun, slow) = Machine::run(Some("ide-2001-7200"), &policies, 256 << 20, |machine| {
            let volume = machine.open();
            let (mut begun, mut slow) = (None, None);
            let content = vec![0; MIB as usize];
            let quiet = machine.device.counters().writes;
            for written in 1..=300 {
                let before = machine.clock.now();
                volume.write(format!("/{written}"), &content).unwrap();
                if machine.device.counters().writes > quiet {
                    begun.get_or_insert(written);
                }
                if machine.clock.now() - before > 100_000_000 {
                    slow.get_or_insert(written);
                }
            }
            volume.close().unwrap();
            (begun, slow)
        });
        assert!(
            begun.is_some_and(|mib| begins.contains(&mib)),
            "{policy}: begins at {begun:?} MiB"
        );
        assert!(
            slow.is_some_and(|mib| writers_write.contains(&mib)),
            "{policy}: writers wait at {slow:?} MiB"
        );
    }
}

#[test]
fn what_is_old_is_written_by_the_flusher() {
    // Seconds after a change at which nothing is written yet, and at which all is.
    let table = [("bdflush", 29, 36), ("kupdate", 29, 36), ("write-behind", 3, 11)];
    for (policy, not_yet, by_then) in table {
        let policies = format!("linux-2.4,throttle={policy}");
        let counts = Machine::run(None, &policies, 8 << 20, move |machine| {
            let volume = machine.open();
            machine.sleep(1_000_000_000);
            volume.write("/file", &[0; 300 << 10]).unwrap();
            machine.sleep(not_yet * 1_000_000_000);
            let quiet = machine.asked();
            machine.sleep((by_then - not_yet) * 1_000_000_000);
            let written = machine.asked();
            volume.sync().unwrap();
            let left = machine.asked();
            volume.close().unwrap();
            [quiet, written, left].map(|records| written_bytes(&records))
        });
        assert_eq!(counts[0], 0, "{policy}");
        assert!(counts[1] >= 300 << 10, "{policy}: {counts:?}");
        // Bitmaps, descriptors and the superblock at most.
        assert!(counts[2] < 40 << 10, "{policy}: {counts:?}");
    }
    let policies = "linux-2.4,throttle=inline";
    let written = Machine::run(None, policies, 8 << 20, |machine| {
        let volume = machine.open();
        volume.write("/file", &[0; 300 << 10]).unwrap();
        machine.sleep(1000 * 1_000_000_000);
        let written = written_bytes(&machine.asked());
        volume.close().unwrap();
        written
    });
    assert_eq!(written, 0);
}

#[test]
fn a_flusher_that_could_not_read_tries_again() {
    let is_there = Machine::run(None, "linux-2.4", 8 << 20, |machine| {
        let volume = machine.open();
        let groups = Groups::of(&volume, &*machine.traced());
        volume.create_dir("/d", 0o755).unwrap();
        volume.close().unwrap();
        let device = Arc::new(Faulty::new(machine.traced()));
        let options = |access| Options {
            access,
            policies: engine(&machine.policies),
            cache_bytes: 8 << 20,
            data: DataKeeping::Phantom,
        };
        let volume = Filesystem::open(
            Arc::clone(&device) as Arc<dyn BlockDevice>,
            &options(Access::ReadWrite),
        )
        .unwrap();
        volume.read_dir("/d").unwrap();
        groups.tables.iter().for_each(|table| device.add(Fault::ReadsIn(table.clone())));
        for number in 0..20 {
            volume.write(format!("/d/{number}"), &[1; 100]).unwrap();
        }
        machine.sleep(60_000_000_000);
        let look = || {
            let volume = Filesystem::open(machine.traced(), &options(Access::ReadOnly)).unwrap();
            (0..20).all(|number| {
                volume.metadata(format!("/d/{number}")).is_ok_and(|found| found.size == 100)
            })
        };
        let before = look();
        device.repair();
        machine.sleep(60_000_000_000);
        let after = look();
        volume.close().unwrap();
        [before, after]
    });
    assert_eq!(is_there, [false, true]);
}

fn written_bytes(records: &[Record]) -> u64 {
    let writes = records.iter().filter(|(what, _)| *what == Operation::Write);
    writes.map(|(_, bytes)| bytes.end - bytes.start).sum()
}

#[test]
fn directories_that_grow_together_lie_as_their_growth_says() {
    // Choice, and how many of a hundred blocks of a directory lie behind none of its own.
    for (policy, breaks) in
        [("single", 60..=100), ("contiguous-8", 1..=20), ("reservation", 0..=20)]
    {
        let policies = format!(
            "linux-2.4,throttle=inline,placement=parent,growth={policy},\
             inode-creation=read-on-write"
        );
        let breaks_in_hundred = Machine::run(None, &policies, 8 << 20, |machine| {
            let volume = machine.open();
            let directories = ["/a", "/b"];
            for directory in directories {
                volume.create_dir(directory, 0o755).unwrap();
            }
            for number in 0..320 {
                for directory in directories {
                    volume.write(format!("{directory}/{number:x>190}"), &[1; 1000]).unwrap();
                }
                volume.sync().unwrap();
            }
            volume.close().unwrap();
            let volume = machine.open();
            volume.metadata("/a").unwrap();
            machine.asked();
            assert_eq!(volume.read_dir("/a").unwrap().len(), 320);
            let reads = machine.asked();
            let mut starts: Vec<u64> = reads.iter().map(|(_, bytes)| bytes.start).collect();
            assert!(starts.len() >= 64, "{starts:?}");
            volume.close().unwrap();
            // In the order of their places: hashed directories are read in that of hashes.
            starts.sort_unstable();
            let breaks = starts.windows(2).filter(|pair| pair[1] != pair[0] + BLOCK).count();
            breaks * 100 / starts.len()
        });
        assert!(breaks.contains(&breaks_in_hundred), "{policy}: {breaks_in_hundred}");
    }
}

#[test]
fn table_read_ahead_reads_so_many_blocks_at_once() {
    let mut requests = Vec::new();
    for policy in ["none", "around-8", "around-32"] {
        let policies =
            format!("linux-2.4,throttle=inline,placement=parent,table-read-ahead={policy}");
        let (reads, read_blocks) = Machine::run(None, &policies, 8 << 20, |machine| {
            let volume = machine.open();
            volume.create_dir("/d", 0o755).unwrap();
            for number in 0..1020 {
                volume.write(format!("/d/{number}"), b"").unwrap();
            }
            volume.close().unwrap();
            let volume = machine.open();
            let groups = Groups::of(&volume, &*machine.traced());
            machine.asked();
            for number in 0..1020 {
                volume.metadata(format!("/d/{number}")).unwrap();
            }
            let asked = machine.asked();
            let reads = of_tables(&asked, &groups, Operation::Read);
            volume.close().unwrap();
            (reads.len(), blocks(&reads))
        });
        assert!((127..=160).contains(&read_blocks), "{policy}: {read_blocks}");
        requests.push(reads);
    }
    let [none, eight, thirty_two] = requests[..] else { unreachable!() };
    assert!(none >= 127 && eight <= none / 7 && thirty_two <= eight / 3, "{requests:?}");
}

/// Random writes of a bare drive, many at once; what its queue made of them.
fn raw(elevator: &str, requests: u32) -> extant_lab::report::DriveReport {
    let text = format!(
        "name = \"raw\"\n[[drive]]\nname = \"disk\"\nmodel = \"ide-2001-7200\"\nelevator \
         = \"{elevator}\"\nrequests = {requests}\n\
         [[process]]\nname = \"p\"\ncopies = 40\ndrive = \"disk\"\n\
         steps = [ {{ step = \"random\", direction = \"read\", chunk = \"4K\", count = 25 }} ]\n"
    );
    let outcome = scenario::run(&parse(&text), &RunOptions::default()).unwrap();
    outcome.report.drives.into_iter().next().unwrap()
}

#[test]
fn elevators_order_and_requests_limit() {
    let seeks = |elevator: &str, requests| raw(elevator, requests).traffic.seek_bytes;
    let noop = seeks("noop", 512);
    for elevator in ["linus", "c-look", "deadline", "anticipatory"] {
        let sorted = seeks(elevator, 512);
        assert!(sorted * 3 < noop, "{elevator}: {sorted} of {noop}");
    }
    // A request that may be passed by nothing is a queue in the order of arrival; and what few
    // requests let in, few can be ordered.
    assert_eq!(seeks("linus(0,0)", 512), noop);
    let few = raw("c-look", 4);
    assert!(few.traffic.seek_bytes > 2 * seeks("c-look", 512), "{}", few.traffic.seek_bytes);
    assert_eq!(few.requests, 4);
}
