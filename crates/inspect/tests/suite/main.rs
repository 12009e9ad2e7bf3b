//! All that the checker is tested for.
mod again;
mod ahead;
mod casefold;
mod corpus;
mod damage;
mod documented;
mod dumpe2fs;
mod failing;
mod features;
mod hostile;
mod layout;
mod mutations;
