//! An object store under a block device: the device is cut into objects of one size, and nothing
//! smaller can be written.
//!
//! ```text
//! read    a ranged GET for every object touched: first byte, then the bytes at a connection's
//!         rate
//! write   covers an object whole:   PUT
//!         covers it in part:        GET of the object, then PUT of the object, on one connection
//! flush   nothing: what is answered is durable
//! ```
//!
//! Requests of a command go out side by side, each on the connection that is free first; the
//! command ends with the last of them, and its parts are those of that one. Writes to one object
//! follow each other, or one would undo the other; a connection is held while its request waits for
//! that. Reads do not wait for writes under way: they get the object as it was. Every object is
//! taken to exist, so that a partial write always reads first. The time to the first byte, and that
//! of a PUT, vary log-normally.
//!
//! Requests are counted, and what they cost, in millionths of a dollar: [`Drive::bill`].
//!
//! A power cut is that of the machine: an object is there whole or as it was before, and a write
//! over several of them may be there in part. The store and its bill go on.
//!
//! *Invariants*: a connection carries one request at a time; a command that is inside is in `ends`,
//! once; `written` holds no more than the objects of writes under way when the last write came.
//!
//! *Locking*: none; the owner of a drive serialises.
use super::booking::{Passage, Timeline, transfer_time};
use super::medium::{Latency, Medium, RATES, Unit, whole_u32};
use super::section::{FileError, Section};
use super::{Command, Done, Drive, DriveInfo, Parts, Unflushed};
use crate::random::{Quantiles, Random};
use extant_block::Operation;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Prices in millionths of a dollar: the table `[prices]` of a drive file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Prices {
    /// Of a thousand GETs.
    pub get_per_thousand: u64,
    /// Of a thousand PUTs.
    pub put_per_thousand: u64,
    /// Of 2^30 bytes that leave the store.
    pub read_per_gib: u64,
}

impl Prices {
    fn from_section(section: &mut Section<'_>) -> Result<Prices, FileError> {
        let Some(mut table) = section.optional_section("prices")? else {
            return Ok(Prices::default());
        };
        let mut price = |key: &str| table.whole_within(key, 0..=1_000_000_000_000, Some(0));
        let prices = Prices {
            get_per_thousand: price("get_per_thousand")?,
            put_per_thousand: price("put_per_thousand")?,
            read_per_gib: price("read_per_gib")?,
        };
        table.finish()?;
        Ok(prices)
    }
}

/// A drive file of `kind = "object"`. Times are keys in milliseconds: `first_byte_ms`,
/// `first_byte_p99_ms`, and so on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ObjectSpec {
    /// Its size and depth.
    #[serde(flatten)]
    pub medium: Medium,
    /// How much an object holds.
    pub object_bytes: u64,
    /// How many requests are under way at a time.
    pub connections: u32,
    /// The rate of one.
    pub connection_bytes_per_s: u64,
    /// From a GET to its first byte.
    pub first_byte: Latency,
    /// From the last byte of a PUT to its answer.
    pub put: Latency,
    /// What requests cost.
    pub prices: Prices,
}

impl ObjectSpec {
    /// From the table of a drive file. Errors name line and key.
    pub(in crate::drive) fn from_section(
        section: &mut Section<'_>,
    ) -> Result<ObjectSpec, FileError> {
        let medium = Medium::from_section(section)?;
        let sector = u64::from(medium.sector_bytes);
        let object_bytes = section.whole_within("object_bytes", sector..=1 << 40, None)?;
        if !object_bytes.is_multiple_of(sector) {
            return Err(section.error("object_bytes", format!("has to be a multiple of {sector}")));
        }
        Ok(ObjectSpec {
            medium,
            object_bytes,
            connections: whole_u32(section, "connections", 1..=65_536, None)?,
            connection_bytes_per_s: section.whole_within("connection_bytes_per_s", RATES, None)?,
            first_byte: Unit::Milliseconds.latency(section, "first_byte")?,
            put: Unit::Milliseconds.latency(section, "put")?,
            prices: Prices::from_section(section)?,
        })
    }
}

/// What was asked of a store, and what it costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Bill {
    /// Requests that read.
    pub gets: u64,
    /// Requests that wrote.
    pub puts: u64,
    /// How much was read, for partial writes too.
    pub read_bytes: u64,
    /// How much was written.
    pub written_bytes: u64,
    /// Their price in millionths of a dollar, each kind rounded down.
    pub micro_dollars: u64,
}

/// The store.
#[derive(Debug)]
pub struct ObjectStore {
    info: DriveInfo,
    spec: ObjectSpec,
    first_byte: Quantiles,
    put: Quantiles,
    random: Random,
    /// When each connection is free.
    connections: BinaryHeap<Reverse<u64>>,
    /// Objects that are being written, and until when.
    written: BTreeMap<u64, u64>,
    /// What of each object under way its command covers; it is there at the end.
    puts: Vec<Passage>,
    bill: Bill,
    ends: Timeline<Done>,
    head: u64,
}

impl ObjectStore {
    /// The store, idle. The seed decides what varies.
    pub fn new(name: &str, spec: &ObjectSpec, seed: u64) -> ObjectStore {
        let rate = spec.connection_bytes_per_s.saturating_mul(u64::from(spec.connections));
        ObjectStore {
            info: spec.medium.info(name, rate),
            spec: spec.clone(),
            first_byte: spec.first_byte.quantiles(0),
            put: spec.put.quantiles(0),
            random: Random::for_part(seed, "object"),
            connections: (0..spec.connections.max(1)).map(|_| Reverse(0)).collect(),
            written: BTreeMap::new(),
            puts: Vec::new(),
            bill: Bill::default(),
            ends: Timeline::new(),
            head: 0,
        }
    }

    /// What was asked so far, requests under way included.
    fn bill_so_far(&self) -> Bill {
        let part = |count: u64, price: u64, per: u64| {
            u128::from(count) * u128::from(price) / u128::from(per)
        };
        let prices = self.spec.prices;
        let sum = part(self.bill.gets, prices.get_per_thousand, 1000)
            + part(self.bill.puts, prices.put_per_thousand, 1000)
            + part(self.bill.read_bytes, prices.read_per_gib, 1 << 30);
        Bill { micro_dollars: u64::try_from(sum).unwrap_or(u64::MAX), ..self.bill }
    }

    /// How much the object holds: the last one may be shorter.
    fn object_length(&self, object: u64) -> u64 {
        let start = object * self.spec.object_bytes;
        self.spec.object_bytes.min(self.info.bytes.saturating_sub(start))
    }

    /// How much of the object the command covers.
    fn covered(&self, object: u64, command: &Command) -> u64 {
        let start = object * self.spec.object_bytes;
        let end =
            command.offset.saturating_add(command.bytes).min(start + self.object_length(object));
        end.saturating_sub(command.offset.max(start))
    }

    fn get(&mut self, bytes: u64) -> Parts {
        self.bill.gets += 1;
        self.bill.read_bytes += bytes;
        let media = self.first_byte.draw(&mut self.random);
        Parts {
            media,
            bus: transfer_time(bytes, self.spec.connection_bytes_per_s),
            ..Parts::default()
        }
    }

    fn put(&mut self, bytes: u64) -> Parts {
        self.bill.puts += 1;
        self.bill.written_bytes += bytes;
        let media = self.put.draw(&mut self.random);
        Parts {
            media,
            bus: transfer_time(bytes, self.spec.connection_bytes_per_s),
            ..Parts::default()
        }
    }

    /// The whole object, read first when the write covers it in part.
    fn rewrite(&mut self, covered: u64, length: u64) -> Parts {
        let read = match covered < length {
            true => self.get(length),
            false => Parts::default(),
        };
        let write = self.put(length);
        Parts { media: read.media + write.media, bus: read.bus + write.bus, ..Parts::default() }
    }

    /// One object of a command.
    fn request(&mut self, object: u64, command: &Command, now: u64) -> Parts {
        let covered = self.covered(object, command);
        let writes = command.operation == Operation::Write;
        let earlier = if writes { self.written.get(&object).copied() } else { None };
        let free = self.connections.pop().map_or(now, |Reverse(free)| free);
        let begin = now.max(free).max(earlier.unwrap_or(now));
        let work = match writes {
            true => self.rewrite(covered, self.object_length(object)),
            false => self.get(covered),
        };
        let end = begin + work.total();
        self.connections.push(Reverse(end));
        if writes {
            self.written.insert(object, end);
            let offset = command.offset.max(object * self.spec.object_bytes);
            self.puts.push(Passage { id: command.id, offset, bytes: covered, begin: end, end });
        }
        Parts { queued: begin - now, ..work }
    }

    fn transfer(&mut self, command: &Command, now: u64) -> Parts {
        if command.operation == Operation::Write {
            self.written.retain(|_, end| *end > now);
            self.puts.retain(|put| put.end > now);
        }
        self.head = command.offset.saturating_add(command.bytes);
        let mut last = Parts::default();
        for object in self.spec.medium.units(command.offset, command.bytes, self.spec.object_bytes)
        {
            let parts = self.request(object, command, now);
            if parts.total() > last.total() {
                last = parts;
            }
        }
        last
    }
}

impl Drive for ObjectStore {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn submit(&mut self, command: Command, now: u64) {
        let parts = match command.operation {
            Operation::Read | Operation::Write => self.transfer(&command, now),
            Operation::Flush => Parts::default(),
        };
        let at = now + parts.total();
        self.ends.push(at, Done { id: command.id, at, parts, hit: false });
    }

    fn next_event(&self) -> Option<u64> {
        self.ends.first().map(|(at, _)| at)
    }

    fn advance(&mut self, now: u64, done: &mut Vec<Done>) {
        self.ends.finish(now, done);
    }

    fn head(&self) -> u64 {
        self.head
    }

    fn unflushed(&mut self, now: u64) -> Vec<Unflushed> {
        self.puts.iter().filter_map(|put| put.left(1, now)).collect()
    }

    fn power_cut(&mut self, now: u64) -> Vec<Unflushed> {
        let lost = self.unflushed(now);
        (self.ends, self.puts, self.written) = (Timeline::new(), Vec::new(), BTreeMap::new());
        self.connections = self.connections.drain().map(|_| Reverse(now)).collect();
        lost
    }

    fn bill(&self) -> Option<Bill> {
        Some(self.bill_so_far())
    }
}
