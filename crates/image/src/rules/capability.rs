//! Capabilities of a file, as text (`cap_net_raw+ep`) and as the bytes of `security.capability`.
//!
//! The text is that of cap_from_text(3), the bytes are those of version 2, which Linux reads since
//! 2.6.25; both from their manual pages.

/// Names by number, from capabilities(7).
const NAMES: [&str; 41] = [
    "cap_chown",
    "cap_dac_override",
    "cap_dac_read_search",
    "cap_fowner",
    "cap_fsetid",
    "cap_kill",
    "cap_setgid",
    "cap_setuid",
    "cap_setpcap",
    "cap_linux_immutable",
    "cap_net_bind_service",
    "cap_net_broadcast",
    "cap_net_admin",
    "cap_net_raw",
    "cap_ipc_lock",
    "cap_ipc_owner",
    "cap_sys_module",
    "cap_sys_rawio",
    "cap_sys_chroot",
    "cap_sys_ptrace",
    "cap_sys_pacct",
    "cap_sys_admin",
    "cap_sys_boot",
    "cap_sys_nice",
    "cap_sys_resource",
    "cap_sys_time",
    "cap_sys_tty_config",
    "cap_mknod",
    "cap_lease",
    "cap_audit_write",
    "cap_audit_control",
    "cap_setfcap",
    "cap_mac_override",
    "cap_mac_admin",
    "cap_syslog",
    "cap_wake_alarm",
    "cap_block_suspend",
    "cap_audit_read",
    "cap_perfmon",
    "cap_bpf",
    "cap_checkpoint_restore",
];

const ALL: u64 = (1 << NAMES.len()) - 1;
/// The version of the bytes, and the bit that makes what is permitted effective.
const VERSION_2: u32 = 0x0200_0000;
const EFFECTIVE: u32 = 1;

/// Capabilities of a file. Effective is one bit for all, as Linux stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Capabilities {
    permitted: u64,
    inheritable: u64,
    effective: u64,
}

impl Capabilities {
    /// Those of a mask, permitted and effective, as Android has them.
    pub(super) fn of_mask(mask: u64) -> Capabilities {
        Capabilities { permitted: mask, inheritable: 0, effective: mask }
    }

    /// Reads the text of cap_from_text(3).
    ///
    /// # Errors
    /// What is not understood; effective bits that differ from the others, which no file can have.
    pub(super) fn parse(text: &str) -> Result<Capabilities, String> {
        let mut found = Capabilities::default();
        for clause in text.split_ascii_whitespace() {
            found.read_clause(clause)?;
        }
        let others = found.permitted | found.inheritable;
        match found.effective == 0 || found.effective == others {
            true => Ok(found),
            false => Err("a file has all of its capabilities effective, or none".to_owned()),
        }
    }

    fn read_clause(&mut self, clause: &str) -> Result<(), String> {
        let end =
            clause.find(['+', '-', '=']).ok_or_else(|| format!("{clause:?} has no + or ="))?;
        let (names, mut rest) = clause.split_at(end);
        let mut mask = 0;
        for name in names.split(',').filter(|name| !name.is_empty()) {
            let number = || NAMES.iter().position(|known| known.eq_ignore_ascii_case(name));
            mask |= match name {
                _ if name.eq_ignore_ascii_case("all") => ALL,
                _ => 1 << number().ok_or_else(|| format!("{name:?} is no capability"))?,
            };
        }
        if names.is_empty() {
            mask = ALL;
        }
        while let Some(sign) = rest.chars().next() {
            let after = &rest[1..];
            let end = after.find(['+', '-', '=']).unwrap_or(after.len());
            let (letters, next) = after.split_at(end);
            if sign == '=' {
                [&mut self.permitted, &mut self.inheritable, &mut self.effective]
                    .into_iter()
                    .for_each(|set| *set &= !mask);
            }
            for letter in letters.chars() {
                let set = match letter {
                    'p' => &mut self.permitted,
                    'i' => &mut self.inheritable,
                    'e' => &mut self.effective,
                    _ => return Err(format!("{letter:?} is none of e, i and p")),
                };
                *set = if sign == '-' { *set & !mask } else { *set | mask };
            }
            rest = next;
        }
        Ok(())
    }

    /// The value of `security.capability`; empty where there is nothing to store.
    pub(super) fn bytes(self) -> Vec<u8> {
        if self == Capabilities::default() {
            return Vec::new();
        }
        let version = VERSION_2 | if self.effective > 0 { EFFECTIVE } else { 0 };
        let low = |set: u64| set as u32;
        let high = |set: u64| (set >> 32) as u32;
        let (permitted, inheritable) = (self.permitted, self.inheritable);
        let words = [version, low(permitted), low(inheritable), high(permitted), high(inheritable)];
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_bytes() {
        let raw = Capabilities::parse("cap_net_raw+ep").unwrap();
        let expected = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(raw.bytes(), expected);
        assert_eq!(raw, Capabilities::of_mask(1 << 13));
        let same = Capabilities::parse("CAP_NET_RAW=p cap_net_raw+e").unwrap();
        assert_eq!(same, raw);
        assert_eq!(Capabilities::parse("cap_bpf+i").unwrap().bytes()[19], 0);
        assert_eq!(Capabilities::parse("cap_bpf+i").unwrap().bytes()[16], 1 << 7);
        assert_eq!(Capabilities::parse("all=ep cap_chown-ep").unwrap().permitted, ALL & !1);
        assert!(Capabilities::parse("=").unwrap().bytes().is_empty());
        for wrong in ["cap_net_raw", "cap_x+p", "cap_kill+z", "cap_kill+ep cap_chown+p"] {
            assert!(Capabilities::parse(wrong).is_err(), "{wrong}");
        }
    }
}
