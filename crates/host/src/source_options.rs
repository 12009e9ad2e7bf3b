//! The words of the command line about sources, and what they mean.
use crate::error::Error;
use extant_block::{Clock, RealClock, WallTime};
use extant_image::rules::{self, Language, Rules};
use extant_image::source::{
    ArchiveEnd, ContainerForm, ContainerPlace, Containers, Exclude, IdMap, Injection, Mounts,
    OnTrouble, Owner, Platform, Pretended, ReadOptions, Source, Times,
};
use extant_image::tree::Layers;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// The options of every command that reads sources; flatten it into the command's own.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct SourceArguments {
    /// Leave out what matches: a pattern without "/" matches a name anywhere, one with "/" a path
    /// from the root. With "lost+found" the image has none.
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Everything belongs to this user and group (numbers).
    #[arg(long, value_name = "UID:GID", value_parser = owner,
        conflicts_with_all = ["map_users", "map_groups"])]
    owner: Option<Owner>,
    /// Shift users: FROM becomes TO, for COUNT users; others stay. Also in access lists.
    #[arg(long, value_name = "FROM:TO:COUNT", value_parser = id_map)]
    map_users: Vec<IdMap>,
    /// Shift groups, likewise.
    #[arg(long, value_name = "FROM:TO:COUNT", value_parser = id_map)]
    map_groups: Vec<IdMap>,
    /// Apply whiteouts: with "oci", .wh.NAME of any type removes NAME of the sources before,
    /// .wh..wh..opq empties its directory, and other .wh..wh.* are left out.
    #[arg(long, value_name = "FORM")]
    whiteouts: Option<WhiteoutForm>,
    /// Of a container image for several platforms, take the one for this: linux/arm64,
    /// linux/arm/v6. Otherwise it is that of this machine.
    #[arg(long, value_name = "OS/ARCH[/VARIANT]")]
    pub platform: Option<String>,
    /// What a directory or an archive becomes that shows by itself to be a container image:
    /// "image", its layers are laid over each other; "files", an image of its blobs.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    containers: ContainerWord,
    /// Put a file or a directory of the host to one place of the image, after all sources:
    /// src=FILE,dst=/PATH[,mode=0755][,owner=UID:GID]. A file replaces a file, a directory is laid
    /// over a directory, which keeps its owner and mode; what is missing on the way is made. With a
    /// "/" at the end of PATH a file goes into that directory. Without mode and owner, they are
    /// those of FILE
    #[arg(long, value_name = "src=FILE,dst=PATH[,..]")]
    inject: Vec<OsString>,
    /// Owners, modes, labels, capabilities and flags from a file, in place of those of the
    /// sources: lines of our own ("/srv/** type=d mode=2775 group=33"; see docs/RULES.md), or with
    /// a word in front file_contexts:FILE (SELinux), fs_config:FILE (Android),
    /// device-table:FILE (genext2fs), makedevs:FILE (Buildroot), fakeroot:FILE (what fakeroot -s
    /// saved)
    #[arg(long, value_name = "[LANGUAGE:]FILE")]
    rules: Vec<OsString>,
    /// Where the image will be mounted: file_contexts and fs_config name files as they are then
    #[arg(long, value_name = "PATH", requires = "rules")]
    mount_point: Option<OsString>,
    /// Leave out files that cannot be read, name them, and exit with 1.
    #[arg(long)]
    keep_going: bool,
    /// Leave out what is mounted below a source directory: mount points become empty directories.
    #[arg(long)]
    one_file_system: bool,
    /// Keep access and change times where a source has them; else both are the modify time.
    #[arg(long)]
    keep_atime: bool,
    /// Refuse archives that do not end with two blocks of zeros, as one does that was cut off
    /// between two files, and those with anything but zeros after them. Otherwise a warning says
    /// so.
    #[arg(long)]
    strict_archive: bool,
}

/// How whiteouts are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum WhiteoutForm {
    /// As in layers of OCI images.
    Oci,
}

/// What becomes of container images.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
enum ContainerWord {
    /// The root file system that they hold.
    #[default]
    Image,
    /// The files that they consist of.
    Files,
}

impl SourceArguments {
    /// Checks the words. `source_date_epoch` is the variable of that name.
    ///
    /// # Errors
    /// Wrong usage, by the word.
    pub fn options(&self, source_date_epoch: Option<&str>) -> Result<ReadOptions, Error> {
        let (rules, pretended) = self.read_rules()?;
        Ok(ReadOptions {
            rules,
            pretended,
            exclude: Exclude::new(&self.exclude)
                .map_err(|error| Error::usage(format!("--exclude: {error}")))?,
            owner: self.owner,
            map_users: self.map_users.clone(),
            map_groups: self.map_groups.clone(),
            layers: if self.whiteouts.is_some() { Layers::Oci } else { Layers::Plain },
            platform: self.platform.as_deref().map(platform).transpose()?,
            containers: match self.containers {
                ContainerWord::Image => Containers::Image,
                ContainerWord::Files => Containers::Files,
            },
            newest: source_date_epoch.map(epoch).transpose()?,
            on_trouble: if self.keep_going { OnTrouble::Skip } else { OnTrouble::Stop },
            mounts: if self.one_file_system { Mounts::Stay } else { Mounts::Cross },
            times: if self.keep_atime { Times::All } else { Times::Modify },
            archive_end: if self.strict_archive { ArchiveEnd::Strict } else { ArchiveEnd::Lenient },
            ..ReadOptions::default()
        })
    }
}

/// The words in front of files of rules.
const LANGUAGES: [(&[u8], Language); 4] = [
    (b"file_contexts:", Language::Contexts),
    (b"fs_config:", Language::FsConfig),
    (b"device-table:", Language::DeviceTable),
    (b"makedevs:", Language::Makedevs),
];

impl SourceArguments {
    /// Reads the files of rules, and what fakeroot saved.
    fn read_rules(&self) -> Result<(Vec<Rules>, Option<Pretended>), Error> {
        let mount_point = self.mount_point.as_deref().unwrap_or_default().as_bytes();
        if !mount_point.is_empty() && !mount_point.starts_with(b"/") {
            return Err(Error::usage("--mount-point: is a path from the root, as /system"));
        }
        let mount_point = mount_point.trim_ascii_end();
        let mount_point = match mount_point.iter().rposition(|byte| *byte != b'/') {
            Some(last) => &mount_point[..=last],
            None => &[],
        };
        let (mut rules, mut pretended) = (Vec::new(), None);
        for word in &self.rules {
            let bytes = word.as_bytes();
            if let Some(path) = bytes.strip_prefix(b"fakeroot:") {
                let path = Path::new(OsStr::from_bytes(path));
                let text = rules::read(path)?;
                pretended = Some(Pretended::parse(&path.display().to_string(), &text)?);
                continue;
            }
            let language = LANGUAGES.iter().find(|(prefix, _)| bytes.starts_with(prefix));
            let (prefix, language) =
                language.map_or((0, Language::Own), |(prefix, language)| (prefix.len(), *language));
            let path = Path::new(OsStr::from_bytes(&bytes[prefix..]));
            let text = rules::read(path)?;
            let name = path.display().to_string();
            rules.push(Rules::parse(&name, &text, language, mount_point)?);
        }
        Ok((rules, pretended))
    }
}

fn platform(text: &str) -> Result<Platform, Error> {
    text.parse().map_err(|error| Error::usage(format!("--platform: {error}")))
}

fn epoch(text: &str) -> Result<i64, Error> {
    text.parse().map_err(|_| {
        Error::usage(format!("SOURCE_DATE_EPOCH={text:?}: is not a number"))
            .hint("seconds since 1970, as date +%s")
    })
}

/// Seconds since 1970 by the variable SOURCE_DATE_EPOCH, if it is set.
///
/// # Errors
/// It is no such number.
pub fn source_date_epoch<T: FromStr>() -> Result<Option<T>, Error> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let wrong = || Error::usage(format!("SOURCE_DATE_EPOCH={text:?}: is not a number of seconds"));
    seconds.map(Some).ok_or_else(|| wrong().hint("as date +%s prints it"))
}

/// The host's clock; at the time of SOURCE_DATE_EPOCH, if that is set.
///
/// # Errors
/// It is set to what is no time.
pub fn clock() -> Result<Arc<dyn Clock>, Error> {
    Ok(match source_date_epoch()? {
        Some(seconds) => RealClock::pinned(WallTime { seconds, nanoseconds: 0 }),
        None => RealClock::new(),
    })
}

/// What `--owner` says.
fn owner(text: &str) -> Result<Owner, Error> {
    let parsed = text
        .split_once(':')
        .and_then(|(uid, gid)| Some(Owner { uid: uid.parse().ok()?, gid: gid.parse().ok()? }));
    parsed.ok_or_else(|| Error::usage(format!("{text:?} is not UID:GID")))
}

/// What `--map-users` and `--map-groups` say: FROM:TO:COUNT.
///
/// # Errors
/// Wrong usage.
pub fn id_map(text: &str) -> Result<IdMap, Error> {
    let numbers: Option<Vec<u32>> = text.split(':').map(|word| word.parse().ok()).collect();
    let map = match numbers.as_deref() {
        Some([from, to, count]) if *count > 0 => {
            Some(IdMap { from: *from, to: *to, count: *count })
        }
        _ => None,
    };
    let fits = |map: &IdMap| {
        map.from.checked_add(map.count - 1).and(map.to.checked_add(map.count - 1)).is_some()
    };
    map.filter(fits)
        .ok_or_else(|| Error::usage(format!("{text:?} is not FROM:TO:COUNT in 32-bit ids")))
}

impl SourceArguments {
    /// What `--inject` asks for, in its order.
    ///
    /// # Errors
    /// Wrong usage, by the word.
    pub fn injections(&self) -> Result<Vec<Source>, Error> {
        self.inject.iter().map(|word| injection(word).map(Source::Injection)).collect()
    }
}

/// What one `--inject` says. A comma ends a value only where a key follows it.
fn injection(word: &OsStr) -> Result<Injection, Error> {
    const KEYS: [&str; 4] = ["src=", "dst=", "mode=", "owner="];
    let wrong = |what: &str| {
        let shown = extant_archive::printable(word.as_bytes());
        Error::usage(format!("--inject {shown}: {what}"))
            .hint("src=FILE,dst=/PATH, and perhaps mode=0755 and owner=UID:GID")
    };
    let bytes = word.as_bytes();
    let key_at = |at: usize| KEYS.iter().position(|key| bytes[at..].starts_with(key.as_bytes()));
    let is_start = |at: &usize| *at == 0 || bytes[*at - 1] == b',';
    let starts: Vec<(usize, usize)> =
        (0..bytes.len()).filter(is_start).filter_map(|at| Some((at, key_at(at)?))).collect();
    if starts.first().is_none_or(|(at, _)| *at != 0) {
        return Err(wrong("does not begin with src= or dst="));
    }
    let mut values: [Option<&[u8]>; 4] = [None; 4];
    for (number, (at, key)) in starts.iter().enumerate() {
        let end = starts.get(number + 1).map_or(bytes.len(), |(next, _)| next - 1);
        let value = &bytes[at + KEYS[*key].len()..end];
        if values[*key].replace(value).is_some() {
            return Err(wrong(&format!("{} is there twice", KEYS[*key])));
        }
    }
    let [source, target, mode, user] = values;
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let permissions = mode.map(|mode| {
        let mode = u16::from_str_radix(&text(mode), 8).ok().filter(|mode| *mode <= 0o7777);
        mode.ok_or_else(|| wrong("mode= is octal, 7777 at most"))
    });
    let user = user.map(|user| owner(&text(user)).map_err(|_| wrong("owner= is UID:GID")));
    let source = source.filter(|source| !source.is_empty()).ok_or_else(|| wrong("no src="))?;
    let target = target.filter(|target| target.first() == Some(&b'/'));
    Ok(Injection {
        source: OsStr::from_bytes(source).into(),
        target: target.ok_or_else(|| wrong("no dst= with a path that begins with /"))?.to_vec(),
        permissions: permissions.transpose()?,
        owner: user.transpose()?,
    })
}

/// What messages call standard input.
const STANDARD_INPUT: &str = "standard input";

/// Names that container images have on the command line.
const CONTAINERS: [(&str, ContainerForm); 3] = [
    ("oci:", ContainerForm::Oci),
    ("oci-archive:", ContainerForm::OciArchive),
    ("docker-archive:", ContainerForm::DockerArchive),
];

/// The sources that words of the command line name; "-" is an archive on standard input.
///
/// # Errors
/// Standard input more than once; a container image without a path.
pub fn sources(words: &[OsString]) -> Result<Vec<Source>, Error> {
    let sources: Vec<Source> = words.iter().map(source).collect::<Result<_, _>>()?;
    let is_input = |source: &&Source| {
        matches!(
            source,
            Source::Archive { .. } | Source::Container { place: ContainerPlace::File { .. }, .. }
        )
    };
    if sources.iter().filter(is_input).count() > 1 {
        return Err(Error::usage("-: standard input can be read only once"));
    }
    Ok(sources)
}

fn source(word: &OsString) -> Result<Source, Error> {
    if word == "-" {
        return Ok(Source::Archive { file: standard_input()?, name: STANDARD_INPUT.to_owned() });
    }
    let named = CONTAINERS.iter().find_map(|(name, form)| {
        let rest = word.as_bytes().strip_prefix(name.as_bytes())?;
        Some((*form, OsStr::from_bytes(rest)))
    });
    match named {
        Some((form, rest)) => container(word, form, rest),
        None => Ok(Source::from(word)),
    }
}

/// What `oci:`, `oci-archive:` and `docker-archive:` say: a path, and perhaps a tag after it.
fn container(word: &OsStr, form: ContainerForm, rest: &OsStr) -> Result<Source, Error> {
    let (path, tag) = path_and_tag(rest, |path| path.symlink_metadata().is_ok());
    let shown = || extant_archive::printable(word.as_bytes());
    if path.is_empty() {
        return Err(Error::usage(format!("{}: a path is missing", shown())));
    }
    let tag = match tag.map(|tag| tag.to_str().map(str::to_owned)) {
        None => None,
        Some(Some(tag)) if !tag.is_empty() => Some(tag),
        Some(_) => return Err(Error::usage(format!("{}: that is no tag", shown()))),
    };
    let place = match (form, path == "-") {
        (ContainerForm::Oci, true) => {
            let error = Error::usage("oci:-: a layout on standard input is an archive");
            return Err(error.hint("oci-archive:- reads it"));
        }
        (_, true) => {
            ContainerPlace::File { file: standard_input()?, name: STANDARD_INPUT.to_owned() }
        }
        (_, false) => ContainerPlace::Path(path.into()),
    };
    Ok(Source::Container { form, place, tag })
}

/// Splits `PATH[:TAG]`. Both may have colons: the longest path that is there counts; if none is,
/// the path ends at the first colon.
fn path_and_tag(rest: &OsStr, is_there: impl Fn(&Path) -> bool) -> (&OsStr, Option<&OsStr>) {
    let bytes = rest.as_bytes();
    let colons = (0..bytes.len()).rev().filter(|at| bytes[*at] == b':');
    let split =
        |at: usize| (OsStr::from_bytes(&bytes[..at]), Some(OsStr::from_bytes(&bytes[at + 1..])));
    if is_there(Path::new(rest)) {
        return (rest, None);
    }
    let mut first = None;
    for at in colons {
        first = Some(at);
        if is_there(Path::new(split(at).0)) {
            return split(at);
        }
    }
    first.map_or((rest, None), split)
}

fn standard_input() -> Result<File, Error> {
    let copy = rustix::io::dup(std::io::stdin());
    let copy = copy.map_err(|error| Error::io(STANDARD_INPUT, &error.into()))?;
    Ok(File::from(copy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shifted_in_their_range_only() {
        let maps = ["0:100000:65536", "70000:5:1"].map(|text| id_map(text).unwrap());
        assert_eq!(
            [0, 65535, 65536, 70000].map(|id| IdMap::apply(&maps, id)),
            [100000, 165535, 65536, 5]
        );
        for wrong in ["0:0", "0:0:0", "a:b:c", "4294967295:0:2", "0:4294967295:2", "1:2:3:4"] {
            assert!(id_map(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_injection_may_have_commas_in_its_paths() {
        let read = |text: &str| injection(OsStr::new(text));
        let found = read("src=a,b,dst=/x,y,mode=4755,owner=1:2").unwrap();
        assert_eq!((found.source.to_str(), &found.target[..]), (Some("a,b"), &b"/x,y"[..]));
        assert_eq!((found.permissions, found.owner), (Some(0o4755), owner("1:2").ok()));
        assert!(read("dst=/x,src=a").unwrap().permissions.is_none());
        for wrong in [
            "a",
            "src=a",
            "dst=/x",
            "src=a,dst=x",
            "src=a,dst=/x,mode=9",
            "src=,dst=/x",
            "src=a,src=b,dst=/x",
            "src=a,dst=/x,owner=root",
            "src=a,dst=/x,mode=10000",
            "",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_tag_follows_the_longest_path_that_is_there() {
        let split = |text: &'static str, there: &'static [&'static str]| {
            let is_there = move |path: &Path| there.iter().any(|name| Path::new(name) == path);
            let (path, tag) = path_and_tag(OsStr::new(text), is_there);
            (path.to_str().unwrap(), tag.map(|tag| tag.to_str().unwrap()))
        };
        assert_eq!(split("a", &["a"]), ("a", None));
        assert_eq!(split("a:1", &["a"]), ("a", Some("1")));
        assert_eq!(split("a:1", &["a", "a:1"]), ("a:1", None));
        assert_eq!(split("a:b:1", &["a:b"]), ("a:b", Some("1")));
        assert_eq!(split("a:docker.io/x:1", &["a"]), ("a", Some("docker.io/x:1")));
        assert_eq!(split("a:x:1", &[]), ("a", Some("x:1")));
        assert_eq!(split("-:x", &[]), ("-", Some("x")));
    }

    #[test]
    fn a_date_that_is_no_number_is_refused() {
        let arguments = SourceArguments::default();
        assert_eq!(arguments.options(Some("500")).unwrap().newest, Some(500));
        assert!(arguments.options(Some("soon")).is_err());
    }
}
