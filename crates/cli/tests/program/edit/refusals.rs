//! What cannot be done: one line, a hint, exit codes, and the image as it was.
use crate::edit::bench::{Bench, Said, bytes, clean, done, extant, fed, has_tools};
use extant_testkit::command::{is_root, output, program};
use extant_testkit::oracle::{Access, can_mount, mount_loop};
use std::fs;
use std::path::Path;

/// Checks that a refusal has one line, and perhaps a hint.
fn refused(told: &Said, code: i32, said: &str) {
    assert_eq!(told.code, code, "{told:?}");
    assert!(told.err.contains(said), "{said}: {told:?}");
    let lines: Vec<&str> = told.err.lines().collect();
    assert!(lines.len() <= 2 && lines[0].starts_with("extant: "), "{told:?}");
    assert!(lines.len() == 1 || lines[1].starts_with("  hint: "), "{told:?}");
}

#[test]
fn images_that_cannot_be_changed() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let none = bench.join("none").display().to_string();
    refused(&extant(&["mkdir", &format!("{none}:/x")]), 1, "No such file");
    let text = bench.join("text");
    fs::write(&text, "no volume").unwrap();
    let text = text.display().to_string();
    refused(&extant(&["mkdir", &format!("{text}:/x")]), 1, "not an ext2, ext3 or ext4 volume");
    refused(&extant(&["mkdir", &text]), 2, "names no file in an image");
    let image = bench.image("image", &["-t", "ext4"]);
    let other = bench.image("other", &["-t", "ext4"]);
    let words = ["rm", &format!("{image}:/x"), &format!("{other}:/x")];
    refused(&extant(&words), 2, "is another image");
    refused(&extant(&["cp", &text, &text]), 2, "is no path in an image");
    // Features and states.
    let before = bytes(&image);
    let debugfs = |request: &str| {
        output(program("debugfs").args(["-w", "-R", request, &image])).expect("it is written");
    };
    debugfs("set_super_value state 2");
    refused(&extant(&["mkdir", &format!("{image}:/x")]), 1, "marked as having errors");
    done(&["mkdir", "--despite-errors", &format!("{image}:/x")]);
    fs::write(&image, &before).unwrap();
    debugfs("set_super_value feature_ro_compat 0x80000000");
    let told = extant(&["mkdir", &format!("{image}:/x")]);
    assert!(told.code == 1 && told.err.contains("not supported"), "{told:?}");
    if can_mount() {
        let mounted = mount_loop(Path::new(&other), Access::ReadOnly, "").expect("a mount");
        refused(&extant(&["mkdir", &format!("{other}:/x")]), 1, "is attached to");
        drop(mounted);
    }
    if !is_root() {
        fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
        refused(&extant(&["mkdir", &format!("{other}:/x")]), 1, "Permission denied");
    }
}

#[test]
fn a_volume_that_looks_damaged_is_changed_with_a_warning() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext4", "-O", "^metadata_csum,^uninit_bg"]);
    let place = format!("{image}:/x");
    let quiet = extant(&["mkdir", &place]);
    assert!(quiet.code == 0 && !quiet.err.contains("damaged"), "{quiet:?}");
    let debugfs = |request: &str| {
        output(program("debugfs").args(["-w", "-R", request, &image])).expect("it is written");
    };
    debugfs("set_block_group 0 used_dirs_count 60000");
    let told = fed(&["edit", "--dry-run", &image, "-"], "mkdir /y\n");
    assert!(told.err.contains("is damaged: a group counts more"), "{told:?}");
    let told = extant(&["mkdir", &format!("{image}:/y")]);
    assert!(told.err.contains("is damaged: a group counts more"), "{told:?}");
}

#[test]
fn a_full_volume_is_as_it_was() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    for kind in ["ext4", "ext2"] {
        let image = bench.image(kind, &["-t", kind, "-m", "0"]);
        done(&["write", "--text", "keep", &format!("{image}:/kept")]);
        let tree = done(&["ls", "-lR", &format!("{image}:/")]);
        let large = bench.join("large");
        fs::write(&large, vec![b'x'; 20 << 20]).unwrap();
        let large = large.display().to_string();
        for words in [
            &["cp", &large, &format!("{image}:/large")][..],
            &["cp", &large, &format!("{image}:/kept")],
        ] {
            refused(&extant(words), 1, "no space left");
            assert_eq!(done(&["ls", "-lR", &format!("{image}:/")]), tree, "{words:?}");
        }
        assert_eq!(done(&["cat", &format!("{image}:/kept")]), "keep");
        clean(&image);
    }
}

#[test]
fn sources_that_cannot_be_read() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let tree = bench.tree();
    let image = bench.image("image", &["-t", "ext4"]);
    let before = bytes(&image);
    let target = format!("{image}:/");
    let none = tree.join("none").display().to_string();
    let plain = tree.join("plain").display().to_string();
    refused(&extant(&["cp", &plain, &none, &target]), 1, "No such file");
    // A pipe is not a file: it is not read but made, or refused without -r.
    let copied = extant(&["ls", &target]);
    assert_eq!(copied.out, "lost+found\n");
    if is_root() {
        let script = "exec setpriv --reuid 12345 --regid 12345 --clear-groups \"$@\"";
        let open = bench.join("open.img");
        fs::write(&open, &before).unwrap();
        let allow = "chmod 711 \"$1\"; chmod 666 \"$2\"; chmod 755 \"$3\"; chmod 600 \"$3/plain\"";
        let folder = bench.folder.path();
        let mut shell = program("sh");
        shell.args(["-c", allow, "sh"]).arg(folder).arg(&open).arg(&tree);
        output(&mut shell).unwrap();
        // The program may be in a folder that only root enters: there is nothing to test then.
        let mut sh = program("sh");
        sh.args([
            "-c",
            script,
            "sh",
            extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")),
            "cp",
            &plain,
        ]);
        let told = crate::edit::bench::said(sh.arg(format!("{}:/", open.display())));
        if !told.err.contains("failed to execute") {
            refused(&told, 1, "Permission denied");
            assert!(fs::read(&open).unwrap() == before);
        }
    }
    refused(&fed(&["setfattr", "--restore", "-", &target], "user.x=1\n"), 1, "line 1");
}

#[test]
fn words_that_make_no_sense() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext4"]);
    let at = |path: &str| format!("{image}:{path}");
    done(&["write", "--text", "x", &at("/file")]);
    let before = bytes(&image);
    for (words, code, said) in [
        (vec!["rm".to_owned(), at("/")], 1, "are not removed"),
        (vec!["rm".to_owned(), "-r".into(), at("/file/..")], 1, "not a directory"),
        (vec!["mkdir".into(), at("/file/x")], 1, "not a directory"),
        (vec!["mkdir".into(), at("/a/b")], 1, "no such file"),
        (vec!["mv".into(), at("/file")], 2, "where it goes is missing"),
        (vec!["mv".into(), at("/file"), at("/lost+found"), at("/file")], 1, "no directory"),
        (vec!["chattr".into(), "+q".into(), at("/file")], 2, "is no flag"),
        (vec!["setfattr".into(), "-n".into(), "x".into(), at("/file")], 1, "prefix"),
        (vec!["touch".into(), "-d".into(), "soon".into(), at("/file")], 2, "is no time"),
        (vec!["chmod".into(), "u+y".into(), at("/file")], 2, "is no mode"),
        (vec!["cp".into(), at("/none"), "/tmp/x".into()], 1, "no such file"),
        (vec!["ln".into(), "-s".into(), String::new(), at("/l")], 1, "needs a target"),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let told = extant(&words);
        assert!(told.code == code && told.err.contains(said), "{words:?}: {told:?}");
    }
    assert!(bytes(&image) == before, "something changed");
    done(&["mkdir", "-p", &at("/d/e")]);
    for into in ["/d/x", "/d", "/d/e"] {
        refused(&extant(&["cp", "-r", &at("/d"), &at(into)]), 1, "cannot be copied into itself");
    }
    assert_eq!(done(&["find", &at("/d")]), "/d\n/d/e\n");
    done(&["chattr", "+i", &at("/file")]);
    refused(&extant(&["rm", &at("/file")]), 1, "extant chattr -ia");
}

/// Linux wrote to it when the power went: a file is synced, and the bitmaps do not have its blocks.
#[test]
fn what_was_synced_without_a_journal_is_not_overwritten_after_a_cut() {
    if !has_tools() || !can_mount() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext4", "-O", "^has_journal"]);
    let mounted = mount_loop(Path::new(&image), Access::ReadWrite, "").expect("a mount");
    for number in 0..8 {
        let file = fs::File::create(mounted.path().join(format!("kept-{number}"))).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![number; 300_000], 0).unwrap();
        file.sync_all().unwrap();
    }
    let cut = bench.join("cut.img").display().to_string();
    fs::copy(&image, &cut).unwrap();
    drop(mounted);
    let before = bytes(&cut);
    let large = bench.join("large").display().to_string();
    fs::write(&large, vec![99; 6_000_000]).unwrap();
    for words in [&["cp", &large, &format!("{cut}:/large")][..], &["mkdir", &format!("{cut}:/x")]] {
        refused(&extant(words), 1, "was not unmounted and has no journal");
        assert!(bytes(&cut) == before, "{words:?}");
    }
    for number in 0..8_u8 {
        let read = extant(&["cat", &format!("{cut}:/kept-{number}")]);
        assert!(read.out.bytes().all(|byte| byte == number), "{number}");
    }
    // Once it is checked, it is a volume as any other; and so is it for who says so.
    done(&["mkdir", "--despite-errors", &format!("{cut}:/x")]);
    fs::write(&cut, &before).unwrap();
    let _ = program("e2fsck").args(["-fy", &cut]).output().unwrap();
    done(&["mkdir", &format!("{cut}:/x")]);
}

/// The blocks that a message says are needed.
fn needed(told: &Said) -> u64 {
    let words: Vec<&str> = told.err.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "blocks").expect("a number of blocks");
    words[at - 1].parse().expect("a number")
}

#[test]
fn a_full_volume_says_what_the_whole_command_needs() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext4", "-b", "1024"]);
    let tree = bench.join("large");
    fs::create_dir(&tree).unwrap();
    for (megabytes, name) in [(20, "one"), (30, "two")] {
        fs::write(tree.join(name), vec![7; megabytes << 20]).unwrap();
    }
    let to = format!("{image}:/");
    let path = |name: &str| tree.join(name).display().to_string();
    let before = done(&["ls", "-lR", &to]);
    let one = extant(&["cp", &path("one"), &to]);
    refused(&one, 1, "no space left");
    let both = extant(&["cp", &path("one"), &path("two"), &to]);
    refused(&both, 1, "no space left");
    let all = extant(&["cp", "-a", &tree.display().to_string(), &to]);
    refused(&all, 1, "no space left");
    // The data of each, and little more for maps and directories.
    for (said, megabytes) in [(&one, 20), (&both, 50), (&all, 50)] {
        let data = megabytes << 10;
        let blocks = needed(said);
        assert!(blocks >= data && blocks <= data + data / 100 + 16, "{blocks}: {said:?}");
    }
    assert_eq!(done(&["ls", "-lR", &to]), before);
    clean(&image);
}
