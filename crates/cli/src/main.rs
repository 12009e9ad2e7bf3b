//! The `extant` command. Everything it does is in the library beside it, where tests can reach it.
use std::process::ExitCode;

fn main() -> ExitCode {
    extant_cli::run(std::env::args_os())
}
