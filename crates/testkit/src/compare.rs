//! Two trees, field by field: every difference is one line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::listing;
use crate::walk::{Depth, Entry, Kind, Time, walk};

/// What can be compared of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// The twelve bits of permission.
    Mode,
    /// User and group.
    Owner,
    /// Bytes, of everything but directories.
    Size,
    /// Bytes of directories, which depend on the file system.
    DirectorySize,
    /// Count of names, of everything but directories.
    Links,
    /// Count of names of directories, which some file systems do not keep.
    DirectoryLinks,
    /// Which names share an inode.
    HardLinks,
    /// The inode's number.
    Ino,
    /// Last read.
    Atime,
    /// Content changed.
    Mtime,
    /// Inode changed.
    Ctime,
    /// Made.
    Crtime,
    /// Numbers of a device.
    Device,
    /// Where a symbolic link leads.
    Target,
    /// Extended attributes, ACLs among them.
    Attributes,
    /// The map of data and holes.
    Holes,
    /// That every hole of the left is one of the right, which may have more.
    HolesKept,
    /// The bytes.
    Bytes,
}

impl Field {
    /// Every field with its name on the command line.
    pub const NAMES: [(Field, &'static str); 18] = [
        (Field::Mode, "mode"),
        (Field::Owner, "owner"),
        (Field::Size, "size"),
        (Field::DirectorySize, "directory-size"),
        (Field::Links, "links"),
        (Field::DirectoryLinks, "directory-links"),
        (Field::HardLinks, "hard-links"),
        (Field::Ino, "ino"),
        (Field::Atime, "atime"),
        (Field::Mtime, "mtime"),
        (Field::Ctime, "ctime"),
        (Field::Crtime, "crtime"),
        (Field::Device, "device"),
        (Field::Target, "target"),
        (Field::Attributes, "attributes"),
        (Field::Holes, "holes"),
        (Field::HolesKept, "holes-kept"),
        (Field::Bytes, "bytes"),
    ];

    /// The field called `name`.
    pub fn by_name(name: &str) -> Option<Field> {
        Field::NAMES.iter().find(|(_, known)| *known == name).map(|(field, _)| *field)
    }
}

/// How fine times are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// As they are.
    Nanosecond,
    /// What inodes of 128 bytes keep.
    Second,
}

/// What a comparison looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The fields; existence and type are always compared.
    pub fields: BTreeSet<Field>,
    /// How fine times are compared.
    pub grain: Grain,
    /// Paths, from the root of the trees, left out with what is below them.
    pub excluded: BTreeSet<PathBuf>,
}

impl Options {
    /// An image against the tree that it was made from: what a copy keeps.
    pub fn copy() -> Options {
        let kept = |field: &Field| {
            use Field::*;
            !matches!(field, DirectorySize | Ino | Atime | Ctime | Crtime | Holes | HolesKept)
        };
        let fields = Field::NAMES.iter().map(|(field, _)| *field).filter(kept).collect();
        Options { fields, grain: Grain::Nanosecond, excluded: BTreeSet::new() }
    }

    /// One image read twice: everything.
    pub fn same_image() -> Options {
        Options {
            // The same holes are kept ones: who does without the one does without the other.
            fields: Field::NAMES
                .iter()
                .map(|(field, _)| *field)
                .filter(|field| *field != Field::HolesKept)
                .collect(),
            ..Options::copy()
        }
    }

    /// These options with `path` left out.
    pub fn without(mut self, path: &str) -> Options {
        self.excluded.insert(PathBuf::from(path));
        self
    }

    /// What a walk must read for this comparison.
    pub fn depth(&self) -> Depth {
        Depth {
            holes: self.fields.contains(&Field::Holes) || self.fields.contains(&Field::HolesKept),
            digest: self.fields.contains(&Field::Bytes),
            sha256: false,
        }
    }
}

/// One field of one entry that is not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The entry.
    pub path: PathBuf,
    /// What differs: "mode: 644 against 600".
    pub sentence: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}: {}", shown(self.path.as_os_str().as_encoded_bytes()), self.sentence)
    }
}

/// Walks both trees and compares them.
///
/// # Errors
/// Something in one of them cannot be read.
pub fn trees(left: &Path, right: &Path, options: &Options) -> Result<Vec<Difference>, String> {
    let read = |root: &Path| {
        walk(root, options.depth(), &options.excluded)
            .map_err(|error| format!("{}: {error}", root.display()))
    };
    Ok(entries(&read(left)?, &read(right)?, options))
}

/// What a listing says otherwise than the tree at `tree`.
///
/// # Errors
/// One of them cannot be read.
pub fn listing_against(
    file: &Path,
    tree: &Path,
    options: &Options,
) -> Result<Vec<Difference>, String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let listed = listing::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let has_sums = listed.iter().any(|entry| entry.sha256.is_some());
    let depth = Depth {
        holes: false,
        digest: false,
        sha256: has_sums && options.fields.contains(&Field::Bytes),
    };
    let walked = walk(tree, depth, &options.excluded)?;
    Ok(entries(&listed, &walked, options))
}

/// Compares entries, as [`walk`] or a listing returns them; the order does not matter.
pub fn entries(left: &[Entry], right: &[Entry], options: &Options) -> Vec<Difference> {
    let by_path = |entries: &'_ [Entry]| -> BTreeMap<PathBuf, Entry> {
        let kept = entries
            .iter()
            .filter(|entry| !options.excluded.iter().any(|path| entry.path.starts_with(path)));
        kept.map(|entry| (entry.path.clone(), entry.clone())).collect()
    };
    let (left, mut right) = (by_path(left), by_path(right));
    let mut found = Vec::new();
    for (path, entry) in &left {
        let sentences = match right.remove(path) {
            None => vec!["is missing on the right".into()],
            Some(other) => entry_differences(entry, &other, options),
        };
        found.extend(
            sentences.into_iter().map(|sentence| Difference { path: path.clone(), sentence }),
        );
    }
    let extra = right
        .into_keys()
        .map(|path| Difference { path, sentence: "is missing on the left".into() });
    found.extend(extra);
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

fn entry_differences(left: &Entry, right: &Entry, options: &Options) -> Vec<String> {
    if left.kind != right.kind {
        return vec![format!("type: {:?} against {:?}", left.kind, right.kind)];
    }
    let fields = options.fields.iter();
    fields.filter_map(|field| field_difference(*field, left, right, options.grain)).collect()
}

/// What differs in one field, or nothing; what one side does not know is not compared.
fn field_difference(field: Field, left: &Entry, right: &Entry, grain: Grain) -> Option<String> {
    let is_directory = left.kind == Kind::Directory;
    let time = |name, left: Time, right: Time| {
        let same = left.0 == right.0 && (grain == Grain::Second || left.1 == right.1);
        (!same)
            .then(|| format!("{name}: {}.{:09} against {}.{:09}", left.0, left.1, right.0, right.1))
    };
    match field {
        Field::Mode => differs("mode", left.mode, right.mode, |mode| format!("{mode:o}")),
        Field::Owner => {
            differs("owner", (left.uid, left.gid), (right.uid, right.gid), |(uid, gid)| {
                format!("{uid}:{gid}")
            })
        }
        Field::Size if !is_directory => {
            differs("size", left.size, right.size, |size| size.to_string())
        }
        Field::DirectorySize if is_directory => {
            differs("size", left.size, right.size, |size| size.to_string())
        }
        Field::Links if !is_directory => {
            differs("links", left.links, right.links, |links| links.to_string())
        }
        Field::DirectoryLinks if is_directory => {
            differs("links", left.links, right.links, |links| links.to_string())
        }
        Field::Size | Field::DirectorySize | Field::Links | Field::DirectoryLinks => None,
        Field::HardLinks => {
            differs("first name", left.first_name.as_ref(), right.first_name.as_ref(), |path| {
                path.map_or_else(String::new, |path| shown(path.as_os_str().as_encoded_bytes()))
            })
        }
        Field::Ino => differs("inode", left.ino, right.ino, |ino| ino.to_string()),
        Field::Atime => time("atime", left.atime, right.atime),
        Field::Mtime => time("mtime", left.mtime, right.mtime),
        Field::Ctime => time("ctime", left.ctime, right.ctime),
        Field::Crtime => time("crtime", left.crtime?, right.crtime?),
        Field::Device => differs("device", left.device, right.device, |(major, minor)| {
            format!("{major}:{minor}")
        }),
        Field::Target => {
            differs("target", left.target.as_deref(), right.target.as_deref(), |target| {
                shown(target.unwrap_or_default())
            })
        }
        Field::Attributes => attribute_difference(left, right),
        Field::Holes => differs("data", left.data.as_ref()?, right.data.as_ref()?, |ranges| {
            format!("{} ranges {ranges:?}", ranges.len())
        }),
        Field::HolesKept => {
            let (left, right) = (left.data.as_ref()?, right.data.as_ref()?);
            // Ranges of each rise and do not touch: one of the right lies in one of the left.
            let is_inside = |(start, end): &(u64, u64)| {
                left.iter().any(|(from, to)| from <= start && end <= to)
            };
            let filled: Vec<_> = right.iter().filter(|range| !is_inside(range)).collect();
            let sentence = || format!("holes: {filled:?} of the right are in holes of {left:?}");
            (!filled.is_empty()).then(sentence)
        }
        Field::Bytes => content_difference(left, right),
    }
}

fn differs<T: PartialEq>(
    name: &str,
    left: T,
    right: T,
    print: impl Fn(T) -> String,
) -> Option<String> {
    (left != right).then(|| format!("{name}: {} against {}", print(left), print(right)))
}

fn attribute_difference(left: &Entry, right: &Entry) -> Option<String> {
    let names: BTreeSet<&Vec<u8>> = left.attributes.keys().chain(right.attributes.keys()).collect();
    let print =
        |value: Option<&Vec<u8>>| value.map_or_else(|| "none".to_owned(), |value| shown(value));
    let sentence = |name: &Vec<u8>| {
        let (left, right) = (left.attributes.get(name), right.attributes.get(name));
        (left != right)
            .then(|| format!("{} is {} against {}", shown(name), print(left), print(right)))
    };
    let sentences: Vec<String> = names.into_iter().filter_map(sentence).collect();
    (!sentences.is_empty()).then(|| format!("attributes: {}", sentences.join("; ")))
}

fn content_difference(left: &Entry, right: &Entry) -> Option<String> {
    let differs = match (left.digest, right.digest, left.sha256, right.sha256) {
        (Some(left), Some(right), ..) => left != right,
        (.., Some(left), Some(right)) => left != right,
        _ => false,
    };
    differs.then(|| "the bytes differ".into())
}

/// Bytes as a person can read them on one line, cut where they get long.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 200;
    let cut = &bytes[..bytes.len().min(SHOWN_MAX)];
    let more = if cut.len() < bytes.len() {
        format!("... ({} bytes)", bytes.len())
    } else {
        String::new()
    };
    format!("{}{more}", cut.escape_ascii())
}
