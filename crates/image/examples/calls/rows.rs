//! What is measured. A row is prepared in one process and run in another, after the volume was
//! closed and opened again. Rows that are measured warm do their work once before it counts. Rows
//! that write end with a sync of everything, but for those of threads.
use crate::sides::{Open, Outcome, Side};
use extant_block::{Clock, RealClock};

/// Bytes of a block.
const BLOCK: usize = 4096;
/// Bytes of a large read or write.
const LARGE: usize = 128 << 10;
/// Directories of the rows with many.
const DIRECTORIES: u64 = 100;
/// Directories of the rows with threads.
const THREAD_DIRECTORIES: u64 = 4;
/// How often a directory is listed.
const LISTINGS: u64 = 5;
/// There is one sync of a file for so many files or blocks of the other rows.
const CALLS_PER_SYNC: u64 = 100;
/// The file of the rows about data.
const FILE: &str = "data";

type Prepare = fn(&dyn Side, u64) -> Outcome<()>;
type Run = fn(&dyn Side, u64) -> Outcome<f64>;

/// One row of the table.
pub struct Row {
    pub name: &'static str,
    /// Makes what it needs, out of the number of files or blocks.
    pub prepare: Prepare,
    /// Does it, and returns how many calls there were in a second.
    pub run: Run,
}

const fn row(name: &'static str, prepare: Prepare, run: Run) -> Row {
    Row { name, prepare, run }
}

pub const ROWS: &[Row] = &[
    row("stat", |side, count| make_files(side, 1, count), |side, count| stat(side, 1, count)),
    row(
        "stat-100",
        |side, count| make_files(side, DIRECTORIES, count),
        |side, count| stat(side, DIRECTORIES, count),
    ),
    row("create", nothing, |side, count| create(side, 1, count)),
    row("create-100", nothing, |side, count| create(side, DIRECTORIES, count)),
    row("unlink", |side, count| make_files(side, 1, count), |side, count| unlink(side, 1, count)),
    row(
        "unlink-100",
        |side, count| make_files(side, DIRECTORIES, count),
        |side, count| unlink(side, DIRECTORIES, count),
    ),
    row("list", |side, count| make_files(side, 1, count), |side, count| list(side, 1, count)),
    row(
        "list-100",
        |side, count| make_files(side, DIRECTORIES, count),
        |side, count| list(side, DIRECTORIES, count),
    ),
    row("write-128k", nothing, |side, count| write(side, LARGE, count)),
    row("write-4k", nothing, |side, count| write(side, BLOCK, count)),
    row("read-128k", make_data, |side, count| read(side, LARGE, count, Before::Nothing)),
    row("read-4k", make_data, |side, count| read(side, BLOCK, count, Before::Nothing)),
    row("again-128k", make_data, |side, count| read(side, LARGE, count, Before::ReadTwice)),
    row("again-4k", make_data, |side, count| read(side, BLOCK, count, Before::ReadTwice)),
    row("random-read", make_data, random_read),
    row("random-write", make_data, random_write),
    row("fsync", make_data, sync_each),
    row("threads-1", nothing, |side, count| create_apart(side, 1, count)),
    row("threads-4", nothing, |side, count| create_apart(side, THREAD_DIRECTORIES, count)),
];

/// Calls a second of `work`, which returns how many it made.
fn timed(work: impl FnOnce() -> Outcome<u64>) -> Outcome<f64> {
    let clock = RealClock::new();
    let start = clock.now();
    let calls = work()?;
    Ok(calls as f64 * 1e9 / (clock.now() - start).max(1) as f64)
}

fn directory(number: u64) -> String {
    format!("directory-{number:03}")
}

/// The files of the rows about names: those of one directory after those of another.
fn paths(directories: u64, count: u64) -> Vec<String> {
    let each = count / directories;
    let of = |number| (0..each).map(move |file| format!("{}/file-{file:06}", directory(number)));
    (0..directories).flat_map(of).collect()
}

fn nothing(_: &dyn Side, _: u64) -> Outcome<()> {
    Ok(())
}

fn make_directories(side: &dyn Side, directories: u64) -> Outcome<()> {
    (0..directories).try_for_each(|number| side.make_directory(&directory(number)))
}

fn make_files(side: &dyn Side, directories: u64, count: u64) -> Outcome<()> {
    make_directories(side, directories)?;
    for path in paths(directories, count) {
        side.create(&path)?;
    }
    side.sync()
}

fn make_data(side: &dyn Side, count: u64) -> Outcome<()> {
    write(side, LARGE, count).map(drop)
}

fn stat(side: &dyn Side, directories: u64, count: u64) -> Outcome<f64> {
    let paths = paths(directories, count);
    let all = || -> Outcome<u64> {
        for path in &paths {
            side.stat(path)?;
        }
        Ok(paths.len() as u64)
    };
    all()?;
    timed(all)
}

fn create(side: &dyn Side, directories: u64, count: u64) -> Outcome<f64> {
    make_directories(side, directories)?;
    side.sync()?;
    let paths = paths(directories, count);
    timed(|| {
        for path in &paths {
            side.create(path)?;
        }
        side.sync()?;
        Ok(paths.len() as u64)
    })
}

fn unlink(side: &dyn Side, directories: u64, count: u64) -> Outcome<f64> {
    let paths = paths(directories, count);
    for path in &paths {
        side.stat(path)?;
    }
    timed(|| {
        for path in &paths {
            side.unlink(path)?;
        }
        side.sync()?;
        Ok(paths.len() as u64)
    })
}

fn list(side: &dyn Side, directories: u64, count: u64) -> Outcome<f64> {
    let expected = count / directories * directories;
    let all = || -> Outcome<u64> {
        let mut names = 0;
        for number in 0..directories {
            names += side.list(&directory(number))?;
        }
        if names == expected { Ok(names) } else { Err(format!("{names} names listed").into()) }
    };
    all()?;
    timed(|| (0..LISTINGS).map(|_| all()).sum())
}

/// Bytes that are not zero, and not the same in two blocks.
fn fill(bytes: &mut [u8], number: u64) {
    for block in bytes.chunks_mut(BLOCK) {
        block.fill(number as u8 | 1);
    }
}

fn write(side: &dyn Side, piece: usize, count: u64) -> Outcome<f64> {
    let (size, mut bytes) = (count * BLOCK as u64, vec![0; piece]);
    timed(|| {
        let file = side.create(FILE)?;
        for offset in (0..size).step_by(piece) {
            let length = (size - offset).min(piece as u64) as usize;
            fill(&mut bytes[..length], offset / piece as u64);
            file.write(offset, &bytes[..length])?;
        }
        side.sync()?;
        Ok(size.div_ceil(piece as u64))
    })
}

/// What happened to a file before it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// It was read twice: what is read once from the host's memory is not kept by the engine.
    ReadTwice,
}

fn read(side: &dyn Side, piece: usize, count: u64, before: Before) -> Outcome<f64> {
    let (size, mut bytes) = (count * BLOCK as u64, vec![0; piece]);
    let file = side.open(FILE)?;
    let mut whole = |file: &dyn Open| -> Outcome<u64> {
        for offset in (0..size).step_by(piece) {
            file.read(offset, &mut bytes)?;
        }
        Ok(size.div_ceil(piece as u64))
    };
    if before == Before::ReadTwice {
        whole(&*file)?;
        whole(&*file)?;
    }
    timed(|| whole(&*file))
}

/// Offsets of blocks in an order without pattern, the same in each run.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % count.max(1) * BLOCK as u64
    })
}

fn random_read(side: &dyn Side, count: u64) -> Outcome<f64> {
    let (file, mut bytes) = (side.open(FILE)?, vec![0; BLOCK]);
    timed(|| {
        for offset in scattered(count).take(count as usize) {
            file.read(offset, &mut bytes)?;
        }
        Ok(count)
    })
}

fn random_write(side: &dyn Side, count: u64) -> Outcome<f64> {
    let (file, mut bytes) = (side.open(FILE)?, vec![0; BLOCK]);
    timed(|| {
        for (number, offset) in (0..count).zip(scattered(count)) {
            fill(&mut bytes, number);
            file.write(offset, &bytes)?;
        }
        side.sync()?;
        Ok(count)
    })
}

fn sync_each(side: &dyn Side, count: u64) -> Outcome<f64> {
    let (file, mut bytes) = (side.open(FILE)?, vec![0; BLOCK]);
    let syncs = (count / CALLS_PER_SYNC).max(1);
    timed(|| {
        for (number, offset) in (0..syncs).zip(scattered(count)) {
            fill(&mut bytes, number);
            file.write(offset, &bytes)?;
            file.sync()?;
        }
        Ok(syncs)
    })
}

/// Files are made in four directories by as many threads, or by fewer that have more to do. The
/// sync comes afterwards and does not count.
fn create_apart(side: &dyn Side, threads: u64, count: u64) -> Outcome<f64> {
    make_directories(side, THREAD_DIRECTORIES)?;
    side.sync()?;
    let paths = paths(THREAD_DIRECTORIES, count);
    let rate = timed(|| {
        // tidy: thread because the threads end before this function does
        std::thread::scope(|scope| -> Outcome<()> {
            let make = |part: &[String]| -> Outcome<()> {
                part.iter().try_for_each(|path| side.create(path).map(drop))
            };
            let parts = paths.chunks(paths.len().div_ceil(threads as usize).max(1));
            let running: Vec<_> = parts.map(|part| scope.spawn(move || make(part))).collect();
            for thread in running {
                thread.join().map_err(|_| "a thread panicked")??;
            }
            Ok(())
        })?;
        Ok(paths.len() as u64)
    });
    side.sync()?;
    rate
}
