//! All that mending and resizing are tested for.
mod again;
mod corpus;
mod kept;
mod random;
mod resized;
