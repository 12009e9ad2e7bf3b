//! The volumes that are damaged: one for each feature that mke2fs 1.47 gives, filled by `mke2fs -d`
//! and debugfs, and set in order by e2fsck, which writes indexes and quota trees. The kernel writes
//! none of them. They are kept under `target/damage`.
use crate::damage::harness::Image;
use extant_testkit::command::{output, program};
use extant_testkit::repository;
use extant_testkit::scratch::Scratch;
use std::fs;
use std::io;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

/// Changes with what is put on the volumes: older ones are made again.
const VERSION: u32 = 2;
const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

/// A volume as mke2fs is asked for it.
pub struct Base {
    pub name: &'static str,
    words: &'static str,
    size: &'static str,
}

const fn base(name: &'static str, words: &'static str, size: &'static str) -> Base {
    Base { name, words, size }
}

/// All of them: neighbours differ, so that the first ones alone say much.
pub const BASES: &[Base] = &[
    base("sealed", "-t ext4 -b 1024 -J size=1", "6M"),
    base("plain", "-t ext2 -b 1024 -I 128 -O ^resize_inode", "4M"),
    base("inline", "-t ext4 -b 1024 -O inline_data,^has_journal", "4M"),
    base(
        "quota",
        "-t ext4 -b 1024 -O quota,project,^has_journal -E quotatype=usrquota:\
        grpquota:prjquota",
        "4M",
    ),
    base("meta", "-t ext4 -b 1024 -g 1024 -O meta_bg,^resize_inode,^has_journal", "6M"),
    base("values", "-t ext4 -b 1024 -O ea_inode,^metadata_csum,^has_journal", "4M"),
    base("clusters", "-t ext4 -b 1024 -C 4096 -O bigalloc,^has_journal", "6M"),
    base("orphans", "-t ext4 -b 1024 -O orphan_file -J size=1", "6M"),
    base("secret", "-t ext4 -b 1024 -O encrypt,^metadata_csum,^has_journal", "4M"),
    base(
        "folded",
        "-t ext4 -b 1024 -O casefold,^has_journal -E encoding=utf8,\
        encoding_flags=strict",
        "4M",
    ),
    base("two-copies", "-t ext4 -b 1024 -g 2048 -O sparse_super2,^resize_inode,^has_journal", "8M"),
    base("growing", "-t ext4 -b 1024 -g 2048 -O ^has_journal,^metadata_csum,uninit_bg", "8M"),
    base("ext3", "-t ext3 -b 1024 -J size=1", "6M"),
    base("revision-0", "-t ext2 -b 1024 -r 0 -g 1024", "4M"),
    base("mounts", "-t ext4 -b 1024 -O mmp,^has_journal", "4M"),
    base("unsealed", "-t ext4 -b 1024 -O ^metadata_csum,^has_journal,^resize_inode", "4M"),
    base("large-directories", "-t ext4 -b 1024 -O large_dir,^has_journal", "4M"),
    base("narrow", "-t ext4 -b 1024 -O ^64bit,^has_journal,^flex_bg -g 2048", "8M"),
    base(
        "inline-values",
        "-t ext4 -b 2048 -I 512 -O quota,inline_data,ea_inode,^has_journal",
        "6M",
    ),
    base("wide-blocks", "-t ext4 -b 4096 -O ^has_journal -N 512", "8M"),
    base("untyped", "-t ext2 -b 1024 -O ^filetype,^resize_inode -I 128", "4M"),
    base("mapped", "-t ext4 -b 1024 -O ^extent,^64bit,^has_journal", "4M"),
    base("seeded", "-t ext4 -b 1024 -O metadata_csum_seed,^has_journal", "4M"),
    base("fast", "-t ext4 -b 1024 -O fast_commit -J size=2,fast_commit_size=512", "8M"),
    base("small-inodes", "-t ext4 -b 1024 -I 128 -O ^has_journal", "4M"),
    base("all-copies", "-t ext2 -b 1024 -g 1024 -O ^sparse_super,^resize_inode", "6M"),
    base("hurd", "-t ext2 -b 1024 -o hurd -O ^resize_inode", "4M"),
    base("stable", "-t ext4 -b 1024 -O stable_inodes,verity,encrypt,quota,^has_journal", "4M"),
    base(
        "meta-unsealed",
        "-t ext4 -b 1024 -g 1024 -O meta_bg,^resize_inode,^has_journal,\
        ^metadata_csum,uninit_bg",
        "6M",
    ),
    base(
        "clusters-inline",
        "-t ext4 -b 1024 -C 16384 -O bigalloc,ea_inode,inline_data,\
        ^has_journal",
        "8M",
    ),
];

/// What debugfs adds: attributes of all places, ranges that are not written, devices. What a volume
/// cannot have it refuses.
const SCRIPT: &str = "\
ea_set /tree/size-1 user.small value
ea_set /tree/size-150 user.other value
ea_set /tree/size-1 trusted.name more
ea_set -f MIDDLE /tree/size-60 user.middle
ea_set -f MIDDLE /tree user.middle
ea_set -f LARGE /tree/size-61 user.large
ea_set -f LARGE /hard user.large
ea_set /many user.value directory
fallocate /tree/size-59 3 9
punch /tree/size-59 5 6
mknod null c 1 3
mknod disk b 259 70000
mknod pipe p
fallocate /branched 0 39
";

impl Base {
    /// The volume, made now where it was not made before.
    pub fn image(&self) -> Image {
        let folder = repository().join("target/damage");
        fs::create_dir_all(&folder).expect("a folder");
        let kept: PathBuf = folder.join(format!("{}-{VERSION}.img", self.name));
        if let Ok(bytes) = fs::read(&kept) {
            return Image { bytes };
        }
        let scratch = Scratch::inside(&folder, "made");
        let made = self.make(&scratch).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        fs::rename(&made, &kept).expect("both are in one folder");
        Image { bytes: fs::read(&kept).expect("it was made") }
    }

    fn make(&self, folder: &Scratch) -> Result<PathBuf, String> {
        let (image, source) = (folder.join("image"), folder.join("source"));
        populate(&source).map_err(|error| error.to_string())?;
        let mut mke2fs = program("mke2fs");
        mke2fs.env("SOURCE_DATE_EPOCH", "1000000000").args(["-q", "-F", "-U", UUID]);
        mke2fs.args(self.words.split(' ')).args(["-E", &format!("hash_seed={UUID}")]);
        if !self.words.contains("-N ") {
            mke2fs.args(["-N", "256"]);
        }
        output(mke2fs.arg("-d").arg(&source).arg(&image).arg(self.size))?;
        let mut script = SCRIPT.to_owned();
        for step in (1..38).step_by(2) {
            script.push_str(&format!("punch /branched {step} {step}\n"));
        }
        if self.words.contains("casefold") {
            script.push_str("mkdir folded\nset_inode_field folded flags 0x40080000\n");
            script.push_str("write SOURCE folded/Name\nwrite SOURCE folded/other\n");
        }
        if self.words.contains("encrypt") {
            script.push_str("mkdir secret\nset_inode_field secret flags 0x80800\n");
            script
                .push_str("ea_set -f POLICY secret user.c\nwrite SOURCE secret/0123456789abcdef\n");
            script.push_str("ea_set -f POLICY secret/0123456789abcdef user.c\n");
            script.push_str("set_inode_field secret/0123456789abcdef flags 0x80800\n");
        }
        for (word, bytes) in [
            ("SOURCE", b"some bytes\n".to_vec()),
            ("MIDDLE", vec![b'm'; 600]),
            ("LARGE", vec![b'l'; 3000]),
            ("POLICY", policy()),
        ] {
            let path = folder.join(word);
            fs::write(&path, bytes).map_err(|error| error.to_string())?;
            script = script.replace(word, &path.to_string_lossy());
        }
        let commands = folder.join("commands");
        fs::write(&commands, script).map_err(|error| error.to_string())?;
        let _ = program("debugfs").arg("-w").arg("-f").arg(&commands).arg(&image).output();
        if self.words.contains("encrypt") {
            into_policies(&image).map_err(|error| error.to_string())?;
        }
        // It exits with 1 where it has set something in order; what is left is no base.
        let mut e2fsck = program("e2fsck");
        let _ = e2fsck.env("E2FSCK_TIME", "1600000000").arg("-fyD").arg(&image).output();
        output(program("e2fsck").arg("-fn").arg(&image))?;
        Ok(image)
    }
}

/// A context of encryption: version 1, the modes of contents and names, a key and a number.
fn policy() -> Vec<u8> {
    let mut policy = vec![1, 1, 4, 3];
    policy.extend_from_slice(b"keyofall");
    policy.extend_from_slice(b"sixteen bytes ..");
    policy
}

/// debugfs knows no names of encryption contexts: `user.c` is renamed to one where it is. No
/// checksum covers it on these volumes but that of inodes, which e2fsck sets right.
fn into_policies(image: &Path) -> io::Result<()> {
    let mut bytes = fs::read(image)?;
    let value = policy();
    for at in 0..bytes.len() - 17 {
        let is_entry = bytes[at..at + 2] == [1, 1] && bytes[at + 16] == b'c';
        if at % 4 == 0 && is_entry && bytes[at + 8..at + 12] == [value.len() as u8, 0, 0, 0] {
            bytes[at + 1] = 9;
        }
    }
    fs::write(image, bytes)
}

/// Files of many sizes and kinds.
fn populate(root: &Path) -> io::Result<()> {
    let at = |name: &str| root.join(name);
    fs::create_dir_all(at("tree/of/some/depth"))?;
    fs::create_dir(at("many"))?;
    for number in 0..110 {
        let name = format!("many/a-long-name-of-one-file-among-many-{number:03}");
        fs::write(at(&name), vec![b'm'; number % 3 * 20])?;
    }
    for size in [0, 1, 59, 60, 61, 150, 1023, 1024, 1025, 20 * 1024, 300 * 1024] {
        fs::write(at(&format!("tree/size-{size}")), vec![b's'; size])?;
    }
    for length in [1, 59, 60, 61, 150, 1000] {
        symlink("t".repeat(length), at(&format!("tree/link-{length}")))?;
    }
    fs::write(at("branched"), b"content")?;
    fs::hard_link(at("tree/size-1"), at("hard"))?;
    for (number, owner) in [5, 1000, 70_000].into_iter().enumerate() {
        let path = at(&format!("owned-{number}"));
        fs::write(&path, vec![b'o'; 5000 * (number + 1)])?;
        // Anyone else makes volumes with one owner.
        let _ = chown(&path, Some(owner), Some(owner + 1));
    }
    Ok(())
}
