//! The drives that are built in: those of the posts' times, and one of today.

/// A drive that is built in.
pub struct Preset {
    /// What `--drive` calls it.
    pub name: &'static str,
    /// A line about it.
    pub about: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! preset {
    ($name:literal, $about:literal) => {
        Preset {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../drives/", $name, ".toml")),
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
