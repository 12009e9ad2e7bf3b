//! Words of the command line, and files, that mean something to other tools: what is said of each.
use crate::commands::command::printed_text;
use extant_testkit::command::{find, output, program};
use extant_testkit::lines::longer_than;
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

fn extant(words: &[&str], folder: &Path) -> Output {
    crate::commands::command::command(words).current_dir(folder).output().unwrap()
}

fn told(words: &[&str], folder: &Path) -> String {
    printed_text(words, extant(words, folder))
}

/// Exit code, message and hint of a command that has to fail.
fn refused(words: &[&str], folder: &Path) -> (Option<i32>, String, String) {
    let output = extant(words, folder);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines = errors.lines();
    let message = lines.next().unwrap_or_default().to_owned();
    let hint = lines.next().unwrap_or_default().to_owned();
    assert!(output.stdout.is_empty() && lines.next().is_none(), "{words:?}: {errors}");
    (output.status.code(), message, hint)
}

/// What a program sees is a number that each tool has its own meaning for.
#[test]
fn an_exit_code_is_explained_where_that_is_asked_for() {
    if !require("debugfs") {
        return;
    }
    let folder = Scratch::new("words-exit");
    told(&["mkfs", "-q", "disk.img", "8M"], folder.path());
    let ended = |words: &[&str]| {
        let output = extant(words, folder.path());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        errors.lines().last().unwrap_or_default().to_owned()
    };
    let check = ["check", "--explain-exit", "disk.img"];
    let clean = "extant: check: exit 0: nothing was wrong, or looked for; a journal may have been \
                 replayed";
    assert_eq!(ended(&check), clean);
    let wrong = ["-w", "-R", "sif <2> links_count 9", "disk.img"];
    output(program("debugfs").args(wrong).current_dir(folder.path())).expect("it is set");
    assert_eq!(ended(&check), "extant: check: exit 4: problems are left");
    let said = ended(&["check", "--json", "--explain-exit", "disk.img"]);
    assert!(said.starts_with("{\"schema\":\"extant-exit/1\","), "{said}");
    assert!(said.contains("\"exit\":4,"), "{said}");
    let repair = ["repair", "-q", "--explain-exit", "disk.img"];
    assert_eq!(ended(&repair), "extant: repair: exit 1: problems were mended, or would be");
    let ls = ended(&["ls", "--explain-exit", "disk.img:/nothing"]);
    assert_eq!(ls, "extant: ls: exit 1: failed, or files were left out");
    let none = ended(&["heal", "--explain-exit", "no.img"]);
    assert!(none.ends_with("exit 8: it could not be done, which says nothing of the volume"));
    // Words that are not accepted, too.
    let wrong = ended(&["repair", "--explain-exit", "--frob", "disk.img"]);
    assert_eq!(wrong, "extant: repair: exit 16: the words are wrong");
    assert_eq!(ended(&["frob", "--explain-exit"]), "extant: exit 2: the words are wrong");
    assert_eq!(ended(&["--help", "--explain-exit"]), "extant: exit 0: done");
}

#[test]
fn commands_of_other_tools_say_what_does_that_here() {
    let folder = Scratch::new("words-elsewhere");
    for (word, advice) in [
        ("unpack", "extant extract IMAGE DIR"),
        ("fuse2fs", "extant mount IMAGE FOLDER"),
        ("copy", "extant cp -a IMAGE:/PATH FILE"),
        ("cmp", "extant diff A B"),
        ("grow", "extant resize IMAGE SIZE"),
        ("pishrink", "extant shrink IMAGE"),
        ("resize2fs", "--as resize2fs"),
        ("mke2fs", "extant mkfs"),
        ("create", "extant build FOLDER IMAGE"),
        ("fsck", "extant check"),
        ("verify", "extant check"),
        ("fix", "extant repair IMAGE"),
        ("dumpe2fs", "extant info"),
        ("debugfs", "extant stat"),
        ("remove", "extant rm"),
        ("mknod", "extant mount IMAGE -- "),
        ("list", "extant ls"),
        ("usage", "extant df"),
        ("size", "extant du"),
        ("locate", "extant find"),
        ("e2image", "cp --sparse"),
    ] {
        let (code, message, hint) = refused(&[word, "--some-option", "disk.img"], folder.path());
        assert_eq!(code, Some(2), "{word}");
        assert_eq!(message, format!("extant: {word}: there is no such command"));
        let advice = advice.replace("extant stat", "cat and stat");
        assert!(hint.starts_with("  hint: ") && hint.contains(&advice), "{word}: {hint}");
    }
    let output = extant(&["--json", "unpack", "disk.img"], folder.path());
    let line: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(line["hint"].as_str().unwrap().contains("extant extract"), "{line}");
    // A slip of the finger is still mended by what looks similar.
    let output = extant(&["biuld"], folder.path());
    assert!(String::from_utf8_lossy(&output.stderr).contains("'build'"));
}

#[test]
fn the_manual_of_a_command_is_shown_and_no_folder_is_made_for_it() {
    let folder = Scratch::new("words-man");
    let names = || {
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    for (words, title) in [
        (&["man", "build"][..], "extant-build"),
        (&["man", "lab", "posts"], "extant-lab-posts"),
        (&["man"], "extant"),
    ] {
        let page = told(words, folder.path());
        let line = page.lines().find(|line| line.starts_with(".TH ")).unwrap();
        assert!(line.starts_with(&format!(".TH {title} 1")), "{line}");
    }
    let (code, message, hint) = refused(&["man", "manual-pages"], folder.path());
    assert_eq!(code, Some(2));
    assert!(message.contains("no such command") && hint.contains("./manual-pages"), "{hint}");
    assert_eq!(names(), [""; 0]);
    // A folder that has the name of a command is the command.
    fs::create_dir(folder.join("build")).unwrap();
    told(&["man", "build"], folder.path());
    assert_eq!(fs::read_dir(folder.join("build")).unwrap().count(), 0);
    fs::create_dir(folder.join("pages")).unwrap();
    for target in ["pages", "./build", "new/man1"] {
        told(&["man", target], folder.path());
        assert!(folder.join(target).join("extant-build.1").is_file(), "{target}");
        assert!(folder.join(target).join("extant-lab-posts.1").is_file(), "{target}");
    }
    assert_eq!(names(), ["build", "new", "pages"]);
}

/// On a terminal man(1) shows the page; where it is missing its source is printed.
#[test]
fn a_terminal_gets_a_page_that_can_be_read() {
    if !require("script") {
        return;
    }
    let folder = Scratch::new("words-terminal");
    let on_terminal = |words: &str, columns: u32| {
        let line = format!(
            "stty cols {columns}; {} {words}",
            extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant"))
        );
        let mut script = program("script");
        script
            .args(["-qec", &line, "/dev/null"])
            .current_dir(folder.path())
            .env("TERM", "dumb")
            .env("MANPAGER", "cat")
            .stdin(std::process::Stdio::null());
        String::from_utf8_lossy(&output(&mut script).unwrap().stdout).replace('\r', "")
    };
    if find("man").is_some() {
        let page = on_terminal("man build", 80);
        assert!(
            page.contains("General Commands Manual") && !page.contains(".SH SYNOPSIS"),
            "{page}"
        );
    }
    for columns in [70, 130] {
        let policies = on_terminal("lab policies", columns);
        assert_eq!(longer_than(&policies, columns as usize), Vec::<&str>::new());
        let longest = policies.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest + 20 > columns as usize, "{longest} of {columns}");
    }
}

/// A file made by another program, or with its mark at its place; and words of what is said.
fn foreign(folder: &Path) -> Vec<(&'static str, &'static str, &'static str)> {
    let marked = |name: &str, at: usize, mark: &[u8]| {
        let mut bytes = vec![0; (at + mark.len()).max(128 << 10)];
        bytes[at..at + mark.len()].copy_from_slice(mark);
        fs::write(folder.join(name), bytes).unwrap();
    };
    let mut cases = Vec::new();
    for (name, at, mark, what, advice) in [
        ("a.vmdk", 0, b"KDMV".as_slice(), "a VMDK image", "qemu-img convert"),
        ("a.vhdx", 0, b"vhdxfile", "a VHDX image", "qemu-img convert"),
        ("a.vhd", 0, b"conectix", "a VHD image", "qemu-img convert"),
        ("a.vdi", 0x40, b"\x7f\x10\xda\xbe", "a VDI image", "qemu-img convert"),
        ("a.xfs", 0, b"XFSB", "an XFS file system", "mount"),
        ("a.btrfs", 0x1_0040, b"_BHRfS_M", "a Btrfs file system", "mount"),
        ("a.squashfs", 0, b"hsqs", "a Squashfs file system", "unsquashfs"),
        ("a.erofs", 1024, b"\xe2\xe1\xf5\xe0", "an EROFS file system", "mount"),
        ("a.f2fs", 1024, b"\x10\x20\xf5\xf2", "an F2FS file system", "mount"),
        ("a.ntfs", 3, b"NTFS    ", "an NTFS file system", "mount"),
        ("a.luks", 0, b"LUKS\xba\xbe\0\x02", "a LUKS volume", "cryptsetup open"),
        ("a.lvm", 0x218, b"LVM2 001", "an LVM physical volume", "vgchange"),
        ("a.iso", 0x8001, b"CD001", "an ISO 9660 image", "mount"),
    ] {
        marked(name, at, mark);
        cases.push((name, what, advice));
    }
    fs::write(folder.join("content"), vec![b'x'; 100_000]).unwrap();
    let mut made =
        |name: &'static str, tool: &str, line: &str, what: &'static str, advice: &'static str| {
            if find(tool).is_some() {
                let mut shell = program("sh");
                output(shell.args(["-c", line]).current_dir(folder))
                    .unwrap_or_else(|error| panic!("{error}"));
                cases.push((name, what, advice));
            }
        };
    made("b.tar", "tar", "tar -cf b.tar content", "a tar archive", "extant build");
    made("b.swap", "mkswap", "truncate -s 1M b.swap && mkswap b.swap", "swap space", "");
    made(
        "b.fat",
        "mkfs.fat",
        "truncate -s 40M b.fat && mkfs.fat b.fat",
        "a FAT file system",
        "mount",
    );
    made("c.vdi", "qemu-img", "qemu-img create -q -f vdi c.vdi 8M", "a VDI image", "qemu-img");
    made("c.vhdx", "qemu-img", "qemu-img create -q -f vhdx c.vhdx 8M", "a VHDX image", "qemu-img");
    made("c.vmdk", "qemu-img", "qemu-img create -q -f vmdk c.vmdk 8M", "a VMDK image", "qemu-img");
    made("c.vhd", "qemu-img", "qemu-img create -q -f vpc c.vhd 8M", "a VHD image", "qemu-img");
    cases
}

#[test]
fn files_that_are_something_else_are_named_by_every_command() {
    let folder = Scratch::new("words-foreign");
    let cases = foreign(folder.path());
    let commands: [&[&str]; 7] = [
        &["ls"],
        &["cat"],
        &["stat"],
        &["info"],
        &["layout"],
        &["check"],
        &["tar", "-o", "out.tar"],
    ];
    for (name, what, advice) in &cases {
        for command in commands {
            let name_or_path = match command[0] {
                "cat" => format!("{name}:/x"),
                _ => (*name).to_owned(),
            };
            let (code, message, hint) =
                refused(&[command, &[&name_or_path]].concat(), folder.path());
            assert_eq!(code, Some(if command[0] == "check" { 8 } else { 1 }), "{command:?} {name}");
            let expected = format!("{name}: not an ext2, ext3 or ext4 volume but {what}");
            assert!(message.ends_with(&expected), "{command:?}: {message}");
            assert!(hint.contains(advice), "{name}: {hint}");
        }
    }
    let (name, what, _) = cases[0];
    for words in
        [&["age", name, "--profile", "mail"][..], &["lab", "run", "read-cold", "--image", name]]
    {
        let (code, message, _) = refused(words, folder.path());
        assert!(code == Some(1) && message.ends_with(what), "{words:?}: {message}");
    }
    assert!(!folder.join("out.tar").exists());
    fs::write(folder.join("zeros.img"), vec![0; 100_000]).unwrap();
    let (_, message, hint) = refused(&["ls", "zeros.img"], folder.path());
    assert!(
        message.contains("begins with zeros")
            && hint.contains("--superblock 32768 --block-size 4096 zeros.img"),
        "{message}: {hint}"
    );
    assert!(!hint.contains("mkfs"), "{hint}");
}

/// A volume at 1 MiB without a partition table: where it is is said, and nothing is made over it.
#[test]
fn a_volume_further_in_is_found_and_kept() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("extant-further-in");
    let image = folder.join("p.img");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    output(program("mke2fs").args(["-q", "-F", "-E", "offset=1048576"]).arg(&image).arg("8M"))
        .unwrap();
    let before = fs::read(&image).unwrap();
    for words in [
        &["ls", "p.img"][..],
        &["info", "p.img"],
        &["check", "p.img"],
        &["ls", "--offset", "2048", "p.img"],
        &["tar", "--offset", "1024", "p.img"],
    ] {
        let (_, message, hint) = refused(words, folder.path());
        assert!(
            hint.contains("--offset 1048576") && !hint.contains("mkfs"),
            "{words:?}: {message}: {hint}"
        );
    }
    told(&["ls", "--offset", "1048576", "p.img"], folder.path());
    let (code, message, hint) = refused(&["mkfs", "p.img"], folder.path());
    assert_eq!(code, Some(1), "{message}");
    assert!(
        message.ends_with("holds an ext2, ext3 or ext4 file system at byte 1048576"),
        "{message}"
    );
    assert!(hint.contains("--force"), "{hint}");
    assert!(fs::read(&image).unwrap() == before, "nothing was written");
}

/// Data anywhere in a file counts, holes and zeros do not.
#[test]
fn mkfs_refuses_a_file_with_data_anywhere() {
    use std::os::unix::fs::FileExt;
    let folder = Scratch::new("extant-data-anywhere");
    for at in [0, (1 << 20) - 1, 5 << 20, (1 << 30) + 5, (2 << 30) - 1] {
        let file = fs::File::create(folder.join("x.img")).unwrap();
        file.set_len(2 << 30).unwrap();
        file.write_all_at(b"x", at).unwrap();
        let (code, message, _) = refused(&["mkfs", "x.img"], folder.path());
        assert!(
            code == Some(1) && message.ends_with(&format!("holds data at byte {at}")),
            "{at}: {message}"
        );
        assert_eq!(file.metadata().unwrap().len(), 2 << 30);
    }
    // What is written in place is looked at where the volume is to be.
    let file = fs::File::create(folder.join("x.img")).unwrap();
    file.set_len(32 << 20).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    file.write_all_at(&vec![0; 3 << 20], 4 << 20).unwrap();
    let words = ["mkfs", "-q", "-E", "offset=2097152", "x.img", "16M"];
    assert_eq!(told(&words, folder.path()), "");
    let (code, message, _) = refused(&words, folder.path());
    assert!(code == Some(1) && message.contains("holds an ext2"), "{message}");
    fs::write(folder.join("zeros.img"), vec![0; 8 << 20]).unwrap();
    assert_eq!(told(&["mkfs", "-q", "zeros.img"], folder.path()), "");
}

/// A disk of 40 MiB with these partitions, made by sfdisk, each with what its function writes.
fn disk(folder: &Scratch, name: &str, script: &str, volumes: &[(u64, &Path)]) -> PathBuf {
    let disk = folder.join(name);
    fs::File::create(&disk).unwrap().set_len(40 << 20).unwrap();
    let scheme = folder.join("scheme");
    fs::write(&scheme, script).unwrap();
    let mut sfdisk = program("sfdisk");
    sfdisk.arg("-q").arg(&disk).stdin(fs::File::open(scheme).unwrap());
    output(&mut sfdisk).unwrap();
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().write(true).open(&disk).unwrap();
    for (start, volume) in volumes {
        file.write_all_at(&fs::read(volume).unwrap(), *start).unwrap();
    }
    disk
}

#[test]
fn partitions_that_hold_ext_are_named() {
    if !require("sfdisk") {
        return;
    }
    let folder = Scratch::new("words-partitions");
    told(&["mkfs", "-q", "volume.img", "4M"], folder.path());
    let volume = folder.join("volume.img");
    let mib = 1 << 20;
    let mbr = "label: dos\n2048,8192,L\n10240,8192,c\n18432,,E\n20480,8192,L\n30720,8192,L\n";
    let gpt = "label: gpt\n2048,8192,U\n10240,8192,L\n20480,8192,L\n";
    for (name, script, starts, expected) in [
        (
            "mbr.img",
            mbr,
            &[1, 10, 15][..],
            [("1048576", "1"), ("10485760", "5"), ("15728640", "6")],
        ),
        ("gpt.img", gpt, &[1, 5, 10], [("1048576", "1"), ("5242880", "2"), ("10485760", "3")]),
    ] {
        let volumes: Vec<(u64, &Path)> =
            starts.iter().map(|start| (start * mib, volume.as_path())).collect();
        disk(&folder, name, script, &volumes);
        for command in ["ls", "info", "check", "layout", "tar"] {
            let (_, message, hint) = refused(&[command, name], folder.path());
            assert!(message.ends_with("but a disk with partitions"), "{message}");
            for (offset, number) in expected {
                assert!(hint.contains(&format!("{name}@{number} (at byte {offset})")), "{hint}");
                assert_eq!(told(&["ls", "--offset", offset, name], folder.path()), "lost+found\n");
            }
        }
        let (_, _, hint) = refused(&["lab", "run", "read-cold", "--image", name], folder.path());
        assert!(hint.contains("dd if="), "{hint}");
    }
    let swap = folder.join("swap.img");
    let mut bytes = vec![0; 4096];
    bytes[4086..].copy_from_slice(b"SWAPSPACE2");
    fs::write(&swap, bytes).unwrap();
    disk(&folder, "other.img", "label: dos\n2048,8192,S\n", &[(mib, &swap)]);
    let (_, _, hint) = refused(&["ls", "other.img"], folder.path());
    assert!(hint.contains("1 (at byte 1048576) is swap space"), "{hint}");
    let (_, message, hint) = refused(&["ls", "--offset", "1M", "other.img"], folder.path());
    assert!(message.ends_with("but swap space") && hint.contains("losetup"), "{hint}");
}

/// What the usage lines of help and of wrong usage show: names of values, as the table of options
/// has them.
#[test]
fn usage_lines_name_what_is_wanted() {
    let folder = Scratch::new("words-usage");
    for (command, line) in [
        (&["age"][..], "extant age [OPTIONS] --profile <PROFILE> <IMAGE>"),
        (&["build"], "extant build [OPTIONS] SOURCE... IMAGE"),
        (&["cat"], "extant cat [OPTIONS] <IMAGE:/PATH>..."),
        (&["check"], "extant check [OPTIONS] <IMAGE>"),
        (&["completions"], "extant completions [OPTIONS] <SHELL>"),
        (&["info"], "extant info [OPTIONS] <IMAGE>"),
        (&["layout"], "extant layout [OPTIONS] <IMAGE>"),
        (&["ls"], "extant ls [OPTIONS] <IMAGE[:/PATH]>..."),
        (&["man"], "extant man [OPTIONS] [COMMAND]..."),
        (&["mkfs"], "extant mkfs [OPTIONS] <IMAGE> [SIZE]"),
        (&["heal"], "extant heal [OPTIONS] <IMAGE>..."),
        (&["repair"], "extant repair [OPTIONS] <IMAGE>"),
        (&["replay"], "extant replay [OPTIONS] <IMAGE>"),
        (&["undo"], "extant undo [OPTIONS] <IMAGE>"),
        (&["stat"], "extant stat [OPTIONS] <IMAGE:/PATH>..."),
        (&["tar"], "extant tar [OPTIONS] <IMAGE> [PATH]..."),
        (&["lab", "age"], "extant lab age [OPTIONS] [WHAT]"),
        (&["lab", "fit"], "extant lab fit [OPTIONS] <DEVICE>"),
        (&["lab", "posts"], "extant lab posts [OPTIONS] [NUMBER]..."),
        (&["lab", "run"], "extant lab run [OPTIONS] <SCENARIO>"),
        (&["lab", "show"], "extant lab show [OPTIONS] <NAME>"),
        (&["lab", "replay"], "extant lab replay [OPTIONS] --drive <DRIVE> --trace <FILE>"),
    ] {
        let help = told(&[command, &["--help"]].concat(), folder.path());
        let usage = help.lines().find(|text| text.starts_with("Usage: ")).unwrap();
        assert_eq!(usage, format!("Usage: {line}"));
        let output = extant(&[command, &["--xyzzy"]].concat(), folder.path());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let usage = errors.lines().find(|text| text.starts_with("Usage: "));
        assert_eq!(usage, Some(format!("Usage: {line}").as_str()), "{errors}");
    }
}

#[test]
fn help_and_version_that_cannot_be_written_are_no_success() {
    for words in [&["--version"][..], &["--help"], &["build", "--help"], &["--json", "--help"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = crate::commands::command::command(words).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains("standard output: No space left on device"), "{words:?}: {said}");
    }
}

#[test]
fn no_help_is_wider_than_100_columns() {
    let folder = Scratch::new("words-help");
    let commands = ["age", "build", "cat", "check", "completions", "info", "layout", "ls", "man"];
    let more = ["mkfs", "heal", "repair", "undo", "replay", "stat", "tar", "lab"];
    let lab = ["age", "list", "policies", "posts", "replay", "run", "show"].map(|it| ["lab", it]);
    let single = commands.iter().chain(&more).map(|command| vec![*command]);
    let nested = lab.iter().map(|words| words.to_vec());
    for words in std::iter::once(vec![]).chain(single).chain(nested) {
        let help = told(&[&words[..], &["--help"]].concat(), folder.path());
        assert_eq!(longer_than(&help, 100), Vec::<&str>::new(), "{words:?}");
    }
}

#[test]
fn what_is_shown_of_an_image_fits_a_hundred_columns() {
    let folder = Scratch::new("words-width");
    let options = ["-q", "-t", "ext4", "-b", "1024", "-O", "orphan_file,metadata_csum_seed"];
    told(&[&["mkfs"], &options[..], &["disk.img", "64M"]].concat(), folder.path());
    for words in [
        &["info", "disk.img"][..],
        &["layout", "--map", "disk.img"],
        &["lab", "list"],
        &["lab", "policies"],
        &["lab", "age"],
    ] {
        let text = told(words, folder.path());
        assert!(text.lines().count() > 5, "{text}");
        assert_eq!(longer_than(&text, 100), Vec::<&str>::new(), "{words:?}");
    }
    // Nothing is lost where a line is folded.
    let info = told(&["info", "-h", "disk.img"], folder.path());
    let words: Vec<&str> = info.split_whitespace().collect();
    for feature in ["has_journal", "metadata_csum_seed", "orphan_file", "extra_isize"] {
        assert!(words.contains(&feature), "{info}");
    }
}

/// Where commands take paths in different ways, the one that was meant is named.
#[test]
fn a_path_that_is_named_in_the_way_of_another_command_is_explained() {
    let folder = Scratch::new("extant-other-way");
    told(&["mkfs", "-q", "disk.img", "4M"], folder.path());
    for (word, wanted) in [
        ("disk.img:/etc", "extant tar disk.img etc"),
        ("disk.img:/var/log", "extant tar disk.img var/log"),
        ("disk.img:/", "extant tar disk.img"),
    ] {
        let (code, _, hint) = refused(&["tar", word], folder.path());
        assert!(code == Some(2) && hint.ends_with(wanted), "{word}: {hint}");
    }
    let (_, _, hint) = refused(&["info", "disk.img:/etc"], folder.path());
    assert!(hint.ends_with("this command takes the image alone: disk.img"), "{hint}");
}

/// A volume in use has changes in its journal: unmounting helps, and mounting it does not.
#[test]
fn a_mounted_volume_is_said_to_be_mounted() {
    if !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("extant-in-use");
    told(&["mkfs", "-q", "disk.img", "16M"], folder.path());
    let image = folder.join("disk.img");
    let mounted = oracle::mount_loop(&image, oracle::Access::ReadWrite, "").unwrap();
    fs::write(mounted.path().join("file"), "content").unwrap();
    output(program("sync").arg("-f").arg(mounted.path())).unwrap();
    for command in ["ls", "tar"] {
        let (_, message, hint) = refused(&[command, "disk.img"], folder.path());
        let place = format!("is mounted on {}", mounted.path().display());
        assert!(message.contains(&place), "{command}: {message}");
        assert!(
            hint.contains("unmount it first") && !hint.contains("mount it once"),
            "{command}: {hint}"
        );
    }
    mounted.unmount().unwrap();
    told(&["ls", "disk.img"], folder.path());
}

/// What the host says is said in words, without its number, and by every command in one line.
#[test]
fn no_number_of_an_error_is_shown() {
    let folder = Scratch::new("words-numbers");
    for path in ["dir", "tree"] {
        fs::create_dir(folder.join(path)).unwrap();
    }
    fs::write(folder.join("text"), vec![b'x'; 5000]).unwrap();
    fs::write(folder.join("empty"), "").unwrap();
    told(&["mkfs", "disk.img", "8M"], folder.path());
    let places = ["none.img", "dir", "text", "empty", "/dev/null", "no/where"];
    let lines = [
        "age @ --days 1",
        "build @ new.img",
        "build tree @",
        "build tree no/where/x.img",
        "cat @:/x",
        "chattr +d @:/x",
        "check @",
        "chgrp 0 @:/x",
        "chmod 600 @:/x",
        "chown 0 @:/x",
        "cp text @:/x",
        "cp @:/x new",
        "cp none.txt disk.img:/x",
        "cp disk.img:/lost+found no/where/x",
        "df @",
        "diff @ disk.img",
        "du @",
        "edit @ text",
        "edit disk.img @",
        "extract @ out",
        "extract disk.img no/where/out",
        "find @:/",
        "getfattr @:/x",
        "info @",
        "layout @",
        "ln @:/x @:/y",
        "ls @",
        "mkdir @:/x",
        "mkfs no/where/x.img 8M",
        "mount @ dir",
        "mount disk.img no/where",
        "mv @:/x @:/y",
        "names @",
        "replay @",
        "rm @:/x",
        "rmdir @:/x",
        "setfattr -n user.x @:/x",
        "stat @:/x",
        "tar @",
        "tar disk.img -o no/where/x.tar",
        "touch @:/x/y",
        "truncate -s 1 @:/x",
        "umount @",
        "write @:/x",
        "lab run @",
        "lab run drive-patterns --html no/where/x.html",
        "lab replay --drive hdd-2022-20t --trace @",
        "lab fit @",
        "lab capsule @",
        "man ./text",
    ];
    let mut wrong = Vec::new();
    for line in lines {
        let targets = if line.contains('@') { &places[..] } else { &[""] };
        for place in targets {
            let line = line.replace('@', place);
            let words: Vec<&str> = line.split(' ').collect();
            let output = extant(&words, folder.path());
            let errors = String::from_utf8_lossy(&output.stderr);
            let _ = fs::remove_file(folder.join("new.img"));
            if output.status.success() {
                continue;
            }
            let is_short = errors.lines().count() <= 2 || errors.contains("Usage:");
            if errors.contains("os error") || errors.contains("panicked") || !is_short {
                wrong.push(format!("{line}: {errors}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What is missing is made by a command that is named.
    for (line, hint) in [
        ("build tree no/where/x.img", "mkdir -p no/where"),
        ("mount disk.img no/where", "mkdir -p "),
        ("mkdir disk.img:/a/b", "mkdir -p makes"),
        ("cp text disk.img:/a/b/c", "mkdir -p makes"),
        ("ln -s x disk.img:/a/b", "mkdir -p makes"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let errors = extant(&words, folder.path()).stderr;
        let errors = String::from_utf8_lossy(&errors).into_owned();
        assert!(errors.contains(hint), "{line}: {errors}");
    }
}

/// A terminal that cannot go back in a line is told nothing that moves, and `-h` is help wherever
/// it is nothing else.
#[test]
fn a_dumb_terminal_sees_no_moving_line() {
    if !require("script") {
        return;
    }
    let folder = Scratch::new("words-dumb");
    fs::write(folder.join("big"), vec![7; 384 << 20]).unwrap();
    fs::create_dir(folder.join("tree")).unwrap();
    fs::rename(folder.join("big"), folder.join("tree/big")).unwrap();
    let shown = |terminal: &str| {
        let program_path = extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant"));
        let line = format!("{program_path} build --force tree x.img");
        let mut script = program("script");
        script.args(["-qec", &line, "/dev/null"]).current_dir(folder.path());
        script.env("TERM", terminal).stdin(std::process::Stdio::null());
        String::from_utf8_lossy(&output(&mut script).unwrap().stdout).into_owned()
    };
    assert!(shown("xterm").contains("\x1b[K"));
    assert!(!shown("dumb").contains('\x1b'));
    for command in ["cp", "edit", "build", "rm", "mv", "lab"] {
        let text = told(&[command, "-h"], folder.path());
        assert!(text.contains("Usage: extant"), "{command}: {text}");
    }
}
