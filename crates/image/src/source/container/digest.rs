//! Digests as descriptors of OCI have them: `sha256:` or `sha512:` and hexadecimal digits.
use sha2::{Digest as _, Sha256, Sha512};
use std::fmt;

/// A digest that has the form of one: nothing in it leads out of a folder.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Digest {
    algorithm: Algorithm,
    hexadecimal: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }
    fn digits(self) -> usize {
        match self {
            Algorithm::Sha256 => 64,
            Algorithm::Sha512 => 128,
        }
    }
}

impl Digest {
    /// Reads `ALGORITHM:DIGITS`; `None` for other algorithms, lengths and characters.
    pub(super) fn parse(text: &str) -> Option<Digest> {
        let (algorithm, hexadecimal) = text.split_once(':')?;
        let algorithm = [Algorithm::Sha256, Algorithm::Sha512]
            .into_iter()
            .find(|known| known.name() == algorithm)?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let fits = hexadecimal.len() == algorithm.digits() && hexadecimal.bytes().all(is_digit);
        fits.then(|| Digest { algorithm, hexadecimal: hexadecimal.to_owned() })
    }

    /// The digest that the name of a file claims: `blobs/sha256/DIGITS`, `DIGITS.json`,
    /// `sha256:DIGITS`.
    pub(super) fn of_name(name: &str) -> Option<Digest> {
        let whole = Digest::parse(name);
        let blob = || Digest::parse(&name.strip_prefix("blobs/")?.replacen('/', ":", 1));
        let file = || Digest::parse(&format!("sha256:{}", name.strip_suffix(".json")?));
        whole.or_else(blob).or_else(file)
    }

    /// Where the blob is in a layout.
    pub(super) fn path(&self) -> String {
        format!("blobs/{}/{}", self.algorithm.name(), self.hexadecimal)
    }

    /// What computes a digest of this kind.
    pub(super) fn hasher(&self) -> Hasher {
        match self.algorithm {
            Algorithm::Sha256 => Hasher::Sha256(Sha256::new()),
            Algorithm::Sha512 => Hasher::Sha512(Box::new(Sha512::new())),
        }
    }

    /// The SHA-256 digest of bytes.
    pub(super) fn of(bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::Sha256(Sha256::new());
        hasher.update(bytes);
        hasher.finish()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hexadecimal)
    }
}

/// Computes a digest piece by piece.
pub(super) enum Hasher {
    Sha256(Sha256),
    Sha512(Box<Sha512>),
}

impl Hasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub(super) fn finish(self) -> Digest {
        let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self {
            Hasher::Sha256(hasher) => {
                Digest { algorithm: Algorithm::Sha256, hexadecimal: text(&hasher.finalize()) }
            }
            Hasher::Sha512(hasher) => {
                Digest { algorithm: Algorithm::Sha512, hexadecimal: text(&hasher.finalize()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digests_are_digests() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let digest = Digest::parse(empty).unwrap();
        assert_eq!(digest.to_string(), empty);
        assert_eq!(digest.hasher().finish(), digest);
        assert_eq!(digest.path(), format!("blobs/{}", empty.replace(':', "/")));
        for name in [empty, &digest.path(), &format!("{}.json", &empty[7..])] {
            assert_eq!(Digest::of_name(name), Some(digest.clone()), "{name}");
        }
        let upper = empty.to_uppercase();
        for wrong in ["sha256:../../x", "sha256:", "md5:00", "", &upper, &empty[..70], "x.json"] {
            assert_eq!(Digest::parse(wrong), None, "{wrong}");
            assert_eq!(Digest::of_name(wrong), None, "{wrong}");
        }
    }
}
