//! The words that do something here.
use super::split;
use crate::options::{
    CACHE_BYTES_MIN, Checks, Discards, MountOptions, OnErrors, Over, Replay, Sharing, Writes,
};
use extant_block::Access;
use extant_host::size::{Amount, Size};
use extant_host::source_options::id_map;
use extant_mount::serve::Xattrs;
use extant_mount::workers::Idle;

/// The longest `commit=`: a day.
const COMMIT_SECONDS_MAX: u32 = 86_400;
/// The largest mask of permissions.
const MASK_MAX: u16 = 0o777;
/// The smallest `max_read=`, in bytes: a page.
const READ_BYTES_MIN: u64 = 4096;

/// A word, or words that differ in their value only.
pub(super) struct Word {
    /// Without "=". A hyphen in a name may be an underscore, and the other way round.
    pub(super) name: &'static str,
    value: Value,
    /// One line for the help.
    pub(super) line: &'static str,
    pub(super) set: fn(&mut MountOptions, &str) -> Result<(), String>,
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

impl Word {
    pub(super) fn value<'a>(&self, value: Option<&'a str>) -> Result<&'a str, String> {
        match (&self.value, value) {
            (Value::None, None) | (Value::Optional(_), None) => Ok(""),
            (Value::None, Some(_)) => Err(format!("{} takes no value", self.name)),
            (Value::Required(what), None | Some("")) => Err(format!("is {}={what}", self.name)),
            (_, Some(value)) => Ok(value),
        }
    }

    /// As it is typed.
    pub(super) fn shape(&self) -> String {
        match self.value {
            Value::None => self.name.to_owned(),
            Value::Required(what) => format!("{}={what}", self.name),
            Value::Optional(what) => format!("{}[={what}]", self.name),
        }
    }
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

pub(super) static WORDS: &[Word] = &[
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
    plain("nodiratime", "those of directories do not change", {
        sets!(options => options.flags.no_directory_access_times = true)
    }),
    plain("diratime", "they change as those of files do", {
        sets!(options => options.flags.no_directory_access_times = false)
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
    plain("nosymfollow", "symbolic links are not followed", {
        sets!(options => options.flags.no_symbolic_links = true)
    }),
    plain("symfollow", "they are", sets!(options => options.flags.no_symbolic_links = false)),
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
    valued("journal_path", "PATH", "the journal, if the volume has it on another device", {
        |options, value| {
            options.journal = Some(value.into());
            Ok(())
        }
    }),
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
    valued("resuid", "USER", "this user may take reserved blocks: as the superblock says", {
        |options, value| {
            options.reserve.uid = Some(number_of(value, "/etc/passwd")?);
            Ok(())
        }
    }),
    valued("resgid", "GROUP", "so may the members of this group, unless it is 0", {
        |options, value| {
            options.reserve.gid = Some(number_of(value, "/etc/group")?);
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
    valued("umask", "MODE", "permissions that nobody is shown: 022; octal", |options, value| {
        let mask = mask(value)?;
        (options.masks.files, options.masks.directories) = (mask, mask);
        Ok(())
    }),
    valued("fmask", "MODE", "the same, of files alone", |options, value| {
        options.masks.files = mask(value)?;
        Ok(())
    }),
    valued("dmask", "MODE", "the same, of directories alone", |options, value| {
        options.masks.directories = mask(value)?;
        Ok(())
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
    plain("noload", "with ro: the journal is not replayed, and what it holds is not seen", {
        sets!(options => options.replay = Replay::LeftOut)
    }),
    plain("norecovery", "the same", sets!(options => options.replay = Replay::LeftOut)),
    plain("discard", "the device is told what is free, once that is durable", {
        sets!(options => options.discards = Discards::Told)
    }),
    plain("nodiscard", "it is told by fstrim alone", {
        sets!(options => options.discards = Discards::ByTrim)
    }),
    Word {
        name: "barrier",
        value: Value::Optional("1"),
        line: "what is synced is on the device; it cannot be turned off",
        set: |_, value| match value {
            "" | "1" => Ok(()),
            "0" => Err("what an fsync promised has to be on the device".to_owned()),
            _ => Err("is not 1".to_owned()),
        },
    },
    valued("data_err", "abort|ignore", "a write of data that fails ends all changes: abort", {
        |options, value| match value {
            "abort" => Ok(()),
            "ignore" => {
                options.note("data_err=ignore");
                Ok(())
            }
            _ => Err("is not abort or ignore".to_owned()),
        }
    }),
    plain("nodelalloc", "blocks are chosen as ext3 did: policies=allocation=reservation", {
        sets!(options => options.choose("allocation", "reservation"))
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
    valued("max_read", "BYTES", "the largest read that the kernel asks for: 128K", {
        |options, value| {
            let size: Size = value.parse().map_err(said)?;
            let bytes = size.bytes(1).filter(|bytes| *bytes >= READ_BYTES_MIN);
            let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
            options.read_bytes_max = Some(bytes.ok_or("is not 4096 or more")?);
            Ok(())
        }
    }),
    valued("context", "LABEL", "all files have this label, where SELinux is in use", {
        |options, value| options.label("context", value)
    }),
    valued("fscontext", "LABEL", "the mount itself has it", {
        |options, value| options.label("fscontext", value)
    }),
    valued("defcontext", "LABEL", "files without a label have it", {
        |options, value| options.label("defcontext", value)
    }),
    valued("rootcontext", "LABEL", "the root directory has it", {
        |options, value| options.label("rootcontext", value)
    }),
    plain("remount", "changes ro, rw and the flags above of what is mounted at DIR (root)", {
        |_, _| Err("is for one that is there: extant mount -o remount,.. IMAGE DIR".to_owned())
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

fn mask(value: &str) -> Result<u16, String> {
    let mask = u16::from_str_radix(value, 8).ok().filter(|mask| *mask <= MASK_MAX);
    mask.ok_or_else(|| "is not an octal number from 0 to 777".to_owned())
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
