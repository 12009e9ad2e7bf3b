//! A tar archive as a source: what its entries say goes into the tree; bodies stay where the reader
//! keeps them until the image is written.
use super::intake::{Fate, Intake};
use super::options::ArchiveEnd;
use super::{Origin, Sources};
use crate::error::{Error, ErrorKind};
use crate::notice::NoticeKind;
use crate::tree::{self, NodeBody, NodeId, SourceId};
use extant_archive::{
    Bodies, Body, Content, End, Entry, ErrorKind as ReadErrorKind, Facts, LastWhole, NfsAccessList,
    ReadError, Reader, Unkept, clean_path, printable, reason,
};
use extant_format::inode::{Device, FileType};
use rustc_hash::FxHashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;

/// The largest numbers that a device inode holds.
const MAJOR_MAX: u32 = 0xfff;
const MINOR_MAX: u32 = 0xf_ffff;
/// Where the magic number of an ext volume is, and the number.
const MAGIC_OFFSET: u64 = 1080;
const MAGIC: [u8; 2] = [0x53, 0xef];

/// Lays an archive over the tree. `file` is a regular file, read from where it is positioned, or
/// anything that can be read once.
pub(super) fn read(
    file: File,
    name: &str,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<(), Error> {
    let metadata = file.metadata().map_err(|error| Error::io(name, &error))?;
    refuse_image(&file, name, &metadata)?;
    let bodies = Bodies::Keep { spool_folder: intake.options.spool_folder.clone() };
    let failed = |error| explain(name, intake, error);
    let reader = match intake.options.arrival.clone() {
        None => Reader::new(file, &bodies),
        Some(arrival) => Reader::with_sink(file, &bodies, Box::new(arrival)),
    };
    let reader = reader.map_err(failed)?;
    let Some(kept) = reader.body_file() else { return Ok(()) };
    let kept = kept.try_clone().map_err(|error| Error::io(name, &error))?;
    let source = sources.add(Origin::Bytes { file: kept, name: name.to_owned() })?;
    let whole_source = match intake.options.arrival {
        None => source,
        Some(_) => sources.add(Origin::Arrived { name: name.to_owned() })?,
    };
    let excluded = FxHashMap::default();
    let mut archive = Archive { intake, source, whole_source, name, excluded };
    archive.read(reader)
}

/// An image begins with zeros, as an empty archive does.
fn refuse_image(file: &File, name: &str, metadata: &Metadata) -> Result<(), Error> {
    let mut magic = [0; 2];
    let mut first = [0; 1];
    let is_image = metadata.is_file()
        && file.read_exact_at(&mut first, 0).is_ok()
        && file.read_exact_at(&mut magic, MAGIC_OFFSET).is_ok()
        && (first, magic) == ([0], MAGIC);
    match is_image {
        false => Ok(()),
        true => Err(Error::new(format!("{name}: is an ext image, not an archive"))
            .of(ErrorKind::ExtImage { name: name.to_owned() })),
    }
}

/// A sentence with the archive's name.
fn explain(name: &str, intake: &Intake<'_>, error: ReadError) -> Error {
    match error.kind {
        ReadErrorKind::NotAnArchive => {
            Error::new(format!("{name}: is neither a directory nor a tar archive"))
        }
        ReadErrorKind::Spool(cause) => {
            let folder = intake.options.spool_folder.clone().unwrap_or_else(std::env::temp_dir);
            let (folder, cause) = (folder.display(), reason(&cause));
            Error::new(format!("{folder}: the archive's files cannot be kept here: {cause}"))
                .of(ErrorKind::Spool)
        }
        ReadErrorKind::Open(cause) => Error::io(name, &cause),
        ReadErrorKind::Sink(cause) => {
            let message = format!("the image: {}", reason(&cause));
            Error::new(message).of(ErrorKind::Write(cause))
        }
        _ => {
            let message = format!("{name}: {error}");
            let (name, error) = (name.to_owned(), Box::new(error));
            Error::new(message).of(ErrorKind::Archive { name, error })
        }
    }
}

struct Archive<'a, 'b> {
    intake: &'a mut Intake<'b>,
    /// Of bodies with holes.
    source: SourceId,
    /// Of bodies without.
    whole_source: SourceId,
    name: &'a str,
    /// Files that were left out, but may be the targets of hard links that are not.
    excluded: FxHashMap<Vec<u8>, NodeId>,
}

/// Why an entry cannot be had.
enum Refusal {
    /// This entry; others can be had.
    Entry(Error),
    /// Everything ends, whatever the user wants.
    Fatal(Error),
}

impl Archive<'_, '_> {
    fn read(&mut self, mut reader: Reader) -> Result<(), Error> {
        let mut position = 0;
        loop {
            let next = reader.next_entry();
            let next = next.map_err(|error| explain(self.name, self.intake, error))?;
            self.intake.progress.advance(reader.position().saturating_sub(position));
            position = reader.position();
            let Some(entry) = next else {
                return self.end(&reader);
            };
            match self.entry(entry) {
                Ok(()) => {}
                Err(Refusal::Entry(error)) => self.intake.trouble(error.about(self.name))?,
                Err(Refusal::Fatal(error)) => return Err(error.about(self.name)),
            }
        }
    }

    /// The archive has ended: as it should, or in a way that is noted or refused.
    fn end(&mut self, reader: &Reader) -> Result<(), Error> {
        let end = reader.end().unwrap_or(End::Marked);
        let Some(sentence) = end.sentence() else {
            return Ok(());
        };
        let (name, whole) = (self.name, LastWhole(reader.last_whole()));
        if self.intake.options.archive_end == ArchiveEnd::Strict {
            let error = Error::new(format!("{name}: {sentence}; {whole}"));
            return Err(error.of(ErrorKind::ArchiveEnd));
        }
        let (kind, advice) = match end {
            End::Unmarked => (NoticeKind::NoEndMark, "it may have been cut off there"),
            End::ThenArchive => {
                (NoticeKind::BytesAfterEnd, "cut them off to a source of their own")
            }
            End::Marked | End::ThenBytes => (NoticeKind::BytesAfterEnd, "as every tar does it"),
        };
        self.intake.notices.add(kind, || format!("{name}: {sentence}: {whole}; {advice}"));
        Ok(())
    }

    fn entry(&mut self, entry: Entry) -> Result<(), Refusal> {
        let cleaned = entry.path.map_err(|error| Refusal::Entry(Error::new(error.to_string())));
        let path = cleaned?;
        if let Some(letter) = entry.unkept.unknown_type {
            self.intake.notices.add(NoticeKind::UnknownType, || {
                let (path, letter) = (printable(&path), printable(&[letter]));
                format!("{path}: is of the unknown type {letter:?} and was kept as a regular file")
            });
        }
        let fate = match self.intake.excludes(&path) {
            true => Fate::LeftOut,
            false => self.intake.fate(&path),
        };
        match (entry.facts, entry.content) {
            (Some(facts), content) => self.inode(path, facts, content, &entry.unkept, fate),
            (None, Content::HardLink { target }) => self.hard_link(path, &target, fate),
            (None, _) => Ok(()),
        }
    }

    /// An entry that is a file of its own.
    fn inode(
        &mut self,
        path: Vec<u8>,
        facts: Facts,
        content: Content,
        unkept: &Unkept,
        fate: Fate,
    ) -> Result<(), Refusal> {
        if let Content::CharacterDevice(device) | Content::BlockDevice(device) = &content {
            check_device(&path, *device)?;
        }
        if fate == Fate::Applied {
            return Ok(());
        }
        let mut facts = tree_facts(facts, &content);
        self.intake.adjust(&mut facts, &path);
        let is_file = facts.file_type == FileType::Regular;
        if fate == Fate::LeftOut && !is_file {
            return Ok(());
        }
        let target;
        let content = match content {
            Content::File(body) => {
                tree::NodeContent::Body(self.body(body).map_err(Refusal::Fatal)?)
            }
            Content::Symlink { target: link } => {
                target = link;
                tree::NodeContent::Target(&target)
            }
            Content::CharacterDevice(device) | Content::BlockDevice(device) => {
                tree::NodeContent::Device(device)
            }
            Content::Directory | Content::Fifo | Content::HardLink { .. } => {
                tree::NodeContent::None
            }
        };
        if fate == Fate::LeftOut {
            let nameless = self.intake.tree.insert_nameless(&facts, content);
            self.excluded.insert(path, nameless.map_err(Refusal::Fatal)?);
            return Ok(());
        }
        self.note_unkept(&path, unkept);
        self.put(&path, &facts, content)
    }

    fn put(
        &mut self,
        path: &[u8],
        facts: &tree::NodeFacts,
        content: tree::NodeContent<'_>,
    ) -> Result<(), Refusal> {
        if path.is_empty() {
            return match facts.file_type {
                FileType::Directory => {
                    self.intake.tree.describe_root(facts).map_err(Refusal::Fatal)
                }
                _ => Err(Refusal::Entry(Error::new("/: is a file, but must be a directory"))),
            };
        }
        let (directory, name) = self.intake.tree.walk(path).map_err(Refusal::Entry)?;
        self.intake.insert(directory, name, facts, content).map_err(Refusal::Entry)?;
        Ok(())
    }

    /// Where the bytes of a file are, and its holes.
    fn body(&mut self, body: Body) -> Result<NodeBody, Error> {
        let Body { size: length, offset, pieces } = body;
        Ok(match pieces {
            _ if length == 0 => NodeBody::Empty,
            None => NodeBody::Range { source: self.whole_source, offset, length },
            Some(pieces) => {
                let source = self.source;
                let map = self.intake.tree.keep_map(&pieces)?;
                NodeBody::Sparse { source, offset, map, length }
            }
        })
    }

    /// What an archive says of a file that an image cannot hold.
    fn note_unkept(&mut self, path: &[u8], unkept: &Unkept) {
        let notices = &mut self.intake.notices;
        if !unkept.nameless.is_empty() {
            notices.add(NoticeKind::AccessListNames, || {
                let (path, names) = (printable(path), unkept.nameless.join(", "));
                format!(
                    "{path}: its access list lost the entries of {names}, which have no number: \
                     tar --numeric-owner writes numbers, bsdtar both"
                )
            });
        }
        if unkept.nfs4_access_list == NfsAccessList::Present {
            notices.add(NoticeKind::AccessListForm, || {
                format!("{}: its NFSv4 access list was left out", printable(path))
            });
        }
        if let Some(flags) = &unkept.file_flags {
            notices.add(NoticeKind::FileFlags, || {
                format!("{}: its file flags ({flags}) were left out", printable(path))
            });
        }
    }

    fn hard_link(&mut self, path: Vec<u8>, target: &[u8], fate: Fate) -> Result<(), Refusal> {
        let refuse = |message: String| Refusal::Entry(Error::new(message));
        if fate == Fate::Applied {
            return Ok(());
        }
        let clean = clean_path(target).map_err(|error| refuse(error.to_string()))?;
        let tree = &self.intake.tree;
        let node = self.excluded.get(&clean).copied().or_else(|| tree.look_up(&clean));
        if fate == Fate::LeftOut {
            if let Some(node) = node {
                self.excluded.insert(path, node);
            }
            return Ok(());
        }
        let node = node.ok_or_else(|| {
            let (name, target) = (printable(&path), printable(target));
            refuse(format!(
                "{name}: is a hard link to {target}, which is not in the archive before it"
            ))
        })?;
        if path.is_empty() {
            return Err(refuse("/: is a hard link, but must be a directory".to_owned()));
        }
        let (directory, name) = self.intake.tree.walk(&path).map_err(Refusal::Entry)?;
        self.intake.link(directory, name, node).map_err(Refusal::Entry)
    }
}

fn check_device(path: &[u8], device: Device) -> Result<(), Refusal> {
    let Device { major, minor } = device;
    if major <= MAJOR_MAX && minor <= MINOR_MAX {
        return Ok(());
    }
    let path = printable(path);
    Err(Refusal::Entry(Error::new(format!(
        "{path}: is device {major}:{minor}, larger than an inode can hold"
    ))))
}

fn tree_facts(facts: Facts, content: &Content) -> tree::NodeFacts {
    let file_type = match content {
        Content::File(_) | Content::HardLink { .. } => FileType::Regular,
        Content::Directory => FileType::Directory,
        Content::Symlink { .. } => FileType::Symlink,
        Content::CharacterDevice(_) => FileType::CharacterDevice,
        Content::BlockDevice(_) => FileType::BlockDevice,
        Content::Fifo => FileType::Fifo,
    };
    tree::NodeFacts {
        file_type,
        permissions: facts.permissions,
        uid: facts.uid,
        gid: facts.gid,
        modify_time: facts.modify_time,
        access_time: facts.access_time,
        change_time: facts.change_time,
        attributes: facts.attributes,
    }
}
