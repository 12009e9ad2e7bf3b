//! A container image of ten layers becomes an ext4 image: against decompressing all layers on all
//! processors and copying the image, which is the least that can be done.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Bench, extant, flush, fresh, is_here, maker, once, quoted, remove_tree, words};
use crate::command::{self, is_root, program};
use crate::measure::{Contender, measure, race};
use crate::sheet::Sheet;

/// Layers of the image.
const LAYERS: usize = 10;
/// Bytes of the files that it has; they become a third of that.
const TREE_BYTES: u64 = 1500 << 20;
/// Larger files are left out, so that layers have about the same size.
const FILE_BYTES_MAX: u64 = 200 << 20;
/// The tree that is packed: every machine has it, with files of all kinds.
const TREE: &str = "/usr";

/// An image in an OCI layout.
struct Layout {
    path: PathBuf,
    files: usize,
    stored_bytes: u64,
    unpacked_bytes: u64,
}

/// What one layer is.
struct Layer {
    diff_id: String,
    digest: String,
    stored_bytes: u64,
    unpacked_bytes: u64,
}

/// The table of container images.
///
/// # Errors
/// The image cannot be made, or `cp` fails.
pub fn tables(bench: &Bench, sheet: &mut Sheet) -> Result<(), String> {
    if let Some(missing) = ["tar", "gzip", "sha256sum"].iter().find(|tool| !is_here(tool)) {
        sheet.say(&format!("skipped: no {missing}"));
        return Ok(());
    }
    let layout = layout(bench)?;
    let program = extant()?;
    let (image, copy) = (bench.folder.join("oci.img"), bench.folder.join("oci-copy.img"));
    let made = bench.folder.join("oci-made.img");
    let bundle = bench.folder.join("oci-bundle");
    let source = format!("oci:{}", layout.path.display());
    let build = |options: &[&str], image: &Path| {
        let mut all = words(&[&program, "build", "-q", "-F"]);
        all.extend(words(options));
        all.extend([source.clone(), image.to_string_lossy().into_owned()]);
        all
    };
    once(&build(&[], &made), Some(&made))?;
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let script = format!(
        "find {}/blobs/sha256 -size +64k -print0 | xargs -0 -P{processors} -n1 sh -c 'gzip -dc \
         <\"$0\" >/dev/null' && cp {} {}",
        quoted(&layout.path),
        quoted(&made),
        quoted(&copy)
    );
    let mut contenders = vec![
        maker("gzip -dc on all cores, cp + fsync", words(&["sh", "-c", &script]), &copy),
        maker("extant build oci:", build(&[], &image), &image),
        maker("extant build oci: --order arrival", build(&["--order", "arrival"], &image), &image),
    ];
    if is_here("umoci") && is_root() {
        contenders.push(umoci(&layout.path, &bundle));
    }
    let title = format!(
        "oci: {LAYERS} layers of gzip, {} MB stored, {} MB unpacked, {} files",
        layout.stored_bytes / 1_000_000,
        layout.unpacked_bytes / 1_000_000,
        layout.files
    );
    let result = race(sheet, &title, &contenders, bench.rounds);
    drop(contenders);
    for output in [&image, &copy, &made] {
        fresh(output)?;
    }
    remove_tree(&bundle)?;
    result
}

/// umoci, which unpacks one layer after the other into a folder; its files are flushed too.
fn umoci<'a>(layout: &Path, bundle: &'a Path) -> Contender<'a> {
    let image = format!("{}:bench", layout.display());
    let words = words(&["umoci", "unpack", "--image", &image, &bundle.to_string_lossy()]);
    Contender {
        name: "umoci unpack (a folder) + sync".into(),
        prepare: Box::new(move || {
            remove_tree(bundle)?;
            super::settle();
            Ok(())
        }),
        run: Box::new(move || {
            measure(&words, || {
                super::settle();
                Ok(())
            })
        }),
    }
}

/// The image, made once and kept.
fn layout(bench: &Bench) -> Result<Layout, String> {
    let path = bench.folder.join("oci");
    let notes = path.join("notes.json");
    if let Ok(text) = std::fs::read_to_string(&notes) {
        let notes: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let number = |key: &str| notes[key].as_u64().unwrap_or_default();
        let (stored_bytes, unpacked_bytes) = (number("stored"), number("unpacked"));
        return Ok(Layout { path, files: number("files") as usize, stored_bytes, unpacked_bytes });
    }
    remove_tree(&path)?;
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(path.join("blobs/sha256")).map_err(failed)?;
    let mut files = Vec::new();
    let mut left = TREE_BYTES;
    list(Path::new(TREE), &mut files, &mut left).map_err(failed)?;
    let mut layers = Vec::new();
    for (number, part) in files.chunks(files.len().div_ceil(LAYERS).max(1)).enumerate() {
        eprintln!("oci: layer {} of {LAYERS}", number + 1);
        layers.push(layer(&path, part)?);
    }
    let diff_ids: Vec<&String> = layers.iter().map(|layer| &layer.diff_id).collect();
    let config = json!({"architecture": "amd64", "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": diff_ids}});
    let descriptors: Vec<serde_json::Value> = layers
        .iter()
        .map(|layer| {
            let media_type = "application/vnd.oci.image.layer.v1.tar+gzip";
            json!({"mediaType": media_type, "digest": layer.digest, "size": layer.stored_bytes})
        })
        .collect();
    let config = document(&path, "application/vnd.oci.image.config.v1+json", &config)?;
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": descriptors});
    let mut manifest = document(&path, "application/vnd.oci.image.manifest.v1+json", &manifest)?;
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": "bench"});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    std::fs::write(path.join("index.json"), index.to_string()).map_err(failed)?;
    std::fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).map_err(failed)?;
    let stored_bytes = layers.iter().map(|layer| layer.stored_bytes).sum();
    let unpacked_bytes = layers.iter().map(|layer| layer.unpacked_bytes).sum();
    let text = json!({"files": files.len(), "stored": stored_bytes, "unpacked": unpacked_bytes});
    std::fs::write(&notes, text.to_string()).map_err(failed)?;
    Ok(Layout { path, files: files.len(), stored_bytes, unpacked_bytes })
}

/// The files of a folder and of those below it, sorted, until there are enough bytes.
fn list(folder: &Path, files: &mut Vec<PathBuf>, left: &mut u64) -> std::io::Result<()> {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    names.sort();
    for path in names {
        let metadata = std::fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            list(&path, files, left)?;
        } else if metadata.is_symlink() || metadata.len() <= FILE_BYTES_MAX.min(*left) {
            *left -= if metadata.is_file() { metadata.len() } else { 0 };
            files.push(path);
        }
    }
    Ok(())
}

/// Packs files into a layer of the layout.
fn layer(layout: &Path, files: &[PathBuf]) -> Result<Layer, String> {
    let (list, tar) = (layout.join("list"), layout.join("layer.tar"));
    let text: String = files.iter().map(|file| format!("{}\0", file.to_string_lossy())).collect();
    let failed = |error: std::io::Error| format!("{}: {error}", layout.display());
    std::fs::write(&list, text).map_err(failed)?;
    // tar takes the leading slashes away by itself.
    let script = "tar --null --no-unquote --numeric-owner -cf \"$1\" -T \"$0\" \
                  && sha256sum <\"$1\" && stat -c %s \"$1\" && gzip -n -6 <\"$1\" >\"$1.gz\" \
                  && sha256sum <\"$1.gz\" && rm \"$1\" \"$0\"";
    let mut shell = program("sh");
    let output = command::output(shell.args(["-c", script]).arg(&list).arg(&tar))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut said = said.lines().map(|line| line.split(' ').next().unwrap_or_default());
    let mut next = || said.next().map(str::to_owned).ok_or("no digest of a layer");
    let (diff_id, unpacked, digest) = (next()?, next()?, next()?);
    let packed = layout.join("layer.tar.gz");
    let stored_bytes = std::fs::metadata(&packed).map_err(failed)?.len();
    std::fs::rename(&packed, layout.join("blobs/sha256").join(&digest)).map_err(failed)?;
    let unpacked_bytes = unpacked.parse().map_err(|_| "no size of a layer")?;
    let (diff_id, digest) = (format!("sha256:{diff_id}"), format!("sha256:{digest}"));
    Ok(Layer { diff_id, digest, stored_bytes, unpacked_bytes })
}

/// Stores a document; its descriptor.
fn document(
    layout: &Path,
    media_type: &str,
    document: &serde_json::Value,
) -> Result<serde_json::Value, String> {
    let (text, path) = (document.to_string(), layout.join("document"));
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::write(&path, &text).map_err(failed)?;
    flush(&path)?;
    let output = command::output(program("sha256sum").arg(&path))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let digest = said.split(' ').next().unwrap_or_default().to_owned();
    std::fs::rename(&path, layout.join("blobs/sha256").join(&digest)).map_err(failed)?;
    let digest = format!("sha256:{digest}");
    Ok(json!({"mediaType": media_type, "digest": digest, "size": text.len()}))
}
