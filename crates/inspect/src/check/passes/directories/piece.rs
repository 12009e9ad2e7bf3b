//! The entries of one piece of directory (a block, or what is in an inode): what they point to.
use super::entries::{Dot, Met, NameKind, Shape};
use super::tree::Tree;
use crate::check::codes::Code;
use crate::check::facts::{Facts, InodeFacts};
use crate::check::problem::Problem;
use extant_format::Ino;
use extant_format::directory::RECORD_MIN;
use extant_format::directory::stored::StoredEntry;
use extant_format::inode::FileType;
use extant_format::superblock::Feature;

/// What entries of one piece of directory are judged with.
pub(super) struct Piece<'a> {
    pub(super) facts: &'a Facts,
    pub(super) tree: &'a Tree,
    pub(super) ino: Ino,
    pub(super) file_block: u32,
    pub(super) place: u32,
    pub(super) shape: Shape,
    /// Whether entries keep the types of inodes (filetype).
    pub(super) is_typed: bool,
}

impl<'a> Piece<'a> {
    /// A piece of a directory, at a place of the tree.
    pub(super) fn new(
        facts: &'a Facts,
        tree: &'a Tree,
        ino: Ino,
        file_block: u32,
        place: u32,
    ) -> Piece<'a> {
        Piece {
            facts,
            tree,
            ino,
            file_block,
            place,
            shape: Shape::of(facts, facts.inodes.get(ino)),
            is_typed: facts.volume.superblock().has(Feature::FILETYPE),
        }
    }

    #[cold]
    pub(super) fn report(&self, code: Code, detail: impl FnOnce(Problem) -> Problem) {
        let problem = Problem::new(code).ino(self.ino).file_block(self.file_block.into());
        self.facts.report(detail(problem));
    }

    /// Judges a used entry that is neither of the first two.
    #[inline]
    pub(super) fn named(&self, entry: &StoredEntry<'_>, met: Met) {
        let ino = Ino(entry.ino);
        if let Some(code) = self.shape.name_problem(entry.name) {
            self.report(code, |problem| problem.name(entry.name).other(ino));
        } else if met == Met::Before {
            self.report(Code::EntryTwice, |problem| problem.name(entry.name));
        }
        let Some(known) = self.target(entry) else { return };
        if self.shape.names == NameKind::Encrypted {
            self.encrypted(entry, known);
        }
        if ino == self.ino {
            self.report(Code::EntryToSelf, |problem| problem.name(entry.name));
        } else if ino == Ino::ROOT {
            self.report(Code::EntryToRoot, |problem| problem.name(entry.name));
        } else if self.is_below(ino, known) {
            self.tree.add_entry(ino, self.place);
            if self.ino == Ino::ROOT && entry.name == b"lost+found" {
                self.facts.shapes.set_lost_found(ino);
            }
        } else if known.is_attribute_inode() {
            self.report(Code::EntryToValue, |problem| problem.name(entry.name).other(ino));
        }
    }

    /// Judges what any entry points to, and counts it; `None` when that is not in use.
    #[inline]
    fn target(&self, entry: &StoredEntry<'_>) -> Option<InodeFacts> {
        let ino = Ino(entry.ino);
        let Some(known) = self.known(ino) else {
            self.not_there(entry);
            return None;
        };
        self.facts.inodes.count_link(ino);
        if entry.code != 0 {
            self.typed(entry, known);
        }
        Some(known)
    }

    /// What is known of an inode that entries count for.
    #[inline]
    fn known(&self, ino: Ino) -> Option<InodeFacts> {
        let known = self.facts.inodes.get(ino);
        // What has no link is only kept for open files.
        let is_there = known.may_be_named()
            && known.links() != 0
            && self.facts.volume.superblock().is_usable(ino);
        is_there.then_some(known)
    }

    /// Whether an entry but `.` and `..` makes a directory one of those in this one.
    #[inline]
    fn is_below(&self, ino: Ino, known: InodeFacts) -> bool {
        known.is_directory() && ino != self.ino && ino != Ino::ROOT
    }

    /// Visits what the entries of a block count for, and whether it is a directory in this one.
    pub(super) fn each_target(&self, bytes: &[u8], visit: &mut dyn FnMut(Ino, bool)) {
        let mut dots = if self.file_block == 0 { 2 } else { 0 };
        self.shape.entries.walk(bytes, 0, &mut |entry| {
            let is_dot = dots > 0;
            dots -= i32::from(is_dot);
            let ino = Ino(entry.ino);
            if let Some(known) = self.known(ino).filter(|_| entry.ino != 0) {
                visit(ino, !is_dot && self.is_below(ino, known));
            }
        });
    }

    /// What is in an encrypted directory is encrypted by the same policy, but for what has no
    /// content.
    #[cold]
    fn encrypted(&self, entry: &StoredEntry<'_>, known: InodeFacts) {
        let has_content = matches!(
            known.file_type(),
            Some(FileType::Regular | FileType::Directory | FileType::Symlink)
        );
        let has_policies = self.facts.volume.superblock().has(Feature::ENCRYPT);
        let policy = self.facts.attributes.policy(self.ino);
        let Some(policy) = policy.filter(|_| has_content && has_policies) else {
            return;
        };
        let code = match self.facts.attributes.policy(Ino(entry.ino)) {
            None => Code::EntryUnencrypted,
            Some(own) if own != policy => Code::EntryPolicy,
            Some(_) => return,
        };
        self.report(code, |problem| problem.name(entry.name).other(Ino(entry.ino)));
    }

    #[cold]
    fn not_there(&self, entry: &StoredEntry<'_>) {
        let ino = Ino(entry.ino);
        let is_usable = self.facts.volume.superblock().is_usable(ino);
        let code = match is_usable && !self.facts.is_nameless(ino) {
            true => Code::EntryUnused,
            false => Code::EntryInode,
        };
        self.report(code, |problem| problem.name(entry.name).other(Ino(entry.ino)));
    }

    #[inline]
    fn typed(&self, entry: &StoredEntry<'_>, known: InodeFacts) {
        let detail =
            |problem: Problem| problem.name(entry.name).other(Ino(entry.ino)).found(entry.code);
        if !self.is_typed {
            self.report(Code::EntryTyped, detail);
            return;
        }
        // What the judge of an inode would clear has no type.
        let Some(expected) =
            known.file_type().map(FileType::entry_code).filter(|_| !known.is_bad())
        else {
            return;
        };
        if entry.code != expected {
            self.report(Code::EntryType, |problem| detail(problem).expected(expected));
        }
    }

    /// Judges one of the first two entries of a directory.
    pub(super) fn dot(&self, dot: Dot, entry: &StoredEntry<'_>) {
        let problem = dot.problem(entry);
        if let Some(code) = problem {
            self.report(code, |problem| problem.name(entry.name));
        }
        if entry.ino == 0 {
            return;
        }
        match dot {
            Dot::Itself => {
                // One more entry would fit after it, and one must.
                if entry.length > 2 * RECORD_MIN {
                    self.report(Code::DotTooLong, |problem| {
                        problem.found(entry.length as u64).expected(RECORD_MIN as u64)
                    });
                }
                if entry.ino != self.ino.0 {
                    self.report(Code::DotWrong, |problem| problem.other(Ino(entry.ino)));
                }
            }
            Dot::Parent if problem.is_none() => self.tree.set_dotdot(self.ino, Ino(entry.ino)),
            Dot::Parent => {}
        }
        let _ = self.target(entry);
    }
}
