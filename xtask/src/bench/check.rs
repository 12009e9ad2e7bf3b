//! Checking a volume: `extant check` against `e2fsck -fn`, warm: the Linux tree, a hundred thousand
//! small files, and 400 GiB of large files with indirect blocks in a sparse image. Mending the
//! first two, damaged: `extant repair --all` against `e2fsck -fy`.

use std::path::{Path, PathBuf};

use super::{Bench, extant, flush, fresh, is_here, quoted, settle, words};
use crate::command::{self, program};
use crate::measure::{Contender, measure, race};
use crate::repository;
use crate::sheet::Sheet;

/// One table for each image. Ratios are to e2fsck.
///
/// # Errors
/// An image cannot be made, or e2fsck finds something.
pub fn tables(bench: &Bench, sheet: &mut Sheet) -> Result<(), String> {
    if !is_here("e2fsck") {
        eprintln!("skipped: no e2fsck");
        return Ok(());
    }
    for input in bench.inputs()? {
        let image = bench.folder.join("check.img");
        fresh(&image)?;
        let (archive, output) = (input.archive.to_string_lossy(), image.to_string_lossy());
        command::output(
            program(&extant()?).args(["build", "-q", "-t", "ext4", &archive, &output]),
        )?;
        table(bench, &input.name, &image, sheet)?;
        if is_here("debugfs") {
            mends(bench, &input.name, &image, sheet)?;
        }
        fresh(&image)?;
    }
    if bench.input.is_none() && is_here("debugfs") {
        let image = large_files(bench)?;
        table(bench, "400 GiB of large files with indirect blocks", &image, sheet)?;
        fresh(&image)?;
    }
    Ok(())
}

/// An example of the crate that checks makes the image.
fn large_files(bench: &Bench) -> Result<PathBuf, String> {
    let image = bench.folder.join("large.img");
    fresh(&image)?;
    let mut cargo = program("cargo");
    cargo.current_dir(repository());
    cargo.args(["run", "--release", "--quiet", "-p", "extant-inspect", "--example", "large_files"]);
    command::output(cargo.arg("--").arg(&image))?;
    Ok(image)
}

fn table(bench: &Bench, name: &str, image: &Path, sheet: &mut Sheet) -> Result<(), String> {
    let (extant, path) = (extant()?, image.to_string_lossy());
    let checker = |name: &str, words: Vec<String>| Contender {
        name: name.into(),
        prepare: Box::new(|| {
            settle();
            Ok(())
        }),
        run: Box::new(move || measure(&words, || Ok(()))),
    };
    let contenders = [
        checker("e2fsck -fn", words(&["e2fsck", "-fn", &path])),
        checker("extant check", words(&[&extant, "check", "-q", &path])),
        checker("extant check -j 1", words(&[&extant, "check", "-q", "-j", "1", &path])),
        checker(
            "extant check --plan vanilla",
            words(&[&extant, "check", "-q", "--plan", "vanilla", &path]),
        ),
    ];
    // The first round of all only fills the page cache.
    for contender in &contenders {
        (contender.run)()?;
    }
    race(sheet, &format!("check, warm: {name}"), &contenders, bench.rounds)
}

/// What is damaged: counts, links, bitmaps of five groups, inodes of files and a directory.
const DAMAGE: &str = "\
sif / links_count 99
ssv free_blocks_count 12345
freeb 40000 200
freeb 70000 5000
setb 120000 3000
clri <40>
clri <5000>
clri <20000>
sif <3000> links_count 3
sif <9000> block[2] 0
";

/// Each run mends a new copy of the damaged image; what is written is durable when it ends.
fn mends(bench: &Bench, name: &str, image: &Path, sheet: &mut Sheet) -> Result<(), String> {
    let (extant, copy) = (extant()?, bench.folder.join("mend.img"));
    let script = bench.folder.join("damage");
    std::fs::write(&script, DAMAGE).map_err(|error| error.to_string())?;
    command::output(program("debugfs").args(["-w", "-f"]).arg(&script).arg(image))?;
    let mender = |name: &str, line: String| {
        let copy = &copy;
        Contender {
            name: name.into(),
            prepare: Box::new(move || {
                fresh(copy)?;
                std::fs::copy(image, copy).map_err(|error| error.to_string())?;
                flush(copy)
            }),
            run: Box::new(move || measure(&words(&["sh", "-c", &line]), || flush(copy))),
        }
    };
    let path = quoted(&copy);
    let contenders = [
        mender("e2fsck -fy", format!("e2fsck -fy {path}; test $? = 1")),
        mender("extant repair --all", format!("{extant} repair -q --all {path}; test $? = 1")),
        mender(
            "extant repair --all -j 1",
            format!("{extant} repair -q --all -j 1 {path}; test $? = 1"),
        ),
    ];
    race(sheet, &format!("mended, warm: {name}"), &contenders, bench.rounds)?;
    let undo = bench.folder.join(".mend.img.extant-undo");
    fresh(&undo)?;
    fresh(&copy)
}
