//! What may differ between the kernel's ext4 and a file system behind FUSE, and why.

use std::path::Path;

use super::operation::Operation;
use super::tree::Answer;
use crate::walk::{Depth, walk};

/// A difference that is not a fault.
pub struct Difference {
    /// What differs, and why.
    pub reason: &'static str,
    is_met: fn(&Operation, &Answer, &Answer) -> bool,
}

impl Difference {
    /// Whether this is why the second answer is not the first.
    pub fn excuses(&self, operation: &Operation, model: &Answer, other: &Answer) -> bool {
        (self.is_met)(operation, model, other)
    }
}

/// Every difference that is known. What no life asks for, since FUSE never forwards it, is not
/// here: fallocate that collapses or inserts ranges, direct transfers of less than a page, writing
/// to a file that became immutable while it was open, times and modes of open pipes, `chattr +S`
/// and `+D`, which the engine refuses.
pub const DIFFERENCES: &[Difference] = &[Difference {
    reason: "a folder is immutable or append-only: the kernel above FUSE does not know, and looks \
        for other errors before it asks",
    is_met: |_, model, other| {
        model.text == "error 1" && other.text.starts_with("error ") && other.text != "error 1"
    },
}];

/// Two entries changed in another order in one tree than in the other: an inode's time of change
/// was set where it should not be, or was not set. Clocks are read at each change, so that the
/// times themselves differ, and the kernel's own clock for that is up to 10 ms late.
///
/// # Errors
/// A tree cannot be read.
pub fn order_of_changes(left: &Path, right: &Path) -> Result<Vec<String>, String> {
    const LATE_NS: i128 = 20_000_000;
    let nanoseconds =
        |(seconds, rest): (i64, u32)| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    let read = |root: &Path| walk(root, Depth::default(), &Default::default());
    let (model, other) = (read(left)?, read(right)?);
    let mut pairs: Vec<(i128, i128, &Path)> = Vec::new();
    for (one, two) in model.iter().zip(&other).filter(|(one, two)| one.path == two.path) {
        pairs.push((nanoseconds(one.ctime), nanoseconds(two.ctime), &one.path));
    }
    pairs.sort_unstable();
    let mut found = Vec::new();
    // The latest change so far in the other tree, of those clearly before this one in the model.
    let mut latest: Option<(i128, &Path)> = None;
    let mut before = 0;
    for (at, in_other, path) in &pairs {
        while pairs[before].0 + LATE_NS < *at {
            if latest.is_none_or(|(latest, _)| pairs[before].1 > latest) {
                latest = Some((pairs[before].1, pairs[before].2));
            }
            before += 1;
        }
        if let Some((latest, earlier)) = latest
            && latest > in_other + LATE_NS
        {
            found.push(format!(
                "{}: changed {} ms after {} in the model or later, {} ms before it in the other",
                path.display(),
                LATE_NS / 1_000_000,
                earlier.display(),
                (latest - in_other) / 1_000_000
            ));
        }
    }
    Ok(found)
}
