//! `extant diff`: what differs between two images, folders or archives.
use crate::listing::kind;
use clap::ValueEnum;
use extant_archive::{Decompressed, begins_with_header, printable};
use extant_disk::read::{LOOK_BYTES, form_of};
use extant_format::inode::FileType;
use extant_host::console::{Console, Form};
use extant_host::disk;
use extant_host::error::{Error, Exit};
use extant_host::image::{DamageArguments, ImageArguments, ImagePath};
use extant_host::place::{Part, VolumeName};
use extant_host::progress::Unit;
use extant_image::date::{Grain, shown};
use extant_image::difference::{
    Change, CompareOptions, Compared, Finding, Here, Ignored, Side, Which, compare,
};
use extant_image::source::{Exclude, ReadOptions, Source, collect};
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

/// Show what differs between two images, folders or tar archives, of whatever kind each is.
///
/// Names, types, modes, owners, modify times, extended attributes, access lists, hard links,
/// devices, targets of symlinks and contents are compared, and between two images the flags that
/// chattr sets. Each difference is a line, sorted by
/// path: "- path" is only in A, "+ path" only in B, with all that is in it; otherwise the path,
/// what differs and both values. An archive may be compressed. An empty lost+found as mkfs makes it
/// does not count.
///
/// Ends as diff does: 0 if there is no difference, 1 if there is one, 2 if something could not be
/// compared.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant diff old.img new.img
  extant diff disk.img@root:/etc /etc
  extant diff --ignore times,owner rootfs.tar.zst disk.img
  extant diff --quiet a.img b.img || echo different
  extant diff --json a.img b.img | jq '.differences[].path'")]
pub struct Arguments {
    /// An image, with IMAGE@PARTITION and IMAGE:/path; a folder; a tar archive, "-" for one on
    /// standard input.
    #[arg(value_name = "A")]
    pub a: OsString,
    /// The other one.
    #[arg(value_name = "B")]
    pub b: OsString,
    /// What is not compared.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub ignore: Vec<Word>,
    /// Compare the sizes of files, but not what is in them.
    #[arg(long)]
    pub no_contents: bool,
    /// Leave out what matches, with all below it: a pattern without "/" matches names anywhere, one
    /// with "/" paths from the root; "**" matches any number of directories.
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Stop after this many differences.
    #[arg(long, value_name = "NUMBER")]
    pub limit: Option<u64>,
    #[command(flatten)]
    pub damage: DamageArguments,
    #[command(flatten)]
    pub place: ImageArguments,
}

/// What is not compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Word {
    /// Modify times.
    Times,
    /// Modify times of directories.
    DirectoryTimes,
    /// What is below a second in times: many archives have seconds only.
    Nanoseconds,
    /// Users and groups.
    Owner,
    /// Permissions.
    Mode,
    /// Flags as chattr sets them, of two images.
    Flags,
    /// Extended attributes, access lists among them.
    Attributes,
    /// Which names are hard links of one file.
    Links,
    /// Bytes of files.
    Contents,
}

impl Word {
    fn ignored(self) -> Ignored {
        match self {
            Word::Times => Ignored::Times,
            Word::DirectoryTimes => Ignored::DirectoryTimes,
            Word::Nanoseconds => Ignored::Nanoseconds,
            Word::Owner => Ignored::Owner,
            Word::Mode => Ignored::Mode,
            Word::Flags => Ignored::Flags,
            Word::Attributes => Ignored::Attributes,
            Word::Links => Ignored::Links,
            Word::Contents => Ignored::Contents,
        }
    }
}

/// Compares them. With `--json`: `{"schema": "extant-diff/1", "a", "b", "differences": [{"path",
/// "kind", "a", "b"}, ..], "names", "bytes", "is_complete"}`.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let mut ignored: Vec<Ignored> = arguments.ignore.iter().map(|word| word.ignored()).collect();
    if arguments.no_contents {
        ignored.push(Ignored::Contents);
    }
    let exclude = Exclude::new(&arguments.exclude)?;
    if arguments.a == "-" && arguments.b == "-" {
        return Err(Error::usage("-: standard input can be one of the two only"));
    }
    let mut state = State::Complete;
    let mut a = side(&arguments.a, &arguments, console, &mut state)?;
    let mut b = side(&arguments.b, &arguments, console, &mut state)?;
    let mut output = Output {
        console,
        words: [&arguments.a, &arguments.b],
        out: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
        count: 0,
        limit: arguments.limit.unwrap_or(u64::MAX),
        state,
        failed: None,
    };
    output.begin();
    let progress = console.progress("diff", Unit::Bytes, 0);
    let options = CompareOptions { ignored, exclude };
    let compared =
        compare(&mut a, &mut b, &options, &progress, &mut |finding| output.take(&finding));
    drop(progress);
    output.end(compared)
}

/// One of the two, whatever it is.
fn side(
    word: &OsStr,
    arguments: &Arguments,
    console: &Console,
    state: &mut State,
) -> Result<Side, Error> {
    let source = if word == "-" {
        let stdin = io::stdin();
        let file = std::os::fd::AsFd::as_fd(&stdin).try_clone_to_owned();
        let file = file.map_err(|error| Error::io("standard input", &error))?;
        Source::Archive { file: file.into(), name: "standard input".into() }
    } else {
        let place = ImagePath::of(word);
        let is_folder = place.path.is_none() && place.image.is_dir();
        if !is_folder && (place.path.is_some() || !is_archive(&place.image)?) {
            return of_image(&place, arguments, console, state);
        }
        Source::Path(place.image)
    };
    let options = ReadOptions {
        spool_folder: std::env::var_os("TMPDIR").map(Into::into),
        ..ReadOptions::default()
    };
    let collected = collect([source], &options, &())?;
    Ok(Side::of_sources(collected))
}

fn of_image(
    place: &ImagePath,
    arguments: &Arguments,
    console: &Console,
    state: &mut State,
) -> Result<Side, Error> {
    let within = arguments.place.among(&place.image);
    let opened = arguments.damage.open(&place.image, &within, console)?;
    if opened.exit() != Exit::Complete {
        *state = State::Incomplete;
    }
    let filesystem = opened.filesystem;
    let path = place.path_or_root();
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    Side::of_image(&filesystem, bytes)
        .map_err(|error| Error::new(format!("{}: {}", place.image.display(), error.message)))
}

/// Whether a file is a tar archive rather than an image, by its first bytes, unpacked where it is
/// compressed.
fn is_archive(path: &Path) -> Result<bool, Error> {
    let name = VolumeName::of(path);
    if name.part != Part::Unsaid {
        return Ok(false);
    }
    let failed = |error: io::Error| disk::unopened(path, &error);
    let Ok(metadata) = path.metadata() else { return Ok(false) };
    if !metadata.is_file() {
        // A pipe can only be an archive; what else it is, is said where it is opened.
        use std::os::unix::fs::FileTypeExt;
        return Ok(metadata.file_type().is_fifo());
    }
    let file = File::open(path).map_err(failed)?;
    let mut head = Vec::with_capacity(512);
    Read::take(&file, 512).read_to_end(&mut head).map_err(failed)?;
    if form_of(&head[..head.len().min(LOOK_BYTES)]).is_some()
        && let Some(unpacked) = Decompressed::open(file).map_err(failed)?
    {
        head.clear();
        // What is wrong with it is said where it is read.
        let _ = unpacked.take(512).read_to_end(&mut head);
    }
    Ok(begins_with_header(&head) || (!head.is_empty() && is_empty_archive(path, &head)))
}

/// An archive without entries is zeros, of at most one record; an image is longer.
fn is_empty_archive(path: &Path, head: &[u8]) -> bool {
    const RECORD: u64 = 10_240;
    head.iter().all(|byte| *byte == 0)
        && path.metadata().is_ok_and(|metadata| metadata.len() <= RECORD)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Complete,
    /// Something could not be read.
    Incomplete,
}

/// Where findings go, one by one: there may be more than fit into memory.
struct Output<'a> {
    console: &'a Console,
    words: [&'a OsString; 2],
    out: BufWriter<io::StdoutLock<'static>>,
    count: u64,
    limit: u64,
    state: State,
    failed: Option<io::Error>,
}

impl Output<'_> {
    fn is_quiet(&self) -> bool {
        self.console.form == Form::Text
            && self.console.chatter == extant_host::console::Chatter::Quiet
    }

    fn begin(&mut self) {
        if self.console.is_json() {
            let [a, b] = self.words.map(|word| word.to_string_lossy().into_owned());
            let head = format!(
                "{{\"schema\":\"extant-diff/1\",\"a\":{},\"b\":{},\"differences\":[",
                json!(a),
                json!(b)
            );
            self.write(&head);
        }
    }

    fn write(&mut self, text: &str) {
        if let Err(error) = self.out.write_all(text.as_bytes()) {
            self.failed.get_or_insert(error);
        }
    }

    fn take(&mut self, finding: &Finding) -> ControlFlow<()> {
        if let Change::Unreadable(which, reason) = &finding.change {
            self.state = State::Incomplete;
            let word = self.words[usize::from(*which == Which::B)].to_string_lossy();
            self.console.skipped(&format!("{word}: {}: {reason}", path(&finding.path)));
            return ControlFlow::Continue(());
        }
        self.count += 1;
        if self.is_quiet() {
            // One is as good as many.
            return ControlFlow::Break(());
        }
        let text = match self.console.form {
            Form::Text => format!("{}\n", line(finding)),
            Form::Json => {
                let comma = if self.count > 1 { "," } else { "" };
                format!("{comma}{}", record(finding))
            }
        };
        self.write(&text);
        match self.failed.is_some() || self.count >= self.limit {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn end(mut self, compared: Compared) -> Result<Exit, Error> {
        if self.console.is_json() {
            let is_complete = self.state == State::Complete && self.count < self.limit;
            let Compared { names, bytes } = compared;
            self.write(&format!(
                "],\"names\":{names},\"bytes\":{bytes},\"is_complete\":{is_complete}}}\n"
            ));
        } else if self.count >= self.limit {
            self.console.warn(&format!("stopped after {} differences", self.count));
        }
        if let Err(error) = self.out.flush() {
            self.failed.get_or_insert(error);
        }
        let exit = match (self.state, self.count) {
            (State::Incomplete, _) => 2,
            (State::Complete, 0) => 0,
            (State::Complete, _) => 1,
        };
        match self.failed.map(|error| Error::stdout(&error)) {
            // A reader of the first lines alone has to learn the verdict nevertheless.
            Some(error) if error.exit != Exit::PipeClosed => Err(error),
            _ => Ok(Exit::Checked(exit)),
        }
    }
}

fn path(path: &[u8]) -> String {
    match path {
        b"" => "/".into(),
        path => printable(path),
    }
}

fn type_word(file_type: FileType) -> String {
    kind(file_type).replace('-', " ")
}

/// Both values as people read them.
fn both<T>(values: &Here<T>, text: impl Fn(&T) -> String) -> String {
    format!("{} -> {}", text(&values.a), text(&values.b))
}

fn line(finding: &Finding) -> String {
    let path = path(&finding.path);
    let what = match &finding.change {
        Change::Only(which, file_type) => {
            let sign = if *which == Which::A { '-' } else { '+' };
            let slash = if *file_type == FileType::Directory { "/" } else { "" };
            return format!("{sign} {path}{slash}");
        }
        Change::Type(types) => format!("type {}", both(types, |it| type_word(*it))),
        Change::Mode(modes) => format!("mode {}", both(modes, |it| format!("{it:04o}"))),
        Change::Owner(owners) => {
            format!("owner {}", both(owners, |(user, group)| format!("{user}:{group}")))
        }
        Change::Flags(flags) => format!("flags {}", both(flags, |it| letters(*it))),
        Change::Time(times) => {
            format!("time {}", both(times, |it| shown(*it, Grain::Nanosecond)))
        }
        Change::Size(sizes) => format!("size {}", both(sizes, u64::to_string)),
        Change::Content(at) => format!("content differs from byte {at} on"),
        Change::Target(targets) => format!("target {}", both(targets, |it| printable(it))),
        Change::Device(devices) => {
            format!("device {}", both(devices, |it| format!("{}:{}", it.major, it.minor)))
        }
        Change::Attribute(name, values) => {
            let value = |it: &Option<Vec<u8>>| it.as_ref().map_or("none".into(), |it| value(it));
            format!("attribute {} {}", printable(name), both(values, value))
        }
        Change::Links(firsts) => {
            let first = |it: &Option<Vec<u8>>| match it {
                None => "nothing before".to_owned(),
                Some(path) => printable(path),
            };
            format!("link to {}", both(firsts, first))
        }
        Change::Unreadable(_, reason) => reason.clone(),
    };
    format!("{path}: {what}")
}

/// A value of an attribute: text as it is, anything else in hexadecimal; the beginning of a long
/// one.
fn value(bytes: &[u8]) -> String {
    const SHOWN: usize = 32;
    let more = if bytes.len() > SHOWN { ".." } else { "" };
    let head = &bytes[..bytes.len().min(SHOWN)];
    match head.iter().all(|byte| (0x20..0x7f).contains(byte)) {
        true => format!("{:?}{more}", String::from_utf8_lossy(head)),
        false => {
            let digits: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("0x{digits}{more}")
        }
    }
}

fn record(finding: &Finding) -> Value {
    let (a, b): (Value, Value) = match &finding.change {
        Change::Only(Which::A, file_type) => (json!(type_word(*file_type)), Value::Null),
        Change::Only(Which::B, file_type) => (Value::Null, json!(type_word(*file_type))),
        Change::Type(types) => (json!(type_word(types.a)), json!(type_word(types.b))),
        Change::Mode(modes) => {
            (json!(format!("{:04o}", modes.a)), json!(format!("{:04o}", modes.b)))
        }
        Change::Owner(owners) => (json!([owners.a.0, owners.a.1]), json!([owners.b.0, owners.b.1])),
        Change::Flags(flags) => (json!(letters(flags.a)), json!(letters(flags.b))),
        Change::Time(times) => (
            json!([times.a.seconds, times.a.nanoseconds]),
            json!([times.b.seconds, times.b.nanoseconds]),
        ),
        Change::Size(sizes) => (json!(sizes.a), json!(sizes.b)),
        Change::Content(at) => {
            return json!({"path": path(&finding.path), "kind": "content", "byte": at});
        }
        Change::Target(targets) => (json!(printable(&targets.a)), json!(printable(&targets.b))),
        Change::Device(devices) => {
            (json!([devices.a.major, devices.a.minor]), json!([devices.b.major, devices.b.minor]))
        }
        Change::Attribute(name, values) => {
            let [a, b] = [&values.a, &values.b].map(|it| it.as_ref().map(|it| value(it)));
            return json!({
                "path": path(&finding.path), "kind": "attribute", "name": printable(name),
                "a": a, "b": b,
            });
        }
        Change::Links(firsts) => {
            let [a, b] = [&firsts.a, &firsts.b].map(|it| it.as_ref().map(|it| printable(it)));
            (json!(a), json!(b))
        }
        Change::Unreadable(_, reason) => (json!(reason), Value::Null),
    };
    json!({"path": path(&finding.path), "kind": finding.change.word(), "a": a, "b": b})
}

/// Flags as lsattr has them; "-" for none.
fn letters(flags: u32) -> String {
    // By their bits; a dot is none that chattr sets.
    const LETTERS: &str = "sucSiadA......jtDT.....C.....PF";
    let set = LETTERS.chars().enumerate().filter(|(bit, _)| flags >> bit & 1 == 1);
    let letters: String = set.map(|(_, letter)| letter).filter(|it| *it != '.').collect();
    if letters.is_empty() { "-".to_owned() } else { letters }
}
