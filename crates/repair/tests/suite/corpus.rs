//! Damaged and odd images: each is mended, and then clean for e2fsck and for us.
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_inspect::Listener;
use extant_repair::{LostFound, Optimize, RepairOptions, Repaired, Scope, repair};
use extant_testkit::command::{output, program};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip_known};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

/// A time that tests give: 2026-01-01.
const NOW_SECONDS: u64 = 1_767_225_600;

/// Images that are not mended, or that the e2fsck of this machine judges otherwise, and why.
const LEFT: &[(&str, &str)] = &[
    ("f_badcluster", "one cluster of a file in two places, which the check does not see yet"),
    ("f_crashdisk", "no superblock that can be used, and no copy: e2fsck ends with 8 too"),
    ("f_ea_inode_fast_symlink", "intact, which e2fsck 1.47.0 does not know and 1.47.4 does"),
    ("f_ext_journal", "the journal is on another device, which is not there"),
];

pub(crate) fn mended(bytes: &[u8], scope: Scope) -> Result<Repaired, String> {
    mended_with(bytes, scope, None)
}

pub(crate) fn mended_with(
    bytes: &[u8],
    scope: Scope,
    progress: Option<Listener>,
) -> Result<Repaired, String> {
    let device = Arc::new(MemoryDevice::from_bytes(RealClock::new(), bytes));
    let options = RepairOptions {
        scope,
        superblock: None,
        lost_found: LostFound::WhereNeeded,
        optimize: Optimize::Nothing,
        threads: NonZeroU32::MIN,
        spool: None,
        now_seconds: NOW_SECONDS,
        progress,
    };
    repair(device, options).map_err(|error| error.to_string())
}

/// The whole volume as it is to be.
pub(crate) fn image(repaired: &Repaired) -> Vec<u8> {
    let mut bytes = vec![0; repaired.overlay.info().bytes as usize];
    repaired.overlay.read(0, &mut bytes).expect("memory does not fail");
    bytes
}

pub(crate) fn judged(path: &Path) -> Option<String> {
    let mut e2fsck = program("e2fsck");
    let run = e2fsck.env("E2FSCK_CONFIG", "/dev/null").arg("-fn").arg(path).output();
    let run = run.expect("e2fsck runs");
    (run.status.code() != Some(0)).then(|| {
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let lines = text.lines().filter(|line| !line.starts_with("Pass") && !line.is_empty());
        lines.take(6).collect::<Vec<_>>().join(" | ")
    })
}

#[test]
fn the_corpus_is_mended() {
    let corpus = extant_testkit::repository().join("../shared/corpus");
    if !corpus.exists() {
        return skip_known(Known::Collections, "no corpus of damaged images");
    }
    let text = std::fs::read_to_string(corpus.join("verdicts.tsv")).expect("the verdicts");
    let scratch = Scratch::new("repair-corpus");
    let (mut complaints, mut all) = (Vec::new(), 0);
    for line in text.lines().skip(1) {
        let name = line.split('\t').next().unwrap_or_default();
        if LEFT.iter().any(|(left, _)| *left == name) {
            continue;
        }
        all += 1;
        let packed = corpus.join(format!("{name}.img.gz"));
        let bytes =
            output(program("gzip").arg("-dc").arg(&packed)).expect("gzip unpacks it").stdout;
        let complain = match mended(&bytes, Scope::All) {
            Err(error) => Some(error),
            Ok(repaired) if !repaired.is_clean() => Some(format!(
                "left after {} rounds: {:?}; first {:?}",
                repaired.rounds, repaired.left.counts, repaired.found.counts
            )),
            Ok(repaired) => {
                let path = scratch.join(name);
                std::fs::write(&path, image(&repaired)).expect("scratch has room");
                let said = judged(&path);
                std::fs::remove_file(&path).expect("it is there");
                said.map(|said| format!("e2fsck: {said}; first {:?}", repaired.found.counts))
            }
        };
        complaints.extend(complain.map(|complain| format!("{name}: {complain}")));
    }
    assert!(complaints.is_empty(), "{} of {all}:\n{}", complaints.len(), complaints.join("\n"));
}
