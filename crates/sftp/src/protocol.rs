//! The numbers and names of SFTP version 3 (draft-ietf-secsh-filexfer-02) and of OpenSSH's extensions.
//!
//! Numbers are newtypes with named constants, so that unknown values can be read and passed on.

use std::fmt;
use std::time::Duration;

/// The protocol version of both sides of this crate.
pub const VERSION: u32 = 3;

/// The largest message, without its own length field, that OpenSSH accepts and that `limits@openssh.com`
/// announces.
pub const MAX_MESSAGE: usize = 256 * 1024;

/// The largest message this crate accepts. It has room for peers that send 256 KiB of data and do not count
/// the header.
pub const MAX_MESSAGE_ACCEPTED: usize = MAX_MESSAGE + 1024;

/// Largest number of file bytes in one READ or WRITE that OpenSSH serves (256 KiB less the rest of the
/// message).
pub const MAX_DATA: usize = MAX_MESSAGE - 1024;

/// Number of file bytes in one READ or WRITE that every server is known to serve, for servers without
/// `limits@openssh.com`. Several of them drop or corrupt larger ones.
pub const SAFE_DATA: usize = 32 * 1024;

/// Number of bytes of a message, its length field included, that every server takes (draft section 3).
pub const SAFE_MESSAGE: usize = 34_000;

/// The longest handle the draft allows (section 6.2).
pub const MAX_HANDLE: usize = 256;

/// Longest handle that this client takes from a server, bytes. Some exceed [`MAX_HANDLE`]: those of
/// pysftpserver grow by a byte with each file that is opened. OpenSSH's client takes any.
pub(crate) const MAX_HANDLE_ACCEPTED: usize = 4096;

/// Number of bytes before the file bytes of a DATA reply: message length, type, id, data length.
pub const DATA_HEADER: usize = 13;

/// The type byte of a message (draft section 3).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketType(pub u8);

macro_rules! packet_types {
    ($($name:ident = $number:literal, $doc:literal;)*) => {
        impl PacketType {
            $(#[doc = $doc] pub const $name: Self = Self($number);)*

            /// Returns the draft's name without `SSH_FXP_`, or `None` for a number it does not define.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

packet_types! {
    INIT = 1, "Client's version (section 4).";
    VERSION = 2, "Server's version and extensions (section 4).";
    OPEN = 3, "Open a file (6.3).";
    CLOSE = 4, "Close a handle (6.3).";
    READ = 5, "Read from a file (6.4).";
    WRITE = 6, "Write to a file (6.4).";
    LSTAT = 7, "Attributes of a path, a final symlink not followed (6.8).";
    FSTAT = 8, "Attributes of a handle (6.8).";
    SETSTAT = 9, "Set attributes of a path (6.9).";
    FSETSTAT = 10, "Set attributes of a handle (6.9).";
    OPENDIR = 11, "Open a directory (6.7).";
    READDIR = 12, "Read directory entries (6.7).";
    REMOVE = 13, "Remove a file (6.5).";
    MKDIR = 14, "Make a directory (6.6).";
    RMDIR = 15, "Remove a directory (6.6).";
    REALPATH = 16, "Canonical absolute form of a path (6.11).";
    STAT = 17, "Attributes of a path, symlinks followed (6.8).";
    RENAME = 18, "Rename; fails when the target exists (6.5).";
    READLINK = 19, "Read a symlink (6.10).";
    SYMLINK = 20, "Make a symlink (6.10).";
    STATUS = 101, "Reply: outcome (7).";
    HANDLE = 102, "Reply: a handle (7).";
    DATA = 103, "Reply: file bytes (7).";
    NAME = 104, "Reply: names with attributes (7).";
    ATTRS = 105, "Reply: attributes (7).";
    EXTENDED = 200, "A request named by a string (8).";
    EXTENDED_REPLY = 201, "The reply to an EXTENDED request (8).";
}

impl PacketType {
    /// Returns the message for users where the answer to a request of this kind has been missing for
    /// `waited`.
    pub fn waiting_for_answer(self, waited: Duration) -> String {
        let seconds = waited.as_secs_f64();
        format!("waiting for an answer to {self:?} for {seconds} s")
    }
}

impl fmt::Debug for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}", self.0),
        }
    }
}

/// The code of a STATUS reply (draft section 7).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatusCode(pub u32);

macro_rules! status_codes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl StatusCode {
            $(#[doc = $text] pub const $name: Self = Self($number);)*

            /// Returns OpenSSH's text for this code.
            pub const fn text(self) -> &'static str {
                match self.0 { $($number => $text,)* _ => "Unknown status" }
            }

            /// Returns the draft's name without `SSH_FX_`, or `None` for a number it does not define.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

status_codes! {
    OK = 0, "Success";
    EOF = 1, "End of file";
    NO_SUCH_FILE = 2, "No such file";
    PERMISSION_DENIED = 3, "Permission denied";
    FAILURE = 4, "Failure";
    BAD_MESSAGE = 5, "Bad message";
    NO_CONNECTION = 6, "No connection";
    CONNECTION_LOST = 7, "Connection lost";
    OP_UNSUPPORTED = 8, "Operation unsupported";
}

impl fmt::Debug for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "status {}", self.0),
        }
    }
}

/// The `pflags` of OPEN (draft section 6.3). Unknown bits are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpenFlags(pub u32);

impl OpenFlags {
    /// Open for reading.
    pub const READ: Self = Self(0x01);
    /// Open for writing.
    pub const WRITE: Self = Self(0x02);
    /// Writes append to the file; their offset is ignored.
    pub const APPEND: Self = Self(0x04);
    /// Create the file when it does not exist.
    pub const CREAT: Self = Self(0x08);
    /// Truncate an existing file to length 0.
    pub const TRUNC: Self = Self(0x10);
    /// With CREAT: fail when the file exists.
    pub const EXCL: Self = Self(0x20);
    /// Make a file that does not exist yet, for reading and writing.
    pub const NEW_FILE: Self = Self(Self::READ.0 | Self::WRITE.0 | Self::CREAT.0 | Self::EXCL.0);

    /// Returns true when all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if opening or writing may change the file. A read-only server refuses these flags.
    pub const fn modifies(self) -> bool {
        self.0 & (Self::WRITE.0 | Self::CREAT.0 | Self::TRUNC.0) != 0
    }
}

impl std::ops::BitOr for OpenFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Shows the flags as sftp-server's log does: `READ,WRITE,CREATE,TRUNCATE`.
impl fmt::Display for OpenFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(OpenFlags, &str); 6] = [
            (OpenFlags::READ, "READ"),
            (OpenFlags::WRITE, "WRITE"),
            (OpenFlags::APPEND, "APPEND"),
            (OpenFlags::CREAT, "CREATE"),
            (OpenFlags::TRUNC, "TRUNCATE"),
            (OpenFlags::EXCL, "EXCL"),
        ];
        let mut separator = "";
        for (flag, name) in NAMES {
            if self.contains(flag) {
                write!(f, "{separator}{name}")?;
                separator = ",";
            }
        }
        Ok(())
    }
}

impl fmt::Debug for OpenFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}({self})", self.0)
    }
}

/// Names of extensions in VERSION and EXTENDED (OpenSSH's `PROTOCOL`, section 4). Names without a domain are
/// from draft-ietf-secsh-filexfer-extensions-00.
pub mod extension {
    /// Rename that replaces the target, as rename(2).
    pub const POSIX_RENAME: &str = "posix-rename@openssh.com";
    /// statvfs(2) of a path.
    pub const STATVFS: &str = "statvfs@openssh.com";
    /// fstatvfs(2) of a handle.
    pub const FSTATVFS: &str = "fstatvfs@openssh.com";
    /// Hard link.
    pub const HARDLINK: &str = "hardlink@openssh.com";
    /// fsync(2) of a handle.
    pub const FSYNC: &str = "fsync@openssh.com";
    /// SETSTAT that does not follow a final symlink.
    pub const LSETSTAT: &str = "lsetstat@openssh.com";
    /// The server's limits.
    pub const LIMITS: &str = "limits@openssh.com";
    /// REALPATH that understands `~` and `~user`.
    pub const EXPAND_PATH: &str = "expand-path@openssh.com";
    /// Copy between two handles on the server.
    pub const COPY_DATA: &str = "copy-data";
    /// Home directory of a user.
    pub const HOME_DIRECTORY: &str = "home-directory";
    /// Names for numeric user and group ids.
    pub const USERS_GROUPS_BY_ID: &str = "users-groups-by-id@openssh.com";
    /// Digests of an open file, under the name that paramiko sends (and other clients look for in VERSION).
    pub const CHECK_FILE: &str = "check-file";
    /// Digests of an open file (draft-ietf-secsh-filexfer-extensions-00, section 3).
    pub const CHECK_FILE_HANDLE: &str = "check-file-handle";
    /// Digests of a file by its path (the same section).
    pub const CHECK_FILE_NAME: &str = "check-file-name";
    /// Name of XXH3 of 128 bits (seed 0, most significant byte first) in the algorithms of `check-file`.
    /// Longhaul's own.
    pub const CHECK_XXH3: &str = "xxh3-128@longhaul";
    /// Order in which the server reads SYMLINK's strings ([`crate::link_order`]), in VERSION only: it is no
    /// request. The name and its values come from the Green End SFTP server.
    pub const SYMLINK_ORDER: &str = "symlink-order@rjk.greenend.org.uk";
    /// Sum over the bytes read or written through a handle ([`crate::RunningSum`]). Longhaul's own.
    pub const RUNNING_SUM: &str = "running-sum@longhaul";
    /// Writes whole files ([`crate::batch`]).
    pub const PUT_FILES: &str = "put-files@longhaul";
    /// Reads small files.
    pub const GET_FILES: &str = "get-files@longhaul";
    /// Lists a directory, or the names in it that match a pattern.
    pub const LIST_DIR: &str = "list-dir@longhaul";
    /// Asks for more attributes in ATTRS ([`crate::extended_attrs`]).
    pub const FULL_ATTRS: &str = "full-attrs@longhaul";
    /// Finds the ranges of an open file that hold data, and its holes.
    pub const DATA_RANGES: &str = "data-ranges@longhaul";
    /// Reads extended attributes.
    pub const GET_XATTRS: &str = "get-xattrs@longhaul";
    /// Sets extended attributes.
    pub const SET_XATTRS: &str = "set-xattrs@longhaul";
    /// Announces that [`PUT_FILES`] takes owners and extended attributes ([`crate::batched_extended_attrs`]):
    /// it is no request.
    pub const PUT_KEPT: &str = "put-kept@longhaul";
    /// Announces that [`GET_FILES`] returns extended attributes.
    pub const GET_KEPT: &str = "get-kept@longhaul";
}
