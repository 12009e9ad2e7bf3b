//! How long the file or device is that a volume ends with, which may become longer for it.
use std::fmt;
use std::io;
use std::sync::Arc;

/// The file or device that a volume ends with, as long as it may become for it.
pub trait Length: Send + Sync {
    /// How many bytes it has now from the volume's beginning on.
    ///
    /// # Errors
    /// The host's.
    fn bytes(&self) -> io::Result<u64>;
    /// Has the volume's device end there. A file that is shorter becomes longer.
    ///
    /// # Errors
    /// The host's; a device is shorter.
    fn lengthen(&self, bytes: u64) -> io::Result<()>;
    /// Takes back that a file was made longer, of which nobody has used anything.
    ///
    /// # Errors
    /// The host's.
    fn shorten(&self, bytes: u64) -> io::Result<()>;
}

/// Where a volume ends with its image: else its device is as long as it is.
#[derive(Clone, Default)]
pub struct Room(pub Option<Arc<dyn Length>>);

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Room").field(&self.0.is_some()).finish()
    }
}
