//! This program under the names of e2fsprogs's: the same words, the same volumes, the same exit
//! codes.
//!
//! ```text
//! option_strings   mke2fs beside us, byte for byte, over a table of option strings
//! configured       mke2fs.conf, read beside mke2fs
//! made             what is made is judged by e2fsck, and mounted
//! filled           -d, and options beside it
//! callers          command lines of the programs that call mke2fs
//! judged           e2fsck, dumpe2fs and e2label beside theirs
//! fsck_options     e2fsck's options: who is told, what is given back, a lost superblock
//! looked_at        what e2fsck looks at before it calls a volume clean
//! copies           e2fsck where the superblock differs from its copy
//! superblocks      e2fsck where one field of the superblock is damaged
//! optimized        what e2fsck makes smaller where nothing is wrong
//! preened          what e2fsck -p mends without asking, and what it leaves
//! recovered        e2fsck on volumes that were not unmounted: orphans, damaged logs
//! resized          resize2fs beside theirs
//! tuned            tune2fs beside theirs, over a table of lines
//! rescued          -S over a volume, -c and -l over bad blocks, the device of a journal
//! sparse           volumes in the sparse form of Android
//! around           what is around a volume at an offset stays
//! words            words that are refused, files that are not touched
//! unsaid           what standard output does not take is no success
//! descriptors      volumes for which mke2fs takes meta_bg by itself
//! features         docs/FEATURES.md is what the code says
//! ```
mod around;
mod callers;
mod configured;
mod copies;
mod descriptors;
mod features;
mod filled;
mod fsck_options;
mod judged;
mod looked_at;
mod made;
mod optimized;
mod option_strings;
mod preened;
mod recovered;
mod rescued;
mod resized;
mod sparse;
mod superblocks;
mod tuned;
mod unsaid;
mod words;

use std::process::{Command, Output};

/// UUID and hash seed of every volume that is compared.
const UUID: &str = "00112233-4455-6677-8899-aabbccddeeff";
const HASH_SEED: &str = "hash_seed=10112233-4455-6677-8899-aabbccddeeff";
/// The time of every volume that is compared.
const TIME: &str = "1700000000";

/// This program under another's name.
pub(crate) fn extant(name: &str) -> Command {
    let mut command = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    command.args(["--as", name]).env("E2FSPROGS_FAKE_TIME", TIME);
    command
}

/// The real one.
fn theirs(name: &str) -> Command {
    let mut command = extant_testkit::command::program(name);
    command.env("E2FSPROGS_FAKE_TIME", TIME);
    command
}

/// Runs it without a terminal, and says how it ended.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let shown = extant_testkit::command::shown(command);
    let output: Output = command
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{shown}: {error}"));
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}
