//! Recovery: what a volume needs before it can be used, beyond the blocks that full commits say.
//!
//! ```text
//! fast_commits   changes of inodes and names that Linux logged    orphans   inodes without a name
//! ```
pub(crate) mod fast_commits;
