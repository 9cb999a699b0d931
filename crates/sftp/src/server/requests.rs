//! The table of requests: which requests an administrator can allow or deny, which ones a read-only server
//! refuses, and which ones VERSION offers.

use crate::{PacketType, Request, extension};

/// One kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestInfo {
    /// The name that `-p`, `-P` and `-Q requests` of sftp-server(8) use.
    pub name: &'static str,
    /// The type byte.
    pub packet_type: PacketType,
    /// Name and version, for a request that is an extension.
    pub extension: Option<(&'static str, &'static str)>,
    /// True if the request changes the file system: a read-only server refuses it. OPEN is judged by its
    /// flags instead.
    pub writes: bool,
    /// Names of requests whose work this one includes. If one of them is refused, this one is refused too.
    pub parts: &'static [&'static str],
}

const fn plain(name: &'static str, packet_type: PacketType, writes: bool) -> RequestInfo {
    RequestInfo { name, packet_type, extension: None, writes, parts: &[] }
}

const fn extended(
    name: &'static str,
    extension: &'static str,
    version: &'static str,
    writes: bool,
) -> RequestInfo {
    RequestInfo {
        name,
        packet_type: PacketType::EXTENDED,
        extension: Some((extension, version)),
        writes,
        parts: &[],
    }
}

/// Returns the row of a digest. `parts` includes reading: a client can choose a range of one byte and find
/// the byte from its digest.
const fn digest(name: &'static str, extension: &'static str, parts: &'static [&'static str]) -> RequestInfo {
    RequestInfo { parts, ..extended(name, extension, "1", false) }
}

/// Returns the row of a Longhaul extension that does the work of other requests.
const fn made_of(
    name: &'static str,
    extension: &'static str,
    writes: bool,
    parts: &'static [&'static str],
) -> RequestInfo {
    RequestInfo { parts, ..extended(name, extension, "1", writes) }
}

const TABLE: &[RequestInfo] = &[
    plain("open", PacketType::OPEN, false),
    plain("close", PacketType::CLOSE, false),
    plain("read", PacketType::READ, false),
    plain("write", PacketType::WRITE, true),
    plain("lstat", PacketType::LSTAT, false),
    plain("fstat", PacketType::FSTAT, false),
    plain("setstat", PacketType::SETSTAT, true),
    plain("fsetstat", PacketType::FSETSTAT, true),
    plain("opendir", PacketType::OPENDIR, false),
    plain("readdir", PacketType::READDIR, false),
    plain("remove", PacketType::REMOVE, true),
    plain("mkdir", PacketType::MKDIR, true),
    plain("rmdir", PacketType::RMDIR, true),
    plain("realpath", PacketType::REALPATH, false),
    plain("stat", PacketType::STAT, false),
    plain("rename", PacketType::RENAME, true),
    plain("readlink", PacketType::READLINK, false),
    plain("symlink", PacketType::SYMLINK, true),
    extended("posix-rename", extension::POSIX_RENAME, "1", true),
    extended("statvfs", extension::STATVFS, "2", false),
    extended("fstatvfs", extension::FSTATVFS, "2", false),
    extended("hardlink", extension::HARDLINK, "1", true),
    extended("fsync", extension::FSYNC, "1", true),
    extended("lsetstat", extension::LSETSTAT, "1", true),
    extended("limits", extension::LIMITS, "1", false),
    extended("expand-path", extension::EXPAND_PATH, "1", false),
    extended("copy-data", extension::COPY_DATA, "1", true),
    extended("home-directory", extension::HOME_DIRECTORY, "1", false),
    extended("users-groups-by-id", extension::USERS_GROUPS_BY_ID, "1", false),
    digest("check-file", extension::CHECK_FILE, &["read"]),
    digest("check-file-handle", extension::CHECK_FILE_HANDLE, &["read"]),
    digest("check-file-name", extension::CHECK_FILE_NAME, &["open", "read", "close"]),
    extended("running-sum", extension::RUNNING_SUM, "1", false),
    made_of("put-files", extension::PUT_FILES, true, &["open", "write", "fsetstat", "close"]),
    made_of("get-files", extension::GET_FILES, false, &["open", "read", "fstat", "close"]),
    made_of("list-dir", extension::LIST_DIR, false, &["opendir", "readdir", "close"]),
    made_of("full-attrs", extension::FULL_ATTRS, false, &["stat", "lstat", "fstat"]),
    made_of("data-ranges", extension::DATA_RANGES, false, &["read"]),
    made_of("get-xattrs", extension::GET_XATTRS, false, &["stat"]),
    made_of("set-xattrs", extension::SET_XATTRS, true, &["setstat"]),
    // These are no requests, but flags of other requests ([`crate::batched_extended_attrs`]).
    made_of(
        "put-kept",
        extension::PUT_KEPT,
        true,
        &["put-files", "open", "write", "fsetstat", "close", "set-xattrs", "setstat"],
    ),
    made_of(
        "get-kept",
        extension::GET_KEPT,
        false,
        &["get-files", "open", "read", "fstat", "close", "get-xattrs", "stat"],
    ),
];

/// Returns all requests this server knows, in the order in which sftp-server prints them.
pub const fn request_table() -> &'static [RequestInfo] {
    TABLE
}

/// Returns the entry of a request, or `None` for an extension that this server does not know.
pub(super) fn info_of(request: &Request<'_>) -> Option<&'static RequestInfo> {
    let name = request.extension_name();
    let kind = request.packet_type();
    TABLE.iter().find(|info| match (info.extension, name) {
        (Some((known, _)), Some(name)) => known.as_bytes() == name,
        (None, None) => info.packet_type == kind,
        _ => false,
    })
}
