//! What differs between two trees: images, folders, archives.
//!
//! ```text
//! compare   both trees at once, name by name
//! side      one of the two: its names, facts and bytes; image: of a volume, tree: of sources
//! finding   what differs, as a value
//! ```
//! Names are compared as bytes, sorted; so the same two trees give the same findings in the same
//! order whatever they are kept in.
mod compare;
mod finding;
mod image;
mod side;
mod tree;

pub use compare::{CompareOptions, Compared, Ignored, compare};
pub use finding::{Change, Finding, Here, Which};
pub use side::Side;
