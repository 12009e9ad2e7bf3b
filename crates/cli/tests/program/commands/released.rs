//! The command as it ships: only where `EXTANT_PROGRAM` names it.
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::skips::{Known, skip_known};
use extant_testkit::variables::chosen;

/// Bytes of the command at most. It has a writer of qcow2 and the growth of mounted volumes since
/// it was 20 MiB.
const SIZE_MAX: u64 = 21 << 20;

#[test]
fn what_ships_is_stripped() {
    let Some(released) = chosen("EXTANT_PROGRAM") else {
        return skip_known(Known::Released, "EXTANT_PROGRAM is not set");
    };
    if !require("readelf") {
        return;
    }
    let sections = output(program("readelf").args(["--sections", "--wide", &released])).unwrap();
    let sections = String::from_utf8(sections.stdout).unwrap();
    assert!(sections.contains(" .text "), "{released}: {sections}");
    for section in [".symtab", ".debug_info", ".debug_line"] {
        assert!(!sections.contains(section), "{released} has {section}");
    }
    let size = std::fs::metadata(&released).unwrap().len();
    assert!(size <= SIZE_MAX, "{released}: {size} bytes");
}
