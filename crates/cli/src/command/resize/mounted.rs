//! A volume that is mounted gets longer, by who has mounted it.
use super::{Arguments, Document, Wanted};
use extant_host::closed::Room;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::mounted::{Extent, Mounted};
use extant_host::recovery::counted;

/// Makes it longer, and says what came of it.
///
/// # Errors
/// It is to become shorter, or does not grow there; words for volumes that are not mounted.
pub(super) fn resize(
    arguments: &Arguments,
    mounted: &Mounted,
    console: &Console,
) -> Result<Exit, Error> {
    let shown = arguments.image.display().to_string();
    let folder = mounted.mount.folder.display();
    let refused = |why: &str| {
        Error::new(format!("{shown}: is mounted on {folder}, where {why}"))
            .hint(format!("extant umount {folder}, and extant resize then"))
    };
    if arguments.partition {
        return Err(refused("the end of its partition does not move"));
    }
    if arguments.size == Wanted::Min {
        return Err(refused("it gets longer and not shorter"));
    }
    if mounted.is_read_only() {
        return Err(refused("it is read-only"));
    }
    let extent = mounted.extent().map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(0);
        let refusal = extant_host::mounted::Refusal { errno, reason: String::new() };
        match errno {
            0 => Error::io(&shown, &error),
            _ => mounted.failure(&shown, &refusal),
        }
    })?;
    let block_size = u64::from(extent.block_size);
    let room = Room { bytes: extent.room_bytes, can_grow: true };
    let blocks = arguments.size.blocks(extent.blocks, block_size, room);
    let blocks = blocks.ok_or_else(|| Error::usage("SIZE: is too large"))?;
    if blocks < extent.blocks && arguments.size != Wanted::Max {
        return Err(refused("it gets longer and not shorter"));
    }
    let blocks = blocks.max(extent.blocks);
    let after = match arguments.dry_run || blocks == extent.blocks {
        true => blocks,
        false => mounted.grow(blocks).map_err(|refusal| mounted.failure(&shown, &refusal))?,
    };
    told(arguments, extent, after, console)
}

/// Says what was done, or would be.
fn told(
    arguments: &Arguments,
    extent: Extent,
    after: u64,
    console: &Console,
) -> Result<Exit, Error> {
    let shown = arguments.image.display();
    let (before, block_size) = (extent.blocks, extent.block_size);
    if console.is_json() {
        console.print_json(
            "extant-resize/1",
            &Document {
                image: shown.to_string(),
                dry_run: arguments.dry_run,
                block_size,
                blocks_before: before,
                blocks_after: after,
                mounted: true,
                ..Document::default()
            },
        )?;
        return Ok(Exit::Complete);
    }
    if before == after {
        console.report(&format!("{shown}: has {} already\n", counted(after, "block")))?;
        return Ok(Exit::Complete);
    }
    let verb = if arguments.dry_run { "would have" } else { "has" };
    let blocks = counted(after, "block");
    let line = format!("{shown}: {verb} {blocks} of {block_size} bytes, before {before}; mounted");
    console.report(&format!("{line}\n"))?;
    Ok(Exit::Complete)
}
