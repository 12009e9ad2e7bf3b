//! The words of fstab: each is in the table, those of the manual pages too; and what they do.
use crate::mount::fixture::{Bench, Mounted, done, errno, extant, has_fuse};
use extant_daemon::words;
use extant_testkit::command::{output, program};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

const READ_ONLY: i32 = 30;
const LOOP: i32 = 40;

#[test]
fn the_document_holds_the_tables_of_the_code() {
    let path = extant_testkit::repository().join("docs/MOUNT.md");
    let document = fs::read_to_string(&path).unwrap();
    let tables = words::document();
    assert!(document.contains(&tables), "{}: its tables are to be\n{tables}", path.display());
}

/// The words of ext4(5) of e2fsprogs 1.47.
const OF_EXT4: &str = "acl noacl bsddf minixdf check nocheck debug errors grpid bsdgroups nogrpid \
    sysvgroups grpquota noquota quota usrquota nouid32 oldalloc orlov resgid resuid sb user_xattr \
    nouser_xattr journal_dev journal_path norecovery noload data data_err barrier commit jqfmt \
    usrjquota grpjquota journal_checksum nojournal_checksum journal_async_commit nobarrier \
    inode_readahead_blks stripe delalloc nodelalloc max_batch_time min_batch_time journal_ioprio \
    abort auto_da_alloc noauto_da_alloc noinit_itable init_itable discard nodiscard block_validity \
    noblock_validity dioread_lock dioread_nolock max_dir_size_kb i_version nombcache prjquota";

/// Those of mount(8) of util-linux 2.41 that every file system has, and of its loop devices.
const OF_MOUNT: &str = "async atime noatime auto noauto context fscontext defcontext rootcontext \
    defaults dev nodev diratime nodiratime dirsync exec noexec group iversion noiversion mand \
    nomand _netdev nofail relatime norelatime strictatime nostrictatime lazytime nolazytime suid \
    nosuid silent loud owner remount ro rw sync user nouser users nosymfollow X-mount.mkdir x-a \
    loop offset sizelimit verity.roothash bind";

/// Those of mount.fuse3(8) of fuse 3.17.
const OF_FUSE: &str = "default_permissions allow_other rootmode blkdev blksize max_read fd user_id \
    group_id fsname subtype allow_root auto_unmount kernel_cache auto_cache umask uid gid \
    entry_timeout negative_timeout attr_timeout ac_attr_timeout noforget remember modules setuid \
    drop_privileges from_code to_code subdir rellinks norellinks";

/// The text of a manual page, where it is installed.
fn page(name: &str) -> Option<String> {
    let path = format!("/usr/share/man/{name}.gz");
    let told = program("gzip").args(["-dc", &path]).output().ok()?;
    told.status.success().then(|| String::from_utf8_lossy(&told.stdout).into_owned())
}

/// The words at the beginning of what a line of a page defines: `.BR acl | noacl`, `\fBuid=N\fP`.
fn defined(line: &str) -> Vec<String> {
    let line = line.replace("\\-", "-");
    let bold = line.strip_prefix("\\fB").map(|rest| rest.split("\\fP").next().unwrap_or(rest));
    let macros = [".BR ", ".BI ", ".B "];
    let text = bold.or_else(|| macros.iter().find_map(|name| line.strip_prefix(name)));
    let text = text.unwrap_or_default().replace('"', " ");
    // What is in braces are values, and so is what follows "=".
    let names = match text.split_once('{') {
        Some((before, rest)) => format!("{before}{}", rest.split('}').nth(1).unwrap_or_default()),
        None => text,
    };
    let names = names.replace(" or ", "|").replace(" and ", "|").replace('/', "|");
    let word = |part: &str| {
        let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        part.trim().chars().take_while(|letter| is_of_word(*letter)).collect::<String>()
    };
    names.split('|').map(word).filter(|word| !word.is_empty()).collect()
}

/// Lines that follow, or go before, a line of a page between two of its lines.
fn tagged(text: &str, from: &str, to: &str, is_tag: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().position(|line| line.contains(from)).expect(from);
    let end = lines[begin..].iter().position(|line| line.contains(to)).expect(to) + begin;
    let pairs = lines[begin..end].windows(3);
    let tags = pairs.filter(|of| is_tag(of[0], of[2])).map(|of| of[1]);
    tags.flat_map(defined).collect()
}

#[test]
fn every_word_of_the_manual_pages_is_in_the_table() {
    for word in [OF_EXT4, OF_MOUNT, OF_FUSE].iter().flat_map(|words| words.split_whitespace()) {
        assert!(words::knows(word), "{word} is not in the table");
    }
    let mut found = 0;
    if let Some(text) = page("man5/ext4.5") {
        let tags = tagged(&text, "Mount options for ext2", ".SH FILE ATTRIBUTES", |before, _| {
            before.starts_with(".TP")
        });
        // What `data=` can be has paragraphs of its own.
        let values = ["journal", "ordered", "writeback"];
        let tags: Vec<_> = tags.iter().filter(|word| !values.contains(&word.as_str())).collect();
        assert!(tags.len() > 50, "{tags:?}");
        found += tags.iter().inspect(|word| assert!(words::knows(word), "ext4(5): {word}")).count();
    }
    if let Some(text) = page("man8/mount.8") {
        let (from, to) = (".SH \"FILESYSTEM\\-INDEPENDENT", ".SH \"FILESYSTEM\\-SPECIFIC");
        let tags = tagged(&text, from, to, |_, after| after.starts_with(".RS"));
        assert!(tags.len() > 40, "{tags:?}");
        found +=
            tags.iter().inspect(|word| assert!(words::knows(word), "mount(8): {word}")).count();
    }
    if let Some(text) = page("man8/mount.fuse3.8") {
        let tags = tagged(&text, "General mount options", ".SH", |before, after| {
            before.starts_with(".TP") || after.starts_with(".TP")
        });
        let tags: Vec<_> =
            tags.iter().filter(|word| !["NOTE", "TYPE"].contains(&&***word)).collect();
        assert!(tags.len() > 25, "{tags:?}");
        found += tags.iter().inspect(|word| assert!(words::knows(word), "FUSE: {word}")).count();
    }
    // Images of the gate have no pages; the lists above are then what is judged.
    assert!(found == 0 || found > 25);
}

/// One note for all, once a mount; and none for what is silent.
#[test]
fn words_that_change_nothing_are_named_once() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-noted");
    let list = "defaults,lazytime,stripe=16,init_itable=10,barrier=1,data_err=ignore,acl,x-a.b";
    let mounted = Mounted::of(&bench);
    let told = extant(["mount", "-o", list, &bench.image(), &bench.point()]);
    let named = "lazytime, stripe=16, init_itable=10, data_err=ignore";
    assert_eq!(told.stderr, format!("extant: mount: taken, changes nothing: {named}\n"));
    assert_eq!(told.code, 0);
    mounted.end();
    if !std::path::Path::new("/sys/fs/selinux/enforce").exists() {
        let mounted = Mounted::of(&bench);
        let list = r#"context="u:r:t:s0:c1,c2",noatime"#;
        let told = extant(["mount", "-o", list, &bench.image(), &bench.point()]);
        let named = "context=u:r:t:s0:c1,c2";
        assert_eq!(told.stderr, format!("extant: mount: taken, changes nothing: {named}\n"));
        mounted.end();
    }
    let told = extant(["mount", "-o", "nobarrier", &bench.image(), &bench.point()]);
    assert!(told.code == 1 && told.stderr.contains("-o nobarrier: is not supported"), "{told:?}");
}

#[test]
fn masks_hide_permissions_and_keep_them() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-masks");
    let mode = |name: &str| fs::symlink_metadata(bench.inside(name)).unwrap().mode() & 0o7777;
    let set = |name: &str, mode| {
        fs::set_permissions(bench.inside(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mounted = bench.mount("");
    fs::create_dir(bench.inside("folder")).unwrap();
    fs::write(bench.inside("file"), "x").unwrap();
    symlink("file", bench.inside("link")).unwrap();
    set("folder", 0o755);
    set("file", 0o4755);
    mounted.end();

    let mounted = bench.mount("allow_other,fmask=0137,dmask=27");
    assert_eq!((mode("folder"), mode("file"), mode("link")), (0o750, 0o4640, 0o777));
    // Only what is shown changes: what the mask hides, 0137 of 0755, stays.
    set("file", 0o600);
    assert_eq!(mode("file"), 0o600);
    mounted.end();

    let mounted = bench.mount("umask=077");
    assert_eq!((mode("folder"), mode("file")), (0o700, 0o700));
    mounted.end();
    let mounted = bench.mount("");
    assert_eq!((mode("folder"), mode("file")), (0o755, 0o715));
    mounted.end();
}

#[test]
fn links_are_not_followed_with_nosymfollow() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-nosymfollow");
    let mounted = bench.mount("nosymfollow,max_read=65536");
    fs::write(bench.inside("file"), "x").unwrap();
    symlink("file", bench.inside("link")).unwrap();
    assert_eq!(errno(fs::read(bench.inside("link"))), Some(LOOP));
    assert_eq!(fs::read_link(bench.inside("link")).unwrap().to_str(), Some("file"));
    let line = bench.line().unwrap();
    assert!(line.contains("nosymfollow") && line.contains("max_read=65536"), "{line}");
    mounted.end();
    let mounted = bench.mount("nosymfollow,symfollow");
    assert_eq!(fs::read(bench.inside("link")).unwrap(), b"x");
    mounted.end();
}

/// Listings change the access time of a directory, but for `nodiratime`, which leaves files alone.
#[test]
fn listings_change_no_time_with_nodiratime() {
    if !has_fuse() {
        return;
    }
    for (options, of_folder, of_file) in [
        ("strictatime", true, true),
        ("strictatime,nodiratime", false, true),
        ("nodiratime,diratime,strictatime", true, true),
    ] {
        let bench = Bench::new("mount-nodiratime");
        let mounted = bench.mount("");
        fs::create_dir(bench.inside("folder")).unwrap();
        fs::write(bench.inside("folder/file"), "x").unwrap();
        let mut set = program("touch");
        output(
            set.args(["-a", "-d", "@1000"])
                .args(["folder", "folder/file"].map(|name| bench.inside(name))),
        )
        .unwrap();
        mounted.end();
        let mounted = bench.mount(options);
        assert_eq!(fs::read_dir(bench.inside("folder")).unwrap().count(), 1);
        assert_eq!(fs::read(bench.inside("folder/file")).unwrap(), b"x");
        mounted.end();
        let mounted = bench.mount("ro");
        let is_new = |name: &str| fs::metadata(bench.inside(name)).unwrap().atime() != 1000;
        assert_eq!((is_new("folder"), is_new("folder/file")), (of_folder, of_file), "{options}");
        done(["umount", &bench.point()]);
        drop(mounted);
    }
}

/// With `discard` the image gets holes where files were, while it is mounted.
#[test]
fn discard_gives_back_what_files_had() {
    if !has_fuse() {
        return;
    }
    const BYTES: u64 = 8 << 20;
    let bench = Bench::new("mount-discard");
    let kept = || fs::metadata(bench.image()).unwrap().blocks() * 512;
    for (options, is_given) in [("discard,commit=1", true), ("commit=1", false)] {
        let mounted = bench.mount(options);
        fs::write(bench.inside("file"), vec![b'x'; BYTES as usize]).unwrap();
        fs::File::open(bench.inside("file")).unwrap().sync_all().unwrap();
        let full = kept();
        fs::remove_file(bench.inside("file")).unwrap();
        let clock = extant_block::RealClock::new();
        let rounds = if is_given { 300 } else { 30 };
        let is_less = (0..rounds).any(|_| {
            let deadline = extant_block::Clock::now(&*clock) + 100_000_000;
            extant_block::Clock::park(&*clock, Some(deadline));
            kept() + BYTES / 2 < full
        });
        assert_eq!(is_less, is_given, "{options}: {full}, {}", kept());
        mounted.end();
    }
}

/// Flags change by a remount, and what the server has does not.
#[test]
fn a_remount_changes_flags_and_is_refused_where_it_cannot() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-remount");
    let remount = |words: &str| {
        extant(["mount", "-o", &format!("remount,{words}"), &bench.image(), &bench.point()])
    };
    assert!(remount("ro").stderr.contains("no image is mounted there"));
    let mounted = bench.mount("nodev");
    fs::write(bench.inside("a"), "x").unwrap();
    assert_eq!(remount("ro,noexec").code, 0);
    assert_eq!(errno(fs::write(bench.inside("b"), "x")), Some(READ_ONLY));
    let line = bench.line().unwrap();
    assert!(line.contains(" ro,nodev,noexec,relatime "), "{line}");
    assert_eq!(remount("rw,exec,relatime,user_id=0").code, 0);
    fs::write(bench.inside("b"), "x").unwrap();
    for words in ["cache=64M", "noatime", "uid=5"] {
        let told = remount(words);
        let named = format!("-o remount,{words}: is not changed");
        assert!(told.code == 1 && told.stderr.contains(&named), "{told:?}");
    }
    let open = fs::File::create(bench.inside("c")).unwrap();
    assert!(remount("ro").stderr.contains("open for writing"));
    drop(open);
    mounted.end();

    let mounted = bench.mount("ro");
    let told = remount("rw");
    assert!(told.stderr.contains("began read-only, and cannot become writable"), "{told:?}");
    assert_eq!(told.code, 32);
    assert_eq!(errno(fs::write(bench.inside("b"), "x")), Some(READ_ONLY));
    mounted.end();
}

/// Blocks are chosen by another allocator, and the volume is whole.
#[test]
fn nodelalloc_is_a_choice_of_the_policies() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-nodelalloc");
    let mounted = bench.mount("nodelalloc");
    for number in 0..50 {
        fs::write(bench.inside(&number.to_string()), vec![b'x'; 10_000 * number]).unwrap();
    }
    mounted.end();
}
