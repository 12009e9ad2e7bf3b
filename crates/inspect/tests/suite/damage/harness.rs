//! Volumes to be damaged, and ways to the bytes of what they hold.
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_format::attribute;
use extant_format::checksum::{crc32c, inode_seed};
use extant_format::directory::{Form, Style};
use extant_format::group::GroupDescriptor;
use extant_format::inode::Inode;
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, FileBlock, GroupNo, Ino};
use extant_inspect::{
    CheckOptions, CheckReport, Claimed, Problem, Severity, SuperblockPlace, Visit, Volume, check,
    walk,
};
use extant_testkit::command::{output, program};
use extant_testkit::scratch::Scratch;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// A damaged volume, and all that is to be reported of it.
pub struct Case {
    pub name: &'static str,
    pub damage: fn() -> Image,
    /// `code: sentence`, in order.
    pub problems: &'static [&'static str],
}

/// A case.
pub const fn case(
    name: &'static str,
    damage: fn() -> Image,
    problems: &'static [&'static str],
) -> Case {
    Case { name, damage, problems }
}

impl Case {
    /// What is wrong with the report, and how many of its problems follow from no other.
    pub fn judge(&self) -> (Vec<String>, usize) {
        let image = (self.damage)();
        let (report, several) = (image.check(1), image.check(4));
        let mut faults = Vec::new();
        let reported = sentences(&report);
        if reported != self.problems {
            faults.push(format!("reported {reported:#?}, expected {:#?}", self.problems));
        }
        if sentences(&several) != reported {
            faults.push(format!("with several threads {:#?}", sentences(&several)));
        }
        // Advice is what e2fsck does without a word, or does not count.
        let is_error =
            report.problems.iter().any(|problem| problem.rule().severity > Severity::Advice);
        let judged = image.e2fsck();
        if is_error != (judged != 0) {
            faults.push(format!("e2fsck exits with {judged}, we with {}", report.exit_code()));
        }
        for problem in &report.problems {
            let cause = problem.cause.map(|cause| &report.problems[cause]);
            if cause.is_some_and(|cause| cause.cause.is_some()) {
                faults.push(format!("{problem} follows from what follows itself"));
            }
        }
        (faults, roots(&report).len())
    }
}

/// The problems that follow from no other.
pub fn roots(report: &CheckReport) -> Vec<&Problem> {
    report.problems.iter().filter(|problem| problem.cause.is_none()).collect()
}

/// What a report says, as cases expect it.
pub fn sentences(report: &CheckReport) -> Vec<String> {
    let sentence = |problem: &Problem| format!("{}: {problem}", problem.rule().name);
    report.problems.iter().map(sentence).collect()
}

/// A volume in memory.
#[derive(Clone)]
pub struct Image {
    pub bytes: Vec<u8>,
}

/// The identity of all volumes, and the seed of their hashes: checksums and hashes are the same in
/// every run.
const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// What is on the volumes, as commands of debugfs.
const TREE: &str = "\
mkdir d
cd d
mkdir sub
mkdir other
write SOURCE file
write SOURCE second
symlink short target
symlink long LONG
mknod null c 1 3
mknod pipe p
cd sub
mkdir deep
";

/// Makes a volume with a tree on it; `more` are further commands, and names of files for a
/// directory `many`.
fn make(words: &str, size: &str, more: &str, many: usize) -> Image {
    let folder = Scratch::new("damage");
    let (image, source) = (folder.join("made.img"), folder.join("source"));
    std::fs::write(&source, b"some bytes\n").unwrap();
    let mut command = program("mke2fs");
    command.args(["-q", "-F", "-U", UUID]).args(words.split(' ')).arg(&image).arg(size);
    if !words.contains("-E ") {
        command.args(["-E", &format!("hash_seed={UUID}")]);
    }
    output(command.env("SOURCE_DATE_EPOCH", "1000000000")).expect("mke2fs makes it");
    let source = source.to_str().unwrap();
    let mut script = format!("{TREE}{more}");
    if many > 0 {
        script.push_str("cd /\nmkdir many\ncd many\n");
        for number in 0..many {
            script.push_str(&format!("write SOURCE a-file-of-many-{number}\n"));
        }
    }
    let (medium, large) = (folder.join("medium"), folder.join("large"));
    std::fs::write(&medium, [b'm'; 600]).unwrap();
    std::fs::write(&large, [b'l'; 3000]).unwrap();
    let script = script.replace("SOURCE", source).replace("LONG", &"long/".repeat(20));
    let script = script.replace("MEDIUM", medium.to_str().unwrap());
    let script = script.replace("LARGE", large.to_str().unwrap());
    let commands = folder.join("commands");
    std::fs::write(&commands, script).unwrap();
    output(program("debugfs").arg("-w").arg("-f").arg(&commands).arg(&image))
        .expect("debugfs fills it");
    // It builds indexes, and counts the blocks of large values, which debugfs forgets. Exit code 1:
    // it did something.
    let order = if many > 0 { "-fyD" } else { "-fy" };
    program("e2fsck").arg(order).arg(&image).output().expect("e2fsck runs");
    let bytes = std::fs::read(&image).unwrap();
    let image = Image { bytes };
    assert_eq!(sentences(&image.check(1)), [""; 0], "a volume without damage: {words}");
    image
}

macro_rules! volumes {
    ($(
        $(#[$doc:meta])*
        $name:ident: $words:literal, $size:literal, $more:literal, $many:literal;
    )*) => {
        impl Image {$(
            $(#[$doc])*
            pub fn $name() -> Image {
                static MADE: OnceLock<Image> = OnceLock::new();
                MADE.get_or_init(|| make($words, $size, $more, $many)).clone()
            }
        )*}
    };
}

volumes! {
    /// As ext2 was: indirect blocks, inodes of 128 bytes, no index.
    plain: "-t ext2 -b 1024 -I 128 -O ^dir_index,^resize_inode -N 64", "1M", "", 0;
    /// The same without types in entries.
    untyped: "-t ext2 -b 1024 -I 128 -O ^dir_index,^filetype,^resize_inode -N 64", "1M", "", 0;
    /// Extents, attributes, no checksums.
    modern: "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,^resize_inode -N 64", "1M",
        "cd /\nea_set d/file user.one value\nea_set -f MEDIUM d/second user.two\n", 0;
    /// Everything under checksums.
    sealed: "-t ext4 -b 1024 -O ^has_journal,metadata_csum,^resize_inode -N 64", "1M",
        "cd /\nea_set -f MEDIUM d/second user.two\n", 0;
    /// A directory with an index of one level.
    indexed: "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,^resize_inode -N 300", "2M", "", 200;
    /// The same under checksums.
    indexed_sealed: "-t ext4 -b 1024 -O ^has_journal,metadata_csum,^resize_inode -N \
        300", "2M", "", 200;
    /// Directories in their inodes.
    inline: "-t ext4 -b 1024 -I 256 -O ^has_journal,^metadata_csum,^resize_inode,inline_data -N \
        64", "1M", "", 0;
    /// Six groups, with inodes in use in each.
    grouped: "-t ext4 -b 1024 -g 1024 -O \
        ^has_journal,^metadata_csum,^resize_inode,^flex_bg,^uninit_bg -N 96", "6M", "", 70;
    /// Two groups, so that there are copies; with blocks kept for growth.
    backed: "-t ext4 -b 1024 -O \
        ^has_journal,^metadata_csum,^uninit_bg,^flex_bg,^64bit,resize_inode -N 64", "12M", "", 0;
    /// With a journal.
    journaled: "-t ext3 -b 1024 -O ^resize_inode -J size=1 -N 64", "4M", "", 0;
    /// Without the feature for large files.
    bare: "-t ext2 -b 1024 -I 128 -O ^dir_index,^resize_inode,^large_file -N 64", "1M", "", 0;
    /// A file with an indirect block.
    mapped: "-t ext2 -b 1024 -I 128 -O ^dir_index,^resize_inode -N 64", "1M",
        "cd /\nwrite SOURCE mapped\nfallocate mapped 0 39\nset_inode_field mapped size 40960\n", 0;
    /// A file with an extent tree of two levels.
    branched: "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,^resize_inode -N 64", "1M",
        "cd /\nwrite SOURCE tree\nfallocate tree 0 19\npunch tree 1 1\npunch tree 3 3\npunch tree \
         5 5\npunch tree 7 7\npunch tree 9 9\npunch tree 11 11\n", 0;
    /// The same under checksums.
    branched_sealed: "-t ext4 -b 1024 -O ^has_journal,metadata_csum,^resize_inode -N 64", "1M",
        "cd /\nwrite SOURCE tree\nfallocate tree 0 19\npunch tree 1 1\npunch tree 3 3\npunch tree \
         5 5\npunch tree 7 7\npunch tree 9 9\npunch tree 11 11\n", 0;
    /// With quotas.
    counted: "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,^resize_inode,quota -N \
        64", "1M", "", 3;
    /// With a file of orphans.
    orphaned: "-t ext4 -b 1024 -O metadata_csum,orphan_file,^resize_inode -J size=1 -N \
        64", "4M", "", 0;
    /// With a block that records mounts.
    shared: "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,^resize_inode,mmp -N 64", "1M", "", 0;
    /// Clusters of four blocks.
    clustered: "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,^resize_inode,bigalloc -C 4096 -N \
        64", "2M",
        "cd /\nwrite LARGE large\n", 0;
    /// The same, with blocks kept for growth, in two groups.
    clustered_growing: "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,bigalloc -C 2048 -N 64",
        "17M", "", 0;
    /// Six groups that keep descriptors in the first, the second and the last.
    meta: "-t ext4 -b 1024 -g 1024 -O \
        meta_bg,^has_journal,^metadata_csum,^resize_inode,^flex_bg,^uninit_bg -N 96", "6M", "", 0;
    /// Large values in inodes of their own.
    values: "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,^resize_inode,ea_inode -N 64", "1M",
        "cd /\nea_set -f LARGE d/file user.large\n", 0;
    /// A directory whose names know no case and are text.
    folded: "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,^resize_inode,casefold -E \
        encoding=utf8,encoding_flags=strict,hash_seed=01234567-89ab-cdef-0123-456789abcdef -N 64",
        "1M", "cd /\nmkdir folded\nset_inode_field folded flags 0x40080000\nwrite SOURCE \
         folded/name\n", 0;
    /// A directory with a long name, to be encrypted.
    encrypted: "-t ext4 -b 1024 -I 256 -O ^has_journal,^metadata_csum,^resize_inode,encrypt -N \
        64", "1M",
        "cd /\nmkdir secret\nwrite SOURCE secret/0123456789abcdef\n", 0;
}

impl Image {
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::new(MemoryDevice::from_bytes(RealClock::new(), &self.bytes))
    }

    pub fn check(&self, threads: u32) -> CheckReport {
        let threads = NonZeroU32::new(threads).unwrap();
        let options = CheckOptions { threads, ..CheckOptions::default() };
        check(self.device(), &options).expect("memory does not fail")
    }

    /// The exit code of `e2fsck -fn`.
    pub fn e2fsck(&self) -> i32 {
        let folder = Scratch::new("judge");
        let path = folder.join("image");
        std::fs::write(&path, &self.bytes).unwrap();
        let output = program("e2fsck").arg("-fn").arg(&path).output().expect("e2fsck runs");
        output.status.code().unwrap_or(i32::MAX)
    }

    pub fn volume(&self) -> Volume {
        Volume::open(self.device(), SuperblockPlace::Primary).expect("it has a superblock")
    }

    pub fn superblock(&self) -> Superblock {
        self.volume().superblock().clone()
    }

    pub fn block_size(&self) -> usize {
        self.superblock().block_size() as usize
    }

    pub fn get32(&self, at: usize) -> u32 {
        u32::from_le_bytes(*self.bytes[at..].first_chunk().unwrap())
    }

    pub fn get16(&self, at: usize) -> u16 {
        u16::from_le_bytes(*self.bytes[at..].first_chunk().unwrap())
    }

    pub fn put32(&mut self, at: usize, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    pub fn put16(&mut self, at: usize, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    pub fn put8(&mut self, at: usize, value: u8) {
        self.bytes[at] = value;
    }

    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The byte where the descriptor of a group begins; groups may keep theirs (meta_bg).
    pub fn descriptor(&self, group: u32) -> usize {
        let superblock = self.superblock();
        let (block_size, size) = (self.block_size(), usize::from(superblock.descriptor_size));
        let per_block = (block_size / size) as u32;
        let index = group / per_block;
        let is_kept = superblock.has(Feature::META_BG) && index >= self.get32(1024 + 0x104);
        let block = match GroupNo(index * per_block) {
            first if is_kept && first.0 > 0 => {
                superblock.group_start(first).0 + u64::from(superblock.has_super(first))
            }
            _ if is_kept => superblock.primary_block().0 + 1,
            _ => superblock.primary_block().0 + 1 + u64::from(index),
        };
        block as usize * block_size + (group % per_block) as usize * size
    }

    /// The byte where an inode begins.
    pub fn inode(&self, ino: u32) -> usize {
        let volume = self.volume();
        let superblock = volume.superblock();
        let (group, _) = superblock.group_of_inode(Ino(ino)).unwrap();
        let descriptor = volume.descriptor(group).unwrap();
        let (block, offset) = superblock.inode_place(Ino(ino), &descriptor).unwrap();
        block.0 as usize * self.block_size() + offset
    }

    /// The byte where an inode of that name begins.
    pub fn inode_of(&self, path: &str) -> usize {
        self.inode(self.find(path))
    }

    /// The byte where a block of a file begins.
    pub fn block_of(&self, ino: u32, file_block: u64) -> usize {
        let volume = self.volume();
        let mut found = None;
        walk(&volume, &volume.inode(Ino(ino)).unwrap(), &mut Claimed::default(), &mut |visit| {
            if let Visit::Run { file_block: first, run, .. } = visit {
                let within = file_block.wrapping_sub(first);
                if within < u64::from(run.length) {
                    found = Some(run.start.0 + within);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        found.expect("the file has the block") as usize * self.block_size()
    }

    fn style(&self) -> Style {
        let superblock = self.superblock();
        Style {
            block_size: superblock.block_size(),
            typed: superblock.has(Feature::FILETYPE),
            checksummed: superblock.has(Feature::METADATA_CSUM),
        }
    }

    /// The number and the byte of the entry of a name.
    fn look_up(&self, directory: u32, name: &str) -> (u32, usize) {
        let blocks = self.volume().inode(Ino(directory)).unwrap().size / self.block_size() as u64;
        for file_block in 0..blocks {
            let start = self.block_of(directory, file_block);
            let block = &self.bytes[start..start + self.block_size()];
            if let Some(entry) = self.style().find(block, name.as_bytes()).unwrap() {
                return (entry.ino.0, start + entry.offset);
            }
        }
        panic!("there is no {name} in directory {directory}");
    }

    /// The number of the inode of a name.
    pub fn find(&self, path: &str) -> u32 {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.fold(2, |directory, name| self.look_up(directory, name).0)
    }

    /// The byte where the entry of a name begins.
    pub fn entry(&self, path: &str) -> usize {
        let (directory, name) = path.rsplit_once('/').unwrap();
        self.look_up(self.find(directory), name).1
    }

    /// The inode that is the value of a file's first attribute, which is in its inode.
    pub fn value_inode(&self, path: &str) -> u32 {
        let at = self.inode_of(path);
        let list = at + 128 + usize::from(self.get16(at + 128)) + 4;
        self.get32(list + 4)
    }

    /// The byte where an attribute block begins.
    pub fn attribute_block(&self, path: &str) -> usize {
        let inode = self.volume().inode(Ino(self.find(path))).unwrap();
        inode.attribute_block.0 as usize * self.block_size()
    }

    /// Stores the checksum of an inode anew.
    pub fn seal_inode(&mut self, ino: u32) {
        let (superblock, at) = (self.superblock(), self.inode(ino));
        let size = usize::from(superblock.inode_size);
        let bytes = &mut self.bytes[at..at + size];
        // Reading and writing keeps everything but the checksum.
        let inode = Inode::decode(bytes, &superblock);
        inode.encode(bytes, Ino(ino), &superblock);
    }

    /// Stores the checksum of the superblock anew.
    pub fn seal_superblock(&mut self) {
        let sum = crc32c(!0, &self.bytes[1024..1024 + 0x3fc]);
        self.put32(1024 + 0x3fc, sum);
    }

    /// Stores the checksum of a descriptor anew; it is in the block after the superblock.
    pub fn seal_descriptor(&mut self, group: u32) {
        let superblock = self.superblock();
        let size = usize::from(superblock.descriptor_size);
        let at = 2048 + group as usize * size;
        let bytes = &mut self.bytes[at..at + size];
        let descriptor = GroupDescriptor::decode(bytes, &superblock);
        descriptor.encode(bytes, GroupNo(group), &superblock);
    }

    /// Stores the checksum of a directory block anew; a block of an index only where limit and
    /// count are possible.
    pub fn seal_directory(&mut self, ino: u32, file_block: u32, indexed: bool) {
        let superblock = self.superblock();
        let generation = self.volume().inode(Ino(ino)).unwrap().generation;
        let seed = inode_seed(superblock.checksum_seed, Ino(ino), generation);
        let (style, at) = (self.style(), self.block_of(ino, file_block.into()));
        let block_size = self.block_size();
        let form = if indexed { Form::Indexed } else { Form::Linear };
        style.seal(&mut self.bytes[at..at + block_size], FileBlock(file_block), form, seed);
    }

    /// Stores the checksum of an attribute block anew.
    pub fn seal_attributes(&mut self, at: usize) {
        let (superblock, block_size) = (self.superblock(), self.block_size());
        let block = BlockNo((at / block_size) as u64);
        attribute::seal_block(&mut self.bytes[at..at + block_size], block, &superblock);
    }
}
