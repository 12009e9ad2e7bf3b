//! Images of an OCI image layout: its index, the indexes in that, and a manifest.
use super::choose::{Candidate, pick};
use super::document::{Configuration, Descriptor, Index, Kind, LayoutFile, Manifest, PlatformOf};
use super::media::{self, LayerKind, Listed};
use super::store::Store;
use super::{Choice, Described, Image, LayerSource, check_configuration};
use crate::error::{ContainerFault, Error, ErrorKind};
use crate::source::platform::Platform;
use extant_archive::printable;
use rustc_hash::FxHashSet;

/// Indexes inside of each other.
const NESTING_MAX: usize = 4;
/// Manifests of all indexes together.
const MANIFESTS_MAX: usize = 1024;
/// Bytes of all documents that are read to find an image.
const SEARCH_BYTES_MAX: u64 = 64 << 20;

/// An image that the layout lists, and its manifest.
struct Listing {
    candidate: Candidate,
    manifest: Descriptor,
    /// Why it cannot be taken, where that is known.
    problem: Option<Error>,
    kind: ListingKind,
}

/// Whether an image may be meant where none is named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListingKind {
    Image,
    /// A signature, an attestation, or what else is kept beside images.
    Other,
}

/// Reads the image that is meant.
///
/// # Errors
/// Documents that are missing, damaged, too large, or something else than images; several images.
pub(super) fn read(store: &Store, choice: &Choice<'_>) -> Result<Image, Error> {
    let document = |path: &str| {
        let blob = store.open(path)?;
        let blob = blob.ok_or_else(|| store.failure(format!("{path}: is missing")))?;
        store.read(&blob, path)
    };
    let layout: LayoutFile = store.parse(&document("oci-layout")?, "oci-layout")?;
    if !layout.image_layout_version.starts_with("1.") {
        let version = printable(layout.image_layout_version.as_bytes());
        return Err(store.failure(format!("oci-layout: is of version {version}, not 1")));
    }
    let mut search =
        Search { store, found: Vec::new(), seen: FxHashSet::default(), bytes: SEARCH_BYTES_MAX };
    let bytes = document("index.json")?;
    search.index(&bytes, "index.json", &Candidate::root(), 0)?;
    let Search { found, .. } = search;
    let images = found.iter().filter(|listing| listing.kind == ListingKind::Image).count();
    let meant = |listing: &Listing| {
        images == 0 || choice.tag.is_some() || listing.kind == ListingKind::Image
    };
    let mut found: Vec<Listing> = found.into_iter().filter(meant).collect();
    let candidates: Vec<Candidate> =
        found.iter().map(|listing| listing.candidate.clone()).collect();
    let picked = pick(&candidates, choice.tag, choice.platform, store.name())?;
    let Listing { candidate, manifest, problem, .. } = found.swap_remove(picked);
    match problem {
        Some(problem) => Err(problem),
        None => image(store, candidate, &manifest),
    }
}

impl Candidate {
    fn root() -> Candidate {
        Candidate { names: Vec::new(), digests: Vec::new(), platform: None }
    }

    /// What is listed in an index that is this.
    fn below(&self, of: &Descriptor) -> Candidate {
        const NAMES: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
        let mut names = self.names.clone();
        if self.digests.is_empty() {
            names.extend(NAMES.iter().filter_map(|name| of.annotation(name)).map(str::to_owned));
        }
        let mut digests = self.digests.clone();
        digests.insert(0, of.digest.clone());
        let platform = of.platform.as_ref().and_then(PlatformOf::read);
        Candidate { names, digests, platform }
    }
}

/// Looks through indexes.
struct Search<'a> {
    store: &'a Store,
    found: Vec<Listing>,
    /// Indexes that were read, with their names: none is read twice.
    seen: FxHashSet<(String, Vec<String>)>,
    /// Bytes of documents that may still be read.
    bytes: u64,
}

impl Search<'_> {
    fn index(
        &mut self,
        bytes: &[u8],
        what: &str,
        above: &Candidate,
        depth: usize,
    ) -> Result<(), Error> {
        check_kind(self.store, bytes, what, Listed::Index)?;
        let index: Index = self.store.parse(bytes, what)?;
        for descriptor in index.manifests {
            let candidate = above.below(&descriptor);
            match self.listed(&descriptor) {
                Listed::Index => self.nested(&descriptor, &candidate, depth)?,
                kind => self.manifest(descriptor, candidate, kind)?,
            }
        }
        Ok(())
    }

    /// Some layouts leave the media type of a descriptor out: then the document says it.
    fn listed(&mut self, of: &Descriptor) -> Listed {
        if !of.media_type.is_empty() {
            return media::listed(&of.media_type);
        }
        let kind = self
            .document(of, "a document")
            .ok()
            .and_then(|bytes| self.store.parse::<Kind>(&bytes, "").ok());
        match kind {
            Some(kind) if kind.manifests.is_some() => Listed::Index,
            _ => Listed::Manifest,
        }
    }

    fn nested(&mut self, of: &Descriptor, at: &Candidate, depth: usize) -> Result<(), Error> {
        if !self.seen.insert((of.digest.clone(), at.names.clone())) {
            return Ok(());
        }
        if depth >= NESTING_MAX {
            let digest = printable(of.digest.as_bytes());
            return Err(self.store.failure(format!(
                "index ({digest}): is in more than {NESTING_MAX} indexes, one inside the other"
            )));
        }
        let bytes = self.document(of, "index")?;
        let what = format!("index ({})", printable(of.digest.as_bytes()));
        self.index(&bytes, &what, at, depth + 1)
    }

    fn document(&mut self, of: &Descriptor, what: &str) -> Result<Vec<u8>, Error> {
        self.bytes = self.bytes.checked_sub(of.size).ok_or_else(|| {
            self.store.failure(format!("its documents have more than {SEARCH_BYTES_MAX} bytes"))
        })?;
        self.store.document(of, what)
    }

    fn manifest(
        &mut self,
        of: Descriptor,
        mut candidate: Candidate,
        listed: Listed,
    ) -> Result<(), Error> {
        let is_same = |listing: &&mut Listing| {
            let platform = &candidate.platform;
            listing.manifest.digest == of.digest
                && (platform.is_none() || *platform == listing.candidate.platform)
        };
        // One image under two names is one image.
        if let Some(same) = self.found.iter_mut().find(is_same) {
            for (known, more) in [
                (&mut same.candidate.names, candidate.names),
                (&mut same.candidate.digests, candidate.digests),
            ] {
                more.into_iter().for_each(|it| {
                    if !known.contains(&it) {
                        known.push(it)
                    }
                });
            }
            return Ok(());
        }
        if self.found.len() >= MANIFESTS_MAX {
            return Err(self.store.failure(format!("lists more than {MANIFESTS_MAX} images")));
        }
        let mut kind = ListingKind::Image;
        let problem = match listed {
            Listed::Manifest => match self.platform(&of) {
                Ok(platform) => {
                    candidate.platform = candidate.platform.or(platform);
                    None
                }
                Err(error) => Some(error),
            },
            Listed::SchemaOne => {
                let what = "is a manifest of schema 1, which does not say what its layers are";
                Some(self.unusable(&of, what))
            }
            Listed::Index | Listed::Unknown => {
                let media_type = printable(of.media_type.as_bytes());
                Some(self.unusable(&of, &format!("is of the unknown media type {media_type}")))
            }
        };
        let is_other = |error: &Error| {
            matches!(error.kind, ErrorKind::Container(ContainerFault::NoRootFilesystem))
        };
        if problem.as_ref().is_some_and(is_other) || is_attestation(&of) {
            kind = ListingKind::Other;
        }
        self.found.push(Listing { candidate, manifest: of, problem, kind });
        Ok(())
    }

    fn unusable(&self, of: &Descriptor, what: &str) -> Error {
        let digest = printable(of.digest.as_bytes());
        let error = self.store.failure(format!("manifest ({digest}): {what}"));
        error.of(ErrorKind::Container(ContainerFault::NoRootFilesystem))
    }

    /// What the image of a manifest runs on, by its configuration.
    fn platform(&mut self, of: &Descriptor) -> Result<Option<Platform>, Error> {
        let bytes = self.document(of, "manifest")?;
        let manifest = manifest(self.store, &bytes, of)?;
        let bytes = self.document(&manifest.config, "configuration")?;
        let configuration: Configuration = self.store.parse(&bytes, "configuration")?;
        Ok(configuration.platform.read())
    }
}

/// What BuildKit keeps beside an image: how it was made.
fn is_attestation(of: &Descriptor) -> bool {
    of.annotation("vnd.docker.reference.type").is_some()
}

/// A manifest of an image with a root file system.
fn manifest(store: &Store, bytes: &[u8], of: &Descriptor) -> Result<Manifest, Error> {
    let what = format!("manifest ({})", printable(of.digest.as_bytes()));
    check_kind(store, bytes, &what, Listed::Manifest)?;
    let manifest: Manifest = store.parse(bytes, &what)?;
    let media_type = &manifest.config.media_type;
    if !media::is_configuration(media_type) {
        let artifact = manifest.artifact_type.as_deref().unwrap_or(media_type);
        let artifact = printable(artifact.as_bytes());
        let error = store.failure(format!("{what}: is {artifact}, not a root file system"));
        return Err(error.of(ErrorKind::Container(ContainerFault::NoRootFilesystem)));
    }
    Ok(manifest)
}

/// Refuses a document that is of another kind, or of two.
fn check_kind(store: &Store, bytes: &[u8], what: &str, wanted: Listed) -> Result<(), Error> {
    let kind: Kind = store.parse(bytes, what)?;
    if kind.schema_version == 1 || kind.fs_layers.is_some() {
        let sentence = "is a manifest of schema 1, which does not say what its layers are";
        let error = store.failure(format!("{what}: {sentence}"));
        return Err(error.of(ErrorKind::Container(ContainerFault::NoRootFilesystem)));
    }
    if kind.schema_version != 2 {
        let version = kind.schema_version;
        return Err(store.failure(format!("{what}: is of schema version {version}, not 2")));
    }
    let is_manifest = kind.config.is_some() || kind.layers.is_some();
    if is_manifest && kind.manifests.is_some() {
        return Err(store.failure(format!("{what}: is an index and a manifest at once")));
    }
    let said = kind.media_type.as_deref().filter(|said| media::listed(said) != wanted);
    match said {
        None => Ok(()),
        Some(said) => {
            let said = printable(said.as_bytes());
            Err(store.failure(format!("{what}: says that it is {said}")))
        }
    }
}

/// The configuration and the layers that a manifest names.
fn image(store: &Store, candidate: Candidate, of: &Descriptor) -> Result<Image, Error> {
    let manifest = manifest(store, &store.document(of, "manifest")?, of)?;
    let config = store.document(&manifest.config, "configuration")?;
    let diff_ids = check_configuration(store, &config, manifest.layers.len())?;
    let mut layers = Vec::with_capacity(diff_ids.len());
    for (at, (layer, diff_id)) in manifest.layers.iter().zip(diff_ids).enumerate() {
        let number = at + 1;
        let what = format!("layer {number}");
        let media_type = printable(layer.media_type.as_bytes());
        let shown = format!("{what} ({})", printable(layer.digest.as_bytes()));
        let kind = media::layer(&layer.media_type);
        match kind {
            LayerKind::Archive | LayerKind::Foreign => {}
            LayerKind::Encrypted => {
                return Err(store.failure(format!("{shown}: is encrypted ({media_type})")));
            }
            LayerKind::Unknown => {
                return Err(store.failure(format!("{shown}: is of the unknown type {media_type}")));
            }
        }
        let (blob, digest) =
            store.blob(layer, &what).map_err(|error| match (kind, &error.kind) {
                (LayerKind::Foreign, ErrorKind::Container(ContainerFault::Missing)) => store
                    .failure(format!("{shown}: is not in the image, but to be had elsewhere"))
                    .of(ErrorKind::Container(ContainerFault::ForeignLayer)),
                _ => error,
            })?;
        layers.push(LayerSource { number, blob, digest: Some(digest), diff_id });
    }
    let described = Described {
        name: candidate.names.first().cloned(),
        digest: candidate.digests.first().cloned(),
        platform: candidate.platform,
    };
    Ok(Image { described, config, layers })
}
