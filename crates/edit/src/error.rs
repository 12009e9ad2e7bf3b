//! What went wrong, and where.
use extant_engine::ErrorKind;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of the functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure: what it is about, what happened, and what can be done.
#[derive(Debug)]
pub struct Error {
    /// What it is about.
    pub place: Place,
    /// What happened.
    pub what: What,
    /// What can be done about it.
    pub hint: Option<String>,
}

/// What a failure is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The volume as a whole.
    Volume,
    /// A path inside the volume.
    Inside(PathBuf),
    /// A file of the host.
    Host(PathBuf),
    /// Words of the caller: an option, a line.
    Words(String),
}

/// What happened.
#[derive(Debug)]
pub enum What {
    /// The engine's reason.
    Engine(Box<ErrorKind>),
    /// The host's reason.
    Host(io::Error),
    /// Anything else, in words.
    Said(String),
    /// A directory that was entered already, in words: a walk does not end unless it is passed
    /// over.
    Loop(String),
    /// The caller's words make no sense.
    Usage(String),
}

impl Error {
    /// A failure of a path inside the volume.
    pub fn inside(path: impl AsRef<Path>, said: impl Into<String>) -> Error {
        Error {
            place: Place::Inside(path.as_ref().to_owned()),
            what: What::Said(said.into()),
            hint: None,
        }
    }

    /// The same; where a folder is missing in which something was to be made, with what makes it.
    #[must_use]
    pub fn of_missing_folder(self) -> Error {
        match (self.is_not_found(), &self.hint) {
            (true, None) => self.hint("mkdir -p makes the directories that are missing"),
            _ => self,
        }
    }

    /// Whether the volume has no room for it.
    pub fn is_no_space(&self) -> bool {
        match &self.what {
            What::Engine(kind) => matches!(**kind, ErrorKind::NoSpace { .. }),
            _ => false,
        }
    }

    /// A failure of the volume.
    pub fn volume(said: impl Into<String>) -> Error {
        Error { place: Place::Volume, what: What::Said(said.into()), hint: None }
    }

    /// A failure of a file of the host.
    pub fn host(path: impl AsRef<Path>, error: impl Into<io::Error>) -> Error {
        let place = Place::Host(path.as_ref().to_owned());
        Error { place, what: What::Host(error.into()), hint: None }
    }

    /// The same, in words.
    pub fn host_said(path: impl AsRef<Path>, said: impl Into<String>) -> Error {
        let place = Place::Host(path.as_ref().to_owned());
        Error { place, what: What::Said(said.into()), hint: None }
    }

    /// Words that make no sense.
    pub fn usage(words: impl Into<String>, said: impl Into<String>) -> Error {
        Error { place: Place::Words(words.into()), what: What::Usage(said.into()), hint: None }
    }

    /// The same, with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// The same, about this path inside the volume if it was about none.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Error {
        if self.place == Place::Volume {
            self.place = Place::Inside(path.to_owned());
        }
        self
    }

    /// The same words, of a directory that was entered already.
    #[must_use]
    pub(crate) fn of_loop(self) -> Error {
        match self.what {
            What::Said(said) => Error { what: What::Loop(said), ..self },
            _ => self,
        }
    }

    /// Whether it is a directory that was entered already. What changes a tree changes the rest.
    pub fn is_loop(&self) -> bool {
        matches!(self.what, What::Loop(_))
    }

    /// Whether there is no such file.
    pub fn is_not_found(&self) -> bool {
        match &self.what {
            What::Engine(kind) => matches!(**kind, ErrorKind::NotFound),
            What::Host(error) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

impl From<extant_engine::Error> for Error {
    fn from(error: extant_engine::Error) -> Error {
        let place = match error.path {
            Some(path) => Place::Inside(path.into_path_buf()),
            None => Place::Volume,
        };
        Error { place, what: What::Engine(Box::new(error.kind)), hint: None }
    }
}

impl From<extant_journal::Error> for Error {
    fn from(error: extant_journal::Error) -> Error {
        extant_engine::Error::from(error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Volume => {}
            Place::Inside(path) | Place::Host(path) => write!(f, "{}: ", path.display())?,
            Place::Words(words) => write!(f, "{words}: ")?,
        }
        match &self.what {
            What::Engine(kind) => kind.fmt(f),
            What::Host(error) => error.fmt(f),
            What::Said(said) | What::Loop(said) | What::Usage(said) => f.write_str(said),
        }
    }
}

impl std::error::Error for Error {}
