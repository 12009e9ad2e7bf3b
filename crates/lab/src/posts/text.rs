//! Reports of posts as text.
