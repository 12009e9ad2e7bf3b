//! The judges that are not ours: e2fsprogs and the kernel.
//!
//! What is not installed, or not permitted, is said in one line and the test is skipped
//! ([`crate::skips`]); at the gate (`CI=true`) it is a failure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::command::{self, find, is_root, program};
use crate::scratch::Scratch;
use crate::skips::{Known, skip, skip_known};

/// Whether `tool` is here; if not, the line `skipped: no TOOL`.
///
/// # Panics
/// It is not here and this is the gate.
pub fn require(tool: &str) -> bool {
    let is_here = find(tool).is_some();
    if !is_here {
        skip(format_args!("no {tool}"));
    }
    is_here
}

/// Whether this process may mount an image through a loop device, found out by doing it once; if
/// not, a line says so.
///
/// # Panics
/// It may not, and this is the gate.
pub fn can_mount() -> bool {
    match mounts(1024) {
        Ok(()) => true,
        Err(error) => {
            skip(format_args!("no loop mounts ({})", error.trim_end()));
            false
        }
    }
}

/// `e2fsck -y -E journal_only IMAGE`, if the volume asks for recovery: replays the journal and does
/// nothing else.
///
/// # Errors
/// All that it said, if it fails; what reading the image returns.
pub fn e2fsck_replays(image: &Path) -> Result<(), String> {
    const INCOMPAT: u64 = 1024 + 0x60;
    const RECOVER: u8 = 0x4;
    let mut byte = [0];
    std::fs::File::open(image)
        .and_then(|file| std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, INCOMPAT))
        .map_err(|error| format!("{}: {error}", image.display()))?;
    if byte[0] & RECOVER == 0 {
        return Ok(());
    }
    let output = program("e2fsck")
        .args(["-y", "-E", "journal_only"])
        .arg(image)
        .output()
        .map_err(|error| format!("e2fsck: {error}"))?;
    match output.status.code() {
        Some(0 | 1) => Ok(()),
        _ => {
            let said = String::from_utf8_lossy(&output.stdout);
            Err(format!("e2fsck -E journal_only {}: {}\n{said}", image.display(), output.status))
        }
    }
}

/// `e2fsck -fn IMAGE`: exit 0 and no word beyond the names of the passes and the summary.
///
/// # Errors
/// All that it said.
pub fn e2fsck(image: &Path) -> Result<(), String> {
    let output = program("e2fsck")
        .arg("-fn")
        .arg(image)
        .output()
        .map_err(|error| format!("e2fsck: {error}"))?;
    let (said, warned) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let is_summary = |line: &str| line.contains(" files (") && line.contains("% non-contiguous), ");
    let is_usual = |line: &str| {
        line.is_empty() || is_pass(line) || is_summary(line) || line.starts_with("e2fsck 1.")
    };
    if output.status.code() == Some(0) && said.lines().chain(warned.lines()).all(is_usual) {
        return Ok(());
    }
    Err(format!("e2fsck -fn {}: {}\n{warned}{said}", image.display(), output.status))
}

/// What the documentation's examples end with, unseen by their reader: the volume that the example
/// has made has an identity, e2fsck is silent of it, and changes nothing in it. `save` writes the
/// volume to a file.
///
/// # Errors
/// What e2fsck said; what `save` returns.
pub fn example(save: &dyn Fn(&Path) -> std::io::Result<()>) -> Result<(), String> {
    if !require("e2fsck") {
        return Ok(());
    }
    let folder = Scratch::new("example");
    let (image, mended) = (folder.join("example.img"), folder.join("mended.img"));
    let failed = |error: std::io::Error| error.to_string();
    save(&image).map_err(failed)?;
    e2fsck(&image)?;
    // Of a volume without one that has no checksums e2fsck makes a new one; of others it is silent.
    if dumpe2fs(&image)?.fields.get("Filesystem UUID").is_none_or(|uuid| uuid == "<none>") {
        return Err("the volume has no UUID".to_owned());
    }
    std::fs::copy(&image, &mended).map_err(failed)?;
    let output = program("e2fsck").arg("-fy").arg(&mended).output().map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() != Some(0) {
        return Err(format!("e2fsck -fy: {}\n{said}", output.status));
    }
    match changed_beyond_check(&image, &mended).map_err(failed)? {
        None => Ok(()),
        Some(offset) => Err(format!("e2fsck -fy changed byte {offset}\n{said}")),
    }
}

/// The first byte that two images differ in, but for what each check writes: times of the
/// superblock, its count of mounts, and its checksum.
fn changed_beyond_check(one: &Path, other: &Path) -> std::io::Result<Option<usize>> {
    const SUPERBLOCK: usize = 1024;
    /// `s_wtime`, `s_mnt_count`, `s_lastcheck`, `s_kbytes_written`, their high bytes, and
    /// `s_checksum`.
    const OF_CHECK: [std::ops::Range<usize>; 6] =
        [0x30..0x36, 0x40..0x44, 0x178..0x180, 0x274..0x275, 0x277..0x278, 0x3fc..0x400];
    let is_of_check = |at: usize| {
        let within = at.checked_sub(SUPERBLOCK);
        within.is_some_and(|at| OF_CHECK.iter().any(|range| range.contains(&at)))
    };
    let (one, other) = (std::fs::read(one)?, std::fs::read(other)?);
    if one.len() != other.len() {
        return Ok(Some(one.len().min(other.len())));
    }
    let differs = |at: &usize| one[*at] != other[*at] && !is_of_check(*at);
    Ok((0..one.len()).find(differs))
}

/// [`e2fsck`], but that extent trees may be deeper than they need to be: a tree that shrinks is not
/// made dense at once, by the kernel neither, and e2fsck offers to do it.
///
/// # Errors
/// All that it said.
pub fn e2fsck_but_advice(image: &Path) -> Result<(), String> {
    let is_advice = |line: &&str| line.contains("extent tree (at level ");
    let is_beginning = |line: &&str| {
        line.starts_with("e2fsck ") || line.starts_with("Pass ") || line.contains(" files (")
    };
    e2fsck(image).or_else(|said| {
        let ended_well = said.lines().next().is_some_and(|line| line.ends_with("status: 0"));
        let mut rest = said.lines().skip(1).filter(|line| !line.is_empty() && !is_beginning(line));
        if ended_well && rest.all(|line| is_advice(&line)) { Ok(()) } else { Err(said) }
    })
}

/// `Pass 3: Checking directory connectivity`, but not `Pass 3A: ...`, which is said of work to be
/// done.
fn is_pass(line: &str) -> bool {
    let number = line.strip_prefix("Pass ").and_then(|rest| rest.split_once(": Checking "));
    number.is_some_and(|(number, _)| number.len() == 1)
}

/// What dumpe2fs says about an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The lines of the superblock, `Block count` to `32768`; as printed.
    pub fields: BTreeMap<String, String>,
    /// The groups in order.
    pub groups: Vec<DumpGroup>,
}

impl Dump {
    /// A field of the superblock as a number: the digits before the first space or unit.
    pub fn number(&self, field: &str) -> Option<u64> {
        let text = self.fields.get(field)?;
        text[..text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len())]
            .parse()
            .ok()
    }

    /// The features, sorted.
    pub fn features(&self) -> Vec<&str> {
        let words = self.fields.get("Filesystem features").map_or("", String::as_str);
        let mut words: Vec<&str> = words.split_whitespace().collect();
        words.sort_unstable();
        words
    }
}

/// One group of [`Dump`]; ranges are inclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpGroup {
    /// Its blocks.
    pub blocks: (u64, u64),
    /// Its descriptor's checksum, where there are checksums.
    pub checksum: Option<u32>,
    /// Its flags: `INODE_UNINIT`, `BLOCK_UNINIT`, `ITABLE_ZEROED`.
    pub flags: Vec<String>,
    /// Whether a superblock, primary or backup, is here.
    pub superblock: Option<u64>,
    /// Where its block bitmap is.
    pub block_bitmap: u64,
    /// Where its inode bitmap is.
    pub inode_bitmap: u64,
    /// Where its inode table is.
    pub inode_table: (u64, u64),
    /// Counters of the descriptor.
    pub free_blocks: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// Directories.
    pub directories: u64,
    /// Inodes at the end of the table that were never used.
    pub unused_inodes: u64,
    /// Runs of free blocks by the bitmap.
    pub free_block_runs: Vec<(u64, u64)>,
    /// Runs of free inodes by the bitmap.
    pub free_inode_runs: Vec<(u64, u64)>,
}

/// `dumpe2fs IMAGE`, parsed.
///
/// # Errors
/// It fails, or complains.
pub fn dumpe2fs(image: &Path) -> Result<Dump, String> {
    let output = command::output(program("dumpe2fs").arg(image))?;
    let warned = String::from_utf8_lossy(&output.stderr);
    if let Some(line) = warned.lines().find(|line| !line.starts_with("dumpe2fs 1.")) {
        return Err(format!("dumpe2fs {}: {line}", image.display()));
    }
    Ok(parse_dump(&String::from_utf8_lossy(&output.stdout)))
}

fn parse_dump(text: &str) -> Dump {
    let mut dump = Dump::default();
    for line in text.lines() {
        if let Some(header) = line
            .strip_prefix("Group ")
            .filter(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
        {
            dump.groups.push(group_header(header));
        } else if let Some(group) = dump.groups.last_mut() {
            group_line(group, line.trim());
        } else if let Some((name, value)) = line.split_once(':') {
            dump.fields.insert(name.trim().into(), value.trim().into());
        }
    }
    dump
}

/// `0: (Blocks 1-8192) csum 0x8663 [ITABLE_ZEROED]`
fn group_header(text: &str) -> DumpGroup {
    let blocks = text.split_once("(Blocks ").and_then(|(_, rest)| rest.split_once(')'));
    let checksum =
        text.split_once("csum 0x").map(|(_, rest)| rest.split_whitespace().next().unwrap_or(""));
    let flags = text.split_once('[').map_or("", |(_, rest)| rest.trim_end_matches(']'));
    DumpGroup {
        blocks: blocks.and_then(|(range, _)| self::range(range)).unwrap_or_default(),
        checksum: checksum.and_then(|digits| u32::from_str_radix(digits, 16).ok()),
        flags: flags.split(", ").filter(|flag| !flag.is_empty()).map(str::to_owned).collect(),
        ..DumpGroup::default()
    }
}

fn group_line(group: &mut DumpGroup, line: &str) {
    let first = |text: &str| text.split([' ', ',']).next().and_then(range).unwrap_or_default();
    if let Some(rest) = line.strip_prefix("Block bitmap at ") {
        group.block_bitmap = first(rest).0;
    } else if let Some(rest) = line.strip_prefix("Inode bitmap at ") {
        group.inode_bitmap = first(rest).0;
    } else if let Some(rest) = line.strip_prefix("Inode table at ") {
        group.inode_table = first(rest);
    } else if let Some((_, rest)) = line.split_once("superblock at ") {
        group.superblock = Some(first(rest).0);
    } else if let Some(rest) = line.strip_prefix("Free blocks:") {
        group.free_block_runs = rest.split(',').filter_map(|run| range(run.trim())).collect();
    } else if let Some(rest) = line.strip_prefix("Free inodes:") {
        group.free_inode_runs = rest.split(',').filter_map(|run| range(run.trim())).collect();
    } else if line.contains(" free blocks, ") {
        for count in line.split(", ") {
            match count.split_once(' ') {
                Some((number, "free blocks")) => {
                    group.free_blocks = number.parse().unwrap_or_default()
                }
                Some((number, "free inodes")) => {
                    group.free_inodes = number.parse().unwrap_or_default()
                }
                Some((number, "directories")) => {
                    group.directories = number.parse().unwrap_or_default()
                }
                Some((number, "unused inodes")) => {
                    group.unused_inodes = number.parse().unwrap_or_default()
                }
                _ => {}
            }
        }
    }
}

/// `7-9` or `7`.
fn range(text: &str) -> Option<(u64, u64)> {
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    Some((start.parse().ok()?, end.parse().ok()?))
}

/// `debugfs -R REQUEST IMAGE`: what it prints.
///
/// # Errors
/// It fails or complains.
pub fn debugfs(image: &Path, request: &str) -> Result<String, String> {
    let output = command::output(program("debugfs").args(["-R", request]).arg(image))?;
    let warned = String::from_utf8_lossy(&output.stderr);
    match warned.lines().find(|line| !line.starts_with("debugfs 1.")) {
        Some(line) => Err(format!("debugfs -R '{request}' {}: {line}", image.display())),
        None => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
    }
}

/// How an image is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written, not even the journal.
    ReadOnly,
    /// As any file system.
    ReadWrite,
}

/// An image mounted by the kernel; unmounted on drop.
#[derive(Debug)]
pub struct Mounted {
    folder: Scratch,
    image: PathBuf,
    is_mounted: bool,
}

impl Mounted {
    /// Where its root is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Unmounts, so that everything is in the image.
    ///
    /// # Errors
    /// Somebody uses it.
    pub fn unmount(mut self) -> Result<(), String> {
        unmount_when_unused(self.path())?;
        self.is_mounted = false;
        wait_until_detached(&self.image)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted && unmount_when_unused(self.path()).is_err() {
            // Detached, so that the folder can go; the loop device ends with the last user.
            let _ = program("umount").arg("-l").arg(self.path()).status();
        }
    }
}

/// Unmounts whatever a failed command left mounted at `folder`.
///
/// # Errors
/// Nothing is mounted there, or somebody uses it.
pub fn unmount_all(folder: &Path) -> Result<(), String> {
    unmount_when_unused(folder)
}

/// Unmounts `folder`, and waits for a while where somebody uses it: a process that another thread
/// starts just now holds our files until it becomes its own program, and on a machine with much to
/// do that can take a second.
fn unmount_when_unused(folder: &Path) -> Result<(), String> {
    const ATTEMPTS: u32 = 500;
    for _ in 1..ATTEMPTS {
        match command::run("umount", &[folder]) {
            Err(error) if error.contains("target is busy") => {
                command::run("sleep", &["0.03"])?;
            }
            outcome => return outcome.map(|_| ()),
        }
    }
    command::run("umount", &[folder]).map(|_| ())
}

/// Waits for a while until no loop device has an image: the kernel detaches one after the unmount
/// has returned, when nobody looks at it any more.
fn wait_until_detached(image: &Path) -> Result<(), String> {
    const ATTEMPTS: u32 = 100;
    let has_image = |entry: std::fs::DirEntry| {
        let file = std::fs::read_to_string(entry.path().join("loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim_end()) == image)
    };
    for _ in 0..ATTEMPTS {
        let Ok(devices) = std::fs::read_dir("/sys/block") else { return Ok(()) };
        if !devices.flatten().any(has_image) {
            return Ok(());
        }
        command::run("sleep", &["0.03"])?;
    }
    Ok(())
}

/// Brings all of one mounted file system to its device, and of no other: what syncs everything also
/// commits the logs of tests that run beside it.
///
/// # Panics
/// The host does not.
pub fn sync(root: &Path) {
    let folder = std::fs::File::open(root).expect("it is mounted");
    rustix::fs::syncfs(folder).expect("it is synced");
}

/// Mounts `image` through a loop device; `options` are those of mount(8), without `loop` and `ro`,
/// or empty.
///
/// # Errors
/// The kernel refuses, or we are not root.
pub fn mount_loop(image: &Path, access: Access, options: &str) -> Result<Mounted, String> {
    let folder = Scratch::new("extant-mount");
    let mut words = String::from(if access == Access::ReadOnly { "loop,ro" } else { "loop" });
    if !options.is_empty() {
        words = words + "," + options;
    }
    command::output(program("mount").args(["-o", &words]).arg(image).arg(folder.path()))?;
    let image = image.canonicalize().map_err(|error| error.to_string())?;
    Ok(Mounted { folder, image, is_mounted: true })
}

/// Whether the kernel here mounts blocks of `bytes`, found out by mounting an empty image once; if
/// not, a line says so. Before Linux 6.19 ext4 takes no block above the page size.
///
/// # Panics
/// It mounts no block of a page or less, and this is the gate.
pub fn kernel_mounts_block_size(bytes: u32) -> bool {
    let Err(error) = mounts(bytes) else { return true };
    match usize::try_from(bytes).is_ok_and(|bytes| bytes > rustix::param::page_size()) {
        true => skip_known(Known::LargeBlocks, format_args!("no mount of blocks of {bytes} bytes")),
        false => skip(format_args!("no mount of blocks of {bytes} bytes ({})", error.trim_end())),
    }
    false
}

/// Whether the kernel here mounts blocks of `bytes`, tried once in this process.
fn mounts(bytes: u32) -> Result<(), String> {
    static KNOWN: OnceLock<Mutex<BTreeMap<u32, Result<(), String>>>> = OnceLock::new();
    if !is_root() {
        return Err("not root".into());
    }
    let mut known =
        KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(bytes).or_insert_with(|| probe(bytes)).clone()
}

fn probe(bytes: u32) -> Result<(), String> {
    let folder = Scratch::new("extant-probe");
    let image: PathBuf = folder.join("probe.img");
    let mut mke2fs = program("mke2fs");
    mke2fs
        .args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-b", &bytes.to_string()])
        .arg(&image)
        .arg("16M");
    command::output(&mut mke2fs)?;
    mount_loop(&image, Access::ReadOnly, "")?.unmount()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(folder: &Scratch, words: &[&str]) -> PathBuf {
        let image = folder.join("test.img");
        command::output(program("mke2fs").args(["-q", "-F"]).args(words).arg(&image).arg("32M"))
            .expect("mke2fs runs");
        image
    }

    #[test]
    fn a_clean_image_passes_and_a_damaged_one_does_not() {
        if !require("mke2fs") || !require("e2fsck") {
            return;
        }
        let folder = Scratch::new("oracle");
        let image = image(&folder, &["-t", "ext4", "-b", "1024"]);
        assert_eq!(e2fsck(&image), Ok(()));
        command::output(
            program("debugfs").args(["-w", "-R", "set_bg 0 free_blocks_count 7"]).arg(&image),
        )
        .expect("debugfs runs");
        assert!(
            e2fsck(&image).is_err_and(|said| said.contains("Free blocks count wrong")),
            "the judge is not blind"
        );
    }

    #[test]
    fn the_numbers_of_dumpe2fs_are_read() {
        if !require("mke2fs") || !require("dumpe2fs") {
            return;
        }
        let folder = Scratch::new("oracle");
        let dump = dumpe2fs(&image(&folder, &["-t", "ext4", "-b", "1024"])).expect("dumpe2fs runs");
        assert_eq!(dump.number("Block count"), Some(32768));
        assert_eq!(dump.number("Block size"), Some(1024));
        assert!(dump.features().contains(&"extent"));
        assert_eq!(dump.groups.len(), 4);
        assert_eq!(dump.groups[0].blocks, (1, 8192));
        assert_eq!(dump.groups[0].superblock, Some(1));
        assert!(dump.groups[0].inode_table.1 > dump.groups[0].inode_table.0);
        let free: u64 = dump.groups.iter().map(|group| group.free_blocks).sum();
        assert_eq!(Some(free), dump.number("Free blocks"));
        for group in &dump.groups {
            let in_runs =
                |runs: &[(u64, u64)]| runs.iter().map(|(start, end)| end - start + 1).sum::<u64>();
            assert_eq!(in_runs(&group.free_block_runs), group.free_blocks);
            assert_eq!(in_runs(&group.free_inode_runs), group.free_inodes);
        }
    }

    #[test]
    fn a_mount_ends_with_its_value() {
        if !require("mke2fs") || !can_mount() {
            return;
        }
        let folder = Scratch::new("oracle");
        let mounted = mount_loop(&image(&folder, &["-t", "ext2"]), Access::ReadOnly, "")
            .expect("the kernel mounts it");
        let path = mounted.path().to_path_buf();
        assert!(path.join("lost+found").is_dir());
        drop(mounted);
        assert!(!path.exists());
    }

    #[test]
    fn only_the_usual_passes_are_usual() {
        assert!(is_pass("Pass 1: Checking inodes, blocks, and sizes"));
        assert!(!is_pass("Pass 1B: Rescanning for multiply-claimed blocks"));
        assert!(!is_pass("Pass 3A: Optimizing directories"));
    }
}
