//! What a block device is on, and what is on it: the devices and files that hold some of the same
//! bytes, as `/sys` shows them.
//!
//! ```text
//! below    the disk of a partition, the backing file of a loop device, the parts of a mapped one
//! above    partitions, loop devices and mapped devices on it; loop devices over a file
//! beside   other loop devices over the same backing file, where their ranges overlap
//! ```
//!
//! *Invariants*: each device is met once, so that a search ends. What `/sys` does not show, as in a
//! container without it, is not found.
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The device number and inode of a file: those of all its names.
pub(crate) type Identity = (u64, u64);

/// Which bytes of another thing a device shares with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relation {
    /// The device has all bytes of what it is on.
    OnWhole,
    /// The device has some bytes of what it is on, and others may have the rest.
    OnPart,
    /// Something that is on the device, or on the same bytes.
    Sharing,
}

/// Something that holds some of the same bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Neighbour {
    /// The beginning of a sentence: `its backing file /srv/disk.img`.
    pub(crate) words: String,
    pub(crate) relation: Relation,
    /// The number of a block device.
    pub(crate) number: Option<u64>,
    place: Place,
}

/// Where a neighbour can be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Path(PathBuf),
    /// A file without a name that leads to it.
    Nameless(Identity),
}

impl Neighbour {
    /// Opens it for a lock. `None` if it cannot be opened: then no program of this user has.
    pub(crate) fn open(&self) -> Option<File> {
        match &self.place {
            Place::Path(path) => OpenOptions::new().read(true).open(path).ok(),
            Place::Nameless(identity) => open_nameless(*identity),
        }
    }
}

/// Opens a file that has lost its name, by a process that has it open.
fn open_nameless(identity: Identity) -> Option<File> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let folders = processes.filter_map(|process| std::fs::read_dir(process.path().join("fd")).ok());
    let mut links = folders.flat_map(|folder| folder.flatten()).map(|entry| entry.path());
    let link = links.find(|link| {
        std::fs::metadata(link)
            .is_ok_and(|found| found.is_file() && identity_of(&found) == identity)
    })?;
    let file = File::open(link).ok()?;
    // The process may have closed it, and opened another.
    (identity_of(&file.metadata().ok()?) == identity).then_some(file)
}

pub(crate) fn identity_of(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// A loop device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Loop {
    /// `loop3`
    pub(crate) name: String,
    /// The number of its device.
    pub(crate) number: u64,
    folder: PathBuf,
    backing: Backing,
    /// The bytes of its backing file.
    range: Range<u64>,
}

/// What a loop device is over.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Backing {
    File {
        path: PathBuf,
        identity: Identity,
    },
    Device {
        path: PathBuf,
        number: u64,
    },
    /// A file without a name; `None` where its inode cannot be found out.
    Nameless {
        words: PathBuf,
        identity: Option<Identity>,
    },
}

impl Backing {
    fn is(&self, of: &Metadata) -> bool {
        match self {
            Backing::Device { number, .. } => {
                of.file_type().is_block_device() && *number == of.rdev()
            }
            Backing::File { identity, .. } | Backing::Nameless { identity: Some(identity), .. } => {
                of.is_file() && *identity == identity_of(of)
            }
            Backing::Nameless { identity: None, .. } => false,
        }
    }

    /// Whether two are the same. Of two whose inode is not known the names are compared.
    fn is_same(&self, other: &Backing) -> bool {
        use Backing::{Device, File, Nameless};
        match (self, other) {
            (Device { number, .. }, Device { number: other, .. }) => number == other,
            (
                File { identity, .. } | Nameless { identity: Some(identity), .. },
                File { identity: other, .. } | Nameless { identity: Some(other), .. },
            ) => identity == other,
            (Nameless { words, .. }, Nameless { words: other, .. }) => words == other,
            _ => false,
        }
    }
}

/// The kernel's devices, as a tree of files shows them.
pub(crate) struct Devices {
    /// `/sys`, but in tests.
    root: PathBuf,
}

/// A search under way.
struct Search<'a> {
    devices: &'a Devices,
    loops: Vec<Loop>,
    /// Folders of devices that were met.
    met: BTreeSet<PathBuf>,
    found: Vec<Neighbour>,
}

impl Devices {
    /// Those of this host.
    pub(crate) fn of_host() -> Devices {
        Devices { root: PathBuf::from("/sys") }
    }

    /// The loop devices over a file or block device of which these are the facts.
    pub(crate) fn loops_over(&self, of: &Metadata) -> Vec<Loop> {
        let mut loops = self.loops();
        loops.retain(|found| found.backing.is(of));
        loops
    }

    /// All that holds bytes of this file or block device, but for itself.
    pub(crate) fn neighbours(&self, of: &Metadata) -> Vec<Neighbour> {
        let mut search =
            Search { devices: self, loops: self.loops(), met: BTreeSet::new(), found: Vec::new() };
        if of.file_type().is_block_device() {
            if let Some(folder) = self.folder(of.rdev()) {
                search.met.insert(folder.clone());
                search.descend(&folder, Relation::OnWhole);
                search.ascend(&folder);
            }
        } else {
            let over: Vec<Loop> =
                search.loops.iter().filter(|found| found.backing.is(of)).cloned().collect();
            for found in over {
                search.add_device(&found.folder, "", Relation::Sharing);
                search.ascend(&found.folder);
            }
        }
        search.found
    }

    /// The folder of a block device.
    fn folder(&self, number: u64) -> Option<PathBuf> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        self.root.join(format!("dev/block/{major}:{minor}")).canonicalize().ok()
    }

    /// All loop devices that are attached.
    fn loops(&self) -> Vec<Loop> {
        let devices = std::fs::read_dir(self.root.join("block")).into_iter().flatten().flatten();
        let mut loops: Vec<Loop> = devices.filter_map(|device| a_loop(&device.path())).collect();
        let is_unknown = |found: &Loop| matches!(found.backing, Backing::Nameless { .. });
        if loops.iter().any(is_unknown) {
            let known = identities_by_losetup();
            for found in &mut loops {
                if let Backing::Nameless { identity, .. } = &mut found.backing {
                    let line = known.iter().find(|(name, _)| *name == found.name);
                    *identity = line.map(|(_, identity)| *identity);
                }
            }
        }
        loops
    }
}

/// The loop device of this folder, if it is one and attached.
fn a_loop(folder: &Path) -> Option<Loop> {
    // Most are not: they cost the one call.
    let mut path = std::fs::read(folder.join("loop/backing_file")).ok()?;
    let folder = &folder.canonicalize().ok()?;
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| text(name).and_then(|text| text.trim().parse::<u64>().ok());
    if path.last() == Some(&b'\n') {
        path.pop();
    }
    let path = PathBuf::from(OsStr::from_bytes(&path));
    let backing = match std::fs::metadata(&path) {
        Ok(found) if found.file_type().is_block_device() => {
            Backing::Device { number: found.rdev(), path }
        }
        Ok(found) => Backing::File { identity: identity_of(&found), path },
        Err(_) => Backing::Nameless { words: path, identity: None },
    };
    let start = number("loop/offset").unwrap_or(0);
    let range = match number("loop/sizelimit").unwrap_or(0) {
        0 => start..u64::MAX,
        bytes => start..start.saturating_add(bytes),
    };
    Some(Loop {
        name: name_of(folder),
        number: device_number(text("dev")?.trim())?,
        folder: folder.to_owned(),
        backing,
        range,
    })
}

/// The inodes of backing files, which `/sys` does not show, by the name of the loop device; none
/// where there is no losetup.
fn identities_by_losetup() -> Vec<(String, Identity)> {
    let mut losetup = Command::new("losetup");
    losetup.args(["--noheadings", "--output", "NAME,BACK-MAJ:MIN,BACK-INO"]);
    let output = losetup.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(identity_of_line).collect()
}

fn identity_of_line(line: &str) -> Option<(String, Identity)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.trim_start_matches("/dev/").to_owned();
    Some((name, (device_number(words.next()?)?, words.next()?.parse().ok()?)))
}

/// The number of a device of which this is the text, as in `259:3`.
pub(crate) fn device_number(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// The kernel's name of the device of this folder.
fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().replace('!', "/")
}

impl Search<'_> {
    /// Notes a device. Returns `false` if it was met before.
    fn add_device(&mut self, folder: &Path, kind: &str, relation: Relation) -> bool {
        if !self.met.insert(folder.to_owned()) {
            return false;
        }
        let number = std::fs::read_to_string(folder.join("dev")).unwrap_or_default();
        let name = name_of(folder);
        self.found.push(Neighbour {
            words: format!("{kind}{name}"),
            relation,
            number: device_number(number.trim()),
            place: Place::Path(Path::new("/dev").join(name)),
        });
        true
    }

    /// Notes what the device of this folder is on, of which it has the `extent`.
    fn descend(&mut self, folder: &Path, extent: Relation) {
        if folder.join("partition").exists()
            && let Some(disk) = folder.parent()
            && self.add_device(disk, "its disk ", Relation::OnPart)
        {
            self.descend(disk, Relation::OnPart);
        }
        for part in linked(folder, "slaves") {
            if self.add_device(&part, "what it is on, ", Relation::OnPart) {
                self.descend(&part, Relation::OnPart);
            }
        }
        let Some(this) = self.loops.iter().find(|found| found.folder == folder).cloned() else {
            return;
        };
        let extent = if this.range == (0..u64::MAX) { extent } else { Relation::OnPart };
        match &this.backing {
            Backing::Device { number, .. } => {
                if let Some(below) = self.devices.folder(*number)
                    && self.add_device(&below, "its backing device ", extent)
                {
                    self.descend(&below, extent);
                }
            }
            Backing::File { path, .. } => self.add_file(path, Place::Path(path.clone()), extent),
            Backing::Nameless { words, identity: Some(identity) } => {
                self.add_file(words, Place::Nameless(*identity), extent);
            }
            Backing::Nameless { .. } => {}
        }
        let overlaps = |other: &Loop| {
            other.backing.is_same(&this.backing)
                && other.range.start < this.range.end
                && this.range.start < other.range.end
        };
        let beside: Vec<Loop> =
            self.loops.iter().filter(|other| overlaps(other)).cloned().collect();
        for other in beside {
            if self.add_device(&other.folder, "", Relation::Sharing) {
                self.ascend(&other.folder);
            }
        }
    }

    fn add_file(&mut self, path: &Path, place: Place, relation: Relation) {
        let words = format!("its backing file {}", path.display());
        self.found.push(Neighbour { words, relation, number: None, place });
    }

    /// Notes what is on the device of this folder.
    fn ascend(&mut self, folder: &Path) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let inner = entries.map(|entry| entry.path());
        let mut above: Vec<PathBuf> =
            inner.filter(|inner| inner.join("partition").exists()).collect();
        above.extend(linked(folder, "holders"));
        let number = std::fs::read_to_string(folder.join("dev")).unwrap_or_default();
        let number = device_number(number.trim());
        let is_over = |found: &&Loop| match &found.backing {
            Backing::Device { number: of, .. } => Some(*of) == number,
            _ => false,
        };
        above.extend(self.loops.iter().filter(is_over).map(|found| found.folder.clone()));
        above.sort();
        for device in above {
            if self.add_device(&device, "", Relation::Sharing) {
                self.ascend(&device);
            }
        }
    }
}

/// The folders of devices to which the links in a folder's folder lead.
fn linked(folder: &Path, name: &str) -> Vec<PathBuf> {
    let links = std::fs::read_dir(folder.join(name)).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> =
        links.filter_map(|link| link.path().canonicalize().ok()).collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A tree like `/sys`, removed with its value.
    struct Tree(PathBuf);

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    impl Tree {
        fn new(name: &str) -> Tree {
            let folder = format!("extant-stack-{}-{name}", std::process::id());
            let root = std::env::temp_dir().join(folder);
            for folder in ["block", "dev/block", "devices"] {
                std::fs::create_dir_all(root.join(folder)).unwrap();
            }
            Tree(root.canonicalize().unwrap())
        }

        /// A device with a number, in the folder of its disk if it is a partition.
        fn device(&self, path: &str, minor: u32) {
            let folder = self.0.join("devices").join(path);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("dev"), format!("7:{minor}\n")).unwrap();
            symlink(&folder, self.0.join(format!("dev/block/7:{minor}"))).unwrap();
            match path.contains('/') {
                true => std::fs::write(folder.join("partition"), "1\n").unwrap(),
                false => symlink(&folder, self.0.join("block").join(path)).unwrap(),
            }
        }

        fn attach(&self, name: &str, backing: &Path, start: u64, bytes: u64) {
            let folder = self.0.join("devices").join(name).join("loop");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("backing_file"), format!("{}\n", backing.display()))
                .unwrap();
            std::fs::write(folder.join("offset"), format!("{start}\n")).unwrap();
            std::fs::write(folder.join("sizelimit"), format!("{bytes}\n")).unwrap();
        }

        /// A mapped device is on another one.
        fn map(&self, upper: &str, lower: &str) {
            let folder = |name: &str| self.0.join("devices").join(name);
            for (at, kind, to) in [(upper, "slaves", lower), (lower, "holders", upper)] {
                std::fs::create_dir_all(folder(at).join(kind)).unwrap();
                symlink(folder(to), folder(at).join(kind).join(name_of(&folder(to)))).unwrap();
            }
        }

        fn search(&self, from: &str) -> Vec<(String, Relation)> {
            let devices = Devices { root: self.0.clone() };
            let mut search = Search {
                devices: &devices,
                loops: devices.loops(),
                met: BTreeSet::new(),
                found: Vec::new(),
            };
            let folder = self.0.join("devices").join(from);
            search.met.insert(folder.clone());
            search.descend(&folder, Relation::OnWhole);
            search.ascend(&folder);
            search.found.into_iter().map(|found| (found.words, found.relation)).collect()
        }
    }

    fn words(all: &[(&str, Relation)]) -> Vec<(String, Relation)> {
        all.iter().map(|(words, relation)| ((*words).to_owned(), *relation)).collect()
    }

    #[test]
    fn a_mapped_device_over_a_partition_of_a_loop_device_is_on_its_file() {
        use Relation::{OnPart, OnWhole, Sharing};
        let tree = Tree::new("mapped");
        let image = tree.0.join("x.img");
        std::fs::write(&image, "").unwrap();
        tree.device("loop0", 0);
        tree.device("loop0/loop0p1", 1);
        tree.device("loop0/loop0p2", 2);
        tree.device("dm-0", 3);
        tree.attach("loop0", &image, 0, 0);
        tree.map("dm-0", "loop0/loop0p1");
        let file = format!("its backing file {}", image.display());
        let below = [
            ("what it is on, loop0p1", OnPart),
            ("its disk loop0", OnPart),
            (file.as_str(), OnPart),
        ];
        assert_eq!(tree.search("dm-0"), words(&below));
        let whole = [
            (file.as_str(), OnWhole),
            ("loop0p1", Sharing),
            ("dm-0", Sharing),
            ("loop0p2", Sharing),
        ];
        assert_eq!(tree.search("loop0"), words(&whole));
        let of_file: Vec<String> = Devices { root: tree.0.clone() }
            .neighbours(&std::fs::metadata(&image).unwrap())
            .into_iter()
            .map(|found| found.words)
            .collect();
        assert_eq!(of_file, ["loop0", "loop0p1", "dm-0", "loop0p2"]);
    }

    #[test]
    fn loop_devices_over_other_bytes_of_a_file_are_no_neighbours() {
        use Relation::{OnPart, Sharing};
        let tree = Tree::new("ranges");
        let image = tree.0.join("x.img");
        std::fs::write(&image, "").unwrap();
        // No host has devices of these names: losetup is asked for files that lost their name.
        for (minor, start, bytes) in [(0, 1024, 1024), (1, 2048, 0), (2, 2047, 1)] {
            tree.device(&format!("no-loop{minor}"), minor);
            tree.attach(&format!("no-loop{minor}"), &image, start, bytes);
        }
        let file = format!("its backing file {}", image.display());
        assert_eq!(tree.search("no-loop0"), words(&[(&file, OnPart), ("no-loop2", Sharing)]));
        assert_eq!(tree.search("no-loop1"), words(&[(&file, OnPart)]));
        // Of a file that has lost its name the names are compared.
        std::fs::remove_file(&image).unwrap();
        assert_eq!(tree.search("no-loop0"), words(&[("no-loop2", Sharing)]));
    }

    #[test]
    fn a_line_of_losetup_is_read() {
        let line = identity_of_line("/dev/loop3     254:1   5521430").unwrap();
        assert_eq!(line, ("loop3".to_owned(), (rustix::fs::makedev(254, 1), 5_521_430)));
        assert_eq!(identity_of_line("/dev/loop3"), None);
    }
}
