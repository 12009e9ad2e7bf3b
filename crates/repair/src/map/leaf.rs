//! The entries of a leaf as they can only be, where one of them has another number than was
//! written.
use extant_format::FileBlock;
use extant_format::extent::{self, Extent, ExtentState};

/// Whether each extent begins at or behind the end of the one before it.
pub(super) fn is_in_order(extents: &[Extent]) -> bool {
    extents
        .iter()
        .zip(extents.iter().skip(1))
        .all(|(one, next)| one.file_block.0.saturating_add(one.length) <= next.file_block.0)
}

/// Gives extents of no length the one that they can have, where another one follows.
pub(super) fn set_lengths(extents: &mut [Extent]) {
    let mut rest = extents;
    while let Some((extent, others)) = rest.split_first_mut() {
        let next = others.first().map_or(0, |next| next.file_block.0);
        if extent.length == 0 {
            let most = extent::MAX_LENGTH - 1;
            extent.length = next.saturating_sub(extent.file_block.0).min(most);
        }
        rest = others;
    }
}

/// The room that an extent needs between its neighbours to be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// As long as it is.
    Exact,
    /// At least that: with holes beside it, where it was is not known.
    Enough,
}

/// Sets right where an extent begins that cannot be there, if there is room between its neighbours,
/// or it is the first and has room where the leaf begins; and how long one is that covers the next
/// one. One that is alone, behind the end of the file and as long as the file is all of it.
pub(super) fn set_in_order(
    extents: &mut [Extent],
    begins: FileBlock,
    (file_blocks, room): (u64, Room),
) {
    if let [only] = extents {
        let is_behind = u64::from(only.file_block.0) >= file_blocks;
        let is_all = u64::from(only.length) == file_blocks && begins == FileBlock(0);
        if is_behind && is_all && only.state == ExtentState::Written {
            only.file_block = begins;
        }
        return;
    }
    let mut from = begins.0;
    let mut rest = extents;
    while let Some((extent, others)) = rest.split_first_mut() {
        let next = others.first().map(|next| next.file_block.0);
        let is_first = from == begins.0;
        set_between(extent, (from, next), (file_blocks, is_first, room));
        from = extent.file_block.0.saturating_add(extent.length).max(from);
        rest = others;
    }
}

/// Sets right an extent that should be between two file blocks: the end of the one before it, and
/// the begin of the next one, if there is one.
// tidy: boolean because it is what stands before the leaf's other entries
fn set_between(
    extent: &mut Extent,
    (from, next): (u32, Option<u32>),
    (file_blocks, is_first, needed): (u64, bool, Room),
) {
    let ends = |begin: u32| u64::from(begin).saturating_add(extent.length.into());
    let begin = extent.file_block.0;
    // Where the leaf begins is said by another node, which may be what is wrong.
    let is_before = begin < from && !is_first;
    let (is_behind, room) = match next {
        Some(next) => (begin >= next, u64::from(next)),
        None => (u64::from(begin) >= file_blocks, file_blocks),
    };
    let fits = match needed == Room::Enough || is_first && next.is_some() {
        true => ends(from) <= room,
        false => ends(from) == room,
    };
    if (is_before || is_behind) && fits {
        extent.file_block = FileBlock(from);
        return;
    }
    // The next one says where it ends, if that is where it can be.
    if let Some(next) = next.filter(|next| !is_before && begin < *next && ends(begin) > room) {
        extent.length = next.saturating_sub(begin);
    }
}

#[cfg(test)]
mod tests {
    use super::{Room, set_in_order};
    use extant_format::extent::{Extent, ExtentState};
    use extant_format::{BlockNo, FileBlock};

    /// Extents by where they begin and how long they are.
    fn in_order(given: &[(u32, u32)], begins: u32, file_blocks: u64) -> Vec<(u32, u32)> {
        let state = ExtentState::Written;
        let extent = |(at, length): &(u32, u32)| Extent {
            file_block: FileBlock(*at),
            length: *length,
            start: BlockNo(1000),
            state,
        };
        let mut extents: Vec<Extent> = given.iter().map(extent).collect();
        set_in_order(&mut extents, FileBlock(begins), (file_blocks, Room::Exact));
        extents.iter().map(|extent| (extent.file_block.0, extent.length)).collect()
    }

    #[test]
    fn what_cannot_be_where_it_is_goes_where_it_fits() {
        let whole = [(0, 2), (2, 3), (5, 1), (6, 4)];
        assert_eq!(in_order(&whole, 0, 10), whole);
        // Each extent in turn, far behind or before all.
        for at in 0..whole.len() {
            for place in [0, 1_000_000] {
                let mut damaged = whole;
                damaged[at].0 = place;
                assert_eq!(in_order(&damaged, 0, 10), whole, "{at} at {place}");
            }
        }
        // One that covers the next one is as long as the next one says.
        assert_eq!(in_order(&[(0, 2), (2, 30), (5, 1), (6, 4)], 0, 10), whole);
        // A hole beside it leaves open where it was.
        let odd = [(0, 2), (900, 3), (9, 1)];
        assert_eq!(in_order(&odd, 0, 10), odd);
        assert_eq!(in_order(&[(0, 2), (4, 3), (9, 1)], 0, 10), [(0, 2), (4, 3), (9, 1)]);
        // It is the node above that says something else.
        assert_eq!(in_order(&whole, 1, 10), whole);
    }
}
