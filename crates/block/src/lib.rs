//! Time, waiting and devices; knows nothing of ext.
//!
//! Two seams: [`Clock`] is the only way to wait or to know the time, [`BlockDevice`] the only way
//! to reach a disk. Real and virtual time, a file and a simulated drive, differ in nothing else.
//!
//! ```text
//! clock       time, waiting and threads           lock        short and sleeping locks
//! device      what all of them are                error       errors of a device, with its name
//! request     requests and completions            capability  what only some of them can do
//! buffer      memory for blocks of files
//! file        a file as a device                  memory      a device in memory
//! neighbours  read-ahead in front of a device     traced      keeps a trace of a device's requests
//! paced       the same, as far as the device is away: pace, timed, walks
//! overlay     changes a device in memory only     holes       where a device holds data
//! window      a stretch of a device: a partition
//! staged      changes of a volume: all or nothing
//! order       which locks a thread holds          in_use      locks, loop devices and mounts
//! stack       what a block device is on, and what is on it
//! gather      blocks at rising places, made into requests
//! edge        where a clock may let other threads go first, in tests
//! apart       numbers in a line of the processor's cache of their own
//! ```

pub mod apart;
pub mod buffer;
pub mod capability;
pub mod clock;
pub mod device;
pub mod edge;
pub mod error;
pub mod file;
pub mod gather;
pub mod holes;
pub mod in_use;
pub mod lock;
pub mod memory;
pub mod neighbours;
pub mod order;
pub mod overlay;
pub mod paced;
mod request;
mod stack;
pub mod staged;
pub mod traced;
pub mod window;

pub use apart::Apart;
pub use buffer::{Buffer, PIECE_BYTES};
pub use capability::{
    Annex, Capabilities, Congests, Discards, KnowsHoles, ReadsMetadata, Remembers, WritesDurably,
};
pub use clock::{Clock, RealClock, Task, Unparked, Waker, WallTime};
pub use device::{
    BlockDevice, Completed, Completion, DeviceInfo, Operation, Pending, Request, Segment, Urgency,
};
pub use error::{DeviceError, raw_os_error};
pub use file::{Access, FileDevice};
pub use gather::{Gather, REQUEST_BYTES_MAX, blocks_per_request, each_request};
pub use holes::{Holes, held_bytes};
pub use lock::{ShortLock, SleepLock, SleepRwLock, WaitQueue};
pub use memory::MemoryDevice;
pub use neighbours::Neighbours;
pub use order::Rank;
pub use overlay::Overlay;
pub use paced::Paced;
pub use staged::Staged;
pub use traced::Traced;
pub use window::Window;
