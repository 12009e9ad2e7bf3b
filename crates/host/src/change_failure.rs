//! What is said of a change that failed.
use crate::error::Error;
use crate::image;
use extant_archive::printable;
use extant_edit::{Place, What};
use extant_engine::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A failure, for the user.
pub fn of(image: &Path, error: extant_edit::Error) -> Error {
    let extant_edit::Error { place, what, hint } = error;
    let subject = subject(image, &place);
    let failure = match what {
        What::Engine(kind) => engine(image, &place, *kind),
        What::Host(error) => Error::io(subject, &error),
        What::Said(said) | What::Loop(said) => Error::new(format!("{subject}: {said}")),
        What::Usage(said) => Error::usage(format!("{subject}: {said}")),
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// What it is about, as the user names it.
fn subject(image: &Path, place: &Place) -> String {
    match place {
        Place::Volume => image.display().to_string(),
        Place::Inside(path) => inside(image, path),
        Place::Host(path) => printable(path.as_os_str().as_bytes()),
        Place::Words(words) => printable(words.as_bytes()),
    }
}

fn inside(image: &Path, path: &Path) -> String {
    format!("{}:{}", image.display(), printable(path.as_os_str().as_bytes()))
}

fn engine(image: &Path, place: &Place, kind: ErrorKind) -> Error {
    let path = match place {
        Place::Inside(path) => Some(path.as_path()),
        _ => None,
    };
    let hint = match (&kind, path) {
        (ErrorKind::NotPermitted(_), Some(path)) => {
            Some(format!("extant chattr -ia {} takes the flags away", inside(image, path)))
        }
        (ErrorKind::NoInodes, _) => Some(format!(
            "nothing was changed; inodes come with a volume, or with whole groups: extant tar {} | \
                 extant build --free 64M --free-inodes 1000 - NEW.img has more of both",
            image.display()
        )),
        (ErrorKind::NoSpace { .. }, _) => Some(format!(
            "nothing was changed; build --free leaves room in an image, and extant resize {} +64M \
                 gives it more",
            image.display()
        )),
        (ErrorKind::NotEmpty, _) => Some("extant rm -r removes it with its content".to_owned()),
        (ErrorKind::AttributeUnsupported, _) => {
            Some("names begin with user., trusted., security. or system.posix_acl_".to_owned())
        }
        _ => None,
    };
    let error = extant_engine::Error { kind, path: path.map(Into::into) };
    let failure = image::failure(image, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
