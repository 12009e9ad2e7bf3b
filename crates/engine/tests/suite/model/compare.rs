//! The whole tree of the engine against that of the model.

use crate::model::operation::Path;
use crate::model::rules::FLAGS;
use crate::model::tree::{Id, Object, ROOT, Tree};
use extant_engine::{Filesystem, Metadata, Object as Seen};
use extant_format::Ino;
use extant_format::inode::FileType;
use std::collections::BTreeMap;

fn said<T>(path: &Path, outcome: extant_engine::Result<T>) -> Result<T, String> {
    outcome.map_err(|error| format!("{path:?}: {error}"))
}

fn differ<T: PartialEq + std::fmt::Debug>(
    path: &Path,
    what: &str,
    engine: T,
    model: T,
) -> Result<(), String> {
    if engine == model {
        Ok(())
    } else {
        Err(format!("{path:?}: {what}: {engine:?}, the model has {model:?}"))
    }
}

/// What differs first, if anything.
pub fn trees(volume: &Filesystem, tree: &Tree) -> Result<(), String> {
    let mut numbers: BTreeMap<Id, Ino> = BTreeMap::new();
    for (path, id) in tree.paths() {
        let path = Path(path);
        let metadata = said(&path, volume.symlink_metadata(&path))?;
        differ(
            &path,
            "number of the inode",
            metadata.ino,
            *numbers.entry(id).or_insert(metadata.ino),
        )?;
        let object = tree.object(id);
        attributes_of_inode(&path, &metadata, object)?;
        // Objects are looked at: that is no access, as listing and reading by name would be.
        let seen = said(&path, volume.object(&path))?;
        let attributes = said(&path, seen.attributes())?;
        let attributes: BTreeMap<_, _> =
            attributes.into_iter().map(|one| (one.name, one.value)).collect();
        differ(&path, "extended attributes", &attributes, &object.attributes)?;
        match object.kind {
            FileType::Directory => names(&seen, &path, tree, object)?,
            FileType::Symlink => {
                differ(&path, "target", said(&path, seen.read_link())?, object.target.clone())?
            }
            FileType::Regular => content(&seen, &path, object)?,
            _ => {}
        }
    }
    let distinct: std::collections::BTreeSet<Ino> = numbers.values().copied().collect();
    differ(&Path(b"/".to_vec()), "inodes", distinct.len(), numbers.len())?;
    // What a rename replaced is in use until the new name is durable.
    said(&Path(b"/".to_vec()), volume.sync())?;
    let statfs = volume.statfs();
    let held = tree.objects.values().filter(|object| object.links == 0).count();
    let used = (statfs.inodes - statfs.free_inodes) as usize;
    let known = numbers.len() + held + tree.limits.system_inodes;
    // Some values of attributes may have inodes of their own, most of them not.
    let values = tree.objects.values().map(|object| object.attributes.len()).sum();
    let values = if tree.limits.has_large_values { values } else { 0 };
    let in_inodes = used.saturating_sub(known).min(values);
    differ(&Path(b"/".to_vec()), "inodes in use", used, known + in_inodes)?;
    debug_assert!(numbers.contains_key(&ROOT));
    Ok(())
}

fn attributes_of_inode(path: &Path, metadata: &Metadata, object: &Object) -> Result<(), String> {
    differ(path, "type", metadata.file_type, object.kind)?;
    differ(path, "permissions", metadata.mode & 0o7777, object.permissions)?;
    differ(path, "owner", (metadata.uid, metadata.gid), (object.uid, object.gid))?;
    differ(path, "flags", metadata.flags & FLAGS, object.flags)?;
    differ(path, "links", u32::from(metadata.links), object.links)?;
    differ(path, "access time", metadata.access_time, object.access_time)?;
    differ(path, "modify time", metadata.modify_time, object.modify_time)?;
    differ(path, "change time", metadata.change_time, object.change_time)?;
    differ(path, "create time", metadata.create_time, object.create_time)?;
    if matches!(object.kind, FileType::CharacterDevice | FileType::BlockDevice) {
        differ(path, "device", metadata.device, Some(object.device))?;
    }
    if object.kind != FileType::Directory {
        differ(path, "size", metadata.size, object.size)?;
    }
    Ok(())
}

fn names(seen: &Seen, path: &Path, tree: &Tree, object: &Object) -> Result<(), String> {
    let entries = said(path, seen.read_dir())?;
    let mut found = BTreeMap::new();
    for entry in &entries {
        if let Some(file_type) = entry.file_type {
            let kind = object.names.get(&entry.name).map(|id| tree.object(*id).kind);
            differ(path, "type of an entry", Some(file_type), kind)?;
        }
        if found.insert(Path(entry.name.clone()), ()).is_some() {
            return Err(format!("{path:?}: {:?} is listed twice", Path(entry.name.clone())));
        }
    }
    let model: Vec<Path> = object.names.keys().cloned().map(Path).collect();
    differ(path, "names", found.into_keys().collect::<Vec<_>>(), model)
}

fn content(file: &Seen, path: &Path, object: &Object) -> Result<(), String> {
    let mut at = 0;
    let mut covered = Vec::new();
    while let Some(data) = said(path, file.next_data(at))? {
        if data.is_empty() || data.start < at {
            return Err(format!("{path:?}: data {data:?} after {at}"));
        }
        at = data.end;
        covered.push(data);
    }
    let pages = object
        .content
        .pages()
        .map(|page| page.start..page.end.min(object.size))
        .filter(|page| page.start < page.end);
    for range in covered.iter().cloned().chain(pages) {
        for start in range.clone().step_by(1 << 20) {
            let length = (range.end - start).min(1 << 20) as usize;
            let (mut engine, mut model) = (vec![0xee; length], vec![0; length]);
            let read = said(path, file.read_at(start, &mut engine))?;
            object.content.read(start, &mut model);
            differ(path, "bytes read", read, length)?;
            if let Some(first) =
                engine.iter().zip(&model).position(|(engine, model)| engine != model)
            {
                let (is, should) = (engine[first], model[first]);
                return Err(format!(
                    "{path:?}: byte {}: {is:#x}, the model has {should:#x}",
                    start + first as u64
                ));
            }
        }
    }
    for page in object.content.pages() {
        let mut bytes = vec![0; (page.end - page.start) as usize];
        object.content.read(page.start, &mut bytes);
        for (at, _) in (page.start..).zip(&bytes).filter(|(_, byte)| **byte != 0) {
            if !covered.iter().any(|data| data.contains(&at)) {
                return Err(format!("{path:?}: byte {at} is said to lie in a hole"));
            }
        }
    }
    Ok(())
}
