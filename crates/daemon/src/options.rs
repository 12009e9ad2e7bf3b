//! What the words of `-o` ask for, as a value. The words themselves are in `words`.
use extant_block::Access;
use extant_engine::preset::{self, Policies, Preset, PresetError};
use extant_host::image::ImageArguments;
use extant_host::size::Size;
use extant_image::source::IdMap;
use extant_lab::setup::Setup;
use extant_mount::serve::{Masks, Reserve, Xattrs};
use extant_mount::workers::Idle;
use std::path::PathBuf;

/// Memory that a mount takes if nothing else is said, in bytes.
pub const CACHE_BYTES: u64 = 256 << 20;
/// The least that a volume takes, in bytes.
pub const CACHE_BYTES_MIN: u64 = 8 << 20;

/// What a power cut may take away, in seconds, if nothing else is said.
const COMMIT_SECONDS: u32 = 5;

/// What bounds what a power cut may take away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Commit {
    /// Nothing was said: [`COMMIT_SECONDS`], unless a preset was chosen.
    Unsaid,
    /// `commit=`, in seconds.
    Seconds(u32),
    /// The column `commit` of the policies.
    Column,
}

/// Who may use a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// The user who mounted it, to whom the image belongs: nothing is checked.
    #[default]
    OneUser,
    /// Every user of this machine; the kernel checks permissions.
    AllUsers,
}

/// Who checks permissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checks {
    /// Nothing is checked: the one user of the mount may do everything.
    #[default]
    None,
    /// The kernel, by owners, modes and access lists.
    Kernel,
}

/// Where written data waits first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Writes {
    /// In the kernel's page cache, which sends it in large pieces.
    #[default]
    Back,
    /// In the server's cache: each write(2) is a request.
    Through,
}

/// How a volume is mounted that is marked as having errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnErrors {
    /// Read-only.
    ReadOnly,
    /// As any other.
    Continue,
}

/// Whether a folder that holds something may be mounted over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Over {
    /// An empty folder, which is no mount point, alone.
    #[default]
    Empty,
    /// Any folder.
    Anything,
}

/// What becomes of a journal that is not empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replay {
    /// It is replayed; in memory, if the volume is only read.
    #[default]
    Done,
    /// `noload`: it is left out.
    LeftOut,
}

/// By what the device learns what is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Discards {
    /// fstrim(8) alone.
    #[default]
    ByTrim,
    /// `discard`: each commit too.
    Told,
}

/// What happens to a word that is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unknown {
    /// It is an error.
    Refused,
    /// It is ignored (`-s`).
    Ignored,
}

/// What the kernel is told of a mount beside its file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelFlags {
    /// `nodev`
    pub no_devices: bool,
    /// `nosuid`
    pub no_set_id: bool,
    /// `noexec`
    pub no_execute: bool,
    /// `noatime`
    pub no_access_times: bool,
    /// `nodiratime`
    pub no_directory_access_times: bool,
    /// `nosymfollow`
    pub no_symbolic_links: bool,
    /// `sync`
    pub synchronous: bool,
    /// `dirsync`
    pub synchronous_directories: bool,
}

/// All that `-o` can say. `None` is what was not said.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// `ro`, `rw`
    pub access: Option<Access>,
    /// `allow_other`
    pub sharing: Sharing,
    /// `default_permissions`, which `allow_other` implies.
    pub checks: Checks,
    /// What the kernel is told.
    pub flags: KernelFlags,
    /// `offset=`: the byte of the image at which the volume begins.
    pub offset_bytes: u64,
    /// `journal_path=`: the device of the volume's journal.
    pub journal: Option<PathBuf>,
    /// `uid=`: everything belongs to it.
    pub uid: Option<u32>,
    /// `gid=`
    pub gid: Option<u32>,
    /// `map_users=`: users of the image become users of this machine.
    pub map_users: Vec<IdMap>,
    /// `map_groups=`
    pub map_groups: Vec<IdMap>,
    /// `cache=`, in bytes.
    pub cache_bytes: u64,
    /// `errors=`
    pub on_errors: Option<OnErrors>,
    /// `write_through`
    pub writes: Writes,
    /// `nonempty`
    pub over: Over,
    /// `fsname=`
    pub name: Option<String>,
    /// `workers=`: the most threads that answer requests.
    pub workers: Option<usize>,
    /// `idle=`
    pub idle: Idle,
    /// `noxattr`
    pub xattrs: Xattrs,
    /// `umask=`, `fmask=`, `dmask=`
    pub masks: Masks,
    /// `resuid=`, `resgid=`
    pub reserve: Reserve,
    /// `noload`
    pub replay: Replay,
    /// `discard`
    pub discards: Discards,
    /// `max_read=`, in bytes.
    pub read_bytes_max: Option<u32>,
    labels: Vec<(&'static str, String)>,
    noted: Vec<String>,
    preset: &'static Preset,
    is_preset_said: bool,
    commit: Commit,
    columns: Vec<(String, String)>,
}

impl MountOptions {
    /// What nothing was said of.
    ///
    /// # Errors
    /// The default preset is not there; never.
    pub(super) fn unsaid() -> Result<MountOptions, PresetError> {
        Ok(MountOptions {
            access: None,
            sharing: Sharing::default(),
            checks: Checks::default(),
            flags: KernelFlags::default(),
            offset_bytes: 0,
            journal: None,
            uid: None,
            gid: None,
            map_users: Vec::new(),
            map_groups: Vec::new(),
            cache_bytes: CACHE_BYTES,
            on_errors: None,
            writes: Writes::default(),
            over: Over::default(),
            name: None,
            workers: None,
            idle: Idle::default(),
            xattrs: Xattrs::default(),
            masks: Masks::default(),
            reserve: Reserve::default(),
            replay: Replay::default(),
            discards: Discards::default(),
            read_bytes_max: None,
            labels: Vec::new(),
            noted: Vec::new(),
            preset: preset::preset(preset::DEFAULT_PRESET)?,
            is_preset_said: false,
            commit: Commit::Unsaid,
            columns: Vec::new(),
        })
    }

    /// Where the volume and its journal are.
    pub fn place(&self) -> ImageArguments {
        let offset = (self.offset_bytes > 0).then_some(Size::Bytes(self.offset_bytes));
        ImageArguments { offset, journal: self.journal.clone() }
    }

    /// How blocks are placed, read and written.
    ///
    /// # Errors
    /// A column or choice that is not there.
    pub fn policies(&self) -> Result<Policies, PresetError> {
        // Half of the time is the kernel's, for what it keeps.
        let seconds = self.commit_seconds().map(|seconds| seconds - seconds / 2);
        let commit = seconds.map(|seconds| format!("{}s+data", seconds.max(1)));
        let commit = commit.as_deref().map(|choice| ("commit", choice));
        let chosen = self.columns.iter().map(|(name, choice)| (name.as_str(), choice.as_str()));
        Ok(Setup::with(self.preset, chosen.chain(commit))?.policies)
    }

    /// After how many seconds the kernel is asked for what it keeps of open files; `None` if it is
    /// asked for nothing.
    pub fn send_seconds(&self) -> Option<u32> {
        let seconds = self.commit_seconds().filter(|_| self.writes == Writes::Back);
        seconds.map(|seconds| (seconds / 2).max(1))
    }

    /// What is older than this is on the device, data too.
    fn commit_seconds(&self) -> Option<u32> {
        match self.commit {
            Commit::Seconds(seconds) => Some(seconds),
            // A preset that was asked for is as it is.
            Commit::Unsaid => (!self.is_preset_said).then_some(COMMIT_SECONDS),
            Commit::Column => None,
        }
    }

    /// Words that were taken and change nothing, in their order.
    pub fn noted(&self) -> &[String] {
        &self.noted
    }

    /// Notes that a word changes nothing.
    pub(super) fn note(&mut self, word: &str) {
        if self.noted.iter().all(|noted| noted != word) {
            self.noted.push(word.to_owned());
        }
    }

    /// Labels of SELinux, for mount(2), by their words.
    pub fn labels(&self) -> &[(&'static str, String)] {
        &self.labels
    }

    /// Takes a label of SELinux: for the kernel to judge where that is in use, else of no effect.
    ///
    /// # Errors
    /// It cannot be said to mount(2).
    pub(super) fn label(&mut self, word: &'static str, value: &str) -> Result<(), String> {
        let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let label = bare.unwrap_or(value);
        if label.contains(['"', '\\', '\0']) {
            return Err("is not a label".to_owned());
        }
        self.labels.retain(|(labelled, _)| *labelled != word);
        self.labels.push((word, label.to_owned()));
        Ok(())
    }

    /// Looks whether each number of a map has one other at most: else a file could be given an
    /// owner and be shown with another one.
    ///
    /// # Errors
    /// A number has two.
    pub fn check_maps(&self) -> Result<(), String> {
        check_map("map_users", &self.map_users)?;
        check_map("map_groups", &self.map_groups)
    }

    /// Bounds what a power cut may take away; 0 is the default.
    pub(super) fn commit(&mut self, seconds: u32) {
        self.columns.retain(|(column, _)| column != "commit");
        self.commit = Commit::Seconds(if seconds == 0 { COMMIT_SECONDS } else { seconds });
    }

    /// Chooses a column of the policies; an earlier choice is forgotten.
    pub(super) fn choose(&mut self, column: &str, choice: impl Into<String>) {
        if column == "commit" {
            self.commit = Commit::Column;
        }
        self.columns.retain(|(chosen, _)| chosen != column);
        self.columns.push((column.to_owned(), choice.into()));
    }

    /// Chooses a preset; columns that were chosen stay.
    ///
    /// # Errors
    /// It is not there.
    pub(super) fn choose_preset(&mut self, name: &str) -> Result<(), PresetError> {
        self.preset = preset::preset(name)?;
        self.is_preset_said = true;
        Ok(())
    }
}

fn check_map(word: &str, maps: &[IdMap]) -> Result<(), String> {
    let twice = |place: &str, first: fn(&IdMap) -> u32| {
        let mut ranges: Vec<(u64, u64)> =
            maps.iter().map(|map| (first(map).into(), map.count.into())).collect();
        ranges.sort_unstable();
        let meet = ranges.windows(2).find_map(|pair| match pair {
            [(from, count), (next, _)] if from + count > *next => Some(*next),
            _ => None,
        });
        match meet {
            Some(number) => Err(format!("-o {word}: {number} of {place} has two numbers")),
            None => Ok(()),
        }
    };
    twice("the image", |map| map.from)?;
    twice("this machine", |map| map.to)
}
