//! Traces of other systems, request by request, however long they are.
//!
//! *Invariants*: at most [`WINDOW`] requests are kept; what is read comes in the order of its
//! times, as far as the window reaches. A line that says nothing sensible ends the reading, with
//! its number. Only requests of one volume are given.
//!
//! | format | described by | times | places | response times |
//! | --- | --- | --- | --- | --- |
//! | `msr` | README of the MSR Cambridge traces, SNIA IOTTA 387 | Windows filetime, 100 ns | bytes | yes |
//! | `alibaba` | README of github.com/alibaba/block-traces | microseconds | bytes | no |
//! | `tencent` | README of the Tencent CBS traces, SNIA IOTTA 27917 | seconds | sectors of 512 | no |
//! | `fio-iolog` | fio(1), "Trace file format" v2 and v3 | v3: microseconds; v2: waits | bytes | no |
//! | `blkparse` | blkparse(1), "Default output" | seconds with nine digits | sectors of 512 | no |
//! | `oracle-general` | oracleGeneralBin.h of libCacheSim | seconds | objects | no |
use super::TraceError;
use super::lines::Lines;
use super::request::Held;
use super::{blkparse, columns, iolog, objects};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::BufRead;

pub use super::request::Request;

/// Requests that are put into the order of their times.
const WINDOW: usize = 4096;
/// Volumes that are counted one by one.
const VOLUMES_MAX: usize = 100_000;
/// Lines that are looked at to name the volumes of a trace that mixes several.
const LOOK_LINES: u64 = 1_000_000;

/// A format that is read request by request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestFormat {
    /// CSV of the MSR Cambridge traces.
    Msr,
    /// CSV of the Alibaba block traces.
    Alibaba,
    /// CSV of the Tencent block traces.
    Tencent,
    /// fio's I/O log, version 2 or 3.
    FioIolog,
    /// What blkparse prints.
    Blkparse,
    /// The binary format of libCacheSim.
    OracleGeneral,
}

impl RequestFormat {
    /// Every format with its name.
    pub const NAMES: [(&'static str, RequestFormat); 6] = [
        ("msr", RequestFormat::Msr),
        ("alibaba", RequestFormat::Alibaba),
        ("tencent", RequestFormat::Tencent),
        ("fio-iolog", RequestFormat::FioIolog),
        ("blkparse", RequestFormat::Blkparse),
        ("oracle-general", RequestFormat::OracleGeneral),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, format)| *format == self);
        found.map_or("", |(name, _)| name)
    }

    /// What a reader of the replay has to know of every trace of the format, a sentence each.
    fn notes(self) -> &'static [&'static str] {
        match self {
            RequestFormat::Msr => {
                &["response times were measured on the drive that was traced, its controller and \
                 queue included"]
            }
            RequestFormat::Alibaba => &["the trace holds no response times"],
            RequestFormat::Tencent => &[
                "times are whole seconds: all requests of a second arrive together at the pace \
                 recorded",
                "the trace holds no response times",
            ],
            RequestFormat::FioIolog => &[
                "places are those in a file, and taken for places on the drive",
                "the trace holds no response times",
            ],
            RequestFormat::Blkparse => &["response times are not taken from it"],
            RequestFormat::OracleGeneral => &[
                "the trace holds no operations: all are replayed as reads",
                "it holds objects and no places: the number of an object is taken for that of a \
                 sector of 512 bytes",
                "times are whole seconds: all requests of a second arrive together at the pace \
                 recorded",
                "the trace holds no response times",
            ],
        }
    }
}

/// What was read so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadCounts {
    /// Requests of the volume.
    pub requests: u64,
    /// Requests of other volumes.
    pub others: u64,
    /// What moved no data: discards, requests of no bytes.
    pub left_out: u64,
    /// Requests that came after later ones had been given: they arrive with these.
    pub late: u64,
}

/// Reads requests in the order of their times.
pub struct RequestReader<R> {
    input: Lines<R>,
    format: RequestFormat,
    iolog: iolog::Log,
    blkparse: blkparse::Events,
    /// Which volume; `None`: the only one.
    chosen: Option<Vec<u8>>,
    volumes: FxHashMap<Box<[u8]>, u64>,
    last_volume: Vec<u8>,
    waiting: BinaryHeap<Reverse<Ordered>>,
    read: u64,
    is_over: bool,
    /// The time of the first request, and that of the last one that was given.
    first_ns: Option<u64>,
    last_ns: u64,
    counts: ReadCounts,
}

/// By time, then as it was read.
struct Ordered(u64, Request);

impl Ordered {
    fn key(&self) -> (u64, u64) {
        (self.1.arrival_ns, self.0)
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Ordered) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<R: BufRead> RequestReader<R> {
    /// Reads from the beginning of a trace. `volume` is the one that is read, as reports name it;
    /// without it the trace has to have one only.
    pub fn new(input: R, format: RequestFormat, volume: Option<&str>) -> RequestReader<R> {
        // Of MSR's traces the name has two columns.
        let key = |name: &str| match (format, name.rsplit_once('.')) {
            (RequestFormat::Msr, Some((host, disk))) => format!("{host},{disk}").into_bytes(),
            _ => name.as_bytes().to_vec(),
        };
        RequestReader {
            input: Lines::new(input),
            format,
            iolog: iolog::Log::default(),
            blkparse: blkparse::Events::default(),
            chosen: volume.map(key),
            volumes: FxHashMap::default(),
            last_volume: Vec::new(),
            waiting: BinaryHeap::new(),
            read: 0,
            is_over: false,
            first_ns: None,
            last_ns: 0,
            counts: ReadCounts::default(),
        }
    }

    /// What has to be known of what was read, a sentence each.
    pub fn notes(&self) -> Vec<&'static str> {
        let found = match self.format {
            RequestFormat::FioIolog => self.iolog.note(),
            RequestFormat::Blkparse => self.blkparse.note(),
            _ => None,
        };
        found.into_iter().chain(self.format.notes().iter().copied()).collect()
    }

    /// What was read so far.
    pub fn counts(&self) -> ReadCounts {
        self.counts
    }

    /// The volume that is read; empty before the first request, and where a format has none.
    pub fn volume(&self) -> String {
        let chosen = self.chosen.as_deref();
        let key = chosen.or(self.volumes.keys().next().map(|key| &**key));
        self.name(key.unwrap_or_default())
    }

    /// The next request; `None` at the end.
    ///
    /// # Errors
    /// A line or record that says nothing sensible; a trace that mixes volumes of which none was
    /// chosen; one that has none of the chosen volume. Those of the input.
    pub fn next_request(&mut self) -> Result<Option<Request>, TraceError> {
        while !self.is_over && self.waiting.len() < WINDOW {
            self.take_one()?;
        }
        let Some(Reverse(Ordered(_, mut request))) = self.waiting.pop() else {
            return match &self.chosen {
                Some(chosen) if self.counts.requests == 0 && !self.volumes.is_empty() => {
                    Err(TraceError::NoSuchVolume {
                        volume: self.name(chosen),
                        volumes: self.names(),
                    })
                }
                _ => Ok(None),
            };
        };
        let first = *self.first_ns.get_or_insert(request.arrival_ns);
        self.counts.late += u64::from(request.arrival_ns < self.last_ns);
        self.last_ns = self.last_ns.max(request.arrival_ns);
        request.arrival_ns = self.last_ns - first.min(self.last_ns);
        Ok(Some(request))
    }

    /// Reads a line or a record.
    fn take_one(&mut self) -> Result<(), TraceError> {
        let record = match self.format {
            RequestFormat::OracleGeneral => self.input.next_record(objects::BYTES)?,
            _ => self.input.next_line()?,
        };
        let Some((number, record)) = record else {
            self.is_over = true;
            return Ok(());
        };
        let held = match self.format {
            RequestFormat::Msr => columns::msr(record),
            RequestFormat::Alibaba => columns::alibaba(record),
            RequestFormat::Tencent => columns::tencent(record),
            RequestFormat::FioIolog => self.iolog.line(record),
            RequestFormat::Blkparse => self.blkparse.line(record),
            RequestFormat::OracleGeneral => Ok(objects::record(record)),
        };
        match held.map_err(|reason| TraceError::Line { line: number as usize, reason })? {
            Held::Nothing => {}
            Held::Other => self.counts.left_out += 1,
            Held::End => self.is_over = true,
            Held::Request(volume, request) => {
                if self.last_volume != volume {
                    self.last_volume.clear();
                    self.last_volume.extend_from_slice(volume);
                }
                self.take(request)?;
            }
        }
        Ok(())
    }

    /// Takes a request of the volume that is named last.
    fn take(&mut self, request: Request) -> Result<(), TraceError> {
        let is_known = match self.volumes.get_mut(&self.last_volume[..]) {
            Some(count) => {
                *count += 1;
                true
            }
            None => false,
        };
        if !is_known && self.volumes.len() < VOLUMES_MAX {
            self.volumes.insert(self.last_volume.clone().into(), 1);
        }
        match &self.chosen {
            Some(chosen) if *chosen != self.last_volume => {
                self.counts.others += 1;
                return Ok(());
            }
            None if self.volumes.len() > 1 => return Err(self.mixed()),
            _ => {}
        }
        self.counts.requests += 1;
        self.read += 1;
        self.waiting.push(Reverse(Ordered(self.read, request)));
        Ok(())
    }

    /// The trace mixes volumes: names those of its next lines too.
    fn mixed(&mut self) -> TraceError {
        // As if one were chosen that is not there: nothing is kept.
        self.chosen = Some(Vec::new());
        let last = self.input.number() + LOOK_LINES;
        while !self.is_over && self.input.number() < last {
            if let Err(error) = self.take_one() {
                return error;
            }
        }
        TraceError::Mixed { volumes: self.names() }
    }

    /// The volumes, the busiest first.
    fn names(&self) -> Vec<String> {
        let mut volumes: Vec<(&[u8], u64)> =
            self.volumes.iter().map(|(key, count)| (&**key, *count)).collect();
        volumes.sort_by_key(|(key, count)| (Reverse(*count), *key));
        volumes.into_iter().map(|(key, _)| self.name(key)).collect()
    }

    /// A volume as reports name it.
    fn name(&self, key: &[u8]) -> String {
        let printable = key.iter().map(|byte| match byte {
            b',' if self.format == RequestFormat::Msr => '.',
            b'!'..=b'~' => char::from(*byte),
            _ => '?',
        });
        printable.collect()
    }
}
