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
        Builtin {
            name: $name,
            text: include_str!(concat!("../../scenarios/", $name, ".toml")),
        }
    };
}

/// All of them.
pub static BUILTINS: &[Builtin] = &[
    builtin!("read-cold"),
    builtin!("stat-cold"),
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
    builtin!("drive-patterns"),
];
