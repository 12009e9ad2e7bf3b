//! Container images: OCI layouts, in a folder or an archive, and what `docker save` writes. Their
//! layers are laid over each other, as a runtime unpacks them.
//!
//! ```text
//! layout     an OCI layout: from the index to a manifest
//! saved      manifest.json of docker save
//! choose     which of several images is meant
//! document   the JSON of all of them; media: media types; digest: digests
//! store      the files, in a folder or in an archive; blob: the bytes of one
//! layers     layers, decompressed side by side, and put into the tree in their order
//! ```
//! What is believed: nothing. Sizes and digests of descriptors are compared with what is read, the
//! digests of layers in the configuration with the decompressed bytes. What is not as it says ends
//! the build.
mod blob;
mod choose;
mod digest;
mod document;
mod layers;
mod layout;
mod media;
mod saved;
mod store;

use super::Sources;
use super::intake::Intake;
use super::members::{Form, Members, is_list_of_images};
use super::platform::Platform;
use crate::error::{ContainerFault, Error, ErrorKind};
use crate::tree::{NodeId, Tree};
use blob::Blob;
use digest::Digest;
use document::Configuration;
use extant_archive::printable;
use extant_format::inode::FileType;
use rustix::fs::{Mode, OFlags};
use std::io::Read;
use std::path::Path;
use store::Store;

/// Layers of the largest image that is read; overlayfs stacks at most 500.
const LAYERS_MAX: usize = 512;

/// A container image that was laid into a tree.
#[derive(Clone, Debug)]
pub struct ContainerImage {
    /// The source that it was in.
    pub source: String,
    /// The name that it has there, the first of several.
    pub name: Option<String>,
    /// The digest of its manifest, where it has one.
    pub digest: Option<String>,
    /// What it runs on, where it says so.
    pub platform: Option<Platform>,
    /// Its configuration, byte for byte.
    pub config: Vec<u8>,
    /// The digest of its configuration.
    pub config_digest: String,
    /// How many layers it has.
    pub layers: usize,
    /// Bytes of its layers as they are stored.
    pub stored_bytes: u64,
    /// Bytes of its layers, decompressed.
    pub unpacked_bytes: u64,
}

/// Which image of several is meant.
pub(super) struct Choice<'a> {
    pub(super) tag: Option<&'a str>,
    pub(super) platform: Option<&'a Platform>,
}

/// An image, found: nothing of its layers is read yet.
struct Image {
    described: Described,
    config: Vec<u8>,
    layers: Vec<LayerSource>,
}

/// What an image is called.
struct Described {
    name: Option<String>,
    digest: Option<String>,
    platform: Option<Platform>,
}

/// A layer, and what it has to be.
struct LayerSource {
    /// Counted from 1, the base first.
    number: usize,
    blob: Blob,
    /// Of the bytes as they are stored; `None` where nothing says it.
    digest: Option<Digest>,
    /// Of the bytes, decompressed.
    diff_id: Digest,
}

impl LayerSource {
    /// What messages call it, after its source.
    fn shown(&self) -> String {
        let LayerSource { number, digest, diff_id, .. } = self;
        format!("layer {number} ({})", digest.as_ref().unwrap_or(diff_id))
    }
}

/// What kind of container image a folder holds; `None` if it holds none.
pub(super) fn form_of_folder(path: &Path) -> Option<Form> {
    if ["oci-layout", "index.json"].iter().all(|name| path.join(name).is_file()) {
        return Some(Form::Oci);
    }
    // Web pages have a manifest.json too; theirs is an object.
    let (mut list, path) = (Vec::new(), path.join("manifest.json"));
    // A pipe of that name would be waited for.
    let file = path.is_file().then(|| std::fs::File::open(path).ok()).flatten()?;
    file.take(document::DOCUMENT_BYTES_MAX).read_to_end(&mut list).ok()?;
    is_list_of_images(&list).then_some(Form::Docker)
}

/// Lays the image in a folder over the tree.
///
/// # Errors
/// What is missing, damaged, or no root file system; see [`store`] and [`layers`].
pub(super) fn read_folder(
    path: &Path,
    form: Form,
    choice: &Choice<'_>,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<ContainerImage, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty());
    let folder = folder.map_err(|error| Error::io(path.display(), &error.into()))?;
    let store = Store::Folder { folder, name: path.display().to_string() };
    read(&store, form, choice, intake, sources)
}

/// Lays the image in an archive over the tree. Without a form, what the archive has decides.
///
/// # Errors
/// As [`read_folder`].
pub(super) fn read_members(
    members: Members,
    form: Option<Form>,
    choice: &Choice<'_>,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<ContainerImage, Error> {
    let form = form.or_else(|| members.form()).unwrap_or(Form::Oci);
    read(&Store::Members(members), form, choice, intake, sources)
}

fn read(
    store: &Store,
    form: Form,
    choice: &Choice<'_>,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<ContainerImage, Error> {
    let image = match form {
        Form::Oci => layout::read(store, choice)?,
        Form::Docker => saved::read(store, choice)?,
    };
    let stored_bytes = image.layers.iter().map(|layer| layer.blob.size()).sum();
    let layers = image.layers.len();
    let unpacked_bytes = layers::lay(store.name(), image.layers, intake, sources)?;
    let Described { name, digest, platform } = image.described;
    Ok(ContainerImage {
        source: store.name().to_owned(),
        name,
        digest,
        platform,
        config_digest: Digest::of(&image.config).to_string(),
        config: image.config,
        layers,
        stored_bytes,
        unpacked_bytes,
    })
}

/// The digests of the layers that a configuration lists: as many as there are layers.
fn check_configuration(store: &Store, config: &[u8], layers: usize) -> Result<Vec<Digest>, Error> {
    const WHAT: &str = "configuration";
    let configuration: Configuration = store.parse(config, WHAT)?;
    let rootfs = configuration.rootfs.filter(|rootfs| rootfs.kind == "layers");
    let rootfs = rootfs.ok_or_else(|| store.failure(format!("{WHAT}: has no rootfs of layers")))?;
    let diff_ids = rootfs.diff_ids.unwrap_or_default();
    if diff_ids.len() != layers {
        let listed = diff_ids.len();
        return Err(store.failure(format!(
            "{WHAT}: lists the digests of {listed} layers, but the image has {layers}"
        )));
    }
    if layers > LAYERS_MAX {
        return Err(store.failure(format!("has {layers} layers; at most {LAYERS_MAX} are read")));
    }
    diff_ids.iter().map(|diff_id| store.digest(diff_id, WHAT)).collect()
}

/// Refuses a tree that is a container image whose layers are files of it.
pub(super) fn check_is_none(tree: &Tree) -> Result<(), Error> {
    let Some((list, form)) = form(tree) else { return Ok(()) };
    let said = format!(
        "{list}: the source is a container image, and came as files: the image would hold its \
         layers as archives; {form}: in front of its name reads it"
    );
    Err(Error::new(said).of(ErrorKind::Container(ContainerFault::CameAsFiles)))
}

/// What names the layers of a tree that is a container image, and the word for its form.
fn form(tree: &Tree) -> Option<(&'static str, &'static str)> {
    let has =
        |directory: NodeId, name: &[u8]| tree.children(directory).any(|child| child.name == name);
    let has_layout = has(NodeId::ROOT, b"oci-layout");
    // What skopeo calls dir: a manifest, and blobs named by their digests.
    if has(NodeId::ROOT, b"manifest.json") && has(NodeId::ROOT, b"version") {
        let is_digest = |name: &[u8]| name.len() == 64 && name.iter().all(u8::is_ascii_hexdigit);
        if tree.children(NodeId::ROOT).any(|child| is_digest(child.name)) {
            return Some(("/manifest.json", "skopeo copy dir:DIR oci:OTHER, and oci"));
        }
    }
    // A folder of web pages has a manifest.json too.
    if has(NodeId::ROOT, b"manifest.json") {
        let is_layer = |directory: NodeId| {
            tree.file_type(directory) == FileType::Directory && has(directory, b"layer.tar")
        };
        let has_layers = || tree.children(NodeId::ROOT).any(|child| is_layer(child.node));
        if has_layout || has(NodeId::ROOT, b"repositories") || has_layers() {
            return Some(("/manifest.json", "docker-archive"));
        }
    }
    let is_layout = has_layout && has(NodeId::ROOT, b"index.json");
    is_layout.then_some(("/index.json", "oci"))
}

/// A failure of a layer, whose source has this name.
fn about_layer(source: &str, layer: &LayerSource, what: impl std::fmt::Display) -> Error {
    Error::new(format!("{}: {}: {what}", printable(source.as_bytes()), layer.shown()))
        .of(ErrorKind::Container(crate::error::ContainerFault::Damaged))
}
