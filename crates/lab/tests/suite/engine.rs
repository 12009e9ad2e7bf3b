//! The engine as it ships, on a simulated drive in virtual time: the same each time, and e2fsck is
//! silent.
use extant_block::{BlockDevice, Clock, Task};
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use extant_lab::setup::Setup;
use extant_sim::clock::{Settings, VirtualClock};
use extant_sim::device::{DeviceSettings, PowerCuts, SimDevice, TraceKeeping};
use extant_sim::drive::file::by_name;
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::sync::Arc;

const BYTES: u64 = 1 << 30;

/// Some files, read and removed again, in a directory of its own.
fn user(volume: &Filesystem, number: usize) {
    let directory = format!("/user {number}");
    let name = |file: usize| format!("{directory}/file {file}");
    volume.create_dir(&directory, 0o755).unwrap();
    for file in 0..60 {
        let bytes = vec![(file % 251) as u8; file * 577 % 60_000];
        volume.write(name(file), &bytes).unwrap();
    }
    for file in (0..60).step_by(3) {
        assert_eq!(volume.read(name(file)).unwrap().len(), file * 577 % 60_000);
    }
    for file in (0..60).step_by(7) {
        volume.remove_file(name(file)).unwrap();
    }
}

/// Four users of a new volume at once.
fn users(policies: &str, data: DataKeeping) -> Arc<SimDevice> {
    let policies = policies.parse::<Setup>().unwrap().policies;
    let clock = VirtualClock::new(Settings::default());
    let settings = DeviceSettings {
        name: "disk".to_owned(),
        queue: Default::default(),
        trace: TraceKeeping::None,
        power_cuts: PowerCuts::Excluded,
    };
    let drive = by_name("ide-2001-7200").unwrap().build(1);
    let device = SimDevice::new(Arc::clone(&clock), drive, settings);
    let (inner, disk) = (Arc::clone(&clock), Arc::clone(&device) as Arc<dyn BlockDevice>);
    let outcome = clock.run("mount", move || {
        let mut wishes = default_wishes(Profile::Ext2, BYTES, Some(4096), Identity::NONE);
        wishes.uuid = *b"a volume to test";
        wishes.created_seconds = 978_000_000;
        format(Arc::clone(&disk), &FormatOptions::new(wishes), &policies).unwrap();
        // Where memory is full, bytes that are kept have a limit that others have not.
        let options = Options { access: Access::ReadWrite, policies, cache_bytes: 32 << 20, data };
        let volume = Arc::new(Filesystem::open(disk, &options).unwrap());
        let spawn = |number| {
            let volume = Arc::clone(&volume);
            inner.spawn("user", Box::new(move || user(&volume, number)))
        };
        let tasks: Vec<Task> = (0..4).map(spawn).collect();
        tasks.into_iter().for_each(Task::join);
        let volume = Arc::into_inner(volume).expect("all users have left");
        volume.close().unwrap();
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    device
}

#[test]
fn the_engine_runs_unchanged_and_the_same_each_time() {
    for policies in ["linux-2.4", "freebsd-2010", "modern"] {
        let device = users(policies, DataKeeping::Bytes);
        let folder = Scratch::new("virtual");
        let image = folder.join("disk.img");
        device.contents().save(&image).unwrap();
        oracle::e2fsck(&image).unwrap_or_else(|problem| panic!("{policies}: {problem}"));
        let statistics = device.statistics();
        assert!(statistics.writes > 0 && statistics.reads > 0 && statistics.busy_ns > 0);

        // Bytes of files that are not kept cost the same time.
        let again = users(policies, DataKeeping::Phantom);
        assert_eq!(again.trace_hash(), device.trace_hash(), "{policies}");
        assert_eq!(again.statistics(), statistics, "{policies}");
        assert!(again.contents().resident_bytes() < device.contents().resident_bytes());
    }
}
