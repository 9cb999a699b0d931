//! A relay that breaks connections after a number of bytes: by a reset, silence, or a stall.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};

use crate::uninterrupted;

/// Time-out that makes a call return at once.
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Kind of break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Both ends get a reset.
    Reset,
    /// No more bytes pass, and neither end is notified.
    Silence,
    /// Both ends see the end of the stream.
    End,
    /// The connection stays open, and this number of bytes passes each second in each direction.
    Slow(usize),
}

/// A relay in front of a server that breaks connections.
pub struct Cuts {
    /// Loopback port that leads to the server.
    pub port: u16,
    connections: Arc<AtomicUsize>,
    broken: Arc<AtomicUsize>,
    /// Silent connections, kept open until the relay is dropped.
    silent: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cuts {
    /// Starts a relay to the server on port `to`. Each connection breaks as the next entry of `plan`
    /// describes, after this many bytes of both directions together. After the last entry, no connection
    /// breaks. If a connection ends by itself, its entry applies to the next one.
    pub fn to(to: u16, plan: Vec<(u64, Break)>) -> Self {
        Self::to_each(std::iter::repeat(to), plan)
    }

    /// Like [`to`](Self::to), with the server's port for each connection.
    pub fn to_each(mut ports: impl Iterator<Item = u16> + Send + 'static, plan: Vec<(u64, Break)>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        if plan.iter().any(|(_, how)| matches!(how, Break::Slow(_))) {
            // With a small buffer, TCP reports progress to the client every few bytes, as on a slow path.
            // With a large one it would report half the buffer at a time. Accepted sockets inherit this
            // setting.
            set_socket_recv_buffer_size(&listener, 2048).expect("a small buffer");
        }
        let port = listener.local_addr().expect("an address").port();
        let cuts = Self { port, connections: Arc::default(), broken: Arc::default(), silent: Arc::default() };
        let (connections, broken) = (Arc::clone(&cuts.connections), Arc::clone(&cuts.broken));
        let silent = Arc::clone(&cuts.silent);
        let plan = Arc::new(Mutex::new(VecDeque::from(plan)));
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Some(to) = ports.next() else { return };
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                connections.fetch_add(1, Ordering::AcqRel);
                let cut = plan.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let plan = Arc::clone(&plan);
                let (broken, silent) = (Arc::clone(&broken), Arc::clone(&silent));
                thread::spawn(move || {
                    let end = pass(&near, &far, cut);
                    broken.fetch_add(usize::from(end.is_some()), Ordering::AcqRel);
                    match end {
                        Some(Break::Reset) => {
                            for socket in [&near, &far] {
                                let _ = set_socket_linger(socket, Some(Duration::ZERO));
                            }
                        }
                        Some(Break::Silence) => {
                            silent.lock().unwrap_or_else(PoisonError::into_inner).extend([near, far]);
                        }
                        Some(Break::Slow(rate)) => trickle(&near, &far, rate),
                        Some(Break::End) => {}
                        None => {
                            if let Some(cut) = cut {
                                plan.lock().unwrap_or_else(PoisonError::into_inner).push_front(cut);
                            }
                        }
                    }
                });
            }
        });
        cuts
    }

    /// Number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// Number of connections that the relay has broken.
    pub fn broken(&self) -> usize {
        self.broken.load(Ordering::Acquire)
    }
}

/// Passes bytes on slowly until an end closes.
fn trickle(near: &TcpStream, far: &TcpStream, rate: usize) {
    let mut buffer = vec![0; (rate / 4).max(1)];
    loop {
        thread::sleep(Duration::from_millis(250));
        let mut fds = [near, far].map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
        if poll(&mut fds, Some(&NOW)).is_err() {
            continue;
        }
        let ready = fds.map(|fd| !fd.revents().is_empty());
        for (is_ready, mut from, mut to) in [(ready[0], near, far), (ready[1], far, near)] {
            if !is_ready {
                continue;
            }
            match uninterrupted(|| from.read(&mut buffer)) {
                Ok(n) if n > 0 && to.write_all(&buffer[..n]).is_ok() => {}
                _ => return,
            }
        }
    }
}

/// Passes bytes on until an end closes, or the connection must break.
fn pass(near: &TcpStream, far: &TcpStream, cut: Option<(u64, Break)>) -> Option<Break> {
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let mut left = cut.map_or(u64::MAX, |(bytes, _)| bytes);
    let mut buffer = vec![0; 64 * 1024];
    if left == 0 {
        return cut.map(|(_, how)| how);
    }
    loop {
        let mut fds = [near, far].map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let ready = fds.map(|fd| !fd.revents().is_empty());
        for (is_ready, mut from, mut to) in [(ready[0], near, far), (ready[1], far, near)] {
            if !is_ready {
                continue;
            }
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match uninterrupted(|| from.read(&mut buffer[..most])) {
                Ok(0) | Err(_) => return None,
                Ok(n) => {
                    to.write_all(&buffer[..n]).ok()?;
                    left -= n as u64;
                }
            }
            if left == 0 {
                return cut.map(|(_, how)| how);
            }
        }
    }
}
