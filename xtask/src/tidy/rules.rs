//! The table: one row a rule, with its reason, what breaks it and what does not.

use super::places::{CLOCKS, THREADS, WRITERS};
use super::source::{Finding, Source};
use super::{booleans, manifest, width};
use extant_testkit::variables::{CHOICES, PRIVATE, VARIABLES};

/// A rule of the house.
pub struct Rule {
    /// The word for it, also in exceptions.
    pub name: &'static str,
    /// Why it is kept.
    pub reason: &'static str,
    /// Which lines of a file break it, and how.
    check: fn(&Source) -> Vec<(usize, String)>,
    /// Files that break it: path and text.
    pub bad: &'static [(&'static str, &'static str)],
    /// Files that look like it and do not.
    pub good: &'static [(&'static str, &'static str)],
}

impl Rule {
    /// What this rule says about `source`, exceptions left out.
    pub fn judge(&self, source: &Source) -> Vec<Finding> {
        if source.excuses_file(self.name) {
            return Vec::new();
        }
        let broken =
            (self.check)(source).into_iter().filter(|(line, _)| !source.excuses(self.name, *line));
        let finding = |(line, sentence)| Finding {
            path: source.path.clone(),
            line,
            rule: self.name,
            sentence,
            reason: self.reason,
        };
        broken.map(finding).collect()
    }
}

const FILE_LINES_MAX: usize = 800;
const FILE_WITH_TESTS_LINES_MAX: usize = 1000;
const FUNCTION_LINES_MAX: usize = 70;

/// 102 letters, between two texts.
macro_rules! concat_wide {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            $after
        )
    };
}

/// A comment that is too wide, which is prose in a document.
const WIDE_SAMPLE: &str = concat_wide!("// wide: ", "\n");

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule {
        name: "writers",
        reason: "what is written around the store is not seen by readers of the cache, nor stopped \
            by the latch",
        check: |source| outside_tests(source, phrases(source, WRITERS, WRITES)),
        bad: &[
            (
                "crates/engine/src/namespace.rs",
                "fn f(volume: &Volume) { volume\n    .device\n    .write(0, &bytes)?; }\n",
            ),
            (
                "crates/engine/src/file/mod.rs",
                "fn f() { device.submit(Request { operation: Operation::Write, offset }); }\n",
            ),
            ("crates/inspect/src/volume.rs", "fn f() { self.device.flush()?; }\n"),
        ],
        good: &[
            ("crates/store/src/lib.rs", "fn f() { self.device.write(0, &bytes)?; }\n"),
            ("crates/engine/src/namespace.rs", "fn f() { file.write(0, &bytes)?; }\n"),
            (
                "crates/engine/src/group/tests.rs",
                "#[cfg(test)]\nmod tests { fn f() { device.write(0, &bytes); } }\n",
            ),
        ],
    },
    Rule {
        name: "clock",
        reason: "time comes from block::Clock, or a run in virtual time is none",
        check: |source| phrases(source, CLOCKS, &["Instant : : now", "SystemTime : : now"]),
        bad: &[
            ("crates/engine/src/file.rs", "fn f() { let _ = std::time::Instant::now(); }\n"),
            ("xtask/src/demo.rs", "fn f() { SystemTime::now(); }\n"),
            ("crates/sim/src/clock.rs", "fn f() { Instant::now(); }\n"),
        ],
        good: &[
            ("crates/block/src/clock.rs", "fn f() { Instant::now(); }\n"),
            (
                "crates/engine/src/file.rs",
                "/// Never `Instant::now`.\nfn f() { say(\"Instant::now\"); }\n",
            ),
        ],
    },
    Rule {
        name: "raw-clock",
        reason: "a system call for the time goes around the Clock",
        check: |source| {
            phrases(
                source,
                &["crates/block/src/clock.rs", "xtask/src/measure.rs"],
                &["clock_gettime"],
            )
        },
        bad: &[("crates/cli/src/build.rs", "fn f() { rustix::time::clock_gettime(id); }\n")],
        good: &[("xtask/src/measure.rs", "fn f() { rustix::time::clock_gettime(id); }\n")],
    },
    Rule {
        name: "thread",
        reason: "threads and waiting belong to the Clock, which must know what runs",
        check: threads,
        bad: &[
            ("crates/engine/src/inode/write_back.rs", "fn f() { std::thread::spawn(g); }\n"),
            ("crates/block/src/lock.rs", "use std::sync::{Condvar, Mutex};\n"),
            ("xtask/src/bench.rs", "fn f() { thread::sleep(d); }\n"),
        ],
        good: &[
            (
                "crates/engine/src/inode/write_back.rs",
                "fn f(clock: &dyn Clock) { clock.spawn(task); }\n",
            ),
            ("crates/sim/src/clock.rs", "use std::thread::Builder;\n"),
        ],
    },
    Rule {
        name: "hash",
        reason: "its order differs from run to run; use FxHashMap, or BTreeMap where the order is \
            seen",
        check: |source| phrases(source, &["crates/cli/"], &["HashMap", "HashSet", "RandomState"]),
        bad: &[("crates/engine/src/cache.rs", "use std::collections::{BTreeMap, HashMap};\n")],
        good: &[("crates/engine/src/cache.rs", "use rustc_hash::FxHashMap;\n")],
    },
    Rule {
        name: "arrows",
        reason: "a crate boundary is there for the compiler to forbid something",
        check: manifest::arrows,
        bad: &[
            (
                "crates/format/Cargo.toml",
                "[package]\nname = \"extant-format\"\n[dependencies]\nextant-block = \"1\"\n",
            ),
            (
                "crates/inspect/Cargo.toml",
                "[package]\nname = \"extant-inspect\"\n[dev-dependencies]\nextant-engine = \"1\"\n",
            ),
            (
                "crates/engine/Cargo.toml",
                "[package]\nname = \"extant-engine\"\n[dependencies]\nxtask = \"1\"\n",
            ),
            (
                "crates/block/Cargo.toml",
                "[package]\nname = \"extant-block\"\n[target.'cfg(unix)'.dependencies]\nx = { \
                 package = \"extant-format\" }\n",
            ),
            ("crates/stranger/Cargo.toml", "[package]\nname = \"extant-stranger\"\n"),
            ("crates/format/Cargo.toml", "[package\n"),
        ],
        good: &[(
            "crates/engine/Cargo.toml",
            "[package]\nname = \"extant-engine\"\n[dependencies]\nextant-format.workspace = \
             true\n[dev-dependencies]\nextant-testkit = \"1\"\n",
        )],
    },
    Rule {
        name: "command-only",
        reason: "parsing words, archives and mounts are the business of commands",
        check: manifest::command_only,
        bad: &[(
            "crates/engine/Cargo.toml",
            "[package]\nname = \"extant-engine\"\n[dependencies]\nclap = \"4\"\n",
        )],
        good: &[(
            "crates/cli/Cargo.toml",
            "[package]\nname = \"extant-cli\"\n[dependencies]\nclap = \"4\"\n",
        )],
    },
    Rule {
        name: "lints",
        reason: "every crate forbids unsafe code and asks for documentation",
        check: manifest::lints,
        bad: &[
            ("crates/lab/Cargo.toml", "[package]\nname = \"extant-lab\"\n"),
            (
                "crates/lab/Cargo.toml",
                "[package]\nname = \"extant-lab\"\n[lints]\nworkspace = false\n",
            ),
            (
                "crates/lab/Cargo.toml",
                "[package]\nname = \"extant-lab\"\n[lints.rust]\nunsafe_code = \"allow\"\n",
            ),
            (
                "crates/capi/Cargo.toml",
                "[package]\nname = \"extant-capi\"\n[lints.rust]\nunsafe_code = \"allow\"\n",
            ),
        ],
        good: &[(
            "crates/lab/Cargo.toml",
            "[package]\nname = \"extant-lab\"\n[lints]\nworkspace = true\n",
        )],
    },
    Rule {
        name: "input-output",
        reason: "format is the disk as types; its caller decides how to read",
        check: |source| {
            if !source.is_under(&["crates/format/src/"]) {
                return Vec::new();
            }
            outside_tests(
                source,
                phrases(
                    source,
                    &[],
                    &["std : : fs", "std : : net", "std : : process", "std : : env"],
                ),
            )
        },
        bad: &[("crates/format/src/inode.rs", "use std::fs::File;\n")],
        good: &[("crates/block/src/file.rs", "use std::fs::File;\n")],
    },
    Rule {
        name: "print",
        reason: "a library returns; only commands speak",
        check: |source| {
            let words = ["println !", "print !", "eprintln !", "eprint !"];
            outside_tests(source, phrases(source, &["crates/cli/", "xtask/"], &words))
        },
        bad: &[("crates/engine/src/file.rs", "fn f() { println!(\"here\"); }\n")],
        good: &[(
            "crates/engine/src/file.rs",
            "#[cfg(test)]\nmod tests {\n    fn f() { println!(\"here\"); }\n}\n",
        )],
    },
    Rule {
        name: "skip",
        reason: "cargo hides what a passing test prints; testkit::skips has it counted",
        check: |source| {
            let words = [concat!("\"skip", "ped: "), concat!("(\"skip", "ped: ")];
            lines_with(source, &["crates/testkit/src/skips.rs", "xtask/src/bench/"], &words)
        },
        bad: &[("crates/cli/tests/x.rs", concat!("eprintln!(\"skip", "ped: no zstd\");\n"))],
        good: &[("crates/cli/tests/x.rs", "skip(\"no zstd\");\n")],
    },
    Rule {
        name: "capabilities",
        reason: "a decorator says something of each capability, so that a new one does not compile",
        check: |source| {
            lines_with(
                source,
                &["xtask/src/tidy/"],
                &["..Capabilities", "..self.device.capabilities"],
            )
        },
        bad: &[(
            "crates/block/src/x.rs",
            "Capabilities { holes: Some(self), ..Capabilities::NONE }\n",
        )],
        good: &[("crates/block/src/x.rs", "Capabilities::NONE\n")],
    },
    Rule {
        name: "program",
        reason: "the gate judges the command that ships: testkit::command::tested names it",
        check: |source| {
            let mut lines = lines_with(source, &["xtask/src/"], &["CARGO_BIN_EXE_extant"]);
            let text = |line: usize| source.text.lines().nth(line.saturating_sub(1)).unwrap_or("");
            lines.retain(|(line, _)| !text(*line).contains("tested(env!("));
            lines
        },
        bad: &[("crates/cli/tests/x.rs", "Command::new(env!(\"CARGO_BIN_EXE_extant\"))\n")],
        good: &[(
            "crates/cli/tests/x.rs",
            "Command::new(tested(env!(\"CARGO_BIN_EXE_extant\")))\n",
        )],
    },
    Rule {
        name: "variables",
        reason: "one table in testkit::variables says what each variable of the suites is",
        check: variables,
        bad: &[("crates/cli/tests/x.rs", concat!("number(\"EXT", "ANT_UNKNOWN\");\n"))],
        good: &[("crates/cli/tests/x.rs", "number(\"EXTANT_CUTS\");\n")],
    },
    Rule {
        name: "boolean",
        reason: "a call with `true` in it does not say what it asks for; an enum has two names",
        check: booleans::booleans,
        bad: &[
            ("crates/engine/src/file.rs", "fn open(path: &Path, write: bool) -> File {}\n"),
            (
                "crates/engine/src/file.rs",
                "impl File { pub fn close<T: Fn() -> u8>(&self, sync: bool, then: T) {} }\n",
            ),
            ("crates/engine/src/file.rs", "impl File { fn close(&mut self, sync: bool) {} }\n"),
            ("crates/engine/src/file.rs", "trait Close { fn close(self, sync: bool); }\n"),
        ],
        good: &[
            ("crates/engine/src/file.rs", "fn open(path: &Path, access: Access) -> bool {}\n"),
            ("crates/engine/src/file.rs", "fn visit(each: impl Fn(bool), all: &[(u8, bool)]) {}\n"),
            (
                "crates/engine/src/file.rs",
                "impl Close for File { fn close(self, sync: bool) {} }\n",
            ),
            ("crates/engine/src/file.rs", "impl File { fn set_sync(&mut self, sync: bool) {} }\n"),
            ("crates/lab/src/plot.rs", "impl Plot { fn log(mut self, log: bool) -> Self {} }\n"),
            ("crates/engine/tests/file.rs", "fn open(write: bool) {}\n"),
        ],
    },
    Rule {
        name: "width",
        reason: "two files fit beside each other on a screen",
        check: width::wide,
        bad: &[
            ("crates/engine/src/file.rs", WIDE_SAMPLE),
            ("DESIGN.md", WIDE_SAMPLE),
            ("DESIGN.md", concat_wide!("```rust\n", "\n```\n")),
            ("Makefile", WIDE_SAMPLE),
        ],
        good: &[
            ("crates/engine/src/file.rs", concat_wide!("const A: &str = r\"", "\";\n")),
            ("crates/engine/src/file.rs", concat_wide!("//! | a | b |\n//! | ", " |\n")),
            ("DESIGN.md", concat_wide!("| a table | ", " |\n")),
            ("DESIGN.md", concat_wide!("```\n$ extant ls\n", "\n```\n")),
            ("DESIGN.md", concat_wide!("[A](docs/", ".md) and more\n")),
            ("bench/large.toml", WIDE_SAMPLE),
        ],
    },
    Rule {
        name: "long",
        reason: "what has outgrown its sentence is split, or says why not",
        check: long,
        // The samples are made by a test, which counts.
        bad: &[("crates/cli/src/main.rs", LONG_SAMPLE)],
        good: &[("crates/cli/src/main.rs", "fn short() {}\n")],
    },
    Rule {
        name: "unfinished",
        reason: "what is not done is not in the tree, and a test that does not run proves nothing",
        check: |source| phrases(source, &[], &["todo !", "unimplemented !", "dbg !", "# [ ignore"]),
        bad: &[
            ("crates/engine/src/file.rs", "fn f() { todo!() }\n"),
            ("crates/engine/src/file.rs", "fn f() { unimplemented!(\"later\") }\n"),
            ("crates/engine/src/file.rs", "fn f() { dbg!(1); }\n"),
            ("crates/engine/tests/file.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n"),
        ],
        good: &[("crates/engine/src/file.rs", "// No todo!() here.\nfn todo() {}\n")],
    },
    Rule {
        name: "space",
        reason: "a difference should show only what changed",
        check: spaces,
        bad: &[
            ("crates/engine/src/file.rs", "fn f() {}\x20\n"),
            ("crates/engine/src/file.rs", "fn f() {\n\tg();\n}\n"),
            ("crates/engine/src/file.rs", "fn f() {}"),
        ],
        good: &[("Makefile", "test:\n\tcargo test\n")],
    },
    Rule {
        name: "machine",
        reason: "a checkout works in any folder, on any machine, with any mirror",
        check: machine,
        bad: &[
            ("README.md", concat!("See /wo", "rk/main.\n")),
            ("Makefile", concat!("\tls /tmp/tar", "get\n")),
            ("xtask/src/demo.rs", concat!("const A: &str = \"/ro", "ot/tree\";\n")),
            ("CONTRIBUTING.md", concat!("from crates", ".io\n")),
        ],
        good: &[
            ("README.md", "A framework in /tmp.\n"),
            ("Cargo.lock", concat!("registry+https://crates", ".io\n")),
        ],
    },
    Rule {
        name: "opening",
        reason: "a module opens with what it is",
        check: |source| {
            let opens = source.text.lines().find(|line| !line.trim().is_empty());
            let is_silent = source.is_rust() && !opens.is_some_and(|line| line.starts_with("//! "));
            if is_silent { vec![(1, "does not begin with //!".into())] } else { Vec::new() }
        },
        bad: &[("crates/engine/src/file.rs", "use std::fs;\n"), ("crates/engine/src/file.rs", "")],
        good: &[("crates/engine/src/file.rs", "//! Files.\n"), ("README.md", "# extant\n")],
    },
    Rule {
        name: "names",
        reason: "names are whole words of the field; a drawer for everything is no place for \
            anything",
        check: names,
        bad: &[
            ("crates/engine/src/utils.rs", "//! Things.\n"),
            ("crates/engine/src/file.rs", "struct CacheMgr;\n"),
            ("crates/engine/src/file.rs", "mod test_helpers {}\n"),
            ("crates/engine/src/file.rs", "fn f(ctx: &Context) {}\n"),
        ],
        good: &[("crates/engine/src/file.rs", "fn miscount() {}\nfn context() {}\n")],
    },
    Rule {
        name: "syntax",
        reason: "the other rules read words of Rust",
        check: |source| {
            if source.is_broken { vec![(1, "is no Rust".into())] } else { Vec::new() }
        },
        bad: &[("crates/engine/src/file.rs", "fn f( {\n")],
        good: &[("crates/engine/src/file.rs", "fn f() {}\n")],
    },
];

/// The calls that give bytes to a device, or make them durable: by a field or a method of the name,
/// and by a request.
const WRITES: &[&str] = &[
    "device . write (",
    "device . write_vectored (",
    "device . write_durable (",
    "device . flush (",
    "device ( ) . write (",
    "device ( ) . write_vectored (",
    "device ( ) . write_durable (",
    "device ( ) . flush (",
    "traffic . write (",
    "traffic . write_vectored (",
    "traffic . flush (",
    "Operation : : Write ,",
    "Operation : : Write }",
    "Operation : : Flush ,",
    "Operation : : Flush }",
    "Operation : : { Read , Write",
    "Operation : : { Write",
    "Operation : : *",
];

/// A function of 72 lines.
const LONG_SAMPLE: &str = concat!(
    "fn long() {",
    "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
    "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n}\n"
);

/// The lines of a Rust file outside of `places` that have one of `phrases`.
fn phrases(source: &Source, places: &[&str], phrases: &[&str]) -> Vec<(usize, String)> {
    if source.is_under(places) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for phrase in phrases {
        found.extend(source.phrase(phrase).into_iter().map(|line| (line, phrase.replace(' ', ""))));
    }
    found
}

/// The lines of Rust outside of `places` that hold one of `words`, comments and strings too.
fn lines_with(source: &Source, places: &[&str], words: &[&str]) -> Vec<(usize, String)> {
    if !source.is_rust() || source.is_under(places) {
        return Vec::new();
    }
    let lines = (1..).zip(source.text.lines());
    let found = lines.filter_map(|(number, line)| {
        let word = words.iter().find(|word| line.contains(**word))?;
        Some((number, word.trim_matches(['(', '"']).to_owned()))
    });
    found.collect()
}

/// Names of variables of the suites that the table does not have.
fn variables(source: &Source) -> Vec<(usize, String)> {
    const START: &str = "EXTANT_";
    // Where constants of C begin so too. The table is asked there when a test runs.
    if source.is_under(&["crates/capi/", "docs/PROGRAMS.md"]) {
        return Vec::new();
    }
    let known = VARIABLES.iter().map(|row| row.name).chain(CHOICES.iter().map(|row| row.name));
    let known: Vec<&str> = known.chain(PRIVATE.iter().copied()).collect();
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        for (at, _) in line.match_indices(START) {
            let name = &line[at..];
            let is_of_name = |letter: char| letter.is_ascii_uppercase() || letter == '_';
            let end = name.find(|letter| !is_of_name(letter)).unwrap_or(name.len());
            let name = &name[..end];
            if name != START && !known.contains(&name) {
                found.push((number, name.to_owned()));
            }
        }
    }
    found
}

fn threads(source: &Source) -> Vec<(usize, String)> {
    let words = [
        "thread : : spawn",
        "thread : : sleep",
        "thread : : park",
        "thread : : park_timeout",
        "Condvar",
        "thread : : Builder",
    ];
    let mut found = phrases(source, THREADS, &words);
    // A test may race two threads against each other on real time.
    found.extend(outside_tests(source, phrases(source, THREADS, &["thread : : scope"])));
    found
}

fn outside_tests(source: &Source, found: Vec<(usize, String)>) -> Vec<(usize, String)> {
    found.into_iter().filter(|(line, _)| !source.is_test_line(*line)).collect()
}

fn long(source: &Source) -> Vec<(usize, String)> {
    if !source.is_rust() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let whole = source.text.lines().count();
    let tests: usize = source.tests.iter().map(|lines| lines.end() + 1 - lines.start()).sum();
    let code = if source.is_test() { 0 } else { whole.saturating_sub(tests) };
    if code > FILE_LINES_MAX {
        found.push((1, format!("{code} lines of code, the limit is {FILE_LINES_MAX}")));
    } else if whole > FILE_WITH_TESTS_LINES_MAX {
        found.push((
            1,
            format!("{whole} lines with tests, the limit is {FILE_WITH_TESTS_LINES_MAX}"),
        ));
    }
    for function in
        source.functions.iter().filter(|function| !source.is_test_line(*function.lines.start()))
    {
        let lines = function.lines.end() + 1 - function.lines.start();
        if lines > FUNCTION_LINES_MAX {
            let sentence = format!(
                "function {} has {lines} lines, the limit is {FUNCTION_LINES_MAX}",
                function.name
            );
            found.push((*function.lines.start(), sentence));
        }
    }
    found
}

fn spaces(source: &Source) -> Vec<(usize, String)> {
    if !source.is_rust() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            found.push((number + 1, "ends with a space".into()));
        } else if line.contains('\t') {
            found.push((number + 1, "has a tab".into()));
        }
    }
    if !source.text.is_empty() && !source.text.ends_with('\n') {
        found.push((source.text.lines().count(), "the last line does not end".into()));
    }
    found
}

/// What only one machine or one mirror knows. Put together here, so that this file keeps its own
/// rule.
const MACHINE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/tmp/tar", "get"),
    concat!("/ro", "ot/"),
    concat!("crates", ".io"),
    concat!("docs", ".rs"),
    concat!("pypi", ".org"),
    concat!("npmjs", ".org"),
    concat!("proxy.golang", ".org"),
];

fn machine(source: &Source) -> Vec<(usize, String)> {
    // The lock file names its registry; cargo writes it.
    if source.path == "Cargo.lock" {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        found.extend(
            MACHINE
                .iter()
                .filter(|word| line.contains(**word))
                .map(|word| (number + 1, format!("names {word}"))),
        );
    }
    found
}

const NAMES: &[&str] = &["util", "utils", "helper", "helpers", "misc", "mgr", "ctx"];

fn names(source: &Source) -> Vec<(usize, String)> {
    let Some(path) = source.path.strip_suffix(".rs") else {
        return Vec::new();
    };
    let parts = path
        .split('/')
        .filter(|part| has_banned(part))
        .map(|part| (1, format!("file name {part}")));
    let words = source.words.iter().filter(|word| has_banned(&word.text));
    parts.chain(words.map(|word| (word.line, format!("name {}", word.text)))).collect()
}

/// Whether one of the words of `name`, in snake or camel case, is banned.
fn has_banned(name: &str) -> bool {
    let mut spaced = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            spaced.push(' ');
        }
        if letter == '_' {
            spaced.push(' ');
        } else {
            spaced.extend(letter.to_lowercase());
        }
    }
    spaced.split(' ').any(|word| NAMES.contains(&word))
}
