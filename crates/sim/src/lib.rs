//! Drives in virtual time: machines on which the engine can be measured, the same each time.
//!
//! Every process is a thread, of which exactly one runs at a time; a drive is a state machine that
//! says when its next command ends. Nothing here knows of file systems: a [`device::SimDevice`] is
//! a block device like any other.
//!
//! ```text
//! replay   a trace against a drive, command by command    paced  however long the trace is
//! device   a simulated block device: host queue + drive + contents
//!          traffic  requests on their way through it
//!          statistics  what it counted          timeline  what it did, interval by interval
//!          past  what writes replaced, for a power cut
//! queue    the host's request queue: host, choice, stream, waiting; its elevators are noop, linus
//!          (three of them), deadline, anticipatory, cfq, c_look and turns (fair: slices of time)
//! trace    what a device did, command by command; its formats: blktrace, disksim, iolog
//!          requests  traces of other systems (columns, iolog, blkparse, objects; lines,
//!          request)
//!          recognise  which format a trace has
//! drive    the models: rotating, ssd, network (a volume), object (a store)
//!          presets  those that are built in     file, section   the TOML file of a drive
//!          booking  when a part of a drive is free    medium    sizes, rates and latencies
//!          of rotating: spec (its facts), controller (those of DiskSim), reading, writing,
//!          write_buffer, segments (its cache), arm, layout (where sectors are), seek (how long the
//!          arm moves), cache, overhead (facts of the memory, the bus, the controller)
//! crash_log  what a power cut may do to any device   faulty  fails as it is told
//! clock    virtual time: processes, events, processors
//!          core  what is ready and what comes  report  why a run ends  pin  one host processor
//! random   numbers that depend on a seed alone
//! ```
//!
//! A module uses those below it only.
pub mod clock;
pub mod crash_log;
pub mod device;
pub mod drive;
pub mod faulty;
pub mod queue;
pub mod random;
pub mod replay;
pub mod trace;

pub use crash_log::{CrashLog, Cut, LoggedWrite};
pub use faulty::{Fault, Faulty};
