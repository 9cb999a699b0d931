//! A client and a server in one process, joined by a window of any size.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lh_sftp::fs::{Directory, File, FileSystem};
use lh_sftp::server::{FileEvent, LogLevel, LogSink, Operation, Server, ServerOptions};
use lh_sftp::{
    Attrs, Handle, Incoming, Name, OpenFlags, Reply, ReplyBody, Request, Session, StatVfs, Status, StatusCode,
};
use lh_sftp_fs::{LocalFs, SystemFiles};
use lh_wire::{Output, Reservation, Reserved, Slices};

/// The sending side of a channel: a window, and packets of a largest size.
pub(crate) struct Window {
    pub(crate) room: usize,
    pub(crate) packet: usize,
    pub(crate) sent: Vec<u8>,
    /// Bytes that were sent without a copy.
    pub(crate) in_place: usize,
    /// Reserved memory.
    slab: Vec<u8>,
}

impl Window {
    pub(crate) const fn new(room: usize, packet: usize) -> Self {
        Self { room, packet, sent: Vec::new(), in_place: 0, slab: Vec::new() }
    }
}

impl Output for Window {
    fn budget(&mut self) -> usize {
        self.room
    }
    fn send(&mut self, data: &[u8]) -> usize {
        let n = data.len().min(self.room);
        self.sent.extend(&data[..n]);
        self.room -= n;
        n
    }
    fn reserve(&mut self, want: usize) -> Option<Reservation<'_>> {
        assert!(want <= self.room, "more asked for than the budget");
        self.slab = vec![0; want];
        Some(Reservation::new(self, want))
    }
}

impl Reserved for Window {
    fn slices(&mut self, _: usize) -> Slices<'_> {
        self.slab.chunks_mut(self.packet).collect()
    }
    fn commit(&mut self, _: usize, used: usize) -> usize {
        self.sent.extend(&self.slab[..used]);
        self.room -= used;
        self.in_place += used;
        used
    }
}

/// Log lines and usage records, shared with the test.
#[derive(Clone, Default)]
pub(crate) struct Log {
    pub(crate) lines: Arc<Mutex<Vec<String>>>,
    pub(crate) files: Arc<Mutex<Vec<FileEvent>>>,
    /// Name of the request and path, of files and operations that were refused.
    pub(crate) refused: Arc<Mutex<Vec<(String, String)>>>,
}

impl LogSink for Log {
    fn level(&self) -> LogLevel {
        LogLevel::Verbose
    }
    fn line(&mut self, _: LogLevel, line: std::fmt::Arguments<'_>) {
        self.lines.lock().unwrap().push(line.to_string());
    }
    fn file_closed(&mut self, event: &FileEvent) {
        self.files.lock().unwrap().push(event.clone());
    }
    fn file_refused(&mut self, path: &[u8], flags: OpenFlags, _: StatusCode) {
        let name = if flags.contains(OpenFlags::WRITE) { "write" } else { "read" };
        self.refused.lock().unwrap().push((name.to_owned(), String::from_utf8_lossy(path).into_owned()));
    }
    fn operation(&mut self, operation: &Operation<'_>) {
        if operation.status != StatusCode::OK {
            let path = String::from_utf8_lossy(operation.path).into_owned();
            self.refused.lock().unwrap().push((operation.request.to_owned(), path));
        }
    }
}

pub(crate) struct Peer {
    pub(crate) server: Server,
    pub(crate) session: Session,
    pub(crate) window: Window,
    pub(crate) log: Log,
    /// Credit returned so far, bytes.
    pub(crate) consumed: usize,
    pub(crate) given: usize,
}

impl Peer {
    pub(crate) fn new(dir: &Path) -> Self {
        Self::with(Box::new(LocalFs::new(dir)), ServerOptions::default())
    }

    pub(crate) fn with(fs: Box<dyn FileSystem>, options: ServerOptions) -> Self {
        Self::of_client(fs, options, None)
    }

    /// Like [`Peer::with`], with a server that knows the client's identification line.
    pub(crate) fn of_client(fs: Box<dyn FileSystem>, options: ServerOptions, client: Option<&str>) -> Self {
        let log = Log::default();
        let mut server = Server::new(fs, Box::new(SystemFiles::new()), Box::new(log.clone()), options);
        server.set_client(client, None);
        let window = Window::new(usize::MAX >> 1, 32 * 1024);
        let mut peer = Self { server, session: Session::new(), window, log, consumed: 0, given: 0 };
        let mut init = Vec::new();
        peer.session.start(&mut init);
        peer.give(&init);
        assert!(matches!(peer.take(), Some(Incoming::Version { version: 3 })));
        peer
    }

    /// Sends bytes to the server and lets it run once.
    pub(crate) fn give(&mut self, bytes: &[u8]) {
        self.given += bytes.len();
        self.server.input(Bytes::copy_from_slice(bytes));
        self.turn();
    }

    pub(crate) fn turn(&mut self) {
        loop {
            let progress = self.server.poll(&mut self.window).unwrap();
            self.consumed += progress.consumed;
            if !progress.more {
                break;
            }
        }
        let sent = std::mem::take(&mut self.window.sent);
        self.session.input(sent.into());
    }

    pub(crate) fn take(&mut self) -> Option<Incoming> {
        self.session.poll().unwrap()
    }

    pub(crate) fn call(&mut self, request: &Request<'_>) -> ReplyBody {
        let mut bytes = Vec::new();
        let id = self.session.request(request, &mut bytes);
        self.give(&bytes);
        match self.take() {
            Some(Incoming::Reply(Reply { id: got, body })) if got == id => body,
            other => panic!("{request:?} was answered {other:?}"),
        }
    }

    pub(crate) fn status(&mut self, request: &Request<'_>) -> Status {
        match self.call(request) {
            ReplyBody::Status(status) => status,
            other => panic!("{request:?} was answered {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn ok(&mut self, request: &Request<'_>) {
        let status = self.status(request);
        assert_eq!(status.code, StatusCode::OK, "{request:?}: {}", status.message);
    }

    #[track_caller]
    pub(crate) fn open(&mut self, path: &[u8], flags: OpenFlags) -> Handle {
        match self.call(&Request::Open { path, flags, attrs: Attrs::NONE }) {
            ReplyBody::Handle(handle) => handle,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn names(&mut self, request: &Request<'_>) -> Vec<Name> {
        match self.call(request) {
            ReplyBody::Names(names) => names,
            other => panic!("{request:?} was answered {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn attrs(&mut self, request: &Request<'_>) -> Attrs {
        match self.call(request) {
            ReplyBody::Attrs(attrs) => attrs,
            other => panic!("{request:?} was answered {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn read(&mut self, handle: &[u8], offset: u64, len: u32) -> Vec<u8> {
        match self.call(&Request::Read { handle, offset, len }) {
            ReplyBody::Data(data) => data.chunks().concat(),
            other => panic!("{other:?}"),
        }
    }
}

/// The host's files on a disk with faults.
pub(crate) struct Troubled {
    pub(crate) inner: LocalFs,
    /// Largest number of bytes that one read or write moves.
    pub(crate) at_most: usize,
    /// Writes beyond this offset find no space.
    pub(crate) full_at: u64,
    /// Paths have other inode numbers than open files.
    pub(crate) renumbers: bool,
}

struct TroubledFile {
    inner: Box<dyn File>,
    at_most: usize,
    full_at: u64,
}

impl File for TroubledFile {
    fn read_at(&mut self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Some(first) = buffers.first_mut() else { return Ok(0) };
        let n = first.len().min(self.at_most);
        self.inner.read_at(offset, &mut [IoSliceMut::new(&mut first[..n])])
    }
    fn write_at(&mut self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(first) = buffers.iter().find(|b| !b.is_empty()) else { return Ok(0) };
        let room = usize::try_from(self.full_at.saturating_sub(offset)).unwrap_or(usize::MAX);
        if room == 0 {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        let n = first.len().min(self.at_most).min(room);
        self.inner.write_at(offset, &[IoSlice::new(&first[..n])])
    }
    fn attrs(&mut self) -> io::Result<Attrs> {
        self.inner.attrs()
    }
    fn set_attrs(&mut self, attrs: &Attrs) -> io::Result<()> {
        self.inner.set_attrs(attrs)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }
    fn statvfs(&mut self) -> io::Result<StatVfs> {
        self.inner.statvfs()
    }
    fn identity(&mut self) -> io::Result<(u64, u64)> {
        self.inner.identity()
    }
    fn copy_to(&mut self, offset: u64, to: &mut dyn File, to_offset: u64, len: usize) -> io::Result<usize> {
        lh_sftp::fs::copy_through_memory(self, offset, to, to_offset, len)
    }
}

impl FileSystem for Troubled {
    fn open(&mut self, path: &[u8], flags: OpenFlags, permissions: Option<u32>) -> io::Result<Box<dyn File>> {
        let inner = self.inner.open(path, flags, permissions)?;
        Ok(Box::new(TroubledFile { inner, at_most: self.at_most, full_at: self.full_at }))
    }
    fn make_whole(&mut self, files: &[lh_sftp::whole::Whole<'_>]) -> Vec<lh_sftp::whole::Made> {
        lh_sftp::fill::make_all(self, files)
    }
    fn open_dir(&mut self, path: &[u8]) -> io::Result<Box<dyn Directory>> {
        self.inner.open_dir(path)
    }
    fn attrs(&mut self, path: &[u8], follow: bool) -> io::Result<Attrs> {
        let mut attrs = self.inner.attrs(path, follow)?;
        if let (true, Some(inode)) = (self.renumbers, &mut attrs.inode) {
            inode.number = !inode.number;
        }
        Ok(attrs)
    }
    fn renumbers_files(&mut self, path: &[u8], device: u64) -> bool {
        let inode = self.inner.attrs(path, false).ok().and_then(|attrs| attrs.inode);
        self.renumbers && inode.is_some_and(|inode| inode.device == device)
    }
    fn set_attrs(&mut self, path: &[u8], attrs: &Attrs, follow: bool) -> io::Result<()> {
        self.inner.set_attrs(path, attrs, follow)
    }
    fn remove_file(&mut self, path: &[u8]) -> io::Result<()> {
        self.inner.remove_file(path)
    }
    fn make_dir(&mut self, path: &[u8], permissions: u32) -> io::Result<()> {
        self.inner.make_dir(path, permissions)
    }
    fn remove_dir(&mut self, path: &[u8]) -> io::Result<()> {
        self.inner.remove_dir(path)
    }
    fn real_path(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.inner.real_path(path)
    }
    fn rename(&mut self, old: &[u8], new: &[u8], replace: bool) -> io::Result<()> {
        self.inner.rename(old, new, replace)
    }
    fn read_link(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.inner.read_link(path)
    }
    fn symlink(&mut self, target: &[u8], link: &[u8]) -> io::Result<()> {
        self.inner.symlink(target, link)
    }
    fn hard_link(&mut self, old: &[u8], new: &[u8]) -> io::Result<()> {
        self.inner.hard_link(old, new)
    }
    fn statvfs(&mut self, path: &[u8]) -> io::Result<StatVfs> {
        self.inner.statvfs(path)
    }
}
