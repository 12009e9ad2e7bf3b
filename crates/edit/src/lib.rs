//! Changes of an image, each all or nothing: files copied in, removed, renamed, described anew.
//!
//! ```text
//! change      a volume that is open for a change, and how that becomes durable; differing: the
//!             blocks that it is of; redo: the log beside an image that has no journal, or too
//!             small a one; order: which of its blocks are written first and last; undo: a repair
//!             by such a log, and back; ahead: what is written to free blocks before a log; e2undo:
//!             the undo file of e2fsprogs; resized: a volume of another size, and the length of
//!             its image; anew: a volume that was built anew; emptied: what nothing reads becomes
//!             holes; beside: files beside an image
//! copy        cp: between host and image, within an image, from image to image. source, sink:
//!             what is read and written; inside, host: an image and the host as both
//! create      mkdir, ln, write, truncate       removal     rm, rmdir       renaming   mv
//! metadata    chmod, chown, touch, chattr, setfattr, for one object or a tree
//! tree        paths inside an image
//! walk        the walk over a tree, of an image or of the host
//! mode        "u+rwX,go=r"     owner   "www-data:adm", by the image's own lists
//! time        "2026-01-31 12:00"     attribute   values of attributes as text
//! pending     names of an undo file
//! find        which objects of a tree are meant       glob   paths with * and ?
//! script      words of a line
//! error       what went wrong, and where
//! ```
//!
//! A [`Change`] is a file system that is open for writing on a staged device
//! ([`extant_block::Staged`]): what was free is written at once, everything else is held.
//! [`Change::commit`] brings it to its places by one transaction of the volume's journal, or by a
//! redo log; dropped, it leaves the volume as it was. So a command is a plain sequence of calls:
//! whatever stops it, nothing has happened.
//!
//! ```
//! # use extant_block::{BlockDevice, MemoryDevice, RealClock};
//! # use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
//! # use extant_engine::preset::Policies;
//! # use std::sync::Arc;
//! use extant_edit::{Change, ChangeOptions, Outcome, create, removal};
//!
//! # fn main() -> Result<(), extant_edit::Error> {
//! # let memory = Arc::new(MemoryDevice::new(RealClock::new(), 16 << 20));
//! # let device: Arc<dyn BlockDevice> = memory.clone();
//! # let identity = Identity {
//! #     uuid: *b"\x1f\x5e\xc2\x07\x9d\x34\x4a\x6b\x8e\x11\x42\xd0\x73\xa9\x58\xec",
//! #     hash_seed: [0x8a3c_51e7, 0x06d2_f94b, 0xb75e_1083, 0x4c91_e62a],
//! #     created_seconds: 1_767_225_600,
//! # };
//! # let wishes = default_wishes(Profile::Ext4, 16 << 20, Some(1024), identity);
//! # let policies: Policies = "modern".parse().unwrap();
//! # format(Arc::clone(&device), &FormatOptions::new(wishes), &policies)?;
//! let change = Change::open(Arc::clone(&device), &ChangeOptions::default())?;
//! create::directory(&change, "/srv/old".as_ref(), create::Parents::Make, None)?;
//! create::directory(&change, "/etc/conf.d".as_ref(), create::Parents::Make, None)?;
//! removal::remove(&change, "/srv".as_ref(), removal::Depth::Tree, &mut Vec::new())?;
//! let committed = change.commit()?;
//! assert!(matches!(committed.outcome, Outcome::Journal));
//! # extant_testkit::oracle::example(&|path| memory.save(path)).unwrap();
//! # Ok(())
//! # }
//! ```
pub mod ahead;
pub mod anew;
pub mod attribute;
mod beside;
pub mod change;
pub mod copy;
pub mod create;
mod differing;
pub mod e2undo;
pub mod emptied;
pub mod error;
pub mod find;
pub mod glob;
pub mod metadata;
pub mod mode;
pub mod order;
pub mod owner;
mod pending;
pub mod redo;
pub mod removal;
pub mod renaming;
pub mod resized;
pub mod script;
pub mod time;
pub mod tree;
pub mod undo;
pub mod walk;

pub use change::{Change, ChangeOptions, Committed, OnErrors, Outcome};
pub use error::{Error, Place, Result, What};
