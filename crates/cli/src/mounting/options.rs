//! What the words of `-o` ask for, as a value. The words themselves are in `words`.
use extant_block::Access;
use extant_engine::preset::{self, Policies, Preset, PresetError};
use extant_image::source::IdMap;
use extant_mount::serve::Xattrs;
use extant_mount::workers::Idle;

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
            preset: preset::preset(preset::DEFAULT_PRESET)?,
            is_preset_said: false,
            commit: Commit::Unsaid,
            columns: Vec::new(),
        })
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
        Policies::with(self.preset, chosen.chain(commit))
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
