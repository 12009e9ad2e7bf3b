//! What the entries of an archive become in the tree.
use super::intake::{Fate, Intake};
use super::zeros::Bytes;
use crate::error::Error;
use crate::notice::NoticeKind;
use crate::tree::{self, NodeBody, NodeId, SourceId};
use extant_archive::{Body, Content, Entry, Keeper, NfsAccessList, Unkept, clean_path, printable};
use extant_format::inode::{Device, FileType, flags as of_inode};
use extant_tree::{Described, flags};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::sync::Arc;

/// The largest numbers that a device inode holds.
const MAJOR_MAX: u32 = 0xfff;
const MINOR_MAX: u32 = 0xf_ffff;

/// Takes the entries of one archive, one after the other.
pub(super) struct Entries<'a, 'b> {
    pub(super) intake: &'a mut Intake<'b>,
    /// Of bodies that the reader keeps.
    source: SourceId,
    /// Of those that its sink took.
    sink_source: SourceId,
    /// The archive, where bodies stay in it.
    in_place: Option<Bytes>,
    /// What messages call the archive.
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

impl<'a, 'b> Entries<'a, 'b> {
    /// Bodies that a sink took are in `sink_source`, others in `source`.
    pub(super) fn new(
        intake: &'a mut Intake<'b>,
        source: SourceId,
        sink_source: SourceId,
        name: &'a str,
    ) -> Entries<'a, 'b> {
        let excluded = FxHashMap::default();
        Entries { intake, source, sink_source, in_place: None, name, excluded }
    }

    /// The archive in which bodies stay, and are looked for zeros.
    pub(super) fn in_place(mut self, archive: File) -> Entries<'a, 'b> {
        self.in_place = Some(Bytes::File(Arc::new(archive)));
        self
    }

    /// Puts an entry into the tree.
    ///
    /// # Errors
    /// An entry that cannot be had, after the archive's name; with
    /// [`OnTrouble::Skip`](super::OnTrouble::Skip) only what ends everything.
    pub(super) fn add(&mut self, entry: Entry) -> Result<(), Error> {
        match self.entry(entry) {
            Ok(()) => Ok(()),
            Err(Refusal::Entry(error)) => self.intake.trouble(error.about(self.name)),
            Err(Refusal::Fatal(error)) => Err(error.about(self.name)),
        }
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
            false => self.intake.fate(&path).map_err(Refusal::Fatal)?,
        };
        match (entry.described, entry.content) {
            (Some(facts), content) => self.inode(path, facts, content, &entry.unkept, fate),
            (None, Content::HardLink { target }) => self.hard_link(path, &target, fate),
            (None, _) => Ok(()),
        }
    }

    /// An entry that is a file of its own.
    fn inode(
        &mut self,
        path: Vec<u8>,
        mut facts: Described,
        content: Content,
        unkept: &Unkept,
        fate: Fate,
    ) -> Result<(), Refusal> {
        if let Content::CharacterDevice(device) | Content::BlockDevice(device) = &content {
            check_device(&path, *device).map_err(Refusal::Entry)?;
        }
        if fate == Fate::Applied {
            return Ok(());
        }
        if facts.file_type == FileType::Symlink {
            // Nobody asks for those of a link, and every kernel shows all of them.
            facts.permissions = 0o777;
        }
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
            _ => tree::NodeContent::None,
        };
        if fate == Fate::LeftOut {
            let nameless = self.intake.tree.insert_nameless(&facts, content);
            let node = nameless.map_err(Refusal::Fatal)?;
            self.search(node);
            self.excluded.insert(path, node);
            return Ok(());
        }
        let flags = facts.flags.unwrap_or(0);
        let kept = flags & kept_flags(facts.file_type);
        self.note_unkept(&path, unkept, flags & !kept);
        let node = self.put(&path, &facts, content)?;
        self.intake.tree.set_flags(node, kept);
        self.search(node);
        Ok(())
    }

    /// Has a body looked for zeros that stays in the archive.
    fn search(&mut self, node: NodeId) {
        if let Some(archive) = &self.in_place {
            self.intake.search(node, archive);
        }
    }

    fn put(
        &mut self,
        path: &[u8],
        facts: &Described,
        content: tree::NodeContent<'_>,
    ) -> Result<NodeId, Refusal> {
        if path.is_empty() {
            return match facts.file_type {
                FileType::Directory => {
                    let described = self.intake.tree.describe_root(facts);
                    described.map(|()| NodeId::ROOT).map_err(Refusal::Fatal)
                }
                _ => Err(Refusal::Entry(Error::new("/: is a file, but must be a directory"))),
            };
        }
        let (directory, name) = self.intake.tree.walk(path).map_err(Refusal::Entry)?;
        self.intake.insert(directory, name, facts, content).map_err(Refusal::Entry)
    }

    /// Where the bytes of a file are, and its holes.
    fn body(&mut self, body: Body) -> Result<NodeBody, Error> {
        let Body { size: length, offset, pieces, keeper } = body;
        let source = match keeper {
            Keeper::File => self.source,
            Keeper::Sink => self.sink_source,
        };
        Ok(match pieces {
            _ if length == 0 => NodeBody::Empty,
            None => NodeBody::Range { source, offset, length },
            Some(pieces) => {
                let map = self.intake.keep_map(&pieces, length)?;
                NodeBody::Sparse { source, offset, map, length }
            }
        })
    }

    /// What an archive says of a file that an image cannot hold; `left_flags` are those of its
    /// flags that no image that is built here has, or no file of its type.
    fn note_unkept(&mut self, path: &[u8], unkept: &Unkept, left_flags: u32) {
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
        let foreign = unkept.file_flags.iter().cloned();
        let own = Some(flags::to_text(left_flags)).filter(|words| !words.is_empty());
        let left: Vec<String> = own.into_iter().chain(foreign).collect();
        if !left.is_empty() {
            notices.add(NoticeKind::FileFlags, || {
                let flags = left.join(",");
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

/// The flags of an archive that a file of this type gets. Left out are those of features that are
/// not filled here (casefold, project), and those that Linux gives no such file.
pub(super) fn kept_flags(file_type: FileType) -> u32 {
    let of_all = of_inode::NODUMP | of_inode::NOATIME;
    let of_directories = of_inode::DIRECTORY_SYNC | of_inode::TOP_DIRECTORY;
    let none = of_inode::CASEFOLDED | of_inode::PROJECT_INHERIT | of_inode::NO_TAIL_MERGING;
    match file_type {
        FileType::Directory => flags::SETTABLE & !none,
        FileType::Regular => flags::SETTABLE & !none & !of_directories,
        _ => of_all,
    }
}

/// Refuses numbers of a device that no inode holds.
///
/// # Errors
/// With the path.
pub(super) fn check_device(path: &[u8], device: Device) -> Result<(), Error> {
    let Device { major, minor } = device;
    if major <= MAJOR_MAX && minor <= MINOR_MAX {
        return Ok(());
    }
    let path = printable(path);
    let message = format!("{path}: is device {major}:{minor}, larger than an inode can hold");
    Err(Error::new(message))
}
