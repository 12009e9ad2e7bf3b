//! Steps about single files, and how files are chosen.
use super::making::named_or_own_tree;
use super::walking::order;
use super::{CHUNK_DEFAULT, COUNT_MAX, StepScope, chunk, required_count};
use crate::ageing;
use crate::fields::{self, Result};
use crate::quantity::SIZE_MAX;
use crate::scenario::step::{
    Action, AgeAction, Among, Deed, Durability, Number, Renewal, Skew, Targets, Which,
};
use extant_sim::drive::file::Section;
use std::sync::Arc;

/// What stands for the number of the run of a `repeat`.
const OF_RUN: &str = "{r}";
/// No step lets more days pass.
const DAYS_MAX: u64 = 36_500;
const DAYS_OF_MONTH: u64 = 30;

/// Keys that choose some files of a tree; at most one of them.
const CHOICES: [&str; 5] = ["number", "first", "last", "every", "draw"];

fn targets(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Targets> {
    let chosen: Vec<&str> = CHOICES.into_iter().filter(|key| section.has(key)).collect();
    if let Some(path) = fields::optional_path(section, "path")? {
        let others = ["at", "tree", "order", "from", "skew"];
        let other = others.into_iter().find(|key| section.has(key)).or(chosen.first().copied());
        return match other {
            Some(key) => Err(section.error(key, "cannot be with path")),
            None => Ok(Targets { at: path, among: Among::Path, which: Which::All }),
        };
    }
    if let [_, second, ..] = chosen[..] {
        return Err(section.error(second, format!("cannot be with {}", chosen[0])));
    }
    if !section.has("at") {
        return Err(section.error("path", "is missing, and so is at"));
    }
    let at = fields::path(section, "at")?;
    let among = match section.has("tree") {
        true if section.has("order") => {
            return Err(section.error("order", "cannot be with tree"));
        }
        true => Among::Tree(named_or_own_tree(section, surroundings)?),
        false => Among::Found(order(section)?),
    };
    let which = which(section)?;
    if section.has("from") && !matches!(which, Which::Every { .. }) {
        return Err(section.error("from", "goes with every"));
    }
    if section.has("skew") && !matches!(which, Which::Draw { .. }) {
        return Err(section.error("skew", "goes with draw"));
    }
    Ok(Targets { at, among, which })
}

fn which(section: &mut Section<'_>) -> Result<Which> {
    let is_of_run = section.find("number").is_some_and(|value| value.get_ref().is_str());
    if is_of_run {
        return match fields::text(section, "number")?.as_str() {
            OF_RUN => Ok(Which::One(Number::OfRun)),
            _ => Err(section.error("number", "has to be a number from 0, or \"{r}\"")),
        };
    }
    if let Some(number) = fields::count(section, "number", 0..=COUNT_MAX)? {
        return Ok(Which::One(Number::Fixed(number)));
    }
    if let Some(count) = fields::count(section, "first", 1..=COUNT_MAX)? {
        return Ok(Which::First(count));
    }
    if let Some(count) = fields::count(section, "last", 1..=COUNT_MAX)? {
        return Ok(Which::Last(count));
    }
    if let Some(every) = fields::count(section, "every", 1..=COUNT_MAX)? {
        let from = fields::count(section, "from", 0..=COUNT_MAX)?.unwrap_or(0);
        return Ok(Which::Every { every, from });
    }
    match fields::count(section, "draw", 1..=COUNT_MAX)? {
        Some(count) => Ok(Which::Draw { count, skew: skew(section)? }),
        None => Ok(Which::All),
    }
}

/// `"uniform"`, or percent of draws and of files: `"80/20"`.
fn skew(section: &mut Section<'_>) -> Result<Skew> {
    let percent = |word: &str| word.parse().ok().filter(|percent| (1..100).contains(percent));
    match section.optional_text("skew")? {
        None | Some("uniform") => Ok(Skew::Uniform),
        Some(words) => {
            let parts = words.split_once('/').and_then(|(draws, files)| {
                Some(Skew::SelfSimilar { draws: percent(draws)?, files: percent(files)? })
            });
            parts.ok_or_else(|| {
                section.error(
                    "skew",
                    "has to be \"uniform\", or percent of the draws and of the files, as \"80/20\"",
                )
            })
        }
    }
}

fn single(
    section: &mut Section<'_>,
    surroundings: &StepScope<'_>,
    deed: impl FnOnce(&mut Section<'_>) -> Result<Deed>,
) -> Result<Action> {
    Ok(Action::Files { targets: targets(section, surroundings)?, deed: deed(section)? })
}

/// A tree, unless keys choose single files.
pub(super) fn remove(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    let others = ["path", "tree", "order", "from", "skew"];
    if !CHOICES.iter().chain(&others).any(|key| section.has(key)) {
        return Ok(Action::Remove { at: fields::path(section, "at")? });
    }
    single(section, surroundings, |_| Ok(Deed::Remove))
}

fn durability(section: &mut Section<'_>) -> Result<Durability> {
    Ok(if section.flag("synced")? { Durability::Synced } else { Durability::Cached })
}

/// `bytes`, up to `bytes_max`.
fn renewal(section: &mut Section<'_>) -> Result<Renewal> {
    let least = fields::size(section, "bytes", 0..=SIZE_MAX)?;
    let most = fields::size(section, "bytes_max", least.unwrap_or(0)..=SIZE_MAX)?;
    let bytes = match (least, most) {
        (None, Some(_)) => return Err(section.error("bytes", "is missing")),
        (least, most) => least.map(|least| (least, most.unwrap_or(least))),
    };
    Ok(Renewal { bytes, durability: durability(section)? })
}

fn required_renewal(section: &mut Section<'_>) -> Result<Renewal> {
    match section.has("bytes") {
        true => renewal(section),
        false => Err(section.error("bytes", "is missing")),
    }
}

pub(super) fn append(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    single(section, surroundings, |section| Ok(Deed::Append(required_renewal(section)?)))
}

pub(super) fn truncate(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    single(section, surroundings, |section| {
        let bytes = fields::size(section, "bytes", 0..=SIZE_MAX)?;
        Ok(Deed::Truncate { bytes: fields::required(section, "bytes", bytes)? })
    })
}

pub(super) fn overwrite(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    single(section, surroundings, |section| {
        let renewal = renewal(section)?;
        Ok(Deed::Overwrite { renewal, offset: fields::size(section, "offset", 0..=SIZE_MAX)? })
    })
}

pub(super) fn rewrite(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    single(section, surroundings, |section| Ok(Deed::Rewrite(renewal(section)?)))
}

pub(super) fn rename(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    single(section, surroundings, |section| Ok(Deed::Rename { to: fields::path(section, "to")? }))
}

pub(super) fn link(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    single(section, surroundings, |section| Ok(Deed::Link { to: fields::path(section, "to")? }))
}

pub(super) fn read(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    single(section, surroundings, |section| {
        Ok(Deed::Read { chunk: chunk(section, CHUNK_DEFAULT)? })
    })
}

pub(super) fn stat(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    single(section, surroundings, |_| Ok(Deed::Stat))
}

pub(super) fn create(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    let size = fields::size(section, "size", 0..=SIZE_MAX)?.unwrap_or(0);
    let most = fields::size(section, "size_max", size..=SIZE_MAX)?.unwrap_or(size);
    Ok(Action::Create {
        path: fields::path(section, "path")?,
        bytes: (size, most),
        durability: durability(section)?,
    })
}

pub(super) fn make_directory(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    Ok(Action::MakeDirectory { path: fields::path(section, "path")? })
}

pub(super) fn symlink(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    let target = fields::text(section, "target")?;
    if target.len() > 1024 {
        return Err(section.error("target", "has to have at most 1024 bytes"));
    }
    Ok(Action::Symlink { path: fields::path(section, "path")?, target })
}

pub(super) fn copy(section: &mut Section<'_>, _: &StepScope<'_>) -> Result<Action> {
    let (at, to) = (fields::path(section, "at")?, fields::path(section, "to")?);
    let is_inside = to == at || to.strip_prefix(&at).is_some_and(|rest| rest.starts_with('/'));
    match is_inside || at == "/" {
        true => Err(section.error("to", "lies in what is copied")),
        false => Ok(Action::Copy { at, to, chunk: chunk(section, CHUNK_DEFAULT)? }),
    }
}

pub(super) fn age(section: &mut Section<'_>, surroundings: &StepScope<'_>) -> Result<Action> {
    Ok(Action::Age(life(section, surroundings.folder)?))
}

/// `profile`, `days` or `months`, and the directory `at`.
pub(in crate::scenario) fn life(
    section: &mut Section<'_>,
    folder: &std::path::Path,
) -> Result<AgeAction> {
    let name = fields::text(section, "profile")?;
    let found = match name.contains(['/', '.']) {
        true => ageing::load(&folder.join(&name)),
        false => ageing::find(&name),
    };
    let profile = found.map_err(|error| section.error("profile", error.to_string()))?;
    let days = match fields::count(section, "months", 1..=DAYS_MAX / DAYS_OF_MONTH)? {
        Some(_) if section.has("days") => {
            return Err(section.error("days", "cannot be with months"));
        }
        Some(months) => months * DAYS_OF_MONTH,
        None if section.has("days") => required_count(section, "days", 0..=DAYS_MAX)?,
        None => return Err(section.error("days", "is missing, and so is months")),
    };
    let into = fields::optional_path(section, "at")?.filter(|path| path != "/");
    Ok(AgeAction { profile: Arc::new(profile), days, into: into.unwrap_or_default() })
}
