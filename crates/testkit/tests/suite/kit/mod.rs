//! The kit sees what it is there to see.

mod fixtures;
mod gate;
mod journals;
mod walk;
