//! What dumpe2fs would say of a volume that a run left.
use super::file::{GroupField, RunEnd, SuperblockField, Value};
use crate::scenario::Left;
use extant_inspect::{GroupInfo, SuperblockPlace, Volume, VolumeInfo};
use std::sync::Arc;

/// A number of the volume; `None` of what is not there, and where the volume cannot be read.
pub(super) fn value(left: &Left, value: &Value) -> Option<u64> {
    let volume = Volume::open(Arc::clone(&left.contents), SuperblockPlace::Primary).ok()?;
    let group = |number: usize| volume.groups().nth(number)?.ok();
    match value {
        Value::Superblock(field) => Some(superblock(&volume.info(), *field)),
        Value::Group(spec) => Some(of_group(&group(spec.group)?, spec.show)),
        Value::FreeRun(spec) => {
            let group = group(spec.group)?;
            let run = group.free_block_runs.get(spec.run)?;
            Some(match spec.show {
                RunEnd::First => run.first,
                RunEnd::Last => run.last,
            })
        }
        Value::OddRuns(spec) => {
            let group = group(spec.group)?;
            let runs = group.free_block_runs.iter().skip(1);
            let odd = runs.filter(|run| match spec.show {
                RunEnd::First => run.first % 8 != 1,
                RunEnd::Last => run.last % 8 != 7,
            });
            Some(odd.count() as u64)
        }
        _ => None,
    }
}

fn superblock(info: &VolumeInfo, field: SuperblockField) -> u64 {
    match field {
        SuperblockField::Blocks => info.blocks,
        SuperblockField::ReservedBlocks => info.reserved_blocks,
        SuperblockField::FreeBlocks => info.free_blocks,
        SuperblockField::Inodes => info.inodes.into(),
        SuperblockField::FreeInodes => info.free_inodes.into(),
        SuperblockField::BlocksPerGroup => info.blocks_per_group.into(),
        SuperblockField::InodesPerGroup => info.inodes_per_group.into(),
        SuperblockField::InodeBlocksPerGroup => info.inode_blocks_per_group.into(),
    }
}

fn of_group(group: &GroupInfo, field: GroupField) -> u64 {
    u64::from(match field {
        GroupField::FreeBlocks => group.free_blocks,
        GroupField::FreeInodes => group.free_inodes,
        GroupField::Directories => group.directories,
    })
}
