//! Volumes of another size: clean for e2fsck and for us, with all files as they were, for the
//! kernel too.
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_format::layout::Width;
use extant_format::superblock::Feature;
use extant_repair::{ResizeOptions, Resized, minimize, resize, widen};
use extant_testkit::command::{output, program};
use extant_testkit::damaged::{FILES, many, tree};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

const NOW_SECONDS: u64 = 1_767_225_600;

fn resized(bytes: &[u8], blocks: u64) -> Result<Resized, String> {
    let device = Arc::new(MemoryDevice::from_bytes(RealClock::new(), bytes));
    let options = ResizeOptions {
        threads: NonZeroU32::MIN,
        spool: None,
        now_seconds: NOW_SECONDS,
        progress: None,
    };
    resize(device, blocks, options).map_err(|error| error.to_string())
}

/// A size that stands for the least one.
const LEAST: u64 = 0;

fn minimized(bytes: &[u8]) -> Result<Resized, String> {
    let device = Arc::new(MemoryDevice::from_bytes(RealClock::new(), bytes));
    let mut options = || ResizeOptions {
        threads: NonZeroU32::MIN,
        spool: None,
        now_seconds: NOW_SECONDS,
        progress: None,
    };
    let done = minimize(device, &mut options).map_err(|error| error.to_string())?;
    // Next to nothing is free then, beside the end of a last group that is as small as can be.
    let free = done.after.free_blocks;
    match free <= 64 + done.after.blocks_count / 100 {
        true => Ok(done),
        false => Err(format!("{free} of {} blocks are free", done.after.blocks_count)),
    }
}

/// The volume as it is to be, as long as it is then.
fn image(resized: &Resized) -> Vec<u8> {
    let bytes = resized.after.blocks_count * u64::from(resized.after.block_size());
    let mut image = vec![0; bytes as usize];
    resized.overlay.read(0, &mut image).expect("memory does not fail");
    image
}

/// What is wrong with an image that has the tree of `source`.
fn judged(words: &[&str], path: &Path, source: &Path) -> Option<String> {
    let mut e2fsck = program("e2fsck");
    let run = e2fsck.env("E2FSCK_CONFIG", "/dev/null").arg("-fn").arg(path).output();
    let run = run.expect("e2fsck runs");
    if run.status.code() != Some(0) {
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let lines = text.lines().filter(|line| !line.starts_with("Pass") && !line.is_empty());
        return Some(lines.take(6).collect::<Vec<_>>().join(" | "));
    }
    if !oracle::can_mount() {
        return None;
    }
    // A kernel without quotas mounts such a volume to be read only.
    let may_write = !words.iter().any(|word| word.contains("quota"));
    let access = if may_write { oracle::Access::ReadWrite } else { oracle::Access::ReadOnly };
    let mounted = match oracle::mount_loop(path, access, "") {
        Ok(mounted) => mounted,
        Err(error) => return Some(format!("the kernel: {error}")),
    };
    let names = FILES.iter().map(|name| (*name).to_owned()).chain(many());
    let differs = |name: &String| {
        std::fs::read(mounted.path().join(name)).ok() != std::fs::read(source.join(name)).ok()
    };
    let lost: Vec<String> = names.filter(differs).collect();
    // The kernel allocates in what it got.
    let new = mounted.path().join("new");
    let written = if may_write { std::fs::write(new, vec![7; 200_000]) } else { Ok(()) };
    let unmounted = mounted.unmount();
    let after = oracle::e2fsck(path);
    match (lost.is_empty(), written, unmounted, after) {
        (true, Ok(()), Ok(()), Ok(())) => None,
        all => Some(format!("{lost:?}: {all:?}")),
    }
}

/// Words for mke2fs, the size before in blocks, and the sizes after.
type Case = (&'static [&'static str], &'static str, &'static [u64]);

const GROWN: &[Case] = &[
    (&["-t", "ext4", "-b", "1024"], "8M", &[8193, 9000, 16384, 16500, 65536, 300_000]),
    (&["-t", "ext4", "-b", "1024", "-g", "1024", "-N", "512"], "6M", &[20_000, 70_000]),
    (&["-t", "ext4"], "20M", &[40_000, 33_000, 1_000_000]),
    (&["-t", "ext2", "-b", "1024", "-g", "2048"], "8M", &[8200, 9000, 40_001]),
    (&["-t", "ext2", "-b", "1024", "-r", "0", "-O", "^resize_inode"], "8M", &[9000, 60_000]),
    (&["-t", "ext3", "-b", "1024"], "8M", &[33_000]),
    (&["-t", "ext4", "-O", "^resize_inode", "-b", "1024"], "8M", &[30_000, 300_000]),
    (&["-t", "ext4", "-O", "meta_bg,^resize_inode", "-b", "1024", "-g", "1024"], "8M", &[80_000]),
    // Copies in all groups, also where descriptors are in the groups which they describe.
    (
        &["-t", "ext4", "-O", "^sparse_super,^resize_inode", "-b", "1024", "-g", "2048"],
        "24M",
        &[150_000],
    ),
    (&["-t", "ext4", "-O", "bigalloc", "-C", "16384", "-b", "1024"], "16M", &[16_400, 300_000]),
    (&["-t", "ext4", "-O", "sparse_super2,^resize_inode", "-b", "1024"], "8M", &[40_000, 17_000]),
    (&["-t", "ext4", "-O", "^metadata_csum,uninit_bg", "-b", "1024"], "8M", &[60_000]),
    (&["-t", "ext4", "-O", "^metadata_csum,^uninit_bg,^flex_bg", "-b", "1024"], "8M", &[60_000]),
    (&["-t", "ext4", "-O", "quota,project,inline_data", "-b", "1024"], "8M", &[60_000]),
    (&["-t", "ext4", "-E", "resize=20000", "-b", "1024", "-O", "^64bit"], "8M", &[900_000]),
    (&["-t", "ext4", "-O", "orphan_file,metadata_csum_seed,mmp", "-b", "1024"], "16M", &[90_000]),
];

#[test]
fn grown_volumes_hold_what_they_held() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return;
    }
    let scratch = Scratch::new("resized-grown");
    let source = scratch.join("tree");
    std::fs::create_dir(&source).expect("scratch has room");
    tree(&source);
    let mut complaints = Vec::new();
    for (words, size, targets) in GROWN.iter().step_by(number("EXTANT_RESIZED") as usize) {
        let path = scratch.join("volume");
        let _ = std::fs::remove_file(&path);
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-d"]).arg(&source).args(*words).arg(&path).arg(size);
        output(&mut mke2fs).expect("mke2fs makes it");
        let mut bytes = std::fs::read(&path).expect("it is there");
        if words.contains(&"mmp") || words.iter().any(|word| word.contains("quota")) {
            output(program("e2fsck").arg("-fy").arg(&path)).ok();
            bytes = std::fs::read(&path).expect("it is there");
        }
        for target in *targets {
            let complain = match resized(&bytes, *target) {
                Err(error) => Some(error),
                Ok(resized) => {
                    assert!(resized.after.blocks_count <= *target);
                    std::fs::write(&path, image(&resized)).expect("scratch has room");
                    judged(words, &path, &source)
                }
            };
            complaints.extend(complain.map(|it| format!("{words:?} to {target}: {it}")));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// What a volume grows over is no hole, and no zeros: tables that stood there before, say.
#[test]
fn volumes_grow_over_what_is_there() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return;
    }
    let scratch = Scratch::new("resized-over");
    let source = scratch.join("tree");
    std::fs::create_dir(&source).expect("scratch has room");
    tree(&source);
    let path = scratch.join("volume");
    for words in [
        &["-t", "ext2"][..],
        &["-t", "ext3"],
        &["-t", "ext4"],
        &["-t", "ext4", "-O", "^metadata_csum"],
        &["-t", "ext4", "-O", "^metadata_csum,uninit_bg"],
    ] {
        let _ = std::fs::remove_file(&path);
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-b", "1024", "-d"]).arg(&source).args(words).arg(&path).arg("8M");
        output(&mut mke2fs).expect("mke2fs makes it");
        let mut bytes = std::fs::read(&path).expect("it is there");
        bytes.resize(30 << 20, 0xa5);
        let resized =
            resized(&bytes, 30 << 10).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let mut grown = image(&resized);
        // What is written before the log, as the overlay has it.
        for zeros in &resized.zeros {
            let at = zeros.start as usize * 1024..zeros.end as usize * 1024;
            assert!(grown[at.clone()].iter().all(|byte| *byte == 0), "{words:?}: {at:?}");
            grown[at].fill(0);
        }
        std::fs::write(&path, grown).expect("scratch has room");
        assert_eq!(judged(words, &path, &source), None, "{words:?}");
    }
}

/// Descriptors of 64 bytes become some of 32, and others again.
#[test]
fn descriptors_get_another_width() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return;
    }
    let scratch = Scratch::new("resized-width");
    let source = scratch.join("tree");
    std::fs::create_dir(&source).expect("scratch has room");
    tree(&source);
    let path = scratch.join("volume");
    for words in [
        &["-t", "ext4"][..],
        &["-t", "ext4", "-g", "512", "-N", "4096"],
        &["-t", "ext4", "-O", "^resize_inode", "-g", "512", "-N", "4096"],
        &["-t", "ext4", "-O", "^metadata_csum,uninit_bg", "-g", "1024"],
        &["-t", "ext4", "-O", "^metadata_csum,^uninit_bg"],
        &["-t", "ext4", "-O", "bigalloc", "-C", "4096"],
        &["-t", "ext4", "-O", "sparse_super2", "-g", "1024"],
        &["-t", "ext4", "-O", "meta_bg,^resize_inode"],
    ] {
        let _ = std::fs::remove_file(&path);
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-b", "1024", "-d"]).arg(&source).args(words).arg(&path);
        output(mke2fs.arg("16M")).expect("mke2fs makes it");
        for width in [Width::ThirtyTwo, Width::SixtyFour, Width::ThirtyTwo] {
            let bytes = std::fs::read(&path).expect("it is there");
            let device = Arc::new(MemoryDevice::from_bytes(RealClock::new(), &bytes));
            let options = ResizeOptions {
                threads: NonZeroU32::MIN,
                spool: None,
                now_seconds: NOW_SECONDS,
                progress: None,
            };
            match widen(device, width, options) {
                Err(error) => {
                    let error = error.to_string();
                    let why = match words[3] {
                        "meta_bg,^resize_inode" => "meta_bg",
                        "^resize_inode" => "0 are kept for growth",
                        _ => "nothing",
                    };
                    assert!(error.contains(why), "{words:?} {width:?}: {error}");
                }
                Ok(resized) => {
                    std::fs::write(&path, image(&resized)).expect("scratch has room");
                    assert_eq!(judged(words, &path, &source), None, "{words:?} {width:?}");
                    let is_wide = resized.after.has(Feature::SIXTY_FOUR_BIT);
                    assert_eq!(is_wide, width == Width::SixtyFour, "{words:?}");
                }
            }
        }
    }
}

/// Kinds of volumes that are made smaller: they are filled, most of it is removed again, so that
/// what is left is everywhere, with high numbers too.
const SHRUNK: &[(&[&str], &str)] = &[
    (&["-t", "ext4", "-b", "1024", "-g", "2048", "-N", "4096"], "24M"),
    (&["-t", "ext4", "-b", "1024", "-g", "1024", "-N", "4096", "-O", "inline_data"], "24M"),
    (&["-t", "ext2", "-b", "1024", "-g", "2048", "-N", "4096"], "24M"),
    (&["-t", "ext3", "-b", "1024", "-g", "4096", "-N", "4096"], "24M"),
    (
        &["-t", "ext4", "-b", "1024", "-g", "1024", "-O", "meta_bg,^resize_inode", "-N", "4096"],
        "24M",
    ),
    (
        &["-t", "ext4", "-b", "1024", "-C", "4096", "-O", "bigalloc", "-N", "4096", "-g", "2048"],
        "32M",
    ),
    (&["-t", "ext4", "-b", "1024", "-O", "sparse_super2", "-g", "2048", "-N", "4096"], "24M"),
    (
        &["-t", "ext4", "-O", "^metadata_csum,uninit_bg", "-b", "1024", "-g", "2048", "-N", "4096"],
        "24M",
    ),
    (
        &["-t", "ext4", "-O", "ea_inode,orphan_file", "-b", "1024", "-g", "2048", "-N", "4096"],
        "24M",
    ),
    (&["-t", "ext4", "-O", "^flex_bg,mmp", "-b", "1024", "-g", "2048", "-N", "4096"], "24M"),
    (&["-t", "ext4", "-O", "^extent,^64bit", "-b", "1024", "-g", "2048", "-N", "4096"], "24M"),
    (&["-t", "ext4", "-O", "quota,project", "-b", "1024", "-g", "2048", "-N", "4096"], "24M"),
];

/// Files whose content says whose they are, in directories of several sizes.
fn fill(folder: &Path) {
    for directory in 0..12 {
        let inside = folder.join(format!("directory-{directory}"));
        std::fs::create_dir(&inside).expect("scratch has room");
        for file in 0..if directory == 3 { 200 } else { 40 } {
            let bytes = vec![(directory * 40 + file) as u8; 300 * (file % 17) + file % 3];
            std::fs::write(inside.join(format!("a file with number {file}")), bytes).expect("room");
        }
        std::fs::hard_link(
            inside.join("a file with number 7"),
            inside.join("another name of number 7"),
        )
        .expect("scratch has room");
        std::os::unix::fs::symlink("t".repeat(directory * 30 + 1), inside.join("link"))
            .expect("scratch has room");
        let value = "v".repeat(directory * 70 + 3);
        let mut setfattr = program("setfattr");
        setfattr.args(["-n", "user.note", "-v", &value]).arg(inside.join("a file with number 9"));
        output(&mut setfattr).expect("a value");
    }
}

/// All that a tree has, as text: names, sizes, digests, attributes.
fn listed(root: &Path) -> String {
    let line = "cd \"$0\" && find . -path ./lost+found -prune \
                -o -printf '%y %m %n %s %T@ %l %p\\n' \
                | sed 's/^d \\([0-9]* [0-9]*\\) [0-9]*/d \\1/' | sort && \
                find . -type f -print0 | sort -z | xargs -0 sha256sum && \
                { getfattr -R -d -m - . 2>/dev/null; true; }";
    let run = output(program("sh").args(["-c", line]).arg(root)).expect("it is listed");
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn shrunk_volumes_hold_what_they_held() {
    if !oracle::can_mount() || !oracle::require("mke2fs") || !oracle::require("debugfs") {
        return;
    }
    let scratch = Scratch::new("resized-shrunk");
    let source = scratch.join("tree");
    std::fs::create_dir(&source).expect("scratch has room");
    fill(&source);
    let mut complaints = Vec::new();
    for (words, size) in SHRUNK.iter().step_by(number("EXTANT_RESIZED") as usize) {
        let path = scratch.join("volume");
        let _ = std::fs::remove_file(&path);
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-d"]).arg(&source).args(*words).arg(&path).arg(size);
        output(&mut mke2fs).expect("mke2fs makes it");
        // Directories that have blocks and numbers before those that stay.
        let gone = (0..12).filter(|directory| ![3, 9, 11].contains(directory));
        let script: String = gone
            .flat_map(|directory| {
                (0..40).map(move |file| {
                    format!("rm \"/directory-{directory}/a file with number {file}\"\n")
                })
            })
            .collect();
        let requests = scratch.join("requests");
        std::fs::write(&requests, script).expect("scratch has room");
        let mut debugfs = program("debugfs");
        output(debugfs.args(["-w", "-f"]).arg(&requests).arg(&path)).expect("debugfs");
        // Twice: with -D it counts quotas before it writes directories anew.
        for option in ["-fyD", "-fy"] {
            let _ = program("e2fsck").arg(option).arg(&path).output().expect("it runs");
        }
        let bytes = std::fs::read(&path).expect("it is there");
        let tree = |path: &Path| {
            let mounted = oracle::mount_loop(path, oracle::Access::ReadOnly, "").expect("mounts");
            listed(mounted.path())
        };
        let before = tree(&path);
        assert!(before.lines().count() > 300, "{before}");
        for target in [20_001, 9000, 5000, 3000, 1, LEAST] {
            let done = if target == LEAST { minimized(&bytes) } else { resized(&bytes, target) };
            let complain = match done {
                Err(error) if target <= 5000 && is_of_room(&error) => None,
                Err(error) => Some(error),
                Ok(resized) => {
                    std::fs::write(&path, image(&resized)).expect("scratch has room");
                    let found = oracle::e2fsck(&path).err();
                    found.or_else(|| {
                        let after = tree(&path);
                        (after != before).then(|| difference(&before, &after))
                    })
                }
            };
            complaints.extend(complain.map(|it| format!("{words:?} to {target}: {it}")));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Whether a size is refused because it is too small.
fn is_of_room(error: &str) -> bool {
    ["no room", "too few"].iter().any(|words| error.contains(words))
}

fn difference(before: &str, after: &str) -> String {
    let lost = before.lines().filter(|line| !after.contains(line)).take(3);
    let new = after.lines().filter(|line| !before.contains(line)).take(3);
    format!("{:?}, {:?}", lost.collect::<Vec<_>>(), new.collect::<Vec<_>>())
}
