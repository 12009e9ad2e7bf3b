//! Changes an image, all or nothing: `cargo run --example change disk.img`.
use extant::{Result, Transaction};

/// Makes the changes.
pub fn run(image: &str) -> Result<()> {
    let change = Transaction::begin(image)?;
    change.write("/etc/hostname", "other\n")?;
    change.create_dir_all("/srv/app/data")?;
    change.set_owner("/srv/app/data", 1000, 1000)?;
    change.rename("/bin/hello", "/bin/hi")?;
    change.commit()
}

fn main() -> Result<()> {
    let image = std::env::args().nth(1).unwrap_or_else(|| "disk.img".to_owned());
    run(&image)
}
