//! Read-ahead on demand, of Linux 2.6.23 and later, as Wu Fengguang, Xi Hongsheng and Xu Chenfeng
//! describe it ("On the design of a new Linux readahead framework", ACM SIGOPS Operating Systems
//! Review 42(5), 2008): one window with a mark in it. A read of the marked block asks for the next
//! window; a sequential read without a window opens one, and so does a call for more than the
//! largest window, wherever it begins; any other read asks for nothing, and leaves the window as it
//! is.
//!
//! So a call for 128 pages with windows of 32 has the second window under way before it waits for
//! the first page, and reads one window too many.
use super::{Access, LargeReads, ReadAhead, ReadStream, first_window, next_window};
use std::ops::Range;

/// One window with a mark.
pub struct OnDemand {
    /// Size of the first window at least, in bytes.
    pub bytes_min: u32,
    /// Size of a window at most, in bytes.
    pub bytes_max: u32,
    /// What happens to large reads.
    pub large: LargeReads,
}

impl OnDemand {
    /// Linux's default: four times the first read, up to 128 KiB.
    pub const LINUX: OnDemand =
        OnDemand { bytes_min: 16 << 10, bytes_max: 128 << 10, large: LargeReads::Keep };
    /// For devices on which a seek is slow. A disk that takes 12 ms to seek and turn, and transfers
    /// 150 MB/s, moves 1.8 MB in that time: with windows of 2 MiB one of several streams gets half
    /// of the disk's rate, with 128 KiB a fifteenth. The 64 KiB at the start take half a
    /// millisecond, for a file that is most likely read to its end.
    pub const FAR: OnDemand =
        OnDemand { bytes_min: 64 << 10, bytes_max: 2 << 20, large: LargeReads::Bypass };
}

impl ReadAhead for OnDemand {
    fn window(&self, stream: &mut ReadStream, access: &Access) -> Option<Range<u32>> {
        let most = access.blocks_of(self.bytes_max);
        let goes_on = stream.continues(access);
        stream.next = access.end();
        if stream.covers(access) {
            let comes_to_mark =
                access.end() > stream.mark && (goes_on || access.block <= stream.mark);
            return if comes_to_mark { next(stream, access, most) } else { None };
        }
        let is_long = access.blocks_of_call() > most;
        if goes_on || access.block == 0 || is_long {
            let least = access.blocks_of(self.bytes_min).min(most);
            return open(stream, access, first_window(access, most).max(least));
        }
        None
    }

    fn part_bytes(&self) -> u32 {
        self.bytes_max
    }

    fn large_reads(&self) -> LargeReads {
        self.large
    }
}

fn next(stream: &mut ReadStream, access: &Access, most: u32) -> Option<Range<u32>> {
    let from = stream.ahead.max(access.end());
    let size = next_window(stream.size, most);
    let window = access.within_file(from..from.saturating_add(size))?;
    (stream.start, stream.size) = (access.block, size);
    (stream.mark, stream.ahead) = (window.start, window.end);
    Some(window)
}

/// The first window, which includes what is wanted. If it has nothing more, another one follows.
fn open(stream: &mut ReadStream, access: &Access, size: u32) -> Option<Range<u32>> {
    let first = access.block.saturating_add(size);
    let end = if first > access.end() { first } else { access.end().saturating_add(size) };
    let window = access.within_file(access.end()..end);
    (stream.start, stream.size) = (access.block, size);
    stream.mark = access.end();
    stream.ahead = window.as_ref().map_or(access.end(), |window| window.end);
    window
}
