//! Fast commits: what an operation left in the journal is there after recovery, as it was in the
//! volume before.
use crate::recovery::kernel::{Left, Shutdown, Wish, is_possible, judge, leave};
use crate::recovery::{copy_recovered, recover_by_writing};
use crate::volume::Random;
use extant_engine::Orphans;
use extant_testkit::command::{self, program};
use extant_testkit::oracle::{Access, mount_loop};
use extant_testkit::variables::number;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};

const PLAIN: Wish = Wish { features: "fast_commit", block_size: 1024 };

/// Others that replay the fast commits of an operation right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Agrees {
    /// The kernel's own mount and `e2fsck`.
    Both,
    /// The kernel alone: `e2fsck` 1.47 leaves what lost its last name in lost+found.
    Kernel,
    /// Neither: Linux 6.18 miscounts links and directories, or does not mount the volume at all.
    Neither,
}

type Row = (&'static str, Agrees, fn(&Path) -> Vec<File>);

const ROWS: &[Row] = &[
    ("mode and owner", Agrees::Both, |root| {
        fs::set_permissions(root.join("old0"), fs::Permissions::from_mode(0o600)).unwrap();
        lchown(root.join("old0"), Some(5), Some(6)).unwrap();
        sync(root, "old0");
        Vec::new()
    }),
    ("new files", Agrees::Both, |root| {
        for name in ["d/new0", "d/new1", "d/new2"] {
            fs::write(root.join(name), b"hello".repeat(3000)).unwrap();
            sync(root, name);
        }
        Vec::new()
    }),
    ("a number that is used again", Agrees::Both, |root| {
        for name in ["x", "y"] {
            fs::write(root.join(name), name.repeat(9000)).unwrap();
            sync(root, name);
            if name == "x" {
                fs::remove_file(root.join(name)).unwrap();
                touch(root);
            }
        }
        Vec::new()
    }),
    ("link", Agrees::Both, |root| {
        fs::hard_link(root.join("old0"), root.join("d/hard")).unwrap();
        sync(root, "old0");
        Vec::new()
    }),
    ("rename", Agrees::Both, |root| {
        fs::rename(root.join("old3"), root.join("d/renamed")).unwrap();
        sync(root, "d/renamed");
        Vec::new()
    }),
    ("shorter", Agrees::Both, |root| {
        OpenOptions::new().write(true).open(root.join("old2")).unwrap().set_len(5000).unwrap();
        sync(root, "old2");
        Vec::new()
    }),
    ("holes and new blocks", Agrees::Both, |root| {
        let words = ["-p", "-o", "4096", "-l", "8192"];
        command::output(program("fallocate").args(words).arg(root.join("old0"))).unwrap();
        sync(root, "old0");
        command::output(program("fallocate").args(["-l", "100000"]).arg(root.join("old1")))
            .unwrap();
        sync(root, "old1");
        Vec::new()
    }),
    ("unlink", Agrees::Kernel, |root| {
        fs::remove_file(root.join("old1")).unwrap();
        touch(root);
        Vec::new()
    }),
    ("rename over", Agrees::Kernel, |root| {
        fs::rename(root.join("old3"), root.join("old0")).unwrap();
        sync(root, "old0");
        Vec::new()
    }),
    ("rmdir", Agrees::Neither, |root| {
        fs::remove_dir(root.join("d/empty")).unwrap();
        touch(root);
        Vec::new()
    }),
    ("mkdir", Agrees::Neither, |root| {
        fs::create_dir_all(root.join("d/sub/deeper/still")).unwrap();
        fs::write(root.join("d/sub/f"), [7; 5000]).unwrap();
        sync(root, "d/sub/f");
        fs::remove_dir(root.join("d/sub/deeper/still")).unwrap();
        touch(root);
        Vec::new()
    }),
    ("unlinked and open", Agrees::Neither, |root| {
        let mut held = OpenOptions::new().write(true).open(root.join("old1")).unwrap();
        fs::remove_file(root.join("old1")).unwrap();
        held.write_all(&[9; 30_000]).unwrap();
        held.sync_all().unwrap();
        touch(root);
        vec![held]
    }),
];

/// What every volume holds before the operation, with a full commit after it and a fast one, so
/// that the next may be fast too.
fn prepare(root: &Path) {
    fs::create_dir_all(root.join("d/empty")).unwrap();
    for at in 0..4 {
        fs::write(root.join(format!("old{at}")), vec![at as u8 + 1; 20_000]).unwrap();
    }
    extant_testkit::oracle::sync(root);
    touch(root);
    extant_testkit::oracle::sync(root);
}

fn sync(root: &Path, name: &str) {
    File::open(root.join(name)).unwrap().sync_all().unwrap();
}

/// Writes and syncs a file, and with it what was done before.
fn touch(root: &Path) {
    let mut file = OpenOptions::new().create(true).append(true).open(root.join("t")).unwrap();
    file.write_all(b"t").unwrap();
    file.sync_all().unwrap();
}

/// Recovers a volume in both ways, and compares what it holds then with what it held before.
fn judge_both(left: &Left, what: &str) {
    let read = left.beside("read.img");
    copy_recovered(&left.image, &read, Orphans::Finish)
        .unwrap_or_else(|why| panic!("{what}: {why}"));
    let written = left.copy("written.img");
    recover_by_writing(&written).unwrap_or_else(|why| panic!("{what}: {why}"));
    for image in [&read, &written] {
        judge(image, what);
        assert_eq!(left.differences(image), Vec::<String>::new(), "{what}: {}", image.display());
    }
}

#[test]
fn each_operation_is_there_after_recovery_as_it_was_before() {
    if !is_possible() {
        return;
    }
    for (what, agrees, load) in ROWS.iter().step_by(number("EXTANT_CASES") as usize) {
        let made = (0..10).map(|_| {
            leave(PLAIN, Shutdown::AtOnce, |root| {
                prepare(root);
                load(root)
            })
        });
        let left = made.into_iter().find(Left::is_fast);
        let left = left.unwrap_or_else(|| panic!("{what}: it is in no fast commit"));
        judge_both(&left, what);
        if *agrees != Agrees::Neither {
            let kernel = left.copy("kernel.img");
            match mount_loop(&kernel, Access::ReadWrite, "") {
                Ok(mounted) => {
                    mounted.unmount().expect("it is unmounted");
                    let differences = left.differences(&kernel);
                    assert_eq!(differences, Vec::<String>::new(), "{what}: the kernel");
                }
                // Linux 6.18 cannot always replay its own.
                Err(said) => eprintln!("{what}: the kernel refuses its fast commits: {said}"),
            }
        }
        if *agrees == Agrees::Both {
            let peer = left.copy("e2fsck.img");
            for words in [["-fy", "-E", "journal_only"].as_slice(), &["-fp"]] {
                let _ = program("e2fsck").args(words).arg(&peer).output();
            }
            assert_eq!(left.differences(&peer), Vec::<String>::new(), "{what}: e2fsck");
        }
    }
}

/// A life of operations, each of which may be in a fast commit. The last of them is.
struct Life {
    random: Random,
    root: PathBuf,
    directories: Vec<String>,
    files: Vec<String>,
    held: Vec<File>,
}

impl Life {
    fn directory(&mut self) -> String {
        self.random.pick(&self.directories).clone()
    }

    fn file(&mut self) -> Option<String> {
        (!self.files.is_empty()).then(|| self.random.pick(&self.files).clone())
    }

    fn write(&mut self, name: &str) {
        let mut bytes = vec![0; self.random.below(40_000) as usize + 1];
        self.random.fill(&mut bytes);
        let mut file = OpenOptions::new().write(true).open(self.root.join(name)).unwrap();
        file.seek(SeekFrom::Start(self.random.below(100_000))).unwrap();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
    }

    fn step(&mut self, number: u64) -> Option<()> {
        let root = self.root.clone();
        match self.random.below(9) {
            0 | 1 => {
                let name = format!("{}/n{number}", self.directory());
                File::create(root.join(&name)).unwrap();
                if !self.random.one_in(3) {
                    self.write(&name);
                }
                self.files.push(name);
            }
            2 => {
                let name = self.file()?;
                self.write(&name);
            }
            3 => {
                let at = self.random.below(self.files.len() as u64 + 1) as usize;
                let name = (at < self.files.len()).then(|| self.files.swap_remove(at))?;
                if self.random.one_in(4) {
                    self.held.push(File::open(root.join(&name)).unwrap());
                }
                fs::remove_file(root.join(name)).unwrap();
            }
            4 => {
                let (name, link) = (self.file()?, format!("{}/l{number}", self.directory()));
                fs::hard_link(root.join(name), root.join(&link)).unwrap();
                self.files.push(link);
            }
            5 => {
                let (name, to) = (self.file()?, format!("{}/r{number}", self.directory()));
                fs::rename(root.join(&name), root.join(&to)).unwrap();
                self.files.retain(|file| *file != name);
                self.files.push(to);
            }
            6 => {
                let name = format!("{}/D{number}", self.directory());
                fs::create_dir(root.join(&name)).unwrap();
                self.directories.push(name);
            }
            7 => {
                let at = 3 + self.random.below(self.directories.len() as u64) as usize;
                let name = self.directories.get(at).cloned()?;
                if fs::remove_dir(root.join(&name)).is_ok() {
                    self.directories.remove(at);
                }
            }
            _ => {
                let name = self.file()?;
                let file = OpenOptions::new().write(true).open(root.join(&name)).unwrap();
                file.set_len(self.random.below(80_000)).unwrap();
                sync(&root, &name);
            }
        }
        Some(())
    }
}

fn live(seed: u64, root: &Path) -> Vec<File> {
    let directories = vec![".".to_owned(), "d".to_owned(), "d/empty".to_owned()];
    let files = (0..4).map(|at| format!("old{at}")).collect();
    let (random, root) = (Random::new(seed), root.to_path_buf());
    let mut life = Life { random, root, directories, files, held: Vec::new() };
    for number in 0..40 {
        let _ = life.step(number);
        if life.random.one_in(3)
            && let Some(name) = life.file()
        {
            sync(&life.root, &name);
        }
    }
    touch(&life.root);
    life.held
}

#[test]
fn lives_of_many_operations_are_there_after_recovery() {
    if !is_possible() {
        return;
    }
    let wishes = [
        PLAIN,
        Wish { features: "fast_commit,orphan_file", block_size: 4096 },
        Wish { features: "fast_commit,^metadata_csum,^64bit", block_size: 2048 },
        Wish { features: "fast_commit,bigalloc", block_size: 1024 },
    ];
    let seeds = extant_testkit::variables::number("EXTANT_FAST_COMMIT_SEEDS");
    for seed in 0..seeds {
        let wish = wishes[seed as usize % wishes.len()];
        let left = leave(wish, Shutdown::AtOnce, |root| {
            prepare(root);
            live(seed, root)
        });
        judge_both(&left, &format!("seed {seed}, {} changes", left.changes()));
    }
}
