//! The file of a profile, checked: what is wrong is told with file, line and key.
use super::distribution::{Distribution, Scale};
use super::profile::{
    PROFILES, Population, Profile, Rates, Unit, Utilisation, VolumeWishes, builtin,
};
use crate::fields::{self, Result};
use extant_engine::mkfs::Profile as VolumeKind;
use extant_sim::drive::file::{FileError, Section, Source};
use std::path::Path;
use toml::de::DeTable;

/// No profile or experiment is longer.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;
/// A volume is no smaller and no larger.
pub const VOLUME_BYTES: std::ops::RangeInclusive<u64> = 16 << 20..=16 << 40;
const POPULATIONS_MAX: usize = 64;
const FILE_SIZE_MAX: u64 = 1 << 40;
/// A hundred years, in thousandths of days.
const LIFETIME_MAX: u64 = 36_500_000;
/// Operations a day, in thousandths.
const RATE_MAX: i64 = 1_000_000_000_000;
/// No path in a tree is deeper.
const DEPTH_MAX: i64 = 32;
const MONTHS_MAX: u64 = 120;

/// The text of a file that is not too long.
pub(super) fn text(path: &Path) -> Result<String> {
    let whole = |reason: String| FileError {
        file: path.display().to_string(),
        line: 0,
        key: String::new(),
        reason,
    };
    fields::contents(path, FILE_BYTES_MAX).map_err(whole)
}

/// The profile of that name: a built-in one, or else a file.
///
/// # Errors
/// One line; of a name that is no file, the built-in ones.
pub fn find(name: &str) -> Result<Profile> {
    match builtin(name) {
        Some(builtin) => parse(builtin.name, builtin.text),
        None if name.contains(['/', '.']) => load(Path::new(name)),
        None => {
            let known: Vec<&str> = PROFILES.iter().map(|builtin| builtin.name).collect();
            Err(FileError {
                file: name.to_owned(),
                line: 0,
                key: String::new(),
                reason: format!("no such profile; there are {}", known.join(", ")),
            })
        }
    }
}

/// The profile of a file.
///
/// # Errors
/// One line: file, line, key, reason.
pub fn load(path: &Path) -> Result<Profile> {
    parse(&path.display().to_string(), &text(path)?)
}

/// The profile of a text; `file` is what errors call it.
///
/// # Errors
/// One line: file, line, key, reason.
pub fn parse(file: &str, text: &str) -> Result<Profile> {
    let source = Source { file, text };
    let table = DeTable::parse(text).map_err(|error| source.parse_error(&error))?;
    let mut section = Section::root(&source, table.get_ref());
    let bytes = fields::size(&mut section, "size", VOLUME_BYTES)?;
    let profile = Profile {
        file: file.to_owned(),
        name: fields::text(&mut section, "name")?,
        line: section.optional_text("line")?.unwrap_or_default().to_owned(),
        bytes: fields::required(&section, "size", bytes)?,
        volume: volume(&mut section)?,
        utilisation: utilisation(&mut section)?,
        writers: section.whole_within("writers", 1..=1024, Some(1))? as u32,
        chunk_bytes: fields::size(&mut section, "chunk", 1024..=1 << 20)?.unwrap_or(1 << 20),
        sessions_per_day: section.whole_within("sessions", 1..=1440, Some(24))? as u32,
        months: section.whole_within("months", 1..=MONTHS_MAX, Some(6))? as u32,
        sample_days: section.whole_within("sample_days", 1..=3600, Some(30))? as u32,
        populations: populations(&mut section)?,
    };
    section.finish()?;
    Ok(profile)
}

/// Words for ext2, ext3 and ext4.
pub(super) const KINDS: [(&str, VolumeKind); 3] =
    [("ext2", VolumeKind::Ext2), ("ext3", VolumeKind::Ext3), ("ext4", VolumeKind::Ext4)];

fn volume(section: &mut Section<'_>) -> Result<VolumeWishes> {
    let mut wishes =
        VolumeWishes { kind: VolumeKind::Ext4, block_bytes: 4096, bytes_per_inode: None };
    let Some(mut table) = section.optional_section("volume")? else {
        return Ok(wishes);
    };
    wishes.kind = table.choice("profile", &KINDS, wishes.kind)?;
    let blocks = [("1024", 1024), ("2048", 2048), ("4096", 4096)];
    if let Some(bytes) = fields::size(&mut table, "block_size", 1024..=4096)? {
        let known = blocks.iter().find(|(_, size)| *size == bytes);
        wishes.block_bytes = known
            .ok_or_else(|| table.error("block_size", "has to be 1024, 2048 or 4096"))?
            .1 as u32;
    }
    let ratio = fields::size(&mut table, "bytes_per_inode", 1024..=64 << 20)?;
    wishes.bytes_per_inode = ratio.map(|bytes| bytes as u32);
    table.finish()?;
    Ok(wishes)
}

fn utilisation(section: &mut Section<'_>) -> Result<Utilisation> {
    let mut table = section.section("utilisation")?;
    let target = table.decimal_within("target", 6, 1000..=1_000_000, None)?;
    let start = table.decimal_within("start", 6, 0..=1_000_000, Some(target))?;
    let after_days = table.whole_within("after_days", 0..=36_500, Some(0))?;
    table.finish()?;
    Ok(Utilisation {
        start_ppm: start as u32,
        target_ppm: target as u32,
        after_days: after_days as u32,
    })
}

fn populations(section: &mut Section<'_>) -> Result<Vec<Population>> {
    let mut populations: Vec<Population> = Vec::new();
    for (key, of) in [("files", Members::Files), ("trees", Members::Trees)] {
        for mut table in section.sections(key)? {
            let population = population(&mut table, of)?;
            if let Some(other) = populations.iter().find(|other| clash(other, &population)) {
                let reason =
                    format!("{:?} has the same name, or lies in the same directory", other.name);
                return Err(table.error("name", reason));
            }
            populations.push(population);
            table.finish()?;
        }
    }
    let key = if section.has("files") { "files" } else { "trees" };
    if populations.is_empty() || populations.len() > POPULATIONS_MAX {
        return Err(section.error(
            key,
            format!("there have to be 1 to {POPULATIONS_MAX} [[files]] and [[trees]]"),
        ));
    }
    let sum: u64 = populations.iter().map(|population| u64::from(population.share_ppm)).sum();
    match sum {
        1_000_000 => Ok(populations),
        _ => Err(section.error(
            key,
            format!("shares of all add up to {}.{:06}, not to 1", sum / 1_000_000, sum % 1_000_000),
        )),
    }
}

/// Populations in one directory would give the same names.
fn clash(one: &Population, other: &Population) -> bool {
    one.name == other.name || one.at == other.at
}

/// What a population is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Members {
    Files,
    Trees,
}

fn population(table: &mut Section<'_>, of: Members) -> Result<Population> {
    let size = Distribution::parse(table, "size", Scale::Bytes, 0..=FILE_SIZE_MAX)?;
    let lifetime =
        Distribution::parse(table, "lifetime_days", Scale::Thousandths, 1..=LIFETIME_MAX)?;
    let append = Distribution::parse(table, "append_size", Scale::Bytes, 1..=FILE_SIZE_MAX)?;
    let overwrite = Distribution::parse(table, "overwrite_size", Scale::Bytes, 1..=FILE_SIZE_MAX)?;
    let population = Population {
        name: fields::text(table, "name")?,
        at: fields::path(table, "at")?,
        share_ppm: table.decimal_within("share", 6, 1..=1_000_000, None)? as u32,
        size: fields::required(table, "size", size)?,
        lifetime,
        depth: two(table, "depth", 0, 0..=DEPTH_MAX)?.unwrap_or((1, 1)),
        file_names: pattern(table, "names", "file-%d")?,
        unit: unit(table, of)?,
        rates: rates(table)?,
        append: append.unwrap_or(Distribution::constant(4096)),
        overwrite: overwrite.unwrap_or(Distribution::constant(4096)),
        truncate_permille: two(table, "truncate_to", 3, 0..=1000)?.unwrap_or((0, 900)),
    };
    Ok(population)
}

fn unit(table: &mut Section<'_>, of: Members) -> Result<Unit> {
    if of == Members::Trees {
        let files = Distribution::parse(table, "files", Scale::Whole, 1..=10_000_000)?;
        return Ok(Unit::Tree {
            files: fields::required(table, "files", files)?,
            files_per_directory: table.whole_within(
                "files_per_directory",
                1..=1_000_000,
                Some(12),
            )?,
            names: pattern(table, "tree_names", "tree-%d")?,
        });
    }
    Ok(Unit::File {
        directories: table.whole_within("directories", 1..=1_000_000, Some(1))?,
        new_directories: rate(table, "new_directories")?,
    })
}

fn rates(table: &mut Section<'_>) -> Result<Rates> {
    Ok(Rates {
        create: rate(table, "create")?,
        delete: rate(table, "delete")?,
        append: rate(table, "append")?,
        truncate: rate(table, "truncate")?,
        overwrite: rate(table, "overwrite")?,
        rename: rate(table, "rename")?,
        replace: rate(table, "replace")?,
    })
}

fn rate(table: &mut Section<'_>, key: &str) -> Result<u64> {
    Ok(table.decimal_within(key, 3, 0..=RATE_MAX, Some(0))?.unsigned_abs())
}

/// The least and the most of something: an array of two numbers, the second not below the first.
fn two(
    table: &mut Section<'_>,
    key: &str,
    digits: u32,
    bounds: std::ops::RangeInclusive<i64>,
) -> Result<Option<(u32, u32)>> {
    let Some(numbers) = table.optional_numbers(key, digits)? else {
        return Ok(None);
    };
    match numbers[..] {
        [least, most] if least <= most && bounds.contains(&least) && bounds.contains(&most) => {
            Ok(Some((least as u32, most as u32)))
        }
        _ => Err(table.error(key, "has to be the least and the most, as in [0, 1], within bounds")),
    }
}

/// A name with one `%d`.
fn pattern(table: &mut Section<'_>, key: &str, default: &str) -> Result<String> {
    let text = table.optional_text(key)?.unwrap_or(default);
    let is_name =
        text.matches("%d").count() == 1 && !text.contains(['/', '\0']) && text.len() <= 200;
    match is_name && !text.contains(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(table.error(key, "has to be a name with one %d in it")),
    }
}
