//! OPENDIR, READDIR and `list-dir@longhaul`: directories, listed in parts.

use std::io;

use super::handles::{Open, OpenDir};
use super::log::Shown;
use super::{LogLevel, Server, long_name};
use crate::batch::{LIST_LONG, LIST_NAMES};
use crate::reply::write_name;
use crate::{StatusCode, glob};

/// Size in bytes up to which READDIR answers are filled. sftp-server stops at 100 entries, which can take 60
/// KiB. So clients accept answers of this size, and longer answers save round trips.
const READDIR_SIZE: usize = 48 * 1024;

/// Size in bytes of the first reply to a `list-dir@longhaul`. Its clients accept longer replies.
const LISTING_SIZE: usize = 192 * 1024;

/// Number of names matched against a pattern for one reply: takes some tens of milliseconds.
const NAMES_MATCHED: usize = 128 * 1024;

/// Encoded entries of a directory for one reply.
struct EncodedEntries {
    entries: Vec<u8>,
    count: u32,
    /// The directory has no more entries.
    ended: bool,
}

impl Server {
    pub(super) fn serve_opendir(&mut self, id: u32, path: &[u8]) {
        if let Some(dir) = self.open_dir(id, path, b"", true) {
            let handle = self.handles.insert(Open::Dir(dir));
            self.reply().handle(id, &handle);
        }
    }

    /// Opens a directory, or replies with the error.
    fn open_dir(&mut self, id: u32, path: &[u8], pattern: &[u8], long: bool) -> Option<OpenDir> {
        self.log.line(LogLevel::Info, format_args!("opendir \"{}\"", Shown(path)));
        if !self.may_open(id) {
            return None;
        }
        match self.fs.open_dir(path) {
            Ok(dir) => Some(OpenDir { dir, path: path.to_vec(), pattern: pattern.to_vec(), long }),
            Err(error) => {
                self.reply_error(id, &error);
                None
            }
        }
    }

    pub(super) fn serve_readdir(&mut self, id: u32, handle: &[u8]) {
        let Some(Open::Dir(dir)) = self.handles.get(handle) else { return self.reply_bad_handle(id) };
        let now = self.lookup.now();
        let names = &mut self.names;
        let lookup = &mut *self.lookup;
        let gathered = gather(dir, READDIR_SIZE, self.client.wanted, &mut |line, entry| {
            long_name::write(line, entry, now, names, lookup);
        });
        self.pace.listed_entries(gathered.as_ref().map_or(0, |got| got.count));
        match gathered {
            Ok(EncodedEntries { count: 0, ended: true, .. }) => self.reply_status(id, StatusCode::EOF),
            Ok(got) => self.reply().encoded_names(id, got.count, &got.entries),
            Err(error) => self.reply_error(id, &error),
        }
    }

    pub(super) fn serve_list_dir(&mut self, id: u32, path: &[u8], pattern: &[u8], flags: u32) {
        if flags & !(LIST_LONG | LIST_NAMES) != 0 {
            return self.reply_status(id, StatusCode::OP_UNSUPPORTED);
        }
        let Some(mut dir) = self.open_dir(id, path, pattern, flags & LIST_LONG != 0) else { return };
        if flags & LIST_NAMES != 0 {
            return self.list_names(id, dir);
        }
        let now = self.lookup.now();
        let names = &mut self.names;
        let lookup = &mut *self.lookup;
        let gathered = gather(&mut dir, LISTING_SIZE, self.client.wanted, &mut |line, entry| {
            long_name::write(line, entry, now, names, lookup);
        });
        self.pace.listed_entries(gathered.as_ref().map_or(0, |got| got.count));
        match gathered {
            Ok(got) if got.ended => {
                self.log.close(&mut Open::Dir(dir), false);
                self.reply().listing(id, b"", got.count, &got.entries);
            }
            Ok(got) => {
                let handle = self.handles.insert(Open::Dir(dir));
                self.reply().listing(id, &handle, got.count, &got.entries);
            }
            Err(error) => self.reply_error(id, &error),
        }
    }

    /// Lists names only. They take a tenth of the bytes of attributes, and need no stat(2).
    fn list_names(&mut self, id: u32, mut open: OpenDir) {
        let OpenDir { dir, pattern, .. } = &mut open;
        let wanted = |name: &[u8]| pattern.is_empty() || glob::matches(pattern, name);
        let (mut found, mut count, mut names) = (Vec::new(), 0, NAMES_MATCHED);
        let ended = loop {
            match dir.next_name(&wanted, &mut names) {
                Ok(Some(name)) => {
                    found.extend_from_slice(&name);
                    found.push(0);
                    count += 1;
                }
                Ok(None) => break names > 0,
                Err(error) if found.is_empty() => return self.reply_error(id, &error),
                // The next READDIR returns the error.
                Err(_) => break false,
            }
            if found.len() >= LISTING_SIZE {
                break false;
            }
        };
        self.pace.listed_entries(count);
        if ended {
            self.log.close(&mut Open::Dir(open), false);
            self.reply().short_listing(id, b"", &found);
        } else {
            let handle = self.handles.insert(Open::Dir(open));
            self.reply().short_listing(id, &handle, &found);
        }
    }
}

/// Reads entries for an answer of about `size` bytes.
fn gather(
    open: &mut OpenDir,
    size: usize,
    wanted_attrs: u32,
    describe: &mut dyn FnMut(&mut Vec<u8>, &crate::fs::DirEntry),
) -> io::Result<EncodedEntries> {
    let OpenDir { dir, pattern, long, .. } = open;
    let wanted = |name: &[u8]| pattern.is_empty() || glob::matches(pattern, name);
    let mut got = EncodedEntries { entries: Vec::new(), count: 0, ended: false };
    let mut names = NAMES_MATCHED;
    let mut line = Vec::new();
    while got.entries.len() < size {
        match dir.next_wanted(&wanted, &mut names) {
            Ok(Some(entry)) => {
                line.clear();
                if *long {
                    describe(&mut line, &entry);
                }
                write_name(&mut got.entries, &entry.name, &line, &entry.attrs.told(wanted_attrs));
                got.count += 1;
            }
            Ok(None) => {
                got.ended = names > 0;
                break;
            }
            Err(error) if got.count == 0 => return Err(error),
            // The next READDIR returns the error.
            Err(_) => break,
        }
    }
    Ok(got)
}
