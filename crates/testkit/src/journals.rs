//! Volumes whose log holds transactions that are not replayed yet, made by others: by a kernel
//! that was shut down under load, or by debugfs.
//!
//! The kernel's file system is shut down by its own ioctl, which is what a power cut looks like to
//! a file system: flag 0 after everything was written, flag 1 after the log was written, flag 2 at
//! once. The same seed makes the same operations; where the shutdown meets them differs from run
//! to run.
//!
//! ```text
//! load     what is done on the volume meanwhile
//! judge    what e2fsck, tune2fs and the kernel make of a log; volumes compared block by block
//! external journals on devices of their own
//! ```

mod external;
mod judge;
mod load;

pub use external::External;
pub use judge::{
    Differing, after_e2fsck, after_kernel, after_preen, after_tune2fs, clean, copy,
    differing_blocks, log_start, needs_recovery, tree,
};

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::command::{self, program};
use crate::numbers::Numbers;
use crate::oracle::{self, Access, mount_loop};

/// One row of the table of journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name, such as `ext4-1k-csum-v1`.
    pub name: &'static str,
    /// The profile of mke2fs: `ext3` or `ext4`.
    pub kind: &'static str,
    /// Bytes in a block.
    pub block_size: u32,
    /// Words for `-O` of mke2fs, beyond the profile's own; or empty.
    pub features: &'static str,
    /// Mebibytes of the log.
    pub log_mib: u32,
    /// Who writes the log.
    pub writer: Writer,
}

/// Who writes a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The kernel, mounted with these options.
    Kernel(&'static str),
    /// debugfs, with these words for `journal_open`.
    Debugfs(&'static str),
}

const fn kernel(
    name: &'static str,
    kind: &'static str,
    block_size: u32,
    features: &'static str,
    options: &'static str,
) -> Variant {
    // The smallest log that mke2fs makes: 1,024 blocks.
    let log_mib = block_size / 1024;
    Variant { name, kind, block_size, features, log_mib, writer: Writer::Kernel(options) }
}

/// With room for the blocks of fast commits beside the smallest log.
const fn fast(
    name: &'static str,
    block_size: u32,
    features: &'static str,
    options: &'static str,
) -> Variant {
    Variant { log_mib: block_size / 512, ..kernel(name, "ext4", block_size, features, options) }
}

const fn debugfs(
    name: &'static str,
    kind: &'static str,
    block_size: u32,
    features: &'static str,
    words: &'static str,
) -> Variant {
    Variant { writer: Writer::Debugfs(words), ..kernel(name, kind, block_size, features, "") }
}

/// An ext3 volume in all but its name, which takes no such options when it is mounted.
const INDIRECT: &str = "^extent,^64bit,^metadata_csum";

/// Every variant. The first rows differ most: a short run takes those.
pub const VARIANTS: &[Variant] = &[
    kernel("ext3-1k", "ext3", 1024, "", ""),
    kernel("ext4-1k", "ext4", 1024, "", ""),
    fast("ext4-4k-fast", 4096, "fast_commit", ""),
    kernel("ext4-4k-no-csum", "ext4", 4096, "^metadata_csum,^64bit", ""),
    kernel("ext4-2k-csum-v1", "ext4", 2048, "^metadata_csum", "journal_checksum"),
    kernel("ext4-4k-indirect-async", "ext4", 4096, INDIRECT, "journal_async_commit,data=writeback"),
    debugfs("ext4-1k-debugfs-v2", "ext4", 1024, "", "-c -v 2"),
    kernel("ext4-4k", "ext4", 4096, "", ""),
    kernel("ext3-1k-data", "ext3", 1024, "", "data=journal"),
    fast("ext4-1k-fast", 1024, "fast_commit", ""),
    kernel("ext4-1k-orphan-file", "ext4", 1024, "orphan_file", ""),
    debugfs("ext3-1k-debugfs", "ext3", 1024, "", ""),
    kernel("ext3-2k", "ext3", 2048, "", ""),
    kernel("ext4-1k-not-64bit", "ext4", 1024, "^64bit", ""),
    kernel("ext4-4k-data", "ext4", 4096, "", "data=journal"),
    kernel("ext4-1k-async", "ext4", 1024, "", "journal_async_commit,data=writeback"),
    fast("ext4-2k-fast-no-csum", 2048, "fast_commit,^metadata_csum", ""),
    debugfs("ext4-4k-debugfs-v3", "ext4", 4096, "", "-c -v 3"),
    kernel("ext3-4k", "ext3", 4096, "", "data=writeback"),
    kernel("ext4-1k-indirect-csum-v1", "ext4", 1024, INDIRECT, "journal_checksum"),
    kernel("ext4-1k-writeback", "ext4", 1024, "^metadata_csum", "data=writeback,nodelalloc"),
    kernel("ext4-1k-seed", "ext4", 1024, "metadata_csum_seed", "commit=1"),
    kernel("ext4-1k-indirect", "ext4", 1024, "^extent,^64bit", ""),
    fast("ext4-4k-fast-orphan-file", 4096, "fast_commit,orphan_file", "nodelalloc"),
    debugfs("ext4-2k-debugfs-v2-not-64bit", "ext4", 2048, "^64bit", "-c -v 2"),
    debugfs("ext4-1k-debugfs-64bit-no-csum", "ext4", 1024, "^metadata_csum", ""),
];

/// How the kernel's file system was shut down: the flag of its ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Everything is written first.
    Flushed = 0,
    /// The log is written first, data is not.
    LogFlushed = 1,
    /// Nothing more is written.
    AtOnce = 2,
}

impl Shutdown {
    /// That of a seed: mostly the hard way.
    fn of(numbers: &mut Numbers) -> Shutdown {
        match numbers.below(8) {
            0 => Shutdown::Flushed,
            1 | 2 => Shutdown::LogFlushed,
            _ => Shutdown::AtOnce,
        }
    }
}

/// Whether volumes can be made and judged here; if not, a line says why.
pub fn is_possible() -> bool {
    ["mke2fs", "e2fsck", "debugfs", "tune2fs", "python3"].iter().all(|tool| oracle::require(tool))
        && oracle::can_mount()
}

impl Variant {
    /// Whether the log may hold fast commits, which say what happened and not which blocks changed.
    pub fn has_fast_commits(&self) -> bool {
        self.features.contains("fast_commit")
    }

    /// Makes a volume of this kind in `folder`, whose log was left by the load of `seed`.
    ///
    /// # Errors
    /// mke2fs, the kernel or debugfs refuse.
    pub fn make(&self, seed: u64, folder: &Path) -> Result<PathBuf, String> {
        let image = folder.join(format!("{}-{seed}.img", self.name));
        self.mke2fs(&image)?;
        match self.writer {
            Writer::Kernel(options) => under_load(&image, seed, options)?,
            Writer::Debugfs(words) => self.by_debugfs(&image, seed, words)?,
        }
        Ok(image)
    }

    fn mke2fs(&self, image: &Path) -> Result<(), String> {
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-t", self.kind, "-b", &self.block_size.to_string()]);
        mke2fs.args(["-I", "256", "-N", "2000", "-J", &format!("size={}", self.log_mib)]);
        mke2fs.args(["-E", "lazy_itable_init=0"]);
        if !self.features.is_empty() {
            mke2fs.args(["-O", self.features]);
        }
        let volume_mib = 24 + 2 * self.log_mib;
        mke2fs.arg(image).arg(format!("{volume_mib}M"));
        command::output(&mut mke2fs).map(|_| ())
    }

    /// Transactions that give blocks of a file new content, revoke some, and write some again.
    fn by_debugfs(&self, image: &Path, seed: u64, words: &str) -> Result<(), String> {
        // Data alone: of a file with an indirect block that is one of its blocks.
        let file_blocks = if self.kind == "ext3" { 12 } else { 60 };
        const MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
        let mut numbers = Numbers::new(seed);
        let folder = crate::scratch::Scratch::new("extant-debugfs");
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
            Ok::<String, String>(path.display().to_string())
        };
        let size = self.block_size as usize;
        let content = write("content", &numbers.bytes(file_blocks * size))?;
        command::output(
            program("debugfs").args(["-w", "-R", &format!("write {content} file")]).arg(image),
        )?;
        let said = oracle::debugfs(image, "blocks file")?;
        let blocks: Vec<&str> = said.split_whitespace().collect();
        let mut script = format!("jo {words}\n");
        for number in 0..3 + numbers.below(12) {
            let count = 1 + numbers.below(file_blocks as u64 / 3) as usize;
            let first = numbers.below(blocks.len().saturating_sub(count) as u64) as usize;
            let targets = blocks.get(first..first + count).unwrap_or_default().join(",");
            if numbers.below(3) == 0 {
                script += &format!("jw -r {targets}\n");
                continue;
            }
            let mut bytes = numbers.bytes(count * size);
            // Blocks that look like the log's own are escaped.
            bytes.chunks_mut(size).step_by(3).for_each(|block| block[..4].copy_from_slice(&MAGIC));
            script += &format!("jw -b {targets} {}\n", write(&format!("data-{number}"), &bytes)?);
        }
        script += "jc\n";
        let script = write("script", script.as_bytes())?;
        command::output(program("debugfs").args(["-w", "-f", &script]).arg(image)).map(|_| ())
    }
}

/// Mounts the volume, loads it from two threads, shuts it down meanwhile, and unmounts it.
fn under_load(image: &Path, seed: u64, options: &str) -> Result<(), String> {
    let mounted = mount_loop(image, Access::ReadWrite, options)?;
    let mut numbers = Numbers::new(seed);
    let shutdown = Shutdown::of(&mut numbers);
    let operations = 20 + numbers.below(600);
    let ended = AtomicBool::new(false);
    let (left, right) = (mounted.path().join("left"), mounted.path().join("right"));
    let seeds = [numbers.draw(), numbers.draw()];
    // tidy: thread because the load is the kernel's, and ends before this function does
    let result = std::thread::scope(|scope| {
        scope.spawn(|| load::run(&right, seeds[1], u64::MAX, &ended));
        let files = load::run(&left, seeds[0], operations, &ended);
        let result = shut_down(mounted.path(), shutdown);
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        // Held until now: files without a name are orphans in the log.
        drop(files);
        result
    });
    result?;
    mounted.unmount()
}

/// `EXT4_IOC_SHUTDOWN`, by Python's wrapper: ours would need unsafe code.
fn shut_down(folder: &Path, how: Shutdown) -> Result<(), String> {
    const PROGRAM: &str = "import fcntl, os, struct, sys\n\
        fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, \
        struct.pack('I', int(sys.argv[2])))";
    let mut python = program("python3");
    python.args(["-c", PROGRAM]).arg(folder).arg((how as u32).to_string());
    command::output(&mut python).map(|_| ())
}
