//! Archives of every dialect, made by GNU tar and by hand, read into a tree; hostile ones; layers
//! over each other.
//!
//! ```text
//! hand      entries made by hand; directory: folders of the host
//! bodies    which entries have content, whatever size they tell
//! ends      how archives end, and where they were cut off
//! layers    whiteouts, and sources that replace what others have
//! notices   what cannot be kept, and how it is counted
//! unread    archives of devices that fail
//! ```
mod bodies;
mod directory;
mod ends;
mod hand;
mod layers;
mod notices;
mod unread;

use extant_format::inode::FileType;
use extant_image::Error;
use extant_image::source::{
    BodyReader, Collected, Exclude, IdMap, OnTrouble, ReadOptions, Source, collect,
};
use extant_image::tree::{NodeId, Tree};
use hand::{END, archive, file, header, link, padded, pax, seal};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// One line a path: everything that an image would hold.
fn described(collected: &Collected) -> BTreeMap<String, String> {
    let mut lines = BTreeMap::new();
    let mut reader = BodyReader::new(&collected.tree, &collected.sources);
    describe(&collected.tree, &mut reader, NodeId::ROOT, "/".into(), &mut lines);
    lines
}

fn describe(
    tree: &Tree,
    reader: &mut BodyReader<'_>,
    node: NodeId,
    path: String,
    lines: &mut BTreeMap<String, String>,
) {
    let mut bytes = vec![0; tree.length(node) as usize];
    if tree.file_type(node) == FileType::Regular {
        reader.read_at(node, 0, &mut bytes).unwrap();
    }
    let sum =
        bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let segments: Vec<_> =
        tree.data_segments(node).map(|segment| (segment.offset, segment.length)).collect();
    let (time, device) = (tree.modify_time(node), tree.device(node));
    let attributes: Vec<_> = tree
        .attributes(node)
        .iter()
        .map(|attribute| {
            (String::from_utf8_lossy(&attribute.name).into_owned(), attribute.value.clone())
        })
        .collect();
    let line = format!(
        "{:o} {}:{} x{} {}.{:09} {} {sum:x} {segments:?} {:?} {}:{} {attributes:?}",
        tree.mode(node),
        tree.uid(node),
        tree.gid(node),
        tree.links(node),
        time.seconds,
        time.nanoseconds,
        tree.length(node),
        String::from_utf8_lossy(tree.target(node)),
        device.major,
        device.minor,
    );
    lines.insert(path.clone(), line);
    for child in tree.children(node) {
        let name = String::from_utf8_lossy(child.name);
        describe(tree, reader, child.node, format!("{}/{name}", path.trim_end_matches('/')), lines);
    }
}

fn read_with(sources: &[&Path], options: &ReadOptions) -> Result<Collected, Error> {
    collect(sources.iter().map(Source::from), options, &())
}

fn read(source: &Path) -> BTreeMap<String, String> {
    described(&read_with(&[source], &ReadOptions::default()).unwrap())
}

fn shell(folder: &Path, script: &str) {
    let done = Command::new("sh").arg("-ec").arg(script).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A folder `in` with a little of everything that an ordinary user can make; root makes devices
/// too.
fn sample(folder: &Path) {
    shell(
        folder,
        "mkdir -p in/d/e in/empty; echo hello >in/d/f; ln in/d/f in/d/e/g; ln -s ../f in/d/e/s; \
         mkfifo in/p
         chmod 4751 in/d/f; chmod 1777 in/empty; : >in/zero
         truncate -s 3M in/holes; printf x | dd of=in/holes bs=1 seek=1000000 conv=notrunc \
         status=none
         printf y | dd of=in/holes bs=1 seek=2500000 conv=notrunc status=none
         if test $(id -u) = 0; then mknod in/c c 5 1; mknod in/b b 259 70000; chown 70000:80000 \
         in/zero; fi
         find in ! -type d | xargs touch -h -d @1000000000; touch -h -d @1234567890 in/d/e/s \
         in/holes
         find in -type d | sort -r | xargs touch -d @1111111111",
    );
}

const SEGMENTS_DIFFER: &str = "/holes";

/// Without what a dialect cannot say: where holes are, if it has no holes.
fn without_holes(mut lines: BTreeMap<String, String>) -> BTreeMap<String, String> {
    lines.remove(SEGMENTS_DIFFER);
    lines
}

#[test]
fn every_dialect_of_gnu_tar_is_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    let wanted = read(&folder.path().join("in"));
    assert!(wanted["/holes"].contains("), ("), "two pieces of data: {}", wanted["/holes"]);
    for (form, options) in [
        ("ustar", ""),
        ("gnu", ""),
        ("posix", ""),
        ("gnu", "--sparse"),
        ("posix", "--sparse --sparse-version=0.0"),
        ("posix", "--sparse --sparse-version=0.1"),
        ("posix", "--sparse --sparse-version=1.0"),
    ] {
        shell(folder.path(), &format!("tar -C in --format={form} {options} -cf out.tar ."));
        let found = read(&folder.path().join("out.tar"));
        assert_eq!(without_holes(found.clone()), without_holes(wanted.clone()), "{form} {options}");
        let bare = |line: &str| line.split(" [").next().unwrap().to_owned();
        assert_eq!(bare(&found["/holes"]), bare(&wanted["/holes"]), "{form} {options}");
        assert_eq!(
            found["/holes"].contains("), ("),
            options.contains("--sparse"),
            "{form} {options}"
        );
    }
    shell(
        folder.path(),
        "rm -f in/p in/c in/b; touch -d @1111111111 in; tar -C in --format=v7 -cf out.tar .",
    );
    let wanted = read(&folder.path().join("in"));
    assert_eq!(without_holes(read(&folder.path().join("out.tar"))), without_holes(wanted), "v7");
}

#[test]
fn the_order_of_an_archive_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    shell(
        folder.path(),
        "cd in; tar -cf ../one.tar .; find . | sort -r | tar --no-recursion -cf ../two.tar -T -",
    );
    assert_eq!(read(&folder.path().join("one.tar")), read(&folder.path().join("two.tar")));
}

#[test]
fn compressed_archives_and_pipes_are_spooled() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    shell(folder.path(), "tar -C in --format=posix --sparse -cf out.tar .");
    let wanted = read(&folder.path().join("out.tar"));
    for (tool, end) in [("gzip", "gz"), ("zstd -q", "zst"), ("xz", "xz")] {
        let name = tool.split(' ').next().unwrap();
        if Command::new(name).arg("--version").output().is_err() {
            eprintln!("{name} is not installed: not tried");
            continue;
        }
        // Two members end to end, as parallel compressors write them.
        shell(
            folder.path(),
            &format!(
                "head -c 5000 out.tar | {tool} -c >o.{end}; tail -c +5001 out.tar | {tool} -c \
                 >>o.{end}"
            ),
        );
        assert_eq!(read(&folder.path().join(format!("o.{end}"))), wanted, "{tool}");
        // One byte in the middle changed, and the end cut off.
        let whole = std::fs::read(folder.path().join(format!("o.{end}"))).unwrap();
        let cut = folder.path().join("cut");
        std::fs::write(&cut, &whole[..whole.len() - 9]).unwrap();
        let error =
            read_with(&[&cut], &ReadOptions::default()).err().expect("a cut stream is refused");
        assert!(error.message.contains("cut: "), "{tool}: {error}");
    }
    shell(folder.path(), "mkfifo pipe; (exec >/dev/null 2>&1; cat out.tar >pipe) &");
    assert_eq!(read(&folder.path().join("pipe")), wanted);
}

#[test]
fn long_names_attributes_and_access_lists() {
    let folder = tempfile::tempdir().unwrap();
    let long = "n".repeat(200);
    shell(
        folder.path(),
        &format!(
            "mkdir -p in/{long}/{long}; echo 1 >in/{long}/{long}/{long}; ln -s \
             {long}/{long}/{long} in/link
             ln in/{long}/{long}/{long} in/hard; echo x >in/plain; setfattr -n user.colour -v red \
             in/plain
             setfattr -n user.a=b%c -v 0x00ff0a in/plain
             setfacl -m u:1234:rw,g:7777:r in/plain; setfacl -d -m u:1235:rx in/{long}; find in \
             -exec touch -h -d @7 {{}} +"
        ),
    );
    let wanted = read(&folder.path().join("in"));
    assert!(
        wanted["/plain"].contains("user.colour") && wanted["/plain"].contains("posix_acl_access"),
        "{}",
        wanted["/plain"]
    );
    shell(
        folder.path(),
        "tar -C in --format=posix --numeric-owner --xattrs --xattrs-include='*' --acls -cf out.tar \
         .",
    );
    assert_eq!(read(&folder.path().join("out.tar")), wanted);
    shell(folder.path(), "tar -C in --format=gnu -cf out.tar .");
    let names: Vec<String> = read(&folder.path().join("out.tar")).into_keys().collect();
    assert_eq!(names, wanted.into_keys().collect::<Vec<_>>());
}

#[test]
fn hostile_archives_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let good = file("good", b"1");
    let old_sparse = |pieces: &[(u64, u64)], size: u64| {
        header("s", b'S', 8, |bytes| {
            bytes[257..265].copy_from_slice(b"ustar  \0");
            for (at, (offset, length)) in pieces.iter().enumerate() {
                bytes[386 + at * 24..][..12].copy_from_slice(format!("{offset:011o}\0").as_bytes());
                bytes[398 + at * 24..][..12].copy_from_slice(format!("{length:011o}\0").as_bytes());
            }
            bytes[483..495].copy_from_slice(format!("{size:011o}\0").as_bytes());
        })
    };
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("dots", file("a/../../etc/passwd", b"x"), "a/../../etc/passwd: leads out"),
        ("nul", [pax(&[("path", "a\0b")]), file("x", b"")].concat(), "NUL"),
        ("component", [pax(&[("path", &"n".repeat(256))]), file("x", b"")].concat(), "256 bytes"),
        ("deep", [pax(&[("path", &"a/".repeat(70_000))]), file("x", b"")].concat(), "deeper than"),
        ("size", header("x", b'0', 0o77_777_777_777, |_| {}), "the last whole entry is good"),
        ("negative", header("x", b'0', 0, |bytes| bytes[124..136].fill(0xff)), "impossible size"),
        ("octal", header("x", b'0', 0, |bytes| bytes[108] = b'9'), "impossible user id"),
        (
            "lying pax",
            [header("p", b'x', 10, |_| {}), padded(b"99 path=a\n")].concat(),
            "wrong lengths",
        ),
        ("huge pax", header("p", b'x', 1 << 30, |_| {}), "an extended header of 1073741824 bytes"),
        (
            "pax size",
            [pax(&[("size", "9223372036854775807")]), header("x", b'0', 0, |_| {})].concat(),
            "truncated",
        ),
        (
            "pax size 2",
            [pax(&[("size", "18446744073709551615")]), header("x", b'0', 0, |_| {})].concat(),
            "wrong size",
        ),
        ("link", link("a", b'1', "nowhere"), "a: is a hard link to nowhere"),
        ("cycle", [link("a", b'1', "b"), link("b", b'1', "a")].concat(), "a: is a hard link to b"),
        (
            "link to dir",
            [header("d", b'5', 0, |_| {}), link("a", b'1', "d")].concat(),
            "hard link to a directory",
        ),
        (
            "loop",
            [link("a", b'2', "b"), link("b", b'2', "a"), file("a/x", b"")].concat(),
            "a: is not a directory",
        ),
        ("below a file", [file("f", b""), file("f/x", b"")].concat(), "f: is not a directory"),
        ("empty target", link("a", b'2', ""), "a: is a symlink whose target is empty"),
        (
            "overlap",
            [old_sparse(&[(0, 4), (2, 4)], 100), padded(b"12345678")].concat(),
            "out of order",
        ),
        ("beyond", [old_sparse(&[(96, 8)], 100), padded(b"12345678")].concat(), "beyond the end"),
        ("sum", [old_sparse(&[(0, 4)], 100), padded(b"12345678")].concat(), "does not fit"),
        ("checksum", vec![7; 512], "checksum"),
        (
            "device",
            header("c", b'3', 0, |bytes| bytes[329..337].copy_from_slice(b"7777777\0")),
            "c: is device",
        ),
        (
            "front",
            [
                pax(&[
                    ("GNU.sparse.major", "1"),
                    ("GNU.sparse.minor", "0"),
                    ("GNU.sparse.realsize", "9"),
                ]),
                file("x", b"999999999\n"),
            ]
            .concat(),
            "a map of holes",
        ),
        ("uid", [pax(&[("uid", "4294967296")]), file("x", b"")].concat(), "wrong uid"),
    ];
    for (name, bytes, words) in cases {
        let path = archive(folder.path(), name, &[&good, &bytes]);
        let error = read_with(&[&path], &ReadOptions::default())
            .err()
            .unwrap_or_else(|| panic!("{name} was read"));
        assert!(error.message.contains(words) && error.message.contains(name), "{name}: {error}");
        assert!(!error.message.contains('\n'), "{name}: {error}");
    }
}

#[test]
fn later_entries_replace_earlier_ones() {
    let folder = tempfile::tempdir().unwrap();
    let one = archive(
        folder.path(),
        "one",
        &[
            &file("./a/x", b"old"),
            &file("/a/y", b"y"),
            &link("h", b'1', "a/x"),
            &file("gone/x", b""),
            &link("lib", b'2', "a"),
        ],
    );
    let two = archive(
        folder.path(),
        "two",
        &[&file("a/x", b"newer"), &file("gone", b"file"), &file("lib/z", b"z")],
    );
    let lines = described(&read_with(&[&one, &two], &ReadOptions::default()).unwrap());
    let names: Vec<&str> = lines.keys().map(String::as_str).collect();
    assert_eq!(names, ["/", "/a", "/a/x", "/a/y", "/a/z", "/gone", "/h", "/lib"]);
    assert!(
        lines["/a/x"].contains(" x1 0.000000000 5 ") && lines["/h"].contains(" x1 0.000000000 3 "),
        "{lines:?}"
    );
}

#[test]
fn owners_times_and_exclusions() {
    let folder = tempfile::tempdir().unwrap();
    let late = |bytes: &mut [u8]| bytes[136..147].copy_from_slice(b"00000001750");
    let path = archive(
        folder.path(),
        "x",
        &[
            &header("keep", b'0', 0, late),
            &file("no/deep/file", b"body"),
            &link("hard", b'1', "no/deep/file"),
            &file("x.o", b""),
        ],
    );
    let options = ReadOptions {
        exclude: Exclude::new(&["no", "*.o"]).unwrap(),
        map_users: vec![IdMap { from: 0, to: 100_000, count: 65_536 }],
        newest: Some(500),
        ..ReadOptions::default()
    };
    let lines = described(&read_with(&[&path], &options).unwrap());
    let names: Vec<&str> = lines.keys().map(String::as_str).collect();
    assert_eq!(names, ["/", "/hard", "/keep"]);
    assert!(lines["/keep"].contains("100000:0 x1 500.000000000"), "{lines:?}");
    assert!(lines["/hard"].contains(" 4 "), "the body of an excluded name: {lines:?}");
}

#[test]
fn broken_entries_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = archive(
        folder.path(),
        "x",
        &[&file("../out", b"body"), &link("a", b'1', "nowhere"), &file("good", b"1")],
    );
    let options = ReadOptions { on_trouble: OnTrouble::Skip, ..Default::default() };
    let collected = read_with(&[&path], &options).unwrap();
    assert_eq!(collected.skipped.len(), 2, "{:?}", collected.skipped);
    assert_eq!(described(&collected).len(), 2);
}

#[test]
fn chains_of_directories_and_wide_ones_are_read_quickly() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    let mut path = String::new();
    for _ in 0..10_000 {
        path.push_str("d/");
        bytes.extend(pax(&[("path", &path)]));
        bytes.extend(header("d/", b'5', 0, |_| {}));
    }
    for number in (0..50_000).rev() {
        bytes.extend(header(&format!("wide/{number}"), b'0', 0, |_| {}));
    }
    let path = archive(folder.path(), "x", &[&bytes]);
    let collected = read_with(&[&path], &ReadOptions::default()).unwrap();
    assert_eq!(collected.tree.inode_count(), 60_002);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever is in an archive, reading it ends, and never in a panic.
    #[test]
    fn random_changes_are_survived(
        changes in proptest::collection::vec((0_usize..6000, any::<u8>()), 0..12),
        sealed: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = [
            pax(&[("path", "a/b"), ("mtime", "1.5"), ("SCHILY.xattr.user.x", "y")]),
            file("x", b"body"),
            link("c", b'1', "a/b"),
            pax(&[
                ("GNU.sparse.major", "1"),
                ("GNU.sparse.minor", "0"),
                ("GNU.sparse.realsize", "9000"),
                ("GNU.sparse.name", "s"),
            ]),
            header("s", b'0', 516, |_| {}),
            padded(b"1\n100\n4\n"),
            padded(b"data"),
            END.to_vec(),
        ]
        .concat();
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[at % length] = byte;
        }
        if sealed {
            bytes.chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar").for_each(seal);
        }
        let path = folder.path().join("x");
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(collected) = read_with(&[&path], &ReadOptions::default()) {
            let tree = &collected.tree;
            let nodes = (0..tree.node_bound()).map(|node| NodeId(node as u32));
            let lengths: u64 = nodes.map(|node| tree.length(node)).sum();
            if lengths < 1 << 20 {
                described(&collected);
            }
        }
    }
}
