//! A tar archive as a source: what its entries say goes into the tree; bodies stay where the reader
//! keeps them until the image is written.
use super::entries::Entries;
use super::intake::Intake;
use super::members::Members;
use super::options::{ArchiveEnd, Containers, ReadOptions};
use super::{Origin, Sources};
use crate::error::{Error, ErrorKind};
use crate::notice::NoticeKind;
use extant_archive::{
    Bodies, End, Entry, ErrorKind as ReadErrorKind, LastWhole, ReadError, Reader, reason,
};
use extant_format::superblock::has_magic;
use std::fs::{File, Metadata};
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Bytes of an ext volume up to the end of its magic number.
const HEAD_BYTES: usize = 1082;

/// What an archive turned out to be.
pub(super) enum Outcome {
    /// A tree, which was laid over the others.
    Laid,
    /// A container image: nothing was laid.
    Container(Members),
}

/// Lays an archive over the tree, unless it is a container image. `file` is a regular file, read
/// from where it is positioned, or anything that can be read once.
pub(super) fn read(
    mut file: File,
    name: &str,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<Outcome, Error> {
    let metadata = file.metadata().map_err(|error| Error::io(name, &error))?;
    refuse_image(&file, name, &metadata)?;
    let bodies = Bodies::Keep { spool_folder: intake.options.spool_folder.clone() };
    let mut watch = match intake.options.containers {
        Containers::Image => Watch::Possible,
        Containers::Files => Watch::Excluded,
    };
    let arrival = intake.options.arrival.clone();
    if arrival.is_some() && watch == Watch::Possible {
        // What is taken as it comes cannot be given back: a container is looked for beforehand.
        watch = Watch::Excluded;
        if metadata.is_file()
            && let Some(members) = look_ahead(&mut file, name, &bodies)?
        {
            return Ok(Outcome::Container(members));
        }
    }
    let reader = match arrival {
        None => Reader::new(file, &bodies),
        Some(arrival) => Reader::with_sink(file, &bodies, Box::new(arrival)),
    };
    let mut reader = reader.map_err(|error| explain(name, intake.options, error))?;
    reader.leave_out(intake.options.zeros());
    let Some(kept) = reader.body_file() else { return Ok(Outcome::Laid) };
    let kept = kept.try_clone().map_err(|error| Error::io(name, &error))?;
    let held = match watch {
        Watch::Possible => {
            let copy = kept.try_clone().map_err(|error| Error::io(name, &error))?;
            Some((Members::new(copy, name), Vec::new()))
        }
        Watch::Excluded => None,
    };
    let archive = match reader.keeps_in_place() {
        true => Some(kept.try_clone().map_err(|error| Error::io(name, &error))?),
        false => None,
    };
    let source = sources.add(Origin::Bytes { file: kept, name: name.to_owned() })?;
    let sink_source = match intake.options.arrival {
        None => source,
        Some(_) => sources.add(Origin::Arrived { name: name.to_owned() })?,
    };
    let mut entries = Entries::new(intake, source, sink_source, name);
    if let Some(archive) = archive {
        entries = entries.in_place(archive);
    }
    lay(reader, entries, name, held)
}

/// Whether an archive may turn out to be a container image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Possible,
    Excluded,
}

/// The members of an archive, if it is a container image; the file is positioned where it was.
fn look_ahead(file: &mut File, name: &str, bodies: &Bodies) -> Result<Option<Members>, Error> {
    let failed = |error: std::io::Error| Error::io(name, &error);
    let start = file.stream_position().map_err(failed)?;
    // Opened once more: a thread of this reader may read on when it is no longer wanted, and a copy
    // of the descriptor has the same position.
    let is_regular = file.metadata().map_err(failed)?.is_file();
    let reopened = || File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
    let Some(mut copy) = is_regular.then(reopened).flatten() else { return Ok(None) };
    copy.seek(SeekFrom::Start(start)).map_err(failed)?;
    // What is wrong with the archive is reported when it is read.
    let members = Reader::new(copy, bodies).ok().and_then(|mut reader| {
        let kept = reader.body_file()?.try_clone().ok()?;
        let mut members = Members::new(kept, name);
        while let Some(entry) = reader.next_entry().ok()? {
            if !members.takes(&entry) {
                return None;
            }
        }
        members.form().map(|_| members)
    });
    Ok(members)
}

/// All members of an archive that is known to be a container image.
///
/// # Errors
/// It cannot be read; what no such archive has.
pub(super) fn members(file: File, name: &str, options: &ReadOptions) -> Result<Members, Error> {
    let bodies = Bodies::Keep { spool_folder: options.spool_folder.clone() };
    let failed = |error| explain(name, options, error);
    let mut reader = Reader::new(file, &bodies).map_err(failed)?;
    let Some(kept) = reader.body_file() else {
        return Err(Error::new(format!("{name}: its files are not kept")));
    };
    let kept = kept.try_clone().map_err(|error| Error::io(name, &error))?;
    let mut members = Members::new(kept, name);
    while let Some(entry) = reader.next_entry().map_err(|error| explain(name, options, error))? {
        members.add(&entry)?;
    }
    Ok(members)
}

/// Reads the entries into the tree. Those in `held` are kept back as long as the archive may be a
/// container image.
fn lay(
    mut reader: Reader,
    mut entries: Entries<'_, '_>,
    name: &str,
    mut held: Option<(Members, Vec<Entry>)>,
) -> Result<Outcome, Error> {
    let mut position = 0;
    loop {
        let next = reader.next_entry();
        let next = next.map_err(|error| explain(name, entries.intake.options, error))?;
        entries.intake.progress.step(reader.position().saturating_sub(position))?;
        position = reader.position();
        let Some(entry) = next else { break };
        if let Some((members, back)) = &mut held
            && members.takes(&entry)
        {
            back.push(entry);
            continue;
        }
        let back = held.take().map(|(_, back)| back).unwrap_or_default();
        for entry in back.into_iter().chain([entry]) {
            entries.add(entry)?;
        }
    }
    match held {
        Some((members, _)) if members.form().is_some() => return Ok(Outcome::Container(members)),
        Some((_, back)) => back.into_iter().try_for_each(|entry| entries.add(entry))?,
        None => {}
    }
    let end = reader.end().unwrap_or(End::Marked);
    note_end(end, reader.last_whole(), name, entries.intake)?;
    Ok(Outcome::Laid)
}

/// The archive has ended: as it should, or in a way that is noted or refused.
pub(super) fn note_end(
    end: End,
    last_whole: Option<&[u8]>,
    name: &str,
    intake: &mut Intake<'_>,
) -> Result<(), Error> {
    let Some(sentence) = end.sentence() else {
        return Ok(());
    };
    let whole = LastWhole(last_whole);
    if intake.options.archive_end == ArchiveEnd::Strict {
        let error = Error::new(format!("{name}: {sentence}; {whole}"));
        return Err(error.of(ErrorKind::ArchiveEnd));
    }
    let (kind, advice) = match end {
        End::Unmarked => (NoticeKind::NoEndMark, "it may have been cut off there"),
        End::ThenArchive | End::TrailerThenBytes => {
            (NoticeKind::BytesAfterEnd, "cut them off to a source of their own")
        }
        End::PackedThenBytes => (NoticeKind::BytesAfterEnd, "as gzip and bzip2 do it"),
        End::Marked | End::ThenBytes => (NoticeKind::BytesAfterEnd, "as every tar does it"),
    };
    intake.notices.add(kind, || format!("{name}: {sentence}: {whole}; {advice}"));
    Ok(())
}

/// An image begins with zeros, as an empty archive does.
fn refuse_image(file: &File, name: &str, metadata: &Metadata) -> Result<(), Error> {
    let mut head = [0; HEAD_BYTES];
    let is_image = metadata.is_file()
        && file.read_exact_at(&mut head, 0).is_ok()
        && head.first() == Some(&0)
        && has_magic(&head);
    match is_image {
        false => Ok(()),
        true => Err(Error::new(format!("{name}: is an ext image, not an archive"))
            .of(ErrorKind::ExtImage { name: name.to_owned() })),
    }
}

/// A sentence with the archive's name.
pub(super) fn explain(name: &str, options: &ReadOptions, error: ReadError) -> Error {
    match error.kind {
        ReadErrorKind::NotAnArchive => {
            Error::new(format!("{name}: is neither a directory nor a tar archive"))
        }
        ReadErrorKind::Spool(cause) => {
            let folder = options.spool_folder.clone().unwrap_or_else(std::env::temp_dir);
            let (folder, cause) = (folder.display(), reason(&cause));
            Error::new(format!("{folder}: the archive's files cannot be kept here: {cause}"))
                .of(ErrorKind::Spool)
        }
        ReadErrorKind::Open(cause) => Error::io(name, &cause),
        ReadErrorKind::Sink(cause) => {
            let message = format!("the image: {}", reason(&cause));
            Error::new(message).of(ErrorKind::Write(cause))
        }
        _ => {
            let message = format!("{name}: {error}");
            let (name, error) = (name.to_owned(), Box::new(error));
            Error::new(message).of(ErrorKind::Archive { name, error })
        }
    }
}
