//! The model: a tree of objects in plain maps, with the rules of Linux for names, links, times and
//! errors.

use extant_engine::preset::AccessTimes;
use extant_engine::{Rename, SetAttribute, Size};
use extant_format::inode::{Device, FileType, LINKS_MAX, Time};
use std::collections::BTreeMap;
use std::ops::Range;

pub const EPERM: i32 = 1;
pub const ENOENT: i32 = 2;
pub const EBUSY: i32 = 16;
pub const EEXIST: i32 = 17;
pub const ENOTDIR: i32 = 20;
pub const EISDIR: i32 = 21;
pub const EINVAL: i32 = 22;
pub const EFBIG: i32 = 27;
pub const ENOSPC: i32 = 28;
pub const EMLINK: i32 = 31;
pub const ENAMETOOLONG: i32 = 36;
pub const ENOTEMPTY: i32 = 39;
pub const ELOOP: i32 = 40;
pub const ENODATA: i32 = 61;
pub const EOPNOTSUPP: i32 = 95;

/// An outcome by errno.
pub type Outcome<T> = Result<T, i32>;
/// Names an object in the model.
pub type Id = u64;
pub const ROOT: Id = 0;

const PAGE: u64 = 4096;
const PAGE_BYTES: usize = PAGE as usize;

/// A file's bytes: whole pages, zeros where there is none.
#[derive(Clone, Debug, Default)]
pub struct Content(BTreeMap<u64, Vec<u8>>);

impl Content {
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let length = (bytes.len() - done).min(PAGE_BYTES - within);
            let page = self.0.entry(at / PAGE).or_insert_with(|| vec![0; PAGE_BYTES]);
            page[within..within + length].copy_from_slice(&bytes[done..done + length]);
            done += length;
        }
    }
    pub fn zero(&mut self, range: Range<u64>) {
        let touched: Vec<u64> =
            self.0.range(range.start / PAGE..range.end.div_ceil(PAGE)).map(|(at, _)| *at).collect();
        for at in touched {
            let start = at * PAGE;
            let from = range.start.max(start) - start;
            let to = range.end.min(start + PAGE) - start;
            if (from, to) == (0, PAGE) {
                self.0.remove(&at);
            } else if let Some(page) = self.0.get_mut(&at) {
                page[from as usize..to as usize].fill(0);
            }
        }
    }
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        let end = offset + bytes.len() as u64;
        for (at, page) in self.0.range(offset / PAGE..end.div_ceil(PAGE)) {
            let start = at * PAGE;
            let (from, to) = (start.max(offset), (start + PAGE).min(end));
            let target = &mut bytes[(from - offset) as usize..(to - offset) as usize];
            target.copy_from_slice(&page[(from - start) as usize..(to - start) as usize]);
        }
    }
    /// Byte ranges outside which everything is zero.
    pub fn pages(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.keys().map(|at| at * PAGE..(at + 1) * PAGE)
    }
}

#[derive(Clone, Debug)]
pub struct Object {
    pub kind: FileType,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    /// Those of `rules::FLAGS`.
    pub flags: u32,
    pub size: u64,
    /// Where blocks end that may have been allocated after the end of the file.
    pub reach: u64,
    pub access_time: Time,
    pub modify_time: Time,
    pub change_time: Time,
    pub create_time: Option<Time>,
    pub device: Device,
    pub target: Vec<u8>,
    pub content: Content,
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    pub names: BTreeMap<Vec<u8>, Id>,
    pub parent: Id,
    pub opens: u32,
}

/// What a volume can hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub block_size: u64,
    pub size_max: u64,
    pub has_extents: bool,
    /// Whether inodes have room for nanoseconds and the time of creation.
    pub has_nanoseconds: bool,
    pub has_dir_nlink: bool,
    /// Those that are in use and lead to no object.
    pub system_inodes: usize,
    /// Whether values of attributes may be larger than a block.
    pub has_large_values: bool,
    /// Which reads change access times.
    pub access_times: AccessTimes,
}

#[derive(Clone, Debug)]
pub struct Tree {
    pub objects: BTreeMap<Id, Object>,
    next: Id,
    pub limits: Limits,
    pub now: Time,
}

/// What a change of attributes sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touch {
    pub permissions: Option<u16>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub access_time: Option<Time>,
    pub modify_time: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    Last,
    NotLast,
}

impl Object {
    pub fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }
}

impl Tree {
    /// A tree with a root only.
    pub fn new(limits: Limits, root: Object) -> Tree {
        Tree { objects: BTreeMap::from([(ROOT, root)]), next: 1, limits, now: Time::default() }
    }

    /// A time as an inode can keep it.
    pub fn kept(&self, time: Time) -> Time {
        match self.limits.has_nanoseconds {
            true => time,
            false => Time {
                seconds: time.seconds.clamp(i32::MIN.into(), i32::MAX.into()),
                nanoseconds: 0,
            },
        }
    }

    pub fn set_now(&mut self, now: Time) {
        self.now = self.kept(now);
    }

    pub fn object(&self, id: Id) -> &Object {
        &self.objects[&id]
    }

    pub fn get(&mut self, id: Id) -> &mut Object {
        self.objects.get_mut(&id).expect("an object of the model")
    }

    pub fn add(&mut self, object: Object) -> Id {
        let id = self.next;
        self.next += 1;
        self.objects.insert(id, object);
        id
    }

    pub fn lookup(&self, directory: Id, name: &[u8]) -> Outcome<Option<Id>> {
        let object = self.object(directory);
        if !object.is_directory() {
            return Err(ENOTDIR);
        }
        if name.len() > 255 {
            return Err(ENAMETOOLONG);
        }
        Ok(if name == b".." { Some(object.parent) } else { object.names.get(name).copied() })
    }

    pub fn resolve(&self, path: &[u8], follow: Follow) -> Outcome<Id> {
        let parts = |path: &[u8]| -> Vec<Vec<u8>> {
            let parts =
                path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
            parts.map(<[u8]>::to_vec).rev().collect()
        };
        let mut left = parts(path);
        let (mut at, mut symlinks) = (ROOT, 0);
        while let Some(part) = left.pop() {
            let next = self.lookup(at, &part)?.ok_or(ENOENT)?;
            let is_last = left.is_empty() && !path.ends_with(b"/");
            if self.object(next).kind != FileType::Symlink || (is_last && follow == Follow::NotLast)
            {
                at = next;
                continue;
            }
            symlinks += 1;
            if symlinks > 40 {
                return Err(ELOOP);
            }
            let target = &self.object(next).target;
            if target.first() == Some(&b'/') {
                at = ROOT;
            }
            left.extend(parts(target));
        }
        if path.ends_with(b"/") && !self.object(at).is_directory() {
            return Err(ENOTDIR);
        }
        Ok(at)
    }

    pub fn resolve_parent<'p>(&self, path: &'p [u8]) -> Outcome<(Id, &'p [u8])> {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let cut = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let parent = self.resolve(&path[..cut], Follow::Last)?;
        if !self.object(parent).is_directory() {
            return Err(ENOTDIR);
        }
        Ok((parent, &path[cut..end]))
    }

    fn check_name(name: &[u8]) -> Outcome<()> {
        match name.len() {
            0 => Err(EINVAL),
            1..=255 => Ok(()),
            _ => Err(ENAMETOOLONG),
        }
    }

    fn check_new(&self, parent: Id, name: &[u8]) -> Outcome<()> {
        if matches!(name, b"" | b"." | b"..") {
            return Err(EEXIST);
        }
        Self::check_name(name)?;
        if self.lookup(parent, name)?.is_some() {
            return Err(EEXIST);
        }
        Ok(())
    }

    fn touch(&mut self, directory: Id) {
        let now = self.now;
        let object = self.get(directory);
        (object.modify_time, object.change_time) = (now, now);
    }

    fn fresh(&self, parent: Id, kind: FileType, permissions: u16) -> Object {
        let above = self.object(parent);
        let inherits = above.permissions & 0o2000 != 0;
        let sticky = if inherits && kind == FileType::Directory { 0o2000 } else { 0 };
        Object {
            kind,
            permissions: permissions | sticky,
            uid: 0,
            gid: if inherits { above.gid } else { 0 },
            links: if kind == FileType::Directory { 2 } else { 1 },
            flags: self.inherited_flags(parent),
            size: 0,
            access_time: self.now,
            modify_time: self.now,
            change_time: self.now,
            create_time: self.limits.has_nanoseconds.then_some(self.now),
            device: Device::default(),
            target: Vec::new(),
            reach: 0,
            content: Content::default(),
            attributes: BTreeMap::new(),
            names: BTreeMap::new(),
            parent,
            opens: 0,
        }
    }

    pub fn make(
        &mut self,
        path: &[u8],
        kind: FileType,
        permissions: u16,
        device: Device,
        target: &[u8],
    ) -> Outcome<Id> {
        let (parent, name) = self.resolve_parent(path)?;
        self.check_new(parent, name)?;
        self.check_not_immutable(parent)?;
        if kind == FileType::Directory
            && self.object(parent).links >= u32::from(LINKS_MAX)
            && !self.limits.has_dir_nlink
        {
            return Err(EMLINK);
        }
        if kind == FileType::Symlink {
            match target.len() as u64 {
                0 => return Err(ENOENT),
                length if length >= self.limits.block_size => return Err(ENAMETOOLONG),
                _ => {}
            }
        }
        let is_device = matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
        let object = Object {
            size: target.len() as u64,
            target: target.to_vec(),
            device: if is_device { device } else { Device::default() },
            ..self.fresh(parent, kind, permissions)
        };
        let id = self.add(object);
        self.get(parent).names.insert(name.to_vec(), id);
        if kind == FileType::Directory {
            self.get(parent).links += 1;
        }
        self.touch(parent);
        Ok(id)
    }

    pub fn link(&mut self, original: &[u8], path: &[u8]) -> Outcome<()> {
        let id = self.resolve(original, Follow::NotLast)?;
        let (parent, name) = self.resolve_parent(path)?;
        self.check_new(parent, name)?;
        self.check_not_immutable(parent)?;
        if self.object(id).is_directory() {
            return Err(EPERM);
        }
        self.check_not_locked(id)?;
        if self.object(id).links >= u32::from(LINKS_MAX) {
            return Err(EMLINK);
        }
        self.get(parent).names.insert(name.to_vec(), id);
        let now = self.now;
        let object = self.get(id);
        object.links += 1;
        object.change_time = now;
        self.touch(parent);
        Ok(())
    }

    fn drop_link(&mut self, id: Id) {
        let now = self.now;
        let object = self.get(id);
        object.links = if object.is_directory() { 0 } else { object.links - 1 };
        object.change_time = now;
        self.forget_if_gone(id);
    }

    fn forget_if_gone(&mut self, id: Id) {
        let object = self.object(id);
        if object.links == 0 && object.opens == 0 {
            self.objects.remove(&id);
        }
    }

    pub fn unlink(&mut self, path: &[u8]) -> Outcome<()> {
        let (parent, name) = self.resolve_parent(path)?;
        if matches!(name, b"" | b"." | b"..") {
            return Err(EISDIR);
        }
        Self::check_name(name)?;
        let id = self.lookup(parent, name)?.ok_or(ENOENT)?;
        self.check_may_unlink(parent, id)?;
        if self.object(id).is_directory() {
            return Err(EISDIR);
        }
        self.get(parent).names.remove(name);
        self.touch(parent);
        self.drop_link(id);
        Ok(())
    }

    pub fn rmdir(&mut self, path: &[u8]) -> Outcome<()> {
        let (parent, name) = self.resolve_parent(path)?;
        match name {
            b"" => return Err(EBUSY),
            b"." => return Err(EINVAL),
            b".." => return Err(ENOTEMPTY),
            _ => Self::check_name(name)?,
        }
        let id = self.lookup(parent, name)?.ok_or(ENOENT)?;
        self.check_may_unlink(parent, id)?;
        if !self.object(id).is_directory() {
            return Err(ENOTDIR);
        }
        if !self.object(id).names.is_empty() {
            return Err(ENOTEMPTY);
        }
        let above = self.get(parent);
        above.names.remove(name);
        above.links -= 1;
        self.touch(parent);
        self.drop_link(id);
        Ok(())
    }

    fn is_above(&self, above: Id, mut below: Id) -> bool {
        loop {
            if above == below {
                return true;
            }
            if below == ROOT {
                return false;
            }
            below = self.object(below).parent;
        }
    }

    pub fn rename(&mut self, from: &[u8], to: &[u8], how: Rename) -> Outcome<()> {
        let (from_parent, from_name) = self.resolve_parent(from)?;
        let (to_parent, to_name) = self.resolve_parent(to)?;
        let stays = |name: &[u8]| matches!(name, b"" | b"." | b"..");
        if stays(from_name) {
            return Err(EBUSY);
        }
        Self::check_name(from_name)?;
        if stays(to_name) {
            return Err(if how == Rename::KeepTarget { EEXIST } else { EBUSY });
        }
        Self::check_name(to_name)?;
        let source = self.lookup(from_parent, from_name)?.ok_or(ENOENT)?;
        let target = self.lookup(to_parent, to_name)?;
        match (how, target) {
            (Rename::KeepTarget, Some(_)) => return Err(EEXIST),
            (Rename::Exchange, None) => return Err(ENOENT),
            _ => {}
        }
        if self.is_above(source, to_parent) {
            return Err(EINVAL);
        }
        if target.is_some_and(|target| self.is_above(target, from_parent)) {
            return Err(if how == Rename::Exchange { EINVAL } else { ENOTEMPTY });
        }
        if target == Some(source) {
            return Ok(());
        }
        self.check_may_unlink(from_parent, source)?;
        match target {
            Some(target) => self.check_may_unlink(to_parent, target)?,
            None => self.check_not_immutable(to_parent)?,
        }
        if how != Rename::Exchange {
            self.check_replaceable(source, target)?;
        }
        let moves = self.object(source).is_directory();
        if from_parent != to_parent
            && moves
            && target.is_none()
            && !self.has_room_for_directory(to_parent)
        {
            return Err(EMLINK);
        }
        self.move_names((from_parent, from_name, source), (to_parent, to_name, target), how);
        Ok(())
    }

    fn has_room_for_directory(&self, parent: Id) -> bool {
        self.limits.has_dir_nlink || self.object(parent).links < u32::from(LINKS_MAX)
    }

    fn check_replaceable(&self, source: Id, target: Option<Id>) -> Outcome<()> {
        let Some(target) = target else { return Ok(()) };
        match (self.object(source).is_directory(), self.object(target).is_directory()) {
            (true, false) => Err(ENOTDIR),
            (false, true) => Err(EISDIR),
            (true, true) if !self.object(target).names.is_empty() => Err(ENOTEMPTY),
            _ => Ok(()),
        }
    }

    fn move_names(&mut self, from: (Id, &[u8], Id), to: (Id, &[u8], Option<Id>), how: Rename) {
        let (from_parent, from_name, source) = from;
        let (to_parent, to_name, target) = to;
        let now = self.now;
        let moves = self.object(source).is_directory();
        self.get(from_parent).names.remove(from_name);
        self.get(to_parent).names.insert(to_name.to_vec(), source);
        self.get(source).change_time = now;
        if moves {
            self.get(source).parent = to_parent;
            self.get(from_parent).links -= 1;
            self.get(to_parent).links += 1;
        }
        if let (Rename::Exchange, Some(target)) = (how, target) {
            self.get(from_parent).names.insert(from_name.to_vec(), target);
            self.get(target).change_time = now;
            if self.object(target).is_directory() {
                self.get(target).parent = from_parent;
                self.get(to_parent).links -= 1;
                self.get(from_parent).links += 1;
            }
        } else if let Some(target) = target {
            if self.object(target).is_directory() {
                self.get(to_parent).links -= 1;
            }
            self.drop_link(target);
        }
        if how == Rename::Whiteout {
            let whiteout = self.fresh(from_parent, FileType::CharacterDevice, 0);
            let id = self.add(whiteout);
            self.get(from_parent).names.insert(from_name.to_vec(), id);
        }
        self.touch(from_parent);
        self.touch(to_parent);
    }

    pub fn open(&mut self, path: &[u8]) -> Outcome<Id> {
        let id = self.resolve(path, Follow::Last)?;
        if self.object(id).is_directory() {
            return Err(EISDIR);
        }
        self.get(id).opens += 1;
        Ok(id)
    }

    pub fn close(&mut self, id: Id) {
        self.get(id).opens -= 1;
        self.forget_if_gone(id);
    }

    fn check_mapped(&self, id: Id) -> Outcome<()> {
        match self.object(id).kind {
            FileType::Directory => Err(EISDIR),
            FileType::Regular => Ok(()),
            _ => Err(EINVAL),
        }
    }

    pub fn changed(&mut self, id: Id) {
        self.end_rights(id);
        self.touch(id);
    }

    pub fn check_changeable(&self, id: Id) -> Outcome<()> {
        self.check_not_immutable(id)?;
        self.check_mapped(id)
    }

    pub fn write(&mut self, id: Id, offset: u64, bytes: &[u8]) -> Outcome<usize> {
        self.check_changeable(id)?;
        if offset != self.object(id).size {
            self.check_not_append(id)?;
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        let room = self.limits.size_max.saturating_sub(offset);
        if room == 0 {
            return Err(EFBIG);
        }
        let length = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let object = self.get(id);
        object.content.write(offset, &bytes[..length]);
        object.size = object.size.max(offset + length as u64);
        self.changed(id);
        Ok(length)
    }

    pub fn truncate(&mut self, id: Id, size: u64) -> Outcome<()> {
        self.check_changeable(id)?;
        self.check_not_append(id)?;
        if size > self.limits.size_max {
            return Err(EFBIG);
        }
        let object = self.get(id);
        if size < object.size {
            object.content.zero(size..u64::MAX);
        }
        object.size = size;
        object.reach = size;
        self.changed(id);
        Ok(())
    }

    pub fn allocate(&mut self, id: Id, offset: u64, length: u64, size: Size) -> Outcome<()> {
        self.check_changeable(id)?;
        self.check_not_append(id)?;
        let end = offset.checked_add(length).ok_or(EFBIG)?;
        if length == 0 {
            return Err(EINVAL);
        }
        if !self.limits.has_extents {
            return Err(EOPNOTSUPP);
        }
        if end > self.limits.size_max {
            return Err(EFBIG);
        }
        let object = self.get(id);
        object.reach = object.reach.max(end);
        if size == Size::Grow {
            object.size = object.size.max(end);
        }
        self.changed(id);
        Ok(())
    }

    pub fn punch(&mut self, id: Id, offset: u64, length: u64) -> Outcome<()> {
        self.check_changeable(id)?;
        self.check_not_append(id)?;
        if length == 0 {
            return Err(EINVAL);
        }
        let block_size = self.limits.block_size;
        let object = self.get(id);
        let end = offset.saturating_add(length).min(object.size.next_multiple_of(block_size));
        if offset < end {
            object.content.zero(offset..end);
        }
        self.changed(id);
        Ok(())
    }

    pub fn set_attribute(
        &mut self,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        how: SetAttribute,
    ) -> Outcome<()> {
        let id = self.resolve(path, Follow::NotLast)?;
        self.check_not_locked(id)?;
        check_attribute_name(name)?;
        let now = self.now;
        let object = self.get(id);
        match (object.attributes.contains_key(name), how) {
            (true, SetAttribute::Create) => return Err(EEXIST),
            (false, SetAttribute::Replace) => return Err(ENODATA),
            _ => {}
        }
        object.attributes.insert(name.to_vec(), value.to_vec());
        object.change_time = now;
        Ok(())
    }

    pub fn remove_attribute(&mut self, path: &[u8], name: &[u8]) -> Outcome<()> {
        let id = self.resolve(path, Follow::NotLast)?;
        self.check_not_locked(id)?;
        let now = self.now;
        let object = self.get(id);
        object.attributes.remove(name).ok_or(ENODATA)?;
        object.change_time = now;
        Ok(())
    }

    pub fn change(&mut self, path: &[u8], touch: &Touch) -> Outcome<()> {
        let id = self.resolve(path, Follow::NotLast)?;
        self.check_not_immutable(id)?;
        if *touch != Touch::default() {
            self.check_not_append(id)?;
        }
        if touch.uid.or(touch.gid).is_some() && !self.object(id).is_directory() {
            self.end_rights(id);
        }
        let now = self.now;
        let (access, modify) = (
            touch.access_time.map(|time| self.kept(time)),
            touch.modify_time.map(|time| self.kept(time)),
        );
        let object = self.get(id);
        object.permissions = touch.permissions.unwrap_or(object.permissions);
        object.uid = touch.uid.unwrap_or(object.uid);
        object.gid = touch.gid.unwrap_or(object.gid);
        object.access_time = access.unwrap_or(object.access_time);
        object.modify_time = modify.unwrap_or(object.modify_time);
        object.change_time = now;
        Ok(())
    }

    /// All names with what they lead to; directories before what is in them.
    pub fn paths(&self) -> Vec<(Vec<u8>, Id)> {
        let mut found = vec![(b"/".to_vec(), ROOT)];
        let mut at = 0;
        while at < found.len() {
            let (path, id) = found[at].clone();
            at += 1;
            let prefix =
                if path == b"/" { b"/".to_vec() } else { [path.as_slice(), b"/"].concat() };
            for (name, child) in &self.object(id).names {
                found.push(([prefix.as_slice(), name].concat(), *child));
            }
        }
        found
    }
}

fn check_attribute_name(name: &[u8]) -> Outcome<()> {
    if name.len() > 255 {
        return Err(EINVAL);
    }
    let prefixes: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    let suffix = prefixes.iter().find_map(|prefix| name.strip_prefix(*prefix)).ok_or(EOPNOTSUPP)?;
    if suffix.is_empty() { Err(EINVAL) } else { Ok(()) }
}
