//! Calls that change or read something, done to a kernel mount and to the engine.

use extant_engine::{Change, Error, Filesystem, Rename, SetAttribute, Size};
use extant_format::inode::{Device, FileType, Time};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, IFlags, Mode, RenameFlags, Timespec, Timestamps, XattrFlags,
};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// A call; names are relative to a folder of its own.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// At an offset, of a file that was not opened to be appended to.
    Write(&'static str, u64),
    /// At the end, of one that was.
    Append(&'static str),
    /// Makes it, or empties the one that is there.
    Create(&'static str),
    Truncate(&'static str, u64),
    Allocate(&'static str, u64, Size),
    Punch(&'static str, u64),
    Unlink(&'static str),
    RemoveDirectory(&'static str),
    Rename(&'static str, &'static str, Rename),
    Link(&'static str, &'static str),
    MakeDirectory(&'static str),
    MakeFifo(&'static str),
    /// Fails where the name is there.
    MakeFile(&'static str),
    Symlink(&'static str),
    Permissions(&'static str, u16),
    Owner(&'static str, u32),
    Times(&'static str),
    SetAttribute(&'static str, &'static str, SetAttribute),
    RemoveAttribute(&'static str, &'static str),
    /// Sets the second, and clears the third.
    Flags(&'static str, u32, u32),
    Read(&'static str, usize),
    List(&'static str),
    ReadLink(&'static str),
    Stat(&'static str),
}

fn open(path: &Path, append: bool) -> std::io::Result<File> {
    OpenOptions::new().write(!append).append(append).open(path)
}

fn raw<T>(outcome: Result<T, Errno>) -> std::io::Result<()> {
    Ok(outcome.map(drop)?)
}

impl Call {
    /// Does it below a folder of a mounted file system; gives the errno, 0 for success.
    pub fn kernel(&self, folder: &Path) -> i32 {
        self.on_mount(folder).err().map_or(0, |error| error.raw_os_error().unwrap_or(-1))
    }

    fn on_mount(&self, folder: &Path) -> std::io::Result<()> {
        let at = |name: &str| folder.join(name);
        match *self {
            Call::Write(name, offset) => open(&at(name), false)?.write_all_at(b"xy", offset),
            Call::Append(name) => open(&at(name), true)?.write_all(b"xy"),
            Call::Create(name) => File::create(at(name)).map(drop),
            Call::Truncate(name, size) => open(&at(name), false)?.set_len(size),
            Call::Allocate(name, length, size) => {
                let flags = match size {
                    Size::Grow => FallocateFlags::empty(),
                    Size::Keep => FallocateFlags::KEEP_SIZE,
                };
                raw(rustix::fs::fallocate(open(&at(name), false)?, flags, 0, length))
            }
            Call::Punch(name, offset) => {
                let flags = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
                raw(rustix::fs::fallocate(open(&at(name), false)?, flags, offset, 100))
            }
            Call::Unlink(name) => std::fs::remove_file(at(name)),
            Call::RemoveDirectory(name) => std::fs::remove_dir(at(name)),
            Call::Rename(from, to, how) => {
                let flags = match how {
                    Rename::Replace => RenameFlags::empty(),
                    Rename::KeepTarget => RenameFlags::NOREPLACE,
                    Rename::Exchange => RenameFlags::EXCHANGE,
                    Rename::Whiteout => RenameFlags::WHITEOUT,
                };
                raw(rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags))
            }
            Call::Link(original, name) => std::fs::hard_link(at(original), at(name)),
            Call::MakeDirectory(name) => std::fs::create_dir(at(name)),
            Call::MakeFifo(name) => {
                let (kind, mode) = (rustix::fs::FileType::Fifo, Mode::RUSR);
                raw(rustix::fs::mknodat(CWD, at(name), kind, mode, 0))
            }
            Call::MakeFile(name) => {
                OpenOptions::new().write(true).create_new(true).open(at(name)).map(drop)
            }
            Call::Symlink(name) => std::os::unix::fs::symlink("target", at(name)),
            Call::Permissions(name, mode) => {
                std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode.into()))
            }
            Call::Owner(name, id) => std::os::unix::fs::lchown(at(name), Some(id), Some(id)),
            Call::Times(name) => {
                let time = Timespec { tv_sec: 5, tv_nsec: 5 };
                let times = Timestamps { last_access: time, last_modification: time };
                raw(rustix::fs::utimensat(CWD, at(name), &times, AtFlags::SYMLINK_NOFOLLOW))
            }
            Call::SetAttribute(name, attribute, how) => {
                let flags = match how {
                    SetAttribute::Any => XattrFlags::empty(),
                    SetAttribute::Create => XattrFlags::CREATE,
                    SetAttribute::Replace => XattrFlags::REPLACE,
                };
                raw(rustix::fs::lsetxattr(at(name), attribute, b"value", flags))
            }
            Call::RemoveAttribute(name, attribute) => {
                raw(rustix::fs::lremovexattr(at(name), attribute))
            }
            Call::Flags(name, set, clear) => {
                let file = File::open(at(name))?;
                let flags = rustix::fs::ioctl_getflags(&file)?.bits();
                raw(rustix::fs::ioctl_setflags(
                    &file,
                    IFlags::from_bits_retain(flags & !clear | set),
                ))
            }
            Call::Read(name, length) => {
                let file = OpenOptions::new().read(true).custom_flags(0).open(at(name))?;
                file.read_at(&mut vec![0; length], 0).map(drop)
            }
            Call::List(name) => std::fs::read_dir(at(name))?.try_for_each(|entry| entry.map(drop)),
            Call::ReadLink(name) => std::fs::read_link(at(name)).map(drop),
            Call::Stat(name) => std::fs::symlink_metadata(at(name)).map(drop),
        }
    }

    /// Does it below a folder of the engine's volume; gives the errno, 0 for success.
    pub fn engine(&self, volume: &Filesystem, folder: &str) -> i32 {
        self.on_volume(volume, folder).err().map_or(0, |error| error.errno())
    }

    fn on_volume(&self, volume: &Filesystem, folder: &str) -> Result<(), Error> {
        let at = |name: &str| format!("{folder}/{name}");
        let change = |name: &str, change: Change| volume.change(at(name), &change);
        match *self {
            Call::Write(name, offset) => {
                volume.open_file(at(name))?.write_at(offset, b"xy").map(drop)
            }
            Call::Append(name) => {
                let file = volume.open_file(at(name))?;
                file.write_at(file.metadata()?.size, b"xy").map(drop)
            }
            Call::Create(name) => volume.create_file(at(name), 0o644).map(drop),
            Call::Truncate(name, size) => volume.open_file(at(name))?.set_len(size),
            Call::Allocate(name, length, size) => {
                volume.open_file(at(name))?.allocate(0, length, size)
            }
            Call::Punch(name, offset) => volume.open_file(at(name))?.punch_hole(offset, 100),
            Call::Unlink(name) => volume.remove_file(at(name)),
            Call::RemoveDirectory(name) => volume.remove_dir(at(name)),
            Call::Rename(from, to, how) => volume.rename(at(from), at(to), how),
            Call::Link(original, name) => volume.hard_link(at(original), at(name)),
            Call::MakeDirectory(name) => volume.create_dir(at(name), 0o755),
            Call::MakeFifo(name) => {
                volume.make_node(at(name), FileType::Fifo, 0o600, Device::default())
            }
            Call::MakeFile(name) => {
                volume.make_node(at(name), FileType::Regular, 0o600, Device::default())
            }
            Call::Symlink(name) => volume.symlink("target", at(name)),
            Call::Permissions(name, mode) => {
                change(name, Change { permissions: Some(mode), ..Change::default() })
            }
            Call::Owner(name, id) => {
                change(name, Change { uid: Some(id), gid: Some(id), ..Change::default() })
            }
            Call::Times(name) => {
                let time = Time { seconds: 5, nanoseconds: 5 };
                change(
                    name,
                    Change {
                        access_time: Some(time),
                        modify_time: Some(time),
                        ..Change::default()
                    },
                )
            }
            Call::SetAttribute(name, attribute, how) => {
                volume.set_attribute(at(name), attribute.as_bytes(), b"value", how)
            }
            Call::RemoveAttribute(name, attribute) => {
                volume.remove_attribute(at(name), attribute.as_bytes())
            }
            Call::Flags(name, set, clear) => {
                let inode = volume.inode(at(name))?;
                let inodes = volume.inodes();
                inodes.set_flags(&inode, inodes.flags(&inode)? & !clear | set)
            }
            Call::Read(name, length) => {
                volume.open_file(at(name))?.read_at(0, &mut vec![0; length]).map(drop)
            }
            Call::List(name) => volume.read_dir(at(name)).map(drop),
            Call::ReadLink(name) => volume.read_link(at(name)).map(drop),
            Call::Stat(name) => volume.symlink_metadata(at(name)).map(drop),
        }
    }
}
