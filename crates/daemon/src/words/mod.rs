//! The words of `-o`: one table for the parser, the help, the manual and docs/MOUNT.md.
//!
//! Words are those of mount(8), ext4(5) and mount.fuse3(8) where these have one. What they have and
//! this mount has not is refused with the reason; or it is taken where that changes nothing, and
//! then named once.
//!
//! ```text
//! table      words that do something here
//! others     words that change nothing, silently or named in a note, and words that are refused
//! document   the tables of docs/MOUNT.md
//! ```
mod document;
mod others;
mod table;

use super::options::{Checks, MountOptions, Replay, Sharing, Unknown};
pub use document::document;
use extant_block::Access;
use extant_chart::beside;
use extant_engine::preset::PresetError;
use extant_host::error::Error;
use others::{NOTED, REFUSED, SILENT, found};
use strsim::osa_distance;
use table::WORDS;

/// Reads comma lists, in their order: of words that contradict each other the last one counts.
///
/// # Errors
/// Wrong usage: a word that is not known, with the nearest one that is; a value that is none.
pub fn parse(lists: &[String], unknown: Unknown) -> Result<MountOptions, Error> {
    let wrong = |error: PresetError| Error::usage(format!("-o policies: {error}"));
    let mut options = MountOptions::unsaid().map_err(wrong)?;
    for word in all(lists) {
        apply(&word, unknown, &mut options)?;
    }
    if options.sharing == Sharing::AllUsers {
        options.checks = Checks::Kernel;
    }
    options.policies().map_err(wrong)?;
    if options.replay == Replay::LeftOut && options.access != Some(Access::ReadOnly) {
        let error = "-o noload: a volume whose journal was not replayed is only read";
        return Err(Error::usage(error).hint("-o ro,noload reads it as it is"));
    }
    options.check_maps().map_err(Error::usage)?;
    Ok(options)
}

/// All words of these lists.
pub(super) fn all(lists: &[String]) -> impl Iterator<Item = String> {
    let words = lists.iter().flat_map(|list| split(list, ','));
    words.filter(|word| !word.is_empty())
}

/// Whether a word is in one of the tables, whatever becomes of it.
pub fn knows(word: &str) -> bool {
    let name = name_and_value(word).0.replace('-', "_");
    let kind = name.split('.').next().unwrap_or_default();
    WORDS.iter().any(|known| known.name == name)
        || is_silent(word)
        || found(NOTED, &name).is_some()
        || found(REFUSED, kind).is_some()
}

/// Whether a word is taken without a word, whatever else is asked for.
pub(super) fn is_silent(word: &str) -> bool {
    let name = name_and_value(word).0.replace('-', "_");
    name.starts_with("x_") || name.starts_with("X_") || found(SILENT, &name).is_some()
}

/// Reads one word into the options.
///
/// # Errors
/// It is not known, or its value is none.
fn apply(word: &str, unknown: Unknown, options: &mut MountOptions) -> Result<(), Error> {
    let (said, value) = name_and_value(word);
    let name = said.replace('-', "_");
    if let Some(known) = WORDS.iter().find(|known| known.name == name) {
        let value = known.value(value).map_err(|reason| refused(word, &reason))?;
        return (known.set)(options, value).map_err(|reason| refused(word, &reason));
    }
    if is_silent(word) {
        return Ok(());
    }
    if found(NOTED, &name).is_some() {
        options.note(word);
        return Ok(());
    }
    // `verity.roothash` and its kin are one word.
    let kind = name.split('.').next().unwrap_or_default();
    if let Some(reason) = found(REFUSED, kind) {
        return Err(Error::usage(format!("-o {word}: is not supported")).hint(reason));
    }
    match unknown {
        Unknown::Ignored => Ok(()),
        Unknown::Refused => Err(not_known(said, &name)),
    }
}

/// Name and value. `metacluster(middle,1/64)` needs no "=", as in the lists of policies.
fn name_and_value(word: &str) -> (&str, Option<&str>) {
    let at = word.find(['=', '(']).unwrap_or(word.len());
    let (name, rest) = word.split_at(at);
    match rest.strip_prefix('=') {
        _ if rest.is_empty() => (name, None),
        Some(value) => (name, Some(value)),
        None => (name, Some(rest)),
    }
}

/// The words of a list. A separator within brackets is part of its word, and so is one within a
/// value in quotation marks, and a comma after a backslash: `metacluster(middle,1/64)`,
/// `context="a:b:c:s0:c1,c2"`, `fsname=a\,b`.
fn split(list: &str, separator: char) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut depth, mut letters) = (0usize, list.chars().peekable());
    let (mut is_quoted, mut before) = (false, separator);
    while let Some(letter) = letters.next() {
        is_quoted = match letter {
            '"' if is_quoted => false,
            '"' => before == '=',
            _ => is_quoted,
        };
        before = letter;
        let is_separator = depth == 0 && !is_quoted && letter == separator;
        match letter {
            _ if is_separator => words.push(String::new()),
            '\\' if letters.peek() == Some(&',') => words.last_mut().into_iter().for_each(|word| {
                word.extend(letters.next());
            }),
            _ => {
                depth = match letter {
                    '(' => depth + 1,
                    ')' => depth.saturating_sub(1),
                    _ => depth,
                };
                words.last_mut().into_iter().for_each(|word| word.push(letter));
            }
        }
    }
    words
}

fn refused(word: &str, reason: &str) -> Error {
    Error::usage(format!("-o {word}: {reason}"))
}

fn not_known(said: &str, name: &str) -> Error {
    let error = Error::usage(format!("-o {said}: there is no such option"));
    let near = WORDS.iter().map(|known| (osa_distance(known.name, name), known));
    match near.min_by_key(|(distance, _)| *distance) {
        Some((distance, known)) if distance <= 1 + name.chars().count() / 4 => {
            error.hint(format!("did you mean {}? extant mount --help lists them", known.shape()))
        }
        _ => error.hint("extant mount --help lists them"),
    }
}

/// Columns of the help before the lines that explain.
const SHAPE_COLUMNS: usize = 28;
/// Columns of the help.
const HELP_COLUMNS: usize = 88;

/// All words, for the help.
pub fn help() -> String {
    let line = |word: &table::Word| {
        let shape = word.shape();
        beside(&format!("  {shape:<SHAPE_COLUMNS$} "), word.line, HELP_COLUMNS)
    };
    let words: String = WORDS.iter().map(line).collect();
    format!(
        "Options, with commas between; of two that contradict each other the last counts\n\n{words}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_host::error::Exit;

    fn one(list: &str) -> Result<MountOptions, Error> {
        parse(&[list.to_owned()], Unknown::Refused)
    }

    fn column(list: &str, column: &str) -> String {
        one(list).unwrap().policies().unwrap().names.get(column).to_owned()
    }

    #[test]
    fn the_last_of_two_words_counts() {
        assert_eq!(one("").unwrap().access, None);
        assert_eq!(one("ro,rw").unwrap().access, Some(Access::ReadWrite));
        assert_eq!(one("rw,,ro,").unwrap().access, Some(Access::ReadOnly));
        assert!(one("nodev,nosuid").unwrap().flags.no_devices);
        assert!(!one("nodev,dev").unwrap().flags.no_devices);
        let two = ["ro".to_owned(), "rw,noexec".to_owned()];
        let options = parse(&two, Unknown::Refused).unwrap();
        assert!(options.access == Some(Access::ReadWrite) && options.flags.no_execute);
    }

    #[test]
    fn words_of_ext4_are_columns() {
        assert_eq!(column("commit=30", "commit"), "15s+data");
        assert_eq!(column("commit=0", "commit"), "3s+data");
        let sent = |list: &str| one(list).unwrap().send_seconds();
        assert_eq!((sent(""), sent("commit=30"), sent("commit=1")), (Some(2), Some(15), Some(1)));
        assert_eq!((sent("write_through"), sent("policies=linux-2.6")), (None, None));
        assert_eq!(column("data=writeback", "journal"), "writeback");
        assert_eq!(column("data=journal", "journal"), "data");
        assert_eq!(column("noatime", "atime"), "none");
        assert_eq!(column("noatime,strictatime", "atime"), "strict");
        assert_eq!(column("metacluster", "map-blocks"), "metacluster");
        assert_eq!(column("sync", "mount"), "sync");
        let placed = "metacluster=(begin,1/32),ro";
        assert_eq!(column(placed, "map-blocks"), "metacluster(begin,1/32)");
        assert!(one(placed).unwrap().access.is_some());
    }

    #[test]
    fn any_column_can_be_chosen() {
        let words = "policies=linux-2.6:placement=parent:elevator=linus(20000,20000),ro";
        assert_eq!(column(words, "placement"), "parent");
        assert_eq!(column(words, "throttle"), "global-2.6.22");
        assert_eq!(column(words, "commit"), "5s");
        assert_eq!(column("policies=throttle=inline,commit=7", "throttle"), "inline");
        assert_eq!(column("policies=commit=9s,commit=7", "commit"), "4s+data");
        assert_eq!(column("policies=commit=9s", "commit"), "9s");
        // What is of a laboratory's machine is known, and judged, though a mount has none.
        let wrong_machine = "policies=elevator=none-such";
        for wrong in [
            "policies=none-such",
            "policies=placement=x",
            "policies=x=y",
            "policies=",
            wrong_machine,
        ] {
            assert_eq!(one(wrong).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
    }

    #[test]
    fn a_comma_can_be_part_of_a_word() {
        assert_eq!(split(r"a,b\,c,(d,e),f\g", ','), ["a", "b,c", "(d,e)", r"f\g"]);
        assert_eq!(one(r"fsname=a\,b,ro").unwrap().name.as_deref(), Some("a,b"));
    }

    #[test]
    fn all_users_are_checked_by_the_kernel() {
        assert_eq!(one("allow_other").unwrap().checks, Checks::Kernel);
        assert_eq!(one("default_permissions").unwrap().sharing, Sharing::OneUser);
        assert_eq!(one("").unwrap().checks, Checks::None);
    }

    fn failure(list: &str) -> Error {
        one(list).unwrap_err()
    }

    #[test]
    fn an_unknown_word_has_a_neighbour() {
        for (wrong, near) in [
            ("alow_other", "did you mean allow_other?"),
            ("noatim", "did you mean noatime?"),
            ("cahce=5M", "did you mean cache=SIZE?"),
            ("default_permision", "did you mean default_permissions?"),
            ("zzzzzzzz", "extant mount --help"),
        ] {
            let error = failure(wrong);
            let hint = error.hint.as_deref().unwrap_or_default();
            assert!(hint.starts_with(near), "{wrong}: {hint}");
            assert!(error.message.ends_with("there is no such option"), "{}", error.message);
        }
        let sloppy = parse(&["zzz,ro".to_owned()], Unknown::Ignored).unwrap();
        assert_eq!(sloppy.access, Some(Access::ReadOnly));
    }

    #[test]
    fn values_are_checked() {
        for (wrong, reason) in [
            ("ro=1", "-o ro=1: ro takes no value"),
            ("cache", "-o cache: is cache=SIZE"),
            ("cache=5", "-o cache=5: a unit is missing"),
            ("cache=1M", "-o cache=1M: is less than 8M"),
            ("uid=who is that", "-o uid=who is that: is not a number or a name"),
            ("idle=sleep", "-o idle=sleep: is not poll or halt"),
            ("commit=-1", "-o commit=-1: is not a number"),
            ("data=none", "-o data=none: is not ordered, writeback or journal"),
            ("errors=panic", "-o errors=panic: a program does not stop"),
            ("offset=x", "-o offset=x: it is not a size"),
            ("map_users=1:2", "-o map_users=1:2: "),
            ("workers=0", "-o workers=0: is not a number from 1"),
            ("barrier=0", "-o barrier=0: what an fsync promised"),
            ("umask=888", "-o umask=888: is not an octal number"),
            ("fmask=1777", "-o fmask=1777: is not an octal number"),
            ("data_err=x", "-o data_err=x: is not abort or ignore"),
            ("max_read=1", "-o max_read=1: is not 4096"),
            ("noload", "-o noload: a volume whose journal was not replayed is only read"),
            ("rw,norecovery", "-o noload: a volume whose"),
            ("map_users=0:9:5,map_users=4:90:1", "-o map_users: 4 of the image has two"),
            ("map_groups=0:9:5,map_groups=9:13:1", "-o map_groups: 13 of this machine has two"),
        ] {
            let message = failure(wrong).message;
            assert!(message.starts_with(reason), "{message}");
        }
        let named = parse(&["uid=root,gid=root".to_owned()], Unknown::Refused).unwrap();
        assert_eq!((named.uid, named.gid), (Some(0), Some(0)));
        assert!(failure("commit=99999999").message.contains("commit"));
        assert!(failure("nobarrier").hint.unwrap().contains("fsync"));
        assert!(failure("verity.roothash=ab").hint.unwrap().contains("verity"));
        assert!(failure("grpquota").hint.unwrap().contains("quotas"));
    }

    #[test]
    fn what_changes_nothing_is_noted_in_the_order_of_the_words() {
        let noted = |list: &str| one(list).unwrap().noted().to_vec();
        assert_eq!(
            noted("ro,lazytime,defaults,stripe=4,data_err=ignore,lazytime"),
            ["lazytime", "stripe=4", "data_err=ignore"]
        );
        assert!(noted("barrier,barrier=1,data_err=abort,acl,x-a.b,relatime,nodiscard").is_empty());
        let labels = one(r#"context="a:b:c:s0:c1,c2",ro"#).unwrap();
        assert_eq!(labels.access, Some(Access::ReadOnly));
        assert_eq!(labels.labels(), [("context", "a:b:c:s0:c1,c2".to_owned())]);
    }

    #[test]
    fn masks_are_of_files_directories_or_both() {
        let masks = |list: &str| one(list).unwrap().masks;
        assert_eq!((masks("umask=027").files, masks("umask=027").directories), (0o27, 0o27));
        assert_eq!((masks("fmask=133,dmask=022").files, masks("dmask=022").files), (0o133, 0));
        assert_eq!(masks("umask=0,dmask=7").directories, 7);
    }

    #[test]
    fn what_fstab_says_is_no_error() {
        let list =
            "defaults,noauto,user,_netdev,nofail,x-systemd.automount,X-mount.mkdir,comment=a";
        assert_eq!(parse(&[list.to_owned()], Unknown::Refused).unwrap().access, None);
    }

    #[test]
    fn every_word_is_in_one_table() {
        let mut names: Vec<&str> = WORDS.iter().map(|word| word.name).collect();
        let others = [SILENT, NOTED, REFUSED].concat();
        names.extend(others.iter().flat_map(|(names, _)| names.iter()));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        let help = help();
        assert!(WORDS.iter().all(|word| help.contains(&word.shape())));
    }
}
