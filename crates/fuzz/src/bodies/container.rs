//! Container images: the documents of an OCI layout, and what `docker save` writes.
//!
//! An input is documents, each ended by a byte 0: an index, a manifest, a configuration, a list of
//! `docker save`, and a layer. `@M`, `@C` and `@L` stand for digest and size of manifest,
//! configuration and layer, so that changed documents still lead to each other.
use extant_image::source::{ContainerForm, ContainerPlace, ReadOptions, Source, collect};
use extant_testkit::scratch::Scratch;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::{fs, io};

const INDEX: &str = r#"{"schemaVersion":2,"manifests":[{"mediaType":
"application/vnd.oci.image.manifest.v1+json",@M,
"platform":{"os":"linux","architecture":"amd64"},
"annotations":{"org.opencontainers.image.ref.name":"latest"}}]}"#;
const MANIFEST: &str = r#"{"schemaVersion":2,"config":{"mediaType":
"application/vnd.oci.image.config.v1+json",@C},"layers":[{"mediaType":
"application/vnd.oci.image.layer.v1.tar",@L}]}"#;
const CONFIGURATION: &str = r#"{"os":"linux","architecture":"amd64",
"rootfs":{"type":"layers","diff_ids":["@D"]}}"#;
const SAVED: &str = r#"[{"Config":"@c","RepoTags":["a:latest"],"Layers":["@l"]}]"#;

/// The documents of one image, and its layer.
pub fn documents() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for document in [INDEX, MANIFEST, CONFIGURATION, SAVED] {
        all.extend(document.bytes());
        all.push(0);
    }
    all.extend([member("file", b"content"), member(".wh.gone", b""), vec![0; 1024]].concat());
    vec![all]
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A document with what its marks stand for.
fn filled(document: &[u8], marks: &[(&str, String)]) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(document).into_owned();
    for (mark, value) in marks {
        text = text.replace(mark, value);
    }
    text.into_bytes()
}

fn described(blob: &[u8]) -> String {
    format!(r#""digest":"sha256:{}","size":{}"#, hex(blob), blob.len())
}

/// A folder with a layout, and with an archive of `docker save`.
struct Made(Scratch);

impl Made {
    fn forms(&self) -> [(ContainerForm, PathBuf); 2] {
        let Made(folder) = self;
        [
            (ContainerForm::Oci, folder.path().to_owned()),
            (ContainerForm::DockerArchive, folder.join("saved.tar")),
        ]
    }
}

fn made(input: &[u8]) -> io::Result<Made> {
    let mut parts = input.splitn(5, |byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let [index, manifest, configuration, saved, layer] = [(); 5].map(|()| next());
    let configuration = filled(configuration, &[("@D", format!("sha256:{}", hex(layer)))]);
    let of_manifest = [("@C", described(&configuration)), ("@L", described(layer))];
    let manifest = filled(manifest, &of_manifest);
    let index = filled(index, &[("@M", described(&manifest))]);
    let folder = Scratch::new("fuzz-container");
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    fs::write(folder.join("index.json"), &index)?;
    for blob in [&manifest[..], &configuration, layer] {
        fs::write(blobs.join(hex(blob)), blob)?;
    }
    let names = [("@c", "c.json".to_owned()), ("@l", "l.tar".to_owned())];
    let archive = [
        member("manifest.json", &filled(saved, &names)),
        member("c.json", &configuration),
        member("l.tar", layer),
        vec![0; 1024],
    ];
    fs::write(folder.join("saved.tar"), archive.concat())?;
    Ok(Made(folder))
}

fn source(form: ContainerForm, path: PathBuf) -> Source {
    Source::Container { form, place: ContainerPlace::Path(path), tag: None }
}

/// A layout of these documents, and an archive of `docker save`.
pub fn container(input: &[u8]) {
    let Ok(made) = made(input) else { return };
    for (form, path) in made.forms() {
        if let Err(error) = collect([source(form, path)], &ReadOptions::default(), &()) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// One file of an archive.
fn member(name: &str, body: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", body.len()).as_bytes());
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = [&header[..], body].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_to_begin_with_are_an_image() {
        let made = made(&documents()[0]).expect("the folder is written");
        for (form, path) in made.forms() {
            let source = source(form, path);
            let collected = collect([source], &ReadOptions::default(), &());
            let collected = collected.unwrap_or_else(|error| panic!("{form:?}: {error}"));
            assert_eq!(collected.containers.len(), 1, "{form:?}");
        }
    }
}
