//! Who may take the blocks that a volume reserves.
//!
//! As in ext4(5): the superuser, the user of `resuid`, and the members of the group of `resgid`
//! unless that is 0. The superblock has both, and the options of the mount count more. Who has
//! mounted the image is its superuser.
//!
//! What the kernel sends later does not say who wrote it. So what is written to a file is judged by
//! who has opened it.
use super::Identities;
use super::identities::is_master;
use crate::protocol::Request;
use extant_format::superblock::Superblock;

/// Who is meant, as numbers of the host. `None`: as the superblock says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reserve {
    /// `resuid`
    pub uid: Option<u32>,
    /// `resgid`
    pub gid: Option<u32>,
}

/// Who it is on a volume.
pub(super) struct Keepers {
    has_reserve: bool,
    uid: u32,
    gid: u32,
}

impl Keepers {
    pub(super) fn new(said: Reserve, volume: &Superblock, identities: &Identities) -> Keepers {
        let users = || identities.users.outside(volume.default_uid.into());
        let groups = || identities.groups.outside(volume.default_gid.into());
        Keepers {
            has_reserve: volume.reserved_blocks > 0,
            uid: said.uid.unwrap_or_else(users),
            gid: said.gid.unwrap_or_else(groups),
        }
    }

    /// Whether the process that asks is one of them.
    pub(super) fn have(&self, request: &Request<'_>) -> bool {
        let is_member = || self.gid == request.gid || is_in_group(request.pid, self.gid);
        !self.has_reserve
            || is_master(request.uid)
            || request.uid == self.uid
            || self.gid != 0 && is_member()
    }
}

/// Whether a process has this supplementary group. A request names one group alone.
fn is_in_group(process: u32, group: u32) -> bool {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(path).unwrap_or_default();
    lists_group(&status, group)
}

fn lists_group(status: &str, group: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let mut groups = line.unwrap_or_default().split_ascii_whitespace();
    groups.any(|number| number.parse() == Ok(group))
}

#[cfg(test)]
mod tests {
    use super::lists_group;

    #[test]
    fn supplementary_groups_are_in_the_status_of_a_process() {
        let status = "Name:\tx\nGid:\t7\t7\t7\t7\nGroups:\t4 24 1007 \nVmPeak:\t 9 kB\n";
        assert!([4, 24, 1007].iter().all(|group| lists_group(status, *group)));
        assert!([7, 9, 100, 0].iter().all(|group| !lists_group(status, *group)));
        assert!(!lists_group("", 0) && !lists_group("Groups:\t\n", 0));
    }
}
