//! A small SFTP server with injectable faults, for tests of how clients handle a server that misbehaves.
//!
//! It serves one session over its standard input and output. Its arguments name the faults; without any it is
//! slow, simple and correct. It shares only the encoding of integers and strings with the tested
//! implementation.

pub mod copies;
mod files;
mod lie;
mod wire;

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use files::{Fault, Files};
pub use lie::Lie;
use wire::{Attrs, Fields, Reply};

const OPEN: u8 = 3;
const CLOSE: u8 = 4;
const READ: u8 = 5;
const WRITE: u8 = 6;
const LSTAT: u8 = 7;
const FSTAT: u8 = 8;
const SETSTAT: u8 = 9;
const FSETSTAT: u8 = 10;
const OPENDIR: u8 = 11;
const READDIR: u8 = 12;
const REMOVE: u8 = 13;
const MKDIR: u8 = 14;
const RMDIR: u8 = 15;
const REALPATH: u8 = 16;
const STAT: u8 = 17;
const RENAME: u8 = 18;
const READLINK: u8 = 19;
const SYMLINK: u8 = 20;
const EXTENDED: u8 = 200;

/// Largest number of requests handled as one batch.
const TOGETHER: usize = 1024;

/// Largest number of requests handled as one batch with [`Lie::DropsMany`].
const FEW_TOGETHER: usize = 12;

/// Longest message with [`Lie::LongestHandles`], its length field included.
const LONGEST: usize = 34_000;

/// Bytes of the id in an encoded reply, after its length and type.
const ID: std::ops::Range<usize> = 5..9;

/// Serves one session on standard input and output until the client closes it.
///
/// # Panics
/// On arguments that name no fault, and on malformed messages.
pub fn serve(words: impl Iterator<Item = String>) {
    let lies: Vec<Lie> =
        words.map(|word| Lie::named(&word).unwrap_or_else(|| panic!("unknown fault: {word}"))).collect();
    let mut server =
        Server { lies, files: Files::default(), sizes: HashMap::new(), replies: 0, sent: 0, written: 0 };
    let requests = requests();
    let mut out = std::io::stdout().lock();
    while let Some(batch) = next_batch(&requests) {
        if server.lies(Lie::LongestHandles) && batch.iter().any(|request| 4 + request.len() > LONGEST) {
            return;
        }
        let mut replies = Vec::new();
        for (at, request) in batch.iter().enumerate() {
            let dropped = (server.lies(Lie::DropsRequests) && at >= TOGETHER)
                || (server.lies(Lie::DropsMany) && at >= FEW_TOGETHER);
            if !dropped && !server.ignores(request) {
                replies.push(server.answer(request));
            }
        }
        // VERSION must stay the first message, and has no id.
        let first = usize::from(batch.first().is_some_and(|request| request.first() == Some(&1)));
        server.change_ids(&mut replies[first..]);
        if server.lies(Lie::OutOfOrder) {
            replies[first..].reverse();
        }
        if server.lies(Lie::TwiceAnswered) {
            let again = replies.split_off(first);
            replies.extend(again.into_iter().flat_map(|reply| [reply.clone(), reply]));
        }
        for reply in replies {
            if out.write_all(&reply).is_err() || server.ends_here() {
                return;
            }
        }
        if out.flush().is_err() {
            return;
        }
    }
}

/// Starts a thread that reads requests as fast as they arrive.
fn requests() -> Receiver<Vec<u8>> {
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut length = [0; 4];
        while input.read_exact(&mut length).is_ok() {
            let mut message = vec![0; u32::from_be_bytes(length) as usize];
            if input.read_exact(&mut message).is_err() || sender.send(message).is_err() {
                return;
            }
        }
    });
    requests
}

/// Returns the requests that have arrived, at least one; waits 1 ms for more. `None` at the end of input.
fn next_batch(requests: &Receiver<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let mut batch = vec![requests.recv().ok()?];
    loop {
        match requests.recv_timeout(Duration::from_millis(1)) {
            Ok(request) => batch.push(request),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Some(batch),
        }
    }
}

struct Server {
    lies: Vec<Lie>,
    files: Files,
    /// For [`Lie::StaleSizes`] and [`Lie::StaleFstat`].
    sizes: HashMap<Vec<u8>, u64>,
    /// Number of replies so far, without VERSION.
    replies: u64,
    /// Number of messages that were sent.
    sent: u64,
    /// Bytes that WRITEs have stored, for [`Lie::FullDisk`].
    written: usize,
}

/// Flags of an OPEN that reads.
const READS: u32 = 1;

/// Flags of an OPEN that writes what it makes or empties.
const MAKES_EMPTY: u32 = 2 | 8 | 16;

/// Replies of a session with [`Lie::EndsEarly`].
const MOST_REPLIES: u64 = 60;

/// Bytes that the disk takes with [`Lie::FullDisk`].
const DISK: usize = 200_000;

impl Server {
    fn lies(&self, lie: Lie) -> bool {
        self.lies.contains(&lie)
    }

    /// The request gets no reply.
    fn ignores(&self, message: &[u8]) -> bool {
        let mut fields = Fields(message);
        if !self.lies(Lie::IgnoresOddOpens) || fields.byte() != OPEN {
            return false;
        }
        let (_, _, flags) = (fields.int(), fields.string(), fields.int());
        !matches!(flags, READS | MAKES_EMPTY)
    }

    /// The session ends behind this reply.
    fn ends_here(&mut self) -> bool {
        self.sent += 1;
        self.lies(Lie::EndsEarly) && self.sent >= MOST_REPLIES
    }

    /// Applies the faults that concern the ids of replies.
    fn change_ids(&mut self, replies: &mut [Vec<u8>]) {
        if self.lies(Lie::RotatedIds)
            && let Some(last) = replies.last().map(|reply| reply[ID].to_vec())
        {
            replies.iter_mut().fold(last, |id, reply| {
                let own = reply[ID].to_vec();
                reply[ID].copy_from_slice(&id);
                own
            });
        }
        for reply in replies {
            self.replies += 1;
            if self.lies(Lie::WrongIds) && self.replies.is_multiple_of(5) {
                reply[ID].copy_from_slice(&[0x7f; 4]);
            }
        }
    }

    fn answer(&mut self, message: &[u8]) -> Vec<u8> {
        let mut fields = Fields(message);
        let kind = fields.byte();
        if kind == 1 {
            return self.version();
        }
        let id = fields.int();
        let idle = match kind {
            WRITE if self.lies(Lie::DataForWrite) => Some(Reply::Data(vec![0; 4])),
            RENAME if self.lies(Lie::IdleRename) => Some(Reply::ok()),
            MKDIR if self.lies(Lie::NoMkdir) => Some(Reply::ok()),
            REALPATH if self.lies(Lie::NoRealPath) => Some(Reply::Names(Vec::new())),
            CLOSE | WRITE | SETSTAT | FSETSTAT | REMOVE | MKDIR | RENAME
                if self.lies(Lie::ExtendedForStatus) =>
            {
                Some(Reply::Extended)
            }
            _ => None,
        };
        if let Some(reply) = idle {
            return reply.encode(id);
        }
        if self.lies(Lie::BareReplies) {
            let fault = |fault: Fault| Reply::Status(fault.code, fault.text);
            return self.carry_out(kind, &mut fields).unwrap_or_else(fault).bare(kind == READLINK).encode(id);
        }
        match self.carry_out(kind, &mut fields) {
            Ok(Reply::Data(_)) if self.lies(Lie::StatusForRead) => Reply::ok().encode(id),
            Ok(Reply::Data(data)) if self.lies(Lie::MoreData) => {
                Reply::Data([&data[..], b"more bytes"].concat()).encode(id)
            }
            Ok(Reply::Names(names)) if kind == REALPATH && self.lies(Lie::TwoRealPaths) => {
                Reply::Names([names.clone(), names].concat()).encode(id)
            }
            Ok(Reply::Names(names)) if kind == READDIR && self.lies(Lie::TwiceListed) => {
                Reply::Names([names.clone(), names].concat()).encode(id)
            }
            Ok(Reply::Names(mut names)) if kind == READDIR && self.lies(Lie::BadNames) => {
                let attrs = names[0].1;
                let bad = [&b"../evil"[..], b"/tmp/evil-of-lhscp", b"a/b", b"nul\0", b"", b"..", b"."];
                names.extend(bad.map(|name| (name.to_vec(), attrs)));
                Reply::Names(names).encode(id)
            }
            Ok(reply) => reply.encode(id),
            Err(fault) => Reply::Status(fault.code, fault.text).encode(id),
        }
    }

    fn version(&self) -> Vec<u8> {
        if self.lies(Lie::NoExtensions) {
            return wire::version(&[]);
        }
        let mut extensions = vec![("posix-rename@openssh.com", "1")];
        if [Lie::LimitsNotKept, Lie::ZeroLimits, Lie::TinyLimits].iter().any(|&lie| self.lies(lie)) {
            extensions.push(("limits@openssh.com", "1"));
        }
        wire::version(&extensions)
    }

    fn carry_out(&mut self, kind: u8, fields: &mut Fields<'_>) -> Result<Reply, Fault> {
        match kind {
            OPEN => {
                let (path, flags, attrs) = (self.path(fields), fields.int(), Attrs::read(fields));
                let path = if self.lies(Lie::WrongNames) && flags & 8 != 0 { elsewhere(&path) } else { path };
                self.files.open(&path, flags, attrs.mode, &self.lies).map(Reply::Handle)
            }
            CLOSE => self.files.close(fields.string(), &self.lies).map(|()| Reply::ok()),
            READ => {
                let (handle, offset, len) = (fields.string(), fields.long(), fields.int() as usize);
                self.read(handle, offset, len)
            }
            WRITE => {
                let (handle, offset, data) = (fields.string(), fields.long(), fields.string());
                if self.lies(Lie::LimitsNotKept) && data.len() > 16 << 10 {
                    return Err(Fault::failure("too much"));
                }
                if self.lies(Lie::TinyLimits) && data.len() > 300 {
                    return Err(Fault::failure("too much"));
                }
                self.written += data.len();
                if self.lies(Lie::FullDisk) && self.written > DISK {
                    return Err(Fault::failure("No space left on device"));
                }
                let stored = if self.lies(Lie::ShortWrites) && data.len() > 1000 {
                    data.len() / 2
                } else {
                    data.len()
                };
                self.files.write(handle, offset, &data[..stored], &self.lies).map(|()| Reply::ok())
            }
            LSTAT | STAT => {
                let path = self.path(fields);
                if kind == STAT {
                    Files::may_follow(&path, &self.lies)?;
                }
                let mut attrs = Files::attrs(&path, kind == STAT)?;
                if attrs.is_file() {
                    let first = *self.sizes.entry(path).or_insert(attrs.size);
                    attrs.size = if self.lies(Lie::StaleSizes) { first } else { attrs.size };
                }
                self.distort(&mut attrs);
                Ok(Reply::Attrs(attrs))
            }
            FSTAT => {
                let handle = fields.string();
                let mut attrs = self.files.attrs_of(handle)?;
                if self.lies(Lie::StaleFstat) && attrs.is_file() {
                    attrs.size = *self.sizes.entry(self.files.path_of(handle)?).or_insert(attrs.size);
                }
                self.distort(&mut attrs);
                Ok(Reply::Attrs(attrs))
            }
            SETSTAT | FSETSTAT if self.lies(Lie::NoSetstat) => Err(Fault::denied()),
            FSETSTAT if self.lies(Lie::NoFsetstat) => Err(Fault::denied()),
            SETSTAT => {
                let (path, attrs) = (self.path(fields), Attrs::read(fields));
                Files::set(&path, attrs, &self.lies).map(|()| Reply::ok())
            }
            FSETSTAT => {
                let (handle, attrs) = (fields.string(), Attrs::read(fields));
                let path = self.files.path_of(handle)?;
                Files::set(&path, attrs, &self.lies).map(|()| Reply::ok())
            }
            OPENDIR => self.files.open_dir(&self.path(fields), &self.lies).map(Reply::Handle),
            READDIR => {
                let mut names = self.files.list(fields.string(), &self.lies)?;
                names.iter_mut().for_each(|(_, attrs)| self.distort(attrs));
                Ok(Reply::Names(names))
            }
            REMOVE if self.lies(Lie::NoRemove) => Err(Fault::denied()),
            REMOVE => Files::remove(&self.path(fields)).map(|()| Reply::ok()),
            MKDIR => Files::make_dir(fields.string()).map(|()| Reply::ok()),
            RMDIR => Err(Fault::denied()),
            REALPATH => Files::real(fields.string()).map(|path| Reply::Names(vec![(path, Attrs::default())])),
            RENAME => self.rename(fields, false),
            READLINK if self.lies(Lie::NoReadlink) => Err(Fault { code: 8, text: "unsupported" }),
            READLINK => {
                Files::read_link(fields.string()).map(|path| Reply::Names(vec![(path, Attrs::default())]))
            }
            SYMLINK if self.lies(Lie::NoLinks) => Ok(Reply::ok()),
            SYMLINK => {
                let (first, second) = (fields.string(), fields.string());
                let (target, link) =
                    if self.lies(Lie::LinkFirst) { (second, first) } else { (first, second) };
                Files::make_link(target, link).map(|()| Reply::ok())
            }
            EXTENDED => match fields.string() {
                b"posix-rename@openssh.com" if self.lies(Lie::IdleRename) => Ok(Reply::ok()),
                b"posix-rename@openssh.com" if !self.lies(Lie::NoPosixRename) => self.rename(fields, true),
                b"limits@openssh.com" if self.lies(Lie::ZeroLimits) => Ok(Reply::Limits([0; 4])),
                b"limits@openssh.com" if self.lies(Lie::TinyLimits) => Ok(Reply::Limits([1000, 300, 300, 2])),
                b"limits@openssh.com" => Ok(Reply::Limits([256 << 10, 255 << 10, 255 << 10, 64])),
                _ => Err(Fault { code: 8, text: "unsupported" }),
            },
            _ => Err(Fault { code: 8, text: "unsupported" }),
        }
    }

    fn path(&self, fields: &mut Fields<'_>) -> Vec<u8> {
        let path = fields.string();
        if !self.lies(Lie::FoldsCase) {
            return path.to_vec();
        }
        let name = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        [&path[..name], &path[name..].to_ascii_lowercase()].concat()
    }

    /// Applies the faults that concern attributes.
    fn distort(&self, attrs: &mut Attrs) {
        if self.lies(Lie::NoAttrs) {
            *attrs = Attrs::default();
        }
        if self.lies(Lie::HalfSizes) && attrs.is_file() {
            attrs.size /= 2;
        }
        if self.lies(Lie::PaddedUnseen) && self.files.is_padded(attrs) {
            attrs.size -= 1;
        }
        attrs.has_size &= !self.lies(Lie::NoSizes);
        if self.lies(Lie::OddTimes) {
            attrs.times = attrs
                .times
                .map(|(access, modified)| (access.wrapping_mul(1000), modified.wrapping_mul(1000)));
        }
    }

    fn read(&mut self, handle: &[u8], offset: u64, len: usize) -> Result<Reply, Fault> {
        let mut most = len;
        if self.lies(Lie::ShortReads) {
            most = most.min(1000);
        }
        if self.lies(Lie::LimitsNotKept) {
            most = most.min(16 << 10);
        }
        if self.lies(Lie::TinyLimits) {
            most = most.min(300);
        }
        if self.lies(Lie::EarlyEof) {
            let end = self.files.attrs_of(handle)?.size / 3 * 2;
            most = most.min(usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX));
        }
        let data = self.files.read(handle, offset, most, &self.lies)?;
        if data.is_empty() { Err(Fault { code: 1, text: "EOF" }) } else { Ok(Reply::Data(data)) }
    }

    fn rename(&mut self, fields: &mut Fields<'_>, replace: bool) -> Result<Reply, Fault> {
        if self.lies(Lie::NoRename) {
            return Err(Fault::denied());
        }
        let (old, new) = (self.path(fields), self.path(fields));
        let (old, new) = match self.lies(Lie::WrongNames) {
            true => (elsewhere(&old), elsewhere(&new)),
            false => (old, new),
        };
        Files::rename(&old, &new, replace)?;
        Ok(Reply::ok())
    }
}

/// Returns the path used in place of the requested one, for [`Lie::WrongNames`].
fn elsewhere(path: &[u8]) -> Vec<u8> {
    if path.ends_with(b".lhpart") { path.to_vec() } else { [path, b"~"].concat() }
}
