//! Flags of chattr through archives: what `tar` writes bsdtar reads, and `build` keeps; what it
//! cannot keep is said.
use crate::take::command::{extant, told};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::path::Path;

/// Files, their flags, and the words of libarchive for these.
const FILES: [(&str, u32, &str); 5] = [
    ("immutable", 0x10, "schg"),
    ("append", 0x20, "sappnd"),
    ("plain", 0, ""),
    ("several", 0x40c9, "nodump,noatime,journal-data,secdel,sync"),
    ("rest", 0x80_0046, "nodump,undel,compress,nocow"),
];

/// Flags of an inode without those that say how it is stored.
fn flags(image: &Path, path: &str) -> u32 {
    let said = oracle::debugfs(image, &format!("stat {path}")).unwrap();
    let after = said.split("Flags: 0x").nth(1).unwrap();
    let digits: String = after.chars().take_while(char::is_ascii_hexdigit).collect();
    u32::from_str_radix(&digits, 16).unwrap() & !0x8_0000
}

/// `x.img`, with these files, a directory that has flags of its own, and a pipe.
fn volume(folder: &Path) {
    let tree = folder.join("tree");
    fs::create_dir_all(tree.join("folder")).unwrap();
    for (name, ..) in FILES {
        fs::write(tree.join(name), name).unwrap();
    }
    output(program("mkfifo").arg(tree.join("pipe"))).unwrap();
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-O", "casefold", "-E", "encoding=utf8", "-d", "tree"]);
    output(mke2fs.args(["x.img", "8M"]).current_dir(folder)).unwrap();
    let rest = [("folder", 0x4003_0080, ""), ("pipe", 0xc0, "")];
    for (name, flags, _) in FILES.iter().chain(&rest) {
        let stored = if *name == "pipe" { *flags } else { flags | 0x8_0000 };
        let request = format!("set_inode_field /{name} flags {stored:#x}");
        let debugfs = &mut program("debugfs");
        output(debugfs.args(["-w", "-R", &request, "x.img"]).current_dir(folder)).unwrap();
    }
}

#[test]
fn what_tar_writes_build_keeps_and_the_rest_is_said() {
    if !["mke2fs", "debugfs", "e2fsck"].iter().all(|tool| require(tool)) {
        return;
    }
    let scratch = Scratch::new("take-flags");
    let folder = scratch.path();
    volume(folder);
    told(&["tar", "x.img", "-o", "x.tar"], folder);
    let built = extant(&["build", "x.tar", "y.img"], folder);
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    // Names without case are not made here.
    assert_eq!(said.matches("file flags").count(), 1, "{said}");
    assert!(said.contains("folder: its file flags (casefold) were left out"), "{said}");
    let image = folder.join("y.img");
    oracle::e2fsck(&image).unwrap();
    for (name, expected, _) in FILES {
        assert_eq!(flags(&image, &format!("/{name}")), expected, "{name}");
    }
    assert_eq!(flags(&image, "/folder"), 0x3_0080);
    assert_eq!(flags(&image, "/pipe"), 0xc0);
    // Two images are compared by them.
    let differs = extant(&["diff", "--ignore", "times", "x.img", "y.img"], folder);
    let lines = String::from_utf8_lossy(&differs.stdout).into_owned();
    assert_eq!(lines, "folder: flags ADTF -> ADT\n");
}

#[test]
fn bsdtar_reads_and_writes_the_same_words() {
    if !["mke2fs", "debugfs", "bsdtar"].iter().all(|tool| require(tool)) {
        return;
    }
    let scratch = Scratch::new("take-flags-bsdtar");
    let folder = scratch.path();
    volume(folder);
    told(&["tar", "x.img", "-o", "x.tar"], folder);
    let mut list = program("bsdtar");
    list.args(["-cf", "-", "--format=mtree", "--options=mtree:flags", "@x.tar"]);
    let listed = output(list.current_dir(folder)).unwrap().stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    for (name, _, words) in FILES {
        let line = listed.lines().find(|line| line.starts_with(&format!("./{name} ")));
        let line = line.unwrap_or_else(|| panic!("{name}: {listed}"));
        let found = line.split("flags=").nth(1).map(|rest| rest.split(' ').next().unwrap());
        assert_eq!(found.unwrap_or(""), words, "{line}");
    }
    // The other way.
    let mut spec = String::from("#mtree\n");
    for (name, _, words) in FILES {
        let flags = if words.is_empty() { String::new() } else { format!(" flags={words}") };
        spec += &format!("./{name} type=file mode=0644 uid=0 gid=0 time=1.0 size=0{flags}\n");
    }
    fs::write(folder.join("spec"), spec).unwrap();
    let empty = folder.join("empty");
    fs::create_dir(&empty).unwrap();
    FILES.iter().for_each(|(name, ..)| fs::write(empty.join(name), "").unwrap());
    let mut make = program("bsdtar");
    make.args(["-cf", "../z.tar", "--format=pax", "@../spec"]);
    output(make.current_dir(&empty)).unwrap();
    told(&["build", "-q", "z.tar", "z.img"], folder);
    for (name, expected, _) in FILES {
        assert_eq!(flags(&folder.join("z.img"), &format!("/{name}")), expected, "{name}");
    }
}
