//! Words of mke2fs that are refused, and files that keep what they have.
use crate::names::{TIME, extant, run};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::process::Command;

#[test]
fn what_is_refused_is_named_and_changes_nothing() {
    let folder = Scratch::new("names-refused");
    let image = folder.join("x.img");
    for (words, reason) in [
        ("-z undo", "-z:"),
        ("-S -c -c", "-S -c -c:"),
        ("-S -l list", "-S:"),
        ("-J size=4", "Total journal size too big for filesystem."),
        ("-b 1024 -J size=1,fast_commit_size=3100 -O fast_commit", "Total journal size too big"),
        ("-l absent", "absent"),
        ("-S -d .", "-S:"),
        ("-c -d .", "-d"),
        ("-O bigalloc -C 2000", "invalid cluster size - 2000"),
        ("-C 16384", "specifying a cluster size requires the bigalloc feature"),
        ("-O bigalloc,^extent,^64bit", "Can't support bigalloc feature without extents feature"),
        ("-O meta_bg", "resize_inode and meta_bg features are not compatible"),
        ("-E android_sparse -O casefold", "-E android_sparse: a volume with casefold"),
        ("-b 3", "invalid block size - 3"),
        ("-I 100", "inode size 100"),
        ("-O nonsense", "Invalid filesystem option set: nonsense"),
        ("-E nonsense", "Bad option(s) specified: nonsense"),
        ("-J nonsense=1", "Bad journal options specified: nonsense=1"),
        ("-J device=/dev/null", "/dev/null is not a block special device"),
        ("-E android_sparse,offset=1M", "-E android_sparse: a sparse image"),
        ("-t ext5", "ext5"),
        ("-T nonsense", "nonsense"),
        ("-U nonsense", "could not parse UUID: nonsense"),
        ("-O ^extent", "Extents MUST be enabled"),
        ("-G 4 -O ^flex_bg", "Flex_bg feature not enabled"),
        ("-E encoding_flags=strict", "An encoding must be explicitly specified"),
        ("-X", "invalid option -- 'X'"),
        ("-m 60", "invalid reserved blocks percent - 60"),
        ("-N 99999999", "inodes"),
    ] {
        let mut command = extant("mkfs.ext4");
        let (code, said) = run(command.args(words.split(' ')).arg(&image).arg("8M"));
        assert_eq!(code, Some(1), "{words}: {said}");
        assert!(said.contains(reason), "{words}: {said}");
        assert!(!image.exists(), "{words}: the file was made");
    }
    assert_eq!(run(extant("mke2fs").arg(&image)).0, Some(1), "no size");
    assert!(!image.exists());
}

#[test]
fn getopt_reads_letters_joined_and_after_operands() {
    let folder = Scratch::new("names-getopt");
    let images = ["a.img", "b.img", "c.img"].map(|name| folder.join(name));
    let uuid = "00112233-4455-6677-8899-aabbccddeeff";
    let seed = "hash_seed=random-is-no-seed".replace("random-is-no-seed", uuid);
    let lines = [
        vec!["-Fq", "-b4096", "-U", uuid, "-E", &seed, "IMAGE", "16M"],
        vec!["IMAGE", "-F", "-q", "16M", "-b", "4096", "-U", uuid, "-E", &seed],
        vec!["-qFb4096", "-U", uuid, "-E", &seed, "--", "IMAGE", "4096"],
    ];
    for (image, line) in images.iter().zip(&lines) {
        let image = image.to_str().unwrap();
        let words = line.iter().map(|word| if *word == "IMAGE" { image } else { word });
        let (code, said) = run(extant("mkfs.ext4").args(words));
        assert_eq!(code, Some(0), "{line:?}: {said}");
    }
    let first = std::fs::read(&images[0]).unwrap();
    assert!(images.iter().all(|image| std::fs::read(image).unwrap() == first));
}

#[test]
fn a_file_that_is_there_keeps_its_size() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("names-existing");
    let image = folder.join("x.img");
    std::fs::write(&image, vec![7; 20 << 20]).unwrap();
    let (code, said) = run(extant("mkfs.ext4").arg("-q").arg(&image));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(std::fs::metadata(&image).unwrap().len(), 20 << 20);
    e2fsck(&image).unwrap();
    // A smaller volume in it, and what is after the volume.
    let (code, said) =
        run(extant("mkfs.ext2").args(["-q", "-E", "nodiscard"]).arg(&image).arg("8M"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(std::fs::metadata(&image).unwrap().len(), 20 << 20);
    e2fsck(&image).unwrap();
}

#[test]
fn a_run_that_is_dry_writes_nothing_and_prints_the_copies() {
    let folder = Scratch::new("names-dry");
    let image = folder.join("x.img");
    let (code, said) = run(extant("mkfs.ext4").arg("-n").arg(&image).arg("300M"));
    assert_eq!(code, Some(0), "{said}");
    assert!(!image.exists());
    let copies = "8193, 24577, 40961, 57345, 73729, 204801, 221185";
    assert!(said.contains(copies), "{said}");
    assert!(said.contains("Creating filesystem with 307200 1k blocks and 76912 inodes"), "{said}");
}

#[test]
fn links_are_made_and_called() {
    let folder = Scratch::new("names-links");
    let program = extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant"));
    let (code, said) = run(Command::new(program).arg("names").arg(folder.path()));
    assert_eq!(code, Some(0), "{said}");
    let image = folder.join("x.img");
    let mut command = Command::new(folder.join("mkfs.ext4"));
    let (code, said) = run(command.env("SOURCE_DATE_EPOCH", TIME).arg(&image).arg("16M"));
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run(Command::new(folder.join("fsck.ext4")).arg("-fn").arg(&image));
    assert_eq!(code, Some(0), "{said}");
    let again = folder.join("y.img");
    let mut command = Command::new(folder.join("mkfs.ext4"));
    let (code, _) = run(command.env("SOURCE_DATE_EPOCH", TIME).arg("-q").arg(&again).arg("16M"));
    assert_eq!(code, Some(0));
    let same = std::fs::read(&image).unwrap() == std::fs::read(&again).unwrap();
    assert!(same, "with a time in the environment the same command makes the same bytes");
    let (code, said) = run(Command::new(program).arg("names").arg(folder.path()));
    assert_eq!(code, Some(1), "{said}");
    std::fs::remove_file(folder.join("e2label")).unwrap();
    std::fs::write(folder.join("e2label"), "a program").unwrap();
    let (code, said) = run(Command::new(program).args(["names", "-F"]).arg(folder.path()));
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(std::fs::read_to_string(folder.join("e2label")).unwrap(), "a program");
}

#[test]
fn a_source_that_cannot_be_read_leaves_the_image_as_it_was() {
    let folder = Scratch::new("names-source");
    let image = folder.join("x.img");
    let absent = folder.join("absent");
    let mut command = extant("mkfs.ext4");
    let (code, said) = run(command.args(["-q", "-d"]).arg(&absent).arg(&image).arg("16M"));
    assert_eq!(code, Some(1), "{said}");
    assert!(!image.exists(), "a file that was made stayed");
    std::fs::write(&image, vec![7; 16 << 20]).unwrap();
    let mut command = extant("mkfs.ext4");
    let (code, said) = run(command.args(["-q", "-F", "-d"]).arg(&absent).arg(&image));
    assert_eq!(code, Some(1), "{said}");
    assert!(std::fs::read(&image).unwrap() == vec![7; 16 << 20], "it was changed");
    std::fs::create_dir(&absent).unwrap();
    std::fs::write(absent.join("file"), "text").unwrap();
    let mut command = extant("mkfs.ext4");
    let (code, said) = run(command.args(["-q", "-F", "-d"]).arg(&absent).arg(&image).arg("8M"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(std::fs::metadata(&image).unwrap().len(), 16 << 20, "a file keeps its size");
    if require("e2fsck") {
        e2fsck(&image).unwrap();
    }
}

#[test]
fn a_block_device_is_written_unless_it_is_mounted() {
    use extant_testkit::oracle::can_mount;
    if !can_mount() || !require("losetup") {
        return;
    }
    let folder = Scratch::new("names-device");
    let image = folder.join("x.img");
    std::fs::write(&image, vec![7; 16 << 20]).unwrap();
    let shown = image.to_str().unwrap();
    let made = extant_testkit::command::run("losetup", &["-f", "--show", shown]).unwrap();
    let device = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let (code, said) = run(extant("mkfs.ext4").args(["-q", "-F", &device]));
    let sound = e2fsck(&image);
    let point = folder.join("mounted");
    std::fs::create_dir(&point).unwrap();
    let mounted = run(Command::new("mount").arg(&device).arg(&point));
    let refused: Vec<_> = [("mkfs.ext4", "-F", 1), ("e2fsck", "-fp", 8)]
        .map(|(name, word, code)| (run(extant(name).args([word, &device])), code))
        .into();
    let _ = run(Command::new("umount").arg(&point));
    let _ = run(Command::new("losetup").args(["-d", &device]));
    assert_eq!(code, Some(0), "{said}");
    sound.unwrap();
    assert_eq!(mounted.0, Some(0), "{}", mounted.1);
    for ((code, said), wanted) in refused {
        assert_eq!(code, Some(wanted), "{said}");
        assert!(said.contains("mounted"), "{said}");
    }
}
