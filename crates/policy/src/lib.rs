//! Policies: pure functions of facts, chosen by name from one table.
//!
//! ```text
//! preset       the columns of the table, and the presets that are its rows; sources, where each
//!              value comes from
//! placement    where inodes go
//! allocation   where blocks go: ext2_goal, reservation, freebsd, multi_block, packed;
//!              metacluster, where map blocks go
//! readahead    what is read before it is wanted
//! throttle     when writers wait and the flusher writes: write_behind, bdflush, kupdate,
//!              bufdaemon, inline, global, per_device, proportional; fraction is the numbers that
//!              they count with
//! ```
pub mod allocation;
pub mod placement;
pub mod preset;
pub mod readahead;
pub mod throttle;
