//! Files and folders of the host: what they are like, what is in them, and making them.
//!
//! ```text
//! facts         what the host says of a file     attributes   its extended attributes
//! opening       without a trace                  data         its holes
//! folder        by paths of any length, and the way down from one
//! making        files that have no bytes, and what files get
//! ```
//! Every question goes through the C library, and through calls that fakeroot and pseudo replace.
//! A file is reached by its name in an open folder, so no path is longer than the kernel takes;
//! what calls no descriptor will do for is reached through `/proc/self/fd`.
mod attributes;
mod data;
mod facts;
mod folder;
mod making;
mod opening;
#[cfg(test)]
mod tests;

pub use attributes::{Attributes, attributes, attributes_at};
pub use data::{next_data, pieces};
pub use facts::{facts, identity};
pub use folder::{Back, FOLDER, Way, names, open_below, open_path, open_path_from};
pub use making::{
    make_node, open_object, owner, path_of, set_owner, set_permissions, set_times, times,
};
pub use opening::Opening;

/// What is asked of a path that ends in a symbolic link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Links {
    /// What it leads to.
    Follow,
    /// The link itself.
    Stay,
}
