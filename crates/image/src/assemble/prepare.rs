//! From sources and wishes to a job: all that is decided before the first byte is written.
use super::digest;
use super::inodes::{InodeWish, RoomInodes};
use super::job::{Destination, Job, Place};
use super::kept;
use super::need;
use super::order::{LostAndFound, LostFolder, Numbers, Order};
use super::plan::FlexGroups;
use super::room::{FreeInodes, ImageSize, Room};
use super::sample::sample_superblock;
use crate::error::{Error, ErrorKind};
use crate::notice::Notices;
use crate::source::{Arrival, Collected, Owner};
use crate::tree::{NodeId, Tree};
use extant_archive::reason;
use extant_block::{Clock, RealClock, WallTime};
use extant_engine::Packing;
use extant_engine::allocation::MapBlocks;
use extant_engine::mkfs::{self, FormatOptions, Identity, JournalWish, Profile, default_wishes};
use extant_format::Ino;
use extant_format::inode::{FileType, Inode, Time};
use extant_format::layout::{Inodes, Wishes};
use extant_format::superblock::Feature;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

/// Volumes of fewer blocks get no journal unless it is asked for, as mke2fs does it; one that was
/// asked for has at least [`JOURNAL_BLOCKS_MIN`].
const JOURNAL_FROM_BLOCKS: u64 = 2048;
const JOURNAL_BLOCKS_MIN: u32 = 1024;
/// No volume says that it was written later than this, in seconds since 1970: the beginning of
/// 2025, before every clock under which this program is run. e2fsck complains of a write in the
/// future, and of no other time; whether the newest file's time is past, only a clock could say,
/// and then an image would depend on when it was made.
pub const DATED_LATEST: u64 = 1_735_689_600;
/// Bytes of a block unless something else is asked for: the kernel mounts it everywhere.
pub const BLOCK_SIZE: u32 = 4096;

/// What an image is to be like.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// ext2, ext3 or ext4: the row of mke2fs's tables that decides what is not said here.
    pub profile: Profile,
    /// Features, block size, inode size and so on. Blocks, UUID, hash seed and time of creation are
    /// decided by the content and by the options below.
    pub wishes: Wishes,
    /// The UUID; one that is made from the content if `None`.
    pub uuid: Option<[u8; 16]>,
    /// The seed of directory hashes; one that is made from the content if `None`.
    pub hash_seed: Option<[u32; 4]>,
    /// How large the image is.
    pub size: ImageSize,
    /// A number of inodes, or a ratio, in place of what free room brings.
    pub inodes: Option<Inodes>,
    /// Inodes to leave free, in place of what free room brings.
    pub free_inodes: Option<FreeInodes>,
    /// How large the journal is.
    pub journal: JournalWish,
    /// Whether a small volume has a journal too.
    pub small_journal: SmallJournal,
    /// Which groups make a flex group: `wishes.flex_groups` of them, or as many as suit the volume.
    pub flex_groups: FlexGroups,
    /// Where blocks of maps go.
    pub map_blocks: MapBlocks,
    /// User and group of the root directory; those of its source if `None`.
    pub root_owner: Option<Owner>,
    /// Whether a lost+found is made where no source has one.
    pub lost_and_found: LostFolder,
    /// Where the file system begins in the destination, in bytes.
    pub origin_bytes: u64,
    /// The time that counts as that of building, in seconds since 1970; that of the newest file if
    /// `None`.
    pub newest: Option<i64>,
    /// Where `newest` is given, no write is said to be later than this, in seconds since 1970;
    /// where it is not, none later than [`DATED_LATEST`].
    pub dated_latest: Option<u64>,
    /// Paths of what comes before everything else in the image, in this order: inodes, directories,
    /// data. What is not there is passed over.
    pub first: Vec<Vec<u8>>,
}

/// Whether a volume that mke2fs gives no journal, because it is small, has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmallJournal {
    /// Only a volume of at least 2048 blocks has one.
    Omitted,
    /// It has one of 1024 blocks.
    Made,
}

impl BuildOptions {
    /// An image of this profile that is exactly as large as its content needs.
    pub fn new(profile: Profile) -> BuildOptions {
        let defaults = default_wishes(profile, 0, Some(BLOCK_SIZE), Identity::NONE);
        let wishes = Wishes { features: profile.features(), reserved_ratio: 0.0, ..defaults };
        let small_journal = match profile {
            Profile::Ext3 => SmallJournal::Made,
            Profile::Ext2 | Profile::Ext4 => SmallJournal::Omitted,
        };
        BuildOptions {
            profile,
            wishes,
            uuid: None,
            hash_seed: None,
            size: ImageSize::Exact(Room::NONE),
            inodes: None,
            free_inodes: None,
            journal: JournalWish::Default,
            small_journal,
            flex_groups: FlexGroups::Fitting,
            map_blocks: MapBlocks::Beside,
            root_owner: None,
            lost_and_found: LostFolder::Made,
            origin_bytes: 0,
            newest: None,
            dated_latest: None,
            first: Vec::new(),
        }
    }

    /// The free room that was asked for.
    fn room(&self) -> Room {
        match self.size {
            ImageSize::Exact(room) => room,
            ImageSize::Fixed(_) => Room::NONE,
        }
    }

    /// What is asked for beside the inodes in use, and what free room brings where nothing is.
    fn inode_wish(&self, template: &FormatOptions, used: u64) -> InodeWish {
        let is_counted = self.free_inodes.is_some()
            || matches!(self.inodes, Some(Inodes::AtLeast(_) | Inodes::About(_)));
        let spare = self.free_inodes.map_or(0, |free| free.beside(used));
        let of_room = RoomInodes {
            room: self.room(),
            profile: self.profile,
            block_size: template.wishes.block_size,
            inode_size: template.wishes.inode_size,
            kept_ratio: None,
        };
        InodeWish {
            needed: used.saturating_add(spare),
            asked: self.inodes,
            of_room: (!is_counted).then_some(of_room),
            of_groups: None,
        }
    }

    /// Inode tables grow with the image: where more of them are asked for than a share of free room
    /// leaves, no size is large enough.
    fn check_share(&self, inodes: &InodeWish) -> Result<(), Error> {
        let (Room::PerMille(share), Some(Inodes::BytesPerInode(ratio))) =
            (self.room(), inodes.asked)
        else {
            return Ok(());
        };
        let tables = u64::from(self.wishes.inode_size) * 1000 / ratio.max(1);
        if tables < 1000_u64.saturating_sub(share.into()) {
            return Ok(());
        }
        Err(Error::new(format!(
            "with an inode for each {ratio} bytes the inode tables take {}% of the image, and the \
             room leaves less",
            tables / 10
        ))
        .of(ErrorKind::InodeTables))
    }

    /// Where the rest of an image goes whose bodies are there already. Returns the blocks among
    /// theirs that stay free.
    fn arrive(
        &self,
        collected: &Collected,
        arrival: &Arrival,
        destination: &Destination<'_>,
        template: &mut FormatOptions,
    ) -> Result<u64, Error> {
        let refused = |why: &str| {
            let name = &destination.name;
            Err(Error::new(format!("{name}: data in the order of arrival {why}")))
        };
        if destination.place != Place::Whole {
            return refused("goes to a regular file only");
        }
        if matches!(self.size, ImageSize::Fixed(_)) {
            return refused("makes an image of its own size");
        }
        if self.flex_groups == FlexGroups::Given {
            return refused("decides about flex groups itself");
        }
        if self.map_blocks != MapBlocks::Beside {
            return refused("has map blocks after the data, not in clusters of groups");
        }
        arrival.settle();
        let Collected { tree, sources, .. } = collected;
        let nodes = (0..tree.node_bound() as u32).map(NodeId);
        let bodies = nodes.filter(|node| tree.is_part(*node)).filter_map(|node| {
            Some((sources.arrived_at(tree.body(node))?, tree.stored_bytes(node)))
        });
        let unused = arrival.empty_all_but(bodies.collect());
        let unused = unused.map_err(|error| {
            Error::new(format!("{}: {}", destination.name, reason(&error)))
                .of(ErrorKind::Write(error))
        })?;
        template.tables_from = Some(arrival.end());
        Ok(unused)
    }

    /// Format and identity: what was asked for, else what follows from the content.
    fn template(&self, tree: &Tree, newest: i64) -> FormatOptions {
        let mut wishes = Wishes {
            blocks: 0,
            created_seconds: newest.max(0).cast_unsigned(),
            uuid: self.uuid.unwrap_or_default(),
            hash_seed: self.hash_seed.unwrap_or_default(),
            ..self.wishes.clone()
        };
        let owner = self.root_owner.map(|owner| (owner.uid, owner.gid));
        let digest = digest::of_tree(tree, &format!("{wishes:?} {owner:?}"), &wishes);
        if self.uuid.is_none() {
            wishes.uuid = digest::uuid(&digest);
        }
        if self.hash_seed.is_none() {
            wishes.hash_seed = digest::seed(&digest);
        }
        let mut template = FormatOptions::new(wishes);
        template.journal = self.journal;
        template
    }
}

impl<'a> Job<'a> {
    /// Decides all that can be decided before the image is written.
    ///
    /// # Errors
    /// Content that no volume of this format can hold: the first files by name.
    pub fn new(
        collected: &'a Collected,
        options: &BuildOptions,
        destination: &'a Destination<'a>,
    ) -> Result<Job<'a>, Error> {
        let tree = &collected.tree;
        let newest = options.newest.unwrap_or_else(|| newest_time(tree, options.wishes.inode_size));
        let mut template = options.template(tree, newest);
        template.dated_latest = match options.newest {
            Some(_) => options.dated_latest,
            None => Some(DATED_LATEST),
        };
        if let Place::Part { contents, .. } = destination.place {
            template.contents = contents;
        }
        let sample = sample_superblock(&template.wishes);
        let first_free = Ino(sample.first_inode);
        let made = options.lost_and_found;
        let files = files_made(&template.wishes);
        let numbers = Numbers { first_free, made_before: files };
        let order = Order::new(tree, Packing::of(&sample), numbers, made, &options.first);
        if order.lost_and_found == LostAndFound::Own {
            template.lost_and_found = mkfs::LostAndFound::None;
        }
        kept::check_sizes(tree, &order, &sample)?;
        kept::check_attributes(tree, &order, &sample)?;
        let tail = Inode::new(FileType::Regular.mode_bits(), &sample).tail.len();
        let mut need = need::of_tree(tree, &order, &template.wishes, tail)?;
        if template.wishes.features.has(Feature::QUOTA) {
            template.quota_ids = owners(tree, &order, options.root_owner);
            need.data += mkfs::quota_file_blocks(&template);
        }
        if let Some(arrival) = collected.sources.arrival() {
            let unused = options.arrive(collected, arrival, destination, &mut template)?;
            need.data += unused;
        }
        if options.small_journal == SmallJournal::Made
            && template.journal == JournalWish::Default
            && need.data + need.metadata < JOURNAL_FROM_BLOCKS
        {
            template.journal = JournalWish::Blocks(JOURNAL_BLOCKS_MIN);
        }
        let inodes = InodeWish {
            of_groups: collected.sources.arrival().and_then(Arrival::group_inodes),
            ..options.inode_wish(&template, inodes_made(&order, &template) + need.inodes)
        };
        options.check_share(&inodes)?;
        Ok(Job {
            map_blocks: options.map_blocks,
            tree,
            sources: &collected.sources,
            destination,
            order,
            need,
            flex: options.flex_groups,
            size: options.size,
            inodes,
            created: Time { seconds: newest, nanoseconds: 0 },
            clock: RealClock::pinned(WallTime { seconds: newest, nanoseconds: 0 }),
            root_owner: options.root_owner,
            origin: options.origin_bytes,
            has_written: AtomicBool::new(false),
            progress: &(),
            template,
        })
    }

    /// Bytes of file data that will be written.
    pub fn data_bytes(&self) -> u64 {
        self.need.data * u64::from(self.template.wishes.block_size)
    }

    /// Notes each file with a time that the image's inodes cannot hold, or that is still to come by
    /// the host's clock.
    pub fn note_times(&self, notices: &mut Notices) {
        let now = RealClock::new().wall().seconds;
        kept::note_times(self.tree, &self.order, self.template.wishes.inode_size, notices);
        kept::note_times_to_come(self.tree, &self.order, now, notices);
    }
}

/// The newest time of the content, as an inode holds it: what counts as the time of building, so
/// that it does not matter when that was, not even whether that time has come.
fn newest_time(tree: &Tree, inode_size: u16) -> i64 {
    let nodes = (0..tree.node_bound() as u32).map(NodeId);
    let times = nodes.map(|node| tree.modify_time(node).kept(inode_size).seconds);
    times.max().unwrap_or(0).max(0)
}

/// Inodes that the image needs besides those of the tree's files: the reserved ones, and those that
/// mkfs makes.
pub fn inodes_made(order: &Order, template: &FormatOptions) -> u64 {
    let lost_and_found = u64::from(order.lost_and_found != LostAndFound::Own);
    10 + lost_and_found + u64::from(files_made(&template.wishes))
}

/// Files that mkfs makes besides, with numbers of their own: the orphan file, the quota file of
/// projects.
fn files_made(wishes: &Wishes) -> u32 {
    let has = |feature| wishes.features.has(feature);
    u32::from(has(Feature::ORPHAN_FILE)) + u32::from(has(Feature::QUOTA) && has(Feature::PROJECT))
}

/// The users, groups and projects that the files of an image belong to, rising.
fn owners(tree: &Tree, order: &Order, root: Option<Owner>) -> [Vec<u32>; 3] {
    // Of the directories that mkfs makes.
    let (mut users, mut groups) = (BTreeSet::from([0]), BTreeSet::from([0]));
    if let Some(owner) = root {
        users.insert(owner.uid);
        groups.insert(owner.gid);
    }
    for node in std::iter::once(&NodeId::ROOT).chain(order.sequence()) {
        users.insert(tree.uid(*node));
        groups.insert(tree.gid(*node));
    }
    if let LostAndFound::Redressed(node) = order.lost_and_found {
        users.insert(tree.uid(node));
        groups.insert(tree.gid(node));
    }
    [users.into_iter().collect(), groups.into_iter().collect(), vec![0]]
}
