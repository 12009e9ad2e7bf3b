//! `-o remount`: other flags for a mount that is there, by the kernel alone.
//!
//! The server goes on as it began: an image that it has open for reading cannot become writable,
//! and what is the server's (its cache, owners, access times) does not change. mount(8) names all
//! that the table of mounts shows when it remounts; what is so already is taken.
use super::locks::{self, Lock};
use super::points;
use super::words;
use extant_block::Access;
use extant_block::in_use::Mount;
use extant_host::error::{Error, Exit};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use std::path::Path;

/// Flags of the kernel's that can be changed, with the words that set and clear them.
const CHANGEABLE: &[(&str, &str, MountFlags)] = &[
    ("ro", "rw", MountFlags::RDONLY),
    ("nodev", "dev", MountFlags::NODEV),
    ("nosuid", "suid", MountFlags::NOSUID),
    ("noexec", "exec", MountFlags::NOEXEC),
    ("nosymfollow", "symfollow", MountFlags::NOSYMFOLLOW),
];

/// Flags that stay as they are.
const KEPT: &[(&str, MountFlags)] = &[
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("relatime", MountFlags::RELATIME),
    ("sync", MountFlags::SYNCHRONOUS),
    ("dirsync", MountFlags::DIRSYNC),
];

/// The word itself.
const REMOUNT: &str = "remount";

/// Whether these lists ask for it.
pub fn is_asked(lists: &[String]) -> bool {
    words::all(lists).any(|word| word == REMOUNT)
}

/// Changes the flags of what is mounted on a folder.
///
/// # Errors
/// Nothing of ours is mounted there; a word that is the server's; `rw` of what began read-only;
/// what the kernel says.
pub fn run(image: &Path, folder: &Path, lists: &[String]) -> Result<(), Error> {
    let shown = folder.display();
    let resolved = points::resolved(folder).map_err(|error| Error::io(folder.display(), &error))?;
    let mount = points::at(&resolved).filter(points::is_ours);
    let mount = mount.ok_or_else(|| Error::new(format!("{shown}: no image is mounted there")))?;
    let shows = shown_options(&mount);
    let shows: Vec<&str> = shows.split(',').collect();
    let mut flags = MountFlags::empty();
    for (word, bits) in CHANGEABLE
        .iter()
        .map(|(word, _, bits)| (word, bits))
        .chain(KEPT.iter().map(|(w, b)| (w, b)))
    {
        flags.set(*bits, shows.contains(word));
    }
    for word in words::all(lists).filter(|word| word != REMOUNT) {
        change(&word, &shows, &mut flags)?;
    }
    if shows.contains(&"ro") && !flags.contains(MountFlags::RDONLY) {
        check_writable(image, &mount)?;
    }
    mount_remount(&resolved, flags, "").map_err(|error| match error {
        Errno::PERM => Error::new(format!("{shown}: only root changes a mount")).exit(Exit::Usage),
        Errno::BUSY => Error::new(format!("{shown}: files on it are open for writing"))
            .hint(format!("fuser -vm {shown} lists who uses it")),
        error => Error::io(folder.display(), &error.into()),
    })
}

/// The options of a mount and of its file system, as the table of mounts has them.
fn shown_options(mount: &Mount) -> String {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let number = format!("{}:{}", rustix::fs::major(mount.device), rustix::fs::minor(mount.device));
    let line = table.lines().rfind(|line| line.split(' ').nth(2) == Some(number.as_str()));
    let of_mount = line.and_then(|line| line.split(' ').nth(5)).unwrap_or_default();
    format!("{of_mount},{}", mount.options)
}

/// Sets or clears the flag of one word.
fn change(word: &str, shows: &[&str], flags: &mut MountFlags) -> Result<(), Error> {
    for (set, clear, bits) in CHANGEABLE {
        if word == *set || word == *clear {
            flags.set(*bits, word == *set);
            return Ok(());
        }
    }
    if shows.contains(&word) || words::is_silent(word) {
        return Ok(());
    }
    Err(Error::usage(format!("-o remount,{word}: is not changed while it is mounted"))
        .hint("ro, rw, nodev, nosuid, noexec, nosymfollow are; unmount it, and mount it again"))
}

/// Fails for a mount whose server has its image open for reading: the lock of the image says so.
fn check_writable(image: &Path, mount: &Mount) -> Result<(), Error> {
    let shown = mount.folder.display();
    let refused = |why: &str| {
        Err(Error::new(format!("{shown}: began read-only, and cannot become writable: {why}"))
            .hint(format!("extant umount {shown}, and mount it again")))
    };
    let metadata = std::fs::metadata(&mount.source).or_else(|_| std::fs::metadata(image));
    let Ok(metadata) = metadata else { return refused("its image is not found") };
    match access(&locks::of(&metadata)) {
        Some(Access::ReadWrite) => Ok(()),
        Some(Access::ReadOnly) => refused("its image is open for reading alone"),
        None => refused("no lock of its image is seen"),
    }
}

/// How a file with these locks is locked: those that may be another file's count if no other is
/// seen.
fn access(locks: &[Lock]) -> Option<Access> {
    let is_seen = locks.iter().any(|lock| lock.is_certain);
    let of_file = locks.iter().filter(|lock| lock.is_certain == is_seen);
    of_file.map(|lock| lock.access).reduce(|found, other| match (found, other) {
        (Access::ReadOnly, Access::ReadOnly) => Access::ReadOnly,
        _ => Access::ReadWrite,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_an_image_says_how_it_is_open() {
        let lock = |access, is_certain| Lock { holder: None, access, is_certain };
        let (read, write) = (lock(Access::ReadOnly, true), lock(Access::ReadWrite, true));
        let of_another = lock(Access::ReadWrite, false);
        assert_eq!(access(&[]), None);
        assert_eq!(access(&[read, of_another]), Some(Access::ReadOnly));
        assert_eq!(access(&[read, write]), Some(Access::ReadWrite));
        assert_eq!(access(&[of_another]), Some(Access::ReadWrite));
    }

    #[test]
    fn what_is_so_already_is_taken() {
        let shows = ["rw", "relatime", "user_id=0", "allow_other"];
        let mut flags = MountFlags::empty();
        for word in ["ro", "nodev", "user_id=0", "relatime", "x-a.b", "defaults"] {
            change(word, &shows, &mut flags).unwrap();
        }
        assert_eq!(flags, MountFlags::RDONLY | MountFlags::NODEV);
        change("rw", &shows, &mut flags).unwrap();
        assert_eq!(flags, MountFlags::NODEV);
        for word in ["noatime", "cache=16M", "user_id=7", "zzz"] {
            let error = change(word, &shows, &mut flags).unwrap_err();
            assert!(error.message.contains(word), "{}", error.message);
        }
    }
}
