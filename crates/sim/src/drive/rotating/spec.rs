//! What is known of a rotating drive: the facts of its file, checked. Times are whole nanoseconds
//! from here on.
use super::cache::{Cache, narrow};
use super::controller::Controller;
use super::overhead::Overhead;
use super::seek::Seek;
use crate::drive::section::{FileError, Section};
use serde::Serialize;

/// Limits that no drive comes near; they keep every sum of the model far from overflow.
const MOST_CYLINDERS: u64 = 4_000_000;
const MOST_SECTORS_PER_TRACK: u64 = 100_000;
const MOST_HEADS: u64 = 256;
const MOST_ZONES: usize = 1_000;
/// Of how many cylinders one may be in no zone. Measured drives keep up to 4 in 1,000 for
/// themselves (spares, and what the controller writes there).
const SPARE_SHARE: u64 = 100;
const SECOND_NS: i64 = 1_000_000_000;

/// The facts of a rotating drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RotatingSpec {
    /// Time of a turn.
    pub revolution_ns: u64,
    /// Recording surfaces.
    pub heads: u32,
    /// Seek positions.
    pub cylinders: u32,
    /// Bytes of a sector.
    pub sector_bytes: u32,
    /// Sectors that it shows: the geometry's, or what its file says it is sold as.
    pub sectors: u64,
    /// To change surface.
    pub head_switch_ns: u64,
    /// Added before a write that moved. A measured one may be negative: writes settle sooner than
    /// the seek curve, taken with reads, says.
    pub write_settle_ns: i64,
    /// Controller.
    pub overhead: Overhead,
    /// On-drive memory.
    pub cache: Cache,
    /// Commands inside at a time.
    pub queue_depth: u32,
    /// The arm.
    pub seek: Seek,
    /// From the outer edge inwards.
    pub zones: Vec<Zone>,
}

/// Cylinders of equal tracks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Zone {
    /// How many.
    pub cylinders: u32,
    /// Sectors of a track.
    pub sectors_per_track: u32,
    /// By how many sectors the next track of the cylinder starts later.
    pub track_skew: u32,
    /// By how many sectors the first track of the next cylinder starts later than the last of this
    /// one.
    pub cylinder_skew: u32,
}

impl RotatingSpec {
    /// Reads the facts from a drive file: the keys of `../drives/README.md` for measured drives,
    /// and beside them
    ///
    /// | key | meaning | default |
    /// | --- | --- | --- |
    /// | `queue_depth` | commands inside at a time, 1 to 32 | 1 |
    /// | `cache`, `overhead_ms` | more keys: see [`Cache`] and [`Overhead`] | |
    /// | `controller`, `bus` | the same in the words of the measured drives' facts | |
    /// | `geometry` | instead of `cylinders` and zones, a data sheet's `capacity_bytes`, `outer_mb_per_s`, `inner_mb_per_s` (sustained, with all switches) and number of `zones` | 16 zones |
    ///
    /// `controller` is what is known from elsewhere. A file that has facts of its own takes none.
    pub(in crate::drive) fn from_section(
        section: &mut Section<'_>,
        controller: Option<&Controller>,
    ) -> Result<RotatingSpec, FileError> {
        let own = Controller::read(section)?;
        if own.is_some() && controller.is_some() {
            return Err(section.error(
                "controller",
                "its own facts and those of another file: one of them has to go",
            ));
        }
        // Thousandths of turns a minute: 60 s in ns over it.
        let rpm = section.decimal_within("rpm", 3, 100_000..=100_000_000, None)?.unsigned_abs();
        let heads = section.whole_within("heads", 1..=MOST_HEADS, None)?;
        let sector_bytes = section.whole_within("sector_bytes", 512..=65_536, Some(512))?;
        if !sector_bytes.is_power_of_two() {
            return Err(section.error("sector_bytes", "has to be a power of two"));
        }
        let head_switch = section.decimal_within("head_switch_ms", 6, 0..=SECOND_NS, None)?;
        let settle =
            section.decimal_within("write_settle_ms", 6, -SECOND_NS..=SECOND_NS, Some(0))?;
        let (cache, overhead) =
            read_controller(section, controller.or(own.as_ref()), sector_bytes)?;
        let queue_depth = section.whole_within("queue_depth", 1..=32, Some(1))?;
        let mut spec = RotatingSpec {
            revolution_ns: (60_000_000_000_000 + rpm / 2) / rpm,
            heads: narrow(heads),
            cylinders: 0,
            sector_bytes: narrow(sector_bytes),
            sectors: 0,
            head_switch_ns: head_switch.unsigned_abs(),
            write_settle_ns: settle,
            overhead,
            cache,
            queue_depth: narrow(queue_depth),
            seek: Seek::Table { points: Vec::new() },
            zones: Vec::new(),
        };
        match section.has("geometry") {
            true => spec.read_sheet(section)?,
            false => spec.read_zones(section)?,
        }
        Ok(spec)
    }

    /// Measured zones.
    fn read_zones(&mut self, section: &mut Section<'_>) -> Result<(), FileError> {
        self.cylinders = narrow(section.whole_within("cylinders", 1..=MOST_CYLINDERS, None)?);
        self.read_seek(section)?;
        let zones = section.sections("zone")?;
        if zones.is_empty() || zones.len() > MOST_ZONES {
            return Err(section.error("zone", format!("has to be there 1 to {MOST_ZONES} times")));
        }
        let mut used = 0;
        for mut zone in zones {
            let read = read_zone(&mut zone)?;
            used += u64::from(read.cylinders);
            if used > u64::from(self.cylinders) {
                let reason = format!(
                    "the zones up to here have {used} cylinders, the drive has {}",
                    self.cylinders
                );
                return Err(zone.error("cylinders", reason));
            }
            zone.finish()?;
            self.zones.push(read);
        }
        let spare = u64::from(self.cylinders) - used;
        if spare * SPARE_SHARE > u64::from(self.cylinders) {
            let reason = format!(
                "has to be the sum of the zones, {used}, or at most one in {SPARE_SHARE} more, \
                 for spare ones"
            );
            return Err(section.error("cylinders", reason));
        }
        self.sectors = self.sectors_of_zones();
        Ok(())
    }

    fn read_seek(&mut self, section: &mut Section<'_>) -> Result<(), FileError> {
        let mut seek = section.section("seek")?;
        self.seek = Seek::read(&mut seek, self.cylinders)?;
        seek.finish()
    }

    fn sectors_of_zones(&self) -> u64 {
        let sectors = |zone: &Zone| u64::from(zone.cylinders) * u64::from(zone.sectors_per_track);
        self.zones.iter().map(sectors).sum::<u64>() * u64::from(self.heads)
    }

    /// A data sheet's few numbers: zones are made from them so that the sustained rate, skews
    /// included, is the sheet's.
    fn read_sheet(&mut self, section: &mut Section<'_>) -> Result<(), FileError> {
        let mut sheet = section.section("geometry")?;
        let capacity =
            sheet.whole_within("capacity_bytes", 1_000_000..=1_000_000_000_000_000, None)?;
        let rate = 100_000..=100_000_000_000;
        let outer = sheet.decimal_within("outer_mb_per_s", 6, rate.clone(), None)?.unsigned_abs();
        let inner = sheet.decimal_within("inner_mb_per_s", 6, rate, None)?.unsigned_abs();
        if inner > outer {
            return Err(sheet.error("inner_mb_per_s", "has to be at most outer_mb_per_s"));
        }
        let count = sheet.whole_within("zones", 1..=MOST_ZONES as u64, Some(16))?;
        // The time of stepping to the next cylinder decides the tracks, these decide the number of
        // cylinders, and that the seek curve; the shortest seek of a sheet's curve does not depend
        // on the number.
        let step = shortest_seek(section)?;
        let rates = (0..count).map(|zone| outer - (outer - inner) * zone / (count - 1).max(1));
        let tracks: Vec<Zone> = rates.map(|rate| self.zone_of_rate(rate, step)).collect();
        let largest =
            tracks.iter().map(|zone| u64::from(zone.sectors_per_track)).max().unwrap_or(0);
        let least = tracks.iter().map(|zone| u64::from(zone.sectors_per_track)).min().unwrap_or(0);
        if least == 0 || largest > MOST_SECTORS_PER_TRACK {
            return Err(sheet
                .error("outer_mb_per_s", format!("gives tracks of {least} to {largest} sectors")));
        }
        self.sectors = capacity / u64::from(self.sector_bytes);
        let sum: u64 = tracks.iter().map(|zone| u64::from(zone.sectors_per_track)).sum::<u64>()
            * u64::from(self.heads);
        let each = self.sectors.div_ceil(sum);
        if each * count > MOST_CYLINDERS {
            let reason =
                format!("gives {} cylinders; at most {MOST_CYLINDERS} are possible", each * count);
            return Err(sheet.error("capacity_bytes", reason));
        }
        self.zones =
            tracks.into_iter().map(|zone| Zone { cylinders: narrow(each), ..zone }).collect();
        self.cylinders = narrow(each * count);
        sheet.finish()?;
        self.read_seek(section)
    }

    /// The zone of a sustained rate in bytes a second: `heads` tracks in `heads` turns, a track
    /// skew for each but one and a cylinder skew. Skews cover the switch and the settling of a
    /// write, or sequential writes would lose a turn at each track.
    fn zone_of_rate(&self, rate: u64, step_ns: u64) -> Zone {
        let settle = self.write_settle_ns.max(0).unsigned_abs();
        let turn = self.revolution_ns;
        // A skew of a turn is none.
        let within = |time: u64| time.min(turn * 9 / 10);
        let track = within(self.head_switch_ns + settle);
        let cylinder = within(self.head_switch_ns.max(step_ns) + settle);
        let heads = u64::from(self.heads);
        let mut cylinder_ns = heads * turn + (heads - 1) * track + cylinder;
        let mut zone = Zone { cylinders: 0, sectors_per_track: 0, track_skew: 0, cylinder_skew: 0 };
        // Again: the skews in whole sectors are a little longer than the switches.
        for _ in 0..3 {
            let bytes =
                u128::from(rate) * u128::from(cylinder_ns) / u128::from(heads) / 1_000_000_000;
            let sectors = u64::try_from(bytes / u128::from(self.sector_bytes))
                .unwrap_or(u64::MAX)
                .min(1 << 32);
            let skew = |time: u64| (time * sectors).div_ceil(turn) + 1;
            zone.sectors_per_track = narrow(sectors);
            zone.track_skew = narrow(skew(track));
            zone.cylinder_skew = narrow(skew(cylinder));
            let skews = (heads - 1) * skew(track) + skew(cylinder);
            cylinder_ns = heads * turn + (skews * turn).checked_div(sectors).unwrap_or(0);
        }
        zone
    }
}

/// The shortest seek of a data sheet's curve; the other forms tell the time of one cylinder too.
fn shortest_seek(section: &mut Section<'_>) -> Result<u64, FileError> {
    let mut seek = section.section("seek")?;
    let curve = Seek::read(&mut seek, 2)?;
    Ok(curve.table(2).get(1).copied().map_or(0, u64::from))
}

/// The file's `[cache]` and `[overhead_ms]`, with what is known of the controller: it replaces the
/// keys of `../drives/README.md`, which are simplified, and stands in for those of our own.
fn read_controller(
    section: &mut Section<'_>,
    controller: Option<&Controller>,
    sector_bytes: u64,
) -> Result<(Cache, Overhead), FileError> {
    let mut table = section.section("cache")?;
    let mut cache = Cache::read(&mut table, sector_bytes)?;
    if let Some(controller) = controller {
        controller.apply(&mut cache, sector_bytes);
    }
    cache.read_own(&mut table)?;
    table.finish()?;
    let mut table = section.section("overhead_ms")?;
    let mut overhead = Overhead::read(&mut table)?;
    if let Some(known) = controller.and_then(Controller::overhead)
        && !Overhead::is_detailed(&table)
    {
        overhead = known;
    }
    table.finish()?;
    Ok((cache, overhead))
}

fn read_zone(zone: &mut Section<'_>) -> Result<Zone, FileError> {
    let mut number =
        |key: &str, most: u64, least: u64| zone.whole_within(key, least..=most, None).map(narrow);
    let sectors = number("sectors_per_track", MOST_SECTORS_PER_TRACK, 1)?;
    let skew = u64::from(sectors);
    Ok(Zone {
        cylinders: number("cylinders", MOST_CYLINDERS, 1)?,
        sectors_per_track: sectors,
        track_skew: number("track_skew", skew, 0)?,
        cylinder_skew: number("cylinder_skew", skew, 0)?,
    })
}
