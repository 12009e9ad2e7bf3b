//! Power cuts: what the engine promised, held against what is there after a recovery.
//!
//! A crate of its own, because it runs the engine on a disk in virtual time and judges it by our
//! check: `testkit` may link neither, and no test of one crate may link all three. Only tests and
//! the command `xtask crash` use it.
//!
//! ```text
//! sequences   every short sequence of operations after a sync, on every kind of volume
//! random      four processes that do what a seed draws
//! campaign    many histories, each cut at many moments: what is wrong, and how to see it again
//! examine     one history: its states, each recovered once and judged
//! recovery    a medium is opened, recovered and judged by our check and by e2fsck
//! machine     processes on a volume, in virtual time
//! verdict     whether what is found is allowed
//! state       what a cut leaves; which states are equal
//! history     scripts, when each step was, and what has to be durable
//! base        the volumes to begin with
//! tree        the model: names, and what files held
//! found       what a volume shows
//! operation   what processes do
//! device      a disk with a volatile cache
//! ```
//!
//! Modules use those below them only.
pub mod base;
pub mod campaign;
pub mod device;
pub mod examine;
pub mod found;
pub mod history;
pub mod machine;
pub mod operation;
pub mod random;
pub mod recovery;
pub mod sequences;
pub mod state;
pub mod tree;
pub mod verdict;
