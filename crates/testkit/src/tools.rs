//! What the tests call and read from the host, and the Debian package of each.

use crate::command::find;
use crate::skips::skip;
use std::path::PathBuf;

/// A program that a test calls, and the package that holds it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { program: "mke2fs", package: "e2fsprogs" },
    Tool { program: "e2fsck", package: "e2fsprogs" },
    Tool { program: "dumpe2fs", package: "e2fsprogs" },
    Tool { program: "debugfs", package: "e2fsprogs" },
    Tool { program: "tune2fs", package: "e2fsprogs" },
    Tool { program: "resize2fs", package: "e2fsprogs" },
    Tool { program: "getfattr", package: "attr" },
    Tool { program: "setfattr", package: "attr" },
    Tool { program: "getfacl", package: "acl" },
    Tool { program: "tar", package: "tar" },
    Tool { program: "xz", package: "xz-utils" },
    Tool { program: "zstd", package: "zstd" },
    Tool { program: "gzip", package: "gzip" },
    Tool { program: "mount", package: "mount" },
    Tool { program: "losetup", package: "mount" },
    Tool { program: "e2label", package: "e2fsprogs" },
    Tool { program: "fusermount3", package: "fuse3" },
    Tool { program: "bsdtar", package: "libarchive-tools" },
    Tool { program: "python3", package: "python3" },
    Tool { program: "fakeroot", package: "fakeroot" },
    Tool { program: "fakeroot-pseudo", package: "pseudo" },
    Tool { program: "setpriv", package: "util-linux" },
    Tool { program: "sfdisk", package: "fdisk" },
    Tool { program: "sgdisk", package: "gdisk" },
    Tool { program: "genext2fs", package: "genext2fs" },
    Tool { program: "getcap", package: "libcap2-bin" },
    Tool { program: "veritysetup", package: "cryptsetup-bin" },
    Tool { program: "qemu-img", package: "qemu-utils" },
    Tool { program: "qemu-system-x86_64", package: "qemu-system-x86" },
    Tool { program: "simg2img", package: "android-sdk-libsparse-utils" },
    Tool { program: "bmaptool", package: "bmap-tools" },
    Tool { program: "mmdebstrap", package: "mmdebstrap" },
    Tool { program: "img2simg", package: "android-sdk-libsparse-utils" },
    Tool { program: "unshare", package: "util-linux" },
    Tool { program: "script", package: "bsdutils" },
    Tool { program: "chromium", package: "chromium" },
    Tool { program: "setcap", package: "libcap2-bin" },
    Tool { program: "bzip2", package: "bzip2" },
    Tool { program: "lz4", package: "lz4" },
    Tool { program: "blkparse", package: "blktrace" },
    Tool { program: "fio", package: "fio" },
    Tool { program: "readelf", package: "binutils" },
    Tool { program: "addpart", package: "util-linux" },
    Tool { program: "cc", package: "gcc" },
    Tool { program: "g++", package: "g++" },
    Tool { program: "nm", package: "binutils" },
    Tool { program: "pkg-config", package: "pkg-config" },
    Tool { program: "valgrind", package: "valgrind" },
    Tool { program: "go", package: "golang-go" },
    Tool { program: "dpkg-deb", package: "dpkg" },
    Tool { program: "busybox", package: "busybox" },
    Tool { program: "7z", package: "p7zip-full" },
    Tool { program: "cpio", package: "cpio" },
    Tool { program: "git", package: "git" },
    Tool { program: "skopeo", package: "skopeo" },
    Tool { program: "umoci", package: "umoci" },
    Tool { program: "buildah", package: "buildah" },
];

/// Test data of another project: where it may be, and the package that puts it there.
pub struct Data {
    /// Paths; in the last part of one, a star stands for anything.
    places: &'static [&'static str],
    package: &'static str,
}

/// The archive that Python's own tests read.
pub const PYTHON_ARCHIVE: Data =
    Data { places: &["/usr/lib/python3.11/test/testtar.tar"], package: "libpython3.11-testsuite" };

/// The folder of archives that the tests of Go's archive/tar read.
pub const GO_ARCHIVES: Data = Data {
    places: &[
        "/usr/local/go/src/archive/tar/testdata",
        "/usr/share/go-1.19/src/archive/tar/testdata",
    ],
    package: "golang-1.19-src",
};

/// A kernel for virtual machines, with the first file system that it boots from beside it.
pub const KERNEL: Data =
    Data { places: &["/boot/vmlinuz-*-cloud-amd64"], package: "linux-image-cloud-amd64" };

const DATA: &[&Data] = &[&PYTHON_ARCHIVE, &GO_ARCHIVES, &KERNEL];

/// Where the data is; if it is not here, `None` and a line that says so.
///
/// # Panics
/// It is not here and this is the gate.
pub fn require_data(data: &Data) -> Option<PathBuf> {
    let found = data.find();
    if found.is_none() {
        skip(format_args!("no {}", data.package));
    }
    found
}

impl Data {
    fn find(&self) -> Option<PathBuf> {
        self.places.iter().find_map(|place| matching(place))
    }
}

/// The last file, by name, that a path with a star in its last part may mean.
fn matching(place: &str) -> Option<PathBuf> {
    let Some((head, tail)) = place.split_once('*') else {
        return Some(PathBuf::from(place)).filter(|place| place.exists());
    };
    let (folder, prefix) = head.rsplit_once('/')?;
    let fits = |name: &str| name.starts_with(prefix) && name.ends_with(tail);
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let files = entries.filter(|entry| entry.file_name().to_str().is_some_and(fits));
    files.map(|entry| entry.path()).max()
}

/// The packages of the programs and data that are not here, each once.
pub fn missing() -> Vec<&'static str> {
    let mut packages: Vec<_> =
        TOOLS.iter().filter(|tool| find(tool.program).is_none()).map(|tool| tool.package).collect();
    packages.extend(DATA.iter().filter(|data| data.find().is_none()).map(|data| data.package));
    packages.dedup();
    packages
}
