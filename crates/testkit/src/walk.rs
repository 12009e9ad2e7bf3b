//! A tree as the kernel shows it: every attribute of every entry, and a digest of its bytes.
//!
//! One folder is open at a time and every name is looked up from it, so that a chain of ten
//! thousand folders, whose path no system call takes, is walked like any other. The tree must not
//! change meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

/// The type of an entry; the names are those of the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file: `file`.
    File,
    /// A directory: `directory`.
    Directory,
    /// A symbolic link: `symlink`.
    Symlink,
    /// A character device: `character-device`.
    CharacterDevice,
    /// A block device: `block-device`.
    BlockDevice,
    /// A named pipe: `fifo`.
    Fifo,
    /// A socket: `socket`.
    Socket,
}

impl Kind {
    /// Every kind with its name in the listing.
    pub const NAMES: [(Kind, &'static str); 7] = [
        (Kind::File, "file"),
        (Kind::Directory, "directory"),
        (Kind::Symlink, "symlink"),
        (Kind::CharacterDevice, "character-device"),
        (Kind::BlockDevice, "block-device"),
        (Kind::Fifo, "fifo"),
        (Kind::Socket, "socket"),
    ];

    fn of_mode(mode: u32) -> Option<Kind> {
        Some(match FileType::from_raw_mode(mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink,
            FileType::CharacterDevice => Kind::CharacterDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            _ => return None,
        })
    }
}

/// Seconds since 1970 (negative before) and nanoseconds within the second.
pub type Time = (i64, u32);

/// What one name of a tree leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From the root of the tree, without a slash in front; empty for the root itself.
    pub path: PathBuf,
    /// The type.
    pub kind: Kind,
    /// The inode number.
    pub ino: u64,
    /// The twelve bits of permission.
    pub mode: u32,
    /// How many names the inode has.
    pub links: u32,
    /// The owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Last read.
    pub atime: Time,
    /// Content changed.
    pub mtime: Time,
    /// Inode changed.
    pub ctime: Time,
    /// Made; where the file system keeps it.
    pub crtime: Option<Time>,
    /// Major and minor number; (0, 0) unless this is a device.
    pub device: (u32, u32),
    /// Where a symbolic link leads.
    pub target: Option<Vec<u8>>,
    /// Every extended attribute, raw, as `lgetxattr` returns it (ACLs as `system.posix_acl_*`).
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first path, in the order of bytes, of those which share this inode; none for a
    /// directory.
    pub first_name: Option<PathBuf>,
    /// Byte ranges which hold data, by SEEK_DATA and SEEK_HOLE; if asked for.
    pub data: Option<Vec<(u64, u64)>>,
    /// A digest of the bytes that does not tell a hole from zeros; for regular files, if asked for.
    pub digest: Option<[u8; 32]>,
    /// The SHA-256 of the bytes; for regular files, if asked for.
    pub sha256: Option<[u8; 32]>,
}

/// What is read of each file beside its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// The map of data and holes.
    pub holes: bool,
    /// The digest that skips holes.
    pub digest: bool,
    /// The SHA-256, which reads holes as zeros.
    pub sha256: bool,
}

/// Every entry below `root`, the root included, sorted by the bytes of the path; those whose path
/// begins with one of `excluded` are left out.
///
/// # Errors
/// The path and the system's word for what cannot be read.
pub fn walk(root: &Path, depth: Depth, excluded: &BTreeSet<PathBuf>) -> Result<Vec<Entry>, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = fs::openat(CWD, root, flags, Mode::empty())
        .map_err(|error| format!("{}: {error}", root.display()))?;
    let mut walker = Walker {
        depth,
        excluded,
        entries: Vec::new(),
        folder,
        path: PathBuf::new(),
        pending: Vec::new(),
    };
    walker.visit(b".")?;
    walker.descend(b".")?;
    while let Some(names) = walker.pending.last_mut() {
        match names.pop() {
            None => walker.ascend()?,
            Some(name) => {
                if walker.visit(&name)? == Some(Kind::Directory) {
                    walker.descend(&name)?;
                }
            }
        }
    }
    let mut entries = walker.entries;
    entries.sort_by(|left, right| {
        left.path.as_os_str().as_bytes().cmp(right.path.as_os_str().as_bytes())
    });
    name_links(&mut entries);
    Ok(entries)
}

/// Gives every entry the first name of its inode.
pub fn name_links(entries: &mut [Entry]) {
    let mut first: BTreeMap<u64, PathBuf> = BTreeMap::new();
    for entry in entries.iter_mut().filter(|entry| entry.kind != Kind::Directory) {
        entry.first_name =
            Some(first.entry(entry.ino).or_insert_with(|| entry.path.clone()).clone());
    }
}

/// Where the walk is: the open folder, its path, and the names still to visit on every level
/// above and here.
struct Walker<'a> {
    depth: Depth,
    excluded: &'a BTreeSet<PathBuf>,
    entries: Vec<Entry>,
    folder: OwnedFd,
    path: PathBuf,
    pending: Vec<Vec<Vec<u8>>>,
}

impl Walker<'_> {
    /// Records the entry `name` of the open folder; returns its kind unless it is excluded.
    fn visit(&mut self, name: &[u8]) -> Result<Option<Kind>, String> {
        let path =
            if name == b"." { PathBuf::new() } else { self.path.join(OsStr::from_bytes(name)) };
        if self.excluded.contains(&path) {
            return Ok(None);
        }
        let entry = self
            .entry(name, path.clone())
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let kind = entry.kind;
        self.entries.push(entry);
        Ok(Some(kind))
    }

    fn descend(&mut self, name: &[u8]) -> Result<(), String> {
        if name != b"." {
            self.path.push(OsStr::from_bytes(name));
        }
        let names =
            self.enter(name).map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.pending.push(names);
        Ok(())
    }

    /// Opens the folder `name` and reads its names.
    fn enter(&mut self, name: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.folder = fs::openat(&self.folder, name, flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    fn ascend(&mut self) -> Result<(), String> {
        self.pending.pop();
        if !self.pending.is_empty() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.folder = fs::openat(&self.folder, "..", flags, Mode::empty())
                .map_err(|error| format!("{}/..: {error}", self.path.display()))?;
            self.path.pop();
        }
        Ok(())
    }

    fn entry(&self, name: &[u8], path: PathBuf) -> Result<Entry, Errno> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = fs::statx(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW, mask)?;
        let mode = u32::from(stat.stx_mode);
        let kind = Kind::of_mode(mode).ok_or(Errno::INVAL)?;
        let time = |time: fs::StatxTimestamp| (time.tv_sec, time.tv_nsec);
        let has_birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let mut entry = Entry {
            path,
            kind,
            ino: stat.stx_ino,
            mode: mode & 0o7777,
            links: stat.stx_nlink,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            size: stat.stx_size,
            atime: time(stat.stx_atime),
            mtime: time(stat.stx_mtime),
            ctime: time(stat.stx_ctime),
            crtime: has_birth.then(|| time(stat.stx_btime)),
            device: (stat.stx_rdev_major, stat.stx_rdev_minor),
            target: None,
            attributes: attributes(&self.folder, name)?,
            first_name: None,
            data: None,
            digest: None,
            sha256: None,
        };
        match kind {
            Kind::Symlink => {
                entry.target = Some(fs::readlinkat(&self.folder, name, Vec::new())?.into_bytes())
            }
            Kind::File if self.depth != Depth::default() => self.content(name, &mut entry)?,
            _ => {}
        }
        Ok(entry)
    }

    /// Fills in what the walk's depth asks of a regular file.
    fn content(&self, name: &[u8], entry: &mut Entry) -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(fs::openat(&self.folder, name, flags, Mode::empty())?);
        let data = data_ranges(&file, entry.size)?;
        if self.depth.digest {
            entry.digest = Some(digest(&file, &data)?);
        }
        if self.depth.sha256 {
            entry.sha256 = Some(sha256(&file)?);
        }
        entry.data = self.depth.holes.then_some(data);
        Ok(())
    }
}

/// Every extended attribute of the entry `name` in `folder`, without following a link.
fn attributes(folder: &OwnedFd, name: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
    // There is no call that takes a folder and a name; the folder has a path in /proc.
    let mut path = format!("/proc/self/fd/{}/", folder.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
    // The kernel's limit for a list of names and for a value.
    let mut buffer = vec![0; 65536];
    let length = match fs::llistxattr(&path, &mut buffer[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(error) => return Err(error),
    };
    let names: Vec<Vec<u8>> =
        buffer[..length].split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    let mut attributes = BTreeMap::new();
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        let length = fs::lgetxattr(&path, &name[..], &mut buffer[..])?;
        attributes.insert(name, buffer[..length].to_vec());
    }
    Ok(attributes)
}

/// The byte ranges (start, end) that hold data, joined where they touch.
fn data_ranges(file: &File, size: u64) -> Result<Vec<(u64, u64)>, Errno> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error),
        };
        let end = fs::seek(file, SeekFrom::Hole(start))?.min(size);
        if end <= start {
            // Linux 6.18 shows a block of ext4 that waits for its place as data and as a hole.
            at = (start + 1).next_multiple_of(512);
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => ranges.push((start, end)),
        }
        at = end;
    }
    Ok(ranges)
}

/// The grain at which zeros are left out of a digest.
const CHUNK: usize = 4096;

/// The digest of `ranges`: of every chunk that is not all zeros, its place and its bytes.
fn digest(file: &File, ranges: &[(u64, u64)]) -> Result<[u8; 32], Errno> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 * CHUNK];
    let mut done = 0;
    for (start, end) in ranges {
        // Ranges may begin within a chunk, and two may share one: a chunk's place must not depend
        // on where they do, and it counts once.
        let mut at = (start - start % CHUNK as u64).max(done);
        while at < *end {
            let length = read_at(file, &mut buffer, at)?;
            if length == 0 {
                break;
            }
            let upto =
                usize::try_from(end.next_multiple_of(CHUNK as u64) - at).unwrap_or(usize::MAX);
            for (index, chunk) in buffer[..length.min(upto)].chunks(CHUNK).enumerate() {
                if chunk.iter().any(|byte| *byte != 0) {
                    hash.update((at + (index * CHUNK) as u64).to_le_bytes());
                    hash.update(chunk);
                }
            }
            at += length.min(upto) as u64;
        }
        done = end.next_multiple_of(CHUNK as u64);
    }
    Ok(hash.finalize().into())
}

/// Reads until `buffer` is full or the file ends.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(file, &mut buffer[filled..], at + filled as u64)? {
            0 => break,
            length => filled += length,
        }
    }
    Ok(filled)
}

fn sha256(file: &File) -> Result<[u8; 32], Errno> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    fs::seek(file, SeekFrom::Start(0))?;
    loop {
        match (&mut &*file).read(&mut buffer) {
            Ok(0) => return Ok(hash.finalize().into()),
            Ok(length) => hash.update(&buffer[..length]),
            Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }
}
