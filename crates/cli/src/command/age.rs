//! `extant age`: months of use of an image, in place.
use super::lab::failure;
use extant_block::BlockDevice;
use extant_engine::preset::Policies;
use extant_engine::{ErrorKind, read_superblock};
use extant_format::superblock::state;
use extant_host::console::{Chatter, Console};
use extant_host::disk::{self, Place};
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::journal;
use extant_host::place;
use extant_host::source_options::source_date_epoch;
use extant_host::target::{self, Target};
use extant_lab::ageing::{
    self, AgeingError, DatedClock, ImageAged, ImageOptions, PROFILES, Profile, Tell, age_image,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Use an image for months, in place: files are made, deleted, cut, appended to, overwritten and
/// renamed as a profile says.
///
/// For tests that want a volume with a past: fragmented files and free space, directories that grew
/// and shrank. The same image, profile, seed and days give the same bytes. What is on the image
/// stays as it is; what is made is put beside it, or in the directory of --into. Files' bytes are
/// random numbers of the seed. All times of the inodes are before the image's last change (or
/// SOURCE_DATE_EPOCH).
///
/// The image has to be clean, and nothing else may have it open. A run that is stopped half-way
/// leaves it marked as not clean: e2fsck -fy mends it, and it is not to be used for comparisons.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant mkfs disk.img 2G && extant age disk.img --profile mail --days 30
  extant age disk.img --profile git --days 180 --seed 7 --target-utilisation 0.9
  extant age disk.img --profile ./mine.toml --days 10 --into /aged
  extant age disk.img --profile packages --days 60 --preset linux-2.6")]
pub struct Arguments {
    /// The image or block device that is changed
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// What it is used for: mail, git, packages, containers, new-directories, file-server, or a
    /// TOML file
    #[arg(long, value_name = "PROFILE")]
    pub profile: String,
    /// For this many days; 0 only fills it
    #[arg(long, value_name = "NUMBER", default_value = "30",
        value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub days: u32,
    /// Everything random comes from this
    #[arg(long, value_name = "NUMBER", default_value = "1",
        value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: u64,
    /// How much of the volume is used in the end, in place of the profile's: a share such as 0.8
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub target_utilisation: Option<u32>,
    /// Make everything in this directory of the image
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    pub into: String,
    /// Where things go: a preset, perhaps with columns changed. Every call writes what it
    /// changes before it returns: the throttle is always `inline`
    #[arg(long, value_name = "POLICIES", default_value = "modern", visible_alias = "policies")]
    pub preset: String,
    #[command(flatten)]
    pub place: ImageArguments,
}

/// Memory for metadata, and as much again for files.
const CACHE_BYTES: usize = 64 << 20;

/// A share as millionths.
fn share(text: &str) -> Result<u32, String> {
    let wrong = || format!("{text}: is not a share between 0.001 and 1");
    let share: f64 = text.parse().map_err(|_| wrong())?;
    match (0.001..=1.0).contains(&share) {
        true => Ok((share * 1e6).round() as u32),
        false => Err(wrong()),
    }
}

#[derive(Serialize)]
struct Report<'a> {
    image: String,
    profile: &'a str,
    days: u32,
    seed: u64,
    operations: u64,
    refused: u64,
    bytes_written: u64,
    files_made: u64,
    files_deleted: u64,
    files_left: u64,
    utilisation_ppm: u32,
}

/// Ages it. With `--json`: `{"schema": "extant-age/1", "image", "profile", "days", "seed",
/// "operations", "refused", "bytes_written", "files_made", "files_deleted", "files_left",
/// "utilisation_ppm"}`.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let profile = profile(&arguments.profile)?;
    let policies = policies(&arguments.preset)?;
    let epoch: Option<i64> = source_date_epoch()?;
    let offset = arguments.place.offset_bytes();
    // Looked at before it is opened for writing: a refusal is of an image that nothing has
    // touched.
    let place = disk::writable(&arguments.image, offset)?;
    let written_seconds = check(&arguments.image, &arguments.place)?;
    let into = into(&arguments.into)?;
    let target = Target::in_place(&place.file)?;
    let clock = DatedClock::new(1);
    let device = device(&target, &clock, &place, &arguments.image)?;
    let journal = arguments.place.journal.as_deref();
    let device = journal::write(&arguments.image, journal, device)?;
    let options = ImageOptions {
        profile,
        days: arguments.days,
        seed: arguments.seed,
        target_utilisation_ppm: arguments.target_utilisation,
        into,
        policies,
        cache_bytes: CACHE_BYTES,
        end_seconds: epoch.unwrap_or(i64::try_from(written_seconds).unwrap_or(i64::MAX)),
    };
    let tell: Tell = console.teller();
    let aged = age_image(device, &clock, &options, &tell);
    drop(tell);
    let aged = aged.map_err(|error| failure(&arguments.image, error))?;
    target.finish()?;
    warn_of_missed_target(&arguments, &options.profile, &aged, console);
    print(&arguments, &options.profile, &aged, console)?;
    Ok(Exit::Complete)
}

/// How far from its target the use of the volume may be in the end, in millionths, without a word.
const MISSED_PPM: u32 = 50_000;

/// A volume that is much fuller or emptier in the end than was asked for: too small for the
/// profile, or full before.
fn warn_of_missed_target(
    arguments: &Arguments,
    profile: &Profile,
    aged: &ImageAged,
    console: &Console,
) {
    let is_due =
        arguments.target_utilisation.is_some() || arguments.days >= profile.utilisation.after_days;
    let target = arguments.target_utilisation.unwrap_or(profile.utilisation.target_ppm);
    if is_due && target.abs_diff(aged.utilisation_ppm) > MISSED_PPM {
        let percent = |ppm: u32| f64::from(ppm) / 1e4;
        console.warn(&format!(
            "{}: {:.1} % is used in the end, and the target was {:.1} %",
            arguments.image.display(),
            percent(aged.utilisation_ppm),
            percent(target)
        ));
    }
}

fn profile(word: &str) -> Result<Profile, Error> {
    let is_builtin = PROFILES.iter().any(|builtin| builtin.name == word);
    ageing::find(word).map_err(|error| match is_builtin || word.contains(['/', '.']) {
        true => Error::new(error.to_string()),
        false => Error::usage(format!("--profile {error}")).hint(
            "extant lab age says what each is; a file is named with its folder or its \
                ending: ./mine.toml",
        ),
    })
}

/// A flusher would know the host's time, and the image would depend on it.
fn policies(words: &str) -> Result<Policies, Error> {
    let said = failure::setup(words)?;
    let inline = said.changed(&[("throttle", "inline")]);
    inline.map(|setup| setup.policies).map_err(|error| Error::new(format!("policies: {error}")))
}

/// A directory of the image; "" for the root.
fn into(word: &str) -> Result<String, Error> {
    match word.starts_with('/') && !word.split('/').any(|name| matches!(name, "." | "..")) {
        true => Ok(word.trim_end_matches('/').to_owned()),
        false => Err(Error::usage(format!(
            "--into {word}: has to be a directory of the image, as in /aged"
        ))),
    }
}

/// Refuses what is no clean volume; when it was last written, in seconds since 1970.
fn check(path: &Path, place: &ImageArguments) -> Result<u64, Error> {
    let device = image::device(path, place)?;
    let file = place::file_of(path);
    let metadata = std::fs::metadata(&file).map_err(|error| Error::io(file.display(), &error))?;
    target::check(&file, &metadata)?;
    let superblock = read_superblock(&*device).map_err(|error| match error.kind {
        ErrorKind::NotExt => image::not_ext(path, &*device, place.offset_bytes()),
        _ => image::failure(path, error),
    })?;
    let shown = path.display();
    if superblock.state & state::ERRORS != 0 || superblock.state & state::CLEAN == 0 {
        let reason = match superblock.state & state::ERRORS {
            0 => "was not unmounted in order",
            _ => "is marked as having errors",
        };
        return Err(Error::new(format!("{shown}: {reason}: it is not aged"))
            .hint(format!("e2fsck -f {shown} mends it")));
    }
    Ok(superblock.written_seconds)
}

fn device(
    target: &Target,
    clock: &Arc<DatedClock>,
    place: &Place,
    image: &Path,
) -> Result<Arc<dyn BlockDevice>, Error> {
    Ok(place.on(Arc::new(target.whole(Arc::clone(clock) as _)?), image))
}

fn failure(path: &Path, error: AgeingError) -> Error {
    match error {
        AgeingError::Filesystem(_, error) if matches!(error.kind, ErrorKind::Exists) => {
            image::failure(path, *error).hint(
                "what is on the image is left alone: --into DIRECTORY makes everything \
                elsewhere",
            )
        }
        AgeingError::Filesystem(doing, error) if doing != "opening the volume" => {
            half_aged(image::failure(path, *error))
        }
        AgeingError::Filesystem(_, error) => image::failure(path, *error),
        error => Error::new(format!("{}: {error}", path.display())),
    }
}

/// A failure after the volume was changed.
fn half_aged(failure: Error) -> Error {
    let hint = failure.hint.iter().map(|hint| format!("; {hint}")).collect::<String>();
    Error {
        hint: Some(format!("the image is left half aged: begin again with a new one{hint}")),
        ..failure
    }
}

fn print(
    arguments: &Arguments,
    profile: &Profile,
    aged: &ImageAged,
    console: &Console,
) -> Result<(), Error> {
    let tally = &aged.tally;
    let report = Report {
        image: arguments.image.display().to_string(),
        profile: &profile.name,
        days: arguments.days,
        seed: arguments.seed,
        operations: tally.operations,
        refused: tally.refused,
        bytes_written: tally.bytes_written,
        files_made: tally.files_made,
        files_deleted: tally.files_deleted,
        files_left: aged.files,
        utilisation_ppm: aged.utilisation_ppm,
    };
    if console.is_json() {
        return console.print_json("extant-age/1", &report);
    }
    if console.chatter == Chatter::Quiet {
        return Ok(());
    }
    let percent = f64::from(aged.utilisation_ppm) / 1e4;
    let refused = match tally.refused {
        0 => String::new(),
        refused => format!("; {refused} operations found it full"),
    };
    console.print(&format!(
        "{}: {} days of {}: {} operations, {} files made, {} deleted, {} left; {percent:.1} % \
         used{refused}\n",
        report.image,
        report.days,
        report.profile,
        report.operations,
        report.files_made,
        report.files_deleted,
        report.files_left,
    ))
}
