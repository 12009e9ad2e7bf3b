//! README.md, the page for who comes from other tools, and that of sweeps: their blocks of commands
//! are run from top to bottom in an empty folder.
use extant_testkit::command::program;
use extant_testkit::oracle::can_mount;
use extant_testkit::scratch::Scratch;
use std::path::Path;

/// The blocks of a language, in their order.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    let fence = format!("```{language}");
    for line in text.lines() {
        match (&mut open, line.trim()) {
            (None, line) if line == fence => open = Some(String::new()),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some(block), _) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks
}

fn readme() -> String {
    document("README.md")
}

fn document(name: &str) -> String {
    let path = extant_testkit::repository().join(name);
    std::fs::read_to_string(path).expect("a document")
}

/// A prompt, a placeholder or a file that is not made above would fail here.
#[test]
fn the_blocks_run_from_top_to_bottom_in_an_empty_folder() {
    runs("README.md", 3);
}

#[test]
fn what_replaces_the_lines_of_other_tools_runs() {
    runs("docs/COMING.md", 8);
    let text = document("docs/COMING.md");
    // Each tool has its lines and ours.
    let tools = text.lines().filter(|line| line.starts_with("## ")).count();
    assert_eq!((blocks(&text, "text").len(), blocks(&text, "sh").len()), (tools, tools + 1));
}

#[test]
fn the_document_of_sweeps_runs() {
    runs("docs/FLEETS.md", 4);
}

/// Runs the blocks of a document, of which there are at least so many.
fn runs(name: &str, least: usize) {
    if !can_mount() {
        return;
    }
    let folder = Scratch::new("readme");
    let (bin, work) = (folder.join("bin"), folder.join("work"));
    for path in [&bin, &work] {
        std::fs::create_dir(path).unwrap();
    }
    let tested = extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant"));
    std::os::unix::fs::symlink(Path::new(tested).canonicalize().unwrap(), bin.join("extant"))
        .unwrap();
    let blocks = blocks(&document(name), "sh");
    assert!(blocks.len() >= least, "{blocks:?}");
    // A failure names its line, as the shell prints each before it runs it.
    let script = folder.join("script");
    std::fs::write(&script, blocks.concat()).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut bash = program("bash");
    bash.args(["-e", "-o", "pipefail", "-x"]).arg(&script).current_dir(&work).env("PATH", path);
    let output = bash.stdin(std::process::Stdio::null()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let end: Vec<&str> = said.lines().rev().take(12).collect();
    assert!(output.status.success(), "{:?}: {end:#?}", output.status);
}

/// All other blocks are what the Makefile has, and the examples of the libraries: for Rust, which
/// its documentation compiles, and for Python, which `python/tests/test_documents.py` runs.
#[test]
fn no_block_is_left_out() {
    let text = readme();
    let opened = text.lines().filter(|line| line.trim().starts_with("```")).count() / 2;
    let (shell, rust) = (blocks(&text, "sh").len(), blocks(&text, "rust,no_run").len());
    let (plain, python) = (blocks(&text, "text"), blocks(&text, "python").len());
    assert_eq!(opened, shell + rust + python + plain.len());
    let makefile = std::fs::read_to_string(extant_testkit::repository().join("Makefile")).unwrap();
    for line in plain.iter().flat_map(|block| block.lines()) {
        let target = line.strip_prefix("make ").and_then(|rest| rest.split(' ').next());
        let is_there =
            |target: &str| makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
        assert!(target.is_some_and(is_there), "{line}");
    }
}
