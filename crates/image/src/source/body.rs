//! Reads the bytes of files when the image is written: straight into the caller's buffer, nothing
//! kept in between.
use super::{Origin, Sources};
use crate::error::Error;
use crate::tree::{NodeBody, NodeId, Segment, SourceId, Tree};
use extant_archive::printable;
use extant_block::BlockDevice;
use extant_format::SECTOR_BYTES;
use extant_tree::host::{Opening, open_path_from};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, SeekFrom, openat, seek};
use rustix::io::{Errno, pread};
use std::io;

/// How a folder is opened that is only passed through: nothing in it is listed.
const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Reads bodies. Cheap to make: one a thread. It keeps open the file and the folder that it read
/// last, so reading the files of a directory one after the other, each from front to back, costs
/// one open a file.
pub struct BodyReader<'a> {
    tree: &'a Tree,
    sources: &'a Sources,
    file: Option<(NodeId, OwnedFd)>,
    folder: Option<(SourceId, NodeId, OwnedFd)>,
    opening: Opening,
}

impl<'a> BodyReader<'a> {
    /// A reader of the bodies of `tree`.
    pub fn new(tree: &'a Tree, sources: &'a Sources) -> BodyReader<'a> {
        let opening = Opening::new(OFlags::NOFOLLOW | OFlags::NONBLOCK);
        BodyReader { tree, sources, file: None, folder: None, opening }
    }

    /// Fills `buffer` from byte `offset` of a regular file. Holes, and what is beyond the end,
    /// are zeros.
    ///
    /// # Errors
    /// A source that cannot be read, or that has become shorter since its tree was read; it is
    /// named.
    pub fn read_at(&mut self, node: NodeId, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let body = self.tree.body(node);
        let (length, map) = match body {
            NodeBody::Empty => (0, None),
            NodeBody::Range { length, .. } => (length, None),
            NodeBody::Sparse { length, map, .. } => (length, Some(map)),
            NodeBody::File { length, map, .. } => (length, map),
        };
        let inside =
            usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        let (buffer, beyond) = buffer.split_at_mut(inside);
        beyond.fill(0);
        let Some(map) = map else {
            return self.read_stored(node, body, offset, buffer);
        };
        let segments = self.tree.segments(map);
        let first = segments.partition_point(|segment| segment.offset + segment.length <= offset);
        self.read_segments(node, body, &segments[first..], offset, buffer)
    }

    fn read_segments(
        &mut self,
        node: NodeId,
        body: NodeBody,
        segments: &[Segment],
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), Error> {
        let mut at = offset;
        let mut rest = buffer;
        for segment in segments {
            if rest.is_empty() {
                break;
            }
            let hole = clamped(segment.offset.saturating_sub(at), rest.len());
            let (zeros, after) = std::mem::take(&mut rest).split_at_mut(hole);
            zeros.fill(0);
            at += hole as u64;
            let inside = at.saturating_sub(segment.offset);
            let (data, after) = after.split_at_mut(clamped(segment.length - inside, after.len()));
            match (body, segment.packed) {
                (_, Segment::ZEROS) => data.fill(0),
                (NodeBody::Sparse { .. }, packed) => {
                    self.read_stored(node, body, packed + inside, data)?
                }
                _ => self.read_stored(node, body, segment.offset + inside, data)?,
            }
            at += data.len() as u64;
            rest = after;
        }
        rest.fill(0);
        Ok(())
    }

    /// Reads from where the body is kept; `at` counts from the start of what is kept.
    fn read_stored(
        &mut self,
        node: NodeId,
        body: NodeBody,
        at: u64,
        buffer: &mut [u8],
    ) -> Result<(), Error> {
        if buffer.is_empty() {
            return Ok(());
        }
        let (source, filled) = match body {
            NodeBody::Empty => return Ok(()),
            NodeBody::Range { source, offset, .. } | NodeBody::Sparse { source, offset, .. } => {
                match self.sources.origin(source) {
                    Origin::Bytes { file, .. } => (source, fill(file.as_fd(), offset + at, buffer)),
                    Origin::Volume { device, .. } => {
                        return read_volume(&**device, offset + at, buffer)
                            .map_err(|error| Error::io(self.shown(node, source), &error));
                    }
                    Origin::Folder { .. } | Origin::Arrived { .. } => (source, Err(Errno::BADF)),
                }
            }
            NodeBody::File { source, .. }
                if let Origin::Bytes { file, .. } = self.sources.origin(source) =>
            {
                (source, fill(file.as_fd(), at, buffer))
            }
            NodeBody::File { source, length, .. } => {
                let filled = match (self.open(node, source, length), &self.file) {
                    (Ok(true), Some((_, file))) => fill(file.as_fd(), at, buffer),
                    (Ok(true), None) => Err(Errno::BADF),
                    (shorter, _) => shorter,
                };
                (source, filled)
            }
        };
        match filled {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::new(format!(
                "{}: became shorter while it was read",
                self.shown(node, source)
            ))),
            Err(error) => Err(Error::io(self.shown(node, source), &error.into())),
        }
    }

    fn shown(&self, node: NodeId, source: SourceId) -> String {
        format!("{}: {}", self.sources.name(source), printable(&self.tree.path(node)))
    }

    /// Opens a file of a folder; `false` if it is shorter than `length` by now.
    fn open(&mut self, node: NodeId, source: SourceId, length: u64) -> Result<bool, Errno> {
        if self.file.as_ref().is_some_and(|(open, _)| *open == node) {
            return Ok(true);
        }
        let parent = self.tree.parent(node);
        if !self.folder.as_ref().is_some_and(|(from, open, _)| (*from, *open) == (source, parent)) {
            let Origin::Folder { folder, base, .. } = self.sources.origin(source) else {
                return Err(Errno::BADF);
            };
            let opened = self.open_parent(folder.as_fd(), *base, source, parent)?;
            self.folder = Some((source, parent, opened));
        }
        let Some((_, _, folder)) = &self.folder else {
            return Err(Errno::BADF);
        };
        let name = self.tree.first_name(node);
        let file = self.opening.open(|flags| openat(folder, name, flags, Mode::empty()))?;
        // By seeking, because fstat costs a message to another process under fakeroot.
        let end = seek(&file, SeekFrom::End(0)).unwrap_or(length);
        self.file = Some((node, file));
        if end > length {
            self.sources.note_grown(node, end);
        }
        Ok(end >= length)
    }

    /// Opens a folder, from the one that was open last where that is its parent: a chain of folders
    /// is not walked again for each of its links.
    fn open_parent(
        &self,
        root: BorrowedFd<'_>,
        base: NodeId,
        source: SourceId,
        folder: NodeId,
    ) -> Result<OwnedFd, Errno> {
        let above = self.tree.parent(folder);
        match &self.folder {
            Some((from, open, held)) if (*from, *open) == (source, above) && folder != base => {
                open_path_from(held.as_fd(), self.tree.first_name(folder), FOLDER)
            }
            _ => {
                let steps = self.tree.steps(folder);
                let from = self.tree.steps(base).len();
                open_path_from(root, &steps.get(from..).unwrap_or_default().join(&b'/'), FOLDER)
            }
        }
    }
}

/// Reads bytes of a volume, which need not begin or end with a sector.
pub(super) fn read_volume(
    device: &dyn BlockDevice,
    offset: u64,
    buffer: &mut [u8],
) -> io::Result<()> {
    let sector = SECTOR_BYTES;
    let (start, end) = (offset / sector * sector, offset.saturating_add(buffer.len() as u64));
    if start == offset && end.is_multiple_of(sector) {
        return device.read(offset, buffer);
    }
    let mut whole = vec![0; (end.next_multiple_of(sector) - start) as usize];
    device.read(start, &mut whole)?;
    let skipped = (offset - start) as usize;
    buffer.copy_from_slice(&whole[skipped..skipped + buffer.len()]);
    Ok(())
}

/// Reads until the buffer is full; `false` at the end of the file.
fn fill(file: BorrowedFd<'_>, offset: u64, buffer: &mut [u8]) -> Result<bool, Errno> {
    let mut done = 0;
    while done < buffer.len() {
        match pread(file, &mut buffer[done..], offset + done as u64) {
            Ok(0) => return Ok(false),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn clamped(amount: u64, limit: usize) -> usize {
    usize::try_from(amount).unwrap_or(usize::MAX).min(limit)
}
