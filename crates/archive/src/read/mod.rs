//! Reads an archive, entry by entry.
//!
//! A sequential reader does not say where each body is. This one does, so that bodies can be read
//! later, once, in whatever order suits. One `pread` a header; bodies are passed over.
//!
//! Bytes of an archive are never trusted: sizes are checked before anything is kept, extended
//! headers and maps have limits, no path leads out of the archive.
//!
//! ```text
//! header   one header of 512 bytes
//! pax      extended headers
//! pieces   what is stored of a file with holes; holes: maps in front of the data
//! cpio     archives in that other form; deb: packages that hold a tar archive
//! end      how an archive ends
//! input    the bytes: a window over a file, or
//! stream   what comes only once: decompressed, bodies kept in a spool
//! decompressed   a compressed file that is no archive
//! compression   which one, and what decompresses it
//! members  of gzip and its kin, one after the other, and the zeros after the last; lz4: one frame;
//!          skippable, after_skippable: frames that are passed over, and what comes after them;
//!          lzma: the form before xz; peek: bytes ahead
//! parallel parts of zstd and xz that several threads decompress; ahead: a thread that reads on
//! ```
mod after_skippable;
mod ahead;
mod compression;
mod cpio;
mod deb;
mod decompressed;
mod end;
mod header;
mod holes;
mod input;
mod lz4;
mod lzma;
mod members;
mod parallel;
mod pax;
mod peek;
mod pieces;
mod skippable;
mod stream;

pub use decompressed::Decompressed;
pub use end::End;
pub use stream::{BodySink, Observer, StreamOptions};

use crate::block::{BLOCK_BYTES, Block, padding};
use crate::entry::{Body, Content, Entry, Unkept};
use crate::error::{Corruption, ErrorKind, MapFault, ReadError};
use crate::path::{PathError, clean_path};
use crate::zeros::Zeros;
use compression::{Compression, MAGIC_BYTES, compression};
use cpio::Cpio;
use extant_tree::{Described, magic};
use header::{Header, More};
use input::Input;
use parallel::Blocks;
use pax::Extended;
use pieces::Pieces;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use stream::{Keep, SpooledStream};

/// An archive without entries is padded to this at most.
const EMPTY_BYTES_MAX: usize = 1 << 20;

/// What happens to the bodies of files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bodies {
    /// They are passed over: for a listing.
    Skip,
    /// They can be read later. Those of a plain archive stay in its file; those of a compressed one
    /// or of a pipe are copied, without their holes, to a file without a name.
    Keep {
        /// The folder of that file; the host's folder for temporary files if `None`.
        spool_folder: Option<PathBuf>,
    },
}

/// Whether the first bytes of a file are those of a plain archive: a header of 512 bytes with the
/// right checksum, the mark of cpio, or that of a Debian package. Compressed archives and empty
/// ones are not recognised.
pub fn begins_with_header(first: &[u8]) -> bool {
    let block = first.first_chunk::<BLOCK_BYTES>();
    let member = first.strip_prefix(&magic::AR);
    let package = member.is_some_and(|rest| rest.starts_with(&magic::DEBIAN));
    first.starts_with(&magic::CPIO)
        || package
        || block.is_some_and(|block| Header::parse(block).is_some())
}

/// Reads an archive from its first entry to its last.
///
/// *Invariants*: bytes before `input.position()` are read once and never again. What global
/// headers said is in `global`; what comes before the next entry is in `preceding`.
pub struct Reader {
    input: Input,
    /// The file that holds the bodies; `None` where they are skipped.
    bodies: Option<File>,
    /// A block that was read to see whether it is a header, and how many bytes of it there are.
    ahead: Option<(Block, usize)>,
    /// What global headers say of all files that follow.
    global: Arc<Extended>,
    preceding: Preceding,
    /// The path of the entry under way, clean if it can be; empty between two entries.
    path: Vec<u8>,
    last_whole: Vec<u8>,
    /// Where the header under way begins.
    offset: u64,
    headers: u64,
    /// Where the archive is one of cpio.
    cpio: Option<Box<Cpio>>,
    /// Zeros that are not kept where bodies are copied.
    zeros: Option<Zeros>,
    state: ReaderState,
}

/// How far an archive was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    /// Entries may follow.
    Open,
    /// The archive has ended.
    Ended(End),
    /// It cannot be read on.
    Failed,
}

/// What comes before an entry: extended headers of its own, and GNU's long names.
#[derive(Default)]
struct Preceding {
    extended: Option<Arc<Extended>>,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl Preceding {
    fn is_empty(&self) -> bool {
        self.extended.is_none() && self.long_name.is_none() && self.long_link.is_none()
    }
}

/// What one header turned out to be.
enum Step {
    /// Something about the entries that follow.
    Preamble,
    Entry(Box<Entry>),
    End(End),
}

/// A map of holes as an archive gives it.
struct Map {
    pieces: Pieces,
    /// Bytes of the file.
    size: u64,
    /// Bytes of data in the archive.
    stored: u64,
}

/// How much of a body an archive says there is.
#[derive(Clone, Copy)]
struct Claims {
    /// What counts: the extended header's word, or the header's own where it has none.
    size: u64,
    /// The header's own, where it is another.
    own: Option<u64>,
}

impl Claims {
    fn of(header: &Header<'_>, extended: &Extended) -> Result<Claims, ErrorKind> {
        match extended.size {
            None => Ok(Claims { size: header.size()?, own: None }),
            Some(size) => {
                let own = header.size().ok().filter(|own| *own != size);
                Ok(Claims { size, own })
            }
        }
    }

    /// The most of them.
    fn most(self) -> u64 {
        self.own.map_or(self.size, |own| own.max(self.size))
    }

    /// Bytes of data after `front` bytes of a map in front of them. Some writers (bsdtar was one)
    /// put the size with its holes into the extended header, and what is stored into the header's
    /// own field: the sum of the pieces says which of the two it is.
    fn stored(self, front: u64, pieces: &Pieces) -> u64 {
        let fits = |size: &u64| size.checked_sub(front) == Some(pieces.sum());
        let size = self.own.filter(fits).unwrap_or(self.size);
        size.saturating_sub(front)
    }
}

/// What an entry is, as far as its type letter and its name say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryType {
    File,
    HardLink,
    Symlink,
    CharacterDevice,
    BlockDevice,
    Directory,
    Fifo,
}

impl Reader {
    /// Begins to read an archive: a regular file from where it is positioned, or a pipe. Plain, or
    /// compressed with gzip, zstd, xz, lzma, bzip2 or lz4.
    ///
    /// # Errors
    /// What is no archive, as far as its first bytes show; a spool that cannot be made.
    pub fn new(file: File, bodies: &Bodies) -> Result<Reader, ReadError> {
        Reader::open(file, bodies, None).map_err(at_start)
    }

    /// Begins to read an archive whose bodies go to a sink as they come, plain archives too. Only
    /// those with holes are kept as `bodies` says: they are the ones that have [`Body::pieces`].
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn with_sink(
        file: File,
        bodies: &Bodies,
        sink: Box<dyn BodySink>,
    ) -> Result<Reader, ReadError> {
        Reader::open(file, bodies, Some(sink)).map_err(at_start)
    }

    /// Begins to read an archive that comes from somewhere else than a file.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn from_stream(
        source: impl Read + Send + 'static,
        bodies: &Bodies,
    ) -> Result<Reader, ReadError> {
        Reader::with_options(source, bodies, StreamOptions::default())
    }

    /// The same, with more to say about how.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn with_options(
        mut source: impl Read + Send + 'static,
        bodies: &Bodies,
        options: StreamOptions,
    ) -> Result<Reader, ReadError> {
        let first = read_start(&mut source).and_then(|first| {
            check_start(&first)?;
            Ok(first)
        });
        let begun = first.and_then(|first| Reader::from_rest(source, first, bodies, options));
        begun.map_err(at_start)
    }

    fn open(
        mut file: File,
        bodies: &Bodies,
        sink: Option<Box<dyn BodySink>>,
    ) -> Result<Reader, ErrorKind> {
        let metadata = file.metadata().map_err(ErrorKind::Open)?;
        let start = match metadata.is_file() {
            true => rustix::fs::tell(&file).map_err(|error| ErrorKind::Open(error.into()))?,
            false => 0,
        };
        let first = read_start(&mut file)?;
        check_zeros(&file, &metadata, start, &first)?;
        let more = StreamOptions::default();
        if first == magic::AR {
            let mut files = deb::files(file)?;
            let first = read_start(&mut files)?;
            check_start(&first)?;
            let options = StreamOptions { sink, ..more };
            let mut reader = Reader::from_rest(files, first, bodies, options)?;
            reader.input.read_to_end_after();
            return Ok(reader);
        }
        match check_start(&first)? {
            Compression::None if metadata.is_file() && sink.is_none() => {
                let kept = match bodies {
                    Bodies::Skip => None,
                    Bodies::Keep { .. } => Some(file.try_clone().map_err(ErrorKind::Open)?),
                };
                Ok(Reader::begin(Input::file(file, start, metadata.len()), kept))
            }
            Compression::Xz if metadata.is_file() => match Blocks::of_file(&file, start) {
                Some(blocks) => {
                    let open = |spool| SpooledStream::of_blocks(blocks, spool, sink);
                    Reader::from_spooled(bodies, open)
                }
                None => Reader::from_rest(file, first, bodies, StreamOptions { sink, ..more }),
            },
            _ => Reader::from_rest(file, first, bodies, StreamOptions { sink, ..more }),
        }
    }

    /// A stream whose first bytes were read already.
    fn from_rest(
        rest: impl Read + Send + 'static,
        first: Vec<u8>,
        bodies: &Bodies,
        options: StreamOptions,
    ) -> Result<Reader, ErrorKind> {
        Reader::from_spooled(bodies, |spool| SpooledStream::new(rest, first, spool, options))
    }

    /// A stream, and the spool that it has where bodies are kept.
    fn from_spooled(
        bodies: &Bodies,
        open: impl FnOnce(Option<File>) -> io::Result<SpooledStream>,
    ) -> Result<Reader, ErrorKind> {
        let spool = match bodies {
            Bodies::Skip => None,
            Bodies::Keep { spool_folder: Some(folder) } => Some(tempfile::tempfile_in(folder)),
            Bodies::Keep { spool_folder: None } => Some(tempfile::tempfile()),
        };
        let spool = spool.transpose().map_err(ErrorKind::Spool)?;
        let kept = spool.as_ref().map(File::try_clone).transpose().map_err(ErrorKind::Spool)?;
        let stream = open(spool).map_err(ErrorKind::Open)?;
        Ok(Reader::begin(Input::stream(stream), kept))
    }

    fn begin(input: Input, bodies: Option<File>) -> Reader {
        Reader {
            input,
            bodies,
            ahead: None,
            global: Arc::default(),
            preceding: Preceding::default(),
            path: Vec::new(),
            last_whole: Vec::new(),
            offset: 0,
            headers: 0,
            cpio: None,
            zeros: None,
            state: ReaderState::Open,
        }
    }

    /// Leaves out blocks of zeros where bodies are copied, to the spool or to a sink: they are
    /// holes of [`Body::pieces`]. Bodies that stay in their archive stay as they are.
    pub fn leave_out(&mut self, zeros: Option<Zeros>) {
        self.zeros = zeros;
    }

    /// Whether bodies stay in the archive's file.
    pub fn keeps_in_place(&self) -> bool {
        self.input.is_file()
    }

    /// The next entry; `None` after the last, and after an error. The archive is positioned after
    /// the entry's body, which [`Reader::read_body`] reads at any later time.
    ///
    /// # Errors
    /// An archive that cannot be read on: nothing after the error is trusted.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ReadError> {
        while self.state == ReaderState::Open {
            self.path.clear();
            match self.step() {
                Ok(Step::Preamble) => {}
                Ok(Step::Entry(entry)) => return Ok(Some(*entry)),
                Ok(Step::End(end)) => self.state = ReaderState::Ended(end),
                Err(kind) => {
                    self.state = ReaderState::Failed;
                    return Err(ReadError {
                        kind,
                        offset: self.offset,
                        entry: (!self.path.is_empty()).then(|| self.path.clone()),
                        last_whole: self.last_whole().map(<[u8]>::to_vec),
                    });
                }
            }
        }
        Ok(None)
    }

    /// How the archive ended; `None` before [`Reader::next_entry`] gave `None`, and after an error.
    pub fn end(&self) -> Option<End> {
        match self.state {
            ReaderState::Ended(end) => Some(end),
            ReaderState::Open | ReaderState::Failed => None,
        }
    }

    /// The path of the last entry that was read whole; `None` if there is none, or if it was the
    /// root.
    pub fn last_whole(&self) -> Option<&[u8]> {
        (!self.last_whole.is_empty()).then_some(self.last_whole.as_slice())
    }

    /// Bytes of the archive, decompressed, that were read so far.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// The file in which bodies begin at [`Body::offset`]: the archive, or the spool;
    /// `None` where bodies are skipped. Of a stream it is complete when the archive has ended.
    pub fn body_file(&self) -> Option<&File> {
        self.bodies.as_ref()
    }

    /// Fills `buffer` from byte `offset` of a file of this archive. Holes, and what is beyond the
    /// end, are zeros.
    ///
    /// # Errors
    /// `Unsupported` where bodies are skipped; the host's.
    pub fn read_body(&mut self, body: &Body, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.input.flush().map_err(|kind| match kind {
            ErrorKind::Spool(error) => error,
            _ => io::ErrorKind::Other.into(),
        })?;
        let file = self.bodies.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        buffer.fill(0);
        let whole = 0..body.size;
        let pieces = body.pieces.as_deref().unwrap_or(std::slice::from_ref(&whole));
        let end = offset.saturating_add(buffer.len() as u64);
        let mut stored = body.offset;
        for piece in pieces {
            let (from, to) = (piece.start.max(offset), piece.end.min(end));
            if from < to {
                let part = &mut buffer[(from - offset) as usize..(to - offset) as usize];
                file.read_exact_at(part, stored + (from - piece.start))?;
            }
            stored += piece.end - piece.start;
        }
        Ok(())
    }

    /// Reads one header and what belongs to it, in whichever form.
    fn step(&mut self) -> Result<Step, ErrorKind> {
        if self.headers == 0 && self.ahead.is_none() && self.cpio.is_none() {
            self.recognise()?;
        }
        match self.cpio.take() {
            None => self.tar_step(),
            Some(mut cpio) => {
                let step = self.cpio_step(&mut cpio);
                self.cpio = Some(cpio);
                step
            }
        }
    }

    /// Whether the archive is one of cpio, by its first bytes; else they are the first of a block.
    fn recognise(&mut self) -> Result<(), ErrorKind> {
        let mut block = [0; BLOCK_BYTES];
        let (mark, rest) = block.split_at_mut(magic::CPIO.len());
        let mut length = self.input.read(mark)?;
        match &*mark {
            mark if mark == magic::CPIO => {
                self.cpio = Some(Box::new(Cpio::after_mark()));
                return Ok(());
            }
            b"070702" | b"070707" => {
                return Err(ErrorKind::ForeignArchive("a cpio archive of another form than newc"));
            }
            _ if length == mark.len() => length += self.input.read(rest)?,
            _ => {}
        }
        self.ahead = Some((block, length));
        Ok(())
    }

    /// Reads one header of 512 bytes and what belongs to it.
    fn tar_step(&mut self) -> Result<Step, ErrorKind> {
        let (block, length) = self.next_block()?;
        self.offset = self.input.position().saturating_sub(length as u64);
        if block[..length].iter().all(|byte| *byte == 0) {
            return self.ended(length).map(Step::End);
        }
        if length < BLOCK_BYTES {
            return Err(ErrorKind::Truncated);
        }
        let header = Header::parse(&block).ok_or(match self.headers {
            0 => ErrorKind::NotAnArchive,
            _ => ErrorKind::Corrupt(Corruption::Checksum),
        })?;
        self.headers += 1;
        header.name(&mut self.path);
        match header.type_letter() {
            b'x' | b'X' => {
                let records = self.extension(&header)?;
                // The last one counts, alone: what an earlier one said is not kept.
                let mut extended = (*self.global).clone();
                extended.apply(&records)?;
                self.preceding.extended = Some(Arc::new(extended));
            }
            b'g' => {
                let records = self.extension(&header)?;
                Arc::make_mut(&mut self.global).apply(&records)?;
            }
            b'L' => self.preceding.long_name = Some(trimmed(self.extension(&header)?)),
            b'K' => self.preceding.long_link = Some(trimmed(self.extension(&header)?)),
            // A label of the volume says nothing about files.
            b'V' => {
                let extended = std::mem::take(&mut self.preceding).extended;
                let size = extended.and_then(|extended| extended.size);
                self.pass(size.map_or_else(|| header.size(), Ok)?, Keep::Nothing)?;
            }
            b'M' => return Err(ErrorKind::Continuation),
            _ => return self.entry(&header).map(|entry| Step::Entry(Box::new(entry))),
        }
        Ok(Step::Preamble)
    }

    /// The next block, zeros where the archive ends within it, and how much of it the archive has.
    fn next_block(&mut self) -> Result<(Block, usize), ErrorKind> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(ahead);
        }
        let mut block = [0; BLOCK_BYTES];
        let length = self.input.read(&mut block)?;
        Ok((block, length))
    }

    /// The archive ends where a header could be, with `length` bytes of zeros.
    fn ended(&mut self, length: usize) -> Result<End, ErrorKind> {
        // Extended headers belong to an entry that is missing.
        if !self.preceding.is_empty() {
            return Err(ErrorKind::Truncated);
        }
        let end = match length {
            BLOCK_BYTES => end::after_zeros(&mut self.input)?,
            _ => End::Unmarked,
        };
        end::finish(&mut self.input, end)
    }

    /// The content of an extended header.
    fn extension(&mut self, header: &Header<'_>) -> Result<Vec<u8>, ErrorKind> {
        let (bytes, most) = (header.size()?, pax::BYTES_MAX);
        if bytes > most {
            return Err(Corruption::ExtendedHeaderTooLong { bytes, most }.into());
        }
        let content = self.input.take(bytes)?;
        self.input.pass(padding(bytes), Keep::Nothing)?;
        Ok(content)
    }

    /// Passes over a body and its padding; where the body is kept.
    fn pass(&mut self, size: u64, keep: Keep) -> Result<u64, ErrorKind> {
        let start = self.input.pass(size, keep)?;
        self.input.pass(padding(size), Keep::Nothing)?;
        Ok(start)
    }

    /// Passes over what follows an entry that has no content, whatever size its header says.
    ///
    /// Writers have put all kinds of sizes there: what a directory may grow to, the size of the
    /// file that a hard link leads to, with or without its bytes. Whether bytes follow is seen by
    /// what follows: a header, or the end of the archive, is none of them.
    fn pass_claimed(&mut self, size: u64) -> Result<(), ErrorKind> {
        if size == 0 {
            return Ok(());
        }
        let (block, length) = self.next_block()?;
        let is_zero = block.iter().all(|byte| *byte == 0);
        if length < BLOCK_BYTES || is_zero || Header::parse(&block).is_some() {
            self.ahead = Some((block, length));
            return Ok(());
        }
        let padded = size.checked_add(padding(size)).ok_or(ErrorKind::Truncated)?;
        self.input.pass(padded - BLOCK_BYTES as u64, Keep::Nothing)?;
        Ok(())
    }

    /// A header that is an entry's, and its body.
    fn entry(&mut self, header: &Header<'_>) -> Result<Entry, ErrorKind> {
        let preceding = std::mem::take(&mut self.preceding);
        let extended = preceding.extended.unwrap_or_else(|| Arc::clone(&self.global));
        let sparse_name = extended.sparse.name.clone();
        if let Some(name) = sparse_name.or(extended.path.clone()).or(preceding.long_name) {
            self.path = name;
        }
        let own_link = || header.link().to_vec();
        let link = extended.link.clone().or(preceding.long_link).unwrap_or_else(own_link);
        let letter = header.type_letter();
        let entry_type = entry_type(letter, &self.path);
        let unkept = Unkept {
            // The standard has readers take unknown types for regular files.
            unknown_type: entry_type.is_none().then_some(letter),
            nameless: extended.nameless.clone(),
            nfs4_access_list: extended.nfs4_access_list,
            file_flags: extended.unknown_flags(),
        };
        let path = clean_path(&self.path);
        self.path.clear();
        if let Ok(path) = &path {
            self.path.extend_from_slice(path);
        }
        let entry_type = entry_type.unwrap_or(EntryType::File);
        let (content, described) = self.content(header, &extended, entry_type, link, &path)?;
        if path.is_ok() {
            std::mem::swap(&mut self.last_whole, &mut self.path);
        }
        Ok(Entry::new(path, content, described, unkept))
    }

    /// What an entry is; the archive is passed over to its end.
    fn content(
        &mut self,
        header: &Header<'_>,
        extended: &Extended,
        entry_type: EntryType,
        link: Vec<u8>,
        path: &Result<Vec<u8>, PathError>,
    ) -> Result<(Content, Option<Described>), ErrorKind> {
        if entry_type == EntryType::HardLink {
            // By the standard one with an extended header for its size has content.
            match extended.size {
                Some(size) => drop(self.pass(size, Keep::Nothing)?),
                None => self.pass_claimed(header.size()?)?,
            }
            return Ok((Content::HardLink { target: link }, None));
        }
        let claims = Claims::of(header, extended)?;
        let size = claims.size;
        let described = extended.described(header)?;
        if entry_type == EntryType::File {
            let keep = if path.is_ok() { Keep::Sink } else { Keep::Nothing };
            return Ok((
                Content::File(self.body(header, extended, claims, keep)?),
                Some(described),
            ));
        }
        match header.type_letter() {
            b'2'..=b'6' => self.pass_claimed(size)?,
            // GNU's directories with a listing, and files of old dialects that are directories by
            // their name.
            _ => drop(self.pass(size, Keep::Nothing)?),
        }
        let content = match entry_type {
            EntryType::Symlink => Content::Symlink { target: link },
            EntryType::CharacterDevice => Content::CharacterDevice(extended.device(header)?),
            EntryType::BlockDevice => Content::BlockDevice(extended.device(header)?),
            EntryType::Fifo => Content::Fifo,
            EntryType::Directory | EntryType::File | EntryType::HardLink => Content::Directory,
        };
        Ok((content, Some(described)))
    }

    /// The body of a regular file, with the holes that it may have.
    fn body(
        &mut self,
        header: &Header<'_>,
        extended: &Extended,
        claims: Claims,
        keep: Keep,
    ) -> Result<Body, ErrorKind> {
        let Some(map) = self.map(header, extended, claims)? else {
            let body = self.input.keep(claims.size, None, keep, self.zeros)?;
            self.input.pass(padding(claims.size), Keep::Nothing)?;
            return Ok(body);
        };
        let Map { pieces, size, stored } = map;
        let pieces = pieces.finish(size, stored)?;
        let is_whole = size == 0 || matches!(&pieces[..], [only] if *only == (0..size));
        let keep = match keep {
            Keep::Sink if !is_whole => Keep::Spool,
            keep => keep,
        };
        let pieces = (!is_whole).then_some(pieces);
        let body = self.input.keep(size, pieces, keep, self.zeros)?;
        self.input.pass(padding(stored), Keep::Nothing)?;
        Ok(body)
    }

    /// The map of a file with holes, in whichever form; `None` for a plain file. What is left to
    /// pass over is `stored`.
    fn map(
        &mut self,
        header: &Header<'_>,
        extended: &Extended,
        claims: Claims,
    ) -> Result<Option<Map>, ErrorKind> {
        let sparse = &extended.sparse;
        if header.type_letter() == b'S' {
            let old = header.old_sparse()?;
            let (mut pieces, mut more) = (old.pieces, old.more);
            while more == More::Follows {
                let mut block = [0; BLOCK_BYTES];
                self.input.read_all(&mut block)?;
                more = header::append_continuation(&block, &mut pieces)?;
            }
            let stored = claims.stored(0, &pieces);
            return Ok(Some(Map { pieces, size: old.size, stored }));
        }
        if sparse.major == Some(1) && sparse.minor == Some(0) {
            let real = sparse.size.ok_or(MapFault::NoSize)?;
            let (pieces, used) = holes::read_front(&mut self.input, claims.most())?;
            let stored = claims.stored(used, &pieces);
            return Ok(Some(Map { pieces, size: real, stored }));
        }
        if let Some(major) = sparse.major.filter(|major| *major > 0) {
            let minor = sparse.minor.unwrap_or(0);
            return Err(MapFault::UnknownForm { major, minor }.into());
        }
        let Some(listed) = &sparse.pieces else {
            return Ok(None);
        };
        let real = sparse.size.ok_or(MapFault::NoSize)?;
        let mut pieces = Pieces::default();
        for piece in listed {
            pieces.push(*piece)?;
        }
        let stored = claims.stored(0, &pieces);
        Ok(Some(Map { pieces, size: real, stored }))
    }
}

/// `None` for a letter that no standard knows.
fn entry_type(letter: u8, path: &[u8]) -> Option<EntryType> {
    Some(match letter {
        b'0' | 0 | b'7' if path.ends_with(b"/") => EntryType::Directory,
        b'0' | 0 | b'7' | b'S' => EntryType::File,
        b'1' => EntryType::HardLink,
        b'2' => EntryType::Symlink,
        b'3' => EntryType::CharacterDevice,
        b'4' => EntryType::BlockDevice,
        b'5' | b'D' => EntryType::Directory,
        b'6' => EntryType::Fifo,
        _ => return None,
    })
}

/// A long name up to the first NUL: some writers fill blocks with them.
fn trimmed(mut name: Vec<u8>) -> Vec<u8> {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    name.truncate(end);
    name
}

fn at_start(kind: ErrorKind) -> ReadError {
    ReadError { kind, offset: 0, entry: None, last_whole: None }
}

/// The first bytes, as many as show the compression.
fn read_start(source: &mut impl Read) -> Result<Vec<u8>, ErrorKind> {
    let mut first = Vec::with_capacity(MAGIC_BYTES);
    let read = source.take(MAGIC_BYTES as u64).read_to_end(&mut first);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
        _ => ErrorKind::Open(error),
    })?;
    Ok(first)
}

/// Refuses what is no archive by its first bytes.
fn check_start(first: &[u8]) -> Result<Compression, ErrorKind> {
    match compression(first) {
        _ if first.is_empty() => Err(ErrorKind::Empty),
        Compression::Foreign(tool) => Err(ErrorKind::ForeignCompression(tool)),
        known => Ok(known),
    }
}

/// Zeros are an empty archive, if there is nothing else: a file that begins with zeros by chance is
/// none. The archive begins at byte `start` of the file.
fn check_zeros(
    file: &File,
    metadata: &Metadata,
    start: u64,
    first: &[u8],
) -> Result<(), ErrorKind> {
    if first.iter().any(|byte| *byte != 0) || first.is_empty() || !metadata.is_file() {
        return Ok(());
    }
    let length = metadata.len().saturating_sub(start);
    let looked_at = usize::try_from(length).unwrap_or(usize::MAX).min(EMPTY_BYTES_MAX);
    let mut bytes = vec![0; looked_at];
    file.read_exact_at(&mut bytes, start).map_err(ErrorKind::Open)?;
    let is_empty = length <= EMPTY_BYTES_MAX as u64 && bytes.iter().all(|byte| *byte == 0);
    if is_empty { Ok(()) } else { Err(ErrorKind::BeginsWithZeros) }
}

#[cfg(test)]
mod tests;
