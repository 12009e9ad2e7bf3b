//! edit: many commands as one.
use crate::edit::bench::{Bench, bytes, clean, done, fed, has_tools};

#[test]
fn a_script_is_one_change() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let tree = bench.tree().display().to_string();
    let image = bench.image("image", &["-t", "ext4"]);
    let script = format!(
        "# a comment\n\nmkdir -p '/srv/with space'   # another\n\
         put -a {tree}/. /srv/tree\ncp -a /srv/tree /copy\nrm -r /copy/deep\n\
         mv /copy/plain \"/srv/with space/moved\"\nln -s /srv /link\nchmod 600 /copy/nothing\n\
         chown 1:2 /copy/nothing\nchgrp 3 /copy\ntouch -d @7 /copy/nothing\n\
         truncate -s 10 /copy/sparse\nsetfattr -n user.a -v b /copy/nothing\n\
         write --text 'hello\\n' /srv/text\nwrite -a --text 'more\\n' /srv/text\n\
         chattr +i /srv/text\nrmdir /srv/tree/empty\n"
    );
    let told = fed(&["--json", "edit", "--dry-run", &image, "-"], &script);
    assert!(told.code == 0 && told.out.contains("\"committed\":\"none\""), "{told:?}");
    let before = bytes(&image);
    let told = fed(&["--json", "edit", &image, "-"], &script);
    assert!(told.code == 0 && told.out.contains("\"commands\":16"), "{told:?}");
    assert!(told.out.contains("\"committed\":\"journal\""), "{told:?}");
    assert!(bytes(&image) != before);
    clean(&image);
    assert_eq!(done(&["cat", &format!("{image}:/srv/text")]), "hello\nmore\n");
    assert_eq!(done(&["ls", &format!("{image}:/srv/with space")]), "moved\n");
    // Nothing is left of a script that fails in its last line; and the line is named.
    let before = bytes(&image);
    let told = fed(&["edit", &image, "-"], "rm -r /srv/tree\nmkdir /q\nrm /srv/text\n");
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.err.starts_with("extant: edit: -:3: "), "{told:?}");
    assert!(told.err.contains("nothing was changed") && told.err.contains("chattr"), "{told:?}");
    assert!(bytes(&image) == before, "something changed");
    // What is wrong with its words is found before anything is opened.
    for (line, said) in [
        ("rm --bad /x", "unexpected argument"),
        ("frobnicate /x", "there is no such command"),
        ("rm 'x", "a quote ' does not end"),
        ("rm x", "begin with a slash"),
        ("write /x", "no standard input"),
        ("chmod 9 /x", "is no mode"),
    ] {
        let told = fed(&["edit", &image, "-"], &format!("mkdir /made\n{line}\n"));
        assert!(told.code == 2 && told.err.contains("-:2: "), "{line}: {told:?}");
        assert!(told.err.contains(said), "{line}: {told:?}");
    }
    assert!(bytes(&image) == before, "something changed");
}

#[test]
fn a_change_that_changes_nothing_writes_nothing() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    for kind in ["ext4", "ext2"] {
        let image = bench.image(kind, &["-t", kind]);
        done(&["mkdir", &format!("{image}:/there")]);
        let before = bytes(&image);
        let time = std::fs::metadata(&image).unwrap().modified().unwrap();
        for words in [
            &["rm", "-f", "/none"][..],
            &["mkdir", "-p", "/there"],
            &["touch", "-c", "/none"],
            &["truncate", "-cs", "5", "/none"],
        ] {
            let place = format!("{image}:{}", words.last().unwrap());
            let mut words = words.to_vec();
            *words.last_mut().unwrap() = &place;
            words.insert(0, "--json");
            assert!(done(&words).contains("\"committed\":\"nothing\""), "{words:?}");
        }
        assert!(bytes(&image) == before, "{kind}");
        assert_eq!(std::fs::metadata(&image).unwrap().modified().unwrap(), time, "{kind}");
    }
}

/// As in a shell: what stands in quotes, or after a backslash, is the name of one file.
#[test]
fn a_quoted_pattern_is_a_name() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = bench.image("image", &["-t", "ext4"]);
    let names = |image: &str| done(&["ls", &format!("{image}:/d")]);
    let made = "mkdir /d\nwrite --text x /d/a.c\nwrite --text x /d/b.c\nwrite --text x '/d/*.c'\n";
    for (line, left) in [
        ("rm '/d/*.c'", "a.c\nb.c\n"),
        ("rm \"/d/*.c\"", "a.c\nb.c\n"),
        ("rm /d/\\*.c", "a.c\nb.c\n"),
        ("rm '/d/'[ab]'.c'", "*.c\n"),
        ("mv '/d/*.c' /d/c.c", "a.c\nb.c\nc.c\n"),
        ("mv /d/a.c '/d/[q]'", "*.c\n[q]\nb.c\n"),
        ("ln -s '/d/*' '/d/l*'", "*.c\na.c\nb.c\nl*\n"),
        // The file of that very name is there, so it alone is meant without quotes too.
        ("rm /d/*.c", "a.c\nb.c\n"),
    ] {
        let told = fed(&["edit", &image, "-"], &format!("{made}{line}\n"));
        assert_eq!(told.code, 0, "{line}: {told:?}");
        assert_eq!(names(&image), left, "{line}");
        done(&["rm", "-r", &format!("{image}:/d")]);
    }
    let told = fed(&["edit", &image, "-"], "mkdir /d\nwrite --text x /d/a\nrm '/d/*'\n");
    assert!(told.code == 1 && told.err.contains("/d/*: "), "{told:?}");
}
