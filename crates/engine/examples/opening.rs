//! How long a volume takes to open and to close, cold and warm:
//! `opening IMAGE [ROUNDS]`. For the cold rounds the host drops what it has of the image in memory.
//!
//! The image is opened for writing, and closed with nothing changed.
// tidy: print because a measurement is for a reader
use extant_block::file::{Access as FileAccess, FileDevice};
use extant_block::{BlockDevice, Clock, RealClock};
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use rustix::fs::Advice;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

fn round(image: &Path) -> Result<(f64, f64), Box<dyn Error>> {
    let clock: Arc<dyn Clock> = RealClock::new();
    let begun = clock.now();
    let device: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(Arc::clone(&clock), image, FileAccess::ReadWrite, 0)?);
    let options = Options {
        access: Access::ReadWrite,
        policies: "modern".parse()?,
        cache_bytes: 256 << 20,
        data: DataKeeping::Bytes,
    };
    let volume = Filesystem::open(device, &options)?;
    volume.read_dir("/")?;
    let opened = clock.now();
    volume.close()?;
    let milliseconds = |from, to| (to - from) as f64 / 1e6;
    Ok((milliseconds(begun, opened), milliseconds(opened, clock.now())))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let image = arguments.next().ok_or("opening IMAGE [ROUNDS]")?;
    let rounds: usize = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let image = Path::new(&image);
    for cold in [true, false] {
        let (mut opened, mut closed) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            if cold {
                let file = std::fs::File::open(image)?;
                file.sync_all()?;
                rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
            }
            let (open, close) = round(image)?;
            opened.push(open);
            closed.push(close);
        }
        opened.sort_by(f64::total_cmp);
        closed.sort_by(f64::total_cmp);
        let words = if cold { "cold" } else { "warm" };
        println!(
            "{words}: open and list the root {:.1} ms, close {:.1} ms (medians of {rounds})",
            opened[rounds / 2],
            closed[rounds / 2]
        );
    }
    Ok(())
}
