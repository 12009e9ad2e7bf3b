//! The host's table of locks: who has locked a file, and how.
use extant_block::Access;
use rustix::process::Pid;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;

/// A lock of a whole file, as flock(2) takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lock {
    /// The process that took it; `None` for one that is not seen from here.
    pub(crate) holder: Option<Pid>,
    /// Shared, or its alone.
    pub(crate) access: Access,
    /// Whether the table names the file's device as stat(2) does. Two file systems have files of
    /// the same number; btrfs and overlays show another device in the table than in stat(2).
    pub(crate) is_certain: bool,
}

/// The locks of a file, one perhaps several times. Empty if none is seen.
pub(crate) fn of(metadata: &Metadata) -> Vec<Lock> {
    let device = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    listed(&table(), device, metadata.ino())
}

/// The host's table of locks (`/proc/locks`), with every line at least once. Empty if the host has
/// none.
///
/// The kernel gives it in pieces of at most a page, and counts lines between them: a line is lost
/// where another's lock ends between two pieces. A table of several pieces is therefore read
/// several times, and what is returned is all of them, one after the other.
fn table() -> String {
    const PIECE_BYTES: usize = 4096;
    const TIMES: usize = 8;
    let mut table = Vec::new();
    for _ in 0..TIMES {
        let begin = table.len();
        // With room for all of it: a small buffer makes small pieces.
        table.reserve(16 * PIECE_BYTES);
        let read = File::open("/proc/locks").and_then(|mut file| file.read_to_end(&mut table));
        if read.is_err() || table.len().saturating_sub(begin) < PIECE_BYTES / 2 {
            break;
        }
    }
    String::from_utf8_lossy(&table).into_owned()
}

fn listed(table: &str, (major, minor): (u32, u32), ino: u64) -> Vec<Lock> {
    let of_number = format!(":{ino}");
    let of_file = format!("{major:02x}:{minor:02x}:{ino}");
    let lock = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // One that waits for a lock has an arrow before its kind.
        let [_, "FLOCK", _, kind, holder, file, ..] = words.as_slice() else { return None };
        file.ends_with(&of_number).then(|| Lock {
            holder: holder.parse().ok().filter(|number| *number > 0).and_then(Pid::from_raw),
            access: if *kind == "WRITE" { Access::ReadWrite } else { Access::ReadOnly },
            is_certain: *file == of_file,
        })
    };
    table.lines().filter_map(lock).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_same_number_are_told_apart() {
        let table = "1: FLOCK  ADVISORY  READ 12 08:01:77 0 EOF\n\
            1: -> FLOCK  ADVISORY  WRITE 14 08:01:77 0 EOF\n\
            2: POSIX  ADVISORY  WRITE 12 08:01:77 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 13 00:1a:77 0 EOF\n\
            4: FLOCK  ADVISORY  WRITE -1 08:01:78 0 EOF\n";
        let lock =
            |holder, access, is_certain| Lock { holder: Pid::from_raw(holder), access, is_certain };
        assert_eq!(
            listed(table, (8, 1), 77),
            [lock(12, Access::ReadOnly, true), lock(13, Access::ReadWrite, false)]
        );
        let unseen = Lock { holder: None, ..lock(1, Access::ReadWrite, true) };
        assert_eq!(listed(table, (8, 1), 78), [unseen]);
        assert_eq!(listed(table, (8, 1), 7), []);
    }
}
