//! Volumes that are mended, that this is taken back, that are made ready for use, and that get
//! another size.
use crate::failure::os_error;
use crate::image::unopened;
use crate::shared::{Shared, Source};
use crate::task::{self, Left};
use extant::{CheckWhen, Healed, KeepUndo, NewSize, Repaired, Scope, Scrub, Written};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// What was done as JSON, the path of the undo file, and the bytes of an image of bytes that was
/// changed.
type Mended<'py> = (String, Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>);

/// What was done, before Python has it.
struct Done {
    facts: Value,
    blocks: u64,
    undo: Option<PathBuf>,
}

impl Done {
    fn of(repaired: Repaired) -> Done {
        let facts = facts(&repaired);
        Done { facts, blocks: repaired.blocks, undo: repaired.undo }
    }

    fn told<'py>(self, py: Python<'py>, shared: &Shared) -> Mended<'py> {
        let bytes = match &shared.source {
            Source::Memory(memory) if self.blocks > 0 => Some(py.detach(|| memory.to_vec())),
            _ => None,
        };
        let undo = self.undo.as_ref().map(|path| PyBytes::new(py, path.as_os_str().as_bytes()));
        (self.facts.to_string(), undo, bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }
}

fn facts(repaired: &Repaired) -> Value {
    json!({
        "exit_code": repaired.exit_code(),
        "is_clean": repaired.is_clean(),
        "changes": repaired.changes,
        "omitted": repaired.omitted,
        "rounds": repaired.rounds,
        "found": repaired.found,
        "left": repaired.left,
        "blocks": repaired.blocks,
    })
}

fn scope_of(word: &str) -> PyResult<Scope> {
    match word {
        "preen" => Ok(Scope::Preen),
        "safe" => Ok(Scope::Safe),
        "all" => Ok(Scope::All),
        _ => Err(os_error(22, &format!("scope {word:?}: there are preen, safe and all"))),
    }
}

/// Mends an image: `keep`s what was there before, `discard`s it, or says only (`dry`) what it would
/// do.
#[pyfunction]
pub fn repair<'py>(
    py: Python<'py>,
    kind: &str,
    place: &Bound<'_, PyAny>,
    wishes: &Bound<'_, PyDict>,
    scope: &str,
    how: &str,
) -> PyResult<Mended<'py>> {
    let scope = scope_of(scope)?;
    let keep = match how {
        "dry" => None,
        "keep" => Some(KeepUndo::Keep),
        _ => Some(KeepUndo::Discard),
    };
    // What only reads may go on alone.
    let left = if keep.is_none() { Left::Alone } else { Left::Ended };
    let shared = Arc::new(unopened(py, kind, place, wishes)?);
    let done = worked(py, &shared, left, move |shared| {
        let repaired = match keep {
            None => shared.options.would_repair(shared.image(), scope),
            Some(keep) => shared.options.repair(shared.image(), scope, keep),
        };
        Ok(Done::of(repaired?))
    })?;
    Ok(done.told(py, &shared))
}

/// Takes the last repair back: how many blocks that were.
#[pyfunction]
pub fn undo(
    py: Python<'_>,
    kind: &str,
    place: &Bound<'_, PyAny>,
    wishes: &Bound<'_, PyDict>,
) -> PyResult<u64> {
    let shared = Arc::new(unopened(py, kind, place, wishes)?);
    worked(py, &shared, Left::Ended, |shared| shared.options.undo(shared.image()))
}

/// Makes an image ready for use. It is checked `always`, or if it is `doubted`; what was there
/// before is as for [`repair`].
#[pyfunction]
pub fn heal<'py>(
    py: Python<'py>,
    kind: &str,
    place: &Bound<'_, PyAny>,
    wishes: &Bound<'_, PyDict>,
    when: &str,
    how: &str,
) -> PyResult<Mended<'py>> {
    let when = if when == "always" { CheckWhen::Always } else { CheckWhen::Doubted };
    let keep = if how == "keep" { KeepUndo::Keep } else { KeepUndo::Discard };
    let shared = Arc::new(unopened(py, kind, place, wishes)?);
    let done = worked(py, &shared, Left::Ended, move |shared| {
        Ok(match shared.options.heal(shared.image(), when, keep)? {
            Healed::Clean => Done { facts: json!({"state": "clean"}), blocks: 0, undo: None },
            Healed::Recovered(Written { blocks, undo }) => {
                Done { facts: json!({"state": "recovered", "blocks": blocks}), blocks, undo }
            }
            Healed::Repaired(reason, repaired) => {
                let Done { facts, blocks, undo } = Done::of(*repaired);
                let facts = json!({"state": "repaired", "reason": reason, "repaired": facts});
                Done { facts, blocks, undo }
            }
        })
    })?;
    Ok(done.told(py, &shared))
}

/// Gives an image another size: at most these bytes, or a word, `min` or `max`; `dry` only says
/// what it would do.
#[pyfunction]
pub fn resize<'py>(
    py: Python<'py>,
    kind: &str,
    place: &Bound<'_, PyAny>,
    wishes: &Bound<'_, PyDict>,
    size: &Bound<'_, PyAny>,
    how: &str,
) -> PyResult<(String, Option<Bound<'py, PyBytes>>)> {
    let size = match size.extract::<String>() {
        Ok(word) if word == "min" => NewSize::Least,
        Ok(word) if word == "max" => NewSize::Most,
        Ok(word) => return Err(os_error(22, &format!("size {word:?}: there are min and max"))),
        Err(_) => NewSize::Bytes(size.extract()?),
    };
    let is_dry = how == "dry";
    let left = if is_dry { Left::Alone } else { Left::Ended };
    let shared = Arc::new(unopened(py, kind, place, wishes)?);
    let done = worked(py, &shared, left, move |shared| match is_dry {
        true => shared.options.would_resize(shared.image(), size),
        false => shared.options.resize(shared.image(), size),
    })?;
    let facts = json!({
        "block_size": done.block_size,
        "blocks_before": done.blocks_before,
        "blocks_after": done.blocks_after,
        "blocks_moved": done.blocks_moved,
        "blocks": done.blocks,
    });
    let bytes = match &shared.source {
        Source::Memory(memory) if done.blocks > 0 => Some(py.detach(|| memory.to_vec())),
        _ => None,
    };
    Ok((facts.to_string(), bytes.map(|bytes| PyBytes::new(py, &bytes))))
}

/// Makes holes of the free blocks of an image, and with `stale` cleans what was deleted; `dry` only
/// says what it would do.
#[pyfunction]
pub fn trim<'py>(
    py: Python<'py>,
    kind: &str,
    place: &Bound<'_, PyAny>,
    wishes: &Bound<'_, PyDict>,
    words: (String, String),
) -> PyResult<(String, Option<Bound<'py, PyBytes>>)> {
    let (scrub, how) = words;
    let scrub = if scrub == "stale" { Scrub::Stale } else { Scrub::Nothing };
    let is_dry = how == "dry";
    let left = if is_dry { Left::Alone } else { Left::Ended };
    let shared = Arc::new(unopened(py, kind, place, wishes)?);
    let done = worked(py, &shared, left, move |shared| match is_dry {
        true => shared.options.would_trim(shared.image(), scrub),
        false => shared.options.trim(shared.image(), scrub),
    })?;
    let facts = json!({
        "block_size": done.block_size,
        "free_blocks": done.free_blocks,
        "unread_blocks": done.unread_blocks,
        "blocks": done.blocks,
        "emptied_bytes": done.emptied_bytes,
    });
    let bytes = match &shared.source {
        Source::Memory(memory) if !is_dry => Some(py.detach(|| memory.to_vec())),
        _ => None,
    };
    Ok((facts.to_string(), bytes.map(|bytes| PyBytes::new(py, &bytes))))
}

/// Writes an image, laid out anew, to a new file: canonical, or with these paths first.
#[pyfunction]
pub fn remake(
    py: Python<'_>,
    kind: &str,
    place: &Bound<'_, PyAny>,
    wishes: &Bound<'_, PyDict>,
    words: (PathBuf, Option<Vec<PathBuf>>),
) -> PyResult<String> {
    let (out, first) = words;
    let shared = Arc::new(unopened(py, kind, place, wishes)?);
    let done = worked(py, &shared, Left::Alone, move |shared| match &first {
        None => shared.options.normalize(shared.image(), &out),
        Some(first) => shared.options.repack(shared.image(), &out, first),
    })?;
    Ok(json!({
        "bytes": done.bytes,
        "block_size": done.block_size,
        "blocks": done.blocks,
        "free_blocks": done.free_blocks,
        "inodes": done.inodes,
        "free_inodes": done.free_inodes,
        "warnings": done.warnings,
    })
    .to_string())
}

/// Changes an image as these words of tune2fs say; `dry` only says what it would do.
#[pyfunction]
pub fn tune<'py>(
    py: Python<'py>,
    kind: &str,
    place: &Bound<'_, PyAny>,
    wishes: &Bound<'_, PyDict>,
    words: Vec<String>,
    how: &str,
) -> PyResult<(String, Option<Bound<'py, PyBytes>>)> {
    let is_dry = how == "dry";
    let left = if is_dry { Left::Alone } else { Left::Ended };
    let shared = Arc::new(unopened(py, kind, place, wishes)?);
    let done = worked(py, &shared, left, move |shared| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let asked = extant::tunings(&words)?;
        match is_dry {
            true => shared.options.would_tune(shared.image(), &asked),
            false => shared.options.tune(shared.image(), &asked),
        }
    })?;
    let changes = done.changes.iter();
    let changes = changes.map(|it| json!([it.what, it.before, it.after])).collect::<Vec<_>>();
    let facts = json!({"changes": changes, "blocks": done.blocks});
    let bytes = match &shared.source {
        Source::Memory(memory) if done.blocks > 0 => Some(py.detach(|| memory.to_vec())),
        _ => None,
    };
    Ok((facts.to_string(), bytes.map(|bytes| PyBytes::new(py, &bytes))))
}

/// Works with an image that is not open, in a thread of its own.
fn worked<T: Send + 'static>(
    py: Python<'_>,
    shared: &Arc<Shared>,
    left: Left,
    work: impl FnOnce(&Shared) -> extant::Result<T> + Send + 'static,
) -> PyResult<T> {
    let working = Arc::clone(shared);
    let result = task::run(py, None, left, move |_| work(&working))?;
    shared.told(py, Some(result))
}
