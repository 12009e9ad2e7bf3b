//! An image as what is copied, and as where it goes.
use super::Description;
use super::sink::{Original, Sink, Target};
use super::source::{Body, Source};
use crate::create;
use crate::error::{Error, Result};
use crate::tree::Links;
use crate::walk::{Found, ImageTree, Spot, Tree};
use extant_engine::{
    File, Filesystem, Inode, MetadataChange, New, NewKind, Rights, SetAttribute, SetTime,
};
use extant_format::Ino;
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, FileType};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file system that is written: usually one under a [`Change`](crate::Change).
pub struct ImageSink<'a>(ImageTree<'a>);

fn identity(filesystem: &Filesystem) -> Option<usize> {
    Some(std::ptr::from_ref(filesystem).addr())
}

impl Source for ImageTree<'_> {
    fn target(&self, spot: Spot<'_>) -> Result<Vec<u8>> {
        let inode = self.inode(spot, Links::Stay)?;
        let target = self.filesystem().inodes().read_link(&inode);
        Ok(target.map_err(|error| error.at(spot.path))?)
    }
    fn attributes(&self, spot: Spot<'_>, links: Links) -> Result<Vec<Attribute>> {
        let inode = self.inode(spot, links)?;
        let attributes = self.filesystem().inodes().attributes(&inode);
        Ok(attributes.map_err(|error| error.at(spot.path))?)
    }
    fn open(&self, spot: Spot<'_>, facts: &Found) -> Result<Box<dyn Body>> {
        let inodes = self.filesystem().inodes();
        let number = Ino(u32::try_from(facts.identity.1).unwrap_or(0));
        let opened = inodes.by_number(number).and_then(|inode| inodes.open(&inode, Rights::READ));
        let file = opened.map_err(|error| error.at(spot.path))?;
        Ok(Box::new(InsideBody { file, path: spot.path.to_owned() }))
    }
    fn tree_identity(&self) -> Option<usize> {
        identity(self.filesystem())
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

impl<'a> ImageSink<'a> {
    /// With the root open.
    pub fn new(filesystem: &'a Filesystem) -> ImageSink<'a> {
        ImageSink(ImageTree::new(filesystem))
    }

    fn filesystem(&self) -> &'a Filesystem {
        self.0.filesystem()
    }

    /// Makes what has no content.
    fn make(&self, spot: Spot<'_>, kind: NewKind<'_>, permissions: u16) -> Result<()> {
        let name = new_name(
            spot,
            match kind {
                NewKind::Directory => FileType::Directory,
                _ => FileType::Regular,
            },
        )?;
        let new = New { kind, permissions, ..New::default() };
        let made = self.filesystem().inodes().create(&self.0.here()?, name, &new);
        made.map_err(|error| error.at(spot.path))?;
        Ok(())
    }

    fn opened(&self, file: File, path: &Path, before: Option<u16>) -> Box<dyn Target> {
        let filesystem = self.filesystem().clone();
        Box::new(InsideTarget { filesystem, file, path: path.to_owned(), before })
    }
}

/// The name that a new object gets: a slash at the end says that it is a directory.
fn new_name<'n>(spot: Spot<'n>, file_type: FileType) -> Result<&'n [u8]> {
    let end = spot.name.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let name = spot.name.get(..end).unwrap_or_default();
    if matches!(name, b"" | b"." | b"..") {
        return Err(Error::inside(spot.path, "names no file that could be made or removed"));
    }
    if file_type != FileType::Directory && end < spot.name.len() {
        return Err(Error::inside(spot.path, "is not a directory"));
    }
    Ok(name)
}

impl Sink for ImageSink<'_> {
    fn begin(&self, path: &Path) -> Result<Vec<u8>> {
        self.0.begin(path).map_err(Error::of_missing_folder)
    }
    fn enter(&self, spot: Spot<'_>) -> Result<()> {
        self.0.enter(spot, Links::Stay)
    }
    fn leave(&self, path: &Path) -> Result<()> {
        self.0.leave(path)
    }
    fn found(&self, spot: Spot<'_>, links: Links) -> Result<Option<Found>> {
        match self.0.facts(spot, links) {
            Ok(facts) => Ok(Some(facts)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
    fn make_directory(&self, spot: Spot<'_>, permissions: u16) -> Result<()> {
        self.make(spot, NewKind::Directory, permissions)
    }
    fn make_file(&self, spot: Spot<'_>, permissions: u16) -> Result<Box<dyn Target>> {
        let name = new_name(spot, FileType::Regular)?;
        let new = New { kind: NewKind::File, permissions, ..New::default() };
        let made = self.filesystem().inodes().create_open(&self.0.here()?, name, &new);
        let (_, file) = made.map_err(|error| error.at(spot.path))?;
        Ok(self.opened(file, spot.path, None))
    }
    fn open_cut(&self, spot: Spot<'_>) -> Result<Box<dyn Target>> {
        let failed = |error: extant_engine::Error| Error::from(error.at(spot.path));
        let inode = self.0.inode(spot, Links::Follow)?;
        let inodes = self.filesystem().inodes();
        let mode = inodes.metadata(&inode).map_err(failed)?.mode;
        let file = inodes.open(&inode, Rights::WRITE).map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        Ok(self.opened(file, spot.path, Some(mode)))
    }
    fn make_symlink(&self, spot: Spot<'_>, target: &[u8]) -> Result<()> {
        self.make(spot, NewKind::Symlink(target), 0o777)
    }
    fn make_node(
        &self,
        spot: Spot<'_>,
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
        self.make(spot, kind, permissions)
    }
    fn original(&self, spot: Spot<'_>) -> Result<Original> {
        let number = self.0.inode(spot, Links::Stay)?.number();
        Ok(Original { number: number.0.into(), name: Vec::new() })
    }
    fn link(&self, original: &Original, spot: Spot<'_>) -> Result<()> {
        let inodes = self.filesystem().inodes();
        let name = new_name(spot, FileType::Regular)?;
        let number = Ino(u32::try_from(original.number).unwrap_or(0));
        let here = self.0.here()?;
        let linked =
            inodes.by_number(number).and_then(|inode: Inode| inodes.link(&inode, &here, name));
        Ok(linked.map_err(|error| error.at(spot.path))?)
    }
    fn remove(&self, spot: Spot<'_>) -> Result<()> {
        let removed = self.filesystem().inodes().unlink(&self.0.here()?, spot.name);
        Ok(removed.map_err(|error| error.at(spot.path))?)
    }
    fn describe(&self, spot: Spot<'_>, links: Links, description: &Description) -> Result<()> {
        let Description { permissions, owner, times, attributes } = description;
        let inode = self.0.inode(spot, links)?;
        let inodes = self.filesystem().inodes();
        let failed = |error: extant_engine::Error| Error::from(error.at(spot.path));
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
        identity(self.filesystem())
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
