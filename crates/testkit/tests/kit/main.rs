//! The kit sees what it is there to see.

mod fixtures;
mod journals;
mod walk;
