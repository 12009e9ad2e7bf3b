//! Platforms: `os/architecture[/variant]`, in Go's words, as container images have them.
use std::fmt;
use std::str::FromStr;

/// What a container image runs on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Platform {
    os: String,
    architecture: String,
    /// Empty for none; that which an architecture has without saying so is none.
    variant: String,
}

impl Platform {
    /// One of these words; an empty variant is none.
    pub(super) fn new(os: &str, architecture: &str, variant: &str) -> Platform {
        // Other names of the same thing, as other tools take them.
        let architecture = match architecture {
            "x86_64" | "x86-64" => "amd64",
            "aarch64" => "arm64",
            "i386" => "386",
            "armhf" => "arm",
            other => other,
        };
        let variant = match (architecture, variant) {
            ("arm64", "v8") | ("amd64", "v1") => "",
            ("arm", "") => "v7",
            (_, variant) => variant,
        };
        Platform { os: os.into(), architecture: architecture.into(), variant: variant.into() }
    }

    /// That of this machine.
    pub fn host() -> Platform {
        let architecture = match std::env::consts::ARCH {
            "x86" => "386",
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            "powerpc64" => "ppc64",
            "loongarch64" => "loong64",
            other => other,
        };
        Platform::new(std::env::consts::OS, architecture, "")
    }

    /// Whether it says more than the operating system and the architecture.
    pub(super) fn has_variant(&self) -> bool {
        !self.variant.is_empty()
    }

    /// Whether an image for `other` is one for this, whatever the variant.
    pub(super) fn is_kin(&self, other: &Platform) -> bool {
        self.os == other.os && self.architecture == other.architecture
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Platform, String> {
        let words: Vec<&str> = text.split('/').collect();
        let is_word = |word: &&str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !word.is_empty() && word.bytes().all(fits)
        };
        match words[..] {
            [os, architecture] if words.iter().all(is_word) => {
                Ok(Platform::new(os, architecture, ""))
            }
            [os, architecture, variant] if words.iter().all(is_word) => {
                Ok(Platform::new(os, architecture, variant))
            }
            _ => Err(format!("{text:?} is not OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT")),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match self.variant.is_empty() {
            true => Ok(()),
            false => write!(f, "/{}", self.variant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_platform_has_one_form() {
        let read = |text: &str| text.parse::<Platform>().unwrap();
        assert_eq!(read("linux/arm64/v8"), read("linux/aarch64"));
        assert_eq!(read("linux/arm").to_string(), "linux/arm/v7");
        assert!(read("linux/arm").is_kin(&read("linux/arm/v6")));
        assert!(!read("linux/amd64").is_kin(&read("windows/amd64")));
        for wrong in ["linux", "linux/", "/amd64", "a/b/c/d", "linux/a b", ""] {
            assert!(wrong.parse::<Platform>().is_err(), "{wrong}");
        }
    }
}
