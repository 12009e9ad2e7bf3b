//! What is in the superblock alone.
use super::{Drawn, Tuning, UuidWish, Wanted};
use crate::error::Error;
use extant_format::superblock::{Superblock, mount_option, state, superblock_flags};

/// One field as it is to be.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Field {
    Label([u8; 16]),
    Uuid([u8; 16]),
    ReservedBlocks(u64),
    Drawn(Tuning),
}

/// How often a mount looks at its block, in seconds, where nobody says it.
pub(super) const INTERVAL_SECONDS: u16 = 5;

/// As many bytes as there is room for.
fn padded<const BYTES: usize>(text: &[u8]) -> [u8; BYTES] {
    let mut padded = [0; BYTES];
    for (to, from) in padded.iter_mut().zip(text) {
        *to = *from;
    }
    padded
}

/// A UUID of this version, RFC 9562's variant.
fn shaped(mut bytes: [u8; 16], version: u8) -> [u8; 16] {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// The UUID that is wanted.
fn uuid(wish: UuidWish, drawn: &Drawn) -> [u8; 16] {
    const STEPS_FROM_1582_TO_1970: u64 = 0x01b2_1dd2_1381_4000;
    match wish {
        UuidWish::Given(uuid) => uuid,
        UuidWish::Clear => [0; 16],
        UuidWish::Random => shaped(drawn.random, 4),
        UuidWish::ByTime => {
            let steps = drawn.now_seconds.wrapping_mul(10_000_000);
            let steps = steps.wrapping_add(STEPS_FROM_1582_TO_1970).to_be_bytes();
            let [h0, h1, m0, m1, l0, l1, l2, l3] = steps;
            let mut bytes = drawn.random;
            bytes[..8].copy_from_slice(&[l0, l1, l2, l3, m0, m1, h0, h1]);
            bytes[10] |= 1;
            shaped(bytes, 1)
        }
    }
}

/// The field that a change is of; `None` for one of more than a field.
///
/// # Errors
/// No volume like this can have it.
pub(super) fn field(
    before: &Superblock,
    asked: &Tuning,
    drawn: &Drawn,
) -> Result<Option<Field>, Error> {
    Ok(Some(match asked {
        Tuning::Label(label) => Field::Label(padded(label)),
        Tuning::Uuid(wish) => Field::Uuid(uuid(*wish, drawn)),
        Tuning::ReservedPercent(percent) => {
            let blocks = before.blocks_count as f64 * percent / 100.0;
            Field::ReservedBlocks(blocks as u64)
        }
        Tuning::ReservedBlocks(blocks) => match *blocks > before.blocks_count / 2 {
            true => {
                let why = format!("reserved blocks count is too big ({blocks})");
                return Err(Error::Refused(why));
            }
            false => Field::ReservedBlocks(*blocks),
        },
        Tuning::RandomMaxMountCount => {
            let count = 20 + i16::from(drawn.random[0] % 21);
            Field::Drawn(Tuning::MaxMountCount(count))
        }
        Tuning::Feature(..)
        | Tuning::Journal(_)
        | Tuning::Quota(..)
        | Tuning::Encoding(..)
        | Tuning::OrphanFileSize(_)
        | Tuning::ClearMountBlock
        | Tuning::InodeSize(_) => return Ok(None),
        other => Field::Drawn(other.clone()),
    }))
}

/// Sets a field.
pub(super) fn apply(superblock: &mut Superblock, field: &Field) {
    match field {
        Field::Label(label) => superblock.label = *label,
        Field::Uuid(uuid) => superblock.uuid = *uuid,
        Field::ReservedBlocks(blocks) => superblock.reserved_blocks = *blocks,
        Field::Drawn(tuning) => apply_drawn(superblock, tuning),
    }
}

fn apply_drawn(superblock: &mut Superblock, tuning: &Tuning) {
    match tuning {
        Tuning::ReservedUser(user) => superblock.default_uid = *user,
        Tuning::ReservedGroup(group) => superblock.default_gid = *group,
        Tuning::MaxMountCount(count) => superblock.max_mount_count = *count,
        Tuning::MountCount(count) => superblock.mount_count = *count,
        Tuning::CheckInterval(seconds) => superblock.check_interval_seconds = *seconds,
        Tuning::LastChecked(seconds) => superblock.checked_seconds = *seconds,
        Tuning::OnError(what) => superblock.errors_behavior = *what,
        Tuning::MountOption(bits, wanted) => {
            let options = &mut superblock.default_mount_options;
            // The mode of the journal is one number: another one takes its place.
            if bits & mount_option::JOURNAL_MODE != 0 {
                *options &= !mount_option::JOURNAL_MODE;
            }
            match wanted {
                Wanted::Set => *options |= bits,
                Wanted::Cleared => *options &= !bits,
            }
        }
        Tuning::MountOptions(words) => superblock.set_mount_options(words),
        Tuning::LastMounted(path) => superblock.last_mounted = padded(path),
        Tuning::Hash(version) => superblock.hash_version = *version,
        Tuning::Stride(blocks) => superblock.raid_stride = *blocks,
        Tuning::StripeWidth(blocks) => superblock.raid_stripe_width = *blocks,
        Tuning::TestFlag(Wanted::Set) => superblock.add_flags(superblock_flags::TEST_FILESYSTEM),
        Tuning::TestFlag(Wanted::Cleared) => {
            superblock.remove_flags(superblock_flags::TEST_FILESYSTEM);
        }
        Tuning::ForceCheck => superblock.state |= state::ERRORS,
        Tuning::MountInterval(seconds) => {
            let seconds = if *seconds == 0 { INTERVAL_SECONDS } else { *seconds };
            superblock.set_mount_block(superblock.mount_block(), seconds);
        }
        // Resolved before, or of more than a field.
        _ => {}
    }
}
