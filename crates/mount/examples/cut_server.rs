//! A mount whose device can be cut: `cut_server IMAGE DIRECTORY OUT [all]` loads an image into
//! memory and mounts it. A line `cut SEED` on standard input cuts the device at that moment,
//! writes what a drive with a volatile cache may hold then into OUT, drawn from the seed, and ends
//! the process without another word to the kernel, as a power cut does. A line `end`, or the end
//! of the input, unmounts instead, and what is on the device then becomes OUT. For tests of the
//! library.
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock};
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use extant_mount::transport::{self, Audience, Detach};
use extant_mount::workers::Workers;
use extant_mount::{Session, Wishes};
use extant_sim::CrashLog;
use extant_sim::crash_log::drawn_sectors;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that a drive writes whole. The superblock's two sectors are taken as one: its checksum is
/// in the second, and there is no other copy that is as new.
const SECTOR_BYTES: u32 = 512;

type Log = CrashLog<Arc<MemoryDevice>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, image, target, out, more @ ..] = &words[..] else {
        return Err("usage: cut_server IMAGE DIRECTORY OUT [all]".into());
    };
    let clock = Workers::clock(RealClock::new());
    let seam: Arc<dyn Clock> = clock.clone();
    let base = MemoryDevice::from_bytes(seam.clone(), &std::fs::read(image)?);
    let log = Arc::new(CrashLog::new(Arc::new(base.snapshot())));
    let options = Options {
        access: Access::ReadWrite,
        policies: "modern".parse()?,
        cache_bytes: 64 << 20,
        data: DataKeeping::Bytes,
    };
    let device = Arc::clone(&log) as Arc<dyn BlockDevice>;
    let filesystem = Filesystem::open(device, &options)?;
    let mut options = transport::Options::new(image, extant_block::Access::ReadWrite);
    if more.iter().any(|word| word == "all") {
        options.audience = Audience::Everyone;
    }
    let wishes = Wishes::new(options);
    let session = Session::begin(filesystem, seam.clone(), Path::new(target), &wishes, None)?;
    let (target, file) = (session.target().to_owned(), PathBuf::from(out));
    let cutting = Arc::clone(&log);
    // It waits for input also after the mount has ended.
    let _input = seam.spawn("input", Box::new(move || obey(&cutting, &base, &target, &file)));
    // The harness waits for this line.
    std::io::Write::write_all(&mut std::io::stdout(), b"mounted\n")?;
    session.serve()?;
    log.device().save(Path::new(out))?;
    Ok(())
}

/// Takes the line that ends the server.
fn obey(log: &Log, base: &MemoryDevice, target: &Path, out: &Path) {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    if let (Ok(_), Some(seed)) = (read, line.trim_end().strip_prefix("cut ")) {
        let done = seed.parse().is_ok_and(|seed| cut(log, base, seed, out).is_ok());
        std::process::exit(if done { 0 } else { 1 });
    }
    let _ = transport::detach(target, Detach::Lazy);
}

fn cut(log: &Log, base: &MemoryDevice, seed: u64, out: &Path) -> std::io::Result<()> {
    let drawn = drawn_sectors(seed);
    let survives = |write: usize, sector: u64| drawn(write, if sector == 3 { 2 } else { sector });
    log.cut(log.moments()).image(base, SECTOR_BYTES, survives)?.save(out)
}
