//! What the host says of a file.
use crate::Facts;
use extant_format::inode::{Device, FileType, Time};
use rustix::fs::Stat;

/// What a file of the host is like. The host's flags are not asked for.
pub fn facts(stat: &Stat) -> Facts {
    let time = |seconds: i64, nanoseconds: u32| Time { seconds, nanoseconds };
    let mode = (stat.st_mode & 0xffff) as u16;
    let file_type = FileType::from_mode(mode).unwrap_or_default();
    let numbers = || Device {
        major: rustix::fs::major(stat.st_rdev),
        minor: rustix::fs::minor(stat.st_rdev),
    };
    Facts {
        file_type,
        permissions: mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modify_time: time(stat.st_mtime, stat.st_mtime_nsec as u32),
        access_time: Some(time(stat.st_atime, stat.st_atime_nsec as u32)),
        change_time: Some(time(stat.st_ctime, stat.st_ctime_nsec as u32)),
        size: stat.st_size.max(0).cast_unsigned(),
        device: if file_type.is_device() { numbers() } else { Device::default() },
        flags: None,
    }
}

/// What tells a file of the host from all others: device and inode number.
pub fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}
