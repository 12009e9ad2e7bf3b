//! -d and options beside it: what mke2fs makes of the same folder, and what is refused by name.
use crate::names::{HASH_SEED, UUID, extant, run, theirs};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options that the same volume comes of, as far as dumpe2fs says.
const SAME: [&str; 23] = [
    "-E root_owner=3:4",
    "-E desc_size=128",
    "-E packed_meta_blocks=1 -b 4096",
    "-E test_fs,stride=4,stripe_width=8",
    "-E lazy_itable_init=0",
    "-E resize=200000",
    "-e panic -M /foo -m 3",
    "-N 900",
    "-r 1",
    "-r 0",
    "-I 512 -i 8192",
    "-o hurd -L label",
    "-b 2048 -g 4096 -G 2",
    "-J size=2",
    "-T news",
    "-O orphan_file",
    "-O ^ext_attr",
    "-O meta_bg,^resize_inode -b 1024 -g 1024",
    "-O bigalloc",
    "-O bigalloc,meta_bg,^resize_inode -b 1024 -C 4096 -g 1024",
    "-O quota",
    "-O quota,project,orphan_file -b 2048",
    "-O bigalloc,quota,ea_inode -b 1024 -C 2048",
];

/// A folder with a mode, owner and time of its own, and attributes where the host has them.
fn folder(scratch: &Scratch) -> PathBuf {
    let folder = scratch.join("source");
    std::fs::create_dir_all(folder.join("d")).unwrap();
    std::fs::write(folder.join("f"), "text").unwrap();
    // mke2fs 1.47 leaves nanoseconds away, which stay here.
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
    std::fs::File::open(folder.join("f")).unwrap().set_modified(time).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o2711)).unwrap();
    for path in [&folder, &folder.join("f")] {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "user.word", b"value", flags).unwrap();
    }
    folder
}

/// What dumpe2fs and debugfs say of a volume, without what tells one run from another.
fn described(image: &Path) -> Vec<String> {
    let (_, fields) = run(theirs("dumpe2fs").arg(image));
    let places = ["Inode table at", "Primary superblock", "Backup superblock"];
    let is_field = |line: &str| {
        let is_place = places.iter().any(|place| line.contains(place));
        // What the files take is the allocation's, beside what they hold.
        let own = ["Lifetime writes", "Checksum", "Free", "write time", "Last checked"];
        is_place
            || (line.contains(':')
                && !line.starts_with([' ', 'G'])
                && !own.iter().any(|word| line.contains(word)))
    };
    let mut lines: Vec<String> =
        fields.lines().filter(|line| is_field(line)).map(str::to_owned).collect();
    for path in ["/", "/f", "/lost+found"] {
        lines.extend(stat(image, path));
    }
    lines
}

/// Mode, owner, times and attributes.
fn stat(image: &Path, path: &str) -> Vec<String> {
    let (_, said) = run(theirs("debugfs").args(["-R", &format!("stat {path}")]).arg(image));
    let wanted = ["Mode:", "User:", "mtime", "user.", "selinux"];
    let is_wanted = |line: &&str| wanted.iter().any(|word| line.contains(word));
    // Each file's generation is drawn.
    let lines = said.lines().filter(is_wanted);
    lines.map(|line| line.split("Generation").next().unwrap_or(line).trim().to_owned()).collect()
}

fn words(options: &str, source: &Path) -> Vec<String> {
    let mut words = vec!["-q", "-F", "-U", UUID].into_iter().map(str::to_owned).collect::<Vec<_>>();
    words.extend(extended(options));
    words.push("-d".to_owned());
    words.push(source.to_str().unwrap().to_owned());
    words
}

/// The words of options, with one -E at the end, which has the hash seed too.
pub fn extended(options: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut extended = HASH_SEED.to_owned();
    let mut options = options.split(' ').filter(|word| !word.is_empty());
    while let Some(option) = options.next() {
        match option {
            "-E" => extended = format!("{extended},{}", options.next().unwrap()),
            _ => words.push(option.to_owned()),
        }
    }
    words.extend(["-E".to_owned(), extended]);
    words
}

#[test]
fn options_beside_a_folder_give_what_mke2fs_gives() {
    if !["mke2fs", "dumpe2fs", "debugfs", "e2fsck"].into_iter().all(require) {
        return;
    }
    let scratch = Scratch::new("names-filled");
    let source = folder(&scratch);
    let images = ["theirs.img", "ours.img"].map(|name| scratch.join(name));
    let mut wrong = Vec::new();
    for options in SAME {
        let _ = images.each_ref().map(std::fs::remove_file);
        let words = words(options, &source);
        let (code, said) = run(theirs("mkfs.ext4").args(&words).arg(&images[0]).arg("32M"));
        assert_eq!(code, Some(0), "{options}: {said}");
        let (code, said) = run(extant("mkfs.ext4").args(&words).arg(&images[1]).arg("32M"));
        assert_eq!(code, Some(0), "{options}: {said}");
        e2fsck(&images[1]).unwrap_or_else(|error| panic!("{options}: {error}"));
        let [their, our] = images.each_ref().map(|image| described(image));
        assert!(their.len() > 40, "{options}: {their:?}");
        let differing = their.iter().filter(|line| !our.contains(line));
        let missing = our.iter().filter(|line| !their.contains(line));
        let lines: Vec<String> = differing
            .map(|line| format!("- {line}"))
            .chain(missing.map(|line| format!("+ {line}")))
            .collect();
        if !lines.is_empty() {
            wrong.push(format!("{options}\n{}", lines.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn attributes_stay_out_where_they_are_not_wanted_or_have_no_place() {
    if !require("debugfs") || !require("e2fsck") {
        return;
    }
    let scratch = Scratch::new("names-attributes");
    let source = folder(&scratch);
    let image = scratch.join("x.img");
    let wanted = |options: &str| {
        let _ = std::fs::remove_file(&image);
        let words = words(options, &source);
        let (code, said) = run(extant("mkfs.ext4").args(words).arg(&image).arg("16M"));
        assert_eq!(code, Some(0), "{options}: {said}");
        e2fsck(&image).unwrap_or_else(|error| panic!("{options}: {error}"));
        let has = ["/", "/f"].map(|path| stat(&image, path).join("\n").contains("user.word"));
        (has, said)
    };
    assert_eq!(wanted("").0, [true, true]);
    let (has, said) = wanted("-E no_copy_xattrs");
    assert_eq!(has, [false, false]);
    assert!(!said.contains("lose"), "{said}");
    for options in ["-O ^ext_attr", "-r 0", "-O ^ext_attr,^extent,^64bit -I 128"] {
        let (has, said) = wanted(options);
        assert_eq!(has, [false, false], "{options}");
        assert!(said.contains("2 files lose their extended attributes"), "{options}: {said}");
    }
    // Our own command takes nothing away.
    let mut build = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    build.args(["build", "-O", "^ext_attr"]).arg(&source).arg(scratch.join("y.img"));
    let (code, said) = run(&mut build);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("ext_attr"), "{said}");
}

#[test]
fn the_root_has_the_mode_and_the_label_that_are_asked_for() {
    if !require("debugfs") || !require("e2fsck") {
        return;
    }
    let scratch = Scratch::new("names-root");
    let source = folder(&scratch);
    let image = scratch.join("x.img");
    let label = "security.selinux (28) = \"system_u:object_r:root_t:s0\\000\"";
    for (options, is_filled) in [
        ("-E root_perms=1700,root_selinux=system_u:object_r:root_t:s0", true),
        ("-E root_perms=1700,root_selinux=system_u:object_r:root_t:s0", false),
        ("-E root_perms=1700,no_copy_xattrs,root_selinux=system_u:object_r:root_t:s0", true),
    ] {
        let _ = std::fs::remove_file(&image);
        let mut words = words(options, &source);
        if !is_filled {
            words.truncate(words.len() - 2);
        }
        let (code, said) = run(extant("mkfs.ext4").args(words).arg(&image).arg("16M"));
        assert_eq!(code, Some(0), "{options}: {said}");
        e2fsck(&image).unwrap_or_else(|error| panic!("{options}: {error}"));
        let root = stat(&image, "/").join("\n");
        assert!(root.contains("Mode:  01700"), "{options}: {root}");
        assert!(root.contains(label), "{options}: {root}");
        let lost = stat(&image, "/lost+found").join("\n");
        assert!(lost.contains("Mode:  0700") && !lost.contains("selinux"), "{options}: {lost}");
    }
}

#[test]
fn what_the_builder_does_not_do_is_refused_and_nothing_is_made() {
    let scratch = Scratch::new("names-unfilled");
    let source = folder(&scratch);
    let image = scratch.join("x.img");
    for (options, reason) in [
        ("-J size=4,location=5000", "-J location: is not supported together with -d"),
        ("-O fast_commit -J fast_commit_size=512", "-J fast_commit_size: is not"),
        ("-O orphan_file -E orphan_file_size=64K", "-E orphan_file_size: is not"),
        ("-O quota -E quotatype=usrquota", "-E quotatype: is not"),
        ("-O casefold", "-d: a volume with casefold"),
    ] {
        let words = words(options, &source);
        let (code, said) = run(extant("mkfs.ext4").args(words).arg(&image).arg("32M"));
        assert_eq!(code, Some(1), "{options}: {said}");
        assert!(said.contains(reason), "{options}: {said}");
        assert!(!image.exists(), "{options}");
    }
}

/// -E sparse, a word of our own; without it zeros of large files are holes, as mke2fs has them.
#[test]
fn zeros_are_holes_as_the_word_says() {
    if !require("debugfs") || !require("e2fsck") {
        return;
    }
    let scratch = Scratch::new("names-zeros");
    let source = folder(&scratch);
    std::fs::write(source.join("zeros"), vec![0; 8 << 20]).unwrap();
    std::fs::write(source.join("small"), vec![0; 8192]).unwrap();
    let image = scratch.join("x.img");
    let blocks = |path: &str| {
        let (_, said) = run(theirs("debugfs").args(["-R", &format!("stat {path}")]).arg(&image));
        let count =
            said.split("Blockcount: ").nth(1).and_then(|rest| rest.split_whitespace().next());
        count.and_then(|count| count.parse::<u64>().ok()).unwrap()
    };
    for (options, expected) in [
        ("-b 4096", [0, 16]),
        ("-b 4096 -E sparse=auto", [0, 16]),
        ("-b 1024 -E sparse=always", [0, 0]),
        ("-b 4096 -E sparse=never", [16_384, 16]),
    ] {
        let _ = std::fs::remove_file(&image);
        let words = words(options, &source);
        let (code, said) = run(extant("mkfs.ext4").args(words).arg(&image).arg("32M"));
        assert_eq!(code, Some(0), "{options}: {said}");
        e2fsck(&image).unwrap_or_else(|error| panic!("{options}: {error}"));
        assert_eq!(["/zeros", "/small"].map(blocks), expected, "{options}");
    }
    let mut command = extant("mkfs.ext4");
    let (code, said) = run(command.args(words("-E sparse=some", &source)).arg(&image).arg("32M"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("sparse"), "{said}");
}

/// Values that have no room in inode and block, of a file, a folder and a symlink; two files have
/// the same.
const LARGE: [&str; 4] = ["f", "again", "d", "link"];

fn set_large(source: &Path) {
    std::fs::write(source.join("again"), "text").unwrap();
    std::os::unix::fs::symlink("f", source.join("link")).unwrap();
    for (name, length) in LARGE.into_iter().zip([3000, 3000, 2500, 2000]) {
        let flags = rustix::fs::XattrFlags::empty();
        let value = vec![b'v'; length];
        let key = if name == "link" { "trusted.large" } else { "user.large" };
        rustix::fs::lsetxattr(source.join(name), key, &value, flags).unwrap();
    }
}

fn large(root: &Path) -> Vec<Vec<u8>> {
    let value = |name: &str| {
        let key = if name == "link" { "trusted.large" } else { "user.large" };
        let mut value = vec![0; 4000];
        let length = rustix::fs::lgetxattr(root.join(name), key, &mut value[..]).unwrap_or(0);
        value.truncate(length);
        value
    };
    LARGE.into_iter().map(value).collect()
}

#[test]
fn large_values_are_in_inodes_and_counted() {
    use extant_testkit::oracle::{Access, can_mount, mount_loop};
    if !require("e2fsck") || !can_mount() {
        return;
    }
    let scratch = Scratch::new("names-large-values");
    let source = folder(&scratch);
    set_large(&source);
    let images = ["one.img", "two.img"].map(|name| scratch.join(name));
    let program = extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant"));
    for options in [
        "-b 1024 -O ea_inode",
        "-b 1024 -O ea_inode,quota",
        "-b 1024 -O ea_inode,quota,bigalloc -C 4096 -I 128",
        "-b 1024 -O ea_inode,^extent,^64bit",
        "-b 2048 -O ea_inode,meta_bg,^resize_inode,mmp,quota,orphan_file",
    ] {
        for build in [false, true] {
            for image in &images {
                let _ = std::fs::remove_file(image);
                let (code, said) = match build {
                    false => {
                        let words = words(options, &source);
                        run(extant("mkfs.ext4").args(words).arg(image).arg("32M"))
                    }
                    true => {
                        let words = options.split(' ');
                        let mut command = Command::new(program);
                        run(command.arg("build").args(words).arg(&source).arg(image))
                    }
                };
                assert_eq!(code, Some(0), "{options}: {said}");
            }
            let [one, two] = images.each_ref().map(|image| std::fs::read(image).unwrap());
            assert!(one == two, "{options}: the same tree, the same bytes");
            // It waits for a minute before it looks at a volume with mmp.
            if !options.contains("mmp") || !build {
                e2fsck(&images[0]).unwrap_or_else(|error| panic!("{options}: {error}"));
            }
            // Quotas are an option of the kernel's build, which a reader need not have.
            let mounted = mount_loop(&images[0], Access::ReadOnly, "").unwrap();
            assert_eq!(large(mounted.path()), large(&source), "{options}");
            mounted.unmount().unwrap();
        }
    }
}
