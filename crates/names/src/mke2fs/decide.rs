//! From words, configuration and size to what the engine is asked for.
use super::configuration::Configuration;
use super::words::{Extended, JournalWords, Refusal, Request, features, scaled};
use crate::format_options::FeatureWord;
use extant_engine::mkfs::Profile;
use extant_engine::mkfs::{
    FormatOptions, Identity, JournalWish, MountRecord, Placing, QuotaKind, default_wishes,
};
use extant_format::BlockNo;
use extant_format::layout::{Checks, Inodes, Marks, Packing, Tables, Wishes};
use extant_format::superblock::{Feature, Features, HashVersion, mount_option, superblock_flags};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// All that is asked for, of one size.
#[derive(Debug)]
pub struct Decision {
    /// For the engine.
    pub options: FormatOptions,
    /// -E.
    pub extended: Extended,
    /// -J.
    pub journal: JournalWords,
    /// The type and the usage types that the configuration was asked about.
    pub types: Vec<String>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// What comes from outside of the words.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The type that the program's name says.
    pub file_system: Option<&'static str>,
    /// Bytes of the volume, as far as they are known.
    pub bytes: u64,
    /// The time, in seconds since 1970.
    pub seconds: u64,
    /// Of root's directory, where -E root_owner has no value.
    pub caller: (u32, u32),
    /// The machine and the device, for the block that records mounts.
    pub record: MountRecord,
}

fn line<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Line(text.into()))
}

/// How often a mount looks at the block of mmp, unless -E says otherwise.
const MMP_SECONDS: u16 = 5;
/// -o hurd.
const HURD: u32 = 1;

/// -o: the system that made the volume, by number or name.
fn creator(request: &Request) -> Result<u32, Refusal> {
    const NAMES: [(&str, u32); 5] =
        [("linux", 0), ("gnu", HURD), ("hurd", HURD), ("freebsd", 3), ("lites", 4)];
    let Some(name) = request.creator.as_deref() else { return Ok(0) };
    let of_name = || NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    match name.parse().ok().or_else(|| of_name().map(|row| row.1)) {
        Some(number) => Ok(number),
        None => line(format!("unknown os - {name}")),
    }
}

/// Whether -j or -J ask for a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Journal {
    Wanted,
    Unsaid,
}

impl Journal {
    fn of(request: &Request) -> Journal {
        match request.journal || request.journal_words.is_some() {
            true => Journal::Wanted,
            false => Journal::Unsaid,
        }
    }
}

/// The types that the configuration is asked about: the file system, and what it is for.
fn types(
    request: &Request,
    configuration: &Configuration,
    environment: &Environment,
    journal: Journal,
) -> Result<Vec<String>, Refusal> {
    let is_hurd = creator(request)? == HURD;
    let named = request.file_system.as_deref().or(environment.file_system);
    // The Hurd knows ext2 only, whatever the program's name says.
    let named = if is_hurd { Some("ext2") } else { named };
    let named = named.or_else(|| configuration.value(&[], "fs_type"));
    let file_system = named.unwrap_or(if journal == Journal::Wanted { "ext3" } else { "ext2" });
    if !configuration.knows(file_system) && !["ext2", "ext3", "ext4"].contains(&file_system) {
        return line(format!(
            "Your mke2fs.conf file does not define the {file_system} file system \
             type"
        ));
    }
    let mut types = vec![file_system.to_owned()];
    match &request.usage {
        Some(list) => {
            for usage in list.split(',').filter(|usage| !usage.is_empty()) {
                if !configuration.knows(usage) && usage != "default" {
                    return line(format!(
                        "the file system type {usage} is not defined in \
                         mke2fs.conf"
                    ));
                }
                types.push(usage.to_owned());
            }
        }
        None => types.push(
            match environment.bytes {
                bytes if bytes < 3 * MIB => "floppy",
                bytes if bytes < 512 * MIB => "small",
                bytes if bytes < 4 * TIB => "default",
                bytes if bytes < 16 * TIB => "big",
                _ => "huge",
            }
            .to_owned(),
        ),
    }
    if is_hurd {
        types.push("hurd".to_owned());
    }
    Ok(types)
}

/// Bytes of a block.
///
/// # Errors
/// As [`decide`].
pub fn block_size(
    request: &Request,
    configuration: &Configuration,
    environment: &Environment,
) -> Result<u32, Refusal> {
    let types = types(request, configuration, environment, Journal::of(request))?;
    if let Some(size @ 1..) = request.block_size {
        return Ok(u32::try_from(size).unwrap_or(4096));
    }
    // A negative number is the least that is taken, and 4096 is what is taken otherwise.
    let configured = configuration.value(&types, "blocksize").and_then(|size| size.parse().ok());
    let least = request.block_size.map_or(0, i64::unsigned_abs);
    let size = match configured {
        Some(size @ 1024_i64..=65536) if size.count_ones() == 1 => size.unsigned_abs(),
        _ => 4096,
    };
    Ok(u32::try_from(size.max(least)).unwrap_or(4096))
}

/// The features: those of the configuration, and -O on top.
fn all_features(
    request: &Request,
    configuration: &Configuration,
    types: &[String],
    journal: Journal,
) -> Result<Features, Refusal> {
    let mut set = Features::default();
    let mut edit = |list: &str| -> Result<(), Refusal> {
        for word in features(list)? {
            match word {
                FeatureWord::None => set = Features::default(),
                FeatureWord::Add(feature) => set.set(feature),
                FeatureWord::Remove(feature) => set.clear(feature),
            }
        }
        Ok(())
    };
    if request.revision != Some(0) {
        let base = "sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr";
        edit(configuration.value(types, "base_features").unwrap_or(base))?;
        for of in types {
            edit(configuration.of_type(of, "features").unwrap_or_default())?;
        }
    }
    match request.features.is_empty() {
        true => edit(configuration.value(types, "default_features").unwrap_or_default())?,
        false => edit(&request.features.join(","))?,
    }
    if request.revision == Some(0) && set != Features::default() {
        return line("Filesystem features not supported with revision 0 filesystems");
    }
    if journal == Journal::Wanted {
        set.set(Feature::HAS_JOURNAL);
    }
    Ok(set)
}

/// What contradicts itself whatever the size is.
fn check(set: &Features, request: &Request) -> Result<(), Refusal> {
    let has = |feature| set.has(feature);
    if has(Feature::SIXTY_FOUR_BIT) && !has(Feature::EXTENTS) {
        return line(
            "Extents MUST be enabled for a 64-bit filesystem.  Pass -O extents to rectify.",
        );
    }
    if has(Feature::META_BG) && has(Feature::RESIZE_INODE) {
        return line(
            "The resize_inode and meta_bg features are not compatible.\nThey can not be both \
             enabled simultaneously.",
        );
    }
    if has(Feature::CSUM_SEED) && !has(Feature::METADATA_CSUM) {
        return line("The metadata_csum_seed feature requires the metadata_csum feature.");
    }
    if has(Feature::ORPHAN_FILE) && !has(Feature::HAS_JOURNAL) {
        return line("cannot set orphan_file feature without a journal.");
    }
    if has(Feature::RESIZE_INODE) && !has(Feature::SPARSE_SUPER) {
        return line("reserved online resize blocks not supported on non-sparse filesystem");
    }
    if has(Feature::BIGALLOC) && !has(Feature::EXTENTS) {
        return line("Can't support bigalloc feature without extents feature");
    }
    if request.flex_groups.is_some() && !has(Feature::FLEX_BG) {
        return line("Flex_bg feature not enabled, so flex_bg size may not be specified");
    }
    if request.cluster_size.is_some() && !has(Feature::BIGALLOC) {
        return line("specifying a cluster size requires the bigalloc feature");
    }
    Ok(())
}

/// The superblock's mount options, of a list in the configuration.
fn mount_options(list: &str) -> u32 {
    let known = [
        ("debug", mount_option::DEBUG),
        ("bsdgroups", mount_option::BSD_GROUPS),
        ("user_xattr", mount_option::USER_XATTR),
        ("acl", mount_option::ACL),
        ("uid16", mount_option::UID16),
        ("journal_data", mount_option::JOURNAL_DATA),
        ("journal_data_ordered", mount_option::JOURNAL_ORDERED),
        ("journal_data_writeback", mount_option::JOURNAL_WRITEBACK),
        ("nobarrier", mount_option::NO_BARRIER),
        ("block_validity", mount_option::BLOCK_VALIDITY),
        ("discard", mount_option::DISCARD),
        ("nodelalloc", mount_option::NO_DELALLOC),
    ];
    let mut options = 0;
    for word in list.split(',').map(str::trim) {
        let removed = word.strip_prefix('^');
        let Some((_, bits)) = known.iter().find(|(name, _)| *name == removed.unwrap_or(word))
        else {
            continue;
        };
        match removed {
            Some(_) => options &= !bits,
            None => options |= bits,
        }
    }
    options
}

/// What the superblock says besides.
fn marks(
    request: &Request,
    configuration: &Configuration,
    types: &[String],
    extended: &Extended,
    set: &mut Features,
) -> Result<Marks, Refusal> {
    let mut last_mounted = [0; 64];
    for (to, from) in last_mounted.iter_mut().zip(request.last_mounted.iter().flatten()) {
        *to = *from;
    }
    let creator_os = creator(request)?;
    if creator_os == HURD {
        set.clear(Feature::FILETYPE);
    }
    let configured = match configuration.value(types, "errors") {
        Some("remount-ro") => 2,
        Some("panic") => 3,
        _ => 1,
    };
    let mut encoding = (0, 0);
    if extended.encoding.is_some() || set.has(Feature::CASEFOLD) {
        set.set(Feature::CASEFOLD);
        let asked = extended.encoding.as_deref();
        let asked = asked.or_else(|| configuration.value(types, "encoding")).unwrap_or("utf8");
        encoding.0 = match asked {
            "utf8" | "utf8-12.1" => 1,
            _ => return line(format!("Invalid encoding: {asked}")),
        };
    }
    if let Some(flags) = &extended.encoding_flags {
        encoding.1 = match flags.as_str() {
            "strict" => 1,
            "nostrict" => 0,
            _ => return line(format!("Invalid encoding flag: {flags}")),
        };
        if encoding.0 == 0 {
            return line("An encoding must be explicitly specified when passing encoding-flags");
        }
    }
    let tables = match extended.lazy_itable_init {
        None | Some(true) => Tables::Lazy,
        Some(false) => Tables::Zeroed,
    };
    let checks = match configuration.flag(types, "enable_periodic_fsck") {
        Some(true) => Checks::Periodic,
        None | Some(false) => Checks::Asked,
    };
    Ok(Marks {
        errors_behavior: request.errors.unwrap_or(configured),
        creator_os,
        last_mounted,
        mount_options: match request.revision {
            Some(0) => 0,
            _ => mount_options(
                configuration.value(types, "default_mntopts").unwrap_or("acl,user_xattr"),
            ),
        },
        flags: if extended.test_fs { superblock_flags::TEST_FILESYSTEM } else { 0 },
        encoding,
        tables,
        revision: request.revision.map_or(1, |revision| revision.min(1)),
        checks,
    })
}

fn quota_files(extended: &Extended) -> Result<Vec<QuotaKind>, Refusal> {
    let list = extended.quotatype.as_deref().unwrap_or_default();
    let mut files = Vec::new();
    for word in list.split([':', ',']).filter(|word| !word.is_empty()) {
        let kind = match word {
            "usrquota" | "usr" => QuotaKind::Users,
            "grpquota" | "grp" => QuotaKind::Groups,
            "prjquota" | "prj" => QuotaKind::Projects,
            _ => return line(format!("Invalid quotatype parameter: {word}")),
        };
        files.push(kind);
    }
    Ok(files)
}

/// How many inodes: -N, else -i or what the configuration says.
fn inodes(
    request: &Request,
    configuration: &Configuration,
    types: &[String],
    unit_size: u64,
) -> Inodes {
    let configured =
        || configuration.value(types, "inode_ratio").and_then(|text| text.parse().ok());
    let usual = || configured().unwrap_or(16384_u64).max(unit_size);
    match request.inodes {
        Some(count @ 1..) => Inodes::About(count),
        // What is asked for is not raised to a cluster.
        _ => Inodes::BytesPerInode(request.inode_ratio.unwrap_or_else(usual)),
    }
}

/// All that the words ask for. `environment.bytes` is the size of the volume.
///
/// # Errors
/// What contradicts itself, in mke2fs's words where it has some.
pub fn decide(
    request: &Request,
    configuration: &Configuration,
    environment: &Environment,
) -> Result<Decision, Refusal> {
    let mut journal = JournalWords::read(request.journal_words.as_deref().unwrap_or_default())?;
    let wants_journal = Journal::of(request);
    let types = types(request, configuration, environment, wants_journal)?;
    not_done_here(configuration, &types)?;
    let extended = extended(request, configuration, &types)?;
    let configured = || configuration.value(&types, "journal_location").map(str::to_owned);
    journal.location = journal.location.or_else(configured);
    let mut set = all_features(request, configuration, &types, wants_journal)?;
    check(&set, request)?;
    let block_size = block_size(request, configuration, environment)?;
    let blocks = environment.bytes / u64::from(block_size);
    let marks = marks(request, configuration, &types, &extended, &mut set)?;
    let number = |name: &str| configuration.value(&types, name).and_then(|text| text.parse().ok());
    let inode_size = match request.revision {
        Some(0) => 128,
        _ => request.inode_size.or_else(|| number("inode_size")).unwrap_or(256),
    };
    let configured: Option<f64> =
        configuration.value(&types, "reserved_ratio").and_then(|text| text.parse().ok());
    let reserved_ratio = request.reserved_percent.or(configured).unwrap_or(5.0) / 100.0;
    let defaults =
        default_wishes(Profile::Ext4, environment.bytes, Some(block_size), Identity::NONE);
    let (label, warnings) = label(request);
    let resize_to_blocks = resize(&extended, blocks, block_size, &set)?;
    let flex_groups = request.flex_groups.or_else(|| number("flex_bg_size").map(u32::from));
    let unit_size = match set.has(Feature::BIGALLOC) {
        true => request.cluster_size.unwrap_or(u64::from(block_size) * 16),
        false => block_size.into(),
    };
    let wishes = Wishes {
        block_size,
        blocks,
        features: set,
        inode_size,
        inodes: inodes(request, configuration, &types, unit_size),
        reserved_ratio,
        flex_groups: flex_groups.unwrap_or(16),
        blocks_per_group: request
            .blocks_per_group
            .map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX)),
        resize_to_blocks,
        label,
        hash_version: match configuration.value(&types, "hash_alg") {
            Some("legacy") => HashVersion::Legacy,
            Some("tea") => HashVersion::Tea,
            _ => HashVersion::HalfMd4,
        },
        created_seconds: environment.seconds,
        stride: extended.stride,
        stripe_width: extended.stripe_width,
        marks,
        descriptor_size: extended.desc_size,
        copies: extended.num_backup_sb.map_or(2, |count| u8::try_from(count).unwrap_or(2)),
        packing: match extended.packed_meta_blocks {
            true => Packing::Start,
            false => Packing::FlexGroups,
        },
        cluster_size: request.cluster_size.map(|size| u32::try_from(size).unwrap_or(u32::MAX)),
        ..defaults
    };
    let mut options = FormatOptions::new(wishes);
    options.placing = Placing::Mke2fs;
    fill(&mut options, &extended, &journal, environment)?;
    Ok(Decision { options, extended, journal, types, warnings })
}

/// The label, and what is said of one that is too long.
fn label(request: &Request) -> ([u8; 16], Vec<String>) {
    let mut label = [0; 16];
    for (to, from) in label.iter_mut().zip(request.label.iter().flatten()) {
        *to = *from;
    }
    let is_long = request.label.as_ref().is_some_and(|label| label.len() > 16);
    let warning = is_long.then(|| "Warning: label too long; will be truncated".to_owned());
    (label, warning.into_iter().collect())
}

/// -E, after what the configuration says of the same.
fn extended(
    request: &Request,
    configuration: &Configuration,
    types: &[String],
) -> Result<Extended, Refusal> {
    let flag = |name: &str| {
        let value = configuration.flag(types, name)?;
        Some(format!("{name}={}", u8::from(value)))
    };
    let discard = configuration.flag(types, "discard");
    let copies = configuration.value(types, "num_backup_sb");
    let words = [
        flag("lazy_itable_init"),
        flag("lazy_journal_init"),
        flag("packed_meta_blocks"),
        discard.map(|discard| if discard { "discard" } else { "nodiscard" }.to_owned()),
        copies.map(|copies| format!("num_backup_sb={copies}")),
    ];
    // Those of all types, and of types alone.
    let options = types.iter().filter_map(|of| configuration.of_type(of, "options"));
    let options = options.map(str::to_owned).chain(request.extended.clone());
    let words: Vec<String> = words.into_iter().flatten().chain(options).collect();
    Extended::read(&words.join(","))
}

/// What a configuration asks for that is not made here.
fn not_done_here(configuration: &Configuration, types: &[String]) -> Result<(), Refusal> {
    let asked = ["make_hugefiles", "force_undo"];
    match asked.into_iter().find(|name| configuration.flag(types, name) == Some(true)) {
        None => Ok(()),
        Some(name) => line(format!("mke2fs.conf asks for {name}, which is not supported here")),
    }
}

/// What a volume may grow to.
fn resize(
    extended: &Extended,
    blocks: u64,
    block_size: u32,
    set: &Features,
) -> Result<Option<u64>, Refusal> {
    let Some(text) = extended.resize.as_deref() else { return Ok(None) };
    let bytes = scaled(text, block_size.into());
    let Some(target) = bytes.map(|bytes| bytes / u64::from(block_size)) else {
        return line(format!("Invalid resize parameter: {text}"));
    };
    if target <= blocks {
        return line("The resize maximum must be greater than the filesystem size.");
    }
    if !set.has(Feature::RESIZE_INODE) {
        return line("On-line resizing is not supported without the resize_inode feature");
    }
    Ok(Some(target))
}

/// Journal, owners and quotas.
fn fill(
    options: &mut FormatOptions,
    extended: &Extended,
    journal: &JournalWords,
    environment: &Environment,
) -> Result<(), Refusal> {
    let block_size = u64::from(options.wishes.block_size);
    if let Some(bytes) = journal.size {
        let blocks = bytes / block_size;
        options.journal = JournalWish::Blocks(u32::try_from(blocks).unwrap_or(u32::MAX));
    }
    if let Some(text) = &journal.location {
        let Some(bytes) = scaled(text, block_size) else {
            return line(format!("Invalid journal location: {text}"));
        };
        options.journal_at = Some(BlockNo(bytes / block_size));
    }
    if let Some(bytes) = journal.fast_commit_size {
        options.fast_commit_blocks = u32::try_from(bytes / block_size).unwrap_or(u32::MAX);
    }
    if let Some(text) = &extended.orphan_file_size {
        let bytes = scaled(text, block_size);
        let Some(blocks) = bytes.map(|bytes| bytes.div_ceil(block_size)) else {
            return line(format!("Invalid size of orphan file {text}"));
        };
        options.orphan_file_blocks = Some(u32::try_from(blocks).unwrap_or(u32::MAX));
    }
    options.root_owner = match extended.root_owner {
        None => (0, 0),
        Some(None) => environment.caller,
        Some(Some(owner)) => owner,
    };
    options.root_mode = extended.root_perms.unwrap_or(0o755);
    options.quota_files = quota_files(extended)?;
    let asked = extended.mmp_update_interval.filter(|seconds| *seconds > 0);
    let interval_seconds = asked.unwrap_or(MMP_SECONDS);
    options.mount_record = MountRecord { interval_seconds, ..environment.record.clone() };
    Ok(())
}
