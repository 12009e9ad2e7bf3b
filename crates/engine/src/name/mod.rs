//! Names: directories, and what is done with the names in them.
pub(crate) mod beginning;
pub(crate) mod directory;
pub(crate) mod namespace;
pub(crate) mod opening;
pub(crate) mod rename;
