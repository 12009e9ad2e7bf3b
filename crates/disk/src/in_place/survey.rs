//! What of an image refers to which cluster of its file, held against the counts: an image in which
//! that does not fit is not written.
//!
//! Written in place are clusters with a count of 1 that say so (COPIED). Were something else in one
//! of them too, a write would destroy that.
use super::counts::Counts;
use super::entry::{COPIED, Cluster, clusters_of};
use super::medium::Medium;
use crate::read::device::{big_32, big_64};
use crate::read::error::Error;
use crate::read::qcow2::header::{Entries, Header};
use crate::read::qcow2::tables::OFFSET;
use std::collections::BTreeMap;
use std::ops::Range;

/// An image in a file of more clusters is not written: a byte is kept for each while it is opened.
const CLUSTERS_MAX: u64 = 1 << 28;
/// Entries of the L1 tables of all snapshots.
const L1_ENTRIES_MAX: u64 = 1 << 24;
const SNAPSHOTS_MAX: u32 = 1 << 16;
const SNAPSHOT_BYTES: usize = 40;
/// Bytes of extra data of a snapshot that say how large its disk is.
const EXTRA_WITH_SIZE: u64 = 16;

/// Whether each snapshot says how large its disk is: only then may the disk get another size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Snapshots {
    SayTheirSize,
    Silent,
}

/// How often each cluster is referred to; 255 stands for more, too.
struct Survey<'a> {
    header: &'a Header,
    found: Vec<u8>,
    file_bytes: u64,
}

/// Refuses an image whose file has too many clusters.
pub(super) fn check_length(header: &Header, file_bytes: u64) -> Result<(), Error> {
    match file_bytes.div_ceil(header.cluster_bytes()) <= CLUSTERS_MAX {
        true => Ok(()),
        false => {
            let words = "has too many clusters to be written in place";
            Err(Error::Unsupported(words.into()))
        }
    }
}

/// Walks the image.
///
/// # Errors
/// Something is referred to more often than its count says, or outside of the file.
pub(super) fn check(
    header: &Header,
    medium: &Medium,
    l1: &[u64],
    counts: &mut Counts,
) -> Result<Snapshots, Error> {
    let file_bytes = medium.bytes();
    let clusters = file_bytes.div_ceil(header.cluster_bytes()) as usize;
    let mut survey = Survey { header, found: vec![0; clusters], file_bytes };
    let size = header.cluster_bytes();
    let mut alone = vec![
        0..1,
        survey.clusters(header.l1_offset, header.l1_entries * 8)?,
        survey.clusters(counts.table_at, counts.table.len() as u64 * 8)?,
    ];
    for at in counts.table.iter().filter(|at| **at != 0) {
        alone.push(survey.clusters(*at, size)?);
    }
    for range in alone.iter().cloned() {
        survey.add(range, 1)?;
    }
    // The tables of all states, and how many states have each; the active one is told apart.
    let mut tables: BTreeMap<u64, u32> = BTreeMap::new();
    let mut note = |entry: u64| {
        let uses = tables.entry(entry & OFFSET).or_insert(0);
        *uses = uses.saturating_add(1);
    };
    l1.iter().filter(|entry| *entry & OFFSET != 0).for_each(|entry| note(*entry));
    let mut snapshots = Snapshots::SayTheirSize;
    let mut left = L1_ENTRIES_MAX;
    let mut at = header.snapshots_offset;
    if header.snapshots > SNAPSHOTS_MAX {
        return Err(Error::damaged(format!("{} snapshots", header.snapshots), 60));
    }
    for _ in 0..header.snapshots {
        let snapshot = Snapshot::read(medium, at)?;
        if snapshot.extra_bytes < EXTRA_WITH_SIZE {
            snapshots = Snapshots::Silent;
        }
        left = left.checked_sub(snapshot.l1_entries).ok_or_else(|| {
            Error::Unsupported("has snapshots with too many tables to be written".into())
        })?;
        let bytes = snapshot.l1_entries * 8;
        survey.add(survey.clusters(snapshot.l1_offset, bytes)?, 1)?;
        let mut stored = vec![0; bytes as usize];
        medium.read(snapshot.l1_offset, &mut stored)?;
        let entries = stored.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
        entries.filter(|entry| entry & OFFSET != 0).for_each(&mut note);
        at = snapshot.end;
    }
    if header.snapshots > 0 {
        let bytes = at - header.snapshots_offset;
        survey.add(survey.clusters(header.snapshots_offset, bytes)?, 1)?;
    }
    for (table, uses) in &tables {
        survey.add_table(medium, *table, *uses)?;
    }
    survey.judge(counts, medium, &alone)?;
    survey.judge_active(counts, medium, l1)?;
    Ok(snapshots)
}

/// What is needed of a snapshot.
struct Snapshot {
    l1_offset: u64,
    l1_entries: u64,
    extra_bytes: u64,
    /// Where the next one begins.
    end: u64,
}

impl Snapshot {
    fn read(medium: &Medium, at: u64) -> Result<Snapshot, Error> {
        let wrong = || Error::damaged("a snapshot past the end of the file", at);
        let mut head = [0; SNAPSHOT_BYTES];
        let end = at.checked_add(SNAPSHOT_BYTES as u64).ok_or_else(wrong)?;
        if end > medium.bytes() {
            return Err(wrong());
        }
        medium.read(at, &mut head)?;
        let extra_bytes = u64::from(big_32(&head, 36));
        let names = u64::from(big_32(&head, 12) >> 16) + u64::from(big_32(&head, 12) & 0xffff);
        let end = (end + extra_bytes + names).next_multiple_of(8);
        Ok(Snapshot {
            l1_offset: big_64(&head, 0),
            l1_entries: big_32(&head, 8).into(),
            extra_bytes,
            end,
        })
    }
}

impl Survey<'_> {
    /// The clusters that bytes of the file are in.
    fn clusters(&self, at: u64, bytes: u64) -> Result<Range<u64>, Error> {
        // The last cluster of the file may be cut after what is in it.
        let whole = self.file_bytes.next_multiple_of(self.header.cluster_bytes());
        let end = at.checked_add(bytes).filter(|end| *end <= whole);
        let end = end.ok_or_else(|| Error::damaged("a table past the end of the file", at))?;
        Ok(at >> self.header.cluster_bits..end.div_ceil(self.header.cluster_bytes()))
    }

    fn add(&mut self, clusters: Range<u64>, uses: u32) -> Result<(), Error> {
        for cluster in clusters {
            let found = self.found.get_mut(cluster as usize).ok_or_else(|| {
                let at = cluster.saturating_mul(self.header.cluster_bytes());
                Error::damaged("is cut short: a cluster past its end", at)
            })?;
            *found = found.saturating_add(u8::try_from(uses).unwrap_or(u8::MAX));
        }
        Ok(())
    }

    /// An L2 table, and the clusters that it refers to.
    fn add_table(&mut self, medium: &Medium, at: u64, uses: u32) -> Result<(), Error> {
        if !at.is_multiple_of(self.header.cluster_bytes()) {
            return Err(Error::damaged(format!("an L2 table at byte {at}"), at));
        }
        self.add(self.clusters(at, self.header.cluster_bytes())?, uses)?;
        for cluster in self.table(medium, at)? {
            let cluster = Cluster::parse(self.header, self.file_bytes, cluster)?;
            if let Some(place) = cluster.compressed {
                self.add(clusters_of(self.header, place), uses)?;
            } else if cluster.at != 0 {
                let number = cluster.at >> self.header.cluster_bits;
                self.add(number..number + 1, uses)?;
            }
        }
        Ok(())
    }

    /// The words of the entries of a table.
    fn table(&self, medium: &Medium, at: u64) -> Result<Vec<[u64; 2]>, Error> {
        let mut bytes = vec![0; self.header.cluster_bytes() as usize];
        medium.read(at, &mut bytes)?;
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
        let words: Vec<u64> = words.collect();
        Ok(match self.header.entries {
            Entries::Plain => words.into_iter().map(|word| [word, 0]).collect(),
            Entries::WithSubclusters => words.as_chunks::<2>().0.to_vec(),
        })
    }

    /// Holds what was found against the counts.
    fn judge(
        &self,
        counts: &mut Counts,
        medium: &Medium,
        alone: &[Range<u64>],
    ) -> Result<(), Error> {
        for (cluster, found) in (0_u64..).zip(&self.found) {
            if *found == 0 {
                continue;
            }
            if !counts.is_used(cluster) || counts.get(medium, cluster)? < u64::from(*found) {
                return Err(self.wrong("a count that is too low", cluster));
            }
            counts.forget_clean();
        }
        let twice = |cluster: &u64| self.found.get(*cluster as usize).is_some_and(|it| *it > 1);
        match alone.iter().cloned().flatten().find(twice) {
            None => Ok(()),
            Some(cluster) => Err(self.wrong("a table that something else is in, too", cluster)),
        }
    }

    /// Of what the active state may write in place, nobody else may have any.
    fn judge_active(&self, counts: &mut Counts, medium: &Medium, l1: &[u64]) -> Result<(), Error> {
        for entry in l1.iter().filter(|entry| *entry & OFFSET != 0) {
            if entry & COPIED != 0 {
                self.judge_own(counts, medium, entry & OFFSET)?;
            }
            for words in self.table(medium, entry & OFFSET)? {
                let cluster = Cluster::parse(self.header, self.file_bytes, words)?;
                if cluster.is_own {
                    self.judge_own(counts, medium, cluster.at)?;
                }
            }
        }
        Ok(())
    }

    fn judge_own(&self, counts: &mut Counts, medium: &Medium, at: u64) -> Result<(), Error> {
        let cluster = at >> self.header.cluster_bits;
        match counts.get(medium, cluster)? {
            1 => Ok(()),
            _ => {
                Err(self.wrong("a cluster that others use, too, and that says it is not", cluster))
            }
        }
    }

    fn wrong(&self, what: &str, cluster: u64) -> Error {
        let byte = cluster << self.header.cluster_bits;
        Error::Uncounted(format!("has {what}, at byte {byte} of the file, and is not written"))
    }
}
