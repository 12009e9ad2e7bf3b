//! A volume's tree as the kernel would show it: entries that can be compared with a walk of a
//! mount.

use extant_engine::{Filesystem, Metadata};
use extant_format::inode::{FileType, Time};
use extant_testkit::walk::{Entry, Kind, name_links};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

fn kind(file_type: FileType) -> Kind {
    match file_type {
        FileType::Regular => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::CharacterDevice => Kind::CharacterDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
    }
}

/// Every entry of the volume, sorted by the bytes of the path.
pub fn entries(volume: &Filesystem) -> extant_engine::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(path) = pending.pop() {
        let metadata = volume.symlink_metadata(&path)?;
        if metadata.file_type == FileType::Directory {
            for name in names(volume, &path)? {
                pending.push(path.join(OsString::from_vec(name)));
            }
        }
        entries.push(entry(volume, path, &metadata)?);
    }
    entries.sort_by(|left, right| {
        left.path.as_os_str().as_encoded_bytes().cmp(right.path.as_os_str().as_encoded_bytes())
    });
    name_links(&mut entries);
    Ok(entries)
}

/// The names of a directory in the order of readdir.
pub fn names(volume: &Filesystem, path: &Path) -> extant_engine::Result<Vec<Vec<u8>>> {
    Ok(volume.read_dir(path)?.into_iter().map(|entry| entry.name).collect())
}

fn entry(volume: &Filesystem, path: PathBuf, metadata: &Metadata) -> extant_engine::Result<Entry> {
    let time = |time: Time| (time.seconds, time.nanoseconds);
    let (data, sha256) = match metadata.file_type {
        FileType::Regular => {
            content(volume, &path, metadata.size).map(|(data, sum)| (Some(data), Some(sum)))?
        }
        _ => (None, None),
    };
    let attributes =
        volume.attributes(&path)?.into_iter().map(|attribute| (attribute.name, attribute.value));
    Ok(Entry {
        kind: kind(metadata.file_type),
        ino: metadata.ino.0.into(),
        mode: u32::from(metadata.mode & 0o7777),
        links: metadata.links.into(),
        uid: metadata.uid,
        gid: metadata.gid,
        size: metadata.size,
        atime: time(metadata.access_time),
        mtime: time(metadata.modify_time),
        ctime: time(metadata.change_time),
        crtime: metadata.create_time.map(time),
        device: metadata.device.map_or((0, 0), |device| (device.major, device.minor)),
        target: match metadata.file_type {
            FileType::Symlink => Some(volume.read_link(&path)?),
            _ => None,
        },
        attributes: attributes.collect::<BTreeMap<_, _>>(),
        first_name: None,
        data,
        digest: None,
        sha256,
        path,
    })
}

type Content = (Vec<(u64, u64)>, [u8; 32]);

/// Where data is, and the sum of all bytes, with holes as zeros.
fn content(volume: &Filesystem, path: &Path, size: u64) -> extant_engine::Result<Content> {
    let file = volume.open_file(path)?;
    let (mut data, mut at) = (Vec::new(), 0);
    while let Some(range) = file.next_data(at)? {
        at = range.end;
        data.push((range.start, range.end));
    }
    // An odd length, so that reads begin and end within blocks.
    let mut buffer = vec![0; 700_001];
    let (mut sum, mut offset) = (Sha256::new(), 0);
    while offset < size {
        let length = file.read_at(offset, &mut buffer)?;
        sum.update(&buffer[..length]);
        offset += length as u64;
    }
    Ok((data, sum.finalize().into()))
}
