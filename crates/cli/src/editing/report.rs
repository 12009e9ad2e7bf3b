//! What a change did, as text and as JSON.
use extant_edit::{Committed, Outcome};
use extant_host::console::Console;
use extant_host::error::Error;
use serde::Serialize;
use std::path::Path;

/// What the commands did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Commands.
    pub commands: u64,
    /// Objects that were made, written, removed, moved or described anew.
    pub objects: u64,
    /// Bytes of files that were written.
    pub bytes: u64,
    /// Files that were left out because they were there (`-n`).
    pub kept: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    image: String,
    command: &'a str,
    commands: u64,
    objects: u64,
    bytes: u64,
    kept: u64,
    /// "journal", "redo-log", "nothing"; "none" where no image was to be written.
    committed: &'static str,
    /// Blocks that were in use and changed.
    changed_blocks: u64,
    /// Bytes that went to blocks that were free.
    new_bytes: u64,
}

/// Says what was done: with `--json`, one document; else nothing, as coreutils do.
///
/// # Errors
/// Standard output.
pub fn print(
    image: &Path,
    done: Done,
    committed: Option<Committed>,
    console: &Console,
) -> Result<(), Error> {
    if !console.is_json() {
        return Ok(());
    }
    console.print_json(
        "extant-edit/1",
        &Document {
            image: image.display().to_string(),
            command: console.command,
            commands: done.commands.max(1),
            objects: done.objects,
            bytes: done.bytes,
            kept: done.kept,
            committed: match committed.map(|committed| committed.outcome) {
                None => "none",
                Some(Outcome::Nothing) => "nothing",
                Some(Outcome::Journal) => "journal",
                Some(Outcome::RedoLog) => "redo-log",
            },
            changed_blocks: committed.map_or(0, |committed| committed.blocks),
            new_bytes: committed.map_or(0, |committed| committed.new_bytes),
        },
    )
}
