//! What is planned, item by item: directories, files with their holes, links, devices.
//!
//! *Invariants*: what the threads read for a file is taken, whether the file is made or not. A hard
//! link is made only to what this extraction made. A directory gets its own facts when all that is
//! in it is there; flags are given last of all.
use super::folders::{self, FOLDER, Folders, Origin, Reached};
use super::losses::{LossKind, Losses};
use super::restore::{self, Inheritance, Wanted};
use crate::error::{Error, ErrorKind};
use crate::export::body::{Long, Shape, read_or_zeros, shape};
use crate::export::parts::{BodyParts, Taken};
use crate::export::plan::{Item, Step};
use crate::export::{Blame, ExportPlan, LeftOut};
use crate::progress::Progress;
use extant_archive::{printable, reason};
use extant_engine::survey::{NameId, ObjectId};
use extant_format::attribute::Attribute;
use extant_format::inode::FileType;
use extant_tree::{Facts, host};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, copy_file_range, linkat, openat, symlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What is copied at once where the host does not copy from file to file.
const COPY_BYTES: usize = 1 << 20;
/// What is copied to see whether the host does.
const PROBE_BYTES: usize = 4096;
/// Directories of first names of hard links that are kept open.
const LINK_FOLDERS_MAX: usize = 16;

/// What is done about a file that is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// It stays, and the file of the image is left out.
    Keep,
    /// It is removed, and the file of the image is made new: nothing is written through a link.
    Replace,
}

/// Which part of the image becomes the root of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Base {
    /// How many names of each path are left away: 0 for the image's root, 2 for `/a/b`.
    pub names: usize,
}

/// What was extracted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Regular files.
    pub files: u64,
    /// Directories, those included that were there.
    pub directories: u64,
    /// Symlinks.
    pub symlinks: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Devices and fifos.
    pub specials: u64,
    /// Bytes of files, without holes.
    pub data_bytes: u64,
    /// What could not be restored.
    pub losses: Losses,
}

/// Puts all that is planned into a folder of the host. What cannot be read or made is given to
/// `left_out`, which decides whether the rest goes on without it. `progress` is advanced by bytes
/// of files.
///
/// # Errors
/// [`ErrorKind::Output`] when the host is full or fails; [`ErrorKind::LeftOut`] when `left_out`
/// breaks off. What was made until then stays.
pub fn extract(
    plan: &Arc<ExportPlan>,
    base: Base,
    folder: File,
    existing: Existing,
    progress: &dyn Progress,
    left_out: &mut dyn FnMut(LeftOut) -> ControlFlow<()>,
) -> Result<Summary, Error> {
    let Some(first) = plan.items.first() else {
        return Ok(Summary::default());
    };
    let root = root_of(plan, base, first);
    let long = match can_copy(plan, &folder) {
        true => Long::HandOver,
        false => Long::Read,
    };
    let mut writer = Writer {
        plan,
        existing,
        progress,
        left_out,
        inheritance: Inheritance::of(&folder),
        folders: Folders::new(folder.into(), root),
        parts: BodyParts::start(plan, long),
        made: vec![false; plan.survey.object_count() as usize],
        flagged: Vec::new(),
        passed: Vec::new(),
        link_folders: Vec::new(),
        root_facts: RootFacts::Unsaid,
        summary: Summary::default(),
    };
    for item in &plan.items {
        writer.item(item)?;
    }
    writer.end()
}

/// The directory of the image that becomes the root of the target.
fn root_of(plan: &ExportPlan, base: Base, first: &Item) -> ObjectId {
    let mut way = vec![first.object];
    let mut name = first.name;
    while let Some(step) = name {
        let above = plan.survey.directory_of(step);
        way.push(above);
        name = plan.first_name(above);
    }
    way.reverse();
    way.get(base.names).or(way.first()).copied().unwrap_or(first.object)
}

fn path_of(plan: &ExportPlan, name: Option<NameId>) -> Vec<u8> {
    let mut path = Vec::new();
    plan.path(name, &mut path);
    path
}

/// Whether the host copies from the image to a file in the folder by itself.
fn can_copy(plan: &ExportPlan, folder: &File) -> bool {
    let Some((image, origin)) = plan.survey.device().host_file() else { return false };
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let Ok(probe) = openat(folder, c".", flags, Mode::RUSR | Mode::WUSR) else { return false };
    let mut from = origin;
    copy_file_range(image, Some(&mut from), &probe, None, PROBE_BYTES).is_ok_and(|count| count > 0)
}

/// Whether the root of the image is among what is extracted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RootFacts {
    Unsaid,
    Wanted,
}

struct Writer<'a> {
    plan: &'a ExportPlan,
    existing: Existing,
    progress: &'a dyn Progress,
    left_out: &'a mut dyn FnMut(LeftOut) -> ControlFlow<()>,
    inheritance: Inheritance,
    folders: Folders,
    parts: BodyParts,
    /// By object: whether it was made here.
    made: Vec<bool>,
    /// What gets flags in the end.
    flagged: Vec<ObjectId>,
    /// Directories on the way to what was asked for, made here: they get their facts in the end.
    passed: Vec<ObjectId>,
    link_folders: Vec<(ObjectId, File)>,
    root_facts: RootFacts,
    summary: Summary,
}

impl Writer<'_> {
    fn item(&mut self, item: &Item) -> Result<(), Error> {
        let Some(facts) = self.plan.survey.facts(item.object) else { return Ok(()) };
        // The map has to be taken even if nothing comes of the file.
        let body = match shape(&self.plan.survey, item.object, item.step) {
            Shape::None => Ok(Vec::new()),
            Shape::Whole(_) => Ok(Vec::from([Range { start: 0, end: facts.size }])),
            Shape::Mapped => self.parts.map()?,
        };
        let Some(name) = item.name.filter(|_| item.object != self.root()) else {
            self.root_facts = RootFacts::Wanted;
            return Ok(());
        };
        let at = self.go_to(self.plan.survey.directory_of(name))?;
        let bytes = body
            .as_ref()
            .map_or(0, |ranges| ranges.iter().map(|range| range.end - range.start).sum());
        if at == Reached::LeftOut {
            if facts.file_type == FileType::Directory && item.step == Step::Whole {
                self.folders.push_left_out(item.object);
            }
            return self.skip(bytes);
        }
        match (item.step, facts.file_type, body) {
            (Step::Link, ..) => self.link(item.object, name),
            (_, FileType::Directory, _) => self.directory(item.object, name),
            (_, FileType::Regular, Ok(ranges)) => {
                self.file(item.object, name, &facts, &ranges, bytes)
            }
            (_, FileType::Regular, Err(reason)) => self.leave_out(Some(name), reason),
            (_, FileType::Symlink, _) => self.symlink(item.object, name, &facts),
            _ => self.special(item.object, name, &facts),
        }
    }

    fn root(&self) -> ObjectId {
        // The levels begin with it, whatever is above them.
        self.folders.root_object()
    }

    fn path(&self, name: Option<NameId>) -> Vec<u8> {
        path_of(self.plan, name)
    }

    /// Something is left out: goes on without it, or ends the extraction.
    fn leave_out(
        &mut self,
        name: Option<NameId>,
        reason: impl std::fmt::Display,
    ) -> Result<(), Error> {
        self.leave_out_for(LeftOut::new(&self.path(name), reason))
    }

    fn leave_out_for(&mut self, left_out: LeftOut) -> Result<(), Error> {
        let message = left_out.to_string();
        match (self.left_out)(left_out) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::new(message).of(ErrorKind::LeftOut)),
        }
    }

    /// A call of the host failed: where it is full nothing goes on; else this is left out.
    fn failed(&mut self, name: Option<NameId>, error: io::Error) -> Result<(), Error> {
        let is_full = matches!(
            error.kind(),
            io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::ReadOnlyFilesystem
        );
        let text = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::EXIST) => "is there already".to_owned(),
            Some(Errno::NOTDIR | Errno::LOOP) => "something else is there already".to_owned(),
            Some(Errno::ISDIR) => "a directory is there already".to_owned(),
            _ => reason(&error),
        };
        match is_full {
            false => {
                let left_out = LeftOut::new(&self.path(name), text);
                self.leave_out_for(LeftOut { blame: Blame::Elsewhere, ..left_out })
            }
            true => {
                let path = printable(&self.path(name));
                Err(Error::new(format!("{path}: {text}")).of(ErrorKind::Output(error)))
            }
        }
    }

    /// Passes over what the threads read for a file that is not made.
    fn skip(&mut self, mut left: u64) -> Result<(), Error> {
        self.progress.step(left)?;
        while left > 0 {
            self.parts.take(&mut left)?;
        }
        Ok(())
    }

    fn push(&mut self, object: ObjectId, folder: OwnedFd, name: NameId) -> Result<(), Error> {
        let name = self.plan.survey.name(name);
        self.folders.push(object, folder, name).map_err(|error| {
            let error = io::Error::from(error);
            Error::new(format!("the target: {}", reason(&error))).of(ErrorKind::Output(error))
        })
    }

    /// Goes to a directory: up, with all that is left complete; or down, from the root, where only
    /// some paths are wanted.
    fn go_to(&mut self, directory: ObjectId) -> Result<Reached, Error> {
        while self.folders.here() != directory && self.leave()? {}
        if self.folders.here() != directory {
            self.go_down(directory)?;
        }
        Ok(match self.folders.folder() {
            Some(_) => Reached::Here,
            None => Reached::LeftOut,
        })
    }

    /// Leaves the last directory, which gets its facts; `false` at the root.
    fn leave(&mut self) -> Result<bool, Error> {
        let left = self.folders.pop().map_err(|error| {
            let error = io::Error::from(error);
            let text = format!("a directory of the target was moved meanwhile: {}", reason(&error));
            Error::new(text).of(ErrorKind::Output(error))
        })?;
        let Some((object, folder)) = left else { return Ok(false) };
        if let Some(folder) = folder.filter(|_| !self.passed.contains(&object)) {
            self.restore(object, self.plan.first_name(object), &folder.into())?;
        }
        Ok(true)
    }

    /// From the root down to a directory that is not itself wanted.
    fn go_down(&mut self, directory: ObjectId) -> Result<(), Error> {
        for (object, name) in self.way_to(directory) {
            let Some(folder) = self.folders.folder() else {
                self.folders.push_left_out(object);
                continue;
            };
            match self.make_folder(folder, name) {
                Ok((folder, origin)) => {
                    if origin == Origin::New {
                        self.passed.push(object);
                    }
                    self.found(&folder, origin);
                    self.push(object, folder, name)?;
                }
                Err(error) => {
                    self.failed(Some(name), error.into())?;
                    self.folders.push_left_out(object);
                }
            }
        }
        Ok(())
    }

    /// The directories below the root down to this one, each with its name.
    fn way_to(&self, directory: ObjectId) -> Vec<(ObjectId, NameId)> {
        let (mut way, mut here) = (Vec::new(), directory);
        while here != self.root()
            && let Some(name) = self.plan.first_name(here)
        {
            way.push((here, name));
            here = self.plan.survey.directory_of(name);
        }
        way.reverse();
        way
    }

    fn make_folder(
        &self,
        folder: BorrowedFd<'_>,
        name: NameId,
    ) -> Result<(OwnedFd, Origin), Errno> {
        let name = self.plan.survey.name(name);
        match folders::make(folder, name) {
            Err(Errno::NOTDIR | Errno::LOOP) if self.existing == Existing::Replace => {
                folders::remove(folder, name)?;
                folders::make(folder, name)
            }
            made => made,
        }
    }

    fn found(&mut self, folder: &OwnedFd, origin: Origin) {
        if origin == Origin::Found && Inheritance::of(folder) == Inheritance::Lists {
            self.inheritance = Inheritance::Lists;
        }
    }

    fn directory(&mut self, object: ObjectId, name: NameId) -> Result<(), Error> {
        let Some(folder) = self.folders.folder() else { return Ok(()) };
        match self.make_folder(folder, name) {
            Ok((made, origin)) => {
                self.summary.directories += 1;
                self.passed.retain(|passed| *passed != object);
                self.found(&made, origin);
                self.push(object, made, name)
            }
            Err(error) => {
                self.failed(Some(name), error.into())?;
                self.folders.push_left_out(object);
                Ok(())
            }
        }
    }

    /// Makes something new under a name; takes away what has the name, if that is wanted.
    fn make_new<T>(
        &self,
        name: NameId,
        make: impl Fn(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let folder = self.folders.folder().ok_or(Errno::NOENT)?;
        let name = self.plan.survey.name(name);
        match make(folder, name) {
            Err(Errno::EXIST) if self.existing == Existing::Replace => {
                folders::remove(folder, name)?;
                make(folder, name)
            }
            made => made,
        }
    }

    fn attributes(
        &mut self,
        object: ObjectId,
        name: Option<NameId>,
    ) -> Result<Vec<Attribute>, Error> {
        match self.plan.survey.attributes(object) {
            Ok(attributes) => Ok(attributes),
            Err(error) => {
                self.leave_out(
                    name,
                    format_args!("its extended attributes are left out: {error}"),
                )?;
                Ok(Vec::new())
            }
        }
    }

    /// Gives an open file or directory its facts; its flags are left for the end.
    fn restore(
        &mut self,
        object: ObjectId,
        name: Option<NameId>,
        file: &File,
    ) -> Result<(), Error> {
        let Some(facts) = self.plan.survey.facts(object) else { return Ok(()) };
        let attributes = self.attributes(object, name)?;
        let path = || path_of(self.plan, name);
        let wanted = Wanted { facts: &facts, attributes: &attributes, path: &path };
        wanted.restore(file, self.inheritance, &mut self.summary.losses);
        if !restore::flags(&facts).is_empty() {
            self.flagged.push(object);
        }
        Ok(())
    }

    fn restore_by_name(&mut self, object: ObjectId, name: NameId) -> Result<(), Error> {
        let Some(facts) = self.plan.survey.facts(object) else { return Ok(()) };
        let attributes = self.attributes(object, Some(name))?;
        let path = || path_of(self.plan, Some(name));
        let wanted = Wanted { facts: &facts, attributes: &attributes, path: &path };
        if let Some(folder) = self.folders.folder() {
            let name = self.plan.survey.name(name);
            wanted.restore_by_name((folder, name), &mut self.summary.losses);
        }
        self.made[object.0 as usize] = true;
        Ok(())
    }

    fn file(
        &mut self,
        object: ObjectId,
        name: NameId,
        facts: &Facts,
        ranges: &[Range<u64>],
        bytes: u64,
    ) -> Result<(), Error> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match self.make_new(name, |folder, name| openat(folder, name, flags, mode)) {
            Ok(file) => File::from(file),
            Err(error) => {
                self.failed(Some(name), error.into())?;
                return self.skip(bytes);
            }
        };
        let mut copy = Copy { file: &file, taken: 0, written: 0, lost: None };
        let mut outcome = Ok(());
        for range in ranges {
            outcome = self.body(&mut copy, range.clone())?;
            if outcome.is_err() {
                break;
            }
        }
        let Copy { taken, written, lost, .. } = copy;
        if outcome.is_ok() && written < facts.size {
            outcome = file.set_len(facts.size);
        }
        let wanted = self.progress.step(taken);
        if let Err(error) = outcome {
            // Half a file is worse than none.
            if let Some(folder) = self.folders.folder() {
                let _ = folders::remove(folder, self.plan.survey.name(name));
            }
            self.failed(Some(name), error)?;
            return self.skip(bytes - taken);
        }
        self.summary.files += 1;
        self.summary.data_bytes += bytes;
        self.made[object.0 as usize] = true;
        self.restore(object, Some(name), &file)?;
        wanted?;
        match lost {
            None => Ok(()),
            Some(reason) => self.leave_out(
                Some(name),
                format_args!("bytes that cannot be read are zeros in the file: {reason}"),
            ),
        }
    }

    /// Writes a range of a file; what the host says of it.
    fn body(&mut self, copy: &mut Copy<'_>, range: Range<u64>) -> Result<io::Result<()>, Error> {
        let (mut at, mut left) = (range.start, range.end - range.start);
        while left > 0 {
            let taken = self.parts.take(&mut left)?;
            let count = taken.length();
            copy.taken += count;
            let written = match taken {
                Taken::Bytes(range) => {
                    copy.written = at + count;
                    copy.file.write_all_at(&self.parts.bytes()[range], at)
                }
                Taken::Handed(range) => {
                    copy.written = at + count;
                    self.hand_over(copy, range, at)
                }
                Taken::Zeros(_) => Ok(()),
                Taken::Lost(_, reason) => {
                    copy.lost.get_or_insert(reason);
                    Ok(())
                }
            };
            if written.is_err() {
                return Ok(written);
            }
            at += count;
        }
        Ok(Ok(()))
    }

    /// Lets the host copy a stretch of the volume to byte `to` of a file; what it does not copy is
    /// read and written.
    fn hand_over(&self, copy: &mut Copy<'_>, range: Range<u64>, mut to: u64) -> io::Result<()> {
        let device = self.plan.survey.device();
        let mut from = range.start;
        if let Some((image, origin)) = device.host_file() {
            while from < range.end {
                let left = usize::try_from(range.end - from).unwrap_or(usize::MAX);
                let (mut at, mut end) = (origin + from, to);
                match copy_file_range(image, Some(&mut at), copy.file, Some(&mut end), left) {
                    Ok(0) => break,
                    Ok(count) => (from, to) = (from + count as u64, to + count as u64),
                    Err(Errno::INTR) => {}
                    Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                        return Err(error.into());
                    }
                    // Reading it will say what is wrong, if anything is.
                    Err(_) => break,
                }
            }
        }
        let mut buffer = Vec::new();
        while from < range.end {
            let count = (range.end - from).min(COPY_BYTES as u64) as usize;
            buffer.resize(count, 0);
            let lost = read_or_zeros(device, from, &mut buffer);
            copy.lost = copy.lost.take().or(lost);
            copy.file.write_all_at(&buffer, to)?;
            (from, to) = (from + count as u64, to + count as u64);
        }
        Ok(())
    }

    fn symlink(&mut self, object: ObjectId, name: NameId, facts: &Facts) -> Result<(), Error> {
        let target = match self.plan.survey.target(object) {
            Ok(target) => target,
            Err(error) => return self.leave_out(Some(name), error),
        };
        let made = self.make_new(name, |folder, name| symlinkat(target.as_slice(), folder, name));
        if let Err(error) = made {
            return self.failed(Some(name), error.into());
        }
        debug_assert_eq!(facts.file_type, FileType::Symlink);
        self.summary.symlinks += 1;
        self.restore_by_name(object, name)
    }

    fn special(&mut self, object: ObjectId, name: NameId, facts: &Facts) -> Result<(), Error> {
        let made = self.make_new(name, |folder, name| {
            host::make_node((folder, name), facts.file_type, 0o600, facts.device)
        });
        match made {
            Ok(()) => {}
            Err(error @ Errno::PERM) if facts.file_type.is_device() => {
                let path = self.path(Some(name));
                self.summary.losses.add(LossKind::Device, || {
                    let reason = reason(&error.into());
                    format!("{}: a device, is left out: {reason}", printable(&path))
                });
                return Ok(());
            }
            Err(error) => return self.failed(Some(name), error.into()),
        }
        self.summary.specials += 1;
        self.restore_by_name(object, name)
    }

    /// Another name of something that was made before.
    fn link(&mut self, object: ObjectId, name: NameId) -> Result<(), Error> {
        let first = self.plan.first_name(object).filter(|_| self.made[object.0 as usize]);
        let Some(first) = first else {
            let left_out = LeftOut::new(&self.path(Some(name)), "is a link to what was left out");
            return self.leave_out_for(LeftOut { blame: Blame::Elsewhere, ..left_out });
        };
        let above = self.plan.survey.directory_of(first);
        if let Err(error) = self.open_for_links(above) {
            return self.failed(Some(name), error.into());
        }
        let made = {
            let there = self.link_folders.last().map(|(_, folder)| folder);
            let first = self.plan.survey.name(first);
            let there = there.ok_or(Errno::NOENT);
            there.and_then(|there| {
                self.make_new(name, |folder, name| {
                    linkat(there, first, folder, name, AtFlags::empty())
                })
            })
        };
        match made {
            Ok(()) => {
                self.summary.hard_links += 1;
                Ok(())
            }
            Err(error) => self.failed(Some(name), error.into()),
        }
    }

    /// Puts a directory of the target at the end of those that links lead to.
    fn open_for_links(&mut self, directory: ObjectId) -> Result<(), Errno> {
        if let Some(at) = self.link_folders.iter().position(|(object, _)| *object == directory) {
            let found = self.link_folders.remove(at);
            self.link_folders.push(found);
            return Ok(());
        }
        let folder = self.open(directory)?;
        if self.link_folders.len() >= LINK_FOLDERS_MAX {
            self.link_folders.remove(0);
        }
        self.link_folders.push((directory, folder));
        Ok(())
    }

    /// Opens a directory of the target, name by name from its root.
    fn open(&self, directory: ObjectId) -> Result<File, Errno> {
        let way = self.way_to(directory);
        let names = way.iter().map(|(_, name)| self.plan.survey.name(*name));
        Ok(host::open_below(self.folders.root(), names, FOLDER)?.into())
    }

    /// What is left when all files are there.
    fn end(mut self) -> Result<Summary, Error> {
        while self.leave()? {}
        let mut passed = std::mem::take(&mut self.passed);
        // From below: what is closed for us then is not needed any more.
        passed.reverse();
        for object in passed {
            let name = self.plan.first_name(object);
            match self.open(object) {
                Ok(folder) => self.restore(object, name, &folder)?,
                Err(error) => self.failed(name, error.into())?,
            }
        }
        if self.root_facts == RootFacts::Wanted
            && let Ok(folder) = self.open_root()
        {
            let root = self.root();
            self.restore(root, self.plan.first_name(root), &folder)?;
        }
        for object in std::mem::take(&mut self.flagged) {
            self.restore_flags(object)?;
        }
        Ok(self.summary)
    }

    fn open_root(&self) -> io::Result<File> {
        Ok(self.folders.root().try_clone_to_owned()?.into())
    }

    fn restore_flags(&mut self, object: ObjectId) -> Result<(), Error> {
        let (Some(facts), name) = (self.plan.survey.facts(object), self.plan.first_name(object))
        else {
            return Ok(());
        };
        let opened = match (object == self.root(), name) {
            (true, _) => self.open_root(),
            (false, None) => return Ok(()),
            (false, Some(name)) => {
                let above = self.open(self.plan.survey.directory_of(name));
                let flags = OFlags::RDONLY
                    | OFlags::NOFOLLOW
                    | OFlags::NONBLOCK
                    | OFlags::NOATIME
                    | OFlags::CLOEXEC;
                let file = above.and_then(|above| {
                    openat(above, self.plan.survey.name(name), flags, Mode::empty())
                });
                file.map(File::from).map_err(io::Error::from)
            }
        };
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                let path = self.path(name);
                self.summary.losses.add(LossKind::Flags, || {
                    format!("{}: its flags: {}", printable(&path), reason(&error))
                });
                return Ok(());
            }
        };
        let path = || path_of(self.plan, name);
        let wanted = Wanted { facts: &facts, attributes: &[], path: &path };
        wanted.restore_flags(&file, &mut self.summary.losses);
        Ok(())
    }
}

/// A file that is being written.
struct Copy<'a> {
    file: &'a File,
    /// Bytes that were taken from what the threads read.
    taken: u64,
    /// Where the last byte that was written ends.
    written: u64,
    /// Why some bytes of it are zeros.
    lost: Option<String>,
}
