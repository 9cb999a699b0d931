//! Descriptors whose bytes are sent to the peer, as they are or through a filter.

use std::io;

use crate::handler::ChannelCx;
use crate::local_fd::LocalFd;
use crate::share::MOST_PER_READ;

/// First and smallest read size; doubled while reads fill it. It fits the small buffers of an idle
/// connection.
const FIRST_READ: usize = 16 << 10;
/// Read size of a filtered input (typed or pasted text).
const FILTERED_READ: usize = 4 << 10;
/// Filtered bytes that may wait for the peer's window before reading stops. Reading continues while the
/// window is closed, so that an escape sequence can end a connection that hangs.
const FILTERED_MAX: usize = 64 << 10;

/// Filter for input before it is sent: the client's escape sequences.
pub trait InputFilter {
    /// Processes `input` as it was read and appends to `out` the bytes for the peer. Other effects go through
    /// `cx`.
    fn filter(&mut self, input: &[u8], out: &mut Vec<u8>, cx: &mut ChannelCx<'_>);

    /// True when the filter wants no more input, asked after each [`filter`](Self::filter). The descriptor is
    /// dropped, and the peer gets EOF after the bytes that passed.
    fn ended(&self) -> bool {
        false
    }
}

/// A descriptor whose bytes are sent to the peer.
pub(super) struct Input {
    /// `None` at its end.
    pub(super) fd: Option<LocalFd>,
    pub(super) ext: Option<u32>,
    /// Current read size.
    chunk: usize,
    /// Bytes read.
    pub(super) read: u64,
}

/// A filter, and the bytes that it has let through.
pub(super) struct Filtered {
    filter: Box<dyn InputFilter>,
    /// Filtered bytes that the peer's window has not taken yet.
    pub(super) waiting: Vec<u8>,
}

impl Input {
    pub(super) const fn new(fd: LocalFd, ext: Option<u32>) -> Self {
        Self { fd: Some(fd), ext, chunk: FIRST_READ, read: 0 }
    }

    /// Sends what can be read. Returns false when the budget is used up, so that
    /// [`ChannelHandler::on_writable`](crate::ChannelHandler::on_writable) will be called.
    pub(super) fn send_available(&mut self, cx: &mut ChannelCx<'_>) -> bool {
        loop {
            let budget = cx.budget();
            if budget == 0 {
                return false;
            }
            let want = budget.min(self.chunk);
            match self.read_to(want, cx) {
                Some(got) if got == want => self.chunk = (self.chunk * 2).min(MOST_PER_READ),
                Some(got) => {
                    if got < self.chunk / 4 {
                        self.chunk = (self.chunk / 2).max(FIRST_READ);
                    }
                    return true;
                }
                None => return true,
            }
        }
    }

    /// Reads up to `want` bytes into packets; `None` when none were available or the input has ended.
    fn read_to(&mut self, want: usize, cx: &mut ChannelCx<'_>) -> Option<usize> {
        let fd = self.fd.as_ref()?;
        let mut reservation = cx.reserve(self.ext, want)?;
        let result = fd.read_vectored(&mut reservation.slices());
        reservation.commit(*result.as_ref().unwrap_or(&0));
        self.note(result)
    }

    fn note(&mut self, result: io::Result<usize>) -> Option<usize> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            // Any other error ends the input.
            Ok(0) | Err(_) => {
                self.fd = None;
                None
            }
            Ok(n) => {
                self.read += n as u64;
                Some(n)
            }
        }
    }
}

impl Filtered {
    pub(super) const fn new(filter: Box<dyn InputFilter>) -> Self {
        Self { filter, waiting: Vec::new() }
    }

    /// True while more input may be read.
    pub(super) const fn has_room(&self) -> bool {
        self.waiting.len() < FILTERED_MAX
    }

    /// Sends what can be read and passes the filter.
    pub(super) fn read(&mut self, input: &mut Input, cx: &mut ChannelCx<'_>) {
        let mut buffer = [0; FILTERED_READ];
        while let Some(fd) = input.fd.as_ref().filter(|_| self.has_room()) {
            let result = fd.read_vectored(&mut [io::IoSliceMut::new(&mut buffer)]);
            let Some(n) = input.note(result) else { break };
            self.filter.filter(&buffer[..n], &mut self.waiting, cx);
            self.send(cx);
            if self.filter.ended() {
                input.fd = None;
            }
            if n < buffer.len() {
                break;
            }
        }
    }

    /// Sends what has passed the filter, as far as the peer's window allows.
    pub(super) fn send(&mut self, cx: &mut ChannelCx<'_>) {
        if !self.waiting.is_empty() {
            let sent = cx.send(&self.waiting);
            self.waiting.drain(..sent);
        }
    }
}
