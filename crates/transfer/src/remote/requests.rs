//! The request for each operation.

use lh_sftp::extended_attrs;
use lh_sftp::{Attrs, Handle as RemoteHandle, OpenFlags, Request, Session, SumStep, extension};

use crate::answers::Shape;
use crate::end::{AsFound, DIGEST_BLOCK, Done, Fault, Handle, Op, Outcome};
use crate::to_open::{OpenRequest, Opening};

/// How an operation becomes requests.
#[allow(clippy::large_enum_variant, reason = "it is returned once and taken apart at once")]
#[derive(Debug)]
pub(super) enum Asked<'a> {
    Request(Request<'a>, Shape),
    /// Without a request: the server has none for this.
    Known(Outcome),
}

/// The server returns and takes times as they are.
pub(super) fn has_full_attrs(session: &Session) -> bool {
    session.supports(extension::FULL_ATTRS)
}

/// The request for `op`, of which parts may be written to `encoded`. `first_flight`: what the server supports
/// is not known yet, and it supports what a Longhaul server does. `None` for a handle of another end.
pub(super) fn request_of<'a>(
    op: &'a Op<'_>,
    session: &Session,
    first_flight: bool,
    encoded: &'a mut Vec<u8>,
) -> Option<Asked<'a>> {
    let mut shape = if is_answered_by_status(op) { Shape::Status } else { Shape::Plain };
    let request = match op {
        Op::Stat(path) => Request::Stat { path },
        Op::OpenRead(_)
        | Op::OpenWrite { .. }
        | Op::OpenContinued { .. }
        | Op::OpenWriteOnly { .. }
        | Op::OpenEmptied { .. }
        | Op::OpenExisting(_)
        | Op::OpenPart { .. } => {
            let (path, flags, attrs) = open_of(op)?;
            Request::Open { path, flags, attrs }
        }
        Op::Lstat(path) => Request::Lstat { path },
        Op::Fstat(handle) => Request::Fstat { handle: remote(handle)? },
        Op::Rename { old, new } if session.supports(extension::POSIX_RENAME) => {
            Request::PosixRename { old, new }
        }
        Op::Rename { old, new } | Op::RenameNew { old, new } => Request::Rename { old, new },
        Op::Remove(path) => Request::Remove { path },
        Op::RemoveDir(path) => Request::Rmdir { path },
        Op::Digests { handle, offset, len } => Request::CheckFileHandle {
            handle: remote(handle)?,
            algorithms: b"sha256",
            offset: *offset,
            len: *len,
            block: DIGEST_BLOCK,
        },
        Op::Peek { handle, offset, len } => {
            Request::Read { handle: remote(handle)?, offset: *offset, len: *len }
        }
        Op::BeginSum(handle, read_back) => {
            Request::RunningSum { handle: remote(handle)?, step: SumStep::Begin(*read_back) }
        }
        Op::EndSum(handle) => Request::RunningSum { handle: remote(handle)?, step: SumStep::Finish },
        Op::Mkdir { path, mode } => Request::Mkdir { path, attrs: Attrs::with_permissions(*mode) },
        Op::List { path, pattern } if first_flight || session.supports(extension::LIST_DIR) => {
            shape = Shape::Listing;
            Request::ListDir { path, pattern, flags: 0 }
        }
        Op::List { path, .. } | Op::ListPlain(path) => Request::Opendir { path },
        Op::ListMore(handle) => Request::Readdir { handle: remote(handle)? },
        Op::SetPath { path, change } => {
            Request::Setstat { path, attrs: change.to_attrs(has_full_attrs(session)) }
        }
        Op::SetHandle { handle, change } => {
            Request::Fsetstat { handle: remote(handle)?, attrs: change.to_attrs(has_full_attrs(session)) }
        }
        Op::SetLink { path, change } => {
            if !session.supports(extension::LSETSTAT) {
                return Some(Asked::Known(Ok(Done::Ok)));
            }
            Request::Lsetstat { path, attrs: change.to_attrs(has_full_attrs(session)) }
        }
        Op::ReadLink(path) => Request::Readlink { path },
        Op::Symlink { to, link, order } => order.request(to, link),
        Op::Link { old, new } => Request::Hardlink { old, new },
        Op::Ranges { handle, offset } => {
            shape = Shape::Ranges;
            Request::DataRanges { handle: remote(handle)?, offset: *offset }
        }
        Op::Xattrs { path, wanted } => {
            shape = Shape::Xattrs;
            Request::GetXattrs { path, wanted: *wanted }
        }
        Op::SetXattrs { path, wanted, xattrs } => {
            extended_attrs::write_xattrs(xattrs, encoded);
            Request::SetXattrs { path, wanted: *wanted, xattrs: encoded }
        }
        Op::FullAttrs { wanted } => Request::FullAttrs { wanted: *wanted },
        Op::Sync(handle) => {
            if !session.supports(extension::FSYNC) {
                return Some(Asked::Known(Ok(Done::Ok)));
            }
            Request::Fsync { handle: remote(handle)? }
        }
        Op::PutFiles { flags, count, files } => {
            shape = Shape::Put;
            Request::PutFiles { flags: *flags, count: *count, files }
        }
        Op::GetFiles { kinds, count, files } => {
            shape = if *kinds == 0 { Shape::Got } else { Shape::GotKept };
            Request::GetFiles { flags: *kinds, count: *count, files }
        }
        Op::Close(handle) => Request::Close { handle: remote(handle)? },
        Op::RealPath(path) => Request::Realpath { path },
        Op::ExpandPath(path) => {
            if !session.supports(extension::EXPAND_PATH) {
                return Some(Asked::Known(Err(Fault::other(
                    "server expand-path extension is required for ~user paths in SFTP mode",
                ))));
            }
            Request::ExpandPath { path }
        }
    };
    Some(Asked::Request(request, shape))
}

/// Returns true where nothing but a STATUS is an answer.
const fn is_answered_by_status(op: &Op<'_>) -> bool {
    matches!(
        op,
        Op::Rename { .. }
            | Op::RenameNew { .. }
            | Op::Remove(_)
            | Op::RemoveDir(_)
            | Op::Mkdir { .. }
            | Op::SetPath { .. }
            | Op::SetHandle { .. }
            | Op::SetLink { .. }
            | Op::Symlink { .. }
            | Op::Link { .. }
            | Op::SetXattrs { .. }
            | Op::Sync(_)
            | Op::Close(_)
    )
}

/// Returns path, flags and attributes of an OPEN.
fn open_of<'a>(op: &Op<'a>) -> Option<(&'a [u8], OpenFlags, Attrs)> {
    // Without READ some servers (Erlang/OTP's) truncate the existing file.
    let both = OpenFlags::READ | OpenFlags::WRITE;
    Some(match *op {
        Op::OpenRead(path) => (path, OpenFlags::READ, Attrs::NONE),
        Op::OpenWrite { path, mode } => {
            (path, both | OpenFlags::CREAT, Attrs::with_permissions(mode & 0o777))
        }
        Op::OpenWriteOnly { path, mode } => {
            (path, OpenFlags::WRITE | OpenFlags::CREAT, Attrs::with_permissions(mode & 0o777))
        }
        Op::OpenEmptied { path, mode } => {
            // With READ the same servers do not cut, even where TRUNC is set.
            let flags = OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::TRUNC;
            (path, flags, Attrs::with_permissions(mode & 0o777))
        }
        Op::OpenExisting(path) => (path, both, Attrs::NONE),
        Op::OpenPart { path, mode, as_found } => {
            let found = match as_found {
                AsFound::Fresh => OpenFlags::EXCL,
                AsFound::Empty => OpenFlags::TRUNC,
                AsFound::Kept => OpenFlags::default(),
                AsFound::Adopted => return Some((path, both, Attrs::NONE)),
            };
            (path, both | OpenFlags::CREAT | found, Attrs::with_permissions(mode & 0o777))
        }
        _ => return None,
    })
}

/// Returns the object that `op` opens, and the form of the reply.
pub(super) fn opening_of(op: &Op<'_>, session: &Session) -> Option<(Opening, Shape)> {
    Some(match *op {
        Op::List { path, pattern } if session.supports(extension::LIST_DIR) => {
            let how = OpenRequest::Listing(pattern.to_vec());
            (Opening { path: path.to_vec(), how, refused_at: None }, Shape::Listing)
        }
        Op::List { path, .. } | Op::ListPlain(path) => {
            (Opening { path: path.to_vec(), how: OpenRequest::Dir, refused_at: None }, Shape::Plain)
        }
        _ => {
            let (path, flags, attrs) = open_of(op)?;
            let how = OpenRequest::File(flags, attrs);
            (Opening { path: path.to_vec(), how, refused_at: None }, Shape::Plain)
        }
    })
}

/// The handle of a remote end.
pub(super) fn remote(handle: &Handle) -> Option<&RemoteHandle> {
    match handle {
        Handle::Remote(handle, _) => Some(handle),
        Handle::Local(_) | Handle::LocalDir(_) => None,
    }
}
