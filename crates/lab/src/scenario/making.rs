//! Trees onto the volume, whole or stage by stage: make-tree, untar, make-directories,
//! create-files.
use super::process::{Call, Outcome, Stop, Worker};
use super::step::{MakeStyle, Stages};
use super::tree::{Entry, TreeSpec};
use super::world::tree_key;
use extant_engine::{Change, ErrorKind, Filesystem};
use extant_format::inode::Time;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What is written at once.
const PIECE: usize = 64 << 10;

/// When everything in archives was changed last: the day of the first post.
const ARCHIVE_TIME: Time = Time { seconds: 1_004_908_739, nanoseconds: 0 };

impl Worker {
    pub(super) fn make(
        &mut self,
        at: &str,
        spec: &TreeSpec,
        style: MakeStyle,
        stages: Stages,
    ) -> Outcome {
        let tree = self.tree(spec)?;
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let filesystem = &in_use.filesystem;
        let entries: Vec<Entry> = tree.entries().collect();
        let stage = self.stage(at, spec, stages, &entries)?;
        if stage.start == 0 {
            self.make_top(filesystem, at)?;
            world.give_back(&self.register(at)?);
        }
        let content: Vec<u8> = (b'a'..=b'z').chain([b'\n']).cycle().take(PIECE).collect();
        // The path of the directory that the last file went to.
        let mut directory = (usize::MAX, String::new());
        for entry in &entries[stage.clone()] {
            match *entry {
                Entry::Directory(number) => {
                    let path = self.path(&tree.directory_path(at, number));
                    self.make_directory(filesystem, &path)?
                }
                Entry::File(number) => {
                    let parent = tree.directory_of(number);
                    if directory.0 != parent {
                        directory = (parent, tree.directory_path(at, parent));
                    }
                    let path =
                        format!("{}/{}", directory.1.trim_end_matches('/'), tree.file_name(number));
                    let path = self.path(&path);
                    self.make_file(filesystem, &path, tree.bytes(number), style, &content)?;
                }
            }
        }
        if matches!(style, MakeStyle::Archive { .. }) && stage.end == entries.len() {
            for number in (1..=tree.totals().directories as usize).rev() {
                let path = self.path(&tree.directory_path(at, number));
                self.change(filesystem, &path, 0o755)?;
            }
        }
        Ok(())
    }

    /// Which entries of a tree are made now: all, or those of the stage that is next at this path.
    fn stage(
        &mut self,
        at: &str,
        spec: &TreeSpec,
        stages: Stages,
        entries: &[Entry],
    ) -> Outcome<Range<usize>> {
        if stages == Stages::All {
            return Ok(0..entries.len());
        }
        let key = format!("{at} {stages:?} {}", tree_key(spec).unwrap_or_default());
        let done = self.stages.entry(key).or_default();
        let start = done.entries;
        let end = match stages {
            Stages::All => entries.len(),
            Stages::Parts(parts) => {
                let share = entries.len() as u128 * u128::from(done.runs + 1) / u128::from(parts);
                (share as usize).min(entries.len())
            }
            Stages::Directories => {
                let is_next = |at: &usize| matches!(entries[*at], Entry::Directory(_));
                (start + 1..entries.len()).find(is_next).unwrap_or(entries.len())
            }
        };
        let is_over = match stages {
            Stages::Parts(parts) => done.runs >= parts,
            _ => start >= entries.len(),
        };
        if is_over {
            return Err(Stop::Failed(format!("{at}: all stages of the tree were made before")));
        }
        (done.entries, done.runs) = (end, done.runs + 1);
        Ok(start..end)
    }

    /// The directory that everything goes to, with those above it.
    pub(super) fn make_top(&mut self, filesystem: &Filesystem, at: &str) -> Outcome {
        for (end, _) in at.char_indices().filter(|(at, letter)| *letter == '/' && *at > 0) {
            self.make_directory(filesystem, &at[..end])?;
        }
        if at == "/" { Ok(()) } else { self.make_directory(filesystem, at) }
    }

    pub(super) fn make_directory(
        &mut self,
        filesystem: &Filesystem,
        path: impl AsRef<Path>,
    ) -> Outcome {
        let path = path.as_ref();
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
