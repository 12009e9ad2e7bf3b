//! Words that name files in an image: `IMAGE:/path`, all of one image.
use extant_edit::glob;
use extant_host::error::Error;
use extant_host::image::ImagePath;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The image that all words name; each word becomes the path inside.
///
/// # Errors
/// A word without a path, words of several images, or none at all.
pub fn resolve(words: Vec<&mut OsString>) -> Result<PathBuf, Error> {
    let mut image: Option<PathBuf> = None;
    for word in words {
        let place = inside(word)?;
        match &image {
            Some(image) if *image != place.0 => {
                let (first, other) = (image.display(), place.0.display());
                return Err(Error::usage(format!("{other}: is another image than {first}"))
                    .hint("a command changes one image: all of it, or nothing"));
            }
            _ => image = Some(place.0),
        }
        *word = place.1.into_os_string();
    }
    image.ok_or_else(|| Error::usage("no file of an image is named").hint("write IMAGE:/path"))
}

/// Image and path of a word.
///
/// # Errors
/// It names no path.
pub fn inside(word: &OsStr) -> Result<(PathBuf, PathBuf), Error> {
    let ImagePath { image, path } = ImagePath::of(word);
    match path {
        Some(path) => Ok((image, path)),
        None => Err(Error::usage(format!("{}: names no file in an image", image.display()))
            .hint("write IMAGE:/path")),
    }
}

/// A path that was named, in a script or after an image.
///
/// # Errors
/// It does not begin with a slash.
pub fn path(word: &OsStr) -> extant_edit::Result<&Path> {
    match word.as_bytes().first() {
        Some(b'/') => Ok(Path::new(word)),
        _ => Err(extant_edit::Error::usage(word.display().to_string(), "is no path of the image")
            .hint("paths in an image begin with a slash")),
    }
}

/// Words of a script that hold in quotes what would be a pattern outside of them, and the pattern
/// that each is.
pub type Patterns = BTreeMap<OsString, Vec<u8>>;

/// The paths that words of a command mean, where some have `*` and the like.
///
/// # Errors
/// A word that is no path.
pub fn expanded(
    filesystem: &extant_engine::Filesystem,
    words: &[OsString],
    patterns: &Patterns,
) -> extant_edit::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for word in words {
        let path = path(word)?;
        all.extend(match patterns.get(word) {
            Some(pattern) => glob::matching(filesystem, pattern, path),
            None => glob::expand(filesystem, path),
        });
    }
    Ok(all)
}

/// The same for `mv`, `ln` and `cp`, whose last word, unless `into` names it, is where they go.
///
/// # Errors
/// As [`expanded`].
pub fn expanded_sources(
    filesystem: &extant_engine::Filesystem,
    words: &[OsString],
    into: Option<&OsString>,
    patterns: &Patterns,
) -> extant_edit::Result<Vec<OsString>> {
    let (sources, last) = match (into, words.split_last()) {
        (None, Some((last, sources))) => (sources, Some(last)),
        _ => (words, None),
    };
    let all = expanded(filesystem, sources, patterns)?;
    Ok(all.into_iter().map(PathBuf::into_os_string).chain(last.cloned()).collect())
}

/// Where the sources of `mv`, `ln` and `cp` go.
pub enum Destination<'a> {
    /// Into this directory, each under its own last name.
    Into(&'a Path),
    /// The only one becomes this.
    As(&'a Path),
}

/// Sources and destination of a command like mv(1).
///
/// # Errors
/// Too few words; several sources, and the last word is no directory.
pub fn destination<'a>(
    words: &'a [OsString],
    (into, exact): (Option<&'a OsString>, bool),
    is_directory: &dyn Fn(&Path) -> extant_edit::Result<bool>,
) -> extant_edit::Result<(&'a [OsString], Destination<'a>)> {
    let usage = |said: &str| extant_edit::Error::usage("operands", said);
    if let Some(into) = into {
        if words.is_empty() {
            return Err(usage("a source is missing"));
        }
        let folder = path(into)?;
        return match is_directory(folder)? {
            true => Ok((words, Destination::Into(folder))),
            false => Err(extant_edit::Error::inside(folder, "is no directory")),
        };
    }
    let (last, sources) = words.split_last().ok_or_else(|| usage("are missing"))?;
    let last = path(last)?;
    if sources.is_empty() {
        return Err(usage("where it goes is missing"));
    }
    if !exact && is_directory(last)? {
        return Ok((sources, Destination::Into(last)));
    }
    match sources {
        [_] => Ok((sources, Destination::As(last))),
        _ if exact => Err(usage("-T takes one source")),
        _ => {
            Err(extant_edit::Error::inside(last, "is no directory, and there are several sources"))
        }
    }
}

impl Destination<'_> {
    /// What a source becomes. One without a last name (`/`, `dir/.`) becomes the directory itself.
    pub fn of(&self, source: &Path) -> PathBuf {
        match self {
            Destination::As(path) => path.to_path_buf(),
            Destination::Into(folder) => match extant_edit::tree::split(source).1 {
                b"" | b"." | b".." => folder.to_path_buf(),
                name => extant_edit::tree::join(folder, name),
            },
        }
    }
}
