//! Layers entry by entry, and layouts blob by blob.
use extant_testkit::command::{output, program};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

/// An entry of a layer.
pub struct Entry {
    name: String,
    kind: u8,
    mode: u32,
    owner: u32,
    time: u64,
    target: String,
    body: Vec<u8>,
}

fn entry(name: &str, kind: u8, mode: u32) -> Entry {
    let (name, time) = (name.to_owned(), 1_600_000_000);
    Entry { name, kind, mode, owner: 0, time, target: String::new(), body: Vec::new() }
}

pub fn file(name: &str, body: &[u8]) -> Entry {
    Entry { body: body.to_vec(), ..entry(name, b'0', 0o644) }
}

pub fn folder(name: &str) -> Entry {
    entry(name, b'5', 0o755)
}

pub fn symlink(name: &str, target: &str) -> Entry {
    Entry { target: target.to_owned(), ..entry(name, b'2', 0o777) }
}

pub fn hard_link(name: &str, target: &str) -> Entry {
    Entry { target: target.to_owned(), ..entry(name, b'1', 0o644) }
}

/// A character device 1:3.
pub fn device(name: &str) -> Entry {
    entry(name, b'3', 0o666)
}

impl Entry {
    pub fn mode(self, mode: u32) -> Entry {
        Entry { mode, ..self }
    }
    pub fn owner(self, owner: u32) -> Entry {
        Entry { owner, ..self }
    }
    pub fn time(self, time: u64) -> Entry {
        Entry { time, ..self }
    }

    fn write(&self, archive: &mut Vec<u8>) {
        let mut header = [0u8; 512];
        let mut put = |at: usize, text: &str| {
            header[at..at + text.len()].copy_from_slice(text.as_bytes());
        };
        put(0, &self.name);
        put(100, &format!("{:07o}", self.mode));
        put(108, &format!("{:07o}", self.owner));
        put(116, &format!("{:07o}", self.owner));
        put(124, &format!("{:011o}", self.body.len()));
        put(136, &format!("{:011o}", self.time));
        put(148, "        ");
        put(157, &self.target);
        put(257, "ustar\x0000");
        if self.kind == b'3' {
            put(329, "0000001");
            put(337, "0000003");
        }
        header[156] = self.kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend_from_slice(&header);
        archive.extend_from_slice(&self.body);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
}

/// A tar archive of these entries.
pub fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut archive = Vec::new();
    entries.iter().for_each(|entry| entry.write(&mut archive));
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// How a layer is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Gzip,
    Zstandard,
    /// Several frames with others between them that are passed over, as zstd:chunked has them.
    Chunked,
}

impl Packing {
    fn media_type(self) -> String {
        let end = match self {
            Packing::Plain => "",
            Packing::Gzip => "+gzip",
            Packing::Zstandard | Packing::Chunked => "+zstd",
        };
        format!("application/vnd.oci.image.layer.v1.tar{end}")
    }

    fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Packing::Plain => bytes.to_vec(),
            Packing::Gzip => filter("gzip", &["-nc"], bytes),
            Packing::Zstandard => filter("zstd", &["-qc"], bytes),
            Packing::Chunked => {
                let skipped = [&0x184d_2a50_u32.to_le_bytes()[..], &[3, 0, 0, 0], b"abc"].concat();
                let pieces = bytes.chunks(bytes.len().div_ceil(3).max(1));
                let frames =
                    pieces.flat_map(|piece| [filter("zstd", &["-qc"], piece), skipped.clone()]);
                frames.collect::<Vec<_>>().concat()
            }
        }
    }
}

fn filter(tool: &str, words: &[&str], bytes: &[u8]) -> Vec<u8> {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(bytes).unwrap();
    input.rewind().unwrap();
    let output = program(tool).args(words).stdin(input).output().unwrap();
    assert!(output.status.success(), "{tool}");
    output.stdout
}

pub fn digest(bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

/// An OCI layout in a folder.
pub struct Layout {
    pub path: PathBuf,
    pub manifests: Vec<Value>,
}

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const NAME: &str = "org.opencontainers.image.ref.name";

/// The documents of an image, before they are written.
pub struct Documents {
    pub config: Value,
    pub manifest: Value,
}

impl Layout {
    pub fn new(path: PathBuf) -> Layout {
        std::fs::create_dir_all(path.join("blobs/sha256")).unwrap();
        Layout { path, manifests: Vec::new() }
    }

    /// Where a blob is.
    pub fn blob_path(&self, digest: &str) -> PathBuf {
        self.path.join("blobs").join(digest.replacen(':', "/", 1))
    }

    /// Stores bytes; their descriptor.
    pub fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = digest(bytes);
        std::fs::write(self.blob_path(&digest), bytes).unwrap();
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    /// The documents of an image of these layers.
    pub fn documents(&self, layers: &[(Vec<u8>, Packing)]) -> Documents {
        let diff_ids: Vec<String> = layers.iter().map(|(bytes, _)| digest(bytes)).collect();
        let layers: Vec<Value> = layers
            .iter()
            .map(|(bytes, packing)| self.blob(&packing.media_type(), &packing.pack(bytes)))
            .collect();
        Documents {
            config: json!({"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/init"]},
                "rootfs": {"type": "layers", "diff_ids": diff_ids}}),
            manifest: json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers}),
        }
    }

    /// Stores the documents of an image; its descriptor.
    pub fn store(&self, documents: Documents) -> Value {
        let Documents { config, mut manifest } = documents;
        if manifest.get("config").is_none() {
            manifest["config"] = self.blob(CONFIG, config.to_string().as_bytes());
        }
        self.blob(MANIFEST, manifest.to_string().as_bytes())
    }

    /// Lists what a descriptor leads to under a name.
    pub fn list(&mut self, name: &str, mut descriptor: Value) {
        descriptor["annotations"] = json!({NAME: name});
        self.manifests.push(descriptor);
    }

    /// Writes the index and the file that shows what the folder is.
    pub fn finish(&self) {
        let index = json!({"schemaVersion": 2, "manifests": self.manifests});
        std::fs::write(self.path.join("index.json"), index.to_string()).unwrap();
        std::fs::write(self.path.join("oci-layout"), "{\"imageLayoutVersion\": \"1.0.0\"}")
            .unwrap();
    }
}

/// A layout of one image with these layers.
pub fn layout(path: PathBuf, layers: &[(Vec<u8>, Packing)]) -> Layout {
    let mut layout = Layout::new(path);
    let descriptor = layout.store(layout.documents(layers));
    layout.list("test", descriptor);
    layout.finish();
    layout
}

/// An archive of a folder, by GNU tar.
pub fn archive(folder: &Path, archive: &Path) {
    let mut tar = program("tar");
    output(tar.arg("-cf").arg(archive).arg("-C").arg(folder).arg(".")).unwrap();
}
