//! The name that programs ask the loader for.

// tidy: print because cargo reads it

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libextant.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
