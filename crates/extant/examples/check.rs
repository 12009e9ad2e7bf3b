//! Checks an image: `cargo run --example check disk.img`.
// tidy: print because it is a program, whose result this is
use extant::{Report, Result};

/// Returns what was found.
pub fn run(image: &str) -> Result<Report> {
    let report = extant::check(image)?;
    for problem in &report.problems {
        println!("{}: {problem} [{}]", problem.rule().severity, problem.rule().name);
    }
    Ok(report)
}

fn main() -> Result<()> {
    let image = std::env::args().nth(1).unwrap_or_else(|| "disk.img".to_owned());
    let report = run(&image)?;
    std::process::exit(report.exit_code().into());
}
