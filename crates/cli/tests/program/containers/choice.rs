//! Which image of several, and what is written of its configuration.
use crate::containers::command::{build, built, names, refused};
use crate::containers::made::{INDEX, Layout, Packing, archive, file, layout, tar};
use extant_testkit::scratch::Scratch;
use serde_json::{Value, json};

/// A layout with an image of each of these names and platforms; each holds a file of its number.
fn several(scratch: &Scratch, images: &[(&str, &str)]) -> Layout {
    let mut layout = Layout::new(scratch.join("layout"));
    for (number, (name, platform)) in images.iter().enumerate() {
        let descriptor = image(&layout, number, platform);
        layout.list(name, descriptor);
    }
    layout.finish();
    layout
}

fn image(layout: &Layout, number: usize, platform: &str) -> Value {
    let layer = tar(&[file(&format!("image-{number}"), b"")]);
    let mut documents = layout.documents(&[(layer, Packing::Plain)]);
    let words: Vec<&str> = platform.split('/').collect();
    documents.config["os"] = words[0].into();
    documents.config["architecture"] = words[1].into();
    layout.store(documents)
}

#[test]
fn a_name_or_a_platform_chooses() {
    let scratch = Scratch::new("containers-choice");
    let layout = several(
        &scratch,
        &[("one", "linux/amd64"), ("two:1", "linux/amd64"), ("x", "linux/s390x")],
    );
    let (path, image) = (layout.path.display().to_string(), scratch.join("x.img"));
    let refusal = refused(build([path.as_ref(), image.as_os_str()]), &image);
    assert_eq!(refusal.code, Some(1));
    let list = "one (linux/amd64), two:1 (linux/amd64), x (linux/s390x)";
    assert_eq!(refusal.message, format!("extant: build: {path}: holds 3 images: {list}"));
    assert!(refusal.hint.is_some_and(|hint| hint.contains("--platform")));
    let digest = layout.manifests[1]["digest"].as_str().unwrap();
    for (source, platform, wanted) in [
        (format!("oci:{path}:one"), None, Some("/image-0")),
        (format!("oci:{path}:two:1"), None, Some("/image-1")),
        (format!("oci:{path}:{digest}"), None, Some("/image-1")),
        (path.clone(), Some("linux/s390x"), Some("/image-2")),
        (format!("oci:{path}:one"), Some("linux/x86_64"), Some("/image-0")),
        (format!("oci:{path}:one"), Some("linux/arm64"), None),
        (path.clone(), Some("linux/amd64"), None),
        (format!("oci:{path}:three"), None, None),
        (format!("oci:{path}/nowhere"), None, None),
    ] {
        let _ = std::fs::remove_file(&image);
        let mut command = build(platform.map_or(vec![], |platform| vec!["--platform", platform]));
        command.args([source.as_ref(), image.as_os_str()]);
        match wanted {
            None => drop(refused(command, &image)),
            Some(wanted) => {
                built(command, &image);
                assert!(names(&image).iter().any(|name| name == wanted), "{source}");
            }
        }
    }
}

/// A signature and an attestation beside an image are not meant, nor what is listed twice.
#[test]
fn what_is_kept_beside_an_image_is_not_meant() {
    let scratch = Scratch::new("containers-beside");
    let mut layout = Layout::new(scratch.join("layout"));
    let found = image(&layout, 0, "linux/amd64");
    let signature = json!({"schemaVersion": 2, "config": layout.blob("application/x", b"{}"),
        "artifactType": "application/vnd.signature", "layers": []});
    let manifest = crate::containers::made::MANIFEST;
    let signature = layout.blob(manifest, signature.to_string().as_bytes());
    let mut attestation = image(&layout, 1, "unknown/unknown");
    attestation["annotations"] = json!({"vnd.docker.reference.type": "attestation-manifest"});
    let index = json!({"schemaVersion": 2, "manifests": [found, attestation, found]});
    let index = layout.blob(INDEX, index.to_string().as_bytes());
    layout.list("app", index);
    layout.list("app.sig", signature);
    layout.list("again", found);
    layout.finish();
    let (source, config) = (layout.path.display().to_string(), scratch.join("config.json"));
    let image = scratch.join("x.img");
    let mut command = build(["--config-json"]);
    built(
        {
            command.arg(&config).args([source.as_ref(), image.as_os_str()]);
            command
        },
        &image,
    );
    assert!(names(&image).contains(&"/image-0".to_owned()));
    // Byte for byte, as a digest shows.
    let bytes = std::fs::read(config).unwrap();
    assert!(layout.blob_path(&crate::containers::made::digest(&bytes)).is_file());
    std::fs::remove_file(&image).unwrap();
    let signature = format!("oci:{source}:app.sig");
    let refusal = refused(build([signature.as_ref(), image.as_os_str()]), &image);
    assert!(refusal.message.contains("application/vnd.signature, not a root file system"));
}

#[test]
fn an_image_can_be_taken_as_its_files() {
    let scratch = Scratch::new("containers-files");
    let layout = several(&scratch, &[("one", "linux/amd64")]);
    let image = scratch.join("x.img");
    let words = ["--containers", "files"].map(std::ffi::OsStr::new);
    let words = [words[0], words[1], layout.path.as_os_str(), image.as_os_str()];
    built(build(words), &image);
    assert!(names(&image).contains(&"/index.json".to_owned()));
}

/// Zeros of layers are holes, in whichever way the layers are packed and the image comes.
#[test]
fn zeros_in_layers_are_holes() {
    let scratch = Scratch::new("containers-zeros");
    let zeros = vec![0; 6 << 20];
    let mut mixed = zeros.clone();
    mixed[5 << 20] = 1;
    let layers = [
        (tar(&[file("below", &zeros), file("gone", &zeros)]), Packing::Gzip),
        (tar(&[file("mixed", &mixed), file(".wh.gone", b"")]), Packing::Plain),
    ];
    let layout = layout(scratch.join("layout"), &layers);
    let packed = scratch.join("layout.tar");
    archive(&layout.path, &packed);
    let image = scratch.join("x.img");
    for source in [&layout.path, &packed] {
        for order in ["tree", "arrival"] {
            let _ = std::fs::remove_file(&image);
            let words = ["--order".as_ref(), order.as_ref(), source.as_os_str(), image.as_os_str()];
            built(build(words), &image);
            let length = std::fs::metadata(&image).unwrap().len();
            // With the order of arrival there is room for descriptors of a volume of any size.
            let most = if order == "tree" { 1 << 20 } else { 3 << 20 };
            assert!(length < most, "{}, {order}: {length}", source.display());
            let names = names(&image);
            assert!(names.iter().any(|name| name == "/mixed"), "{names:?}");
            assert!(!names.iter().any(|name| name == "/gone"), "{names:?}");
        }
    }
}
