//! The end of a mount for users that do not end.
use super::connection::end_connection;
use super::errand;
use extant_mount::transport::{Detach, detach};
use std::io;
use std::path::Path;

/// How often a server is given time to answer what the kernel has asked, before it is cut off.
const PAUSES_MAX: u32 = 100;
/// After this many pauses without a request the kernel has no more to say.
const QUIET_PAUSES: u32 = 3;

/// Ends the connection of a mount whose users do not end: their calls fail from now on. Changes
/// that the kernel holds reach the server first: it is asked to write them, and `answered` (the
/// number of requests so far) then rests for some pauses.
///
/// # Errors
/// Those of the host: neither `/sys/fs/fuse/connections` nor unmounting by force is there for us.
pub fn abort(
    folder: &Path,
    device: u64,
    answered: impl Fn() -> u64,
    pause: impl Fn(),
) -> io::Result<()> {
    errand::send(folder, device)?;
    // syncfs starts what it does not wait for.
    let (mut before, mut quiet) = (answered(), 0);
    for _ in 0..PAUSES_MAX {
        pause();
        let now = answered();
        quiet = if now == before { quiet + 1 } else { 0 };
        before = now;
        if quiet == QUIET_PAUSES {
            break;
        }
    }
    end_connection(folder, device)?;
    // Who looks there afterwards sees the folder below, not a dead mount.
    let _ = detach(folder, Detach::Lazy);
    Ok(())
}
