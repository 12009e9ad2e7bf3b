//! Every feature word and every option of mke2fs 1.47 that changes what is on the disk.
//!
//! Not here: `read-only`, `shared_blocks` and `-E revision`, which mke2fs refuses; `^sparse_super`
//! and `^extent` come with what they need; `-E offset` and `-O journal_dev` make no volume at the
//! start of a file.
use extant_testkit::command::{output, program, run};
use std::fs;
use std::path::Path;

/// A volume as mke2fs is asked for it.
pub struct Row {
    pub words: &'static str,
    pub size: &'static str,
}

const fn row(words: &'static str, size: &'static str) -> Row {
    Row { words, size }
}

/// A volume of 16 MiB.
pub const fn single(words: &'static str) -> Row {
    row(words, "16M")
}

impl Row {
    /// Makes the volume, with the tree of a folder where one is given.
    pub fn make(&self, image: &Path, source: Option<&Path>) -> Result<(), String> {
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F"]).args(self.words.split(' '));
        if let Some(source) = source {
            mke2fs.arg("-d").arg(source);
        }
        if self.words.contains("-l ") {
            let list = image.with_file_name("bad-blocks");
            fs::write(&list, "9000\n9001\n12345\n").map_err(|error| error.to_string())?;
            mke2fs.current_dir(image.parent().unwrap_or(Path::new("/")));
        }
        output(mke2fs.arg(image).arg(self.size)).map(|_| ())
    }

    /// Bytes of a block, as the words have it.
    pub fn block_bytes(&self) -> usize {
        let word = self.words.split("-b ").nth(1).and_then(|rest| rest.split(' ').next());
        word.and_then(|word| word.parse().ok()).unwrap_or(1024)
    }
}

/// Each feature and each option alone.
pub const SINGLE: &[Row] = &[
    single("-t ext2"),
    single("-t ext3"),
    single("-t ext4"),
    single("-t ext4 -O ^has_journal"),
    single("-t ext4 -O ^ext_attr"),
    single("-t ext4 -O ^dir_index"),
    single("-t ext4 -O ^filetype"),
    single("-b 1024 -t ext4 -g 2048 -O ^sparse_super,^resize_inode"),
    row("-t ext4 -O sparse_super2", "200M"),
    row("-t ext2 -b 4096 -O sparse_super2", "200M"),
    single("-b 1024 -t ext4 -O sparse_super2 -E num_backup_sb=0"),
    single("-b 1024 -t ext4 -O sparse_super2 -E num_backup_sb=1"),
    single("-b 1024 -t ext4 -g 2048 -O sparse_super2,^resize_inode"),
    single("-b 1024 -t ext4 -g 2048 -O sparse_super2,^resize_inode -E num_backup_sb=0"),
    single("-b 1024 -t ext4 -g 2048 -O sparse_super2,^resize_inode -E num_backup_sb=1"),
    single("-t ext4 -O ^large_file"),
    single("-t ext4 -O ^huge_file"),
    single("-t ext4 -O ^metadata_csum"),
    single("-t ext4 -O ^metadata_csum,uninit_bg"),
    single("-t ext4 -O metadata_csum_seed"),
    single("-t ext4 -O ^64bit"),
    single("-t ext4 -O ^flex_bg"),
    single("-t ext4 -O ^extent,^64bit"),
    single("-t ext4 -O bigalloc"),
    row("-t ext4 -b 1024 -O bigalloc -C 2048", "32M"),
    row("-t ext4 -b 1024 -O bigalloc -C 16384", "32M"),
    row("-t ext4 -b 4096 -O bigalloc -C 65536", "64M"),
    single("-t ext4 -O inline_data"),
    single("-t ext4 -O ea_inode"),
    single("-t ext4 -O encrypt"),
    single("-t ext4 -O verity"),
    single("-t ext4 -O casefold"),
    single("-t ext4 -E encoding=utf8,encoding_flags=strict"),
    single("-t ext4 -O quota"),
    single("-t ext4 -O quota -E quotatype=usrquota"),
    single("-t ext4 -O quota -E quotatype=grpquota"),
    single("-t ext4 -O quota,project -E quotatype=usrquota:grpquota:prjquota"),
    single("-t ext4 -O project"),
    single("-t ext4 -O mmp"),
    single("-t ext4 -O mmp -E mmp_update_interval=3"),
    single("-t ext4 -O large_dir"),
    single("-t ext4 -b 1024 -g 1024 -O meta_bg,^resize_inode"),
    single("-t ext4 -O ^resize_inode"),
    single("-t ext4 -b 1024 -E resize=1000000"),
    single("-t ext4 -O stable_inodes"),
    single("-t ext4 -O fast_commit"),
    row("-t ext4 -O fast_commit -J size=8,fast_commit_size=512", "32M"),
    single("-t ext4 -O orphan_file"),
    single("-t ext4 -O orphan_file -E orphan_file_size=100k"),
    single("-t ext4 -O ^dir_nlink"),
    single("-t ext4 -O ^extra_isize"),
    single("-t ext4 -b 2048"),
    single("-t ext4 -b 4096"),
    row("-t ext4 -b 65536", "64M"),
    single("-t ext4 -I 128"),
    single("-t ext4 -I 512"),
    single("-t ext4 -I 1024"),
    single("-t ext2 -b 1024 -I 1024"),
    single("-t ext4 -b 1024 -G 4 -g 1024"),
    single("-t ext4 -N 5000"),
    single("-t ext4 -i 2048"),
    single("-t ext4 -E lazy_itable_init=1"),
    single("-t ext4 -E lazy_itable_init=0,lazy_journal_init=1"),
    single("-t ext4 -E packed_meta_blocks=1"),
    single("-t ext4 -E stride=4,stripe_width=8"),
    single("-t ext4 -E root_owner=7:8"),
    single("-t ext4 -E nodiscard,assume_storage_prezeroed=1"),
    single("-t ext4 -E test_fs"),
    single("-t ext2 -r 0"),
    single("-t ext2 -o hurd"),
    single("-t ext4 -T hurd"),
    single("-t ext4 -T news"),
    single("-t ext4 -m 0"),
    single("-t ext4 -b 1024 -l bad-blocks"),
    row("-t ext4 -b 1024 -J size=2,location=9000", "32M"),
];

/// Combinations of what meets on the disk.
pub const SEVERAL: &[Row] = &[
    single("-t ext4 -b 2048 -I 512 -O quota,inline_data,ea_inode"),
    row("-t ext4 -b 1024 -O bigalloc,meta_bg,^resize_inode -C 8192", "64M"),
    single("-t ext4 -b 1024 -O quota,project,orphan_file,ea_inode"),
    row("-t ext4 -b 1024 -O quota,orphan_file,ea_inode,bigalloc -C 8192", "32M"),
    row("-t ext4 -b 1024 -O bigalloc,ea_inode,inline_data -C 16384", "32M"),
    single("-t ext4 -b 1024 -g 1024 -O mmp,meta_bg,^resize_inode"),
    single("-t ext4 -b 1024 -O mmp,inline_data,sparse_super2,metadata_csum_seed,^resize_inode"),
    single("-t ext4 -O casefold,encrypt,quota,large_dir"),
    single("-t ext4 -b 4096 -O quota,orphan_file,mmp,fast_commit"),
    single("-t ext4 -O ^metadata_csum,uninit_bg,ea_inode,quota"),
    single("-t ext4 -O ^extent,^64bit,ea_inode,quota"),
    single("-t ext4 -O ^flex_bg,^metadata_csum,inline_data"),
    single("-t ext4 -O verity,stable_inodes,encrypt,quota"),
    row("-t ext4 -b 4096 -I 4096 -N 1000 -O inline_data,ea_inode", "64M"),
    row("-t ext4 -b 1024 -O bigalloc,mmp,^flex_bg,^has_journal -C 4096", "32M"),
    row("-t ext4 -b 65536 -O inline_data,ea_inode,quota,orphan_file", "128M"),
    row("-t ext4 -b 1024 -O bigalloc -E packed_meta_blocks=1,resize=200000", "32M"),
    single("-t ext4 -E encoding=utf8,encoding_flags=strict -O inline_data,quota"),
    single("-t ext4 -b 1024 -O ^dir_index,inline_data,large_dir"),
];

/// Volumes that other tools change.
pub const CHANGED: &[Row] = &[
    single("-t ext4 -b 1024"),
    single("-t ext3 -b 1024 -I 128"),
    single("-t ext4 -b 1024 -O ^metadata_csum,^64bit,uninit_bg -I 128"),
    row("-t ext4 -b 1024 -O bigalloc,ea_inode,inline_data,orphan_file", "32M"),
    row("-t ext4 -b 4096 -O quota,mmp", "64M"),
];

/// What another tool is asked for.
pub struct Change {
    program: &'static str,
    words: &'static str,
    /// After the path.
    last: &'static str,
}

impl Change {
    /// As it was typed.
    pub fn name(&self) -> String {
        let words = [self.program, self.words, self.last];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Changes the volume; false where the tool refuses.
    pub fn make(&self, image: &Path) -> bool {
        // tune2fs and resize2fs want it checked.
        let _ = run("e2fsck", &["-fy".as_ref(), image.as_os_str()]);
        let mut command = program(self.program);
        command.args(self.words.split(' ').filter(|word| !word.is_empty())).arg(image);
        command.args(self.last.split(' ').filter(|word| !word.is_empty()));
        command.output().is_ok_and(|output| output.status.success())
    }
}

const fn tune(words: &'static str) -> Change {
    Change { program: "tune2fs", words, last: "" }
}

const fn resize(words: &'static str, last: &'static str) -> Change {
    Change { program: "resize2fs", words, last }
}

/// Changes of the features, the identity and the size.
pub const CHANGES: &[Change] = &[
    tune("-U random"),
    tune("-O quota"),
    tune("-Q usrquota,prjquota"),
    tune("-O ^has_journal"),
    tune("-O ^metadata_csum"),
    tune("-O metadata_csum"),
    tune("-O metadata_csum_seed"),
    tune("-O orphan_file"),
    tune("-O mmp"),
    tune("-O ^resize_inode"),
    tune("-I 256"),
    resize("", "40M"),
    resize("-M", ""),
    resize("-b", ""),
    resize("-s", ""),
    Change { program: "e2label", words: "", last: "name" },
];
