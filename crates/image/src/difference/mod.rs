//! What differs between two trees: images, folders, archives.
//!
//! ```text
//! compare   both trees at once, name by name
//! side      what is asked of each of the two: names, facts, bytes
//! image     a volume; tree: what sources hold
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

use crate::source::Collected;
use extant_engine::Filesystem;
use image::ImageSide;
use side::View;
use tree::TreeSide;

/// A tree to be compared, of any kind.
pub struct Side(Kind);

enum Kind {
    Image(Box<ImageSide>),
    Tree(Box<TreeSide>),
}

impl Side {
    /// What is in a volume at and below a path, which leads there without symlinks.
    ///
    /// # Errors
    /// The volume cannot be read; there is no such path.
    pub fn of_image(filesystem: &Filesystem, path: &[u8]) -> Result<Side, crate::Error> {
        let side = ImageSide::new(filesystem, path)?;
        Ok(Side(Kind::Image(Box::new(side))))
    }

    /// What folders and archives hold.
    pub fn of_sources(collected: Collected) -> Side {
        Side(Kind::Tree(Box::new(TreeSide::new(collected))))
    }

    fn view(&mut self) -> &mut dyn View {
        match &mut self.0 {
            Kind::Image(side) => &mut **side,
            Kind::Tree(side) => &mut **side,
        }
    }
}
