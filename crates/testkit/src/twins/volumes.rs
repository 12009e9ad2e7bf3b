//! A life on two volumes: the kernel's beside the one to be judged.

use std::os::unix::fs::MetadataExt;

use crate::compare::{self, Field, Options};
use crate::oracle::{Access, e2fsck_but_advice, mount_loop};
use crate::scratch::Scratch;
use crate::system::{System, make_image};
use crate::walk::{Entry, walk};

use super::{FOLDER, Life, Lived, kept, live};

/// Bytes of the volumes: what a life fills at most, and more.
const SIZE: &str = "512M";
/// Neither side notes reads: what a FUSE client reads from its own cache, no server sees.
const KERNEL_OPTIONS: &str = "noatime";

/// Lives on two volumes that mke2fs makes with these words, the first mounted by the kernel, the
/// second by `system`. Then e2fsck finds both clean, and the kernel shows in the second what its
/// own system showed before it was unmounted.
///
/// # Errors
/// As for [`live`]; a volume that is not clean, or that another reader sees otherwise.
pub fn live_beside_kernel(system: &System, words: &str, life: Life) -> Result<Lived, String> {
    let folder = Scratch::new("twins");
    let (one, two) = (folder.join("model.img"), folder.join("other.img"));
    make_image(&one, words, SIZE)?;
    make_image(&two, words, SIZE)?;
    let model = System::Kernel(KERNEL_OPTIONS.into()).mount(&one)?;
    let other = system.mount(&two)?;
    let begun = std::fs::metadata(other.path()).map_or(0, |root| root.mtime());
    let lived = live(model.path(), other.path(), life)?;
    let mut options = Options::same_image();
    // Where data is, is decided when it is written out.
    options.fields.remove(&Field::Holes);
    let before = walk(&other.path().join(FOLDER), options.depth(), &options.excluded)?;
    model.unmount()?;
    other.unmount()?;
    e2fsck_but_advice(&one)?;
    e2fsck_but_advice(&two)?;
    let again = mount_loop(&two, Access::ReadOnly, "")?;
    let after = walk(&again.path().join(FOLDER), options.depth(), &options.excluded)?;
    let level = |entries: Vec<Entry>| entries.into_iter().map(|entry| levelled(entry, begun));
    let (before, after): (Vec<Entry>, Vec<Entry>) =
        (level(before).collect(), level(after).collect());
    let found = compare::entries(&before, &after, &options);
    let lines: Vec<String> = found.iter().take(20).map(ToString::to_string).collect();
    if lines.is_empty() {
        return Ok(lived);
    }
    Err(format!(
        "seed {}: unmounted and mounted by the kernel:\n{}\nall operations: {}",
        life.seed,
        lines.join("\n"),
        kept(life, &lived.operations)
    ))
}

/// The entry, with times of the life all alike: the kernel above FUSE reads a clock of its own, up
/// to a tick late, and what it noted of a file it sends when it writes the file back.
fn levelled(mut entry: Entry, begun: i64) -> Entry {
    for time in [&mut entry.atime, &mut entry.mtime, &mut entry.ctime] {
        if time.0 >= begun {
            *time = (begun, 0);
        }
    }
    entry.crtime = None;
    entry
}
