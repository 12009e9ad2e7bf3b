//! Each of some forty calls on a device of which one read or write fails, once or with all that
//! follow, whichever it is: on maps of both kinds, with and without a journal, with content in
//! inodes, and with quotas.
//!
//! What holds: errors are the device's, never called damage; what is read is what was written or an
//! error; what a sync said yes to is there once the device works again; and e2fsck has nothing to
//! say (without a journal: what a power cut may leave, and nothing after it was mended).
use crate::failing::{
    CALLS, Call, Failing, PIECES, failing, faulty, fill_for_calls, is_absent, open, size,
};
use crate::volume::{KIB, MIB, Specification, patience};

use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::mkfs::Profile;
use extant_engine::{
    Access, Change, ErrorKind, File, Filesystem, Options, Rename, Result, SetAttribute, Size,
};
use extant_sim::Fault;
use extant_testkit::command::{program, run};
use extant_testkit::oracle::{e2fsck_but_advice, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables;
use std::sync::Arc;

/// What one life may take.
const SECONDS_MAX: u64 = 60;

/// How the device fails, from the moment that a call begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ReadOnce,
    ReadsFrom,
    WriteOnce,
    WritesFrom,
}

const WAYS: [Way; 4] = [Way::ReadOnce, Way::ReadsFrom, Way::WriteOnce, Way::WritesFrom];

impl Way {
    fn fault(self, number: u64) -> Fault {
        match self {
            Way::ReadOnce => Fault::NthRead(number),
            Way::ReadsFrom => Fault::ReadsAfter(number - 1),
            Way::WriteOnce => Fault::NthWrite(number),
            Way::WritesFrom => Fault::WritesAfter(number - 1),
        }
    }
    fn is_of_reads(self) -> bool {
        matches!(self, Way::ReadOnce | Way::ReadsFrom)
    }
}

/// What the volume is when the device begins to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// It was opened a moment ago.
    Open,
    /// It has changes in memory, and is synced; or closed.
    Changed,
    /// It is closed, and was closed in order.
    Closed,
    /// It was left open, with all that was done in its journal, if it has one.
    Left,
    /// The same, and a large file had no name any more, but was open.
    Orphan,
}

/// What of a deed is there when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    /// Nothing.
    One,
    /// What its calls before did.
    Several,
}

/// What is done, and how it is seen.
#[derive(Clone, Copy)]
struct Deed {
    name: &'static str,
    when: When,
    run: fn(&Filesystem) -> Result<()>,
    /// Whether it was done; `None` where it changes nothing, or a part of it may be seen.
    is_made: Option<fn(&Filesystem) -> bool>,
    parts: Parts,
    /// Whether it shows, while the device fails. It may not be read, but never as it was before.
    shows: Option<fn(&Filesystem) -> Result<bool>>,
}

impl Deed {
    const fn call(name: &'static str, run: fn(&Filesystem) -> Result<()>) -> Deed {
        let (when, parts) = (When::Open, Parts::One);
        Deed { name, when, run, is_made: None, parts, shows: None }
    }
    const fn when(self, when: When) -> Deed {
        Deed { when, ..self }
    }
    const fn in_parts(self) -> Deed {
        Deed { parts: Parts::Several, ..self }
    }
    const fn made(self, is_made: fn(&Filesystem) -> bool) -> Deed {
        Deed { is_made: Some(is_made), ..self }
    }
    const fn shows(self, shows: fn(&Filesystem) -> Result<bool>) -> Deed {
        Deed { shows: Some(shows), ..self }
    }
    fn of(call: &Call) -> Deed {
        let &Call { name, run, is_made } = call;
        Deed { is_made, ..Deed::call(name, run) }
    }
    fn begins_closed(&self) -> bool {
        matches!(self.when, When::Closed | When::Left | When::Orphan)
    }
}

/// Bytes of the file with many pieces.
const MANY: u64 = PIECES * 2 * KIB;

fn many(volume: &Filesystem) -> Result<File> {
    volume.open_file("/d/many")
}

fn many_content() -> Vec<u8> {
    let mut content = vec![0; MANY as usize - KIB as usize];
    for (piece, bytes) in content.chunks_mut(2 * KIB as usize).enumerate() {
        bytes[..KIB as usize].fill((piece % 251) as u8);
    }
    content
}

fn bytes_at(volume: &Filesystem, offset: u64, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let read = many(volume)?.read_at(offset, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn is_new(volume: &Filesystem) -> bool {
    !is_absent(volume, "/wide/new")
}

/// What is done in memory before a sync or a close; none of it is durable before.
fn change(volume: &Filesystem) -> Result<()> {
    volume.write("/wide/new", &[7; 30_000])?;
    many(volume)?.write_all_at(KIB, &[5; 3 * KIB as usize])?;
    volume.rename("/d/small", "/wide/name 3", Rename::Replace)?;
    volume.remove_file("/wide/name 4")
}

fn is_changed(volume: &Filesystem) -> bool {
    let read = |path| volume.read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    is_new(volume)
        && read("/wide/new") == [7; 30_000]
        && read("/wide/name 3") == [3; 3000]
        && is_absent(volume, "/d/small")
        && is_absent(volume, "/wide/name 4")
}

const MORE: &[Deed] = &[
    Deed::call("append", |volume| many(volume)?.write_all_at(MANY - KIB, &[5; 70_000]))
        .made(|volume| size(volume, "/d/many") == MANY - KIB + 70_000)
        .shows(|volume| Ok(bytes_at(volume, MANY - KIB, 70_000)? == [5; 70_000])),
    Deed::call("overwrite", |volume| many(volume)?.write_all_at(0, &[5; 40_000]))
        .made(|volume| bytes_at(volume, 0, 40_000).expect("reads") == [5; 40_000])
        .shows(|volume| Ok(bytes_at(volume, 0, 40_000)? == [5; 40_000])),
    Deed::call("part of a block", |volume| many(volume)?.write_all_at(600 * KIB + 9, &[5; 50]))
        .made(|volume| bytes_at(volume, 600 * KIB + 9, 50).expect("reads") == [5; 50])
        .shows(|volume| Ok(bytes_at(volume, 600 * KIB + 9, 50)? == [5; 50])),
    Deed::call("fallocate", |volume| many(volume)?.allocate(0, 300_000, Size::Keep)),
    Deed::call("fallocate beyond the end", |volume| {
        many(volume)?.allocate(MANY, 100_000, Size::Grow)
    })
    .made(|volume| size(volume, "/d/many") == MANY + 100_000),
    Deed::call("short symlink", |volume| volume.symlink("target", "/wide/new")).made(is_new),
    Deed::call("small attribute", |volume| {
        volume.set_attribute("/d/small", b"user.small", b"value", SetAttribute::Any)
    })
    .made(|volume| !volume.attributes("/d/small").expect("reads").is_empty())
    .shows(|volume| Ok(!volume.attributes("/d/small")?.is_empty())),
    Deed::call("new owner", |volume| {
        let change = Change { uid: Some(70_000), gid: Some(3), ..Change::default() };
        volume.change("/d/many", &change)
    })
    .made(|volume| volume.metadata("/d/many").expect("there").uid == 70_000)
    .shows(|volume| Ok(volume.metadata("/d/many")?.uid == 70_000)),
    Deed::call("fsync of a file", |volume| {
        let file = volume.create_file("/wide/new", 0o644)?;
        file.write_all_at(0, &[5; 20_000])?;
        file.sync()
    })
    .in_parts()
    .made(is_new),
    Deed::call("sync", Filesystem::sync).when(When::Changed).made(is_changed),
    Deed::call("close", |volume| volume.clone().close()).when(When::Changed).made(is_changed),
    Deed::call("read", |volume| {
        let same = volume.read("/d/many")? == many_content();
        assert!(same, "other bytes");
        Ok(())
    }),
    Deed::call("read by pieces", |volume| {
        let (file, content) = (many(volume)?, many_content());
        let mut bytes = [0; 700];
        for at in (0..content.len() - 700).step_by(5000) {
            file.read_at(at as u64, &mut bytes)?;
            assert!(bytes[..] == content[at..at + 700], "other bytes at {at}");
        }
        Ok(())
    }),
    Deed::call("readdir", |volume| {
        let names = volume.read_dir("/wide")?.len();
        // One more, where something was promised.
        assert!((150..=151).contains(&names), "{names} names");
        Ok(())
    }),
    Deed::call("open", |_| Ok(())).when(When::Closed),
    Deed::call("open with replay", |_| Ok(())).when(When::Left).made(is_changed),
    Deed::call("open with an orphan", |_| Ok(()))
        .when(When::Orphan)
        .made(|volume| is_absent(volume, "/d/many")),
];

/// What is in its inode: on volumes that mke2fs made with `inline_data` alone.
const INLINE: &[Deed] = &[
    Deed::call("append to an inode's content", |volume| {
        volume.open_file("/in/file")?.write_all_at(60, &[5; 5000])
    })
    .made(|volume| size(volume, "/in/file") == 5060)
    .shows(|volume| Ok(volume.read("/in/file")?[60..] == [5; 5000])),
    Deed::call("overwrite an inode's content", |volume| {
        volume.open_file("/in/file")?.write_all_at(0, &[5; 9])
    })
    .made(|volume| volume.read("/in/file").expect("reads")[..9] == [5; 9])
    .shows(|volume| Ok(volume.read("/in/file")?[..9] == [5; 9])),
    Deed::call("cut an inode's content", |volume| volume.open_file("/in/file")?.set_len(7))
        .made(|volume| size(volume, "/in/file") == 7),
    Deed::call("unlink an inode's content", |volume| volume.remove_file("/in/file"))
        .made(|volume| is_absent(volume, "/in/file")),
    Deed::call("name in an inode's directory", |volume| {
        volume.create_file("/in/folder/a new name", 0o644).map(drop)
    })
    .made(|volume| !is_absent(volume, "/in/folder/a new name")),
    Deed::call("unlink in an inode's directory", |volume| volume.remove_file("/in/folder/1"))
        .made(|volume| is_absent(volume, "/in/folder/1")),
    Deed::call("rename over in an inode's directory", |volume| {
        volume.rename("/d/small", "/in/folder/1", Rename::Replace)
    })
    .made(|volume| is_absent(volume, "/d/small")),
    Deed::call("rename of an inode's directory", |volume| {
        volume.rename("/in/folder", "/d/folder", Rename::Replace)
    })
    .made(|volume| is_absent(volume, "/in/folder")),
    Deed::call("large attribute beside content", |volume| {
        volume.set_attribute("/in/file", b"user.large", &[9; 500], SetAttribute::Any)
    })
    .made(|volume| !volume.attributes("/in/file").expect("reads").is_empty()),
    Deed::call("readdir of an inode", |volume| {
        assert_eq!(volume.read_dir("/in/folder")?.len(), 2, "other names");
        Ok(())
    }),
];

/// A kind of volume, with the media that calls begin on.
struct Row {
    specification: Specification,
    closed: Arc<MemoryDevice>,
    left: Arc<MemoryDevice>,
    orphan: Arc<MemoryDevice>,
}

const KEPT: &str = "/kept";
const PROMISED: &str = "/wide/promised";

fn kept_content() -> Vec<u8> {
    (0..40 * KIB).map(|at| (at % 253) as u8).collect()
}

/// A medium as it is while the volume is still open.
fn cut(
    specification: &Specification,
    closed: &MemoryDevice,
    work: impl FnOnce(&Filesystem) -> Option<File>,
) -> Arc<MemoryDevice> {
    let device = Arc::new(closed.snapshot());
    let volume = specification.open(&device).expect("opens");
    let held = work(&volume);
    volume.sync().expect("syncs");
    let cut = Arc::new(device.snapshot());
    drop(held);
    cut
}

impl Row {
    fn new(specification: Specification, empty: &Arc<MemoryDevice>) -> Row {
        let volume = specification.open(empty).expect("opens");
        fill_for_calls(&volume);
        volume.write(KEPT, &kept_content()).expect("a file");
        volume.close().expect("closes");
        let closed = Arc::clone(empty);
        let left = cut(&specification, &closed, |volume| {
            change(volume).expect("changes");
            None
        });
        let orphan = cut(&specification, &closed, |volume| {
            let file = many(volume).expect("opens");
            volume.remove_file("/d/many").expect("goes");
            Some(file)
        });
        Row { specification, closed, left, orphan }
    }

    fn has_journal(&self) -> bool {
        self.specification.profile != Profile::Ext2
            && !self.specification.policies.contains("journal=none")
    }

    fn base(&self, deed: &Deed) -> Arc<MemoryDevice> {
        Arc::new(match deed.when {
            When::Left => self.left.snapshot(),
            When::Orphan => self.orphan.snapshot(),
            _ => self.closed.snapshot(),
        })
    }
}

/// One life: what is done, how the device fails, and from which of its reads or writes on.
#[derive(Clone, Copy)]
struct Life {
    specification: Specification,
    deed: Deed,
    way: Way,
    number: u64,
}

impl std::fmt::Display for Life {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Life { specification, deed, way, number } = self;
        write!(f, "{specification}; {}, {way:?} {number}", deed.name)
    }
}

/// What a life ends with.
struct End {
    medium: Arc<MemoryDevice>,
    /// The caller was told that what was done is on the disk.
    durable: bool,
    /// Reads and writes since the device could fail.
    requests: u64,
    /// Writes that failed.
    failed: u64,
    /// The volume could not be closed in order.
    is_latched: bool,
}

/// Writes that failed.
fn failed(device: &Failing) -> u64 {
    device.counters().writes - faulty(device).device().counters().writes
}

fn is_of_the_device<T>(outcome: &Result<T>, name: &impl std::fmt::Display, what: &str) -> bool {
    if let Err(error) = outcome {
        let is_clean = matches!(error.kind, ErrorKind::Device(_));
        assert!(is_clean && error.errno() == 5, "{name}: {what}: {error} ({:?})", error.kind);
    }
    outcome.is_err()
}

impl Life {
    fn arm(&self, device: &Failing) {
        faulty(device).repair();
        faulty(device).add(self.way.fault(self.number));
    }

    /// Nothing that is read is anything but what was written last.
    fn reads_nothing_old(&self, volume: &Filesystem, is_done: bool) {
        let whole = |path, content: &[u8]| {
            let read = volume.read(path);
            if !is_of_the_device(&read, self, path) {
                assert!(read.is_ok_and(|read| read == content), "{self}: {path}: other bytes");
            }
        };
        whole(KEPT, &kept_content());
        if !self.way.is_of_reads() && !self.deed.begins_closed() {
            whole(PROMISED, &[6; 9000]);
        }
        let Some(shows) = self.deed.shows.filter(|_| is_done) else { return };
        let shown = shows(volume);
        if !is_of_the_device(&shown, self, "shown") {
            assert!(shown.is_ok_and(|shown| shown), "{self}: what was there before");
        }
    }

    /// The volume, with the device about to fail.
    fn opened(&self, device: &Arc<Failing>) -> Option<Filesystem> {
        let options = self.specification.options();
        if self.deed.begins_closed() {
            self.arm(device);
            let opened = Filesystem::open(Arc::clone(device) as Arc<dyn BlockDevice>, &options);
            is_of_the_device(&opened, self, "open");
            return opened.ok();
        }
        let volume = open(device, &options);
        if !self.way.is_of_reads() {
            // Else it would be in memory.
            volume.write(PROMISED, &[6; 9000]).expect("a file");
            volume.sync().expect("syncs");
        }
        if self.deed.when == When::Changed {
            change(&volume).expect("changes");
        }
        self.arm(device);
        Some(volume)
    }

    fn lived(&self, medium: Arc<MemoryDevice>) -> End {
        let device = failing(&medium);
        let mut durable = self.deed.when == When::Left || self.deed.when == When::Orphan;
        let opened = self.opened(&device);
        let requests = || match self.way.is_of_reads() {
            true => faulty(&device).reads(),
            false => faulty(&device).writes(),
        };
        let (mut asked, mut is_latched) = (requests(), false);
        if let Some(volume) = opened {
            let outcome = (self.deed.run)(&volume);
            is_of_the_device(&outcome, self, "call");
            asked = requests();
            self.reads_nothing_old(&volume, outcome.is_ok());
            if self.way == Way::ReadOnce {
                faulty(&device).repair();
                self.after_one_read(&volume, &outcome);
            }
            let synced = volume.sync();
            if self.deed.name != "close" {
                is_of_the_device(&synced, self, "sync");
                asked = asked.max(if self.way == Way::ReadOnce { 0 } else { requests() });
                let told = outcome.is_err() || synced.is_err();
                assert!(told || failed(&device) == 0, "{self}: nothing was said");
            }
            self.reads_nothing_old(&volume, outcome.is_ok());
            let closed = volume.close();
            is_latched = synced.is_err() || closed.is_err();
            if self.deed.name != "close" {
                is_of_the_device(&closed, self, "close");
            }
            durable |= outcome.is_ok()
                && (synced.is_ok() || closed.is_ok() || self.deed.when == When::Changed);
        }
        End { medium, durable, requests: asked, failed: failed(&device), is_latched }
    }

    /// A read that failed once has stopped its call alone.
    fn after_one_read(&self, volume: &Filesystem, outcome: &Result<()>) {
        if self.deed.begins_closed() || self.deed.when == When::Changed {
            return;
        }
        if let Some(is_made) = self.deed.is_made {
            let is_made = is_made(volume);
            let is_right = match self.deed.parts {
                Parts::One => is_made == outcome.is_ok(),
                Parts::Several => is_made || outcome.is_err(),
            };
            assert!(is_right, "{self}: answered {outcome:?}");
        }
        volume.write("/after", &[6; 5000]).unwrap_or_else(|error| panic!("{self}: {error}"));
        volume.sync().unwrap_or_else(|error| panic!("{self}: latched: {error}"));
    }

    /// The device works again: what was promised is there, and what is whole can be changed.
    fn reopened(&self, end: &End, whole: Whole) {
        // What has to be checked is not opened for writing.
        let access = match whole {
            Whole::AtOnce => Access::ReadWrite,
            Whole::AfterACheck => Access::ReadOnly,
        };
        let options = Options { access, ..self.specification.options() };
        let volume = Filesystem::open(Arc::clone(&end.medium) as Arc<dyn BlockDevice>, &options);
        let volume = volume.unwrap_or_else(|error| panic!("{self}: opens again: {error}"));
        self.reads_nothing_old(&volume, false);
        if let Some(is_made) = self.deed.is_made.filter(|_| end.durable) {
            assert!(is_made(&volume), "{self}: it is not there, and was told to be");
        }
        if whole == Whole::AfterACheck {
            return;
        }
        let work = || {
            volume.write("/afterwards", &[6; 50_000])?;
            volume.create_dir("/folder afterwards", 0o755)?;
            volume.rename(KEPT, "/folder afterwards/moved", Rename::Replace)
        };
        work().unwrap_or_else(|error| panic!("{self}: afterwards: {error}"));
        volume.close().unwrap_or_else(|error| panic!("{self}: closes again: {error}"));
    }
}

/// What e2fsck makes of a volume as a life left it: it replays, ends what was begun, and mends
/// where a volume without a journal was cut. Then all of it is right.
fn mended(life: &Life, medium: &MemoryDevice, whole: Whole) -> Arc<MemoryDevice> {
    let folder = Scratch::new("failing-each");
    let image = folder.join("left.img");
    medium.save(&image).expect("saves");
    let output = program("e2fsck").arg("-fy").arg(&image).output().expect("e2fsck runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{life}: {said}");
    // On a volume that is marked as one with errors it drops the list of orphans, and mends each.
    let drops_orphans = life.deed.when == When::Orphan && said.contains("has zero dtime");
    let is_foul = match whole {
        // It may advise, and the block that this frees is taken from the quotas.
        Whole::AtOnce if !drops_orphans => {
            let advice = ["Optimize", "Update quota info"];
            let is_advice = |line: &str| advice.iter().any(|words| line.contains(words));
            let is_taken = said.contains("Optimize");
            said.lines().any(|line| line.ends_with("? yes") && !(is_taken && is_advice(line)))
        }
        _ => {
            let foul = ["ultiply-claimed", "llegal block", "corrupt"];
            foul.iter().any(|words| said.contains(words))
        }
    };
    assert!(!is_foul, "{life}: as it was left: {said}");
    let bytes = std::fs::read(&image).expect("reads");
    Arc::new(MemoryDevice::from_bytes(RealClock::new(), &bytes))
}

/// e2fsck has nothing to say, but that the map of a file which was being written could be shorter.
fn is_silent_of(life: &Life, medium: &MemoryDevice) {
    let folder = Scratch::new("failing-each");
    let image = folder.join("judged.img");
    medium.save(&image).expect("saves");
    e2fsck_but_advice(&image).unwrap_or_else(|said| panic!("{life}: {said}"));
}

/// Whether e2fsck looks at a life, too: it takes longer than all the rest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    ByUs,
    ByAll,
}

/// Whether a volume is whole as soon as its device works again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    AtOnce,
    /// As after a power cut where there is no journal.
    AfterACheck,
}

/// Lives it, and gives how many reads or writes there were.
fn lives(row: &Arc<Row>, life: Life, judged: Judged) -> u64 {
    let (name, row) = (life.to_string(), Arc::clone(row));
    let body = move || {
        let end = life.lived(row.base(&life.deed));
        let is_cut = end.failed > 0 || end.is_latched || life.deed.begins_closed();
        let whole = match is_cut && !row.has_journal() {
            true => Whole::AfterACheck,
            false => Whole::AtOnce,
        };
        let as_left = Arc::new(end.medium.snapshot());
        life.reopened(&end, whole);
        if judged == Judged::ByAll {
            if whole == Whole::AtOnce {
                is_silent_of(&life, &end.medium);
            }
            let medium = mended(&life, &as_left, whole);
            life.reopened(&End { medium, ..end }, Whole::AtOnce);
        }
        end.requests
    };
    patience::within(SECONDS_MAX, &name, body).unwrap_or_else(|said| panic!("{said}"))
}

/// Each deed of each way, at as many places as asked for.
fn each(specification: Specification, empty: &Arc<MemoryDevice>, deeds: &[&[Deed]]) {
    if !require("e2fsck") {
        return;
    }
    let places = variables::number("EXTANT_FAILING_EACH").max(1);
    let row = Arc::new(Row::new(specification, empty));
    let calls = CALLS.iter().map(Deed::of).chain(deeds.iter().copied().flatten().copied());
    let mut struck = 0;
    for (turn, deed) in calls.enumerate() {
        if is_unsupported(&row, &deed) {
            continue;
        }
        for (at, way) in WAYS.into_iter().enumerate() {
            let life = |number| Life { specification, deed, way, number };
            // Nothing fails, and it is counted how much could.
            let requests = lives(&row, life(u64::MAX), Judged::ByUs);
            let step = requests.div_ceil(places).max(1);
            let first = 1 + (turn + at) as u64 % step;
            let last = requests.saturating_sub(first) / step;
            for number in (first..=requests).step_by(step as usize) {
                let is_middle = (number - first) / step == last / 2;
                let is_judged = places > 3 || (is_middle && (turn + at) % 3 == 0);
                lives(&row, life(number), if is_judged { Judged::ByAll } else { Judged::ByUs });
                struck += 1;
            }
        }
    }
    assert!(struck > 100, "{specification}: {struck} lives");
}

/// Whether this volume has no such call.
fn is_unsupported(row: &Row, deed: &Deed) -> bool {
    if deed.begins_closed() {
        return false;
    }
    let volume = row.specification.open(&row.base(deed)).expect("opens");
    let outcome = (deed.run)(&volume);
    outcome.is_err_and(|error| matches!(error.kind, ErrorKind::OperationUnsupported(_)))
}

fn row(profile: Profile, features: &'static str, policies: &'static str) -> Specification {
    Specification { features, policies, inodes: 512, ..Specification::new(profile, 1024, 8 * MIB) }
}

fn each_of(specification: Specification) {
    each(specification, &specification.make(RealClock::new()), &[MORE]);
}

#[test]
fn ext2() {
    each_of(row(Profile::Ext2, "", "modern"));
}

#[test]
fn ext3() {
    each_of(row(Profile::Ext3, "", "modern"));
}

#[test]
fn ext4() {
    each_of(row(Profile::Ext4, "", "modern"));
}

#[test]
fn ext4_with_data_in_the_journal() {
    each_of(row(Profile::Ext4, "", "modern,journal=data"));
}

#[test]
fn quotas() {
    each_of(row(Profile::Ext4, "quota,project", "modern"));
}

#[test]
fn quotas_of_indirect_maps() {
    each_of(row(Profile::Ext2, "quota", "modern"));
}

#[test]
fn content_in_inodes() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("failing-inline");
    let (image, tree) = (folder.join("image"), folder.join("tree"));
    std::fs::create_dir_all(tree.join("in/folder")).expect("makes it");
    std::fs::write(tree.join("in/file"), [b'f'; 60]).expect("writes");
    for name in ["1", "2"] {
        std::fs::write(tree.join("in/folder").join(name), name).expect("writes");
    }
    let (path, tree) = (image.display().to_string(), tree.display().to_string());
    let words = ["-q", "-F", "-t", "ext4", "-O", "inline_data", "-I", "256", "-b", "1024"];
    let words = words.into_iter().chain(["-N", "512", "-d", &tree, &path, "8M"]);
    run("mke2fs", &words.collect::<Vec<_>>()).expect("mke2fs makes it");
    let bytes = std::fs::read(&image).expect("reads");
    let device = Arc::new(MemoryDevice::from_bytes(RealClock::new(), &bytes));
    each(row(Profile::Ext4, "inline_data", "modern"), &device, &[MORE, INLINE]);
}
