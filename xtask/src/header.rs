//! `xtask header`: the header of libextant, made of the sources of `crates/capi`.

use crate::command::{self, program};
use crate::installed::Installed;
use crate::repository;

/// The program that makes it. Another version may write other spaces.
const CBINDGEN: Installed = Installed { name: "cbindgen", version: "0.29.2" };

/// The crate, and the header in it.
const CRATE: &str = "crates/capi";
const HEADER: &str = "crates/capi/include/extant.h";

/// `header [--write]`: says whether the header is that of the sources, or writes it.
///
/// # Errors
/// It is another; cbindgen does not run.
pub fn run(words: &[String]) -> Result<(), String> {
    let path = repository().join(HEADER);
    let said = |error: std::io::Error| format!("{HEADER}: {error}");
    match words {
        [] => match std::fs::read_to_string(&path).map_err(said)? == made()? {
            true => Ok(()),
            false => Err(format!("{HEADER} is not of the sources: run xtask header --write")),
        },
        [word] if word == "--write" => std::fs::write(&path, made()?).map_err(said),
        _ => Err(format!("no option {}", words.join(" "))),
    }
}

/// The header of the sources.
fn made() -> Result<String, String> {
    let folder = repository().join(CRATE);
    let mut cbindgen = program("env");
    cbindgen.arg(CBINDGEN.program()?).args(["--quiet", "--config"]);
    cbindgen.arg(folder.join("cbindgen.toml")).arg(&folder);
    let output = command::output(&mut cbindgen)?;
    let text = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    // A line of a comment without words ends with a space.
    Ok(text.lines().map(|line| format!("{}\n", line.trim_end())).collect())
}

#[cfg(test)]
mod tests {
    use extant_testkit::skips::{Known, skip_known};
    use extant_testkit::variables::word;

    #[test]
    fn the_header_is_of_the_sources() {
        if word("EXTANT_BINDINGS") != "all" {
            return skip_known(Known::Rounds, "EXTANT_BINDINGS is not all");
        }
        assert_eq!(super::run(&[]), Ok(()));
    }
}
