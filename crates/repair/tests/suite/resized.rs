//! Volumes of another size: clean for e2fsck and for us, with all files as they were, for the
//! kernel too.
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_repair::{ResizeOptions, Resized, resize};
use extant_testkit::command::{output, program};
use extant_testkit::damaged::{FILES, many, tree};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
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
    for (words, size, targets) in GROWN {
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
