//! Which problems of a report are mended in a round: what may follow from others waits.
use crate::options::Scope;
use extant_format::Ino;
use extant_inspect::{CheckReport, Code, Pass, Problem};
use std::collections::BTreeSet;

/// Whether a problem is the checksum of an inode or of a node of its map.
pub(crate) fn is_sum(code: Code) -> bool {
    matches!(code, Code::ExtentChecksum | Code::InodeChecksum | Code::InodeChecksumUnread)
}

/// Inodes of which a checksum is wrong and that fit the rest of the volume no better: another
/// problem of theirs, or blocks that bitmaps have otherwise, says that their map may be that of
/// another file.
pub(crate) fn doubtful(report: &CheckReport) -> BTreeSet<Ino> {
    let is_odd = |code: Code| matches!(code, Code::BlocksMarkedFree | Code::BlocksMarkedUsed);
    let is_anywhere = report.problems.iter().any(|it| is_odd(it.code));
    let of_content = |it: &&Problem| {
        matches!(it.rule().pass, Pass::Inodes | Pass::Duplicates) && !is_sum(it.code)
    };
    let odd: BTreeSet<Ino> =
        report.problems.iter().filter(of_content).filter_map(|it| it.ino).collect();
    let sums = report.problems.iter().filter(|it| is_sum(it.code)).filter_map(|it| it.ino);
    sums.filter(|ino| is_anywhere || odd.contains(ino)).collect()
}

/// The problems of a report but for those of files that were `named` meanwhile; while something has
/// no type, an entry `.` hides others, or files are `sharing` blocks of maps, of those without a
/// name: it may be the directory that has it, or one of those, of which a part was read; and of
/// names that are wrong only where a directory is encrypted, if that is what is wrong.
pub(crate) fn considered<'a>(
    report: &'a CheckReport,
    named: &BTreeSet<Ino>,
    sharing: &BTreeSet<Ino>,
    scope: Scope,
) -> Vec<&'a Problem> {
    // What is said to be no directory may be one.
    let mapped: BTreeSet<Option<Ino>> = match scope {
        Scope::All => report
            .problems
            .iter()
            .filter(|it| it.code == Code::SpecialFileMapped)
            .map(|it| it.ino)
            .collect(),
        _ => BTreeSet::new(),
    };
    let of_special =
        |code| matches!(code, Code::SectorCount | Code::SpecialFileSize | Code::LinkCount);
    let is_untyped =
        !mapped.is_empty() || report.problems.iter().any(|it| it.code == Code::NoFileType);
    // The names that it hides may be those that are missing.
    let is_hidden =
        scope != Scope::Preen && report.problems.iter().any(|it| it.code == Code::DotTooLong);
    let is_named = |ino: Option<Ino>| ino.is_some_and(|ino| named.contains(&ino));
    let is_plain =
        |it: &Problem| matches!(it.code, Code::EncryptedWithoutFeature | Code::EncryptionMissing);
    let plain: BTreeSet<Option<Ino>> =
        report.problems.iter().filter(|it| is_plain(it)).map(|it| it.ino).collect();
    let of_encryption =
        |code| matches!(code, Code::EntryNameShort | Code::EntryUnencrypted | Code::EntryPolicy);
    let waits = |problem: &&Problem| match problem.rule().pass {
        _ if of_special(problem.code) && mapped.contains(&problem.ino) => true,
        _ if of_encryption(problem.code) => plain.contains(&problem.ino),
        Pass::Directories if problem.ino.is_some_and(|ino| sharing.contains(&ino)) => true,
        Pass::Connectivity | Pass::Links if is_untyped || is_hidden || !sharing.is_empty() => true,
        _ if problem.code == Code::EntryToValue => is_named(problem.other),
        _ => problem.code == Code::InodeUnattached && is_named(problem.ino),
    };
    report.problems.iter().filter(|it| !waits(it)).collect()
}
