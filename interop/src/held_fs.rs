//! A file system (FUSE) that can stop answering, and answer again.
//!
//! It has one file, `file`, which can be read and written. While it is held, no request of any kind is
//! answered: programs that access it wait in the kernel, so the test itself must not access it. A request
//! that was not even read ([`HeldFs::stop_reading`]) is given up by the kernel when its program is killed.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Longest request: a WRITE of 128 KiB and its header.
pub(crate) const LONGEST: usize = (128 << 10) + 4096;

pub(crate) const ROOT: u64 = 1;
const FILE: u64 = 2;

/// Requests of the kernel (`linux/fuse.h`).
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const BATCH_FORGET: u32 = 42;
}

/// Change of the file when it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRead {
    /// Each READ appends a few bytes after the returned ones.
    Grow,
    /// Each READ cuts the file in half afterwards.
    Shrink,
}

/// The file system. It is unmounted when dropped; every later call on it fails.
pub struct HeldFs {
    point: PathBuf,
    state: Arc<Mutex<State>>,
    stop: OwnedFd,
    reads_again: Arc<Condvar>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    device: File,
    content: Vec<u8>,
    held: bool,
    /// No FLUSH is answered.
    holds_flush: bool,
    /// FLUSH is answered.
    knows_flush: bool,
    /// No request is read.
    reads_nothing: bool,
    /// A request waits to be read.
    has_unread: bool,
    /// How often it has begun to read again.
    releases: u64,
    waiting: Vec<Vec<u8>>,
    /// Duration of each WRITE.
    write_time: Duration,
    /// Duration of each READ.
    read_time: Duration,
    reads: u64,
    on_read: Option<OnRead>,
}

impl HeldFs {
    /// Mounts it on the directory `point`, with `content` in its file.
    ///
    /// # Errors
    /// The system has no FUSE, or does not permit the mount.
    pub fn mount(point: &Path, content: &[u8]) -> std::io::Result<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        std::fs::create_dir(point)?;
        let options = format!("fd={},rootmode=40755,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = CString::new(options)?;
        mount("held", point, "fuse", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (requests, told) = (device.try_clone()?, stop.try_clone()?);
        let state = State {
            device,
            content: content.to_vec(),
            held: false,
            holds_flush: false,
            knows_flush: true,
            reads_nothing: false,
            has_unread: false,
            releases: 0,
            waiting: Vec::new(),
            write_time: Duration::ZERO,
            read_time: Duration::ZERO,
            reads: 0,
            on_read: None,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let reads_again = Arc::new(Condvar::new());
        let may_read = Arc::clone(&reads_again);
        let thread = std::thread::spawn(move || serve(&requests, &told, &shared, &may_read));
        Ok(Self { point: point.to_owned(), state, stop, reads_again, thread: Some(thread) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path of the file.
    pub fn file(&self) -> PathBuf {
        self.point.join("file")
    }

    /// Sets the duration of each WRITE, which has at most 128 KiB.
    pub fn slow_writes(&self, time: Duration) {
        self.lock().write_time = time;
    }

    /// Sets the duration of each READ, which has at most 128 KiB.
    pub fn slow_reads(&self, time: Duration) {
        self.lock().read_time = time;
    }

    /// Returns the number of READs that were answered.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// Sets the content of the file.
    pub fn set_content(&self, content: &[u8]) {
        self.lock().content = content.to_vec();
    }

    /// Sets the change of the file at each READ.
    pub fn change_on_read(&self, change: Option<OnRead>) {
        self.lock().on_read = change;
    }

    /// Stops answering.
    pub fn hold(&self) {
        self.lock().held = true;
    }

    /// Stops answering when a file is closed. Programs that are killed wait, too.
    pub fn hold_closing(&self) {
        self.lock().holds_flush = true;
    }

    /// Has the kernel send no request when a file is closed. It waits for the answer to that one also in a
    /// program that is killed.
    pub fn leave_out_flush(&self) {
        self.lock().knows_flush = false;
        // The first answer tells the kernel.
        drop(File::open(self.file()));
    }

    /// Stops reading requests, as a file system whose process is stopped.
    pub fn stop_reading(&self) {
        self.lock().reads_nothing = true;
    }

    /// Returns true when a request has come since [`HeldFs::stop_reading`].
    pub fn has_unread(&self) -> bool {
        self.lock().has_unread
    }

    fn read_again(&self) {
        let mut state = self.lock();
        (state.reads_nothing, state.has_unread) = (false, false);
        state.releases += 1;
        self.reads_again.notify_all();
    }

    /// Answers again, pending requests first.
    pub fn release(&self) {
        self.read_again();
        let mut state = self.lock();
        (state.held, state.holds_flush) = (false, false);
        for request in std::mem::take(&mut state.waiting) {
            state.answer(&request);
        }
    }

    /// Returns the number of pending requests.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Returns the content of the file.
    pub fn content(&self) -> Vec<u8> {
        self.lock().content.clone()
    }
}

impl Drop for HeldFs {
    fn drop(&mut self) {
        let _ = unmount(&self.point, UnmountFlags::DETACH);
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        self.read_again();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Dropping `state` closes the last descriptors of the device, so pending requests fail.
    }
}

fn serve(requests: &File, stop: &OwnedFd, state: &Mutex<State>, may_read: &Condvar) {
    let mut buffer = vec![0; LONGEST];
    loop {
        let mut fds = [PollFd::new(requests, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        if poll(&mut fds, None).is_err() || !fds[1].revents().is_empty() {
            return;
        }
        let mut locked = state.lock().unwrap_or_else(PoisonError::into_inner);
        if locked.reads_nothing {
            locked.has_unread = true;
            let stopped = locked.releases;
            drop(may_read.wait_while(locked, |state| state.releases == stopped));
            // The request may have been given up.
            continue;
        }
        drop(locked);
        let Ok(length) = (&*requests).read(&mut buffer) else { return };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let request = &buffer[..length];
        let opcode = number(request, 4);
        if (state.held && !is_silent(opcode)) || (state.holds_flush && opcode == opcode::FLUSH) {
            state.waiting.push(request.to_vec());
        } else {
            state.answer(request);
        }
    }
}

/// Returns true for requests that are never answered.
pub(crate) fn is_silent(opcode: u32) -> bool {
    matches!(opcode, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT)
}

pub(crate) fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Answers the request `id`. Errors are ignored: the requesting program may have ended.
pub(crate) fn send_reply(device: &File, id: u64, error: i32, body: &[u8]) {
    let mut reply = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
    reply.extend(error.to_ne_bytes());
    reply.extend(id.to_ne_bytes());
    reply.extend(body);
    let _ = rustix::io::write(device, &reply);
}

/// Returns the answer to INIT: version 7.31, no read-ahead, big writes, longest write of 128 KiB.
pub(crate) fn init_reply() -> Vec<u8> {
    let words = [7, 31, 0, 1 << 5, 0, 128 << 10, 1, 0];
    let mut body: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
    body.resize(64, 0);
    body
}

/// Returns the attributes of a file, or of a directory.
pub(crate) fn attributes(node: u64, size: u64, mode: u32) -> Vec<u8> {
    // Inode, size, blocks, three times; then their nanoseconds, mode, links, owner, group, device, block
    // size, flags.
    let mut all: Vec<u8> =
        [node, size, size.div_ceil(512), 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let words: [u32; 10] = [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0];
    all.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    all
}

impl State {
    fn answer(&mut self, request: &[u8]) {
        let (opcode, id, node) = (number(request, 4), long(request, 8), long(request, 16));
        if is_silent(opcode) {
            return;
        }
        let result = self.result(opcode, node, &request[40..]);
        let (error, body) = match result {
            Ok(body) => (0, body),
            Err(errno) => (-errno.raw_os_error(), Vec::new()),
        };
        send_reply(&self.device, id, error, &body);
    }

    fn result(&mut self, opcode: u32, node: u64, fields: &[u8]) -> Result<Vec<u8>, rustix::io::Errno> {
        use rustix::io::Errno;
        Ok(match opcode {
            opcode::INIT => init_reply(),
            opcode::LOOKUP if node == ROOT && fields == b"file\0" => {
                let mut body = FILE.to_ne_bytes().to_vec();
                // Generation, and times for which entry and attributes may be cached: zero.
                body.resize(40, 0);
                body.extend(self.attributes(FILE));
                body
            }
            opcode::LOOKUP => return Err(Errno::NOENT),
            opcode::GETATTR | opcode::SETATTR => {
                const SIZE: u32 = 1 << 3;
                if opcode == opcode::SETATTR && node == FILE && number(fields, 0) & SIZE != 0 {
                    self.content.resize(usize::try_from(long(fields, 16)).unwrap(), 0);
                }
                let mut body = vec![0; 16];
                body.extend(self.attributes(node));
                body
            }
            opcode::OPEN | opcode::OPENDIR => {
                // The file is not cached (FOPEN_DIRECT_IO).
                let mut body = vec![0; 16];
                body[8..12].copy_from_slice(&1_u32.to_ne_bytes());
                body
            }
            opcode::READ if node == FILE => {
                std::thread::sleep(self.read_time);
                self.reads += 1;
                let at = usize::try_from(long(fields, 8)).unwrap();
                let rest = self.content.get(at..).unwrap_or_default();
                let read = rest[..rest.len().min(number(fields, 16) as usize)].to_vec();
                match self.on_read {
                    Some(OnRead::Grow) => self.content.extend(b"another line\n"),
                    Some(OnRead::Shrink) => self.content.truncate(self.content.len() / 2),
                    None => {}
                }
                read
            }
            opcode::WRITE if node == FILE => {
                std::thread::sleep(self.write_time);
                let (at, length) = (usize::try_from(long(fields, 8)).unwrap(), number(fields, 16));
                let data = &fields[40..40 + length as usize];
                self.content.resize(self.content.len().max(at + data.len()), 0);
                self.content[at..at + data.len()].copy_from_slice(data);
                [length, 0].iter().flat_map(|word| word.to_ne_bytes()).collect()
            }
            opcode::FLUSH if !self.knows_flush => return Err(Errno::NOSYS),
            opcode::STATFS => vec![0; 80],
            opcode::RELEASE | opcode::RELEASEDIR | opcode::FLUSH | opcode::FSYNC => Vec::new(),
            _ => return Err(Errno::NOSYS),
        })
    }

    fn attributes(&self, node: u64) -> Vec<u8> {
        let (size, mode) = if node == FILE { (self.content.len() as u64, 0o100_644) } else { (0, 0o040_755) };
        attributes(node, size, mode)
    }
}
