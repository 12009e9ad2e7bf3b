//! Loads that others measure file systems with: they complete, the volume is clean afterwards, and
//! what they took stands beside what they take on the kernel's ext4.

// tidy: width because scripts are read as their shell has them

use extant_testkit::system::System;

use super::shell::{Outcome, Script, run};
use super::{Proofs, Sharing};

const SCRIPTS: &[Script] = &[
    Script {
        name: "dbench, 4 clients",
        needs: &["dbench"],
        size: "2G",
        // Of a fixed time, so that the number of its operations would tell; here it must complete.
        text: "dbench -q -t 8 -D $M 4 2> /dev/null || dbench -t 8 -D $M 4 > /dev/null",
    },
    Script {
        name: "fs_mark, 8,000 files, fsync for each hundred",
        needs: &["fs_mark"],
        size: "1G",
        text: "cd $W; fs_mark -d $M/a -d $M/b -s 10240 -n 4000 -S 2 -k > /dev/null",
    },
    Script {
        name: "postmark, 20,000 transactions",
        needs: &["postmark"],
        size: "1G",
        text: "
            mkdir $M/pm
            printf 'set location %s\\nset number 4000\\nset transactions 20000\\nset seed 7\\nrun\\nquit\\n' \
              $M/pm | postmark | grep -q 'Time:'",
    },
    Script {
        name: "bonnie++, 256 MB",
        needs: &["bonnie++"],
        size: "2G",
        text: "mkdir $M/b; bonnie++ -q -u root -d $M/b -s 256M:64k -r 128 -n 8 > /dev/null",
    },
    Script {
        name: "stress-ng, class filesystem, each for 1 s",
        needs: &["stress-ng"],
        size: "2G",
        // Not those for special file systems, or for a whole machine.
        text: "
            stress-ng --class filesystem --sequential 1 --timeout 1s --temp-path $M --verify \
              --exclude binderfs,bind-mount,procfs,eventfd > $W/log 2>&1 ||
              { code=$?; [ $code = 2 ] && { grep -i 'fail:' $W/log >&2; exit 1; }; [ $code = 3 ] || exit $code; }
            ! grep -i 'fail:' $W/log >&2",
    },
];

/// Runs each on the kernel's mount and on ours.
///
/// # Errors
/// Those that failed on ours, and not on the kernel's.
pub fn prove(proofs: &Proofs) -> Result<(), String> {
    let mut failures = Vec::new();
    println!("  {:<46} {:>9} {:>9} {:>6}", "", "kernel", proofs.subject_name(), "ratio");
    for script in SCRIPTS {
        let kernel = run(proofs, &System::Kernel(String::new()), script);
        let ours = run(proofs, &proofs.subject(Sharing::AllUsers, ""), script);
        match (kernel, ours) {
            (Ok(Outcome::Done(kernel)), Ok(Outcome::Done(ours))) => {
                let ratio = ours / kernel;
                println!("  {:<46} {kernel:>7.1} s {ours:>7.1} s {ratio:>6.2}", script.name);
            }
            (_, Ok(Outcome::Skipped(missing))) => {
                println!("  {:<46} skipped, no {missing}", script.name);
            }
            (Err(error), Ok(Outcome::Done(ours))) => {
                println!("  {:<46} {ours:>7.1} s; fails on the kernel's: {error}", script.name);
            }
            (Err(kernel), Err(ours)) => {
                println!("  {}: fails on both: {kernel}\n  and: {ours}", script.name);
            }
            (_, Err(error)) => {
                println!("  {}: {error}", script.name);
                failures.push(script.name);
            }
            (Ok(Outcome::Skipped(_)), Ok(Outcome::Done(_))) => {}
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}
