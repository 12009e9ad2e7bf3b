//! What is in a volume, as a side.
//!
//! *Invariants*: a directory is entered once, whatever names lead to it, so a walk ends.
use super::side::{Body, Name, Number, Reason, View};
use crate::error::{Error, ErrorKind};
use crate::export::plan::is_plain_lost_and_found;
use extant_archive::printable;
use extant_engine::Filesystem;
use extant_engine::survey::{Data, ObjectId, Pieces, Survey};
use extant_format::Ino;
use extant_format::attribute::Attribute;
use extant_format::inode::FileType;
use extant_tree::Facts;
use std::ops::Range;

/// A volume, at and below one of its directories.
pub(super) struct ImageSide {
    survey: Survey,
    root: ObjectId,
    /// By object: how many names lead to it, up to 2.
    names: Vec<u8>,
    entered: Vec<bool>,
}

impl ImageSide {
    pub(super) fn new(filesystem: &Filesystem, path: &[u8]) -> Result<ImageSide, Error> {
        let wrong = |error: extant_engine::Error| Error::new(error.to_string());
        let survey = filesystem.survey().map_err(wrong)?;
        let mut root = survey.object(Ino::ROOT).map_err(wrong)?;
        for step in path.split(|byte| *byte == b'/').filter(|it| !it.is_empty() && *it != b".") {
            let name = survey.find(root, step).ok_or_else(|| {
                let text = format!("{}: there is no such file in the image", printable(path));
                Error::new(text).of(ErrorKind::NoSuchPath)
            })?;
            root = survey.object(survey.leads_to(name)).map_err(wrong)?;
        }
        let objects = survey.object_count() as usize;
        let mut names = vec![0_u8; objects];
        for object in (0..survey.object_count()).map(ObjectId) {
            for name in survey.names(object) {
                if let Ok(found) = survey.object(survey.leads_to(name)) {
                    let count = &mut names[found.0 as usize];
                    *count = count.saturating_add(1).min(2);
                }
            }
        }
        Ok(ImageSide { survey, root, names, entered: vec![false; objects] })
    }

    fn sound(&self, file: Number) -> Result<ObjectId, Reason> {
        match self.survey.fault(ObjectId(file)) {
            Some(fault) => Err(fault.to_string()),
            None => Ok(ObjectId(file)),
        }
    }
}

impl View for ImageSide {
    fn root(&self) -> Number {
        self.root.0
    }

    fn names(&mut self, directory: Number) -> (Vec<Name>, Option<Reason>) {
        let object = ObjectId(directory);
        if self.survey.file_type(object) != Some(FileType::Directory) {
            return (Vec::new(), None);
        }
        if std::mem::replace(&mut self.entered[directory as usize], true) {
            return (Vec::new(), Some("a directory that has another name already".into()));
        }
        let mut reason = self.survey.fault(object).map(ToString::to_string);
        let mut names = Vec::new();
        for name in self.survey.names(object) {
            if let Some(stored) = self.survey.stored_name(name) {
                let stored = stored.escape_ascii();
                let said = format!("has a name that no file may have: \"{stored}\"");
                reason = reason.or(Some(said));
            }
            match self.survey.object(self.survey.leads_to(name)) {
                Ok(found) => {
                    names.push(Name { bytes: self.survey.name(name).to_vec(), file: found.0 });
                }
                Err(error) => reason = reason.or(Some(error.to_string())),
            }
        }
        // Of equal names the first counts, as everywhere; sorting keeps their order.
        names.sort_by(|a, b| a.bytes.cmp(&b.bytes));
        let count = names.len();
        names.dedup_by(|b, a| a.bytes == b.bytes);
        if names.len() < count {
            reason = reason.or(Some("a second entry of the same name".into()));
        }
        (names, reason)
    }

    fn facts(&self, file: Number) -> Result<Option<Facts>, Reason> {
        let object = match self.survey.file_type(ObjectId(file)) {
            // Its entries are judged when they are read.
            Some(FileType::Directory) => ObjectId(file),
            _ => self.sound(file)?,
        };
        Ok(Some(self.survey.facts(object).ok_or("its type is not known")?))
    }

    fn may_have_links(&self, file: Number) -> bool {
        self.names[file as usize] > 1
    }

    fn attributes(&self, file: Number) -> Result<Vec<Attribute>, Reason> {
        let attributes = self.survey.attributes(ObjectId(file));
        let mut attributes = attributes.map_err(|error| error.to_string())?;
        attributes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(attributes)
    }

    fn target(&self, file: Number) -> Result<Vec<u8>, Reason> {
        self.survey.target(self.sound(file)?).map_err(|error| error.to_string())
    }

    fn body<'a>(&'a self, file: Number) -> Box<dyn Body + 'a> {
        let pieces = self.survey.data(ObjectId(file));
        Box::new(ImageBody { survey: &self.survey, pieces, current: None })
    }

    fn is_made_by_mkfs(&self, file: Number, name: &[u8]) -> bool {
        let name = self
            .survey
            .names(self.root)
            .find(|found| self.survey.name(*found) == name && self.root_is_volume());
        name.is_some_and(|name| is_plain_lost_and_found(&self.survey, name, ObjectId(file)))
    }
}

impl ImageSide {
    fn root_is_volume(&self) -> bool {
        self.survey.ino(self.root) == Ino::ROOT
    }
}

struct ImageBody<'a> {
    survey: &'a Survey,
    pieces: Pieces<'a>,
    current: Option<Data>,
}

impl ImageBody<'_> {
    /// The data at or after a byte.
    fn at(&mut self, from: u64) -> Result<Option<Data>, Reason> {
        while self.current.is_none_or(|data| data.file_offset + data.length <= from) {
            match self.pieces.next() {
                None => return Ok(None),
                Some(data) => self.current = Some(data.map_err(|error| error.to_string())?),
            }
        }
        Ok(self.current)
    }
}

impl Body for ImageBody<'_> {
    fn next_data(&mut self, from: u64) -> Result<Option<Range<u64>>, Reason> {
        let data = self.at(from)?;
        Ok(data.map(|data| data.file_offset.max(from)..data.file_offset + data.length))
    }

    fn read(&mut self, offset: u64, mut buffer: &mut [u8]) -> Result<(), Reason> {
        let mut at = offset;
        while !buffer.is_empty() {
            let Some(data) = self.at(at)? else {
                buffer.fill(0);
                return Ok(());
            };
            let hole = data.file_offset.saturating_sub(at);
            let hole = usize::try_from(hole).unwrap_or(usize::MAX).min(buffer.len());
            let (zeros, rest) = std::mem::take(&mut buffer).split_at_mut(hole);
            zeros.fill(0);
            at += hole as u64;
            if rest.is_empty() {
                return Ok(());
            }
            let inside = at - data.file_offset;
            let left = usize::try_from(data.length - inside).unwrap_or(usize::MAX);
            let count = left.min(rest.len());
            let (piece, rest) = rest.split_at_mut(count);
            let read = self.survey.device().read(data.volume_offset + inside, piece);
            read.map_err(|error| error.to_string())?;
            (buffer, at) = (rest, at + count as u64);
        }
        Ok(())
    }
}
