//! Records of requests that change something or are denied, for logs of users' actions.

use std::io;

use lh_wire::Reader;

use super::handles::Open;
use super::log::Operation;
use super::requests::RequestInfo;
use super::state::Server;
use crate::batch::{GetFile, MAX_FILES, PutFile};
use crate::fs::status_of;
use crate::{Attrs, OpenFlags, Request, StatusCode, batched_extended_attrs};

impl Server {
    /// Answers a request that changes names or attributes, and records it.
    pub(super) fn reply_change(&mut self, id: u32, operation: Operation<'_>, outcome: &io::Result<()>) {
        let status = outcome.as_ref().map_or_else(status_of, |()| StatusCode::OK);
        self.log.sink.operation(&Operation { status, ..operation });
        self.reply_outcome(id, outcome);
        self.replies.denied = false;
    }

    /// Records a denied request. `by_rule`: the administrator's lists of requests or the read-only mode
    /// denied it, before it was served. If the file system denies an OPEN, that is recorded elsewhere.
    pub(super) fn log_denied(&mut self, info: &'static RequestInfo, request: &Request<'_>, by_rule: bool) {
        let about =
            |path| Operation { status: StatusCode::PERMISSION_DENIED, ..Operation::new(info.name, path) };
        let operation = match *request {
            Request::Open { path, flags, .. } => {
                if by_rule {
                    self.log.sink.file_refused(path, flags, StatusCode::PERMISSION_DENIED);
                }
                return;
            }
            Request::PutFiles { flags, count, files } => {
                let has_xattrs = batched_extended_attrs::put_kinds(flags) != 0;
                return self.log_denied_files(OpenFlags::WRITE | OpenFlags::CREAT, files, count, |reader| {
                    let path = PutFile::read(reader)?.path;
                    if has_xattrs {
                        reader.string()?;
                    }
                    Ok(path)
                });
            }
            Request::GetFiles { count, files, .. } => {
                return self.log_denied_files(OpenFlags::READ, files, count, |reader| {
                    GetFile::read(reader).map(|file| file.path)
                });
            }
            Request::Lstat { path }
            | Request::Stat { path }
            | Request::Opendir { path }
            | Request::Readlink { path }
            | Request::Realpath { path }
            | Request::Statvfs { path }
            | Request::ExpandPath { path }
            | Request::CheckFileName { path, .. }
            | Request::ListDir { path, .. }
            | Request::GetXattrs { path, .. }
            | Request::SetXattrs { path, .. }
            | Request::Remove { path }
            | Request::Rmdir { path } => about(path),
            Request::Mkdir { path, attrs } => {
                about(path).setting(Attrs { permissions: attrs.permissions, ..Attrs::NONE })
            }
            Request::Setstat { path, attrs } | Request::Lsetstat { path, attrs } => {
                about(path).setting(attrs)
            }
            Request::Rename { old, new }
            | Request::PosixRename { old, new }
            | Request::Hardlink { old, new } => about(old).and(new),
            Request::Symlink { target, link } => {
                let (target, link) = self.client.links.order().sort(target, link);
                about(link).and(target)
            }
            Request::Fsetstat { handle, .. }
            | Request::CopyData { to: handle, .. }
            | Request::Readdir { handle }
            | Request::Fsync { handle }
            | Request::CheckFile { handle, .. }
            | Request::CheckFileHandle { handle, .. }
            | Request::DataRanges { handle, .. }
            | Request::RunningSum { handle, .. } => {
                let path = match self.handles.get(handle) {
                    Some(Open::File(open)) => open.event.path.clone(),
                    Some(Open::Dir(open)) => open.path.clone(),
                    None => return,
                };
                return self.log.sink.operation(&about(&path));
            }
            _ => return,
        };
        self.log.sink.operation(&operation);
    }

    /// Records the files of a denied request about many, up to the first that cannot be read.
    fn log_denied_files<'a>(
        &mut self,
        flags: OpenFlags,
        files: &'a [u8],
        count: u32,
        mut path: impl FnMut(&mut Reader<'a>) -> lh_wire::Result<&'a [u8]>,
    ) {
        let mut reader = Reader::new(files);
        for _ in (0..count).take(MAX_FILES) {
            let Ok(path) = path(&mut reader) else { return };
            self.log.sink.file_refused(path, flags, StatusCode::PERMISSION_DENIED);
        }
    }
}
