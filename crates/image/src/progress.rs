//! How far a long piece of work has come.

/// Hears of progress while sources are read and images are written, from several threads at once.
/// `()` takes no notice of it.
pub trait Progress: Sync {
    /// More is done: bytes of an archive, files of a directory, bytes written.
    fn advance(&self, amount: u64);
}

impl Progress for () {
    fn advance(&self, _: u64) {}
}
