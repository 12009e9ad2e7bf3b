//! The facts of a drive's controller and cache in the words of the DiskSim validation set, as its
//! reference manual explains them.
//!
//! A `[controller]` table has the words, a `[bus]` table what a sector of 512 bytes costs there.
//! Each word that the model has a mechanism for is read and checked. What is left of them
//! ([`WITHOUT_MECHANISM`]) are statistics, queues of several commands, and disconnecting in
//! parallel with the medium: they have to be numbers, and change nothing. So is
//! `read_ahead_on_idle_hit`: drives that say no refill a segment after a read out of it, by their
//! times. Another word is refused.
use super::cache::{Cache, Destage, LookAhead, Order, Reach, StartOf, WHOLE};
use super::overhead::{After, Overhead};
use crate::drive::section::{FileError, Section};

/// Words of the manual that the model has no mechanism for.
pub const WITHOUT_MECHANISM: [&str; 35] = [
    "allow_almost_read_hits",
    "allow_sneaky_full_read_hits",
    "allow_sneaky_intermediate_read_hits",
    "allow_sneaky_partial_read_hits",
    "allow_write_prebuffering",
    "avg_sectors_per_cylinder",
    "calc_sector_by_sector",
    "combine_seq_writes",
    "cylinder_mapping_strategy",
    "disconnect_write_if_seek",
    "extradisc_2nd_disconnect_overhead",
    "hold_bus_entire_write_xfer",
    "low_write_water_mark",
    "max_queue_length",
    "maximum_concat_size",
    "minimum_seek_delay",
    "other_reselect_overhead",
    "overlapping_request_scheme",
    "preseeking_level",
    "print_stats",
    "priority_scheduling",
    "read_ahead_on_idle_hit",
    "read_directly_to_buffer",
    "read_disconnect_afterread",
    "read_disconnect_afterwrite",
    "read_initiation_delay",
    "scheduling_policy",
    "scheduling_priority_scheme",
    "scheduling_timeout_scheme",
    "sequential_stream_diff_maximum",
    "sequential_stream_scheme",
    "timeout_scheduling",
    "timeout_time_weight",
    "write_disconnect_overhead",
    "write_initiation_delay",
];
const MOST_SECTORS: u64 = 1 << 24;
const MOST_SEGMENTS: u64 = 1_024;
/// No time of a controller is longer.
const SECOND_PS: i64 = 1_000_000_000_000;
/// Picoseconds are milliseconds with this many digits.
const DIGITS: u32 = 9;
/// The sector that bus times are given for.
const SECTOR_BYTES: u64 = 512;

/// What is known of a controller. What its file does not say is `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Controller {
    segments: Option<u64>,
    segment_sectors: Option<u64>,
    write_segments: Option<u64>,
    separate_write_segment: Option<bool>,
    caches: Option<bool>,
    read_on: Option<u64>,
    most_ahead: Option<u64>,
    least_ahead: Option<u64>,
    ahead_over_requested: Option<bool>,
    write_ends_ahead: Option<bool>,
    ends_in_sector: Option<bool>,
    any_free_sectors: Option<bool>,
    read_order: Option<u64>,
    write_order: Option<u64>,
    fast_write: Option<u64>,
    hits_on_written: Option<bool>,
    read_mark: Option<u64>,
    mark_of_request: Option<bool>,
    held_at_once: Option<bool>,
    never_disconnect: Option<bool>,
    holds_bus: Option<bool>,
    bus_read_ps: Option<u64>,
    bus_write_ps: Option<u64>,
    is_bus_known: bool,
    overhead: Option<Overhead>,
}

impl Controller {
    /// Reads the tables `controller` and `bus` of a file, where it has them.
    ///
    /// # Errors
    /// A value that no drive has, or a word that neither table has: file, line, key, reason.
    pub fn read(section: &mut Section<'_>) -> Result<Option<Controller>, FileError> {
        let words = section.optional_section("controller")?;
        let bus = section.optional_section("bus")?;
        if words.is_none() && bus.is_none() {
            return Ok(None);
        }
        let mut controller = Controller::default();
        if let Some(mut words) = words {
            controller.read_memory(&mut words)?;
            controller.read_look_ahead(&mut words)?;
            controller.read_transfers(&mut words)?;
            controller.overhead = read_overhead(&mut words)?;
            for word in WITHOUT_MECHANISM {
                words.optional_decimal(word, 6)?;
            }
            words.finish_with_nearest()?;
        }
        if let Some(mut bus) = bus {
            // 0 is no limit: what the drive itself takes remains.
            let mut time = |key: &str| -> Result<Option<u64>, FileError> {
                Ok(picoseconds(&mut bus, key)?.filter(|found| *found > 0))
            };
            let read = time("read_block_transfer_ms")?;
            let write = time("write_block_transfer_ms")?;
            bus.finish()?;
            controller.is_bus_known = read.or(write).is_some();
            controller.bus_read_ps = read.or(controller.bus_read_ps);
            controller.bus_write_ps = write.or(controller.bus_write_ps);
        }
        Ok(Some(controller))
    }

    fn read_memory(&mut self, words: &mut Section<'_>) -> Result<(), FileError> {
        self.segments = whole(words, "number_of_buffer_segments", 0..=MOST_SEGMENTS)?;
        self.segment_sectors = whole(words, "segment_size_in_blks", 1..=MOST_SECTORS)?;
        let write_segments = "maximum_number_of_write_segments";
        self.write_segments = whole(words, write_segments, 0..=MOST_SEGMENTS)?;
        self.separate_write_segment = flag(words, "use_separate_write_segment")?;
        self.caches = whole(words, "enable_caching_in_buffer", 0..=2)?.map(|level| level > 0);
        self.fast_write = whole(words, "fast_write_level", 0..=2)?;
        self.hits_on_written = flag(words, "allow_read_hits_on_write_data")?;
        Ok(())
    }

    fn read_look_ahead(&mut self, words: &mut Section<'_>) -> Result<(), FileError> {
        self.read_on = whole(words, "buffer_continuous_read", 0..=4)?;
        self.most_ahead = whole(words, "maximum_read_ahead_blks", 0..=MOST_SECTORS)?;
        self.least_ahead = whole(words, "minimum_read_ahead_blks", 0..=MOST_SECTORS)?;
        // A drive that has to read on further than it ever does would never give the arm away.
        if let (Some(least), Some(most)) = (self.least_ahead, self.most_ahead)
            && least > most
        {
            let reason = format!("has to be at most maximum_read_ahead_blks, which is {most}");
            return Err(words.error("minimum_read_ahead_blks", reason));
        }
        if let (Some(least), Some(size)) = (self.least_ahead, self.segment_sectors)
            && least > size
        {
            let reason = format!("has to be at most segment_size_in_blks, which is {size}");
            return Err(words.error("minimum_read_ahead_blks", reason));
        }
        self.ahead_over_requested = signed_flag(words, "read_ahead_over_requested")?;
        self.write_ends_ahead = flag(words, "write_hit_stop_prefetch")?;
        self.ends_in_sector = flag(words, "stop_prefetch_in_sector")?;
        self.any_free_sectors = flag(words, "read_any_free_blocks")?;
        self.read_order = whole(words, "immediate_buffer_read", 0..=2)?;
        self.write_order = whole(words, "immediate_buffer_write", 0..=2)?;
        Ok(())
    }

    fn read_transfers(&mut self, words: &mut Section<'_>) -> Result<(), FileError> {
        let mark = words.optional_decimal("high_read_water_mark", 6)?.map(|_| {
            words.decimal_within("high_read_water_mark", 6, 0..=WHOLE.cast_signed(), None)
        });
        self.read_mark = mark.transpose()?.map(i64::unsigned_abs);
        self.mark_of_request = flag(words, "set_watermark_by_reqsize")?;
        self.held_at_once = flag(words, "immed_transfer_partial_hit")?;
        self.never_disconnect = flag(words, "never_disconnect")?;
        self.holds_bus = flag(words, "hold_bus_entire_read_xfer")?;
        let drive = picoseconds(words, "bulk_sector_transfer_time")?;
        (self.bus_read_ps, self.bus_write_ps) = (drive, drive);
        Ok(())
    }

    /// Puts what is known in place of what the cache has.
    pub(super) fn apply(&self, cache: &mut Cache, sector_bytes: u64) {
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let set = |to: &mut u32, value: Option<u64>| *to = value.map_or(*to, narrow);
        set(&mut cache.segments, self.segments);
        set(&mut cache.write_segments, self.write_segments);
        cache.separate_write_segment =
            self.separate_write_segment.unwrap_or(cache.separate_write_segment);
        cache.segment_sectors = self.segment_sectors.unwrap_or(cache.segment_sectors);
        if self.caches == Some(false) {
            cache.segments = 0;
        }
        if let Some(level) = self.fast_write {
            cache.write_back = level > 0;
            // What does not append to what is there waits until that is on the medium.
            cache.write_runs = 1;
            cache.destage = Destage::BeforeReads;
        }
        // Without a segment for writes there is nothing to answer them from.
        cache.write_back &= cache.write_segments > 0;
        cache.keep_written = self.hits_on_written.unwrap_or(cache.keep_written);
        cache.read_before = self.any_free_sectors.unwrap_or(cache.read_before);
        // 1 is said of drives whose times show ascending reads.
        let order = |level: u64| match level {
            2 => Order::AsPassed,
            _ => Order::Ascending,
        };
        cache.read_order = self.read_order.map_or(cache.read_order, order);
        cache.write_order = self.write_order.map_or(cache.write_order, order);
        self.apply_bus(cache, sector_bytes);
        self.apply_look_ahead(cache);
    }

    fn apply_bus(&self, cache: &mut Cache, sector_bytes: u64) {
        let bus = &mut cache.bus;
        let scaled = |time: u64| time * sector_bytes / SECTOR_BYTES;
        bus.read_sector_ps = self.bus_read_ps.map_or(bus.read_sector_ps, scaled);
        bus.write_sector_ps = self.bus_write_ps.map_or(bus.write_sector_ps, scaled);
        bus.start_millionths = self.read_mark.unwrap_or(bus.start_millionths);
        bus.start_of = match self.mark_of_request {
            Some(true) => StartOf::Request,
            Some(false) => StartOf::Segment,
            None => bus.start_of,
        };
        bus.held_at_once = self.held_at_once.unwrap_or(bus.held_at_once);
    }

    fn apply_look_ahead(&self, cache: &mut Cache) {
        let ahead = &mut cache.look_ahead;
        match self.read_on {
            Some(0) => ahead.kind = LookAhead::Off,
            Some(1) => (ahead.kind, ahead.reach) = (LookAhead::Continue, Reach::Track),
            Some(2) => (ahead.kind, ahead.reach) = (LookAhead::Continue, Reach::Cylinder),
            // 4 is by detection of a sequence, says the manual, and goes to the end of the next
            // track. Drives whose facts have no times of the bus read on at once nevertheless.
            Some(4) if self.is_bus_known => {
                (ahead.kind, ahead.reach) = (LookAhead::OnSequence, Reach::NextTrack);
            }
            Some(_) => (ahead.kind, ahead.reach) = (LookAhead::Continue, Reach::Segment),
            None => {}
        }
        ahead.most_sectors = match self.most_ahead {
            Some(most) => most,
            None => self.segment_sectors.unwrap_or(ahead.most_sectors),
        };
        ahead.least_sectors = self.least_ahead.unwrap_or(ahead.least_sectors);
        ahead.keep_request = self.ahead_over_requested.map_or(ahead.keep_request, |over| !over);
        ahead.ends_at_write = self.write_ends_ahead.unwrap_or(ahead.ends_at_write);
        ahead.ends_in_sector = self.ends_in_sector.unwrap_or(ahead.ends_in_sector);
    }

    /// The times of the controller, where its file has them.
    pub(super) fn overhead(&self) -> Option<Overhead> {
        let never = self.never_disconnect == Some(true) || self.holds_bus == Some(true);
        self.overhead.map(|overhead| match never {
            true => Overhead { reconnect_ns: 0, ..overhead },
            false => overhead,
        })
    }
}

/// The eight times by operation, cache and operation before, and those of the bus. `None` when the
/// table has none of the eight.
fn read_overhead(words: &mut Section<'_>) -> Result<Option<Overhead>, FileError> {
    let scale = words.decimal_within(
        "time_scale_for_overheads",
        6,
        0..=1000 * WHOLE.cast_signed(),
        Some(WHOLE.cast_signed()),
    )?;
    let mut is_there = false;
    let mut time = |key: &str| -> Result<u64, FileError> {
        let found = picoseconds(words, key)?;
        is_there |= found.is_some() && key.contains("_over_after_");
        let scaled = u128::from(found.unwrap_or(0)) * u128::from(scale.unsigned_abs());
        Ok(u64::try_from(scaled / u128::from(WHOLE) / 1000).unwrap_or(u64::MAX))
    };
    let each = time("per_request_overhead_time")?;
    let mut pair = |word: &str| -> Result<After, FileError> {
        Ok(After {
            read_ns: each + time(&format!("{word}_over_after_read"))?,
            write_ns: each + time(&format!("{word}_over_after_write"))?,
        })
    };
    let mut overhead = Overhead {
        read_miss: pair("read_miss")?,
        read_hit: pair("read_hit")?,
        write_miss: pair("write_miss")?,
        write_hit: pair("write_hit")?,
        ..Overhead::default()
    };
    overhead.read_completion_ns = time("read_completion_overhead")?;
    overhead.write_completion_ns = time("write_completion_overhead")?;
    overhead.preparation_ns = time("data_preparation_overhead")?;
    overhead.reconnect_ns = time("first_reselect_overhead")?;
    let command = time("extradisc_command_overhead")?;
    let disconnect = time("extradisc_disconnect_overhead")?;
    let between = time("extradisc_inter_disconnect_delay")?;
    let seek = time("extradisc_seek_delta")?;
    if flag(words, "extra_write_disconnect")? == Some(true) {
        overhead.write_miss = After { read_ns: each + command, write_ns: each + command };
        overhead.write_data_delay_ns = disconnect + between + overhead.reconnect_ns;
        overhead.write_seek_delay_ns = seek;
    }
    Ok(is_there.then_some(overhead))
}

fn whole(
    words: &mut Section<'_>,
    key: &str,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, FileError> {
    match words.has(key) {
        true => words.whole_within(key, bounds, None).map(Some),
        false => Ok(None),
    }
}

/// 0 or 1.
fn flag(words: &mut Section<'_>, key: &str) -> Result<Option<bool>, FileError> {
    Ok(whole(words, key, 0..=1)?.map(|value| value == 1))
}

/// As [`flag`]; the manual also has -1, for no.
fn signed_flag(words: &mut Section<'_>, key: &str) -> Result<Option<bool>, FileError> {
    match words.has(key) {
        true => words.decimal_within(key, 0, -1..=1, None).map(|value| Some(value == 1)),
        false => Ok(None),
    }
}

/// A time in milliseconds, at most a second.
fn picoseconds(words: &mut Section<'_>, key: &str) -> Result<Option<u64>, FileError> {
    match words.has(key) {
        true => words
            .decimal_within(key, DIGITS, 0..=SECOND_PS, None)
            .map(|value| Some(value.unsigned_abs())),
        false => Ok(None),
    }
}
