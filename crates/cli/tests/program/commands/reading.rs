//! The commands from outside: the binary is run, and what it makes and says is judged by mke2fs,
//! dumpe2fs, e2fsck, ls and the kernel.
use crate::commands::command::{extant, printed};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use extant_testkit::{command, compare, fixtures, listing, oracle};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// Standard output of a command that must end with 0 and say nothing else.
fn told<W: AsRef<OsStr>>(words: &[W]) -> Vec<u8> {
    printed(&shown(words), extant(words))
}

fn shown<W: AsRef<OsStr>>(words: &[W]) -> Vec<String> {
    words.iter().map(|word| word.as_ref().to_string_lossy().into_owned()).collect()
}

/// How a command fails: exit code, the line, and the hint.
fn failure<W: AsRef<OsStr>>(words: &[W]) -> (Option<i32>, String) {
    let output = extant(words);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const IDENTITY: [&str; 4] = [
    "-U",
    "6f4c7a51-93f0-4c7e-8a1d-2b6f0e5d9c31",
    "-E",
    "hash_seed=0b8f3f0e-7a57-4d0b-9c61-5a3f1f6b2d44",
];

/// Options as mke2fs has them, and a size.
const FORMATS: [(&str, &str); 20] = [
    ("-t ext2", "2M"),
    ("-t ext2", "64M"),
    ("-t ext2 -b 4096 -I 128 -m 0", "64M"),
    ("-t ext3", "600M"),
    ("-t ext3 -J size=2 -b 2048", "100M"),
    ("-t ext4", "40M"),
    ("-t ext4", "1G"),
    ("-t ext4 -b 4096 -N 777 -L label", "200M"),
    ("-t ext4 -b 1024 -i 2048 -g 4096 -G 4", "100M"),
    ("-t ext4 -T largefile", "300M"),
    ("-t ext4 -T small,news -m 1.5", "300M"),
    ("-t ext2 -T hurd", "20M"),
    ("-t ext2 -T news -b 8192", "100M"),
    ("-t ext4 -O ^has_journal,^resize_inode,^64bit", "100M"),
    ("-t ext4 -O ^metadata_csum,uninit_bg -b 4096", "300M"),
    ("-t ext4 -O metadata_csum_seed,orphan_file -b 4096", "300M"),
    ("-t ext2 -O none", "20M"),
    ("-t ext2 -j", "20M"),
    ("-t ext4 -b 4096 -E stride=16,stripe_width=64,resize=1000000", "200M"),
    ("-t ext4 -b 4096 -I 512", "51200"),
];

const FIELDS: [&str; 19] = [
    "Filesystem volume name",
    "Filesystem UUID",
    "Filesystem state",
    "Default mount options",
    "Inode count",
    "Block count",
    "Reserved block count",
    "Free blocks",
    "Free inodes",
    "Block size",
    "Inode size",
    "Blocks per group",
    "Inodes per group",
    "Reserved GDT blocks",
    "Flex block group size",
    "RAID stride",
    "RAID stripe width",
    "Total journal blocks",
    "Directory Hash Seed",
];

#[test]
fn mkfs_makes_what_mke2fs_makes() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = Scratch::new("extant-mkfs");
    let (ours, theirs) = (folder.join("ours.img"), folder.join("theirs.img"));
    for (options, size) in FORMATS {
        let _ = (std::fs::remove_file(&ours), std::fs::remove_file(&theirs));
        // An option of -E that is given twice counts once with mke2fs: the identity joins what is
        // there.
        let (extended, rest) = match options.split_once(" -E ") {
            Some((rest, extended)) => (format!("{},{extended}", IDENTITY[3]), rest),
            None => (IDENTITY[3].to_owned(), options),
        };
        let mut words: Vec<&str> =
            rest.split(' ').chain([IDENTITY[0], IDENTITY[1], "-E", &extended]).collect();
        words.insert(0, "-q");
        let mut mke2fs = command::program("mke2fs");
        mke2fs.arg("-F").args(&words).arg(&theirs).arg(size);
        assert!(mke2fs.output().unwrap().status.success(), "{mke2fs:?}");

        let mut command = vec![OsStr::new("mkfs")];
        command.extend(words.iter().map(OsStr::new));
        command.extend([ours.as_os_str(), OsStr::new(size)]);
        let output = extant(&command);
        assert!(output.status.success() && output.stdout.is_empty(), "{options}: {output:?}");
        oracle::e2fsck(&ours).unwrap();
        let dumps = [&ours, &theirs].map(|image| oracle::dumpe2fs(image).unwrap());
        let [mine, other] = &dumps;
        assert_eq!(mine.features(), other.features(), "{options}");
        for field in FIELDS {
            assert_eq!(mine.fields.get(field), other.fields.get(field), "{options}: {field}");
        }
        let places = |dump: &oracle::Dump| -> Vec<_> {
            let groups = dump.groups.iter();
            groups
                .map(|group| {
                    (group.blocks, group.block_bitmap, group.inode_bitmap, group.inode_table)
                })
                .collect()
        };
        assert_eq!(places(mine), places(other), "{options}");
        let length = |path: &Path| std::fs::metadata(path).unwrap().len();
        assert_eq!(length(&ours), length(&theirs), "{options}");
    }
}

#[test]
fn the_same_command_gives_the_same_bytes_when_the_time_is_given() {
    let folder = Scratch::new("extant-mkfs");
    let make = |name: &str, options: &[&str], epoch: &str| {
        let image = folder.join(name);
        let mut command =
            Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
        command
            .args(["mkfs", "-q"])
            .args(options)
            .arg(&image)
            .arg("20M")
            .env("SOURCE_DATE_EPOCH", epoch);
        assert!(command.status().unwrap().success());
        std::fs::read(image).unwrap()
    };
    let first = make("a.img", &["-t", "ext4"], "1700000000");
    assert!(first == make("b.img", &["-t", "ext4"], "1700000000"));
    assert!(first != make("c.img", &["-t", "ext4"], "1700000001"));
    assert!(
        first[0x468..0x478]
            != make("d.img", &["-t", "ext4", "-L", "x"], "1700000000")[0x468..0x478]
    );
    let drawn = || {
        let image = folder.join("random.img");
        told(&[OsStr::new("mkfs"), OsStr::new("-qF"), image.as_os_str(), OsStr::new("4M")]);
        std::fs::read(image).unwrap()[0x468..0x478].to_vec()
    };
    assert_ne!(drawn(), drawn());
}

#[test]
fn what_is_there_stays_unless_it_may_go() {
    let folder = Scratch::new("extant-mkfs");
    let image = folder.join("x.img");
    let mkfs = |words: &[&str]| {
        let mut all = vec![OsStr::new("mkfs"), OsStr::new("-q")];
        all.extend(words.iter().map(OsStr::new));
        all.push(image.as_os_str());
        extant(&all)
    };
    // A blank file keeps its size, and needs no force.
    std::fs::File::create(&image).unwrap().set_len(5 << 20).unwrap();
    assert!(mkfs(&[]).status.success());
    assert_eq!(std::fs::metadata(&image).unwrap().len(), 5 << 20);
    let before = std::fs::read(&image).unwrap();
    assert_eq!(mkfs(&[]).status.code(), Some(1));
    assert!(std::fs::read(&image).unwrap() == before);
    assert_eq!(
        mkfs(&["-F", "-J", "size=100"]).status.code(),
        Some(1),
        "a refusal comes before the first write"
    );
    assert!(std::fs::read(&image).unwrap() == before);
    // Only looked at.
    assert!(mkfs(&["-n"]).status.success());
    assert!(std::fs::read(&image).unwrap() == before);
    assert!(mkfs(&["-F", "-t", "ext2"]).status.success());
    assert!(std::fs::read(&image).unwrap() != before);

    // With an offset what is around the volume stays.
    let mut disk = vec![7; 6 << 20];
    disk[1 << 20..].fill(0);
    std::fs::write(&image, &disk).unwrap();
    let output = mkfs(&["-E", "offset=1M"]);
    assert!(output.status.success(), "{output:?}");
    let whole = std::fs::read(&image).unwrap();
    assert!(whole[..1 << 20] == disk[..1 << 20] && whole.len() == disk.len());
    let volume = folder.join("volume.img");
    std::fs::write(&volume, &whole[1 << 20..]).unwrap();
    oracle::e2fsck(&volume).unwrap();
    let names =
        told(&[OsStr::new("ls"), OsStr::new("--offset"), OsStr::new("1M"), image.as_os_str()]);
    assert_eq!(names, b"lost+found\n");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "nothing partial is left");
}

#[test]
fn images_of_the_kernel_are_listed_without_a_difference() {
    let rows = [
        "ext2-b1024-i128",
        "ext3-b4096-i256",
        "ext4-b4096-i256",
        "ext4-b1024-i256-orphan_file",
        "ext4-b2048-i512",
    ];
    let rows: Vec<_> =
        fixtures::all().filter(|fixture| rows.contains(&fixture.name.as_str())).collect();
    assert_eq!(rows.len(), 5);
    let folder = Scratch::new("extant-ls");
    for fixture in rows.into_iter().step_by(number("EXTANT_CASES") as usize) {
        if !fixture.is_possible() {
            return;
        }
        let made = fixture.make(folder.path()).unwrap();
        let before = std::fs::metadata(&made.image).unwrap().modified().unwrap();
        let words = ["ls", "-lR", "--json", "--sha256"].map(OsStr::new);
        let text = told(&[&words[..], &[made.image.as_os_str()]].concat());
        let entries = listing::parse(std::str::from_utf8(&text).unwrap()).unwrap();
        let differences = compare::entries(&made.expected, &entries, &made.options);
        assert!(
            differences.is_empty(),
            "{}: {:#?}",
            fixture.name,
            &differences[..differences.len().min(20)]
        );
        if fixture.filler() == Some(fixtures::Filler::Kernel) {
            compare_with_mount(&made.image);
        }
        assert_eq!(
            std::fs::metadata(&made.image).unwrap().modified().unwrap(),
            before,
            "looking leaves no trace"
        );
        std::fs::remove_file(&made.image).unwrap();
    }
}

/// `ls -l` of each directory against GNU ls, and `cat` and `stat` of what is in it against the
/// kernel.
fn compare_with_mount(image: &Path) {
    use std::os::unix::fs::MetadataExt;
    let mounted = oracle::mount_loop(image, oracle::Access::ReadOnly, "").unwrap();
    let inside = |path: &[u8]| {
        OsStr::from_bytes(&[image.as_os_str().as_bytes(), b":/", path].concat()).to_owned()
    };
    for directory in std::fs::read_dir(mounted.path()).unwrap() {
        let directory = directory.unwrap();
        if directory.file_name() == "lost+found" {
            continue;
        }
        let mut ls = command::program("ls");
        ls.args(["-lnAi", "--time-style=+%Y-%m-%d %H:%M"]).arg(directory.path());
        let expected = ls.env("LC_ALL", "C").env("TZ", "UTC").output().unwrap().stdout;
        let ours = told(&[
            OsStr::new("ls"),
            OsStr::new("-lai"),
            &inside(directory.file_name().as_bytes()),
        ]);
        assert_eq!(
            String::from_utf8_lossy(&ours),
            String::from_utf8_lossy(&expected),
            "{directory:?}"
        );
        for file in std::fs::read_dir(directory.path()).unwrap().take(60) {
            let file = file.unwrap();
            let metadata = file.metadata().unwrap();
            let path =
                [directory.file_name().as_bytes(), b"/", file.file_name().as_bytes()].concat();
            if metadata.is_file() && metadata.len() < 64 << 20 {
                let bytes = told(&[OsStr::new("cat"), &inside(&path)]);
                assert!(bytes == std::fs::read(file.path()).unwrap(), "{file:?}");
            }
            let stat =
                told(&[OsStr::new("stat"), OsStr::new("--json"), OsStr::new("-e"), &inside(&path)]);
            let stat: serde_json::Value = serde_json::from_slice(&stat).unwrap();
            assert_eq!(stat["sectors"], metadata.blocks(), "{file:?}");
            assert_eq!(stat["ino"], metadata.ino(), "{file:?}");
            let runs = stat["extents"].as_array().unwrap().iter();
            let blocks: u64 = runs.map(|run| run["length"].as_u64().unwrap()).sum();
            assert!(
                blocks * stat["block_size"].as_u64().unwrap() / 512 <= metadata.blocks(),
                "{file:?}"
            );
        }
    }
    mounted.unmount().unwrap();
}

#[test]
fn extents_are_those_of_debugfs() {
    if !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("extant-stat");
    let fixture = fixtures::all().find(|fixture| fixture.name == "ext4-b1024-i256").unwrap();
    let made = fixture.make(folder.path()).unwrap();
    for path in ["/life", "/sizes/03145728"] {
        let blocks = oracle::debugfs(&made.image, &format!("blocks {path}")).unwrap();
        let expected: Vec<u64> =
            blocks.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert!(!expected.is_empty());
        let place = format!("{}:{path}", made.image.display());
        let stat: serde_json::Value =
            serde_json::from_slice(&told(&["stat", "--json", "--extents", &place])).unwrap();
        let runs = stat["extents"].as_array().unwrap().iter();
        let number = |run: &serde_json::Value, field: &str| run[field].as_u64().unwrap();
        let ours: Vec<u64> = runs
            .flat_map(|run| (0..number(run, "length")).map(|at| number(run, "block") + at))
            .collect();
        assert_eq!(ours, expected, "{path}");
    }
}

/// A small volume, for spoiling.
fn small_volume(folder: &Scratch, name: &str) -> std::path::PathBuf {
    let image = folder.join(name);
    let mut command = vec!["mkfs", "-q", "-t", "ext4"];
    let path = image.display().to_string();
    command.extend([path.as_str(), "4M"]);
    told(&command);
    image
}

#[test]
fn bad_images_are_told_in_one_line_with_a_hint() {
    let folder = Scratch::new("extant-bad");
    let write = |name: &str, spoil: &dyn Fn(&mut Vec<u8>)| {
        let image = small_volume(&folder, name);
        let mut bytes = std::fs::read(&image).unwrap();
        spoil(&mut bytes);
        std::fs::write(image, bytes).unwrap();
    };
    write("short.img", &|bytes| bytes.truncate(2 << 20));
    write("recovery.img", &|bytes| {
        bytes[1024 + 0x60] |= 4;
        seal(bytes);
    });
    write("features.img", &|bytes| {
        // compression, and one that is unknown.
        bytes[1024 + 0x60] |= 1;
        bytes[1024 + 0x63] |= 0x80;
        seal(bytes);
    });
    write("checksum.img", &|bytes| bytes[1024 + 0x78] ^= 1);
    write("good.img", &|_| ());
    write("lost.img", &|bytes| {
        let mut copy = bytes[1024..2048].to_vec();
        copy[90] = 1;
        bytes.resize(9 << 20, 0);
        bytes[1024..2048].fill(0);
        bytes[8193 * 1024..][..1024].copy_from_slice(&copy);
    });
    write("partitions.img", &|bytes| {
        let volume = std::mem::replace(bytes, vec![0; 1 << 20]);
        bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
        bytes[446 + 4] = 0x83;
        bytes[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
        bytes.extend(volume);
    });
    std::fs::write(folder.join("text.img"), "x".repeat(5000)).unwrap();
    std::fs::write(folder.join("empty.img"), "").unwrap();
    std::fs::create_dir(folder.join("folder")).unwrap();
    let cases: [(&str, i32, &str, &str); 17] = [
        ("ls missing.img", 1, "missing.img: No such file or directory", ""),
        ("ls missing.img:etc", 1, "missing.img: No such file or directory", ""),
        ("ls text.img", 1, "not an ext2, ext3 or ext4 volume", ""),
        ("ls empty.img", 1, "is empty", "mkfs"),
        ("ls folder", 1, "is a directory, not an image", "build"),
        ("ls /dev/null", 1, "neither a regular file nor a block device", "keep it in a file"),
        ("ls lost.img", 1, "its superblock is lost", "extant repair"),
        ("ls short.img", 1, "cut short", "once more"),
        ("ls features.img", 1, "not supported: compression, FEATURE_I31", "extant info"),
        ("ls checksum.img", 1, "checksum", "extant check"),
        ("ls partitions.img", 1, "not an ext2", "--offset 1048576"),
        ("ls --offset 1G good.img", 2, "has only", ""),
        ("cat good.img", 2, "names no file", "IMAGE:/path"),
        ("cat good.img:/none", 1, "good.img:/none: no such file", "ls -R"),
        ("cat good.img:/lost+found", 1, "is a directory", ""),
        ("stat good.img:/lost+found/x", 1, "no such file", "ls -R"),
        ("info text.img", 1, "not an ext2, ext3 or ext4 volume", ""),
    ];
    for (words, code, message, hint) in cases {
        let words: Vec<String> = words
            .split(' ')
            .map(|word| {
                let is_ours = word.contains(".img") || word == "folder";
                if is_ours { folder.join(word).display().to_string() } else { word.to_owned() }
            })
            .collect();
        let (exit, text) = failure(&words);
        assert_eq!(exit, Some(code), "{words:?}: {text}");
        let mut lines = text.lines();
        let first = lines.next().unwrap();
        assert!(
            first.starts_with(&format!("extant: {}: ", words[0])) && first.contains(message),
            "{words:?}: {text}"
        );
        match hint {
            "" => {}
            hint => assert!(
                lines
                    .next()
                    .is_some_and(|line| line.starts_with("  hint: ") && line.contains(hint)),
                "{text}"
            ),
        }
        assert!(lines.next().is_none(), "{words:?}: {text}");
        // The same for programs.
        let (exit, text) = failure(&[&words[..], &["--json".to_owned()]].concat());
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (exit, &record["exit"], &record["command"]),
            (Some(code), &code.into(), &words[0].as_str().into())
        );
    }
    // What cannot be opened as a file system can still be looked at.
    for (name, word) in [
        ("features.img", "compression"),
        ("short.img", "Problem"),
        ("recovery.img", "needs_recovery"),
    ] {
        let text = told(&["info".to_owned(), folder.join(name).display().to_string()]);
        assert!(String::from_utf8_lossy(&text).contains(word), "{name}");
    }
    let found = told(&[
        "ls".into(),
        "--offset".into(),
        "1M".into(),
        folder.join("partitions.img").display().to_string(),
    ]);
    assert_eq!(found, b"lost+found\n");
}

/// Puts the checksum of the superblock right.
fn seal(bytes: &mut [u8]) {
    let sum = extant_format::checksum::crc32c(!0, &bytes[1024..2044]);
    bytes[2044..2048].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn bad_words_end_with_2_and_name_the_option() {
    let folder = Scratch::new("extant-words");
    let image = folder.join("x.img").display().to_string();
    let cases = [
        ("-b 3000", "-b"),
        ("-I 100", "-I"),
        ("-i 1", "-i"),
        ("-N 0", "-N"),
        ("-m 51", "-m"),
        ("-L 12345678901234567", "-L"),
        ("-U nonsense", "-U"),
        ("-O nonsense", "known are 64bit, bigalloc"),
        ("-O shared_blocks", "e2fsdroid"),
        ("-O meta_bg", "resize_inode"),
        ("-C 65536", "bigalloc"),
        ("-O bigalloc -C 3000", "-C"),
        ("-t ext3 -O bigalloc", "extent"),
        ("-E packed_meta_blocks=1", "packed_meta_blocks"),
        ("-E resize=10", "-E resize"),
        ("-J size=x", "-J"),
        ("-G 3", "-G"),
        ("-t ext2 -G 4", "-G"),
        ("-g 100", "-g"),
        ("-T nonsense", "-T"),
        ("--metacluster=centre", "begin, middle or end"),
        ("--metacluster=middle,70%", "middle,1/64"),
        ("-t ext5", "-t"),
        ("-O orphan_file,^has_journal", "orphan_file"),
        ("-t ext2 -O metadata_csum_seed", "metadata_csum_seed"),
    ];
    for (options, word) in cases {
        let words: Vec<&str> =
            ["mkfs"].into_iter().chain(options.split(' ')).chain([image.as_str(), "10M"]).collect();
        let (exit, text) = failure(&words);
        assert_eq!(exit, Some(2), "{options}: {text}");
        assert!(text.contains(word), "{options}: {text}");
    }
    for (words, code, message) in [
        (vec!["mkfs", image.as_str()], 2, "SIZE is needed"),
        (vec!["mkfs", image.as_str(), "8k"], 1, "x.img: "),
        (vec!["mkfs", "-J", "size=100", image.as_str(), "10M"], 1, "no space left"),
        (vec!["mkfs", "-N", "4000000", image.as_str(), "10M"], 1, "too many"),
        (vec!["mkfs", image.as_str(), "10x"], 2, "not a size"),
    ] {
        let (exit, text) = failure(&words);
        assert_eq!(exit, Some(code), "{words:?}: {text}");
        assert!(text.contains(message), "{words:?}: {text}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_mounted_image_is_refused() {
    if !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("extant-mounted");
    let image = small_volume(&folder, "x.img");
    let mounted = oracle::mount_loop(&image, oracle::Access::ReadWrite, "").unwrap();
    let (exit, text) = failure(&[OsStr::new("mkfs"), OsStr::new("-F"), image.as_os_str()]);
    assert_eq!(exit, Some(1));
    assert!(text.contains("is mounted on"), "{text}");
    mounted.unmount().unwrap();
    oracle::e2fsck(&image).unwrap();
}

#[test]
fn a_directory_that_is_met_twice_is_an_error_and_not_a_loop() {
    if !oracle::require("debugfs") {
        return;
    }
    let folder = Scratch::new("extant-cycle");
    let image = small_volume(&folder, "x.img");
    let debugfs = |request: &str| {
        let status = command::program("debugfs")
            .args(["-w", "-R", request])
            .arg(&image)
            .output()
            .unwrap()
            .status;
        assert!(status.success(), "{request}");
    };
    debugfs("mkdir /a");
    debugfs("link /a /lost+found/again");
    debugfs("link / /a/root");
    let image = image.display().to_string();
    for words in [vec!["ls", "-R", &image], vec!["ls", "-R", "--json", &image]] {
        let (exit, text) = failure(&words);
        assert_eq!(exit, Some(1), "{text}");
        assert!(text.contains("directory inode 2 has another name already"), "{text}");
    }
}
