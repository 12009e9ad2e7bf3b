//! All that mending, resizing and scrubbing are tested for.
mod again;
mod cleared;
mod corpus;
mod corrected;
mod kept;
mod random;
mod regained;
mod resized;
mod scrubbed;
