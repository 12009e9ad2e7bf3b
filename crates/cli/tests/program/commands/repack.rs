//! `extant repack` and `extant normalize`: what is built anew is judged by e2fsck and the kernel,
//! its order by debugfs, and what must stay byte by byte.
use crate::commands::command::{extant, extant_dated};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::path::{Path, PathBuf};

/// A tree of 300 files in ten folders, with all kinds of what a tree has.
fn tree(folder: &Path) -> PathBuf {
    let tree = folder.join("tree");
    for directory in 0..10_u32 {
        let inside = tree.join(format!("d{directory}"));
        fs::create_dir_all(&inside).unwrap();
        for file in 0..30_u32 {
            let bytes = vec![(directory * 30 + file) as u8; 37 + 997 * file as usize];
            fs::write(inside.join(format!("f{file}")), bytes).unwrap();
        }
    }
    std::os::unix::fs::symlink("d3/f7", tree.join("link")).unwrap();
    std::os::unix::fs::symlink("d4", tree.join("folder")).unwrap();
    std::os::unix::fs::symlink("/d6", tree.join("d0/absolute")).unwrap();
    std::os::unix::fs::symlink("../d7", tree.join("d0/above")).unwrap();
    fs::hard_link(tree.join("d0/f1"), tree.join("d1/again")).unwrap();
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 3 << 20).unwrap();
    drop(std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap());
    output(program("mkfifo").arg(tree.join("pipe"))).expect("mkfifo makes it");
    tree
}

fn done(words: &[&str]) -> String {
    let run = extant(words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(run.status.code(), Some(0), "{words:?}: {}", text(&run.stderr));
    text(&run.stdout)
}

fn refused(words: &[&str]) -> String {
    let run = extant(words);
    assert_ne!(run.status.code(), Some(0), "{words:?}");
    String::from_utf8_lossy(&run.stderr).into_owned()
}

fn built(folder: &Scratch, words: &[&str]) -> String {
    let tree = tree(folder.path());
    let image = folder.join("disk.img").display().to_string();
    let mut all = vec!["build", "-q"];
    all.extend(words);
    let tree = tree.display().to_string();
    all.extend([tree.as_str(), image.as_str()]);
    let run = extant_dated(&all);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    image
}

/// The inode of a path, and the first of its blocks.
fn place(image: &str, path: &str) -> (u64, u64) {
    let said = oracle::debugfs(Path::new(image), &format!("stat {path}")).expect("debugfs");
    let number = |after: &str| {
        let rest =
            &said[said.find(after).unwrap_or_else(|| panic!("{path}: {said}")) + after.len()..];
        let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    };
    let blocks = oracle::debugfs(Path::new(image), &format!("blocks {path}")).expect("debugfs");
    let first = blocks.split_whitespace().find_map(|word| word.parse().ok());
    (number("Inode:"), first.unwrap_or(0))
}

#[test]
fn what_is_read_first_is_in_front() {
    if !["debugfs", "e2fsck"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("repack-first");
    let image = built(&folder, &["--free", "2M"]);
    let (out, list) = (folder.join("out.img"), folder.join("list"));
    let (out, list) = (out.display().to_string(), list.display().to_string());
    let hot = ["/d9/f20", "/d2/f29", "/d9/f3", "/d5/f10"];
    // A path through a symlink, one at its end, one twice, one that is not there; through the root,
    // above the root, by a target that begins there, and by one that leads up.
    let more = ["/folder/f5", "/link", "/d9/f20", "/none/f1", "/d1/../../d8/./f4"];
    let more = [&more[..], &["/d0/absolute/f6", "/d0/above/f8"]].concat();
    fs::write(&list, format!("{}\n{}\n", hot.join("\n"), more.join("\r\n"))).unwrap();
    let said = done(&["repack", &image, &out, "--trace", &list]);
    assert!(said.contains("of them first"), "{said}");
    oracle::e2fsck(Path::new(&out)).expect("e2fsck finds nothing");
    assert_eq!(extant(&["diff", &image, &out]).status.code(), Some(0));
    let all = hot.iter().copied().chain(["/d4/f5", "/d8/f4", "/d6/f6", "/d7/f8"]);
    let places: Vec<(u64, u64)> = all.map(|path| place(&out, path)).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
    assert!(places.windows(2).all(|pair| pair[0].1 < pair[1].1), "{places:?}");
    // Nothing but tables of the volume is between their blocks: all others are behind them.
    let last = *places.last().unwrap();
    for other in ["/d0/f0", "/d9/f19", "/d9/f21", "/d1/f29", "/d5/f9"] {
        let (ino, block) = place(&out, other);
        assert!(ino > last.0 && block > last.1, "{other}: {ino}, {block}: {places:?}");
    }
    let dump = |path: &str| oracle::dumpe2fs(Path::new(path)).expect("dumpe2fs");
    for field in ["Inode count", "Block count", "Reserved block count"] {
        assert_eq!(dump(&image).number(field), dump(&out).number(field), "{field}");
    }
}

/// lost+found is where its name is looked for: by its hash in a root with an index, and in the
/// order of names without one.
#[test]
fn lost_and_found_is_in_its_place_among_many_names() {
    if !["mke2fs", "debugfs", "e2fsck"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("repack-lost");
    let tree = folder.join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..300 {
        let letter = char::from(b'a' + number as u8 % 26);
        fs::write(tree.join(format!("{letter}-{number:030}")), "x").unwrap();
    }
    for kind in
        [&["-t", "ext4", "-b", "1024"][..], &["-t", "ext2", "-b", "1024", "-O", "^dir_index"]]
    {
        let (image, out) = (folder.join("disk.img"), folder.join("out.img"));
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F"]).args(kind).arg("-d").arg(&tree).arg(&image).arg("12M");
        output(&mut mke2fs).expect("mke2fs makes it");
        let words = [&image, &out].map(|path| path.to_str().unwrap());
        done(&["repack", "-q", "--force", words[0], words[1]]);
        oracle::e2fsck(&out).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        let listed = oracle::debugfs(&out, "ls -p /").expect("debugfs");
        let listed = listed.lines().filter_map(|line| line.split('/').nth(5)).skip(2);
        let names: Vec<String> = listed.map(str::to_owned).collect();
        assert_eq!(names.len(), 301, "{kind:?}");
        let (ino, _) = place(words[1], "/lost+found");
        assert_eq!(ino, 11, "{kind:?}");
        if kind.contains(&"ext2") {
            assert!(names.is_sorted(), "{kind:?}: {names:?}");
        } else if oracle::can_mount() {
            let mounted =
                oracle::mount_loop(&out, oracle::Access::ReadOnly, "").expect("it mounts");
            let found = fs::metadata(mounted.path().join("lost+found"));
            assert!(found.is_ok_and(|it| it.is_dir()), "{kind:?}");
        }
    }
}

/// A list, the output of strace, a trace of a mount and one of the block layer say the same.
#[test]
fn traces_of_all_forms_give_the_same_order() {
    if !require("debugfs") {
        return;
    }
    let folder = Scratch::new("repack-forms");
    let image = built(&folder, &["--free", "2M"]);
    let hot = ["/d7/f9", "/d1/f2", "/d8/f11"];
    let inode = |path: &str| place(&image, path).0;
    let mut files = String::from("{\"schema\":\"extant-file-trace/1\"}\n");
    let mut at = 0;
    let mut line = |node: u64, rest: String| {
        at += 1;
        files += &format!("{{\"at_ns\":{at},\"took_ns\":1,\"node\":{node},{rest}}}\n");
    };
    for path in hot {
        let (directory, name) = (&path[1..3], &path[4..]);
        let (folder, file) = (inode(&path[..3]), inode(path));
        line(1, format!("\"call\":\"lookup\",\"name\":\"{directory}\",\"found\":{folder}"));
        line(folder, format!("\"call\":\"lookup\",\"name\":\"{name}\",\"found\":{file}"));
        line(file, "\"call\":\"read\",\"offset\":0,\"bytes\":4096".to_owned());
        // What is only looked at is not read.
        line(inode("/d0/f29"), "\"call\":\"stat\"".to_owned());
    }
    let strace: String = hot
        .iter()
        .map(|path| format!("[pid 7] openat(AT_FDCWD, \"{path}\", O_RDONLY) = 3\n"))
        .chain(["stat(\"/d0/f29\", {...}) = 0\n".to_owned()])
        .chain(["openat(AT_FDCWD, \"/d0/f3\", O_RDONLY) = -1 ENOENT (No)\n".to_owned()])
        .collect();
    let list = hot.join("\n");
    let forms = [("files", files), ("strace", strace), ("list", list)];
    let mut bytes: Vec<(&str, Vec<u8>)> = Vec::new();
    for (form, text) in forms {
        let (trace, out) = (folder.join(form), folder.join(&format!("{form}.img")));
        fs::write(&trace, text).unwrap();
        let (trace, out) = (trace.display().to_string(), out.display().to_string());
        let said = done(&["repack", "--json", &image, &out, "--trace", &trace]);
        assert!(said.contains(&format!("\"trace_format\":\"{form}\"")), "{said}");
        bytes.push((form, fs::read(&out).unwrap()));
    }
    // The folder of what strace saw looked at is on its list, before all files.
    let places = |form: &str| {
        let image = folder.join(&format!("{form}.img")).display().to_string();
        let found = hot.map(|path| place(&image, path));
        found.map(|(ino, block)| (ino - found[0].0, block))
    };
    assert_eq!(places("files"), places("strace"));
    assert!(bytes[0].1 == bytes[2].1, "files and list differ");
    let scenario = folder.join("read.toml");
    let steps: String =
        hot.iter().map(|path| format!("{{ step = \"read\", path = \"{path}\" }},")).collect();
    fs::write(
        &scenario,
        format!(
            "name = \"read\"\nline = \"x\"\nseed = 1\nmemory = \"64M\"\n[[drive]]\nname = \"d\"\n\
             model = \"ssd-sata\"\n[[filesystem]]\nname = \"v\"\nsize = \"64M\"\n\
             [[process]]\nname = \"p\"\nsteps = [{steps}]\n"
        ),
    )
    .unwrap();
    let (scenario, trace) = (scenario.display().to_string(), folder.join("blk"));
    let trace = trace.display().to_string();
    let format = ["--trace-format", "blktrace", "--preset", "modern,neighbour-read-ahead=none"];
    let mut words = vec!["lab", "run", &scenario, "--image", &image, "--trace", &trace];
    words.extend(format);
    done(&words);
    let out = folder.join("blk.img").display().to_string();
    let said = done(&["repack", "--json", &image, &out, "--trace", &trace]);
    assert!(said.contains("\"trace_format\":\"blktrace\""), "{said}");
    let found = hot.map(|path| place(&out, path));
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
}

/// Everything below a folder as a walk meets it that goes into each folder at once: its path, inode
/// and kind (4 is a directory).
fn met(image: &str, folder: &str, found: &mut Vec<(String, u64, u32)>) {
    let listed = oracle::debugfs(Path::new(image), &format!("ls -p {folder}/")).expect("debugfs");
    for line in listed.lines() {
        let fields: Vec<&str> = line.split('/').collect();
        let [_, ino, mode, _, _, name, ..] = fields[..] else { continue };
        let (Ok(ino), Ok(mode)) = (ino.parse(), u32::from_str_radix(mode, 8)) else { continue };
        if ino == 0 || matches!(name, "" | "." | ".." | "lost+found") {
            continue;
        }
        let path = format!("{folder}/{name}");
        found.push((path.clone(), ino, mode >> 12));
        if mode >> 12 == 4 {
            met(image, &path, found);
        }
    }
}

/// Folders that were read, be it for a name that is not there, are together in front, and all that
/// is not in front is in the order of a walk: it goes back and forth between these and the rest.
#[test]
fn a_walk_meets_what_is_behind_the_first_in_the_order_of_the_disk() {
    if !["debugfs", "e2fsck"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("repack-walk");
    let tree = tree(folder.path());
    for (number, nested) in ["d2/in/deep", "d2/in/flat", "d8/in", "x/y/z"].iter().enumerate() {
        fs::create_dir_all(tree.join(nested)).unwrap();
        for file in 0..6 {
            fs::write(tree.join(nested).join(format!("g{file}")), vec![1; 5000 + number]).unwrap();
        }
    }
    let names =
        ["disk.img", "out.img", "trace"].map(|name| folder.join(name).display().to_string());
    let [image, out, trace] = names;
    let words = ["build", "-q", "--free", "2M", tree.to_str().unwrap(), &image];
    assert!(extant_dated(&words).status.success());
    let inode = |path: &str| place(&image, path).0;
    let mut lines = String::from("{\"schema\":\"extant-file-trace/1\"}\n");
    let mut line = |node: u64, rest: &str| {
        lines += &format!("{{\"at_ns\":1,\"took_ns\":1,\"node\":{node},{rest}}}\n");
    };
    for path in ["/d9/f3", "/d2/in/deep/g4", "/d2/f9"] {
        line(inode(path), "\"call\":\"read\",\"offset\":0,\"bytes\":4096");
    }
    let missing = "\"error\":2,\"call\":\"lookup\",\"name\":\"none\",\"found\":null";
    line(inode("/x/y"), missing);
    fs::write(&trace, lines).unwrap();
    done(&["repack", &image, &out, "--trace", &trace]);
    oracle::e2fsck(Path::new(&out)).expect("e2fsck finds nothing");
    let mut all = Vec::new();
    met(&out, "", &mut all);
    let is_front =
        |path: &str| ["/d9", "/d2", "/d2/in", "/d2/in/deep", "/x", "/x/y"].contains(&path);
    let front: Vec<u64> = all.iter().filter(|it| is_front(&it.0)).map(|it| it.1).collect();
    let first = front[0];
    assert_eq!(front, (first..first + 6).collect::<Vec<u64>>(), "folders, as a walk meets them");
    let files = ["/d9/f3", "/d2/in/deep/g4", "/d2/f9"].map(|path| place(&out, path).0);
    assert_eq!(files, [first + 6, first + 7, first + 8], "files, as they were read");
    let behind: Vec<&(String, u64, u32)> = all
        .iter()
        .filter(|it| !is_front(&it.0) && !files.contains(&it.1) && it.0 != "/d1/again")
        .filter(|it| it.0 != "/d0/f1")
        .collect();
    assert!(behind.len() > 300, "{}", behind.len());
    assert!(behind.windows(2).all(|pair| pair[0].1 < pair[1].1), "{behind:?}");
    let bodies = behind.iter().filter(|it| it.0.ends_with("f8") || it.0.ends_with("g2"));
    let blocks: Vec<u64> = bodies.map(|it| place(&out, &it.0).1).collect();
    assert!(blocks.len() > 12 && blocks.windows(2).all(|pair| pair[0] < pair[1]), "{blocks:?}");
}

#[test]
fn in_place_is_what_another_file_would_be() {
    if !["debugfs", "e2fsck"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("repack-in-place");
    let image = built(&folder, &["--free", "2M", "-b", "1024"]);
    let (out, list) = (folder.join("out.img").display().to_string(), folder.join("list"));
    fs::write(&list, "/d9/f9\n/d0/f0\n").unwrap();
    let list = list.display().to_string();
    let before = fs::read(&image).unwrap();
    done(&["repack", "-n", &image, "--trace", &list]);
    assert!(before == fs::read(&image).unwrap(), "a dry run wrote");
    done(&["repack", &image, &out, "--trace", &list]);
    assert!(before == fs::read(&image).unwrap(), "OUT was asked for");
    done(&["repack", "--in-place", &image, "--trace", &list]);
    assert!(fs::read(&out).unwrap() == fs::read(&image).unwrap());
    assert!(!folder.join(".disk.img.extant-redo").exists());
    assert!(refused(&["repack", &image]).contains("OUT is missing"));
    assert!(refused(&["repack", &image, &out]).contains("exists already"));
    assert!(before != fs::read(&image).unwrap());
}

#[test]
fn what_cannot_be_built_anew_is_refused() {
    if !["mke2fs", "debugfs"].into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("repack-refused");
    let out = folder.join("out.img").display().to_string();
    let tree = tree(folder.path());
    for (features, command, why) in [
        ("verity", "sif /d1/f3 flags 0x180000", "fs-verity"),
        ("project,quota", "sif /d1/f3 projid 7", "projects"),
        ("casefold", "sif /d1 flags 0x40080000", "case"),
    ] {
        let image = folder.join("disk.img");
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-O", features, "-d"]).arg(&tree);
        output(mke2fs.arg(&image).arg("16M")).expect("mke2fs makes it");
        output(program("e2fsck").args(["-fy"]).arg(&image)).ok();
        output(program("debugfs").args(["-w", "-R", command]).arg(&image)).expect("debugfs");
        let word = image.to_str().unwrap();
        drop(extant(&["repair", "-q", "--all", word]));
        let said = refused(&["repack", word, &out]);
        assert!(said.contains(why), "{features}: {said}");
        assert!(!Path::new(&out).exists());
    }
    let folder = Scratch::new("repack-damaged");
    let image = built(&folder, &[]);
    output(program("debugfs").args(["-w", "-R", "clri /d1/f1", &image])).expect("debugfs");
    let before = fs::read(&image).unwrap();
    for words in
        [&["repack", &image, &out][..], &["repack", "--in-place", &image], &["normalize", &image]]
    {
        let said = refused(words);
        assert!(said.contains("is damaged") && said.contains("extant repair"), "{said}");
    }
    assert!(before == fs::read(&image).unwrap());
    let (folder, list) = (Scratch::new("repack-nothing"), folder.join("list"));
    fs::write(&list, "/nothing\n").unwrap();
    let image = built(&folder, &[]);
    let said = refused(&["repack", &image, &out, "--trace", list.to_str().unwrap()]);
    assert!(said.contains("names nothing") && !Path::new(&out).exists(), "{said}");
}
