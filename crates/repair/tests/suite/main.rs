//! All that mending is tested for.
mod corpus;
mod kept;
mod random;
