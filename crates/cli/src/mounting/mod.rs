//! What the commands `mount` and `umount` are made of, beside the server itself.
//!
//! ```text
//! options     what -o asks for, as a value; words: the table of its words
//! mount_8     the names under which mount(8) and umount(8) call us
//! checks      what is looked at before anything is opened: the folder, the image
//! background  the server as a process of its own, and when the caller goes on
//! ending      signals, and a program for which a mount was made
//! abort       the end of a mount for users that do not end
//! connection  the kernel's connection of a mount, ended from outside, and the server's process
//! errand      what a server has done by other processes
//! farewell    how the end of a server is waited for
//! server      from the image to the end of the mount
//! log         where a server says what it met
//! name_of_image  whether the name of a mounted image still leads to it
//! observer    what is seen of a mount: errors, requests, times; recording: its device's requests
//! remount     other flags for a mount that is there
//! points      our mounts in the host's table, and who uses one
//! ```
pub mod abort;
pub mod background;
pub mod checks;
pub mod connection;
pub mod ending;
pub mod errand;
pub mod farewell;
pub mod log;
pub mod mount_8;
pub mod name_of_image;
pub mod observer;
pub mod options;
pub mod points;
pub mod recording;
pub mod remount;
pub mod server;
pub mod words;
