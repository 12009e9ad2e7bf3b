//! What is measured: the words of a shell, in the root of the mounted volume.

use std::path::Path;

use crate::command::{self, program};

/// A row of the table.
pub struct Row {
    /// For `--rows`.
    pub word: &'static str,
    /// What the table calls it.
    pub name: &'static str,
    /// At most this many times the kernel's time, or as the words say.
    pub goal: &'static str,
    /// What is on the volume in the beginning.
    pub base: Base,
    /// Whether a run leaves a volume that the next one cannot begin with.
    pub is_spoilt: bool,
    /// How the measured part begins.
    pub start: Start,
    /// The measured part.
    pub work: Work,
    /// Programs without which the row is left out.
    pub needs: &'static [&'static str],
}

/// What is on a volume before a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Base {
    /// Nothing.
    Empty,
    /// The tree of the archive.
    Tree,
    /// A file of 1 GiB.
    Large,
    /// A file of 512 MiB, twice the cache of `extant mount`.
    Random,
    /// Part of the tree in a repository of git with two branches.
    Repository,
    /// A volume of 1 TiB with nothing on it.
    Vast,
}

/// How a run begins.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// Mounted.
    Fresh,
    /// Mounted, with the host's caches empty.
    Cold,
    /// After these words.
    After(&'static str),
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Words of a shell.
    Shell(&'static str),
    /// Files made in one directory, from this process.
    Creates(u32),
}

impl Base {
    /// Its word, and that of its image.
    pub fn word(self) -> &'static str {
        match self {
            Base::Empty => "empty",
            Base::Tree => "tree",
            Base::Large => "large",
            Base::Random => "random",
            Base::Repository => "repository",
            Base::Vast => "vast",
        }
    }

    /// The words that fill it.
    pub fn words(self) -> &'static str {
        match self {
            Base::Empty | Base::Vast => "",
            Base::Tree => "mkdir tree; tar -xf \"$ARCHIVE\" -C tree",
            Base::Large => "dd if=/dev/urandom of=file bs=1M count=1024 status=none",
            Base::Random => "dd if=/dev/urandom of=file bs=1M count=512 status=none",
            Base::Repository => {
                "mkdir work; cd work
                 tar -tf \"$ARCHIVE\" | grep '[^/]$' | grep '[.][ch]$' | head -n 8000 > ../list
                 tar -xf \"$ARCHIVE\" -T ../list
                 git init -q -b one . && git config gc.auto 0
                 git add . && git commit -qm one
                 git checkout -qb two
                 head -n 2000 ../list | xargs rm -f
                 tail -n 2000 ../list | while read -r name; do echo x >> \"$name\"; done
                 git add -A . && git commit -qm two
                 git checkout -q one; git gc -q"
            }
        }
    }

    /// The words that fill a volume which keeps no data: a size is enough.
    pub fn words_of_nothing(self) -> &'static str {
        match self {
            Base::Large => "truncate -s 1G file",
            Base::Random => "truncate -s 512M file",
            _ => self.words(),
        }
    }

    /// Makes the image, with an empty file system.
    ///
    /// # Errors
    /// There is no room, or mke2fs fails.
    pub fn make(self, path: &Path) -> Result<(), String> {
        const GIB: u64 = 1 << 30;
        let bytes = match self {
            Base::Empty | Base::Tree => 3 * GIB,
            Base::Large | Base::Repository => 2 * GIB,
            Base::Random => GIB,
            Base::Vast => 1024 * GIB,
        };
        allocate(path, if self == Base::Vast { 0 } else { bytes })
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-J", "size=64"]);
        match self {
            Base::Vast => mke2fs.args(["-E", "nodiscard,lazy_itable_init=1"]),
            _ => {
                let options = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
                mke2fs.args(["-i", "8192", "-E", options])
            }
        };
        command::output(mke2fs.arg(path).arg(format!("{}K", bytes >> 10))).map(|_| ())
    }
}

/// Has the host allocate and write the whole image, once: no run pays for that.
fn allocate(path: &Path, bytes: u64) -> std::io::Result<()> {
    if path.metadata().is_ok_and(|metadata| metadata.len() == bytes) && bytes > 0 {
        return Ok(());
    }
    let (file, zeros) = (std::fs::File::create(path)?, vec![0; 1 << 20]);
    for _ in 0..bytes >> 20 {
        std::io::Write::write_all(&mut &file, &zeros)?;
    }
    file.sync_all()
}

const fn row(
    word: &'static str,
    name: &'static str,
    goal: &'static str,
    base: Base,
    work: &'static str,
) -> Row {
    let work = Work::Shell(work);
    Row { word, name, goal, base, is_spoilt: false, start: Start::Fresh, work, needs: &[] }
}

const fn spoiling(row: Row) -> Row {
    Row { is_spoilt: true, ..row }
}

const fn cold(row: Row) -> Row {
    Row { start: Start::Cold, ..row }
}

const fn after(words: &'static str, row: Row) -> Row {
    Row { start: Start::After(words), ..row }
}

const fn needing(needs: &'static [&'static str], row: Row) -> Row {
    Row { needs, ..row }
}

/// Random access by fio: 4 KiB at a time, in a file twice the cache.
macro_rules! random {
    ($word:literal, $name:literal, $rw:literal, $direct:literal, $jobs:literal, $bytes:literal) => {
        needing(
            &["fio"],
            cold(row(
                $word,
                $name,
                "1.43",
                Base::Random,
                concat!(
                    "fio --name=x --filename=file --size=512M --bs=4k --ioengine=psync ",
                    "--fallocate=none --end_fsync=1 --rw=",
                    $rw,
                    " --direct=",
                    $direct,
                    " --numjobs=",
                    $jobs,
                    " --io_size=",
                    $bytes,
                    " > /dev/null"
                ),
            )),
        )
    };
}

/// The rows, in the order of the table.
pub const ROWS: &[Row] = &[
    spoiling(row("untar", "untar of the tree", "1.5", Base::Empty, "tar -xf \"$ARCHIVE\"")),
    cold(row(
        "find",
        "find and stat of all, cold",
        "1.0",
        Base::Tree,
        "find . -printf '%s %T@\\n' > /dev/null",
    )),
    cold(row("tar", "tar of all, cold", "1.0", Base::Tree, "tar -cf - . | cat > /dev/null")),
    spoiling(row("rm", "rm -r", "1.3 of null", Base::Tree, "rm -r tree")),
    Row {
        work: Work::Creates(20_000),
        ..spoiling(row("create", "20,000 creates", "2, or 1.4 of null", Base::Empty, ""))
    },
    spoiling(row(
        "write",
        "write 1 GiB, 128 KiB",
        "1.11",
        Base::Empty,
        "dd if=/dev/zero of=file bs=128k count=8192 status=none",
    )),
    cold(row(
        "read",
        "read 1 GiB cold, 128 KiB",
        "1.11",
        Base::Large,
        "dd if=file of=/dev/null bs=128k status=none",
    )),
    after(
        "cat file > /dev/null",
        row(
            "again",
            "read 1 GiB again, 128 KiB, 4 times",
            "1.43",
            Base::Large,
            "for round in 1 2 3 4; do dd if=file of=/dev/null bs=128k status=none; done",
        ),
    ),
    random!("randread-direct-1", "random read, direct", "randread", "1", "1", "64M"),
    random!("randread-direct-8", "random read, direct, 8 jobs", "randread", "1", "8", "16M"),
    random!("randread-buffered-1", "random read", "randread", "0", "1", "64M"),
    random!("randread-buffered-8", "random read, 8 jobs", "randread", "0", "8", "16M"),
    random!("randwrite-direct-1", "random write, direct", "randwrite", "1", "1", "64M"),
    random!("randwrite-direct-8", "random write, direct, 8 jobs", "randwrite", "1", "8", "16M"),
    random!("randwrite-buffered-1", "random write", "randwrite", "0", "1", "256M"),
    random!("randwrite-buffered-8", "random write, 8 jobs", "randwrite", "0", "8", "32M"),
    needing(
        &["fio"],
        spoiling(row(
            "fsync",
            "fsync after each 4 KiB, 2,000 times",
            "1.25",
            Base::Empty,
            "fio --name=x --filename=file --size=8000k --bs=4k --ioengine=psync \
             --fallocate=none --rw=write --fsync=1 > /dev/null",
        )),
    ),
    needing(
        &["git"],
        after(
            "cd work; git status > /dev/null",
            row(
                "git-status",
                "git status, 5 times",
                "1.3",
                Base::Repository,
                "cd work; for round in 1 2 3 4 5; do git status --porcelain > /dev/null; done",
            ),
        ),
    ),
    needing(
        &["git"],
        after(
            "cd work; git status > /dev/null",
            row(
                "git-checkout",
                "git checkout, there and back",
                "1.3",
                Base::Repository,
                "cd work; git checkout -q two; git checkout -q one",
            ),
        ),
    ),
    needing(
        &["sqlite3"],
        spoiling(row(
            "sqlite-wal",
            "sqlite, 1,000 transactions, WAL",
            "1.3",
            Base::Empty,
            "{ echo 'PRAGMA journal_mode=WAL; CREATE TABLE t(a INTEGER PRIMARY KEY, b);'
               seq 1000 | sed 's/.*/INSERT INTO t VALUES(&, randomblob(200));/'
             } | sqlite3 data.db > /dev/null",
        )),
    ),
    needing(
        &["sqlite3"],
        spoiling(row(
            "sqlite-rollback",
            "sqlite, 500 transactions, rollback",
            "1.3",
            Base::Empty,
            "{ echo 'PRAGMA journal_mode=DELETE; CREATE TABLE t(a INTEGER PRIMARY KEY, b);'
               seq 500 | sed 's/.*/INSERT INTO t VALUES(&, randomblob(200));/'
             } | sqlite3 data.db > /dev/null",
        )),
    ),
    needing(
        &["gcc", "make"],
        spoiling(row(
            "build",
            "a C build, 60 files, make -j2",
            "1.3",
            Base::Empty,
            "for number in $(seq 60); do
                 printf '#include <stdio.h>\\n#include <stdlib.h>\\nint f%s(int x) \
                 { return printf(\"%%d\", x) + rand(); }\\n' $number > f$number.c
             done
             echo 'int main(void) { return 0; }' > main.c
             printf 'all: program\\nprogram: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n\\t\
             gcc -o $@ $^\\n%%.o: %%.c\\n\\tgcc -O1 -c -o $@ $<\\n' > Makefile
             make -s -j2",
        )),
    ),
    row("mount", "mount of 1 TiB, until it lists its root", "50 ms", Base::Vast, ""),
];
