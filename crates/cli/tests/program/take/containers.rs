//! Compressed images, qcow2 and Android sparse: the same volume as in the plain file.
use crate::take::command::{command, refused, told};
use crate::take::made::{TEXT, volume};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Every byte of a container is that of the plain image: what `ls` digests, and the check.
fn same(container: &str, folder: &Path) {
    same_files(container, folder);
    told(&["check", container], folder);
}

fn same_files(container: &str, folder: &Path) {
    let words = |image: &str| ["ls", "-lR", "--json", "--sha256", image].map(str::to_owned);
    let listing = |image: &str| {
        let words = words(image);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let text = String::from_utf8(told(&words, folder)).unwrap();
        text.replace(image, "IMAGE")
    };
    assert!(listing(container) == listing("volume.img"), "{container}");
}

#[test]
fn every_form_that_qemu_img_writes_is_read() {
    if !require("qemu-img") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-qcow2");
    volume(folder.path(), "16M");
    for options in [
        "",
        "-o compat=0.10",
        "-o compat=0.10,cluster_size=512",
        "-c",
        "-c -o compression_type=zstd",
        "-c -o cluster_size=2M",
        "-o extended_l2=on",
        "-o preallocation=metadata",
        "-o preallocation=full,cluster_size=4k",
        "-o lazy_refcounts=on",
        "-S 0",
    ] {
        let words: Vec<&str> = options.split(' ').filter(|word| !word.is_empty()).collect();
        let mut convert = program("qemu-img");
        convert.args(["convert", "-O", "qcow2"]).args(words);
        output(convert.arg(folder.join("volume.img")).arg(folder.join("x.qcow2"))).unwrap();
        same("x.qcow2", folder.path());
    }
    // Written to by QEMU: clusters of zeros where data was.
    let mut io = program("qemu-io");
    let words = ["-c", "write -z 700k 200k", "-c", "write -P 7 920k 64k"];
    if output(io.args(words).arg(folder.join("x.qcow2"))).is_ok() {
        let mut convert = program("qemu-img");
        convert.args(["convert", "-O", "raw", "x.qcow2", "volume.img"]);
        output(convert.current_dir(folder.path())).unwrap();
        same_files("x.qcow2", folder.path());
    }
}

#[test]
fn what_of_qcow2_is_not_read_is_refused_by_name() {
    if !require("qemu-img") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-refused");
    volume(folder.path(), "8M");
    let qemu = |words: &[&str]| {
        output(program("qemu-img").args(words).current_dir(folder.path())).unwrap();
    };
    qemu(&["convert", "-O", "qcow2", "volume.img", "x.qcow2"]);
    qemu(&["create", "-q", "-f", "qcow2", "-u", "-b", "/x.qcow2", "-F", "raw", "far.qcow2", "8M"]);
    qemu(&["create", "-q", "-f", "qcow2", "-u", "-b", "gone", "-F", "raw", "backed.qcow2", "8M"]);
    // It is based on itself once it has that name.
    qemu(&["create", "-q", "-f", "qcow2", "-u", "-b", "own.qcow2", "-F", "qcow2", "a.qcow2", "8M"]);
    fs::rename(folder.join("a.qcow2"), folder.join("own.qcow2")).unwrap();
    qemu(&["create", "-q", "-f", "qcow2", "-o", "data_file=d.raw", "external.qcow2", "8M"]);
    let damage = |name: &str, at: u64, bytes: &[u8]| {
        fs::copy(folder.join("x.qcow2"), folder.join(name)).unwrap();
        let file = fs::File::options().write(true).open(folder.join(name)).unwrap();
        file.write_all_at(bytes, at).unwrap();
    };
    damage("version.qcow2", 4, &9_u32.to_be_bytes());
    damage("clusters.qcow2", 20, &40_u32.to_be_bytes());
    damage("size.qcow2", 24, &u64::MAX.to_be_bytes());
    damage("entries.qcow2", 36, &0_u32.to_be_bytes());
    damage("table.qcow2", 40, &(1_u64 << 60).to_be_bytes());
    damage("huge.qcow2", 36, &u32::MAX.to_be_bytes());
    damage("crypt.qcow2", 32, &2_u32.to_be_bytes());
    damage("corrupt.qcow2", 72, &2_u64.to_be_bytes());
    damage("feature.qcow2", 72, &(1_u64 << 40).to_be_bytes());
    let bytes = fs::read(folder.join("x.qcow2")).unwrap();
    fs::write(folder.join("short.qcow2"), &bytes[..bytes.len() / 2]).unwrap();
    for (name, why) in [
        ("backed", "backing file, gone, that is not there"),
        ("far", "backing file, /x.qcow2, that is not"),
        ("own", "after too many others"),
        ("external", "in another file"),
        ("version", "version 9"),
        ("clusters", "2^40"),
        ("size", "a disk of"),
        ("entries", "an L1 table of 0"),
        ("table", "an L1 table"),
        ("huge", "an L1 table"),
        ("crypt", "encrypted"),
        ("corrupt", "corrupt"),
        ("feature", "feature 40"),
        ("short", "cut short"),
    ] {
        let (code, text) =
            refused(&["ls", "-lR", "--sha256", "--json", &format!("{name}.qcow2")], folder.path());
        assert!(code == 1 && text.contains(why), "{name}: {text}");
    }
    for words in [
        &["age", "--profile", "mail", "--days", "1", "x.qcow2"][..],
        &["mount", "-o", "rw", "x.qcow2", "."],
    ] {
        let (_, text) = refused(words, folder.path());
        assert!(text.contains("only read here") || text.contains("not empty"), "{text}");
    }
}

/// Random damage to headers and tables: an error or other bytes, but nothing worse.
#[test]
fn any_damage_to_a_container_is_survived() {
    if !require("qemu-img") || !require("img2simg") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("take-damage");
    volume(folder.path(), "2M");
    let mut convert = program("qemu-img");
    convert.args([
        "convert",
        "-c",
        "-O",
        "qcow2",
        "-o",
        "cluster_size=4k",
        "volume.img",
        "x.qcow2",
    ]);
    output(convert.current_dir(folder.path())).unwrap();
    let mut simg = program("img2simg");
    output(simg.args(["volume.img", "x.simg"]).current_dir(folder.path())).unwrap();
    let mut state = 7_u64;
    let mut next = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    for name in ["x.qcow2", "x.simg"] {
        let sound = fs::read(folder.join(name)).unwrap();
        for round in 0..30 {
            let mut bytes = sound.clone();
            // Where the header and tables are: the start, and anywhere.
            let reach = if round % 2 == 0 { 128 } else { bytes.len().min(64 << 10) };
            for _ in 0..4 {
                bytes[next(reach).max(4)] = next(256) as u8;
            }
            fs::write(folder.join("damaged"), bytes).unwrap();
            let output = command(&["ls", "-lR", "damaged"], folder.path()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            let code = output.status.code();
            assert!(
                matches!(code, Some(0 | 1)) && !text.contains("panicked"),
                "{name}, round {round}: {code:?}: {text}"
            );
        }
    }
}

#[test]
fn compressed_images_are_unpacked_and_android_sparse_is_read() {
    let tools = ["img2simg", "mke2fs", "zstd", "xz", "bzip2", "lz4"];
    if !tools.into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("take-packed");
    let image = volume(folder.path(), "8M");
    let pack = |tool: &str, words: &[&str], name: &str| {
        let packed = output(program(tool).args(words).arg("-c").arg(&image)).unwrap().stdout;
        fs::write(folder.join(name), packed).unwrap();
    };
    pack("gzip", &["-9"], "x.gz");
    pack("zstd", &["-q"], "x.img.zst");
    pack("xz", &["-T2", "--block-size=1MiB"], "no-ending");
    pack("bzip2", &["-1"], "x.bz2");
    pack("lz4", &["-B4"], "x.lz4");
    let mut simg = program("img2simg");
    output(simg.arg(&image).arg(folder.join("x.simg")).arg("4096")).unwrap();
    for name in ["x.gz", "x.img.zst", "no-ending", "x.bz2", "x.lz4", "x.simg"] {
        same(name, folder.path());
    }
    // One in the other.
    let packed = output(program("gzip").arg("-c").arg(folder.join("x.simg"))).unwrap().stdout;
    fs::write(folder.join("x.simg.gz"), packed).unwrap();
    same("x.simg.gz", folder.path());
    let twice = output(program("gzip").arg("-c").arg(folder.join("x.gz"))).unwrap().stdout;
    fs::write(folder.join("twice"), twice).unwrap();
    let whole = fs::read(folder.join("x.img.zst")).unwrap();
    fs::write(folder.join("cut.zst"), &whole[..whole.len() - 100]).unwrap();
    for (name, cut) in [("x.bz2", "cut.bz2"), ("x.lz4", "cut.lz4")] {
        let whole = fs::read(folder.join(name)).unwrap();
        fs::write(folder.join(cut), &whole[..whole.len() - 4]).unwrap();
    }
    let mut whole = fs::read(folder.join("x.gz")).unwrap();
    let middle = whole.len() / 2;
    whole[middle..middle + 8].fill(0x55);
    fs::write(folder.join("damaged.gz"), whole).unwrap();
    for (name, why) in [
        ("twice", "compressed twice"),
        ("cut.zst", "cut short"),
        ("cut.bz2", "cut short"),
        ("cut.lz4", "cut short"),
        ("damaged.gz", "damaged after"),
    ] {
        let (code, text) = refused(&["ls", name], folder.path());
        assert!(code == 1 && text.contains(why), "{name}: {text}");
    }
    let (_, text) = refused(&["replay", "x.gz"], folder.path());
    assert!(text.contains("only read here") && text.contains("gzip -dc x.gz"), "{text}");
    // What is unpacked goes to TMPDIR, and leaves nothing there.
    let output = command(&["cat", "x.gz:/etc/motd"], folder.path())
        .env("TMPDIR", folder.join("none"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("none") && text.contains("TMPDIR=FOLDER"), "{text}");
    assert!(told(&["cat", "x.gz:/etc/motd"], folder.path()) == TEXT);
}

/// A bomb fills no more than the disk: here a file system of a few MiB.
#[test]
fn a_bomb_ends_when_the_disk_is_full() {
    if !require("mke2fs") || !require("zstd") || !extant_testkit::oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("take-bomb");
    let noise = crate::take::made::noise(16 << 20);
    fs::write(folder.join("noise"), noise).unwrap();
    let packed =
        output(program("gzip").args(["-1", "-c"]).arg(folder.join("noise"))).unwrap().stdout;
    fs::write(folder.join("bomb.gz"), packed).unwrap();
    let small = folder.join("small.img");
    output(program("mke2fs").args(["-q", "-F"]).arg(&small).arg("4M")).unwrap();
    let access = extant_testkit::oracle::Access::ReadWrite;
    let mounted = extant_testkit::oracle::mount_loop(&small, access, "").unwrap();
    let output =
        command(&["ls", "bomb.gz"], folder.path()).env("TMPDIR", mounted.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("has no room"), "{text}");
    assert!(text.contains(&mounted.path().display().to_string()), "{text}");
    // Zeros take no room, however many there are.
    let zeros = program("sh")
        .args(["-c", "head -c 300000000 /dev/zero | zstd -q -c"])
        .output()
        .unwrap()
        .stdout;
    fs::write(folder.join("zeros.zst"), zeros).unwrap();
    let output = command(&["ls", "zeros.zst"], folder.path())
        .env("TMPDIR", mounted.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("begins with zeros"), "{text}");
}
