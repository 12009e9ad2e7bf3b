//! Images that `docker save` and its kin wrote: `manifest.json` names a configuration and layers by
//! their paths in the archive.
use super::choose::{Candidate, pick};
use super::digest::Digest;
use super::document::{Configuration, SavedImage};
use super::store::Store;
use super::{Choice, Described, Image, LayerSource, check_configuration};
use crate::error::{ContainerFault, Error, ErrorKind};
use extant_archive::{clean_path, printable};

/// Images of the largest archive that is read.
const IMAGES_MAX: usize = 1024;

/// Reads the image that is meant.
///
/// # Errors
/// Files that are missing, damaged or too large; several images.
pub(super) fn read(store: &Store, choice: &Choice<'_>) -> Result<Image, Error> {
    const LIST: &str = "manifest.json";
    let blob = store.open(LIST)?.ok_or_else(|| store.failure(format!("{LIST}: is missing")))?;
    let images: Vec<SavedImage> = store.parse(&store.read(&blob, LIST)?, LIST)?;
    if images.len() > IMAGES_MAX {
        return Err(store.failure(format!("{LIST}: lists more than {IMAGES_MAX} images")));
    }
    let mut candidates = Vec::with_capacity(images.len());
    for image in &images {
        candidates.push(Candidate {
            names: image.repo_tags.clone().unwrap_or_default(),
            digests: Digest::of_name(&image.config)
                .map(|digest| digest.to_string())
                .into_iter()
                .collect(),
            platform: configuration(store, image).ok().and_then(|bytes| {
                let configuration: Configuration = store.parse(&bytes, "").ok()?;
                configuration.platform.read()
            }),
        });
    }
    let picked = pick(&candidates, choice.tag, choice.platform, store.name())?;
    let (candidate, saved) = (&candidates[picked], &images[picked]);
    let config = configuration(store, saved)?;
    let paths = saved.layers.as_deref().unwrap_or_default();
    let diff_ids = check_configuration(store, &config, paths.len())?;
    let mut layers = Vec::with_capacity(paths.len());
    for (at, (path, diff_id)) in paths.iter().zip(diff_ids).enumerate() {
        let number = at + 1;
        let shown = format!("layer {number} ({})", printable(path.as_bytes()));
        let blob = open(store, path, &shown)?.ok_or_else(|| {
            let error = store.failure(format!("{shown}: is missing"));
            error.of(ErrorKind::Container(ContainerFault::Missing))
        })?;
        // A name that ends in .json is none of a layer.
        let digest = Digest::of_name(path);
        layers.push(LayerSource { number, blob, digest, diff_id });
    }
    let described = Described {
        name: candidate.names.first().cloned(),
        digest: None,
        platform: candidate.platform.clone(),
    };
    Ok(Image { described, config, layers })
}

fn open(store: &Store, path: &str, what: &str) -> Result<Option<super::blob::Blob>, Error> {
    let clean = clean_path(path.as_bytes()).ok().and_then(|clean| String::from_utf8(clean).ok());
    let clean = clean.ok_or_else(|| store.failure(format!("{what}: leads out of the archive")))?;
    store.open(&clean)
}

/// The configuration of an image, compared with the digest that its name has.
fn configuration(store: &Store, image: &SavedImage) -> Result<Vec<u8>, Error> {
    let what = format!("configuration ({})", printable(image.config.as_bytes()));
    let blob = open(store, &image.config, &what)?.ok_or_else(|| {
        let error = store.failure(format!("{what}: is missing"));
        error.of(ErrorKind::Container(ContainerFault::Missing))
    })?;
    let bytes = store.read(&blob, &what)?;
    if let Some(digest) = Digest::of_name(&image.config) {
        store.compare(&bytes, &digest, "configuration")?;
    }
    Ok(bytes)
}
