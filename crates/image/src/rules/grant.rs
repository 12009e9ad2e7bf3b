//! What a rule gives a file; what it does not name, stays.
use super::capability::Capabilities;
use crate::error::Error;
use crate::tree::{NodeId, Tree};
use extant_format::attribute::Attribute;
use extant_format::inode::FileType;

/// The attributes that labels and capabilities are.
const LABEL: &[u8] = b"security.selinux";
const CAPABILITY: &[u8] = b"security.capability";

/// What a file gets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Grant {
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    /// The lower twelve bits; a symlink keeps its own.
    pub(super) permissions: Option<u16>,
    /// SELinux's, without the NUL at its end.
    pub(super) label: Option<Vec<u8>>,
    /// Of a regular file.
    pub(super) capabilities: Option<Capabilities>,
    /// Flags of the inode.
    pub(super) flags: Option<u32>,
}

impl Grant {
    /// This, and what `later` says in place of it.
    pub(super) fn with(self, later: &Grant) -> Grant {
        Grant {
            uid: later.uid.or(self.uid),
            gid: later.gid.or(self.gid),
            permissions: later.permissions.or(self.permissions),
            label: later.label.clone().or(self.label),
            capabilities: later.capabilities.or(self.capabilities),
            flags: later.flags.or(self.flags),
        }
    }
}

impl Tree {
    /// Gives a file what a rule says.
    pub(super) fn grant(&mut self, node: NodeId, grant: &Grant) -> Result<(), Error> {
        let file_type = self.file_type(node);
        if let Some(uid) = grant.uid {
            self.set_uid(node, uid);
        }
        if let Some(gid) = grant.gid {
            self.set_gid(node, gid);
        }
        if let Some(permissions) = grant.permissions
            && file_type != FileType::Symlink
        {
            self.set_permissions(node, permissions);
        }
        if let Some(flags) = grant.flags {
            self.set_flags(node, flags);
        }
        let label = grant.label.as_ref().map(|label| [&label[..], b"\0"].concat());
        let capabilities = grant.capabilities.filter(|_| file_type == FileType::Regular);
        let given = [(LABEL, label), (CAPABILITY, capabilities.map(Capabilities::bytes))];
        let given: Vec<Attribute> = given
            .into_iter()
            .filter_map(|(name, value)| Some(Attribute { name: name.to_vec(), value: value? }))
            .collect();
        if given.is_empty() {
            return Ok(());
        }
        let mut attributes = self.attributes(node).to_vec();
        for one in given {
            attributes.retain(|before| before.name != one.name);
            // No bits at all: the file has no capabilities.
            if !one.value.is_empty() {
                attributes.push(one);
            }
        }
        self.set_attributes(node, &attributes)
    }
}
