//! Sums that rows of a report are made of: what a drive did, what a process did, where everything
//! lay.
use extant_inspect::LayoutReport;
use extant_sim::device::Statistics;
use extant_sim::drive::Parts;
use serde::{Deserialize, Serialize};

/// What a drive did in some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests that ended.
    pub requests: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Commands that the drive answered.
    pub commands: u64,
    /// Pieces of requests that needed no command of their own.
    pub merged: u64,
    /// Commands answered from the drive's cache.
    pub hits: u64,
    /// Commands that began elsewhere than the one before had ended.
    pub seeks: u64,
    /// How far away, in bytes, added up.
    pub seek_bytes: u64,
    /// How long the drive had a command.
    pub busy_ns: u64,
    /// Where the time of the commands went.
    pub parts: Parts,
    /// It was not counted: of the host's own drive nothing is known, and the rest is 0. `null` in
    /// JSON.
    #[serde(skip)]
    pub is_unknown: bool,
}

/// Traffic as reports write it: `null` when it is unknown.
pub(super) mod known {
    use super::Traffic;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        traffic: &Traffic,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Some(traffic).filter(|traffic| !traffic.is_unknown).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'a, D: Deserializer<'a>>(
        deserializer: D,
    ) -> Result<Traffic, D::Error> {
        let traffic = Option::<Traffic>::deserialize(deserializer)?;
        Ok(traffic.unwrap_or_else(Traffic::unknown))
    }
}

impl From<&Statistics> for Traffic {
    fn from(statistics: &Statistics) -> Traffic {
        Traffic {
            requests: statistics.requests,
            reads: statistics.reads,
            writes: statistics.writes,
            flushes: statistics.flushes,
            bytes_read: statistics.bytes_read,
            bytes_written: statistics.bytes_written,
            commands: statistics.commands,
            merged: statistics.merged,
            hits: statistics.hits,
            seeks: statistics.seeks,
            seek_bytes: u64::try_from(statistics.seek_bytes).unwrap_or(u64::MAX),
            busy_ns: statistics.busy_ns,
            parts: statistics.parts,
            is_unknown: false,
        }
    }
}

impl Traffic {
    /// Of what is not counted.
    #[must_use]
    pub fn unknown() -> Traffic {
        Traffic { is_unknown: true, ..Traffic::default() }
    }

    /// What came to it since `before`.
    #[must_use]
    pub fn since(&self, before: &Traffic) -> Traffic {
        self.combined(before, u64::saturating_sub)
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Traffic) -> Traffic {
        self.combined(other, u64::saturating_add)
    }

    fn combined(&self, other: &Traffic, by: fn(u64, u64) -> u64) -> Traffic {
        let (parts, others) = (&self.parts, &other.parts);
        Traffic {
            requests: by(self.requests, other.requests),
            reads: by(self.reads, other.reads),
            writes: by(self.writes, other.writes),
            flushes: by(self.flushes, other.flushes),
            bytes_read: by(self.bytes_read, other.bytes_read),
            bytes_written: by(self.bytes_written, other.bytes_written),
            commands: by(self.commands, other.commands),
            merged: by(self.merged, other.merged),
            hits: by(self.hits, other.hits),
            seeks: by(self.seeks, other.seeks),
            seek_bytes: by(self.seek_bytes, other.seek_bytes),
            busy_ns: by(self.busy_ns, other.busy_ns),
            parts: Parts {
                queued: by(parts.queued, others.queued),
                overhead: by(parts.overhead, others.overhead),
                seek: by(parts.seek, others.seek),
                settle: by(parts.settle, others.settle),
                rotation: by(parts.rotation, others.rotation),
                media: by(parts.media, others.media),
                bus: by(parts.bus, others.bus),
            },
            is_unknown: self.is_unknown || other.is_unknown,
        }
    }
}

/// What a process did in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Work {
    /// Directories made, listed or removed.
    pub directories: u64,
    /// Files made, looked at, read or removed; other objects too.
    pub files: u64,
    /// Bytes read from files or the bare drive.
    pub bytes_read: u64,
    /// Bytes written to files or the bare drive.
    pub bytes_written: u64,
    /// Files that a comparison found different, or on one side only.
    pub differences: u64,
    /// Problems that a check found and that did not fail its step; 0 is not in the JSON.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub problems: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What went through a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct JournalFigures {
    /// Transactions committed.
    pub commits: u64,
    /// Blocks written to the log, descriptors and commit blocks included.
    pub log_blocks: u64,
    /// The same in bytes.
    pub log_bytes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Blocks that they wrote to their places.
    pub checkpoint_blocks: u64,
}

/// What power cuts lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PowerCutFigures {
    /// Requests that were under way.
    pub requests_lost: u64,
    /// Bytes that were written and are as they were before. Phantom data is not among them.
    pub bytes_lost: u64,
}

impl PowerCutFigures {
    /// Both together.
    #[must_use]
    pub fn and(&self, other: &PowerCutFigures) -> PowerCutFigures {
        PowerCutFigures {
            requests_lost: self.requests_lost + other.requests_lost,
            bytes_lost: self.bytes_lost + other.bytes_lost,
        }
    }
}

impl Work {
    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Work) -> Work {
        Work {
            directories: self.directories + other.directories,
            files: self.files + other.files,
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
            differences: self.differences + other.differences,
            problems: self.problems + other.problems,
        }
    }
}

/// Where everything lay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LayoutFigures {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Other objects.
    pub others: u64,
    /// Blocks of data.
    pub data_blocks: u64,
    /// Blocks of directories.
    pub directory_blocks: u64,
    /// Blocks that map others.
    pub map_blocks: u64,
    /// Share of the blocks, first ones excluded, that follow the one before (Smith and Seltzer
    /// 1997).
    pub layout_score_permille: Option<u64>,
    /// Runs of blocks of all files.
    pub fragments: u64,
    /// Files of more than one run.
    pub fragmented_files: u64,
    /// Names whose inode lies in their directory's group, of all.
    pub names_in_same_group_permille: Option<u64>,
    /// From a directory's inode to its files' first blocks, in blocks.
    pub mean_distance_blocks: Option<u64>,
    /// Neighbours in readdir order that also rise on the disk.
    pub in_disk_order_permille: Option<u64>,
    /// Free blocks.
    pub free_blocks: u64,
    /// Runs of free blocks.
    pub free_runs: u64,
    /// The longest of them.
    pub longest_free_run: u64,
    /// What was wrong on the volume.
    pub faults: u64,
}

/// A share in thousandths; what the scan computed from integers is rounded the same way everywhere.
fn permille(share: f64) -> u64 {
    (share * 1000.0).round().clamp(0.0, 1000.0) as u64
}

impl From<&LayoutReport> for LayoutFigures {
    fn from(layout: &LayoutReport) -> LayoutFigures {
        let (locality, free) = (&layout.locality, &layout.free);
        LayoutFigures {
            files: layout.files,
            directories: layout.directories,
            others: layout.others,
            data_blocks: layout.data_blocks,
            directory_blocks: layout.directory_blocks,
            map_blocks: layout.map_blocks,
            layout_score_permille: layout.layout_score.map(permille),
            fragments: layout.fragments,
            fragmented_files: layout.fragmented_files,
            names_in_same_group_permille: (locality.same_group * 1000).checked_div(locality.names),
            mean_distance_blocks: locality
                .mean_distance_blocks
                .map(|blocks| blocks.round().max(0.0) as u64),
            in_disk_order_permille: locality.in_disk_order.map(permille),
            free_blocks: free.blocks,
            free_runs: free.runs,
            longest_free_run: free.longest_run,
            faults: layout.faults,
        }
    }
}
