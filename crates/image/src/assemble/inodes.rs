//! How many inodes an image gets: those of its content, those asked for, and those that come with
//! free room.
//!
//! Free room without inodes is of no use to small files. So a stretch of free room brings as many
//! inodes as mke2fs would give to it on a volume of that size: one for each 16 KiB, on volumes
//! below 512 MiB one for each 4 KiB, below 3 MiB one for each 8 KiB. Another ratio can be
//! asked for. Where a number of inodes is asked for, or a number of free ones, room brings none
//! besides.
use super::room::Room;
use crate::source::GroupInodes;
use extant_engine::mkfs::{Identity, Profile, default_wishes};
use extant_format::layout::Inodes;

/// How many inodes an image is to have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InodeWish {
    /// Those of the content, those that mkfs makes, and the spare ones asked for.
    pub needed: u64,
    /// A number, or a ratio, that was asked for: never less than that.
    pub asked: Option<Inodes>,
    /// What free room brings; `None` where it brings nothing.
    pub of_room: Option<RoomInodes>,
    /// What each group has, where its table has its place before the number of files is known.
    pub of_groups: Option<GroupInodes>,
}

/// The inodes of free room.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RoomInodes {
    /// The free room.
    pub room: Room,
    /// The row of mke2fs's table.
    pub profile: Profile,
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of an inode.
    pub inode_size: u16,
    /// Bytes for each inode, once decided; until then the size of the volume decides.
    pub kept_ratio: Option<u64>,
}

impl InodeWish {
    /// The same, with the ratio that a volume of this many bytes has, whatever its size becomes.
    pub fn with_ratio_of(&self, bytes: u64) -> InodeWish {
        let of_room = self.of_room.map(|of_room| RoomInodes {
            kept_ratio: Some(of_room.ratio(bytes, self.asked)),
            ..of_room
        });
        InodeWish { of_room, ..*self }
    }

    /// For a volume of this many bytes, by what was asked for alone.
    pub fn asked_for(&self, bytes: u64) -> Option<u64> {
        match self.asked {
            Some(Inodes::AtLeast(count) | Inodes::About(count)) => Some(count),
            Some(Inodes::BytesPerInode(ratio)) => Some(bytes / ratio.max(1)),
            None => None,
        }
    }

    /// Inodes of a volume of this many bytes, at least. Where groups have theirs, exactly those,
    /// whether or not they suffice: see [`InodeWish::wanted`].
    pub fn count(&self, bytes: u64) -> Inodes {
        let wanted = self.wanted(bytes);
        // Rounding down to bytes of the bitmap takes less than half.
        if let Some(Inodes::About(count)) = self.asked
            && self.of_groups.is_none()
            && count == wanted
            && count / 2 >= self.needed
        {
            return Inodes::About(count);
        }
        Inodes::AtLeast(self.of_groups.map_or(wanted, |groups| groups.count(bytes)))
    }

    /// Inodes that a volume of this many bytes is to have, whatever its groups have.
    pub fn wanted(&self, bytes: u64) -> u64 {
        let spare = self.of_room.map_or(0, |of_room| of_room.count(bytes, self.asked));
        let needed = self.needed.saturating_add(spare);
        needed.max(self.asked_for(bytes).unwrap_or(0))
    }

    /// What a volume of a fixed size of `bytes` may have, the most first, where `free_bytes` of it
    /// are left when it has no spare inode: as many as mke2fs gives to the whole volume or the room
    /// brings; as many as surely fit into that room beside their files; those needed.
    pub fn of_fixed_size(&self, bytes: u64, free_bytes: u64) -> Vec<InodeWish> {
        let Some(of_room) = self.of_room else {
            return vec![*self];
        };
        let ratio = of_room.ratio(bytes, self.asked);
        let with_room = |bytes: u64| InodeWish {
            of_room: Some(RoomInodes { room: Room::Bytes(bytes), ..of_room }),
            ..*self
        };
        let generous = InodeWish {
            asked: self.asked.or(Some(Inodes::BytesPerInode(ratio))),
            ..with_room(free_bytes)
        };
        let each = u128::from(ratio) + u128::from(of_room.inode_size);
        let beside_tables = u128::from(free_bytes) * u128::from(ratio) / each;
        let fitting = with_room(u64::try_from(beside_tables).unwrap_or(free_bytes));
        vec![generous, fitting, with_room(0)]
    }
}

impl RoomInodes {
    /// Bytes for each inode, on a volume of this many bytes.
    fn ratio(&self, bytes: u64, asked: Option<Inodes>) -> u64 {
        if let Some(ratio) = self.kept_ratio {
            return ratio;
        }
        let usual =
            || default_wishes(self.profile, bytes, Some(self.block_size), Identity::NONE).inodes;
        match asked.unwrap_or_else(usual) {
            Inodes::BytesPerInode(ratio) => ratio.max(1),
            Inodes::AtLeast(_) | Inodes::About(_) => u64::MAX,
        }
    }

    fn count(&self, bytes: u64, asked: Option<Inodes>) -> u64 {
        let mut ratio = self.ratio(bytes, asked);
        let room_bytes = match self.room {
            Room::Bytes(room) => room,
            Room::PerMille(share) => {
                let (share, rest) = (u64::from(share), u64::from(1000 - share.min(999)));
                // The inode tables have to fit into what is not free. Where the share leaves too
                // little for them there are fewer inodes: tables take at most half of the rest.
                while ratio.saturating_mul(rest)
                    < share.saturating_mul(self.inode_size.into()).saturating_mul(2)
                {
                    ratio = ratio.saturating_mul(2);
                }
                u64::try_from(u128::from(bytes) * u128::from(share) / 1000).unwrap_or(u64::MAX)
            }
        };
        room_bytes / ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(room: Room, asked: Option<Inodes>) -> InodeWish {
        InodeWish {
            needed: 100,
            asked,
            of_room: Some(RoomInodes {
                room,
                profile: Profile::Ext4,
                block_size: 4096,
                inode_size: 256,
                kept_ratio: None,
            }),
            of_groups: None,
        }
    }

    #[test]
    fn room_brings_inodes_in_the_ratio_of_mke2fs() {
        let cases = [
            (Room::Bytes(0), 1 << 30, 100),
            (Room::Bytes(1 << 20), 2 << 20, 100 + 128),
            (Room::Bytes(20 << 20), 30 << 20, 100 + 5120),
            (Room::Bytes(1 << 30), 2 << 30, 100 + 65_536),
            (Room::PerMille(500), 40 << 20, 100 + 5120),
            // At 95 % of the image, tables of a 16th of it would leave nothing to the content.
            (Room::PerMille(950), 400 << 20, 100 + 24_320),
        ];
        for (room, bytes, count) in cases {
            assert_eq!(
                wish(room, None).count(bytes),
                Inodes::AtLeast(count),
                "{room:?} of {bytes}"
            );
        }
        let ratio = Some(Inodes::BytesPerInode(1 << 20));
        assert_eq!(wish(Room::Bytes(200 << 20), ratio).count(300 << 20), Inodes::AtLeast(300));
        let number = Some(Inodes::AtLeast(5000));
        assert_eq!(wish(Room::Bytes(200 << 20), number).count(300 << 20), Inodes::AtLeast(5000));
    }

    #[test]
    fn a_kept_ratio_is_that_of_every_size() {
        let kept = wish(Room::Bytes(1 << 30), None).with_ratio_of(2 << 30);
        assert_eq!(kept.count(2 << 20), Inodes::AtLeast(100 + 65_536));
    }

    #[test]
    fn a_fixed_size_has_what_mke2fs_gives_it_or_what_its_room_brings() {
        let counts = |free: u64| -> Vec<Inodes> {
            let wishes = wish(Room::Bytes(0), None).of_fixed_size(64 << 20, free);
            wishes.iter().map(|wish| wish.count(64 << 20)).collect()
        };
        assert_eq!(counts(60 << 20), [16_384, 100 + 14_456, 100].map(Inodes::AtLeast).to_vec());
        let mut crowded = wish(Room::Bytes(0), None);
        crowded.needed = 30_000;
        let first = crowded.of_fixed_size(64 << 20, 4 << 20)[0].count(64 << 20);
        assert_eq!(first, Inodes::AtLeast(31_024));
        let none = InodeWish { of_room: None, ..crowded };
        assert_eq!(none.of_fixed_size(64 << 20, 4 << 20), [none]);
    }
}
