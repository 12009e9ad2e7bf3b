//! Which of several images is meant: by its name, and by its platform.

use crate::error::{ContainerFault, Error, ErrorKind};
use crate::source::platform::Platform;
use extant_archive::printable;

/// Images that a refusal lists.
const LISTED_MAX: usize = 10;

/// An image that may be meant.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Its names; those of the index that it is in.
    pub(super) names: Vec<String>,
    /// Its digest, and those of the indexes that it is in.
    pub(super) digests: Vec<String>,
    /// What it runs on; `None` where nothing says so.
    pub(super) platform: Option<Platform>,
}

impl Candidate {
    fn shown(&self) -> String {
        let name = self.names.first().or(self.digests.first());
        let name = printable(name.map_or("an image without a name", |name| name).as_bytes());
        match &self.platform {
            Some(platform) => format!("{name} ({})", printable(platform.to_string().as_bytes())),
            None => name,
        }
    }

    fn is_called(&self, tag: &str) -> bool {
        let is_name = |name: &String| name == tag || whole_reference(name) == whole_reference(tag);
        self.names.iter().any(is_name) || self.digests.iter().any(|digest| digest == tag)
    }
}

/// A reference with what is usually left out of it.
fn whole_reference(reference: &str) -> String {
    let short = reference.strip_prefix("docker.io/").unwrap_or(reference);
    let short = short.strip_prefix("library/").unwrap_or(short);
    let last = short.rsplit('/').next().unwrap_or(short);
    match last.contains(':') || short.contains('@') {
        true => short.to_owned(),
        false => format!("{short}:latest"),
    }
}

/// The number of the image that is meant. Without a tag there has to be one image, or one whose
/// names are the same for all platforms; without a platform, that of this machine is taken of
/// several.
///
/// # Errors
/// None, or several; they are listed. `name` is the source's.
pub(super) fn pick(
    candidates: &[Candidate],
    tag: Option<&str>,
    platform: Option<&Platform>,
    name: &str,
) -> Result<usize, Error> {
    let refused = |what: String, fault: ContainerFault, listed: &[usize]| {
        let error = Error::new(format!("{name}: {what}{}", list(candidates, listed)));
        error.of(ErrorKind::Container(fault))
    };
    let all: Vec<usize> = (0..candidates.len()).collect();
    let mut left = all.clone();
    if let Some(tag) = tag {
        left.retain(|at| candidates[*at].is_called(tag));
        if left.is_empty() {
            let what = format!("holds no image {}", printable(tag.as_bytes()));
            return Err(refused(what, ContainerFault::NoSuchImage, &all));
        }
    }
    let of = |at: &usize| candidates[*at].platform.as_ref();
    if let Some(wanted) = platform {
        let before = left.clone();
        left.retain(|at| of(at).is_some_and(|platform| platform.is_kin(wanted)));
        narrow(&mut left, |at| of(at) == Some(wanted));
        if !left.iter().any(|at| of(at) == Some(wanted)) && wanted.has_variant() {
            left.clear();
        }
        if left.is_empty() {
            let what = format!("holds no image for {wanted}");
            return Err(refused(what, ContainerFault::NotThisPlatform, &before));
        }
    } else if left.len() > 1 && have_same_names(candidates, &left) {
        let host = Platform::host();
        narrow(&mut left, |at| of(at).is_some_and(|platform| platform.is_kin(&host)));
        narrow(&mut left, |at| of(at) == Some(&host));
    }
    match left[..] {
        [only] => Ok(only),
        [] => Err(refused("holds no image".into(), ContainerFault::NoSuchImage, &[])),
        _ => {
            let what = format!("holds {} images", left.len());
            Err(refused(what, ContainerFault::Ambiguous, &left))
        }
    }
}

/// Keeps those of which this is true, if it is of any.
fn narrow(left: &mut Vec<usize>, is_better: impl Fn(&usize) -> bool) {
    if left.iter().any(&is_better) {
        left.retain(is_better);
    }
}

fn have_same_names(candidates: &[Candidate], left: &[usize]) -> bool {
    left.windows(2).all(|pair| candidates[pair[0]].names == candidates[pair[1]].names)
}

fn list(candidates: &[Candidate], listed: &[usize]) -> String {
    if listed.is_empty() {
        return String::new();
    }
    let shown: Vec<String> =
        listed.iter().take(LISTED_MAX).map(|at| candidates[*at].shown()).collect();
    let more = match listed.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(": {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(names: &[&str], platform: &str) -> Candidate {
        Candidate {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            digests: vec![format!("sha256:{names:?}{platform}")],
            platform: platform.parse().ok(),
        }
    }

    #[test]
    fn one_is_taken_and_several_are_listed() {
        let host = Platform::host().to_string();
        let other = if host.contains("s390x") { "linux/amd64" } else { "linux/s390x" };
        let wanted: Platform = other.parse().unwrap();
        let picked = |candidates: &[Candidate], tag: Option<&str>, platform| {
            pick(candidates, tag, platform, "x").map_err(|error| error.message)
        };
        let one = [candidate(&["a:1"], other)];
        assert_eq!(picked(&one, None, None), Ok(0));
        assert_eq!(picked(&one, Some("docker.io/library/a:1"), None), Ok(0));
        assert_eq!(
            picked(&one, Some("a"), None),
            Err(format!("x: holds no image a: a:1 ({other})"))
        );
        let both = [candidate(&["a"], other), candidate(&["a"], &host)];
        assert_eq!(picked(&both, None, None), Ok(1));
        assert_eq!(picked(&both, None, Some(&wanted)), Ok(0));
        // Another image is not chosen by the machine that it happens to be read on.
        let named = [candidate(&["a"], other), candidate(&["b"], &host)];
        let refusal = picked(&named, None, None).unwrap_err();
        assert_eq!(refusal, format!("x: holds 2 images: a ({other}), b ({host})"));
        assert_eq!(picked(&named, Some("b:latest"), None), Ok(1));
        assert_eq!(picked(&named, None, Some(&wanted)), Ok(0));
        assert_eq!(picked(&named, Some(&named[0].digests[0]), None), Ok(0));
        assert!(picked(&[], None, None).unwrap_err().ends_with("holds no image"));
    }

    #[test]
    fn variants_count_where_they_are_asked_for() {
        let arm = [candidate(&[], "linux/arm/v6"), candidate(&[], "linux/arm/v7")];
        let picked = |platform: &str| pick(&arm, None, Some(&platform.parse().unwrap()), "x").ok();
        assert_eq!(picked("linux/arm/v6"), Some(0));
        assert_eq!(picked("linux/arm"), Some(1));
        assert_eq!(picked("linux/arm/v5"), None);
    }

    #[test]
    fn names_with_control_characters_are_escaped() {
        let names = ["a\u{1b}[2J\nb", "c"].map(|name| candidate(&[name], "linux/amd64"));
        let refusal = pick(&names, None, None, "x").unwrap_err().message;
        assert!(!refusal.contains(|letter: char| letter.is_control()), "{refusal:?}");
    }
}
