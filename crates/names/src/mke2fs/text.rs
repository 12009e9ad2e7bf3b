//! What mke2fs prints, and what it prints it of.
use extant_engine::mkfs::FormatOptions;
use extant_format::GroupNo;
use extant_format::superblock::{CREATOR_NAMES, Feature, Superblock};
use std::fmt::Write;

/// What is said of a volume that begins at an offset and ends with its file or device.
pub fn unsized_offset(blocks: u64) -> String {
    format!(
        "Warning: offset specified without an explicit file system size.\nCreating a file system \
         with {blocks} blocks but this might\nnot be what you want.\n"
    )
}

/// The usage, after what was wrong.
pub fn usage(name: &str) -> String {
    format!(
        "Usage: {name} [-c|-l filename] [-b block-size] [-C cluster-size]
\t[-i bytes-per-inode] [-I inode-size] [-J journal-options]
\t[-G flex-group-size] [-N number-of-inodes] [-d root-directory]
\t[-m reserved-blocks-percentage] [-o creator-os]
\t[-g blocks-per-group] [-L volume-label] [-M last-mounted-directory]
\t[-O feature[,...]] [-r fs-revision] [-E extended-option[,...]]
\t[-t fs-type] [-T usage-type ] [-U UUID] [-e errors_behavior][-z undo_file]
\t[-jnqvDFSV] device [blocks-count]"
    )
}

/// What is said before anything is written.
pub fn plan(superblock: &Superblock) -> String {
    let blocks = superblock.blocks_count;
    let size = superblock.block_size() / 1024;
    let inodes = superblock.inodes_count;
    let mut text =
        format!("Creating filesystem with {blocks} {size}k blocks and {inodes} inodes\n");
    // Writing to a String cannot fail.
    if superblock.has(Feature::JOURNAL_DEV) {
        let _ = writeln!(text, "Filesystem UUID: {}", extant_inspect::uuid(&superblock.uuid));
    } else if superblock.group_count() > 1 {
        let _ = writeln!(text, "Filesystem UUID: {}", extant_inspect::uuid(&superblock.uuid));
        text.push_str(&copies(superblock));
    }
    text.push('\n');
    text
}

/// The same with -v.
pub fn verbose_plan(superblock: &Superblock, options: &FormatOptions, types: &[String]) -> String {
    let mut text = String::new();
    let quoted: Vec<String> = types.iter().map(|of| format!("'{of}'")).collect();
    let label = superblock.label.split(|byte| *byte == 0).next().unwrap_or_default();
    let label = String::from_utf8_lossy(label).into_owned();
    let size = superblock.block_size();
    let log = superblock.block_size_log2 - 10;
    let creator = CREATOR_NAMES.get(superblock.creator_os as usize).unwrap_or(&"(unknown os)");
    let groups = superblock.group_count();
    let per_group = superblock.blocks_per_group;
    let percent = options.wishes.reserved_ratio * 100.0;
    let reserved = superblock.reserved_blocks;
    let Superblock { inodes_count, blocks_count, first_data_block, inodes_per_group, .. } =
        superblock;
    let (stride, width) = (superblock.raid_stride, superblock.raid_stripe_width);
    let plural = if groups == 1 { "" } else { "s" };
    let uuid = extant_inspect::uuid(&superblock.uuid);
    let _ = write!(
        text,
        "fs_types for mke2fs.conf resolution: {}
Filesystem label={label}
OS type: {creator}
Block size={size} (log={log})
Fragment size={size} (log={log})
Stride={stride} blocks, Stripe width={width} blocks
{inodes_count} inodes, {blocks_count} blocks
{reserved} blocks ({percent:.2}%) reserved for the super user
First data block={first_data_block}
{groups} block group{plural}
{per_group} blocks per group, {per_group} fragments per group
{inodes_per_group} inodes per group
Filesystem UUID: {uuid}
",
        quoted.join(", ")
    );
    text.push_str(&copies(superblock));
    text.push('\n');
    text
}

/// Where the copies of the superblock are, in lines of at most 80 letters.
fn copies(superblock: &Superblock) -> String {
    if superblock.has(Feature::JOURNAL_DEV) {
        return String::new();
    }
    let groups = (1..superblock.group_count()).map(GroupNo);
    let places: Vec<u64> = groups
        .filter(|group| superblock.has_super(*group))
        .map(|group| superblock.group_start(group).0)
        .collect();
    if places.is_empty() {
        return String::new();
    }
    let mut text = "Superblock backups stored on blocks: ".to_owned();
    let mut column = usize::MAX;
    for (at, place) in places.iter().enumerate() {
        let word = place.to_string();
        if at > 0 {
            text.push_str(", ");
        }
        if column > 70 {
            text.push_str("\n\t");
            column = 8;
        }
        column += word.len() + 2;
        text.push_str(&word);
    }
    text.push('\n');
    text
}

/// What is said once all is written.
pub fn done(journal_blocks: u32) -> String {
    let mut text = String::new();
    text.push_str("Allocating group tables: done                            \n");
    text.push_str("Writing inode tables: done                            \n");
    if journal_blocks > 0 {
        let _ = writeln!(text, "Creating journal ({journal_blocks} blocks): done");
    }
    text.push_str("Writing superblocks and filesystem accounting information: done\n\n");
    text
}
