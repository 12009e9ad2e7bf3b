//! Container images as `docker save` and the OCI layout have them: folders or archives whose files
//! are not those of a root file system, but layers, archives of their own.
use crate::notice::{NoticeKind, Notices};
use crate::tree::{NodeId, Tree};
use extant_format::inode::FileType;

/// Adds a notice if the tree is a container image.
pub(super) fn note(tree: &Tree, notices: &mut Notices) {
    let list = match form(tree) {
        None => return,
        Some(Form::Docker) => "/manifest.json",
        Some(Form::Oci) => "/index.json",
    };
    notices.add(NoticeKind::ContainerImage, || {
        format!(
            "{list}: the source is a container image: the image holds its layers as archives, not \
             their files"
        )
    });
}

/// What names the layers.
enum Form {
    /// `manifest.json`.
    Docker,
    /// `index.json`, and the manifest that it names.
    Oci,
}

fn form(tree: &Tree) -> Option<Form> {
    let has =
        |directory: NodeId, name: &[u8]| tree.children(directory).any(|child| child.name == name);
    let has_layout = has(NodeId::ROOT, b"oci-layout");
    // A folder of web pages has a manifest.json too.
    if has(NodeId::ROOT, b"manifest.json") {
        let is_layer = |directory: NodeId| {
            tree.file_type(directory) == FileType::Directory && has(directory, b"layer.tar")
        };
        let has_layers = || tree.children(NodeId::ROOT).any(|child| is_layer(child.node));
        if has_layout || has(NodeId::ROOT, b"repositories") || has_layers() {
            return Some(Form::Docker);
        }
    }
    (has_layout && has(NodeId::ROOT, b"index.json")).then_some(Form::Oci)
}
