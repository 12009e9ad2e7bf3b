//! Words that people try because other tools have them: what does that here, or what does it today.
//!
//! clap would suggest a command whose name looks similar; these rows say what to do instead.

/// Words, and what to do. `IMAGE` and the like are for the user's own names.
static ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["x", "unpack", "untar", "export", "get", "dump", "rdump"],
        "extant extract IMAGE DIR takes everything out, extant extract IMAGE PATH DIR a part, \
         extant cat IMAGE:/PATH > FILE one file, extant tar IMAGE makes an archive",
    ),
    (
        &["copy", "put", "add", "insert", "install"],
        "extant cp -a FILE IMAGE:/PATH copies into an image, extant cp -a IMAGE:/PATH FILE out of \
         it",
    ),
    (
        &["remove", "delete", "unlink", "rename", "move", "link", "symlink", "mknod", "change"],
        "extant rm, mv, ln, mkdir, chmod and others change an image, each all or nothing; extant \
         edit IMAGE SCRIPT runs many as one; what they cannot, such as mknod: extant mount IMAGE \
         -- mknod PATH c 1 3",
    ),
    (
        &["fuse", "fuse2fs", "ext4fuse", "guestmount", "attach"],
        "extant mount IMAGE FOLDER mounts an image, extant mount IMAGE -- COMMAND for one command; \
         extant ls, cat, stat and tar look into one that is not mounted",
    ),
    (&["unmount", "detach"], "extant umount FOLDER unmounts, and waits until all is in the image"),
    (
        &["cmp", "compare", "difference"],
        "extant diff A B compares images, folders and tar archives",
    ),
    (
        &["resize2fs", "grow", "expand", "growpart"],
        "extant resize IMAGE SIZE makes a volume larger or smaller in place, with --partition its \
         partition too; extant --as resize2fs takes the words of resize2fs",
    ),
    (
        &["defrag", "e4defrag", "defragment", "reorder", "optimize"],
        "extant repack IMAGE OUT builds an image anew, each file in one piece, and with --trace \
         what is read first in front",
    ),
    (
        &["canonicalize", "reproduce", "strip"],
        "extant normalize IMAGE gives the same bytes for the same content, whatever was done to it",
    ),
    (
        &["minimize", "pishrink", "compact"],
        "extant shrink IMAGE makes an image as small as its files allow, and extant shrink IMAGE \
         OUT.zst another one, compressed",
    ),
    (
        &["mke2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "format", "mkext2fs", "newfs"],
        "extant mkfs IMAGE SIZE makes an empty file system; extant build FOLDER IMAGE one that \
         holds a folder (mke2fs -d)",
    ),
    (
        &[
            "create",
            "new",
            "make",
            "pack",
            "genext2fs",
            "make_ext4fs",
            "mkimage",
            "image",
            "img",
            "import",
        ],
        "extant build FOLDER IMAGE makes an image of a folder or archive; extant mkfs IMAGE SIZE \
         an empty one",
    ),
    (
        &[
            "fsck",
            "e2fsck",
            "fsck.ext2",
            "fsck.ext3",
            "fsck.ext4",
            "verify",
            "validate",
            "test",
            "scan",
        ],
        "extant check IMAGE finds what is wrong, with fsck's exit codes",
    ),
    (
        &["fix", "mend", "recover", "undelete", "salvage"],
        "extant repair IMAGE mends what extant check IMAGE finds; extant tar --keep-going IMAGE -o \
         FILE rescues what can be read",
    ),
    (
        &[
            "dumpe2fs",
            "show",
            "inspect",
            "header",
            "superblock",
            "file",
            "blkid",
            "lsblk",
            "uuid",
            "features",
        ],
        "extant info IMAGE shows the superblock and the groups; -h the superblock alone",
    ),
    (
        &["tune2fs", "e2label", "label", "set"],
        "extant tune IMAGE changes label (-L), UUID (-U), features (-O), journal (-j, -J) and \
         settings in place; extant --as tune2fs takes the words of tune2fs",
    ),
    (
        &["debugfs", "open", "shell", "browse"],
        "extant ls, cat and stat look at files (stat --extents at their blocks), extant info at \
         groups, extant layout at what \
         lies where",
    ),
    (
        &["list", "dir", "tree", "ll", "lsdel"],
        "extant ls -l IMAGE:/PATH lists a directory, extant ls -lR IMAGE everything",
    ),
    (
        &["grep", "search", "locate"],
        "extant find IMAGE:/ -name PATTERN looks for names; extant cat IMAGE:/PATH | grep WORD for \
         what is in a file",
    ),
    (&["free", "usage"], "extant df IMAGE shows how much of it is used and free"),
    (&["size"], "extant du IMAGE shows what each directory takes, extant df IMAGE what is free"),
    (
        &["e2image", "dd", "clone", "backup", "save", "restore"],
        "an image is an ordinary file: cp --sparse=always IMAGE COPY; extant tar IMAGE -o FILE \
         keeps what is in it",
    ),
    (
        &["convert", "qemu-img", "simg2img", "img2simg", "compress", "decompress"],
        "extant reads and writes raw images: qemu-img convert -O raw and simg2img make one of \
         other forms; \
         extant tar IMAGE | extant build -t TYPE - NEW.img makes another ext of one",
    ),
    (
        &["filefrag", "fragments", "frag", "e2freefrag", "map"],
        "extant layout IMAGE shows fragments and free runs; extant tar IMAGE | extant build - \
         NEW.img lays everything out anew",
    ),
    (
        &["md5", "md5sum", "sha256", "sha256sum", "checksum", "hash"],
        "extant ls -lR --sha256 --json IMAGE has the digest of every file",
    ),
    (
        &["readlink", "xattr", "getfacl", "attr"],
        "extant stat IMAGE:/PATH shows all of a file but its bytes",
    ),
    (&["head", "tail", "less", "more", "type", "read"], "extant cat IMAGE:/PATH | less"),
    (&["completion", "complete"], "extant completions bash, zsh or fish"),
    (&["manual", "docs", "doc"], "extant man COMMAND shows the manual of a command"),
    (&["version"], "extant --version"),
    (
        &["bench", "benchmark", "simulate", "scenario", "posts", "post"],
        "extant lab has the laboratory: extant lab list",
    ),
];

/// What to do in place of a command that does not exist; `None` for words that no user is known to
/// try.
pub fn advice(word: &str) -> Option<&'static str> {
    let row = ELSEWHERE.iter().find(|(words, _)| words.contains(&word));
    row.map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_word_is_a_command_and_each_has_one_row() {
        let table = super::super::table();
        let commands: BTreeSet<&str> =
            table.get_subcommands().map(clap::Command::get_name).collect();
        let mut seen = BTreeSet::new();
        for word in ELSEWHERE.iter().flat_map(|(words, _)| *words) {
            assert!(!commands.contains(word), "{word} is a command");
            assert!(seen.insert(*word), "{word} has two rows");
        }
    }

    #[test]
    fn advice_names_commands_that_exist() {
        let table = super::super::table();
        let commands: BTreeSet<&str> =
            table.get_subcommands().map(clap::Command::get_name).collect();
        for (_, advice) in ELSEWHERE {
            let named = advice.split("extant ").skip(1);
            for rest in named {
                let word = rest.split([' ', ';', ',', ':', ')']).next().unwrap_or_default();
                let is_prose =
                    ["does", "mounts", "reads", "has"].contains(&word) || word.starts_with('-');
                assert!(is_prose || commands.contains(word), "{word:?} in {advice:?}");
            }
        }
    }
}
