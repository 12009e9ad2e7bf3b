//! Patterns of what is left out of sources.
use crate::error::{Error, ErrorKind};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What is left out; nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Exclude {
    set: GlobSet,
}

impl Exclude {
    /// What matches one of the patterns is left out, with all below it. A pattern without `/`
    /// matches a name anywhere, one with `/` a path from the root; `**` matches any number of
    /// directories.
    ///
    /// # Errors
    /// A pattern that is none, with its words.
    pub fn new(patterns: &[impl AsRef<str>]) -> Result<Exclude, Error> {
        let wrong = |error: globset::Error| Error::new(error.to_string()).of(ErrorKind::Pattern);
        let mut set = GlobSetBuilder::new();
        for word in patterns {
            let word = word.as_ref().trim_end_matches('/');
            let anchored = word.trim_start_matches("./").trim_start_matches('/');
            let pattern = match word.contains('/') {
                true => anchored.to_owned(),
                false => format!("**/{anchored}"),
            };
            let mut builder = GlobBuilder::new(&pattern);
            set.add(builder.literal_separator(true).backslash_escape(true).build().map_err(wrong)?);
        }
        Ok(Exclude { set: set.build().map_err(wrong)? })
    }

    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Whether a pattern matches this path from the root, without a slash in front; not whether one
    /// matches a directory above it.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.set.is_match(Path::new(OsStr::from_bytes(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::Exclude;

    #[test]
    fn patterns_match_names_anywhere_and_paths_from_the_root() {
        let exclude = Exclude::new(&["*.o", "/a/b", "c/**/d", "git/"]).unwrap();
        for hit in ["x.o", "a/y.o", "a/b", "c/d", "c/x/y/d", "q/git"] {
            assert!(exclude.matches(hit.as_bytes()), "{hit}");
        }
        for miss in ["x.c", "q/a/b", "a/b/c", "d"] {
            assert!(!exclude.matches(miss.as_bytes()), "{miss}");
        }
        assert!(Exclude::new(&["["]).is_err());
    }
}
