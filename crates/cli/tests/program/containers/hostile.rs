//! What is not as it says: one line that names it, a hint where there is one, and no image.
use crate::containers::command::{Refusal, build, built, names, refused};
use crate::containers::made::{
    CONFIG, Documents, Entry, INDEX, Layout, MANIFEST, Packing, archive, device, digest, file,
    folder, hard_link, layout, symlink, tar,
};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use serde_json::{Value, json};
use std::os::unix::fs::symlink as host_link;
use std::path::Path;

/// Builds from a layout that has to be refused.
fn refusal(scratch: &Scratch, layout: &Path) -> Refusal {
    let image = scratch.join("x.img");
    refused(build([layout.as_os_str(), image.as_os_str()]), &image)
}

/// Two layers, the second of which is damaged by `damage`, which has the path of its blob.
fn damaged(name: &str, packing: Packing, damage: impl FnOnce(&Path)) -> Option<(Refusal, String)> {
    if !["gzip", "zstd"].iter().all(|tool| require(tool)) {
        return None;
    }
    let scratch = Scratch::new(&format!("containers-{name}"));
    let layers = [(tar(&[file("a", b"1")]), packing), (tar(&[file("b", &[7; 100_000])]), packing)];
    let made = Layout::new(scratch.join("layout"));
    let documents = made.documents(&layers);
    let digest = documents.manifest["layers"][1]["digest"].as_str().unwrap().to_owned();
    let mut made = made;
    let descriptor = made.store(documents);
    made.list("test", descriptor);
    made.finish();
    damage(&made.blob_path(&digest));
    Some((refusal(&scratch, &made.path), digest))
}

/// The same, after other bytes took the place of those of the same length.
fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = at.min(bytes.len() - 1);
    bytes[at] ^= 0x55;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_wrong_digest_is_named_with_its_layer() {
    for packing in [Packing::Plain, Packing::Gzip, Packing::Zstandard, Packing::Chunked] {
        for at in [5, 60, 700, usize::MAX] {
            let Some((said, digest)) = damaged("digest", packing, |path| flip(path, at)) else {
                return;
            };
            let wanted = format!("layer 2 ({digest}): has the digest sha256:");
            assert!(said.message.contains(&wanted), "{at}: {}", said.message);
        }
    }
}

#[test]
fn a_wrong_size_is_named_with_its_layer() {
    let longer = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, [&bytes[..], b"garbage"].concat()).unwrap();
    };
    let Some((said, digest)) = damaged("longer", Packing::Gzip, longer) else { return };
    assert!(said.message.contains(&format!("layer 2 ({digest}): has ")), "{}", said.message);
    let shorter = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    };
    let Some((said, _)) = damaged("shorter", Packing::Zstandard, shorter) else { return };
    assert!(said.message.contains(" bytes, not "), "{}", said.message);
}

#[test]
fn a_missing_layer_is_named() {
    let remove = |path: &Path| std::fs::remove_file(path).unwrap();
    let Some((said, digest)) = damaged("missing", Packing::Gzip, remove) else { return };
    assert!(said.message.ends_with(&format!("layer 2 ({digest}): is missing")), "{}", said.message);
    assert!(said.hint.is_some());
}

#[test]
fn a_blob_that_is_a_link_out_of_the_folder_is_refused() {
    let outside = Scratch::new("containers-outside");
    let link = |path: &Path| {
        let other = outside.join("blob");
        std::fs::rename(path, &other).unwrap();
        host_link(other, path).unwrap();
    };
    let Some((said, _)) = damaged("link", Packing::Gzip, link) else { return };
    assert!(said.message.contains("is a link that leads out of the folder"), "{}", said.message);
    let pipe = |path: &Path| {
        std::fs::remove_file(path).unwrap();
        extant_testkit::command::run("mkfifo", &[path]).unwrap();
    };
    let Some((said, _)) = damaged("pipe", Packing::Gzip, pipe) else { return };
    assert!(said.message.contains("is no regular file"), "{}", said.message);
}

/// Builds from one plain layer whose documents are changed before they are stored.
fn changed(name: &str, change: impl FnOnce(&Layout, &mut Documents)) -> Refusal {
    let scratch = Scratch::new(&format!("containers-{name}"));
    let mut made = Layout::new(scratch.join("layout"));
    let mut documents = made.documents(&[(tar(&[file("a", b"1")]), Packing::Plain)]);
    change(&made, &mut documents);
    let descriptor = made.store(documents);
    made.list("test", descriptor);
    made.finish();
    refusal(&scratch, &made.path)
}

#[test]
fn documents_that_do_not_fit_are_refused() {
    let layer = |documents: &mut Documents, key: &str, value: Value| {
        documents.manifest["layers"][0][key] = value;
    };
    type Change = Box<dyn FnOnce(&Layout, &mut Documents)>;
    let cases: Vec<(&str, Change)> = vec![
        (
            "is no digest",
            Box::new(move |_, documents| layer(documents, "digest", json!("sha256:../../x"))),
        ),
        (
            "is no digest",
            Box::new(move |_, documents| layer(documents, "digest", json!("md5:00\u{1b}[2J"))),
        ),
        ("bytes, not 7", Box::new(move |_, documents| layer(documents, "size", json!(7)))),
        ("as it should be", Box::new(move |_, documents| layer(documents, "size", json!(-1)))),
        (
            "is encrypted",
            Box::new(move |_, documents| {
                let kind = "application/vnd.oci.image.layer.v1.tar+gzip+encrypted";
                layer(documents, "mediaType", json!(kind));
            }),
        ),
        (
            "is of the unknown type text/html",
            Box::new(move |_, documents| layer(documents, "mediaType", json!("text/html"))),
        ),
        (
            "lists the digests of 2 layers, but the image has 1",
            Box::new(|_, documents| {
                let id = documents.config["rootfs"]["diff_ids"][0].clone();
                documents.config["rootfs"]["diff_ids"] = json!([id, id]);
            }),
        ),
        (
            "and the configuration says",
            Box::new(|_, documents| {
                documents.config["rootfs"]["diff_ids"] = json!([digest(b"other")]);
            }),
        ),
        (
            "has no rootfs of layers",
            Box::new(|_, documents| documents.config["rootfs"] = json!({"type": "x"})),
        ),
        (
            "is an index and a manifest at once",
            Box::new(|_, documents| documents.manifest["manifests"] = json!([])),
        ),
        (
            "says that it is",
            Box::new(|_, documents| documents.manifest["mediaType"] = json!(INDEX)),
        ),
        ("schema 1", Box::new(|_, documents| documents.manifest["schemaVersion"] = json!(1))),
        (
            "is of schema version 3",
            Box::new(|_, documents| {
                documents.manifest["schemaVersion"] = json!(3);
            }),
        ),
        (
            "has 5000000 bytes; at most",
            Box::new(|layout, documents| {
                documents.manifest["config"] = layout.blob(CONFIG, &vec![b' '; 5_000_000]);
            }),
        ),
        (
            "as it should be: recursion limit",
            Box::new(|layout, documents| {
                let deep = format!("{{\"a\":{}", "[".repeat(100_000));
                documents.manifest["config"] = layout.blob(CONFIG, deep.as_bytes());
            }),
        ),
    ];
    for (wanted, change) in cases {
        let said = changed("documents", change);
        assert!(said.message.contains(wanted), "{wanted}: {}", said.message);
        assert_eq!(said.code, Some(1), "{wanted}");
    }
}

#[test]
fn a_layer_that_is_not_handed_on_is_named() {
    let said = changed("foreign", |layout, documents| {
        let digest = documents.manifest["layers"][0]["digest"].as_str().unwrap().to_owned();
        std::fs::remove_file(layout.blob_path(&digest)).unwrap();
        documents.manifest["layers"][0]["mediaType"] =
            json!("application/vnd.oci.image.layer.nondistributable.v1.tar");
    });
    assert!(said.message.contains("is not in the image, but to be had elsewhere"));
}

#[test]
fn indexes_are_followed_to_a_depth_and_not_for_ever() {
    let scratch = Scratch::new("containers-nesting");
    let nested = |depth: usize| {
        let mut made = Layout::new(scratch.join(&format!("layout-{depth}")));
        let documents = made.documents(&[(tar(&[file("a", b"1")]), Packing::Plain)]);
        let mut inner = made.store(documents);
        for _ in 0..depth {
            // Twice: that many ways lead to the image, and each document is read once.
            let index = json!({"schemaVersion": 2, "manifests": [inner, inner]});
            inner = made.blob(INDEX, index.to_string().as_bytes());
        }
        made.list("test", inner);
        made.finish();
        made.path
    };
    let image = scratch.join("x.img");
    built(build([nested(4).as_os_str(), image.as_os_str()]), &image);
    std::fs::remove_file(&image).unwrap();
    let said = refusal(&scratch, &nested(5));
    assert!(said.message.contains("is in more than 4 indexes"), "{}", said.message);
    // An index cannot hold its own digest; one that claims to is not what it says.
    let mut made = Layout::new(scratch.join("loop"));
    let claimed = digest(b"x");
    let index = json!({"schemaVersion": 2, "manifests": [
        {"mediaType": INDEX, "digest": claimed, "size": 1}]});
    let index = index.to_string();
    std::fs::write(made.blob_path(&claimed), &index).unwrap();
    made.list("x", json!({"mediaType": INDEX, "digest": claimed, "size": index.len()}));
    made.finish();
    let said = refusal(&scratch, &made.path);
    assert!(said.message.contains("has the digest"), "{}", said.message);
}

#[test]
fn names_with_control_characters_are_escaped() {
    let scratch = Scratch::new("containers-control");
    let mut made = Layout::new(scratch.join("layout"));
    for number in [1, 2] {
        let layer = tar(&[file(&format!("{number}"), b"")]);
        let descriptor = made.store(made.documents(&[(layer, Packing::Plain)]));
        made.list(&format!("\u{1b}[2J\nname-{number}"), descriptor);
    }
    made.finish();
    let said = refusal(&scratch, &made.path);
    assert!(said.message.contains("name-1") && said.message.contains("name-2"));
}

/// Builds from plain layers; what `ls -R` lists, or the refusal.
fn layers(name: &str, layers: &[Vec<Entry>]) -> Result<Vec<String>, String> {
    let scratch = Scratch::new(&format!("containers-{name}"));
    let layers: Vec<_> = layers.iter().map(|layer| (tar(layer), Packing::Plain)).collect();
    let made = layout(scratch.join("layout"), &layers);
    let image = scratch.join("x.img");
    let output = build([made.path.as_os_str(), image.as_os_str()]).output().unwrap();
    if !output.status.success() {
        assert!(!image.exists());
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    extant_testkit::oracle::e2fsck(&image).unwrap();
    Ok(names(&image))
}

#[test]
fn entries_never_leave_the_tree() {
    let found = layers(
        "through",
        &[
            vec![folder("etc/"), symlink("a", "/etc"), symlink("up", "../../..")],
            vec![file("a/passwd", b"inside"), file("up/top", b"top")],
        ],
    );
    let found = found.unwrap();
    for name in ["/etc/passwd", "/top"] {
        assert!(found.iter().any(|path| path == name), "{name}: {found:?}");
    }
    let out = layers("out", &[vec![file("../x", b"")]]).unwrap_err();
    assert!(out.contains("layer 1 (sha256:") && out.contains("leads out of the archive"), "{out}");
    let dangling = layers("dangling", &[vec![symlink("d", "/none"), file("d/x", b"")]]);
    assert!(dangling.unwrap_err().contains("d: is not a directory, but has files below it"));
}

#[test]
fn whiteouts_of_names_that_nothing_has_are_refused() {
    for name in [".wh..", ".wh...", ".wh.", "a/.wh..."] {
        let said = layers("whiteout", &[vec![file("x", b"")], vec![file(name, b"")]]).unwrap_err();
        assert!(said.contains("layer 2 (") && said.contains("is a whiteout of"), "{name}: {said}");
    }
}

#[test]
fn a_link_to_what_a_layer_removed_is_refused() {
    let said = layers(
        "removed",
        &[vec![file("x", b"1")], vec![file(".wh.x", b"")], vec![hard_link("y", "x")]],
    );
    let said = said.unwrap_err();
    assert!(said.contains("layer 3 (") && said.contains("y: is a hard link to x"), "{said}");
    // aufs's own files are left out.
    let kept = layers("aufs", &[vec![folder(".wh..wh.plnk/"), file(".wh..wh.aufs", b"")]]);
    assert!(kept.unwrap().iter().all(|name| !name.contains(".wh.")));
    assert!(layers("device", &[vec![device("null")]]).unwrap().contains(&"/null".to_owned()));
}

#[test]
fn archives_that_are_no_containers_say_so() {
    let scratch = Scratch::new("containers-archives");
    let (source, image) = (scratch.join("x.tar"), scratch.join("x.img"));
    let list = |config: &str, layer: &str| {
        json!([{"Config": config, "RepoTags": ["a"], "Layers": [layer]}]).to_string()
    };
    let config = json!({"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers",
        "diff_ids": [digest(b"x")]}});
    let config = config.to_string();
    for (wanted, entries) in [
        ("manifest.json: is missing", vec![file("x", b"")]),
        ("leads out of the archive", vec![file("../manifest.json", b"[]")]),
        ("is a link out of the archive", vec![symlink("layer.tar", "../../etc/passwd")]),
        ("is a link out of the archive", vec![symlink("layer.tar", "/etc/passwd")]),
        ("is no file, directory or link", vec![device("manifest.json")]),
        ("manifest.json: is not as it should be", vec![file("manifest.json", b"{}")]),
        ("holds no image", vec![file("manifest.json", b"[]")]),
        (
            "configuration (../c): leads out",
            vec![file("manifest.json", list("../c", "l").as_bytes())],
        ),
        ("configuration (c): is missing", vec![file("manifest.json", list("c", "l").as_bytes())]),
        (
            "layer 1 (l): is missing",
            vec![
                file("manifest.json", list("c", "l").as_bytes()),
                file("c", config.as_bytes()),
                symlink("l", "l"),
            ],
        ),
        (
            "has the digest",
            vec![
                file("manifest.json", list(&format!("{}.json", "0".repeat(64)), "l").as_bytes()),
                file(&format!("{}.json", "0".repeat(64)), config.as_bytes()),
            ],
        ),
    ] {
        std::fs::write(&source, tar(&entries)).unwrap();
        let word = format!("docker-archive:{}", source.display());
        let said = refused(build([word.as_ref(), image.as_os_str()]), &image);
        assert!(said.message.contains(wanted), "{wanted}: {}", said.message);
    }
    // Neither a layout nor a tag.
    for (word, code) in [("oci:", 2), ("oci:-", 2), ("oci-archive:x:", 2), ("oci:/dev/null", 1)] {
        let said = refused(build([word.as_ref(), image.as_os_str()]), &image);
        assert_eq!(said.code, Some(code), "{word}: {}", said.message);
    }
    let dotted = layout(scratch.join("layout"), &[(tar(&[]), Packing::Plain)]);
    let blob = dotted.manifests[0]["digest"].as_str().unwrap();
    std::fs::write(dotted.blob_path(blob), b"{}").unwrap();
    archive(&dotted.path, &source);
    let word = format!("oci-archive:{}", source.display());
    let said = refused(build([word.as_ref(), image.as_os_str()]), &image);
    assert!(said.message.contains(&format!("manifest ({blob}): has 2 bytes")), "{}", said.message);
    assert!(blob.starts_with("sha256:") && MANIFEST.ends_with("+json"));
}

/// A layer that becomes a thousand times as large takes room on the disk, not memory.
#[test]
fn a_bomb_takes_no_memory() {
    if !require("gzip") {
        return;
    }
    let scratch = Scratch::new("containers-bomb");
    // Zeros would be holes.
    let body = vec![1; 300 << 20];
    let layers = [
        (tar(&[file("ones", &body)]), Packing::Gzip),
        (tar(&[file("more", &body[..20 << 20])]), Packing::Gzip),
    ];
    drop(body);
    let made = layout(scratch.join("layout"), &layers);
    drop(layers);
    let image = scratch.join("x.img");
    let command = build([made.path.as_os_str(), image.as_os_str()]);
    let mut limited = std::process::Command::new("sh");
    // Of the address space, which holds the threads' stacks and the program itself too.
    limited.args(["-c", "ulimit -v 262144 && exec \"$0\" \"$@\""]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.env_remove("SOURCE_DATE_EPOCH");
    let output = limited.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::metadata(&image).unwrap().len() >> 20 >= 320);
}
