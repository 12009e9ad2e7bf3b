//! Salts and GUIDs that are the same every time.
use sha2::{Digest, Sha256};

/// What tells one disk from another: the UUID of its volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed(pub [u8; 16]);

impl Seed {
    /// 32 bytes for a purpose, which differ from those for any other.
    pub fn bytes(&self, purpose: &str) -> [u8; 32] {
        Sha256::new().chain_update(self.0).chain_update(purpose).finalize().into()
    }

    /// A UUID for a purpose, in the shape of one that was made of other data (version 8 of
    /// RFC 9562).
    pub fn uuid(&self, purpose: &str) -> [u8; 16] {
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&self.bytes(purpose)[..16]);
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }
}
