//! `extant stat`: all that an image says of a file.
use crate::listing::{Record, kind, mode_letters};
use extant_archive::printable;
use extant_engine::{Filesystem, Metadata, Object};
use extant_format::attribute::Attribute;
use extant_format::extent::State;
use extant_format::inode::{FileType, Time, flags};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments, ImagePath, failure};
use extant_image::date::{self, Grain};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// Show all that an image says of files: times, owners, flags, extended attributes, where the
/// blocks are.
///
/// Symbolic links are not followed. With --json one line is printed for each file.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant stat disk.img:/etc/passwd
  extant stat --extents disk.img:/var/lib/database
  extant stat --json disk.img:/bin/ping | jq .xattrs")]
pub struct Arguments {
    /// The files; an image alone is its root directory
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub places: Vec<OsString>,
    /// Where the blocks are: block in the file, block on the volume, how many
    #[arg(long, short)]
    pub extents: bool,
    #[command(flatten)]
    pub image: ImageArguments,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    image: String,
    #[serde(flatten)]
    record: Record,
    sectors: u64,
    flags: u32,
    flag_names: Vec<&'static str>,
    generation: u32,
    block_size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    extents: Option<&'a [Extent]>,
}

#[derive(Serialize)]
struct Extent {
    file_block: u32,
    block: u64,
    length: u32,
    state: &'static str,
}

/// Shows them.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    for word in &arguments.places {
        let place = ImagePath::of(word);
        let filesystem = image::open(&place.image, &arguments.image, console)?;
        for place in place.expanded(&filesystem) {
            show(&place, &filesystem, &arguments, console)?;
        }
    }
    Ok(Exit::Complete)
}

fn show(
    place: &ImagePath,
    filesystem: &Filesystem,
    arguments: &Arguments,
    console: &Console,
) -> Result<(), Error> {
    let failed =
        |error: extant_engine::Error| failure(&place.image, error.at(place.path_or_root()));
    let object = filesystem.object(place.path_or_root()).map_err(failed)?;
    let extents = if arguments.extents { Some(extents(&object).map_err(failed)?) } else { None };
    if console.is_json() {
        let report = report(place, filesystem, &object, extents.as_deref());
        return console.print_json("extant-stat/1", &report.map_err(failed)?);
    }
    let block_size = filesystem.superblock().block_size();
    let text = text(place, &object, block_size, extents.as_deref()).map_err(failed)?;
    console.print(&text)
}

fn extents(object: &Object) -> extant_engine::Result<Vec<Extent>> {
    let runs = object.runs()?.into_iter();
    let extent = runs.map(|run| Extent {
        file_block: run.file_block.0,
        block: run.run.start.0,
        length: run.run.length,
        state: match run.state {
            State::Written => "written",
            State::Unwritten => "unwritten",
        },
    });
    Ok(extent.collect())
}

fn report<'a>(
    place: &ImagePath,
    filesystem: &Filesystem,
    object: &Object,
    extents: Option<&'a [Extent]>,
) -> extant_engine::Result<Report<'a>> {
    let metadata = object.metadata()?;
    Ok(Report {
        image: place.image.display().to_string(),
        record: Record::new(place.path_or_root().as_os_str().as_bytes(), object)?,
        sectors: metadata.sectors,
        flags: metadata.flags,
        flag_names: flag_names(metadata.flags),
        generation: metadata.generation,
        block_size: filesystem.superblock().block_size(),
        extents,
    })
}

/// In the shape of stat(1), with what ext has beyond it.
fn text(
    place: &ImagePath,
    object: &Object,
    block_size: u32,
    extents: Option<&[Extent]>,
) -> extant_engine::Result<String> {
    let metadata = object.metadata()?;
    let mut text = String::new();
    let name = printable(place.path_or_root().as_os_str().as_bytes());
    let target = match metadata.file_type {
        FileType::Symlink => format!(" -> {}", printable(&object.read_link()?)),
        _ => String::new(),
    };
    let device = metadata.device.map_or(String::new(), |device| {
        format!("  Device type: {},{}", device.major, device.minor)
    });
    let rows = [
        format!("  File: {name}{target}"),
        size_row(&metadata, block_size),
        format!(
            " Image: {}  Inode: {}  Links: {}{device}",
            place.image.display(),
            metadata.ino.0,
            metadata.links
        ),
        owner_row(&metadata),
        time_row("Access", metadata.access_time),
        time_row("Modify", metadata.modify_time),
        time_row("Change", metadata.change_time),
        metadata
            .create_time
            .map_or_else(|| " Birth: -".to_owned(), |time| time_row(" Birth", time)),
        format!(" Flags: {:#x} ({})", metadata.flags, flag_names(metadata.flags).join(", ")),
        format!("  Generation: {}", metadata.generation),
    ];
    for row in rows {
        text.push_str(&row);
        text.push('\n');
    }
    for attribute in object.attributes()? {
        text.push_str(&attribute_row(&attribute));
    }
    if let Some(extents) = extents {
        text.push_str(&extent_table(extents));
    }
    Ok(text)
}

fn size_row(metadata: &Metadata, block_size: u32) -> String {
    let (size, sectors, kind) = (metadata.size, metadata.sectors, kind(metadata.file_type));
    format!("  Size: {size:<12} Blocks: {sectors:<10} IO Block: {block_size:<6} {kind}")
}

fn owner_row(metadata: &Metadata) -> String {
    let (mode, letters) = (metadata.mode & 0o7777, mode_letters(metadata));
    format!("Access: ({mode:04o}/{letters})  Uid: {}  Gid: {}", metadata.uid, metadata.gid)
}

fn time_row(label: &str, time: Time) -> String {
    format!("{label}: {}", date::shown(time, Grain::Nanosecond))
}

/// Text where it is text, else hexadecimal, as getfattr has it.
fn attribute_row(attribute: &Attribute) -> String {
    let name = printable(&attribute.name);
    let is_text = |text: &&str| !text.chars().any(|letter| letter.is_control() || letter == '"');
    match std::str::from_utf8(&attribute.value).ok().filter(is_text) {
        Some(value) => format!("  Attribute: {name}=\"{value}\"\n"),
        None => {
            let digits: String = attribute.value.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("  Attribute: {name}=0x{digits}\n")
        }
    }
}

fn extent_table(extents: &[Extent]) -> String {
    let mut table = format!("  Extents: {}\n", extents.len());
    for Extent { file_block, block, length, state } in extents {
        // Writing to a String cannot fail.
        let _ = writeln!(table, "  {file_block:>10} at {block:>12}, {length:>10} blocks, {state}");
    }
    table
}

/// The names of inode flags as chattr(1) explains them, bits rising; unknown bits are left out.
fn flag_names(set: u32) -> Vec<&'static str> {
    const NAMES: [(u32, &str); 23] = [
        (flags::SECURE_DELETION, "secure_deletion"),
        (flags::UNDELETE, "undelete"),
        (flags::COMPRESS, "compressed"),
        (flags::SYNC, "sync"),
        (flags::IMMUTABLE, "immutable"),
        (flags::APPEND, "append_only"),
        (flags::NODUMP, "no_dump"),
        (flags::NOATIME, "no_atime"),
        (flags::ENCRYPTED, "encrypted"),
        (flags::INDEX, "indexed_directory"),
        (flags::JOURNALED_DATA, "journaled_data"),
        (flags::NO_TAIL_MERGING, "no_tail_merging"),
        (flags::DIRECTORY_SYNC, "dirsync"),
        (flags::TOP_DIRECTORY, "top_directory"),
        (flags::HUGE_FILE, "huge_file"),
        (flags::EXTENTS, "extents"),
        (flags::VERITY, "verity"),
        (flags::EA_INODE, "ea_inode"),
        (flags::NO_COPY_ON_WRITE, "no_cow"),
        (flags::DIRECT_ACCESS, "dax"),
        (flags::INLINE_DATA, "inline_data"),
        (flags::PROJECT_INHERIT, "project_inherit"),
        (flags::CASEFOLDED, "casefold"),
    ];
    NAMES.iter().filter(|(bit, _)| set & bit != 0).map(|(_, name)| *name).collect()
}
