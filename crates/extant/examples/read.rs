//! Prints a file of an image, and what is in a directory: `cargo run --example read disk.img`.
// tidy: print because it is a program, whose result this is
use extant::{Result, Volume};

/// Returns how many names there are below `/etc`.
pub fn run(image: &str) -> Result<usize> {
    let volume = Volume::open(image)?;
    print!("{}", String::from_utf8_lossy(&volume.read("/etc/hostname")?));
    let mut names = 0;
    for entry in volume.walk("/etc")? {
        println!("{}", entry?.path.display());
        names += 1;
    }
    Ok(names)
}

fn main() -> Result<()> {
    let image = std::env::args().nth(1).unwrap_or_else(|| "disk.img".to_owned());
    run(&image).map(drop)
}
