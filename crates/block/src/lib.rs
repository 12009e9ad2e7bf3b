//! Time, waiting and devices; knows nothing of ext.
//!
//! Two seams: [`Clock`] is the only way to wait or to know the time, [`BlockDevice`] the only way
//! to reach a disk. Real and virtual time, a file and a simulated drive, differ in nothing else.

pub mod clock;
pub mod crash_log;
pub mod device;
pub mod error;
pub mod faulty;
pub mod file;
pub mod holes;
pub mod lock;
pub mod memory;
pub mod neighbours;
pub mod order;
pub mod queue;
pub mod traced;

pub use clock::{Clock, RealClock, Task, Unparked, Waker, WallTime};
pub use crash_log::{CrashLog, Cut, LoggedWrite};
pub use device::{
    BlockDevice, Completed, Completion, DeviceInfo, Operation, Request, Segment, Urgency,
};
pub use error::{DeviceError, raw_os_error};
pub use faulty::{Fault, Faulty};
pub use file::{Access, FileDevice};
pub use holes::{Holes, held_bytes};
pub use lock::{ShortLock, SleepLock, SleepRwLock, WaitQueue};
pub use memory::MemoryDevice;
pub use neighbours::Neighbours;
pub use order::Rank;
pub use queue::{
    Command, ElevatorChoice, HostQueue, Next, Part, QueueSettings, QueueStatistics, Queued,
};
pub use traced::Traced;
