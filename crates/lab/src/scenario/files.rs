//! Single files: remove, stat, read, append, truncate, overwrite, rewrite, rename, link; create,
//! mkdir, symlink; copy.
use super::choosing::Chosen;
use super::process::{Call, Outcome, Stop, Worker};
use super::step::{Among, Deed, Durability, Order, Renewal, Targets};
use super::walk::DEPTH_MAX;
use extant_engine::{ErrorKind, File, Filesystem, Rename};
use extant_format::inode::FileType;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is written at once.
const PIECE: usize = 64 << 10;
/// What the name of a file that is written beside another one ends with.
const BESIDE: &str = ".new";

fn content() -> Vec<u8> {
    (b'a'..=b'z').chain([b'\n']).cycle().take(PIECE).collect()
}

/// Refuses an overwriting of one file that had less to overwrite than was asked for.
fn enough(path: &Path, renewal: &Renewal, written: u64) -> Outcome {
    match renewal.bytes {
        Some((least, _)) if written < least => Err(Stop::Failed(format!(
            "{}: {least} bytes were to be overwritten, and only {written} lie there",
            path.display()
        ))),
        _ => Ok(()),
    }
}

impl Worker {
    /// Does something with each of the chosen files.
    pub(super) fn work_on(&mut self, targets: &Targets, deed: &Deed) -> Outcome {
        let choice = self.choose(targets, deed)?;
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        for file in &choice.files {
            self.do_to(&in_use.filesystem, targets, deed, file)?;
            if deed.takes_name()
                && let Some(register) = &choice.register
            {
                world.take_away(register, file.number as u32);
            }
        }
        Ok(())
    }

    fn do_to(
        &mut self,
        filesystem: &Filesystem,
        targets: &Targets,
        deed: &Deed,
        file: &Chosen,
    ) -> Outcome {
        let path = Path::new(&file.path);
        self.work.files += 1;
        match deed {
            Deed::Remove => self.unlink(filesystem, path),
            Deed::Stat => self.call(Call::Stat, || filesystem.symlink_metadata(path)).map(drop),
            Deed::Read { chunk } => {
                let mut buffer = vec![0; *chunk as usize];
                self.read_file(filesystem, path, &mut buffer)
            }
            Deed::Append(renewal) => {
                let open = self.open_one(filesystem, path)?;
                let size = self.call(Call::Stat, || open.metadata())?.size;
                let bytes = self.bytes_of(renewal, size);
                self.write_span(&open, path, (size, bytes), renewal.durability)
            }
            Deed::Truncate { bytes } => {
                let open = self.open_one(filesystem, path)?;
                self.call(Call::Change, || open.set_len(*bytes).map_err(|error| error.at(path)))
            }
            Deed::Overwrite { renewal, offset } => {
                let written = self.overwrite(filesystem, path, renewal, *offset)?;
                match targets.among {
                    Among::Path => enough(path, renewal, written),
                    Among::Tree(_) | Among::Found(_) => Ok(()),
                }
            }
            Deed::Rewrite(renewal) => self.rewrite(filesystem, path, renewal),
            Deed::Rename { to } => {
                let to = self.numbered(to, file);
                self.call(Call::Change, || filesystem.rename(path, &to, Rename::Replace))
            }
            Deed::Link { to } => {
                let to = self.numbered(to, file);
                self.call(Call::Make, || filesystem.hard_link(path, &to))
            }
        }
    }

    /// A path with the number of a file in it: among those that it was chosen from.
    fn numbered(&self, pattern: &str, file: &Chosen) -> String {
        self.path(&pattern.replace("%d", &file.number.to_string()))
    }

    fn bytes_of(&mut self, renewal: &Renewal, size: u64) -> u64 {
        match renewal.bytes {
            None => size,
            Some((least, most)) if least == most => least,
            Some((least, most)) => self.random.within(least..most.saturating_add(1)),
        }
    }

    fn open_one(&mut self, filesystem: &Filesystem, path: &Path) -> Outcome<File> {
        self.call(Call::Open, || filesystem.open_file(path))
    }

    /// A name; a directory has to be empty.
    fn unlink(&mut self, filesystem: &Filesystem, path: &Path) -> Outcome {
        self.call(Call::Remove, || match filesystem.remove_file(path) {
            Err(error) if matches!(error.kind, ErrorKind::IsDirectory) => {
                filesystem.remove_dir(path)
            }
            result => result,
        })
    }

    /// Writes so many bytes from an offset on, and waits for them if wanted.
    fn write_span(
        &mut self,
        file: &File,
        path: &Path,
        (offset, bytes): (u64, u64),
        durability: Durability,
    ) -> Outcome {
        let content = content();
        let end = offset.saturating_add(bytes);
        let mut at = offset;
        while at < end {
            let length = (end - at).min(PIECE as u64) as usize;
            self.write_at(file, path, at, &content[..length])?;
            at += length as u64;
        }
        match durability {
            Durability::Synced => self.call(Call::Sync, || file.sync()),
            Durability::Cached => Ok(()),
        }
    }

    /// Returns how many bytes were written.
    fn overwrite(
        &mut self,
        filesystem: &Filesystem,
        path: &Path,
        renewal: &Renewal,
        offset: Option<u64>,
    ) -> Outcome<u64> {
        let file = self.open_one(filesystem, path)?;
        let size = self.call(Call::Stat, || file.metadata())?.size;
        // No byte beyond the file's last one: that would be an append.
        let bytes = self.bytes_of(renewal, size).min(size.saturating_sub(offset.unwrap_or(0)));
        let offset = match offset {
            Some(offset) => offset,
            None => self.random.below(size - bytes + 1),
        };
        self.write_span(&file, path, (offset, bytes), renewal.durability)?;
        Ok(bytes)
    }

    fn rewrite(&mut self, filesystem: &Filesystem, path: &Path, renewal: &Renewal) -> Outcome {
        let size = self.call(Call::Stat, || filesystem.symlink_metadata(path))?.size;
        let bytes = self.bytes_of(renewal, size);
        let mut beside = path.as_os_str().to_owned();
        beside.push(BESIDE);
        let beside = PathBuf::from(beside);
        let file = self.call(Call::Create, || filesystem.create_file(&beside, 0o644))?;
        self.write_span(&file, &beside, (0, bytes), renewal.durability)?;
        drop(file);
        self.call(Call::Change, || filesystem.rename(&beside, path, Rename::Replace))
    }

    pub(super) fn create(
        &mut self,
        path: &str,
        bytes: (u64, u64),
        durability: Durability,
    ) -> Outcome {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let filesystem = &in_use.filesystem;
        let path = Path::new(path);
        let renewal = Renewal { bytes: Some(bytes), durability };
        let bytes = self.bytes_of(&renewal, 0);
        let file = self.call(Call::Create, || filesystem.create_file(path, 0o644))?;
        self.work.files += 1;
        self.write_span(&file, path, (0, bytes), durability)
    }

    pub(super) fn symlink(&mut self, path: &str, target: &str) -> Outcome {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        self.work.files += 1;
        self.call(Call::Make, || in_use.filesystem.symlink(target, path))
    }

    pub(super) fn make_directories(&mut self, path: &str) -> Outcome {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        self.make_top(&in_use.filesystem, path)
    }

    /// As `cp -r`: a directory is made, then what is in it is copied in the order of readdir.
    pub(super) fn copy(&mut self, at: &str, to: &str, chunk: u64) -> Outcome {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let filesystem = &in_use.filesystem;
        let mut buffer = vec![0; chunk as usize];
        let mut left = vec![(PathBuf::from(at), PathBuf::from(to), 0)];
        while let Some((from, to, depth)) = left.pop() {
            let file_type = self.call(Call::Stat, || filesystem.symlink_metadata(&from))?.file_type;
            match file_type {
                FileType::Directory if depth >= DEPTH_MAX => {
                    let reason = format!("{}: directories lie too deep", from.display());
                    return Err(Stop::Failed(reason));
                }
                FileType::Directory => {
                    self.make_directory(filesystem, &to)?;
                    let names = self.names(filesystem, &from, Order::Directory)?;
                    left.extend(
                        names.iter().rev().filter(|entry| entry.name != b"lost+found").map(
                            |entry| {
                                let name = super::walk::name(entry);
                                (from.join(name), to.join(name), depth + 1)
                            },
                        ),
                    );
                }
                FileType::Regular => self.copy_file(filesystem, &from, &to, &mut buffer)?,
                FileType::Symlink => {
                    let target = self.call(Call::Read, || filesystem.read_link(&from))?;
                    let target = super::walk::as_path(&target);
                    self.call(Call::Make, || filesystem.symlink(target, &to))?;
                    self.work.files += 1;
                }
                // Devices, sockets and fifos have nothing to copy.
                _ => {}
            }
        }
        Ok(())
    }

    fn copy_file(
        &mut self,
        filesystem: &Filesystem,
        from: &Path,
        to: &Path,
        buffer: &mut [u8],
    ) -> Outcome {
        let source = self.open_one(filesystem, from)?;
        let copy = self.call(Call::Create, || filesystem.create_file(to, 0o644))?;
        self.work.files += 1;
        let mut offset = 0;
        loop {
            let length = self.read_at(&source, from, offset, buffer)?;
            self.write_at(&copy, to, offset, &buffer[..length])?;
            offset += length as u64;
            if length < buffer.len() {
                return Ok(());
            }
        }
    }
}
