//! Read-ahead of Linux 2.4, as "Understanding the Linux Kernel" (second edition, chapter 15,
//! "Read-Ahead of Files") describes it, with the numbers of the post of 2001: 3 to 31 pages.
//!
//! What was asked for is the *window*; its last part, asked for at once, is the *group*. A read in
//! the window before the group asks for nothing; one in the group asks for the next group, twice as
//! long; one outside the window starts again.
use super::{Access, PAGE_BYTES, ReadAhead, ReadStream};
use std::ops::Range;

const PAGES_MIN: u32 = 3;
const PAGES_MAX: u32 = 31;

/// A window of 3 to 31 pages, doubled while reads go on in it.
pub struct Linux24;

impl ReadAhead for Linux24 {
    fn window(&self, stream: &mut ReadStream, access: &Access) -> Option<Range<u32>> {
        let least = access.blocks_of(PAGES_MIN * PAGE_BYTES);
        let most = access.blocks_of(PAGES_MAX * PAGE_BYTES);
        let goes_on = stream.continues(access) || stream.covers(access);
        stream.next = access.end();
        if !goes_on {
            stream.size = 0;
            return None;
        }
        if stream.size == 0 {
            (stream.start, stream.mark, stream.ahead) = (access.block, access.block, access.end());
            stream.size = least;
        }
        if access.end() <= stream.mark {
            return None;
        }
        let from = stream.ahead.max(access.end());
        let group = access.within_file(from..from.saturating_add(stream.size))?;
        (stream.start, stream.mark, stream.ahead) = (stream.mark, group.start, group.end);
        stream.size = stream.size.saturating_mul(2).min(most);
        Some(group)
    }
}
