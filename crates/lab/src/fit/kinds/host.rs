//! The host's work before a drive, estimated from small reads at several depths.
//!
//! In a closed loop of n readers a read takes what a batch costs, n times the work for a command,
//! and the drive's own time. So the work for a command is the slope of the times over the depths,
//! and what a batch costs and the drive's own time are what is left together: they are told apart
//! by how the times vary.
use super::estimate;
use super::scales::{RATES, TIMES};
use crate::fit::family::{Family, Parameter, Written, within};
use crate::fit::recording::Recording;

/// The two depths between which the slope is taken.
const SHALLOW: f64 = 8.0;
const DEEP: f64 = 32.0;
/// Where reads at [`DEEP`] take less than that many times as long as single ones, nothing is done
/// for one after the other.
const LONGER: f64 = 1.3;
/// What of the drive was measured through the host is less than it can do alone, by these factors:
/// the rate of a single request, and rates that were reached together. The latter start near what
/// was measured, where they still matter, so that the search finds out.
const FREE: f64 = 4.0;
const AHEAD: f64 = 1.25;

/// The estimate, in nanoseconds.
pub struct Work {
    batch: f64,
    command: f64,
    bytes_per_s: f64,
    /// A read of 4 KiB by the drive itself.
    own: f64,
    /// The same with the host's work.
    whole: f64,
}

impl Work {
    /// `None` where reads do not take longer the more of them are under way.
    pub fn estimated(recording: &Recording) -> Option<Work> {
        let of = |name: &str| estimate::quantile(recording, name, 0.5);
        let (one, shallow, deep) = (of("random-4k")?, of("depth-8-4k")?, of("depth-32-4k")?);
        if deep < one * LONGER {
            return None;
        }
        let command = ((deep - shallow) / (DEEP - SHALLOW)).clamp(1.0, one / 2.0);
        let left = (deep - command * DEEP).clamp(one / 10.0, one - command);
        let longer = of("depth-32-64k").map_or(0.0, |large| (large - deep) / DEEP);
        let bytes_per_s = 60.0 * 1024.0 * 1e9 / longer.max(1.0);
        let batch = left * 0.75;
        // The bytes of a small command are passed on too.
        let command = (command - 4096.0 * 1e9 / bytes_per_s).max(command / 4.0);
        Some(Work { batch, command, bytes_per_s, own: one - batch - command, whole: one })
    }

    /// The family with this work before it. `latency` is the name of its median for reads of 4 KiB,
    /// and `unit` how many nanoseconds that is in; the percentile follows it.
    pub fn before(&self, family: &Family, latency: &str, unit: f64) -> Family {
        let time =
            |key: &str, ns: f64| Parameter::new(("host", key), TIMES, Written::Decimal, ns / 1e3);
        let mut parameters = vec![
            time("batch_us", self.batch),
            time("command_us", self.command),
            Parameter::new(("host", "bytes_per_s"), RATES, Written::Whole, self.bytes_per_s),
        ];
        let before = parameters.len();
        let median = family.number(latency);
        for parameter in &family.parameters {
            let mut parameter = parameter.clone();
            let start = match (parameter.written, parameter.name().as_str()) {
                (_, name) if name == latency => self.own / unit,
                (Written::Times(of), _) if Some(of) == median => {
                    1.0 + (parameter.start - 1.0) * self.whole / self.own
                }
                (_, "channels" | "link_bytes_per_s") => parameter.start * FREE,
                (_, "read_bytes_per_s" | "operations.per_s" | "bytes.per_s") => {
                    parameter.start * AHEAD
                }
                (_, "overhead_us") => self.own / unit / 20.0,
                _ => parameter.start,
            };
            parameter.start = within(parameter.scale, start);
            if let Written::Times(of) = &mut parameter.written {
                *of += before;
            }
            parameters.push(parameter);
        }
        Family { parameters, ..family.clone() }
    }
}
