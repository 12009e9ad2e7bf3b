//! The `extant` command. Everything it does is in the library beside it, where tests can reach it.
use std::process::ExitCode;

fn main() -> ExitCode {
    // How this crate is linked; the library beside it is the same for both.
    if cfg!(target_feature = "crt-static") {
        extant_cli::warn_of_preloads();
    }
    extant_cli::run(std::env::args_os())
}
