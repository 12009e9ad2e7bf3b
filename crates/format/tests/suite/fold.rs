//! Folded names, by their hashes beside those of debugfs.
use extant_format::fold::{folded, is_same};
use extant_format::hash::Hasher;
use extant_format::superblock::HashVersion;
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;

const HASHER: Hasher = Hasher { version: HashVersion::HalfMd4, unsigned: false, seed: [0; 4] };

/// The major hashes that debugfs gives names of directories without case.
fn hashes_of_debugfs(names: &[String]) -> Vec<u32> {
    let folder = Scratch::new("fold");
    let (image, script) = (folder.join("image"), folder.join("script"));
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-O", "casefold", "-E", "encoding=utf8"]).arg(&image).arg("2M");
    output(&mut mke2fs).expect("mke2fs makes it");
    let lines = names.iter().map(|name| format!("dx_hash -h half_md4 -c -e utf8 \"{name}\"\n"));
    std::fs::write(&script, lines.collect::<String>()).expect("is written");
    let said = output(program("debugfs").arg("-f").arg(&script).arg(&image)).expect("runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let hashes = said.lines().filter_map(|line| {
        let (_, hash) = line.rsplit_once(" is 0x")?;
        u32::from_str_radix(hash.split(' ').next()?, 16).ok()
    });
    hashes.collect()
}

#[test]
fn every_letter_is_folded_as_others_fold_it() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    // All characters, a few in each name; marks follow each other in some.
    let all: Vec<char> = ('\u{a1}'..=char::MAX).filter(|it| !it.is_ascii()).collect();
    let blocks =
        [0x00a1..0x3400, 0x4db0..0x4e10, 0x9fe0..0xac30, 0xd7a0..0x20000, 0xe0000..0xe0200];
    let is_looked_at = |it: &char| blocks.iter().any(|range| range.contains(&u32::from(*it)));
    let looked_at: Vec<char> = all.into_iter().filter(is_looked_at).collect();
    let names: Vec<String> = looked_at.chunks(9).map(|part| part.iter().collect()).collect();
    let singles = looked_at.iter().step_by(5).map(|it| format!("A{it}B"));
    let names: Vec<String> = names.into_iter().chain(singles).collect();
    let theirs = hashes_of_debugfs(&names);
    assert_eq!(theirs.len(), names.len());
    let differing: Vec<_> = names
        .iter()
        .zip(theirs)
        .filter(|(name, theirs)| HASHER.hash_folded(name.as_bytes()).major != *theirs)
        .map(|(name, _)| name.escape_unicode().to_string())
        .collect();
    assert!(
        differing.is_empty(),
        "{} of {}: {:?}",
        differing.len(),
        names.len(),
        &differing[..9.min(differing.len())]
    );
}

#[test]
fn names_are_the_same_without_case_composition_and_what_is_ignorable() {
    for (one, other) in [
        ("README", "ReadMe"),
        ("Straße", "STRASSE"),
        ("É", "e\u{301}"),
        ("a\u{323}\u{302}", "\u{1ead}"),
        ("a\u{302}\u{323}", "Ậ"),
        ("\u{212b}", "å"),
        ("co\u{ad}op", "COOP"),
        ("각", "\u{1100}\u{1161}\u{11a8}"),
        ("\u{200b}", "\u{feff}"),
        ("\u{1fae8}A", "\u{1fae8}a"),
    ] {
        assert!(is_same(one.as_bytes(), other.as_bytes()), "{one} {other}");
    }
    for (one, other) in [("a", "b"), ("e", "é"), ("ı", "i"), ("\u{1c89}", "\u{1c8a}")] {
        assert!(!is_same(one.as_bytes(), other.as_bytes()), "{one} {other}");
    }
    assert!(!is_same(b"A\xff", b"a\xff"));
    assert_eq!(&*folded(b"A\xff"), b"A\xff");
    assert_eq!(&*folded("\u{130}X".as_bytes()), "i\u{307}x".as_bytes());
}
