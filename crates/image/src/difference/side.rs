//! What a comparison asks of each of the two trees, whatever it is kept in.
use extant_format::attribute::Attribute;
use extant_tree::Facts;
use std::ops::Range;

/// Why something cannot be read: words for the user.
pub(super) type Reason = String;

/// A file of a side. Hard links are names of one file.
pub(super) type Number = u32;

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) bytes: Vec<u8>,
    pub(super) file: Number,
}

/// The bytes of a regular file, read from front to back.
pub(super) trait Body {
    /// The first stretch at or after `from` that may be anything but zeros; `None` if there is
    /// none.
    fn next_data(&mut self, from: u64) -> Result<Option<Range<u64>>, Reason>;
    /// Fills the buffer from byte `offset` on, which is not before that of an earlier call.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Reason>;
}

/// A tree to be compared.
pub(super) trait View {
    fn root(&self) -> Number;
    /// The names in a directory, sorted as bytes, each once; and what cannot be read of it.
    fn names(&mut self, directory: Number) -> (Vec<Name>, Option<Reason>);
    /// `None` for what no source says anything of.
    fn facts(&self, file: Number) -> Result<Option<Facts>, Reason>;
    /// Whether it may have several names.
    fn may_have_links(&self, file: Number) -> bool;
    /// Sorted by name.
    fn attributes(&self, file: Number) -> Result<Vec<Attribute>, Reason>;
    fn target(&self, file: Number) -> Result<Vec<u8>, Reason>;
    fn body<'a>(&'a self, file: Number) -> Box<dyn Body + 'a>;
    /// Whether a name of the root is one that mkfs made and nobody used.
    fn is_made_by_mkfs(&self, file: Number, name: &[u8]) -> bool;
}
