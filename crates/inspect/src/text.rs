//! Facts as text, in the shape of dumpe2fs: rows of a label and a value, then one
//! paragraph a group.
use crate::date::Date;
use crate::group::{BlockPlace, BlockRange, GroupInfo, StoredChecksum};
use crate::info::{JournalInfo, RecordedError, VolumeInfo};
use extant_format::superblock;
use std::fmt::{self, Display, Formatter};

/// Where values begin.
const COLUMN: usize = 26;

/// Rows of a label and a value.
pub(crate) struct Rows<'a, 'b>(pub(crate) &'a mut Formatter<'b>);

impl Rows<'_, '_> {
    pub(crate) fn row(&mut self, label: &str, value: impl Display) -> fmt::Result {
        writeln!(self.0, "{:<COLUMN$}{value}", format!("{label}:"))
    }

    /// Nothing for `None`.
    pub(crate) fn some(&mut self, label: &str, value: Option<impl Display>) -> fmt::Result {
        value.map_or(Ok(()), |value| self.row(label, value))
    }

    fn list(&mut self, label: &str, values: &[impl AsRef<str>]) -> fmt::Result {
        let words: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
        self.row(label, if words.is_empty() { "(none)".to_owned() } else { words.join(" ") })
    }

    fn date(&mut self, label: &str, date: Option<Date>) -> fmt::Result {
        self.row(label, date.map_or_else(|| "n/a".to_owned(), |date| date.to_string()))
    }
}

impl Display for VolumeInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = Rows(f);
        self.identity_rows(&mut rows)?;
        self.size_rows(&mut rows)?;
        self.history_rows(&mut rows)?;
        self.inode_rows(&mut rows)?;
        self.error_rows(&mut rows)?;
        self.feature_rows(&mut rows)?;
        if let Some(journal) = &self.journal {
            journal.rows(&mut rows)?;
        }
        self.problems.iter().try_for_each(|problem| rows.row("Problem", problem))
    }
}

impl VolumeInfo {
    fn identity_rows(&self, rows: &mut Rows<'_, '_>) -> fmt::Result {
        rows.row("Filesystem volume name", self.label.as_deref().unwrap_or("<none>"))?;
        rows.row("Last mounted on", self.last_mounted.as_deref().unwrap_or("<not available>"))?;
        rows.row("Filesystem UUID", &self.uuid)?;
        rows.row("Filesystem magic number", format_args!("{:#06X}", superblock::MAGIC))?;
        let revision = match self.revision {
            0 => "0 (original)".to_owned(),
            1 => "1 (dynamic)".to_owned(),
            other => other.to_string(),
        };
        rows.row("Filesystem revision #", revision)?;
        rows.list("Filesystem features", &self.features)?;
        if !self.unread_features.is_empty() {
            rows.list("Features not read", &self.unread_features)?;
        }
        if !self.unwritten_features.is_empty() {
            rows.list("Features not written", &self.unwritten_features)?;
        }
        rows.list("Filesystem flags", &self.flags)?;
        rows.list("Default mount options", &self.default_mount_options)?;
        rows.some("Mount options", self.mount_options.as_ref())?;
        rows.row("Filesystem state", self.state)?;
        rows.row("Errors behavior", self.errors_behavior)?;
        rows.row("Filesystem OS type", &self.os)
    }

    fn size_rows(&self, rows: &mut Rows<'_, '_>) -> fmt::Result {
        rows.row("Inode count", self.inodes)?;
        rows.row("Block count", self.blocks)?;
        rows.row("Reserved block count", self.reserved_blocks)?;
        rows.some("Overhead clusters", self.overhead_blocks)?;
        rows.row("Free blocks", self.free_blocks)?;
        rows.row("Free inodes", self.free_inodes)?;
        rows.row("First block", self.first_block)?;
        rows.row("Block size", self.block_size)?;
        match self.cluster_size {
            Some(size) => rows.row("Cluster size", size)?,
            None => rows.row("Fragment size", self.block_size)?,
        }
        rows.some("Group descriptor size", self.descriptor_size)?;
        rows.some("First meta block group", self.first_meta_group)?;
        rows.some(
            "Reserved GDT blocks",
            Some(self.reserved_descriptor_blocks).filter(|blocks| *blocks != 0),
        )?;
        rows.row("Group count", self.groups)?;
        rows.row("Blocks per group", self.blocks_per_group)?;
        match self.clusters_per_group {
            Some(clusters) => rows.row("Clusters per group", clusters)?,
            None => rows.row("Fragments per group", self.blocks_per_group)?,
        }
        rows.row("Inodes per group", self.inodes_per_group)?;
        rows.row("Inode blocks per group", self.inode_blocks_per_group)?;
        rows.some("RAID stride", self.raid_stride)?;
        rows.some("RAID stripe width", self.raid_stripe_width)?;
        rows.some("Flex block group size", self.flex_groups.filter(|groups| *groups > 1))
    }

    fn history_rows(&self, rows: &mut Rows<'_, '_>) -> fmt::Result {
        rows.date("Filesystem created", self.created)?;
        rows.date("Last mount time", self.mounted)?;
        rows.date("Last write time", self.written)?;
        rows.row("Mount count", self.mount_count)?;
        rows.row("Maximum mount count", self.max_mount_count)?;
        rows.date("Last checked", self.checked)?;
        let interval = self.check_interval_seconds;
        if interval == 0 {
            rows.row("Check interval", "0 (<none>)")?;
        } else {
            rows.row("Check interval", format_args!("{interval} ({})", duration(interval)))?;
            let next = self.checked.map(|checked| Date(checked.0.saturating_add(interval.into())));
            rows.date("Next check after", next)?;
        }
        rows.some("Lifetime writes", self.lifetime_writes_kib.map(written))?;
        rows.row("Reserved blocks uid", self.reserved_blocks_uid)?;
        rows.row("Reserved blocks gid", self.reserved_blocks_gid)
    }

    fn inode_rows(&self, rows: &mut Rows<'_, '_>) -> fmt::Result {
        if self.revision > 0 {
            rows.row("First inode", self.first_inode)?;
            rows.row("Inode size", self.inode_size)?;
        }
        rows.some("Required extra isize", self.required_extra_isize)?;
        rows.some("Desired extra isize", self.desired_extra_isize)?;
        rows.some("Journal UUID", self.journal_uuid.as_ref())?;
        rows.some("Journal inode", self.journal_inode)?;
        rows.some("Journal device", self.journal_device.map(|device| format!("{device:#06x}")))?;
        rows.some("First orphan inode", self.first_orphan)?;
        rows.some("Default directory hash", self.directory_hash)?;
        rows.some("Directory Hash Seed", self.directory_hash_seed.as_ref())?;
        rows.some("Journal backup", self.journal_backup)
    }

    fn error_rows(&self, rows: &mut Rows<'_, '_>) -> fmt::Result {
        let Some(errors) = &self.errors else { return Ok(()) };
        rows.row("FS Error count", errors.count)?;
        let each = [("First", &errors.first), ("Last", &errors.last)];
        each.into_iter().try_for_each(|(which, error)| {
            error.as_ref().map_or(Ok(()), |error| error.rows(which, rows))
        })
    }

    fn feature_rows(&self, rows: &mut Rows<'_, '_>) -> fmt::Result {
        rows.some("MMP block number", self.mmp_block)?;
        rows.some("MMP update interval", self.mmp_interval_seconds)?;
        rows.some("User quota inode", self.user_quota_inode)?;
        rows.some("Group quota inode", self.group_quota_inode)?;
        rows.some("Project quota inode", self.project_quota_inode)?;
        rows.some("Checksum type", self.checksum_type.as_ref())?;
        rows.some("Checksum", self.checksum.map(|sum| format!("{sum:#010x}")))?;
        rows.some("Checksum seed", self.checksum_seed.map(|seed| format!("{seed:#010x}")))?;
        rows.some("Character encoding", self.encoding.as_ref())?;
        rows.some("Orphan file inode", self.orphan_file_inode)?;
        let groups =
            self.backup_groups.as_deref().unwrap_or_default().iter().filter(|group| **group != 0);
        let groups: Vec<String> = groups.map(u32::to_string).collect();
        rows.some("Backup block groups", Some(groups.join(" ")).filter(|groups| !groups.is_empty()))
    }
}

impl RecordedError {
    fn rows(&self, which: &str, rows: &mut Rows<'_, '_>) -> fmt::Result {
        rows.row(&format!("{which} error time"), self.time)?;
        rows.row(&format!("{which} error function"), &self.function)?;
        rows.row(&format!("{which} error line #"), self.line)?;
        rows.some(&format!("{which} error inode #"), Some(self.inode).filter(|ino| *ino != 0))?;
        rows.some(&format!("{which} error block #"), Some(self.block).filter(|block| *block != 0))?;
        rows.some(&format!("{which} error err"), Some(self.code).filter(|code| *code != 0))
    }
}

impl JournalInfo {
    fn rows(&self, rows: &mut Rows<'_, '_>) -> fmt::Result {
        rows.list("Journal features", &self.features)?;
        let kib = self.bytes / 1024;
        let size = if kib < 8192 { format!("{kib}k") } else { format!("{}M", kib / 1024) };
        rows.row("Total journal size", size)?;
        rows.row("Total journal blocks", self.blocks)?;
        rows.row("Max transaction length", self.blocks.saturating_sub(self.fast_commit_blocks))?;
        rows.row("Fast commit length", self.fast_commit_blocks)?;
        rows.some("Journal first block", Some(self.first).filter(|first| *first != 1))?;
        rows.row("Journal sequence", format_args!("{:#010x}", self.sequence))?;
        rows.row("Journal start", self.start)?;
        let is_inside = self.first == 1;
        let users = Some(self.users).filter(|users| *users > 1 || (*users == 0 && !is_inside));
        rows.some("Journal number of users", users)?;
        rows.some("Journal checksum type", self.checksum_type.as_ref())?;
        rows.some("Journal checksum", self.checksum.map(|sum| format!("{sum:#010x}")))?;
        rows.some("Journal errno", Some(self.error).filter(|error| *error != 0))?;
        let ids = self.user_ids.join(&format!("\n{:COLUMN$}", ""));
        rows.some("Journal users", Some(ids).filter(|ids| !ids.is_empty()))
    }
}

fn duration(seconds: u32) -> String {
    let units =
        [(2_592_000, "month"), (604_800, "week"), (86_400, "day"), (3_600, "hour"), (60, "minute")];
    let mut left = seconds;
    let mut words = Vec::new();
    for (unit, name) in units.into_iter().chain([(1, "second")]) {
        let count = left / unit;
        left %= unit;
        if count > 0 {
            words.push(format!("{count} {name}{}", if count == 1 { "" } else { "s" }));
        }
    }
    words.join(", ")
}

/// Rounded to the nearest of the largest unit of which there are at least eight.
fn written(kib: u64) -> String {
    let units = ["kB", "MB", "GB"];
    let rounded = |shift: u32| (kib + (1 << shift >> 1)) >> shift;
    let shift = match kib {
        0..8_192 => 0,
        8_192..8_388_608 => 1,
        _ if kib < 8 << 30 => 2,
        _ => return format!("{} TB", rounded(30)),
    };
    format!("{} {}", rounded(shift * 10), units[shift as usize])
}

impl Display for BlockRange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl Display for StoredChecksum {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "csum {:#010x}", self.stored)?;
        self.expected.map_or(Ok(()), |expected| write!(f, " (EXPECTED {expected:#010x})"))
    }
}

/// Runs, as `3-7, 12, 20-40`.
struct Runs<'a>(&'a [BlockRange]);

impl Display for Runs<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, run) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { " " } else { ", " })?;
            if run.first == run.last {
                write!(f, "{}", run.first)?;
            } else {
                write!(f, "{run}")?;
            }
        }
        Ok(())
    }
}

impl Display for GroupInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Group {}: (Blocks {})", self.number, self.blocks)?;
        if let Some(StoredChecksum { stored, expected }) = self.checksum {
            write!(f, " csum {stored:#06x}")?;
            expected.map_or(Ok(()), |expected| write!(f, " (EXPECTED {expected:#06x})"))?;
        }
        if !self.flags.is_empty() {
            write!(f, " [{}]", self.flags.join(", "))?;
        }
        writeln!(f)?;
        self.write_copy(f)?;
        self.write_bitmap(f, "Block bitmap", self.block_bitmap, self.block_bitmap_checksum)?;
        self.write_bitmap(f, "Inode bitmap", self.inode_bitmap, self.inode_bitmap_checksum)?;
        let table = self.inode_table;
        let last = table.block.saturating_add(self.inode_table_blocks.into()).saturating_sub(1);
        writeln!(f, "  Inode table at {}-{last}{}", table.block, Offset(self.number, table))?;
        let (blocks, inodes) = (self.free_blocks, self.free_inodes);
        let unit = if self.cluster_blocks > 1 { "clusters" } else { "blocks" };
        let directories = self.directories;
        write!(f, "  {blocks} free {unit}, {inodes} free inodes, {directories} directories")?;
        if self.unused_inodes > 0 {
            write!(f, ", {} unused inodes", self.unused_inodes)?;
        }
        writeln!(f)?;
        writeln!(f, "  Free blocks:{}", Runs(&self.free_block_runs))?;
        writeln!(f, "  Free inodes:{}", Runs(&self.free_inode_runs))?;
        self.problems.iter().try_for_each(|problem| writeln!(f, "  Problem: {problem}"))
    }
}

impl GroupInfo {
    fn write_copy(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(copy) = &self.copy else { return Ok(()) };
        let kind = if self.number == 0 { "Primary" } else { "Backup" };
        let pieces = [
            copy.superblock.map(|block| format!("{kind} superblock at {block}")),
            copy.descriptors.map(|range| format!("Group descriptors at {range}")),
            copy.meta_descriptors.map(|block| format!("Group descriptor at {block}")),
        ];
        let pieces: Vec<String> = pieces.into_iter().flatten().collect();
        writeln!(f, "  {}", pieces.join(", "))?;
        match copy.reserved_descriptors {
            Some(range) => writeln!(f, "  Reserved GDT blocks at {range}"),
            None => Ok(()),
        }
    }

    fn write_bitmap(
        &self,
        f: &mut Formatter<'_>,
        name: &str,
        place: BlockPlace,
        checksum: Option<StoredChecksum>,
    ) -> fmt::Result {
        write!(f, "  {name} at {}{}", place.block, Offset(self.number, place))?;
        checksum.map_or(Ok(()), |checksum| write!(f, ", {checksum}"))?;
        writeln!(f)
    }
}

/// Where a block is from the start of its group: which group is said unless it is this one.
struct Offset(u32, BlockPlace);

impl Display for Offset {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Offset(group, place) = self;
        match place.group {
            Some(home) if home == *group => write!(f, " (+{})", place.offset),
            Some(home) => write!(f, " (bg #{home} + {})", place.offset),
            None => Ok(()),
        }
    }
}
