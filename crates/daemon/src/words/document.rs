//! The tables of docs/MOUNT.md.
use super::others::{NOTED, REFUSED, Row, SILENT};
use super::table::WORDS;
use std::fmt::Write;

/// What a line of the help has no room for.
static MORE: &[(&str, &str)] = &[
    ("relatime", "the default. A read that the kernel answers from its cache changes none"),
    ("nodev", "users other than root always have `nodev` and `nosuid`"),
    (
        "nosymfollow",
        "by a user who is not root only where fusermount3 knows the word; else it is refused",
    ),
    (
        "uid",
        "a new file gets the owner of its directory in the image, and owners cannot be changed. \
         When root mounts it for another user, `allow_other` is needed too",
    ),
    (
        "map_users",
        "and those of here the image's; may be given several times. A number without a range is \
         shown as 65534, has no rights there, and cannot be given to a file (EOVERFLOW): with \
         `map_users=0:100000:65536` root of this machine can make none",
    ),
    ("umask", "a chmod leaves them as they are. Entries of access lists are not masked"),
    ("commit", "see below"),
    ("data", "see docs/POLICIES.md"),
    (
        "noload",
        "without it, `ro` replays the journal in memory. The volume may be in the middle of \
         changes then",
    ),
    (
        "discard",
        "a file gets holes. A device that can do nothing with it is named in a warning; what is \
         only read is told nothing",
    ),
    (
        "policies",
        "with colons between: `policies=linux-2.6:placement=parent`. A preset commits as its \
         system did, unless `commit=` is said too",
    ),
    (
        "resuid",
        "root may, and who has mounted the image, as with ext4. What is written to a file is \
         judged by who has opened it: the kernel sends it later",
    ),
    (
        "cache",
        "at least 8M, and 320 blocks of the volume (20M with blocks of 64 KiB). The kernel's own \
         cache of file data comes on top",
    ),
    ("errors", "after a failed write of the device no change is taken in either case"),
    ("write_through", "a full volume is then told to each write(2) exactly"),
    ("idle", "see \"Speed\""),
    ("noxattr", "the kernel asks no more for the capabilities of each file that is written"),
    ("context", "elsewhere it is named in a note, and changes nothing; so the three below"),
    (
        "remount",
        "`rw` of what began read-only is refused: its image is open for reading alone. Words that \
         are the server's (`cache=`, `uid=` ..) are refused too",
    ),
];

/// All words, in the tables of docs/MOUNT.md: what does something, what is taken, what is refused.
pub fn document() -> String {
    let mut text = "| option | what it does |\n| --- | --- |\n".to_owned();
    for word in WORDS {
        let more = MORE.iter().find(|(name, _)| *name == word.name);
        let more = more.map(|(_, more)| format!(". {}", capitalised(more))).unwrap_or_default();
        let _ = writeln!(text, "| `{}` | {}{more} |", escaped(&word.shape()), word.line);
    }
    let table = |text: &mut String, head: &str, rows: &[Row]| {
        let _ = writeln!(text, "\n{head}\n\n| option | why |\n| --- | --- |");
        for (names, said) in rows {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(text, "| {} | {said} |", names.join(", "));
        }
    };
    table(&mut text, "Taken without a word, as are `x-..` and `X-..`:", SILENT);
    table(
        &mut text,
        "Taken, and named once on stderr (\"taken, changes nothing: ..\"): what they ask for is \
         not done, and\nnothing is lost by that.",
        NOTED,
    );
    table(&mut text, "Refused:", REFUSED);
    text
}

/// A bar ends a cell.
fn escaped(shape: &str) -> String {
    shape.replace('|', "\\|")
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
