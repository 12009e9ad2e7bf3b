//! What a layout is worth: one tree in three images, read and looked at from a cold start on every
//! drive of the laboratory, with the same reader. The figure `docs/layout.svg` is drawn from the
//! table.
//!
//! Times are virtual: they do not depend on the machine. But where the kernel puts a file depends
//! on when it writes, and what `mke2fs -d` does first on how the host lists the tree, so their
//! figures change by some percent from image to image.

use std::path::{Path, PathBuf};

use super::{Bench, Input, extant, fresh, is_here, words};
use crate::command::{self, is_root, program};
use crate::oracle::{self, Access};
use crate::repository;
use crate::sheet::Sheet;

/// The drives, in the order of their years, in the words of the figure.
const DRIVES: &[(&str, &str)] = &[
    ("ide-2001-5400", "quiet desktop disk, 2001"),
    ("ide-2001-7200", "desktop disk, 2001"),
    ("sata-2006-250", "desktop disk, 2006"),
    ("sata-2007-400", "desktop disk, 2007"),
    ("sata-2007-400-quiet", "the same, quiet seeks"),
    ("laptop-2008", "laptop disk, 2008"),
    ("hdd-2022-20t", "data centre disk, 2022"),
    ("ssd-sata", "SSD on SATA"),
    ("ssd-nvme", "SSD on NVMe"),
    ("network-volume", "network volume"),
    ("object-store", "object store"),
];

/// What the scenario `walk-cold` measures, in its order: its word, and the figure's.
const WALKS: [(&str, &str); 2] = [
    ("read", "every file read from a cold start"),
    ("stat", "everything looked at from a cold start"),
];

/// How the images are made, in the words of the figure.
const MAKERS: &[&str] = &["extant build", "mke2fs -d", "kernel, tar -x"];

/// The same identity for images whose makers would draw one by chance: it is the seed of the hashes
/// of names too.
const IDENTITY: &str = "12345678-1234-4321-8123-123456789abc";

/// Bytes of an inode in its table: what all makers choose.
const INODE_BYTES: u64 = 256;

/// Seconds of one drive: for each of [`WALKS`].
struct Panel {
    drive: &'static str,
    walks: [Times; 2],
}

/// Seconds that a walk takes.
#[derive(Clone, Debug, Default)]
struct Times {
    /// What our image has to be read of, at the highest rate of the drive.
    least: f64,
    /// In the order of [`MAKERS`].
    seconds: Vec<f64>,
}

/// Makes the images, has the laboratory walk over them, and draws the figure.
///
/// # Errors
/// An image cannot be made or read, or the figure cannot be written.
pub fn tables(bench: &Bench, sheet: &mut Sheet) -> Result<(), String> {
    let Some(input) = bench.linux()? else { return Ok(()) };
    if !is_root() || !is_here("mke2fs") {
        eprintln!("skipped: only root can have the kernel unpack, into what mke2fs made");
        return Ok(());
    }
    let images = images(bench, &input)?;
    let mut panels = Vec::new();
    for (name, drive) in DRIVES {
        let mut walks = [Times::default(), Times::default()];
        for image in &images {
            for (times, (least, seconds)) in walks.iter_mut().zip(walk_cold(image, name)?) {
                if times.seconds.is_empty() {
                    times.least = least;
                }
                times.seconds.push(seconds);
            }
        }
        panels.push(Panel { drive, walks });
    }
    images.iter().try_for_each(|image| fresh(image))?;
    for (number, (_, walk)) in WALKS.iter().enumerate() {
        sheet.say(&table(&format!("{}, {walk}", input.name), number, &panels));
    }
    if bench.is_complete() {
        let path = repository().join("docs/layout.svg");
        std::fs::write(&path, figure(&input.name, &panels))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// An image of each maker.
fn images(bench: &Bench, input: &Input) -> Result<Vec<PathBuf>, String> {
    let paths = ["extant", "mke2fs", "kernel"];
    let paths = paths.map(|maker| bench.folder.join(format!("layout-{maker}.img")));
    let [ours, mke2fs, kernel] = &paths;
    paths.iter().try_for_each(|path| fresh(path))?;
    let archive = input.archive.to_string_lossy();
    command::output(program(&extant()?).args(["build", "-q", "-t", "ext4", &archive]).arg(ours))?;
    let (size, inodes) = (format!("{}M", (input.size() >> 20) * 4 / 3 + 256), input.entries()?);
    let make = |image: &Path, source: &[&str]| {
        let mut mke2fs = program("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-U", IDENTITY, "-N", &(inodes + 1000).to_string()]);
        mke2fs.args(["-E", &format!("hash_seed={IDENTITY}")]).args(source);
        command::output(mke2fs.arg(image).arg(&size)).map(|_| ())
    };
    make(mke2fs, &["-d", &input.tree()?.to_string_lossy()])?;
    make(kernel, &[])?;
    let mounted = oracle::mount_loop(kernel, Access::ReadWrite, "")?;
    command::output(program("tar").args(["-xpf", &archive, "-C"]).arg(mounted.path()))?;
    mounted.unmount()?;
    Ok(paths.into())
}

/// For each of [`WALKS`]: the least seconds that what `image` holds takes on `drive`, and those
/// that the laboratory's walk takes.
fn walk_cold(image: &Path, drive: &str) -> Result<Vec<(f64, f64)>, String> {
    let image = image.to_string_lossy();
    let run = words(&["lab", "run", "walk-cold", "--json", "--image", &image, "--drive", drive]);
    let output = command::output(program(&extant()?).args(run))?;
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("walk-cold: {error}"))?;
    let number = |value: &serde_json::Value, name: &str| {
        value[name].as_u64().ok_or_else(|| format!("walk-cold: the report has no {name}"))
    };
    let filesystem = &report["filesystems"][0];
    let layout = &filesystem["layouts"][0]["layout"];
    let block = number(filesystem, "block_size")?;
    let inodes = number(layout, "files")? + number(layout, "directories")?;
    let names = number(layout, "directory_blocks")? * block + inodes * INODE_BYTES;
    let whole = number(layout, "data_blocks")? * block + names;
    let rate = number(&report["drives"][0], "media_bytes_per_second")? as f64;
    let mut walks = Vec::new();
    for (at, ((walk, _), bytes)) in WALKS.iter().zip([whole, names]).enumerate() {
        let measure = &report["measures"][at];
        if measure["measure"] != *walk {
            return Err(format!("walk-cold: measure {at} is not {walk}"));
        }
        walks.push((bytes as f64 / rate, number(measure, "elapsed_ns")? as f64 / 1e9));
    }
    Ok(walks)
}

/// Seconds with two digits that mean something, or whole ones.
fn rounded(seconds: f64) -> String {
    match seconds {
        ..1.0 => format!("{seconds:.2}"),
        ..20.0 => format!("{seconds:.1}"),
        _ => format!("{seconds:.0}"),
    }
}

/// The table of one of [`WALKS`].
fn table(title: &str, walk: usize, panels: &[Panel]) -> String {
    let mut lines = vec![
        format!("\n{title}, in virtual time: seconds\n"),
        format!("| | bytes / rate | {} | ours to bytes / rate |", MAKERS.join(" | ")),
        format!("| --- | ---: |{} ---: |", " ---: |".repeat(MAKERS.len())),
    ];
    for panel in panels {
        let Times { least, seconds } = &panel.walks[walk];
        let ratio = seconds.first().map_or(0.0, |ours| ours / least);
        let seconds: Vec<String> = seconds.iter().map(|time| rounded(*time)).collect();
        let (least, seconds) = (rounded(*least), seconds.join(" | "));
        lines.push(format!("| {} | {least} | {seconds} | {ratio:.2} |", panel.drive));
    }
    lines.join("\n")
}

/// Bars for each drive, a column for each walk, each walk of each drive on a scale of its own; a
/// line where bytes over rate is. Same figures, same bytes.
fn figure(tree: &str, panels: &[Panel]) -> String {
    const WIDTH: u32 = 900;
    const TOP: u32 = 72;
    const PANEL: u32 = 62;
    let height = TOP + PANEL * panels.len() as u32;
    let mut lines = vec![
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">"
        ),
        format!("<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>"),
        text(16, 26, "font-size=\"15\"", &format!("{tree}: seconds of virtual time")),
        text(16, 46, "fill=\"#57606a\"", "line: its bytes over the rate of the drive"),
    ];
    for (walk, (_, title)) in WALKS.iter().enumerate() {
        lines.push(text(BAR_X[walk], 62, "font-weight=\"bold\"", title));
    }
    for (number, panel) in (0..).zip(panels) {
        let top = TOP + PANEL * number;
        lines.push(text(16, top + 32, "font-weight=\"bold\"", panel.drive));
        for (row, maker) in (0..).zip(MAKERS) {
            let end = BAR_X[0] - 8;
            lines.push(text(end, top + 14 + ROW * row, "text-anchor=\"end\"", maker));
        }
        for (walk, times) in panel.walks.iter().enumerate() {
            bars(&mut lines, BAR_X[walk], top + 4, times);
        }
    }
    lines.push("</svg>\n".into());
    lines.join("\n")
}

/// Where the bars of each walk begin.
const BAR_X: [u32; 2] = [300, 620];
const BAR_WIDTH_MAX: f64 = 220.0;
const ROW: u32 = 17;

fn text(x: u32, y: u32, style: &str, words: &str) -> String {
    format!("<text x=\"{x}\" y=\"{y}\" {style}>{words}</text>")
}

/// A bar for each maker, the first one green, and the line.
fn bars(lines: &mut Vec<String>, x: u32, top: u32, times: &Times) {
    let longest = times.seconds.iter().copied().fold(times.least, f64::max);
    let scaled = |seconds: f64| (seconds / longest * BAR_WIDTH_MAX).round();
    for (row, seconds) in (0..).zip(&times.seconds) {
        let (y, width) = (top + ROW * row, scaled(*seconds));
        let colour = if row == 0 { "#1a7f37" } else { "#9aa4af" };
        lines.push(format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"13\" fill=\"{colour}\"/>"
        ));
        let after = x + width as u32 + 6;
        lines.push(text(after, y + 11, "", &format!("{} s", rounded(*seconds))));
    }
    let (least, end) = (f64::from(x) + scaled(times.least), top + 3 * ROW - 2);
    lines.push(format!(
        "<line x1=\"{least}\" y1=\"{top}\" x2=\"{least}\" y2=\"{end}\" stroke=\"#d1242f\"/>"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_its_place_and_the_others_are_in_proportion() {
        let read = Times { least: 4.0, seconds: vec![5.0, 10.0, 40.0] };
        let stat = Times { least: 0.1, seconds: vec![0.25, 0.5, 1.0] };
        let panels = [Panel { drive: "a disk", walks: [read, stat] }];
        let figure = figure("A tree", &panels);
        for wanted in ["width=\"28\"", "width=\"55\"", "width=\"220\"", "x1=\"322\"", ">40 s<"] {
            assert!(figure.contains(wanted), "{wanted} is not in {figure}");
        }
        let tables = [0, 1].map(|walk| table("A tree", walk, &panels));
        assert!(tables[0].ends_with("| a disk | 4.0 | 5.0 | 10.0 | 40 | 1.25 |"), "{}", tables[0]);
        assert!(tables[1].ends_with("| 0.10 | 0.25 | 0.50 | 1.0 | 2.50 |"), "{}", tables[1]);
    }
}
