//! `extant mount`: an image under other programs.
use extant_daemon::{Job, Manner, MountOptions, Ready, Unknown, mount, remount, words};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::itself;
use extant_host::size::Size;
use extant_host::source_options::id_map;
use extant_image::source::IdMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Mount an ext2, ext3 or ext4 image or device by FUSE, for any program, without root where FUSE
/// allows that.
///
/// The image is locked as long as it is mounted; a journal is replayed first. The command ends when
/// the mount answers, and a server goes on in the background until it is unmounted: by extant
/// umount DIR, which waits until all is in the image; by umount, or fusermount3 -u, which do not.
/// With a COMMAND it mounts for that command alone, unmounts, waits until all is in the image, and
/// ends with the command's exit code; without DIR the command begins in the root of the image,
/// whose path is in EXTANT_MOUNT.
///
/// What a power cut or a killed server takes away: at most the last five seconds (-o commit=),
/// and nothing that an fsync or fdatasync was answered for. sync(1) and syncfs(2) start the writing
/// of what the kernel holds, but do not reach a FUSE server, and promise nothing. umount(8) returns
/// before the server has written everything, but for a block device mounted by root; extant umount
/// waits.
///
/// Without allow_other no user but the user who mounted it can enter, root included, and that user
/// may do everything in it. With allow_other the kernel checks permissions.
///
/// With links named mount.fuse.extant and umount.fuse.extant in /sbin, mount -t fuse.extant, lines
/// of fstab and umount work; docs/MOUNT.md shows them.
///
/// Exit codes: 0 done; 1 wrong usage; 2 the host lacks something; 8 interrupted; 32 the mount, or
/// writing the last of it, failed; with a COMMAND, its own.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant mount disk.img /mnt && cp -a photos /mnt; extant umount /mnt
  extant mount -o ro,offset=1M whole-disk.img /mnt
  extant mount disk.img -- sh -c 'du -sh *'
  extant mount -o allow_other,noatime,commit=30 /dev/sdb1 /srv
  extant mount -o map_users=0:1000:1,map_groups=0:1000:1 rootfs.img ~/root
  extant mount -o policies=linux-2.6:placement=parent,metacluster disk.img /mnt
  extant mount --trace session --timeline - disk.img -- make -C src")]
pub struct Arguments {
    /// The image: a file or a block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The folder to mount it on; it has to be empty
    #[arg(value_name = "DIR", required_unless_present_any = ["command"])]
    pub folder: Option<PathBuf>,
    /// A program to run with the image mounted, and its arguments
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
    /// Options with commas between, as mount(8) takes them; --help lists them
    #[arg(long = "options", short, value_name = "OPTIONS", long_help = words::help())]
    pub options: Vec<String>,
    /// Read only: -o ro
    #[arg(long, short)]
    pub read_only: bool,
    /// Writable, or not at all: -o rw
    #[arg(long, short = 'w', conflicts_with = "read_only")]
    pub read_write: bool,
    /// Where the volume begins in the image: -o offset=
    #[arg(long, value_name = "BYTES")]
    pub offset: Option<Size>,
    /// The journal of a volume that has it on another device: -o journal_path=
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
    /// Users of the image become users of this machine: FROM becomes TO, for COUNT users
    #[arg(long, value_name = "FROM:TO:COUNT", value_parser = id_map)]
    pub map_users: Vec<IdMap>,
    /// Groups, likewise
    #[arg(long, value_name = "FROM:TO:COUNT", value_parser = id_map)]
    pub map_groups: Vec<IdMap>,
    /// Stay in the foreground, and end when it is unmounted
    #[arg(long, short)]
    pub foreground: bool,
    /// Where a server in the background says what it met; else it tells syslog
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Record the session for the laboratory: FILE.blktrace has what the device was asked (extant
    /// lab replay), FILE.files what programs asked (extant lab session)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write how often each request was made and how long it took; "-" is standard output, with a
    /// COMMAND or --foreground
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,
    /// Check everything, and mount nothing
    #[arg(long)]
    pub fake: bool,
    /// Ignore options that are not known, as mount -s
    #[arg(long, short)]
    pub sloppy: bool,
    /// Accepted for mount(8): no table is written
    #[arg(long, short)]
    pub no_mtab: bool,
    /// Say what is mounted where
    #[arg(long, short)]
    pub verbose: bool,
    /// Tell the caller when the mount answers, and go to the background
    #[arg(long, hide = true)]
    pub announce: bool,
}

/// Mounts it. With `--json`: `{"schema": "extant-mount/1", "image", "folder", "access", "server"}`
/// when the mount answers.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let lists = lists(&arguments);
    if let (true, Some(folder)) = (remount::is_asked(&lists), &arguments.folder) {
        remount::run(&arguments.image, folder, &lists)?;
        return Ok(Exit::Complete);
    }
    let manner = match () {
        () if arguments.announce => Manner::Announced,
        () if arguments.fake => Manner::Checked,
        () if arguments.foreground || !arguments.command.is_empty() => Manner::Foreground,
        () => Manner::Background(super::translated(itself::words())),
    };
    let tells = arguments.command.is_empty();
    let tell = |ready: &Ready| if tells { say(ready, &arguments, console) } else { Ok(()) };
    let job = Job {
        image: arguments.image.clone(),
        folder: arguments.folder.clone(),
        options: options(&arguments, &lists)?,
        program: arguments.command.clone(),
        log: arguments.log.clone(),
        trace: arguments.trace.clone(),
        timeline: arguments.timeline.clone(),
    };
    mount(job, manner, &tell, console)
}

fn say(ready: &Ready, arguments: &Arguments, console: &Console) -> Result<(), Error> {
    if console.is_json() {
        return console.print_json("extant-mount/1", ready);
    }
    match arguments.verbose {
        true => console.print(&format!(
            "{}: mounted on {}, {}; its server is {}\n",
            ready.image, ready.folder, ready.access, ready.server
        )),
        false => Ok(()),
    }
}

/// The lists of `-o`, and then what has an option of its own.
fn lists(arguments: &Arguments) -> Vec<String> {
    let mut lists = arguments.options.clone();
    lists.extend(arguments.read_only.then(|| "ro".to_owned()));
    lists.extend(arguments.read_write.then(|| "rw".to_owned()));
    lists
}

/// What all words together ask for; those of `-o` come first.
fn options(arguments: &Arguments, lists: &[String]) -> Result<MountOptions, Error> {
    let unknown = if arguments.sloppy { Unknown::Ignored } else { Unknown::Refused };
    let mut options = words::parse(lists, unknown)?;
    if let Some(offset) = arguments.offset {
        let bytes = offset.bytes(1);
        options.offset_bytes = bytes.ok_or_else(|| Error::usage("--offset: is too large"))?;
    }
    options.journal = arguments.journal.clone().or(options.journal);
    options.map_users.extend(&arguments.map_users);
    options.map_groups.extend(&arguments.map_groups);
    options.check_maps().map_err(Error::usage)?;
    Ok(options)
}
