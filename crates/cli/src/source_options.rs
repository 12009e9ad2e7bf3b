//! The words of the command line about sources, and what they mean.
use crate::error::Error;
use extant_image::source::{
    ArchiveEnd, Exclude, IdMap, Mounts, OnTrouble, Owner, ReadOptions, Source, Times,
};
use extant_image::tree::Layers;
use std::ffi::OsString;
use std::fs::File;

/// The options of every command that reads sources; flatten it into the command's own.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct SourceArguments {
    /// Leave out what matches: a pattern without "/" matches a name anywhere, one with "/" a path
    /// from the root.
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Everything belongs to this user and group (numbers).
    #[arg(long, value_name = "UID:GID", value_parser = owner,
        conflicts_with_all = ["map_users", "map_groups"])]
    pub owner: Option<Owner>,
    /// Shift users: FROM becomes TO, for COUNT users; others stay. Also in access lists.
    #[arg(long, value_name = "FROM:TO:COUNT", value_parser = id_map)]
    pub map_users: Vec<IdMap>,
    /// Shift groups, likewise.
    #[arg(long, value_name = "FROM:TO:COUNT", value_parser = id_map)]
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

impl SourceArguments {
    /// Checks the words. `source_date_epoch` is the variable of that name.
    ///
    /// # Errors
    /// Wrong usage, by the word.
    pub fn options(&self, source_date_epoch: Option<&str>) -> Result<ReadOptions, Error> {
        Ok(ReadOptions {
            exclude: Exclude::new(&self.exclude)
                .map_err(|error| Error::usage(format!("--exclude: {error}")))?,
            owner: self.owner,
            map_users: self.map_users.clone(),
            map_groups: self.map_groups.clone(),
            layers: if self.whiteouts.is_some() { Layers::Oci } else { Layers::Plain },
            newest: source_date_epoch.map(epoch).transpose()?,
            on_trouble: if self.keep_going { OnTrouble::Skip } else { OnTrouble::Stop },
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

/// What `--owner` says.
fn owner(text: &str) -> Result<Owner, Error> {
    let parsed = text
        .split_once(':')
        .and_then(|(uid, gid)| Some(Owner { uid: uid.parse().ok()?, gid: gid.parse().ok()? }));
    parsed.ok_or_else(|| Error::usage(format!("{text:?} is not UID:GID")))
}

/// What `--map-users` and `--map-groups` say: FROM:TO:COUNT.
///
/// # Errors
/// Wrong usage.
pub(crate) fn id_map(text: &str) -> Result<IdMap, Error> {
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

/// The sources that words of the command line name; "-" is an archive on standard input.
///
/// # Errors
/// Standard input more than once.
pub fn sources(words: &[OsString]) -> Result<Vec<Source>, Error> {
    if words.iter().filter(|word| *word == "-").count() > 1 {
        return Err(Error::usage("-: standard input can be read only once"));
    }
    words.iter().map(source).collect()
}

fn source(word: &OsString) -> Result<Source, Error> {
    const NAME: &str = "standard input";
    if word != "-" {
        return Ok(Source::from(word));
    }
    let copy = rustix::io::dup(std::io::stdin());
    let copy = copy.map_err(|error| Error::io(NAME, &error.into()))?;
    Ok(Source::Archive { file: File::from(copy), name: NAME.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shifted_in_their_range_only() {
        let maps = ["0:100000:65536", "70000:5:1"].map(|text| id_map(text).unwrap());
        assert_eq!(
            [0, 65535, 65536, 70000].map(|id| IdMap::apply(&maps, id)),
            [100000, 165535, 65536, 5]
        );
        for wrong in ["0:0", "0:0:0", "a:b:c", "4294967295:0:2", "0:4294967295:2", "1:2:3:4"] {
            assert!(id_map(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_date_that_is_no_number_is_refused() {
        let arguments = SourceArguments::default();
        assert_eq!(arguments.options(Some("500")).unwrap().newest, Some(500));
        assert!(arguments.options(Some("soon")).is_err());
    }
}
