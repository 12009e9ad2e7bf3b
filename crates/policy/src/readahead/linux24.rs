//! Read-ahead of Linux 2.4, as "Understanding the Linux Kernel" (second edition, chapter 15,
//! "Read-Ahead of Files") describes it, with the numbers of the post of 2001: 3 to 31 pages.
//!
//! Files are read page by page. What was asked for is the *window*; its last part, asked for at
//! once, is the *group*. A page that is not in memory begins a window: the pages after it are asked
//! for with it. A page in the last group asks for the next group, one page longer than the
//! window's length, which then doubles. A call that reads n pages raises that length to n + 1 at
//! once. Read in pages from the start, the groups are 1-3, 4-10, 11-23, 24-48, 49-80, and then 32
//! pages each.
//!
//! Two exceptions: a first read of at most 2 KiB asks for nothing, and a last page that the file
//! fills only in part is never read ahead, but alone, when it is wanted.
use super::{Access, PAGE_BYTES, ReadAhead, ReadStream};
use std::ops::Range;

const PAGES_MIN: u32 = 3;
const PAGES_MAX: u32 = 31;
/// A first read of at most this many bytes reads nothing ahead.
const SMALL_BYTES_MAX: u64 = PAGE_BYTES as u64 / 2;

/// A window of 3 to 31 pages, doubled while reads go on in it.
pub struct Linux24;

impl ReadAhead for Linux24 {
    fn window(&self, stream: &mut ReadStream, access: &Access) -> Option<Range<u32>> {
        let blocks = |pages: u32| access.blocks_of(pages.saturating_mul(PAGE_BYTES));
        let goes_on = stream.continues(access) || stream.covers(access);
        stream.next = access.end();
        if !goes_on {
            (stream.size, stream.start, stream.mark, stream.ahead) = (0, 0, 0, 0);
        }
        if access.block == 0 && access.call_end <= SMALL_BYTES_MAX {
            stream.size = 0;
            return None;
        }
        let first = u64::from(access.block) * u64::from(access.block_size);
        let wanted = access.call_end.saturating_sub(first) / u64::from(PAGE_BYTES) + 1;
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX).min(PAGES_MAX);
        let least = if goes_on { PAGES_MIN } else { 1 };
        let length = stream.size.max(wanted).max(least);
        stream.size = length;
        let group = match access.cached {
            false => access.end()..access.end().saturating_add(blocks(length)),
            true if goes_on && stream.ahead > 0 && access.end() > stream.mark => {
                let from = stream.ahead.max(access.end());
                from..from.saturating_add(blocks(length + 1))
            }
            true => return None,
        };
        let page_bytes = u64::from(PAGE_BYTES);
        let whole = access.file_bytes / page_bytes * page_bytes;
        let whole = whole / u64::from(access.block_size.max(1));
        let end = group.end.min(u32::try_from(whole).unwrap_or(u32::MAX));
        stream.start = if access.cached { stream.mark } else { access.block };
        stream.mark = if access.cached { group.start } else { access.block };
        stream.ahead = end.max(group.start);
        stream.size = length.saturating_mul(2).min(PAGES_MAX);
        access.within_file(group.start..end)
    }

    fn part_bytes(&self) -> u32 {
        PAGE_BYTES
    }
}
