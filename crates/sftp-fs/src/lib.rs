//! Local files for both ends of SFTP: the host's file system for the server engine, and operations on open
//! files, which the copy engine uses too.
//!
//! `lh_sftp` implements the protocol and does no I/O; this crate makes the system calls.
//!
//! | for | see |
//! |---|---|
//! | a server | [`LocalFs`], a [`FileSystem`](lh_sftp::fs::FileSystem); [`SystemFiles`], a [`Lookup`](lh_sftp::server::Lookup) |
//! | bytes of open files | [`open_file`] |
//! | holes and extended attributes | [`data_ranges`], [`xattrs`], [`set_xattrs`] |
//! | whether a name refers to an open file | [`is_same_file`]; where inode numbers change: [`renumbers_files`] |

mod extended_attrs;
mod file;
mod local;
pub mod open_file;
mod parts;
mod real_path;
mod same_file;
mod system_files;
mod unnamed;
mod whole;

pub use extended_attrs::{data_ranges, set_xattrs, set_xattrs_of_open, xattrs, xattrs_of_open};
pub use local::LocalFs;
pub use same_file::{is_same_file, renumbers_files, renumbers_files_at};
pub use system_files::SystemFiles;
