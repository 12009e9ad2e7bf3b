//! Drives in virtual time: machines on which the engine can be measured, the same each time.
//!
//! Every process is a thread, of which exactly one runs at a time; a drive is a state machine that
//! says when its next command ends. Nothing here knows of file systems: a [`device::SimDevice`] is
//! a block device like any other.
//!
//! ```text
//! replay   a trace against a drive, command by command
//! device   a simulated block device: host queue + drive + contents, and what it counted
//! trace    what a device did, command by command, and the formats it is written in
//! drive    rotating, ssd, network volume, object store; their files and presets
//! clock    virtual time: processes, events, processors
//! random   numbers that depend on a seed alone
//! ```
//!
//! A module uses those below it only.
pub mod clock;
pub mod device;
pub mod drive;
pub mod random;
pub mod replay;
pub mod trace;
