//! The members of an archive that holds a container image, by their paths, and where their bytes
//! are.
//!
//! *Invariants*: paths are clean (see [`extant_archive::clean_path`]); of members of one path the
//! last counts, as in every archive.
use crate::error::Error;
use extant_archive::{Body, Content, Entry, clean_path, printable};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Members of the largest container image that is read: a layer has at most four.
const MEMBERS_MAX: usize = 1 << 16;
/// Links from one member to the next that are followed.
const FOLLOW_MAX: usize = 16;
/// Bytes of a list of images that are looked at to know it from others of its name.
const LIST_BYTES_MAX: u64 = 4 << 20;

/// What is at a path.
enum Member {
    File(Body),
    /// A symbolic link; its target from the root of the archive on.
    Link(Vec<u8>),
    /// A directory.
    Folder,
}

/// Which kind of container image an archive is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// An OCI image layout.
    Oci,
    /// What `docker save` writes.
    Docker,
}

/// The members of one archive.
pub(super) struct Members {
    file: File,
    name: String,
    members: FxHashMap<Vec<u8>, Member>,
}

impl Members {
    /// No members yet. Their bodies are in `file`; messages call the archive `name`.
    pub(super) fn new(file: File, name: &str) -> Members {
        Members { file, name: name.to_owned(), members: FxHashMap::default() }
    }

    /// What messages call the archive.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The file in which bodies are.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Adds an entry of an archive that may be a container image; `false` if it has something that
    /// none has.
    pub(super) fn takes(&mut self, entry: &Entry) -> bool {
        let fits = entry.path.as_ref().is_ok_and(|path| is_usual(path, &entry.content));
        fits && self.add(entry).is_ok()
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// A path or a link that leads out of the archive, a device, more members than are read.
    pub(super) fn add(&mut self, entry: &Entry) -> Result<(), Error> {
        let refused = |what: String| Error::new(format!("{}: {what}", self.name));
        let path = entry.path.as_ref().map_err(|error| refused(error.to_string()))?;
        let shown = printable(path);
        let member = match &entry.content {
            Content::File(body) => Member::File(body.clone()),
            Content::Directory => Member::Folder,
            Content::Symlink { target } => Member::Link(
                beside(path, target)
                    .ok_or_else(|| refused(format!("{shown}: is a link out of the archive")))?,
            ),
            Content::HardLink { target } => Member::Link(
                clean_path(target)
                    .map_err(|_| refused(format!("{shown}: is a link out of the archive")))?,
            ),
            Content::CharacterDevice(_)
            | Content::BlockDevice(_)
            | Content::Fifo
            | Content::Socket => {
                return Err(refused(format!("{shown}: is no file, directory or link")));
            }
        };
        if self.members.len() >= MEMBERS_MAX {
            return Err(refused(format!(
                "has more than {MEMBERS_MAX} members: no container image"
            )));
        }
        self.members.insert(path.clone(), member);
        Ok(())
    }

    /// The file at a clean path, links followed; `None` if there is none.
    pub(super) fn find(&self, path: &[u8]) -> Option<&Body> {
        let mut path = path.to_vec();
        for _ in 0..FOLLOW_MAX {
            path = match self.members.get(&path) {
                Some(Member::File(body)) => return Some(body),
                Some(Member::Link(target)) => target.clone(),
                Some(Member::Folder) => return None,
                None => self.through_links(&path)?,
            };
        }
        None
    }

    /// The path with its longest beginning that is a link replaced by what that leads to.
    fn through_links(&self, path: &[u8]) -> Option<Vec<u8>> {
        let ends = (0..path.len()).rev().filter(|at| path[*at] == b'/');
        ends.into_iter().find_map(|end| match self.members.get(&path[..end]) {
            Some(Member::Link(target)) => {
                let rest = if target.is_empty() { &path[end + 1..] } else { &path[end..] };
                Some([target, rest].concat())
            }
            _ => None,
        })
    }

    /// What kind of container image this is, by its members; `None` if it is none.
    pub(super) fn form(&self) -> Option<Form> {
        if self.find(b"oci-layout").is_some() && self.find(b"index.json").is_some() {
            return Some(Form::Oci);
        }
        // Web pages have a manifest.json too; theirs is an object.
        let list = self.find(b"manifest.json")?;
        let mut bytes = vec![0; usize::try_from(list.size.min(LIST_BYTES_MAX)).ok()?];
        self.read(list, &mut bytes).ok()?;
        is_list_of_images(&bytes).then_some(Form::Docker)
    }

    /// Reads the beginning of a body without holes.
    fn read(&self, body: &Body, buffer: &mut [u8]) -> io::Result<()> {
        match body.pieces {
            None => self.file.read_exact_at(buffer, body.offset),
            Some(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Whether these bytes begin a `manifest.json` of `docker save`.
pub(super) fn is_list_of_images(bytes: &[u8]) -> bool {
    let is_list = bytes.trim_ascii_start().first() == Some(&b'[');
    is_list && bytes.windows(8).any(|word| word == b"\"Layers\"")
}

/// Where a symbolic link at `path` leads, from the root of the archive on; `None` if it is
/// absolute, leads out of the archive, or has a NUL.
fn beside(path: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    if target.first() == Some(&b'/') || target.contains(&0) {
        return None;
    }
    let mut steps: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    steps.pop();
    for step in target.split(|byte| *byte == b'/') {
        match step {
            b"" | b"." => {}
            b".." => drop(steps.pop()?),
            _ => steps.push(step),
        }
    }
    Some(steps.join(&b'/'))
}

/// Whether a container image has an entry of this path: a tree of files shows in its first entries
/// that it is none, so that nothing has to be kept back for long.
fn is_usual(path: &[u8], content: &Content) -> bool {
    let (first, rest) = match path.iter().position(|byte| *byte == b'/') {
        Some(at) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    };
    match (first, rest, content) {
        (b"", None, _) | (b"blobs", _, _) => true,
        (b"oci-layout" | b"index.json" | b"manifest.json" | b"repositories", None, _) => true,
        (_, None, Content::Directory) | (_, Some(_), _) => is_hexadecimal(first),
        // Configurations and layers under all kinds of names.
        (_, None, _) => {
            first.starts_with(b"sha256:")
                || [".json", ".tar", ".tar.gz", ".tgz", ".tar.zst"]
                    .iter()
                    .any(|end| first.ends_with(end.as_bytes()))
        }
    }
}

fn is_hexadecimal(name: &[u8]) -> bool {
    name.len() == 64 && name.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, content: Content) -> Entry {
        Entry {
            path: clean_path(path.as_bytes()),
            content,
            described: None,
            unkept: extant_archive::Unkept::default(),
        }
    }

    fn link(target: &str) -> Content {
        Content::Symlink { target: target.as_bytes().to_vec() }
    }

    fn body(size: u64) -> Content {
        Content::File(Body { size, ..Body::default() })
    }

    #[test]
    fn links_are_followed_inside_the_archive_and_not_for_ever() {
        let mut members = Members::new(tempfile::tempfile().unwrap(), "x");
        for (path, content) in [
            ("a/layer.tar", body(7)),
            ("b/layer.tar", link("../a/layer.tar")),
            ("c", link("b")),
            ("h", Content::HardLink { target: b"b/layer.tar".to_vec() }),
            ("loop", link("pool")),
            ("pool", link("loop")),
            ("more", link("more/more")),
        ] {
            members.add(&entry(path, content)).unwrap();
        }
        let size = |path: &str| members.find(path.as_bytes()).map(|body| body.size);
        for path in ["a/layer.tar", "b/layer.tar", "c/layer.tar", "h"] {
            assert_eq!(size(path), Some(7), "{path}");
        }
        for path in ["loop", "more", "more/x", "a", "a/layer.tar/x", "z", ""] {
            assert_eq!(size(path), None, "{path}");
        }
        for out in ["../x", "/etc/passwd", "x/../../y"] {
            assert!(members.add(&entry("l", link(out))).is_err(), "{out}");
        }
        assert!(members.add(&entry("f", Content::Fifo)).is_err());
    }

    #[test]
    fn a_tree_of_files_is_known_by_its_first_entries() {
        let hex = "0123456789abcdef".repeat(4);
        for usual in ["./", "blobs/sha256/x", "oci-layout", "x.json", &format!("{hex}.tar.gz")] {
            assert!(is_usual(&clean_path(usual.as_bytes()).unwrap(), &body(1)), "{usual}");
        }
        assert!(is_usual(format!("{hex}/layer.tar").as_bytes(), &body(1)));
        for other in ["bin", "etc/passwd", "manifest.json/x", "hello.txt"] {
            assert!(!is_usual(other.as_bytes(), &body(1)), "{other}");
        }
        assert!(!is_usual(b"usr.json", &Content::Directory));
    }
}
