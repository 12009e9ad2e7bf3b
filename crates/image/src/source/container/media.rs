//! Media types of OCI and Docker: what a descriptor leads to.

/// What a descriptor of an index leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Listed {
    Index,
    Manifest,
    /// A manifest of Docker's first form, which says nothing of what its layers are.
    SchemaOne,
    Unknown,
}

/// Reads the media type of a descriptor in an index.
pub(super) fn listed(media_type: &str) -> Listed {
    match media_type {
        "application/vnd.oci.image.index.v1+json"
        | "application/vnd.docker.distribution.manifest.list.v2+json" => Listed::Index,
        "application/vnd.oci.image.manifest.v1+json"
        | "application/vnd.docker.distribution.manifest.v2+json" => Listed::Manifest,
        "application/vnd.docker.distribution.manifest.v1+json"
        | "application/vnd.docker.distribution.manifest.v1+prettyjws" => Listed::SchemaOne,
        _ => Listed::Unknown,
    }
}

/// Whether a manifest with a configuration of this type is an image with a root file system.
pub(super) fn is_configuration(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/vnd.oci.image.config.v1+json"
            | "application/vnd.docker.container.image.v1+json"
    )
}

/// What a layer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LayerKind {
    /// A tar archive, plain or compressed.
    Archive,
    /// The same, but not to be handed on: it is often left out.
    Foreign,
    Encrypted,
    Unknown,
}

/// Reads the media type of a layer.
pub(super) fn layer(media_type: &str) -> LayerKind {
    if media_type.ends_with("+encrypted") {
        return LayerKind::Encrypted;
    }
    const ARCHIVE: [&str; 2] =
        ["application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar"];
    const FOREIGN: [&str; 2] = [
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.docker.image.rootfs.foreign.diff.tar",
    ];
    let is_one_of = |known: [&str; 2]| {
        let rest = known.iter().find_map(|stem| media_type.strip_prefix(stem));
        matches!(rest, Some("" | "+gzip" | "+zstd" | ".gzip" | ".zstd"))
    };
    if is_one_of(ARCHIVE) {
        LayerKind::Archive
    } else if is_one_of(FOREIGN) {
        LayerKind::Foreign
    } else {
        LayerKind::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_known_by_their_types() {
        for (media_type, kind) in [
            ("application/vnd.oci.image.layer.v1.tar", LayerKind::Archive),
            ("application/vnd.oci.image.layer.v1.tar+zstd", LayerKind::Archive),
            ("application/vnd.docker.image.rootfs.diff.tar.gzip", LayerKind::Archive),
            ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", LayerKind::Foreign),
            ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", LayerKind::Foreign),
            ("application/vnd.oci.image.layer.v1.tar+gzip+encrypted", LayerKind::Encrypted),
            ("application/vnd.oci.image.layer.v1.tar+lz4", LayerKind::Unknown),
            ("application/vnd.oci.image.layer.v1.tarx", LayerKind::Unknown),
            ("", LayerKind::Unknown),
        ] {
            assert_eq!(layer(media_type), kind, "{media_type}");
        }
    }
}
