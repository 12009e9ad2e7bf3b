//! The words by which a change is asked for: the letters of tune2fs with their values.
use super::{JournalWish, QuotaFile, Tuning, UuidWish, Wanted};
use extant_format::superblock::{ENCODING_UTF8, Feature, HashVersion, mount_option, on_error};
use std::fmt;

/// What is known of users and groups where a change is asked for.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// The number of a user.
    pub user: &'a dyn Fn(&str) -> Option<u32>,
    /// The number of a group.
    pub group: &'a dyn Fn(&str) -> Option<u32>,
}

impl Names<'_> {
    /// Numbers only.
    pub const NONE: Names<'static> = Names { user: &|_| None, group: &|_| None };
}

/// Why a word says nothing, in the words of tune2fs where it has some.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WordError {
    /// One line.
    pub message: String,
    /// Which help tune2fs prints after it.
    pub help: Help,
}

/// What tune2fs prints after a word that says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Help {
    /// How it is called.
    Usage,
    /// The words of -E.
    Extended,
    /// The words of -J.
    Journal,
    /// The words of -Q.
    Quota,
    /// Nothing.
    Nothing,
}

impl fmt::Display for WordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WordError {}

fn usage(message: String) -> WordError {
    WordError { message, help: Help::Usage }
}

fn plain(message: String) -> WordError {
    WordError { message, help: Help::Nothing }
}

/// A result, or why a word says nothing.
type Result<T> = std::result::Result<T, WordError>;

/// The letters that [`read`] knows, as getopt(3) writes them, and those of tune2fs that change
/// nothing by themselves: -f, -l and -z.
pub const LETTERS: &str = "c:e:fg:i:jlm:o:r:s:u:C:E:I:J:L:M:O:T:U:z:Q:";

/// What a letter of tune2fs with its value asks for. `now_seconds` is the time, since 1970.
///
/// # Errors
/// The value is none that the letter takes.
pub fn read(letter: char, value: &str, names: Names<'_>, now_seconds: u64) -> Result<Vec<Tuning>> {
    let bad = |what: &str| usage(format!("bad {what} - {value}"));
    let id = |text: &str, by_name: &dyn Fn(&str) -> Option<u32>| {
        let number = text.parse::<u32>().ok().or_else(|| by_name(text));
        number.and_then(|number| u16::try_from(number).ok())
    };
    Ok(vec![match letter {
        'c' if value == "random" => Tuning::RandomMaxMountCount,
        'c' => {
            let count: i32 = value.parse().map_err(|_| bad("mounts count"))?;
            let count = i16::try_from(count).ok().filter(|count| (-1..=16_000).contains(count));
            match count.ok_or_else(|| bad("mounts count"))? {
                0 => Tuning::MaxMountCount(-1),
                count => Tuning::MaxMountCount(count),
            }
        }
        'C' => Tuning::MountCount(
            value
                .parse::<u16>()
                .ok()
                .filter(|it| *it <= 16_000)
                .ok_or_else(|| bad("mounts count"))?,
        ),
        'e' => Tuning::OnError(match value {
            "continue" => on_error::CONTINUE,
            "remount-ro" => on_error::REMOUNT_READ_ONLY,
            "panic" => on_error::PANIC,
            _ => return Err(bad("error behavior")),
        }),
        'g' => Tuning::ReservedGroup(id(value, names.group).ok_or_else(|| bad("gid/group name"))?),
        'u' => Tuning::ReservedUser(id(value, names.user).ok_or_else(|| bad("uid/user name"))?),
        'i' => Tuning::CheckInterval(interval(value).ok_or_else(|| bad("interval"))?),
        'I' => Tuning::InodeSize(inode_size(value)?),
        'j' => Tuning::Journal(JournalWish::default()),
        'J' => return journal(value),
        'L' => Tuning::Label(value.as_bytes().to_vec()),
        'm' => {
            let percent = value.parse::<f64>().ok().filter(|it| (0.0..=50.0).contains(it));
            Tuning::ReservedPercent(percent.ok_or_else(|| bad("reserved block ratio"))?)
        }
        'M' => Tuning::LastMounted(value.as_bytes().to_vec()),
        'o' => return mount_options(value),
        'O' => return features(value),
        'E' => return extended(value),
        'Q' => return quota(value),
        'r' => Tuning::ReservedBlocks(value.parse().map_err(|_| bad("reserved blocks count"))?),
        's' => match value {
            "0" => Tuning::Feature(Feature::SPARSE_SUPER, Wanted::Cleared),
            _ => Tuning::Feature(Feature::SPARSE_SUPER, Wanted::Set),
        },
        'T' if value == "now" => Tuning::LastChecked(now_seconds),
        'T' => Tuning::LastChecked(
            time(value)
                .ok_or_else(|| usage(format!("Couldn't parse date/time specifier: {value}")))?,
        ),
        'U' => Tuning::Uuid(match value {
            "clear" | "null" => UuidWish::Clear,
            "random" => UuidWish::Random,
            "time" => UuidWish::ByTime,
            _ => UuidWish::Given(uuid(value).ok_or_else(|| plain("Invalid UUID format".into()))?),
        }),
        letter => return Err(usage(format!("invalid option -- '{letter}'"))),
    }])
}

/// What words of tune2fs ask for, letters and values apart: `["-L", "root", "-j"]`.
///
/// # Errors
/// As [`read`]; a word that is no letter, a letter without its value, nothing.
pub fn read_all(words: &[&str], names: Names<'_>, now_seconds: u64) -> Result<Vec<Tuning>> {
    let mut asked = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
        let (Some(letter), None) = (letters.next(), letters.next()) else {
            return Err(plain(format!("{word}: is no letter of tune2fs")));
        };
        let value = match letter {
            'j' => "",
            _ => words.next().ok_or_else(|| plain(format!("{word}: has no value")))?,
        };
        asked.extend(read(letter, value, names, now_seconds)?);
    }
    match asked.is_empty() {
        true => Err(plain("nothing is asked for".into())),
        false => Ok(asked),
    }
}

fn inode_size(value: &str) -> Result<u16> {
    let size = value.parse::<u16>().ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| usage(format!("bad inode size - {value}")))?;
    match size.is_power_of_two() {
        true => Ok(size),
        false => Err(usage(format!("Inode size must be a power of two- {value}"))),
    }
}

/// Seconds of an interval: days where there is no unit; s, h, d, w or m.
fn interval(value: &str) -> Option<u32> {
    const DAY: u32 = 24 * 60 * 60;
    let end = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let seconds = match unit {
        "s" => 1,
        "" | "d" | "D" => DAY,
        "w" | "W" => 7 * DAY,
        "m" | "M" => 30 * DAY,
        _ => return None,
    };
    number.parse::<u32>().ok()?.checked_mul(seconds)
}

/// Seconds since 1970 of YYYYMMDD[HH[MM[SS]]], in UTC.
fn time(value: &str) -> Option<u64> {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || ![8, 10, 12, 14].contains(&value.len()) {
        return None;
    }
    let at = |from: usize, to: usize| match value.get(from..to) {
        Some(text) => text.parse::<u32>().ok(),
        None => Some(0),
    };
    let (month, day) = (at(4, 6)?, at(6, 8)?);
    let (hour, minute, second) = (at(8, 10)?, at(10, 12)?, at(12, 14)?);
    let is_time = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_time || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days_before(at(0, 4)?, month).checked_add(u64::from(day) - 1)?;
    let days = days.checked_sub(days_before(1970, 1))?;
    Some(days * 86_400 + u64::from(hour * 3600 + minute * 60 + second))
}

/// Days from the first day of year 0 to the first day of a month of the Gregorian calendar.
fn days_before(year: u32, month: u32) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let within = BEFORE.get(month.saturating_sub(1) as usize).copied().unwrap_or(0);
    let leaps = match year {
        0 => 0,
        year => {
            u64::from((year - 1) / 4) - u64::from((year - 1) / 100)
                + u64::from((year - 1) / 400)
                + 1
        }
    };
    u64::from(year) * 365 + leaps + within + u64::from(is_leap && month > 2)
}

/// The bytes of a UUID in its usual form.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut lengths = [8, 4, 4, 4, 12].into_iter();
    let is_shaped = text.split('-').count() == 5
        && text.split('-').all(|part| Some(part.len()) == lengths.next());
    let digits = text.replace('-', "");
    if !is_shaped || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

/// Words between commas, each with whether it is to be set.
fn signed(value: &str) -> impl Iterator<Item = (&str, Wanted)> {
    value.split([',', ' ']).filter(|word| !word.is_empty()).map(|word| {
        match word.strip_prefix(['^', '-']) {
            Some(word) => (word, Wanted::Cleared),
            None => (word.strip_prefix('+').unwrap_or(word), Wanted::Set),
        }
    })
}

fn features(value: &str) -> Result<Vec<Tuning>> {
    let wrong = || plain(format!("Invalid filesystem option set: {value}"));
    signed(value)
        .map(|(name, wanted)| {
            let feature = Feature::from_name(name).ok_or_else(wrong)?;
            Ok(Tuning::Feature(feature, wanted))
        })
        .collect()
}

/// The mount options that a superblock has a bit for.
pub(super) const MOUNT_OPTIONS: [(&str, u32); 13] = [
    ("debug", mount_option::DEBUG),
    ("bsdgroups", mount_option::BSD_GROUPS),
    ("user_xattr", mount_option::USER_XATTR),
    ("acl", mount_option::ACL),
    ("uid16", mount_option::UID16),
    ("journal_data", mount_option::JOURNAL_DATA),
    ("journal_data_ordered", mount_option::JOURNAL_ORDERED),
    ("journal_data_writeback", mount_option::JOURNAL_WRITEBACK),
    ("nobarrier", mount_option::NO_BARRIER),
    ("block_validity", mount_option::BLOCK_VALIDITY),
    ("discard", mount_option::DISCARD),
    ("nodelalloc", mount_option::NO_DELALLOC),
    ("nodealloc", mount_option::NO_DELALLOC),
];

fn mount_options(value: &str) -> Result<Vec<Tuning>> {
    let wrong = || plain(format!("Invalid mount option set: {value}"));
    signed(value)
        .map(|(name, wanted)| {
            let found = MOUNT_OPTIONS.iter().find(|(known, _)| *known == name);
            let (_, bits) = found.ok_or_else(wrong)?;
            Ok(Tuning::MountOption(*bits, wanted))
        })
        .collect()
}

fn quota(value: &str) -> Result<Vec<Tuning>> {
    let wrong = || WordError { message: "Bad quota options specified.".into(), help: Help::Quota };
    signed(value)
        .map(|(name, wanted)| {
            let kind = match name {
                "usr" | "usrquota" => QuotaFile::Users,
                "grp" | "grpquota" => QuotaFile::Groups,
                "prj" | "prjquota" => QuotaFile::Projects,
                _ => return Err(wrong()),
            };
            Ok(Tuning::Quota(kind, wanted))
        })
        .collect()
}

/// A number with a unit: bytes, K, M, G, T, or s for sectors.
fn bytes_of(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let log2 = match unit {
        "" => 0,
        "s" => 9,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << log2)
}

fn journal(value: &str) -> Result<Vec<Tuning>> {
    let wrong =
        || WordError { message: "Bad journal options specified.".into(), help: Help::Journal };
    let mut wish = JournalWish::default();
    for word in value.split(',').filter(|word| !word.is_empty()) {
        let (name, value) = word.split_once('=').ok_or_else(wrong)?;
        match name {
            "size" => {
                let megabytes: u64 = value.parse().map_err(|_| wrong())?;
                wish.bytes = Some(megabytes.checked_mul(1 << 20).ok_or_else(wrong)?);
            }
            "fast_commit_size" => {
                let kilobytes: u64 = value.parse().map_err(|_| wrong())?;
                wish.fast_commit_bytes = Some(kilobytes.checked_mul(1 << 10).ok_or_else(wrong)?);
            }
            "location" => {
                let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                let number = bytes_of(value).ok_or_else(wrong)?;
                match is_number {
                    true => wish.block = Some(number),
                    false => wish.byte = Some(number),
                }
            }
            "device" => {
                return Err(plain(
                    "-J device: a journal on another device is not attached to a volume that is \
                     there"
                        .into(),
                ));
            }
            _ => return Err(wrong()),
        }
    }
    Ok(vec![Tuning::Journal(wish)])
}

fn failed(message: String) -> WordError {
    WordError { message, help: Help::Extended }
}

fn extended(value: &str) -> Result<Vec<Tuning>> {
    let mut asked = Vec::new();
    let (mut encoding, mut flags) = (None, None);
    for word in value.split(',').filter(|word| !word.is_empty()) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        match (name, value) {
            ("encoding", None | Some("utf8" | "utf8-12.1")) => encoding = Some(ENCODING_UTF8),
            ("encoding", Some(value)) => {
                return Err(failed(format!("Invalid encoding: {value}")));
            }
            ("encoding_flags", Some(value)) => flags = Some(encoding_flags(value)?),
            ("mount_opts", Some(value)) => {
                if value.len() > 63 {
                    return Err(failed("Extended mount options too long".into()));
                }
                asked.push(Tuning::MountOptions(value.as_bytes().to_vec()));
            }
            _ => asked.push(extended_word(name, value)?),
        }
    }
    match (encoding, flags) {
        (Some(encoding), flags) => asked.push(Tuning::Encoding(encoding, flags.unwrap_or(0))),
        (None, Some(_)) => {
            return Err(failed(
                "error: An encoding must be explicitly specified when passing encoding-flags"
                    .into(),
            ));
        }
        (None, None) => {}
    }
    Ok(asked)
}

fn encoding_flags(value: &str) -> Result<u16> {
    let mut bits = 0;
    for (flag, wanted) in signed(value) {
        match (flag, wanted) {
            ("strict", Wanted::Set) => bits |= 1,
            ("strict", Wanted::Cleared) => bits &= !1,
            _ => return Err(failed(format!("error: Invalid encoding flag: {flag}"))),
        }
    }
    Ok(bits)
}

/// A word of -E by itself.
fn extended_word(name: &str, value: Option<&str>) -> Result<Tuning> {
    let wrong = |what: &str| failed(format!("Invalid {what}: {}", value.unwrap_or_default()));
    let number = |what: &str| {
        let number = value.and_then(|value| value.parse::<u32>().ok());
        number.ok_or_else(|| wrong(what))
    };
    Ok(match (name, value) {
        ("clear_mmp", None) => Tuning::ClearMountBlock,
        ("force_fsck", None) => Tuning::ForceCheck,
        ("test_fs", None) => Tuning::TestFlag(Wanted::Set),
        ("^test_fs", None) => Tuning::TestFlag(Wanted::Cleared),
        ("mmp_update_interval", _) => {
            let seconds = number("mmp_update_interval")?;
            if seconds > 300 {
                return Err(failed(format!("mmp_update_interval too big: {seconds}")));
            }
            Tuning::MountInterval(u16::try_from(seconds).unwrap_or(0))
        }
        ("stride", _) => {
            let blocks = number("RAID stride")?;
            Tuning::Stride(u16::try_from(blocks).map_err(|_| wrong("RAID stride"))?)
        }
        ("stripe_width" | "stripe-width", _) => Tuning::StripeWidth(number("RAID stripe-width")?),
        ("hash_alg", _) => Tuning::Hash(match value.unwrap_or_default() {
            "legacy" => HashVersion::Legacy,
            "half_md4" => HashVersion::HalfMd4,
            "tea" => HashVersion::Tea,
            _ => return Err(wrong("hash algorithm")),
        }),
        ("orphan_file_size", Some(value)) => {
            let bytes = bytes_of(value).filter(|bytes| *bytes > 0);
            Tuning::OrphanFileSize(bytes.ok_or_else(|| wrong("size of orphan file"))?)
        }
        _ => return Err(failed(String::new())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(letter: char, value: &str) -> Result<Vec<Tuning>> {
        read(letter, value, Names { user: &|name| (name == "www").then_some(33), ..Names::NONE }, 5)
    }

    #[test]
    fn words_ask_for_what_tune2fs_reads_in_them() {
        let one = |letter, value: &str| asked(letter, value).unwrap().remove(0);
        assert_eq!(one('i', "2w"), Tuning::CheckInterval(1_209_600));
        assert_eq!(one('i', "5"), Tuning::CheckInterval(432_000));
        assert_eq!(one('c', "0"), Tuning::MaxMountCount(-1));
        assert_eq!(one('u', "www"), Tuning::ReservedUser(33));
        assert_eq!(one('T', "now"), Tuning::LastChecked(5));
        assert_eq!(one('T', "202001011230"), Tuning::LastChecked(1_577_881_800));
        assert_eq!(one('T', "19700102"), Tuning::LastChecked(86_400));
        assert_eq!(
            asked('O', "^has_journal,+encrypt,-dir_index").unwrap(),
            [
                Tuning::Feature(Feature::HAS_JOURNAL, Wanted::Cleared),
                Tuning::Feature(Feature::ENCRYPT, Wanted::Set),
                Tuning::Feature(Feature::DIR_INDEX, Wanted::Cleared),
            ]
        );
        assert_eq!(
            asked('J', "size=8,location=5M,fast_commit_size=256").unwrap(),
            [Tuning::Journal(JournalWish {
                bytes: Some(8 << 20),
                fast_commit_bytes: Some(256 << 10),
                block: None,
                byte: Some(5 << 20),
            })]
        );
        assert_eq!(
            asked('E', "encoding=utf8,encoding_flags=strict").unwrap(),
            [Tuning::Encoding(1, 1)]
        );
    }

    #[test]
    fn lines_are_read_word_by_word() {
        let read = |words: &[&str]| read_all(words, Names::NONE, 5).map(|asked| asked.len());
        assert_eq!(read(&["-L", "x", "-j", "-O", "quota,^mmp"]), Ok(4));
        for words in [&[][..], &["-L"], &["L", "x"], &["-Lx"], &["-j", "x"], &["-x", "y"]] {
            assert!(read(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn what_says_nothing_is_refused() {
        for (letter, value) in [
            ('c', "x"),
            ('c', "-2"),
            ('C', "-1"),
            ('e', "ignore"),
            ('g', "nobody"),
            ('i', "3x"),
            ('i', "99999999999"),
            ('I', "100"),
            ('I', "0"),
            ('J', "size"),
            ('J', "size=x"),
            ('J', "device=/dev/null"),
            ('m', "51"),
            ('m', "-1"),
            ('m', "nan"),
            ('o', "sync"),
            ('O', "nonsense"),
            ('r', "-1"),
            ('T', "2020"),
            ('T', "20201301"),
            ('U', "bad"),
            ('E', "stride=x"),
            ('E', "encoding_flags=strict"),
            ('E', "hash_alg=md5"),
            ('E', "mmp_update_interval=301"),
            ('Q', "users"),
            ('x', ""),
        ] {
            assert!(asked(letter, value).is_err(), "-{letter} {value}");
        }
    }
}
