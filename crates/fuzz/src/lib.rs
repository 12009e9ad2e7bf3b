//! Bytes that nobody wrote, for everything that reads bytes of others: each of them ends, with a
//! value or an error, in bounded time and memory.
//!
//! A crate of its own, because its bodies call every crate that reads: `testkit` may link none of
//! them. The command `xtask fuzz` runs the bodies for a time, the suite some hundred rounds of
//! each, and the targets of `fuzz/` (libFuzzer) the same bodies.
//!
//! ```text
//! rounds    many inputs of one target, each in bounded time and memory
//! targets   the table of all bodies, with what their inputs begin as
//! bodies    what is done with an input: structures of the format (volume, names, attributes,
//!           log), whole images (image, base), and what is not a volume (text, tape, container,
//!           redo, request)
//! mutate    inputs, made of others by a seed
//! memory    what the process has asked for
//! ```
//!
//! Modules use those below them only. No input is kept as a file: what they begin as is made by
//! the code that writes such things, so that it follows the format.
mod bodies;
pub mod memory;
pub mod mutate;
pub mod rounds;
pub mod targets;
