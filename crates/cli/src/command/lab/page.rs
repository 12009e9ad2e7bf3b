//! `--html FILE`: what a command found as a page to look at.
use extant_host::error::Error;
use extant_host::place::folder_of;
use extant_lab::page::BEGINNING;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The option, for every command of the laboratory.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PageOption {
    /// Write a page to look at as well: one HTML file with tables and plots that needs no network.
    /// A page that is there is replaced, any other file is not
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl PageOption {
    /// Whether the page can be written: asked before anything runs.
    ///
    /// # Errors
    /// There is no folder for it, or it would replace what is no page.
    pub fn check(&self) -> Result<(), Error> {
        self.html.as_deref().map_or(Ok(()), check)
    }

    /// Writes the page that is made, if it is asked for.
    ///
    /// # Errors
    /// As [`PageOption::check`], and what the file system says.
    pub fn write(&self, page: impl FnOnce() -> String) -> Result<(), Error> {
        let Some(path) = &self.html else { return Ok(()) };
        check(path)?;
        std::fs::write(path, page()).map_err(|error| Error::io(name(path), &error))
    }
}

fn name(path: &Path) -> String {
    format!("--html {}", path.display())
}

fn check(path: &Path) -> Result<(), Error> {
    let Ok(found) = std::fs::metadata(path) else {
        return match folder_of(path).is_dir() {
            true => Ok(()),
            false => Err(Error::no_folder(name(path))),
        };
    };
    if found.is_dir() {
        return Err(Error::usage(format!("{}: is a folder", name(path))));
    }
    // What is written to a terminal or a pipe replaces nothing.
    if found.file_type().is_char_device() || found.file_type().is_fifo() {
        return Ok(());
    }
    let mut beginning = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(BEGINNING.len() as u64).read_to_end(&mut beginning));
    read.map_err(|error| Error::io(name(path), &error))?;
    match beginning.is_empty() || beginning == BEGINNING.as_bytes() {
        true => Ok(()),
        false => Err(Error::new(format!("{}: exists, and is no page of extant lab", name(path)))
            .hint("name another file, or remove this one")),
    }
}
