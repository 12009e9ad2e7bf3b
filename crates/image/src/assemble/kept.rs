//! What the inodes of the image cannot hold: times, which are moved and noted, and sizes, which are
//! an error.
use super::order::Order;
use crate::date::{self, Grain};
use crate::error::{Error, ErrorKind};
use crate::notice::{NAMED_MAX, NoticeKind, Notices};
use crate::tree::{NodeId, Tree};
use extant_archive::printable;
use extant_format::inode::{FileType, Time};
use extant_format::superblock::{Feature, MappingKind, Superblock};

/// What was just made may be this far ahead: archives have whole seconds, and Go's library rounds
/// up.
const ROUNDED_SECONDS: i64 = 1;

/// Notes each file with a time that inodes of `inode_size` bytes cannot hold, and once how many
/// lose nanoseconds.
pub fn note_times(tree: &Tree, order: &Order, inode_size: u16, notices: &mut Notices) {
    let mut shortened = 0;
    for node in nodes(order).filter(|node| tree.is_described(*node)) {
        let times = [tree.modify_time(node), tree.access_time(node), tree.change_time(node)];
        let beyond = times.into_iter().find(|time| time.kept(inode_size).seconds != time.seconds);
        if let Some(time) = beyond {
            notices.add(NoticeKind::TimeClamped, || {
                let path = printable(&tree.path(node));
                let times = [time, time.kept(inode_size)];
                let [given, kept] = times.map(|time| date::shown(time, Grain::Minute));
                format!(
                    "/{path}: its time {given} became {kept}: inodes of {inode_size} bytes hold \
                     none beyond"
                )
            });
        }
        let loses = |time: &Time| time.kept(inode_size).nanoseconds != time.nanoseconds;
        shortened += u64::from(times.iter().any(loses));
    }
    notices.add_many(NoticeKind::NanosecondsDropped, shortened, || {
        format!(
            "{shortened} files lose the nanoseconds of their times: inodes of {inode_size} bytes \
             hold whole seconds"
        )
    });
}

/// Notes each file with a time after `now`, in seconds since 1970, that no rounding explains.
pub fn note_times_to_come(tree: &Tree, order: &Order, now: i64, notices: &mut Notices) {
    for node in nodes(order).filter(|node| tree.is_described(*node)) {
        let times = [tree.modify_time(node), tree.access_time(node), tree.change_time(node)];
        let to_come = |time: &Time| time.seconds > now.saturating_add(ROUNDED_SECONDS);
        let Some(time) = times.into_iter().find(to_come) else { continue };
        notices.add(NoticeKind::TimeToCome, || {
            let path = printable(&tree.path(node));
            format!("/{path}: its time {} is in the future", date::shown(time, Grain::Minute))
        });
    }
}

/// # Errors
/// Files that are longer than a file of this volume can be: the first few by name, and how many
/// there are.
pub fn check_sizes(tree: &Tree, order: &Order, volume: &Superblock) -> Result<(), Error> {
    let mapping = match volume.has(Feature::EXTENTS) {
        true => MappingKind::Extents,
        false => MappingKind::Indirect,
    };
    let most = volume.max_file_size(mapping);
    let is_file = |node: &NodeId| tree.file_type(*node) == FileType::Regular;
    let mut beyond = nodes(order).filter(|node| is_file(node) && tree.length(*node) > most);
    let named: Vec<String> = beyond
        .by_ref()
        .take(NAMED_MAX)
        .map(|node| format!("/{} ({})", printable(&tree.path(node)), tree.length(node)))
        .collect();
    let more = match beyond.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match &named[..] {
        [] => Ok(()),
        _ => Err(Error::new(format!(
            "{}{more}: larger than the {most} bytes that a file of this volume can have",
            named.join(", ")
        ))
        .of(ErrorKind::FileTooLarge)),
    }
}

/// # Errors
/// A file with attributes, by name, where the volume has no place for them: its features or its
/// revision say that there are none.
pub fn check_attributes(tree: &Tree, order: &Order, volume: &Superblock) -> Result<(), Error> {
    if volume.has(Feature::EXT_ATTR) {
        return Ok(());
    }
    match nodes(order).find(|node| !tree.attributes(*node).is_empty()) {
        None => Ok(()),
        Some(node) => Err(Error::new(format!(
            "/{}: has extended attributes, and the volume has not the feature ext_attr",
            printable(&tree.path(node))
        ))),
    }
}

fn nodes(order: &Order) -> impl Iterator<Item = NodeId> + '_ {
    std::iter::once(NodeId::ROOT).chain(order.sequence().iter().copied())
}
