//! `-D`: the handshake with a local SOCKS client, before its channel exists.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use lh_driver::{ControlCx, Interest, Interests, LocalFd, Ready, Source, Target};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::socks::{Handshake, Outcome, Step, answer};
use super::state::Forwards;

/// Time limit for the client's SOCKS request; after it the connection is closed.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(120);

/// A SOCKS handshake in progress.
struct Negotiation {
    forwards: Forwards,
    /// The client's socket; `None` when the handshake is over.
    socket: Option<LocalFd>,
    from: Option<SocketAddr>,
    listening: String,
    handshake: Handshake,
    until: Instant,
}

impl Forwards {
    /// Runs the SOCKS handshake with a client of a dynamic forward, then opens the channel.
    pub(super) fn negotiate_socks(
        &self,
        socket: LocalFd,
        from: Option<SocketAddr>,
        listening: &str,
        cx: &mut ControlCx<'_>,
    ) {
        let negotiation = Negotiation {
            forwards: self.clone(),
            socket: Some(socket),
            from,
            listening: listening.to_owned(),
            handshake: Handshake::default(),
            until: cx.now() + HANDSHAKE_TIMEOUT,
        };
        cx.add_source(Box::new(negotiation));
    }
}

/// Sends a reply: a few bytes into an empty socket buffer. If they do not fit, the client is gone.
pub(super) fn reply(socket: &LocalFd, bytes: &[u8]) -> bool {
    bytes.is_empty()
        || send(socket, bytes, SendFlags::DONTWAIT | lh_sys::socket::NO_SIGNAL)
            .is_ok_and(|sent| sent == bytes.len())
}

impl Negotiation {
    /// Reads what the client sent. False when the handshake is over.
    fn step(&mut self, cx: &mut ControlCx<'_>) -> bool {
        let Some(socket) = &self.socket else { return false };
        let mut buffer = [0; 600];
        // Peeked first: bytes behind the request belong to the channel.
        let got = match recv(socket, &mut buffer, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok((got, _)) => got,
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Err(_) => return false,
        };
        let mut rest = &buffer[..got];
        loop {
            let step = self.handshake.feed(&mut rest);
            if !matches!(step, Step::Reply(_)) {
                let used = got - rest.len();
                let mut taken = [0; 600];
                if !recv(socket, &mut taken[..used], RecvFlags::DONTWAIT).is_ok_and(|(n, _)| n == used) {
                    return false;
                }
            }
            match step {
                Step::More => return true,
                Step::Reply(bytes) => {
                    if !reply(socket, &bytes) {
                        return false;
                    }
                }
                Step::Refuse(bytes) => {
                    reply(socket, &bytes);
                    return false;
                }
                Step::Request(request) => {
                    let Some(socket) = self.socket.take() else { return false };
                    let target = Target::Tcp { host: request.host, port: request.port };
                    let (version, answered) = (request.version, socket.clone());
                    self.forwards.open_direct(
                        &target,
                        self.from,
                        socket,
                        &self.listening,
                        cx,
                        move |ok, _| {
                            let outcome = if ok { Outcome::Connected } else { Outcome::Failed };
                            // A failed write means that the client is gone, which the channel will detect.
                            reply(&answered, &answer(version, outcome));
                        },
                    );
                    return false;
                }
            }
        }
    }
}

impl Source for Negotiation {
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if let Some(socket) = &self.socket {
            out.add(0, socket.as_fd(), Interest::READ);
        }
    }

    fn on_ready(&mut self, _token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        if !self.step(cx) {
            self.socket = None;
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.socket.as_ref().map(|_| self.until)
    }

    fn on_timeout(&mut self, _cx: &mut ControlCx<'_>) {
        self.socket = None;
    }

    fn finished(&self) -> bool {
        self.socket.is_none()
    }
}
