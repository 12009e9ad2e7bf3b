//! The table of all bodies.
use crate::bodies::{attributes, container, image, log, names, redo, request, tape, text, volume};

/// A body, and what its inputs begin as.
pub struct Target {
    /// What it is called.
    pub name: &'static str,
    /// A line about it.
    pub about: &'static str,
    /// Inputs that reach far, made by the code that writes such things.
    pub begun: fn() -> Vec<Vec<u8>>,
    /// What is done with an input.
    pub body: fn(&[u8]),
}

const fn target(
    name: &'static str,
    about: &'static str,
    begun: fn() -> Vec<Vec<u8>>,
    body: fn(&[u8]),
) -> Target {
    Target { name, about, begun, body }
}

/// All of them; the last ones open whole volumes.
pub static TARGETS: &[Target] = &[
    target("superblock", "a superblock and descriptors", volume::superblocks, volume::superblock),
    target("extents", "a node of an extent tree", volume::extent_nodes, volume::extents),
    target("indirect", "a classic map", volume::pointer_blocks, volume::indirect_maps),
    target("directory", "a block of names", names::leaves, names::directory),
    target("index", "a block of a directory's index", names::index_blocks, names::index),
    target(
        "inline-directory",
        "a directory in its inode",
        names::inline_directories,
        names::inline_directory,
    ),
    target("attributes", "lists of attributes", attributes::lists, attributes::attributes),
    target("inline-data", "content in an inode", attributes::inodes, attributes::inline_data),
    target("quota", "a quota file", volume::quota_files, volume::quota),
    target("tar", "an archive", tape::archives, tape::archive),
    target("drive", "the file of a drive", text::drives, text::drive),
    target("scenario", "the file of a scenario", text::scenarios, text::scenario),
    target("redo", "a redo log beside an image", redo::logs, redo::log),
    target("oci", "the documents of a container image", container::documents, container::container),
    target("mount", "messages to a mount", request::messages, request::requests),
    target("journal", "a log to be replayed", log::changes, log::journal),
    target("fast-commit", "fast commits to be replayed", log::tags, log::fast_commit),
    target("image", "a volume of any kind, with changes of it", image::changes, image::image),
    target(
        "quota-image",
        "the same of a volume with quotas",
        image::changes_of_quotas,
        image::image_with_quotas,
    ),
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// What the target of this name does with an input; nothing where there is no such target.
pub fn body(name: &str, input: &[u8]) {
    if let Some(target) = find(name) {
        (target.body)(input);
    }
}

impl Target {
    /// Which part of the rounds it has where many are run together: those that open volumes take a
    /// hundred times as long as the others.
    pub fn share(&self) -> u64 {
        match self.name {
            "journal" | "fast-commit" | "image" | "quota-image" => 6,
            "mount" | "redo" | "oci" => 5,
            _ => 1,
        }
    }
}
