//! A partition table around one volume, and around its hash tree if it has one.
//!
//! ```text
//! 0: MBR, GPT | 1 MiB: the volume | the next MiB: its hash tree | the last MiB: the GPT again
//! ```
//! Partitions begin at multiples of 1 MiB, as fdisk and parted have them. A GPT has room for 128
//! partitions. An MBR has no GUIDs and no names, and reaches 2 TiB.
use crate::Seed;
pub use crate::partitions::ALIGNMENT;
use gpt::disk::LogicalBlockSize;
use gpt::mbr::{PartRecord, ProtectiveMBR};
use gpt::partition::Partition;
use gpt::partition_types::{OperatingSystem, Type};
use gpt::{GptConfig, GptError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::str::FromStr;
use uuid::Uuid;

const SECTOR_BYTES: u64 = 512;
/// UTF-16 units of a name in a GPT.
const NAME_UNITS_MAX: usize = 36;

/// What is written around a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Table {
    /// A GUID partition table, with a protective MBR.
    Gpt {
        /// What the volume is for.
        kind: GptType,
        /// Its name; at most 36 units of UTF-16.
        name: String,
    },
    /// A table of four partitions, of which one is used.
    Mbr {
        /// What the volume is for: 0x83 is Linux.
        kind: u8,
        /// Whether a BIOS boots from it.
        boot: Boot,
    },
}

/// Whether a BIOS is to boot from a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boot {
    /// It is marked active.
    Active,
    /// It is not.
    No,
}

/// The type of a partition in a GPT, and of the one with its hash tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GptType {
    guid: [u8; 16],
    tree: Option<[u8; 16]>,
}

/// Words for types: those of systemd's Discoverable Partitions that hold volumes, with the type of
/// the hash tree beside those that have one.
const TYPES: &[(&str, &str, Option<&str>)] = &[
    ("linux", "0fc63daf-8483-4772-8e79-3d69d8477de4", None),
    (
        "root-x86-64",
        "4f68bce3-e8cd-4db1-96e7-fbcaf984b709",
        Some("2c7357ed-ebd2-46d9-aec1-23d437ec2bf5"),
    ),
    (
        "root-x86",
        "44479540-f297-41b2-9af7-d131d5f0458a",
        Some("d13c5d3b-b5d1-422a-b29f-9454fdc89d76"),
    ),
    (
        "root-arm64",
        "b921b045-1df0-41c3-af44-4c6f280d3fae",
        Some("df3300ce-d69f-4c92-978c-9bfb0f38d820"),
    ),
    (
        "root-arm",
        "69dad710-2ce4-4e3c-b16c-21a1d49abed3",
        Some("7386cdf2-203c-47a9-a498-f2ecce45a2d6"),
    ),
    (
        "root-riscv64",
        "72ec70a6-cf74-40e6-bd49-4bda08e8f224",
        Some("b6ed5582-440b-4209-b8da-5ff7c419ea3d"),
    ),
    (
        "usr-x86-64",
        "8484680c-9521-48c6-9c11-b0720656f69e",
        Some("77ff5f63-e7b6-4633-acf4-1565b864c0e6"),
    ),
    (
        "usr-arm64",
        "b0e01050-ee5f-4390-949a-9101b17104e9",
        Some("6e11a4e7-fbca-4ded-b9e9-e1a512bb664e"),
    ),
    ("home", "933ac7e1-2eb4-4f13-b844-0e14e2aef915", None),
    ("srv", "3b8f8425-20e0-4f3b-907f-1a25a76f98e8", None),
    ("var", "4d21b016-b534-45c2-a9fb-5c16e091fd2d", None),
    ("tmp", "7ec6f557-3bc5-4aca-b293-16ef5df639d1", None),
    ("xbootldr", "bc13c2ff-59e6-4262-a352-b275fd6f7172", None),
];

impl GptType {
    /// The types that have a word.
    pub fn words() -> impl Iterator<Item = &'static str> {
        TYPES.iter().map(|(word, ..)| *word)
    }
}

impl FromStr for GptType {
    type Err = String;

    /// Reads a word, or a GUID.
    fn from_str(text: &str) -> Result<GptType, String> {
        let guid = |text: &str| Uuid::parse_str(text).map(Uuid::into_bytes).ok();
        let named = TYPES.iter().find(|(word, ..)| *word == text);
        let of_word = named.and_then(|(_, of_volume, of_tree)| {
            Some(GptType { guid: guid(of_volume)?, tree: of_tree.and_then(guid) })
        });
        let other = || guid(text).map(|guid| GptType { guid, tree: None });
        of_word.or_else(other).ok_or_else(|| {
            let words: Vec<&str> = GptType::words().collect();
            format!("{text:?} is neither a GUID nor one of {}", words.join(", "))
        })
    }
}

/// Where everything is on the disk, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// The volume's partition.
    pub volume: Range<u64>,
    /// The partition of its hash tree.
    pub tree: Option<Range<u64>>,
    /// Where the disk ends.
    pub end: u64,
}

impl Table {
    /// Where a volume and a tree of so many bytes go.
    ///
    /// # Errors
    /// A disk that is larger than the table can tell: `FileTooLarge`.
    pub fn places(&self, volume_bytes: u64, tree_bytes: Option<u64>) -> io::Result<Places> {
        let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
        let part = |start: u64, bytes: u64| {
            let end = start.checked_add(bytes.checked_next_multiple_of(SECTOR_BYTES)?)?;
            Some(start..end)
        };
        let next = |end: u64| end.checked_next_multiple_of(ALIGNMENT);
        let volume = part(ALIGNMENT, volume_bytes).ok_or_else(too_large)?;
        let mut end = next(volume.end).ok_or_else(too_large)?;
        let mut tree = None;
        if let Some(bytes) = tree_bytes {
            let range = part(end, bytes).ok_or_else(too_large)?;
            end = next(range.end).ok_or_else(too_large)?;
            tree = Some(range);
        }
        let end = match self {
            Table::Gpt { .. } => end.checked_add(ALIGNMENT).ok_or_else(too_large)?,
            Table::Mbr { .. } if end / SECTOR_BYTES > u64::from(u32::MAX) => {
                return Err(too_large());
            }
            Table::Mbr { .. } => end,
        };
        Ok(Places { volume, tree, end })
    }

    /// Writes the table into a file that is as long as the disk. `root` is the root hash of the
    /// tree: systemd finds both partitions by it, as their GUIDs are its halves.
    ///
    /// # Errors
    /// The host's; a name that is too long, as `InvalidInput`.
    pub fn write(
        &self,
        file: &File,
        places: &Places,
        seed: Seed,
        root: Option<[u8; 32]>,
    ) -> io::Result<()> {
        match self {
            Table::Gpt { kind, name } => {
                if name.encode_utf16().count() > NAME_UNITS_MAX {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        format!("{name:?} is longer than the {NAME_UNITS_MAX} units of a name"),
                    ));
                }
                write_gpt(file, places, seed, root, *kind, name)
            }
            Table::Mbr { kind, boot } => write_mbr(file, places, seed, *kind, *boot),
        }
    }
}

/// Sectors of a partition, the last one included.
fn sectors(range: &Range<u64>) -> (u64, u64) {
    (range.start / SECTOR_BYTES, range.end / SECTOR_BYTES - 1)
}

fn write_gpt(
    file: &File,
    places: &Places,
    seed: Seed,
    root: Option<[u8; 32]>,
    kind: GptType,
    name: &str,
) -> io::Result<()> {
    let half = |from: usize, purpose| match root {
        Some(root) if places.tree.is_some() => {
            let mut half = [0; 16];
            half.copy_from_slice(&root[from..from + 16]);
            Uuid::from_bytes(half)
        }
        _ => Uuid::from_bytes(seed.uuid(purpose)),
    };
    let partition = |range: &Range<u64>, kind: [u8; 16], guid, name: String| {
        let (first_lba, last_lba) = sectors(range);
        let kind = Type { guid: Uuid::from_bytes(kind), os: OperatingSystem::None };
        Partition { part_type_guid: kind, part_guid: guid, first_lba, last_lba, flags: 0, name }
    };
    let mut partitions = BTreeMap::new();
    let volume = partition(&places.volume, kind.guid, half(0, "partition"), name.to_owned());
    partitions.insert(1, volume);
    if let Some(range) = &places.tree {
        let of_tree = kind.tree.unwrap_or(kind.guid);
        // Cut to the room that a name has.
        let head: String = name.chars().take((NAME_UNITS_MAX - "-verity".len()) / 2).collect();
        let name = format!("{head}-verity");
        partitions.insert(2, partition(range, of_tree, half(16, "tree partition"), name));
    }
    let protected = u32::try_from(places.end / SECTOR_BYTES - 1).unwrap_or(u32::MAX);
    let mut device = file;
    ProtectiveMBR::with_lb_size(protected).overwrite_lba0(&mut device).map_err(io::Error::other)?;
    let guid = Uuid::from_bytes(seed.uuid("disk"));
    let configuration = GptConfig::new().writable(true).logical_block_size(LogicalBlockSize::Lb512);
    let mut disk = configuration.create_from_device(device, Some(guid)).map_err(from_gpt)?;
    disk.update_partitions(partitions).map_err(from_gpt)?;
    disk.write().map_err(from_gpt)?;
    Ok(())
}

fn from_gpt(error: GptError) -> io::Error {
    match error {
        GptError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

fn write_mbr(file: &File, places: &Places, seed: Seed, kind: u8, boot: Boot) -> io::Result<()> {
    let record = |range: &Range<u64>, kind: u8, boot: Boot| {
        let (first, last) = sectors(range);
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        Ok::<_, io::Error>(PartRecord {
            boot_indicator: if boot == Boot::Active { 0x80 } else { 0 },
            // Beyond what cylinders, heads and sectors reach: only the sector numbers count.
            start_head: 0xfe,
            start_sector: 0xff,
            start_track: 0xff,
            os_type: kind,
            end_head: 0xfe,
            end_sector: 0xff,
            end_track: 0xff,
            lb_start: u32::try_from(first).map_err(too_large)?,
            lb_size: u32::try_from(last - first + 1).map_err(too_large)?,
        })
    };
    let mut table = ProtectiveMBR::new();
    let mut signature = [0; 4];
    signature.copy_from_slice(&seed.bytes("disk")[..4]);
    table.set_disk_signature(signature);
    let volume = record(&places.volume, kind, boot)?;
    let tree = match &places.tree {
        Some(range) => record(range, kind, Boot::No)?,
        None => PartRecord::zero(),
    };
    for (number, record) in [volume, tree].into_iter().enumerate() {
        let set = table.set_partition(number, record);
        set.ok_or_else(|| io::Error::other("an MBR has four partitions"))?;
    }
    let mut device = file;
    table.overwrite_lba0(&mut device).map_err(io::Error::other)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_begin_at_whole_mebibytes() {
        let table = Table::Mbr { kind: 0x83, boot: Boot::No };
        let places = table.places((1 << 20) + 1024, Some(4096)).unwrap();
        assert_eq!(places.volume, 1 << 20..(2 << 20) + 1024);
        assert_eq!(places.tree, Some(3 << 20..(3 << 20) + 4096));
        assert_eq!(places.end, 4 << 20);
        assert!(table.places(3 << 40, None).is_err(), "2 TiB is the end");
        assert!(table.places(u64::MAX - 5, None).is_err());
    }

    #[test]
    fn types_are_words_or_guids() {
        for word in GptType::words() {
            assert!(word.parse::<GptType>().is_ok(), "{word}");
        }
        let linux: GptType = "linux".parse().unwrap();
        assert_eq!("0FC63DAF-8483-4772-8E79-3D69D8477DE4".parse(), Ok(linux));
        assert!("windows".parse::<GptType>().unwrap_err().contains("root-x86-64"));
    }
}
