//! What the passes share: pass 0 makes it, each later pass adds to it.
//!
//! ```text
//! Facts   groups, metadata    where everything is: pass 0
//!         claims, followed    which blocks are taken
//!         inodes              a word an inode: pass 1 sets it, pass 2 counts links in it
//!         directories         what pass 1 leaves for pass 2
//!         attributes, usage   what pass 1 leaves for passes 4 and 5
//!         shapes              what could be smaller or faster, and is not wrong
//!         problems, meter     what comes out
//! ```
//!
//! *Invariants*: claims and facts only grow during a pass; every list is sorted before it is used,
//! so that nothing depends on which thread was first.
//! *Locking*: each list has a short lock of its own, held for a push; no two are held together.
mod attributes;
mod directories;
mod groups;
mod inodes;
mod shapes;
mod usage;

pub(crate) use attributes::{Encryption, HeldByAttributes, Sharer, Sharers};
pub(crate) use directories::{Directories, DirectoryBlock};
pub(crate) use groups::{GroupFacts, Metadata, MetadataRun, push_joined};
pub(crate) use inodes::{InodeFacts, InodeFactsTable};
pub(crate) use shapes::Shapes;
pub(crate) use usage::{QuotaSum, QuotaSums, Usage};

use super::options::{CheckOptions, ReadOrder};
use super::problem::Problem;
use super::progress::Meter;
use super::rule::Pass;
use super::sink::Sink;
use super::work::Threads;
use crate::claims::Claims;
use crate::error::Error;
use crate::volume::Volume;
use extant_block::{Clock, ShortLock};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, GroupNo, Ino};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the passes share.
pub(crate) struct Facts {
    pub(crate) volume: Volume,
    pub(crate) read_order: ReadOrder,
    pub(crate) threads: Threads,
    /// By group, as far as they are on the device; where a descriptor cannot be believed it is
    /// corrected as far as it can be.
    pub(crate) groups: Vec<GroupFacts>,
    pub(crate) metadata: Metadata,
    /// Which blocks (clusters) are taken.
    pub(crate) claims: Claims,
    /// Map blocks that were followed, whatever else has them.
    pub(crate) followed: Claims,
    pub(crate) inodes: InodeFactsTable,
    pub(crate) directories: Directories,
    pub(crate) attributes: Sharers,
    pub(crate) usage: Usage,
    pub(crate) shapes: Shapes,
    pub(crate) orphans: Orphans,
    /// A map block or directory block was claimed twice: which claim is first decides what follows.
    order_matters: AtomicBool,
    pub(crate) problems: Sink,
    /// The first failure of the device where a problem is judged, which is no problem itself.
    failure: ShortLock<Option<Error>>,
    meter: Meter,
}

/// The inodes on the lists of orphans.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Orphans {
    /// Deleted, but still held by an open file.
    pub(crate) deleted: BTreeSet<Ino>,
    /// Still in use: they were being truncated.
    pub(crate) truncated: BTreeSet<Ino>,
}

impl Facts {
    /// Nothing is known yet but the groups that are described, and what is wrong with them.
    pub(crate) fn new(
        volume: Volume,
        groups: Vec<GroupFacts>,
        problems: Sink,
        options: &CheckOptions,
        clock: Arc<dyn Clock>,
    ) -> Facts {
        let superblock = volume.superblock();
        let cluster_log2 = volume.cluster_blocks().trailing_zeros();
        // By the groups that are described: what a superblock says of others costs no memory.
        let count = groups.len() as u64;
        let blocks = u64::from(superblock.first_data_block)
            .saturating_add(count.saturating_mul(superblock.blocks_per_group.into()))
            .min(superblock.blocks_count);
        let inodes = count.saturating_mul(superblock.inodes_per_group.into());
        let inodes = u32::try_from(inodes)
            .map_or(superblock.inodes_count, |inodes| inodes.min(superblock.inodes_count));
        Facts {
            claims: Claims::new(blocks, cluster_log2),
            // Map blocks have clusters to themselves, but not those of the map for growth.
            followed: Claims::new(blocks, 0),
            inodes: InodeFactsTable::new(inodes),
            groups,
            metadata: Metadata::default(),
            directories: Directories::default(),
            attributes: Sharers::default(),
            usage: Usage::default(),
            shapes: Shapes::default(),
            orphans: Orphans::default(),
            order_matters: AtomicBool::new(false),
            problems,
            failure: ShortLock::default(),
            meter: Meter::new(options.progress.clone()),
            read_order: options.read_order,
            threads: Threads::new(clock, options.threads),
            volume,
        }
    }

    /// Takes what the passes over inodes, directories and links found in an earlier check, which
    /// they would find again.
    pub(crate) fn take_over(&mut self, earlier: Facts) {
        for (group, was) in self.groups.iter_mut().zip(earlier.groups) {
            group.directories = was.directories;
        }
        self.claims = earlier.claims;
        self.followed = earlier.followed;
        self.inodes = earlier.inodes;
        self.directories = earlier.directories;
        self.attributes = earlier.attributes;
        self.usage = earlier.usage;
        self.shapes = earlier.shapes;
        self.order_matters = earlier.order_matters;
    }

    /// Adds a problem to the report.
    pub(crate) fn report(&self, problem: Problem) {
        self.problems.add(problem);
    }

    /// What was read: `None` where what is there cannot be that, and where the device failed, which
    /// ends the check after this pass.
    pub(crate) fn read_or_fail<T>(&self, read: Result<T, Error>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error @ Error::Device(_)) => {
                self.failure.lock().get_or_insert(error);
                None
            }
            Err(_) => None,
        }
    }

    /// Fails if the device has, in [`read_or_fail`](Facts::read_or_fail).
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn check_read(&self) -> Result<(), Error> {
        self.failure.lock().take().map_or(Ok(()), Err)
    }

    /// A pass begins, which will read about `expected_bytes`.
    pub(crate) fn begin(&self, pass: Pass, expected_bytes: u64) {
        self.meter.begin(pass, expected_bytes, self.threads.clock());
    }

    /// Fills `bytes` from a block on; `what` is for the message.
    ///
    /// # Errors
    /// When the blocks are not on the device, or the device fails.
    pub(crate) fn read(
        &self,
        what: &'static str,
        block: BlockNo,
        bytes: &mut [u8],
    ) -> Result<(), Error> {
        self.volume.read(what, block, bytes)?;
        self.meter.add(bytes.len() as u64, self.threads.clock());
        Ok(())
    }

    /// Whether a file belongs to the system although its number does not say so: it needs no name.
    /// What the superblock names as quotas of users and groups counts with that feature only.
    pub(crate) fn is_system_file(&self, ino: Ino) -> bool {
        let superblock = self.volume.superblock();
        let [users, groups, projects] = self.volume.stored().quota_inodes();
        let is_quota = ino == users || ino == groups;
        ino.0 == superblock.journal_inode
            || ino.0 == superblock.orphan_file_inode
            || ino == projects
            || is_quota && superblock.has(Feature::QUOTA)
    }

    /// Whether a file must not have a name, as the superblock names it, with its feature or not.
    pub(crate) fn is_nameless(&self, ino: Ino) -> bool {
        ino.0 == self.volume.superblock().orphan_file_inode
            || self.volume.stored().quota_inodes().contains(&ino)
    }

    /// Whether an inode belongs to the system, by its number or by a field of the superblock.
    pub(crate) fn is_of_system(&self, ino: Ino) -> bool {
        !self.volume.superblock().is_usable(ino) || self.is_system_file(ino)
    }

    /// Which of two claims came first decides what is followed.
    pub(crate) fn set_order_matters(&self) {
        self.order_matters.store(true, Ordering::Relaxed);
    }

    /// Whether it does.
    pub(crate) fn order_matters(&self) -> bool {
        self.order_matters.load(Ordering::Relaxed)
    }

    /// The group of an inode, if it is on the volume.
    pub(crate) fn group_of(&self, ino: Ino) -> Option<(GroupNo, &GroupFacts)> {
        let (group, _) = self.volume.superblock().group_of_inode(ino)?;
        Some((group, self.groups.get(group.0 as usize)?))
    }
}
