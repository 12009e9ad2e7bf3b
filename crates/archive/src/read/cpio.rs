//! Archives of cpio in the form `newc`, in which initial file systems of Linux are kept.
//!
//! ```text
//! "070701", thirteen numbers of eight hexadecimal digits, the name and a NUL, up to a multiple of
//! four bytes, the content up to a multiple of four bytes; last a name TRAILER!!!
//! ```
//! Names of one file share the numbers of its device and inode, and the last of them has its
//! content: the others wait for it. Those of a symbolic link, a pipe, a socket or a device have all
//! that they need: the second leads to the first. GNU cpio makes two symbolic links of two names of
//! one; here they stay one, as they were, and as they are in an archive of tar.
//!
//! *Invariants*: every name that was read is given once, at the latest when the archive ends.
use super::end::{self, End, after_trailer};
use super::stream::Keep;
use super::{Reader, Step};
use crate::entry::{Body, Content, Entry, Unkept};
use crate::error::{Corruption, ErrorKind};
use crate::path::{PathError, clean_path};
use extant_format::inode::{Device, Time};
use extant_tree::{Described, Facts};
use std::collections::btree_map::Entry as Place;
use std::collections::{BTreeMap, VecDeque};

/// What a header begins with.
pub(super) const MAGIC: [u8; 6] = extant_tree::magic::CPIO;
/// Bytes of a header, its mark with them.
const HEADER_BYTES: usize = 110;
/// The name of what ends an archive.
const TRAILER: &[u8] = b"TRAILER!!!";
/// The longest name, and the longest target of a symbolic link.
const TEXT_BYTES_MAX: u64 = 64 << 10;

/// How far an archive was read.
#[derive(Default)]
pub(super) struct Cpio {
    /// Whether the mark of the next header was read already: the first one's, by which the archive
    /// was known.
    has_mark: bool,
    /// Names of files whose content is still to come.
    waiting: BTreeMap<Identity, Vec<Named>>,
    /// Each file with several names whose content was there.
    firsts: BTreeMap<Identity, First>,
    /// Each other inode with several names, by what it is: the path that was given first.
    inodes: BTreeMap<(Identity, u32), (Vec<u8>, Content)>,
    /// What was read and not given yet.
    ready: VecDeque<Entry>,
    ended: Option<End>,
}

/// Numbers of device and inode: equal for the names of one file.
type Identity = (u32, u32, u32);

/// What further names of a file lead to.
enum First {
    /// A name that was given.
    Path(Vec<u8>),
    /// Its content, where no name could be had so far.
    Body(Body),
}

/// A name of a file.
struct Named {
    path: Result<Vec<u8>, PathError>,
    described: Described,
}

/// The numbers of a header that mean something here.
struct Header {
    identity: Identity,
    mode: u32,
    uid: u32,
    gid: u32,
    links: u32,
    seconds: u32,
    size: u64,
    device: Device,
    name_bytes: u64,
}

impl Header {
    /// Reads what follows the mark.
    fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Corruption> {
        const FIELDS: [&str; 13] = [
            "inode number",
            "mode",
            "user id",
            "group id",
            "number of links",
            "time",
            "size",
            "device number",
            "device number",
            "device number",
            "device number",
            "size of a name",
            "sum",
        ];
        let mut numbers = [0_u32; 13];
        let digits = bytes[MAGIC.len()..].chunks_exact(8);
        for ((number, digits), field) in numbers.iter_mut().zip(digits).zip(FIELDS) {
            let text = std::str::from_utf8(digits).ok();
            let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let parsed = text.and_then(|text| u32::from_str_radix(text, 16).ok());
            *number = parsed.ok_or(Corruption::Field(field))?;
        }
        let [ino, mode, uid, gid, links, seconds, size, major, minor, own_major, own_minor, ..] =
            numbers;
        let name_bytes = u64::from(numbers[11]);
        if name_bytes == 0 || name_bytes > TEXT_BYTES_MAX {
            return Err(Corruption::Field("size of a name"));
        }
        Ok(Header {
            identity: (major, minor, ino),
            mode,
            uid,
            gid,
            links,
            seconds,
            size: size.into(),
            device: Device { major: own_major, minor: own_minor },
            name_bytes,
        })
    }

    fn described(&self) -> Described {
        Described::from(Facts {
            permissions: (self.mode & 0o7777) as u16,
            uid: self.uid,
            gid: self.gid,
            modify_time: Time { seconds: self.seconds.into(), nanoseconds: 0 },
            ..Facts::default()
        })
    }
}

impl Cpio {
    /// An archive whose first mark was read.
    pub(super) fn after_mark() -> Cpio {
        Cpio { has_mark: true, ..Cpio::default() }
    }

    /// A regular file: it, and its other names that waited for its content; or one more name of a
    /// file that was there; or one that waits.
    fn file(&mut self, header: &Header, named: Named, body: Body) {
        if header.links < 2 {
            self.ready.push_back(entry(named.path, Content::File(body), Some(named.described)));
            return;
        }
        let body = match self.firsts.remove(&header.identity) {
            Some(First::Path(target)) => {
                let link = Content::HardLink { target: target.clone() };
                self.ready.push_back(entry(named.path, link, None));
                self.firsts.insert(header.identity, First::Path(target));
                return;
            }
            Some(First::Body(body)) => body,
            None => body,
        };
        let mut names = self.waiting.remove(&header.identity).unwrap_or_default();
        names.push(named);
        if body.size == 0 {
            self.waiting.insert(header.identity, names);
            return;
        }
        let first = self.give(names, body.clone()).map_or(First::Body(body), First::Path);
        self.firsts.insert(header.identity, first);
    }

    /// An inode that is no regular file and no directory: one more name of it where it was there.
    /// Numbers that two of them share by chance, because they have room for 32 bits, make no
    /// link between what is not the same.
    fn special(&mut self, header: &Header, named: Named, content: Content) {
        let Named { path, described } = named;
        let Some(own) = path.as_ref().ok().filter(|_| header.links > 1) else {
            self.ready.push_back(entry(path, content, Some(described)));
            return;
        };
        match self.inodes.entry((header.identity, header.mode)) {
            Place::Occupied(first) if first.get().1 == content => {
                let target = first.get().0.clone();
                self.ready.push_back(entry(path, Content::HardLink { target }, None));
            }
            Place::Occupied(_) => self.ready.push_back(entry(path, content, Some(described))),
            Place::Vacant(place) => {
                place.insert((own.clone(), content.clone()));
                self.ready.push_back(entry(path, content, Some(described)));
            }
        }
    }

    /// Gives all names of a file: the first that can be had has the content. Its path.
    fn give(&mut self, mut names: Vec<Named>, body: Body) -> Option<Vec<u8>> {
        let first = names.iter().position(|named| named.path.is_ok()).unwrap_or(0);
        let Named { path, described } = names.swap_remove(first);
        let target = path.clone().ok();
        self.ready.push_back(entry(path, Content::File(body), Some(described)));
        for Named { path, described } in names {
            self.ready.push_back(match target.clone() {
                Some(target) => entry(path, Content::HardLink { target }, None),
                None => entry(path, Content::File(Body::default()), Some(described)),
            });
        }
        target
    }
}

fn entry(
    path: Result<Vec<u8>, PathError>,
    content: Content,
    described: Option<Described>,
) -> Entry {
    Entry::new(path, content, described, Unkept::default())
}

impl Reader {
    /// One header and what belongs to it, or what waited.
    pub(super) fn cpio_step(&mut self, cpio: &mut Cpio) -> Result<Step, ErrorKind> {
        if let Some(entry) = cpio.ready.pop_front() {
            if let Ok(path) = &entry.path {
                self.last_whole.clone_from(path);
            }
            return Ok(Step::Entry(Box::new(entry)));
        }
        if let Some(end) = cpio.ended {
            return Ok(Step::End(end));
        }
        let mut bytes = [0; HEADER_BYTES];
        let from = if std::mem::take(&mut cpio.has_mark) { MAGIC.len() } else { 0 };
        bytes[..from].copy_from_slice(&MAGIC[..from]);
        self.offset = self.input.position().saturating_sub(from as u64);
        self.input.read_all(&mut bytes[from..])?;
        if !bytes.starts_with(&MAGIC) {
            return Err(Corruption::Field("mark of a header").into());
        }
        let header = Header::parse(&bytes)?;
        self.headers += 1;
        let mut name = self.input.take(header.name_bytes)?;
        self.align()?;
        if name.pop() != Some(0) || name.contains(&0) {
            return Err(Corruption::Field("name").into());
        }
        if name == TRAILER {
            for names in std::mem::take(&mut cpio.waiting).into_values() {
                cpio.give(names, Body::default());
            }
            let end = after_trailer(&mut self.input)?;
            cpio.ended = Some(end::finish(&mut self.input, end)?);
            return Ok(Step::Preamble);
        }
        let path = clean_path(&name);
        if let Ok(path) = &path {
            self.path.clone_from(path);
        }
        self.cpio_entry(cpio, &header, path)?;
        Ok(Step::Preamble)
    }

    /// What a header and its name say, and its content.
    fn cpio_entry(
        &mut self,
        cpio: &mut Cpio,
        header: &Header,
        path: Result<Vec<u8>, PathError>,
    ) -> Result<(), ErrorKind> {
        let described = header.described();
        let content = match header.mode & 0o170_000 {
            0o100_000 => {
                // Of several names it may be another that can be had.
                let is_kept = path.is_ok() || header.links > 1;
                let keep = if is_kept { Keep::Sink } else { Keep::Nothing };
                let body = self.input.keep(header.size, None, keep, self.zeros)?;
                self.align()?;
                cpio.file(header, Named { path, described }, body);
                return Ok(());
            }
            0o120_000 => {
                if header.size > TEXT_BYTES_MAX {
                    return Err(Corruption::Field("size of a target").into());
                }
                let target = self.input.take(header.size)?;
                self.align()?;
                cpio.special(header, Named { path, described }, Content::Symlink { target });
                return Ok(());
            }
            0o040_000 => Content::Directory,
            0o020_000 => Content::CharacterDevice(header.device),
            0o060_000 => Content::BlockDevice(header.device),
            0o010_000 => Content::Fifo,
            0o140_000 => Content::Socket,
            _ => return Err(Corruption::Field("mode").into()),
        };
        self.input.pass(header.size, Keep::Nothing)?;
        self.align()?;
        match content {
            Content::Directory => cpio.ready.push_back(entry(path, content, Some(described))),
            _ => cpio.special(header, Named { path, described }, content),
        }
        Ok(())
    }

    /// Passes over what fills up to a multiple of four bytes.
    fn align(&mut self) -> Result<(), ErrorKind> {
        let over = self.input.position() % 4;
        self.input.pass((4 - over) % 4, Keep::Nothing)?;
        Ok(())
    }
}
