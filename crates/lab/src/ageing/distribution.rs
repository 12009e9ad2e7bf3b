//! Distributions as profiles write them: a number, a log-normal by its median and 99th percentile,
//! an exponential by its mean.
use crate::fields;
use extant_sim::drive::file::{FileError, Section};
use extant_sim::random::{Quantiles, Random};
use std::ops::RangeInclusive;

/// A distribution of whole numbers, with a bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distribution {
    quantiles: Quantiles,
    most: u64,
}

/// How numbers of a distribution are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Sizes with units.
    Bytes,
    /// Plain numbers, kept in thousandths.
    Thousandths,
    /// Whole numbers.
    Whole,
}

impl Distribution {
    /// Always this.
    pub fn constant(value: u64) -> Distribution {
        Distribution { quantiles: Quantiles::constant(value), most: value }
    }

    /// What half of the draws stay below.
    pub fn median(&self) -> u64 {
        self.quantiles.median().min(self.most)
    }

    /// One value, at most the bound and `most`.
    pub fn draw(&self, random: &mut Random, most: u64) -> u64 {
        self.quantiles.draw(random).min(self.most).min(most)
    }

    /// That of a key: a number, `{ median, p99 }` or `{ mean }`, the last two perhaps with `most`.
    /// `None` when the key is absent.
    ///
    /// # Errors
    /// One line with the key.
    pub fn parse(
        section: &mut Section<'_>,
        key: &str,
        scale: Scale,
        bounds: RangeInclusive<u64>,
    ) -> Result<Option<Distribution>, FileError> {
        let Some(value) = section.find(key) else {
            return Ok(None);
        };
        if !value.get_ref().is_table() {
            return Ok(number(section, key, scale, bounds)?.map(Distribution::constant));
        }
        let mut table = section.section(key)?;
        let median = number(&mut table, "median", scale, bounds.clone())?;
        let p99 = number(&mut table, "p99", scale, bounds.clone())?;
        let mean = number(&mut table, "mean", scale, bounds.clone())?;
        let most = number(&mut table, "most", scale, bounds.clone())?.unwrap_or(*bounds.end());
        let quantiles = match (median, p99, mean) {
            (Some(median), Some(p99), None) if median <= p99 => Quantiles::log_normal(median, p99),
            (Some(_), Some(_), None) => return Err(table.error("p99", "is less than the median")),
            (None, None, Some(mean)) => Quantiles::exponential(mean),
            _ => {
                table.finish()?;
                return Err(section.error(key, "has to be a number, { median, p99 } or { mean }"));
            }
        };
        table.finish()?;
        Ok(Some(Distribution { quantiles, most }))
    }
}

fn number(
    section: &mut Section<'_>,
    key: &str,
    scale: Scale,
    bounds: RangeInclusive<u64>,
) -> Result<Option<u64>, FileError> {
    if scale == Scale::Bytes {
        return fields::size(section, key, bounds);
    }
    if !section.has(key) {
        return Ok(None);
    }
    if scale == Scale::Whole {
        return section.whole_within(key, bounds, None).map(Some);
    }
    let cut = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let value = section.decimal_within(key, 3, cut(*bounds.start())..=cut(*bounds.end()), None)?;
    Ok(Some(value.unsigned_abs()))
}
