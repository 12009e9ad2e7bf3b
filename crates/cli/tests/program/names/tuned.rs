//! tune2fs beside theirs: the same lines on copies of the same volumes. Exits agree, and what
//! dumpe2fs says afterwards, but for what each line is listed with; ours is clean, and has the
//! files that it had.
use crate::names::{HASH_SEED, TIME, UUID, extant, run, theirs};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{self, debugfs, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Volumes, as mke2fs makes them.
const BASES: [(&str, &str); 16] = [
    ("ext4", "-t ext4 -b 1024"),
    ("4k", "-t ext4 -b 4096"),
    ("ext3", "-t ext3 -b 1024"),
    ("ext2", "-t ext2 -b 1024"),
    ("no-sums", "-t ext4 -b 1024 -O ^metadata_csum"),
    ("uninit", "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg"),
    ("narrow", "-t ext4 -b 1024 -O ^64bit"),
    ("small", "-t ext4 -b 1024 -I 128"),
    ("quota", "-t ext4 -b 1024 -O quota"),
    ("project", "-t ext4 -b 1024 -O quota,project"),
    ("inline", "-t ext4 -b 1024 -O inline_data"),
    ("bigalloc", "-t ext4 -b 1024 -O bigalloc"),
    ("orphan", "-t ext4 -b 1024 -O orphan_file"),
    ("seed", "-t ext4 -b 1024 -O metadata_csum_seed"),
    ("fast", "-t ext4 -b 1024 -O fast_commit"),
    ("no-journal", "-t ext4 -b 1024 -O ^has_journal"),
];

/// What is different afterwards, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Differs {
    /// Times, checksums, and what was written in the life of the volume.
    Nothing,
    /// Which blocks the volume's own files have.
    Places,
    /// Theirs asks for e2fsck, or is not clean without it; that packs directories and forgets which
    /// inodes were never used. Ours is clean.
    Checked,
    /// Where tables of inodes are, and that they are counted as overhead.
    Tables,
    /// Theirs fails, by a mistake of its own, or has no way; ours does what is asked for.
    TheirsFails,
    /// Ours refuses what e2fsck would take back at once.
    OursRefuses,
}

use Differs::{Checked, Nothing, OursRefuses, Places, Tables, TheirsFails};

const LINES: &[(&str, &str, Differs)] = &[
    ("ext4", "-L hello", Nothing),
    ("ext2", "-L a-label-that-is-too-long", Nothing),
    ("ext4", "-U 01234567-89ab-cdef-0123-456789abcdef", Nothing),
    ("ext4", "-U clear", Nothing),
    ("ext2", "-U 01234567-89ab-cdef-0123-456789abcdef", Nothing),
    ("uninit", "-U 01234567-89ab-cdef-0123-456789abcdef", Nothing),
    ("seed", "-U 01234567-89ab-cdef-0123-456789abcdef", Nothing),
    ("orphan", "-U 01234567-89ab-cdef-0123-456789abcdef", Checked),
    ("bigalloc", "-U 01234567-89ab-cdef-0123-456789abcdef", Nothing),
    ("inline", "-U 01234567-89ab-cdef-0123-456789abcdef", Nothing),
    ("small", "-U 01234567-89ab-cdef-0123-456789abcdef", Nothing),
    ("ext4", "-U bad", Nothing),
    ("ext4", "-m 3.5", Nothing),
    ("4k", "-m 0", Nothing),
    ("ext4", "-m 51", Nothing),
    ("ext3", "-r 100", Nothing),
    ("ext3", "-r 999999", Nothing),
    ("ext4", "-u 33 -g 100", Nothing),
    ("ext4", "-u daemon -g users", Nothing),
    ("ext4", "-u nobodyx", Nothing),
    ("ext4", "-c 5 -C 7 -i 2w", Nothing),
    ("ext4", "-c 0 -i 0", Nothing),
    ("ext4", "-c x", Nothing),
    ("ext4", "-C 16001", Nothing),
    ("ext4", "-i 3x", Nothing),
    ("ext4", "-i 1m", Nothing),
    ("ext4", "-T 202001011230", Nothing),
    ("ext4", "-T xx", Nothing),
    ("ext4", "-e panic", Nothing),
    ("ext2", "-e remount-ro", Nothing),
    ("ext4", "-e foo", Nothing),
    ("ext4", "-o acl,^user_xattr", Nothing),
    ("ext4", "-o journal_data_writeback,nobarrier,discard", Nothing),
    ("ext4", "-o journal_data,^journal_data_ordered", Nothing),
    ("ext4", "-o foo", Nothing),
    ("ext4", "-o acl -o debug", Nothing),
    ("ext4", "-M /mnt/somewhere", Nothing),
    ("ext4", "-E mount_opts=data=writeback", Nothing),
    ("ext4", "-E hash_alg=tea,stride=8,stripe_width=16,test_fs", Nothing),
    ("ext4", "-E ^test_fs", Nothing),
    ("ext4", "-E foo", Nothing),
    ("ext4", "-E clear_mmp", Nothing),
    ("ext4", "-E mmp_update_interval=10", Nothing),
    ("ext4", "-E mmp_update_interval=400", Nothing),
    ("ext4", "-E encoding=utf8,encoding_flags=strict", Nothing),
    ("ext4", "-E encoding_flags=strict", Nothing),
    ("ext4", "-E orphan_file_size=100K", Nothing),
    ("orphan", "-E orphan_file_size=100K", Places),
    ("ext4", "-O orphan_file", Nothing),
    ("bigalloc", "-O orphan_file", Nothing),
    ("no-journal", "-O orphan_file", Nothing),
    ("orphan", "-O ^orphan_file", Nothing),
    ("ext4", "-O ^has_journal", Nothing),
    ("ext3", "-O ^has_journal", Nothing),
    ("bigalloc", "-O ^has_journal", Checked),
    ("orphan", "-O ^has_journal", Checked),
    ("ext4", "-O ^has_journal -J size=2", Places),
    ("ext4", "-j", Nothing),
    ("ext2", "-j", Places),
    ("no-journal", "-j", Places),
    ("no-journal", "-J size=2,location=9000", Places),
    ("no-journal", "-O has_journal,fast_commit -J fast_commit_size=128", Places),
    ("no-journal", "-O has_journal,orphan_file", Places),
    ("no-journal", "-J size=400", Nothing),
    ("no-journal", "-J foo", Nothing),
    ("ext4", "-O fast_commit", Nothing),
    ("fast", "-O ^fast_commit", Nothing),
    ("ext4", "-O ^metadata_csum", Nothing),
    ("4k", "-O ^metadata_csum", Nothing),
    ("bigalloc", "-O ^metadata_csum", Nothing),
    ("seed", "-O ^metadata_csum", Nothing),
    ("ext4", "-O ^metadata_csum,^uninit_bg", Nothing),
    ("uninit", "-O ^uninit_bg", Nothing),
    ("no-sums", "-O uninit_bg", Nothing),
    ("no-sums", "-O metadata_csum", Checked),
    ("uninit", "-O metadata_csum", Checked),
    ("ext2", "-O metadata_csum", Checked),
    ("no-sums", "-O ^has_journal,metadata_csum", TheirsFails),
    ("no-sums", "-O metadata_csum_seed", Nothing),
    ("ext4", "-O metadata_csum_seed", Nothing),
    ("seed", "-O ^metadata_csum_seed", Nothing),
    ("ext4", "-O ^resize_inode", Checked),
    ("ext2", "-O ^resize_inode", Checked),
    ("ext4", "-O ^dir_index", Nothing),
    ("ext4", "-O ^filetype", Checked),
    ("inline", "-O ^filetype", Checked),
    ("ext4", "-O ^large_file", Checked),
    ("4k", "-O ^large_file", OursRefuses),
    ("ext4", "-O ^huge_file,^dir_nlink,^extra_isize", Checked),
    ("ext3", "-O extent,flex_bg,huge_file,dir_nlink,extra_isize", Nothing),
    ("ext2", "-O uninit_bg,large_dir", Nothing),
    ("ext4", "-O encrypt,verity,ea_inode,stable_inodes,read-only", Nothing),
    ("ext4", "-O casefold", Nothing),
    ("ext4", "-O ^flex_bg", Nothing),
    ("ext4", "-O ^ext_attr", Nothing),
    ("ext4", "-O inline_data", Nothing),
    ("ext4", "-O ^64bit", Nothing),
    ("narrow", "-O 64bit", Nothing),
    ("ext4", "-O nonsense", Nothing),
    ("ext4", "-O quota", Nothing),
    ("bigalloc", "-O quota", Nothing),
    ("small", "-O project", Nothing),
    ("ext4", "-O project,quota", Nothing),
    ("ext4", "-Q usrquota", Nothing),
    ("ext4", "-Q users", Nothing),
    ("quota", "-O ^quota", Nothing),
    ("quota", "-Q ^usrquota", Checked),
    ("quota", "-Q prjquota", Checked),
    ("project", "-O ^project", Checked),
    ("project", "-O ^quota", Nothing),
    ("ext4", "-O mmp", Nothing),
    ("ext4", "-I 128", Nothing),
    ("ext4", "-I 256", Nothing),
    ("ext4", "-I 100", Nothing),
    ("ext4", "-I 512", TheirsFails),
    ("ext3", "-I 512", Tables),
    ("ext2", "-I 1024 -L large", Tables),
    ("ext2", "-I 2048", Nothing),
    ("ext4", "-f -L forced -O casefold -m 1 -e panic", Nothing),
    ("ext4", "-x", Nothing),
    ("ext4", "", Nothing),
];

/// Makes a volume with files of all sizes, and a directory of some blocks.
fn base(folder: &Scratch, name: &str) -> PathBuf {
    let image = folder.join(&format!("base-{name}.img"));
    let source = folder.join("source");
    if !source.exists() {
        fs::create_dir_all(source.join("some/where")).unwrap();
        for number in 0..130_u8 {
            let bytes = vec![number; 90 * usize::from(number % 40) + 3];
            let name = format!("some/where/a-name-of-some-length-{number}");
            fs::write(source.join(name), bytes).unwrap();
        }
        fs::write(source.join("large"), vec![7; 300_000]).unwrap();
        std::os::unix::fs::symlink("x".repeat(90), source.join("link")).unwrap();
    }
    if !image.exists() {
        let (_, words) = BASES.iter().find(|(known, _)| *known == name).unwrap();
        let mut mke2fs = program("mke2fs");
        mke2fs.env("E2FSPROGS_FAKE_TIME", TIME).args(["-q", "-F", "-U", UUID, "-E", HASH_SEED]);
        mke2fs.args(words.split(' ')).arg("-d").arg(&source).arg(&image).arg("24M");
        output(&mut mke2fs).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    image
}

/// What is in every file, by debugfs.
fn files(image: &Path, folder: &Scratch) -> BTreeMap<PathBuf, Vec<u8>> {
    let out = folder.join("dumped");
    let _ = fs::remove_dir_all(&out);
    fs::create_dir(&out).unwrap();
    debugfs(image, &format!("rdump / {}", out.display())).unwrap();
    let (mut found, mut pending) = (BTreeMap::new(), vec![out.clone()]);
    while let Some(path) = pending.pop() {
        let kind = fs::symlink_metadata(&path).unwrap();
        let bytes = match (kind.is_dir(), kind.is_symlink()) {
            (true, _) => {
                pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            (_, true) => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            _ => fs::read(&path).unwrap(),
        };
        let digest = Sha256::digest(&bytes).to_vec();
        found.insert(path.strip_prefix(&out).unwrap().to_owned(), digest);
    }
    found
}

/// What dumpe2fs says, without what is different in any case.
fn facts(image: &Path, differs: Differs) -> Vec<String> {
    const ALWAYS: [&str; 5] =
        ["Last write time", "Lifetime writes", "Checksum:", "    mmp_update", "    mmp_device"];
    const CHECKED: [&str; 5] =
        ["Last checked", "Filesystem state", "Free blocks", "Free inodes", "Mount count"];
    let dumped = output(program("dumpe2fs").arg(image)).expect("dumpe2fs");
    let text = String::from_utf8_lossy(&dumped.stdout).into_owned();
    let is_kept = |line: &&str| {
        let is_any = |starts: &[&str]| starts.iter().any(|start| line.starts_with(start));
        let is_of_tables = differs == Tables && line.starts_with("Overhead clusters");
        !is_any(&ALWAYS) && !is_of_tables && (differs != Checked || !is_any(&CHECKED))
    };
    let of_volume = |line: &&str| differs == Nothing || !line.starts_with("Group 0:");
    let without_sum = |line: &str| {
        let words = line.split(", csum 0x").enumerate().map(|(at, part)| match at {
            0 => part,
            _ => part.get(8..).unwrap_or_default(),
        });
        let line = words.collect::<String>();
        match line.split_once(" csum 0x") {
            Some((before, rest)) => format!("{before}{}", rest.get(4..).unwrap_or_default()),
            None => line,
        }
    };
    text.lines().take_while(of_volume).filter(is_kept).map(without_sum).collect()
}

/// Lines of one of both programs, without names and versions.
fn said(text: &str, image: &Path) -> Vec<String> {
    let shown = image.display().to_string();
    let lines = text.lines().filter(|line| !line.starts_with("tune2fs 1.")).map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.contains("e2fsck"));
    lines.map(|line| line.replace(&shown, "IMAGE").replace("/usr/sbin/", "")).collect()
}

fn compared(folder: &Scratch, (name, line, differs): (&str, &str, Differs)) {
    let made = base(folder, name);
    let [ours, others] = ["ours.img", "theirs.img"].map(|name| folder.join(name));
    for image in [&ours, &others] {
        fs::copy(&made, image).unwrap();
    }
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let (code, text) = run(extant("tune2fs").args(&words).arg(&ours));
    let (expected, expected_text) =
        run(theirs("tune2fs").env("TZ", "UTC").args(&words).arg(&others));
    let case = format!("{name}: tune2fs {line}");
    match differs {
        TheirsFails => assert_eq!((code, expected), (Some(0), Some(1)), "{case}: {text}"),
        OursRefuses => assert_eq!((code, expected), (Some(1), Some(0)), "{case}: {text}"),
        _ => assert_eq!(code, expected, "{case}: {text}{expected_text}"),
    }
    if code == Some(1) {
        assert!(fs::read(&ours).unwrap() == fs::read(&made).unwrap(), "{case}: was refused");
    }
    if expected == Some(0) && code == Some(0) && differs == Nothing {
        let mut lines = [said(&text, &ours), said(&expected_text, &others)];
        // In another order.
        lines.iter_mut().for_each(|lines| lines.sort());
        assert_eq!(lines[0], lines[1], "{case}");
    }
    if code == Some(0) && name != "quota" || line.contains('Q') && code == Some(0) {
        oracle::e2fsck(&ours).unwrap_or_else(|error| panic!("{case}: {error}"));
    }
    assert!(files(&ours, folder) == files(&made, folder), "{case}: files differ");
    if code != expected {
        return;
    }
    if differs == Checked {
        let mut e2fsck = program("e2fsck");
        let _ = e2fsck.args(["-fyD"]).arg(&others).output().expect("e2fsck");
    }
    assert_eq!(facts(&ours, differs), facts(&others, differs), "{case}");
}

#[test]
fn tune2fs_says_and_does_what_theirs_does() {
    if !["tune2fs", "mke2fs", "e2fsck", "dumpe2fs", "debugfs"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("names-tune2fs");
    assert!(LINES.len() >= 60);
    let mut bad = 0;
    for line in LINES.iter().step_by(number("EXTANT_TUNED") as usize) {
        bad += u32::from(std::panic::catch_unwind(|| compared(&folder, *line)).is_err());
    }
    assert_eq!(bad, 0);
}

#[test]
fn tune2fs_keeps_for_e2undo_what_was_there() {
    if !["tune2fs", "mke2fs", "e2undo", "debugfs"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("names-tune2fs-undo");
    let made = base(&folder, "ext4");
    let (image, undo) = (folder.join("disk.img"), folder.join("undo"));
    fs::copy(&made, &image).unwrap();
    let words = ["-O", "^metadata_csum", "-z"];
    let (code, text) = run(extant("tune2fs").args(words).arg(&undo).arg(&image));
    assert_eq!(code, Some(0), "{text}");
    assert!(fs::read(&image).unwrap() != fs::read(&made).unwrap());
    output(program("e2undo").arg(&undo).arg(&image)).expect("e2undo");
    assert!(fs::read(&image).unwrap() == fs::read(&made).unwrap(), "is as it was");
}

/// What -l shows is what theirs shows.
#[test]
fn tune2fs_lists_what_theirs_lists() {
    if !["tune2fs", "mke2fs"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("names-tune2fs-list");
    for name in ["ext4", "ext2", "quota", "seed"] {
        let image = base(&folder, name);
        let lists = |mut program: std::process::Command| {
            let (code, text) = run(program.env("TZ", "UTC").arg("-l").arg(&image));
            assert_eq!(code, Some(0), "{text}");
            said(&text, &image)
        };
        assert_eq!(lists(extant("tune2fs")), lists(theirs("tune2fs")), "{name}");
    }
}
