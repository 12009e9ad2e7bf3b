//! Building where the processor decides: archive, spool and image in memory, against copying the
//! archive there, and against the programs that decompress it.
//!
//! A plain archive is compared with `cp`. A stream needs every header before the first block, so a
//! fast one is compared with decompressing and `cp` one after the other, and a slow one with
//! decompressing alone, on all processors that its format lets work. In the order of arrival it
//! needs no headers first: that is compared with the slower of the two.

use std::path::{Path, PathBuf};

use super::{Bench, Input, extant, is_here, maker, once, quoted, words};
use crate::measure::{Contender, measure, race};
use crate::scratch::Scratch;
use crate::sheet::Sheet;

/// Where the host has files in memory.
const MEMORY: &str = "/dev/shm";

/// What a build of a stream is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// Decompressing, then `cp`.
    DecompressAndCopy,
    /// Decompressing alone.
    Decompress,
}

/// A way of compressing an archive.
struct Packing {
    name: &'static str,
    ending: &'static str,
    /// Words to which the archive is added; they write to their output.
    pack: &'static [&'static str],
    unpack: &'static [&'static str],
    limit: Limit,
}

const PACKINGS: &[Packing] = &[
    Packing {
        name: "zstd, one frame",
        ending: "one.zst",
        pack: &["zstd", "-q", "-3", "-c"],
        unpack: &["zstd", "-q", "-d", "-c"],
        limit: Limit::DecompressAndCopy,
    },
    Packing {
        name: "zstd, several frames",
        ending: "several.zst",
        pack: &["pzstd", "-q", "-3", "-c"],
        unpack: &["pzstd", "-q", "-d", "-c"],
        limit: Limit::DecompressAndCopy,
    },
    Packing {
        name: "gzip",
        ending: "gz",
        pack: &["gzip", "-1", "-c"],
        unpack: &["gzip", "-d", "-c"],
        limit: Limit::Decompress,
    },
    Packing {
        name: "xz, one block",
        ending: "one.xz",
        pack: &["xz", "-1", "-T1", "-c"],
        unpack: &["xz", "-d", "-T0", "-c"],
        limit: Limit::Decompress,
    },
    Packing {
        name: "xz, several blocks",
        ending: "several.xz",
        pack: &["xz", "-1", "-T2", "--block-size=8MiB", "-c"],
        unpack: &["xz", "-d", "-T0", "-c"],
        limit: Limit::Decompress,
    },
];

/// A table of the plain archive, and one of each way of compressing it.
///
/// # Errors
/// The archive cannot be copied to memory or compressed, or a peer fails.
pub fn tables(bench: &Bench, input: &Input, sheet: &mut Sheet) -> Result<(), String> {
    if !Path::new(MEMORY).is_dir() {
        eprintln!("skipped: no {MEMORY}");
        return Ok(());
    }
    let folder = Scratch::inside(Path::new(MEMORY), "extant-bench");
    let archive = copied(&input.archive, &folder, "plain.tar")?;
    plain(bench, input, &archive, &folder, sheet)?;
    for packing in PACKINGS {
        if packing.pack.first().is_some_and(|tool| is_here(tool)) {
            packed(bench, input, &archive, packing, &folder, sheet)?;
        }
    }
    Ok(())
}

fn copied(file: &Path, folder: &Scratch, name: &str) -> Result<PathBuf, String> {
    let copy = folder.join(name);
    std::fs::copy(file, &copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    Ok(copy)
}

fn plain(
    bench: &Bench,
    input: &Input,
    archive: &Path,
    folder: &Scratch,
    sheet: &mut Sheet,
) -> Result<(), String> {
    let (copy, image) = (folder.join("copy.tar"), folder.join("image"));
    let (program, path) = (extant()?, archive.to_string_lossy());
    let mut contenders = vec![maker("cp", words(&["cp", &path, &copy.to_string_lossy()]), &copy)];
    for kind in ["ext4", "ext3", "ext2"] {
        let words = words(&[&program, "build", "-q", "-t", kind, &path, &image.to_string_lossy()]);
        contenders.push(maker(&format!("extant build -t {kind} (goal: 1.2)"), words, &image));
    }
    let title = format!("build in memory: {}, plain", input.name);
    let result = race(sheet, &title, &contenders, bench.rounds);
    drop(contenders);
    clear(&[&copy, &image]);
    result
}

fn packed(
    bench: &Bench,
    input: &Input,
    archive: &Path,
    packing: &Packing,
    folder: &Scratch,
    sheet: &mut Sheet,
) -> Result<(), String> {
    let kept = packing.kept(bench, input)?;
    let stream = copied(&kept, folder, packing.ending)?;
    let (copy, image) = (folder.join("copy.tar"), folder.join("image"));
    let unpack = format!("{} {} > /dev/null", packing.unpack.join(" "), quoted(&stream));
    let cp = format!("cp {} {}", quoted(archive), quoted(&copy));
    let program = extant()?;
    let build = |options: &str| {
        let (program, spool) = (quoted(Path::new(&program)), quoted(folder.path()));
        let (stream, image) = (quoted(&stream), quoted(&image));
        shell(&format!("TMPDIR={spool} {program} build -q {options} {stream} {image}"))
    };
    let (first, goal) = match packing.limit {
        Limit::DecompressAndCopy => {
            (maker("decompressing, then cp", shell(&format!("{unpack} && {cp}")), &copy), 1.1)
        }
        Limit::Decompress => (decompressing(&unpack), 1.15),
    };
    let name = format!("extant build (goal: {goal})");
    let contenders = [first, maker(&name, build(""), &image)];
    let title = format!("build in memory: {}, {}", input.name, packing.name);
    race(sheet, &title, &contenders, bench.rounds)?;
    drop(contenders);
    let arrival = "extant build (goal: 1.15)";
    let contenders =
        [slower(&unpack, &cp, &copy), maker(arrival, build("--order arrival"), &image)];
    let title = format!("build in the order of arrival: {}, {}", input.name, packing.name);
    race(sheet, &title, &contenders, bench.rounds)?;
    drop(contenders);
    clear(&[&copy, &image, &stream]);
    Ok(())
}

impl Packing {
    /// The compressed archive, kept between runs.
    fn kept(&self, bench: &Bench, input: &Input) -> Result<PathBuf, String> {
        let name = input.archive.file_stem().unwrap_or_default().to_string_lossy();
        let kept = bench.folder.join(format!("{name}.{}", self.ending));
        if !kept.is_file() {
            let partial = kept.with_extension("partial");
            let (archive, output) = (quoted(&input.archive), quoted(&partial));
            once(&shell(&format!("{} {archive} > {output}", self.pack.join(" "))), None)?;
            std::fs::rename(&partial, &kept)
                .map_err(|error| format!("{}: {error}", kept.display()))?;
        }
        Ok(kept)
    }
}

fn shell(script: &str) -> Vec<String> {
    words(&["sh", "-c", script])
}

fn decompressing<'a>(unpack: &str) -> Contender<'a> {
    let words = shell(unpack);
    Contender {
        name: "decompressing".into(),
        prepare: Box::new(|| Ok(())),
        run: Box::new(move || measure(&words, || Ok(()))),
    }
}

/// The run of two that takes longer.
fn slower<'a>(unpack: &str, cp: &str, copy: &'a Path) -> Contender<'a> {
    let both = [shell(unpack), shell(cp)];
    Contender {
        name: "the slower of decompressing and cp".into(),
        prepare: Box::new(move || super::fresh(copy)),
        run: Box::new(move || {
            let [unpacked, copied] = [measure(&both[0], || Ok(()))?, measure(&both[1], || Ok(()))?];
            Ok(if unpacked.seconds > copied.seconds { unpacked } else { copied })
        }),
    }
}

/// Gives memory back before the next table.
fn clear(files: &[&Path]) {
    for file in files {
        // One that was never made is as good.
        let _ = std::fs::remove_file(file);
    }
}
