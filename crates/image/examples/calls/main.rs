//! How many calls a second: one row of `bench/run --only engine`, on the engine or on what the
//! kernel has mounted. Prints the rate; `prepare` makes what the row needs and prints nothing.
//!
//! ```text
//! calls prepare|run ROW COUNT ours IMAGE POLICIES     a volume, such as mke2fs makes it
//! calls prepare|run ROW COUNT memory IMAGE POLICIES   the same, copied into memory first
//! calls prepare|run ROW COUNT host FOLDER             what the kernel has mounted there
//! calls rows                                          the rows, one a line
//! ```
//!
//! COUNT is the number of files, or of blocks of 4 KiB.
// tidy: print because a measurement is for a script
mod rows;
mod sides;

use rows::{ROWS, Row};
use sides::{Host, Ours, Outcome, Side};

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (phase, row, count, side) = match &words[..] {
        ["rows"] => {
            ROWS.iter().for_each(|row| println!("{}", row.name));
            return Ok(());
        }
        [phase, row, count, side @ ..] => (*phase, find(row)?, count.parse()?, side),
        _ => return Err("calls prepare|run ROW COUNT ours|memory|host WHERE [POLICIES]".into()),
    };
    match side {
        ["ours", image, policies] => play(phase, row, count, Ours::open(image, policies)?),
        ["memory", image, policies] => play(phase, row, count, Ours::in_memory(image, policies)?),
        ["host", folder] => play(phase, row, count, Host::new(folder)),
        _ => Err("ours IMAGE POLICIES, memory IMAGE POLICIES or host FOLDER".into()),
    }
}

fn find(name: &str) -> Outcome<&'static Row> {
    ROWS.iter().find(|row| row.name == name).ok_or_else(|| format!("no row {name}").into())
}

fn play(phase: &str, row: &Row, count: u64, side: impl Side) -> Outcome<()> {
    match phase {
        "prepare" => (row.prepare)(&side, count)?,
        "run" => println!("{:.1}", (row.run)(&side, count)?),
        _ => return Err(format!("neither prepare nor run: {phase}").into()),
    }
    side.end()
}
