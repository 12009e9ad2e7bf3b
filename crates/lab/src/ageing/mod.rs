//! Ageing: volumes that live for months under a profile of creates, deletes, truncates, appends,
//! overwrites and renames.
//!
//! ```text
//! run            months, series by series
//! image          the same on a real image, in place
//! life           what is done to a volume, session by session
//! colony         which files live
//! measure        cold reads, writes, checks
//! text           what ageing gave, as text
//! report         what ageing gave
//! sample         a look at the layout
//! experiment     a profile, lists of policies, a drive
//! file           the TOML file of a profile
//! profile        what a volume is used for
//! distribution   sizes and lifetimes
//! error          what goes wrong
//! ```
//!
//! A profile has *populations* of files, or of whole trees. Each has its share of the room, its
//! distributions of size and lifetime, its rates. The volume is filled, and then every session does
//! its part of the day: what has lived its time goes, what the rates ask for is done, and then so
//! many units go, or are made, that the volume is as full as it is meant to be. One seed gives one
//! life, whatever the policies are, as long as the volume has room for it.
mod colony;
mod distribution;
mod error;
mod experiment;
mod file;
mod image;
mod life;
mod measure;
mod profile;
mod report;
mod run;
mod sample;
mod text;

pub use distribution::Distribution;
pub use error::AgeingError;
pub use experiment::{DRIVE, EXPERIMENTS, Experiment, Subject, volume_kind};
pub use file::{VOLUME_BYTES, find, load, parse};
pub use image::{DatedClock, ImageAged, ImageOptions, age_image};
pub use life::Tally;
pub(crate) use life::{Life, Others, VolumePlace};
pub use profile::{Builtin, PROFILES, Population, Profile, Rates, Unit, Utilisation, VolumeWishes};
pub use report::{
    AgeingReport, Better, Form, FreeClass, FreeFigures, METRICS, Metric, MetricFacts, ProfileFacts,
    SCHEMA, Sample, Series, Timing,
};
pub use run::{AgeOptions, Aged, Keep, Sampling, Tell, run, run_while};
