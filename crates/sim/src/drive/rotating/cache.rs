//! What is known of a drive's memory and its bus: how it reads on, what it keeps of writes, and
//! when data move to the host.
use crate::drive::section::{FileError, Section};
use serde::Serialize;

const MOST_SEGMENTS: u64 = 1_024;
const MOST_SEGMENT_SECTORS: u64 = 1 << 24;
/// A share of 1, in millionths.
pub const WHOLE: u64 = 1_000_000;

/// On-drive memory and the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Cache {
    /// Segments of reads.
    pub segments: u32,
    /// Sectors of a segment.
    pub segment_sectors: u64,
    /// Segments that writes may use.
    pub write_segments: u32,
    /// Whether a write is answered once it is in the cache.
    pub write_back: bool,
    /// How many separate runs of sectors the write cache holds at most; 0: as many as fit.
    pub write_runs: u32,
    /// What happens to writes in the cache when a read needs the medium.
    pub destage: Destage,
    /// Whether what was written stays readable in a segment once it is on the medium.
    pub keep_written: bool,
    /// Whether one of the segments is for what was written alone.
    pub separate_write_segment: bool,
    /// The interface.
    pub bus: Bus,
    /// Reading on after a read.
    pub look_ahead: ReadingOn,
    /// In which order the sectors of a read are taken.
    pub read_order: Order,
    /// In which order the sectors of a write are put down.
    pub write_order: Order,
    /// Whether sectors of the track before the first requested one are kept, when they pass while
    /// the head waits for it.
    pub read_before: bool,
}

/// The interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Bus {
    /// Picoseconds of a sector from the drive to the host.
    pub read_sector_ps: u64,
    /// Picoseconds of a sector from the host to the drive.
    pub write_sector_ps: u64,
    /// Which share of a read, in millionths, is in the buffer before the bus starts. 0: the first
    /// sector.
    pub start_millionths: u64,
    /// What that is a share of.
    pub start_of: StartOf,
    /// Whether the part of a read that the cache holds moves before the share is there.
    pub held_at_once: bool,
}

impl Bus {
    /// The rate towards the host.
    pub fn read_bytes_per_second(&self, sector_bytes: u32) -> f64 {
        f64::from(sector_bytes) * 1e12 / self.read_sector_ps.max(1) as f64
    }

    /// Of that many sectors to the host, in nanoseconds.
    pub(super) fn read_ns(&self, sectors: u64) -> u64 {
        sectors.saturating_mul(self.read_sector_ps) / 1000
    }

    /// Of that many sectors from the host, in nanoseconds.
    pub(super) fn write_ns(&self, sectors: u64) -> u64 {
        sectors.saturating_mul(self.write_sector_ps) / 1000
    }

    /// How many sectors of a read of `sectors` are in the buffer before the bus starts; at least 1
    /// and at most all.
    pub(super) fn start_sectors(&self, sectors: u64, segment: u64) -> u64 {
        let whole = match self.start_of {
            StartOf::Request => sectors.min(segment),
            StartOf::Segment => segment,
        };
        let share = u128::from(whole) * u128::from(self.start_millionths);
        let share = u64::try_from(share.div_ceil(u128::from(WHOLE))).unwrap_or(u64::MAX);
        share.clamp(1, sectors)
    }
}

/// What a water mark is a share of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartOf {
    /// The read, or a segment where that is shorter.
    Request,
    /// A segment.
    Segment,
}

/// In which order sectors of a track are read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// From the first on.
    Ascending,
    /// As they pass under the head.
    AsPassed,
}

/// What happens to writes in the cache when a read needs the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Destage {
    /// They wait until the arm has nothing else to do, or there is no room.
    WhenIdle,
    /// They go to the medium first.
    BeforeReads,
}

/// Reading on into the segment after a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ReadingOn {
    /// When it begins, and what ends it.
    pub kind: LookAhead,
    /// How far it goes.
    pub reach: Reach,
    /// At most this many sectors after a read.
    pub most_sectors: u64,
    /// This many are read before another command gets the arm.
    pub least_sectors: u64,
    /// Whether the data of the last read stay in the segment.
    pub keep_request: bool,
    /// Whether it starts again after a read that the cache answered whole.
    pub after_hit: bool,
    /// Whether a write that the cache takes ends it.
    pub ends_at_write: bool,
    /// Whether it ends in the middle of a sector, or at the end of it.
    pub ends_in_sector: bool,
}

/// When reading on begins and what ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LookAhead {
    /// The drive does not read on.
    Off,
    /// It reads on only after a read that goes on where a segment ends; ended as with `Continue`.
    OnSequence,
    /// After any read. Any command other than a read from the same segment ends it.
    UntilCommand,
    /// After any read. A command that needs the arm ends it; reads that other segments answer do
    /// not.
    Continue,
}

/// How far the drive reads on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// To the end of the track of the last sector read.
    Track,
    /// To the end of the next track.
    NextTrack,
    /// To the end of the cylinder.
    Cylinder,
    /// Until the segment is full.
    Segment,
}

const LOOK_AHEAD: [(&str, LookAhead); 4] = [
    ("off", LookAhead::Off),
    ("on-sequence", LookAhead::OnSequence),
    ("until-command", LookAhead::UntilCommand),
    ("continue", LookAhead::Continue),
];
const REACH: [(&str, Reach); 4] = [
    ("track", Reach::Track),
    ("next-track", Reach::NextTrack),
    ("cylinder", Reach::Cylinder),
    ("segment", Reach::Segment),
];
const ORDER: [(&str, Order); 2] = [("ascending", Order::Ascending), ("as-passed", Order::AsPassed)];
const START_OF: [(&str, StartOf); 2] =
    [("request", StartOf::Request), ("segment", StartOf::Segment)];
const DESTAGE: [(&str, Destage); 2] =
    [("when-idle", Destage::WhenIdle), ("before-reads", Destage::BeforeReads)];

impl Cache {
    /// Reads `[cache]`: the keys of `../drives/README.md`, and beside them
    ///
    /// | key | meaning | default |
    /// | --- | --- | --- |
    /// | `bus_write_bytes_per_s` | interface rate towards the drive | `bus_bytes_per_s` |
    /// | `bus_start` | share of a read that is in the buffer before the bus starts: 0 (the first sector) to 1 (all of it) | 0 |
    /// | `bus_start_of` | of what: `request` or `segment` | `request` |
    /// | `look_ahead` | when it reads on, and what ends that: `off`, `on-sequence`, `until-command`, `continue` (see [`LookAhead`]) | `continue` |
    /// | `look_ahead_to` | how far: `track`, `next-track`, `cylinder`, `segment` | `segment` |
    /// | `look_ahead_sectors` | at most this many after a read | `segment_sectors` |
    /// | `look_ahead_least_sectors` | this many before another command gets the arm, at most a segment | 0 |
    /// | `look_ahead_after_hit` | whether it starts again after a read out of the cache | true |
    /// | `look_ahead_ends_at_write` | whether a write into the cache ends it | false |
    /// | `look_ahead_ends_in_sector` | whether it ends within a sector, not at its end | true |
    /// | `keep_request` | whether the last read's own data stay in the segment | false |
    /// | `read_order`, `write_order` | `ascending`, or `as-passed`: as sectors come under the head | `ascending` |
    /// | `read_before` | whether sectors of the track that pass before the first requested one are kept | false |
    /// | `keep_written` | whether written sectors stay readable in a segment | false |
    /// | `separate_write_segment` | whether one segment is for written sectors alone | false |
    /// | `write_runs` | separate runs in the write cache; 0: as many as fit | 0 |
    /// | `destage` | when a read needs the arm: `when-idle` (the read first) or `before-reads` | `when-idle` |
    ///
    /// This reads the former; [`Cache::read_own`] reads the rest.
    pub(super) fn read(table: &mut Section<'_>, sector_bytes: u64) -> Result<Cache, FileError> {
        let segment_sectors =
            table.whole_within("segment_sectors", 1..=MOST_SEGMENT_SECTORS, None)?;
        let write_segments = table.whole_within("write_segments", 0..=MOST_SEGMENTS, Some(1))?;
        let cache = Cache {
            segments: narrow(table.whole_within("segments", 0..=MOST_SEGMENTS, None)?),
            segment_sectors,
            write_segments: narrow(write_segments),
            write_back: table.flag("write_back")?,
            write_runs: 0,
            destage: Destage::WhenIdle,
            keep_written: false,
            separate_write_segment: false,
            bus: read_rates(table, sector_bytes)?,
            look_ahead: ReadingOn {
                kind: LookAhead::Continue,
                reach: Reach::Segment,
                most_sectors: segment_sectors,
                least_sectors: 0,
                keep_request: false,
                after_hit: true,
                ends_at_write: false,
                ends_in_sector: true,
            },
            read_order: Order::Ascending,
            write_order: Order::Ascending,
            read_before: false,
        };
        if cache.write_back && cache.write_segments == 0 {
            return Err(table.error("write_segments", "has to be 1 at least with write_back"));
        }
        Ok(cache)
    }

    /// The keys of our own; each stays as it is where its key is not there.
    pub(super) fn read_own(&mut self, table: &mut Section<'_>) -> Result<(), FileError> {
        let start = self.bus.start_millionths.cast_signed();
        let start = table.decimal_within("bus_start", 6, 0..=WHOLE.cast_signed(), Some(start))?;
        self.bus.start_millionths = start.unsigned_abs();
        self.bus.start_of = table.choice("bus_start_of", &START_OF, self.bus.start_of)?;
        self.write_runs = narrow(table.whole_within(
            "write_runs",
            0..=1_000_000,
            Some(u64::from(self.write_runs)),
        )?);
        self.destage = table.choice("destage", &DESTAGE, self.destage)?;
        self.keep_written = table.flag_or("keep_written", self.keep_written)?;
        self.separate_write_segment =
            table.flag_or("separate_write_segment", self.separate_write_segment)?;
        self.read_order = table.choice("read_order", &ORDER, self.read_order)?;
        self.write_order = table.choice("write_order", &ORDER, self.write_order)?;
        self.read_before = table.flag_or("read_before", self.read_before)?;
        self.look_ahead.read(table)?;
        let (least, segment) = (self.look_ahead.least_sectors, self.segment_sectors);
        match least > segment {
            true => {
                let reason = format!("has to be at most a segment, {segment} sectors; is {least}");
                Err(table.error("look_ahead_least_sectors", reason))
            }
            false => Ok(()),
        }
    }
}

impl ReadingOn {
    fn read(&mut self, table: &mut Section<'_>) -> Result<(), FileError> {
        let sectors = 0..=MOST_SEGMENT_SECTORS;
        self.kind = table.choice("look_ahead", &LOOK_AHEAD, self.kind)?;
        self.reach = table.choice("look_ahead_to", &REACH, self.reach)?;
        self.most_sectors =
            table.whole_within("look_ahead_sectors", sectors.clone(), Some(self.most_sectors))?;
        let least = Some(self.least_sectors);
        self.least_sectors = table.whole_within("look_ahead_least_sectors", sectors, least)?;
        self.keep_request = table.flag_or("keep_request", self.keep_request)?;
        self.after_hit = table.flag_or("look_ahead_after_hit", self.after_hit)?;
        self.ends_at_write = table.flag_or("look_ahead_ends_at_write", self.ends_at_write)?;
        self.ends_in_sector = table.flag_or("look_ahead_ends_in_sector", self.ends_in_sector)?;
        Ok(())
    }
}

/// A number that bounds keep within 32 bits.
pub(super) fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn read_rates(table: &mut Section<'_>, sector_bytes: u64) -> Result<Bus, FileError> {
    let rates = 1_000..=1_000_000_000_000;
    let read = table.whole_within("bus_bytes_per_s", rates.clone(), None)?;
    let write = table.whole_within("bus_write_bytes_per_s", rates, Some(read))?;
    let sector_ps = |rate: u64| sector_bytes * 1_000_000_000_000 / rate;
    Ok(Bus {
        read_sector_ps: sector_ps(read),
        write_sector_ps: sector_ps(write),
        start_millionths: 0,
        start_of: StartOf::Request,
        held_at_once: true,
    })
}
