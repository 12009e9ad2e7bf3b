//! The command, run and read; the judges of what it wrote.
use extant_testkit::compare::{self, Difference, Options};
use extant_testkit::oracle::{Access, dumpe2fs, e2fsck, mount_loop};
use extant_testkit::walk::{Entry, walk};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// What `--json` prints of an image.
#[derive(serde::Deserialize, Debug, Clone, PartialEq)]
pub struct Report {
    pub bytes: u64,
    pub block_size: u32,
    pub blocks: u64,
    pub free_blocks: u64,
    pub inodes: u32,
    pub has_journal: bool,
    pub free_inodes: u32,
    pub uuid: String,
    pub files: u64,
    pub skipped: Vec<String>,
    pub warnings: Vec<Warned>,
}

/// Warnings of one kind.
#[derive(serde::Deserialize, Debug, Clone, PartialEq)]
pub struct Warned {
    pub kind: String,
    pub count: u64,
    pub named: Vec<String>,
}

/// The command with these words; nothing of the caller's environment changes its bytes.
pub fn extant<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Command {
    let mut command = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    command.args(words).env_remove("SOURCE_DATE_EPOCH");
    command
}

/// `build OPTIONS.. SOURCES.. IMAGE`, options as one line of words.
pub fn build_command(options: &str, sources: &[&Path], image: &Path) -> Command {
    let mut command = extant(["build", "--json"]);
    command.args(options.split_whitespace()).args(sources).arg(image);
    command
}

/// Runs it; it has to succeed.
pub fn build(options: &str, sources: &[&Path], image: &Path) -> Report {
    let output = build_command(options, sources, image).output().expect("it runs");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "build {options}: {complaints}");
    serde_json::from_slice(&output.stdout).expect("a report")
}

/// The same, after the old image was removed: the kernel may still be busy with letting go of it.
pub fn rebuild(options: &str, sources: &[&Path], image: &Path) -> Report {
    let _ = std::fs::remove_file(image);
    build(options, sources, image)
}

/// How a command ended that was to fail.
#[derive(Debug)]
pub struct Refusal {
    pub code: Option<i32>,
    pub message: String,
    pub hint: Option<String>,
}

/// Runs it without `--json` words of success; it has to fail, with one line and perhaps a hint.
pub fn refusal(command: &mut Command) -> Refusal {
    read_refusal(&command.output().expect("it runs"))
}

/// What a failed command said: the last line of its JSON lines on stderr.
pub fn read_refusal(output: &Output) -> Refusal {
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    let line: serde_json::Value =
        serde_json::from_str(last).unwrap_or_else(|_| panic!("not one line of JSON: {said}"));
    let text = |field: &str| line.get(field).and_then(|value| value.as_str()).map(str::to_owned);
    let message = text("error").unwrap_or_else(|| panic!("no error: {said}"));
    assert!(!message.contains('\n'), "one line: {message}");
    assert!(output.stdout.is_empty(), "nothing on stdout");
    Refusal { code: output.status.code(), message, hint: text("hint") }
}

/// e2fsck has nothing to say, and dumpe2fs counts what the report counts.
pub fn judge(image: &Path, report: &Report) {
    e2fsck(image).unwrap_or_else(|error| panic!("{error}"));
    let dump = dumpe2fs(image).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(dump.number("Block count"), Some(report.blocks));
    assert_eq!(dump.number("Free blocks"), Some(report.free_blocks));
    assert_eq!(dump.number("Inode count"), Some(report.inodes.into()));
    assert_eq!(dump.number("Free inodes"), Some(report.free_inodes.into()));
    let sums =
        |of: fn(&extant_testkit::oracle::DumpGroup) -> u64| dump.groups.iter().map(of).sum::<u64>();
    assert_eq!(sums(|group| group.free_blocks), report.free_blocks);
    assert_eq!(sums(|group| group.free_inodes), u64::from(report.free_inodes));
    let in_runs =
        |runs: &[(u64, u64)]| runs.iter().map(|(first, last)| last - first + 1).sum::<u64>();
    for group in &dump.groups {
        assert_eq!(in_runs(&group.free_block_runs), group.free_blocks, "{group:?}");
        assert_eq!(in_runs(&group.free_inode_runs), group.free_inodes, "{group:?}");
    }
}

/// The kernel's mount is the same tree.
pub fn same_when_mounted(image: &Path, source: &Path, options: &Options) {
    let mounted = mount_loop(image, Access::ReadOnly, "").unwrap_or_else(|error| panic!("{error}"));
    same_trees(source, mounted.path(), options);
}

/// No field of any entry differs.
pub fn same_trees(source: &Path, image: &Path, options: &Options) {
    let differences =
        compare::trees(source, image, options).unwrap_or_else(|error| panic!("{error}"));
    none(&differences);
}

/// No field of any entry differs from what a walk of the source gave.
pub fn as_walked(source: &[Entry], image: &Path, options: &Options) {
    let image = walk(image, options.depth(), &options.excluded).expect("it can be read");
    none(&compare::entries(source, &image, options));
}

fn none(differences: &[Difference]) {
    let shown: Vec<String> = differences.iter().take(20).map(ToString::to_string).collect();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), shown.join("\n"));
}

/// What a copy keeps, with its holes; lost+found belongs to the image.
pub fn everything() -> Options {
    let mut options = Options::copy().without("lost+found");
    // Blocks of zeros of large files are holes besides.
    options.fields.insert(compare::Field::HolesKept);
    // The root has one name more: lost+found.
    options.fields.remove(&compare::Field::DirectoryLinks);
    options
}

/// A file without a pattern.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state >> 24).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
