//! Ageing: volumes that live for months under a profile of creates, deletes, truncates, appends, overwrites and renames.
//!
//! ```text
//! report    what ageing gave: series of samples
//! ```
mod report;

pub use report::{
    AgeingReport, Better, Form, FreeClass, FreeFigures, METRICS, Metric, MetricFacts, ProfileFacts, SCHEMA, Sample,
    Series, Timing,
};
