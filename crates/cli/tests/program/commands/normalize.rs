//! `extant normalize`: what `extant build` made comes out byte for byte, also after the kernel had
//! it; what is outside of the volume stays.
use crate::commands::command::{command, extant, printed_text};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{self, Access, require};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

const KINDS: &[&[&str]] = &[
    &["-t", "ext2"],
    &["-t", "ext2", "-I", "128", "-b", "1024", "--size", "24M"],
    &["-t", "ext3", "-b", "2048"],
    &["-t", "ext4"],
    &["-t", "ext4", "--free", "20%", "-L", "root", "-m", "7"],
    &["-t", "ext4", "--size", "70M", "-b", "1024", "-G", "4"],
    &["-t", "ext4", "-O", "inline_data"],
    &["-t", "ext4", "-O", "bigalloc", "-C", "8192", "-b", "1024"],
    &["-t", "ext4", "-O", "^metadata_csum,^flex_bg", "-b", "1024"],
    &["-t", "ext4", "-O", "^has_journal", "--size", "9M"],
    &["-t", "ext4", "-O", "quota,project"],
    &["-t", "ext4", "-O", "has_journal,orphan_file,metadata_csum_seed"],
    &["-t", "ext4", "-O", "meta_bg,^resize_inode", "-g", "1024", "-b", "1024"],
    &["-t", "ext4", "-O", "sparse_super2,^resize_inode", "-E", "stride=4,stripe_width=16"],
    &["-t", "ext4", "-J", "size=8", "-N", "3000", "-E", "resize=200000"],
    &["-t", "ext4", "--no-lost-found", "-i", "65536", "-I", "512"],
];

fn done(words: &[&str]) -> String {
    printed_text(words, extant(words))
}

fn tree(folder: &Path) -> String {
    let tree = folder.join("tree");
    fs::create_dir_all(tree.join("etc/deep")).unwrap();
    for number in 0..300_usize {
        let bytes = vec![number as u8; [0, 7, 59, 61, 1000, 5000, 30_000][number % 7]];
        let path = tree.join(format!("etc/file-{number}"));
        fs::write(&path, bytes).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000 + number as u64);
        fs::File::open(&path).unwrap().set_modified(time).unwrap();
    }
    std::os::unix::fs::symlink("t".repeat(80), tree.join("link")).unwrap();
    fs::hard_link(tree.join("etc/file-5"), tree.join("etc/deep/again")).unwrap();
    let large = fs::File::create(tree.join("large")).unwrap();
    large.set_len(3 << 20).unwrap();
    // What is used in the second of its newest file would look like built at a given time.
    for name in ["link", "large", "etc/deep", "etc", "."] {
        let mut touch = program("touch");
        output(touch.args(["-h", "-d", "@1600000999"]).arg(tree.join(name)))
            .expect("touch sets it");
    }
    tree.display().to_string()
}

/// Where two images differ first.
fn difference(one: &Path, other: &Path) -> Option<String> {
    let (one, other) = (fs::read(one).unwrap(), fs::read(other).unwrap());
    let at = one.iter().zip(&other).position(|(one, other)| one != other);
    match (at, one.len() == other.len()) {
        (None, true) => None,
        (at, _) => Some(format!("byte {at:?} of {} and {}", one.len(), other.len())),
    }
}

#[test]
fn what_was_built_comes_out_as_it_was() {
    let folder = Scratch::new("normalize-built");
    let tree = tree(folder.path());
    for (number, kind) in KINDS.iter().enumerate() {
        let (image, new) = (folder.join("a.img"), folder.join("b.img"));
        let (shown, out) = (image.display().to_string(), new.display().to_string());
        let words = [&["build", "-q", "--force"][..], kind, &[tree.as_str(), shown.as_str()]];
        let mut build = command(words.concat());
        if number % 2 == 0 {
            build.env("SOURCE_DATE_EPOCH", "1700000000");
        }
        printed_text(kind, build.output().unwrap());
        done(&["normalize", "-q", "--force", &shown, &out]);
        assert_eq!(difference(&image, &new), None, "{kind:?}");
        // Names, contents and times that changed and are as they were again.
        let (name, moved) = (format!("{shown}:/etc/file-4"), format!("{shown}:/etc/moved-"));
        // What is as small as can be has no room for it.
        if kind.contains(&"--free") || kind.contains(&"--size") {
            done(&["mv", "-q", &name, &moved]);
            done(&["mv", "-q", &moved, &name]);
        }
        done(&["chmod", "-q", "700", &format!("{shown}:/large")]);
        let mode = fs::metadata(folder.join("tree/large")).unwrap().mode() & 0o7777;
        done(&["chmod", "-q", &format!("{mode:o}"), &format!("{shown}:/large")]);
        let time = fs::metadata(folder.join("tree/etc")).unwrap();
        let seconds = format!("@{}", time.mtime());
        done(&["touch", "-q", "-m", "-d", &seconds, &format!("{shown}:/etc")]);
        assert!(difference(&image, &new).is_some(), "{kind:?}");
        let kept = fs::metadata(&image).unwrap().mode();
        done(&["normalize", "-q", &shown]);
        assert_eq!(difference(&image, &new), None, "{kind:?}: in place");
        assert_eq!(fs::metadata(&image).unwrap().mode(), kept);
    }
}

#[test]
fn what_the_kernel_did_to_it_is_gone() {
    if !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("normalize-mounted");
    let tree = tree(folder.path());
    for kind in [KINDS[0], KINDS[2], KINDS[3], KINDS[5], KINDS[7]] {
        let (image, before) = (folder.join("a.img"), folder.join("before.img"));
        let shown = image.display().to_string();
        let room = if kind.contains(&"--size") { &[][..] } else { &["--free", "3M"] };
        let words = ["build", "-q", "--force"];
        let words = [&words[..], kind, room, &[tree.as_str(), shown.as_str()]].concat();
        let build = command(&words).env("SOURCE_DATE_EPOCH", "1700000000").output().unwrap();
        printed_text(&words, build);
        fs::copy(&image, &before).unwrap();
        let mounted = oracle::mount_loop(&image, Access::ReadWrite, "strictatime").unwrap();
        let etc = mounted.path().join("etc");
        let modified = fs::metadata(&etc).unwrap().modified().unwrap();
        for number in 0..200 {
            fs::read(etc.join(format!("file-{number}"))).unwrap();
            fs::write(etc.join(format!("new-{number}")), vec![7; 3000]).unwrap();
        }
        (0..200).for_each(|number| fs::remove_file(etc.join(format!("new-{number}"))).unwrap());
        fs::File::open(&etc).unwrap().set_modified(modified).unwrap();
        mounted.unmount().unwrap();
        assert!(difference(&image, &before).is_some());
        done(&["normalize", "-q", &shown]);
        assert_eq!(difference(&image, &before), None, "{kind:?}");
    }
}

#[test]
fn what_others_made_is_as_an_archive_of_it_built_with_its_options() {
    if !["mke2fs", "e2fsck"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("normalize-others");
    let tree = tree(folder.path());
    for kind in [
        &["-t", "ext4", "-b", "1024", "-L", "name"][..],
        &["-t", "ext3", "-b", "2048", "-N", "2048"],
        &["-t", "ext2", "-b", "4096", "-m", "0"],
    ] {
        let place = |name: &str| folder.join(name).display().to_string();
        let (image, new, archive, other) =
            (place("a.img"), place("b.img"), place("a.tar"), place("c.img"));
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F"]).args(kind).args(["-d", &tree, &image, "24M"]);
        output(&mut mke2fs).expect("mke2fs makes it");
        done(&["normalize", "-q", "--force", &image, &new]);
        oracle::e2fsck(new.as_ref()).unwrap();
        done(&["tar", "-q", "--force", &image, "-o", &archive]);
        let header = output(program("dumpe2fs").arg("-h").arg(&image)).unwrap().stdout;
        let header = String::from_utf8_lossy(&header).into_owned();
        let text = |field: &str| {
            let lines = header.lines().filter_map(|line| line.split_once(':'));
            let mut found = lines.filter(|(name, _)| *name == field).map(|(_, value)| value.trim());
            found.next_back().unwrap_or_default().to_owned()
        };
        let number = |field: &str| text(field).parse::<u64>().unwrap_or(0);
        let features: Vec<String> =
            text("Filesystem features").split_whitespace().map(str::to_owned).collect();
        let size = format!("{}b", number("Block count") * number("Block size"));
        let reserved = number("Reserved block count") as f64 * 100.0;
        let reserved = (reserved + 50.0) / number("Block count") as f64;
        let mut words: Vec<String> =
            ["build", "-q", "--force", "--size", &size].map(str::to_owned).into();
        words.extend(["-O".to_owned(), format!("none,{}", features.join(","))]);
        words.extend(["-U".to_owned(), text("Filesystem UUID")]);
        words.extend(["-E".to_owned(), format!("hash_seed={}", text("Directory Hash Seed"))]);
        words.extend(["-N".to_owned(), number("Inode count").to_string()]);
        words.extend(["-b".to_owned(), number("Block size").to_string()]);
        words.extend(["-m".to_owned(), format!("{reserved}")]);
        if kind.contains(&"name") {
            words.extend(["-L".to_owned(), "name".to_owned()]);
        }
        if features.iter().any(|word| word == "flex_bg") {
            words.extend(["-G".to_owned(), number("Flex block group size").to_string()]);
        }
        if features.iter().any(|word| word == "has_journal") {
            let blocks = number("Total journal blocks");
            let mib = (blocks * number("Block size")).div_ceil(1 << 20);
            words.extend(["-J".to_owned(), format!("size={mib}")]);
        }
        words.extend([archive.clone(), other.clone()]);
        let build = command(&words).output().unwrap();
        printed_text(&words, build);
        let (new, other) = (fs::read(&new).unwrap(), fs::read(&other).unwrap());
        assert_eq!(new.len(), other.len(), "{kind:?}");
        // The time of creation, in the superblock and in inodes, is the only difference.
        let blocks = new.chunks(1024).zip(other.chunks(1024)).filter(|(new, other)| new != other);
        let unlike = blocks.filter(|(new, other)| {
            new.iter().zip(*other).filter(|(one, other)| one != other).count() > 8 * 40
        });
        assert_eq!(unlike.count(), 0, "{kind:?}");
    }
}

/// One that was built at a given time says of its writes that they were then; another that they
/// were at a time that is past, whatever the times of its files are.
#[test]
fn times_of_writes_are_those_of_a_build() {
    let folder = Scratch::new("normalize-dated");
    let tree = tree(folder.path());
    // After the latest time that counts as past.
    let late = SystemTime::UNIX_EPOCH + Duration::from_secs(1_760_000_000);
    fs::File::open(folder.join("tree/etc/file-1")).unwrap().set_modified(late).unwrap();
    for size in ["5M", "24M"] {
        for is_given in [true, false] {
            let (image, new) = (folder.join("a.img"), folder.join("b.img"));
            let paths = [&image, &new].map(|path| path.to_str().unwrap());
            let words = [
                "build", "-q", "--force", "-t", "ext2", "-b", "1024", "--size", size, &tree,
                paths[0],
            ];
            let mut build = command(words);
            if is_given {
                build.env("SOURCE_DATE_EPOCH", "1760000000");
            }
            printed_text(&words, build.output().unwrap());
            done(&["normalize", "-q", "--force", paths[0], paths[1]]);
            assert_eq!(difference(&image, &new), None, "{size}, given: {is_given}");
        }
    }
}

/// What a volume says of itself is the same afterwards, whatever it was set to.
#[test]
fn what_the_superblock_says_stays() {
    if !["mke2fs", "tune2fs", "dumpe2fs", "e2fsck"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("normalize-says");
    let tree = tree(folder.path());
    for (kind, tuning) in [
        (
            "-t ext4 -b 1024 -E resize=200000 -m 3",
            "-u 33 -g 44 -o acl,journal_data,discard -E mount_opts=data=writeback -c 5 -i 2w \
             -e panic",
        ),
        ("-t ext3 -b 1024 -E resize=99999,stride=8", "-u 1 -g 2 -o ^acl,debug,bsdgroups -r 321"),
        ("-t ext2 -b 2048 -m 0", "-c 9 -E hash_alg=tea,test_fs -e remount-ro -g 7"),
        ("-t ext4 -b 4096 -O ^resize_inode,sparse_super2", "-o nobarrier -C 3 -L label -i 1m"),
        (
            "-t ext4 -b 1024 -O ^resize_inode,sparse_super2 -E num_backup_sb=1",
            "-o discard -u 5 -L one",
        ),
    ] {
        let (image, new) = (folder.join("a.img"), folder.join("b.img"));
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F"]).args(kind.split(' ')).args(["-d", &tree]).arg(&image).arg("24M");
        output(&mut mke2fs).expect("mke2fs makes it");
        output(program("tune2fs").args(tuning.split(' ')).arg(&image)).expect("tune2fs");
        for (words, out) in [(&["normalize", "-q"][..], &new), (&["repack", "-q"], &new)] {
            let paths = [&image, out].map(|path| path.to_str().unwrap());
            done(&[words, &["--force"], &paths].concat());
            oracle::e2fsck(out).unwrap_or_else(|error| panic!("{kind} {words:?}: {error}"));
            let header = |path: &Path, place: &[&str]| {
                let mut dumpe2fs = program("dumpe2fs");
                let said = output(dumpe2fs.arg("-h").args(place).arg(path)).expect("dumpe2fs");
                let said = String::from_utf8(said.stdout).unwrap();
                // What follows from what is in it, and from what was done with it.
                let own = [
                    "Last ",
                    "Lifetime",
                    "Checksum:",
                    "Mount count",
                    "Free ",
                    "Journal ",
                    "First",
                    "Overhead",
                    "Required",
                    "Desired",
                ];
                let kept = said.lines().filter(|line| !own.iter().any(|own| line.starts_with(own)));
                kept.map(str::to_owned).collect::<Vec<_>>()
            };
            let (before, after) = (header(&image, &[]), header(out, &[]));
            assert!(before.len() > 25, "{before:?}");
            assert_eq!(before, after, "{kind} {words:?}");
            let copies = |path: &Path| {
                let said = output(program("dumpe2fs").arg(path)).expect("dumpe2fs");
                String::from_utf8_lossy(&said.stdout).matches("Backup superblock").count()
            };
            assert_eq!(copies(&image), copies(out), "{kind} {words:?}");
            if kind.contains("-b 1024") {
                let place = ["-o", "superblock=8193", "-o", "blocksize=1024"];
                let copy = header(out, &place);
                let own = "Filesystem state";
                let differs = |(one, two): &(&String, &String)| one != two && !one.starts_with(own);
                let wrong: Vec<_> = after.iter().zip(&copy).filter(differs).collect();
                assert!(wrong.is_empty() && copy.len() == after.len(), "{kind}: {wrong:?}");
            }
        }
    }
}

#[test]
fn what_is_outside_of_the_volume_stays_and_what_is_damaged_is_refused() {
    if !["sfdisk", "mke2fs", "debugfs"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("normalize-disk");
    let tree = tree(folder.path());
    let place = |name: &str| folder.join(name).display().to_string();
    let (disk, out) = (place("disk.img"), place("out.qcow2"));
    done(&["build", "-q", "--partition", "gpt", "--free", "2M", &tree, &disk]);
    let mut bytes = fs::read(&disk).unwrap();
    bytes[700_000..700_010].fill(b'x');
    fs::write(&disk, &bytes).unwrap();
    let word = format!("{disk}@1");
    done(&["rm", "-q", &format!("{word}:/etc/file-9")]);
    done(&["normalize", "-q", &word, &out]);
    done(&["normalize", "-q", &word]);
    let after = fs::read(&disk).unwrap();
    assert_eq!(after.len(), bytes.len());
    let end = bytes.len() - (1 << 20);
    assert!(after[..1 << 20] == bytes[..1 << 20] && after[end..] == bytes[end..]);
    output(program("sfdisk").arg("--verify").arg(&disk)).expect("sfdisk finds nothing");
    done(&["check", "-q", &word]);
    let said = extant(&["diff", &word, &format!("{out}@1")]);
    assert_eq!(said.status.code(), Some(0));
    for (words, code) in [
        (&["normalize", &word, &out][..], 1),
        (&["normalize", "/dev/null"], 1),
        (&["normalize", "--journal", "x", &word], 2),
    ] {
        let before = fs::read(&out).unwrap();
        assert_eq!(extant(words).status.code(), Some(code), "{words:?}");
        assert!(fs::read(&out).unwrap() == before, "{words:?}");
    }
    // A disk in a qcow2 image is written in place, too.
    done(&["normalize", "-q", &format!("{out}@1")]);
    assert_eq!(extant(&["diff", &word, &format!("{out}@1")]).status.code(), Some(0));
    let image = place("a.img");
    done(&["build", "-q", &tree, &image]);
    let mut debugfs = program("debugfs");
    debugfs.args(["-w", "-R", "clri /etc/deep", &image]);
    output(&mut debugfs).unwrap();
    let before = fs::read(&image).unwrap();
    let refused = extant(&["normalize", &image]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("extant repair"), "{said}");
    assert!(fs::read(&image).unwrap() == before);
    let names = fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name());
    let left: Vec<_> = names.filter(|it| it.to_string_lossy().contains("partial")).collect();
    assert!(left.is_empty(), "{left:?}");
}
