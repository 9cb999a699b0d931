//! Requests: all messages that a client sends, except INIT.

use lh_wire::{Reader, WireError, Writer};

use crate::{Attrs, OpenFlags, PacketType, SumStep, extension};

/// One request, without its id. Paths are bytes, as the server's file system has them. Handles are those that
/// the server sent.
///
/// [`Request::encode`] writes a whole message with its length; [`Request::decode`] reads one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are the draft's, named as it names them")]
pub enum Request<'a> {
    /// Opens a file (6.3). `attrs` apply only if the file is made.
    Open { path: &'a [u8], flags: OpenFlags, attrs: Attrs },
    /// Closes a file or directory handle (6.3).
    Close { handle: &'a [u8] },
    /// Reads up to `len` bytes (6.4). Fewer may come back before the end of the file.
    Read { handle: &'a [u8], offset: u64, len: u32 },
    /// Writes all of `data` (6.4).
    Write { handle: &'a [u8], offset: u64, data: &'a [u8] },
    /// Asks for the attributes of a path; does not follow a final symlink (6.8).
    Lstat { path: &'a [u8] },
    /// Asks for the attributes of an open file (6.8).
    Fstat { handle: &'a [u8] },
    /// Changes attributes of a path (6.9).
    Setstat { path: &'a [u8], attrs: Attrs },
    /// Changes attributes of an open file (6.9).
    Fsetstat { handle: &'a [u8], attrs: Attrs },
    /// Opens a directory (6.7).
    Opendir { path: &'a [u8] },
    /// Reads some directory entries (6.7); EOF when there are no more.
    Readdir { handle: &'a [u8] },
    /// Removes a file (6.5).
    Remove { path: &'a [u8] },
    /// Makes a directory (6.6).
    Mkdir { path: &'a [u8], attrs: Attrs },
    /// Removes an empty directory (6.6).
    Rmdir { path: &'a [u8] },
    /// Makes a path canonical and absolute (6.11).
    Realpath { path: &'a [u8] },
    /// Asks for the attributes of a path; follows symlinks (6.8).
    Stat { path: &'a [u8] },
    /// Renames; fails when `new` exists (6.5).
    Rename { old: &'a [u8], new: &'a [u8] },
    /// Reads a symlink (6.10).
    Readlink { path: &'a [u8] },
    /// Makes a symlink at `link` that points to `target` (6.10). On the wire `target` comes first, as in
    /// OpenSSH. [`crate::link_order`] lists peers that have the draft's order.
    Symlink { target: &'a [u8], link: &'a [u8] },
    /// `posix-rename@openssh.com`: renames, replacing `new`.
    PosixRename { old: &'a [u8], new: &'a [u8] },
    /// `statvfs@openssh.com`.
    Statvfs { path: &'a [u8] },
    /// `fstatvfs@openssh.com`.
    Fstatvfs { handle: &'a [u8] },
    /// `hardlink@openssh.com`: makes `new` another name of `old`.
    Hardlink { old: &'a [u8], new: &'a [u8] },
    /// `fsync@openssh.com`.
    Fsync { handle: &'a [u8] },
    /// `lsetstat@openssh.com`: SETSTAT that does not follow a final symlink.
    Lsetstat { path: &'a [u8], attrs: Attrs },
    /// `limits@openssh.com`.
    Limits,
    /// `expand-path@openssh.com`: REALPATH that expands `~`.
    ExpandPath { path: &'a [u8] },
    /// `copy-data`: copies on the server; `len` 0 means to the end of the file.
    CopyData { from: &'a [u8], from_offset: u64, len: u64, to: &'a [u8], to_offset: u64 },
    /// `home-directory`: asks for the home directory of `user`, or of the logged-in user if `user` is empty.
    HomeDirectory { user: &'a [u8] },
    /// `users-groups-by-id@openssh.com`: packed big-endian `uint32` ids.
    UsersGroupsById { users: &'a [u8], groups: &'a [u8] },
    /// `check-file`: as `check-file-handle`.
    CheckFile { handle: &'a [u8], algorithms: &'a [u8], offset: u64, len: u64, block: u32 },
    /// `check-file-handle`: digests of `len` bytes (0: to the end) from `offset` on, one for each `block`
    /// bytes (0: one for all). The server uses the first one of `algorithms` (names separated by commas) that
    /// it has.
    CheckFileHandle { handle: &'a [u8], algorithms: &'a [u8], offset: u64, len: u64, block: u32 },
    /// `check-file-name`: like `check-file-handle`, for a path.
    CheckFileName { path: &'a [u8], algorithms: &'a [u8], offset: u64, len: u64, block: u32 },
    /// `running-sum@longhaul`: starts a sum over the bytes read or written through the handle, or asks for
    /// its value.
    RunningSum { handle: &'a [u8], step: SumStep },
    /// `put-files@longhaul`: `count` times [`crate::batch::PutFile`]. A server refuses unknown `flags`.
    PutFiles { flags: u32, count: u32, files: &'a [u8] },
    /// `get-files@longhaul`: `count` times [`crate::batch::GetFile`]. No `flags` are known.
    GetFiles { flags: u32, count: u32, files: &'a [u8] },
    /// `list-dir@longhaul`: lists the names in the directory that match `pattern` (see [`crate::glob`]), or
    /// all names if `pattern` is empty.
    ListDir { path: &'a [u8], pattern: &'a [u8], flags: u32 },
    /// `full-attrs@longhaul`: chooses the pairs ([`crate::extended_attrs`]) that ATTRS will have from now on.
    FullAttrs { wanted: u32 },
    /// `data-ranges@longhaul`: asks for the ranges of an open file that hold data, from `offset` on.
    DataRanges { handle: &'a [u8], offset: u64 },
    /// `get-xattrs@longhaul`: asks for the extended attributes of the file at `path`; follows symlinks.
    GetXattrs { path: &'a [u8], wanted: u32 },
    /// `set-xattrs@longhaul`: sets the attributes of the kinds `wanted` to exactly `xattrs`
    /// ([`crate::extended_attrs::write_xattrs`]). Does not follow a symlink at `path`.
    SetXattrs { path: &'a [u8], wanted: u32, xattrs: &'a [u8] },
    /// Any other EXTENDED request. `fields` are the bytes after the name.
    Extended { name: &'a [u8], fields: &'a [u8] },
}

impl<'a> Request<'a> {
    /// Returns the type byte.
    pub const fn packet_type(&self) -> PacketType {
        match self {
            Self::Open { .. } => PacketType::OPEN,
            Self::Close { .. } => PacketType::CLOSE,
            Self::Read { .. } => PacketType::READ,
            Self::Write { .. } => PacketType::WRITE,
            Self::Lstat { .. } => PacketType::LSTAT,
            Self::Fstat { .. } => PacketType::FSTAT,
            Self::Setstat { .. } => PacketType::SETSTAT,
            Self::Fsetstat { .. } => PacketType::FSETSTAT,
            Self::Opendir { .. } => PacketType::OPENDIR,
            Self::Readdir { .. } => PacketType::READDIR,
            Self::Remove { .. } => PacketType::REMOVE,
            Self::Mkdir { .. } => PacketType::MKDIR,
            Self::Rmdir { .. } => PacketType::RMDIR,
            Self::Realpath { .. } => PacketType::REALPATH,
            Self::Stat { .. } => PacketType::STAT,
            Self::Rename { .. } => PacketType::RENAME,
            Self::Readlink { .. } => PacketType::READLINK,
            Self::Symlink { .. } => PacketType::SYMLINK,
            _ => PacketType::EXTENDED,
        }
    }

    /// Returns the name of the extension that this request belongs to.
    pub fn extension_name(&self) -> Option<&[u8]> {
        let name = match self {
            Self::PosixRename { .. } => extension::POSIX_RENAME,
            Self::Statvfs { .. } => extension::STATVFS,
            Self::Fstatvfs { .. } => extension::FSTATVFS,
            Self::Hardlink { .. } => extension::HARDLINK,
            Self::Fsync { .. } => extension::FSYNC,
            Self::Lsetstat { .. } => extension::LSETSTAT,
            Self::Limits => extension::LIMITS,
            Self::ExpandPath { .. } => extension::EXPAND_PATH,
            Self::CopyData { .. } => extension::COPY_DATA,
            Self::HomeDirectory { .. } => extension::HOME_DIRECTORY,
            Self::UsersGroupsById { .. } => extension::USERS_GROUPS_BY_ID,
            Self::CheckFile { .. } => extension::CHECK_FILE,
            Self::CheckFileHandle { .. } => extension::CHECK_FILE_HANDLE,
            Self::CheckFileName { .. } => extension::CHECK_FILE_NAME,
            Self::RunningSum { .. } => extension::RUNNING_SUM,
            Self::PutFiles { .. } => extension::PUT_FILES,
            Self::GetFiles { .. } => extension::GET_FILES,
            Self::ListDir { .. } => extension::LIST_DIR,
            Self::FullAttrs { .. } => extension::FULL_ATTRS,
            Self::DataRanges { .. } => extension::DATA_RANGES,
            Self::GetXattrs { .. } => extension::GET_XATTRS,
            Self::SetXattrs { .. } => extension::SET_XATTRS,
            Self::Extended { name, .. } => return Some(name),
            _ => return None,
        };
        Some(name.as_bytes())
    }

    /// Appends the whole message: length, type, `id`, fields.
    pub fn encode(&self, id: u32, out: &mut Vec<u8>) {
        out.nested(|out| {
            out.put_u8(self.packet_type().0);
            out.put_u32(id);
            if let Some(name) = self.extension_name() {
                out.put_string(name);
            }
            self.encode_fields(out);
        });
    }

    fn encode_fields(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Open { path, flags, attrs } => {
                out.put_string(path);
                out.put_u32(flags.0);
                attrs.write(out);
            }
            Self::Read { handle, offset, len } => {
                out.put_string(handle);
                out.put_u64(offset);
                out.put_u32(len);
            }
            Self::Write { handle, offset, data } => {
                out.put_string(handle);
                out.put_u64(offset);
                out.put_string(data);
            }
            Self::Close { handle: name }
            | Self::Fstat { handle: name }
            | Self::Readdir { handle: name }
            | Self::Fstatvfs { handle: name }
            | Self::Fsync { handle: name }
            | Self::Lstat { path: name }
            | Self::Opendir { path: name }
            | Self::Remove { path: name }
            | Self::Rmdir { path: name }
            | Self::Realpath { path: name }
            | Self::Stat { path: name }
            | Self::Readlink { path: name }
            | Self::Statvfs { path: name }
            | Self::ExpandPath { path: name }
            | Self::HomeDirectory { user: name } => out.put_string(name),
            Self::Setstat { path: name, attrs }
            | Self::Lsetstat { path: name, attrs }
            | Self::Mkdir { path: name, attrs }
            | Self::Fsetstat { handle: name, attrs } => {
                out.put_string(name);
                attrs.write(out);
            }
            Self::Rename { old: first, new: second }
            | Self::PosixRename { old: first, new: second }
            | Self::Hardlink { old: first, new: second }
            | Self::Symlink { target: first, link: second }
            | Self::UsersGroupsById { users: first, groups: second } => {
                out.put_string(first);
                out.put_string(second);
            }
            Self::CopyData { from, from_offset, len, to, to_offset } => {
                out.put_string(from);
                out.put_u64(from_offset);
                out.put_u64(len);
                out.put_string(to);
                out.put_u64(to_offset);
            }
            Self::CheckFile { handle: name, algorithms, offset, len, block }
            | Self::CheckFileHandle { handle: name, algorithms, offset, len, block }
            | Self::CheckFileName { path: name, algorithms, offset, len, block } => {
                out.put_string(name);
                out.put_string(algorithms);
                out.put_u64(offset);
                out.put_u64(len);
                out.put_u32(block);
            }
            Self::RunningSum { handle, step } => {
                out.put_string(handle);
                out.put_u8(step.number());
            }
            Self::PutFiles { flags, count, files } | Self::GetFiles { flags, count, files } => {
                out.put_u32(flags);
                out.put_u32(count);
                out.put_bytes(files);
            }
            Self::ListDir { path, pattern, flags } => {
                out.put_string(path);
                out.put_string(pattern);
                out.put_u32(flags);
            }
            Self::FullAttrs { wanted } => out.put_u32(wanted),
            Self::DataRanges { handle, offset } => {
                out.put_string(handle);
                out.put_u64(offset);
            }
            Self::GetXattrs { path, wanted } => {
                out.put_string(path);
                out.put_u32(wanted);
            }
            Self::SetXattrs { path, wanted, xattrs } => {
                out.put_string(path);
                out.put_u32(wanted);
                out.put_bytes(xattrs);
            }
            Self::Limits => {}
            Self::Extended { fields, .. } => out.put_bytes(fields),
        }
    }

    /// Reads a message without its length field. The error has the id even if other fields are malformed, so
    /// that the request can be answered with BAD_MESSAGE.
    ///
    /// Bytes after the last field are ignored, as OpenSSH does: some clients send them.
    pub fn decode(message: &'a [u8]) -> Result<(u32, Self), BadRequest> {
        let mut reader = Reader::new(message);
        let (Ok(kind), Ok(id)) = (reader.u8(), reader.u32()) else {
            return Err(BadRequest { id: None, kind: BadRequestKind::Malformed });
        };
        match Self::decode_fields(PacketType(kind), &mut reader) {
            Ok(Some(request)) => Ok((id, request)),
            Ok(None) => Err(BadRequest { id: Some(id), kind: BadRequestKind::UnknownType(PacketType(kind)) }),
            Err(_) => Err(BadRequest { id: Some(id), kind: BadRequestKind::Malformed }),
        }
    }

    fn decode_fields(kind: PacketType, r: &mut Reader<'a>) -> Result<Option<Self>, WireError> {
        Ok(Some(match kind {
            PacketType::OPEN => {
                Self::Open { path: r.string()?, flags: OpenFlags(r.u32()?), attrs: Attrs::read(r)? }
            }
            PacketType::CLOSE => Self::Close { handle: r.string()? },
            PacketType::READ => Self::Read { handle: r.string()?, offset: r.u64()?, len: r.u32()? },
            PacketType::WRITE => Self::Write { handle: r.string()?, offset: r.u64()?, data: r.string()? },
            PacketType::LSTAT => Self::Lstat { path: r.string()? },
            PacketType::FSTAT => Self::Fstat { handle: r.string()? },
            PacketType::SETSTAT => Self::Setstat { path: r.string()?, attrs: Attrs::read(r)? },
            PacketType::FSETSTAT => Self::Fsetstat { handle: r.string()?, attrs: Attrs::read(r)? },
            PacketType::OPENDIR => Self::Opendir { path: r.string()? },
            PacketType::READDIR => Self::Readdir { handle: r.string()? },
            PacketType::REMOVE => Self::Remove { path: r.string()? },
            PacketType::MKDIR => Self::Mkdir { path: r.string()?, attrs: Attrs::read(r)? },
            PacketType::RMDIR => Self::Rmdir { path: r.string()? },
            PacketType::REALPATH => Self::Realpath { path: r.string()? },
            PacketType::STAT => Self::Stat { path: r.string()? },
            PacketType::RENAME => Self::Rename { old: r.string()?, new: r.string()? },
            PacketType::READLINK => Self::Readlink { path: r.string()? },
            PacketType::SYMLINK => Self::Symlink { target: r.string()?, link: r.string()? },
            PacketType::EXTENDED => Self::decode_extended(r)?,
            _ => return Ok(None),
        }))
    }

    fn decode_extended(r: &mut Reader<'a>) -> Result<Self, WireError> {
        let name = r.string()?;
        Ok(match core::str::from_utf8(name).unwrap_or_default() {
            extension::POSIX_RENAME => Self::PosixRename { old: r.string()?, new: r.string()? },
            extension::STATVFS => Self::Statvfs { path: r.string()? },
            extension::FSTATVFS => Self::Fstatvfs { handle: r.string()? },
            extension::HARDLINK => Self::Hardlink { old: r.string()?, new: r.string()? },
            extension::FSYNC => Self::Fsync { handle: r.string()? },
            extension::LSETSTAT => Self::Lsetstat { path: r.string()?, attrs: Attrs::read(r)? },
            extension::LIMITS => Self::Limits,
            extension::EXPAND_PATH => Self::ExpandPath { path: r.string()? },
            extension::COPY_DATA => Self::CopyData {
                from: r.string()?,
                from_offset: r.u64()?,
                len: r.u64()?,
                to: r.string()?,
                to_offset: r.u64()?,
            },
            extension::HOME_DIRECTORY => Self::HomeDirectory { user: r.string()? },
            extension::USERS_GROUPS_BY_ID => {
                Self::UsersGroupsById { users: r.string()?, groups: r.string()? }
            }
            extension::CHECK_FILE => Self::CheckFile {
                handle: r.string()?,
                algorithms: r.string()?,
                offset: r.u64()?,
                len: r.u64()?,
                block: r.u32()?,
            },
            extension::CHECK_FILE_HANDLE => Self::CheckFileHandle {
                handle: r.string()?,
                algorithms: r.string()?,
                offset: r.u64()?,
                len: r.u64()?,
                block: r.u32()?,
            },
            extension::CHECK_FILE_NAME => Self::CheckFileName {
                path: r.string()?,
                algorithms: r.string()?,
                offset: r.u64()?,
                len: r.u64()?,
                block: r.u32()?,
            },
            extension::RUNNING_SUM => {
                Self::RunningSum { handle: r.string()?, step: SumStep::from_number(r.u8()?)? }
            }
            extension::PUT_FILES => Self::PutFiles { flags: r.u32()?, count: r.u32()?, files: r.rest() },
            extension::GET_FILES => Self::GetFiles { flags: r.u32()?, count: r.u32()?, files: r.rest() },
            extension::LIST_DIR => Self::ListDir { path: r.string()?, pattern: r.string()?, flags: r.u32()? },
            extension::FULL_ATTRS => Self::FullAttrs { wanted: r.u32()? },
            extension::DATA_RANGES => Self::DataRanges { handle: r.string()?, offset: r.u64()? },
            extension::GET_XATTRS => Self::GetXattrs { path: r.string()?, wanted: r.u32()? },
            extension::SET_XATTRS => {
                Self::SetXattrs { path: r.string()?, wanted: r.u32()?, xattrs: r.rest() }
            }
            _ => Self::Extended { name, fields: r.rest() },
        })
    }
}

/// The error of a message that is not a valid request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadRequest {
    /// The id for the reply, if the message has one.
    pub id: Option<u32>,
    /// Kind of the error.
    pub kind: BadRequestKind,
}

/// Kind of a [`BadRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRequestKind {
    /// The draft has no request with this number. The answer is OP_UNSUPPORTED.
    UnknownType(PacketType),
    /// A field is missing or runs over the end. The answer is BAD_MESSAGE.
    Malformed,
}
