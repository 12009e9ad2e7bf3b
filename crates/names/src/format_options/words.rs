//! The words of each format option by itself: what clap calls while it parses. Each says in one
//! line what it expects.
use super::{random_uuid, shaped};
use crate::features::{FEATURES, reason};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use extant_engine::allocation::Metacluster;
use extant_engine::mkfs::Profile;
use extant_format::superblock::Feature;
use extant_host::error::Error;
use extant_host::size::Size;
use std::ops::RangeInclusive;

/// -T: a row of mke2fs's table, as Debian ships it. `None`: the row does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsageType {
    name: &'static str,
    block_size: Option<u32>,
    inode_size: Option<u16>,
    bytes_per_inode: Option<u64>,
}

/// What one or more usage types say together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of an inode.
    pub inode_size: u16,
    /// Volume for each inode.
    pub bytes_per_inode: u64,
}

const fn usage_row(
    name: &'static str,
    block_size: Option<u32>,
    bytes_per_inode: Option<u64>,
) -> UsageType {
    UsageType { name, block_size, inode_size: None, bytes_per_inode }
}

const USAGES: [UsageType; 9] = [
    usage_row("default", None, None),
    usage_row("floppy", Some(1024), Some(8192)),
    usage_row("small", Some(1024), Some(4096)),
    usage_row("big", None, Some(32768)),
    usage_row("huge", None, Some(65536)),
    usage_row("news", None, Some(4096)),
    usage_row("largefile", Some(4096), Some(1 << 20)),
    usage_row("largefile4", Some(4096), Some(4 << 20)),
    UsageType { inode_size: Some(128), ..usage_row("hurd", Some(4096), None) },
];

impl UsageType {
    /// Several rows on top of mke2fs's defaults, later ones before earlier ones; `None` without
    /// any.
    pub fn joined(rows: &[UsageType]) -> Option<Usage> {
        let last = |of: fn(&UsageType) -> Option<u64>| rows.iter().rev().find_map(of);
        (!rows.is_empty()).then(|| Usage {
            block_size: rows.iter().rev().find_map(|row| row.block_size).unwrap_or(4096),
            inode_size: rows.iter().rev().find_map(|row| row.inode_size).unwrap_or(256),
            bytes_per_inode: last(|row| row.bytes_per_inode).unwrap_or(16384),
        })
    }
}

/// -L, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(pub [u8; 16]);

/// -m, 0 to 50.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReservedPercent(pub f64);

/// A word of -O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeatureWord {
    /// Begin with no feature at all.
    None,
    /// With this one.
    Add(Feature),
    /// Without this one.
    Remove(Feature),
}

/// -U, and -E hash_seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UuidWord {
    /// This one.
    Given([u8; 16]),
    /// All zero.
    Clear,
    /// Drawn from the host's randomness.
    Random,
    /// By the time, and the rest drawn.
    Time,
}

/// A word of -J.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalWord {
    /// Bytes of the journal.
    pub bytes: u64,
}

/// A word of -E.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extended {
    /// Seed of directory hashes.
    HashSeed(UuidWord),
    /// Where the volume begins, in bytes.
    Offset(u64),
    /// RAID: blocks of a chunk.
    Stride(u16),
    /// RAID: blocks of a stripe.
    StripeWidth(u32),
    /// How large the volume may grow.
    Resize(Size),
    /// Owner of the root directory: user and group.
    RootOwner(u32, u32),
    /// The root directory belongs to the user that runs the command.
    RootOwnerIsMe,
    /// Accepted, and nothing changes.
    WithoutEffect(&'static str),
}

/// -t.
pub(super) fn profile() -> impl TypedValueParser<Value = Profile> {
    let known = PossibleValuesParser::new(["ext2", "ext3", "ext4"]);
    known.try_map(|name| Profile::from_name(&name).ok_or("unknown"))
}

pub(super) fn usage_type(text: &str) -> Result<UsageType, String> {
    let known = || USAGES.map(|row| row.name).join(", ");
    let row = USAGES.iter().find(|row| row.name == text);
    row.copied().ok_or_else(|| format!("known are {}", known()))
}

fn power_of_two(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number: &u32| number.is_power_of_two());
    let number = number.filter(|number| range.contains(number));
    number.ok_or_else(|| {
        format!("it must be a power of two from {} to {}", range.start(), range.end())
    })
}

pub(super) fn block_size(text: &str) -> Result<u32, String> {
    power_of_two(text, 1024..=65536)
}

pub(super) fn inode_size(text: &str) -> Result<u16, String> {
    Ok(u16::try_from(power_of_two(text, 128..=1024)?).unwrap_or(256))
}

pub(super) fn flex_groups(text: &str) -> Result<u32, String> {
    power_of_two(text, 1..=1 << 31)
}

pub(super) fn cluster_size(text: &str) -> Result<u32, String> {
    let size = text.parse::<Size>().ok().and_then(|size| size.bytes(1));
    let size = size.and_then(|size| u32::try_from(size).ok()).filter(|size| size.is_power_of_two());
    let size = size.filter(|size| (1024..=1 << 29).contains(size));
    size.ok_or_else(|| "it must be a power of two from 1024 to 536870912 (512M)".to_owned())
}

pub(super) fn blocks_per_group(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number: &u32| number.is_multiple_of(8));
    let number = number.filter(|number| (256..=65528).contains(number));
    number.ok_or_else(|| "it must be a multiple of 8 from 256 to 65528".to_owned())
}

pub(super) fn bytes_per_inode(text: &str) -> Result<u64, String> {
    let bytes = text.parse::<Size>().ok().and_then(|size| size.bytes(1));
    let bytes = bytes.filter(|bytes| (1024..=64 << 20).contains(bytes));
    bytes.ok_or_else(|| "it must be 1024 to 67108864 (64M)".to_owned())
}

pub(super) fn label(text: &str) -> Result<Label, String> {
    let mut label = [0; 16];
    match label.get_mut(..text.len()) {
        Some(room) => room.copy_from_slice(text.as_bytes()),
        None => return Err(format!("it has {} bytes, and at most 16 fit", text.len())),
    }
    Ok(Label(label))
}

pub(super) fn reserved_percent(text: &str) -> Result<ReservedPercent, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=50.0).contains(percent));
    let percent = percent.ok_or("it must be a percentage from 0 to 50")?;
    Ok(ReservedPercent(percent))
}

pub(super) fn uuid(text: &str) -> Result<UuidWord, String> {
    match text {
        "clear" | "null" => Ok(UuidWord::Clear),
        "random" => Ok(UuidWord::Random),
        "time" => Ok(UuidWord::Time),
        _ => uuid_bytes(text).map(UuidWord::Given).ok_or_else(|| {
            "it must be a UUID (8-4-4-4-12 hexadecimal digits), random, time or clear".to_owned()
        }),
    }
}

pub(super) fn metacluster(text: &str) -> Result<Metacluster, String> {
    let wrong = "it must be begin, middle or end, perhaps with a size: a number of blocks, 1% to \
        50% or 1/2 to 1/4096 of \
                 the group, as in middle,1/64";
    text.parse().map_err(|_| wrong.to_owned())
}

/// Sixteen bytes of a UUID; `None` for a text that is none.
pub(crate) fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let mut lengths = [8, 4, 4, 4, 12].into_iter();
    let shaped = text.split('-').count() == 5
        && text.split('-').all(|part| Some(part.len()) == lengths.next());
    let digits = text.replace('-', "");
    if !shaped || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

impl UuidWord {
    /// The bytes, drawn if need be.
    ///
    /// # Errors
    /// The host's, when it has no randomness.
    pub fn draw(self) -> Result<[u8; 16], Error> {
        match self {
            UuidWord::Given(bytes) => Ok(bytes),
            UuidWord::Clear => Ok([0; 16]),
            UuidWord::Random => random_uuid(),
            UuidWord::Time => Ok(by_time(random_uuid()?, now_ns())),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a UUID by time is made of the host's clock")]
fn now_ns() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos())
}

/// Version 1: steps of 100 ns since 15 October 1582; clock sequence and node stay random, the node
/// marked as such.
fn by_time(mut bytes: [u8; 16], since_1970_ns: u128) -> [u8; 16] {
    const FROM_1582_TO_1970: u64 = 0x01b2_1dd2_1381_4000;
    let steps = u64::try_from(since_1970_ns / 100).unwrap_or(u64::MAX);
    let [h0, h1, m0, m1, l0, l1, l2, l3] = steps.wrapping_add(FROM_1582_TO_1970).to_be_bytes();
    bytes[..8].copy_from_slice(&[l0, l1, l2, l3, m0, m1, h0, h1]);
    bytes[10] |= 1;
    shaped(bytes, 1)
}

pub(super) fn feature(text: &str) -> Result<FeatureWord, String> {
    if text == "none" {
        return Ok(FeatureWord::None);
    }
    let removed = text.strip_prefix('^');
    let name = removed.unwrap_or(text);
    let feature = Feature::from_name(name).ok_or_else(|| {
        let is_made = |name: &&&str| Feature::from_name(name).is_some_and(Feature::is_made);
        let known: Vec<&str> = FEATURES.iter().filter(is_made).copied().collect();
        format!("there is no such feature; known are {}", known.join(", "))
    })?;
    let of_use = matches!(feature, Feature::NEEDS_RECOVERY | Feature::ORPHAN_PRESENT);
    match removed {
        Some(_) => Ok(FeatureWord::Remove(feature)),
        None if of_use => {
            Err("this feature marks a volume in use; a new one never has it".to_owned())
        }
        None if !feature.is_made() => Err(format!("this feature is not made: {}", reason(feature))),
        None => Ok(FeatureWord::Add(feature)),
    }
}

pub(super) fn journal(text: &str) -> Result<JournalWord, String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    match name {
        "size" => {
            let bytes = value.parse::<Size>().ok().and_then(|size| size.bytes(1 << 20));
            let bytes = bytes.filter(|bytes| *bytes > 0);
            let bytes = bytes.ok_or("size= wants megabytes, or a size such as 4096K")?;
            Ok(JournalWord { bytes })
        }
        "device" | "location" | "fast_commit_size" => {
            Err(format!("{name}= is not supported; known is size=MEGABYTES"))
        }
        _ => Err("known is size=MEGABYTES".to_owned()),
    }
}

const EXTENDED: &str = "known are hash_seed=, offset=, stride=, stripe_width=, resize=, \
    root_owner=, and without effect lazy_itable_init, \
     lazy_journal_init, discard, nodiscard, assume_storage_prezeroed";
/// What mke2fs knows and we do not do.
const NOT_SUPPORTED: [&str; 10] = [
    "packed_meta_blocks",
    "num_backup_sb",
    "mmp_update_interval",
    "quotatype",
    "encoding",
    "encoding_flags",
    "test_fs",
    "desc_size",
    "journal_location",
    "root_perms",
];
const WITHOUT_EFFECT: [&str; 6] = [
    "lazy_itable_init",
    "lazy_journal_init",
    "discard",
    "nodiscard",
    "assume_storage_prezeroed",
    "no_copy_xattrs",
];

pub(super) fn extended(text: &str) -> Result<Extended, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let number = |what: &str| value.ok_or_else(|| format!("{name}= wants {what}"));
    let wrong = |what: &str| format!("{name}= wants {what}");
    match name {
        "hash_seed" => uuid(number("a UUID")?).map(Extended::HashSeed),
        "offset" => {
            let bytes = number("bytes")?.parse::<Size>().ok().and_then(|size| size.bytes(1));
            bytes.map(Extended::Offset).ok_or_else(|| wrong("bytes"))
        }
        "stride" => {
            let blocks = number("blocks")?.parse();
            blocks.map(Extended::Stride).map_err(|_| wrong("blocks, at most 65535"))
        }
        "stripe_width" | "stripe-width" => {
            let blocks = number("blocks")?.parse();
            blocks.map(Extended::StripeWidth).map_err(|_| wrong("blocks"))
        }
        "resize" => {
            let size = number("blocks")?.parse();
            size.map(Extended::Resize).map_err(|_| wrong("blocks, or a size"))
        }
        "root_owner" => root_owner(value).ok_or_else(|| wrong("UID:GID in numbers")),
        _ if NOT_SUPPORTED.contains(&name) => Err(format!("{name} is not supported; {EXTENDED}")),
        _ => {
            let known = WITHOUT_EFFECT.iter().find(|known| **known == name);
            known.map(|name| Extended::WithoutEffect(name)).ok_or_else(|| EXTENDED.to_owned())
        }
    }
}

fn root_owner(value: Option<&str>) -> Option<Extended> {
    let Some(value) = value else {
        return Some(Extended::RootOwnerIsMe);
    };
    let (user, group) = value.split_once(':')?;
    Some(Extended::RootOwner(user.parse().ok()?, group.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_read_whole_or_not() {
        let text = "00112233-4455-6677-8899-aabbccddeeff";
        let UuidWord::Given(bytes) = uuid(text).unwrap() else { panic!("{text}") };
        assert_eq!(bytes, std::array::from_fn(|at| at as u8 * 0x11));
        for wrong in [
            "",
            "0011",
            "00112233445566778899aabbccddeeff",
            "00112233-4455-6677-8899-aabbccddeefg",
            "----",
        ] {
            assert!(uuid(wrong).is_err(), "{wrong}");
        }
        assert!(uuid("+0112233-4455-6677-8899-aabbccddeeff").is_err());
        // 1 January 2000, 00:00.
        let by_time = by_time([0; 16], 946_684_800_000_000_000);
        assert_eq!(by_time[..8], [0x63, 0xb0, 0x00, 0x00, 0xbf, 0xde, 0x11, 0xd3]);
    }

    #[test]
    fn features_are_added_taken_away_and_refused_by_name() {
        assert_eq!(feature("^has_journal"), Ok(FeatureWord::Remove(Feature::HAS_JOURNAL)));
        assert_eq!(feature("extents"), feature("extent"));
        assert_eq!(feature("none"), Ok(FeatureWord::None));
        for wrong in ["shared_blocks", "needs_recovery", "nonsense", "", "^nonsense"] {
            assert!(feature(wrong).is_err(), "{wrong}");
        }
        assert!(feature("read-only").unwrap_err().contains("that is finished"));
        let said = feature("nonsense").unwrap_err();
        assert!(said.contains("64bit, bigalloc") && said.contains("verity"), "{said}");
        assert!(!said.contains("needs_recovery") && !said.contains("imagic"), "{said}");
    }

    #[test]
    fn usage_types_add_up_as_in_mke2fs() {
        let joined = |names: &[&str]| {
            let rows: Vec<_> = names.iter().map(|name| usage_type(name).unwrap()).collect();
            UsageType::joined(&rows)
                .map(|usage| (usage.block_size, usage.inode_size, usage.bytes_per_inode))
        };
        assert_eq!(joined(&[]), None);
        assert_eq!(joined(&["small", "largefile4"]), Some((4096, 256, 4 << 20)));
        assert_eq!(joined(&["hurd"]), Some((4096, 128, 16384)));
        assert_eq!(joined(&["small", "news"]), Some((1024, 256, 4096)));
    }

    #[test]
    fn extended_options_are_known_or_refused_by_name() {
        assert_eq!(extended("offset=1M"), Ok(Extended::Offset(1 << 20)));
        assert_eq!(extended("root_owner=70000:5"), Ok(Extended::RootOwner(70000, 5)));
        assert_eq!(extended("lazy_itable_init=1"), Ok(Extended::WithoutEffect("lazy_itable_init")));
        for (wrong, word) in [
            ("packed_meta_blocks=1", "not supported"),
            ("stride=70000", "65535"),
            ("offset", "bytes"),
            ("root_owner=a:b", "UID:GID"),
            ("nonsense", "known are"),
        ] {
            assert!(extended(wrong).unwrap_err().contains(word), "{wrong}");
        }
    }
}
