//! Which problems of a report are mended in a round: what may follow from others waits.
use crate::draft::Draft;
use crate::inodes::{is_of_attributes, is_of_map};
use crate::options::Scope;
use crate::regain::may_be_directory;
use extant_format::Ino;
use extant_format::inode::FileType;
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

/// What a check could not read, so that others of its problems may follow from that alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Unread {
    /// All was read.
    Nothing,
    /// Parts of files: what bitmaps mark without need may be these.
    Blocks,
    /// Parts of directories too, or who is in them: links that are missing, and files without a
    /// name, may be those of names in there.
    Names,
}

impl Unread {
    /// What the check of a report could not read.
    pub(crate) fn of(report: &CheckReport, draft: &Draft) -> Unread {
        let usage = &draft.usage;
        let of_problem = |problem: &Problem| {
            let is_directory =
                problem.ino.is_some_and(|ino| usage.file_type(ino) == Some(FileType::Directory));
            match problem.code {
                // It may be a directory.
                Code::SpecialFileMapped | Code::InodeChecksumUnread => Unread::Names,
                Code::DirectoryHole
                | Code::DirectoryChain
                | Code::DirectorySize
                | Code::DirectoryWithoutBlocks => Unread::Names,
                Code::InlineMissing | Code::InlineSize if is_directory => Unread::Names,
                // A loop, of which one name would have to go.
                Code::DirectoryUnreachable
                    if draft.scope == Scope::Safe
                        && problem.ino.is_some_and(|ino| usage.parent(ino).is_some()) =>
                {
                    Unread::Names
                }
                // Where it cannot be read, more is wrong with it.
                Code::LinkCount if may_be_directory(draft, problem).unwrap_or(false) => {
                    Unread::Names
                }
                code if is_of_map(code) && is_directory => Unread::Names,
                // What is written to a block that two have is written to both.
                _ if problem.rule().pass == Pass::Duplicates && is_directory => Unread::Names,
                code if is_of_map(code) => Unread::Blocks,
                _ => Unread::Nothing,
            }
        };
        report.problems.iter().map(of_problem).max().unwrap_or(Unread::Nothing)
    }
}

/// The problems of a report but for those of files that were `named` meanwhile; while something has
/// no type, an entry `.` hides others, or files are `sharing` blocks of maps, of those without a
/// name: it may be the directory that has it, or one of those, of which a part was read; and of
/// names that are wrong only where a directory is encrypted, if that is what is wrong; of the count
/// in a block of attributes, and of how a file is encrypted, where the attributes that say it are
/// wrong. What waits for directories that could not be read is said by [`Unread`].
pub(crate) fn considered<'a>(
    report: &'a CheckReport,
    named: &BTreeSet<Ino>,
    sharing: &BTreeSet<Ino>,
    scope: Scope,
) -> Vec<&'a Problem> {
    let is_untyped = report.problems.iter().any(|it| it.code == Code::NoFileType);
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
    let has_with = |problem: &Problem, is_cause: fn(Code) -> bool| {
        let mut others = report.problems.iter().filter(|it| it.ino == problem.ino);
        others.any(|it| is_cause(it.code))
    };
    let waits = |problem: &&Problem| match problem.rule().pass {
        _ if problem.code == Code::EncryptionContext => has_with(problem, is_of_attributes),
        _ if problem.code == Code::AttributeReferencesLost => {
            has_with(problem, |code| code == Code::AttributeBlockChecksum)
        }
        _ if of_encryption(problem.code) => plain.contains(&problem.ino),
        Pass::Directories if problem.ino.is_some_and(|ino| sharing.contains(&ino)) => true,
        Pass::Connectivity | Pass::Links if is_untyped || is_hidden || !sharing.is_empty() => true,
        _ if problem.code == Code::EntryToValue => is_named(problem.other),
        _ => problem.code == Code::InodeUnattached && is_named(problem.ino),
    };
    report.problems.iter().filter(|it| !waits(it)).collect()
}
