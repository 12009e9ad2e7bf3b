//! All that mending and resizing are tested for.
mod again;
mod cleared;
mod corpus;
mod kept;
mod random;
mod resized;
