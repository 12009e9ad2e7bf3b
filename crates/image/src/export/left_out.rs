//! What an archive does not hold of an image.
use extant_archive::printable;
use std::fmt;

/// Something that is left out, or not whole, and why.
#[derive(Debug)]
pub struct LeftOut {
    /// The path in the image, printable, without a leading slash; "/" for the root.
    pub path: String,
    /// The reason.
    pub reason: String,
    /// What is to blame.
    pub blame: Blame,
}

/// Why something is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blame {
    /// The image is damaged there.
    Image,
    /// The place that it was to go to, or something else that was left out.
    Elsewhere,
}

impl LeftOut {
    pub(crate) fn new(path: &[u8], reason: impl fmt::Display) -> LeftOut {
        let path = match path {
            b"" => "/".to_owned(),
            path => printable(path),
        };
        LeftOut { path, reason: reason.to_string(), blame: Blame::Image }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}
