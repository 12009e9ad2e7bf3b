//! Volumes that are rid of what has no meaning, and those that are laid out anew.
use crate::build::filled;
use crate::failure::{Failure, Result};
use crate::handle;
use crate::pointer;
use crate::sized;
use crate::structs::{Built, EXTANT_DRY_RUN, EXTANT_SCRUB, OpenOptions, Trimmed, known};
use extant::Scrub;
use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};

/// Makes holes of the free blocks of a volume, and with EXTANT_SCRUB cleans blocks in use of what
/// was deleted. A journal that waits and orphans are brought to an end before. What is kept for
/// extant_undo goes. `options` as for extant_repair; `flags` are EXTANT_DRY_RUN and EXTANT_SCRUB;
/// `trimmed` is filled with what came of it, and may be NULL. A crash leaves fewer blocks emptied,
/// and nothing else. A volume that is refused is as it was: EUCLEAN for one that is not clean,
/// EINVAL for one whose journal is on another device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_trim(
    path: *const c_char,
    options: *const OpenOptions,
    flags: u32,
    trimmed: *mut Trimmed,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::call(|| {
            let path = pointer::path(path, "path")?;
            let options = sized::read(options)?.options()?;
            known(flags, EXTANT_DRY_RUN | EXTANT_SCRUB)?;
            let room = if trimmed.is_null() { None } else { Some(sized::room(trimmed)?) };
            let scrub = match flags & EXTANT_SCRUB {
                0 => Scrub::Nothing,
                _ => Scrub::Stale,
            };
            let done = match flags & EXTANT_DRY_RUN {
                0 => options.trim(path, scrub)?,
                _ => options.would_trim(path, scrub)?,
            };
            if let Some(room) = room {
                room.fill(&Trimmed {
                    struct_size: size_of::<Trimmed>(),
                    block_size: done.block_size.into(),
                    free_blocks: done.free_blocks,
                    unread_blocks: done.unread_blocks,
                    blocks: done.blocks,
                    emptied_bytes: done.emptied_bytes,
                });
            }
            Ok(())
        })
    }
}

/// Writes a volume, laid out anew with its own options, to a new file, which has its name only when
/// it is whole: what extant_build made comes out byte for byte if its files are as they were. The
/// file holds the volume alone, and the image is only read. The modify time stands for the other
/// times too. `options` as for extant_repair; `built` may be NULL. EEXIST where `out` is there,
/// EUCLEAN for a volume that is not clean; for what no build makes extant_error says what that is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_normalize(
    path: *const c_char,
    options: *const OpenOptions,
    out: *const c_char,
    built: *mut Built,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        remade(
            (path, options),
            (out, built),
            |options, path, out| Ok(options.normalize(path, out)?),
        )
    }
}

/// Writes a volume, laid out anew, to a new file as extant_normalize does, with what is at `count`
/// paths in front: inodes, directories and data of what a program reads when it starts, in that
/// order. Paths lead through symlinks; what is not there is passed over. `first` may be NULL where
/// `count` is 0. All of its files stays, and the numbers and times of creation of inodes do not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_repack(
    path: *const c_char,
    options: *const OpenOptions,
    out: *const c_char,
    first: *const *const c_char,
    count: usize,
    built: *mut Built,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        remade((path, options), (out, built), |options, path, out| {
            if first.is_null() && count > 0 {
                return Err(Failure::invalid("first is NULL"));
            }
            let first: Result<Vec<PathBuf>> =
                (0..count).map(|at| Ok(pointer::path(*first.add(at), "a path")?.into())).collect();
            Ok(options.repack(path, out, &first?)?)
        })
    }
}

/// Reads what both have of the caller, and fills in what was built.
unsafe fn remade(
    (path, options): (*const c_char, *const OpenOptions),
    (out, built): (*const c_char, *mut Built),
    make: impl FnOnce(extant::Options, &Path, &Path) -> Result<extant::Built>,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::call(|| {
            let path = pointer::path(path, "path")?;
            let options = sized::read(options)?.options()?;
            let out = pointer::path(out, "out")?;
            let room = if built.is_null() { None } else { Some(sized::room(built)?) };
            let made = make(options, path, out)?;
            if let Some(room) = room {
                room.fill(&filled(&made));
            }
            Ok(())
        })
    }
}
