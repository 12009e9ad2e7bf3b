//! Every document and record of `--json` names its schema first.
use extant_testkit::scratch::Scratch;
use std::collections::BTreeSet;
use std::path::Path;

/// The records of each stream of a command: each is an object with a schema of this program.
fn records(words: &[&str], folder: &Path) -> Vec<serde_json::Value> {
    let output = crate::commands::command::command(words).current_dir(folder).output().unwrap();
    let mut records: Vec<serde_json::Value> = Vec::new();
    for stream in [&output.stdout, &output.stderr] {
        let values = serde_json::Deserializer::from_slice(stream).into_iter();
        for value in values {
            records.push(value.unwrap_or_else(|error| {
                panic!("{words:?}: {error}: {}", String::from_utf8_lossy(stream))
            }));
        }
        // Also as text: a reader of lines finds it without parsing the whole.
        let text = String::from_utf8_lossy(stream);
        for line in text.lines().filter(|line| line.starts_with("{\"")) {
            assert!(line.starts_with("{\"schema\":\"extant-"), "{line}");
        }
    }
    for record in &records {
        let schema = record["schema"].as_str().unwrap_or_default();
        let (name, number) = schema.rsplit_once('/').unwrap_or_default();
        let is_named = name.starts_with("extant-") && number.parse::<u32>().is_ok();
        assert!(is_named, "{words:?}: {record}");
    }
    assert!(!records.is_empty(), "{words:?} prints nothing");
    records
}

/// A command line of each command that prints something with `--json`, in the order in which they
/// are run.
const LINES: &[&str] = &[
    "build tree disk.img --size 16M",
    "mkfs new.img 8M",
    "info disk.img",
    "ls -lR disk.img:/",
    "ls --sha256 disk.img:/file",
    "find disk.img:/ -type f",
    "stat disk.img:/file --extents",
    "df disk.img",
    "du -a -c disk.img:/",
    "layout disk.img",
    "check disk.img",
    "check --codes",
    "repair disk.img",
    "undo disk.img",
    "heal disk.img",
    "resize disk.img +2M",
    "tune -L label -O ^metadata_csum disk.img",
    "shrink disk.img small.img.zst",
    "repack disk.img packed.img",
    "normalize disk.img canonical.img",
    "trim --scrub disk.img",
    "trim --map json disk.img",
    "diff disk.img tree",
    "setfattr -n user.word -v text disk.img:/file",
    "getfattr -d disk.img:/file",
    "cp tree/file disk.img:/copy",
    "mv disk.img:/copy disk.img:/moved",
    "ln disk.img:/moved disk.img:/second",
    "chmod 600 disk.img:/moved",
    "chown 1:1 disk.img:/moved",
    "chgrp 2 disk.img:/moved",
    "chattr +d disk.img:/moved",
    "touch disk.img:/moved",
    "truncate -s 10 disk.img:/moved",
    "mkdir disk.img:/new",
    "rmdir disk.img:/new",
    "rm disk.img:/moved",
    "write disk.img:/written",
    "edit disk.img script",
    "replay disk.img",
    "tar disk.img -o out.tar",
    "tar disk.img",
    "extract disk.img out",
    "names links",
    "names --list",
    "completions bash",
    "man build",
    "man ./pages",
    "age disk.img --profile mail --days 1",
    "lab list",
    "lab policies",
    "lab show drive-patterns",
    "sweep plan matrix.toml",
    "sweep run jobs sweep",
    "sweep status sweep",
    // Failures and warnings are records too.
    "cat none.img:/x",
    "ls disk.img:/none",
    "df none.img",
    "build tree disk.img",
    "mkfs --no-such-option",
    "check none.img",
];

/// Commands that print no document, and why.
const WITHOUT: [(&str, &str); 3] = [
    ("mount", "its document is tested where images are mounted"),
    ("umount", "likewise"),
    ("cat", "prints what is in a file"),
];

#[test]
fn each_command_names_its_schema() {
    let folder = Scratch::new("schemas");
    std::fs::create_dir_all(folder.join("tree/sub")).unwrap();
    std::fs::create_dir(folder.join("links")).unwrap();
    std::fs::write(folder.join("tree/file"), "content").unwrap();
    std::fs::write(folder.join("script"), "mkdir /made\n").unwrap();
    let matrix = "[[jobs]]\nkind = \"lab run\"\n\
        with = { scenario = \"read-cold\", scale = 1000, seed = 7 }\n";
    std::fs::write(folder.join("matrix.toml"), matrix).unwrap();
    let mut plan = crate::commands::command::command(["sweep", "plan", "matrix.toml"]);
    let planned = plan.current_dir(folder.path()).output().unwrap().stdout;
    std::fs::write(folder.join("jobs"), planned).unwrap();
    let mut tried = BTreeSet::new();
    let mut schemas = BTreeSet::new();
    for line in LINES {
        let mut words: Vec<&str> = line.split(' ').collect();
        tried.insert(words[0].to_owned());
        words.insert(1, "--json");
        // What fills standard output with an archive has its report on the other.
        if *line == "tar disk.img" {
            let output =
                crate::commands::command::command(&words).current_dir(folder.path()).output();
            let text = String::from_utf8(output.unwrap().stderr).unwrap();
            assert!(text.starts_with("{\"schema\":\"extant-tar/1\","), "{text}");
            continue;
        }
        for record in records(&words, folder.path()) {
            schemas.insert(record["schema"].as_str().unwrap().to_owned());
        }
    }
    let table = extant_cli::table();
    for command in table.get_subcommands().map(clap::Command::get_name) {
        let is_excused = WITHOUT.iter().any(|(name, _)| *name == command);
        assert!(tried.contains(command) || is_excused, "{command} has no line here");
    }
    assert!(schemas.len() > 20, "{schemas:?}");
}
