//! The model's tree as a walk of a mount would find it, and the kernel's word on what random
//! operations left.

use crate::model::round::Round;
use crate::model::tree::{Object, Tree};
use crate::volume::Specification;
use extant_format::inode::{FileType, Time};
use extant_testkit::compare::{self, Field, Options};
use extant_testkit::oracle::{Access, mount_loop};
use extant_testkit::scratch::Scratch;
use extant_testkit::walk::{Depth, Entry, Kind, name_links, walk};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Larger files are not summed up: most of them are holes.
const SUMMED_MAX: u64 = 8 << 20;

fn sum(object: &Object) -> Option<[u8; 32]> {
    if object.kind != FileType::Regular || object.size > SUMMED_MAX {
        return None;
    }
    let mut bytes = vec![0; object.size as usize];
    object.content.read(0, &mut bytes);
    Some(Sha256::digest(&bytes).into())
}

fn entry(path: Vec<u8>, id: u64, object: &Object) -> Entry {
    let time = |time: Time| (time.seconds, time.nanoseconds);
    Entry {
        path: PathBuf::from(OsString::from_vec(path[1..].to_vec())),
        kind: match object.kind {
            FileType::Regular => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink,
            FileType::CharacterDevice => Kind::CharacterDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
        },
        ino: id,
        mode: object.permissions.into(),
        links: object.links,
        uid: object.uid,
        gid: object.gid,
        size: object.size,
        atime: time(object.access_time),
        mtime: time(object.modify_time),
        ctime: time(object.change_time),
        crtime: object.create_time.map(time),
        device: (object.device.major, object.device.minor),
        target: (object.kind == FileType::Symlink).then(|| object.target.clone()),
        attributes: object.attributes.clone(),
        first_name: None,
        data: None,
        digest: None,
        sha256: sum(object),
    }
}

fn entries(tree: &Tree) -> Vec<Entry> {
    let mut entries: Vec<Entry> =
        tree.paths().into_iter().map(|(path, id)| entry(path, id, tree.object(id))).collect();
    entries.sort_by(|left, right| {
        left.path.as_os_str().as_encoded_bytes().cmp(right.path.as_os_str().as_encoded_bytes())
    });
    name_links(&mut entries);
    entries
}

/// Does random operations, closes the volume, and compares the kernel's view with the model's.
pub fn compare(specification: &Specification, seed: u64, count: usize) -> Result<(), String> {
    let round = Round::random(specification, seed, count).map_err(|failure| failure.message)?;
    let (tree, device) = round.finish()?;
    let folder = Scratch::new("model");
    let image = folder.join("model.img");
    device.save(&image).map_err(|error| error.to_string())?;
    let mounted = mount_loop(&image, Access::ReadOnly, "")?;
    let mut kernel =
        walk(mounted.path(), Depth { sha256: false, ..Depth::default() }, &Default::default())?;
    for entry in
        kernel.iter_mut().filter(|entry| entry.kind == Kind::File && entry.size <= SUMMED_MAX)
    {
        let bytes =
            std::fs::read(mounted.path().join(&entry.path)).map_err(|error| error.to_string())?;
        entry.sha256 = Some(Sha256::digest(&bytes).into());
    }
    mounted.unmount()?;
    let mut options = Options::same_image();
    for field in [Field::Ino, Field::DirectorySize, Field::Holes] {
        options.fields.remove(&field);
    }
    let differences = compare::entries(&entries(&tree), &kernel, &options);
    let sentences: Vec<String> = differences.iter().take(10).map(ToString::to_string).collect();
    if sentences.is_empty() { Ok(()) } else { Err(sentences.join("\n")) }
}
