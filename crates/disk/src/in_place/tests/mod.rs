//! Images that QEMU made, written at random beside a model, judged by QEMU; and cut.
mod cuts;
mod lives;
mod recorder;
mod refused;

use super::Qcow2;
use extant_block::BlockDevice;
use extant_testkit::command::{output, program};
use extant_testkit::numbers::Numbers;
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a disk: not a whole number of the largest clusters.
const DISK_BYTES: usize = (5 << 20) + 1536;

/// Kinds of images: a name, what `qemu-img` is told, and what was done to it before.
const KINDS: &[(&str, &str, Before)] = &[
    ("plain", "cluster_size=65536", Before::Data),
    ("tiny", "cluster_size=512", Before::Data),
    ("large", "cluster_size=2M", Before::Data),
    ("old", "compat=0.10,cluster_size=4096", Before::Snapshot),
    ("snapshot", "cluster_size=4096", Before::Snapshot),
    ("compressed", "cluster_size=4096", Before::Compressed),
    ("zstd", "cluster_size=65536,compression_type=zstd", Before::Compressed),
    ("subclusters", "cluster_size=16384,extended_l2=on", Before::Snapshot),
    ("packed subclusters", "cluster_size=65536,extended_l2=on", Before::Compressed),
    ("narrow", "cluster_size=4096,refcount_bits=1", Before::Data),
    ("wide", "cluster_size=512,refcount_bits=64,lazy_refcounts=on", Before::Snapshot),
    ("allocated", "cluster_size=4096,preallocation=metadata", Before::Nothing),
    ("backed", "cluster_size=4096", Before::Backing),
    ("old and backed", "compat=0.10,cluster_size=1024", Before::Backing),
    ("backed subclusters", "cluster_size=16384,extended_l2=on", Before::Backing),
    ("empty", "cluster_size=1024", Before::Nothing),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    Nothing,
    Data,
    Compressed,
    Snapshot,
    Backing,
}

/// An image, what its disk holds, and what it is based on.
struct Made {
    folder: Scratch,
    model: Vec<u8>,
    backing: Option<Arc<dyn BlockDevice>>,
}

impl Made {
    fn new(kind: &(&str, &str, Before), numbers: &mut Numbers) -> Made {
        let (name, options, before) = *kind;
        let folder = Scratch::new(&format!("qcow2-{}", name.replace(' ', "-")));
        let at = folder.path();
        let mut model = vec![0; DISK_BYTES];
        for _ in 0..12 {
            let start = numbers.below(DISK_BYTES as u64) as usize / 512 * 512;
            let length = numbers.below(300_000).min((DISK_BYTES - start) as u64) as usize;
            let byte = numbers.draw() as u8;
            for (place, to) in model[start..start + length].iter_mut().enumerate() {
                *to = byte ^ (place / 512) as u8;
            }
        }
        if before == Before::Nothing {
            model.fill(0);
        }
        std::fs::write(at.join("raw"), &model).unwrap();
        let mut backing = None;
        match before {
            Before::Nothing => {
                let bytes = DISK_BYTES.to_string();
                qemu(at, &["create", "-q", "-f", "qcow2", "-o", options, "x.qcow2", &bytes]);
            }
            Before::Backing => {
                // The base ends before the disk does.
                model[4 << 20..].fill(0);
                std::fs::write(at.join("raw"), &model[..4 << 20]).unwrap();
                let bytes = DISK_BYTES.to_string();
                let words =
                    ["create", "-q", "-f", "qcow2", "-b", "raw", "-F", "raw", "-o", options];
                qemu(at, &[&words[..], &["x.qcow2", &bytes]].concat());
                let base = extant_block::MemoryDevice::from_bytes(
                    extant_block::RealClock::new(),
                    &model[..4 << 20],
                );
                backing = Some(Arc::new(base) as Arc<dyn BlockDevice>);
            }
            _ => {
                let packed: &[&str] = if before == Before::Compressed { &["-c"] } else { &[] };
                let words =
                    ["convert", "-f", "raw", "-O", "qcow2", "-o", options, "raw", "x.qcow2"];
                qemu(at, &[&words[..1], packed, &words[1..]].concat());
            }
        }
        if before == Before::Snapshot {
            qemu(at, &["snapshot", "-c", "one", "x.qcow2"]);
            let mut io = program("qemu-io");
            io.args(["-f", "qcow2", "-c", "write -q -P 77 100k 300k", "x.qcow2"]);
            output(io.current_dir(at)).unwrap();
            model[100 << 10..400 << 10].fill(77);
            qemu(at, &["snapshot", "-c", "two", "x.qcow2"]);
        }
        Made { folder, model, backing }
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.join("x.qcow2")
    }

    fn open(&self, file: Arc<dyn BlockDevice>) -> Result<Qcow2, crate::read::Error> {
        Qcow2::open(file, self.backing.clone(), "x.qcow2".into())
    }
}

fn qemu(folder: &Path, words: &[&str]) {
    output(program("qemu-img").args(words).current_dir(folder)).unwrap();
}

/// What `qemu-img check` says of an image: 0 for nothing, 3 for clusters that nobody uses.
fn judged(folder: &Path) -> (i32, String) {
    let mut check = program("qemu-img");
    let said = check.args(["check", "x.qcow2"]).current_dir(folder).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
    (said.status.code().unwrap_or(-1), text.into_owned())
}
