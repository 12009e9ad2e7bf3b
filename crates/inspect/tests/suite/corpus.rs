//! Damaged and odd images, and what e2fsck says of each: ours has to end with the same code. With
//! `--nocapture` it prints the sentence that README.md has.
use extant_block::{MemoryDevice, RealClock};
use extant_inspect::{CheckOptions, CheckReport, check};
use extant_testkit::command::{output, program};
use extant_testkit::skips::{Known, skip_known};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

/// Where our code is another, and why. An image that is judged alike has to be taken off.
const DIFFERENCES: &[(&str, u8, &str)] = &[(
    "f_h_badroot",
    4,
    "e2fsck itself ends there with a program error; the roots of the indexes are damaged, and that \
     is reported",
)];

struct Verdict {
    name: String,
    /// `None` when e2fsck did not end within a minute.
    code: Option<u8>,
    about: String,
}

fn verdicts(corpus: &Path) -> Vec<Verdict> {
    let text = std::fs::read_to_string(corpus.join("verdicts.tsv"))
        .expect("the verdicts beside the images");
    let rows = text.lines().skip(1).map(|line| {
        let words: Vec<&str> = line.split('\t').collect();
        Verdict {
            name: words[0].to_owned(),
            code: words[2].parse().ok(),
            about: words.get(6).unwrap_or(&"").to_string(),
        }
    });
    rows.collect()
}

fn checked(bytes: &[u8], threads: u32) -> CheckReport {
    let device = Arc::new(MemoryDevice::from_bytes(RealClock::new(), bytes));
    let threads = NonZeroU32::new(threads).expect("a thread");
    let options = CheckOptions { threads, ..CheckOptions::default() };
    check(device, &options).expect("memory does not fail")
}

#[test]
fn the_corpus_is_judged_as_e2fsck_judges_it() {
    let corpus = extant_testkit::repository().join("../shared/corpus");
    if !corpus.exists() {
        return skip_known(Known::Collections, "no corpus of damaged images");
    }
    let mut complaints = Vec::new();
    let (mut all, mut met) = (0, 0);
    for verdict in verdicts(&corpus) {
        let packed = corpus.join(format!("{}.img.gz", verdict.name));
        let bytes =
            output(program("gzip").arg("-dc").arg(&packed)).expect("gzip unpacks it").stdout;
        let report = checked(&bytes, 1);
        let json = |report: &CheckReport| serde_json::to_string(report).expect("a report is data");
        if json(&report) != json(&checked(&bytes, 3)) {
            complaints.push(format!("{}: three threads say something else than one", verdict.name));
        }
        let known = DIFFERENCES.iter().find(|(name, ..)| *name == verdict.name);
        let expected = known.map(|(_, code, _)| *code).or(verdict.code);
        all += 1;
        met += usize::from(verdict.code == Some(report.exit_code()));
        if expected.is_some_and(|expected| expected != report.exit_code()) {
            let problems: Vec<String> =
                report.problems.iter().take(3).map(ToString::to_string).collect();
            complaints.push(format!(
                "{} ({}): {}, e2fsck {expected:?}; {problems:?}",
                verdict.name,
                verdict.about,
                report.exit_code()
            ));
        }
    }
    assert!(complaints.is_empty(), "{} of {all}:\n{}", complaints.len(), complaints.join("\n"));
    let sentence = format!("{met} of {all} images have the exit code of `e2fsck -fn` 1.47.4");
    println!("{sentence}");
    let readme = std::fs::read_to_string(extant_testkit::repository().join("README.md"));
    let readme = readme.expect("a README").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(readme.contains(&sentence), "README.md does not say: {sentence}");
}
