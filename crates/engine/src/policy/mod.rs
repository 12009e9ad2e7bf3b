//! Policies: pure functions of facts, chosen by name from one table.
//!
//! ```text
//! preset                    every column of the table, and the systems that are rows of it
//! allocation   placement    where blocks go, where inodes go
//! readahead    throttle     what is read before it is asked for; who may write, and when
//! ```
pub mod allocation;
pub mod placement;
pub mod preset;
pub mod readahead;
pub mod throttle;
