//! What is on the disk, judged from outside.
