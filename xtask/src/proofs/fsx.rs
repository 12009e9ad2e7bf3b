//! fsx, the exerciser of one file: reads, writes, maps, truncations, holes and copies by chance,
//! each read compared with what it must be. It is run, never linked: its licence is not ours.

use std::path::Path;

use extant_testkit::system::make_image;

use super::{Proofs, Sharing};
use crate::command::{self, program};
use crate::installed::Installed;
use crate::oracle::e2fsck_but_advice;
use crate::scratch::Scratch;

const FSX: Installed = Installed { name: "fsx", version: "0.3.2" };

/// All together, unless it is said otherwise.
const OPERATIONS: u64 = 1_000_000;

/// Words of mke2fs.
const VOLUMES: &[&str] =
    &["-t ext4 -b 4096", "-t ext4 -b 1024", "-t ext3 -b 2048", "-t ext4 -b 2048"];

/// What it does how often. Every fsync costs as much as a thousand of the others.
const SETTINGS: &str = "\
flen = 262144
nomsyncafterwrite = true
[opsize]
max = 65536
[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 0.1
truncate = 5
fsync = 0.02
fdatasync = 0.02
posix_fallocate = 3
punch_hole = 5
sendfile = 3
posix_fadvise = 1
copy_file_range = 5
";

/// Runs it on each kind of volume in both ways.
///
/// # Errors
/// What it said last.
pub fn prove(proofs: &Proofs) -> Result<(), String> {
    let fsx = FSX.program()?;
    let operations = proofs.operations.unwrap_or(OPERATIONS);
    let kinds = VOLUMES.iter().flat_map(|words| Sharing::ALL.map(|sharing| (*words, sharing)));
    let kinds: Vec<(&str, Sharing)> = kinds.collect();
    let share = operations.div_ceil(kinds.len() as u64);
    let mut failures = Vec::new();
    for (number, (words, sharing)) in kinds.into_iter().enumerate() {
        let seed = proofs.seed + number as u64;
        let name = format!("  seed {seed} {words}, {}", sharing.name());
        match exercise(proofs, &fsx, words, sharing, (seed, share)) {
            Ok(()) => println!("{name}: {share} operations"),
            Err(error) => {
                println!("{name}: {error}");
                failures.push(name);
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn exercise(
    proofs: &Proofs,
    fsx: &Path,
    words: &str,
    sharing: Sharing,
    (seed, operations): (u64, u64),
) -> Result<(), String> {
    let folder = Scratch::inside(&proofs.folder, "fsx");
    let (image, settings) = (folder.join("fsx.img"), folder.join("fsx.toml"));
    std::fs::write(&settings, SETTINGS).map_err(|error| error.to_string())?;
    make_image(&image, words, "256M")?;
    let volume = proofs.subject(sharing, "").mount(&image)?;
    let mut command = program("timeout");
    command.arg("1800").arg(fsx).arg("-f").arg(&settings).arg("-P").arg(folder.path());
    command.args(["-N", &operations.to_string(), "-S", &seed.to_string()]);
    let outcome = command::output(command.arg(volume.path().join("file")));
    volume.unmount()?;
    outcome?;
    e2fsck_but_advice(&image)
}
