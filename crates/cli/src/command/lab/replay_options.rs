//! What `extant lab replay` is asked.
use super::data::DataOption;
use super::page::PageOption;
use clap::ValueEnum;
use extant_sim::replay::{Beyond, Pace};
use extant_sim::trace::Recognised;
use extant_sim::trace::requests::RequestFormat;
use std::path::PathBuf;

/// Replay a trace on a drive: how long its requests take there.
///
/// Of a measured trace and of traces of runs (disksim, blktrace) it prints one response time in
/// milliseconds a line, in the order of the trace. A measured trace is a closed loop: each request
/// is issued as long after the simulated end of the one before as it came after the measured one.
/// Traces of runs are replayed at the times that they hold, in the order of arrival. Requests
/// that had to be moved or changed to fit the drive are counted on standard error.
///
/// Of traces of other systems (msr, alibaba, tencent, fio-iolog, blkparse, oracle-general), which
/// may be of any length and compressed with gzip, zstd, xz, bzip2 or lz4, it prints sums, and what
/// the format does not say.
///
/// --volume, --pace and --times are for traces of other systems only: what the others print is a
/// time a line already, at the times and of the one drive that they hold.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant lab replay --drive atlas10k.toml --trace atlas10k.trace > times && score.py \
  atlas10k.trace times
  extant lab replay --drive hdd-2022-20t --trace mine.trace --format disksim
  extant lab replay --drive ssd-sata --trace sda.blktrace.0 --format blktrace --json | jq \
  .mean_ms
  extant lab replay --drive sata-2007-400 --trace hm_0.csv.gz
  extant lab replay --drive ssd-sata --trace io_traces.csv --volume 419 --pace full-speed
  extant lab replay --drive ssd-sata --trace cloudphysics.oracleGeneral.zst --json | jq .times")]
pub struct Arguments {
    /// A built-in drive, or a file
    #[arg(long, value_name = "DRIVE")]
    pub drive: String,
    /// What is known of the drive's controller: tables `controller` and `bus` in DiskSim's words.
    /// Without it, of a drive's file DIR/NAME.toml, the file DIR/facts/NAME.toml where there is one
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// The trace
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// How the trace is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Auto)]
    pub format: Format,
    /// Which volume of a trace that mixes several: HOST.DISK of msr, the device of alibaba and
    /// blkparse, the volume of tencent, the file of fio-iolog (not of measured, disksim, blktrace)
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// When requests are issued: at their times (recorded), one after another with the pauses
    /// between them (closed), or as soon as the drive takes one more (full-speed). Of measured,
    /// disksim and blktrace it is given: closed of measured, recorded of the others
    #[arg(long, value_name = "PACE", value_enum)]
    pub pace: Option<PaceWord>,
    /// What becomes of requests beyond the drive's end: they are moved there, or folded into the
    /// drive (wrap; so are the objects of oracle-general unless this says move)
    #[arg(long, value_name = "WHAT", value_enum)]
    pub beyond: Option<BeyondWord>,
    /// Write the response time of each request to this file, in milliseconds, a line each; those of
    /// measured, disksim and blktrace are printed
    #[arg(long, value_name = "FILE")]
    pub times: Option<PathBuf>,
    /// What is random in the drive comes from this; disks have nothing that is
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub seed: u64,
    #[command(flatten)]
    pub page: PageOption,
    #[command(flatten)]
    pub data: DataOption,
}

/// How a trace is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// As its first bytes say
    Auto,
    /// `R Hit SECTOR SECTORS MICROSECONDS PAUSE` a line, as measured on a real drive: a closed loop
    Measured,
    /// DiskSim's ASCII, at its times
    Disksim,
    /// The kernel's block traces, at their times
    Blktrace,
    /// CSV of the MSR Cambridge traces
    Msr,
    /// CSV of the Alibaba block traces
    Alibaba,
    /// CSV of the Tencent block traces
    Tencent,
    /// fio's I/O log, version 2 or 3
    FioIolog,
    /// What blkparse prints
    Blkparse,
    /// libCacheSim's binary format
    OracleGeneral,
}

/// When requests are issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum PaceWord {
    /// At the times that the trace holds: an open loop
    #[default]
    Recorded,
    /// Each as long after the simulated end of the one before as it came after the recorded one's
    Closed,
    /// As soon as the drive takes one more
    FullSpeed,
}

impl From<PaceWord> for Pace {
    fn from(word: PaceWord) -> Pace {
        match word {
            PaceWord::Recorded => Pace::Recorded,
            PaceWord::Closed => Pace::Closed,
            PaceWord::FullSpeed => Pace::FullSpeed,
        }
    }
}

/// What becomes of requests beyond the drive's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum BeyondWord {
    /// They are moved to end there
    Move,
    /// Their places are folded into the drive
    Wrap,
}

impl From<BeyondWord> for Beyond {
    fn from(word: BeyondWord) -> Beyond {
        match word {
            BeyondWord::Move => Beyond::Moved,
            BeyondWord::Wrap => Beyond::Wrapped,
        }
    }
}

impl Format {
    /// The format of the word; `None` where the first bytes of the trace decide.
    pub(super) fn recognised(self) -> Option<Recognised> {
        let requests = match self {
            Format::Auto => return None,
            Format::Measured => return Some(Recognised::Measured),
            Format::Disksim => return Some(Recognised::DiskSim),
            Format::Blktrace => return Some(Recognised::Blktrace),
            Format::Msr => RequestFormat::Msr,
            Format::Alibaba => RequestFormat::Alibaba,
            Format::Tencent => RequestFormat::Tencent,
            Format::FioIolog => RequestFormat::FioIolog,
            Format::Blkparse => RequestFormat::Blkparse,
            Format::OracleGeneral => RequestFormat::OracleGeneral,
        };
        Some(Recognised::Requests(requests))
    }
}
