//! Both trees at once, name by name, without recursion: what is still to come is on a stack.
//!
//! *Invariants*: directories that both trees have are read once each, so the walk ends as the trees
//! do. Findings come in the order of their paths, as bytes name by name.
use super::Side;
use super::finding::{Change, Finding, Here, Which};
use super::side::{Body, Name, Number, Reason, View};
use crate::progress::Progress;
use crate::source::Exclude;
use extant_format::attribute::Attribute;
use extant_format::inode::FileType;
use extant_tree::Facts;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Bytes of each file that are compared at once.
const PIECE_BYTES: usize = 1 << 20;

/// What is not compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ignored {
    /// Modify times.
    Times,
    /// Modify times of directories.
    DirectoryTimes,
    /// What is below a second in them: archives often have seconds only.
    Nanoseconds,
    /// Users and groups.
    Owner,
    /// Permissions.
    Mode,
    /// Flags as chattr sets them.
    Flags,
    /// Extended attributes, access lists among them.
    Attributes,
    /// Which names are hard links of one file.
    Links,
    /// Bytes of files; their sizes are compared.
    Contents,
}

/// How trees are compared.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions {
    /// What is not compared.
    pub ignored: Vec<Ignored>,
    /// What is left out on both sides, with all below it.
    pub exclude: Exclude,
}

impl CompareOptions {
    fn ignores(&self, ignored: Ignored) -> bool {
        self.ignored.contains(&ignored)
    }
}

/// What was compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// Names that both trees have, the root among them.
    pub names: u64,
    /// Bytes of files that were read of each.
    pub bytes: u64,
}

/// Compares two trees. Each difference is given to `found`, which may end the comparison.
/// `progress` is advanced by bytes of files; cancelled, it ends the comparison too.
pub fn compare(
    a: &mut Side,
    b: &mut Side,
    options: &CompareOptions,
    progress: &dyn Progress,
    found: &mut dyn FnMut(Finding) -> ControlFlow<()>,
) -> Compared {
    let (a, b) = (a.view(), b.view());
    let mut comparison = Comparison {
        options,
        progress,
        found,
        path: Vec::new(),
        first_names: Here { a: FxHashMap::default(), b: FxHashMap::default() },
        buffers: [vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]],
        compared: Compared::default(),
    };
    // That it was ended is known to the caller.
    let _ = comparison.run(a, b);
    comparison.compared
}

/// A name that one tree or both have.
struct Pair {
    name: Vec<u8>,
    a: Option<Number>,
    b: Option<Number>,
}

/// A directory that is being compared: what is left of it, the next one last, and how long its path
/// is.
struct Level {
    left: Vec<Pair>,
    path_bytes: usize,
}

struct Comparison<'a> {
    options: &'a CompareOptions,
    progress: &'a dyn Progress,
    found: &'a mut dyn FnMut(Finding) -> ControlFlow<()>,
    path: Vec<u8>,
    /// Of files with several names: the first path under which both trees have one.
    first_names: Here<FxHashMap<Number, Vec<u8>>>,
    buffers: [Vec<u8>; 2],
    compared: Compared,
}

impl Comparison<'_> {
    fn run(&mut self, a: &mut dyn View, b: &mut dyn View) -> ControlFlow<()> {
        let roots = Here { a: a.root(), b: b.root() };
        let mut levels = Vec::new();
        if self.file(a, b, &roots)? == Both::Directories {
            levels.push(self.enter(a, b, &roots)?);
        }
        while let Some(level) = levels.last_mut() {
            if self.progress.is_cancelled() {
                return ControlFlow::Break(());
            }
            self.path.truncate(level.path_bytes);
            let Some(pair) = level.left.pop() else {
                levels.pop();
                continue;
            };
            if !self.path.is_empty() {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&pair.name);
            if self.options.exclude.matches(&self.path) {
                continue;
            }
            let is_top = levels.len() == 1;
            match (pair.a, pair.b) {
                (Some(file_a), Some(file_b)) => {
                    let files = Here { a: file_a, b: file_b };
                    if self.file(a, b, &files)? == Both::Directories {
                        levels.push(self.enter(a, b, &files)?);
                    }
                }
                (Some(file), None) if !(is_top && a.is_made_by_mkfs(file, &pair.name)) => {
                    self.only(a, Which::A, file)?;
                }
                (None, Some(file)) if !(is_top && b.is_made_by_mkfs(file, &pair.name)) => {
                    self.only(b, Which::B, file)?;
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn say(&mut self, change: Change) -> ControlFlow<()> {
        (self.found)(Finding { path: self.path.clone(), change })
    }

    fn unreadable(&mut self, which: Which, reason: Reason) -> ControlFlow<()> {
        self.say(Change::Unreadable(which, reason))
    }

    fn only(&mut self, view: &dyn View, which: Which, file: Number) -> ControlFlow<()> {
        match view.facts(file) {
            Ok(Some(facts)) => self.say(Change::Only(which, facts.file_type)),
            // What is only on the way of other things is a directory.
            Ok(None) => self.say(Change::Only(which, FileType::Directory)),
            Err(reason) => self.unreadable(which, reason),
        }
    }

    /// The names of a directory of both trees.
    fn enter(
        &mut self,
        a: &mut dyn View,
        b: &mut dyn View,
        files: &Here<Number>,
    ) -> ControlFlow<(), Level> {
        let (names_a, wrong_a) = a.names(files.a);
        let (names_b, wrong_b) = b.names(files.b);
        for (which, wrong) in [(Which::A, wrong_a), (Which::B, wrong_b)] {
            if let Some(reason) = wrong {
                self.unreadable(which, reason)?;
            }
        }
        let level = Level { left: merged(names_a, names_b), path_bytes: self.path.len() };
        ControlFlow::Continue(level)
    }

    /// What both trees have under the present path.
    fn file(&mut self, a: &dyn View, b: &dyn View, files: &Here<Number>) -> ControlFlow<(), Both> {
        self.compared.names += 1;
        let facts = match (a.facts(files.a), b.facts(files.b)) {
            (Ok(Some(facts_a)), Ok(Some(facts_b))) => Here { a: facts_a, b: facts_b },
            (Err(reason), other) => {
                self.unreadable(Which::A, reason)?;
                if let Err(reason) = other {
                    self.unreadable(Which::B, reason)?;
                }
                return ControlFlow::Continue(Both::Files);
            }
            (_, Err(reason)) => {
                self.unreadable(Which::B, reason)?;
                return ControlFlow::Continue(Both::Files);
            }
            (Ok(facts_a), Ok(facts_b)) => return self.undescribed(facts_a, facts_b),
        };
        if facts.a.file_type != facts.b.file_type {
            let types = Here { a: facts.a.file_type, b: facts.b.file_type };
            self.say(Change::Type(types))?;
            return ControlFlow::Continue(Both::Files);
        }
        self.plain_facts(&facts)?;
        self.attributes(a, b, files)?;
        let file_type = facts.a.file_type;
        if file_type == FileType::Directory {
            return ControlFlow::Continue(Both::Directories);
        }
        let seen = self.links(a, b, files)?;
        match file_type {
            // Under an earlier name the same two files were compared.
            FileType::Regular if seen == Seen::No => self.bytes(a, b, files, &facts)?,
            FileType::Symlink => self.targets(a, b, files)?,
            FileType::CharacterDevice | FileType::BlockDevice
                if facts.a.device != facts.b.device =>
            {
                let devices = Here { a: facts.a.device, b: facts.b.device };
                self.say(Change::Device(devices))?;
            }
            _ => {}
        }
        ControlFlow::Continue(Both::Files)
    }

    /// A directory that one tree only has on the way to other things: of it nothing is known.
    fn undescribed(&mut self, a: Option<Facts>, b: Option<Facts>) -> ControlFlow<(), Both> {
        let known = |facts: Option<Facts>| facts.map_or(FileType::Directory, |it| it.file_type);
        let types = Here { a: known(a), b: known(b) };
        if types.a == types.b {
            return ControlFlow::Continue(Both::Directories);
        }
        self.say(Change::Type(types))?;
        ControlFlow::Continue(Both::Files)
    }

    fn plain_facts(&mut self, facts: &Here<Facts>) -> ControlFlow<()> {
        let Here { a, b } = facts;
        let options = self.options;
        let has_mode = a.file_type != FileType::Symlink && !options.ignores(Ignored::Mode);
        if has_mode && a.permissions != b.permissions {
            self.say(Change::Mode(Here { a: a.permissions, b: b.permissions }))?;
        }
        if (a.uid, a.gid) != (b.uid, b.gid) && !options.ignores(Ignored::Owner) {
            self.say(Change::Owner(Here { a: (a.uid, a.gid), b: (b.uid, b.gid) }))?;
        }
        if let (Some(flags_a), Some(flags_b)) = (a.flags, b.flags)
            && flags_a != flags_b
            && !options.ignores(Ignored::Flags)
        {
            self.say(Change::Flags(Here { a: flags_a, b: flags_b }))?;
        }
        let is_directory = a.file_type == FileType::Directory;
        if options.ignores(Ignored::Times)
            || (is_directory && options.ignores(Ignored::DirectoryTimes))
        {
            return ControlFlow::Continue(());
        }
        let mut times = Here { a: a.modify_time, b: b.modify_time };
        if options.ignores(Ignored::Nanoseconds) {
            (times.a.nanoseconds, times.b.nanoseconds) = (0, 0);
        }
        match times.a == times.b {
            true => ControlFlow::Continue(()),
            false => self.say(Change::Time(times)),
        }
    }

    fn attributes(&mut self, a: &dyn View, b: &dyn View, files: &Here<Number>) -> ControlFlow<()> {
        if self.options.ignores(Ignored::Attributes) {
            return ControlFlow::Continue(());
        }
        let (list_a, list_b) = match (a.attributes(files.a), b.attributes(files.b)) {
            (Ok(list_a), Ok(list_b)) => (list_a, list_b),
            (Err(reason), _) => return self.unreadable(Which::A, reason),
            (_, Err(reason)) => return self.unreadable(Which::B, reason),
        };
        let value = |list: &[Attribute], name: &[u8]| {
            let found = list.iter().find(|attribute| attribute.name == name);
            found.map(|attribute| attribute.value.clone())
        };
        let mut names: Vec<&[u8]> =
            list_a.iter().chain(&list_b).map(|attribute| attribute.name.as_slice()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let values = Here { a: value(&list_a, name), b: value(&list_b, name) };
            if values.a != values.b {
                self.say(Change::Attribute(name.to_vec(), values))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether the two files have the same names, as far as they were met.
    fn links(&mut self, a: &dyn View, b: &dyn View, files: &Here<Number>) -> ControlFlow<(), Seen> {
        let mut first = |is_linked: bool, which: Which, file: Number| {
            let names = match which {
                Which::A => &mut self.first_names.a,
                Which::B => &mut self.first_names.b,
            };
            if !is_linked {
                return None;
            }
            let before = names.get(&file).cloned();
            if before.is_none() {
                names.insert(file, self.path.clone());
            }
            before
        };
        let first = Here {
            a: first(a.may_have_links(files.a), Which::A, files.a),
            b: first(b.may_have_links(files.b), Which::B, files.b),
        };
        let is_same = first.a == first.b;
        let seen = if is_same && first.a.is_some() { Seen::Yes } else { Seen::No };
        if !is_same && !self.options.ignores(Ignored::Links) {
            self.say(Change::Links(first))?;
        }
        ControlFlow::Continue(seen)
    }

    fn targets(&mut self, a: &dyn View, b: &dyn View, files: &Here<Number>) -> ControlFlow<()> {
        match (a.target(files.a), b.target(files.b)) {
            (Ok(target_a), Ok(target_b)) if target_a == target_b => ControlFlow::Continue(()),
            (Ok(target_a), Ok(target_b)) => {
                self.say(Change::Target(Here { a: target_a, b: target_b }))
            }
            (Err(reason), _) => self.unreadable(Which::A, reason),
            (_, Err(reason)) => self.unreadable(Which::B, reason),
        }
    }

    fn bytes(
        &mut self,
        a: &dyn View,
        b: &dyn View,
        files: &Here<Number>,
        facts: &Here<Facts>,
    ) -> ControlFlow<()> {
        let sizes = Here { a: facts.a.size, b: facts.b.size };
        if sizes.a != sizes.b {
            self.say(Change::Size(sizes.clone()))?;
        }
        if self.options.ignores(Ignored::Contents) {
            return ControlFlow::Continue(());
        }
        let common = sizes.a.min(sizes.b);
        let (mut body_a, mut body_b) = (a.body(files.a), b.body(files.b));
        match self.first_difference(&mut *body_a, &mut *body_b, common) {
            Ok(None) if sizes.a == sizes.b => ControlFlow::Continue(()),
            Ok(at) => self.say(Change::Content(at.unwrap_or(common))),
            Err((which, reason)) => self.unreadable(which, reason),
        }
    }

    /// The first of `length` bytes that differs. What both know to be zeros is not read.
    fn first_difference(
        &mut self,
        a: &mut dyn Body,
        b: &mut dyn Body,
        length: u64,
    ) -> Result<Option<u64>, (Which, Reason)> {
        let in_a = |reason| (Which::A, reason);
        let in_b = |reason| (Which::B, reason);
        let mut at = 0;
        while at < length {
            let data_a = a.next_data(at).map_err(in_a)?.unwrap_or(length..length);
            let data_b = b.next_data(at).map_err(in_b)?.unwrap_or(length..length);
            at = at.max(data_a.start.min(data_b.start));
            if at >= length {
                break;
            }
            // Up to where both are holes again, if that is near.
            let end = data_a.end.max(data_b.end).min(length);
            let count = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
            let count = count.clamp(1, PIECE_BYTES);
            let [piece_a, piece_b] = &mut self.buffers;
            let (piece_a, piece_b) = (&mut piece_a[..count], &mut piece_b[..count]);
            a.read(at, piece_a).map_err(in_a)?;
            b.read(at, piece_b).map_err(in_b)?;
            self.progress.advance(count as u64);
            self.compared.bytes += count as u64;
            if self.progress.is_cancelled() {
                // It is ended before the next name.
                return Ok(None);
            }
            if piece_a != piece_b {
                let differs = piece_a.iter().zip(&*piece_b).position(|(a, b)| a != b);
                return Ok(Some(at + differs.unwrap_or(0) as u64));
            }
            at += count as u64;
        }
        Ok(None)
    }
}

/// What a pair of files is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Both {
    Directories,
    Files,
}

/// Whether the same two files were met under another name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Yes,
    No,
}

/// Two sorted lists as one, the last name first.
fn merged(a: Vec<Name>, b: Vec<Name>) -> Vec<Pair> {
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    let mut pairs = Vec::with_capacity(a.len().max(b.len()));
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(name_a), Some(name_b)) => name_a.bytes.cmp(&name_b.bytes),
        };
        let from_a = if order == Ordering::Greater { None } else { a.next() };
        let from_b = if order == Ordering::Less { None } else { b.next() };
        let (file_a, file_b) =
            (from_a.as_ref().map(|it| it.file), from_b.as_ref().map(|it| it.file));
        if let Some(name) = from_a.or(from_b) {
            pairs.push(Pair { name: name.bytes, a: file_a, b: file_b });
        }
    }
    pairs.reverse();
    pairs
}
