//! The laboratory: the engine that ships, on a drive in virtual time.
//!
//! A scenario names drives, file systems with their policies, and processes with steps. It runs on
//! a [`clock::VirtualClock`]: every process is a thread of which exactly one runs at a time, and
//! drives are state machines that tell when they have something to say. One seed gives one report,
//! byte for byte.
//!
//! ```text
//! posts        the mailing list posts as scenarios, with their figures        report   text and JSON
//! scenario     TOML files, their steps, and what runs them                    replay   a trace against a drive
//! device       a simulated block device: host queue + drive + contents        trace    records and their formats
//! drive        rotating, ssd, network volume, object store                    clock    virtual time
//! ageing       months of use of a volume, and what they do to it
//! page         reports as HTML: one file, its plots drawn here
//! ```
pub mod ageing;
pub mod clock;
pub mod device;
pub mod drive;
pub mod page;
pub mod posts;
pub mod random;
pub mod replay;
pub mod report;
pub mod scenario;
pub mod trace;
