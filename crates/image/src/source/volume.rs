//! An ext volume as a source: every file of it, with its bytes where they are on the volume.
//!
//! Nothing is copied before the image is written, and nothing is looked at twice: what an archive
//! of the volume would say goes into the tree without the archive. Sockets, which no archive holds,
//! come too.
use super::entries::{check_device, kept_flags};
use super::intake::Intake;
use super::zeros::Bytes;
use super::{Origin, Sources};
use crate::error::Error;
use crate::export::plan::{ExportPlan, Item, ItemPath, Step};
use crate::tree::{NodeBody, NodeContent, NodeId, Segment, SourceId};
use extant_archive::printable;
use extant_engine::survey::{ObjectId, Survey};
use extant_format::inode::FileType;
use extant_tree::Described;
use std::fmt;
use std::sync::Arc;

/// A volume that is open, and does not change as long as it is a source.
pub struct VolumeSource {
    plan: ExportPlan,
    name: String,
}

impl fmt::Debug for VolumeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VolumeSource").field(&self.name).finish()
    }
}

impl VolumeSource {
    /// All of a volume; `name` is what messages call it.
    ///
    /// # Errors
    /// What is damaged, the first of it by name: an image of the rest would lack it.
    pub fn new(survey: Arc<Survey>, name: String) -> Result<VolumeSource, Error> {
        let plan = ExportPlan::with_sockets(survey)?;
        match plan.omissions.first() {
            None => Ok(VolumeSource { plan, name }),
            Some(omission) => Err(Error::new(omission.left_out().to_string()).about(&name)),
        }
    }
}

/// Lays a volume over the tree.
pub(super) fn read(
    volume: &VolumeSource,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<(), Error> {
    let VolumeSource { plan, name } = volume;
    let device = Arc::clone(plan.survey.device());
    let source = sources.add(Origin::Volume { device, name: name.clone() })?;
    let mut path = ItemPath::default();
    // By object: what it became.
    let mut nodes = vec![NodeId::ROOT; plan.survey.object_count() as usize];
    for item in &plan.items {
        path.step_to(plan, item);
        if intake.excludes(&path.bytes) {
            continue;
        }
        intake.progress.step(1)?;
        let added = match item.step {
            Step::Link => link(intake, &path.bytes, nodes[item.object.0 as usize]),
            Step::Whole => whole(intake, (&plan.survey, source), item, &path.bytes)
                .map(|node| nodes[item.object.0 as usize] = node),
        };
        added.map_err(|error| error.about(name))?;
    }
    Ok(())
}

fn link(intake: &mut Intake<'_>, path: &[u8], node: NodeId) -> Result<(), Error> {
    let (directory, name) = intake.tree.walk(path)?;
    intake.link(directory, name, node)
}

/// A file under the first of its names.
fn whole(
    intake: &mut Intake<'_>,
    (survey, source): (&Survey, SourceId),
    item: &Item,
    path: &[u8],
) -> Result<NodeId, Error> {
    let object = item.object;
    let failed = |error: extant_engine::Error| Error::new(error.to_string()).about(printable(path));
    let Some(facts) = survey.facts(object) else {
        return Err(Error::new(format!("{}: is of no type", printable(path))));
    };
    let attributes = survey.attributes(object).map_err(failed)?;
    let mut facts = Described { facts, attributes };
    intake.adjust(&mut facts, path);
    let target;
    let content = match facts.file_type {
        FileType::Regular => NodeContent::Body(
            body(intake, (survey, source), object).map_err(|error| error.about(printable(path)))?,
        ),
        FileType::Symlink => {
            facts.permissions = 0o777;
            target = survey.target(object).map_err(failed)?;
            NodeContent::Target(&target)
        }
        FileType::CharacterDevice | FileType::BlockDevice => {
            check_device(path, facts.device)?;
            NodeContent::None
        }
        FileType::Directory | FileType::Fifo | FileType::Socket => NodeContent::None,
    };
    let node = match path {
        [] => intake.tree.describe_root(&facts).map(|()| NodeId::ROOT),
        _ => {
            let (directory, name) = intake.tree.walk(path)?;
            intake.insert(directory, name, &facts, content)
        }
    }?;
    intake.tree.set_flags(node, facts.flags.unwrap_or(0) & kept_flags(facts.file_type));
    if facts.file_type == FileType::Regular {
        intake.search(node, &Bytes::Volume(Arc::clone(survey.device())));
    }
    Ok(node)
}

/// Where the bytes of a file are on the volume, and its holes.
fn body(
    intake: &mut Intake<'_>,
    (survey, source): (&Survey, SourceId),
    object: ObjectId,
) -> Result<NodeBody, Error> {
    let length = survey.size(object);
    if length == 0 {
        return Ok(NodeBody::Empty);
    }
    if let Some(data) = survey.whole(object) {
        return Ok(NodeBody::Range { source, offset: data.volume_offset, length });
    }
    let mut segments: Vec<Segment> = Vec::new();
    for data in survey.data(object) {
        let data = data.map_err(|error| Error::new(error.to_string()))?;
        let segment =
            Segment { offset: data.file_offset, length: data.length, packed: data.volume_offset };
        match segments.last_mut() {
            Some(last)
                if last.offset + last.length == segment.offset
                    && last.packed + last.length == segment.packed =>
            {
                last.length += segment.length;
            }
            _ => segments.push(segment),
        }
    }
    let map = intake.keep_segments(segments, length)?;
    Ok(NodeBody::Sparse { source, offset: 0, map, length })
}
