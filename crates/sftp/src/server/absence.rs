//! Part files of a session that waits for its client, which may resume it over another connection.
//!
//! The client may also have been killed, and its copy may have been started again. So a waiting session keeps
//! no part file from another session: it has no locks on them. When it resumes, it locks them again, except
//! those that another session has continued. These files fail from then on, because they may have their final
//! names already.

use std::io::{self, IoSlice, IoSliceMut};

use lh_wire::LogLevel;

use super::state::Server;
use super::upload_check::is_part;
use super::written::is_same;
use crate::fs::{File, FileSystem};
use crate::refusal::refused;
use crate::{Attrs, StatVfs};

/// Text of the answer to requests for a part file that another session has continued.
const TAKEN: &str = "another session has continued the file";

impl Server {
    /// Gives up the locks of part files, because the session has lost its client. While uploads are checked,
    /// requests may be served only after [`on_client_back`](Self::on_client_back).
    pub fn on_client_away(&mut self) {
        self.handles.files().for_each(|open| open.file.unlock());
    }

    /// Takes part files again, because the client has come back.
    pub fn on_client_back(&mut self) {
        for open in self.handles.files().filter(|open| open.is_writer() && is_part(&open.event.path)) {
            if take_again(&mut *self.fs, &mut *open.file, &open.event.path).is_err() {
                let path = super::log::Shown(&open.event.path);
                self.log.line(LogLevel::Info, format_args!("\"{path}\": {TAKEN}"));
                open.file = Box::new(Taken);
            }
        }
    }
}

/// Locks a part file again. Fails if its name refers to another file. One that looks alike is another one:
/// this file may have been published meanwhile, and a check of uploads must not be followed by a change.
fn take_again(fs: &mut dyn FileSystem, file: &mut dyn File, path: &[u8]) -> io::Result<()> {
    file.lock_again()?;
    if is_same(&file.attrs()?, &fs.attrs(path, false)?) { Ok(()) } else { Err(refused(TAKEN)) }
}

/// A file that another session has continued.
struct Taken;

impl File for Taken {
    fn read_at(&mut self, _: u64, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Err(refused(TAKEN))
    }

    fn write_at(&mut self, _: u64, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(refused(TAKEN))
    }

    fn attrs(&mut self) -> io::Result<Attrs> {
        Err(refused(TAKEN))
    }

    fn set_attrs(&mut self, _: &Attrs) -> io::Result<()> {
        Err(refused(TAKEN))
    }

    fn sync(&mut self) -> io::Result<()> {
        Err(refused(TAKEN))
    }

    fn statvfs(&mut self) -> io::Result<StatVfs> {
        Err(refused(TAKEN))
    }

    fn identity(&mut self) -> io::Result<(u64, u64)> {
        Err(refused(TAKEN))
    }

    fn copy_to(&mut self, _: u64, _: &mut dyn File, _: u64, _: usize) -> io::Result<usize> {
        Err(refused(TAKEN))
    }
}
