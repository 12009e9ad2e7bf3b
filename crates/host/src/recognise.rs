//! What a file that is no ext volume is instead, by its first bytes, and what can be done with it.
//!
//! One table for every command that opens an image, and for those that are about to write over one.
//! Rows are in the order in which they are tried: a file system's boot sector ends like a
//! partition table, so what names itself comes first.
use extant_block::BlockDevice;
use extant_tree::magic;

/// Something that is known by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForeignFormat {
    /// In words, with its article: "a qcow2 image".
    pub name: &'static str,
    /// The byte at which the mark is.
    at: usize,
    mark: &'static [u8],
    /// What to do, with `{}` for the file's name.
    advice: &'static str,
}

const fn kind(
    name: &'static str,
    at: usize,
    mark: &'static [u8],
    advice: &'static str,
) -> ForeignFormat {
    ForeignFormat { name, at, mark, advice }
}

const CONVERT: &str = "make a raw image of it: qemu-img convert -O raw {} disk.img";
const MOUNT: &str = "extant reads ext2, ext3 and ext4; mount this one: mount -o loop,ro {} /mnt";
const MOUNT_AND_BUILD: &str = "mount it (mount -o loop,ro {} /mnt), then extant build /mnt \
    disk.img makes an ext4 image of it";

/// Bytes that are looked at: up to the mark that is furthest in.
const LOOK_BYTES: usize = 0x1_1000;

static KINDS: &[ForeignFormat] = &[
    // Images of disks in other forms.
    kind("a qcow2 image", 0, &magic::QCOW2, CONVERT),
    kind("a QED image", 0, b"QED\0", CONVERT),
    kind("a VMDK image", 0, b"KDMV", CONVERT),
    kind("a VMDK image", 0, b"COWD", CONVERT),
    kind("the descriptor of a VMDK image", 0, b"# Disk DescriptorFile", CONVERT),
    kind("a VDI image", 0x40, b"\x7f\x10\xda\xbe", CONVERT),
    kind("a VHD image", 0, b"conectix", CONVERT),
    kind("a VHDX image", 0, b"vhdxfile", CONVERT),
    kind("a Parallels image", 0, b"WithoutFreeSpace", CONVERT),
    kind("a Parallels image", 0, b"WithouFreSpacExt", CONVERT),
    kind(
        "an Android sparse image",
        0,
        &magic::ANDROID_SPARSE,
        "make a raw image of it: simg2img {} disk.img",
    ),
    // Compressed files.
    kind("a gzip file", 0, &magic::GZIP, "unpack it first: gunzip -c {} > disk.img"),
    kind("an xz file", 0, &magic::XZ, "unpack it first: xz -dc {} > disk.img"),
    kind("a zstd file", 0, &magic::ZSTANDARD, "unpack it first: zstd -dc {} > disk.img"),
    kind("a bzip2 file", 0, &magic::BZIP2, "unpack it first: bzip2 -dc {} > disk.img"),
    kind("an lz4 file", 0, &magic::LZ4, "unpack it first: lz4 -dc {} > disk.img"),
    kind("a lzip file", 0, &magic::LZIP, "unpack it first: lzip -dc {} > disk.img"),
    kind("a zip file", 0, b"PK\x03\x04", "unpack it first: unzip {}"),
    kind("a 7-Zip file", 0, b"7z\xbc\xaf\x27\x1c", "unpack it first: 7z x {}"),
    // Archives.
    kind(
        "a tar archive",
        magic::TAR_AT,
        &magic::TAR,
        "make an image of it: extant build {} disk.img",
    ),
    kind("a cpio archive", 0, &magic::CPIO, "make an image of it: extant build {} disk.img"),
    kind(
        "a Debian package",
        0,
        b"!<arch>\ndebian-binary",
        "make an image of its files: extant build {} disk.img",
    ),
    kind(
        "a cpio archive",
        0,
        b"070702",
        "unpack it with cpio -i, then extant build FOLDER disk.img",
    ),
    kind(
        "a cpio archive",
        0,
        b"070707",
        "unpack it with cpio -i, then extant build FOLDER disk.img",
    ),
    // What holds a file system inside.
    kind(
        "a LUKS volume",
        0,
        b"LUKS\xba\xbe",
        "open it: cryptsetup open --readonly {} NAME; the volume is then /dev/mapper/NAME",
    ),
    kind(
        "an LVM physical volume",
        0x218,
        b"LVM2 001",
        "its logical volumes are block devices after vgchange -ay: extant ls /dev/GROUP/VOLUME",
    ),
    kind(
        "a member of a Linux RAID",
        0,
        b"\xfc\x4e\x2b\xa9",
        "assemble it: mdadm --assemble --readonly /dev/md0 {}",
    ),
    kind(
        "a member of a Linux RAID",
        4096,
        b"\xfc\x4e\x2b\xa9",
        "assemble it: mdadm --assemble --readonly /dev/md0 {}",
    ),
    // Other file systems.
    kind("an XFS file system", 0, b"XFSB", MOUNT_AND_BUILD),
    kind("a Btrfs file system", 0x1_0040, b"_BHRfS_M", MOUNT_AND_BUILD),
    kind("an F2FS file system", 1024, b"\x10\x20\xf5\xf2", MOUNT_AND_BUILD),
    kind(
        "a Squashfs file system",
        0,
        b"hsqs",
        "unpack it: unsquashfs -d FOLDER {}, then extant build FOLDER disk.img",
    ),
    kind("an EROFS file system", 1024, b"\xe2\xe1\xf5\xe0", MOUNT_AND_BUILD),
    kind("a cramfs file system", 0, b"\x45\x3d\xcd\x28", MOUNT_AND_BUILD),
    kind("a romfs file system", 0, b"-rom1fs-", MOUNT_AND_BUILD),
    kind("a ReiserFS file system", 0x1_0034, b"ReIsEr", MOUNT),
    kind("a JFS file system", 0x8000, b"JFS1", MOUNT),
    kind("an APFS container", 32, b"NXSB", "extant reads ext2, ext3 and ext4"),
    kind("an HFS+ file system", 1024, b"H+\0\x04", MOUNT),
    kind("an ISO 9660 image", 0x8001, b"CD001", MOUNT_AND_BUILD),
    kind("a UDF file system", 0x8001, b"BEA01", MOUNT_AND_BUILD),
    kind("an NTFS file system", 3, b"NTFS    ", MOUNT),
    kind("an exFAT file system", 3, b"EXFAT   ", MOUNT),
    kind("a FAT file system", 0x52, b"FAT32   ", MOUNT),
    kind("a FAT file system", 0x36, b"FAT16   ", MOUNT),
    kind("a FAT file system", 0x36, b"FAT12   ", MOUNT),
    kind("a UBI image", 0, b"UBI#", "extant reads ext2, ext3 and ext4; ubireader unpacks this one"),
    // Swap, by the size of the machine's pages.
    kind("swap space", 4086, b"SWAPSPACE2", "there are no files in it"),
    kind("swap space", 8182, b"SWAPSPACE2", "there are no files in it"),
    kind("swap space", 16_374, b"SWAPSPACE2", "there are no files in it"),
    kind("swap space", 65_526, b"SWAPSPACE2", "there are no files in it"),
    kind("a program", 0, b"\x7fELF", "name the image"),
];

impl ForeignFormat {
    /// What to do with the file of that name.
    pub fn advice(&self, file: &str) -> String {
        self.advice.replace("{}", file)
    }
}

/// What begins with these bytes, if it is one of those that are known; ext itself is not among
/// them.
pub fn kind_of(head: &[u8]) -> Option<&'static ForeignFormat> {
    KINDS.iter().find(|kind| {
        let rest = head.get(kind.at..);
        rest.is_some_and(|rest| rest.starts_with(kind.mark))
    })
}

/// Whether there is an ext superblock where one has to be, without a look at what else it says.
pub fn is_ext(head: &[u8]) -> bool {
    extant_format::superblock::has_magic(head)
}

/// What a file or device holds that begins with these bytes, where something about to be written
/// over it can name it.
pub fn held(head: &[u8]) -> Option<&'static str> {
    let has_mark =
        |at: usize, mark: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(mark));
    match kind_of(head) {
        _ if is_ext(head) => Some("an ext2, ext3 or ext4 file system"),
        Some(kind) => Some(kind.name),
        None if has_mark(512, b"EFI PART") => Some("a GPT partition table"),
        None if has_mark(510, b"\x55\xaa") => Some("a partition table or a boot sector"),
        None => None,
    }
}

/// The first bytes of a device, from `start` on, as many as [`kind_of`] wants; fewer where the
/// device ends.
pub fn head(device: &dyn BlockDevice, start: u64) -> Vec<u8> {
    let left = device.info().bytes.saturating_sub(start);
    let mut head = vec![0; LOOK_BYTES.min(usize::try_from(left).unwrap_or(LOOK_BYTES))];
    match device.read(start, &mut head) {
        Ok(()) => head,
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_mark_and_by_nothing_before_it() {
        for kind in KINDS {
            let mut head = vec![0; LOOK_BYTES];
            head[kind.at..kind.at + kind.mark.len()].copy_from_slice(kind.mark);
            assert_eq!(kind_of(&head).map(|found| found.name), Some(kind.name));
            assert_eq!(kind_of(&head[..kind.at]), None, "{}", kind.name);
            assert!(!kind.advice("x.img").contains("{}"));
        }
        assert_eq!(kind_of(&vec![0; LOOK_BYTES]), None);
    }

    #[test]
    fn what_a_device_holds_is_named() {
        let mut head = vec![0; 1 << 17];
        assert_eq!(held(&head), None);
        head[510..512].copy_from_slice(b"\x55\xaa");
        assert_eq!(held(&head), Some("a partition table or a boot sector"));
        head[512..520].copy_from_slice(b"EFI PART");
        assert_eq!(held(&head), Some("a GPT partition table"));
        head[0x438..0x43a].copy_from_slice(b"\x53\xef");
        assert_eq!(held(&head), Some("an ext2, ext3 or ext4 file system"));
        assert_eq!(held(b"XFSB"), Some("an XFS file system"));
    }
}
