//! Room and inodes to leave free, and the size of an image.

/// Room to leave free: a number of bytes, or a share of the whole image.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Room {
    /// In bytes.
    Bytes(u64),
    /// Per mille of the image's size, 0 to 999.
    PerMille(u32),
}

impl Room {
    /// No room besides the content.
    pub const NONE: Room = Room::Bytes(0);
}

/// Inodes to leave free: a number of them, or a share of all that the image has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FreeInodes {
    /// At least this many.
    Count(u32),
    /// Per mille of the image's inodes, 0 to 999.
    PerMille(u32),
}

impl FreeInodes {
    /// How many are spare, where `used` are not.
    pub fn beside(self, used: u64) -> u64 {
        match self {
            FreeInodes::Count(count) => count.into(),
            FreeInodes::PerMille(share) => {
                let share = u64::from(share.min(999));
                used.saturating_mul(share).div_ceil(1000 - share)
            }
        }
    }
}

/// How large an image is to be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ImageSize {
    /// As large as its content needs, and this much free space.
    Exact(Room),
    /// This many bytes, whatever the content needs.
    Fixed(u64),
}

#[cfg(test)]
mod tests {
    use super::FreeInodes;

    #[test]
    fn free_inodes_are_a_number_or_a_share_of_all() {
        assert_eq!(FreeInodes::Count(1000).beside(5), 1000);
        assert_eq!(FreeInodes::PerMille(500).beside(30), 30);
        assert_eq!(FreeInodes::PerMille(200).beside(81), 21);
        assert_eq!(FreeInodes::PerMille(0).beside(81), 0);
    }
}
