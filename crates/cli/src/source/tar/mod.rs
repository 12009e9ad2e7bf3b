//! A tar archive as a source, in all dialects: v7, ustar, star, GNU, pax; holes in GNU's four
//! forms.
//!
//! Our own reader, because we want what a sequential one cannot give: where each body is, so that
//! bodies are read later, once, in the order of the image; and the maps of holes. One `pread` a
//! header; bodies are passed over.
//!
//! Bytes of an archive are never trusted: sizes are checked before anything is kept, extended
//! headers have a limit, names cannot lead out of the image, hard links only to what is there.
//!
//! ```text
//! header   one header of 512 bytes
//! pax      extended headers
//! holes    maps of holes
//! end      how an archive ends
//! input    the bytes
//! ```

mod end;
mod header;
mod holes;
mod input;
mod pax;

use super::intake::{Fate, Intake};
use super::options::ArchiveEnd;
use super::stream::{
    Compression, Keep, MAGIC_BYTES, Stream, StreamError, compression, spool_error,
};
use super::{Place, Sources};
use crate::error::{Error, printable, reason};
use crate::notice::NoticeKind;
use crate::tree::{Body, Content, Facts, NodeId, SourceId, clean_path};
use end::End;
use extant_format::inode::{Device, FileType, Time};
use header::{BLOCK, Header, Wrong};
use input::{Input, Window};
use pax::Extended;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// An archive without files is padded to this at most.
const EMPTY_BYTES_MAX: usize = 1 << 20;
/// What a device inode can hold.
const MAJOR_MAX: u32 = 0xfff;
const MINOR_MAX: u32 = 0xf_ffff;

/// Lays an archive over the tree. `file` is a regular file, read from where it stands, or anything
/// that can be read once.
pub(super) fn read_file(
    mut file: File,
    name: &str,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::io(name, &error);
    let metadata = file.metadata().map_err(failed)?;
    let start = match metadata.is_file() {
        true => rustix::fs::tell(&file).map_err(|error| failed(error.into()))?,
        false => 0,
    };
    let mut first = vec![0; MAGIC_BYTES];
    let length = read_start(&mut file, &mut first).map_err(failed)?;
    first.truncate(length);
    if first.is_empty() {
        return Err(Error::new(format!("{name}: is empty, not a tar archive")));
    }
    refuse_what_is_no_archive(&file, name, &metadata, &first)?;
    let (input, bodies) = match compression(&first) {
        Compression::Foreign(tool) => {
            return Err(Error::new(format!(
                "{name}: is compressed with {tool}, which is not read here"
            ))
            .hint(format!("{tool} -dc FILE | extant build - IMAGE")));
        }
        Compression::None if metadata.is_file() => {
            let bodies = file.try_clone().map_err(failed)?;
            (Input::File(Window::new(file, start, metadata.len())), bodies)
        }
        _ => {
            let (stream, spool) = Stream::new(file, first, intake.options.spool_folder.as_deref())?;
            (Input::Stream(stream), spool)
        }
    };
    let source = sources.add(Place::Bytes { file: bodies, name: name.to_owned() })?;
    let mut archive = Archive {
        intake,
        input,
        source,
        name,
        ahead: None,
        global: Extended::default(),
        excluded: FxHashMap::default(),
        path: Vec::new(),
        last_whole: Vec::new(),
        entries: 0,
    };
    archive.read()
}

/// Zeros are an empty archive, if there is nothing else: an image, or a file that begins with zeros
/// by chance, is none.
fn refuse_what_is_no_archive(
    file: &File,
    name: &str,
    metadata: &std::fs::Metadata,
    first: &[u8],
) -> Result<(), Error> {
    let begins_empty = first.iter().take(BLOCK).all(|byte| *byte == 0);
    if !begins_empty || !metadata.is_file() {
        return Ok(());
    }
    let mut start =
        vec![0; EMPTY_BYTES_MAX.min(usize::try_from(metadata.len()).unwrap_or(EMPTY_BYTES_MAX))];
    file.read_exact_at(&mut start, 0).map_err(|error| Error::io(name, &error))?;
    if start.get(1080..1082) == Some(&[0x53, 0xef]) {
        return Err(Error::new(format!("{name}: is an ext image, not an archive"))
            .hint(format!("extant tar {name} | extant build - IMAGE")));
    }
    let is_empty = start.iter().all(|byte| *byte == 0) && metadata.len() <= EMPTY_BYTES_MAX as u64;
    match is_empty {
        true => Ok(()),
        false => Err(Error::new(format!(
            "{name}: is not a tar archive: it begins with zeros, and goes on"
        ))),
    }
}

fn read_start(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    use std::io::Read;
    let mut done = 0;
    while done < buffer.len() {
        match file.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

struct Archive<'a, 'b> {
    intake: &'a mut Intake<'b>,
    input: Input,
    source: SourceId,
    name: &'a str,
    /// A block that was read to see whether it is a header, and how many bytes of it there are.
    ahead: Option<([u8; BLOCK], usize)>,
    /// What global headers say of all files that follow.
    global: Extended,
    /// Files that were left out, but may be the targets of hard links that are not.
    excluded: FxHashMap<Vec<u8>, NodeId>,
    /// The path of the entry under way, clean.
    path: Vec<u8>,
    last_whole: Vec<u8>,
    entries: u64,
}

/// What stands in front of an entry: extended headers of its own, and GNU's long names.
#[derive(Default)]
struct Before {
    extended: Option<Extended>,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl Before {
    fn is_empty(&self) -> bool {
        self.extended.is_none() && self.long_name.is_none() && self.long_link.is_none()
    }
}

/// A broken entry.
enum Failure {
    /// The archive cannot be read on.
    Archive(StreamError),
    /// Impossible content: the archive is not trusted any further.
    Wrong(String),
    /// Something that ends everything whatever the user wants.
    Fatal(Error),
    /// This entry, which the message names, cannot be had; others can.
    Entry(Error),
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Failure {
        Failure::Archive(error)
    }
}
impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Failure {
        Failure::Wrong(format!("an impossible {}", wrong.field))
    }
}

impl Archive<'_, '_> {
    fn read(&mut self) -> Result<(), Error> {
        let mut before = Before::default();
        loop {
            self.path.clear();
            match self.entry(&mut before) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(Failure::Entry(error)) => {
                    let message = format!("{}: {}", self.name, error.message);
                    self.intake.trouble(Error { message, ..error })?;
                }
                Err(failure) => return Err(self.explain(failure)),
            }
        }
    }

    /// A sentence with the archive's name and the place.
    fn explain(&self, failure: Failure) -> Error {
        let place = match (self.path.is_empty(), self.last_whole.is_empty()) {
            (false, _) => format!("at {}", printable(&self.path)),
            (true, false) => format!("after {}", printable(&self.last_whole)),
            (true, true) => "at its start".to_owned(),
        };
        let whole = self.last_entry();
        match failure {
            Failure::Fatal(error) | Failure::Entry(error) => {
                Error { message: format!("{}: {}", self.name, error.message), ..error }
            }
            Failure::Wrong(what) => {
                Error::new(format!("{}: corrupt archive: {what} {place}", self.name))
            }
            Failure::Archive(StreamError::End) => {
                Error::new(format!("{}: truncated archive: {whole}", self.name))
                    .hint("the file was not copied whole, or is still being written")
            }
            Failure::Archive(StreamError::Read(error)) => Error::new(format!(
                "{}: cannot be read {place}: {}; {whole}",
                self.name,
                reason(&error)
            )),
            Failure::Archive(StreamError::Spool(error)) => {
                spool_error(self.intake.options.spool_folder.as_deref(), &error)
            }
        }
    }

    /// Reads one header and what belongs to it; `false` at the end.
    fn entry(&mut self, before: &mut Before) -> Result<bool, Failure> {
        let (block, length) = self.next_block()?;
        if block[..length].iter().all(|byte| *byte == 0) {
            self.end(before, length)?;
            return Ok(false);
        }
        if length < BLOCK {
            return Err(Failure::Archive(StreamError::End));
        }
        let header = Header::parse(&block).ok_or_else(|| match self.entries {
            0 => Failure::Fatal(Error::new("is neither a directory nor a tar archive")),
            _ => Failure::Wrong("a header whose checksum is wrong".into()),
        })?;
        self.entries += 1;
        header.name(&mut self.path);
        match header.kind() {
            b'x' | b'X' => {
                let lines = self.extension(&header)?;
                // The last one counts, alone: what an earlier one said is not kept.
                let mut extended = self.global.clone();
                extended.apply(&lines).map_err(Failure::Wrong)?;
                before.extended = Some(extended);
            }
            b'g' => {
                let lines = self.extension(&header)?;
                self.global.apply(&lines).map_err(Failure::Wrong)?;
            }
            b'L' => before.long_name = Some(trimmed(self.extension(&header)?)),
            b'K' => before.long_link = Some(trimmed(self.extension(&header)?)),
            // A label of the volume says nothing about files.
            b'V' => {
                let extended = std::mem::take(before).extended.unwrap_or_default();
                let size = extended.size.map_or_else(|| header.size(), Ok)?;
                self.pass(size, Keep::Nothing)?;
            }
            _ => self.file(&header, std::mem::take(before))?,
        }
        Ok(true)
    }

    /// The next block, zeros where the archive ends within it, and how much of it the archive has.
    fn next_block(&mut self) -> Result<([u8; BLOCK], usize), Failure> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(ahead);
        }
        let mut block = [0; BLOCK];
        let length = self.input.read(&mut block)?;
        Ok((block, length))
    }

    /// The archive ends where a header could be, with `length` bytes of zeros.
    fn end(&mut self, before: &Before, length: usize) -> Result<(), Failure> {
        // Extended headers belong to an entry that is missing.
        if !before.is_empty() {
            return Err(Failure::Archive(StreamError::End));
        }
        let end = match length {
            BLOCK => end::after_zeros(&mut self.input)?,
            _ => End::Unmarked,
        };
        self.input.finish()?;
        let Some(sentence) = end.sentence() else {
            return Ok(());
        };
        if self.intake.options.archive_end == ArchiveEnd::Strict {
            let whole = self.last_entry();
            let error = Error::new(format!("{sentence}; {whole}"));
            let hint = "without --strict-archive it is taken as it is, with a warning";
            return Err(Failure::Fatal(error.hint(hint)));
        }
        let (kind, advice) = match end {
            End::Unmarked => (
                NoticeKind::NoEndMark,
                "it may have been cut off there, --strict-archive refuses such",
            ),
            End::ThenArchive => {
                (NoticeKind::BytesAfterEnd, "cut them off to a source of their own")
            }
            End::Marked | End::ThenBytes => (NoticeKind::BytesAfterEnd, "as every tar does it"),
        };
        let (name, whole) = (self.name, self.last_entry());
        self.intake.notices.add(kind, || format!("{name}: {sentence}: {whole}; {advice}"));
        Ok(())
    }

    fn last_entry(&self) -> String {
        match self.last_whole.is_empty() {
            true => "no entry is whole".to_owned(),
            false => format!("the last whole entry is {}", printable(&self.last_whole)),
        }
    }

    /// The content of an extended header.
    fn extension(&mut self, header: &Header<'_>) -> Result<Vec<u8>, Failure> {
        let size = header.size()?;
        if size > pax::BYTES_MAX {
            return Err(Failure::Wrong(format!(
                "an extended header of {size} bytes (at most {} are read)",
                pax::BYTES_MAX
            )));
        }
        let bytes = self.input.take(size)?;
        self.input.pass(padding(size), Keep::Nothing)?;
        Ok(bytes)
    }

    /// Passes over a body and its padding; where the body is kept.
    fn pass(&mut self, size: u64, keep: Keep) -> Result<u64, Failure> {
        let start = self.input.pass(size, keep)?;
        self.input.pass(padding(size), Keep::Nothing)?;
        self.intake.progress.advance(size.saturating_add(BLOCK as u64));
        Ok(start)
    }

    /// Passes over what follows an entry that has no content, whatever size its header tells.
    ///
    /// Writers have put all kinds of sizes there: what a directory may grow to, the size of the
    /// file that a hard link leads to, with or without its bytes. Whether bytes follow is seen by
    /// what follows: a header, or the end of the archive, is none of them.
    fn pass_claimed(&mut self, size: u64) -> Result<(), Failure> {
        self.intake.progress.advance(BLOCK as u64);
        if size == 0 {
            return Ok(());
        }
        let (block, length) = self.next_block()?;
        let is_zero = block.iter().all(|byte| *byte == 0);
        if length < BLOCK || is_zero || Header::parse(&block).is_some() {
            self.ahead = Some((block, length));
            return Ok(());
        }
        let padded = size.checked_add(padding(size)).ok_or(StreamError::End)?;
        self.input.pass(padded - BLOCK as u64, Keep::Nothing)?;
        self.intake.progress.advance(padded);
        Ok(())
    }

    /// A header that is a file's. The archive stands behind its body when this returns, also with
    /// `Failure::Entry`.
    fn file(&mut self, header: &Header<'_>, before: Before) -> Result<(), Failure> {
        let extended = before.extended.unwrap_or_else(|| self.global.clone());
        let sparse_name = extended.sparse.name.clone();
        if let Some(name) = sparse_name.or(extended.path.clone()).or(before.long_name) {
            self.path = name;
        }
        let link =
            extended.link.clone().or(before.long_link).unwrap_or_else(|| header.link().to_vec());
        let file_type = match header.kind() {
            b'0' | 0 | b'7' if self.path.ends_with(b"/") => Some(FileType::Directory),
            b'0' | 0 | b'7' | b'S' => Some(FileType::Regular),
            b'1' => None,
            b'2' => Some(FileType::Symlink),
            b'3' => Some(FileType::CharacterDevice),
            b'4' => Some(FileType::BlockDevice),
            b'5' | b'D' => Some(FileType::Directory),
            b'6' => Some(FileType::Fifo),
            b'M' => return Err(continuation(self.name)),
            // The standard has readers take them for regular files.
            other => {
                let (path, kind) = (printable(&self.path), printable(&[other]));
                self.intake.notices.add(NoticeKind::UnknownType, || {
                    format!(
                        "{path}: is of the unknown type {kind:?} and was kept as a regular file"
                    )
                });
                Some(FileType::Regular)
            }
        };
        let raw = std::mem::take(&mut self.path);
        let cleaned = clean_path(&raw, &mut self.path);
        let fate = match cleaned {
            Ok(()) if self.intake.excludes(&self.path) => Fate::LeftOut,
            Ok(()) => self.intake.fate(&self.path),
            Err(_) => Fate::Kept,
        };
        match file_type {
            None => {
                self.pass_link(header, &extended)?;
                self.hard_link(cleaned, &link, fate)
            }
            Some(file_type) => self.inode(header, &extended, file_type, &link, cleaned, fate),
        }?;
        std::mem::swap(&mut self.last_whole, &mut self.path);
        Ok(())
    }

    /// An entry that is a file of its own. Its body is passed over before anything can be found
    /// wrong with it.
    fn inode(
        &mut self,
        header: &Header<'_>,
        extended: &Extended,
        file_type: FileType,
        link: &[u8],
        cleaned: Result<(), Error>,
        fate: Fate,
    ) -> Result<(), Failure> {
        let size = extended.size.map_or_else(|| header.size(), Ok)?;
        let mut facts = facts(header, extended, file_type)?;
        let content = match file_type {
            FileType::Regular => {
                // A file that is left out may still be the target of a hard link.
                let keep = if cleaned.is_ok() { Keep::Spool } else { Keep::Nothing };
                Content::Body(self.body(header, extended, size, keep)?)
            }
            _ => {
                match header.kind() {
                    b'2'..=b'6' => self.pass_claimed(size)?,
                    // GNU's directories with a listing, and files of old dialects that are
                    // directories by their name.
                    _ => drop(self.pass(size, Keep::Nothing)?),
                }
                match file_type {
                    FileType::Symlink => Content::Target(link),
                    FileType::CharacterDevice | FileType::BlockDevice => {
                        Content::Device(self.device(header, extended)?)
                    }
                    _ => Content::None,
                }
            }
        };
        cleaned.map_err(Failure::Entry)?;
        if fate == Fate::Applied {
            return Ok(());
        }
        self.intake.adjust(&mut facts, &self.path);
        if fate == Fate::LeftOut {
            if file_type == FileType::Regular {
                let node =
                    self.intake.tree.insert_nameless(&facts, content).map_err(Failure::Fatal)?;
                self.excluded.insert(self.path.clone(), node);
            }
            return Ok(());
        }
        self.note_unkept(extended);
        self.put(&facts, content)
    }

    fn put(&mut self, facts: &Facts, content: Content<'_>) -> Result<(), Failure> {
        if self.path.is_empty() {
            return match facts.file_type {
                FileType::Directory => {
                    self.intake.tree.describe_root(facts).map_err(Failure::Fatal)
                }
                _ => Err(Failure::Entry(Error::new("/: is a file, but must be a directory"))),
            };
        }
        let (directory, name) = self.intake.tree.walk(&self.path).map_err(Failure::Entry)?;
        self.intake.insert(directory, name, facts, content).map_err(Failure::Entry)?;
        Ok(())
    }

    /// What the extended headers of a file say that an image cannot hold.
    fn note_unkept(&mut self, extended: &Extended) {
        let (path, notices) = (&self.path, &mut self.intake.notices);
        if !extended.nameless.is_empty() {
            notices.add(NoticeKind::AccessListNames, || {
                let (path, whom) = (printable(path), extended.nameless.join(", "));
                format!(
                    "{path}: its access list lost the entries of {whom}, which have no number: tar \
                     --numeric-owner \
                     writes numbers, bsdtar both"
                )
            });
        }
        if extended.has_other_list {
            notices.add(NoticeKind::AccessListForm, || {
                format!("{}: its NFSv4 access list was left out", printable(path))
            });
        }
        if let Some(flags) = &extended.file_flags {
            notices.add(NoticeKind::FileFlags, || {
                format!("{}: its file flags ({flags}) were left out", printable(path))
            });
        }
    }

    /// Passes over the content of a hard link. By the standard one with an extended header for its
    /// size has some.
    fn pass_link(&mut self, header: &Header<'_>, extended: &Extended) -> Result<(), Failure> {
        match extended.size {
            Some(size) => drop(self.pass(size, Keep::Nothing)?),
            None => self.pass_claimed(header.size()?)?,
        }
        Ok(())
    }

    fn hard_link(
        &mut self,
        cleaned: Result<(), Error>,
        target: &[u8],
        fate: Fate,
    ) -> Result<(), Failure> {
        cleaned.map_err(Failure::Entry)?;
        if fate == Fate::Applied {
            return Ok(());
        }
        let mut clean = Vec::new();
        clean_path(target, &mut clean).map_err(Failure::Entry)?;
        let tree = &self.intake.tree;
        let node = self.excluded.get(&clean).copied().or_else(|| tree.look_up(&clean));
        if fate == Fate::LeftOut {
            if let Some(node) = node {
                self.excluded.insert(self.path.clone(), node);
            }
            return Ok(());
        }
        let node = node.ok_or_else(|| {
            let (name, target) = (printable(&self.path), printable(target));
            Failure::Entry(Error::new(format!(
                "{name}: is a hard link to {target}, which is not in the archive before it"
            )))
        })?;
        if self.path.is_empty() {
            return Err(Failure::Entry(Error::new("/: is a hard link, but must be a directory")));
        }
        let (directory, name) = self.intake.tree.walk(&self.path).map_err(Failure::Entry)?;
        self.intake.link(directory, name, node).map_err(Failure::Entry)
    }

    fn device(&self, header: &Header<'_>, extended: &Extended) -> Result<Device, Failure> {
        let (major, minor) = header.device()?;
        let device = Device {
            major: extended.major.unwrap_or(major),
            minor: extended.minor.unwrap_or(minor),
        };
        if device.major > MAJOR_MAX || device.minor > MINOR_MAX {
            let (path, major, minor) = (printable(&self.path), device.major, device.minor);
            let message =
                format!("{path}: is device {major}:{minor}, larger than an inode can hold");
            return Err(Failure::Entry(Error::new(message)));
        }
        Ok(device)
    }

    /// The body of a regular file, with the holes that it may have.
    fn body(
        &mut self,
        header: &Header<'_>,
        extended: &Extended,
        size: u64,
        keep: Keep,
    ) -> Result<Body, Failure> {
        let Some(map) = self.holes(header, extended, size)? else {
            let offset = self.pass(size, keep)?;
            return Ok(match size {
                0 => Body::Empty,
                _ => Body::Range { source: self.source, offset, length: size },
            });
        };
        let pieces = holes::checked(map.pieces, map.size, map.stored)
            .map_err(|what| Failure::Wrong(what.into()))?;
        let offset = self.pass(map.stored, keep)?;
        let source = self.source;
        if map.size == 0 {
            return Ok(Body::Empty);
        }
        if pieces == [(0, map.size)] {
            return Ok(Body::Range { source, offset, length: map.size });
        }
        let kept = self.intake.tree.keep_map(&pieces).map_err(Failure::Fatal)?;
        Ok(Body::Sparse { source, offset, map: kept, length: map.size })
    }

    /// The map of a file with holes, in whichever form; `None` for a plain file. What is left to
    /// pass over is `stored`.
    fn holes(
        &mut self,
        header: &Header<'_>,
        extended: &Extended,
        size: u64,
    ) -> Result<Option<holes::Map>, Failure> {
        let sparse = &extended.sparse;
        if header.kind() == b'S' {
            let old = header.old_sparse()?;
            let (mut pieces, mut continues) = (old.pieces, old.continues);
            while continues {
                let mut block = [0; BLOCK];
                self.input.read_all(&mut block)?;
                continues = header::sparse_extension(&block, &mut pieces)?;
            }
            return Ok(Some(holes::Map { pieces, size: old.size, stored: size }));
        }
        if sparse.major == Some(1) && sparse.minor == Some(0) {
            let real = sparse
                .size
                .ok_or_else(|| Failure::Wrong("a file with holes that has no size".into()))?;
            let (pieces, used) = holes::read_front(&mut self.input, size)?;
            return Ok(Some(holes::Map { pieces, size: real, stored: size - used }));
        }
        if let Some(major) = sparse.major.filter(|major| *major > 0) {
            return Err(Failure::Wrong(format!(
                "a map of holes of an unknown form {major}.{}",
                sparse.minor.unwrap_or(0)
            )));
        }
        let Some(pieces) = sparse.pieces.clone() else {
            return Ok(None);
        };
        let real = sparse
            .size
            .ok_or_else(|| Failure::Wrong("a file with holes that has no size".into()))?;
        Ok(Some(holes::Map { pieces, size: real, stored: size }))
    }
}

fn facts(header: &Header<'_>, extended: &Extended, file_type: FileType) -> Result<Facts, Failure> {
    let modify_time = match extended.modify_time {
        Some(time) => time,
        None => Time { seconds: header.mtime()?, nanoseconds: 0 },
    };
    let whole = |seconds: i64| Time { seconds, nanoseconds: 0 };
    let [access_time, change_time] = header.other_times().map(|time| time.map(whole));
    Ok(Facts {
        file_type,
        permissions: header.mode()?,
        uid: extended.uid.map_or_else(|| header.uid(), Ok)?,
        gid: extended.gid.map_or_else(|| header.gid(), Ok)?,
        modify_time,
        access_time: extended.access_time.or(access_time),
        change_time: extended.change_time.or(change_time),
        attributes: extended.attributes.clone(),
    })
}

fn continuation(archive: &str) -> Failure {
    let error = Error::new("begins with the rest of a file of another volume");
    Failure::Fatal(error.hint(format!(
        "put the volumes together first: tar -xM -f FIRST -f {archive} in an empty folder"
    )))
}

/// Bytes that fill the last block of a body.
fn padding(size: u64) -> u64 {
    (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64
}

/// A long name up to the first NUL: some writers fill blocks with them.
fn trimmed(mut name: Vec<u8>) -> Vec<u8> {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    name.truncate(end);
    name
}
