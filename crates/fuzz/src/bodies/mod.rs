//! What is done with an input. Each ends, whatever it is given; none looks at what comes of it but
//! for what has to hold.
pub mod attributes;
pub mod base;
pub mod container;
pub mod image;
pub mod log;
pub mod names;
pub mod redo;
pub mod request;
pub mod tape;
pub mod text;
pub mod volume;

/// The first bytes of an input, which choose, and the others.
fn split<const N: usize>(input: &[u8]) -> ([u8; N], &[u8]) {
    match input.split_first_chunk() {
        Some((first, rest)) => (*first, rest),
        None => ([0; N], &[]),
    }
}

/// So many bytes of an input, followed by zeros.
fn padded(input: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = input.to_vec();
    bytes.resize(length, 0);
    bytes
}
