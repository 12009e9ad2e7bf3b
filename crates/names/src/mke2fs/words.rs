//! The options of mke2fs, each by itself.
use crate::format_options::FeatureWord;
use crate::getopt::{self, Words};
use extant_format::superblock::Feature;
use extant_image::source::Holes;
use std::ffi::OsString;
use std::path::PathBuf;

/// The letters, as getopt takes them.
pub const LETTERS: &str = "b:ce:g:i:jl:m:no:qr:s:t:d:vC:DE:FG:I:J:KL:M:N:O:R:ST:U:Vz:";

/// What the words ask for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// -b: bytes of a block; negative for the least that is taken.
    pub block_size: Option<i64>,
    /// -C: bytes of a cluster.
    pub cluster_size: Option<u64>,
    /// -e: continue, remount-ro or panic, as the superblock has it.
    pub errors: Option<u16>,
    /// -g: blocks of a group.
    pub blocks_per_group: Option<u64>,
    /// -G: groups of a flex group.
    pub flex_groups: Option<u32>,
    /// -i: bytes for each inode.
    pub inode_ratio: Option<u64>,
    /// -I: bytes of an inode.
    pub inode_size: Option<u16>,
    /// -N: inodes.
    pub inodes: Option<u64>,
    /// -j: a journal.
    pub journal: bool,
    /// -J: what it is like.
    pub journal_words: Option<String>,
    /// -L: the label.
    pub label: Option<Vec<u8>>,
    /// -l: a list of bad blocks.
    pub bad_blocks: Option<PathBuf>,
    /// -c, how many times: blocks that cannot be read are kept from use; twice: nor written.
    pub test: u32,
    /// -S: superblocks and descriptors alone.
    pub super_only: bool,
    /// -m: the share kept for root, in percent.
    pub reserved_percent: Option<f64>,
    /// -M: where it was mounted last.
    pub last_mounted: Option<Vec<u8>>,
    /// -n: only say what would be made.
    pub dry_run: bool,
    /// -o: the system that made it.
    pub creator: Option<String>,
    /// -O, each time it was given.
    pub features: Vec<String>,
    /// -q.
    pub quiet: bool,
    /// -r: the revision.
    pub revision: Option<u32>,
    /// -t.
    pub file_system: Option<String>,
    /// -T.
    pub usage: Option<String>,
    /// -U.
    pub uuid: Option<String>,
    /// -v.
    pub verbose: bool,
    /// -V.
    pub version: bool,
    /// -D: direct I/O.
    pub direct: bool,
    /// -F, how many times.
    pub force: u32,
    /// -K: nothing is discarded.
    pub keep: bool,
    /// -E or -R, the last one.
    pub extended: Option<String>,
    /// -d: what it is filled with.
    pub source: Option<OsString>,
    /// -z: where what was there is kept.
    pub undo: Option<PathBuf>,
    /// The device or file.
    pub device: Option<PathBuf>,
    /// Its size.
    pub size: Option<String>,
}

/// Why words are refused, and how the refusal goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The usage is shown as well.
    Usage(String),
    /// One line.
    Line(String),
}

fn line<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Line(text.into()))
}

impl Request {
    /// Reads the words after the program's name.
    ///
    /// # Errors
    /// What mke2fs would say of the first word that it does not take.
    pub fn read(words: &[OsString]) -> Result<Request, Refusal> {
        let read = getopt::read(words, LETTERS).map_err(|error| Refusal::Usage(error.0))?;
        let mut request = Request::default();
        let Words { options, operands } = read;
        for (letter, value) in options {
            let text = getopt::text(&value);
            request.take(letter, &text, value)?;
        }
        let mut operands = operands.into_iter();
        request.device = operands.next().map(PathBuf::from);
        request.size = operands.next().map(|size| getopt::text(&size));
        match operands.next() {
            Some(_) => Err(Refusal::Usage("more than one size is given".to_owned())),
            None if request.device.is_none() && !request.version => {
                Err(Refusal::Usage(String::new()))
            }
            None => Ok(request),
        }
    }

    fn take(&mut self, letter: char, text: &str, value: OsString) -> Result<(), Refusal> {
        use std::os::unix::ffi::OsStringExt;
        match letter {
            'b' => self.block_size = Some(block_size(text)?),
            'C' => {
                let size = bytes(text).filter(|size| (1024..=1 << 29).contains(size));
                match size.filter(|size| size.is_power_of_two()) {
                    Some(size) => self.cluster_size = Some(size),
                    None => return line(format!("invalid cluster size - {text}")),
                }
            }
            'e' => {
                self.errors = Some(match text {
                    "continue" => 1,
                    "remount-ro" => 2,
                    "panic" => 3,
                    _ => return line(format!("bad error behavior - {text}")),
                });
            }
            'g' => match text.parse().ok().filter(|blocks: &u64| blocks.is_multiple_of(8)) {
                Some(blocks) => self.blocks_per_group = Some(blocks),
                None if text.parse::<u64>().is_ok() => {
                    return line("blocks per group must be multiple of 8");
                }
                None => return line("Illegal number for blocks per group"),
            },
            'G' => match text.parse().ok().filter(|groups: &u32| groups.is_power_of_two()) {
                Some(groups) => self.flex_groups = Some(groups),
                None if text.parse::<u32>().is_ok_and(|groups| groups > 0) => {
                    return line("flex_bg size must be a power of 2");
                }
                None => return line("Illegal number for flex_bg size"),
            },
            'i' => {
                let ratio = bytes(text).filter(|ratio| (1024..=64 << 20).contains(ratio));
                match ratio {
                    Some(ratio) => self.inode_ratio = Some(ratio),
                    None => {
                        let range = "(min 1024/max 67108864)";
                        return line(format!("invalid inode ratio {text} {range}"));
                    }
                }
            }
            'I' => match text.parse() {
                Ok(size) if size > 0 => self.inode_size = Some(size),
                _ => return line(format!("invalid inode size - {text}")),
            },
            'N' => match text.parse() {
                Ok(count) => self.inodes = Some(count),
                Err(_) => return line(format!("bad num inodes - {text}")),
            },
            'j' => self.journal = true,
            'J' => self.journal_words = Some(text.to_owned()),
            'L' => self.label = Some(value.into_vec()),
            'l' => self.bad_blocks = Some(PathBuf::from(value)),
            'm' => match text.parse().ok().filter(|percent| (0.0..=50.0).contains(percent)) {
                Some(percent) => self.reserved_percent = Some(percent),
                None => return line(format!("invalid reserved blocks percent - {text}")),
            },
            'M' => self.last_mounted = Some(value.into_vec()),
            'o' => self.creator = Some(text.to_owned()),
            'O' => self.features.push(text.to_owned()),
            'r' => match text.parse() {
                Ok(revision) => self.revision = Some(revision),
                Err(_) => return line(format!("bad revision level - {text}")),
            },
            _ => return self.take_more(letter, text, value),
        }
        Ok(())
    }

    fn take_more(&mut self, letter: char, text: &str, value: OsString) -> Result<(), Refusal> {
        match letter {
            'n' => self.dry_run = true,
            'q' => self.quiet = true,
            'v' => self.verbose = true,
            'V' => self.version = true,
            'D' => self.direct = true,
            'F' => self.force += 1,
            'K' => self.keep = true,
            'E' | 'R' => self.extended = Some(text.to_owned()),
            'd' => self.source = Some(value),
            'z' => self.undo = Some(PathBuf::from(value)),
            't' => self.file_system = Some(text.to_owned()),
            'T' => self.usage = Some(text.to_owned()),
            'U' => self.uuid = Some(text.to_owned()),
            's' => match text {
                "0" => self.features.push("^sparse_super".to_owned()),
                _ => self.features.push("sparse_super".to_owned()),
            },
            'c' => self.test += 1,
            _ => self.super_only = true,
        }
        Ok(())
    }
}

fn block_size(text: &str) -> Result<i64, Refusal> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let size = bytes(digits).and_then(|size| i64::try_from(size).ok());
    match size.filter(|size| (1024..=65536).contains(size) && size.count_ones() == 1) {
        Some(size) => Ok(sign * size),
        None => line(format!("invalid block size - {text}")),
    }
}

/// A number with K, M, G or T after it, powers of 1024; or s, sectors.
pub fn bytes(text: &str) -> Option<u64> {
    scaled(text, 1)
}

/// The same, where a bare number counts units of `unit` bytes.
pub fn scaled(text: &str, unit: u64) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let unit = match suffix {
        "" => unit,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1 << 40,
        "s" | "S" => 512,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// The words of -O, or of a list in the configuration.
///
/// # Errors
/// A name that is no feature; one that no new volume has.
pub fn features(list: &str) -> Result<Vec<FeatureWord>, Refusal> {
    let words = list.split([',', ' ', '\t']).filter(|word| !word.is_empty());
    let read = words.map(|word| {
        if word == "none" {
            return Some(FeatureWord::None);
        }
        let removed = word.strip_prefix(['^', '-']);
        let name = removed.or_else(|| word.strip_prefix('+')).unwrap_or(word);
        let feature = Feature::from_name(&name.to_lowercase())?;
        let is_of_use = [Feature::NEEDS_RECOVERY, Feature::ORPHAN_PRESENT, Feature::SHARED_BLOCKS]
            .contains(&feature);
        match removed {
            Some(_) => Some(FeatureWord::Remove(feature)),
            None if is_of_use => None,
            None => Some(FeatureWord::Add(feature)),
        }
    });
    let read: Option<Vec<FeatureWord>> = read.collect();
    read.ok_or_else(|| Refusal::Line(format!("Invalid filesystem option set: {list}")))
}

/// What -E says.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // each field is the option of that name
pub struct Extended {
    pub hash_seed: Option<String>,
    pub stride: u16,
    pub stripe_width: u32,
    pub resize: Option<String>,
    pub offset: u64,
    pub lazy_itable_init: Option<bool>,
    pub lazy_journal_init: Option<bool>,
    pub packed_meta_blocks: bool,
    pub num_backup_sb: Option<u32>,
    pub desc_size: Option<u16>,
    pub orphan_file_size: Option<String>,
    pub android_sparse: bool,
    pub root_owner: Option<Option<(u32, u32)>>,
    pub root_perms: Option<u16>,
    pub root_selinux: Option<String>,
    pub no_copy_xattrs: bool,
    /// Which zeros of -d are holes, a word of our own; nothing was said: `AsSource`.
    pub sparse: Holes,
    pub discard: Option<bool>,
    pub prezeroed: bool,
    pub mmp_update_interval: Option<u16>,
    pub quotatype: Option<String>,
    pub test_fs: bool,
    pub encoding: Option<String>,
    pub encoding_flags: Option<String>,
}

impl Extended {
    /// Reads the words of -E.
    ///
    /// # Errors
    /// All words that are not known, in one line.
    pub fn read(list: &str) -> Result<Extended, Refusal> {
        let mut extended = Extended::default();
        let mut wrong = Vec::new();
        for word in list.split(',').filter(|word| !word.is_empty()) {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            if extended.take(name, value).is_none() {
                wrong.push(name.to_owned());
            }
        }
        match wrong.is_empty() {
            true => Ok(extended),
            false => Err(Refusal::Line(format!("Bad option(s) specified: {}", wrong.join(",")))),
        }
    }

    /// `None`: not known, or with a wrong value.
    fn take(&mut self, name: &str, value: Option<&str>) -> Option<()> {
        let switch = || match value {
            None => Some(true),
            Some(number) => number.parse::<u32>().ok().map(|number| number != 0),
        };
        let owned = || value.map(str::to_owned);
        match name {
            "hash_seed" => self.hash_seed = Some(owned()?),
            "stride" => self.stride = value?.parse().ok()?,
            "stripe_width" | "stripe-width" => self.stripe_width = value?.parse().ok()?,
            "resize" => self.resize = Some(owned()?),
            "offset" => self.offset = bytes(value?)?,
            "lazy_itable_init" => self.lazy_itable_init = Some(switch()?),
            "lazy_journal_init" => self.lazy_journal_init = Some(switch()?),
            "packed_meta_blocks" => self.packed_meta_blocks = switch()?,
            "num_backup_sb" => {
                self.num_backup_sb = Some(value?.parse().ok().filter(|count| *count <= 2)?);
            }
            "desc_size" | "desc-size" => self.desc_size = Some(value?.parse().ok()?),
            "orphan_file_size" => self.orphan_file_size = Some(owned()?),
            "android_sparse" => self.android_sparse = switch()?,
            "root_owner" => {
                self.root_owner = Some(match value {
                    None => None,
                    Some(value) => {
                        let (user, group) = value.split_once(':')?;
                        Some((user.parse().ok()?, group.parse().ok()?))
                    }
                });
            }
            "root_perms" => {
                let mode = u16::from_str_radix(value?, 8).ok();
                self.root_perms = Some(mode.filter(|mode| *mode <= 0o7777)?);
            }
            "root_selinux" => self.root_selinux = Some(owned()?),
            "no_copy_xattrs" => self.no_copy_xattrs = switch()?,
            "sparse" => {
                self.sparse = match value? {
                    "auto" => Holes::Auto,
                    "always" => Holes::Always,
                    "never" => Holes::Never,
                    _ => return None,
                }
            }
            "discard" => self.discard = Some(true),
            "nodiscard" => self.discard = Some(false),
            "assume_storage_prezeroed" => self.prezeroed = switch()?,
            "mmp_update_interval" => {
                let seconds = value?.parse().ok().filter(|seconds| *seconds <= 300);
                self.mmp_update_interval = Some(seconds?);
            }
            "quotatype" => self.quotatype = Some(owned()?),
            "test_fs" => self.test_fs = true,
            "encoding" => self.encoding = Some(owned()?),
            "encoding_flags" => self.encoding_flags = Some(owned()?),
            _ => return None,
        }
        Some(())
    }
}

/// What -J says.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // each field is the option of that name
pub struct JournalWords {
    pub size: Option<u64>,
    pub fast_commit_size: Option<u64>,
    pub location: Option<String>,
    pub device: Option<String>,
}

impl JournalWords {
    /// Reads the words of -J: sizes in MiB (fast commits: in KiB), or with a unit.
    ///
    /// # Errors
    /// What is not known.
    pub fn read(list: &str) -> Result<JournalWords, Refusal> {
        let mut journal = JournalWords::default();
        for word in list.split(',').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let known = match name {
                "size" => {
                    journal.size = scaled(value, 1 << 20).filter(|bytes| *bytes > 0);
                    journal.size.is_some()
                }
                "fast_commit_size" => {
                    journal.fast_commit_size = scaled(value, 1 << 10).filter(|bytes| *bytes > 0);
                    journal.fast_commit_size.is_some()
                }
                "location" => {
                    journal.location = Some(value.to_owned());
                    !value.is_empty()
                }
                "device" => {
                    journal.device = Some(value.to_owned());
                    !value.is_empty()
                }
                "v1_superblock" => true,
                _ => false,
            };
            if !known {
                return line(format!("Bad journal options specified: {word}"));
            }
        }
        match journal.size.is_some() && journal.device.is_some() {
            true => line("Bad journal options specified: size= and device= exclude each other"),
            false => Ok(journal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &str) -> Result<Request, Refusal> {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        Request::read(&words)
    }

    #[test]
    fn the_last_extended_options_hold_and_features_add_up() {
        let read = request("-E stride=4 -E stripe_width=8 -O quota -O ^mmp x.img 64M").unwrap();
        let extended = Extended::read(read.extended.as_deref().unwrap()).unwrap();
        assert_eq!((extended.stride, extended.stripe_width), (0, 8));
        assert_eq!(features(&read.features.join(",")).unwrap().len(), 2);
        assert_eq!(read.size.as_deref(), Some("64M"));
    }

    #[test]
    fn what_is_refused_is_named() {
        for (words, wanted) in [
            ("-b 3 x", "invalid block size - 3"),
            ("-g 257 x", "multiple of 8"),
            ("-G 3 x", "power of 2"),
            ("-m 51 x", "percent - 51"),
        ] {
            let Err(Refusal::Line(text)) = request(words) else { panic!("{words}") };
            assert!(text.contains(wanted), "{words}: {text}");
        }
        assert!(matches!(request(""), Err(Refusal::Usage(_))));
        assert!(matches!(request("a b c"), Err(Refusal::Usage(_))));
        let wrong = Extended::read("nonsense,stride=x,offset=1M").unwrap_err();
        assert_eq!(wrong, Refusal::Line("Bad option(s) specified: nonsense,stride".to_owned()));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(scaled("64M", 1024), Some(64 << 20));
        assert_eq!(scaled("131072s", 1024), Some(64 << 20));
        assert_eq!(scaled("5", 1024), Some(5120));
        assert_eq!(scaled("18446744073709551615K", 1), None);
        assert_eq!(scaled("x", 1), None);
    }
}
