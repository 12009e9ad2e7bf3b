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
        self.html.as_deref().map_or(Ok(()), |path| PAGE.check(path))
    }

    /// Writes the page that is made, if it is asked for.
    ///
    /// # Errors
    /// As [`PageOption::check`], and what the file system says.
    pub fn write(&self, page: impl FnOnce() -> String) -> Result<(), Error> {
        let Some(path) = &self.html else { return Ok(()) };
        PAGE.write(path, &page())
    }
}

const PAGE: Drawn =
    Drawn { option: "--html", beginning: BEGINNING, what: "is no page of extant lab" };

/// A kind of file that replaces others of its kind, and nothing else.
pub struct Drawn {
    /// The option that names it.
    pub option: &'static str,
    /// How each of them begins.
    pub beginning: &'static str,
    /// What is said of others.
    pub what: &'static str,
}

impl Drawn {
    /// Writes one.
    ///
    /// # Errors
    /// As [`Drawn::check`], and what the file system says.
    pub fn write(&self, path: &Path, content: &str) -> Result<(), Error> {
        self.check(path)?;
        std::fs::write(path, content).map_err(|error| Error::io(self.name(path), &error))
    }

    /// Whether one can be written.
    ///
    /// # Errors
    /// There is no folder for it, or it would replace what is of another kind.
    pub fn check(&self, path: &Path) -> Result<(), Error> {
        let name = self.name(path);
        let Ok(found) = std::fs::metadata(path) else {
            return match folder_of(path).is_dir() {
                true => Ok(()),
                false => Err(Error::no_folder(name)),
            };
        };
        if found.is_dir() {
            return Err(Error::usage(format!("{name}: is a folder")));
        }
        // What is written to a terminal or a pipe replaces nothing.
        if found.file_type().is_char_device() || found.file_type().is_fifo() {
            return Ok(());
        }
        let mut beginning = Vec::new();
        let read = File::open(path)
            .and_then(|file| file.take(self.beginning.len() as u64).read_to_end(&mut beginning));
        read.map_err(|error| Error::io(&name, &error))?;
        match beginning.is_empty() || beginning == self.beginning.as_bytes() {
            true => Ok(()),
            false => Err(Error::new(format!("{name}: exists, and {}", self.what))
                .hint("name another file, or remove this one")),
        }
    }

    fn name(&self, path: &Path) -> String {
        format!("{} {}", self.option, path.display())
    }
}
