//! Time, waiting and devices; knows nothing of ext.
//!
//! Two seams: [`Clock`] is the only way to wait or to know the time, [`BlockDevice`] the only way to reach a disk. Real and
//! virtual time, a file and a simulated drive, differ in nothing else.

pub mod clock;
pub mod device;
pub mod file;
pub mod lock;
pub mod memory;
pub mod queue;

pub use clock::{Clock, RealClock, Task, Unparked, Waker, WallTime};
pub use device::{BlockDevice, Completed, Completion, DeviceInfo, Operation, Request, Segment};
pub use file::FileDevice;
pub use lock::{ShortLock, SleepLock, SleepRwLock, WaitQueue};
pub use memory::MemoryDevice;
