//! One target for each body of `extant-fuzz`, whose name is that of the program.
//!
//! `cargo +nightly fuzz run image` lets libFuzzer look for inputs; what it finds, and what
//! `xtask fuzz` finds on the compiler of this project, goes through the same function.
#![no_main]

use extant_fuzz::targets::body;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| body(env!("CARGO_BIN_NAME"), input));
