//! All requests except READ and WRITE.

use std::io;

use lh_wire::{LogLevel, Writer};

use super::handles::Open;
use super::jobs::Checked;
use super::log::{Operation, Shown};
use super::state::Server;
use super::upload_check::outcome_of;
use super::uploads::Links;
use crate::protocol::{MAX_DATA, MAX_MESSAGE};
use crate::{Attrs, Limits, OpenFlags, Request, StatVfs, StatusCode};

impl Server {
    pub(super) fn serve_request(&mut self, id: u32, request: &Request<'_>) {
        match *request {
            Request::Open { path, flags, attrs } => self.serve_open(id, path, flags, &attrs),
            Request::Close { handle } => self.serve_close(id, handle),
            // The engine passes READ and WRITE to `data`.
            Request::Read { .. } | Request::Write { .. } => self.reply_status(id, StatusCode::BAD_MESSAGE),
            Request::Lstat { path } => self.serve_stat(id, "lstat", path, false),
            Request::Stat { path } => self.serve_stat(id, "stat", path, true),
            Request::Fstat { handle } => {
                let attrs = match self.handles.get(handle) {
                    Some(Open::File(open)) => open.file.attrs(),
                    Some(Open::Dir(open)) => open.dir.attrs(),
                    None => return self.reply_bad_handle(id),
                };
                self.reply_attrs(id, attrs);
            }
            Request::Setstat { path, attrs } => self.serve_setstat(id, path, &attrs, true),
            Request::Lsetstat { path, attrs } => self.serve_setstat(id, path, &attrs, false),
            Request::Fsetstat { handle, attrs } => self.serve_fsetstat(id, handle, &attrs),
            Request::Opendir { path } => self.serve_opendir(id, path),
            Request::Readdir { handle } => self.serve_readdir(id, handle),
            Request::Remove { path } => {
                self.log.line(LogLevel::Info, format_args!("remove name \"{}\"", Shown(path)));
                let outcome = self.fs.remove_file(path);
                if outcome.is_ok() {
                    self.log.sink.removed(path);
                }
                self.name_changed(&outcome, path);
                self.reply_change(id, Operation::new("remove", path), &outcome);
            }
            Request::Mkdir { path, attrs } => {
                let permissions = attrs.permissions.map_or(0o777, |bits| bits & 0o7777);
                self.log.line(
                    LogLevel::Info,
                    format_args!("mkdir name \"{}\" mode 0{permissions:o}", Shown(path)),
                );
                let outcome = self.fs.make_dir(path, permissions);
                self.name_changed(&outcome, path);
                let made_with = Attrs { permissions: Some(permissions), ..Attrs::NONE };
                self.reply_change(id, Operation::new("mkdir", path).setting(made_with), &outcome);
            }
            Request::Rmdir { path } => {
                self.log.line(LogLevel::Info, format_args!("rmdir name \"{}\"", Shown(path)));
                let outcome = self.fs.remove_dir(path);
                self.name_changed(&outcome, path);
                self.reply_change(id, Operation::new("rmdir", path), &outcome);
            }
            Request::Realpath { path } => {
                self.log.line(LogLevel::Verbose, format_args!("realpath \"{}\"", Shown(path)));
                self.serve_realpath(id, path);
            }
            Request::Rename { old, new } => {
                self.log.two("rename old", old, "new", new);
                let outcome = self.rename_written(old, new, false);
                if outcome.is_ok() {
                    self.log.sink.renamed(old, new);
                }
                self.reply_change(id, Operation::new("rename", old).and(new), &outcome);
            }
            Request::PosixRename { old, new } => {
                self.log.two("posix-rename old", old, "new", new);
                let outcome = self.rename_written(old, new, true);
                if outcome.is_ok() {
                    self.log.sink.renamed(old, new);
                }
                self.reply_change(id, Operation::new("posix-rename", old).and(new), &outcome);
            }
            Request::Readlink { path } => {
                self.log.line(LogLevel::Verbose, format_args!("readlink \"{}\"", Shown(path)));
                let target = self.fs.read_link(path);
                self.reply_path(id, target);
            }
            Request::Symlink { target, link } => self.serve_symlink(id, target, link),
            Request::Hardlink { old, new } => {
                self.log.two("hardlink old", old, "new", new);
                let outcome = self.hard_link_checked(old, new);
                self.name_changed(&outcome, new);
                if outcome.is_ok() {
                    self.note_hard_link(old, new);
                }
                self.reply_change(id, Operation::new("hardlink", old).and(new), &outcome);
            }
            Request::Statvfs { path } => {
                self.log.line(LogLevel::Info, format_args!("statvfs \"{}\"", Shown(path)));
                let stat = self.fs.statvfs(path);
                self.reply_statvfs(id, stat);
            }
            Request::Fstatvfs { handle } => {
                let stat = match self.handles.get(handle) {
                    Some(Open::File(open)) => open.file.statvfs(),
                    Some(Open::Dir(open)) => open.dir.statvfs(),
                    None => return self.reply_bad_handle(id),
                };
                self.reply_statvfs(id, stat);
            }
            Request::Fsync { handle } => {
                let outcome = match self.handles.get(handle) {
                    Some(Open::File(open)) => open.file.sync(),
                    Some(Open::Dir(open)) => open.dir.sync(),
                    None => return self.reply_text(id, StatusCode::NO_SUCH_FILE, "Invalid handle"),
                };
                self.reply_outcome(id, &outcome);
            }
            Request::Limits => {
                let limits = Limits {
                    max_packet: MAX_MESSAGE as u64,
                    max_read: MAX_DATA as u64,
                    max_write: MAX_DATA as u64,
                    max_handles: self.max_handles(),
                };
                self.reply().extended(id, |out| limits.write(out));
            }
            Request::ExpandPath { path } => self.serve_expand_path(id, path),
            Request::CopyData { from, from_offset, len, to, to_offset } => {
                self.start_copy(id, from, from_offset, len, to, to_offset);
            }
            Request::HomeDirectory { user } => match self.lookup.home(user) {
                Some(home) => self.reply().path(id, &home),
                None => self.reply_text(id, StatusCode::FAILURE, "No such user"),
            },
            Request::UsersGroupsById { users, groups } => self.serve_names_of_ids(id, users, groups),
            Request::CheckFile { handle, algorithms, offset, len, block }
            | Request::CheckFileHandle { handle, algorithms, offset, len, block } => {
                self.start_check(id, Checked::Handle(handle.to_vec()), algorithms, offset, len, block);
            }
            Request::CheckFileName { path, algorithms, offset, len, block } => {
                self.log.line(LogLevel::Verbose, format_args!("check-file \"{}\"", Shown(path)));
                match self.fs.open(path, OpenFlags::READ, None) {
                    Ok(file) => {
                        self.start_check(id, Checked::File(file), algorithms, offset, len, block);
                    }
                    Err(error) => self.reply_error(id, &error),
                }
            }
            Request::RunningSum { handle, step } => self.serve_running_sum(id, handle, step),
            Request::PutFiles { flags, count, files } => self.serve_put_files(id, flags, count, files),
            Request::GetFiles { flags, count, files } => self.serve_get_files(id, flags, count, files),
            Request::ListDir { path, pattern, flags } => self.serve_list_dir(id, path, pattern, flags),
            Request::FullAttrs { wanted } => self.serve_full_attrs(id, wanted),
            Request::DataRanges { handle, offset } => self.serve_data_ranges(id, handle, offset),
            Request::GetXattrs { path, wanted } => self.serve_get_xattrs(id, path, wanted),
            Request::SetXattrs { path, wanted, xattrs } => self.serve_set_xattrs(id, path, wanted, xattrs),
            Request::Extended { .. } => self.reply_status(id, StatusCode::OP_UNSUPPORTED),
        }
    }

    fn serve_open(&mut self, id: u32, path: &[u8], flags: OpenFlags, attrs: &Attrs) {
        let permissions = attrs.permissions.map_or(0o666, |bits| bits & 0o7777);
        self.log.open(path, flags, permissions);
        if self.options.read_only && flags.modifies() {
            self.log.line(LogLevel::Verbose, format_args!("refusing open request in read-only mode"));
            self.log.sink.file_refused(path, flags, StatusCode::PERMISSION_DENIED);
            return self.reply_status(id, StatusCode::PERMISSION_DENIED);
        }
        if !self.may_open(id) {
            return self.log.sink.file_refused(path, flags, StatusCode::FAILURE);
        }
        match self.open_file(path, flags, permissions, Links::Followed) {
            Ok(file) => {
                let handle = self.handles.insert(Open::File(file));
                self.reply().handle(id, &handle);
            }
            Err(error) => self.reply_error(id, &error),
        }
    }

    fn serve_close(&mut self, id: u32, handle: &[u8]) {
        match self.handles.remove(handle) {
            Some(Open::File(open)) if open.held.is_some() => {
                let (mut event, outcome) = self.publish(open);
                if let Err(error) = &outcome {
                    event.outcome = outcome_of(error);
                }
                if event.start == u64::MAX {
                    event.start = 0;
                }
                self.log.file_close(&event, "close");
                self.reply_outcome(id, &outcome);
            }
            Some(mut open) => {
                if let Open::File(file) = &mut open {
                    self.closed_parts.note_closed(file, &mut *self.fs);
                }
                self.log.close(&mut open, false);
                drop(open);
                self.reply_status(id, StatusCode::OK);
            }
            None => self.reply_text(id, StatusCode::NO_SUCH_FILE, "Invalid handle"),
        }
    }

    fn serve_stat(&mut self, id: u32, name: &str, path: &[u8], follow: bool) {
        self.log.line(LogLevel::Verbose, format_args!("{name} name \"{}\"", Shown(path)));
        let attrs = self.fs.attrs(path, follow);
        self.reply_attrs(id, attrs);
    }

    fn serve_setstat(&mut self, id: u32, path: &[u8], attrs: &Attrs, follow: bool) {
        if !follow && attrs.size.is_some() {
            // The size of a link cannot be set.
            return self.reply_status(id, StatusCode::BAD_MESSAGE);
        }
        self.log.set(path, attrs, &mut *self.lookup);
        let outcome = self.set_attrs_checked(path, attrs, follow);
        let request = if follow { "setstat" } else { "lsetstat" };
        self.reply_change(id, Operation::new(request, path).setting(*attrs), &outcome);
    }

    fn serve_fsetstat(&mut self, id: u32, handle: &[u8], attrs: &Attrs) {
        let (path, outcome) = match self.handles.get(handle) {
            Some(Open::File(open)) => (open.event.path.clone(), open.file.set_attrs(attrs)),
            Some(Open::Dir(open)) => (open.path.clone(), open.dir.set_attrs(attrs)),
            None => return self.reply_bad_handle(id),
        };
        self.log.set(&path, attrs, &mut *self.lookup);
        self.reply_change(id, Operation::new("fsetstat", &path).setting(*attrs), &outcome);
    }

    fn serve_realpath(&mut self, id: u32, path: &[u8]) {
        let resolved = self.fs.real_path(if path.is_empty() { b"." } else { path });
        self.reply_path(id, resolved);
    }

    /// Serves `expand-path@openssh.com`. `~user` at the start means that user's home directory. `~` alone
    /// means the start directory, as in sftp-server: inside a chroot the user's home may not exist. The rest
    /// is done as REALPATH.
    fn serve_expand_path(&mut self, id: u32, path: &[u8]) {
        self.log.line(LogLevel::Verbose, format_args!("expand-path \"{}\"", Shown(path)));
        let [b'~', behind @ ..] = path else {
            return self.serve_realpath(id, path);
        };
        let end = behind.iter().position(|&byte| byte == b'/').unwrap_or(behind.len());
        let (user, rest) = behind.split_at(end);
        if user.is_empty() {
            return self.serve_realpath(id, rest.strip_prefix(b"/").unwrap_or(rest));
        }
        match self.lookup.home(user) {
            Some(mut home) => {
                home.extend_from_slice(rest);
                self.serve_realpath(id, &home);
            }
            None => self.reply_text(id, StatusCode::NO_SUCH_FILE, "no such user"),
        }
    }

    /// Serves `users-groups-by-id@openssh.com`. The name of an unknown id is an empty string.
    fn serve_names_of_ids(&mut self, id: u32, users: &[u8], groups: &[u8]) {
        let ((uids, []), (gids, [])) = (users.as_chunks::<4>(), groups.as_chunks::<4>()) else {
            return self.reply_status(id, StatusCode::BAD_MESSAGE);
        };
        let (mut user_names, mut group_names) = (Vec::new(), Vec::new());
        for uid in uids {
            let name = self.names.user(u32::from_be_bytes(*uid), &mut *self.lookup);
            user_names.put_string(name.unwrap_or_default().as_bytes());
        }
        for gid in gids {
            let name = self.names.group(u32::from_be_bytes(*gid), &mut *self.lookup);
            group_names.put_string(name.unwrap_or_default().as_bytes());
        }
        // Names are longer than ids, so the answer may be too long for a message.
        if user_names.len() + group_names.len() > MAX_DATA {
            return self.reply_text(id, StatusCode::FAILURE, "Too many ids in one request");
        }
        self.reply().extended(id, |out| {
            out.put_string(&user_names);
            out.put_string(&group_names);
        });
    }

    fn reply_attrs(&mut self, id: u32, attrs: io::Result<Attrs>) {
        match attrs {
            Ok(attrs) => {
                let attrs = attrs.told(self.client.wanted);
                self.reply().attrs(id, &attrs);
            }
            Err(error) => self.reply_error(id, &error),
        }
    }

    fn reply_path(&mut self, id: u32, path: io::Result<Vec<u8>>) {
        match path {
            Ok(path) => self.reply().path(id, &path),
            Err(error) => self.reply_error(id, &error),
        }
    }

    fn reply_statvfs(&mut self, id: u32, stat: io::Result<StatVfs>) {
        match stat {
            Ok(stat) => self.reply().extended(id, |out| stat.write(out)),
            Err(error) => self.reply_error(id, &error),
        }
    }
}
