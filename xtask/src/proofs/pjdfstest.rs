//! pjdfstest, the suite of system calls and their errors: run on the kernel's ext4 first, then on
//! ours. What the kernel passes we pass, but for a list with reasons.

use std::collections::BTreeMap;
use std::path::Path;

use extant_testkit::system::{System, make_image};

use super::{Proofs, Sharing};
use crate::command::program;
use crate::installed::Installed;
use crate::oracle::e2fsck_but_advice;
use crate::scratch::Scratch;

const PJDFSTEST: Installed = Installed { name: "pjdfstest", version: "0.2.2" };

/// Cases that the kernel's ext4 passes and a mount through FUSE does not, with the reason of each.
const EXPECTED: &[(&str, &str)] = &[(
    "link::link_count_max",
    "pathconf of the C library knows 65,000 links for ext4 and 127 for FUSE: the volume takes more",
)];

const SETTINGS: &str = "\
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.02
allow_remount = false
[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]
";

/// Runs it over ext3 and ext4, for all users.
///
/// # Errors
/// The cases that fail and are not on the list, and those on the list that do not fail.
pub fn prove(proofs: &Proofs) -> Result<(), String> {
    let suite = PJDFSTEST.program()?;
    let mut wrong = Vec::new();
    for words in ["-t ext4", "-t ext3"] {
        let baseline = cases(proofs, &suite, &System::Kernel(String::new()), words)?;
        let ours = cases(proofs, &suite, &proofs.subject(Sharing::AllUsers, ""), words)?;
        let passed = |cases: &BTreeMap<String, Outcome>| {
            cases.values().filter(|outcome| **outcome == Outcome::Passed).count()
        };
        println!(
            "  {words}: {} of {} pass; on the kernel's ext4 {}",
            passed(&ours),
            ours.len(),
            passed(&baseline)
        );
        for (case, outcome) in &baseline {
            let reason = EXPECTED.iter().find(|(expected, _)| expected == case);
            let is_passed = ours.get(case) == Some(&Outcome::Passed);
            match (outcome, reason) {
                (Outcome::Passed, None) if !is_passed => wrong.push(format!("{words}: {case}")),
                (Outcome::Passed, Some((_, reason))) if !is_passed => {
                    println!("  expected: {case}: {reason}");
                }
                (_, Some(_)) if is_passed && proofs.subject_name() == "extant" => {
                    wrong.push(format!("{words}: {case} is expected to fail, and passes"));
                }
                _ => {}
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// What a case ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Skipped,
    Failed,
}

fn cases(
    proofs: &Proofs,
    suite: &Path,
    system: &System,
    words: &str,
) -> Result<BTreeMap<String, Outcome>, String> {
    let folder = Scratch::inside(&proofs.folder, "pjdfstest");
    let (image, settings) = (folder.join("suite.img"), folder.join("suite.toml"));
    std::fs::write(&settings, SETTINGS).map_err(|error| error.to_string())?;
    make_image(&image, words, "256M")?;
    let volume = system.mount(&image)?;
    let second = Scratch::inside(Path::new("/dev/shm"), "pjdfstest");
    let mut command = program("timeout");
    command.arg("900").arg(suite).arg("-c").arg(&settings).arg("-p").arg(volume.path());
    let output =
        command.arg("-s").arg(second.path()).output().map_err(|error| error.to_string())?;
    volume.unmount()?;
    e2fsck_but_advice(&image)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let cases = parse(&text);
    // The suite's own sum, so that no line is read wrongly without being noticed.
    let sum = cases.len().to_string() + " total";
    if !text.contains(&sum) {
        let last: Vec<&str> = text.lines().rev().take(5).collect();
        return Err(format!("{} cases are read, and the suite says: {last:?}", cases.len()));
    }
    Ok(cases)
}

fn parse(text: &str) -> BTreeMap<String, Outcome> {
    let case = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, outcome) = (words.next()?, words.next()?);
        let outcome = match outcome {
            "ok" => Outcome::Passed,
            "skipped" => Outcome::Skipped,
            "FAILED" => Outcome::Failed,
            _ => return None,
        };
        (name.contains("::") && words.next().is_none()).then(|| (name.to_owned(), outcome))
    };
    text.lines().filter_map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the project allows itself.
    const EXPECTED_MAX: usize = 8;

    #[test]
    fn few_cases_are_expected_to_fail_and_each_has_a_reason() {
        assert!(EXPECTED.len() <= EXPECTED_MAX);
        assert!(EXPECTED.iter().all(|(_, reason)| reason.len() > 20));
    }

    #[test]
    fn cases_are_read_and_what_they_say_is_not() {
        let text = "chown::eloop                        ok\n\
            chown::erofs_named                  skipped\n\tRemounts are not allowed\n\
            symlink::erofs_new_file             FAILED\n   6: core::result::unwrap_failed\n";
        let cases = parse(text);
        assert_eq!(cases.len(), 3);
        assert_eq!(cases["symlink::erofs_new_file"], Outcome::Failed);
        assert_eq!(cases["chown::erofs_named"], Outcome::Skipped);
    }
}
