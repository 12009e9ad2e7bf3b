//! Paths with `*`, `?` and `[a-z]`, as a shell expands them: in an image no shell can.
use crate::find::component;
use crate::tree::join;
use extant_engine::Filesystem;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The paths that a word means, sorted: those that match, or the word itself where it has no
/// pattern, is the path of something that is there, or matches nothing. `*` does not stand for a
/// point at the beginning of a name.
///
/// A bracket that is not closed is itself, and directories that cannot be read match nothing.
pub fn expand(filesystem: &Filesystem, word: &Path) -> Vec<PathBuf> {
    let bytes = word.as_os_str().as_bytes();
    match !has_pattern(bytes) || filesystem.symlink_metadata(word).is_ok() {
        true => vec![word.to_owned()],
        false => matching(filesystem, bytes, word),
    }
}

/// The paths that match a pattern, sorted; `word` where there is none.
pub fn matching(filesystem: &Filesystem, pattern: &[u8], word: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in pattern.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        let text = std::str::from_utf8(part).ok().filter(|_| has_pattern(part));
        let mut below = Vec::new();
        match text.and_then(|text| component(text).ok()) {
            None => below.extend(found.iter().map(|folder| join(folder, &unescaped(part)))),
            Some(pattern) => {
                let shows_hidden = part.starts_with(b".") || part.starts_with(b"\\.");
                for folder in &found {
                    let entries = filesystem.read_dir(folder).unwrap_or_default();
                    let names = entries.into_iter().map(|entry| entry.name);
                    let mut names: Vec<Vec<u8>> = names
                        .filter(|name| shows_hidden || !name.starts_with(b"."))
                        .filter(|name| !matches!(&name[..], b"." | b".."))
                        .filter(|name| !name.is_empty() && !name.contains(&b'/'))
                        .filter(|name| pattern.is_match(OsStr::from_bytes(name)))
                        .collect();
                    names.sort_unstable();
                    below.extend(names.iter().map(|name| join(folder, name)));
                }
            }
        }
        found = below;
    }
    // Parts without a pattern were not looked for above.
    found.retain(|path| filesystem.symlink_metadata(path).is_ok());
    if found.is_empty() {
        found.push(word.to_owned());
    }
    found
}

fn has_pattern(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| b"*?[".contains(byte))
}

/// A part without patterns, beside others with some: a backslash stands for what follows it.
fn unescaped(part: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(part.len());
    let mut bytes = part.iter();
    while let Some(byte) = bytes.next() {
        plain.push(if *byte == b'\\' { *bytes.next().unwrap_or(byte) } else { *byte });
    }
    plain
}
