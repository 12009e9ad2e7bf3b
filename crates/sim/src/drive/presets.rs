//! The drives that are built in: those of the posts' times, and one of today.

/// A drive that is built in.
pub struct Preset {
    /// What `--drive` calls it.
    pub name: &'static str,
    /// A line about it.
    pub about: &'static str,
    /// Its file.
    pub text: &'static str,
    /// The measurement of such a device that the model was held against; `None`: there is none, and
    /// its facts are those of data sheets and reviews.
    pub measured: Option<&'static str>,
}

/// What has to be said beside times of a drive that nothing was measured on.
pub const NOT_VALIDATED: &str = "not validated";

impl Preset {
    /// [`NOT_VALIDATED`], or what it was held against.
    pub fn standing(&self) -> &'static str {
        self.measured.unwrap_or(NOT_VALIDATED)
    }
}

/// What has to be said of the drive of that name: [`NOT_VALIDATED`] of a preset of which there is
/// no measurement; `None` of any other, of which we know nothing.
pub fn standing(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|preset| preset.name == name).map(Preset::standing)
}

macro_rules! preset {
    ($name:literal, $about:literal) => {
        Preset {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../drives/", $name, ".toml")),
            measured: None,
        }
    };
}

/// All of them, in the order of their years.
pub const PRESETS: &[Preset] = &[
    preset!("ide-2001-7200", "desktop disk of 2001: 40 GB, 7200 rpm, 36 to 20 MB/s, 2 MB of cache"),
    preset!(
        "ide-2001-5400",
        "quiet desktop disk of 2001: 40 GB, 5400 rpm, 30 to 16 MB/s, 2 MB of cache"
    ),
    preset!(
        "ide-2003-7200",
        "desktop disk of 2003: 160 GB, 7200 rpm, 58 to 32 MB/s, 8 MB of cache"
    ),
    preset!(
        "sata-2006-250",
        "desktop disk of 2006: 250 GB, 7200 rpm, 65 to 33 MB/s, 8 MB of cache, 32 commands"
    ),
    preset!(
        "sata-2007-400",
        "desktop disk of 2007: 400 GB, 7200 rpm, 60 to 31 MB/s, 16 MB of cache, 32 commands"
    ),
    preset!("sata-2007-400-quiet", "the same with quiet seeks, 14 ms on the average"),
    preset!(
        "laptop-2008",
        "laptop disk of 2008: 320 GB, 5400 rpm, 60 to 30 MB/s, 8 MB of cache, 32 commands"
    ),
    preset!(
        "hdd-2022-20t",
        "data centre disk of 2022: 20 TB, 7200 rpm, 285 to 130 MB/s, 256 MB of cache, 32 commands"
    ),
    preset!("ssd-sata", "solid-state drive on SATA"),
    preset!("ssd-nvme", "solid-state drive on NVMe"),
    preset!("network-volume", "volume of a cloud, behind a network"),
    preset!("object-store", "store of objects, behind HTTP"),
];
