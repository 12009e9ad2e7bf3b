//! An image becomes an archive again: `extant tar` against reading the image from end to end, cold
//! and warm.

use std::path::Path;

use super::{Bench, Input, extant, flush, fresh, is_here, quoted, settle, words};
use crate::command::{self, is_root, program};
use crate::measure::{Contender, measure, race};
use crate::sheet::Sheet;

/// What the page cache holds before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    Cold,
    Warm,
}

/// Tables for an image of each kind that `extant build` makes of each input; and for one of mke2fs,
/// if it is here.
///
/// # Errors
/// The image cannot be built or read.
pub fn tables(bench: &Bench, sheet: &mut Sheet) -> Result<(), String> {
    bench.inputs()?.iter().try_for_each(|input| input_tables(bench, input, sheet))
}

fn input_tables(bench: &Bench, input: &Input, sheet: &mut Sheet) -> Result<(), String> {
    let image = bench.folder.join("read.img");
    let (archive, output) = (input.archive.to_string_lossy(), image.to_string_lossy());
    for kind in ["ext4", "ext2"] {
        fresh(&image)?;
        let built = format!("extant build -t {kind}");
        command::output(program(&extant()?).args(["build", "-q", "-t", kind, &archive, &output]))?;
        image_tables(bench, input, &image, &built, sheet)?;
    }
    if is_here("mke2fs") {
        fresh(&image)?;
        let (tree, size) = (input.tree()?, format!("{}M", (input.size() >> 20) * 4 / 3 + 256));
        let mut mke2fs = program("mke2fs");
        let inodes = (input.entries()? + 1000).to_string();
        mke2fs
            .args(["-q", "-F", "-t", "ext4", "-N", &inodes, "-d"])
            .arg(tree)
            .arg(&image)
            .arg(size);
        command::output(&mut mke2fs)?;
        image_tables(bench, input, &image, "mke2fs -t ext4 -d", sheet)?;
    }
    fresh(&image)
}

fn image_tables(
    bench: &Bench,
    input: &Input,
    image: &Path,
    built: &str,
    sheet: &mut Sheet,
) -> Result<(), String> {
    flush(image)?;
    let size = std::fs::metadata(image).map_or(0, |metadata| metadata.len()) / 1_000_000;
    for cache in [Cache::Cold, Cache::Warm] {
        if cache == Cache::Cold && !is_root() {
            eprintln!("skipped: only root can empty the cache");
            continue;
        }
        let title = format!("read, {cache:?}: {} by {built}, {size} MB", input.name);
        race(sheet, &title, &contenders(bench, image, cache)?, bench.rounds)?;
    }
    let title = format!("read into a pipe, Warm: {} by {built}, {size} MB", input.name);
    race(sheet, &title, &through_pipe(image)?, bench.rounds)
}

/// What reads an image from the page cache.
fn reader<'a>(image: &'a Path, cache: Cache, name: &str, words: Vec<String>) -> Contender<'a> {
    Contender {
        name: name.into(),
        prepare: Box::new(move || prepare(image, cache)),
        run: Box::new(move || measure(&words, || Ok(()))),
    }
}

fn through_pipe(image: &Path) -> Result<Vec<Contender<'_>>, String> {
    let (program, img) = (quoted(Path::new(&extant()?)), quoted(image));
    let row = |name: &str, script: String| {
        reader(image, Cache::Warm, name, words(&["sh", "-c", &script]))
    };
    Ok(vec![
        row("dd bs=1M | cat", format!("dd if={img} bs=1M status=none | cat > /dev/null")),
        row("extant tar | cat (goal: 1.1)", format!("{program} tar -q {img} | cat > /dev/null")),
    ])
}

fn contenders<'a>(
    bench: &'a Bench,
    image: &'a Path,
    cache: Cache,
) -> Result<Vec<Contender<'a>>, String> {
    let (extant, img) = (extant()?, quoted(image));
    let path = image.to_string_lossy();
    let folder = bench.folder.join("mount");
    let at = quoted(&folder);
    let reader = |name: &str, words: Vec<String>| reader(image, cache, name, words);
    let mut contenders = vec![
        reader(
            "dd bs=1M",
            words(&["dd", &format!("if={path}"), "of=/dev/null", "bs=1M", "status=none"]),
        ),
        reader(
            "extant tar -o /dev/null (goal: 1.1)",
            words(&[&extant, "tar", "-q", &path, "-o", "/dev/null"]),
        ),
    ];
    if is_root() {
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let tar = format!("tar -cf - -C {at} . | cat > /dev/null");
        let script = format!(
            "mount -o loop,ro {img} {at} && {{ {tar}; done=$?; umount {at} && exit $done; }}"
        );
        contenders.push(reader("kernel mount + tar -c", words(&["sh", "-c", &script])));
    }
    Ok(contenders)
}

fn prepare(image: &Path, cache: Cache) -> Result<(), String> {
    settle();
    match cache {
        Cache::Cold => std::fs::write("/proc/sys/vm/drop_caches", "3")
            .map_err(|error| format!("drop_caches: {error}")),
        Cache::Warm => {
            command::output(program("cat").arg(image).stdout(std::process::Stdio::null()))
                .map(|_| ())
        }
    }
}
