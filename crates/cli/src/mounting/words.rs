//! The words of `-o`: one table for the parser, the help, the manual and docs/MOUNT.md.
//!
//! Words are those of mount(8), ext4(5) and mount.fuse3(8) where these have one. What they have and
//! this mount has not is refused with the reason, or ignored where ignoring it changes nothing.
use super::options::{
    CACHE_BYTES_MIN, Checks, MountOptions, OnErrors, Over, Sharing, Unknown, Writes,
};
use crate::error::Error;
use crate::size::{Amount, Size};
use crate::source_options::id_map;
use extant_block::Access;
use extant_chart::beside;
use extant_engine::preset::PresetError;
use extant_mount::serve::Xattrs;
use extant_mount::workers::Idle;

/// The longest `commit=`: a day.
const COMMIT_SECONDS_MAX: u32 = 86_400;

/// A word, or words that differ in their value only.
struct Word {
    /// Without "=". A hyphen in a name may be an underscore, and the other way round.
    name: &'static str,
    value: Value,
    /// One line for the help.
    line: &'static str,
    set: fn(&mut MountOptions, &str) -> Result<(), String>,
}

/// What follows the name.
enum Value {
    /// Nothing.
    None,
    /// "=" and what this says.
    Required(&'static str),
    /// "=" and what this says, or nothing.
    Optional(&'static str),
}

const fn plain(
    name: &'static str,
    line: &'static str,
    set: fn(&mut MountOptions, &str) -> Result<(), String>,
) -> Word {
    Word { name, value: Value::None, line, set }
}

const fn valued(
    name: &'static str,
    value: &'static str,
    line: &'static str,
    set: fn(&mut MountOptions, &str) -> Result<(), String>,
) -> Word {
    Word { name, value: Value::Required(value), line, set }
}

/// A setter that cannot fail.
macro_rules! sets {
    ($options:ident => $change:expr) => {
        |$options: &mut MountOptions, _: &str| {
            $change;
            Ok(())
        }
    };
}

static WORDS: &[Word] = &[
    plain("ro", "read only: nothing is written, a journal is replayed in memory", {
        sets!(options => options.access = Some(Access::ReadOnly))
    }),
    plain("rw", "writable, or not mounted at all", {
        sets!(options => options.access = Some(Access::ReadWrite))
    }),
    plain("allow_other", "every user may use it; the kernel checks permissions", {
        sets!(options => options.sharing = Sharing::AllUsers)
    }),
    plain("default_permissions", "the kernel checks permissions for the one user too", {
        sets!(options => options.checks = Checks::Kernel)
    }),
    plain("relatime", "access times change with the first read after a change, or daily", {
        sets!(options => access_times(options, "relatime"))
    }),
    plain("strictatime", "access times change with each read that reaches the server", {
        sets!(options => access_times(options, "strict"))
    }),
    plain("noatime", "access times do not change", {
        sets!(options => access_times(options, "none"))
    }),
    plain("nodev", "device files are not opened", {
        sets!(options => options.flags.no_devices = true)
    }),
    plain("dev", "device files are opened", sets!(options => options.flags.no_devices = false)),
    plain("nosuid", "set-user-ID, set-group-ID and capabilities have no effect", {
        sets!(options => options.flags.no_set_id = true)
    }),
    plain("suid", "they have an effect", sets!(options => options.flags.no_set_id = false)),
    plain("noexec", "programs are not run", sets!(options => options.flags.no_execute = true)),
    plain("exec", "programs are run", sets!(options => options.flags.no_execute = false)),
    valued(
        "offset",
        "BYTES",
        "where the volume begins in the image: 1M, 2048s",
        |options, value| {
            let size: Size = value.parse().map_err(said)?;
            options.offset_bytes = size.bytes(1).ok_or("is too large")?;
            Ok(())
        },
    ),
    valued("uid", "USER", "everything belongs to this user: a name or a number", {
        |options, value| {
            options.uid = Some(number_of(value, "/etc/passwd")?);
            Ok(())
        }
    }),
    valued("gid", "GROUP", "everything belongs to this group: a name or a number", {
        |options, value| {
            options.gid = Some(number_of(value, "/etc/group")?);
            Ok(())
        }
    }),
    valued(
        "map_users",
        "FROM:TO:COUNT",
        "users of the image become these here",
        |options, value| {
            options.map_users.push(id_map(value).map_err(said)?);
            Ok(())
        },
    ),
    valued("map_groups", "FROM:TO:COUNT", "groups, likewise; may be given several times", {
        |options, value| {
            options.map_groups.push(id_map(value).map_err(said)?);
            Ok(())
        }
    }),
    valued("commit", "SECONDS", "what is older survives a power cut, synced or not: 5", {
        |options, value| {
            let seconds: u32 = number(value)?;
            if seconds > COMMIT_SECONDS_MAX {
                return Err(format!("is not a number from 0 to {COMMIT_SECONDS_MAX}"));
            }
            options.commit(seconds);
            Ok(())
        }
    }),
    valued("data", "ordered|writeback|journal", "what goes through the journal beside metadata", {
        |options, value| {
            options.choose(
                "journal",
                match value {
                    "ordered" => "ordered",
                    "writeback" => "writeback",
                    "journal" => "data",
                    _ => return Err("is not ordered, writeback or journal".to_owned()),
                },
            );
            Ok(())
        }
    }),
    plain("sync", "writes wait for the device", {
        sets!(options => {
            options.flags.synchronous = true;
            options.choose("mount", "sync");
        })
    }),
    plain("async", "they do not", {
        sets!(options => {
            options.flags.synchronous = false;
            options.choose("mount", "async");
        })
    }),
    plain("dirsync", "changes of directories wait for the device", {
        sets!(options => {
            options.flags.synchronous_directories = true;
            options.choose("mount", "sync");
        })
    }),
    Word {
        name: "metacluster",
        value: Value::Optional("(POSITION,SIZE)"),
        line: "map blocks of a group are together (post of 2007)",
        set: |options, value| {
            options.choose("map-blocks", format!("metacluster{value}"));
            Ok(())
        },
    },
    plain("orlov", "directories are placed as ext3 did", {
        sets!(options => options.choose("placement", "orlov-ext3"))
    }),
    plain("oldalloc", "directories are placed as ext2 of Linux 2.4 did", {
        sets!(options => options.choose("placement", "spread"))
    }),
    valued("policies", "PRESET:COLUMN=CHOICE", "any policy; extant lab policies lists them", {
        policies
    }),
    valued("cache", "SIZE", "memory for all that is kept of the volume: 256M", |options, value| {
        let amount: Amount = value.parse().map_err(said)?;
        if amount.bytes < CACHE_BYTES_MIN {
            return Err(format!("is less than {}M", CACHE_BYTES_MIN >> 20));
        }
        options.cache_bytes = amount.bytes;
        Ok(())
    }),
    valued(
        "errors",
        "remount-ro|continue",
        "how a volume that is marked as having errors is mounted",
        {
            |options, value| {
                options.on_errors = Some(match value {
                    "remount-ro" => OnErrors::ReadOnly,
                    "continue" => OnErrors::Continue,
                    "panic" => {
                        return Err(
                            "a program does not stop the machine: take remount-ro".to_owned()
                        );
                    }
                    _ => return Err("is not remount-ro or continue".to_owned()),
                });
                Ok(())
            }
        },
    ),
    plain("write_through", "each write(2) reaches the server at once", {
        sets!(options => options.writes = Writes::Through)
    }),
    plain("write_back", "the kernel gathers writes (as it is by default)", {
        sets!(options => options.writes = Writes::Back)
    }),
    plain("nonempty", "the folder may hold something, or be a mount point", {
        sets!(options => options.over = Over::Anything)
    }),
    valued("fsname", "NAME", "what the table of mounts shows in place of the image", {
        |options, value| {
            options.name = Some(value.to_owned());
            Ok(())
        }
    }),
    valued("workers", "NUMBER", "the most threads that answer requests", |options, value| {
        let workers: usize = number(value)?;
        if !(1..=1024).contains(&workers) {
            return Err("is not a number from 1 to 1024".to_owned());
        }
        options.workers = Some(workers);
        Ok(())
    }),
    valued(
        "idle",
        "poll|halt",
        "what idle processors do while requests are dense: poll, as root",
        {
            |options, value| {
                options.idle = match value {
                    "poll" => Idle::Poll,
                    "halt" => Idle::Halt,
                    _ => return Err("is not poll or halt".to_owned()),
                };
                Ok(())
            }
        },
    ),
    plain("noxattr", "as if no file had extended attributes, and none can be set: faster", {
        sets!(options => options.xattrs = Xattrs::Hidden)
    }),
];

/// Words that change nothing here: of fstab, for other programs, or what is so anyway.
static IGNORED: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "comment",
    "loud",
    "silent",
    "loop",
    "diratime",
    "norelatime",
    "nostrictatime",
    "atime",
    "nolazytime",
    "helper",
    "uhelper",
    "subtype",
    "blkdev",
    "big_writes",
    "bsddf",
    "user_xattr",
    "acl",
    "barrier",
    "delalloc",
    "nodiscard",
    "block_validity",
    "auto_da_alloc",
    "nogrpid",
    "sysvgroups",
    "init_itable",
    "noinit_itable",
    "nomand",
    "noiversion",
    "iversion",
    "journal_checksum",
    "dioread_lock",
    "noquota",
    "nodebug",
];

/// Words that others have and this mount has not, with the reason.
static REFUSED: &[(&str, &str)] = &[
    ("nodiratime", "noatime leaves the access times of files and directories as they are"),
    ("allow_root", "FUSE knows one user or all of them: allow_other, which checks permissions"),
    ("remount", "options are those of the mount: unmount it, and mount it again"),
    ("bind", "mount --bind shows a folder of a mounted file system elsewhere"),
    ("auto_unmount", "a mount whose server was killed is removed by extant umount DIR"),
    ("noload", "ro replays the journal in memory, and writes nothing"),
    ("norecovery", "ro replays the journal in memory, and writes nothing"),
    ("nobarrier", "what an fsync promised has to be on the device"),
    ("discard", "fstrim DIR tells the device what is free"),
    ("lazytime", "times are kept with each change; noatime saves what reads cost"),
    ("mand", "no kernel has mandatory locks any more"),
    ("dax", "the data of a FUSE mount is in the page cache"),
    ("nodelalloc", "policies=allocation=reservation gives blocks with the write"),
    ("grpid", "set-group-ID of a directory does it for what is in it: chmod g+s"),
    ("bsdgroups", "set-group-ID of a directory does it for what is in it: chmod g+s"),
    ("sb", "extant info --superblock looks at a copy; e2fsck -b repairs with one"),
    ("noacl", "access lists of the image count where permissions are checked"),
    ("nouser_xattr", "attributes of the image are shown"),
    ("quota", "quotas are not counted"),
    ("usrquota", "quotas are not counted"),
    ("grpquota", "quotas are not counted"),
    ("prjquota", "quotas are not counted"),
];

/// Reads comma lists, in their order: of words that contradict each other the last one counts.
///
/// # Errors
/// Wrong usage: a word that is not known, with the nearest one that is; a value that is none.
pub fn parse(lists: &[String], unknown: Unknown) -> Result<MountOptions, Error> {
    let wrong = |error: PresetError| Error::usage(format!("-o policies: {error}"));
    let mut options = MountOptions::unsaid().map_err(wrong)?;
    for word in lists.iter().flat_map(|list| split(list, ',')).filter(|word| !word.is_empty()) {
        apply(&word, unknown, &mut options)?;
    }
    if options.sharing == Sharing::AllUsers {
        options.checks = Checks::Kernel;
    }
    options.policies().map_err(wrong)?;
    Ok(options)
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
    if name.starts_with("x_") || name.starts_with("X_") || IGNORED.contains(&name.as_str()) {
        return Ok(());
    }
    if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(Error::usage(format!("-o {word}: is not supported")).hint(*reason));
    }
    match unknown {
        Unknown::Ignored => Ok(()),
        Unknown::Refused => Err(not_known(said, &name)),
    }
}

impl Word {
    fn value<'a>(&self, value: Option<&'a str>) -> Result<&'a str, String> {
        match (&self.value, value) {
            (Value::None, None) | (Value::Optional(_), None) => Ok(""),
            (Value::None, Some(_)) => Err(format!("{} takes no value", self.name)),
            (Value::Required(what), None | Some("")) => Err(format!("is {}={what}", self.name)),
            (_, Some(value)) => Ok(value),
        }
    }

    /// As it is typed.
    fn shape(&self) -> String {
        match self.value {
            Value::None => self.name.to_owned(),
            Value::Required(what) => format!("{}={what}", self.name),
            Value::Optional(what) => format!("{}[={what}]", self.name),
        }
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

/// The words of a list. A separator within brackets is part of its word, and so is a comma after a
/// backslash: `metacluster(middle,1/64)`, `fsname=a\,b`.
fn split(list: &str, separator: char) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut depth, mut letters) = (0usize, list.chars().peekable());
    while let Some(letter) = letters.next() {
        let is_separator = depth == 0 && letter == separator;
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

/// A preset and columns: `linux-2.6:placement=parent`, with ":" or "," between.
fn policies(options: &mut MountOptions, words: &str) -> Result<(), String> {
    for word in split(words, ':').iter().flat_map(|words| split(words, ',')) {
        match word.split_once('=') {
            Some(("preset", name)) => options.choose_preset(name).map_err(said)?,
            Some((column, choice)) => options.choose(column, choice),
            None => options.choose_preset(&word).map_err(said)?,
        }
    }
    Ok(())
}

fn access_times(options: &mut MountOptions, choice: &str) {
    options.flags.no_access_times = choice == "none";
    options.choose("atime", choice);
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn number<N: std::str::FromStr>(value: &str) -> Result<N, String> {
    value.parse().map_err(|_| "is not a number".to_owned())
}

/// The number of a user or group: as it was given, or of the name in this file, whose lines are
/// `name:password:number:..` (passwd(5), group(5)).
fn number_of(value: &str, names: &str) -> Result<u32, String> {
    if let Ok(number) = value.parse() {
        return Ok(number);
    }
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let number = (fields.next()? == value).then(|| fields.nth(1))?;
        number?.parse().ok()
    };
    let lines = std::fs::read(names).unwrap_or_default();
    String::from_utf8_lossy(&lines)
        .lines()
        .find_map(of_line)
        .ok_or_else(|| format!("is not a number or a name of {names}"))
}

fn refused(word: &str, reason: &str) -> Error {
    Error::usage(format!("-o {word}: {reason}"))
}

fn not_known(said: &str, name: &str) -> Error {
    let error = Error::usage(format!("-o {said}: there is no such option"));
    let near = WORDS.iter().map(|known| (distance(known.name, name), known));
    match near.min_by_key(|(distance, _)| *distance) {
        Some((distance, known)) if distance <= 1 + name.len() / 4 => {
            error.hint(format!("did you mean {}? extant mount --help lists them", known.shape()))
        }
        _ => error.hint("extant mount --help lists them"),
    }
}

/// How many letters have to be added, removed, replaced or exchanged with the next one to make one
/// word of the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, against) in other.iter().enumerate() {
            let replaced = row[j] + usize::from(letter != against);
            let mut least = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && one[i - 1] == *against && other[j - 1] == *letter {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

/// Columns of the help before the lines that explain.
const SHAPE_COLUMNS: usize = 28;
/// Columns of the help.
const HELP_COLUMNS: usize = 88;

/// All words, for the help.
pub fn help() -> String {
    let line = |word: &Word| {
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
    use crate::error::Exit;

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
        assert_eq!(column(words, "elevator"), "linus(20000,20000)");
        assert_eq!(column("policies=throttle=inline,commit=7", "throttle"), "inline");
        assert_eq!(column("policies=commit=9s,commit=7", "commit"), "4s+data");
        assert_eq!(column("policies=commit=9s", "commit"), "9s");
        for wrong in ["policies=none-such", "policies=placement=x", "policies=x=y", "policies="] {
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
        ] {
            let message = failure(wrong).message;
            assert!(message.starts_with(reason), "{message}");
        }
        let named = parse(&["uid=root,gid=root".to_owned()], Unknown::Refused).unwrap();
        assert_eq!((named.uid, named.gid), (Some(0), Some(0)));
        assert!(failure("commit=99999999").message.contains("commit"));
        assert!(failure("discard").hint.unwrap().contains("fstrim"));
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
        names.extend(IGNORED);
        names.extend(REFUSED.iter().map(|(name, _)| *name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        let help = help();
        assert!(WORDS.iter().all(|word| help.contains(&word.shape())));
    }

    #[test]
    fn distances() {
        for (one, other, expected) in
            [("", "abc", 3), ("ro", "rw", 1), ("cahce", "cache", 1), ("abc", "abc", 0)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
