//! Tar archives: read with holes, extended attributes, access lists and all that the dialects of
//! forty years say; written so that every tar reads them, the same bytes for the same files.
//!
//! # Reading
//! [`Reader`] reads v7, ustar, star, GNU and pax archives, those of cpio (`newc`) and Debian
//! packages, plain or compressed with gzip, zstd, xz, lzma, bzip2 or lz4, from a file or from
//! anything that can be read once. It gives one [`Entry`] after the other,
//! and says where each body is, so that bodies can be read later and in any order.
//!
//! ```
//! use extant_archive::{Bodies, Content, NewContent, NewEntry, Reader, Writer};
//! use extant_tree::{Described, Facts};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // An archive of one file ...
//! let facts = Facts { permissions: 0o644, uid: 1000, gid: 1000, ..Facts::default() };
//! let described = Described::from(facts);
//! let text = b"hello\n";
//! let content = NewContent::File { size: 6 };
//! let entry = NewEntry { path: b"etc/motd", described: &described, content };
//! let mut writer = Writer::new(Vec::new());
//! writer.append(&entry, &mut &text[..])?;
//! let archive: Vec<u8> = writer.finish()?;
//!
//! // ... and what it says.
//! let keep = Bodies::Keep { spool_folder: None };
//! let mut reader = Reader::from_stream(std::io::Cursor::new(archive), &keep)?;
//! while let Some(entry) = reader.next_entry()? {
//!     let path = entry.path?;
//!     if let Content::File(body) = &entry.content {
//!         let mut bytes = vec![0; body.size.min(1 << 20) as usize];
//!         reader.read_body(body, 0, &mut bytes)?;
//!         println!("{}: {} bytes", String::from_utf8_lossy(&path), bytes.len());
//!         # assert_eq!((&path[..], &bytes[..]), (&b"etc/motd"[..], &text[..]));
//!     }
//! }
//! # assert_eq!(reader.end(), Some(extant_archive::End::Marked));
//! # Ok(()) }
//! ```
//!
//! An archive may come from a stranger. Its bytes never make this crate panic, use memory without
//! bound, or wait for what does not come; a path that leads out of the archive is an error in
//! place of the path. A [`ReadError`] says what is wrong, at which entry and at which byte. That an
//! archive ends without the zeros that mark the end is no error: [`Reader::end`] says it.
//!
//! # Writing
//! [`Writer`] writes pax archives, and files with holes in GNU's form 1.0, which GNU tar and bsdtar
//! read. A program that has bodies in buffers of its own takes [`Headers`] and writes the rest
//! itself.
//!
//! # The files
//! ```text
//! read     an archive, entry by entry: header, pax, holes, end; input, stream, cpio, deb
//! write    headers, maps, and a plain writer; compression
//! entry    what an archive says of a file
//! path     paths, checked
//! block    512 bytes: the fields of a header
//! error    why an archive cannot be read, and where
//! text     names and reasons for people
//! zeros    blocks of zeros that are not kept
//! ```
mod block;
mod entry;
mod error;
mod path;
mod read;
mod text;
mod write;
mod zeros;

pub use block::{BLOCK_BYTES, padding};
pub use entry::{Body, Content, Entry, Keeper, NfsAccessList, Unkept};
pub use error::{Corruption, ErrorKind, LastWhole, MapFault, ReadError};
pub use path::{PathError, PathFault, clean_path};
pub use read::{
    Bodies, BodySink, Decompressed, End, Observer, Reader, StreamOptions, begins_with_header,
};
pub use text::{printable, reason};
pub use write::compressed::{Compression, compress};
pub use write::{Headers, NewContent, NewEntry, Writer, append_map, ending};
pub use zeros::{SWAP_HEAD_BYTES, SwapAreas, Zeros, is_swap_area, is_swap_area_by, is_zeros};
