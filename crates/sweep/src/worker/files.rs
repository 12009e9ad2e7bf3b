//! The files that a job writes: under partial names until it has a result.
use super::End;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::inputs::of_output;
use crate::job::Job;
use crate::kinds::{Kind, Works, Write as Written};
use crate::whole;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A copy is made in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// A file that a job writes.
struct Place {
    written: &'static Written,
    partial: PathBuf,
    path: PathBuf,
    /// As the result names it: of the directory, or the target.
    name: String,
    is_target: bool,
}

/// The files that a job writes: under partial names until it has a result.
pub struct Files(Vec<Place>);

/// A file that was kept.
#[derive(Serialize)]
pub struct Kept {
    option: &'static str,
    path: String,
    is_target: bool,
    bytes: u64,
    sha256: String,
}

impl Files {
    /// Those of a job, none of which is there yet.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn of(directory: &Directory, job: &Job) -> Result<Files> {
        let kind = job.kind()?;
        let mut files = Vec::new();
        for output in &job.outputs {
            let Some(written) = kind.writes.iter().find(|row| row.option == output.option) else {
                continue;
            };
            let (name, path) = match &output.target {
                Some(target) => (target.clone(), PathBuf::from(target)),
                None => {
                    let below = Directory::output(&job.id, written.option, written.suffix);
                    let path = directory.path().join(&below);
                    if let Some(folder) = path.parent() {
                        let made = std::fs::create_dir_all(folder);
                        made.map_err(|error| Error::io(folder, &error))?;
                    }
                    (below.display().to_string(), path)
                }
            };
            let is_target = output.target.is_some();
            files.push(Place { written, partial: whole::partial(&path), path, name, is_target });
        }
        Ok(Files(files))
    }

    /// Each with the name that it has until it is kept.
    pub fn named(&self) -> Vec<(&Written, String)> {
        self.0.iter().map(|place| (place.written, place.partial.display().to_string())).collect()
    }

    /// Makes the copy that a command changes in place of what the job reads.
    ///
    /// # Errors
    /// What the job reads is no file, or is in the midst of a change; the directory cannot be
    /// written.
    pub fn copy(&self, kind: &Kind, job: &Job) -> std::result::Result<(), End> {
        let Some((place, input)) = self.copied(kind, job) else { return Ok(()) };
        let path = Path::new(input);
        let failed = |error: io::Error| End::Failed(Error::io(path, &error).message, None);
        let from = File::open(path).map_err(failed)?;
        if path.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        // The log of a change is beside the image that it belongs to, by its real name.
        if log_of(&path.canonicalize().map_err(failed)?).exists() {
            let words = "a change of it was cut: a command that writes to it ends it, as heal does";
            return Err(End::Failed([input, ": ", words].concat(), None));
        }
        let copied = File::create_new(&place.partial).and_then(|to| copy(&from, &to));
        copied.map_err(|error| End::Broken(Error::io(&place.partial, &error)))
    }

    /// What a command said in lines of JSON, with the name of what the job reads in place of that
    /// of its copy.
    pub fn as_read(&self, kind: &Kind, job: &Job, text: &str) -> String {
        match self.copied(kind, job) {
            Some((place, input)) => {
                text.replace(&inside(&place.partial.display().to_string()), &inside(input))
            }
            None => text.to_owned(),
        }
    }

    /// The copy, and what it is a copy of; `None` where the command only reads.
    fn copied<'a>(&'a self, kind: &Kind, job: &'a Job) -> Option<(&'a Place, &'a str)> {
        match kind.works {
            Works::OnCopy { .. } => Some((self.0.first()?, &job.inputs.first()?.path)),
            Works::Reads => None,
        }
    }

    /// A text with the final names in place of the partial ones.
    pub fn renamed(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for place in &self.0 {
            let name =
                |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let pairs = [
                (place.partial.display().to_string(), place.name.clone()),
                (name(&place.partial), name(&place.path)),
            ];
            for (partial, whole) in pairs {
                text = text.replace(&inside(&partial), &inside(&whole));
            }
        }
        text
    }

    /// Gives all their final names. A target that is there with the same content is left alone.
    ///
    /// # Errors
    /// The command has not written one, a target has another content, or the host says no.
    pub fn keep(&mut self) -> std::result::Result<Vec<Kept>, End> {
        let mut kept = Vec::new();
        for place in &self.0 {
            let found = std::fs::metadata(&place.partial);
            if !found.is_ok_and(|found| found.is_file()) {
                let reason =
                    format!("--{}: the command wrote no file of that name", place.written.option);
                return Err(End::Final(
                    format!("{reason} (several drives or file systems?)"),
                    None,
                ));
            }
            let (sha256, bytes) = of_output(&place.partial).map_err(End::Broken)?;
            let is_there = place.is_target && place.path.exists();
            match is_there.then(|| of_output(&place.path)) {
                None => whole::keep(&place.partial, &place.path).map_err(End::Broken)?,
                Some(Ok((same, _))) if same == sha256 => {}
                Some(_) => {
                    let reason = format!("{}: is there already, with another content", place.name);
                    return Err(End::Final(reason, None));
                }
            }
            let (option, path, is_target) =
                (place.written.option, place.name.clone(), place.is_target);
            kept.push(Kept { option, path, is_target, bytes, sha256 });
        }
        Ok(kept)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for place in &self.0 {
            // What was kept has another name by now.
            let _ = std::fs::remove_file(&place.partial);
            // What a command that failed has left beside its copy.
            let _ = std::fs::remove_file(log_of(&place.partial));
        }
    }
}

/// The log of a change of an image that was cut.
fn log_of(image: &Path) -> PathBuf {
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    image.with_file_name(format!(".{name}.extant-redo"))
}

/// Copies a file: its holes stay holes.
fn copy(from: &File, to: &File) -> io::Result<()> {
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut buffer = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < length {
        at = match seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(from, SeekFrom::Hole(at))?;
        while at < end {
            let piece = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            from.read_exact_at(&mut buffer[..piece], at)?;
            to.write_all_at(&buffer[..piece], at)?;
            at += piece as u64;
        }
    }
    Ok(())
}

/// A text as it is between the quotes of JSON.
fn inside(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let open = quoted.strip_prefix('"').unwrap_or(&quoted);
    open.strip_suffix('"').unwrap_or(open).to_owned()
}
