//! Files until a file system is so full, or has not a block left.
use super::process::{Call, Outcome, Worker};
use super::step::Filling;
use extant_engine::{ErrorKind, File, Filesystem};
use std::sync::Arc;

/// What is written at once while there is room.
const PIECE: u64 = 64 << 10;

/// Whether there was room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Found,
    None,
}

impl Worker {
    /// Makes files in `at` until the file system is as full as wanted. At 100 % smaller and smaller
    /// ones, to the last block that anything can have.
    pub(super) fn fill(&mut self, at: &str, filling: Filling) -> Outcome {
        let world = Arc::clone(&self.world);
        let in_use = self.enter(&world)?;
        let filesystem = &in_use.filesystem;
        self.call(Call::Make, || match filesystem.create_dir(at, 0o755) {
            Err(error) if matches!(error.kind, ErrorKind::Exists) => Ok(()),
            result => result,
        })?;
        let content = vec![b'e'; PIECE as usize];
        let block = u64::from(filesystem.statfs().block_size);
        let mut number = 0;
        for bytes in [filling.bytes, block] {
            while !is_full(filesystem, filling.percent) {
                let path = format!("{at}/{bytes}-{number}");
                number += 1;
                if self.fill_file(filesystem, &path, bytes, &content)? == Room::None {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One more file, as long as there is room for it.
    fn fill_file(
        &mut self,
        filesystem: &Filesystem,
        path: &str,
        bytes: u64,
        content: &[u8],
    ) -> Outcome<Room> {
        let created = self.call(Call::Create, || roomy(filesystem.create_file(path, 0o644)))?;
        let Some(file) = created else { return Ok(Room::None) };
        self.work.files += 1;
        let block = u64::from(filesystem.statfs().block_size);
        let mut offset = 0;
        for piece in [PIECE, block] {
            while offset < bytes
                && self.fill_piece(&file, offset, piece.min(bytes - offset), content)?
                    == Room::Found
            {
                offset += piece.min(bytes - offset);
            }
        }
        Ok(match offset < bytes {
            true => Room::None,
            false => Room::Found,
        })
    }

    fn fill_piece(
        &mut self,
        file: &File,
        offset: u64,
        bytes: u64,
        content: &[u8],
    ) -> Outcome<Room> {
        let piece = &content[..bytes as usize];
        let written = self.call(Call::Write, || roomy(file.write_at(offset, piece)))?;
        self.work.bytes_written += written.unwrap_or(0) as u64;
        Ok(match written {
            Some(_) => Room::Found,
            None => Room::None,
        })
    }
}

/// Whether this many blocks of a hundred are in use.
fn is_full(filesystem: &Filesystem, percent: u32) -> bool {
    let room = filesystem.statfs();
    percent < 100
        && room.free_blocks.saturating_mul(100)
            <= room.blocks.saturating_mul(u64::from(100 - percent))
}

/// No room is no failure.
fn roomy<T>(result: extant_engine::Result<T>) -> extant_engine::Result<Option<T>> {
    match result {
        Err(error) if matches!(error.kind, ErrorKind::NoSpace { .. }) => Ok(None),
        result => result.map(Some),
    }
}
