//! Images from folders, archives and files of the program, into a file, memory or a device.
use crate::error::{Error, ErrorKind, Result};
use crate::files::Files;
use crate::image::{Adapter, Device, Memory};
use extant_block::{Access, BlockDevice, Clock, RealClock, Window, in_use};
use extant_edit::redo;
use extant_engine::mkfs::{Identity, Profile, default_wishes};
use extant_format::layout::Wishes;
use extant_image::Progress;
use extant_image::assemble::{
    BLOCK_SIZE, BuildOptions, Destination, ImageSize, Job, LostFolder, Medium, Place, Room,
};
use extant_image::notice::{NAMED_MAX, Notices};
use extant_image::source::{
    self, Collected, ContainerForm, ContainerPlace, Exclude, Holes, Owner, ReadOptions, Source,
    collect,
};
use std::fmt;
use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::NamedTempFile;

/// Builds an image, as `extant build` does: without root, exactly as large as its content needs
/// unless room or a size is asked for, the same bytes for the same content.
///
/// ```
/// # fn main() -> extant::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("extant-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let (rootfs, image) = (folder.join("rootfs"), folder.join("disk.img"));
/// # std::fs::create_dir_all(&rootfs)?;
/// let built = extant::Builder::new().source(&rootfs).free(1 << 20).build(&image)?;
/// println!("{} blocks, {} free", built.blocks, built.free_blocks);
/// # assert_eq!(std::fs::metadata(&image)?.len(), built.bytes);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
///
/// Several sources are laid over each other, in their order. An image without any is an empty
/// volume.
#[derive(Debug)]
#[must_use = "nothing is built before `build`, `build_memory` or `build_device`"]
pub struct Builder {
    sources: Vec<Source>,
    read: ReadOptions,
    exclude: Vec<String>,
    profile: Profile,
    block_size: u32,
    size: ImageSize,
    label: String,
    uuid: Option<[u8; 16]>,
    existing: Existing,
    listener: Listener,
}

/// Who hears of the progress.
struct Listener(Arc<dyn Progress + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// What becomes of an image that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Existing {
    Refuse,
    Replace,
}

/// An image that was built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    /// Its length in bytes.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// Its blocks.
    pub blocks: u64,
    /// Those that are free.
    pub free_blocks: u64,
    /// Its inodes.
    pub inodes: u32,
    /// Those that are free.
    pub free_inodes: u32,
    /// Whether it has a journal.
    pub has_journal: bool,
    /// Its UUID, which follows from the content unless one was given.
    pub uuid: [u8; 16],
    /// What could not be kept, or may surprise: sentences, the first five of each kind, and how
    /// many more there are.
    pub warnings: Vec<String>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            sources: Vec::new(),
            read: ReadOptions { holes: Holes::Auto, ..ReadOptions::default() },
            exclude: Vec::new(),
            profile: Profile::Ext4,
            block_size: BLOCK_SIZE,
            size: ImageSize::Exact(Room::NONE),
            label: String::new(),
            uuid: None,
            existing: Existing::Refuse,
            listener: Listener(Arc::new(())),
        }
    }
}

/// What goes in.
impl Builder {
    /// Of nothing yet: ext4, blocks of 4 KiB.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// A folder; or a file with an archive (tar, cpio newc, a Debian package, plain or compressed)
    /// or a container image. It is read when the image is built.
    pub fn source(mut self, path: impl AsRef<Path>) -> Builder {
        self.sources.push(Source::from(path));
        self
    }

    /// A container image; `tag` is its name or its digest where there are several.
    pub fn container(
        mut self,
        form: ContainerForm,
        path: impl Into<PathBuf>,
        tag: Option<String>,
    ) -> Builder {
        let place = ContainerPlace::Path(path.into());
        self.sources.push(Source::Container { form, place, tag });
        self
    }

    /// An archive of those kinds from anything that can be read. It is read at once, into a
    /// temporary file.
    ///
    /// # Errors
    /// Those of the reader; no room for the file.
    pub fn archive(mut self, mut archive: impl Read) -> Result<Builder> {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut archive, &mut file)?;
        file.seek(SeekFrom::Start(0))?;
        self.sources.push(Source::Archive { file, name: "archive".to_owned() });
        Ok(self)
    }

    /// Files that the program makes, one after the other. `make` is called at once; what it adds is
    /// kept in a temporary file.
    ///
    /// ```
    /// use extant::{Builder, Memory, NewFile};
    /// # fn main() -> extant::Result<()> {
    /// let memory = Memory::new();
    /// let builder = Builder::new().label("data").files(|files| {
    ///     files.add("/etc/hostname", NewFile::file("extant\n").mode(0o600))?;
    ///     files.add("/etc/name", NewFile::symlink("hostname"))
    /// })?;
    /// let built = builder.build_memory(&memory)?;
    /// assert_eq!(memory.to_vec().len() as u64, built.bytes);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `make`; no room for the file.
    pub fn files(mut self, make: impl FnOnce(&mut Files) -> Result<()>) -> Result<Builder> {
        let mut files = Files::new()?;
        make(&mut files)?;
        self.sources.push(Source::Made(files.made));
        Ok(self)
    }

    /// Leaves out what a pattern matches, with all below it: one without `/` matches a name
    /// anywhere, one with `/` a path from the root.
    pub fn exclude(mut self, pattern: impl Into<String>) -> Builder {
        self.exclude.push(pattern.into());
        self
    }

    /// All files belong to this user and group.
    pub fn owner(mut self, uid: u32, gid: u32) -> Builder {
        self.read.owner = Some(Owner { uid, gid });
        self
    }

    /// No time is later than this, in seconds since 1970 (`SOURCE_DATE_EPOCH`).
    pub fn newest(mut self, seconds: i64) -> Builder {
        self.read.newest = Some(seconds);
        self
    }
}

/// What the image is like.
impl Builder {
    /// ext2, ext3 or ext4.
    pub fn profile(self, profile: Profile) -> Builder {
        Builder { profile, ..self }
    }

    /// Bytes of a block: 1024, 2048, 4096 and so on to 65536.
    pub fn block_size(self, bytes: u32) -> Builder {
        Builder { block_size: bytes, ..self }
    }

    /// Room besides the content, in bytes, with inodes for it.
    pub fn free(self, bytes: u64) -> Builder {
        Builder { size: ImageSize::Exact(Room::Bytes(bytes)), ..self }
    }

    /// The image's length in bytes, whatever the content needs.
    pub fn size(self, bytes: u64) -> Builder {
        Builder { size: ImageSize::Fixed(bytes), ..self }
    }

    /// The volume's label, at most 16 bytes.
    pub fn label(self, label: impl Into<String>) -> Builder {
        Builder { label: label.into(), ..self }
    }

    /// The volume's UUID, in place of one that follows from the content.
    pub fn uuid(self, uuid: [u8; 16]) -> Builder {
        Builder { uuid: Some(uuid), ..self }
    }

    /// Who hears how far it is: bytes of archives and files of folders while they are read, then
    /// bytes that are written. It may end the work.
    pub fn progress(self, listener: Arc<dyn Progress + Send + Sync>) -> Builder {
        Builder { listener: Listener(listener), ..self }
    }

    /// Whether an image that is there is replaced, and a block device written over.
    pub fn replace(mut self, replace: bool) -> Self {
        self.existing = if replace { Existing::Replace } else { Existing::Refuse };
        self
    }
}

/// Where it goes.
///
/// # Errors
/// In all of these: sources that cannot be read, content that no such volume can hold, options that
/// contradict each other, `NoSpace` with what is missing.
impl Builder {
    /// Builds into a file, which has its name only when it is whole: what fails leaves what was
    /// there. A block device is written where it is.
    ///
    /// # Errors
    /// `Exists`; `InUse` for one that is open for writing or mounted; the host's.
    pub fn build(mut self, path: impl AsRef<Path>) -> Result<Built> {
        let path = path.as_ref();
        let target = Target::open(path, self.existing).map_err(|error| error.at(path))?;
        let name = path.display().to_string();
        let opened = target.file().metadata().map_err(|error| Error::from(error).at(path))?;
        self.read.never.push((opened.dev(), opened.ino()));
        self.read.never.extend(target.old);
        self.read.spool_folder = spool_folder(path);
        let built = self.run(target.file(), &name, target.place())?;
        target.finish().map_err(|error| error.at(path))?;
        Ok(built)
    }

    /// Builds into memory, which gets the image's length; what it held is gone.
    ///
    /// # Errors
    /// `InUse` where a volume is open on it.
    pub fn build_memory(self, memory: &Memory) -> Result<Built> {
        let _hold = memory.hold(Access::ReadWrite)?;
        // An attempt leaves what it wrote.
        let built = self.run(memory.medium(), "memory", Place::Whole);
        if built.is_err() {
            memory.medium().set_length(0)?;
        }
        built
    }

    /// Builds on a device of the caller, from its first byte on. What is after the image stays, and
    /// what an image does not write: the end of its first block.
    ///
    /// # Errors
    /// Those of the device, and then what it held is lost.
    pub fn build_device(self, device: Arc<dyn Device>) -> Result<Built> {
        let place = Place::device(device.len());
        self.run(&OnDevice(device), "device", place)
    }

    /// What the image is to be like, as the command has it.
    fn options(&self) -> Result<BuildOptions> {
        let mut label = [0; 16];
        let bytes = self.label.as_bytes();
        let place = label.get_mut(..bytes.len()).ok_or_else(|| {
            let words = format!("label {:?}: is longer than 16 bytes", self.label);
            Error::new(ErrorKind::InvalidInput, words)
        })?;
        place.copy_from_slice(bytes);
        if !self.block_size.is_power_of_two() || !(1024..=65_536).contains(&self.block_size) {
            let words =
                format!("block size {}: is no power of 2 from 1024 to 65536", self.block_size);
            return Err(Error::new(ErrorKind::InvalidInput, words));
        }
        let defaults = default_wishes(self.profile, 0, Some(self.block_size), Identity::NONE);
        let features = self.profile.features();
        let wishes = Wishes { features, reserved_ratio: 0.0, label, ..defaults };
        let lost_and_found = match self.read.exclude.matches(b"lost+found") {
            true => LostFolder::Omitted,
            false => LostFolder::Made,
        };
        Ok(BuildOptions {
            wishes,
            uuid: self.uuid,
            size: self.size,
            newest: self.read.newest,
            lost_and_found,
            ..BuildOptions::new(self.profile)
        })
    }

    fn run(mut self, medium: &dyn Medium, name: &str, place: Place) -> Result<Built> {
        source::host()?;
        self.read.block_bytes = self.block_size;
        self.read.exclude = Exclude::new(&self.exclude)?;
        let options = self.options()?;
        let progress = &*self.listener.0;
        let mut collected = collect(self.sources, &self.read, progress)?;
        let mut notices = std::mem::take(&mut collected.notices);
        let destination = Destination { medium, name: name.to_owned(), place };
        let job = Job::new(&collected, &options, &destination)?;
        job.note_times(&mut notices);
        let built = job.build(progress)?;
        Ok(Built {
            bytes: match (options.size, place) {
                (ImageSize::Fixed(bytes), Place::Whole) => bytes,
                _ => built.bytes(),
            },
            block_size: built.block_size,
            blocks: built.blocks,
            free_blocks: built.free_blocks,
            inodes: built.inodes,
            free_inodes: built.free_inodes,
            has_journal: built.has_journal,
            uuid: built.uuid,
            warnings: warnings(&notices, &collected),
        })
    }
}

fn warnings(notices: &Notices, collected: &Collected) -> Vec<String> {
    let mut warnings = Vec::new();
    for (kind, tally) in notices.kinds() {
        warnings.extend(tally.named.iter().cloned());
        if tally.named.len() == NAMED_MAX && tally.count > NAMED_MAX as u64 {
            let more = tally.count - NAMED_MAX as u64;
            warnings.push(format!("and {more} more of this kind ({})", kind.word()));
        }
    }
    let grown = collected.sources.grown().into_iter();
    warnings.extend(grown.map(|(node, length)| {
        let path = extant_archive::printable(&collected.tree.path(node));
        let before = collected.tree.length(node);
        format!("{path}: grew from {before} to {length} bytes while it was read, and is cut there")
    }));
    warnings
}

/// Where bodies of archives that come only once are kept: `TMPDIR`, or beside the image.
fn spool_folder(image: &Path) -> Option<PathBuf> {
    std::env::var_os("TMPDIR").map(PathBuf::from).or_else(|| Some(folder_of(image)))
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// A new image that is not built from sources.
pub(crate) struct Spare {
    target: Target,
    name: String,
}

impl Spare {
    /// Beside a path at which nothing is.
    ///
    /// # Errors
    /// `Exists`; the host's.
    pub(crate) fn open(path: &Path) -> Result<Spare> {
        let target = Target::open(path, Existing::Refuse).map_err(|error| error.at(path))?;
        Ok(Spare { target, name: path.display().to_string() })
    }

    pub(crate) fn destination(&self) -> Destination<'_> {
        let (medium, name) = (self.target.file(), self.name.clone());
        Destination { medium, name, place: self.target.place() }
    }

    /// Gives the image its name.
    ///
    /// # Errors
    /// `Exists`; the host's.
    pub(crate) fn finish(self, built: &extant_image::assemble::Built) -> Result<Built> {
        let bytes = self.target.file().metadata()?.len();
        self.target.file().sync_all()?;
        self.target.finish().map_err(|error| error.at(&self.name))?;
        Ok(Built {
            bytes,
            block_size: built.block_size,
            blocks: built.blocks,
            free_blocks: built.free_blocks,
            inodes: built.inodes,
            free_inodes: built.free_inodes,
            has_journal: built.has_journal,
            uuid: built.uuid,
            warnings: Vec::new(),
        })
    }
}

/// A device of the caller, as long as it is.
struct OnDevice(Arc<dyn Device>);

impl Medium for OnDevice {
    fn set_length(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn device(
        &self,
        clock: &Arc<dyn Clock>,
        name: &str,
        origin: u64,
        bytes: u64,
    ) -> io::Result<Arc<dyn BlockDevice>> {
        let whole = Adapter::new(Arc::clone(&self.0), Arc::clone(clock), Access::ReadWrite);
        let range = origin..origin.saturating_add(bytes);
        Ok(Arc::new(Window::new(Arc::new(whole), range, name.to_owned())))
    }
}

/// A file that becomes an image.
struct Target {
    kind: Kind,
    /// Where the image will be, without links.
    path: PathBuf,
    existing: Existing,
    /// Device and inode number of the file that is replaced.
    old: Option<(u64, u64)>,
}

enum Kind {
    /// A file beside the path, until it is whole.
    Partial(NamedTempFile),
    /// A block device of this many bytes.
    Device { file: File, bytes: u64, _claim: in_use::Claim },
}

impl Target {
    fn open(path: &Path, existing: Existing) -> Result<Target> {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let kind = Kind::Partial(partial(path, None)?);
                return Ok(Target { kind, path: path.to_owned(), existing, old: None });
            }
            Err(error) => return Err(error.into()),
        };
        let file_type = metadata.file_type();
        if !file_type.is_file() && !file_type.is_block_device() {
            let words = "is neither a regular file nor a block device";
            return Err(Error::new(ErrorKind::InvalidInput, words));
        }
        if existing == Existing::Refuse {
            return Err(Error::new(ErrorKind::Exists, "exists already"));
        }
        let resolved = path.canonicalize()?;
        let clock = RealClock::new();
        if file_type.is_block_device() {
            let file = in_use::open(&resolved, Access::ReadWrite)?;
            let claim = in_use::claim(&*clock, &file, Access::ReadWrite)?;
            let bytes = (&file).seek(SeekFrom::End(0))?;
            let kind = Kind::Device { file, bytes, _claim: claim };
            return Ok(Target { kind, path: resolved, existing, old: None });
        }
        if let Some(used) = in_use::kernel_use(&metadata) {
            return Err(Error::new(ErrorKind::InUse, used.to_string()));
        }
        // What another program writes to it would be lost. A file that we may not read is replaced.
        if let Ok(old) = File::open(&resolved) {
            let _ = in_use::claim(&*clock, &old, Access::ReadOnly)?;
        }
        let kind = Kind::Partial(partial(&resolved, Some(metadata.mode() & 0o777))?);
        let old = Some((metadata.dev(), metadata.ino()));
        Ok(Target { kind, path: resolved, existing, old })
    }

    fn file(&self) -> &File {
        match &self.kind {
            Kind::Partial(partial) => partial.as_file(),
            Kind::Device { file, .. } => file,
        }
    }

    fn place(&self) -> Place {
        match &self.kind {
            Kind::Partial(_) => Place::Whole,
            Kind::Device { bytes, .. } => Place::device(*bytes),
        }
    }

    /// Gives the image its name.
    fn finish(self) -> Result<()> {
        let Kind::Partial(partial) = self.kind else { return Ok(()) };
        let named = match self.existing {
            Existing::Refuse => partial.persist_noclobber(&self.path),
            Existing::Replace => partial.persist(&self.path),
        };
        named.map_err(|error| error.error)?;
        // A log of the image that was there before means nothing to this one.
        if let Some(log) = redo::path_of(&self.path) {
            let _ = std::fs::remove_file(log);
        }
        Ok(())
    }
}

/// A new file beside a path, which goes unless it gets a name.
fn partial(path: &Path, mode: Option<u32>) -> io::Result<NamedTempFile> {
    let file = tempfile::Builder::new()
        .prefix(".image-")
        .suffix(".partial")
        // As a new file has them: the host takes away what its mask says.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder_of(path))?;
    if let Some(mode) = mode {
        // The old image's; where the host does not let us, the new file's are good enough.
        let _ = file.as_file().set_permissions(Permissions::from_mode(mode));
    }
    Ok(file)
}
