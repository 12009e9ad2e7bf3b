//! Mount points below a source directory, and file systems that hold no files.
use rustix::fd::BorrowedFd;

/// File systems whose files the kernel makes up while they are read: a file of 0 bytes has content,
/// one of 4,096 bytes has five, and `/proc/kcore` claims to be as large as the address space. By
/// the type that `statfs` gives, as its manual page lists them.
const KERNEL_MADE: &[(u32, &str)] = &[
    (0x0000_9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x6265_6570, "configfs"),
    (0xcafe_4a11, "bpf"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6573_5543, "fusectl"),
];

/// The name of the file system that an open folder is on, if the kernel makes up what is in it.
pub(super) fn kernel_made(folder: BorrowedFd<'_>) -> Option<&'static str> {
    named(rustix::fs::fstatfs(folder).ok()?.f_type as u32)
}

fn named(kind: u32) -> Option<&'static str> {
    let found = KERNEL_MADE.iter().find(|(number, _)| *number == kind);
    found.map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::fs::File;

    #[test]
    fn the_kernels_file_systems_are_known_by_their_type() {
        let on = |path: &str| kernel_made(File::open(path).unwrap().as_fd());
        assert_eq!(on("/proc/self"), Some("proc"));
        assert_eq!(on("/sys"), Some("sysfs"));
        assert_eq!(on(std::env::temp_dir().to_str().unwrap()), None);
    }
}
