//! What values of several kinds may be.
use crate::fit::family::Scale;

/// How many commands or connections at a time.
pub const DEPTHS: Scale =
    Scale::Steps(&[1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0]);
/// Bytes a second.
pub const RATES: Scale = Scale::Ratio(1e4, 5e11);
/// A 99th percentile over its median.
pub const FACTORS: Scale = Scale::Ratio(1.0, 900.0);
/// Times in the unit of their key.
pub const TIMES: Scale = Scale::Ratio(0.001, 90_000_000.0);
