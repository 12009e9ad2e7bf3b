//! `extant lab fit`: a drive file from a real device.
use super::data::DataOption;
use super::failure;
use super::page::PageOption;
use extant_chart::Figure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_lab::fit::{Caching, FitOptions, fit_device};
use extant_lab::wanted::Wanted;
use extant_lab::{observations, page};
use std::path::PathBuf;

/// Probe a block device or a file, and print the file of a drive that would have taken as long.
///
/// DEVICE is only read: at many sizes, distances and depths, past the page cache. What it did is
/// searched for among rotating disks, solid-state drives, network volumes and object stores in
/// virtual time; each value is printed with an error bar, or with "not identified" where the probes
/// do not tell. A mixed workload that the search never gets says how well the drive agrees. The
/// result is a drive file: `--drive` of the other commands takes it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant lab fit /dev/sdb > mine.toml; extant lab run random --drive ./mine.toml
  extant lab fit /dev/sdb --write /mnt/sdb/probe > mine.toml
  extant lab fit large.img --time 60 --json | jq .held_out.mean_error")]
pub struct Arguments {
    /// A block device, or a file on the file system in question
    #[arg(value_name = "DEVICE")]
    pub device: PathBuf,
    /// Probe writes and flushes too, on this file: a new one, which is gone afterwards
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// How long all of it may take, in seconds: the probes get two thirds, the search the rest, and
    /// ends with the best drive that it has found by then
    #[arg(long, value_name = "SECONDS", default_value = "300",
        value_parser = clap::value_parser!(u64).range(5..=86_400))]
    pub time: u64,
    /// Let the page cache answer: the result is the host's memory where it has the bytes
    #[arg(long)]
    pub buffered: bool,
    /// The name in the drive file
    #[arg(long, value_name = "NAME", default_value = "fitted")]
    pub name: String,
    /// Where is read and written comes from this
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub seed: u64,
    #[command(flatten)]
    pub page: PageOption,
    #[command(flatten)]
    pub data: DataOption,
}

/// Probes it and searches. With `--json`: the report, whose schema is in docs/LAB.md.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    arguments.page.check()?;
    arguments.data.check()?;
    let device = arguments.device.display();
    let options = FitOptions {
        name: arguments.name.clone(),
        write: arguments.write.clone(),
        seconds: arguments.time,
        caching: if arguments.buffered { Caching::Allowed } else { Caching::Bypassed },
        seed: arguments.seed,
    };
    let mut status = console.status();
    // Of the probes and the search together.
    let mut progress = |what: &str, permille: u64| {
        status.show(&format!("{:3} %  {what}", permille / 10));
    };
    let found = fit_device(&arguments.device, &options, &Wanted::default(), &mut progress);
    drop(status);
    let found = found.map_err(failure::refused)?;
    arguments.page.write(|| {
        let figure = Figure::new("The drive file", found.to_text());
        page::of_figures("A drive, fitted", &format!("What {device} is like."), &[figure])
    })?;
    arguments.data.write(|| observations::of_fit(&found))?;
    match console.is_json() {
        true => console.print(&found.to_json())?,
        false => console.print(&found.to_text())?,
    }
    Ok(Exit::Complete)
}
