//! Reads of what the host has in memory: copied from there to the reader, and not kept here too.
//!
//! A device over a file has a cache below it. To fill memory of ours from it costs several times as
//! much as the copy itself, because most of it was never touched before, and is worth that only
//! for what is read again. So what a stream reads for the first time goes to the reader, directly
//! or through one window; what is read a second time is kept. What the host does not have in memory
//! takes the other way, with read-ahead.
//!
//! *Invariants*: a window holds what the file had when it was filled, and is used only while the
//! inode has not been locked exclusively since then. Nothing is read past blocks that are in memory
//! or on their way, which may be newer.
//! *Locking*: the inode is locked shared. The locks of a stream are not held during a read.
use super::read::Reader;
use crate::inode::Node;
use crate::inode::mapping::{self, Piece};
use crate::inode::pages::{Stream, Window};
use crate::policy::preset::Journal;
use crate::store::DataKeeping;
use extant_block::{Buffer, PIECE_BYTES};
use extant_format::FileBlock;
use extant_format::extent::State;
use std::sync::atomic::Ordering;

/// Reads of at least this many bytes go to the reader's memory, in any order.
const DIRECT_BYTES_MIN: usize = PIECE_BYTES / 2;
/// After the host had not all of what was asked for, it is asked again this many bytes later.
const PAUSE_BYTES: u64 = 1 << 20;

/// Reads at `offset` from a window or from the host's memory. Returns how many bytes, which may be
/// none; all of the buffer is before the end of the file. The inode is locked shared.
pub(super) fn read(
    reader: &Reader<'_>,
    node: &Node,
    stream: &Stream,
    offset: u64,
    buffer: &mut [u8],
) -> usize {
    let volume = reader.volume;
    if volume.pages.data == DataKeeping::Phantom || volume.store.journal() == Journal::Data {
        return 0;
    }
    let exclusive_holds = node.state.exclusive_holds();
    let mut done = match &*stream.window.lock() {
        Some(window) if window.exclusive_holds == exclusive_holds => window.copy(offset, buffer),
        _ => 0,
    };
    let (at, rest) = (offset + done as u64, &mut buffer[done..]);
    if rest.is_empty() || at < node.pages.read_once.load(Ordering::Relaxed) {
        return noted(reader, node, stream, offset, done);
    }
    let goes_on = done > 0 || is_next(reader, stream, offset);
    if rest.len() >= DIRECT_BYTES_MIN {
        done += from_host(reader, stream, at, rest);
    } else if goes_on {
        let length = reader.state.inode.size.saturating_sub(at).min(PIECE_BYTES as u64);
        // The memory of the last window is used for this one.
        drop(stream.window.lock().take());
        let mut bytes = Buffer::unfilled(length as usize);
        let filled = from_host(reader, stream, at, &mut bytes);
        bytes.truncate(filled);
        if filled > 0 {
            let window = Window { offset: at, bytes, exclusive_holds };
            done += window.copy(at, rest);
            *stream.window.lock() = Some(window);
        }
    }
    noted(reader, node, stream, offset, done)
}

/// Notes what was read, and returns it.
fn noted(reader: &Reader<'_>, node: &Node, stream: &Stream, offset: u64, done: usize) -> usize {
    if let Some(read) = (done > 0).then(|| reader.blocks(offset, done)).flatten() {
        stream.reads.lock().next = read.end;
        node.pages.read_once.fetch_max(offset + done as u64, Ordering::Relaxed);
    }
    done
}

/// Whether a read begins where the last one of the stream ended.
fn is_next(reader: &Reader<'_>, stream: &Stream, offset: u64) -> bool {
    offset.div_ceil(reader.block_size as u64) == u64::from(stream.reads.lock().next)
}

/// Reads from the host's memory, up to the first block that is in memory here, has no place on the
/// device, or is unknown to the host. Returns how many bytes.
fn from_host(reader: &Reader<'_>, stream: &Stream, offset: u64, buffer: &mut [u8]) -> usize {
    let (volume, block_size) = (reader.volume, reader.block_size);
    if stream.pause.lock().contains(&offset) {
        return 0;
    }
    let mut done = 0;
    while done < buffer.len() {
        let at = offset + done as u64;
        let rest = &mut buffer[done..];
        let Some(wanted) = reader.blocks(at, rest.len()) else { break };
        let absent = wanted.start..reader.next_in_memory(wanted.clone());
        if absent.is_empty() {
            break;
        }
        let found =
            mapping::find(volume, reader.state, FileBlock(absent.start), absent.end - absent.start);
        // An error of the map is found again, and reported, by the read that follows.
        let Ok(Piece::Run(run, State::Written)) = found else { break };
        let within = at % block_size as u64;
        let on_disk = u64::from(run.length) * block_size as u64 - within;
        let length = usize::try_from(on_disk).map_or(rest.len(), |bytes| bytes.min(rest.len()));
        let place = run.start.0 * block_size as u64 + within;
        let read = volume.store.traffic.read_remembered(place, &mut rest[..length]);
        done += read;
        if read == 0 {
            *stream.pause.lock() = offset..at.saturating_add(PAUSE_BYTES);
            break;
        }
    }
    done
}
