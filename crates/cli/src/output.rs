//! Where an archive goes: a file, which is there only when it is whole; or a pipe or device, which
//! takes what comes.
use extant_host::error::Error;
use extant_host::target::{Existing, Target};
use extant_image::export::PageOutput;
use std::fs::File;
use std::io::{self, IoSlice, IsTerminal, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// An open output.
pub struct Output {
    file: File,
    name: String,
    kind: OutputKind,
}

/// What an output is.
enum OutputKind {
    Stdout,
    Stream,
    File(Target),
}

impl Output {
    /// Standard output.
    ///
    /// # Errors
    /// It is a terminal.
    pub fn stdout() -> Result<Output, Error> {
        let stdout = io::stdout();
        if stdout.is_terminal() {
            return Err(Error::usage(
                "standard output is a terminal: an archive is not written there",
            )
            .hint("-o FILE, or a pipe after the command"));
        }
        let copy = rustix::io::dup(&stdout).map_err(|error| Error::stdout(&error.into()))?;
        Ok(Output {
            file: File::from(copy),
            name: "standard output".into(),
            kind: OutputKind::Stdout,
        })
    }

    /// A file of that name, replaced if it is there and `existing` allows it; a pipe or character
    /// device is written to.
    ///
    /// # Errors
    /// It is there, or cannot be written.
    pub fn file(path: &Path, existing: Existing) -> Result<Output, Error> {
        let name = path.display().to_string();
        let metadata = std::fs::metadata(path).ok();
        let file_type = metadata.as_ref().map(std::fs::Metadata::file_type);
        if file_type.is_some_and(|kind| kind.is_dir()) {
            return Err(Error::new(format!("{name}: is a directory, not an archive")));
        }
        if file_type.is_some_and(|kind| kind.is_char_device() || kind.is_fifo()) {
            let file =
                File::options().write(true).open(path).map_err(|error| Error::io(&name, &error))?;
            return Ok(Output { file, name, kind: OutputKind::Stream });
        }
        let target = Target::create(path, existing)?;
        let file = target.file.try_clone().map_err(|error| Error::io(&name, &error))?;
        Ok(Output { file, name, kind: OutputKind::File(target) })
    }

    /// A failed write, in the words of the host.
    pub fn failure(&self, error: &io::Error) -> Error {
        match self.kind {
            OutputKind::Stdout => Error::stdout(error),
            OutputKind::Stream | OutputKind::File(_) => Error::io(&self.name, error),
        }
    }

    /// Its name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pipe or null device that it is, if it is one: both take pages without a copy.
    pub fn pages(&self) -> Option<PageOutput> {
        PageOutput::of(&self.file)
    }

    /// Whether it is standard output, where nothing else may be printed then.
    pub fn is_stdout(&self) -> bool {
        matches!(self.kind, OutputKind::Stdout)
    }

    /// The archive is whole: a file gets its name.
    ///
    /// # Errors
    /// Something else got it meanwhile.
    pub fn finish(self) -> Result<(), Error> {
        match self.kind {
            OutputKind::File(target) => target.finish(),
            OutputKind::Stdout | OutputKind::Stream => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.file.write_vectored(pieces)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
