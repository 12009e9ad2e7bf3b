//! Every kind of difference, between every two kinds of trees.
use crate::take::command::{command, extant, refused, told};
use crate::take::made::{everything, noise, volume};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::require_root;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

/// A tree as a folder, an image and an archive, each of which says all of it.
const FORMS: [&str; 3] = ["", ".img", ".tar"];

/// `a` and its other forms.
fn forms(folder: &Path, name: &str) {
    let (image, archive) = (format!("{name}.img"), format!("{name}.tar"));
    told(&["build", "-q", name, &image], folder);
    told(&["tar", &image, "-o", &archive], folder);
}

/// What differs, by its words.
fn differences(folder: &Path, a: &str, b: &str, options: &[&str]) -> String {
    let ended = extant(&[&["diff", a, b], options].concat(), folder);
    let (text, errors) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let code = ended.status.code();
    assert!(errors.is_empty() && code == Some(i32::from(!text.is_empty())), "{code:?}: {errors}");
    text.into_owned()
}

#[test]
fn equal_trees_are_equal_in_every_form() {
    let tools = ["setfattr", "setfacl", "setcap"];
    if !require_root() || !tools.iter().all(|tool| require(tool)) {
        return;
    }
    let folder = Scratch::new("take-equal");
    fs::create_dir(folder.join("a")).unwrap();
    everything(&folder.join("a"));
    forms(folder.path(), "a");
    for one in FORMS {
        for other in FORMS {
            let (one, other) = (format!("a{one}"), format!("a{other}"));
            assert_eq!(differences(folder.path(), &one, &other, &[]), "", "{one} {other}");
        }
    }
}

/// What changes a tree, and the line that has to be said of it.
type Change = (&'static str, &'static str);

#[test]
fn each_kind_of_difference_is_named_between_every_two_forms() {
    if !require_root() || !require("setfattr") {
        return;
    }
    let folder = Scratch::new("take-kinds");
    let script = "mkdir -p a/d && cd a && echo one > f && echo two > g && ln g h && ln -s t l && \
        mknod c c 1 3 && echo gone > old && echo 1 > became && mkdir d/sub && echo x > d/x && \
        echo same > s1 && ln s1 s2 && echo alone > t1 && echo alone > t2 && touch -d @100.5 tt";
    let run = |script: &str| {
        output(program("sh").args(["-e", "-c", script]).current_dir(folder.path())).unwrap();
    };
    run(script);
    fs::write(folder.join("a/bytes"), noise(3 << 20)).unwrap();
    run("cp -a a b");
    let changes: [Change; 14] = [
        ("rm b/old", "- old\n"),
        ("mkdir b/new", "+ new/\n"),
        ("rm b/became; mkdir b/became", "became: type file -> directory\n"),
        ("chmod 4711 b/f", "f: mode 0644 -> 4711\n"),
        ("chown 5:100000 b/d/x", "d/x: owner 0:0 -> 5:100000\n"),
        ("touch -d @1000000000.25 b/d", "2001-09-09 01:46:40.250000000"),
        ("echo more >> b/d/x", "d/x: size 2 -> 7\n"),
        ("ln -sfn other b/l", "l: target t -> other\n"),
        ("rm b/c; mknod b/c c 1 5", "c: device 1:3 -> 1:5\n"),
        ("setfattr -n user.n -v v b/f", "f: attribute user.n none -> \"v\"\n"),
        ("rm b/h; cp -p b/g b/h", "h: link to g -> nothing before\n"),
        ("rm b/t2; ln b/t1 b/t2", "t2: link to nothing before -> t1\n"),
        ("touch -d @100.6 b/tt", "tt: time 1970-01-01 00:01:40.500000000"),
        ("chown -h 7 b/l", "l: owner 0:0 -> 7:0\n"),
    ];
    for (script, _) in changes {
        run(script);
    }
    let bytes = fs::File::options().write(true).open(folder.join("b/bytes")).unwrap();
    bytes.write_all_at(b"\0", 2_222_222).unwrap();
    bytes.write_all_at(b"\0", 2_222_223).unwrap();
    drop(bytes);
    forms(folder.path(), "a");
    forms(folder.path(), "b");
    for one in FORMS {
        for other in FORMS {
            let (one, other) = (format!("a{one}"), format!("b{other}"));
            let text = differences(folder.path(), &one, &other, &[]);
            for (script, line) in changes {
                assert!(text.contains(line), "{one} {other}: {script}: {text}");
            }
            assert!(text.contains("bytes: content differs from byte 2222222 on\n"), "{text}");
            assert!(!text.contains("s2:"), "{text}");
            let paths: Vec<&str> =
                text.lines().map(|line| line.split([':', ' ']).next().unwrap()).collect();
            assert!(paths.len() > 14);
        }
    }
    // Flags are known of two images only.
    run("cp b.img i.img");
    output(
        program("debugfs")
            .args(["-w", "-R", "sif /f flags 0x80010", "i.img"])
            .current_dir(folder.path()),
    )
    .unwrap();
    let text = differences(folder.path(), "b.img", "i.img", &[]);
    assert_eq!(text, "f: flags - -> i\n");
    assert_eq!(differences(folder.path(), "b.img", "i.img", &["--ignore", "flags"]), "");
    // What is not wanted is not said.
    let less = differences(
        folder.path(),
        "a.img",
        "b.tar",
        &["--ignore", "times,owner,mode,attributes,links", "--no-contents", "--exclude", "/d"],
    );
    for word in ["time", "owner", "mode", "attribute", "link to", "content", "d/x"] {
        assert!(!less.contains(word), "{word}: {less}");
    }
    assert!(less.contains("- old\n"), "{less}");
    let text = told_json(folder.path(), &["diff", "--json", "a.img", "b"]);
    let count = text["differences"].as_array().unwrap().len();
    assert!(text["is_complete"] == true && text["schema"] == "extant-diff/1");
    let lines = differences(folder.path(), "a.img", "b", &[]).lines().count();
    assert_eq!(count, lines);
}

fn told_json(folder: &Path, words: &[&str]) -> serde_json::Value {
    let ended = extant(words, folder);
    assert_eq!(ended.status.code(), Some(1));
    serde_json::from_slice(&ended.stdout).unwrap()
}

#[test]
fn exit_codes_are_those_of_diff() {
    if !require("mke2fs") || !require("zstd") {
        return;
    }
    let folder = Scratch::new("take-codes");
    volume(folder.path(), "8M");
    told(&["tar", "volume.img", "-o", "v.tar"], folder.path());
    output(program("zstd").args(["-q", "v.tar"]).current_dir(folder.path())).unwrap();
    assert!(told(&["diff", "volume.img", "v.tar.zst"], folder.path()).is_empty());
    // From standard input, too.
    let mut piped = command(&["diff", "-", "volume.img"], folder.path());
    let archive = fs::File::open(folder.join("v.tar.zst")).unwrap();
    let ended = piped.stdin(Stdio::from(archive)).output().unwrap();
    assert!(ended.status.success() && ended.stdout.is_empty());
    fs::create_dir(folder.join("empty")).unwrap();
    let quiet = extant(&["diff", "-q", "volume.img", "empty"], folder.path());
    assert!(quiet.status.code() == Some(1) && quiet.stdout.is_empty());
    let limited = extant(&["diff", "--limit", "1", "volume.img", "empty"], folder.path());
    assert_eq!(String::from_utf8_lossy(&limited.stdout).lines().count(), 1);
    assert!(String::from_utf8_lossy(&limited.stderr).contains("stopped after 1"));
    fs::write(folder.join("text"), "no archive").unwrap();
    for words in [
        &["diff", "volume.img", "none"][..],
        &["diff", "volume.img", "text"],
        &["diff", "volume.img:/none", "tree"],
        &["diff", "volume.img"],
        &["diff", "-", "-"],
        &["diff", "--ignore", "nothing", "tree", "tree"],
        &["diff", "--exclude", "[", "tree", "tree"],
    ] {
        let (code, text) = refused(words, folder.path());
        assert_eq!(code, 2, "{words:?}: {text}");
    }
}

/// Holes of both are not read: terabytes are compared at once.
#[test]
fn holes_cost_nothing() {
    if !require_root() {
        return;
    }
    let folder = Scratch::new("take-holes");
    for name in ["a", "b"] {
        fs::create_dir(folder.join(name)).unwrap();
        let file = fs::File::create(folder.join(name).join("holes")).unwrap();
        file.set_len(3 << 40).unwrap();
        file.write_all_at(b"end", (3 << 40) - 3).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    told(&["build", "-q", "a", "a.img"], folder.path());
    let words = ["--ignore", "directory-times"];
    assert_eq!(differences(folder.path(), "a.img", "b", &words), "");
    let file = fs::File::options().write(true).open(folder.join("b/holes")).unwrap();
    file.write_all_at(b"x", 1 << 40).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let text = differences(folder.path(), "a.img", "b", &words);
    assert_eq!(text, format!("holes: content differs from byte {} on\n", 1_u64 << 40));
}
