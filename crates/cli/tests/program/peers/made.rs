//! Archives that other programs make here, of a tree that has a little of everything.
use crate::peers::judge::{Expected, Verdicts, can_judge};
use Expected::{Refused, Same};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;

/// An archive `x` (or `x.SUFFIX`) that a shell command makes beside the folder `in`.
struct Recipe {
    tool: &'static str,
    words: &'static str,
    expected: Expected,
}

const fn recipe(tool: &'static str, words: &'static str, expected: Expected) -> Recipe {
    Recipe { tool, words, expected }
}

/// The tree: files of all types, holes, hard links, long names, attributes and access lists, wide
/// numbers.
const TREE: &str = "
    mkdir -p in/d/e in/empty; echo hello >in/d/f; ln in/d/f in/d/e/g; ln -s ../f in/d/e/s; mkfifo \
    in/p
    chmod 4751 in/d/f; chmod 1777 in/empty; : >in/zero; printf %512s x >in/block; printf %70000s x \
    >in/large
    truncate -s 3M in/holes; printf x | dd of=in/holes bs=1 seek=1000000 conv=notrunc status=none
    printf y | dd of=in/holes bs=1 seek=2500000 conv=notrunc status=none; truncate -s 1M in/hole
    mknod in/c c 5 1; mknod in/b b 8 17; chown 1000:1001 in/zero; printf '\\303\\274\\377' >in/bytes
    find in ! -type d | xargs touch -h -d @1000000000; touch -h -d @1234567890 in/d/e/s in/holes
    find in -type d | sort -r | xargs touch -d @1111111111";

/// What v7 and its kin have no words for.
const PLAIN: &str = "rm -f in/p in/c in/b;";
const LONG: &str =
    "n=$(printf %0100d 7); mkdir -p in/$n/$n; echo 1 >in/$n/$n/$n; ln in/$n/$n/$n in/hard;
    ln -s $n/$n/$n in/link;";
const ATTRIBUTES: &str = "setfattr -n user.colour -v red in/large; setfattr -n user.a=b%c -v \
    0x00ff0a in/large;
    setfacl -m u:1234:rw,g:7777:r in/block; setfacl -d -m u:1235:rx in/d; setcap cap_net_raw+ep \
    in/zero;";
const WIDE: &str = "chown 3000000:4000000000 in/zero; touch -d @-1000000000 in/block; touch -d \
    @9000000000 in/large;";

/// `PLAIN`, `LONG`, `ATTRIBUTES` and `WIDE` are those commands.
const RECIPES: &[Recipe] = &[
    recipe("tar", "PLAIN tar --format=v7 -C in -cf x .", Same),
    recipe("tar", "tar --format=oldgnu -C in -cf x .", Same),
    recipe("tar", "tar --format=gnu -C in -cf x .", Same),
    recipe("tar", "tar --format=ustar -C in -cf x .", Same),
    recipe("tar", "tar --format=posix -C in -cf x .", Same),
    recipe("tar", "LONG tar --format=oldgnu -C in -cf x .", Same),
    recipe("tar", "LONG tar --format=gnu -C in -cf x .", Same),
    recipe("tar", "LONG tar --format=posix -C in -cf x .", Same),
    recipe("tar", "WIDE tar --format=gnu -C in -cf x .", Same),
    recipe("tar", "WIDE tar --format=posix -C in -cf x .", Same),
    recipe("tar", "tar --format=oldgnu -S -C in -cf x .", Same),
    recipe("tar", "tar --format=gnu -S -C in -cf x .", Same),
    recipe("tar", "tar --format=posix -S --sparse-version=0.0 -C in -cf x .", Same),
    recipe("tar", "tar --format=posix -S --sparse-version=0.1 -C in -cf x .", Same),
    recipe("tar", "tar --format=posix -S --sparse-version=1.0 -C in -cf x .", Same),
    recipe(
        "tar",
        "ATTRIBUTES tar --format=posix --numeric-owner --acls --xattrs --xattrs-include=* -C in \
         -cf x .",
        Same,
    ),
    recipe("tar", "tar --format=gnu --label=name -C in -cf x .", Same),
    recipe("tar", "tar --format=posix --label=name -C in -cf x .", Same),
    recipe("tar", "tar --format=gnu -g old -C in -cf x .", Same),
    recipe("tar", "tar --format=posix -g snapshot -C in -cf x .", Same),
    recipe(
        "tar",
        "tar --format=gnu -g old -C in -cf y .; rm in/zero; echo more >in/d/f; tar --format=gnu -g \
         old -C in -cf x .",
        Same,
    ),
    recipe(
        "tar",
        "tar --format=posix --pax-option=globexthdr.name=g,comment=words -C in -cf x .",
        Same,
    ),
    recipe("tar", "tar --format=posix --pax-option=delete=mtime,delete=atime -C in -cf x .", Same),
    recipe("tar", "tar --format=gnu -b 1 -C in -cf x .", Same),
    recipe("tar", "tar -P -cf x $PWD/in", Same),
    recipe("tar", "tar -cf x in/d; tar -rf x in/zero in/d/f", Same),
    recipe("tar", "tar -cf x in/d; tar -cf y in/zero; tar -Af x y", Same),
    recipe("tar", "tar -cf x in/d; tar -cf y in/zero; cat y >>x", Same),
    recipe("tar", "tar -b 1 -C in -cf y .; head -c -1024 y >x", Same),
    recipe("gzip", "tar -C in -czf x .", Same),
    recipe("xz", "tar -C in -cJf x .", Same),
    recipe("zstd", "tar -C in -c . | zstd -q >x", Same),
    recipe("bzip2", "tar -C in -cjf x .", Same),
    recipe("tar", "cd in/d; tar -P -cf ../../x ../zero", Refused("leads out of the archive")),
    recipe(
        "tar",
        "yes 'n y' | tar --format=gnu -cM -L 1030 -f x in/zero in/holes >z 2>&1 || true; test -s x",
        Refused("truncated archive"),
    ),
    recipe(
        "tar",
        "yes 'n x' | tar --format=gnu -cM -L 1030 -f y in/holes >z 2>&1 || true; test -s x",
        Refused("rest of a file of another volume"),
    ),
    recipe("tar", "cd in; tar -cf ../x nothing || true; : >../x", Refused("is empty")),
    recipe("bsdtar", "PLAIN bsdtar --format=v7tar -C in -cf x .", Same),
    recipe("bsdtar", "LONG bsdtar --format=gnutar -C in -cf x .", Same),
    recipe("bsdtar", "bsdtar --format=ustar -C in -cf x .", Same),
    recipe("bsdtar", "LONG ATTRIBUTES WIDE bsdtar --format=pax -C in -cf x .", Same),
    recipe("bsdtar", "ATTRIBUTES bsdtar --numeric-owner -C in -cf x .", Same),
    recipe("busybox", "LONG busybox tar -C in -cf x .", Same),
    recipe("7z", "rm -rf in/p in/c in/b; cd in; 7z a -ttar ../x.tar . >y; mv ../x.tar ../x", Same),
    recipe("cpio", "cd in; find . | cpio --quiet -o -H ustar >../x", Same),
    recipe("cpio", "PLAIN cd in; find . | cpio --quiet -o -H tar >../x", Same),
    recipe(
        "git",
        "PLAIN LONG cd in; git init -q; git add .; git -c user.name=x -c user.email=x@example.org \
         commit -qm x; git archive HEAD >../x",
        Same,
    ),
    recipe(
        "python3",
        "python3 -c \"import tarfile as t; a = t.open('x', 'w', format=t.USTAR_FORMAT); \
         a.add('in'); a.close()\"",
        Same,
    ),
    recipe(
        "python3",
        "LONG python3 -c \"import tarfile as t; a = t.open('x', 'w', format=t.GNU_FORMAT); \
         a.add('in'); a.close()\"",
        Same,
    ),
    recipe(
        "python3",
        "LONG WIDE python3 -c \"import tarfile as t; a = t.open('x', 'w', format=t.PAX_FORMAT); \
         a.add('in'); a.close()\"",
        Same,
    ),
];

#[test]
fn archives_that_other_programs_make() {
    if !can_judge() || !require("setfattr") || !require("setfacl") || !require("setcap") {
        return;
    }
    let mut verdicts = Verdicts::default();
    for recipe in RECIPES.iter().step_by(number("EXTANT_CASES").div_ceil(3) as usize) {
        if !require(recipe.tool) {
            continue;
        }
        let folder = Scratch::new("peers-made");
        let words = recipe.words.replace("PLAIN", PLAIN).replace("LONG", LONG);
        let words = words.replace("ATTRIBUTES", ATTRIBUTES).replace("WIDE", WIDE);
        let script = format!("{TREE}\n{words}\n");
        output(program("sh").arg("-ec").arg(script).current_dir(folder.path()))
            .unwrap_or_else(|error| panic!("{error}"));
        verdicts.judge(recipe.words, &folder.join("x"), recipe.expected);
    }
    verdicts.finish();
}
