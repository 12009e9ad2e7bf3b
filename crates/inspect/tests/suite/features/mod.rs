//! Intact volumes with every feature that mke2fs can set: e2fsck finds nothing, so neither may the
//! check.
//!
//! Each volume is judged empty, filled, and after `e2fsck -fyD`. Each feature and option is taken
//! alone; of combinations, and of volumes that other tools change, one in `EXTANT_FEATURES`. It
//! prints a table (`cargo test --test suite features -- --nocapture`).
mod filling;
mod table;

use extant_block::file::Access as DeviceAccess;
use extant_block::{FileDevice, RealClock};
use extant_inspect::{CheckOptions, CheckReport, check};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{can_mount, require};
use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use table::{Change, Row};

/// What e2fsck mentions too when it exits with 0: tune2fs leaves blocks reserved when it takes the
/// feature resize_inode away.
const ADVICE: &[&str] = &["reserved-descriptors"];

/// What is made of one row of the table.
struct Judged {
    /// One word a state: `empty`, `filled`, ...
    line: String,
    /// What the check found where e2fsck finds nothing, or the other way round.
    faults: Vec<String>,
}

/// The exit code of `e2fsck -fn`.
fn e2fsck(image: &Path) -> Option<i32> {
    let judged = program("e2fsck").arg("-fn").arg(image).output();
    judged.expect("e2fsck runs").status.code()
}

impl Judged {
    fn of(row: &Row) -> Judged {
        let mut judged = Judged { line: format!("{:<72}", row.words), faults: Vec::new() };
        let folder = Scratch::new("features");
        let image = folder.join("image");
        if let Err(error) = row.make(&image, None) {
            judged.faults.push(format!("{}: {error}", row.words));
            return judged;
        }
        judged.state(row, "empty", &image);
        let how = filling::fill(row, &folder, &image);
        judged.state(row, how, &image);
        let _ = program("e2fsck").arg("-fyD").arg(&image).output();
        judged.state(row, "after -fyD", &image);
        judged
    }

    /// Judges a copy of a filled volume for each change.
    fn changed(row: &Row, changes: &[Change]) -> Judged {
        let folder = Scratch::new("features");
        let image = folder.join("image");
        let mut judged = Judged { line: format!("{:<72}", row.words), faults: Vec::new() };
        if let Err(error) = row.make(&image, None) {
            judged.faults.push(format!("{}: {error}", row.words));
            return judged;
        }
        filling::fill(row, &folder, &image);
        for change in changes {
            let copy: PathBuf = folder.join("copy");
            std::fs::copy(&image, &copy).expect("a copy");
            let made = change.make(&copy);
            let name = format!("{}{}", change.name(), if made { "" } else { " (refused)" });
            judged.state(row, &name, &copy);
        }
        judged
    }

    fn state(&mut self, row: &Row, name: &str, image: &Path) {
        let report = report_of(image);
        let judged = e2fsck(image);
        let unexpected =
            report.problems.iter().filter(|problem| !ADVICE.contains(&problem.rule().name));
        let problems: Vec<String> = unexpected.take(4).map(ToString::to_string).collect();
        let is_same = match judged {
            Some(0) => problems.is_empty() && report.is_clean(),
            judged => judged == Some(report.exit_code().into()),
        };
        let word = match (is_same, judged) {
            (true, Some(0)) => "clean".to_owned(),
            (true, _) => format!("both {}", report.exit_code()),
            (false, _) => "DIFFERS".to_owned(),
        };
        self.line.push_str(&format!(" {name}: {word};"));
        if !is_same {
            let code = report.exit_code();
            let fault =
                format!("{}, {name}: e2fsck {judged:?}, check {code}: {problems:#?}", row.words);
            self.faults.push(fault);
        }
    }
}

/// Judges rows, prints the table, and fails with all that differs.
fn judge(rows: impl Iterator<Item = Judged>) {
    let mut faults = Vec::new();
    for judged in rows {
        println!("{}", judged.line);
        faults.extend(judged.faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn has_tools() -> bool {
    ["mke2fs", "debugfs", "e2fsck", "tune2fs", "resize2fs"].into_iter().all(require)
}

/// Of the combinations, and of the volumes that other tools change, one in so many.
fn step() -> usize {
    usize::try_from(extant_testkit::variables::number("EXTANT_FEATURES")).expect("small").max(1)
}

#[test]
fn an_intact_volume_with_any_feature_has_no_problem() {
    if has_tools() {
        judge(table::SINGLE.iter().map(Judged::of));
    }
}

#[test]
fn an_intact_volume_with_several_features_has_no_problem() {
    if has_tools() {
        judge(table::SEVERAL.iter().step_by(step()).map(Judged::of));
    }
}

#[test]
fn what_other_tools_change_has_no_problem() {
    if has_tools() {
        let changed = table::CHANGED.iter().step_by(step());
        judge(changed.map(|row| Judged::changed(row, table::CHANGES)));
    }
}

/// A wrong field of the superblock that is set right for reading does not make its checksum wrong.
#[test]
fn a_correction_is_no_wrong_checksum() {
    if !has_tools() {
        return;
    }
    let folder = Scratch::new("features");
    let image = folder.join("image");
    let row = table::single("-t ext4 -b 1024 -O metadata_csum,^has_journal");
    row.make(&image, None).expect("mke2fs makes it");
    let request = "set_super_value inodes_count 777";
    output(program("debugfs").args(["-w", "-R", request]).arg(&image)).expect("debugfs changes it");
    let report = report_of(&image);
    let codes: Vec<&str> = report.counts.keys().copied().collect();
    assert_eq!(codes, ["inode-count"]);
}

/// The kernel writes no copies: what they say of inodes and blocks that were never used is as old
/// as the volume, and everything that was made since is still there.
#[test]
fn what_was_made_since_the_copies_is_found_through_one() {
    if !has_tools() || !can_mount() {
        return;
    }
    for words in ["-t ext4 -b 1024", "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg"] {
        let folder = Scratch::new("features");
        let image = folder.join("image");
        let row = table::single(words);
        row.make(&image, None).expect("mke2fs makes it");
        assert_eq!(filling::fill(&row, &folder, &image), "filled");
        let before = report_of(&image);
        assert!(before.is_clean(), "{words}");
        // The first superblock, then the first descriptors.
        for at in [1024, 2048] {
            let copy = folder.join("copy");
            let mut bytes = std::fs::read(&image).expect("the image");
            bytes[at..at + 1024].fill(0);
            std::fs::write(&copy, bytes).expect("a copy");
            let report = report_of(&copy);
            let used =
                |report: &CheckReport| (report.summary.inodes_used, report.summary.directories);
            assert_eq!(used(&report), used(&before), "{words}, byte {at}");
            let stale = |code: &str| {
                ["superblock-damaged", "descriptors-damaged"].contains(&code)
                    || code.contains("bitmap")
                    || code.starts_with("free-")
                    || code.starts_with("group-")
            };
            let codes: Vec<&str> = report.counts.keys().copied().collect();
            assert!(codes.iter().all(|code| stale(code)), "{words}, byte {at}: {codes:?}");
            assert_eq!(e2fsck(&copy), Some(report.exit_code().into()), "{words}, byte {at}");
        }
    }
}

fn report_of(image: &Path) -> CheckReport {
    let device = FileDevice::open(RealClock::new(), image, DeviceAccess::ReadOnly, 0)
        .expect("the image opens");
    check(Arc::new(device), &CheckOptions::default()).expect("the image is read")
}
