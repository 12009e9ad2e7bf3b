//! Calls made as somebody: on the kernel's mount by a child process of that identity, on the engine
//! for a caller.
//!
//! The child is this program again, told by its environment which rows of which table to do: it
//! makes the same table and says the errno of each.
use crate::by_inode::both::Both;
use crate::by_inode::specification;
use crate::volume::MIB;
use extant_engine::mkfs::Profile;
use extant_engine::{
    Caller, Filesystem, FlagChange, Inode, Inodes, MetadataChange, New, NewKind, Privileges,
    Rename, Result, Rights, SetAttribute, SetTime,
};
use extant_format::inode::{Device, Time};
use extant_testkit::command::{copy_program, output, program};
use rustix::fs::{
    Access, AtFlags, CWD, IFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW,
    XattrFlags,
};
use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// An identity.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub uid: u32,
    pub gid: u32,
    pub groups: &'static [u32],
    /// As setpriv and as the engine know it.
    pub privilege: Option<(&'static str, Privileges)>,
}

impl Who {
    pub const ROOT: Who = Who { uid: 0, gid: 0, groups: &[], privilege: None };

    pub fn caller(&self) -> Caller {
        let privileges = match self.privilege {
            Some((_, privilege)) => privilege,
            None if self.uid == 0 => Privileges::ALL,
            None => Privileges::NONE,
        };
        Caller { groups: self.groups.to_vec(), privileges, ..Caller::user(self.uid, self.gid) }
    }
}

/// An access list in the form of getxattr, from tags, permissions and ids.
pub fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&bits.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

/// The id of entries that name no user or group.
pub const NO_ID: u32 = u32::MAX;
pub const ACCESS: &str = "system.posix_acl_access";
pub const DEFAULT: &str = "system.posix_acl_default";

/// A call; names are relative to a folder of its own.
#[derive(Clone, Debug)]
pub enum Call {
    Use(&'static str, Rights),
    Open(&'static str, Rights),
    /// Name, permissions, umask.
    MakeFile(&'static str, u16, u16),
    MakeDirectory(&'static str, u16, u16),
    MakeFifo(&'static str, u16, u16),
    MakeDevice(&'static str),
    MakeSymlink(&'static str),
    /// In this directory.
    MakeNameless(&'static str, u16, u16),
    /// In this directory, and then given this name.
    NameNameless(&'static str, &'static str, u16, u16),
    Link(&'static str, &'static str),
    Unlink(&'static str),
    RemoveDirectory(&'static str),
    Rename(&'static str, &'static str, Rename),
    Permissions(&'static str, u16),
    Owner(&'static str, Option<u32>, Option<u32>),
    Touch(&'static str),
    Times(&'static str),
    TimeAlone(&'static str),
    Truncate(&'static str, u64),
    SetAttribute(&'static str, &'static str, Vec<u8>),
    GetAttribute(&'static str, &'static str),
    RemoveAttribute(&'static str, &'static str),
    Flags(&'static str, u32, u32),
    List(&'static str),
    Stat(&'static str),
}

fn mode(permissions: u16) -> Mode {
    Mode::from_raw_mode(permissions.into())
}

fn open(path: &Path, flags: OFlags, permissions: u16) -> std::io::Result<()> {
    Ok(rustix::fs::openat(CWD, path, flags, mode(permissions)).map(drop)?)
}

fn times(access: Timespec, modify: Timespec, path: &Path) -> std::io::Result<()> {
    let times = Timestamps { last_access: access, last_modification: modify };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

const LONG_AGO: Time = Time { seconds: 5, nanoseconds: 5 };

impl Call {
    /// Bits that are taken out of the permissions of what is made.
    fn umask(&self) -> u16 {
        match self {
            Call::MakeFile(_, _, umask)
            | Call::MakeDirectory(_, _, umask)
            | Call::MakeFifo(_, _, umask)
            | Call::MakeNameless(_, _, umask)
            | Call::NameNameless(_, _, _, umask) => *umask,
            _ => 0,
        }
    }

    /// Does it below a folder of a mounted file system; gives the errno, 0 for success.
    fn kernel(&self, folder: &Path) -> i32 {
        rustix::process::umask(mode(self.umask()));
        self.on_mount(folder).err().map_or(0, |error| error.raw_os_error().unwrap_or(-1))
    }

    fn on_mount(&self, folder: &Path) -> std::io::Result<()> {
        let at = |name: &str| folder.join(name);
        match self {
            Call::Use(name, rights) => {
                let bits = bits(*rights);
                let wanted = Access::from_bits_retain(bits.into());
                Ok(rustix::fs::accessat(CWD, at(name), wanted, AtFlags::EACCESS)?)
            }
            Call::Open(name, rights) => {
                let flags = match bits(*rights) {
                    4 => OFlags::RDONLY,
                    2 => OFlags::WRONLY,
                    _ => OFlags::RDWR,
                };
                open(&at(name), flags, 0)
            }
            Call::MakeFile(name, permissions, _) => {
                open(&at(name), OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY, *permissions)
            }
            Call::MakeNameless(name, permissions, _) => {
                open(&at(name), OFlags::TMPFILE | OFlags::RDWR, *permissions)
            }
            Call::NameNameless(directory, name, permissions, _) => {
                let flags = OFlags::TMPFILE | OFlags::RDWR;
                let file = rustix::fs::openat(CWD, at(directory), flags, mode(*permissions))?;
                let open = format!("/proc/self/fd/{}", file.as_raw_fd());
                let follow = AtFlags::SYMLINK_FOLLOW;
                Ok(rustix::fs::linkat(CWD, open, CWD, at(name), follow)?)
            }
            Call::MakeDirectory(name, permissions, _) => {
                Ok(rustix::fs::mkdirat(CWD, at(name), mode(*permissions))?)
            }
            Call::MakeFifo(name, permissions, _) => {
                let kind = rustix::fs::FileType::Fifo;
                Ok(rustix::fs::mknodat(CWD, at(name), kind, mode(*permissions), 0)?)
            }
            Call::MakeDevice(name) => {
                let kind = rustix::fs::FileType::CharacterDevice;
                let device = rustix::fs::makedev(1, 3);
                Ok(rustix::fs::mknodat(CWD, at(name), kind, mode(0o600), device)?)
            }
            Call::MakeSymlink(name) => std::os::unix::fs::symlink("target", at(name)),
            Call::Link(original, name) => std::fs::hard_link(at(original), at(name)),
            Call::Unlink(name) => std::fs::remove_file(at(name)),
            Call::RemoveDirectory(name) => std::fs::remove_dir(at(name)),
            Call::Rename(from, to, how) => {
                let flags = match how {
                    Rename::Exchange => RenameFlags::EXCHANGE,
                    Rename::KeepTarget => RenameFlags::NOREPLACE,
                    _ => RenameFlags::empty(),
                };
                Ok(rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags)?)
            }
            Call::Permissions(name, permissions) => {
                let permissions = std::fs::Permissions::from_mode((*permissions).into());
                std::fs::set_permissions(at(name), permissions)
            }
            Call::Owner(name, uid, gid) => std::os::unix::fs::lchown(at(name), *uid, *gid),
            Call::Touch(name) => {
                let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
                times(now, now, &at(name))
            }
            Call::Times(name) => {
                let time = Timespec { tv_sec: 5, tv_nsec: 5 };
                times(time, time, &at(name))
            }
            Call::TimeAlone(name) => {
                let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
                let none = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
                times(now, none, &at(name))
            }
            Call::Truncate(name, size) => {
                // truncate(2) asks for the same as opening to write and cutting.
                let file = rustix::fs::openat(CWD, at(name), OFlags::WRONLY, Mode::empty())?;
                Ok(rustix::fs::ftruncate(file, *size)?)
            }
            Call::SetAttribute(name, attribute, value) => {
                let (path, flags) = (at(name), XattrFlags::empty());
                Ok(rustix::fs::lsetxattr(path, *attribute, value, flags)?)
            }
            Call::GetAttribute(name, attribute) => {
                Ok(rustix::fs::lgetxattr(at(name), *attribute, &mut [0u8; 500][..]).map(drop)?)
            }
            Call::RemoveAttribute(name, attribute) => {
                Ok(rustix::fs::lremovexattr(at(name), *attribute)?)
            }
            Call::Flags(name, set, clear) => {
                let file = std::fs::File::open(at(name))?;
                let flags = rustix::fs::ioctl_getflags(&file)?.bits();
                let flags = IFlags::from_bits_retain(flags & !clear | set);
                Ok(rustix::fs::ioctl_setflags(&file, flags)?)
            }
            Call::List(name) => std::fs::read_dir(at(name)).map(drop),
            Call::Stat(name) => std::fs::symlink_metadata(at(name)).map(drop),
        }
    }

    /// Does it below a folder of the engine's volume; gives the errno, 0 for success.
    fn engine(&self, volume: &Filesystem, folder: &str, who: &Who) -> i32 {
        let caller = who.caller();
        let inodes = volume.inodes_for(&caller);
        let root = volume.inodes().root().expect("a root");
        let folder = inodes.lookup(&root, folder.as_bytes()).expect("a folder");
        let place = Place { inodes, folder, who };
        self.on_volume(&place).err().map_or(0, |error| error.errno())
    }

    fn on_volume(&self, place: &Place<'_>) -> Result<()> {
        let inodes = place.inodes;
        let change =
            |name: &str, change: MetadataChange| inodes.set_metadata(&place.at(name)?, &change);
        let none = MetadataChange::default();
        match self {
            Call::Use(name, rights) => inodes.access(&place.at(name)?, *rights),
            Call::Open(name, rights) => inodes.open(&place.at(name)?, *rights).map(drop),
            Call::MakeFile(name, permissions, umask) => {
                let (parent, name) = place.parent(name)?;
                let new = place.wish(NewKind::File, *permissions, *umask);
                inodes.create_open(&parent, name.as_bytes(), &new).map(drop)
            }
            Call::MakeNameless(name, permissions, umask) => {
                let new = place.wish(NewKind::File, *permissions, *umask);
                inodes.create_nameless(&place.at(name)?, &new).map(drop)
            }
            Call::NameNameless(directory, name, permissions, umask) => {
                let new = place.wish(NewKind::File, *permissions, *umask);
                let (inode, _open) = inodes.create_nameless(&place.at(directory)?, &new)?;
                let (parent, name) = place.parent(name)?;
                inodes.link(&inode, &parent, name.as_bytes())
            }
            Call::MakeDirectory(name, permissions, umask) => {
                // mkdir(2) itself takes the other bits away.
                let permissions = permissions & 0o1777;
                place.make(name, &place.wish(NewKind::Directory, permissions, *umask))
            }
            Call::MakeFifo(name, permissions, umask) => {
                place.make(name, &place.wish(NewKind::Fifo, *permissions, *umask))
            }
            Call::MakeDevice(name) => {
                let kind = NewKind::CharacterDevice(Device { major: 1, minor: 3 });
                place.make(name, &place.wish(kind, 0o600, 0))
            }
            Call::MakeSymlink(name) => {
                place.make(name, &place.wish(NewKind::Symlink(b"target"), 0, 0))
            }
            Call::Link(original, name) => {
                let (inode, (parent, name)) = (place.at(original)?, place.parent(name)?);
                inodes.link(&inode, &parent, name.as_bytes())
            }
            Call::Unlink(name) => {
                let (parent, name) = place.parent(name)?;
                inodes.unlink(&parent, name.as_bytes())
            }
            Call::RemoveDirectory(name) => {
                let (parent, name) = place.parent(name)?;
                inodes.remove_directory(&parent, name.as_bytes())
            }
            Call::Rename(from, to, how) => {
                let ((from, old), (to, new)) = (place.parent(from)?, place.parent(to)?);
                inodes.rename((&from, old.as_bytes()), (&to, new.as_bytes()), *how)
            }
            Call::Permissions(name, permissions) => {
                change(name, MetadataChange { permissions: Some(*permissions), ..none })
            }
            Call::Owner(name, uid, gid) => {
                change(name, MetadataChange { uid: *uid, gid: *gid, ..none })
            }
            Call::Touch(name) => {
                let now = Some(SetTime::Now);
                change(name, MetadataChange { access_time: now, modify_time: now, ..none })
            }
            Call::Times(name) => {
                let time = Some(SetTime::To(LONG_AGO));
                change(name, MetadataChange { access_time: time, modify_time: time, ..none })
            }
            Call::TimeAlone(name) => {
                change(name, MetadataChange { access_time: Some(SetTime::Now), ..none })
            }
            Call::Truncate(name, size) => {
                change(name, MetadataChange { size: Some(*size), ..none })
            }
            Call::SetAttribute(name, attribute, value) => {
                let (inode, attribute) = (place.at(name)?, attribute.as_bytes());
                inodes.set_attribute(&inode, attribute, value, SetAttribute::Any)
            }
            Call::GetAttribute(name, attribute) => {
                inodes.attribute(&place.at(name)?, attribute.as_bytes()).map(drop)
            }
            Call::RemoveAttribute(name, attribute) => {
                inodes.remove_attribute(&place.at(name)?, attribute.as_bytes())
            }
            Call::Flags(name, set, clear) => {
                let inode = place.at(name)?;
                inodes.open(&inode, Rights::READ).map(drop).or_else(|error| {
                    if error.errno() == 21 {
                        inodes.access(&inode, Rights::READ)
                    } else {
                        Err(error)
                    }
                })?;
                inodes.change_flags(&inode, FlagChange { set: *set, clear: *clear })
            }
            Call::List(name) => {
                let inode = place.at(name)?;
                inodes.read_dir(&inode, 0, &mut |_| std::ops::ControlFlow::Continue(()))
            }
            Call::Stat(name) => inodes.metadata(&place.at(name)?).map(drop),
        }
    }
}

fn bits(rights: Rights) -> u16 {
    let all = [(Rights::READ, 4), (Rights::WRITE, 2), (Rights::EXECUTE, 1)];
    all.into_iter().filter(|(right, _)| rights | *right == rights).map(|(_, bit)| bit).sum()
}

/// A folder of the engine's volume, and who acts there.
struct Place<'a> {
    inodes: Inodes<'a>,
    folder: Inode,
    who: &'a Who,
}

impl Place<'_> {
    fn at(&self, path: &str) -> Result<Inode> {
        let mut inode = self.folder.clone();
        for name in path.split('/') {
            inode = self.inodes.lookup(&inode, name.as_bytes())?;
        }
        Ok(inode)
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(Inode, &'p str)> {
        match path.rsplit_once('/') {
            Some((parent, name)) => Ok((self.at(parent)?, name)),
            None => Ok((self.folder.clone(), path)),
        }
    }

    fn wish<'n>(&self, kind: NewKind<'n>, permissions: u16, umask: u16) -> New<'n> {
        New { kind, uid: self.who.uid, gid: self.who.gid, permissions, umask }
    }

    fn make(&self, name: &str, new: &New<'_>) -> Result<()> {
        let (parent, name) = self.parent(name)?;
        self.inodes.create(&parent, name.as_bytes(), new).map(drop)
    }
}

/// A call, by whom, and in what.
pub struct Row {
    pub who: Who,
    pub call: Call,
    /// Which arrangement its folder has.
    pub arrangement: usize,
}

/// Rows that are done to a volume whose folders are filled alike.
pub struct Table {
    pub name: &'static str,
    pub rows: fn() -> Vec<Row>,
    /// Fills a folder with an arrangement.
    pub fill: fn(&Filesystem, &str, usize),
    /// Names that a folder may hold afterwards.
    pub names: &'static [&'static str],
}

const TABLES: [&Table; 2] = [&crate::by_inode::permissions::TABLE, &crate::by_inode::lists::TABLE];

fn folder(number: usize) -> String {
    format!("row{number}")
}

/// What a folder of the kernel's mount holds.
fn of_kernel(folder: &Path, names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        let path = folder.join(name);
        let Ok(metadata) = path.symlink_metadata() else { continue };
        let (uid, gid, links) = (metadata.uid(), metadata.gid(), metadata.nlink());
        let size = if metadata.is_dir() { 0 } else { metadata.size() };
        let lists = [ACCESS, DEFAULT].map(|attribute| {
            let mut value = vec![0u8; 500];
            let length = rustix::fs::lgetxattr(&path, attribute, &mut value[..]).ok()?;
            Some(value[..length].to_vec())
        });
        let mode = metadata.mode();
        found.push(format!("{name}: {mode:o} {uid} {gid} links {links} size {size} {lists:?}"));
    }
    found
}

/// What a folder of the engine's volume holds, in the same words.
fn of_engine(volume: &Filesystem, folder: &str, names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        let path = format!("/{folder}/{name}");
        let Ok(metadata) = volume.symlink_metadata(&path) else { continue };
        let (mode, uid, gid) = (metadata.mode, metadata.uid, metadata.gid);
        let is_directory = metadata.file_type == extant_format::inode::FileType::Directory;
        let (links, size) = (metadata.links, if is_directory { 0 } else { metadata.size });
        let attributes = volume.attributes(&path).expect("lists");
        let lists = [ACCESS, DEFAULT].map(|wanted| {
            let mut found = attributes.iter().filter(|one| one.name == wanted.as_bytes());
            found.next().map(|one| one.value.clone())
        });
        found.push(format!("{name}: {mode:o} {uid} {gid} links {links} size {size} {lists:?}"));
    }
    found
}

/// Does the rows of a table to both, and compares errors and what is left.
pub fn compare(table: &Table) {
    let kind = (Profile::Ext4, 1024, 256, "");
    let specification =
        crate::by_inode::Specification { inodes: 130_000, ..specification(kind, 256 * MIB) };
    let rows = (table.rows)();
    let both = Both::new(&specification, |volume| {
        for (number, row) in rows.iter().enumerate() {
            volume.create_dir(folder(number), 0o755).expect("makes it");
            (table.fill)(volume, &format!("/{}", folder(number)), row.arrangement);
        }
    });
    let kernel = by_kernel(table, &rows, &both);
    let (mut wrong, mut refused) = (Vec::new(), 0);
    for (number, (row, kernel)) in rows.iter().zip(kernel).enumerate() {
        let folder = folder(number);
        let engine = row.call.engine(&both.volume, &folder, &row.who);
        let of_kernel = of_kernel(&both.path(&folder), table.names);
        let of_engine = of_engine(&both.volume, &folder, table.names);
        refused += usize::from(kernel == 13 || kernel == 1);
        let said = format!("{:?}\n  in {} by {:?}", row.call, row.arrangement, row.who);
        if kernel != engine {
            wrong.push(format!("{said}: errno {engine}, the kernel has {kernel}"));
        } else if of_kernel != of_engine {
            let differs = of_engine.iter().zip(&of_kernel).filter(|(one, other)| one != other);
            let differs: Vec<_> = differs.collect();
            wrong.push(format!("{said}: engine and kernel {differs:#?}"));
        }
    }
    println!("{}: {} rows, {refused} refused", table.name, rows.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    both.finish();
}

/// The errno of each row on the kernel's mount: a child for each identity.
fn by_kernel(table: &Table, rows: &[Row], both: &Both) -> Vec<i32> {
    let mut errnos = vec![i32::MIN; rows.len()];
    let mut identities: Vec<String> = Vec::new();
    // The program may be where only root can go.
    let copy = extant_testkit::scratch::Scratch::new("by-inode-child");
    let child = copy.join("child");
    copy_program(std::env::current_exe().expect("a program"), &child);
    std::fs::set_permissions(copy.path(), std::fs::Permissions::from_mode(0o755)).expect("opens");
    for row in rows {
        let identity = format!("{:?}", row.who);
        if identities.contains(&identity) {
            continue;
        }
        let mut command = as_somebody(&row.who);
        command.arg(&child).args(["--exact", "by_inode::caller::child", "--nocapture"]);
        command.env("EXTANT_TABLE", table.name).env("EXTANT_WHO", &identity);
        command.env("EXTANT_MOUNT", both.path("")).current_dir("/");
        let said = output(&mut command).expect("the child runs");
        for line in String::from_utf8_lossy(&said.stdout).lines() {
            if let Some((number, errno)) =
                line.strip_prefix("errno ").and_then(|rest| rest.split_once(' '))
            {
                let number: usize = number.parse().expect("a number");
                errnos[number] = errno.parse().expect("a number");
            }
        }
        identities.push(identity);
    }
    errnos
}

fn as_somebody(who: &Who) -> std::process::Command {
    let mut setpriv = program("setpriv");
    setpriv.args([format!("--reuid={}", who.uid), format!("--regid={}", who.gid)]);
    match who.groups {
        [] => setpriv.arg("--clear-groups"),
        groups => {
            let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
            setpriv.arg(format!("--groups={}", groups.join(",")))
        }
    };
    if let Some((name, _)) = who.privilege {
        setpriv.args([format!("--inh-caps=-all,+{name}"), format!("--ambient-caps=-all,+{name}")]);
    }
    setpriv
}

/// What the child does; nothing in a run of the tests.
#[test]
fn child() {
    let word = |name: &str| std::env::var_os(name);
    let (Some(table), Some(who), Some(mount)) =
        (word("EXTANT_TABLE"), word("EXTANT_WHO"), word("EXTANT_MOUNT"))
    else {
        return;
    };
    let table = TABLES.into_iter().find(|one| table == OsStr::from_bytes(one.name.as_bytes()));
    let rows = (table.expect("a table").rows)();
    for (number, row) in rows.iter().enumerate() {
        if who == OsStr::new(&format!("{:?}", row.who)) {
            let errno = row.call.kernel(&Path::new(&mount).join(folder(number)));
            println!("errno {number} {errno}");
        }
    }
}
