//! How far a long piece of work has come, and whether it is to go on.
use crate::error::{Error, ErrorKind};

/// Hears of progress while sources are read and images are written, from several threads at once.
/// `()` takes no notice of it.
pub trait Progress: Sync {
    /// More is done: bytes of an archive, files of a directory, bytes written.
    fn advance(&self, amount: u64);

    /// Whether the work is not wanted any more. It is asked now and then, and ends the work with
    /// [`ErrorKind::Cancelled`].
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl dyn Progress + '_ {
    /// Advances.
    ///
    /// # Errors
    /// The work is not wanted any more.
    pub(crate) fn step(&self, amount: u64) -> Result<(), Error> {
        self.advance(amount);
        match self.is_cancelled() {
            false => Ok(()),
            true => Err(Error::new("was cancelled").of(ErrorKind::Cancelled)),
        }
    }
}

impl Progress for () {
    fn advance(&self, _: u64) {}
}
