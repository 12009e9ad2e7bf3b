//! Files that go into a volume from the host, or from another place in a volume.
use crate::error::Result;
use crate::volume::Volume;
use extant_edit::copy::{Copy, Dereference, Existing, ImageSink, Keep, Options, Source, Sparse};
use extant_edit::mode::Mode;
use extant_edit::owner::Owner;
use extant_edit::tree::Reach;
use extant_edit::walk::{HostTree, ImageTree};
use std::path::Path;

pub use extant_edit::copy::Copied;

/// What a copy keeps of its source besides its bytes, holes and symlinks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kept {
    /// Permissions less 022, as `extant cp -r`: all belongs to root.
    #[default]
    Permissions,
    /// Owners, modes, times, attributes and hard links, as `extant cp -a`.
    All,
}

/// How files are copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CopyOptions {
    /// What is kept.
    pub kept: Kept,
    /// User and group of all copies, whatever is kept.
    pub owner: Option<(u32, u32)>,
    /// The twelve lower bits of the mode of all files, whatever is kept.
    pub mode: Option<u16>,
}

impl CopyOptions {
    /// With nothing asked for.
    pub fn new() -> CopyOptions {
        CopyOptions::default()
    }

    fn edit(self) -> Options {
        let all = self.kept == Kept::All;
        let owner = self
            .owner
            .map_or(Owner::default(), |(uid, gid)| Owner { uid: Some(uid), gid: Some(gid) });
        Options {
            reach: Reach::Tree,
            dereference: Dereference::Never,
            keep: Keep { mode: all, owner: all, times: all, links: all, attributes: all },
            existing: Existing::Overwrite,
            sparse: Sparse::Auto,
            owner,
            // An octal number always is one.
            mode: self.mode.and_then(|mode| Mode::parse(&format!("{:o}", mode & 0o7777)).ok()),
        }
    }
}

/// Copies.
///
/// # Errors
/// In both of these: a source that cannot be read or changes meanwhile, what the volume refuses.
/// What was copied before stays in the volume (a [`Transaction`](crate::Transaction) is dropped).
impl Volume {
    /// Copies a file of the host, or a folder with all that is in it, which becomes `to`. A folder
    /// that is there is filled. Symlinks stay symlinks.
    pub fn copy_in(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: CopyOptions,
    ) -> Result<Copied> {
        self.copy(&HostTree::default(), from.as_ref(), to.as_ref(), options)
    }

    /// Copies what is at a path of a volume, this one or another, which becomes `to` here.
    pub fn copy_from(
        &self,
        volume: &Volume,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        options: CopyOptions,
    ) -> Result<Copied> {
        self.copy(&ImageTree::new(volume.engine()), from.as_ref(), to.as_ref(), options)
    }

    fn copy(
        &self,
        source: &dyn Source,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> Result<Copied> {
        let sink = ImageSink::new(self.engine());
        let options = options.edit();
        // All or nothing: what cannot be read ends it.
        let mut copy = Copy::new(source, &sink, &options, (&|_| {}, &Err));
        copy.copy(from, to)?;
        Ok(copy.copied())
    }
}
