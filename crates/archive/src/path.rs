//! Paths in archives, checked: none leads out of the folder that the archive is unpacked into.
use crate::text::printable;
use std::fmt;

/// Why a path of an archive is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathError {
    /// The path as the archive has it.
    pub path: Vec<u8>,
    /// What is wrong with it.
    pub reason: PathFault,
}

/// What is wrong with a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathFault {
    /// A NUL, which no file system can have in a name.
    Nul,
    /// A component "..".
    LeadsOut,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.reason {
            PathFault::Nul => "has a NUL in its name",
            PathFault::LeadsOut => "leads out of the archive with \"..\"",
        };
        write!(f, "{}: {reason}", printable(&self.path))
    }
}

impl std::error::Error for PathError {}

/// The path from the root of the archive on: without leading `/` and `./`, without empty and `.`
/// components. Empty for the root itself.
///
/// # Errors
/// A `..` or a NUL.
pub fn clean_path(raw: &[u8]) -> Result<Vec<u8>, PathError> {
    let refused = |reason| Err(PathError { path: raw.to_vec(), reason });
    if raw.contains(&0) {
        return refused(PathFault::Nul);
    }
    let mut clean = Vec::with_capacity(raw.len());
    for name in raw.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return refused(PathFault::LeadsOut),
            _ => {
                if !clean.is_empty() {
                    clean.push(b'/');
                }
                clean.extend_from_slice(name);
            }
        }
    }
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_root_and_stay_below_it() {
        for (raw, clean) in [("./a//b/.", "a/b"), ("/etc/", "etc"), (".", ""), ("a..b", "a..b")] {
            assert_eq!(clean_path(raw.as_bytes()).unwrap(), clean.as_bytes());
        }
        let out = clean_path(b"a/../b").unwrap_err();
        assert_eq!(out.to_string(), "a/../b: leads out of the archive with \"..\"");
        assert_eq!(clean_path(b"a\0b").unwrap_err().reason, PathFault::Nul);
    }
}
