//! Which names go into an archive, and in which order.
//!
//! *Invariants*: a directory is planned once, after its own name and before all that is in it,
//! whatever the image says: what leads to a directory a second time is left out, so that the plan
//! is a tree and ends.
use super::left_out::LeftOut;
use crate::error::{Error, ErrorKind};
use extant_archive::printable;
use extant_engine::survey::{NameId, ObjectId, Survey};
use extant_format::inode::FileType;
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::sync::Arc;

/// Names and paths longer than this are an attack, not a tree; readers have limits, too.
pub(super) const PATH_BYTES_MAX: usize = 4 << 20;

/// In tables of names and objects: none.
const NONE: u32 = u32::MAX;
/// In the table of what names lead to: the directory has the name twice.
const DOUBLE: u32 = u32::MAX - 1;

/// What is planned for a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// All of it.
    Whole,
    /// Another name of something that is in the archive already.
    Link,
}

/// A name to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// `None` for the root.
    pub(crate) name: Option<NameId>,
    pub(crate) object: ObjectId,
    pub(crate) step: Step,
}

/// What keeps a name out of an archive.
#[derive(Debug)]
pub enum Omission {
    /// The image is damaged there.
    Damaged(LeftOut),
    /// A socket: an archive has no form for it, and without the program that made it, it is worth
    /// nothing.
    Socket(LeftOut),
}

impl Omission {
    /// What is left out, and why.
    pub(crate) fn left_out(&self) -> &LeftOut {
        match self {
            Omission::Damaged(left_out) | Omission::Socket(left_out) => left_out,
        }
    }
}

/// Everything that is to be written.
pub struct ExportPlan {
    pub(crate) survey: Arc<Survey>,
    pub(crate) items: Vec<Item>,
    /// By object: the name under which it is written first.
    first_names: Vec<u32>,
    /// What is left out, in the order in which it was found.
    pub omissions: Vec<Omission>,
    /// Bytes of the files that are planned, holes included.
    pub bytes: u64,
}

/// The plan under construction.
struct Planner {
    plan: ExportPlan,
    /// By name: the object that it leads to, or `NONE`.
    objects: Vec<u32>,
    reached: Vec<Reached>,
    /// By object; of directories: the first block of all that is below them.
    positions: Vec<u64>,
    /// Directories in the order in which they were reached: parents first.
    directories: Vec<ObjectId>,
    hashes: Vec<(u64, NameId)>,
    sockets: Sockets,
}

/// What becomes of sockets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sockets {
    LeftOut,
    Planned,
}

/// The names of a path, from the root on, and what they lead to.
type Way = Vec<(NameId, ObjectId)>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    No,
    Yes,
}

impl ExportPlan {
    /// Plans the whole image, or what is at and below the paths.
    ///
    /// # Errors
    /// There is no such path.
    pub fn new(survey: Arc<Survey>, paths: &[Vec<u8>]) -> Result<ExportPlan, Error> {
        ExportPlan::of(survey, paths, Sockets::LeftOut)
    }

    /// The whole image, sockets too: for what can hold them.
    ///
    /// # Errors
    /// The image has no root directory.
    pub(crate) fn with_sockets(survey: Arc<Survey>) -> Result<ExportPlan, Error> {
        ExportPlan::of(survey, &[], Sockets::Planned)
    }

    fn of(survey: Arc<Survey>, paths: &[Vec<u8>], sockets: Sockets) -> Result<ExportPlan, Error> {
        let objects = survey.object_count() as usize;
        let names = survey.name_count() as usize;
        let plan = ExportPlan {
            survey,
            items: Vec::new(),
            first_names: vec![NONE; objects],
            omissions: Vec::new(),
            bytes: 0,
        };
        let mut planner = Planner {
            plan,
            objects: vec![NONE; names],
            reached: vec![Reached::No; objects],
            positions: vec![u64::MAX; objects],
            directories: Vec::new(),
            hashes: Vec::new(),
            sockets,
        };
        let starts = planner.starts(paths)?;
        let starts: Vec<_> =
            starts.into_iter().filter(|start| planner.reach(*start) == Reached::Yes).collect();
        planner.place_directories();
        planner.plan.items.reserve_exact(names + 1);
        for start in starts {
            planner.emit(start);
        }
        Ok(planner.plan)
    }

    /// The path of a name: names from the root on, with slashes between them.
    pub(crate) fn path(&self, name: Option<NameId>, path: &mut Vec<u8>) {
        path.clear();
        let mut steps = Vec::new();
        let mut next = name;
        while let Some(name) = next {
            steps.push(name);
            next = self.first_name(self.survey.directory_of(name));
        }
        for (at, name) in steps.into_iter().rev().enumerate() {
            if at > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(self.survey.name(name));
        }
    }

    /// The name under which something is written first; `None` for the root.
    pub(crate) fn first_name(&self, object: ObjectId) -> Option<NameId> {
        Some(self.first_names[object.0 as usize]).filter(|name| *name != NONE).map(NameId)
    }

    fn damaged(&mut self, name: Option<NameId>, reason: impl std::fmt::Display) {
        let mut path = Vec::new();
        self.path(name, &mut path);
        self.omissions.push(Omission::Damaged(LeftOut::new(&path, reason)));
    }
}

impl Planner {
    /// Where to begin: the root, or the paths without those that are below others.
    fn starts(&mut self, paths: &[Vec<u8>]) -> Result<Vec<(Option<NameId>, ObjectId)>, Error> {
        let root = self.plan.survey.object(extant_format::Ino::ROOT);
        let root =
            root.map_err(|error| Error::new(format!("the image has no root directory: {error}")))?;
        if self.plan.survey.file_type(root) != Some(FileType::Directory) {
            let reason = self
                .plan
                .survey
                .fault(root)
                .map_or("it is no directory".into(), ToString::to_string);
            return Err(Error::new(format!("the root directory cannot be read: {reason}")));
        }
        if paths.is_empty() {
            return Ok(vec![(None, root)]);
        }
        let ways: Result<Vec<Way>, Error> =
            paths.iter().map(|path| self.find(path, root)).collect();
        let ways = ways?;
        let mut starts: Vec<(Option<NameId>, ObjectId)> = Vec::new();
        for (at, way) in ways.iter().enumerate() {
            let is_covered = |(other, above): (usize, &Way)| {
                let below = way.starts_with(above);
                below && (above.len() < way.len() || other < at)
            };
            if !ways.iter().enumerate().any(is_covered) {
                starts.push(self.go(way, root));
            }
        }
        Ok(starts)
    }

    /// What a path leads to, step by step.
    fn find(&self, path: &[u8], root: ObjectId) -> Result<Way, Error> {
        let survey = &self.plan.survey;
        let path = components(path);
        let shown = || printable(&path.join(&b'/'));
        let (mut way, mut here) = (Way::new(), root);
        for step in &path {
            let name = survey.find(here, step).ok_or_else(|| {
                let error = Error::new(format!("{}: there is no such file in the image", shown()));
                error.of(ErrorKind::NoSuchPath)
            })?;
            here = survey
                .object(survey.leads_to(name))
                .map_err(|error| Error::new(format!("{}: {error}", shown())))?;
            way.push((name, here));
        }
        Ok(way)
    }

    /// Notes the way to what is wanted, for its path; never a way back. Returns where it ends.
    fn go(&mut self, way: &Way, root: ObjectId) -> (Option<NameId>, ObjectId) {
        for (at, (name, object)) in way.iter().enumerate() {
            self.objects[name.0 as usize] = object.0;
            if at + 1 < way.len()
                && *object != root
                && self.reached[object.0 as usize] == Reached::No
            {
                self.plan.first_names[object.0 as usize] = name.0;
                self.reached[object.0 as usize] = Reached::Yes;
            }
        }
        way.last().map_or((None, root), |(name, object)| (Some(*name), *object))
    }

    /// Finds all directories at and below a start, and what the names in them lead to. Says whether
    /// there is a start.
    fn reach(&mut self, (name, object): (Option<NameId>, ObjectId)) -> Reached {
        let survey = Arc::clone(&self.plan.survey);
        let first = self.directories.len();
        let reached = self.reach_one(&survey, name, object);
        let mut next = first;
        while let Some(directory) = self.directories.get(next).copied() {
            next += 1;
            self.drop_doubles(&survey, directory);
            for name in survey.names(directory) {
                if let Some(stored) = survey.stored_name(name) {
                    let stored = stored.escape_ascii();
                    let said = format!("has a name that no file may have: \"{stored}\"");
                    self.plan.damaged(Some(name), said);
                }
                match survey.object(survey.leads_to(name)) {
                    _ if self.objects[name.0 as usize] == DOUBLE => {}
                    Ok(object) => _ = self.reach_one(&survey, Some(name), object),
                    Err(error) => self.plan.damaged(Some(name), error),
                }
            }
        }
        reached
    }

    fn reach_one(&mut self, survey: &Survey, name: Option<NameId>, object: ObjectId) -> Reached {
        let file_type = survey.file_type(object);
        if let Some(fault) = survey.fault(object) {
            self.plan.damaged(name, fault);
            // Of a directory its other blocks may be sound; of anything else nothing is left.
            if file_type != Some(FileType::Directory) {
                return Reached::No;
            }
        }
        if file_type == Some(FileType::Directory) {
            if self.reached[object.0 as usize] == Reached::Yes {
                self.plan.damaged(name, "a directory that has another name already");
                return Reached::No;
            }
            self.reached[object.0 as usize] = Reached::Yes;
            if let Some(name) = name {
                self.plan.first_names[object.0 as usize] = name.0;
            }
            self.directories.push(object);
        }
        if let Some(name) = name {
            self.objects[name.0 as usize] = object.0;
        }
        Reached::Yes
    }

    /// Of equal names in a directory only the first counts.
    fn drop_doubles(&mut self, survey: &Survey, directory: ObjectId) {
        let hash = |name: NameId| {
            let mut hasher = FxHasher::default();
            hasher.write(survey.name(name));
            (hasher.finish(), name)
        };
        self.hashes.clear();
        self.hashes.extend(survey.names(directory).map(hash));
        self.hashes.sort_unstable();
        let doubles: Vec<NameId> = self
            .hashes
            .windows(2)
            .filter(|pair| {
                pair[0].0 == pair[1].0 && survey.name(pair[0].1) == survey.name(pair[1].1)
            })
            .map(|pair| pair[1].1)
            .collect();
        for name in doubles {
            self.plan.damaged(Some(name), "a second entry of the same name");
            self.objects[name.0 as usize] = DOUBLE;
        }
    }

    /// Gives each directory the place of what comes first of all below it.
    fn place_directories(&mut self) {
        let survey = Arc::clone(&self.plan.survey);
        for directory in self.directories.iter().rev() {
            let names = survey.names(*directory).filter_map(|name| self.object_of(name));
            let first = names
                .map(|object| self.positions[object.0 as usize].min(place(&survey, object)))
                .min();
            self.positions[directory.0 as usize] = first.unwrap_or(u64::MAX);
        }
    }

    fn object_of(&self, name: NameId) -> Option<ObjectId> {
        Some(self.objects[name.0 as usize]).filter(|object| *object < DOUBLE).map(ObjectId)
    }

    /// Plans a start and all below it.
    fn emit(&mut self, start: (Option<NameId>, ObjectId)) {
        let survey = Arc::clone(&self.plan.survey);
        // What is still to come, the next one last.
        let mut waiting: Vec<(u64, Option<NameId>, ObjectId)> = vec![(0, start.0, start.1)];
        while let Some((_, name, object)) = waiting.pop() {
            let file_type = survey.file_type(object);
            self.item(&survey, name, object, file_type);
            if file_type != Some(FileType::Directory) {
                continue;
            }
            let first = waiting.len();
            for child in survey.names(object) {
                let Some(found) = self.object_of(child) else { continue };
                if name.is_none() && is_plain_lost_and_found(&survey, child, found) {
                    continue;
                }
                let position = self.positions[found.0 as usize].min(place(&survey, found));
                waiting.push((position, Some(child), found));
            }
            let bytes = |name: Option<NameId>| name.map(|name| survey.name(name));
            waiting[first..].sort_unstable_by(|a, b| (b.0, bytes(b.1)).cmp(&(a.0, bytes(a.1))));
        }
    }

    fn item(
        &mut self,
        survey: &Survey,
        name: Option<NameId>,
        object: ObjectId,
        file_type: Option<FileType>,
    ) {
        if file_type == Some(FileType::Socket) && self.sockets == Sockets::LeftOut {
            let mut path = Vec::new();
            self.plan.path(name, &mut path);
            let reason = "is a socket, which an archive cannot hold";
            return self.plan.omissions.push(Omission::Socket(LeftOut::new(&path, reason)));
        }
        let first = &mut self.plan.first_names[object.0 as usize];
        let step = match file_type {
            Some(FileType::Directory) => Step::Whole,
            _ if *first == NONE => {
                *first = name.map_or(NONE, |name| name.0);
                self.plan.bytes = self.plan.bytes.saturating_add(survey.size(object));
                Step::Whole
            }
            _ => Step::Link,
        };
        self.plan.items.push(Item { name, object, step });
    }
}

/// Where on the disk something begins; what has no place there comes first in its directory.
fn place(survey: &Survey, object: ObjectId) -> u64 {
    match survey.position(object) {
        Some(block) => block.0,
        None if survey.file_type(object) == Some(FileType::Directory) => u64::MAX,
        None => 0,
    }
}

/// Every mkfs makes it, so nothing is lost when an archive does not mention it: empty, root's own,
/// as old as the volume.
pub(crate) fn is_plain_lost_and_found(survey: &Survey, name: NameId, object: ObjectId) -> bool {
    if survey.name(name) != b"lost+found"
        || survey.fault(object).is_some()
        || survey.names(object).len() > 0
    {
        return false;
    }
    let Some(facts) = survey.facts(object) else {
        return false;
    };
    let made = survey.superblock().created_seconds.cast_signed();
    let is_original = (made..=made.saturating_add(1)).contains(&facts.modify_time.seconds);
    facts.file_type == FileType::Directory
        && (facts.permissions, facts.uid, facts.gid) == (0o700, 0, 0)
        && is_original
        && survey.attributes(object).is_ok_and(|attributes| attributes.is_empty())
}

/// The path of an item, made from that of the item before it where that is less work.
#[derive(Default)]
pub(crate) struct ItemPath {
    /// Names from the root on, with slashes between them.
    pub(crate) bytes: Vec<u8>,
    /// The directory of the entry, and how long the directory's path is.
    directory: Option<ObjectId>,
    directory_length: usize,
    /// The entry.
    object: Option<ObjectId>,
}

impl ItemPath {
    /// Becomes that of an item.
    pub(crate) fn step_to(&mut self, plan: &ExportPlan, item: &Item) {
        let Some(name) = item.name else {
            *self = ItemPath { object: Some(item.object), ..ItemPath::default() };
            return;
        };
        let directory = Some(plan.survey.directory_of(name));
        if directory == self.object {
            self.directory_length = self.bytes.len();
        } else if directory == self.directory {
            self.bytes.truncate(self.directory_length);
        } else {
            let above = plan.survey.directory_of(name);
            plan.path(plan.first_name(above), &mut self.bytes);
            self.directory_length = self.bytes.len();
        }
        (self.directory, self.object) = (directory, Some(item.object));
        if !self.bytes.is_empty() {
            self.bytes.push(b'/');
        }
        self.bytes.extend_from_slice(plan.survey.name(name));
    }
}

/// The names that a path is made of.
fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/').filter(|step| !step.is_empty() && *step != b".").collect()
}
