//! A file's blocks in memory.
use extant_block::Clock;
use std::sync::Arc;
pub(crate) struct Pages {}
impl Pages {
    pub(crate) fn new(_clock: Arc<dyn Clock>) -> Pages { Pages {} }
    pub(crate) fn is_clean(&self) -> bool { todo!() }
}
