//! `extant build` of container images: layouts and archives made here, unpacked by umoci, copied by
//! skopeo and committed by buildah, and such as nobody should have made.
//!
//! ```text
//! made      tar archives entry by entry, layouts blob by blob
//! command   the command, run and read
//! peers     the same tree as umoci's, whatever form the image is in
//! choice    which image of several
//! hostile   what is not as it says
//! inject    files that go to one place
//! ```
mod choice;
mod command;
mod hostile;
mod inject;
mod made;
mod peers;
