//! What a process holds, and how it is kept from more.
//!
//! A limit is on what the process has in memory at its peak (`VmHWM`), which the run looks at many
//! times a second: that is what people mean, and what a machine runs out of. Linux enforces no such
//! limit itself without a control group, which takes rights that a user may not have. What it does
//! enforce is a limit of address space (`RLIMIT_AS`), which counts stacks, maps and arenas that
//! nobody has touched, and fails jobs that hold a tenth of it. So a looser limit of private memory
//! (`RLIMIT_DATA`) stands behind the looks: what grows faster than they come is refused by Linux.
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is allowed beyond twice the limit: stacks of threads, which count before they are used.
const CEILING_SPARE_BYTES: u64 = 64 << 20;

/// The most that a process has held, in bytes, since it began or [`forget_peak`]; `process` is its
/// number or `self`. `None` if it is gone.
pub fn peak_bytes(process: &str) -> Option<u64> {
    field(process, "VmHWM:")
}

/// What it holds now, in bytes.
pub fn held_bytes(process: &str) -> Option<u64> {
    field(process, "VmRSS:")
}

fn field(process: &str, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Begins the peak of this process anew. Where the kernel does not allow it, the peak of earlier
/// jobs stays, and a job may be refused that another process would run.
pub fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The memory of this machine, in bytes; `None` where it does not say.
pub fn of_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// While there is one, Linux refuses this process private memory far above a limit.
#[derive(Debug)]
pub struct Ceiling {
    before: Rlimit,
}

impl Ceiling {
    /// For a limit in bytes; nothing for none.
    pub fn set(limit_bytes: Option<u64>) -> Option<Ceiling> {
        let bytes = limit_bytes?.saturating_mul(2).saturating_add(CEILING_SPARE_BYTES);
        let before = getrlimit(Resource::Data);
        let bytes = before.current.map_or(bytes, |current| current.min(bytes));
        let new = Rlimit { current: Some(bytes), maximum: before.maximum };
        setrlimit(Resource::Data, new).ok().map(|()| Ceiling { before })
    }
}

impl Drop for Ceiling {
    fn drop(&mut self) {
        // Back to what was allowed before, which is always allowed.
        let _ = setrlimit(Resource::Data, Rlimit { ..self.before });
    }
}
