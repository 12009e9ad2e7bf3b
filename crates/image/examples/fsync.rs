//! How many syncs a second: each thread appends 4 KiB to a file of its own and syncs it, again and
//! again. Prints the syncs of all threads per second.
//!
//! ```text
//! fsync ours IMAGE POLICIES THREADS SECONDS     a volume, such as mke2fs makes it
//! fsync host FOLDER THREADS SECONDS             what the kernel has mounted there
//! ```
// tidy: print because a measurement is for a script
use extant_block::{Clock, FileDevice, RealClock, file};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const WRITE_BYTES: usize = 4096;
const SECOND_NS: u64 = 1_000_000_000;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long, and by how many threads.
#[derive(Clone, Copy)]
struct Amount {
    threads: u64,
    seconds: u64,
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let amount = |threads: &str, seconds: &str| -> Outcome<Amount> {
        Ok(Amount { threads: threads.parse()?, seconds: seconds.parse()? })
    };
    let rate = match words[..] {
        ["ours", image, policies, threads, seconds] => {
            ours(image, policies, amount(threads, seconds)?)?
        }
        ["host", folder, threads, seconds] => host(folder, amount(threads, seconds)?)?,
        _ => return Err("fsync ours IMAGE POLICIES THREADS SECONDS | host FOLDER ..".into()),
    };
    println!("{rate:.1}");
    Ok(())
}

fn ours(image: &str, policies: &str, amount: Amount) -> Outcome<f64> {
    let policies: Policies = policies.parse().map_err(|error| format!("{error}"))?;
    let device = FileDevice::open(RealClock::new(), image.as_ref(), file::Access::ReadWrite, 0)?;
    let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
    let options = Options { access, policies, cache_bytes: 64 << 20, data };
    let filesystem = Filesystem::open(std::sync::Arc::new(device), &options)?;
    let rate = measure(amount, |number, ended| {
        let file = filesystem.create_file(format!("/f{number}"), 0o644)?;
        let mut done = 0;
        while !ended() {
            file.write_all_at(done * WRITE_BYTES as u64, &[number as u8; WRITE_BYTES])?;
            file.sync()?;
            done += 1;
        }
        Ok(done)
    })?;
    filesystem.close()?;
    Ok(rate)
}

fn host(folder: &str, amount: Amount) -> Outcome<f64> {
    measure(amount, |number, ended| {
        let file = File::create(Path::new(folder).join(format!("f{number}")))?;
        let mut done = 0;
        while !ended() {
            file.write_all_at(&[number as u8; WRITE_BYTES], done * WRITE_BYTES as u64)?;
            file.sync_all()?;
            done += 1;
        }
        Ok(done)
    })
}

/// Runs `work` in each thread, which is given its number and whether the time is over and returns
/// how many syncs it did.
fn measure(
    amount: Amount,
    work: impl Fn(u64, &dyn Fn() -> bool) -> Outcome<u64> + Sync,
) -> Outcome<f64> {
    let clock = RealClock::new();
    let start = clock.now();
    let ended = || clock.now() - start >= amount.seconds * SECOND_NS;
    // tidy: thread because the threads end before this function does
    let done = std::thread::scope(|scope| -> Outcome<u64> {
        let threads: Vec<_> = (0..amount.threads)
            .map(|number| {
                let (work, ended) = (&work, &ended);
                scope.spawn(move || work(number, ended))
            })
            .collect();
        let mut done = 0;
        for thread in threads {
            done += thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(done)
    })?;
    Ok(done as f64 * SECOND_NS as f64 / (clock.now() - start) as f64)
}
