//! What every source hands over to: ids, times and attributes are adjusted here, excluded and unreadable files counted.
use super::access;
use super::options::{IdMap, ReadOptions, Times, Trouble};
use crate::error::{Error, printable};
use crate::progress::Progress;
use crate::tree::{Facts, Growing, Layers, NodeId};
use extant_format::attribute::{Attribute, check_name};
use extant_format::inode::Time;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Attributes that were left out, because ext has no place for names of their kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unkept {
    /// How many.
    pub count: u64,
    /// The first: path and name.
    pub first: String,
}

/// The tree that grows, and how.
pub(super) struct Intake<'a> {
    pub(super) tree: Growing,
    pub(super) options: &'a ReadOptions,
    pub(super) progress: &'a Progress,
    pub(super) skipped: Vec<String>,
    pub(super) unkept: Unkept,
    /// A directory that is known not to be excluded.
    included: Vec<u8>,
}

/// What a name means.
pub(super) enum Role<'a> {
    File,
    /// Removes this name of the layers below.
    Whiteout(&'a [u8]),
    /// Empties its directory of the layers below.
    Opaque,
    /// Left behind by a union file system.
    Bookkeeping,
}

impl<'a> Intake<'a> {
    pub(super) fn new(tree: Growing, options: &'a ReadOptions, progress: &'a Progress) -> Intake<'a> {
        let (skipped, unkept) = (Vec::new(), Unkept::default());
        Intake {
            tree,
            options,
            progress,
            skipped,
            unkept,
            included: Vec::new(),
        }
    }

    /// A file that cannot be had: the end, or one more left out.
    pub(super) fn trouble(&mut self, error: Error) -> Result<(), Error> {
        match self.options.trouble {
            Trouble::Stop => Err(match error.hint {
                None => error.hint("--keep-going leaves it out"),
                Some(_) => error,
            }),
            Trouble::Skip => {
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
            if self.matches(&path[..end]) {
                return true;
            }
            self.included.clear();
            self.included.extend_from_slice(&path[..end]);
        }
        self.matches(path)
    }

    fn matches(&self, path: &[u8]) -> bool {
        self.options.exclude.is_match(Path::new(OsStr::from_bytes(path)))
    }

    pub(super) fn role<'n>(&self, name: &'n [u8]) -> Role<'n> {
        if self.options.layers == Layers::Plain {
            return Role::File;
        }
        match name.strip_prefix(b".wh.") {
            None => Role::File,
            Some(b".wh..opq") => Role::Opaque,
            Some(rest) if rest.starts_with(b".wh.") || rest.is_empty() => Role::Bookkeeping,
            Some(rest) => Role::Whiteout(rest),
        }
    }

    /// Carries a whiteout out; `false` for a file.
    pub(super) fn heeds(&mut self, directory: NodeId, name: &[u8]) -> bool {
        match self.role(name) {
            Role::File => return false,
            Role::Whiteout(name) => self.tree.white_out(directory, name),
            Role::Opaque => self.tree.make_opaque(directory),
            Role::Bookkeeping => {}
        }
        true
    }

    /// Owners, times and attributes as the user wants them.
    pub(super) fn adjust(&mut self, facts: &mut Facts, path: &[u8]) {
        let options = self.options;
        if let Some(owner) = options.owner {
            (facts.uid, facts.gid) = (owner.uid, owner.gid);
        }
        facts.uid = IdMap::apply(&options.map_users, facts.uid);
        facts.gid = IdMap::apply(&options.map_groups, facts.gid);
        if options.times == Times::Modify {
            (facts.access_time, facts.change_time) = (None, None);
        }
        if let Some(newest) = options.newest {
            let newest = Time {
                seconds: newest,
                nanoseconds: 0,
            };
            facts.modify_time = facts.modify_time.min(newest);
            facts.access_time = facts.access_time.map(|time| time.min(newest));
            facts.change_time = facts.change_time.map(|time| time.min(newest));
        }
        if !facts.attributes.is_empty() {
            self.adjust_attributes(&mut facts.attributes, path);
        }
    }

    fn adjust_attributes(&mut self, attributes: &mut Vec<Attribute>, path: &[u8]) {
        let unkept = &mut self.unkept;
        attributes.retain(|attribute| {
            let kept = check_name(&attribute.name).is_ok();
            if !kept {
                unkept.count += 1;
                if unkept.count == 1 {
                    unkept.first = format!("{}: {}", printable(path), printable(&attribute.name));
                }
            }
            kept
        });
        let (users, groups) = (&self.options.map_users, &self.options.map_groups);
        if users.is_empty() && groups.is_empty() {
            return;
        }
        for attribute in attributes
            .iter_mut()
            .filter(|attribute| attribute.name.starts_with(b"system.posix_acl_"))
        {
            access::map_ids(&mut attribute.value, |tag, id| match tag {
                access::Tag::User => IdMap::apply(users, id),
                access::Tag::Group => IdMap::apply(groups, id),
                _ => id,
            });
        }
    }
}
