//! `xtask fixtures`: the images that readers prove themselves on, made to be looked at.

use std::path::PathBuf;

use extant_testkit::fixtures::all;
use extant_testkit::listing;

/// `fixtures FOLDER [NAME]`: makes every image (or those whose name contains NAME) with its listing
/// beside it.
///
/// # Errors
/// One of them cannot be made.
pub fn run(words: &[String]) -> Result<(), String> {
    let folder = PathBuf::from(words.first().ok_or("a folder is needed")?);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let wanted = words.get(1).map_or("", String::as_str);
    for fixture in all().filter(|fixture| fixture.name.contains(wanted)) {
        let made = fixture.make(&folder).map_err(|error| format!("{}: {error}", fixture.name))?;
        let text: String =
            made.expected.iter().map(|entry| listing::record(entry) + "\n").collect();
        let listing = made.image.with_extension("jsonl");
        std::fs::write(&listing, text)
            .map_err(|error| format!("{}: {error}", listing.display()))?;
        println!("{:<44} {:>6} entries", fixture.name, made.expected.len());
    }
    Ok(())
}
