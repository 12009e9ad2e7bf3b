//! Builds an image of files that a program makes: `cargo run --example build disk.img`.
// tidy: print because it is a program, whose result this is
use extant::{Builder, Built, NewFile, Result};

/// Returns what was built.
pub fn run(image: &str) -> Result<Built> {
    let builder = Builder::new().label("example").free(16 << 20).files(|files| {
        files.add("/etc/hostname", NewFile::file("extant\n"))?;
        files.add("/bin/hello", NewFile::file("#!/bin/sh\necho hello\n").mode(0o755))
    })?;
    builder.build(image)
}

fn main() -> Result<()> {
    let image = std::env::args().nth(1).unwrap_or_else(|| "disk.img".to_owned());
    run(&image).map(|built| println!("{image}: {} bytes", built.bytes))
}
