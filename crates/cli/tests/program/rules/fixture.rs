//! A source, the command, what it made.
use extant_testkit::listing;
use extant_testkit::oracle::e2fsck;
use extant_testkit::scratch::Scratch;
use extant_testkit::walk::Entry;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder with a few files.
pub fn source(folder: &Scratch) -> PathBuf {
    let source = folder.join("source");
    for directory in ["etc/keys", "usr/bin", "srv/a/b", "var/www", "dev"] {
        fs::create_dir_all(source.join(directory)).unwrap();
    }
    for file in ["etc/motd", "etc/keys/a.key", "usr/bin/ping", "usr/bin/su", "var/www/index", "x y"]
    {
        fs::write(source.join(file), file).unwrap();
    }
    symlink("bin", source.join("usr/sbin")).unwrap();
    source
}

/// `extant WORDS..` in the folder, words as one line.
pub fn extant(folder: &Scratch, words: &str) -> Output {
    let mut command = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    command.args(words.split_whitespace()).current_dir(folder.path());
    command.env_remove("SOURCE_DATE_EPOCH").output().unwrap()
}

/// Builds `disk.img`; gives what it warned of. e2fsck has nothing to say.
pub fn build(folder: &Scratch, words: &str) -> String {
    let output = extant(folder, &format!("build -F {words} source disk.img"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}: {said}");
    e2fsck(&folder.join("disk.img")).unwrap_or_else(|error| panic!("{words}: {error}"));
    said
}

/// All files of an image by path, as `extant ls` lists them.
pub fn told(folder: &Scratch, image: &str) -> BTreeMap<String, Entry> {
    let output = extant(folder, &format!("ls -lR --json {image}:/"));
    let text = String::from_utf8(output.stdout).unwrap();
    let entries = listing::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let named = entries.into_iter();
    named.map(|entry| (format!("/{}", entry.path.display()), entry)).collect()
}

/// Owner, group and mode of a file.
pub fn rights(entries: &BTreeMap<String, Entry>, path: &str) -> (u32, u32, u32) {
    let entry = entries.get(path).unwrap_or_else(|| panic!("{path} is not there"));
    (entry.uid, entry.gid, entry.mode)
}

/// An attribute of a file as text.
pub fn attribute(entries: &BTreeMap<String, Entry>, path: &str, name: &str) -> Option<String> {
    let value = entries.get(path)?.attributes.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}
