//! What is said of an image that was shipped.
use serde::Serialize;

/// What `--json` has, and what a line is made of.
#[derive(Serialize, Default)]
pub struct ShippedReport {
    /// Bytes of the disk.
    pub disk_bytes: u64,
    /// Bytes of the image's file.
    pub image_bytes: u64,
    /// The word of its format.
    pub format: &'static str,
    /// How it is compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<&'static str>,
    /// The byte of the disk at which the volume begins.
    pub volume_offset: u64,
    /// The hash tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verity: Option<VerityReport>,
}

/// A hash tree of dm-verity.
#[derive(Serialize)]
pub struct VerityReport {
    /// In hexadecimal.
    pub root_hash: String,
    /// In hexadecimal.
    pub salt: String,
    /// The file that has the tree, if it is not the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The byte of that file, or of the disk, at which its superblock is.
    pub hash_offset: u64,
    /// Blocks of 4096 bytes that it covers.
    pub data_blocks: u64,
}

impl ShippedReport {
    /// What the lines on a terminal add to those about the volume.
    pub fn text(&self, image: &str) -> String {
        let mut text = String::new();
        if self.format != "raw" || self.compression.is_some() || self.volume_offset > 0 {
            let compressed = self.compression.map(|word| format!(", {word}")).unwrap_or_default();
            text.push_str(&format!(
                "{image}: a disk of {} bytes, the volume at byte {}; {}{compressed}, {} bytes\n",
                self.disk_bytes, self.volume_offset, self.format, self.image_bytes
            ));
        }
        if let Some(verity) = &self.verity {
            let file = verity.file.as_deref().unwrap_or("the image");
            text.push_str(&format!(
                "verity: root hash {}, tree at byte {} of {file}\n",
                verity.root_hash, verity.hash_offset
            ));
        }
        text
    }
}
