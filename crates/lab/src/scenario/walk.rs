//! Walks over trees that are on the volume: find, stat, read, tar, diff, remove, ls, getdents.
use super::process::{Call, Outcome, Stop, Worker};
use super::step::{Detail, End, Order, Task};
use crate::report::ListingCall;
use extant_engine::{DirectoryEntry, File, Filesystem};
use extant_format::inode::FileType;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What glibc's readdir asks for at once.
const LISTING_BYTES: usize = 32 << 10;
/// Directories lie at most so deep: a volume whose directories contain each other is damaged.
pub(super) const DEPTH_MAX: usize = 4096;

/// What GNU diff reads of each file before the rest: `st_blksize` of the time.
const FIRST_BYTES: u64 = 4096;
/// The rest of a file is read at once up to this many bytes.
const REST_BYTES_MAX: u64 = 16 << 20;

/// How two files are compared, and the memory for it.
struct Compared {
    chunk: Option<u64>,
    first: Vec<u8>,
    second: Vec<u8>,
}

impl Compared {
    fn new(chunk: Option<u64>) -> Compared {
        Compared { chunk, first: Vec::new(), second: Vec::new() }
    }

    fn grow(&mut self, bytes: usize) {
        if self.first.len() < bytes {
            self.first.resize(bytes, 0);
            self.second.resize(bytes, 0);
        }
    }
}

/// Something that was found: where, and what its directory says of it.
struct Found {
    path: PathBuf,
    entry: DirectoryEntry,
}

pub(super) fn name(entry: &DirectoryEntry) -> &OsStr {
    OsStr::from_bytes(&entry.name)
}

/// Bytes of a volume as a path.
pub(super) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

impl Worker {
    /// The names of a directory but "." and "..", in the order of readdir, sorted or shuffled.
    pub(super) fn names(
        &mut self,
        filesystem: &Filesystem,
        directory: &Path,
        order: Order,
    ) -> Outcome<Vec<DirectoryEntry>> {
        let mut stream = self.call(Call::Open, || filesystem.open_dir(directory))?;
        let mut names = Vec::new();
        loop {
            let entries = self.call(Call::List, || {
                stream.next_entries(LISTING_BYTES).map_err(|error| error.at(directory))
            })?;
            if entries.is_empty() {
                break;
            }
            names.extend(
                entries.into_iter().filter(|entry| !matches!(&entry.name[..], b"." | b"..")),
            );
        }
        match order {
            Order::Name => names.sort_by(|one, other| one.name.cmp(&other.name)),
            Order::Random => self.random.shuffle(&mut names),
            Order::Directory | Order::Inode => {}
        }
        self.work.directories += 1;
        Ok(names)
    }

    /// What an entry is; looked up where the directory does not say.
    pub(super) fn file_type(
        &mut self,
        filesystem: &Filesystem,
        path: &Path,
        entry: &DirectoryEntry,
    ) -> Outcome<FileType> {
        match entry.file_type {
            Some(file_type) => Ok(file_type),
            None => Ok(self.call(Call::Stat, || filesystem.symlink_metadata(path))?.file_type),
        }
    }

    /// Until everything was met, or what ends it happens.
    pub(super) fn walk(
        &mut self,
        at: &str,
        task: Task,
        order: Order,
        chunk: u64,
        end: Option<End>,
    ) -> Outcome {
        match self.walk_on(at, task, order, chunk, end) {
            Err(Stop::Over) => Ok(()),
            outcome => outcome,
        }
    }

    fn walk_on(
        &mut self,
        at: &str,
        task: Task,
        order: Order,
        chunk: u64,
        end: Option<End>,
    ) -> Outcome {
        let started = self.world.time.settled();
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let filesystem = &in_use.filesystem;
        let mut buffer = vec![0; chunk as usize];
        if order == Order::Inode {
            let mut found = Vec::new();
            self.each(filesystem, Path::new(at), order, &mut |worker, one| {
                worker.go_on(end, started)?;
                worker.file_type(filesystem, &one.path, &one.entry)?;
                found.push((one.entry.ino, one.path, one.entry.file_type));
                Ok(())
            })?;
            found.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
            for (ino, path, file_type) in found {
                let name = Vec::new();
                let entry = DirectoryEntry { name, ino, file_type, stored: None };
                self.go_on(end, started)?;
                self.visit(filesystem, task, &Found { path, entry }, &mut buffer)?;
            }
            return Ok(());
        }
        self.each(filesystem, Path::new(at), order, &mut |worker, one| {
            worker.go_on(end, started)?;
            worker.visit(filesystem, task, &one, &mut buffer)
        })
    }

    /// The paths of all files below a directory, in this order; a file is found by listing.
    pub(super) fn files_below(&mut self, at: &str, order: Order) -> Outcome<Vec<String>> {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let filesystem = &in_use.filesystem;
        let mut found = Vec::new();
        self.each(filesystem, Path::new(at), order, &mut |worker, one| {
            if worker.file_type(filesystem, &one.path, &one.entry)? != FileType::Directory {
                let path =
                    one.path.to_str().map(str::to_owned).ok_or_else(|| {
                        Stop::Failed(format!("{}: is no text", one.path.display()))
                    })?;
                found.push((one.entry.ino, path));
            }
            Ok(())
        })?;
        if order == Order::Inode {
            found.sort();
        }
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }

    /// Whether a walk that began at `started` goes on.
    fn go_on(&self, end: Option<End>, started: u64) -> Outcome {
        match end.is_some_and(|end| self.is_over(end, started)) {
            true => Err(Stop::Over),
            false => Ok(()),
        }
    }

    /// Calls `visit` for everything below a directory: each directory's names were listed before
    /// the first of them is visited, and a directory is visited before what is in it.
    fn each(
        &mut self,
        filesystem: &Filesystem,
        top: &Path,
        order: Order,
        visit: &mut dyn FnMut(&mut Worker, Found) -> Outcome,
    ) -> Outcome {
        let names = self.names(filesystem, top, order)?;
        let mut stack = vec![(top.to_owned(), names.into_iter())];
        while let Some((directory, names)) = stack.last_mut() {
            let Some(entry) = names.next() else {
                stack.pop();
                continue;
            };
            let path = directory.join(name(&entry));
            let file_type = self.file_type(filesystem, &path, &entry)?;
            visit(self, Found { path: path.clone(), entry })?;
            if file_type == FileType::Directory {
                if stack.len() >= DEPTH_MAX {
                    return Err(Stop::Failed(format!(
                        "{}: directories lie too deep",
                        path.display()
                    )));
                }
                let names = self.names(filesystem, &path, order)?;
                stack.push((path, names.into_iter()));
            }
        }
        Ok(())
    }

    fn visit(
        &mut self,
        filesystem: &Filesystem,
        task: Task,
        found: &Found,
        buffer: &mut [u8],
    ) -> Outcome {
        let path = &found.path;
        let mut file_type = found.entry.file_type;
        if matches!(task, Task::Stat | Task::Archive) || file_type.is_none() {
            file_type =
                Some(self.call(Call::Stat, || filesystem.symlink_metadata(path))?.file_type);
        }
        if file_type != Some(FileType::Directory) {
            self.work.files += 1;
        }
        match (task, file_type) {
            (Task::Read | Task::Archive, Some(FileType::Regular)) => {
                self.read_file(filesystem, path, buffer)
            }
            (Task::Archive, Some(FileType::Symlink)) => {
                self.call(Call::Read, || filesystem.read_link(path)).map(drop)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn read_file(
        &mut self,
        filesystem: &Filesystem,
        path: &Path,
        buffer: &mut [u8],
    ) -> Outcome {
        let file = self.call(Call::Open, || filesystem.open_file(path))?;
        let mut offset = 0;
        loop {
            let length = self.read_at(&file, path, offset, buffer)?;
            offset += length as u64;
            if length < buffer.len() {
                return Ok(());
            }
        }
    }

    /// Reads once; fewer bytes than asked for only at the end.
    pub(super) fn read_at(
        &mut self,
        file: &File,
        path: &Path,
        offset: u64,
        buffer: &mut [u8],
    ) -> Outcome<usize> {
        let length =
            self.call(Call::Read, || file.read_at(offset, buffer).map_err(|error| error.at(path)))?;
        self.work.bytes_read += length as u64;
        Ok(length)
    }

    pub(super) fn diff(&mut self, at: &str, with: &str, chunk: Option<u64>) -> Outcome {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let filesystem = &in_use.filesystem;
        let mut buffers = Compared::new(chunk);
        let mut pairs = vec![(PathBuf::from(at), PathBuf::from(with))];
        while let Some((one, other)) = pairs.pop() {
            if pairs.len() > DEPTH_MAX * DEPTH_MAX {
                return Err(Stop::Failed(format!("{}: too many directories", one.display())));
            }
            let names = self.names(filesystem, &one, Order::Name)?;
            let others = self.names(filesystem, &other, Order::Name)?;
            let others: BTreeSet<Vec<u8>> = others.into_iter().map(|entry| entry.name).collect();
            let common = names.iter().filter(|entry| others.contains(&entry.name)).count();
            self.work.differences += (names.len() - common + others.len() - common) as u64;
            let mut directories = Vec::new();
            for entry in names.iter().filter(|entry| others.contains(&entry.name)) {
                let (one, other) = (one.join(name(entry)), other.join(name(entry)));
                let types = [&one, &other].map(|path| {
                    let stat = self.call(Call::Stat, || filesystem.symlink_metadata(path));
                    stat.map(|metadata| metadata.file_type)
                });
                let [first, second] = types;
                match (first?, second?) {
                    (FileType::Directory, FileType::Directory) => directories.push((one, other)),
                    (FileType::Regular, FileType::Regular) => {
                        self.compare(filesystem, (&one, &other), &mut buffers)?
                    }
                    (one, other) => self.work.differences += u64::from(one != other),
                }
            }
            pairs.extend(directories.into_iter().rev());
        }
        Ok(())
    }

    /// Reads two files in turn, as far as they agree: piece by piece, or as GNU diff does, a
    /// buffer of each to see whether they are text, then the rest of the one, then of the other.
    fn compare(
        &mut self,
        filesystem: &Filesystem,
        (one, other): (&Path, &Path),
        buffers: &mut Compared,
    ) -> Outcome {
        let file = self.call(Call::Open, || filesystem.open_file(one))?;
        let twin = self.call(Call::Open, || filesystem.open_file(other))?;
        self.work.files += 2;
        let mut offset = 0;
        loop {
            let bytes = match buffers.chunk {
                Some(chunk) => chunk,
                None if offset == 0 => FIRST_BYTES,
                None => {
                    let sizes = (self.size(&file)?, self.size(&twin)?);
                    let rest = sizes.0.max(sizes.1).saturating_sub(offset);
                    rest.clamp(FIRST_BYTES, REST_BYTES_MAX)
                }
            } as usize;
            buffers.grow(bytes);
            let Compared { first, second, .. } = buffers;
            let length = self.read_at(&file, one, offset, &mut first[..bytes])?;
            let also = self.read_at(&twin, other, offset, &mut second[..bytes])?;
            if first[..length] != second[..also] {
                self.work.differences += 1;
                return Ok(());
            }
            offset += length as u64;
            if length < bytes {
                return Ok(());
            }
        }
    }

    /// The size of an open file: known to the caller from opening it.
    fn size(&self, file: &File) -> Outcome<u64> {
        Ok(file.metadata().map_err(|error| Stop::Failed(error.to_string()))?.size)
    }

    pub(super) fn remove(&mut self, at: &str) -> Outcome {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let filesystem = &in_use.filesystem;
        let top = PathBuf::from(at);
        let names = self.names(filesystem, &top, Order::Directory)?;
        let mut stack = vec![(top, names.into_iter())];
        while let Some((directory, names)) = stack.last_mut() {
            let Some(entry) = names.next() else {
                let directory = directory.clone();
                stack.pop();
                // The root stays.
                if directory != Path::new("/") {
                    self.call(Call::Remove, || filesystem.remove_dir(&directory))?;
                }
                continue;
            };
            let path = directory.join(name(&entry));
            if directory == Path::new("/") && entry.name == b"lost+found" {
                continue;
            }
            if self.file_type(filesystem, &path, &entry)? != FileType::Directory {
                self.call(Call::Remove, || filesystem.remove_file(&path))?;
                self.work.files += 1;
            } else if stack.len() >= DEPTH_MAX {
                return Err(Stop::Failed(format!("{}: directories lie too deep", path.display())));
            } else {
                let names = self.names(filesystem, &path, Order::Directory)?;
                stack.push((path, names.into_iter()));
            }
        }
        Ok(())
    }

    pub(super) fn list(&mut self, at: &str, detail: Detail) -> Outcome {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let names = self.names(&in_use.filesystem, Path::new(at), Order::Directory)?;
        for entry in &names {
            if detail == Detail::Long {
                let path = Path::new(at).join(name(entry));
                self.call(Call::Stat, || in_use.filesystem.symlink_metadata(&path))?;
            }
            self.work.files += 1;
        }
        Ok(())
    }

    pub(super) fn getdents(&mut self, at: &str, buffer_bytes: u32) -> Outcome {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let mut stream = self.call(Call::Open, || in_use.filesystem.open_dir(at))?;
        self.work.directories += 1;
        loop {
            let before = self.world.time.settled();
            let entries = self.call(Call::List, || {
                stream.next_entries(buffer_bytes as usize).map_err(|error| error.at(at))
            })?;
            let elapsed_ns = self.world.time.settled() - before;
            let bytes = entries
                .iter()
                .map(|entry| extant_engine::record_bytes(entry.name.len()) as u64)
                .sum();
            self.work.files += entries.len() as u64;
            self.listings.push(ListingCall { entries: entries.len() as u64, bytes, elapsed_ns });
            if entries.is_empty() {
                return Ok(());
            }
        }
    }

    /// From the top down by chance until a file is met, which is read somewhere; each step waits
    /// for the one before.
    pub(super) fn program(&mut self, at: &str, reads: u64, bytes: u64) -> Outcome {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let filesystem = &in_use.filesystem;
        let mut buffer = vec![0; bytes as usize];
        for _ in 0..world.scaled(reads) {
            let mut path = PathBuf::from(at);
            for depth in 0..DEPTH_MAX {
                let mut names = self.names(filesystem, &path, Order::Directory)?;
                names.retain(|entry| entry.name != b"lost+found");
                // A directory without entries below it is one of the places that chance leads to.
                if names.is_empty() && depth == 0 {
                    return Err(Stop::Failed(format!("{at}: holds no file to read")));
                }
                if names.is_empty() {
                    break;
                }
                let entry = names.swap_remove(self.random.below(names.len() as u64) as usize);
                path.push(name(&entry));
                match self.file_type(filesystem, &path, &entry)? {
                    FileType::Directory => continue,
                    FileType::Regular => self.read_somewhere(filesystem, &path, &mut buffer)?,
                    _ => {}
                }
                break;
            }
        }
        Ok(())
    }

    fn read_somewhere(
        &mut self,
        filesystem: &Filesystem,
        path: &Path,
        buffer: &mut [u8],
    ) -> Outcome {
        let file = self.call(Call::Open, || filesystem.open_file(path))?;
        let size = self.call(Call::Stat, || file.metadata())?.size;
        let pieces = size.div_ceil(buffer.len() as u64);
        let offset = self.random.below(pieces) * buffer.len() as u64;
        self.work.files += 1;
        self.read_at(&file, path, offset, buffer).map(drop)
    }
}
