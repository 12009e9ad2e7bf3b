//! How places in an image are written: colons, patterns, standard output; df and du beside df(1)
//! and du(1).
use crate::edit::bench::{Bench, done, extant, has_tools, said};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{Access, can_mount, mount_loop};
use std::path::Path;

/// An image with some files; its path.
fn image(bench: &Bench) -> String {
    let image = bench.image("image", &["-t", "ext4"]);
    let script = "mkdir -p /etc/a.d /home\ntouch /etc/a.conf /etc/b.conf /etc/.hidden.conf\n\
                  touch /etc/a.d/c.conf '/etc/[x]' /12:30\n";
    let file = bench.join("script");
    std::fs::write(&file, script).unwrap();
    done(&["edit", &image, &file.display().to_string()]);
    for name in ["a.conf", "b.conf", "a.d/c.conf"] {
        let from = bench.join("from");
        std::fs::write(&from, name).unwrap();
        done(&["cp", &from.display().to_string(), &format!("{image}:/etc/{name}")]);
    }
    image
}

#[test]
fn a_colon_is_enough() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = image(&bench);
    let root = done(&["ls", &image]);
    assert!(root.contains("etc\n"), "{root}");
    for word in [":", ":/", "://"] {
        assert_eq!(done(&["ls", &format!("{image}{word}")]), root, "{word}");
    }
    assert_eq!(done(&["cat", &format!("{image}:etc/a.conf")]), "a.conf");
    // A colon in a name inside is one of its letters, and a file of the whole name wins.
    assert_eq!(done(&["ls", &format!("{image}:12:30")]), "/12:30\n");
    done(&["mkdir", &format!("{image}:home/new")]);
    assert!(done(&["ls", &format!("{image}:/home")]).contains("new"));
    let whole = format!("{image}:etc");
    std::fs::copy(&image, &whole).unwrap();
    assert_eq!(done(&["ls", &whole]), root);
    for word in ["docker://alpine", "oci:layout:tag", "oci-archive:x.tar", "docker-archive:x.tar"] {
        let told = extant(&["ls", word]);
        assert!(told.code == 1 && told.err.contains(&format!("{word}: No such file")), "{told:?}");
        assert!(told.err.contains("skopeo"), "{told:?}");
    }
    let told = extant(&["check", &format!("{image}:/home")]);
    assert!(told.err.contains("takes the image alone"), "{told:?}");
}

#[test]
fn patterns_mean_what_a_shell_would_have_made_of_them() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = image(&bench);
    let place = |path: &str| format!("{image}:{path}");
    assert_eq!(done(&["cat", &place("/etc/*.conf")]), "a.confb.conf");
    assert_eq!(done(&["cat", &place("/*/*/c.con?")]), "a.d/c.conf");
    assert_eq!(done(&["cat", &place("/etc/[!a].conf")]), "b.conf");
    assert_eq!(done(&["ls", &place("/etc/.h*")]), "/etc/.hidden.conf\n");
    assert_eq!(done(&["ls", &place("/etc/a.c*"), &place("/etc/b.c*")]).lines().count(), 2);
    // What is there under the very name is meant, and a bracket that is not closed is a letter.
    assert_eq!(done(&["ls", &place("/etc/[x]")]), "/etc/[x]\n");
    for (word, code) in [("/etc/*.none", 1), ("/etc/[", 1), ("/none/*", 1)] {
        let told = extant(&["cat", &place(word)]);
        assert!(told.code == code && told.err.contains(word), "{told:?}");
        assert!(told.err.lines().count() <= 2, "{told:?}");
    }
    // Every command that takes paths of an image.
    assert!(done(&["stat", &place("/etc/?.conf")]).matches("File: ").count() == 2);
    assert_eq!(done(&["find", &place("/etc/*.d"), "-type", "f"]), "/etc/a.d/c.conf\n");
    assert_eq!(done(&["du", "-s", &place("/etc/*.conf")]).lines().count(), 2);
    done(&["setfattr", "-n", "user.k", "-v", "1", &place("/etc/*.conf")]);
    assert_eq!(done(&["getfattr", &place("/etc/*.conf")]).matches("user.k").count(), 2);
    done(&["chmod", "600", &place("/etc/*.conf")]);
    done(&["chown", "7:8", &place("/etc/*.conf")]);
    done(&["chgrp", "9", &place("/etc/*.conf")]);
    done(&["touch", "-d", "2001-01-01", &place("/etc/*.conf")]);
    done(&["chattr", "+d", &place("/etc/*.conf")]);
    let rows = done(&["ls", "-l", "--json", &place("/etc/*.conf")]);
    assert_eq!(rows.lines().count(), 2, "{rows}");
    for row in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let facts = (&row["mode"], &row["uid"], &row["gid"], &row["mtime"][0]);
        assert_eq!(facts, (&384.into(), &7.into(), &9.into(), &978_307_200.into()), "{row}");
    }
    done(&["cp", &place("/etc/*.conf"), &place("/home")]);
    done(&["cp", &place("/etc/*.conf"), &bench.folder.path().display().to_string()]);
    assert_eq!(std::fs::read(bench.join("b.conf")).unwrap(), b"b.conf");
    assert_eq!(done(&["cp", &place("/etc/*.conf"), "-"]), "a.confb.conf");
    done(&["mv", &place("/home/*.conf"), &place("/home/..")]);
    done(&["truncate", "-s", "1", &place("/*.conf")]);
    assert_eq!(done(&["cat", &place("/*.conf")]), "ab");
    let (out, archive) = (bench.join("out"), bench.join("out.tar"));
    done(&["extract", &image, "/etc/*.conf", &out.display().to_string()]);
    assert_eq!(std::fs::read(out.join("etc/b.conf")).unwrap(), b"b.conf");
    done(&["tar", &image, "/etc/a*", "-o", &archive.display().to_string()]);
    let names = output(program("tar").arg("-tf").arg(&archive)).unwrap().stdout;
    let names = String::from_utf8(names).unwrap();
    assert!(names.contains("a.conf") && !names.contains("b.conf"), "{names}");
    done(&["rm", &place("/*.conf")]);
    assert!(!done(&["ls", &image]).contains("conf"));
    // A name that is made is taken as it is written.
    done(&["mkdir", &place("/new*")]);
    done(&["touch", &place("/made?")]);
    assert!(done(&["ls", &image]).contains("new*\n") && done(&["ls", &image]).contains("made?\n"));
}

#[test]
fn standard_output_is_a_place_to_copy_to() {
    if !has_tools() {
        return;
    }
    let bench = Bench::new();
    let image = image(&bench);
    assert_eq!(done(&["cp", &format!("{image}:/etc/a.conf"), "-"]), "a.conf");
    let told = extant(&["cp", &format!("{image}:/etc"), "-"]);
    assert!(told.code == 1 && told.out.is_empty() && told.err.contains("directory"), "{told:?}");
    let told = extant(&["cp", "-", &format!("{image}:/x")]);
    assert!(told.code == 2 && told.err.contains("extant write"), "{told:?}");
}

#[test]
fn df_and_du_say_what_df_and_du_say() {
    if !has_tools() || !can_mount() {
        return;
    }
    let bench = Bench::new();
    let tree = bench.tree().display().to_string();
    for (number, words) in [
        &["-t", "ext4"][..],
        &["-t", "ext4", "-b", "4096"],
        &["-t", "ext3", "-b", "2048"],
        &["-t", "ext2", "-m", "0"],
        &["-t", "ext4", "-O", "^flex_bg,^sparse_super,^resize_inode", "-g", "2048"],
    ]
    .iter()
    .enumerate()
    {
        let image = bench.image(&format!("image{number}"), words);
        done(&["cp", "-a", &tree, &format!("{image}:/t")]);
        for stored in [true, false] {
            if !stored {
                // As older releases of mke2fs left it: the kernel counts itself.
                let request = "ssv overhead_clusters 0";
                output(program("debugfs").args(["-w", "-R", request]).arg(&image)).unwrap();
            }
            let ours = done(&["df", &image]);
            let inodes = done(&["df", "-i", &image]);
            let sizes = done(&["du", "-a", &format!("{image}:/t")]);
            let apparent = done(&["du", "-a", "--apparent-size", &format!("{image}:/t")]);
            let mounted = mount_loop(Path::new(&image), Access::ReadOnly, "").expect("a mount");
            let theirs = said(program("df").args(["-P", "-k"]).arg(mounted.path())).out;
            let row = |text: &str| {
                let line = text.lines().nth(1).unwrap_or_default().to_owned();
                let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
                words[1..4].to_vec()
            };
            assert_eq!(row(&ours), row(&theirs), "{words:?} {stored}\n{ours}{theirs}");
            let theirs = said(program("df").args(["-P", "-i"]).arg(mounted.path())).out;
            assert_eq!(row(&inodes), row(&theirs), "{words:?}");
            for (ours, option) in [(&sizes, "-k"), (&apparent, "--apparent-size")] {
                let mut du = program("du");
                du.current_dir(mounted.path()).args(["-a", "-k", option, "t"]);
                let theirs = said(&mut du).out;
                let sorted = |text: &str| {
                    // Which of two names of a file counts is the order's.
                    let linked = ["\tt/plain", "\tt/deep/linked", "\tt/deep"];
                    let lines = text.replace("\t/t", "\tt");
                    let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
                    lines.retain(|line| !linked.iter().any(|name| line.ends_with(name)));
                    lines.sort();
                    lines
                };
                assert_eq!(sorted(ours), sorted(&theirs), "{words:?} {option}");
            }
            mounted.unmount().unwrap();
        }
        let total = done(&["du", "-sc", &format!("{image}:/t"), &format!("{image}:/t/deep")]);
        let lines: Vec<&str> = total.lines().collect();
        assert!(lines.len() == 3 && lines[2].ends_with("\ttotal"), "{total}");
    }
}
