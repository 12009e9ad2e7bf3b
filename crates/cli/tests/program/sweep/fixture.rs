//! A folder with a matrix, and the command in it.
use crate::commands::command::command;
use extant_testkit::scratch::Scratch;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Small scenarios, an image, and what is done with them: quick jobs of every form.
pub const MIXED: &str = r#"
[[jobs]]
kind = "lab run"
outputs = ["save"]
[jobs.over]
scenario = "small.toml"
drive = ["ide-2001-7200", "ssd-nvme"]
column = { placement = ["orlov", "parent"] }
seed = { from = 1, to = 2 }

[[jobs]]
kind = ["check", "layout"]
over = { image = { files = "*.image" } }

[[jobs]]
kind = "diff"
over = { a = ["a.image", "b.image"], b = "a.image" }

[[jobs]]
kind = "tar"
target = "tars/{image}.tar"
over = { image = ["a.image", "b.image"] }

[[jobs]]
kind = "build"
over = { source = "tree", size = ["8M", "9M"], L = "made" }
"#;

/// How many jobs [`MIXED`] has.
pub const MIXED_JOBS: u64 = 8 + 4 + 2 + 2 + 2;

const SMALL: &str = r#"name = "small"
seed = 7
memory = "4M"

[[drive]]
name = "disk"
model = "ide-2001-7200"

[[filesystem]]
name = "volume"
size = "16M"
profile = "ext2"
preset = "linux-2.4"

[[process]]
name = "worker"
steps = [
    { step = "create-files", at = "/files", count = 20, directories = 2, size = "8K" },
    { step = "read-all", at = "/", measure = "read" },
]
"#;

/// A folder with what the matrices name.
pub struct Folder(Scratch);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder = Folder(Scratch::new(name));
        folder.write("small.toml", SMALL);
        std::fs::create_dir_all(folder.path().join("tree/sub")).unwrap();
        std::fs::create_dir_all(folder.path().join("tars")).unwrap();
        folder.write("tree/sub/file", "content\n");
        for (image, size) in [("a.image", "8M"), ("b.image", "9M")] {
            folder.told(&["build", "tree", image, "--size", size]);
        }
        folder
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = command(words);
        command.current_dir(self.path()).stdin(Stdio::null());
        command
    }

    pub fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("it runs")
    }

    /// Standard output of a command that must end with 0 and say nothing else.
    pub fn told(&self, words: &[&str]) -> String {
        crate::commands::command::printed_text(words, self.output(words))
    }

    /// The exit code, and the lines on standard error.
    pub fn failure(&self, words: &[&str]) -> (i32, String) {
        let output = self.output(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap_or(-1), errors)
    }

    pub fn plan(&self, matrix: &str, name: &str) {
        self.write("matrix.toml", matrix);
        self.write(name, &self.told(&["sweep", "plan", "matrix.toml"]));
    }

    /// Runs a plan, and gives what `--json` says.
    pub fn run(&self, words: &[&str]) -> (i32, Value) {
        let output = self.output(&[&["sweep", "run", "--json"], words].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
        (output.status.code().unwrap_or(-1), report)
    }

    /// Every result and file of a directory, by its path there. A run that is at work renames what
    /// it has written: what is gone between its name and its bytes is left out.
    pub fn files(&self, directory: &str) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let top = self.path().join(directory);
        let mut open = vec![top.join("results"), top.join("out")];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                match entry.path().is_dir() {
                    true => open.push(entry.path()),
                    false => {
                        let path = entry.path();
                        let name = path.strip_prefix(&top).unwrap().display().to_string();
                        match std::fs::read(&path) {
                            Ok(bytes) => drop(files.insert(name, bytes)),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{name}"),
                        }
                    }
                }
            }
        }
        files
    }
}

/// `jobs`, `done`, `there`, `failed` of a report.
pub fn counts(report: &Value) -> [u64; 4] {
    ["jobs", "done", "there", "failed"].map(|name| report[name].as_u64().unwrap_or(u64::MAX))
}
