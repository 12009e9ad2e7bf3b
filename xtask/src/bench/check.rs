//! Checking a volume: `extant check` against `e2fsck -fn`, warm: the Linux tree, a hundred thousand
//! small files, and 400 GiB of large files with indirect blocks in a sparse image.

use std::path::{Path, PathBuf};

use super::{Bench, extant, fresh, is_here, settle, words};
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
