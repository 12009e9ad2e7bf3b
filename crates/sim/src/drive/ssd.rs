//! A solid-state drive: channels that work side by side, a link they share, and a write cache with
//! a slower medium behind it.
//!
//! ```text
//! read    overhead -> its channels (a stripe each, in order of arrival) -> link      -> answered
//! write   link, and meanwhile into the cache, which drains at the medium's rate -> latency
//!         -> answered once the last byte has found room
//! flush   what was written since the last one is made durable: one time of its own
//!         distribution; nothing written: overhead
//! ```
//!
//! A stripe goes to channel (stripe + rotation of its row) mod channels, the rotation being a hash
//! of the row: sequential commands use all channels alike, and no stride hits one alone. Published
//! latencies are those of 4 KiB at depth one, all included, so the file gives these, and what the
//! channel does is computed from them. Times vary log-normally from the median to the 99th
//! percentile. A write that forces the medium costs its latency and `force_unit_access_us`.
//!
//! The medium takes what has come while the rest is still on the link, so that a write which finds
//! no room costs the slower of the two, not both. With a cache of 0 the drive still has the two
//! buffers that this needs; the medium's time for 4 KiB is part of the published latency then.
//!
//! At a power cut the write cache is lost: what came first has drained first, at the medium's rate,
//! and is there; the rest is not, unless a flush or a forced write was answered for it. There is no
//! capacitor.
//!
//! Not modelled: reads that wait behind programs and erases of the medium (but for the tail), wear,
//! discard, read-ahead.
//!
//! *Invariants*: `channels`, `link` and the cache are booked in order of arrival at each, and never
//! in the past; a command is in `reading` or in `ends`, once; `draining` has every write that is
//! not on the medium whole, in order of arrival.
//!
//! *Locking*: none; the owner of a drive serialises.
use super::booking::{Bucket, Passage, Timeline, transfer_time};
use super::medium::{Latency, MOST_BYTES, Medium, RATES, Unit, whole_u32};
use super::section::{FileError, Section};
use super::{AnsweredBy, Command, Done, Drive, DriveInfo, Parts, Unflushed};
use crate::random::{Quantiles, Random, mix};
use extant_block::Operation;
use serde::Serialize;

/// Whether the link carries both directions at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// One at a time, as SATA.
    HalfDuplex,
    /// Both at a time, as PCI Express.
    FullDuplex,
}

/// A drive file of `kind = "ssd"`. Times are keys in microseconds, `_us` instead of `_ns`; a
/// latency is its median, and beside it its 99th percentile, as `read_4k_p99_us`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SsdSpec {
    /// Its size and depth.
    #[serde(flatten)]
    pub medium: Medium,
    /// How many stripes it reads at a time.
    pub channels: u32,
    /// How much lies on one channel before the next one follows.
    pub stripe_bytes: u64,
    /// `half-duplex` or `full-duplex`.
    pub link: Link,
    /// Of the link, in the direction of reads.
    pub read_bytes_per_s: u64,
    /// Of the link, in the direction of writes.
    pub write_bytes_per_s: u64,
    /// The controller's time per command, part of the latencies below.
    pub overhead_ns: u64,
    /// A read of 4 KiB on the idle drive.
    pub read_4k: Latency,
    /// A write of 4 KiB on the idle drive.
    pub write_4k: Latency,
    /// How much it takes at the link's rate before the medium's rate shows.
    pub write_cache_bytes: u64,
    /// The rate at which the cache drains.
    pub medium_write_bytes_per_s: u64,
    /// A flush that has something to do.
    pub flush: Latency,
    /// What a write that forces the medium costs beyond another.
    pub force_unit_access_ns: u64,
}

impl SsdSpec {
    /// From the table of a drive file. Errors name line and key.
    pub(in crate::drive) fn from_section(section: &mut Section<'_>) -> Result<SsdSpec, FileError> {
        let links = [("half-duplex", Link::HalfDuplex), ("full-duplex", Link::FullDuplex)];
        let medium = Medium::from_section(section)?;
        let spec = SsdSpec {
            medium,
            channels: whole_u32(section, "channels", 1..=4096, None)?,
            stripe_bytes: section.whole_within(
                "stripe_bytes",
                u64::from(medium.sector_bytes)..=1 << 30,
                None,
            )?,
            link: section.choice("link", &links, Link::HalfDuplex)?,
            read_bytes_per_s: section.whole_within("read_bytes_per_s", RATES, None)?,
            write_bytes_per_s: section.whole_within("write_bytes_per_s", RATES, None)?,
            overhead_ns: Unit::Microseconds.time(section, "overhead", Some(0))?,
            read_4k: Unit::Microseconds.latency(section, "read_4k")?,
            write_4k: Unit::Microseconds.latency(section, "write_4k")?,
            write_cache_bytes: section.whole_within("write_cache_bytes", 0..=MOST_BYTES, None)?,
            medium_write_bytes_per_s: section.whole_within(
                "medium_write_bytes_per_s",
                RATES,
                None,
            )?,
            flush: Unit::Microseconds.latency(section, "flush")?,
            force_unit_access_ns: Unit::Microseconds.time(section, "force_unit_access", Some(0))?,
        };
        spec.check_latency(section, "read_4k_us", spec.read_4k, spec.read_bytes_per_s)?;
        spec.check_latency(section, "write_4k_us", spec.write_4k, spec.write_bytes_per_s)?;
        Ok(spec)
    }

    /// What of the latency of 4 KiB is overhead and transfer.
    fn spent(&self, bytes_per_s: u64) -> u64 {
        self.overhead_ns + transfer_time(4096, bytes_per_s)
    }

    /// What 4 KiB pass through before they are answered: the link, and the medium where the cache
    /// does not hold as much.
    fn write_4k_rate(&self) -> u64 {
        match self.write_cache_bytes < 4096 {
            true => self.write_bytes_per_s.min(self.medium_write_bytes_per_s),
            false => self.write_bytes_per_s,
        }
    }

    fn check_latency(
        &self,
        section: &Section<'_>,
        key: &str,
        time: Latency,
        rate: u64,
    ) -> Result<(), FileError> {
        let spent = self.spent(rate);
        match time.median_ns > spent {
            true => Ok(()),
            false => Err(section.error(
                key,
                format!("has to be more than overhead and transfer, which take {spent} ns"),
            )),
        }
    }
}

/// The drive.
#[derive(Debug)]
pub struct Ssd {
    info: DriveInfo,
    spec: SsdSpec,
    read: Quantiles,
    write: Quantiles,
    flush: Quantiles,
    random: Random,
    /// When each channel is free.
    channels: Vec<u64>,
    /// When the link is free, for reads and for writes; half duplex uses the first for both.
    link_free: [u64; 2],
    /// The room in the write cache.
    cache: Bucket,
    /// Whether something was written since the last flush began, and when that one ends.
    written: bool,
    flushed: u64,
    /// Writes on their way from the cache to the medium.
    draining: Vec<Draining>,
    /// When the medium has taken all of them.
    drained: u64,
    /// Reads by the time at which their channels are done.
    reading: Timeline<Reading>,
    ends: Timeline<Done>,
    head: u64,
}

/// A write in the cache.
#[derive(Clone, Copy, Debug)]
struct Draining {
    /// When the medium takes it.
    passage: Passage,
    /// When the command is answered: a flush that comes later covers it.
    answered: u64,
    /// When a flush, or its own force, has brought it to the medium at the latest.
    forced: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    command: Command,
    parts: Parts,
}

const READ: usize = 0;
const WRITE: usize = 1;

impl Ssd {
    /// The drive, idle, with an empty write cache. The seed decides what varies.
    pub fn new(name: &str, spec: &SsdSpec, seed: u64) -> Ssd {
        Ssd {
            info: spec.medium.info(name, spec.read_bytes_per_s.max(spec.write_bytes_per_s)),
            spec: spec.clone(),
            read: spec.read_4k.quantiles(spec.spent(spec.read_bytes_per_s)),
            write: spec.write_4k.quantiles(spec.spent(spec.write_4k_rate())),
            flush: spec.flush.quantiles(0),
            random: Random::for_part(seed, "ssd"),
            channels: vec![0; spec.channels.max(1) as usize],
            link_free: [0; 2],
            cache: Bucket::full(spec.write_cache_bytes, spec.medium_write_bytes_per_s),
            written: false,
            flushed: 0,
            draining: Vec::new(),
            drained: 0,
            reading: Timeline::new(),
            ends: Timeline::new(),
            head: 0,
        }
    }

    fn link_of(&mut self, direction: usize) -> &mut u64 {
        match self.spec.link {
            Link::HalfDuplex => &mut self.link_free[READ],
            Link::FullDuplex => &mut self.link_free[direction],
        }
    }

    /// When the stripe's channel begins and ends with it.
    fn book_channel(&mut self, stripe: u64, ready: u64) -> (u64, u64) {
        let count = self.channels.len() as u64;
        let channel = (stripe % count + mix(stripe / count) % count) % count;
        let free = &mut self.channels[channel as usize];
        let begin = ready.max(*free);
        *free = begin + self.read.draw(&mut self.random);
        (begin, *free)
    }

    fn start_read(&mut self, command: Command, now: u64) {
        let ready = now + self.spec.overhead_ns;
        let mut parts = Parts { overhead: self.spec.overhead_ns, ..Parts::default() };
        let mut read = ready;
        for stripe in self.spec.medium.units(command.offset, command.bytes, self.spec.stripe_bytes)
        {
            let (begin, end) = self.book_channel(stripe, ready);
            if end >= read {
                (parts.queued, parts.media, read) = (begin - ready, end - begin, end);
            }
        }
        self.reading.push(read, Reading { command, parts });
    }

    /// Sends what was read by `now` over the link.
    fn transfer_reads(&mut self, now: u64) {
        while let Some((ready, Reading { command, mut parts })) = self.reading.pop(now) {
            let bus = transfer_time(command.bytes, self.spec.read_bytes_per_s);
            let link = self.link_of(READ);
            let begin = ready.max(*link);
            *link = begin + bus;
            parts.queued += begin - ready;
            parts.bus = bus;
            self.end(command, begin + bus, parts, AnsweredBy::Medium);
        }
    }

    fn start_write(&mut self, command: Command, now: u64) {
        let bus = transfer_time(command.bytes, self.spec.write_bytes_per_s);
        let link = self.link_of(WRITE);
        let begin = now.max(*link);
        let arrived = begin + bus;
        *link = arrived;
        // The cache drains while the data come.
        let room = self.cache.take(command.bytes, begin).max(arrived);
        let mut media = self.write.draw(&mut self.random);
        if command.force_unit_access {
            media += self.spec.force_unit_access_ns;
        } else {
            self.written = true;
        }
        // Until the medium is through with what came before, it is others' time.
        let others = self.drained.clamp(arrived, room);
        media += room - others;
        let queued = (begin - now) + (others - arrived);
        let parts =
            Parts { queued, overhead: self.spec.overhead_ns, media, bus, ..Parts::default() };
        let fits = room == arrived && command.bytes <= self.spec.write_cache_bytes;
        let by = match fits && !command.force_unit_access {
            true => AnsweredBy::Cache,
            false => AnsweredBy::Medium,
        };
        let Command { id, offset, bytes, .. } = command;
        let coming = Passage { id, offset, bytes, begin, end: arrived };
        self.draining.retain(|draining| draining.end() > now);
        let answered = now + parts.total();
        let forced = command.force_unit_access.then_some(answered);
        let passage = self.drain(coming);
        self.draining.push(Draining { passage, answered, forced });
        self.end(command, now + parts.total(), parts, by);
    }

    /// The medium takes the write after those before it, and as it comes over the link.
    fn drain(&mut self, coming: Passage) -> Passage {
        let begin = self.drained.max(coming.begin);
        let whole = transfer_time(coming.bytes, self.spec.medium_write_bytes_per_s);
        self.drained = (begin + whole).max(coming.end);
        Passage { begin, end: self.drained, ..coming }
    }

    fn start_flush(&mut self, command: Command, now: u64) {
        let mut parts = Parts { overhead: self.spec.overhead_ns, ..Parts::default() };
        if std::mem::take(&mut self.written) {
            parts = Parts { media: self.flush.draw(&mut self.random), ..Parts::default() };
        }
        // What an earlier flush is still making durable is this one's business too.
        parts.queued = self.flushed.saturating_sub(now + parts.total());
        self.flushed = now + parts.total();
        for draining in &mut self.draining {
            if draining.answered <= now && draining.forced.is_none() {
                draining.forced = Some(self.flushed);
            }
        }
        self.end(command, self.flushed, parts, AnsweredBy::Medium);
    }

    fn end(&mut self, command: Command, at: u64, parts: Parts, by: AnsweredBy) {
        if command.bytes > 0 {
            self.head = command.offset.saturating_add(command.bytes);
        }
        self.ends.push(at, Done { id: command.id, at, parts, hit: by == AnsweredBy::Cache });
    }
}

impl Draining {
    /// When it is on the medium whole.
    fn end(&self) -> u64 {
        self.forced.map_or(self.passage.end, |forced| forced.min(self.passage.end))
    }
}

impl Drive for Ssd {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn submit(&mut self, command: Command, now: u64) {
        self.transfer_reads(now);
        match command.operation {
            Operation::Read => self.start_read(command, now),
            Operation::Write => self.start_write(command, now),
            Operation::Flush => self.start_flush(command, now),
        }
    }

    fn next_event(&self) -> Option<u64> {
        let read = self.reading.first().map(|(ready, reading)| {
            let bus = transfer_time(reading.command.bytes, self.spec.read_bytes_per_s);
            ready.max(self.link_free[READ]) + bus
        });
        let ended = self.ends.first().map(|(at, _)| at);
        read.into_iter().chain(ended).min()
    }

    fn advance(&mut self, now: u64, done: &mut Vec<Done>) {
        self.transfer_reads(now);
        self.ends.finish(now, done);
    }

    fn head(&self) -> u64 {
        self.head
    }

    fn unflushed(&mut self, now: u64) -> Vec<Unflushed> {
        let sector = u64::from(self.spec.medium.sector_bytes);
        let left = self.draining.iter().filter(|draining| draining.end() > now);
        left.filter_map(|draining| draining.passage.left(sector, now)).collect()
    }

    fn power_cut(&mut self, now: u64) -> Vec<Unflushed> {
        let lost = self.unflushed(now);
        let rate = self.spec.medium_write_bytes_per_s;
        self.cache = Bucket::full(self.spec.write_cache_bytes, rate);
        self.channels.fill(now);
        (self.link_free, self.drained, self.flushed) = ([now; 2], now, now);
        (self.written, self.draining) = (false, Vec::new());
        (self.reading, self.ends) = (Timeline::new(), Timeline::new());
        lost
    }
}
