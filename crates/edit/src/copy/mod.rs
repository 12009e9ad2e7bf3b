//! cp: from a host or an image into a host or an image.
//!
//! ```text
//! source   what a copy is made of: a tree that is walked, and bytes    inside   an image as both
//! sink     where it goes                                               host     the host as both
//! need     how many blocks a copy takes
//! ```
//! The source is walked ([`crate::walk`]), and the sink goes where the walk goes, folder by folder.
//!
//! What is copied, and onto what, follows cp(1) of coreutils, with one exception on the host: no
//! symbolic link is written through there.
mod host;
mod inside;
mod need;
mod sink;
mod source;

pub use host::HostSink;
pub use inside::ImageSink;
pub use need::Need;
pub use sink::{Original, Sink, Target};
pub use source::{Body, Source};

use crate::error::{Error, Result, What};
use crate::mode::{Mode, UMASK};
use crate::owner::Owner;
use crate::tree::{self, Links};
use crate::walk::{self, Below, Event, Found, Illegal, Manner, Spot, Visited};
use extant_engine::ErrorKind;
use extant_format::acl::is_access_list;
use extant_format::inode::FileType;
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that are read and written at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Zeros that become a hole with [`Sparse::Always`], in bytes.
const HOLE_BYTES: usize = 4096;

/// Which symbolic links of the source are followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dereference {
    /// All (`-L`).
    Always,
    /// Those that were named (`-H`).
    Named,
    /// None (`-P`).
    Never,
}

/// Which holes a copy has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sparse {
    /// Those of the source.
    Auto,
    /// Zeros become holes too.
    Always,
    /// None.
    Never,
}

/// What becomes of a file that is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// It gets the new content.
    Overwrite,
    /// It stays, and the source is left out (`-n`).
    Keep,
    /// It is removed first where it cannot be written (`-f`).
    Force,
}

/// What is kept of a source besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keep {
    /// Permissions and access lists.
    pub mode: bool,
    /// Owner and group.
    pub owner: bool,
    /// Times.
    pub times: bool,
    /// That two names are of one file.
    pub links: bool,
    /// Extended attributes.
    pub attributes: bool,
}

/// How a copy is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether directories are copied.
    pub reach: tree::Reach,
    /// Which links are followed.
    pub dereference: Dereference,
    /// What is kept.
    pub keep: Keep,
    /// What becomes of what is there.
    pub existing: Existing,
    /// Which holes there are.
    pub sparse: Sparse,
    /// Whom all copies belong to, whatever is kept.
    pub owner: Owner,
    /// The permissions of all files, whatever is kept.
    pub mode: Option<Mode>,
}

/// What a copy did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// Objects that were made or written.
    pub objects: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Files that were left out because they were there.
    pub kept: u64,
}

/// What is told of a copy while it is under way.
pub type Listener<'a> = &'a dyn Fn(&Copied);

/// What is called for each thing that cannot be copied. The copy goes on without it, unless this
/// returns an error.
pub type Troubles<'a> = &'a dyn Fn(Error) -> Result<()>;

/// What an object gets in the end; `None` stays as it is.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// The twelve bits.
    pub permissions: Option<u16>,
    /// Owner and group.
    pub owner: Owner,
    /// Last read, last modified.
    pub times: Option<(extant_format::inode::Time, extant_format::inode::Time)>,
    /// Extended attributes, access lists among them.
    pub attributes: Vec<extant_format::attribute::Attribute>,
}

/// A directory that is described once all is in it.
struct Leaving {
    /// Its name in the sink.
    name: Vec<u8>,
    /// Bytes of its path there.
    length: usize,
    description: Description,
}

/// A copy of several sources.
pub struct Copy<'a> {
    source: &'a dyn Source,
    sink: &'a dyn Sink,
    options: &'a Options,
    listener: Listener<'a>,
    troubles: Troubles<'a>,
    /// The first copy of each file that has several names.
    links: FxHashMap<(u64, u64), Original>,
    /// Directories that were made: a copy of one into itself would not end.
    made: FxHashMap<(u64, u64), ()>,
    /// The directories of the sink that are being filled.
    leaving: Vec<Leaving>,
    copied: Copied,
    buffer: Vec<u8>,
}

/// Where an object goes.
#[derive(Clone, Copy)]
struct To<'a> {
    from: Spot<'a>,
    to: Spot<'a>,
}

impl<'a> Copy<'a> {
    /// Nothing is copied yet.
    pub fn new(
        source: &'a dyn Source,
        sink: &'a dyn Sink,
        options: &'a Options,
        (listener, troubles): (Listener<'a>, Troubles<'a>),
    ) -> Copy<'a> {
        let (links, made, leaving) = (FxHashMap::default(), FxHashMap::default(), Vec::new());
        let (copied, buffer) = (Copied::default(), vec![0; PIECE_BYTES]);
        Copy { source, sink, options, listener, troubles, links, made, leaving, copied, buffer }
    }

    /// What was copied so far.
    pub fn copied(&self) -> Copied {
        self.copied
    }

    /// Copies a source, which becomes `to`.
    ///
    /// # Errors
    /// A source that cannot be read or changes meanwhile; a sink that refuses; those of the
    /// troubles. What was copied before stays in the sink.
    pub fn copy(&mut self, from: &Path, to: &Path) -> Result<()> {
        let (named, below) = match self.options.dereference {
            Dereference::Always => (Links::Follow, Links::Follow),
            Dereference::Named => (Links::Follow, Links::Stay),
            Dereference::Never => (Links::Stay, Links::Stay),
        };
        let manner = Manner { named, below, illegal: Illegal::Save };
        let source = self.source;
        let first = self.sink.begin(to)?;
        let mut path = to.as_os_str().as_bytes().to_vec();
        self.leaving.clear();
        walk::walk(source, from, manner, &mut |event| match event {
            Event::Trouble(error) => (self.troubles)(error).map(|()| Below::Skip),
            Event::Found(visited) => self.found(&visited, &first, &mut path),
            Event::Left(_) => self.left(&mut path).map(|()| Below::Skip),
        })
    }

    /// Copies an object; of a directory, what is in it comes next.
    fn found(&mut self, visited: &Visited<'_>, first: &[u8], path: &mut Vec<u8>) -> Result<Below> {
        let name = match self.leaving.last() {
            None => first,
            Some(folder) => {
                path.truncate(folder.length);
                if !matches!(path.last(), None | Some(b'/')) {
                    path.push(b'/');
                }
                path.extend_from_slice(visited.spot.name);
                visited.spot.name
            }
        };
        let to = Spot { name, number: None, path: Path::new(OsStr::from_bytes(path)) };
        let to = To { from: visited.spot, to };
        if visited.facts.file_type != FileType::Directory {
            self.object(to, visited.facts, visited.links)?;
            return Ok(Below::Skip);
        }
        let description = self.directory(to, visited.facts)?;
        self.sink.enter(to.to)?;
        self.leaving.push(Leaving { name: name.to_vec(), length: path.len(), description });
        Ok(Below::Enter)
    }

    /// All that is in a directory was copied.
    fn left(&mut self, path: &mut Vec<u8>) -> Result<()> {
        let Some(Leaving { name, length, description }) = self.leaving.pop() else {
            return Ok(());
        };
        path.truncate(length);
        let path = Path::new(OsStr::from_bytes(path));
        self.sink.leave(path)?;
        let spot = Spot { name: &name, number: None, path };
        self.sink.describe(spot, Links::Stay, &description)
    }

    /// Whether source and sink are one tree.
    fn is_within_a_tree(&self) -> bool {
        let sink = self.sink.tree_identity();
        sink.is_some_and(|identity| self.source.tree_identity() == Some(identity))
    }

    fn description(&self, from: Spot<'_>, facts: &Found, links: Links) -> Result<Description> {
        let Options { keep, owner, mode, .. } = self.options;
        let mut owner = *owner;
        if keep.owner {
            owner.uid = owner.uid.or(Some(facts.uid));
            owner.gid = owner.gid.or(Some(facts.gid));
        }
        let is_regular = facts.file_type == FileType::Regular;
        let permissions = match mode {
            Some(mode) if is_regular => Some(mode.applied(facts.permissions, facts.file_type)),
            _ => keep.mode.then_some(facts.permissions),
        };
        let mut attributes = Vec::new();
        if keep.mode || keep.attributes {
            attributes = self.source.attributes(from, links)?;
            attributes.retain(|attribute| match is_access_list(&attribute.name) {
                true => keep.mode && mode.is_none(),
                false => keep.attributes,
            });
        }
        let times = keep.times.then_some((facts.last_read(), facts.modify_time));
        Ok(Description { permissions, owner, times, attributes })
    }

    fn directory(&mut self, To { from, to }: To<'_>, facts: &Found) -> Result<Description> {
        if self.options.reach == tree::Reach::One {
            let error = self.source.error(from.path, "is a directory");
            return Err(error.hint("cp -r or cp -a copies it with its content"));
        }
        let mut description = self.description(from, facts, Links::Stay)?;
        let there = self.sink.found(to, Links::Stay)?;
        match &there {
            Some(there) if there.file_type != FileType::Directory => {
                return Err(self.sink.error(to.path, "is no directory, and stays one"));
            }
            // What is there keeps what it is, unless the source's is asked for.
            Some(_) => {}
            None => {
                let permissions = facts.permissions & 0o7777 & !UMASK;
                self.sink.make_directory(to, permissions & 0o777 | 0o700)?;
                if description.permissions.is_none() && permissions & 0o700 != 0o700 {
                    description.permissions = Some(permissions);
                }
                self.copied.objects += 1;
            }
        }
        if self.is_within_a_tree() {
            if let Some(made) = self.sink.found(to, Links::Stay)?.filter(|_| there.is_none()) {
                self.made.insert(made.identity, ());
            }
            if self.made.contains_key(&facts.identity) {
                let said = format!("cannot be copied into itself: {}", to.path.display());
                return Err(self.source.error(from.path, &said));
            }
        }
        if there.is_some() && !self.options.keep.mode {
            description = Description { owner: self.options.owner, ..description };
        }
        Ok(description)
    }

    fn object(&mut self, place: To<'_>, facts: &Found, links: Links) -> Result<()> {
        let To { from, to } = place;
        let is_regular = facts.file_type == FileType::Regular;
        let follows = if is_regular { Links::Follow } else { Links::Stay };
        let has_name = self.sink.found(to, Links::Stay)?;
        let there = match (&has_name, follows) {
            (Some(_), Links::Follow) => self.sink.found(to, follows)?,
            _ => has_name,
        };
        if has_name.is_some() && there.is_none() {
            return Err(self.sink.error(to.path, "is a symbolic link to nothing, and stays one"));
        }
        if let Some(there) = &there {
            if there.file_type == FileType::Directory {
                return Err(self.sink.error(to.path, "is a directory, and stays one"));
            }
            if self.options.existing == Existing::Keep {
                self.copied.kept += 1;
                return Ok(());
            }
            if self.is_within_a_tree() && there.identity == facts.identity {
                let said = format!("is the same file as {}", to.path.display());
                return Err(self.source.error(from.path, &said));
            }
        }
        if self.options.keep.links
            && facts.links > 1
            && let Some(first) = self.links.get(&facts.identity)
        {
            if has_name.is_some() {
                self.sink.remove(to)?;
            }
            self.sink.link(first, to)?;
            self.copied.objects += 1;
            return Ok(());
        }
        let description = self.description(from, facts, links)?;
        if is_regular {
            self.file(place, facts, there.as_ref())?;
        } else {
            if has_name.is_some() {
                self.sink.remove(to)?;
            }
            self.special(place, facts)?;
        }
        self.sink.describe(to, follows, &description)?;
        if self.options.keep.links && facts.links > 1 {
            self.links.insert(facts.identity, self.sink.original(to)?);
        }
        self.copied.objects += 1;
        (self.listener)(&self.copied);
        Ok(())
    }

    fn special(&self, To { from, to }: To<'_>, facts: &Found) -> Result<()> {
        match facts.file_type {
            FileType::Symlink => self.sink.make_symlink(to, &self.source.target(from)?),
            kind => self.sink.make_node(to, kind, facts.permissions & !UMASK, facts.device),
        }
    }

    fn file(
        &mut self,
        To { from, to }: To<'_>,
        facts: &Found,
        there: Option<&Found>,
    ) -> Result<()> {
        // Opened first: what cannot be read replaces nothing.
        let mut body = self.source.open(from, facts)?;
        let permissions = match &self.options.mode {
            Some(mode) => mode.applied(facts.permissions, FileType::Regular),
            None => facts.permissions & 0o777 & !UMASK,
        };
        let mut target = match there {
            None => self.sink.make_file(to, permissions)?,
            Some(_) => match self.sink.open_cut(to) {
                Err(error) if self.options.existing == Existing::Force && is_denied(&error) => {
                    self.sink.remove(to)?;
                    self.sink.make_file(to, permissions)?
                }
                opened => opened?,
            },
        };
        if facts.size == 0 {
            let size = self.stream(&mut *body, &mut *target)?;
            target.end(size)?;
            return body.end();
        }
        let size = facts.size;
        let mut at = 0;
        while at < size {
            let data = match self.options.sparse {
                Sparse::Never => Some(at..size),
                _ => body.next_data(at, size)?,
            };
            let Some(data) = data else { break };
            at = data.start;
            while at < data.end.min(size) {
                let want = (data.end.min(size) - at).min(PIECE_BYTES as u64) as usize;
                let length = body.read(at, &mut self.buffer[..want])?;
                if length == 0 {
                    return Err(self.source.error(from.path, "became shorter while it was read"));
                }
                let piece = &self.buffer[..length];
                match self.options.sparse {
                    Sparse::Always => write_sparse(&mut *target, at, piece)?,
                    _ => target.write(at, piece)?,
                }
                at += length as u64;
                self.copied.bytes += length as u64;
                (self.listener)(&self.copied);
            }
        }
        target.end(size)?;
        body.end()
    }
}

impl Copy<'_> {
    /// Copies a file that says that it is empty up to its end: those that the kernel makes up while
    /// they are read say so. Returns how many bytes.
    fn stream(&mut self, body: &mut dyn Body, target: &mut dyn Target) -> Result<u64> {
        let mut at = 0;
        loop {
            let length = body.read(at, &mut self.buffer)?;
            if length == 0 {
                return Ok(at);
            }
            target.write(at, &self.buffer[..length])?;
            at += length as u64;
            self.copied.bytes += length as u64;
            (self.listener)(&self.copied);
        }
    }
}

fn is_denied(error: &Error) -> bool {
    match &error.what {
        What::Engine(kind) => matches!(**kind, ErrorKind::NotPermitted(_)),
        What::Host(error) => error.kind() == io::ErrorKind::PermissionDenied,
        _ => false,
    }
}

/// Writes what is not zeros, in steps of blocks.
fn write_sparse(target: &mut dyn Target, at: u64, piece: &[u8]) -> Result<()> {
    let is_hole = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    let mut offset = 0;
    for run in
        piece.chunks(HOLE_BYTES).collect::<Vec<_>>().chunk_by(|a, b| is_hole(a) == is_hole(b))
    {
        let length: usize = run.iter().map(|block| block.len()).sum();
        if !run.first().is_some_and(|block| is_hole(block)) {
            target.write(at + offset as u64, &piece[offset..offset + length])?;
        }
        offset += length;
    }
    Ok(())
}
