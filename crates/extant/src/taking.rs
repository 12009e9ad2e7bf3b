//! What is in a volume, taken out: as a tar archive, or as a folder of the host.
use crate::error::{Error, ErrorKind, Result};
use crate::volume::Volume;
use extant_image::Progress;
use extant_image::export::{ExportPlan, LeftOut, Omission, write};
use extant_image::extract::{Base, Existing, extract};
use extant_image::source;
use rustix::fs::{Mode, OFlags, open};
use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// What was taken out of a volume.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Taken {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symlinks.
    pub symlinks: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Devices and FIFOs.
    pub specials: u64,
    /// Bytes of files.
    pub data_bytes: u64,
    /// Sentences: sockets, which are left out; of a folder what the host did not let us restore,
    /// the first five of each kind and how many more there are.
    pub warnings: Vec<String>,
}

/// What becomes of files that are in a folder already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Present {
    /// They end the work.
    #[default]
    Refuse,
    /// They are removed, and the files of the image are made anew.
    Replace,
}

/// Taking out.
///
/// # Errors
/// In both of these: `NotFound` for a path, `Damaged` for what cannot be read, `Cancelled` by the
/// progress.
impl Volume {
    /// Writes a tar archive, as `extant tar` does: of all, or of what is at and below the paths.
    /// Symlinks on the way are not followed. Bytes of files are told to `progress`.
    ///
    /// # Errors
    /// Those of the output: what was written is no whole archive.
    pub fn tar(
        &self,
        paths: &[impl AsRef<Path>],
        output: &mut dyn Write,
        progress: &dyn Progress,
    ) -> Result<Taken> {
        let mut first = None;
        let plan = self.plan(paths)?;
        let (plan, warnings) = without_sockets(plan)?;
        let mut left_out = |left_out: LeftOut| {
            first = Some(left_out);
            ControlFlow::Break(())
        };
        let written = write(&plan, output, progress, &mut left_out);
        let done = written.map_err(|error| named(error, first))?;
        Ok(Taken {
            files: done.files,
            directories: done.directories,
            symlinks: done.symlinks,
            hard_links: done.hard_links,
            specials: done.specials,
            data_bytes: done.data_bytes,
            warnings,
        })
    }

    /// Puts all, or what is at and below the paths, into a folder, as `extant extract` does. The
    /// folder is made if it is missing. Nothing is made outside of it, whatever the image holds.
    ///
    /// # Errors
    /// Those of the host, and `Exists`: what was made before stays.
    pub fn extract(
        &self,
        paths: &[impl AsRef<Path>],
        folder: impl AsRef<Path>,
        present: Present,
        progress: &dyn Progress,
    ) -> Result<Taken> {
        source::host()?;
        let folder = folder.as_ref();
        let (plan, mut warnings) = without_sockets(self.plan(paths)?)?;
        let target = target(folder).map_err(|error| Error::from(error).at(folder))?;
        let existing = match present {
            Present::Refuse => Existing::Keep,
            Present::Replace => Existing::Replace,
        };
        let mut first = None;
        let mut left_out = |left_out: LeftOut| {
            first = Some(left_out);
            ControlFlow::Break(())
        };
        let base = Base { names: 0 };
        let extracted = extract(&plan, base, target, existing, progress, &mut left_out);
        let done = extracted.map_err(|error| named(error, first))?;
        for (kind, tally) in done.losses.kinds() {
            warnings.extend(tally.named.iter().cloned());
            let more = tally.count.saturating_sub(tally.named.len() as u64);
            if more > 0 {
                warnings.push(format!("and {more} more of this kind ({})", kind.word()));
            }
        }
        Ok(Taken {
            files: done.files,
            directories: done.directories,
            symlinks: done.symlinks,
            hard_links: done.hard_links,
            specials: done.specials,
            data_bytes: done.data_bytes,
            warnings,
        })
    }

    fn plan(&self, paths: &[impl AsRef<Path>]) -> Result<ExportPlan> {
        let bytes = |path: &dyn AsRef<Path>| path.as_ref().as_os_str().as_bytes().to_vec();
        let paths: Vec<Vec<u8>> = paths.iter().map(|path| bytes(path)).collect();
        let survey = self.engine().survey()?;
        Ok(ExportPlan::new(Arc::new(survey), &paths)?)
    }
}

/// Opens the folder that things go to.
fn target(folder: &Path) -> io::Result<File> {
    match std::fs::create_dir(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(open(folder, flags, Mode::empty())?))
}

/// A plan with a sentence for each socket.
///
/// # Errors
/// Something of what is planned is damaged.
fn without_sockets(mut plan: ExportPlan) -> Result<(Arc<ExportPlan>, Vec<String>)> {
    let mut warnings = Vec::new();
    for omission in std::mem::take(&mut plan.omissions) {
        match omission {
            Omission::Damaged(left_out) => return Err(broken(&left_out)),
            Omission::Socket(left_out) => {
                warnings.push(format!("{}: is a socket, and left out", left_out.path));
            }
        }
    }
    Ok((Arc::new(plan), warnings))
}

fn broken(left_out: &LeftOut) -> Error {
    use extant_image::export::Blame;
    let kind = match left_out.blame {
        Blame::Image => ErrorKind::Damaged,
        Blame::Elsewhere if left_out.reason.contains("there already") => ErrorKind::Exists,
        Blame::Elsewhere => ErrorKind::Io,
    };
    Error::new(kind, left_out.reason.clone()).at(&left_out.path)
}

/// What broke off, where that is why it ended.
fn named(error: extant_image::Error, first: Option<LeftOut>) -> Error {
    match (&error.kind, first) {
        (extant_image::ErrorKind::LeftOut, Some(left_out)) => broken(&left_out),
        _ => error.into(),
    }
}
