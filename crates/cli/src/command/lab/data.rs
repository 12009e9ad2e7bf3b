//! `--csv FILE`, `--jsonl FILE` and `--parquet FILE`: what a command found as a table that other
//! programs read.
use extant_host::error::Error;
use extant_host::place::folder_of;
use extant_lab::observations::{DataForm, Observations};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The options, for every command of the laboratory that has observations.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct DataOption {
    /// Write what was found as CSV as well: an observation a line, under a line of names. A file
    /// that is there is not replaced
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// The same as JSON Lines: an object a line
    #[arg(long, value_name = "FILE")]
    pub jsonl: Option<PathBuf>,
    /// The same as Parquet, which has the type of each column
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,
}

impl DataOption {
    fn files(&self) -> impl Iterator<Item = (&'static str, DataForm, &Path)> {
        let csv = self.csv.as_deref().map(|path| ("--csv", DataForm::Csv, path));
        let jsonl = self.jsonl.as_deref().map(|path| ("--jsonl", DataForm::JsonLines, path));
        let parquet = self.parquet.as_deref().map(|path| ("--parquet", DataForm::Parquet, path));
        csv.into_iter().chain(jsonl).chain(parquet)
    }

    /// The files for rows that are written one by one, each with its form.
    ///
    /// # Errors
    /// As [`DataOption::check`], and what the file system says.
    pub fn open(&self) -> Result<Vec<(DataForm, BufWriter<File>)>, Error> {
        let opened = self.files().map(|(option, form, path)| {
            check(option, path)?;
            let failed = |error| Error::io(format!("{option} {}", path.display()), &error);
            Ok((form, BufWriter::new(File::create(path).map_err(failed)?)))
        });
        opened.collect()
    }

    /// Removes what [`DataOption::open`] made: half of the rows would pass for all of them.
    pub fn take_back(&self) {
        for (_, _, path) in self.files() {
            // What is no file, such as a pipe, stays.
            if std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Whether the files can be written: asked before anything runs.
    ///
    /// # Errors
    /// There is no folder for one, it is there already, or two are one.
    pub fn check(&self) -> Result<(), Error> {
        self.files().try_for_each(|(option, _, path)| check(option, path))?;
        let files: Vec<_> = self.files().collect();
        for (at, (option, _, path)) in files.iter().enumerate() {
            if let Some((other, _, _)) = files[..at].iter().find(|(_, _, other)| other == path) {
                return Err(Error::usage(format!("{other} and {option}: name the same file")));
            }
        }
        Ok(())
    }

    /// Writes what `observations` makes, for each file anew.
    ///
    /// # Errors
    /// As [`DataOption::check`], and what the file system says.
    pub fn write<'a>(&self, observations: impl Fn() -> Observations<'a>) -> Result<(), Error> {
        for (option, form, path) in self.files() {
            check(option, path)?;
            let failed = |error| Error::io(format!("{option} {}", path.display()), &error);
            let mut out = BufWriter::new(File::create(path).map_err(failed)?);
            observations().write(form, &mut out).map_err(failed)?;
            out.flush().map_err(failed)?;
        }
        Ok(())
    }
}

fn check(option: &str, path: &Path) -> Result<(), Error> {
    let name = format!("{option} {}", path.display());
    let Ok(found) = std::fs::metadata(path) else {
        return match folder_of(path).is_dir() {
            true => Ok(()),
            false => Err(Error::no_folder(name)),
        };
    };
    let kind = found.file_type();
    match kind.is_char_device() || kind.is_fifo() || (kind.is_file() && found.len() == 0) {
        true => Ok(()),
        false => Err(Error::new(format!("{name}: exists already"))
            .hint("name another file, or remove this one")),
    }
}
