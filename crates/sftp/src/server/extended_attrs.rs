//! Requests about attributes that version 3 has no fields for ([`crate::extended_attrs`]).

use super::log::{Operation, Shown};
use super::{LogLevel, Server};
use crate::StatusCode;
use crate::batch::{GET_OVERHEAD, GET_OVERHEAD_FULL};
use crate::extended_attrs::{
    ACLS, WANT_INODE, WANT_STORAGE, WANT_TIMES, XATTRS, is_wanted, read_xattrs, write_xattrs,
};

impl Server {
    pub(super) fn serve_full_attrs(&mut self, id: u32, wanted: u32) {
        if wanted & !(WANT_TIMES | WANT_INODE | WANT_STORAGE) != 0 {
            return self.reply_status(id, StatusCode::OP_UNSUPPORTED);
        }
        self.client.wanted = wanted;
        self.reply_status(id, StatusCode::OK);
    }

    /// Returns the largest number of bytes of a file in a `get-files@longhaul` reply besides its data.
    pub(super) const fn get_overhead(&self) -> usize {
        if self.client.wanted == 0 { GET_OVERHEAD } else { GET_OVERHEAD_FULL }
    }

    pub(super) fn serve_data_ranges(&mut self, id: u32, handle: &[u8], offset: u64) {
        let Some(open) = self.handles.file(handle) else { return self.reply_bad_handle(id) };
        match open.file.data_ranges(offset) {
            Ok(ranges) => self.reply().extended(id, |out| ranges.write(out)),
            Err(error) => self.reply_error(id, &error),
        }
    }

    pub(super) fn serve_get_xattrs(&mut self, id: u32, path: &[u8], wanted: u32) {
        if wanted & !(XATTRS | ACLS) != 0 {
            return self.reply_status(id, StatusCode::OP_UNSUPPORTED);
        }
        self.log.line(LogLevel::Verbose, format_args!("get-xattrs \"{}\"", Shown(path)));
        match self.fs.xattrs(path, wanted) {
            Ok(xattrs) => self.reply().extended(id, |out| write_xattrs(&xattrs, out)),
            Err(error) => self.reply_error(id, &error),
        }
    }

    pub(super) fn serve_set_xattrs(&mut self, id: u32, path: &[u8], wanted: u32, fields: &[u8]) {
        if wanted & !(XATTRS | ACLS) != 0 {
            return self.reply_status(id, StatusCode::OP_UNSUPPORTED);
        }
        let Ok(xattrs) = read_xattrs(fields) else { return self.reply_status(id, StatusCode::BAD_MESSAGE) };
        if xattrs.iter().any(|(name, _)| !is_wanted(name, wanted)) {
            return self.reply_status(id, StatusCode::BAD_MESSAGE);
        }
        self.log.line(LogLevel::Info, format_args!("set-xattrs \"{}\"", Shown(path)));
        let outcome = self.fs.set_xattrs(path, wanted, &xattrs);
        self.reply_change(id, Operation::new("set-xattrs", path), &outcome);
    }
}
