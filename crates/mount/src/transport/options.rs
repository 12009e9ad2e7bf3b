//! What is asked of a mount, and the words in which mount(2) and fusermount3 take it.
use extant_block::Access;
use rustix::mount::MountFlags;
use std::ffi::OsString;
use std::fmt::Write;

/// Who may use the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Audience {
    /// The user who mounts, and no other, not even root. The kernel checks no permissions.
    #[default]
    Mounter,
    /// The same, as permissions allow, which the kernel checks (`default_permissions`).
    MounterChecked,
    /// Everyone (`allow_other`), as permissions allow, which the kernel checks
    /// (`default_permissions`).
    Everyone,
}

/// What the mount is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// An image in a file: `fuse`.
    #[default]
    File,
    /// A block device, which the kernel opens exclusively itself and whose unmount waits for the
    /// server (`fuseblk`; root only). The server must therefore have it open without `O_EXCL`.
    Block {
        /// Size of the volume's blocks in bytes, at most that of a page.
        block_bytes: u32,
    },
}

/// A property of the mount that the kernel keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flag {
    /// Special files cannot be opened.
    NoDevices,
    /// The set-user and set-group bits of programs are ignored.
    NoSetUser,
    /// No program is run from it.
    NoPrograms,
    /// Reading changes no time. The server decides; the kernel only shows it.
    NoAccessTimes,
    /// Listing changes no time of a directory. As above.
    NoDirectoryAccessTimes,
    /// Symbolic links are not followed.
    NoSymbolicLinks,
    /// Every write waits until it is on the device.
    Synchronous,
    /// Every change of a directory waits until it is on the device.
    DirectorySynchronous,
}

/// Flags, the words for them, and what the kernel calls them.
const FLAGS: &[(Flag, &str, MountFlags)] = &[
    (Flag::NoDevices, "nodev", MountFlags::NODEV),
    (Flag::NoSetUser, "nosuid", MountFlags::NOSUID),
    (Flag::NoPrograms, "noexec", MountFlags::NOEXEC),
    (Flag::NoAccessTimes, "noatime", MountFlags::NOATIME),
    (Flag::NoDirectoryAccessTimes, "nodiratime", MountFlags::NODIRATIME),
    (Flag::NoSymbolicLinks, "nosymfollow", MountFlags::NOSYMFOLLOW),
    (Flag::Synchronous, "sync", MountFlags::SYNCHRONOUS),
    (Flag::DirectorySynchronous, "dirsync", MountFlags::DIRSYNC),
];

impl Flag {
    /// The flag of this word of `mount -o`, such as `nodev`.
    pub fn named(word: &str) -> Option<Flag> {
        FLAGS.iter().find(|(_, name, _)| *name == word).map(|(flag, ..)| *flag)
    }
}

/// Whether a directory with entries may be covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Covering {
    /// No: what is in it would not be seen.
    #[default]
    EmptyOnly,
    /// Yes (`nonempty`).
    Anything,
}

/// Whether open files hold a mount back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detach {
    /// They do: it fails while there are any.
    #[default]
    WhenFree,
    /// It leaves the tree of directories at once, and ends with the last of them.
    Lazy,
}

/// What is asked of a mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the table of mounts shows as the source: the path of the image. Of a block device, the
    /// device to open.
    pub source: OsString,
    /// Whether the kernel lets anything be written.
    pub access: Access,
    /// Who may use it.
    pub audience: Audience,
    /// What it is made of.
    pub kind: Kind,
    /// Properties that the kernel keeps.
    pub flags: Vec<Flag>,
    /// What may be in the directory below.
    pub covering: Covering,
    /// The largest read that the kernel asks for, in bytes; its own limit if none.
    pub read_bytes_max: Option<u32>,
    /// Labels of SELinux by their words, such as `context`; for root, where that is in use.
    pub labels: Vec<(&'static str, String)>,
}

impl Options {
    /// A mount for one user, with nothing special to it.
    pub fn new(source: impl Into<OsString>, access: Access) -> Options {
        Options {
            source: source.into(),
            access,
            audience: Audience::Mounter,
            kind: Kind::File,
            flags: Vec::new(),
            covering: Covering::EmptyOnly,
            read_bytes_max: None,
            labels: Vec::new(),
        }
    }

    /// The flags as mount(2) takes them.
    pub(super) fn mount_flags(&self) -> MountFlags {
        let read_only = match self.access {
            Access::ReadOnly => MountFlags::RDONLY,
            Access::ReadWrite => MountFlags::empty(),
        };
        let asked = FLAGS.iter().filter(|(flag, ..)| self.flags.contains(flag));
        asked.fold(read_only, |flags, (.., bits)| flags | *bits)
    }

    /// The words for what the kernel takes from both ways, each with a comma before it.
    fn common_words(&self) -> String {
        let mut words = String::new();
        words.push_str(match self.audience {
            Audience::Mounter => "",
            Audience::MounterChecked => ",default_permissions",
            Audience::Everyone => ",allow_other,default_permissions",
        });
        if let Some(bytes) = self.read_bytes_max {
            let _ = write!(words, ",max_read={bytes}");
        }
        if let Kind::Block { block_bytes } = self.kind {
            let _ = write!(words, ",blksize={block_bytes}");
        }
        words
    }

    /// The data of mount(2), for this handle of `/dev/fuse`. `mode` is the mode of the root's type.
    pub(super) fn mount_data(&self, handle: i32, mode: u32) -> String {
        let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
        // A label may have commas.
        let labels = self.labels.iter().map(|(word, label)| format!(",{word}=\"{label}\""));
        format!(
            "fd={handle},rootmode={mode:o},user_id={},group_id={}{}{}",
            user.as_raw(),
            group.as_raw(),
            self.common_words(),
            labels.collect::<String>()
        )
    }

    /// What follows `-o` for fusermount3. It knows `fsname` and `subtype`, and takes a comma or
    /// backslash inside one with a backslash before it.
    pub(super) fn fusermount_words(&self) -> OsString {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        let access = match self.access {
            Access::ReadOnly => "ro",
            Access::ReadWrite => "rw",
        };
        let mut words = access.as_bytes().to_vec();
        // fusermount3 does not know all that mount(2) does; this one the server does alone.
        let is_known = |flag: &Flag| *flag != Flag::NoDirectoryAccessTimes;
        let asked = FLAGS.iter().filter(|(flag, ..)| self.flags.contains(flag) && is_known(flag));
        for (_, word, _) in asked {
            words.push(b',');
            words.extend_from_slice(word.as_bytes());
        }
        words.extend_from_slice(self.common_words().as_bytes());
        words.extend_from_slice(b",subtype=extant,fsname=");
        for byte in self.source.as_bytes() {
            if matches!(byte, b',' | b'\\') {
                words.push(b'\\');
            }
            words.push(*byte);
        }
        OsString::from_vec(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_with_commas_stays_one_word() {
        let mut options = Options::new("a,b\\c.img", Access::ReadOnly);
        options.flags = vec![Flag::NoPrograms, Flag::NoDevices];
        assert_eq!(
            options.fusermount_words(),
            "ro,nodev,noexec,subtype=extant,fsname=a\\,b\\\\c.img"
        );
    }

    #[test]
    fn what_is_for_everyone_is_checked_by_the_kernel() {
        let mut options = Options::new("x", Access::ReadWrite);
        assert!(!options.mount_data(3, 0o40000).contains("allow_other"));
        assert!(options.mount_data(3, 0o40000).starts_with("fd=3,rootmode=40000,user_id="));
        options.audience = Audience::Everyone;
        options.kind = Kind::Block { block_bytes: 1024 };
        options.read_bytes_max = Some(4096);
        let mut labelled = options.clone();
        labelled.labels.push(("context", "a:b:c:s0:c1,c2".to_owned()));
        assert!(labelled.mount_data(3, 0o40000).ends_with(",context=\"a:b:c:s0:c1,c2\""));
        let data = options.mount_data(3, 0o40000);
        let tail = ",allow_other,default_permissions,max_read=4096,blksize=1024";
        assert!(data.ends_with(tail), "{data}");
    }

    #[test]
    fn each_word_is_one_flag_and_one_bit() {
        for (flag, word, bits) in FLAGS {
            assert_eq!(Flag::named(word), Some(*flag));
            let options = Options { flags: vec![*flag], ..Options::new("x", Access::ReadWrite) };
            assert_eq!(options.mount_flags(), *bits, "{word}");
        }
        assert_eq!(Flag::named("dev"), None);
        let read_only = Options::new("x", Access::ReadOnly).mount_flags();
        assert_eq!(read_only, MountFlags::RDONLY);
    }
}
