//! The command, run and read; the judges of what it wrote.
use extant_testkit::compare::{self, Field, Options};
use extant_testkit::oracle::{Access, can_mount, e2fsck, mount_loop};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// `build WORDS..`; nothing of the caller's environment changes its bytes.
pub fn build<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Command {
    let mut command = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    command.arg("build").args(words).env_remove("SOURCE_DATE_EPOCH");
    command
}

/// Runs it; it has to succeed, and e2fsck to be silent.
pub fn built(mut command: Command, image: &Path) -> Vec<u8> {
    let output = command.output().expect("it runs");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaints}");
    assert_eq!(complaints, "", "{command:?}");
    e2fsck(image).unwrap_or_else(|error| panic!("{command:?}: {error}"));
    std::fs::read(image).unwrap()
}

/// How a command ended that was to fail: its code, its one line, its hint.
pub struct Refusal {
    pub code: Option<i32>,
    pub message: String,
    pub hint: Option<String>,
}

/// Runs it; it has to fail with one line, and without an image.
pub fn refused(mut command: Command, image: &Path) -> Refusal {
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&stderr);
    assert!(!status.success() && stdout.is_empty(), "{command:?}: {said}");
    assert!(!image.exists(), "{command:?}: left an image: {said}");
    assert!(!said.contains("panicked"), "{said}");
    let control = |letter: char| letter.is_control() && letter != '\n';
    assert!(!said.contains(control), "{said:?}");
    let mut lines = said.lines();
    let message = lines.next().unwrap_or_default().to_owned();
    let hint = lines.next().map(|line| line.trim_start().replacen("hint: ", "", 1));
    assert_eq!(lines.next(), None, "{said}");
    Refusal { code: status.code(), message, hint }
}

/// The kernel's mount of the image is this tree.
pub fn same_when_mounted(image: &Path, tree: &Path) {
    let shown = differences(image, tree);
    assert!(shown.is_empty(), "{} differences:\n{}", shown.len(), shown.join("\n"));
}

/// What of the kernel's mount of the image is otherwise than in this tree.
pub fn differences(image: &Path, tree: &Path) -> Vec<String> {
    if !can_mount() {
        return Vec::new();
    }
    let mut options = Options::copy().without("lost+found");
    options.fields.remove(&Field::DirectoryLinks);
    let mounted = mount_loop(image, Access::ReadOnly, "").unwrap();
    let differences = compare::trees(tree, mounted.path(), &options).unwrap();
    differences.iter().map(ToString::to_string).collect()
}

/// What `extant ls -R` says of an image.
pub fn names(image: &Path) -> Vec<String> {
    let mut command = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    let root = format!("{}:/", image.display());
    let output = command.args(["ls", "-R", "--json", &root]).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut names = Vec::new();
    for record in serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>() {
        collect(&record.unwrap(), &mut names);
    }
    names.sort();
    names
}

fn collect(value: &serde_json::Value, names: &mut Vec<String>) {
    match value {
        serde_json::Value::Array(values) => {
            values.iter().for_each(|value| collect(value, names));
        }
        serde_json::Value::Object(fields) => {
            if let Some(path) = fields.get("path").and_then(|path| path.as_str()) {
                names.push(path.to_owned());
            }
            fields.values().for_each(|value| collect(value, names));
        }
        _ => {}
    }
}
