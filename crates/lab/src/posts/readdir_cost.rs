//! What listing a directory costs the processor, when it is in memory: the post's 200 microseconds
//! a call, and ours.
//!
//! The engine that ships lists the posted directory on a device in memory, in real time. That
//! differs from run to run and from host to host, and so is no part of any report.
use crate::report::ListingCall;
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock};
use extant_chart::{Alignment, TEXT_WIDTH, Table};
use extant_engine::mkfs::{self, FormatOptions, Identity, Profile, default_wishes};
use extant_engine::preset::Policies;
use extant_engine::{
    Access, DataKeeping, Error, Filesystem, Options, cache_for_blocks, record_bytes,
};
use std::sync::Arc;

/// Microseconds of the post's eleven calls, warm.
pub(super) const POSTED_US: [u64; 11] = [204, 122, 112, 153, 18, 103, 217, 18, 95, 89, 6];
/// How often the directory is listed; of each call the median counts.
const LISTINGS: usize = 51;
const FILES: u32 = 1000;
const VOLUME_BYTES: u64 = 64 << 20;
const BUFFER_BYTES: usize = 4096;

/// The cost of listing the posted directory from memory, in real time of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReaddirCost {
    /// Call by call, the last one empty: the median of 51 listings.
    pub calls: Vec<ListingCall>,
}

impl ReaddirCost {
    /// The longest call.
    pub fn longest_ns(&self) -> u64 {
        self.calls.iter().map(|call| call.elapsed_ns).max().unwrap_or(0)
    }

    /// All calls of a listing together.
    pub fn total_ns(&self) -> u64 {
        self.calls.iter().map(|call| call.elapsed_ns).sum()
    }

    /// As a table, beside the post's.
    pub fn to_text(&self) -> String {
        let columns = [
            ("call", Alignment::Right),
            ("entries", Alignment::Right),
            ("bytes", Alignment::Right),
            ("post us", Alignment::Right),
            ("ours us", Alignment::Right),
        ];
        let title = "getdents of a hashed directory in memory: real time of this host, median of \
            51 listings";
        let mut table = Table::new(title, &columns);
        let tenths =
            |nanoseconds: u64| format!("{}.{}", nanoseconds / 1000, nanoseconds % 1000 / 100);
        for (number, call) in self.calls.iter().enumerate() {
            table.row([
                (number + 1).to_string(),
                call.entries.to_string(),
                call.bytes.to_string(),
                POSTED_US.get(number).map_or_else(String::new, u64::to_string),
                tenths(call.elapsed_ns),
            ]);
        }
        let posted: u64 = POSTED_US.iter().sum();
        let all = ["all".to_owned(), String::new(), String::new()];
        table.row(all.into_iter().chain([posted.to_string(), tenths(self.total_ns())]));
        table.render(TEXT_WIDTH)
    }
}

/// Makes the posted directory (hashed) on a device in memory and lists it, warm, with buffers of
/// 4096 bytes.
///
/// # Errors
/// What the engine answers: there is no memory for a volume of 64 MiB, of which little is used.
pub fn readdir_cost() -> Result<ReaddirCost, Error> {
    let clock = RealClock::new();
    let filesystem = posted_directory(&clock)?;
    let mut listings: Vec<Vec<ListingCall>> = Vec::new();
    for _ in 0..LISTINGS {
        listings.push(listing(&filesystem, &*clock)?);
    }
    filesystem.close()?;
    let count = listings.iter().map(Vec::len).min().unwrap_or(0);
    let median = |number: usize| {
        let mut times: Vec<u64> = listings.iter().map(|calls| calls[number].elapsed_ns).collect();
        times.sort_unstable();
        ListingCall { elapsed_ns: times[times.len() / 2], ..listings[0][number] }
    };
    Ok(ReaddirCost { calls: (0..count).map(median).collect() })
}

fn posted_directory(clock: &Arc<RealClock>) -> Result<Filesystem, Error> {
    let seam = Arc::clone(clock) as Arc<dyn Clock>;
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(seam, VOLUME_BYTES));
    let row = extant_engine::preset::preset("modern")
        .expect("the preset that stands where none is named");
    let policies = Policies::with(row, []).expect("a preset's own choices");
    let wishes = default_wishes(Profile::Ext3, VOLUME_BYTES, Some(4096), Identity::NONE);
    mkfs::format(Arc::clone(&device), &FormatOptions::new(wishes), &policies)?;
    let options = Options {
        access: Access::ReadWrite,
        policies,
        cache_bytes: cache_for_blocks(16 << 20),
        data: DataKeeping::Phantom,
    };
    let filesystem = Filesystem::open(device, &options)?;
    filesystem.create_dir("/throwaway", 0o777)?;
    for i in 0..FILES {
        let name = format!(
            "/throwaway/file-name-{}-{}-{}-{}",
            i / 1000,
            i / 100 % 10,
            i / 10 % 10,
            i % 10
        );
        filesystem.write(name, &[b'a'; 8192])?;
    }
    filesystem.sync()?;
    Ok(filesystem)
}

fn listing(filesystem: &Filesystem, clock: &dyn Clock) -> Result<Vec<ListingCall>, Error> {
    let mut stream = filesystem.open_dir("/throwaway")?;
    let mut calls = Vec::new();
    loop {
        let before = clock.now();
        let entries = stream.next_entries(BUFFER_BYTES)?;
        let elapsed_ns = clock.now() - before;
        let bytes = entries.iter().map(|entry| record_bytes(entry.name.len()) as u64);
        calls.push(ListingCall { entries: entries.len() as u64, bytes: bytes.sum(), elapsed_ns });
        if entries.is_empty() {
            return Ok(calls);
        }
    }
}
