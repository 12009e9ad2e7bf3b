//! The least that a FUSE server can cost: names and attributes in memory, data nowhere. Reads give
//! zeros. It serves through the transport and the workers of `extant mount`, so that the difference
//! to it is what the engine and its device take.
//!
//! ```text
//! null_server DIR [WORD..]
//!     through | cached        where written data waits (cached)
//!     names | plus | adaptive what listings bring (adaptive)
//!     everyone                allow_other, default_permissions
//!     noxattr                 says that there are no extended attributes; else the kernel asks
//!                             for one twice a file, as on any volume that may have some
//!     workers=N               threads
//!     background=N            requests that no process waits for, at a time
//!     counts                  prints in the end how often each operation was asked for
//! ```
//! It serves until it is unmounted.
// tidy: print because a measurement is for a script
use extant_block::{Access, Clock, RealClock, ShortLock};
use extant_mount::greeting::{Listing, Wishes, Writing, greet};
use extant_mount::protocol::numbers::{opened, set};
use extant_mount::protocol::{Errno, Operation, Reply, Request, wire};
use extant_mount::serve::Serve;
use extant_mount::transport::{Audience, Options, Transport, attach};
use extant_mount::workers::{Settings, Workers};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use zerocopy::IntoBytes;

const ROOT: u64 = 1;
const FOREVER: u64 = u64::MAX / 2;
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const EXISTS: Errno = Errno(17);
const NOT_EMPTY: Errno = Errno(39);

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((target, words)) = words.split_first() else {
        return Err("null_server DIR [WORD..]".into());
    };
    let mut wishes = Wishes::default();
    let mut workers = None;
    let mut counts = Counts::None;
    let mut attribute = Errno::NO_DATA;
    for word in words {
        match word.split_once('=') {
            Some(("workers", number)) => workers = Some(number.parse()?),
            Some(("background", number)) => wishes.background_max = number.parse()?,
            _ => match word.as_str() {
                "through" => wishes.writing = Writing::Through,
                "cached" => wishes.writing = Writing::Cached,
                "names" => wishes.listing = Listing::Names,
                "plus" => wishes.listing = Listing::Attributes,
                "adaptive" => wishes.listing = Listing::Adaptive,
                "everyone" => wishes.audience = Audience::Everyone,
                "noxattr" => attribute = Errno::NOT_IMPLEMENTED,
                "counts" => counts = Counts::Kept,
                _ => return Err(format!("no word {word}").into()),
            },
        }
    }
    let mut options = Options::new("null", Access::ReadWrite);
    options.audience = wishes.audience;
    let clock = RealClock::new();
    let attached = attach(Path::new(target), &options)?;
    let transport: Arc<dyn Transport> = Arc::new(attached.into_device());
    let agreement = greet(&*transport, &wishes)?;
    let mut settings = Settings::new(agreement.write_bytes_max);
    settings.workers = workers.unwrap_or(settings.workers);
    let server = Arc::new(Server::new(clock.clone(), counts, attribute));
    let serving = Arc::clone(&server) as Arc<dyn Serve>;
    let ending = Workers::start(clock, transport, serving, settings)?.join()?;
    if counts == Counts::Kept {
        let tree = server.tree.lock();
        tree.asked.iter().for_each(|(operation, count)| println!("{count:>9} {operation}"));
        println!("{ending:?}");
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Kept,
    None,
}

struct Server {
    clock: Arc<dyn Clock>,
    counts: Counts,
    /// What is said to someone who asks for an extended attribute.
    attribute: Errno,
    tree: ShortLock<Tree>,
}

#[derive(Default)]
struct Tree {
    nodes: FxHashMap<u64, Node>,
    last: u64,
    asked: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Node {
    attributes: wire::Attributes,
    parent: u64,
    target: Vec<u8>,
    /// Places in the listing by name, and what is there.
    names: FxHashMap<Vec<u8>, u64>,
    places: BTreeMap<u64, (Vec<u8>, u64)>,
    last_place: u64,
}

/// Takes the first word that is written to it, and no more.
#[derive(Default)]
struct Word(String);

impl Write for Word {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = text.find(|sign: char| !sign.is_alphanumeric());
        self.0.push_str(&text[..end.unwrap_or(text.len())]);
        end.map_or(Ok(()), |_| Err(std::fmt::Error))
    }
}

type Answer<T> = Result<T, Errno>;

impl Tree {
    fn node(&mut self, number: u64) -> Answer<&mut Node> {
        self.nodes.get_mut(&number).ok_or(Errno::STALE)
    }

    fn find(&mut self, directory: u64, name: &[u8]) -> Answer<u64> {
        let node = self.node(directory)?;
        let place = node.names.get(name).ok_or(Errno::NOT_FOUND)?;
        Ok(node.places[place].1)
    }

    fn enter(&mut self, directory: u64, name: &[u8], number: u64) -> Answer<()> {
        let node = self.node(directory)?;
        node.last_place += 1;
        let place = node.last_place;
        if node.names.contains_key(name) {
            return Err(EXISTS);
        }
        node.names.insert(name.to_vec(), place);
        node.places.insert(place, (name.to_vec(), number));
        Ok(())
    }

    fn leave(&mut self, directory: u64, name: &[u8]) -> Answer<u64> {
        let node = self.node(directory)?;
        let place = node.names.remove(name).ok_or(Errno::NOT_FOUND)?;
        node.places.remove(&place).map(|(_, number)| number).ok_or(Errno::NOT_FOUND)
    }

    fn entry(&mut self, number: u64) -> Answer<wire::Entry> {
        let attributes = self.node(number)?.attributes;
        Ok(wire::Entry {
            node: number,
            entry_seconds: FOREVER,
            attribute_seconds: FOREVER,
            attributes,
            ..Default::default()
        })
    }

    /// Unlinks a name, and drops a node whose last name it was. (An open file that is unlinked
    /// stays in the kernel's cache: here is no data to lose.)
    fn unlink(&mut self, directory: u64, name: &[u8]) -> Answer<()> {
        let number = self.find(directory, name)?;
        if !self.node(number)?.names.is_empty() {
            return Err(NOT_EMPTY);
        }
        self.leave(directory, name)?;
        let attributes = &mut self.node(number)?.attributes;
        attributes.links = attributes.links.saturating_sub(1);
        if attributes.mode & TYPE == DIRECTORY {
            self.node(directory)?.attributes.links -= 1;
            self.nodes.remove(&number);
        }
        Ok(())
    }

    fn rename(&mut self, from: u64, name: &[u8], to: u64, to_name: &[u8]) -> Answer<()> {
        let number = self.find(from, name)?;
        match self.unlink(to, to_name) {
            Ok(()) | Err(Errno::NOT_FOUND) => {}
            Err(error) => return Err(error),
        }
        self.leave(from, name)?;
        self.enter(to, to_name, number)?;
        let node = self.node(number)?;
        node.parent = to;
        if node.attributes.mode & TYPE == DIRECTORY {
            self.node(from)?.attributes.links -= 1;
            self.node(to)?.attributes.links += 1;
        }
        Ok(())
    }

    fn set(&mut self, number: u64, asked: &wire::SetAttributes, now: (u64, u32)) -> Answer<()> {
        let attributes = &mut self.node(number)?.attributes;
        let has = |flag| asked.valid & flag != 0;
        if has(set::MODE) {
            attributes.mode = attributes.mode & TYPE | asked.mode & !TYPE;
        }
        if has(set::UID) {
            attributes.uid = asked.uid;
        }
        if has(set::GID) {
            attributes.gid = asked.gid;
        }
        if has(set::SIZE) {
            attributes.size = asked.size;
        }
        let access = (asked.access_seconds, asked.access_nanoseconds);
        let modify = (asked.modify_seconds, asked.modify_nanoseconds);
        if has(set::ACCESS_TIME) {
            (attributes.access_seconds, attributes.access_nanoseconds) =
                if has(set::ACCESS_NOW) { now } else { access };
        }
        if has(set::MODIFY_TIME) {
            (attributes.modify_seconds, attributes.modify_nanoseconds) =
                if has(set::MODIFY_NOW) { now } else { modify };
        }
        if has(set::CHANGE_TIME) {
            attributes.change_seconds = asked.change_seconds;
            attributes.change_nanoseconds = asked.change_nanoseconds;
        }
        Ok(())
    }

    /// Puts entries into `space`, at most `size` bytes.
    fn list(&mut self, number: u64, asked: &wire::Read, plus: Plus, space: &mut Vec<u8>) {
        space.clear();
        let Some(node) = self.nodes.get(&number) else { return };
        let parents = [(1, &b"."[..], number), (2, &b".."[..], node.parent)];
        let parents = parents.into_iter().filter(|(place, ..)| *place > asked.offset);
        let places = node.places.range(asked.offset.saturating_sub(1).max(1)..);
        let places = places.map(|(place, (name, number))| (place + 2, &name[..], *number));
        for (place, name, number) in parents.chain(places.filter(|(at, ..)| *at > asked.offset)) {
            let Some(child) = self.nodes.get(&number) else { continue };
            let head = match plus {
                Plus::Attributes => size_of::<wire::Entry>(),
                Plus::Nothing => 0,
            };
            let bytes = head + (size_of::<wire::DirectoryEntry>() + name.len()).next_multiple_of(8);
            if space.len() + bytes > asked.size as usize {
                break;
            }
            let end = space.len() + bytes;
            if plus == Plus::Attributes {
                // The kernel takes no look-up of the two that every directory has.
                let is_parent = place <= 2;
                let entry = wire::Entry {
                    node: if is_parent { 0 } else { number },
                    entry_seconds: FOREVER,
                    attribute_seconds: FOREVER,
                    attributes: child.attributes,
                    ..Default::default()
                };
                space.extend_from_slice(entry.as_bytes());
            }
            let entry = wire::DirectoryEntry {
                ino: number,
                next: place,
                name_length: name.len() as u32,
                file_type: child.attributes.mode >> 12,
            };
            space.extend_from_slice(entry.as_bytes());
            space.extend_from_slice(name);
            space.resize(end, 0);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    Attributes,
    Nothing,
}

impl Server {
    fn new(clock: Arc<dyn Clock>, counts: Counts, attribute: Errno) -> Server {
        let server = Server { clock, counts, attribute, tree: ShortLock::default() };
        let mut tree = server.tree.lock();
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let attributes = server.attributes(DIRECTORY | 0o755, uid, gid, 0);
        let attributes = wire::Attributes { ino: ROOT, ..attributes };
        tree.nodes.insert(ROOT, Node { attributes, parent: ROOT, ..Node::default() });
        tree.last = ROOT;
        drop(tree);
        server
    }

    fn count(&self, operation: &Operation<'_>) {
        let mut word = Word::default();
        // Ends with an error at the end of the first word.
        let _ = write!(word, "{operation:?}");
        *self.tree.lock().asked.entry(word.0).or_default() += 1;
    }

    fn now(&self) -> (u64, u32) {
        let now = self.clock.wall();
        (now.seconds as u64, now.nanoseconds)
    }

    fn attributes(&self, mode: u32, uid: u32, gid: u32, device: u32) -> wire::Attributes {
        let (seconds, nanoseconds) = self.now();
        wire::Attributes {
            access_seconds: seconds,
            modify_seconds: seconds,
            change_seconds: seconds,
            access_nanoseconds: nanoseconds,
            modify_nanoseconds: nanoseconds,
            change_nanoseconds: nanoseconds,
            mode,
            links: if mode & TYPE == DIRECTORY { 2 } else { 1 },
            uid,
            gid,
            device,
            block_size: 4096,
            ..Default::default()
        }
    }

    fn make(&self, request: &Request<'_>, name: &[u8], mode: u32, device: u32) -> Answer<u64> {
        let attributes = self.attributes(mode, request.uid, request.gid, device);
        let mut tree = self.tree.lock();
        let number = tree.last + 1;
        tree.enter(request.node, name, number)?;
        tree.last = number;
        let attributes = wire::Attributes { ino: number, ..attributes };
        let node = Node { attributes, parent: request.node, ..Node::default() };
        tree.nodes.insert(number, node);
        if mode & TYPE == DIRECTORY {
            tree.node(request.node)?.attributes.links += 1;
        }
        Ok(number)
    }

    fn new_entry(&self, reply: Reply<'_>, made: Answer<u64>) {
        tell(reply, made.and_then(|number| self.tree.lock().entry(number)));
    }

    fn file(&self, request: &Request<'_>, reply: Reply<'_>, space: &mut Vec<u8>) {
        let handle =
            wire::OpenReply { flags: opened::KEEP_CACHE | opened::NO_FLUSH, ..Default::default() };
        match request.operation {
            Operation::Open(open) => {
                const TRUNCATE: u32 = 0o1000;
                if open.flags & TRUNCATE != 0
                    && let Ok(node) = self.tree.lock().node(request.node)
                {
                    node.attributes.size = 0;
                }
                reply.value(&handle);
            }
            Operation::Create { arguments, name } => {
                let made = self.make(request, name, arguments.mode & !arguments.umask, 0);
                match made.and_then(|number| self.tree.lock().entry(number)) {
                    Ok(entry) => reply.parts(&[entry.as_bytes(), handle.as_bytes()]),
                    Err(error) => reply.error(error),
                }
            }
            Operation::Read(read) => {
                let size = self.tree.lock().node(request.node).map_or(0, |it| it.attributes.size);
                let bytes = u64::from(read.size).min(size.saturating_sub(read.offset)) as usize;
                if space.len() < bytes {
                    space.resize(bytes, 0);
                }
                reply.bytes(&space[..bytes]);
            }
            Operation::Write { arguments, data } => {
                if let Ok(node) = self.tree.lock().node(request.node) {
                    let end = arguments.offset.saturating_add(data.len() as u64);
                    node.attributes.size = node.attributes.size.max(end);
                    node.attributes.blocks = node.attributes.size.div_ceil(512);
                }
                reply.value(&wire::WriteReply { size: data.len() as u32, unused: 0 });
            }
            Operation::OpenDirectory(_) => {
                let flags = opened::KEEP_CACHE | opened::CACHE_DIRECTORY;
                reply.value(&wire::OpenReply { flags, ..Default::default() });
            }
            Operation::ReadDirectory(read) => {
                self.tree.lock().list(request.node, &read, Plus::Nothing, space);
                reply.bytes(space);
                space.fill(0);
            }
            Operation::ReadDirectoryPlus(read) => {
                self.tree.lock().list(request.node, &read, Plus::Attributes, space);
                reply.bytes(space);
                space.fill(0);
            }
            _ => reply.error(Errno::NOT_IMPLEMENTED),
        }
    }

    fn name(&self, request: &Request<'_>, reply: Reply<'_>) {
        match request.operation {
            Operation::Lookup { name } => {
                let mut tree = self.tree.lock();
                let found = match tree.find(request.node, name) {
                    Ok(number) => tree.entry(number),
                    // An entry without a node: the kernel remembers that there is none.
                    Err(_) => Ok(wire::Entry { entry_seconds: FOREVER, ..Default::default() }),
                };
                drop(tree);
                tell(reply, found);
            }
            Operation::MakeNode { arguments, name } => {
                let mode = arguments.mode & !arguments.umask;
                self.new_entry(reply, self.make(request, name, mode, arguments.device));
            }
            Operation::MakeDirectory { arguments, name } => {
                let mode = DIRECTORY | arguments.mode & !arguments.umask & !TYPE;
                self.new_entry(reply, self.make(request, name, mode, 0));
            }
            Operation::SymbolicLink { name, target } => {
                let made = self.make(request, name, LINK | 0o777, 0).and_then(|number| {
                    let mut tree = self.tree.lock();
                    let node = tree.node(number)?;
                    node.target = target.to_vec();
                    node.attributes.size = target.len() as u64;
                    Ok(number)
                });
                self.new_entry(reply, made);
            }
            Operation::Link { node, name } => {
                let mut tree = self.tree.lock();
                let linked = tree.enter(request.node, name, node).and_then(|()| {
                    tree.node(node)?.attributes.links += 1;
                    tree.entry(node)
                });
                drop(tree);
                tell(reply, linked);
            }
            Operation::Unlink { name } | Operation::RemoveDirectory { name } => {
                done(reply, self.tree.lock().unlink(request.node, name));
            }
            Operation::Rename { name, to, to_name, .. } => {
                done(reply, self.tree.lock().rename(request.node, name, to, to_name));
            }
            _ => reply.error(Errno::NOT_IMPLEMENTED),
        }
    }
}

fn tell(reply: Reply<'_>, entry: Answer<wire::Entry>) {
    match entry {
        Ok(entry) => reply.value(&entry),
        Err(error) => reply.error(error),
    }
}

fn done(reply: Reply<'_>, result: Answer<()>) {
    match result {
        Ok(()) => reply.done(),
        Err(error) => reply.error(error),
    }
}

impl Serve for Server {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>, space: &mut Vec<u8>) {
        if self.counts == Counts::Kept {
            self.count(&request.operation);
        }
        match request.operation {
            Operation::Forget { .. }
            | Operation::BatchForget { .. }
            | Operation::Interrupt { .. } => reply.none(),
            Operation::GetAttributes { .. } | Operation::SetAttributes(_) => {
                let mut tree = self.tree.lock();
                let set = match &request.operation {
                    Operation::SetAttributes(asked) => tree.set(request.node, asked, self.now()),
                    _ => Ok(()),
                };
                let found = set.and_then(|()| Ok(tree.node(request.node)?.attributes));
                drop(tree);
                match found {
                    Ok(attributes) => reply.value(&wire::AttributesReply {
                        valid_seconds: FOREVER,
                        attributes,
                        ..Default::default()
                    }),
                    Err(error) => reply.error(error),
                }
            }
            Operation::ReadLink => {
                let target = self.tree.lock().node(request.node).map(|node| node.target.clone());
                reply.bytes(&target.unwrap_or_default());
            }
            Operation::StatFs => {
                let free = 1 << 28;
                reply.value(&wire::StatFsReply {
                    blocks: free,
                    free_blocks: free,
                    available_blocks: free,
                    files: free,
                    free_files: free,
                    block_size: 4096,
                    name_length: 255,
                    fragment_size: 4096,
                    ..Default::default()
                });
            }
            Operation::Release { .. }
            | Operation::ReleaseDirectory { .. }
            | Operation::Sync { .. }
            | Operation::SyncDirectory { .. }
            | Operation::Destroy => reply.done(),
            Operation::GetXattr { .. } => reply.error(self.attribute),
            // The kernel does not ask again; it still writes what it holds when a file is closed.
            Operation::Flush { .. } => reply.error(Errno::NOT_IMPLEMENTED),
            Operation::Open(_)
            | Operation::Create { .. }
            | Operation::Read(_)
            | Operation::Write { .. }
            | Operation::OpenDirectory(_)
            | Operation::ReadDirectory(_)
            | Operation::ReadDirectoryPlus(_) => self.file(request, reply, space),
            _ => self.name(request, reply),
        }
    }
}
