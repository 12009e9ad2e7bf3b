//! What the tests of the other crates rest on is tested too.
mod kit;
mod twins;
