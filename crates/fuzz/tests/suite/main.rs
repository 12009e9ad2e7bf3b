//! Some hundred inputs of each body.
mod each;

use extant_fuzz::memory::{Counting, counting};

#[global_allocator]
static ALLOCATOR: Counting = counting();
