//! The same tree as umoci's, whatever form the image is in.
use crate::containers::command::{build, built, differences, names, same_when_mounted};
use crate::containers::made::{
    Entry, Layout, Packing, archive, device, file, folder, hard_link, layout, symlink, tar,
};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};

/// Ten layers, each with another way to change what is below it.
fn ten_layers() -> Vec<Vec<Entry>> {
    let large = |seed: u8| -> Vec<u8> {
        (0..200_000_u32).map(|at| (at / 7 * u32::from(seed)) as u8).collect()
    };
    vec![
        vec![
            folder("./").mode(0o751).time(1_500_000_000),
            folder("etc/"),
            file("etc/passwd", b"root:x:0:0").mode(0o640).owner(5),
            folder("usr/"),
            folder("usr/lib/"),
            file("usr/lib/libc.so", &large(3)),
            symlink("lib", "usr/lib"),
            folder("opt/"),
            folder("opt/tool/"),
            file("opt/tool/a", b"a"),
            file("opt/tool/b", b"b"),
            folder("opt/tool/deep/"),
            file("opt/tool/deep/c", b"c"),
            file("shared", &large(5)),
            device("null"),
            folder("tmp/").mode(0o1777),
        ],
        // A hard link to a file of another layer, and one to that link.
        vec![folder("var/"), hard_link("var/alias", "shared"), hard_link("again", "var/alias")],
        // Whiteouts: of a file, of a directory, of what is not there.
        vec![
            folder("opt/"),
            folder("opt/tool/"),
            file("opt/tool/.wh.a", b""),
            file("opt/tool/.wh.deep", b""),
            file("opt/.wh.nothing", b""),
            folder("etc/"),
            file("etc/group", b"root:x:0:"),
        ],
        // Opaque, marked before what this layer has there.
        vec![
            folder("opt/"),
            folder("opt/tool/"),
            file("opt/tool/.wh..wh..opq", b""),
            file("opt/tool/new", b"new"),
        ],
        // Opaque, marked after it.
        vec![
            folder("opt/"),
            folder("opt/tool/"),
            file("opt/tool/newer", &large(7)),
            file("opt/tool/.wh..wh..opq", b""),
        ],
        // A file in place of a directory, a directory in place of a file.
        vec![file("var", b"a file"), folder("shared/"), file("shared/inner", b"inner")],
        // And back.
        vec![folder("var/"), file("var/log", b"log"), file("shared", b"a file again")],
        // Through a link of a layer below.
        vec![file("lib/libm.so", &large(11)), file("lib/.wh.libc.so", b"")],
        // Made again in the layer that removes it; owner and mode change.
        vec![
            file(".wh.etc", b""),
            folder("etc/").mode(0o700).owner(7),
            file("etc/passwd", b"root::0:0").owner(9).mode(0o4755),
        ],
        vec![file("last", b""), hard_link("first", "again"), folder("tmp/").mode(0o1770)],
    ]
}

fn ten_layer_layout(path: PathBuf) -> Layout {
    let packings = [Packing::Gzip, Packing::Zstandard, Packing::Chunked, Packing::Plain];
    let layers: Vec<(Vec<u8>, Packing)> = ten_layers()
        .iter()
        .zip(packings.iter().cycle())
        .map(|(entries, packing)| (tar(entries), *packing))
        .collect();
    layout(path, &layers)
}

/// The same image with every layer as gzip: umoci 0.4 reads no zstd.
fn for_umoci(path: PathBuf) -> Layout {
    let layers: Vec<(Vec<u8>, Packing)> =
        ten_layers().iter().map(|entries| (tar(entries), Packing::Gzip)).collect();
    layout(path, &layers)
}

fn unpacked(layout: &Path, tag: &str, bundle: &Path) -> PathBuf {
    let image = format!("{}:{tag}", layout.display());
    output(program("umoci").args(["unpack", "--image", &image]).arg(bundle)).unwrap();
    bundle.join("rootfs")
}

#[test]
fn ten_layers_are_the_tree_that_umoci_unpacks() {
    if !["umoci", "gzip", "zstd"].iter().all(|tool| require(tool)) {
        return;
    }
    let scratch = Scratch::new("containers-umoci");
    let (image, peer) = (scratch.join("x.img"), for_umoci(scratch.join("gzip")));
    let tree = unpacked(&peer.path, "test", &scratch.join("bundle"));
    let mixed = ten_layer_layout(scratch.join("mixed"));
    let bytes = built(build([mixed.path.as_os_str(), image.as_os_str()]), &image);
    same_when_mounted(&image, &tree);
    // What the layers are compressed with is not seen.
    let other = scratch.join("y.img");
    let words = [peer.path.as_os_str(), other.as_os_str()];
    assert!(built(build(words), &other) == bytes);
    let arrival = scratch.join("z.img");
    let mut words = vec!["--order".as_ref(), "arrival".as_ref()];
    words.extend([mixed.path.as_os_str(), arrival.as_os_str()]);
    built(build(words), &arrival);
    same_when_mounted(&arrival, &tree);
}

/// The image that a command makes of a source on standard input.
fn from_input(words: &[&str], source: &Path, image: &Path) -> Vec<u8> {
    let command = build(words.iter().copied());
    let mut piped = program("sh");
    piped.args(["-c", "source=$0; cat \"$source\" | \"$@\""]).arg(source);
    piped.arg(command.get_program()).args(command.get_args()).arg(image);
    let output = piped.output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaints.is_empty(), "{command:?}: {complaints}");
    std::fs::read(image).unwrap()
}

#[test]
fn every_form_of_an_image_gives_the_same_bytes() {
    if !["skopeo", "gzip", "zstd", "xz"].iter().all(|tool| require(tool)) {
        return;
    }
    let scratch = Scratch::new("containers-forms");
    let path = |name: &str| scratch.join(name).display().to_string();
    let made = for_umoci(scratch.join("layout"));
    let image = scratch.join("x.img");
    let wanted = built(build([made.path.as_os_str(), image.as_os_str()]), &image);
    let from = format!("oci:{}:test", made.path.display());
    let copies = [
        format!("oci:{}:some", path("copied")),
        format!("oci-archive:{}:some", path("oci.tar")),
        format!("docker-archive:{}:some/name:1", path("docker.tar")),
    ];
    for (number, copy) in copies.iter().enumerate() {
        let mut skopeo = program("skopeo");
        skopeo.args(["--insecure-policy", "copy", "-q"]);
        if number == 0 {
            skopeo.args(["--dest-oci-accept-uncompressed-layers"]);
        }
        output(skopeo.args([&from, copy])).unwrap();
        let other = scratch.join(&format!("{number}.img"));
        let words = [copy.as_ref(), other.as_os_str()];
        assert!(built(build(words), &other) == wanted, "{copy}");
    }
    for name in ["oci.tar", "docker.tar"] {
        for (tool, end) in [("gzip", "gz"), ("zstd", "zst"), ("xz", "xz")] {
            let mut packing = program(tool);
            packing.args(["-q", "-k"]);
            if tool == "xz" {
                packing.arg("-0");
            }
            output(packing.arg(scratch.join(name))).unwrap();
            let (packed, other) = (path(&format!("{name}.{end}")), scratch.join("packed.img"));
            let words = ["-F".as_ref(), packed.as_ref(), other.as_os_str()];
            assert!(built(build(words), &other) == wanted, "{packed}");
        }
        let other = scratch.join(&format!("{name}.img"));
        assert!(from_input(&["-F", "-"], &scratch.join(name), &other) == wanted, "{name}");
        let form = name.replace(".tar", "-archive:-");
        let packed = scratch.join(&format!("{name}.gz"));
        assert!(from_input(&["-F", &form], &packed, &other) == wanted, "{form}");
    }
    // A folder of what docker save writes, and an archive whose entries begin with "./".
    let (folder, dotted) = (scratch.join("docker"), scratch.join("dotted.tar"));
    std::fs::create_dir(&folder).unwrap();
    let docker = scratch.join("docker.tar");
    output(program("tar").arg("-xf").arg(docker).arg("-C").arg(&folder)).unwrap();
    archive(&made.path, &dotted);
    for source in [&folder, &dotted] {
        let other = scratch.join("z.img");
        let words = ["-F".as_ref(), source.as_os_str(), other.as_os_str()];
        assert!(built(build(words), &other) == wanted, "{}", source.display());
    }
}

/// Older versions of `docker save` had links to the layers of other images, in any order.
#[test]
fn links_of_docker_save_lead_to_layers() {
    let scratch = Scratch::new("containers-links");
    let (one, two) = (tar(&[file("a", b"1"), file("b", b"1")]), tar(&[file("a", b"2")]));
    let config = serde_json::json!({"architecture": "amd64", "os": "linux", "rootfs": {
        "type": "layers",
        "diff_ids": [crate::containers::made::digest(&one), crate::containers::made::digest(&two),
            crate::containers::made::digest(&one)]}});
    let config = config.to_string();
    let config_name = format!("{}.json", &crate::containers::made::digest(config.as_bytes())[7..]);
    let hex = |digit: &str| digit.repeat(64);
    let list = serde_json::json!([{"Config": config_name, "RepoTags": null, "Layers": [
        format!("{}/layer.tar", hex("a")), format!("{}/layer.tar", hex("b")),
        format!("{}/layer.tar", hex("c"))]}]);
    let outer = tar(&[
        file("manifest.json", list.to_string().as_bytes()),
        folder(&format!("{}/", hex("c"))),
        hard_link_or_symlink(&format!("{}/layer.tar", hex("c")), &hex("a")),
        file(&format!("{}/layer.tar", hex("b")), b"an older one"),
        file(&format!("{}/layer.tar", hex("b")), &two),
        file(&format!("{}/layer.tar", hex("a")), &one),
        file(&config_name, config.as_bytes()),
    ]);
    let (source, image) = (scratch.join("saved.tar"), scratch.join("x.img"));
    std::fs::write(&source, outer).unwrap();
    built(build([source.as_os_str(), image.as_os_str()]), &image);
    let tree = scratch.join("tree");
    std::fs::create_dir(&tree).unwrap();
    for name in ["a", "b"] {
        let mut cat = program(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
        let read = output(cat.args(["cat", &format!("{}:/{name}", image.display())])).unwrap();
        assert_eq!(read.stdout, b"1", "{name}");
    }
}

fn hard_link_or_symlink(name: &str, other: &str) -> Entry {
    // A link of tar is at most 100 bytes: relative, through a second link.
    let target = format!("../{other}/layer.tar");
    symlink(name, &target)
}

#[test]
fn what_buildah_commits_is_what_it_had() {
    if !["buildah"].iter().all(|tool| require(tool)) {
        return;
    }
    let scratch = Scratch::new("containers-buildah");
    let buildah = |words: &[&str]| {
        let mut command = program("buildah");
        command.args(["--storage-driver", "vfs", "--root"]).arg(scratch.join("root"));
        command.arg("--runroot").arg(scratch.join("run")).args(words);
        let output = output(&mut command).unwrap_or_else(|error| panic!("{error}"));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let tree = scratch.join("tree");
    std::fs::create_dir_all(tree.join("bin")).unwrap();
    std::fs::write(tree.join("bin/tool"), "tool").unwrap();
    std::fs::hard_link(tree.join("bin/tool"), tree.join("bin/same")).unwrap();
    let container = buildah(&["from", "scratch"]);
    buildah(&["copy", &container, &tree.display().to_string(), "/"]);
    let copy = format!("oci-archive:{}:app", scratch.join("app.tar").display());
    buildah(&["commit", "-q", "--format", "oci", &container, &copy]);
    let mounted = PathBuf::from(buildah(&["mount", &container]));
    let image = scratch.join("x.img");
    built(build([copy.as_ref(), image.as_os_str()]), &image);
    // The layer says nothing of the root directory.
    let differences = differences(&image, &mounted);
    let below: Vec<&String> = differences.iter().filter(|it| !it.starts_with("/: ")).collect();
    assert!(below.is_empty(), "{below:?}");
    assert!(names(&image).contains(&"/bin/tool".to_owned()));
    buildah(&["umount", &container]);
    buildah(&["rm", &container]);
}
