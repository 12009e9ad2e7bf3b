//! Ranges of the model's files: zeroed, taken out, pushed in.
use crate::model::tree::{Content, EFBIG, EINVAL, EOPNOTSUPP, Id, Outcome, Tree};
use extant_engine::Size;
use extant_format::inode::FileType;

impl Content {
    /// What lies at an offset and after it moves to another.
    fn shift(&mut self, from: u64, to: u64) {
        let moved = self.pages().filter(|page| page.end > from).map(|page| {
            let start = page.start.max(from);
            let mut bytes = vec![0; (page.end - start) as usize];
            self.read(start, &mut bytes);
            (start - from + to, bytes)
        });
        let moved: Vec<(u64, Vec<u8>)> = moved.collect();
        self.zero(from.min(to)..u64::MAX);
        moved.iter().for_each(|(at, bytes)| self.write(*at, bytes));
    }
}

impl Tree {
    fn check_ranges(&self, id: Id, length: u64) -> Outcome<()> {
        if length == 0 {
            return Err(EINVAL);
        }
        self.check_not_append(id)?;
        self.check_changeable(id)?;
        if self.object(id).kind != FileType::Regular {
            return Err(EINVAL);
        }
        if self.limits.has_extents { Ok(()) } else { Err(EOPNOTSUPP) }
    }

    fn check_aligned(&self, offset: u64, length: u64) -> Outcome<u64> {
        let block_size = self.limits.block_size;
        if !offset.is_multiple_of(block_size) || !length.is_multiple_of(block_size) {
            return Err(EINVAL);
        }
        offset.checked_add(length).ok_or(EFBIG)
    }

    pub fn zero_range(&mut self, id: Id, offset: u64, length: u64, size: Size) -> Outcome<()> {
        self.check_ranges(id, length)?;
        let end = offset.checked_add(length).filter(|end| *end <= self.limits.size_max);
        let end = end.ok_or(EFBIG)?;
        let object = self.get(id);
        object.content.zero(offset..end);
        object.reach = object.reach.max(end);
        if size == Size::Grow {
            object.size = object.size.max(end);
        }
        self.changed(id);
        Ok(())
    }

    pub fn collapse_range(&mut self, id: Id, offset: u64, length: u64) -> Outcome<()> {
        self.check_ranges(id, length)?;
        let end = self.check_aligned(offset, length)?;
        let object = self.get(id);
        if end >= object.size {
            return Err(EINVAL);
        }
        object.content.zero(offset..end);
        object.content.shift(end, offset);
        object.size -= length;
        object.reach = object.reach.saturating_sub(length);
        self.changed(id);
        Ok(())
    }

    pub fn insert_range(&mut self, id: Id, offset: u64, length: u64) -> Outcome<()> {
        self.check_ranges(id, length)?;
        self.check_aligned(offset, length)?;
        let size = self.object(id).size.checked_add(length);
        let size = size.filter(|size| *size <= self.limits.size_max).ok_or(EFBIG)?;
        let block_size = self.limits.block_size;
        let object = self.get(id);
        // No block may pass the last one that a map can have, whatever the size.
        let reach = object.reach.max(object.size) + length;
        if offset >= object.size || reach.div_ceil(block_size) > u32::MAX.into() {
            return Err(EINVAL);
        }
        object.content.shift(offset, offset + length);
        object.size = size;
        object.reach = reach;
        self.changed(id);
        Ok(())
    }
}
