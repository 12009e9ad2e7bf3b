//! Time, waiting and devices.
