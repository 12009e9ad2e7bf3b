//! Twins: one life of system calls, lived in two trees on two file systems at the same time. The
//! answers are the same after each call, and so are the trees in the end.
//!
//! ```text
//! operation   a step of a life
//! draw        which one comes next, from a seed
//! caller      whose identity a call is made with
//! mapped      files in memory
//! tree        a tree, and what its file system answers
//! differences what may differ, and why
//! volumes     a life beside the kernel's, and what is left of it in the image
//! ```

mod caller;
mod differences;
mod draw;
mod mapped;
mod operation;
mod tree;
mod volumes;

pub use caller::Users;
pub use differences::{DIFFERENCES, Difference, order_of_changes};
pub use volumes::live_beside_kernel;

use std::collections::BTreeMap;
use std::path::Path;

use draw::Draw;
use operation::Operation;
use tree::Tree;

use crate::compare::{self, Field, Grain, Options};

/// Every so many operations, what was made immutable for good becomes mutable again.
const THAW_EVERY: u64 = 1000;
/// Operations shown before the one that was answered differently: the last ones, and those of the
/// same names.
const SHOWN: usize = 8;
const SHOWN_OF_NAMES: usize = 24;
/// The folder of a life at the root of a volume, and what keeps it from being removed.
pub const FOLDER: &str = "life";
const KEPT: &str = "kept";

/// What a life is made of.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// What the operations are drawn from.
    pub seed: u64,
    /// How many there are.
    pub operations: u64,
    /// Who makes them.
    pub users: Users,
}

/// What came of a life without a difference that is not excused.
#[derive(Clone, Debug, Default)]
pub struct Lived {
    /// How many operations did something, rather than fail alike.
    pub succeeded: u64,
    /// How many failed alike, by their error.
    pub failed: BTreeMap<String, u64>,
    /// Of each of [`DIFFERENCES`], how often it was met.
    pub excused: Vec<u64>,
    /// Entries whose times of change have another order than in the model: told, and no failure.
    pub reordered: Vec<String>,
    /// The operations and their answers.
    pub operations: Vec<String>,
}

/// Lives in the folder [`FOLDER`] of both volumes, mounted at `left` (the model) and `right`, and
/// compares the trees at the end. No file is open then.
///
/// # Errors
/// The first operation that was not answered alike, with those before it; or what differs between
/// the trees; or the harness fails.
pub fn live(left: &Path, right: &Path, life: Life) -> Result<Lived, String> {
    let (left, right) = (left.join(FOLDER), right.join(FOLDER));
    let mut trees = [prepare(&left)?, prepare(&right)?];
    let mut draw = Draw::new(life.seed, life.users);
    let mut lived = Lived { excused: vec![0; DIFFERENCES.len()], ..Lived::default() };
    let mut done: Vec<String> = Vec::new();
    for number in 0..life.operations {
        let operation = draw.next();
        let [model, other] = &mut trees;
        let (expected, answer) = (model.perform(&operation)?, other.perform(&operation)?);
        match expected.text.starts_with("error") {
            true => *lived.failed.entry(expected.text.clone()).or_default() += 1,
            false => lived.succeeded += 1,
        }
        done.push(format!("{number}: {operation} = {}", shown(&expected.text)));
        if expected != answer {
            match DIFFERENCES.iter().position(|known| known.excuses(&operation, &expected, &answer))
            {
                Some(row) => lived.excused[row] += 1,
                None => return Err(different(life, &done, &operation, &expected, &answer)),
            }
        }
        if number % THAW_EVERY == THAW_EVERY - 1 {
            trees.iter().for_each(Tree::thaw);
        }
    }
    for tree in &mut trees {
        tree.close_all();
        tree.thaw();
    }
    if let Err(error) = compare_trees(&left, &right) {
        return Err(format!("seed {}: {error}\nall operations: {}", life.seed, kept(life, &done)));
    }
    lived.operations = done;
    lived.reordered = order_of_changes(&left, &right)?;
    Ok(lived)
}

fn prepare(root: &Path) -> Result<Tree, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", root.display());
    std::fs::create_dir(root).map_err(fail)?;
    std::fs::write(root.join(KEPT), "kept").map_err(fail)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(root, mode).map_err(fail)?;
    Tree::at(root)
}

fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 160;
    text.chars().take(SHOWN_MAX).collect()
}

fn different(
    life: Life,
    done: &[String],
    operation: &Operation,
    expected: &tree::Answer,
    answer: &tree::Answer,
) -> String {
    let names = operation.call.names();
    let is_near = |line: &&String| {
        names
            .iter()
            .any(|name| line.contains(&format!(" {name},")) || line.contains(&format!(" {name} ")))
    };
    let mut of_names: Vec<&str> =
        done.iter().rev().filter(is_near).take(SHOWN_OF_NAMES).map(String::as_str).collect();
    of_names.reverse();
    let last = &done[done.len().saturating_sub(SHOWN)..];
    let bytes = expected.bytes.iter().zip(&answer.bytes).position(|(one, other)| one != other);
    let place = match bytes {
        Some(at) => format!("; bytes differ from {at} of {}", expected.bytes.len()),
        None if expected.bytes.len() != answer.bytes.len() => {
            format!("; {} bytes against {}", expected.bytes.len(), answer.bytes.len())
        }
        None => String::new(),
    };
    format!(
        "seed {}: {operation}\n  model: {}\n  other: {}{place}\n\
         of these names:\n{}\nthe last operations:\n{}\nall of them: {}",
        life.seed,
        expected.text,
        answer.text,
        of_names.join("\n"),
        last.join("\n"),
        kept(life, done)
    )
}

/// Where the log of a life that failed is.
fn kept(life: Life, done: &[String]) -> String {
    let log = std::env::temp_dir().join(format!("extant-twins-{}.log", life.seed));
    match std::fs::write(&log, done.join("\n")) {
        Ok(()) => log.display().to_string(),
        Err(error) => error.to_string(),
    }
}

/// What is equal in the end. Times that the life set are compared while it lives.
fn compare_trees(left: &Path, right: &Path) -> Result<(), String> {
    use Field::*;
    let fields =
        [Mode, Owner, Size, Links, DirectoryLinks, HardLinks, Device, Target, Attributes, Bytes];
    let options = Options {
        fields: fields.into_iter().collect(),
        grain: Grain::Nanosecond,
        excluded: Default::default(),
    };
    // Linux 6.18 shows a hole where data waits for its blocks on ext4 of small blocks.
    for root in [left, right] {
        let folder = std::fs::File::open(root).map_err(|error| error.to_string())?;
        rustix::fs::syncfs(folder).map_err(|error| error.to_string())?;
    }
    let differences = compare::trees(left, right, &options)?;
    let lines: Vec<String> = differences.iter().map(ToString::to_string).take(20).collect();
    if lines.is_empty() { Ok(()) } else { Err(format!("trees differ:\n{}", lines.join("\n"))) }
}
