//! Opening files, within the limit of handles.

use std::io;

use super::handles::OpenFile;
use super::state::Server;
use super::uploads::Links;
use crate::fs::status_of;
use crate::{OpenFlags, StatusCode};

impl Server {
    /// Returns the limit of handles, or 0 if it is unknown.
    pub(super) fn max_handles(&self) -> u64 {
        self.options.max_handles.unwrap_or_else(|| self.fs.max_open())
    }

    /// Returns true if one more handle may be opened.
    fn handles_left(&self) -> bool {
        let max = self.max_handles();
        max == 0 || (self.handles.count() as u64) < max
    }

    /// Returns true if one more handle may be opened. Otherwise replies with an error.
    pub(super) fn may_open(&mut self, id: u32) -> bool {
        let may = self.handles_left();
        if !may {
            self.reply_text(id, StatusCode::FAILURE, "Too many open files");
        }
        may
    }

    /// Fails if no more handles may be opened.
    pub(super) fn room_to_open(&self) -> io::Result<()> {
        if self.handles_left() { Ok(()) } else { Err(io::Error::other("Too many open files")) }
    }

    /// Opens a file and starts its usage record. A failed open is recorded, too.
    pub(super) fn open_file(
        &mut self,
        path: &[u8],
        flags: OpenFlags,
        permissions: u32,
        links: Links,
    ) -> io::Result<OpenFile> {
        match self.open_checked(path, flags, permissions, links) {
            Ok((file, held)) => {
                let number = self.handles.number_file();
                self.log.sink.file_opened(number);
                Ok(OpenFile { held, ..OpenFile::new(number, file, path, flags) })
            }
            Err(error) => {
                self.log.sink.file_refused(path, flags, status_of(&error));
                Err(error)
            }
        }
    }
}
