//! The scenarios that are built in.

/// A scenario that is built in.
pub struct Builtin {
    /// What `extant lab run` calls it.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! builtin {
    ($name:literal) => {
        builtin!("scenarios", $name)
    };
    ($folder:literal, $name:literal) => {
        Builtin { name: $name, text: include_str!(concat!("../../", $folder, "/", $name, ".toml")) }
    };
}

/// All of them.
pub static BUILTINS: &[Builtin] = &[
    builtin!("read-cold"),
    builtin!("stat-cold"),
    builtin!("walk-cold"),
    builtin!("find"),
    builtin!("tar"),
    builtin!("untar"),
    builtin!("many-files"),
    builtin!("sequential"),
    builtin!("random"),
    builtin!("open-program"),
    builtin!("getdents"),
    builtin!("clients"),
    builtin!("writer-and-reader"),
    builtin!("reader-beside-writer"),
    builtin!("two-drives"),
    builtin!("drive-patterns"),
    builtin!("power-cut"),
    builtin!("fsync-beside-writer"),
    builtin!("growing-tree"),
    builtin!("several-trees"),
    builtin!("file-server-clients"),
    builtin!("elevators-beside-writer"),
    builtin!("half-year-check"),
    builtin!("disk-usage-by-directory"),
    builtin!("listing-in-a-loop"),
    builtin!("every-second-name"),
    builtin!("tar-after-thinning"),
    builtin!("aged-start"),
];

/// What the posts run, each a scenario like the others.
pub static POST_SCENARIOS: &[Builtin] = &[
    builtin!("posts", "post-0"),
    builtin!("posts", "post-0-create"),
    builtin!("posts", "post-1-sequential"),
    builtin!("posts", "post-1-random"),
    builtin!("posts", "post-1-fsck"),
    builtin!("posts", "post-1-build"),
    builtin!("posts", "post-1-cluster"),
    builtin!("posts", "post-1-sizes"),
    builtin!("posts", "post-1-full"),
    builtin!("posts", "post-2"),
    builtin!("posts", "post-3-hashed"),
    builtin!("posts", "post-3-linear"),
    builtin!("posts", "post-4"),
    builtin!("posts", "post-4-1024"),
    builtin!("posts", "post-4-small"),
];

/// The built-in scenario of that name.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().chain(POST_SCENARIOS).find(|builtin| builtin.name == name)
}

/// Further scenarios of posts, which are not listed: others of them on a format of today, and one
/// without a figure in its post.
static UNLISTED: &[Builtin] = &[
    builtin!("posts", "post-0-clients"),
    builtin!("posts", "post-4-modern"),
    builtin!("posts", "post-4-modern-1024"),
];

/// The scenario of that name that a post runs.
pub(crate) fn of_post(name: &str) -> Option<&'static Builtin> {
    builtin(name).or_else(|| UNLISTED.iter().find(|builtin| builtin.name == name))
}
