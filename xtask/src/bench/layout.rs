//! What a layout is worth: one tree in three images, read from a cold start on three drives of the
//! laboratory, with the same reader. The figure `docs/layout.svg` is drawn from the table.
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

/// The drives, in the words of the figure.
const DRIVES: &[(&str, &str)] = &[
    ("hdd-2022-20t", "a data centre disk of 2022"),
    ("network-volume", "a network volume"),
    ("object-store", "an object store"),
];

/// How the images are made, in the words of the figure.
const MAKERS: &[&str] = &["extant build", "mke2fs -d", "kernel, tar -x"];

/// The same identity for images whose makers would draw one by chance: it is the seed of the hashes
/// of names too.
const IDENTITY: &str = "12345678-1234-4321-8123-123456789abc";

/// Times of one drive, in the order of [`MAKERS`].
struct Panel {
    drive: &'static str,
    seconds: Vec<f64>,
}

/// Makes the images, has the laboratory read them, and draws the figure.
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
        let seconds =
            images.iter().map(|image| read_cold(image, name)).collect::<Result<_, _>>()?;
        panels.push(Panel { drive, seconds });
    }
    images.iter().try_for_each(|image| fresh(image))?;
    sheet.say(&table(&input.name, &panels));
    if bench.is_complete() {
        let path = repository().join("docs/layout.svg");
        let title = format!("{} read from a cold start: seconds", input.name);
        std::fs::write(&path, figure(&title, &panels))
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

/// Seconds that the laboratory takes to read every file of `image` on `drive`.
fn read_cold(image: &Path, drive: &str) -> Result<f64, String> {
    let image = image.to_string_lossy();
    let run = words(&["lab", "run", "read-cold", "--json", "--image", &image, "--drive", drive]);
    let output = command::output(program(&extant()?).args(run))?;
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("read-cold: {error}"))?;
    let nanoseconds = report["measures"][0]["elapsed_ns"].as_u64();
    Ok(nanoseconds.ok_or("read-cold: the report has no time")? as f64 / 1e9)
}

/// Seconds with two digits that mean something, or whole ones.
fn rounded(seconds: f64) -> String {
    if seconds < 20.0 { format!("{seconds:.1}") } else { format!("{seconds:.0}") }
}

fn table(name: &str, panels: &[Panel]) -> String {
    let mut lines = vec![
        format!("\n{name}, every file read from a cold start, in virtual time: seconds\n"),
        format!("| | {} |", MAKERS.join(" | ")),
        format!("| --- |{}", " ---: |".repeat(MAKERS.len())),
    ];
    for panel in panels {
        let seconds: Vec<String> = panel.seconds.iter().map(|time| rounded(*time)).collect();
        lines.push(format!("| {} | {} |", panel.drive, seconds.join(" | ")));
    }
    lines.join("\n")
}

/// Bars for each drive, each drive on a scale of its own. Same figures, same bytes.
fn figure(title: &str, panels: &[Panel]) -> String {
    const WIDTH: u32 = 720;
    const BAR_X: u32 = 150;
    const BAR_WIDTH_MAX: f64 = 480.0;
    const ROW: u32 = 22;
    const PANEL: u32 = 34 + 3 * ROW;
    let height = 44 + PANEL * panels.len() as u32;
    let mut lines = vec![
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">"
        ),
        format!("<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>"),
        format!("<text x=\"16\" y=\"28\" font-size=\"15\" fill=\"#1f2328\">{title}</text>"),
    ];
    for (number, panel) in (0..).zip(panels) {
        let top = 44 + PANEL * number;
        let drive = panel.drive;
        lines.push(format!(
            "<text x=\"16\" y=\"{}\" font-weight=\"bold\" fill=\"#1f2328\">{drive}</text>",
            top + 16
        ));
        let longest = panel.seconds.iter().copied().fold(0.0, f64::max);
        for (row, (maker, seconds)) in (0..).zip(MAKERS.iter().zip(&panel.seconds)) {
            let y = top + 24 + ROW * row;
            let width = (seconds / longest * BAR_WIDTH_MAX).round();
            let colour = if row == 0 { "#1a7f37" } else { "#9aa4af" };
            lines.push(format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#1f2328\">{maker}</text>",
                BAR_X - 8,
                y + 14
            ));
            lines.push(format!(
                "<rect x=\"{BAR_X}\" y=\"{}\" width=\"{width}\" height=\"16\" fill=\"{colour}\"/>",
                y + 1
            ));
            lines.push(format!(
                "<text x=\"{}\" y=\"{}\" fill=\"#1f2328\">{} s</text>",
                f64::from(BAR_X) + width + 8.0,
                y + 14,
                rounded(*seconds)
            ));
        }
    }
    lines.push("</svg>\n".into());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_its_panel_and_the_others_are_in_proportion() {
        let panels = [Panel { drive: "a disk", seconds: vec![5.0, 10.0, 40.0] }];
        let figure = figure("A tree", &panels);
        for wanted in ["width=\"60\"", "width=\"120\"", "width=\"480\"", ">5.0 s<", ">40 s<"] {
            assert!(figure.contains(wanted), "{wanted} is not in {figure}");
        }
        assert!(table("A tree", &panels).ends_with("| a disk | 5.0 | 10.0 | 40 |"));
    }
}
