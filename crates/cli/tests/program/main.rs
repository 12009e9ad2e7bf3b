//! All that the commands are tested for, through the program itself.
mod build;
mod commands;
mod containers;
mod edit;
mod featured;
mod mount;
mod mount_proofs;
mod names;
mod peers;
mod rules;
mod shipping;
mod sweep;
mod take;
