//! Controller time of a command, by what it is, whether the cache takes part, and what came before.
use crate::drive::section::{FileError, Section};
use extant_block::Operation;
use serde::Serialize;

/// The keys of a detailed table.
const OWN_KEYS: [&str; 8] = [
    "write_hit",
    "after_write",
    "read_completion",
    "write_completion",
    "preparation",
    "reconnect",
    "write_seek_delay",
    "write_data_delay",
];
const SECOND_NS: i64 = 1_000_000_000;

/// A time by the operation before, in nanoseconds: controllers were measured to take several times
/// as long after a read as after a write, or the other way round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct After {
    /// The command before was a read, or there was none.
    pub read_ns: u64,
    /// The command before was a write.
    pub write_ns: u64,
}

impl After {
    /// The time after that operation. A flush counts as what was before it.
    pub fn time(&self, before: Operation) -> u64 {
        match before {
            Operation::Write => self.write_ns,
            Operation::Read | Operation::Flush => self.read_ns,
        }
    }
}

/// Controller time per command, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Overhead {
    /// Of a read that needs the medium.
    pub read_miss: After,
    /// Of a read that the cache answers.
    pub read_hit: After,
    /// Of a write that is answered once it is on the medium, or has to wait for room in the cache.
    pub write_miss: After,
    /// Of a write that is answered once it is in the cache.
    pub write_hit: After,
    /// After the last sector of a read was on the bus.
    pub read_completion_ns: u64,
    /// After the last sector of a write is where it has to be.
    pub write_completion_ns: u64,
    /// Before data move on the bus.
    pub preparation_ns: u64,
    /// To get the bus back after the drive let go of it to wait for the medium.
    pub reconnect_ns: u64,
    /// Of a write that goes to the medium: from the end of its overhead to the start of the seek.
    pub write_seek_delay_ns: u64,
    /// The same: from the end of its overhead until the drive asks for the data.
    pub write_data_delay_ns: u64,
}

impl Overhead {
    /// Whether the table has more than the keys of `../drives/README.md`.
    pub(super) fn is_detailed(table: &Section<'_>) -> bool {
        OWN_KEYS.iter().any(|key| table.has(key))
    }

    /// Reads `[overhead_ms]`: the keys of `../drives/README.md`, and beside them
    ///
    /// | key | meaning | default |
    /// | --- | --- | --- |
    /// | `write_hit` | of a write that is answered out of the cache | `write` |
    /// | `after_write` | a table of the same four, for commands after a write | as after a read |
    /// | `read_completion`, `write_completion` | after the data | 0 |
    /// | `preparation` | before data move on the bus | 0 |
    /// | `reconnect` | to get the bus back after waiting for the medium | 0 |
    /// | `write_seek_delay`, `write_data_delay` | of a write to the medium: from its overhead to the seek, and to the transfer of its data | 0 |
    pub(super) fn read(table: &mut Section<'_>) -> Result<Overhead, FileError> {
        let read_miss = time(table, "read_miss", None)?;
        let read_hit = time(table, "read_hit", None)?;
        let write = time(table, "write", None)?;
        let write_hit = time(table, "write_hit", Some(write))?;
        let mut after = [read_miss, read_hit, write, write_hit];
        if let Some(mut later) = table.optional_section("after_write")? {
            for (key, value) in ["read_miss", "read_hit", "write"].iter().zip(after.iter_mut()) {
                *value = time(&mut later, key, Some(*value))?;
            }
            after[3] = match later.has("write") && !table.has("write_hit") {
                true => after[2],
                false => write_hit,
            };
            after[3] = time(&mut later, "write_hit", Some(after[3]))?;
            later.finish()?;
        }
        let pair = |read_ns: u64, write_ns: u64| After { read_ns, write_ns };
        let overhead = Overhead {
            read_miss: pair(read_miss, after[0]),
            read_hit: pair(read_hit, after[1]),
            write_miss: pair(write, after[2]),
            write_hit: pair(write_hit, after[3]),
            read_completion_ns: time(table, "read_completion", Some(0))?,
            write_completion_ns: time(table, "write_completion", Some(0))?,
            preparation_ns: time(table, "preparation", Some(0))?,
            reconnect_ns: time(table, "reconnect", Some(0))?,
            write_seek_delay_ns: time(table, "write_seek_delay", Some(0))?,
            write_data_delay_ns: time(table, "write_data_delay", Some(0))?,
        };
        Ok(overhead)
    }
}

/// A time in milliseconds, at most a second, in nanoseconds.
fn time(table: &mut Section<'_>, key: &str, default: Option<u64>) -> Result<u64, FileError> {
    let default = default.map(u64::cast_signed);
    table.decimal_within(key, 6, 0..=SECOND_NS, default).map(i64::unsigned_abs)
}
