//! The mounted file system.
