//! Inodes: in their table and in memory, their maps, their bytes and attributes.
pub(crate) mod access;
pub(crate) mod access_list;
pub(crate) mod access_time;
pub mod attribute;
pub(crate) mod attribute_access;
pub(crate) mod caller;
pub(crate) mod change;
pub(crate) mod file;
pub(crate) mod mapping;
mod node;
pub(crate) mod pages;
pub(crate) mod permission;
mod table;
pub(crate) mod write_back;

pub(crate) use node::{Node, NodeState, Nodes, load, place};
