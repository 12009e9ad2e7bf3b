//! An image as what is copied, and as where it goes.
use super::Description;
use super::sink::{Sink, Target};
use super::source::{Body, Facts, Source};
use crate::create;
use crate::error::{Error, Result};
use crate::tree::{self, Links};
use extant_engine::{
    File, Filesystem, Metadata, MetadataChange, New, NewKind, Rights, SetAttribute, SetTime,
};
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, FileType};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file system that is read.
pub struct ImageSource<'a>(pub &'a Filesystem);

/// A file system that is written: usually one under a [`Change`](crate::Change).
pub struct ImageSink<'a>(pub &'a Filesystem);

fn identity(filesystem: &Filesystem) -> Option<usize> {
    Some(std::ptr::from_ref(filesystem).addr())
}

fn facts(metadata: &Metadata) -> Facts {
    Facts {
        file_type: metadata.file_type,
        permissions: metadata.mode & 0o7777,
        uid: metadata.uid,
        gid: metadata.gid,
        size: metadata.size,
        links: metadata.links.into(),
        access_time: metadata.access_time,
        modify_time: metadata.modify_time,
        change_time: metadata.change_time,
        device: metadata.device.unwrap_or_default(),
        identity: (0, metadata.ino.0.into()),
    }
}

impl Source for ImageSource<'_> {
    fn facts(&self, path: &Path, links: Links) -> Result<Facts> {
        Ok(facts(&match links {
            Links::Follow => self.0.metadata(path)?,
            Links::Stay => self.0.symlink_metadata(path)?,
        }))
    }
    fn names(&self, path: &Path) -> Result<Vec<Vec<u8>>> {
        tree::names(self.0, path)
    }
    fn target(&self, path: &Path) -> Result<Vec<u8>> {
        Ok(self.0.read_link(path)?)
    }
    fn attributes(&self, path: &Path, links: Links) -> Result<Vec<Attribute>> {
        let inode = tree::inode(self.0, path, links)?;
        Ok(self.0.inodes().attributes(&inode).map_err(|error| error.at(path))?)
    }
    fn open(&self, path: &Path, _facts: &Facts) -> Result<Box<dyn Body>> {
        let file = self.0.open_file(path)?;
        Ok(Box::new(InsideBody { file, path: path.to_owned() }))
    }
    fn error(&self, path: &Path, said: &str) -> Error {
        Error::inside(path, said)
    }
    fn tree_identity(&self) -> Option<usize> {
        identity(self.0)
    }
}

struct InsideBody {
    file: File,
    path: PathBuf,
}

impl Body for InsideBody {
    fn next_data(&mut self, at: u64, size: u64) -> Result<Option<Range<u64>>> {
        let data = self.file.next_data(at).map_err(|error| error.at(&self.path))?;
        let data = data.filter(|data| data.start < size);
        Ok(data.map(|data| data.start.max(at)..data.end.min(size)))
    }
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<usize> {
        Ok(self.file.read_at(at, bytes).map_err(|error| error.at(&self.path))?)
    }
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

impl ImageSink<'_> {
    fn make(&self, path: &Path, kind: NewKind<'_>, permissions: u16) -> Result<()> {
        let (folder, name) = match kind {
            NewKind::Directory => tree::parent(self.0, path)?,
            _ => tree::parent_of_file(self.0, path)?,
        };
        let new = New { kind, permissions, ..New::default() };
        self.0.inodes().create(&folder, name, &new).map_err(|error| error.at(path))?;
        Ok(())
    }

    fn opened(&self, file: File, path: &Path, before: Option<u16>) -> Box<dyn Target> {
        let filesystem = self.0.clone();
        Box::new(InsideTarget { filesystem, file, path: path.to_owned(), before })
    }
}

impl Sink for ImageSink<'_> {
    fn found(&self, path: &Path, links: Links) -> Result<Option<Facts>> {
        Ok(tree::found(self.0, path, links)?.as_ref().map(facts))
    }
    fn make_directory(&self, path: &Path, permissions: u16) -> Result<()> {
        self.make(path, NewKind::Directory, permissions)
    }
    fn make_file(&self, path: &Path, permissions: u16) -> Result<Box<dyn Target>> {
        let (folder, name) = tree::parent_of_file(self.0, path)?;
        let new = New { kind: NewKind::File, permissions, ..New::default() };
        let made = self.0.inodes().create_open(&folder, name, &new);
        let (_, file) = made.map_err(|error| error.at(path))?;
        Ok(self.opened(file, path, None))
    }
    fn open_cut(&self, path: &Path) -> Result<Box<dyn Target>> {
        let inode = tree::inode(self.0, path, Links::Follow)?;
        let mode = self.0.inodes().metadata(&inode).map_err(|error| error.at(path))?.mode;
        let file = self.0.inodes().open(&inode, Rights::WRITE);
        let file = file.map_err(|error| error.at(path))?;
        file.set_len(0).map_err(|error| error.at(path))?;
        Ok(self.opened(file, path, Some(mode)))
    }
    fn make_symlink(&self, path: &Path, target: &[u8]) -> Result<()> {
        self.make(path, NewKind::Symlink(target), 0o777)
    }
    fn make_node(
        &self,
        path: &Path,
        kind: FileType,
        permissions: u16,
        device: Device,
    ) -> Result<()> {
        let kind = match kind {
            FileType::CharacterDevice => NewKind::CharacterDevice(device),
            FileType::BlockDevice => NewKind::BlockDevice(device),
            FileType::Socket => NewKind::Socket,
            _ => NewKind::Fifo,
        };
        self.make(path, kind, permissions)
    }
    fn link(&self, original: &Path, path: &Path) -> Result<()> {
        Ok(self.0.hard_link(original, path)?)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        Ok(self.0.remove_file(path)?)
    }
    fn describe(&self, path: &Path, links: Links, description: &Description) -> Result<()> {
        let Description { permissions, owner, times, attributes } = description;
        let inode = tree::inode(self.0, path, links)?;
        let inodes = self.0.inodes();
        let failed = |error: extant_engine::Error| Error::from(error.at(path));
        let is_symlink = inodes.metadata(&inode).map_err(failed)?.file_type == FileType::Symlink;
        let permissions = permissions.filter(|_| !is_symlink);
        if permissions.is_some() || owner.uid.is_some() || owner.gid.is_some() {
            let (uid, gid) = (owner.uid, owner.gid);
            let wanted = MetadataChange { permissions, uid, gid, ..MetadataChange::default() };
            inodes.set_metadata(&inode, &wanted).map_err(failed)?;
        }
        for Attribute { name, value } in attributes {
            inodes.set_attribute(&inode, name, value, SetAttribute::Any).map_err(failed)?;
        }
        if let Some((access, modify)) = times {
            let wanted = MetadataChange {
                access_time: Some(SetTime::To(*access)),
                modify_time: Some(SetTime::To(*modify)),
                ..MetadataChange::default()
            };
            inodes.set_metadata(&inode, &wanted).map_err(failed)?;
        }
        Ok(())
    }
    fn error(&self, path: &Path, said: &str) -> Error {
        Error::inside(path, said)
    }
    fn tree_identity(&self) -> Option<usize> {
        identity(self.0)
    }
}

struct InsideTarget {
    filesystem: Filesystem,
    file: File,
    path: PathBuf,
    /// The mode of a file that was there before.
    before: Option<u16>,
}

impl Target for InsideTarget {
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.file.write_all_at(at, bytes).map_err(|error| error.at(&self.path))?)
    }
    fn end(&mut self, size: u64) -> Result<()> {
        let failed = |error: extant_engine::Error| Error::from(error.at(&self.path));
        if self.file.metadata().map_err(failed)?.size != size {
            self.file.set_len(size).map_err(failed)?;
        }
        match self.before {
            Some(mode) => create::keep_mode(&self.filesystem, &self.path, &self.file.inode(), mode),
            None => Ok(()),
        }
    }
}
