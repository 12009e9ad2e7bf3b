//! Where sectors lie, and what it takes to bring the head to them.
//!
//! The platter turns for ever: the angle is the time modulo a turn. A track's first sector lies
//! behind that of the track before by the track skew, a cylinder's by the cylinder skew, so that
//! the head has time to move while the platter turns.
use super::cache::Order;
use super::spec::RotatingSpec;
use crate::drive::Parts;

/// The arm: over which track, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arm {
    pub cylinder: u32,
    pub head: u32,
    pub at: u64,
}

/// Whether the head reads or writes: writing it has to settle first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    Read,
    Write,
}

/// Where a sector lies.
#[derive(Clone, Copy, Debug)]
pub struct TrackPlace {
    pub cylinder: u32,
    pub head: u32,
    /// Sectors from here to the end of the track, this one included.
    pub left: u64,
    /// Sectors of the track.
    pub track: u64,
    /// When in a turn it passes under the head.
    pub angle_ns: u64,
}

/// When the head is over a sector: the way there, and the instant, which is exact even when the arm
/// was a few ns late.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub seek: u64,
    pub settle: u64,
    pub rotation: u64,
    pub start: u64,
}

struct Band {
    first: u64,
    first_cylinder: u32,
    track: u64,
    /// Sectors of a cylinder.
    cylinder: u64,
    track_skew: u64,
    /// Sectors by which a cylinder's first track starts later than that of the cylinder before.
    cylinder_shift: u64,
    /// The angle of its first sector.
    start_ns: u64,
}

/// The drive's surface and arm as tables.
pub struct Layout {
    bands: Vec<Band>,
    /// Nanoseconds by distance.
    seek: Vec<u32>,
    revolution_ns: u64,
    /// A wait that falls short of a turn by no more is none: the sector has only just come.
    slack_ns: u64,
    head_switch_ns: u64,
    write_settle_ns: i64,
    pub sectors: u64,
}

impl Layout {
    pub fn new(spec: &RotatingSpec) -> Layout {
        let mut layout = Layout {
            bands: Vec::with_capacity(spec.zones.len()),
            seek: spec.seek.table(spec.cylinders),
            revolution_ns: spec.revolution_ns,
            slack_ns: (spec.revolution_ns / 1_000_000).max(4),
            head_switch_ns: spec.head_switch_ns,
            write_settle_ns: spec.write_settle_ns,
            sectors: spec.sectors,
        };
        let heads = u64::from(spec.heads);
        let (mut first, mut first_cylinder, mut start_ns) = (0, 0, 0);
        for zone in &spec.zones {
            let track = u64::from(zone.sectors_per_track);
            let cylinder_shift =
                (heads - 1) * u64::from(zone.track_skew) + u64::from(zone.cylinder_skew);
            layout.bands.push(Band {
                first,
                first_cylinder,
                track,
                cylinder: track * heads,
                track_skew: u64::from(zone.track_skew),
                cylinder_shift,
                start_ns,
            });
            // The next zone goes on where this one's skew leads, so that a stream does not lose a
            // turn at the border.
            let shift = (u64::from(zone.cylinders) * cylinder_shift) % track;
            start_ns = (start_ns + shift * spec.revolution_ns / track) % spec.revolution_ns;
            first += u64::from(zone.cylinders) * track * heads;
            first_cylinder += zone.cylinders;
        }
        layout
    }

    /// The place of a sector; one past the end is taken as the last one.
    pub fn place(&self, sector: u64) -> TrackPlace {
        let sector = sector.min(self.sectors - 1);
        let band = &self.bands[self.bands.partition_point(|band| band.first <= sector) - 1];
        let within = sector - band.first;
        let (cylinder, rest) = (within / band.cylinder, within % band.cylinder);
        let (head, offset) = (rest / band.track, rest % band.track);
        let shift = (cylinder * band.cylinder_shift + head * band.track_skew + offset) % band.track;
        TrackPlace {
            cylinder: band.first_cylinder + cylinder as u32,
            head: head as u32,
            left: band.track - offset,
            track: band.track,
            angle_ns: (band.start_ns + shift * self.revolution_ns / band.track)
                % self.revolution_ns,
        }
    }

    /// The time of this many sectors of a track under the head.
    pub fn media_ns(&self, sectors: u64, track: u64) -> u64 {
        sectors * self.revolution_ns / track
    }

    /// How many whole sectors of a track pass in that time.
    pub fn sectors_within(&self, time: u64, track: u64) -> u64 {
        // A span of the model is hours at most; the product of longer ones is not of interest, they
        // pass every sector.
        time.saturating_mul(track) / self.revolution_ns
    }

    /// The highest sustained rate in sectors per second of the drive, skews included, and its
    /// shortest seek.
    pub fn fastest(&self) -> (u64, u64) {
        let rate = |band: &Band| {
            let turns = band.cylinder + band.cylinder_shift;
            u128::from(band.cylinder) * u128::from(band.track) * 1_000_000_000
                / (u128::from(turns) * u128::from(self.revolution_ns))
        };
        let most = self.bands.iter().map(rate).max().unwrap_or(0);
        let least = self.seek.iter().skip(1).min().copied().unwrap_or(0);
        (u64::try_from(most).unwrap_or(u64::MAX), u64::from(least))
    }

    /// When the head can be over that place, coming from `arm`, which may start at `arm.at`.
    pub fn arrive(&self, arm: &Arm, place: &TrackPlace, transfer: Transfer) -> Arrival {
        let distance = arm.cylinder.abs_diff(place.cylinder) as usize;
        let full_seek = self.seek.get(distance).or(self.seek.last()).copied().map_or(0, u64::from);
        let mut move_ns = full_seek;
        if arm.head != place.head {
            move_ns = move_ns.max(self.head_switch_ns);
        }
        if transfer == Transfer::Write && (distance > 0 || arm.head != place.head) {
            move_ns = move_ns.saturating_add_signed(self.write_settle_ns);
        }
        let seek = full_seek.min(move_ns);
        let at = arm.at + move_ns;
        let angle = at % self.revolution_ns;
        let wait = match place.angle_ns >= angle {
            true => place.angle_ns - angle,
            false => place.angle_ns + self.revolution_ns - angle,
        };
        let late = self.revolution_ns - wait;
        let (rotation, start) = match late <= self.slack_ns && late <= at {
            true => (0, at - late),
            false => (wait, at + wait),
        };
        Arrival { seek, settle: move_ns - seek, rotation, start }
    }

    /// The sector that is under the head where `arm` is. (After a transfer that is the next one,
    /// or the last one by a rounding; at the end of a track, the track's first.)
    pub fn sector_under(&self, arm: &Arm) -> u64 {
        let after = self.bands.partition_point(|band| band.first_cylinder <= arm.cylinder);
        let band = &self.bands[after - 1];
        let cylinder = u64::from(arm.cylinder - band.first_cylinder);
        let head = u64::from(arm.head);
        let turned = (arm.at + self.revolution_ns - band.start_ns) % self.revolution_ns;
        let shift = cylinder * band.cylinder_shift + head * band.track_skew;
        let passed = turned * band.track / self.revolution_ns;
        let offset = (passed + band.track - shift % band.track) % band.track;
        let sector = band.first + cylinder * band.cylinder + head * band.track + offset;
        sector.min(self.sectors - 1)
    }

    /// The first sector after the cylinder that holds this one.
    pub fn cylinder_end(&self, sector: u64) -> u64 {
        let band = &self.bands[self.bands.partition_point(|band| band.first <= sector) - 1];
        sector + band.cylinder - (sector - band.first) % band.cylinder
    }

    /// How many sectors of the track before that one pass while the head, coming from `arm`, waits
    /// for it.
    pub fn passed_before(&self, arm: &Arm, sector: u64) -> u64 {
        let place = self.place(sector);
        let arrival = self.arrive(arm, &place, Transfer::Read);
        self.sectors_within(arrival.rotation, place.track).min(place.track - place.left)
    }

    /// Transfers sectors in ascending order, track by track; the arm ends after the last one. The
    /// times go to `parts`.
    pub fn transfer(
        &self,
        arm: &mut Arm,
        first: u64,
        sectors: u64,
        transfer: Transfer,
        parts: &mut Parts,
    ) {
        self.transfer_in(Order::Ascending, arm, first, sectors, transfer, parts);
    }

    /// As [`Layout::transfer`], with the sectors of each track in that order.
    pub fn transfer_in(
        &self,
        order: Order,
        arm: &mut Arm,
        first: u64,
        sectors: u64,
        transfer: Transfer,
        parts: &mut Parts,
    ) {
        let (mut next, end) = (first, first + sectors);
        while next < end {
            let place = self.place(next);
            let count = place.left.min(end - next);
            let arrival = self.arrive(arm, &place, transfer);
            let mut passing = count;
            if order == Order::AsPassed {
                // Sectors that follow the head where it comes to the track are taken at once; those
                // that it has missed are left, the one under it among them.
                let late = self.revolution_ns - arrival.rotation;
                passing = count.min(self.sectors_within(late, place.track) + 1);
            }
            let done = arrival.start + self.media_ns(passing, place.track);
            let ready = arm.at + arrival.seek + arrival.settle + arrival.rotation;
            parts.seek += arrival.seek;
            parts.settle += arrival.settle;
            parts.rotation += arrival.rotation;
            parts.media += done.saturating_sub(ready);
            *arm = Arm { cylinder: place.cylinder, head: place.head, at: done.max(ready) };
            next += count;
        }
    }

    /// How long until the first sector passes: what a scheduler compares.
    pub fn positioning_ns(&self, arm: &Arm, sector: u64, transfer: Transfer) -> u64 {
        let arrival = self.arrive(arm, &self.place(sector), transfer);
        arrival.start.saturating_sub(arm.at)
    }
}
