//! An image becomes a folder: `extant extract` against `cp -a` from a mount; and a folder is
//! compared with an image: `extant diff` against `diff -r` on a mount.

use std::path::Path;

use super::{Bench, Input, extant, flush, fresh, is_here, quoted, remove_tree, settle, words};
use crate::command::{self, is_root, program};
use crate::measure::{Contender, measure, race};
use crate::oracle::{Access, mount_loop};
use crate::sheet::Sheet;

/// Two tables for an image of each input, warm: the page cache holds the image and the tree.
///
/// # Errors
/// The image cannot be built or mounted, or `cp` fails.
pub fn tables(bench: &Bench, sheet: &mut Sheet) -> Result<(), String> {
    if !is_root() {
        eprintln!("skipped: only root mounts what extracting is compared to");
        return Ok(());
    }
    bench.inputs()?.iter().try_for_each(|input| input_tables(bench, input, sheet))
}

fn input_tables(bench: &Bench, input: &Input, sheet: &mut Sheet) -> Result<(), String> {
    let (image, out) = (bench.folder.join("extract.img"), bench.folder.join("extracted"));
    fresh(&image)?;
    let (archive, output) = (input.archive.to_string_lossy(), image.to_string_lossy());
    command::output(program(&extant()?).args(["build", "-q", &archive, &output]))?;
    flush(&image)?;
    let mounted = mount_loop(&image, Access::ReadOnly, "")?;
    let size = std::fs::metadata(&image).map_or(0, |metadata| metadata.len()) / 1_000_000;
    let from = mounted.path().to_path_buf();
    let title = format!("extract, Warm: {}, {size} MB", input.name);
    race(sheet, &title, &extracting(&image, &from, &out)?, bench.rounds)?;
    remove_tree(&out)?;
    command::output(program("cp").arg("-a").arg(&from).arg(&out))?;
    let title = format!("compare an image with a folder, Warm: {}, {size} MB", input.name);
    let result = race(sheet, &title, &comparing(&image, &from, &out)?, bench.rounds);
    remove_tree(&out)?;
    mounted.unmount()?;
    fresh(&image)?;
    result
}

/// What makes `out` of the image, or of its mount at `from`; a run ends when it is on the disk.
fn extracting<'a>(
    image: &'a Path,
    from: &'a Path,
    out: &'a Path,
) -> Result<Vec<Contender<'a>>, String> {
    let (program, img) = (quoted(Path::new(&extant()?)), quoted(image));
    let (at, to) = (quoted(from), quoted(out));
    let row = |name: &str, script: String| {
        let script = words(&["sh", "-c", &format!("{script} && sync -f {to}")]);
        Contender {
            name: name.into(),
            prepare: Box::new(move || {
                remove_tree(out)?;
                warm(image, from)
            }),
            run: Box::new(move || measure(&script, || Ok(()))),
        }
    };
    let mut rows = vec![
        row("cp -a from a mount", format!("cp -a {at}/. {to}")),
        row("extant extract (goal: 1.3)", format!("{program} extract -q {img} {to}")),
        row(
            "extant tar | tar -x",
            format!("mkdir {to} && {program} tar -q {img} | tar -xp --acls --xattrs -C {to}"),
        ),
    ];
    if is_here("debugfs") {
        rows.push(row("debugfs rdump", format!("mkdir {to} && debugfs -R 'rdump / '{to} {img}")));
    }
    Ok(rows)
}

/// What compares the image, or its mount, with a copy.
fn comparing<'a>(
    image: &'a Path,
    from: &'a Path,
    out: &'a Path,
) -> Result<Vec<Contender<'a>>, String> {
    let (program, img) = (quoted(Path::new(&extant()?)), quoted(image));
    let (at, to) = (quoted(from), quoted(out));
    let row = |name: &str, script: String| {
        let script = words(&["sh", "-c", &script]);
        Contender {
            name: name.into(),
            prepare: Box::new(move || warm(image, from)),
            run: Box::new(move || measure(&script, || Ok(()))),
        }
    };
    Ok(vec![
        row(
            "diff -r on a mount (names and bytes alone)",
            format!("diff -r --no-dereference -x lost+found {at} {to}"),
        ),
        row(
            "extant diff (all of it)",
            format!("{program} diff -q --exclude /lost+found {img} {to}"),
        ),
    ])
}

/// Reads the image, and the files through the mount.
fn warm(image: &Path, from: &Path) -> Result<(), String> {
    settle();
    let null = std::process::Stdio::null;
    command::output(program("cat").arg(image).stdout(null()))?;
    command::output(program("tar").args(["-cf", "-", "-C"]).arg(from).arg(".").stdout(null()))
        .map(|_| ())
}
