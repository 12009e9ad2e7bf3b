//! Power cuts as steps: the drive loses its power in the middle of what it does, and the file
//! systems on it are opened again.
use super::process::{Outcome, Stop, Worker};
use super::step::{CutMoment, Survival};
use super::world::Medium;
use crate::report::PowerCutFigures;
use extant_sim::device::Survivors;
use std::sync::Arc;

impl Worker {
    /// Cuts the power of the drive below, and lets it come back. Every other process on the drive
    /// ends; its file systems are closed, with nothing written.
    pub(super) fn power_cut(&mut self, moment: CutMoment, survival: Survival) -> Outcome {
        let world = Arc::clone(&self.world);
        let drive = self.drive();
        let Medium::Simulated(device) = &world.drives[drive] else {
            return Err(Stop::from("the power of the host's own drive is not cut"));
        };
        match moment {
            CutMoment::AtOnce => {}
            CutMoment::After(nanoseconds) => {
                let now = world.time.settled();
                world.time.sleep_until(now.saturating_add(nanoseconds));
            }
            CutMoment::Ended(process) => world.join(process),
            CutMoment::Commands(count) => device.wait_for_commands(world.scaled(count)),
        }
        if self.is_halted() {
            return Err(Stop::Halted);
        }
        self.cuts = world.cut(drive);
        let survivors = match survival {
            Survival::AsModelled => Survivors::AsModelled,
            Survival::AnySector => Survivors::AnySector { seed: self.random.next_u64() },
        };
        let loss = device.power_cut(survivors)?;
        for mount in world.mounts.iter().filter(|mount| mount.drive == drive) {
            mount.lose_power();
        }
        device.power_on();
        let figures = PowerCutFigures { requests_lost: loss.requests, bytes_lost: loss.bytes };
        self.lost = Some(self.lost.map_or(figures, |before| before.and(&figures)));
        Ok(())
    }

    /// Opens the file system after a cut: its journal is replayed before anything else.
    pub(super) fn recover(&mut self) -> Outcome {
        let world = Arc::clone(&self.world);
        let mount = &world.mounts[self.mount()?];
        if mount.is_open() {
            return Err(Stop::from("the file system is open: recover comes after power-cut"));
        }
        Ok(mount.open()?)
    }
}
