//! What differs between volumes, folders and archives.
use crate::error::{Error, ErrorKind, Result};
use crate::volume::Volume;
use extant_image::Progress;
use extant_image::difference::{Change, CompareOptions, Side, compare};
use extant_image::source::{Exclude, ReadOptions, Source, collect};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use extant_image::difference::{
    Change as DifferenceKind, Finding as Difference, Here, Ignored, Which,
};

/// A tree to be compared.
#[derive(Debug)]
pub enum Tree<'a> {
    /// What is in a volume at and below a path, which leads there without symlinks.
    Volume(&'a Volume, PathBuf),
    /// A folder of the host, or a file with an archive.
    Source(PathBuf),
}

/// Compares two trees name by name, as `extant diff` does: the same trees give the same differences
/// in the same order, sorted by the bytes of names. What `exclude` matches is left out on both
/// sides; bytes of files are told to `progress`.
///
/// # Errors
/// One of the trees cannot be opened, `Damaged` for what cannot be read of one, `Cancelled` by the
/// progress.
pub fn diff(
    a: Tree<'_>,
    b: Tree<'_>,
    ignored: &[Ignored],
    exclude: &[impl AsRef<str>],
    progress: &dyn Progress,
) -> Result<Vec<Difference>> {
    let options = CompareOptions { ignored: ignored.to_vec(), exclude: Exclude::new(exclude)? };
    let (mut a, mut b) = (side(a, progress)?, side(b, progress)?);
    let mut found = Vec::new();
    let mut broken = None;
    compare(&mut a, &mut b, &options, progress, &mut |finding| match finding.change {
        Change::Unreadable(_, reason) => {
            let path = Path::new("/").join(std::ffi::OsStr::from_bytes(&finding.path));
            broken = Some(Error::new(ErrorKind::Damaged, reason).at(path));
            ControlFlow::Break(())
        }
        _ => {
            found.push(finding);
            ControlFlow::Continue(())
        }
    });
    match broken {
        Some(error) => Err(error),
        None if progress.is_cancelled() => Err(Error::new(ErrorKind::Cancelled, "was cancelled")),
        None => Ok(found),
    }
}

fn side(tree: Tree<'_>, progress: &dyn Progress) -> Result<Side> {
    match tree {
        Tree::Volume(volume, path) => {
            Ok(Side::of_image(volume.engine(), path.as_os_str().as_bytes())?)
        }
        Tree::Source(path) => {
            let collected = collect([Source::Path(path)], &ReadOptions::default(), progress)?;
            Ok(Side::of_sources(collected))
        }
    }
}
