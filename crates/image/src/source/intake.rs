//! What every source gives its files to: ids, times and attributes are adjusted here, excluded and
//! unreadable files counted.
use super::options::{Holes, IdMap, OnTrouble, Owner, ReadOptions, Times};
use super::zeros::{Bytes, Search};
use crate::error::{Error, Scope};
use crate::notice::{NoticeKind, Notices};
use crate::progress::Progress;
use crate::tree::{Growing, Layers, MapId, NodeContent, NodeId, Segment, packed};
use extant_archive::printable;
use extant_format::acl::{ACCESS, AccessList, Tag, is_access_list};
use extant_format::attribute::{Attribute, check_name};
use extant_format::inode::{Device, FileType, Time};
use extant_tree::Described;
use std::ops::Range;

/// What the name of a whiteout begins with.
const WHITEOUT: &[u8] = b".wh.";

/// The tree that grows, and how it is read.
pub(super) struct Intake<'a> {
    pub(super) tree: Growing,
    pub(super) options: &'a ReadOptions,
    /// Whether whiteouts are applied to the present source.
    pub(super) whiteouts: Whiteouts,
    pub(super) progress: &'a dyn Progress,
    /// The owner of every file of the present source, whatever else is asked for.
    pub(super) owner: Option<Owner>,
    pub(super) skipped: Vec<String>,
    pub(super) notices: Notices,
    /// Looks for zeros in files that are read where they are, if any are wanted.
    pub(super) search: Option<Search>,
    /// A directory that is known not to be excluded.
    included: Vec<u8>,
}

/// What becomes of whiteouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whiteouts {
    /// They are files like others.
    Kept,
    /// They are applied.
    Applied,
    /// The same for a layer of a container image: one of a name that nothing can have is refused.
    AppliedStrictly,
}

impl From<Layers> for Whiteouts {
    fn from(layers: Layers) -> Whiteouts {
        match layers {
            Layers::Plain => Whiteouts::Kept,
            Layers::Oci => Whiteouts::Applied,
        }
    }
}

/// What a name means where whiteouts are applied.
enum Role<'a> {
    File,
    /// Removes this name of the layers below.
    Whiteout(&'a [u8]),
    /// Empties its directory of the layers below.
    Opaque,
    /// Made by a union file system for itself.
    Bookkeeping,
    /// A whiteout of a name that nothing can have.
    Nothing,
}

/// What becomes of an entry of an archive where whiteouts are applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is a file of the image.
    Kept,
    /// It is no file of the image, but hard links may name it.
    LeftOut,
    /// It was a whiteout, and is applied.
    Applied,
}

impl<'a> Intake<'a> {
    pub(super) fn new(
        tree: Growing,
        options: &'a ReadOptions,
        progress: &'a dyn Progress,
    ) -> Intake<'a> {
        Intake {
            tree,
            options,
            whiteouts: options.layers.into(),
            progress,
            owner: None,
            skipped: Vec::new(),
            notices: Notices::default(),
            search: options.zeros().map(Search::new),
            included: Vec::new(),
        }
    }

    /// A file that cannot be had: an error, or one more that is left out.
    pub(super) fn trouble(&mut self, error: Error) -> Result<(), Error> {
        match self.options.on_trouble {
            OnTrouble::Stop => Err(Error { scope: Scope::OneFile, ..error }),
            OnTrouble::Skip => {
                self.skipped.push(error.message);
                Ok(())
            }
        }
    }

    /// Whether a clean path, or a directory that it is in, is to be left out.
    pub(super) fn excludes(&mut self, path: &[u8]) -> bool {
        if self.options.exclude.is_empty() || path.is_empty() {
            return false;
        }
        let mut known = self.included.len();
        if known > 0 && !(path.starts_with(&self.included) && path.get(known) == Some(&b'/')) {
            known = 0;
        }
        let ends = (known + 1..path.len()).filter(|at| path[*at] == b'/');
        for end in ends {
            if self.options.exclude.matches(&path[..end]) {
                return true;
            }
            self.included.clear();
            self.included.extend_from_slice(&path[..end]);
        }
        self.options.exclude.matches(path)
    }

    fn role<'n>(&self, name: &'n [u8]) -> Role<'n> {
        if self.whiteouts == Whiteouts::Kept {
            return Role::File;
        }
        match name.strip_prefix(WHITEOUT) {
            None => Role::File,
            Some(b".wh..opq") => Role::Opaque,
            Some(rest) if rest.starts_with(WHITEOUT) => Role::Bookkeeping,
            Some(b"" | b"." | b"..") => Role::Nothing,
            Some(rest) => Role::Whiteout(rest),
        }
    }

    /// Applies a whiteout of a folder of the host; `false` for a name that is none.
    pub(super) fn applies_whiteout(&mut self, directory: NodeId, name: &[u8]) -> bool {
        match self.role(name) {
            Role::File => return false,
            Role::Whiteout(name) => self.tree.white_out(directory, name),
            Role::Opaque => self.tree.make_opaque(directory),
            Role::Bookkeeping => {}
            Role::Nothing => {
                let path = self.tree.path(directory);
                self.whiteout_of_nothing(&path, name);
            }
        }
        true
    }

    /// Applies a whiteout of an archive, whatever its type, by its clean path.
    ///
    /// # Errors
    /// A whiteout of a name that nothing can have, in a layer of a container image.
    pub(super) fn fate(&mut self, path: &[u8]) -> Result<Fate, Error> {
        if self.whiteouts == Whiteouts::Kept {
            return Ok(Fate::Kept);
        }
        let split = path.iter().rposition(|byte| *byte == b'/');
        let (folder, name) = split.map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
        if let Some(above) =
            folder.split(|byte| *byte == b'/').find(|name| name.starts_with(WHITEOUT))
        {
            if !matches!(self.role(above), Role::Bookkeeping) {
                self.notices.add(NoticeKind::BelowWhiteout, || {
                    let (path, above) = (printable(path), printable(above));
                    format!("{path}: was left out: no image can hold a directory {above}")
                });
            }
            return Ok(Fate::LeftOut);
        }
        match self.role(name) {
            Role::File => return Ok(Fate::Kept),
            Role::Bookkeeping => return Ok(Fate::LeftOut),
            Role::Whiteout(name) => self.tree.white_out_at(folder, name),
            Role::Opaque => self.tree.make_opaque_at(folder),
            Role::Nothing if self.whiteouts == Whiteouts::AppliedStrictly => {
                let removed = name.strip_prefix(WHITEOUT).unwrap_or_default();
                let (path, removed) = (joined(folder, name), printable(removed));
                return Err(Error::new(format!(
                    "{path}: is a whiteout of {removed:?}, a name that nothing can have"
                )));
            }
            Role::Nothing => self.whiteout_of_nothing(folder, name),
        }
        Ok(Fate::Applied)
    }

    fn whiteout_of_nothing(&mut self, folder: &[u8], name: &[u8]) {
        self.notices.add(NoticeKind::WhiteoutOfNothing, || {
            let removed = name.strip_prefix(WHITEOUT).unwrap_or_default();
            let path = joined(folder, name);
            format!("{path}: was left out: a whiteout of {:?} removes nothing", printable(removed))
        });
    }

    /// Puts a file under a name, as [`Growing::insert`] does, and takes note of what may surprise.
    pub(super) fn insert(
        &mut self,
        directory: NodeId,
        name: &[u8],
        facts: &Described,
        content: NodeContent<'_>,
    ) -> Result<NodeId, Error> {
        self.note_replaced(directory, name, facts.file_type);
        self.note_kept_whiteout(directory, name);
        if facts.file_type == FileType::CharacterDevice && facts.device == Device::default() {
            let path = || joined(&self.tree.path(directory), name);
            self.notices.add(NoticeKind::OverlayWhiteoutKept, || {
                format!(
                    "{}: a character device 0:0, a whiteout of overlayfs, is kept as a device",
                    path()
                )
            });
        }
        self.tree.insert(directory, name, facts, content)
    }

    /// One more name for a file, as [`Growing::link`] gives it.
    pub(super) fn link(
        &mut self,
        directory: NodeId,
        name: &[u8],
        node: NodeId,
    ) -> Result<(), Error> {
        self.note_replaced(directory, name, self.tree.file_type(node));
        self.note_kept_whiteout(directory, name);
        self.tree.link(directory, name, node)
    }

    fn note_replaced(&mut self, directory: NodeId, name: &[u8], new: FileType) {
        self.note_replaced_within(directory, name, new);
        let kind = match (self.tree.earlier(directory, name), new) {
            (Some(FileType::Symlink), FileType::Directory) => NoticeKind::DirectoryOverSymlink,
            (Some(FileType::Directory), new)
                if new != FileType::Directory && self.whiteouts == Whiteouts::Kept =>
            {
                NoticeKind::FileOverDirectory
            }
            _ => return,
        };
        let path = joined(&self.tree.path(directory), name);
        self.notices.add(kind, || match kind {
            NoticeKind::DirectoryOverSymlink => {
                format!("{path}: a directory replaces the symlink of an earlier source")
            }
            _ => format!(
                "{path}: replaces the directory of an earlier source, with all that was in it"
            ),
        });
    }

    /// An archive may have a directory with files and then something else under its name. GNU tar
    /// keeps the directory and fails; here the last entry counts, as everywhere.
    fn note_replaced_within(&mut self, directory: NodeId, name: &[u8], new: FileType) {
        let there = self.tree.find(directory, name).map(|node| self.tree.file_type(node));
        let is_earlier = self.tree.earlier(directory, name).is_some();
        if there == Some(FileType::Directory) && new != FileType::Directory && !is_earlier {
            let path = joined(&self.tree.path(directory), name);
            self.notices.add(NoticeKind::FileOverDirectory, || {
                format!("{path}: replaces a directory of the same source, with all that was in it")
            });
        }
    }

    /// With [`Layers::Plain`] a whiteout is a file like others, which is seldom what was meant.
    fn note_kept_whiteout(&mut self, directory: NodeId, name: &[u8]) {
        if self.whiteouts == Whiteouts::Kept && name.starts_with(WHITEOUT) {
            let path = || joined(&self.tree.path(directory), name);
            self.notices.add(NoticeKind::WhiteoutKept, || {
                format!("{}: a whiteout is kept as a file", path())
            });
        }
    }

    /// Whether a file of this many bytes is looked at for zeros.
    pub(super) fn searches(&self, bytes: u64) -> bool {
        self.search.as_ref().is_some_and(|search| search.concerns(bytes))
    }

    /// Has the body of a regular file looked at; `bytes` are what it is read from.
    pub(super) fn search(&mut self, node: NodeId, bytes: &Bytes) {
        if let Some(search) = &mut self.search {
            search.add(node, bytes, &self.tree);
        }
    }

    /// The map of a file of which these pieces are stored end to end.
    pub(super) fn keep_map(&mut self, pieces: &[Range<u64>], length: u64) -> Result<MapId, Error> {
        self.keep_segments(packed(pieces), length)
    }

    /// The map of a file with these segments.
    pub(super) fn keep_segments(
        &mut self,
        mut segments: Vec<Segment>,
        length: u64,
    ) -> Result<MapId, Error> {
        if self.options.holes == Holes::Never {
            segments = filled(&segments, length);
        }
        self.tree.keep_segments(&segments)
    }

    /// Owners, times and attributes as the user wants them.
    pub(super) fn adjust(&mut self, facts: &mut Described, path: &[u8]) {
        let options = self.options;
        if let Some(owner) = options.owner {
            (facts.uid, facts.gid) = (owner.uid, owner.gid);
        }
        facts.uid = IdMap::apply(&options.map_users, facts.uid);
        facts.gid = IdMap::apply(&options.map_groups, facts.gid);
        if let Some(owner) = self.owner {
            (facts.uid, facts.gid) = (owner.uid, owner.gid);
        }
        if options.times == Times::Modify {
            (facts.access_time, facts.change_time) = (None, None);
        }
        if let Some(newest) = options.newest {
            let newest = Time { seconds: newest, nanoseconds: 0 };
            facts.modify_time = facts.modify_time.min(newest);
            facts.access_time = facts.access_time.map(|time| time.min(newest));
            facts.change_time = facts.change_time.map(|time| time.min(newest));
        }
        if !facts.attributes.is_empty() {
            self.adjust_attributes(&mut facts.attributes, path);
            // Some archives give the permissions of the owning group in the mode, where a file with
            // a list has its mask.
            let list = facts.attributes.iter().find(|it| it.name == ACCESS);
            let list = list.and_then(|list| AccessList::from_attribute(&list.value));
            if let Some(permissions) = list.and_then(|list| list.permissions()) {
                facts.permissions = facts.permissions & !0o777 | permissions;
            }
        }
    }

    fn adjust_attributes(&mut self, attributes: &mut Vec<Attribute>, path: &[u8]) {
        let notices = &mut self.notices;
        attributes.retain(|attribute| {
            let kept = check_name(&attribute.name).is_ok();
            if !kept {
                notices.add(NoticeKind::AttributeName, || {
                    let (path, name) = (printable(path), printable(&attribute.name));
                    format!("{path}: its attribute {name} was left out: ext cannot keep that name")
                });
            }
            kept
        });
        let (users, groups) = (&self.options.map_users, &self.options.map_groups);
        if users.is_empty() && groups.is_empty() {
            return;
        }
        for attribute in attributes.iter_mut().filter(|it| is_access_list(&it.name)) {
            let Some(mut list) = AccessList::from_attribute(&attribute.value) else { continue };
            list.map_ids(|tag| match tag {
                Tag::User(id) => Tag::User(IdMap::apply(users, id)),
                Tag::Group(id) => Tag::Group(IdMap::apply(groups, id)),
                Tag::Owner | Tag::OwningGroup | Tag::Mask | Tag::Other => tag,
            });
            attribute.value = list.to_attribute();
        }
    }
}

/// The same with zeros where holes are.
fn filled(segments: &[Segment], length: u64) -> Vec<Segment> {
    let mut filled = Vec::with_capacity(segments.len() * 2 + 1);
    let mut at = 0;
    let end = Segment { offset: length, length: 0, packed: Segment::ZEROS };
    for segment in segments.iter().chain([&end]) {
        if at < segment.offset {
            let length = segment.offset - at;
            filled.push(Segment { offset: at, length, packed: Segment::ZEROS });
        }
        if segment.length > 0 {
            filled.push(*segment);
        }
        at = segment.offset + segment.length;
    }
    filled
}

/// A path for messages.
fn joined(folder: &[u8], name: &[u8]) -> String {
    match folder {
        [] => printable(name),
        _ => printable(&[folder, b"/", name].concat()),
    }
}
