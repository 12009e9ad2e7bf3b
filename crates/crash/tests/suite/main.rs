//! The campaigns against a sound engine; those against one with mistakes are a program of their own
//! (`seeded`).
mod commit_in_time;
mod promises;
