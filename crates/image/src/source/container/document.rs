//! The JSON documents of container images, as far as they are needed.
//!
//! Types of our own: those of the crate `oci-spec` bring eighteen packages along, and do not know
//! the list of `docker save`.
use crate::source::platform::Platform;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// The most bytes of a document that are read.
pub(super) const DOCUMENT_BYTES_MAX: u64 = 4 << 20;

/// What every document says of itself, and what shows that one wants to be two things.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kind {
    #[serde(default)]
    pub(super) schema_version: u64,
    pub(super) media_type: Option<String>,
    pub(super) manifests: Option<IgnoredAny>,
    pub(super) config: Option<IgnoredAny>,
    pub(super) layers: Option<IgnoredAny>,
    pub(super) fs_layers: Option<IgnoredAny>,
}

/// `oci-layout`.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct LayoutFile {
    pub(super) image_layout_version: String,
}

/// A list of manifests, and of further lists.
#[derive(Deserialize, Debug)]
pub(super) struct Index {
    pub(super) manifests: Vec<Descriptor>,
}

/// What one image consists of.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) artifact_type: Option<String>,
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
}

/// A blob, by its digest.
#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    pub(super) platform: Option<PlatformOf>,
    #[serde(default)]
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

impl Descriptor {
    /// The annotation of this name.
    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(name).map(String::as_str)
    }
}

/// The platform of a descriptor, or of a configuration.
#[derive(Deserialize, Clone, Debug)]
pub(super) struct PlatformOf {
    #[serde(default)]
    pub(super) os: String,
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) variant: Option<String>,
}

impl PlatformOf {
    /// What it says; `None` where that is nothing.
    pub(super) fn read(&self) -> Option<Platform> {
        let PlatformOf { os, architecture, variant } = self;
        let is_said = !os.is_empty() && !architecture.is_empty();
        is_said.then(|| Platform::new(os, architecture, variant.as_deref().unwrap_or_default()))
    }
}

/// The configuration of an image.
#[derive(Deserialize, Debug)]
pub(super) struct Configuration {
    #[serde(flatten)]
    pub(super) platform: PlatformOf,
    pub(super) rootfs: Option<RootFilesystem>,
}

/// The layers of an image, by what they are when they are decompressed.
#[derive(Deserialize, Debug)]
pub(super) struct RootFilesystem {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) diff_ids: Option<Vec<String>>,
}

/// One image of the `manifest.json` of `docker save`.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SavedImage {
    pub(super) config: String,
    #[serde(default)]
    pub(super) repo_tags: Option<Vec<String>>,
    #[serde(default)]
    pub(super) layers: Option<Vec<String>>,
}
