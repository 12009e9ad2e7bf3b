//! Read-ahead of Linux 2.6 up to 2.6.22, as "Understanding the Linux Kernel" (third edition,
//! chapter 16, "Read-Ahead of Files") describes it: a *current* window, in which reads happen, and
//! an *ahead* window after it, which is being read in the meantime.
//!
//! A read that enters the ahead window makes it the current one, and asks for a new, longer one
//! after it. A window has at most 128 KiB (32 pages). If memory was too small to keep what was read
//! ahead, two pages fewer, but at least 16 KiB.
use super::{Access, PAGE_BYTES, ReadAhead, ReadStream, first_window, next_window};
use std::ops::Range;

const BYTES_MIN: u32 = 16 << 10;
const BYTES_MAX: u32 = 128 << 10;

/// Two windows of at most 128 KiB.
pub struct Linux26;

impl ReadAhead for Linux26 {
    /// `mark` is where the ahead window begins, `ahead` where it ends. Both are equal if there is
    /// none.
    fn window(&self, stream: &mut ReadStream, access: &Access) -> Option<Range<u32>> {
        let most = access.blocks_of(BYTES_MAX);
        let goes_on = stream.continues(access);
        let was_lost =
            goes_on && !access.cached && stream.covers(access) && access.block < stream.ahead;
        stream.next = access.end();
        if !goes_on {
            stream.size = 0;
            return None;
        }
        if stream.size == 0 {
            return open(stream, access, most);
        }
        let enters = access.end() > stream.mark;
        if !enters && stream.ahead > stream.mark {
            return None;
        }
        let size =
            if was_lost { shorter(stream.size, access) } else { next_window(stream.size, most) };
        let from = stream.ahead.max(access.end());
        let window = access.within_file(from..from.saturating_add(size))?;
        if enters {
            (stream.start, stream.mark) = (stream.mark, window.start);
        }
        (stream.size, stream.ahead) = (size, window.end);
        Some(window)
    }
}

/// The first current window, which includes what is wanted. If it has nothing more, the ahead
/// window is added at once.
fn open(stream: &mut ReadStream, access: &Access, most: u32) -> Option<Range<u32>> {
    let size = first_window(access, most);
    stream.start = access.block;
    stream.size = size;
    stream.mark = access.block.saturating_add(size).max(access.end());
    stream.ahead = stream.mark;
    if access.end() < stream.mark {
        return access.within_file(access.end()..stream.mark);
    }
    let window = access.within_file(stream.mark..stream.mark.saturating_add(size))?;
    stream.ahead = window.end;
    Some(window)
}

fn shorter(size: u32, access: &Access) -> u32 {
    size.saturating_sub(access.blocks_of(2 * PAGE_BYTES)).max(access.blocks_of(BYTES_MIN))
}
