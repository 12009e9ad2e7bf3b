//! A volume that is filled as it is made: -d, and a label of the root.
use super::Failure;
use super::decide::Decision;
use super::discard::prepare;
use super::words::{Refusal, Request};
use crate::{complain, console, one_line};
use extant_engine::mkfs::{self, Contents};
use extant_format::inode::Time;
use extant_format::superblock::Feature;
use extant_host::error::Error;
use extant_host::progress::Unit;
use extant_host::source_options::sources;
use extant_host::target::Target;
use extant_image::assemble::{
    BuildOptions, Destination, FlexGroups, ImageSize, Job, Place, SmallJournal,
};
use extant_image::notice::{NoticeKind, Notices};
use extant_image::source::{Holes, ReadOptions, collect};
use extant_image::tree::{RootFacts, Tree};
use std::os::unix::fs::MetadataExt;

/// Whether the builder makes the volume: with -d, and where the root has a label.
pub fn is_filled(request: &Request, decision: &Decision) -> bool {
    request.source.is_some() || label(decision).is_some()
}

/// -E root_selinux, unless it is empty.
fn label(decision: &Decision) -> Option<&str> {
    decision.extended.root_selinux.as_deref().filter(|label| !label.is_empty())
}

/// What the builder does not do, by name.
///
/// # Errors
/// The first such option.
pub fn refuse_what_is_not_filled(request: &Request, decision: &Decision) -> Result<(), Refusal> {
    if !is_filled(request, decision) {
        return Ok(());
    }
    let with = if request.source.is_some() { "-d" } else { "-E root_selinux" };
    let foreign = mkfs::unfilled(&decision.options.wishes.features);
    if !foreign.is_empty() {
        let foreign = foreign.join(", ");
        return Err(Refusal::Line(format!(
            "{with}: a volume with {foreign} can be made, not filled"
        )));
    }
    let options = &decision.options;
    let asked = [
        (options.journal_at.is_some(), "-J location"),
        (decision.journal.device.is_some(), "-J device"),
        (decision.journal.fast_commit_size.is_some(), "-J fast_commit_size"),
        (options.orphan_file_blocks.is_some(), "-E orphan_file_size"),
        (!options.quota_files.is_empty(), "-E quotatype"),
    ];
    match asked.into_iter().find(|(is_asked, _)| *is_asked) {
        Some((_, option)) => Err(Refusal::Line(format!(
            "{option}: is not supported together with {with}, where files have their usual places \
             and sizes"
        ))),
        None => Ok(()),
    }
}

/// What the tree is to have in place of what its source says.
fn give(name: &str, tree: &mut Tree, decision: &Decision, epoch: i64) -> Result<(), Error> {
    let has_attributes = decision.options.wishes.features.has(Feature::EXT_ATTR);
    if decision.extended.no_copy_xattrs {
        tree.drop_attributes();
    } else if !has_attributes {
        let files = tree.drop_attributes();
        if files > 0 {
            complain(&format!(
                "{name}: Warning: {files} files lose their extended attributes: the volume has \
                 not the feature ext_attr"
            ));
        }
    }
    let (uid, gid) = decision.options.root_owner;
    let facts = RootFacts {
        uid,
        gid,
        permissions: decision.options.root_mode,
        time: Time { seconds: epoch, nanoseconds: 0 },
        label: label(decision).map(|label| label.as_bytes().to_vec()),
    };
    tree.give_root(&facts).map_err(Error::from)
}

/// The builder makes the volume, of this size, and fills it.
pub fn fill(
    name: &'static str,
    request: &Request,
    decision: &Decision,
    target: &Target,
    bytes: u64,
) -> Result<(), Failure> {
    let wishes = &decision.options.wishes;
    let epoch = i64::try_from(wishes.created_seconds).unwrap_or(i64::MAX);
    let mut read = ReadOptions {
        newest: None,
        holes: match decision.extended.sparse {
            Holes::AsSource => Holes::Auto,
            asked => asked,
        },
        block_bytes: wishes.block_size,
        ..ReadOptions::default()
    };
    let identity = target.identity().map_err(|error| Error::io(target.path.display(), &error))?;
    read.never.push(identity);
    // A volume that is packed later is built in another file.
    if let Ok(image) = std::fs::metadata(&target.path) {
        read.never.push((image.dev(), image.ino()));
    }
    let console = console(name);
    let mut collected = {
        let progress = console.progress("read", Unit::Items, 0);
        collect(sources(request.source.as_slice())?, &read, &progress).map_err(Error::from)?
    };
    give(name, &mut collected.tree, decision, epoch)?;
    let profile = mkfs::Profile::from_name(decision.types.first().map_or("ext4", String::as_str))
        .unwrap_or(mkfs::Profile::Ext4);
    let options = BuildOptions {
        uuid: Some(wishes.uuid),
        hash_seed: Some(wishes.hash_seed),
        size: ImageSize::Fixed(bytes),
        inodes: Some(wishes.inodes),
        journal: decision.options.journal,
        small_journal: SmallJournal::Omitted,
        flex_groups: FlexGroups::Given,
        origin_bytes: decision.extended.offset,
        newest: Some(epoch),
        wishes: wishes.clone(),
        ..BuildOptions::new(profile)
    };
    let shown = target.path.display().to_string();
    let end = decision.extended.offset.saturating_add(bytes);
    let at = |contents| Destination {
        medium: &target.file,
        name: shown.clone(),
        place: Place::Part { end_bytes: target.device_bytes.unwrap_or(end), contents },
    };
    // What is refused is refused before anything that is there goes: the sources could be read.
    let planned = at(Contents::Unknown);
    warn(name, &Job::new(&collected, &options, &planned).map_err(Error::from)?);
    let destination = at(prepare(request, decision, target, end)?);
    let job = Job::new(&collected, &options, &destination).map_err(Error::from)?;
    let progress = console.progress("build", Unit::Bytes, job.data_bytes());
    job.build(&progress).map_err(|error| {
        let error = Error::from(error);
        complain(&one_line(name, &error));
        Failure::Silent
    })?;
    Ok(())
}

/// Names the first files whose time is still to come.
fn warn(name: &str, job: &Job<'_>) {
    let mut notices = Notices::default();
    job.note_times(&mut notices);
    for sentence in notices.of(NoticeKind::TimeToCome).iter().flat_map(|tally| &tally.named) {
        complain(&format!("{name}: Warning: {sentence}"));
    }
}
