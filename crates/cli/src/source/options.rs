//! The words of the command line about sources, and what they mean.
use crate::error::Error;
use crate::tree::Layers;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::path::PathBuf;
use std::str::FromStr;

/// The options of every command that reads sources; flatten it into the command's own.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct SourceArguments {
    /// Leave out what matches: a pattern without "/" matches a name anywhere, one with "/" a path
    /// from the root.
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Everything belongs to this user and group (numbers).
    #[arg(long, value_name = "UID:GID", conflicts_with_all = ["map_users", "map_groups"])]
    pub owner: Option<Owner>,
    /// Shift users: FROM becomes TO, for COUNT users; others stay. Also in access lists.
    #[arg(long, value_name = "FROM:TO:COUNT")]
    pub map_users: Vec<IdMap>,
    /// Shift groups, likewise.
    #[arg(long, value_name = "FROM:TO:COUNT")]
    pub map_groups: Vec<IdMap>,
    /// Apply whiteouts: with "oci", .wh.NAME of any type removes NAME of the sources before,
    /// .wh..wh..opq empties its directory, and other .wh..wh.* are left out.
    #[arg(long, value_name = "FORM")]
    pub whiteouts: Option<WhiteoutForm>,
    /// Leave out files that cannot be read, name them, and exit with 1.
    #[arg(long)]
    pub keep_going: bool,
    /// Leave out what is mounted below a source directory: mount points become empty directories.
    #[arg(long)]
    pub one_file_system: bool,
    /// Keep access and change times where a source has them; else both are the modify time.
    #[arg(long)]
    pub keep_atime: bool,
    /// Refuse archives that do not end with two blocks of zeros, as one does that was cut off
    /// between two files, and those with anything but zeros after them. Otherwise a warning says
    /// so.
    #[arg(long)]
    pub strict_archive: bool,
}

/// How whiteouts are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum WhiteoutForm {
    /// As in layers of OCI images.
    Oci,
}

/// `--owner`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Of every file.
    pub uid: u32,
    /// Of every file.
    pub gid: u32,
}

/// `--map-users` and `--map-groups`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdMap {
    /// First id that is mapped.
    pub from: u32,
    /// What it becomes.
    pub to: u32,
    /// How many are mapped.
    pub count: u32,
}

/// What happens to a file that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trouble {
    /// It ends the command.
    #[default]
    Stop,
    /// It is left out and named (`--keep-going`).
    Skip,
}

/// Whether what is mounted below a source directory is part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mounts {
    /// It is.
    #[default]
    Cross,
    /// Mount points are empty directories (`--one-file-system`).
    Stay,
}

/// Which times of a file are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Times {
    /// The modify time, which stands for the others: reading a tree or copying it changes nothing.
    #[default]
    Modify,
    /// Access and change time too, where the source has them (`--keep-atime`).
    All,
}

/// What happens to an archive that ends otherwise than with two blocks of zeros, after a whole
/// entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ArchiveEnd {
    /// It is taken as it is, with a notice.
    #[default]
    Lenient,
    /// It is refused: it may have been cut off (`--strict-archive`).
    Strict,
}

/// How sources are read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// What is left out; empty for nothing.
    pub exclude: GlobSet,
    /// Everybody's owner.
    pub owner: Option<Owner>,
    /// The first map that holds an id counts.
    pub map_users: Vec<IdMap>,
    /// The first map that holds an id counts.
    pub map_groups: Vec<IdMap>,
    /// Whether whiteouts are heeded.
    pub layers: Layers,
    /// No time is later than this (SOURCE_DATE_EPOCH), in seconds since 1970.
    pub newest: Option<i64>,
    /// What happens to a file that cannot be read.
    pub trouble: Trouble,
    /// Whether what is mounted below a source directory is part of it.
    pub mounts: Mounts,
    /// Which times are kept.
    pub times: Times,
    /// What happens to an archive without its end.
    pub archive_end: ArchiveEnd,
    /// Where streams are kept while the image is built; the host's folder for temporary files if
    /// `None`.
    pub spool_folder: Option<PathBuf>,
    /// Device and inode number of files that are never part of a source: the image itself.
    pub never: Vec<(u64, u64)>,
}

impl SourceArguments {
    /// Checks the words. `source_date_epoch` is the variable of that name.
    ///
    /// # Errors
    /// Wrong usage, by the word.
    pub fn options(&self, source_date_epoch: Option<&str>) -> Result<ReadOptions, Error> {
        Ok(ReadOptions {
            exclude: patterns(&self.exclude)?,
            owner: self.owner,
            map_users: self.map_users.clone(),
            map_groups: self.map_groups.clone(),
            layers: if self.whiteouts.is_some() { Layers::Oci } else { Layers::Plain },
            newest: source_date_epoch.map(epoch).transpose()?,
            trouble: if self.keep_going { Trouble::Skip } else { Trouble::Stop },
            mounts: if self.one_file_system { Mounts::Stay } else { Mounts::Cross },
            times: if self.keep_atime { Times::All } else { Times::Modify },
            archive_end: if self.strict_archive { ArchiveEnd::Strict } else { ArchiveEnd::Lenient },
            ..ReadOptions::default()
        })
    }
}

fn epoch(text: &str) -> Result<i64, Error> {
    text.parse().map_err(|_| {
        Error::usage(format!("SOURCE_DATE_EPOCH={text:?}: is not a number"))
            .hint("seconds since 1970, as date +%s")
    })
}

fn patterns(words: &[String]) -> Result<GlobSet, Error> {
    let wrong = |error: globset::Error| Error::usage(format!("--exclude: {error}"));
    let mut set = GlobSetBuilder::new();
    for word in words {
        let anchored = word.trim_end_matches('/').trim_start_matches("./").trim_start_matches('/');
        let pattern = match word.trim_end_matches('/').contains('/') {
            true => anchored.to_owned(),
            false => format!("**/{anchored}"),
        };
        set.add(
            GlobBuilder::new(&pattern)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(wrong)?,
        );
    }
    set.build().map_err(wrong)
}

impl FromStr for Owner {
    type Err = Error;
    fn from_str(text: &str) -> Result<Owner, Error> {
        let parsed = text
            .split_once(':')
            .and_then(|(uid, gid)| Some(Owner { uid: uid.parse().ok()?, gid: gid.parse().ok()? }));
        parsed.ok_or_else(|| Error::usage(format!("{text:?} is not UID:GID")))
    }
}

impl FromStr for IdMap {
    type Err = Error;
    fn from_str(text: &str) -> Result<IdMap, Error> {
        let numbers: Option<Vec<u32>> = text.split(':').map(|word| word.parse().ok()).collect();
        let map = match numbers.as_deref() {
            Some([from, to, count]) if *count > 0 => {
                Some(IdMap { from: *from, to: *to, count: *count })
            }
            _ => None,
        };
        let fits = |map: &IdMap| {
            map.from.checked_add(map.count - 1).and(map.to.checked_add(map.count - 1)).is_some()
        };
        map.filter(fits)
            .ok_or_else(|| Error::usage(format!("{text:?} is not FROM:TO:COUNT in 32-bit ids")))
    }
}

impl IdMap {
    /// The id after the first map that holds it.
    pub fn apply(maps: &[IdMap], id: u32) -> u32 {
        let hit = maps
            .iter()
            .find(|map| id.checked_sub(map.from).is_some_and(|distance| distance < map.count));
        hit.map_or(id, |map| id - map.from + map.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shifted_in_their_range_only() {
        let maps = ["0:100000:65536", "70000:5:1"].map(|text| text.parse().unwrap());
        assert_eq!(
            [0, 65535, 65536, 70000].map(|id| IdMap::apply(&maps, id)),
            [100000, 165535, 65536, 5]
        );
        for wrong in ["0:0", "0:0:0", "a:b:c", "4294967295:0:2", "0:4294967295:2", "1:2:3:4"] {
            assert!(wrong.parse::<IdMap>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_match_names_anywhere_and_paths_from_the_root() {
        let set = patterns(&["*.o".into(), "/a/b".into(), "c/**/d".into(), "git/".into()]).unwrap();
        for hit in ["x.o", "a/y.o", "a/b", "c/d", "c/x/y/d", "q/git"] {
            assert!(set.is_match(hit), "{hit}");
        }
        for miss in ["x.c", "q/a/b", "a/b/c", "d"] {
            assert!(!set.is_match(miss), "{miss}");
        }
        assert!(patterns(&["[".into()]).is_err());
    }
}
