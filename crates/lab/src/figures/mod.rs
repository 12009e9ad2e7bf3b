//! Figures of what a run recorded, for the page of a run or of something larger.
//!
//! ```text
//! activity   what a drive did over time, and how long requests and calls took
//! layout     maps of a volume: what each stretch of blocks is used for
//! ```
pub mod activity;
pub mod layout;
