//! How wide text is.

/// The lines of a text that have more than `width` columns.
pub fn longer_than(text: &str, width: usize) -> Vec<&str> {
    text.lines().filter(|line| line.chars().count() > width).collect()
}
