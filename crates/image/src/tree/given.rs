//! What the maker of a volume gives a finished tree: the root's facts, and no attributes.
use super::{NONE, NodeId, Tree};
use crate::error::Error;
use extant_format::attribute::Attribute;
use extant_format::inode::Time;

/// The attribute that a label is.
const LABEL: &[u8] = b"security.selinux";

/// What the root directory gets in place of what its source says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootFacts {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The lower twelve bits of its mode.
    pub permissions: u16,
    /// When it was made: all its times.
    pub time: Time,
    /// SELinux's label, without the NUL at its end.
    pub label: Option<Vec<u8>>,
}

impl Tree {
    /// Gives the root these facts.
    ///
    /// # Errors
    /// More different lists of attributes than can be numbered.
    pub fn give_root(&mut self, facts: &RootFacts) -> Result<(), Error> {
        self.set_uid(NodeId::ROOT, facts.uid);
        self.set_gid(NodeId::ROOT, facts.gid);
        self.set_permissions(NodeId::ROOT, facts.permissions);
        let root = &mut self.nodes[NodeId::ROOT.index()];
        root.seconds = facts.time.seconds;
        root.nanoseconds = facts.time.nanoseconds;
        root.times = NONE;
        let Some(label) = &facts.label else { return Ok(()) };
        let mut attributes = self.attributes(NodeId::ROOT).to_vec();
        attributes.retain(|attribute| attribute.name != LABEL);
        let value = [&label[..], b"\0"].concat();
        attributes.push(Attribute { name: LABEL.to_vec(), value });
        self.set_attributes(NodeId::ROOT, &attributes)
    }

    /// Takes every extended attribute away, access lists too. Returns how many files had some.
    pub fn drop_attributes(&mut self) -> u64 {
        let mut files = 0;
        for node in &mut self.nodes {
            files += u64::from(node.links > 0 && node.attributes != NONE);
            node.attributes = NONE;
        }
        files
    }
}
