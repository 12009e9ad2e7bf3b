//! All that the structures of the format are tested for.
mod acl;
mod attribute;
mod attribute_values;
mod directory;
mod extent;
mod fold;
mod hash;
mod image;
mod indirect;
mod journal;
mod mke2fs;
mod odd_images;
mod structures;
