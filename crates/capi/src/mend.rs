//! Volumes that are mended, that this is taken back, that are made ready for use, that get another
//! size, and of which label, UUID, features or the like are changed.
use crate::check::{Codes, Found, Report};
use crate::failure::{Failure, Result};
use crate::handle::{self, Handle, handles, on};
use crate::pointer;
use crate::sized;
use crate::structs::{
    EXTANT_CHECK_ALWAYS, EXTANT_CLEAN, EXTANT_DRY_RUN, EXTANT_KEEP_UNDO, EXTANT_NO_UNDO,
    EXTANT_RECOVERED, EXTANT_REPAIRED, EXTANT_SIZE_BYTES, EXTANT_SIZE_LEAST, EXTANT_SIZE_MOST,
    HealOptions, OpenOptions, Outcome, Problem, RepairOptions, ResizeOptions, Resized, known,
    unused,
};
use extant::{Change, CheckWhen, Healed, KeepUndo, NewSize, Repaired, Written};
use std::ffi::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What came of mending a volume.
pub struct Mended {
    handle: Handle<Done>,
}
handles!(Mended: Done);

/// The same, and the names of its codes for C.
pub struct Done {
    healed: Healed,
    codes: Codes,
}

impl Done {
    fn new(healed: Healed) -> Done {
        let changes = repaired(&healed).map_or(&[][..], |repaired| &repaired.changes);
        let codes = Codes::of(changes.iter().map(|change| &change.problem));
        Done { healed, codes }
    }

    fn change(&self, index: usize) -> Result<&Change> {
        let changes = repaired(&self.healed).map_or(&[][..], |repaired| &repaired.changes);
        changes.get(index).ok_or_else(|| Failure::invalid(format!("there is no change {index}")))
    }

    fn undo(&self) -> Option<&Path> {
        match &self.healed {
            Healed::Clean => None,
            Healed::Recovered(Written { undo, .. }) => undo.as_deref(),
            Healed::Repaired(_, repaired) => repaired.undo.as_deref(),
        }
    }

    fn outcome(&self) -> Outcome {
        let zeros = Outcome { struct_size: size_of::<Outcome>(), ..sized::zeroed() };
        match &self.healed {
            Healed::Clean => Outcome { state: EXTANT_CLEAN, ..zeros },
            Healed::Recovered(written) => {
                Outcome { state: EXTANT_RECOVERED, blocks: written.blocks, ..zeros }
            }
            Healed::Repaired(_, repaired) => Outcome {
                state: EXTANT_REPAIRED,
                exit_code: repaired.exit_code().into(),
                changes: repaired.changes.len() as u64,
                omitted: repaired.omitted,
                rounds: repaired.rounds.into(),
                blocks: repaired.blocks,
                ..zeros
            },
        }
    }
}

fn repaired(healed: &Healed) -> Option<&Repaired> {
    match healed {
        Healed::Repaired(_, repaired) => Some(repaired),
        Healed::Clean | Healed::Recovered(_) => None,
    }
}

/// Mends a volume, in memory first, and writes it as one change: a crash leaves it as it was or
/// mended. What the scope does not allow is left, and in extant_mended_left. What was there before
/// is kept beside the image for extant_undo. `options` may be NULL, and its access is not looked
/// at; `how` may be NULL. The handle ends with extant_mended_close. Where the call fails nothing
/// was written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_repair(
    path: *const c_char,
    options: *const OpenOptions,
    how: *const RepairOptions,
    mended: *mut *mut Mended,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::begin(mended, || {
            let path = pointer::path(path, "path")?;
            let options = sized::read(options)?.options()?;
            let how = sized::read(how)?;
            let scope = how.scope()?;
            let keep = match how.flags & EXTANT_NO_UNDO {
                0 => KeepUndo::Keep,
                _ => KeepUndo::Discard,
            };
            let repaired = match how.flags & EXTANT_DRY_RUN {
                0 => options.repair(path, scope, keep)?,
                _ => options.would_repair(path, scope)?,
            };
            Ok(Done::new(Healed::Repaired(String::new(), Box::new(repaired))))
        })
    }
}

/// Takes the last repair of an image back: its blocks are to the byte what they were. `blocks` is
/// set to how many those are, 0 where they were already, and may be NULL. Fails where there is none
/// to undo, and where the volume was changed since. `options` as for extant_repair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_undo(
    path: *const c_char,
    options: *const OpenOptions,
    blocks: *mut u64,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::call(|| {
            let path = pointer::path(path, "path")?;
            let options = sized::read(options)?.options()?;
            pointer::put(blocks, options.undo(path)?);
            Ok(())
        })
    }
}

/// Makes a volume ready for use, for the moment before a machine boots from it: nothing for one
/// that is clean, which costs a read of its superblock; recovery for one that was not unmounted; a
/// check, and a repair that loses nothing, where there is a reason to doubt it. `options` as for
/// extant_repair; `how` may be NULL. The handle ends with extant_mended_close. Where the call fails
/// nothing was written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_heal(
    path: *const c_char,
    options: *const OpenOptions,
    how: *const HealOptions,
    mended: *mut *mut Mended,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::begin(mended, || {
            let path = pointer::path(path, "path")?;
            let options = sized::read(options)?.options()?;
            let how = sized::read(how)?;
            known(how.flags, EXTANT_CHECK_ALWAYS | EXTANT_KEEP_UNDO)?;
            unused(how.reserved, "extant_heal_options")?;
            let when = match how.flags & EXTANT_CHECK_ALWAYS {
                0 => CheckWhen::Doubted,
                _ => CheckWhen::Always,
            };
            let keep = match how.flags & EXTANT_KEEP_UNDO {
                0 => KeepUndo::Discard,
                _ => KeepUndo::Keep,
            };
            Ok(Done::new(options.heal(path, when, keep)?))
        })
    }
}

/// Gives a volume another size, in memory first, and writes it as one change: a crash leaves it as
/// it was or as it is to be. A journal that waits and orphans are brought to an end before. A file
/// that ends with the volume becomes longer or shorter with it. `options` as for extant_repair;
/// `how` may not be NULL; `resized` is filled with what came of it, and may be NULL. Where the call
/// fails the volume is as it was: EUCLEAN for one that is not clean, ENOSPC where its files need
/// more, or where it is in has no room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_resize(
    path: *const c_char,
    options: *const OpenOptions,
    how: *const ResizeOptions,
    resized: *mut Resized,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::call(|| {
            let path = pointer::path(path, "path")?;
            let options = sized::read(options)?.options()?;
            if how.is_null() {
                return Err(Failure::invalid("how is NULL"));
            }
            let how = sized::read(how)?;
            known(how.flags, EXTANT_DRY_RUN)?;
            let size = match how.wanted {
                EXTANT_SIZE_BYTES => NewSize::Bytes(how.size),
                EXTANT_SIZE_LEAST => NewSize::Least,
                EXTANT_SIZE_MOST => NewSize::Most,
                other => return Err(Failure::invalid(format!("size {other} is unknown"))),
            };
            let room = if resized.is_null() { None } else { Some(sized::room(resized)?) };
            let done = match how.flags & EXTANT_DRY_RUN {
                0 => options.resize(path, size)?,
                _ => options.would_resize(path, size)?,
            };
            if let Some(room) = room {
                room.fill(&Resized {
                    struct_size: size_of::<Resized>(),
                    block_size: done.block_size.into(),
                    blocks_before: done.blocks_before,
                    blocks_after: done.blocks_after,
                    blocks_moved: done.blocks_moved,
                    blocks: done.blocks,
                });
            }
            Ok(())
        })
    }
}

/// Changes what a volume says of itself and has of its own, in memory first, and writes it as one
/// change: a crash leaves it as it was or as it is to be. `words` are those of tune2fs, letters and
/// values apart, one a string, `count` of them: "-L", "root", "-O", "^has_journal". Users and
/// groups are numbers. `options` as for extant_repair; `flags` are 0 or EXTANT_DRY_RUN. `blocks`
/// becomes how many were written through the log, and may be NULL. Where the call fails the volume
/// is as it was: EUCLEAN for one that is not clean, EOPNOTSUPP for what it cannot have, EINVAL for
/// words that say nothing; extant_error has why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_tune(
    path: *const c_char,
    options: *const OpenOptions,
    words: *const *const c_char,
    count: usize,
    flags: u32,
    blocks: *mut u64,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::call(|| {
            let path = pointer::path(path, "path")?;
            let options = sized::read(options)?.options()?;
            if words.is_null() {
                return Err(Failure::invalid("words is NULL"));
            }
            known(flags, EXTANT_DRY_RUN)?;
            let words: Result<Vec<&str>> =
                (0..count).map(|at| pointer::words(*words.add(at), "a word")).collect();
            let asked = extant::tunings(&words?)?;
            let done = match flags & EXTANT_DRY_RUN {
                0 => options.tune(path, &asked)?,
                _ => options.would_tune(path, &asked)?,
            };
            if !blocks.is_null() {
                *blocks = done.blocks;
            }
            Ok(())
        })
    }
}

/// What came of it, in numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_mended_outcome(
    mended: *const Mended,
    outcome: *mut Outcome,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(mended, |done| {
            sized::room(outcome)?.fill(&done.outcome());
            Ok(())
        })
    }
}

/// One problem that was mended, or would be, in the order in which they were: what it is, and a
/// line about it, cut to `size` bytes with the NUL. `problem` and `buffer` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_mended_change(
    mended: *const Mended,
    index: usize,
    problem: *mut Problem,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(mended, |done| done.codes.tell(&done.change(index)?.problem, problem, (buffer, size)))
    }
}

/// What was lost by mending it, in words, cut to `size` bytes with the NUL: bytes of a file, a
/// name, an attribute. No words where nothing was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_mended_loss(
    mended: *const Mended,
    index: usize,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(mended, |done| {
            let loss = done.change(index)?.loss.as_deref();
            pointer::put_words(loss.unwrap_or_default(), buffer, size);
            Ok(())
        })
    }
}

/// Why extant_heal checked the volume, cut to `size` bytes with the NUL. No words where it did not,
/// and after extant_repair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_mended_reason(
    mended: *const Mended,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(mended, |done| {
            let reason = match &done.healed {
                Healed::Repaired(reason, _) => reason,
                Healed::Clean | Healed::Recovered(_) => "",
            };
            pointer::put_words(reason, buffer, size);
            Ok(())
        })
    }
}

/// The last check: what is left. A volume that was not checked is EINVAL. The report ends with
/// extant_report_close, before or after `mended`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_mended_left(
    mended: *const Mended,
    report: *mut *mut Report,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::begin_on(mended, report, |done| {
            let none = || Failure::invalid("the volume was not checked");
            Ok(Found::new(repaired(&done.healed).ok_or_else(none)?.left.clone()))
        })
    }
}

/// The path of the file with the bytes before, without a NUL; `length` is 0 where none are kept. As
/// for extant_readlink.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_mended_undo(
    mended: *const Mended,
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(mended, |done| {
            let path = done.undo().map_or(&[][..], |path| path.as_os_str().as_bytes());
            pointer::put_bytes(path, buffer.cast(), size, length)
        })
    }
}

/// Ends it. NULL is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_mended_close(mended: *mut Mended) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::end(mended, |done| {
            drop(done);
            Ok(())
        })
    }
}
