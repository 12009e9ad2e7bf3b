//! All that mending is tested for.
mod corpus;
mod random;
