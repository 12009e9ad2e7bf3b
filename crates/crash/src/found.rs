//! What a volume shows: every name, with what it leads to.
use extant_engine::{Filesystem, Metadata};
use extant_format::inode::FileType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a name leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The number of its inode.
    pub inode: u32,
    /// Its type.
    pub file_type: FileType,
    /// How many names its inode counts.
    pub links: u16,
    /// A symlink's target, or the bytes of a file.
    pub bytes: Arc<Vec<u8>>,
    /// Extended attributes.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Everything on a volume, by path.
pub type FoundTree = BTreeMap<String, Found>;

/// Names on a volume at most: what is damaged may lead in circles.
const NAMES_MAX: usize = 10_000;

/// Reads all of a volume but `lost+found`.
///
/// # Errors
/// What cannot be read, with its path.
pub fn read(volume: &Filesystem) -> Result<FoundTree, String> {
    let mut found = FoundTree::new();
    let mut directories = vec![String::new()];
    // Files with several names are read once.
    let mut known: BTreeMap<u32, Arc<Vec<u8>>> = BTreeMap::new();
    while let Some(directory) = directories.pop() {
        let entries = volume.read_dir(format!("{directory}/"));
        for entry in entries.map_err(|error| error.to_string())? {
            let path = format!("{directory}/{}", String::from_utf8_lossy(&entry.name));
            if path == "/lost+found" {
                continue;
            }
            let read = object(volume, &path, &mut known);
            let object = read.map_err(|error| format!("{path}: {error}"))?;
            if object.file_type == FileType::Directory {
                directories.push(path.clone());
            }
            found.insert(path, object);
            if found.len() > NAMES_MAX {
                return Err(format!("more than {NAMES_MAX} names"));
            }
        }
    }
    Ok(found)
}

fn object(
    volume: &Filesystem,
    path: &str,
    known: &mut BTreeMap<u32, Arc<Vec<u8>>>,
) -> extant_engine::Result<Found> {
    let Metadata { ino, file_type, links, .. } = volume.symlink_metadata(path)?;
    let bytes = match (file_type, known.get(&ino.0)) {
        (_, Some(bytes)) => Arc::clone(bytes),
        (FileType::Regular, None) => Arc::new(volume.read(path)?),
        (FileType::Symlink, None) => Arc::new(volume.read_link(path)?),
        _ => Arc::default(),
    };
    known.insert(ino.0, Arc::clone(&bytes));
    let attributes = volume.attributes(path)?;
    let attributes = attributes.into_iter().map(|found| (found.name, found.value));
    Ok(Found { inode: ino.0, file_type, links, bytes, attributes: attributes.collect() })
}
