//! Libraries that are preloaded to pretend to be root (fakeroot, pseudo) or to be in another root
//! directory (fakechroot), and whether they reach this program.
//!
//! They replace functions of the C library, such as `fstatat`, and answer from a table of their
//! own. The workspace therefore uses rustix through the C library. A program that is linked
//! statically, or whose loader ignored `LD_PRELOAD`, never calls them: it would read the true
//! owners, and the image would be wrong without a warning. So it refuses.
use crate::error::{Error, ErrorKind, Linkage};

/// A wrapper: the variable that shows that it was asked for, and the libraries that do its work.
struct Wrapper {
    name: &'static str,
    variable: Variable,
    libraries: &'static [&'static str],
}

/// Which variables of the environment show that a wrapper was asked for.
enum Variable {
    Exactly(&'static str),
    /// Any that begins with this.
    Prefix(&'static str),
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        name: "fakeroot",
        variable: Variable::Exactly("FAKEROOTKEY"),
        // Debian's fakeroot-pseudo sets fakeroot's variable too.
        libraries: &["libfakeroot", "libpseudo"],
    },
    Wrapper { name: "pseudo", variable: Variable::Prefix("PSEUDO_"), libraries: &["libpseudo"] },
    Wrapper {
        name: "fakechroot",
        variable: Variable::Exactly("FAKECHROOT"),
        libraries: &["libfakechroot"],
    },
];

const LINKAGE: Linkage = match cfg!(target_feature = "crt-static") {
    true => Linkage::Static,
    false => Linkage::Dynamic,
};

/// What a program that asks the host about files has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host {
    /// The kernel answers.
    Plain,
    /// A wrapper answers: user number 0 need not be able to read every file.
    Wrapped,
}

/// Whether a wrapper was asked for. Call it before the host is asked for owners.
///
/// # Errors
/// One was asked for, and does not reach this program.
pub fn host() -> Result<Host, Error> {
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        })
        .collect();
    judge(&variables, LINKAGE, || std::fs::read_to_string("/proc/self/maps").ok())
}

/// `maps` is only called when it is needed; `None` where the host does not say.
fn judge(
    variables: &[(String, String)],
    linkage: Linkage,
    maps: impl FnOnce() -> Option<String>,
) -> Result<Host, Error> {
    let asked: Vec<(&Wrapper, &str)> = WRAPPERS
        .iter()
        .filter_map(|wrapper| Some((wrapper, wrapper.asked_for(variables)?)))
        .collect();
    if asked.is_empty() {
        return Ok(Host::Plain);
    }
    let maps = maps();
    for (wrapper, variable) in asked {
        let reached = match (&maps, linkage) {
            (Some(maps), _) => wrapper.libraries.iter().any(|library| maps.contains(library)),
            (None, linkage) => linkage == Linkage::Dynamic,
        };
        if !reached {
            return Err(wrapper.refusal(variable, linkage));
        }
    }
    Ok(Host::Wrapped)
}

impl Wrapper {
    /// The variable that asks for it.
    fn asked_for<'a>(&self, variables: &'a [(String, String)]) -> Option<&'a str> {
        if self.name == "pseudo" && is_pseudo_off(variables) {
            return None;
        }
        let mut names = variables.iter().map(|(name, _)| name.as_str());
        names.find(|name| match self.variable {
            Variable::Exactly(wanted) => *name == wanted,
            Variable::Prefix(start) => name.starts_with(start),
        })
    }

    fn refusal(&self, variable: &str, linkage: Linkage) -> Error {
        let name = self.name;
        let reason = match linkage {
            Linkage::Static => "it is linked statically",
            Linkage::Dynamic => "its library is not loaded (LD_PRELOAD)",
        };
        let message =
            format!("{variable} asks for {name}, which has no effect on this program: {reason}");
        let variable = variable.to_owned();
        Error::new(message).of(ErrorKind::Wrapper { name, variable, linkage })
    }
}

/// Build systems leave pseudo's variables set, and switch it off with one more.
fn is_pseudo_off(variables: &[(String, String)]) -> bool {
    variables.iter().any(|(name, value)| match name.as_str() {
        "PSEUDO_UNLOAD" => true,
        "PSEUDO_DISABLED" => !value.starts_with(['f', 'F', 'n', 'N', 's', 'S', '0']),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAKEROOT: &str =
        "7f00 r-xp 0 08:01 7 /usr/lib/x86_64-linux-gnu/libfakeroot/libfakeroot-sysv.so\n";
    const PSEUDO: &str = "7f00 r-xp 0 08:01 7 /usr/lib/x86_64-linux-gnu/pseudo/libpseudo.so\n";
    const NOTHING: &str = "7f00 r-xp 0 08:01 7 /usr/lib/x86_64-linux-gnu/libc.so.6\n";

    /// The verdict, or the message of the refusal.
    fn verdict(variables: &[&str], linkage: Linkage, maps: Option<&str>) -> Result<Host, String> {
        let variables: Vec<(String, String)> = variables
            .iter()
            .map(|word| word.split_once('=').unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        judge(&variables, linkage, || maps.map(str::to_owned)).map_err(|error| error.message)
    }

    #[test]
    fn a_wrapper_that_reaches_us_is_heard() {
        let cases: [(&[&str], &str); 5] = [
            (&["FAKEROOTKEY=7"], FAKEROOT),
            (&["FAKEROOTKEY=pseudo", "PSEUDO_PREFIX=/usr"], PSEUDO),
            (&["PSEUDO_PREFIX=/usr", "PSEUDO_DISABLED=0"], PSEUDO),
            (&["FAKEROOTKEY=7", "PSEUDO_PREFIX=/usr", "PSEUDO_DISABLED=1"], FAKEROOT),
            (&["FAKECHROOT=true"], "/usr/lib/fakechroot/libfakechroot.so"),
        ];
        for (variables, maps) in cases {
            let found = verdict(variables, Linkage::Dynamic, Some(maps));
            assert_eq!(found, Ok(Host::Wrapped), "{variables:?}");
        }
        assert_eq!(verdict(&["FAKEROOTKEY=7"], Linkage::Dynamic, None), Ok(Host::Wrapped));
    }

    #[test]
    fn a_wrapper_that_cannot_reach_us_is_refused() {
        for (variables, linkage, maps) in [
            (&["FAKEROOTKEY=7"][..], Linkage::Static, Some(NOTHING)),
            (&["FAKEROOTKEY=7"][..], Linkage::Static, None),
            (&["FAKEROOTKEY=7"][..], Linkage::Dynamic, Some(NOTHING)),
            (&["PSEUDO_LOCALSTATEDIR=/x"][..], Linkage::Dynamic, Some(FAKEROOT)),
            (&["FAKEROOTKEY=7", "FAKECHROOT=true"][..], Linkage::Dynamic, Some(FAKEROOT)),
        ] {
            let message = verdict(variables, linkage, maps).unwrap_err();
            let reason = match linkage {
                Linkage::Static => "linked statically",
                Linkage::Dynamic => "not loaded",
            };
            assert!(message.contains(reason), "{message}");
        }
    }

    #[test]
    fn nothing_is_asked_where_no_wrapper_is() {
        for variables in [
            &["PATH=/bin"][..],
            &["PSEUDO_PREFIX=/usr", "PSEUDO_DISABLED=1"][..],
            &["PSEUDO_PREFIX=/usr", "PSEUDO_UNLOAD=1"][..],
        ] {
            assert_eq!(verdict(variables, Linkage::Static, None), Ok(Host::Plain), "{variables:?}");
        }
    }
}
