//! Trees onto the volume: make-tree, untar, make-directories, create-files.
use super::process::{Call, Outcome, Stop, Worker};
use super::step::MakeStyle;
use super::tree::{Entry, TreeSpec};
use extant_engine::{Change, ErrorKind, Filesystem};
use extant_format::inode::Time;
use std::path::Path;
use std::sync::Arc;

/// What is written at once.
const PIECE: usize = 64 << 10;

/// When everything in archives was changed last: the day of the first post.
const ARCHIVE_TIME: Time = Time { seconds: 1_004_908_739, nanoseconds: 0 };

impl Worker {
    pub(super) fn make(&mut self, at: &str, spec: &TreeSpec, style: MakeStyle) -> Outcome {
        let tree = self.tree(spec)?;
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let filesystem = &in_use.filesystem;
        self.make_top(filesystem, at)?;
        let content: Vec<u8> = (b'a'..=b'z').chain([b'\n']).cycle().take(PIECE).collect();
        // The path of the directory that the last file went to.
        let mut directory = (usize::MAX, String::new());
        for entry in tree.entries() {
            match entry {
                Entry::Directory(number) => {
                    self.make_directory(filesystem, &tree.directory_path(at, number))?
                }
                Entry::File(number) => {
                    let parent = tree.directory_of(number);
                    if directory.0 != parent {
                        directory = (parent, tree.directory_path(at, parent));
                    }
                    let path =
                        format!("{}/{}", directory.1.trim_end_matches('/'), tree.file_name(number));
                    self.make_file(filesystem, &path, tree.bytes(number), style, &content)?;
                }
            }
        }
        if matches!(style, MakeStyle::Archive { .. }) {
            for number in (1..=tree.totals().directories as usize).rev() {
                self.change(filesystem, &tree.directory_path(at, number), 0o755)?;
            }
        }
        Ok(())
    }

    /// The directory that everything goes to, with those above it.
    fn make_top(&mut self, filesystem: &Filesystem, at: &str) -> Outcome {
        for (end, _) in at.char_indices().filter(|(at, letter)| *letter == '/' && *at > 0) {
            self.make_directory(filesystem, &at[..end])?;
        }
        if at == "/" { Ok(()) } else { self.make_directory(filesystem, at) }
    }

    fn make_directory(&mut self, filesystem: &Filesystem, path: &str) -> Outcome {
        // One that is there already is made use of.
        let is_new = self.call(Call::Make, || match filesystem.create_dir(path, 0o755) {
            Err(error) if matches!(error.kind, ErrorKind::Exists) => Ok(false),
            result => result.map(|()| true),
        })?;
        self.work.directories += u64::from(is_new);
        Ok(())
    }

    fn make_file(
        &mut self,
        filesystem: &Filesystem,
        path: &str,
        bytes: u64,
        style: MakeStyle,
        content: &[u8],
    ) -> Outcome {
        let file = self.call(Call::Create, || filesystem.create_file(path, 0o644))?;
        self.work.files += 1;
        let mut offset = 0;
        while offset < bytes {
            let piece = &content
                [..usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(content.len())];
            if let MakeStyle::Archive { unpack_rate: Some(rate) } = style {
                let work = piece.len() as u64 * 1_000_000_000 / rate;
                self.world.time.clock().charge(work);
            }
            self.write_at(&file, Path::new(path), offset, piece)?;
            offset += piece.len() as u64;
        }
        drop(file);
        match style {
            MakeStyle::Plain => Ok(()),
            MakeStyle::Archive { .. } => self.change(filesystem, path, 0o644),
        }
    }

    fn change(&mut self, filesystem: &Filesystem, path: &str, permissions: u16) -> Outcome {
        let change = Change {
            permissions: Some(permissions),
            uid: Some(0),
            gid: Some(0),
            access_time: Some(ARCHIVE_TIME),
            modify_time: Some(ARCHIVE_TIME),
            change_time: None,
        };
        self.call(Call::Change, || filesystem.change(path, &change))
    }

    /// Writes all of it.
    pub(super) fn write_at(
        &mut self,
        file: &extant_engine::File,
        path: &Path,
        offset: u64,
        content: &[u8],
    ) -> Outcome {
        let length = self
            .call(Call::Write, || file.write_at(offset, content).map_err(|error| error.at(path)))?;
        self.work.bytes_written += length as u64;
        match length < content.len() {
            true => Err(Stop::Failed(format!(
                "{}: the file cannot be larger than {} bytes",
                path.display(),
                offset + length as u64
            ))),
            false => Ok(()),
        }
    }
}
