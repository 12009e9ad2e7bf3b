//! `xtask demo`: a real tree of this machine becomes an ext4 image and comes out again, and every
//! step is judged; then the mailing list posts run in the laboratory, and their figures are put
//! on a page. All that is printed fits on a screen or two: 60 lines at most.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::bench::{extant, maker, words};
use crate::command::{self, find, is_root, program};
use crate::compare::{self, Field, Options};
use crate::measure::{machine, race, seconds_now};
use crate::oracle::{self, Access};
use crate::repository;
use crate::scratch::Scratch;
use crate::sheet::Sheet;
use crate::walk::{Depth, Kind, walk};

/// A demo that prints more is not read.
const LINES_MAX: usize = 60;

/// A tree that this machine has.
struct Tree {
    path: PathBuf,
    entries: usize,
    bytes: u64,
}

/// `demo [TREE]`
///
/// # Errors
/// A step fails, or what came out is not what went in.
pub fn run(words: &[String]) -> Result<(), String> {
    let parent = repository().join("target");
    std::fs::create_dir_all(&parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    let scratch = Scratch::inside(&parent, "demo");
    let (image, archive) = (scratch.join("demo.img"), scratch.join("demo.tar"));
    let tree = match words.first() {
        Some(path) => measure_tree(Path::new(path))?,
        None => choose()?,
    };
    let mut lines = Lines::default();
    lines.say(&format!(
        "tree      {}: {} entries, {} MB; images and archives are in {}",
        tree.path.display(),
        tree.entries,
        tree.bytes / 1_000_000,
        scratch.path().display()
    ));

    let build = ["build", "-q", "-t", "ext4", &text(&tree.path), "demo.img"];
    step("build", &scratch, &build, &mut lines)?;
    if oracle::require("e2fsck") {
        lines.begin("check", "e2fsck -fn demo.img");
        oracle::e2fsck(&image)?;
        lines.say(": clean, without a word");
    }
    list(&scratch, &mut lines)?;
    step("export", &scratch, &["tar", "-q", "demo.img", "-o", "demo.tar"], &mut lines)?;
    compare_archive(&tree, &archive, &scratch, &mut lines)?;
    compare_mount(&tree, &image, &mut lines)?;
    ratios(&tree, &archive, &scratch, &mut lines)?;
    posts(&parent.join("demo.html"), &mut lines)?;
    lines.check()
}

/// What was printed, counted.
#[derive(Default)]
struct Lines {
    count: usize,
}

impl Lines {
    /// Says what begins; the line ends with what came of it.
    fn begin(&mut self, name: &str, what: &str) {
        print!("{name:<9} {what}");
        // A terminal that is gone shows in the lines that follow.
        let _ = std::io::stdout().flush();
    }

    /// Ends a line, or says one or several.
    fn say(&mut self, words: &str) {
        println!("{words}");
        self.count += words.lines().count().max(1);
    }

    /// Whether it is short enough to be read.
    fn check(&self) -> Result<(), String> {
        match self.count <= LINES_MAX {
            true => Ok(()),
            false => Err(format!("printed {} lines, and {LINES_MAX} are read", self.count)),
        }
    }
}

/// The quick form of the mailing list posts: their figures and ours, and a page of them that is
/// kept. A missed row is shown, and is no failure of the demo.
fn posts(page: &Path, lines: &mut Lines) -> Result<(), String> {
    lines.say(
        "posts     extant lab posts: what five mailing list posts measured, on drives in virtual \
         time",
    );
    let start = seconds_now();
    let ran = program(&extant()?)
        .args(["lab", "posts", "--html"])
        .arg(page)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("extant lab posts: {error}"))?;
    lines.say(String::from_utf8_lossy(&ran.stdout).trim_end());
    match ran.status.code() {
        Some(0 | 1) if !ran.stdout.is_empty() => {
            let took = seconds_now() - start;
            lines.say(&format!("page      {} ({took:.1} s of real time)", page.display()));
            Ok(())
        }
        _ => Err(format!("extant lab posts failed: {}", ran.status)),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Runs `extant` in the folder of the demo and says how long it took.
fn step(name: &str, scratch: &Scratch, words: &[&str], lines: &mut Lines) -> Result<(), String> {
    lines.begin(name, &format!("extant {}", words.join(" ")));
    let start = seconds_now();
    command::output(program(&extant()?).args(words).current_dir(scratch.path()))?;
    lines.say(&format!(": {:.2} s", seconds_now() - start));
    Ok(())
}

/// The tree with the most entries of those that are large enough to be worth a look and small
/// enough for a few seconds.
fn choose() -> Result<Tree, String> {
    const WORTH: std::ops::Range<u64> = 30_000_000..500_000_000;
    let sysroot =
        command::output(program("rustc").args(["--print", "sysroot"])).map(|output| output.stdout);
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.unwrap_or_default()).trim());
    let mut best: Option<Tree> = None;
    let mut small: Option<Tree> = None;
    for path in [
        sysroot.join("lib/rustlib"),
        sysroot.join("lib"),
        "/usr/include".into(),
        "/usr/share".into(),
        "/usr/share/doc".into(),
        "/usr/lib".into(),
        "/etc".into(),
    ] {
        let Ok(tree) = measure_tree(&path) else { continue };
        let place = if WORTH.contains(&tree.bytes) { &mut best } else { &mut small };
        if tree.bytes < WORTH.end && place.as_ref().is_none_or(|best| best.entries < tree.entries) {
            *place = Some(tree);
        }
    }
    best.or(small).ok_or_else(|| "no tree here is small enough; name one: xtask demo TREE".into())
}

fn measure_tree(path: &Path) -> Result<Tree, String> {
    let entries = walk(path, Depth::default(), &BTreeSet::new())?;
    let files = entries.iter().filter(|entry| entry.kind == Kind::File);
    Ok(Tree {
        path: path.into(),
        entries: entries.len(),
        bytes: files.map(|entry| entry.size).sum(),
    })
}

/// The count of lines of `ls -lR`.
fn list(scratch: &Scratch, lines: &mut Lines) -> Result<(), String> {
    let mut program = program(&extant()?);
    let listed =
        command::output(program.args(["ls", "-lR", "demo.img:/"]).current_dir(scratch.path()))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    lines.say(&format!("list      extant ls -lR demo.img:/: {} lines", listed.lines().count()));
    Ok(())
}

/// What a comparison can ask for: an ordinary user cannot give files away, nor make devices.
fn options() -> Options {
    let mut options = Options::copy().without("lost+found");
    options.fields.remove(&Field::DirectoryLinks);
    if !is_root() {
        options.fields.remove(&Field::Owner);
        options.fields.remove(&Field::Attributes);
    }
    options
}

fn compare_archive(
    tree: &Tree,
    archive: &Path,
    scratch: &Scratch,
    lines: &mut Lines,
) -> Result<(), String> {
    if !oracle::require("tar") {
        return Ok(());
    }
    lines.begin("compare", "demo.tar, unpacked by GNU tar");
    let unpacked = scratch.join("unpacked");
    std::fs::create_dir(&unpacked).map_err(|error| error.to_string())?;
    let mut tar = program("tar");
    tar.args(["--xattrs", "--xattrs-include=*", "--acls", "--numeric-owner", "-xpf"])
        .arg(archive)
        .arg("-C")
        .arg(&unpacked);
    command::output(&mut tar)?;
    judge(&compare::trees(&tree.path, &unpacked, &options())?, lines)?;
    super::bench::remove_tree(&unpacked)
}

fn compare_mount(tree: &Tree, image: &Path, lines: &mut Lines) -> Result<(), String> {
    if !oracle::can_mount() {
        return Ok(());
    }
    lines.begin("compare", "demo.img, mounted by the kernel");
    let mounted = oracle::mount_loop(image, Access::ReadOnly, "")?;
    let found = compare::trees(&tree.path, mounted.path(), &options())?;
    mounted.unmount()?;
    judge(&found, lines)
}

fn judge(found: &[compare::Difference], lines: &mut Lines) -> Result<(), String> {
    if found.is_empty() {
        lines.say(": is the tree, every attribute and every byte");
        return Ok(());
    }
    lines.say("");
    let lines: Vec<String> = found.iter().take(20).map(ToString::to_string).collect();
    Err(format!("it differs from the tree in {} places:\n{}", found.len(), lines.join("\n")))
}

fn ratios(tree: &Tree, archive: &Path, scratch: &Scratch, lines: &mut Lines) -> Result<(), String> {
    let (copy, image) = (scratch.join("copy.tar"), scratch.join("again.img"));
    let extant = extant()?;
    let mut contenders = vec![
        maker("cp + fsync of the archive", words(&["cp", &text(archive), &text(&copy)]), &copy),
        maker(
            "extant build, from the archive",
            words(&[&extant, "build", "-q", &text(archive), &text(&image)]),
            &image,
        ),
        maker(
            "extant build, from the tree",
            words(&[&extant, "build", "-q", &text(&tree.path), &text(&image)]),
            &image,
        ),
    ];
    if find("mke2fs").is_some() {
        let size = format!("{}M", (tree.bytes >> 20) * 4 / 3 + 64 + tree.entries as u64 / 128);
        let inodes = (tree.entries + 100).to_string();
        let tree = text(&tree.path);
        let words = words(&[
            "mke2fs",
            "-q",
            "-F",
            "-t",
            "ext4",
            "-N",
            &inodes,
            "-d",
            &tree,
            &text(&image),
            &size,
        ]);
        contenders.push(maker("mke2fs -t ext4 -d, from the tree", words, &image));
    }
    lines.say(&format!("measure   three rounds of each, everything flushed: {}", machine()));
    let mut sheet = Sheet::default();
    let raced = race(&mut sheet, "build", &contenders, 3);
    lines.count += sheet.lines();
    raced
}
