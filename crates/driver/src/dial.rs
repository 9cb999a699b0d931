//! Non-blocking connects to forward targets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use lh_sys::forward_lookup::Family;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, connect, sockopt};

use crate::handler::Source;
use crate::poller::{Interest, Interests, Ready};
use crate::{ControlCx, Resolver};

/// Retry interval for a Unix socket whose accept queue is full: connect fails at once, and no event reports
/// free space.
const UNIX_PAUSE: Duration = Duration::from_millis(20);
/// Time limit of these retries.
const UNIX_TIMEOUT: Duration = Duration::from_secs(10);

/// Target of a connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A TCP port of a host.
    Tcp {
        /// Host name or address.
        host: String,
        /// Port number.
        port: u16,
    },
    /// Path of a Unix socket.
    Unix(PathBuf),
}

/// Callback that gets the socket, or the error of the last address tried.
type Done = Box<dyn FnOnce(io::Result<OwnedFd>, &mut ControlCx<'_>)>;

/// Connects to `target` and calls `done`, maybe before this returns. TCP sockets get TCP_NODELAY. Only the
/// kernel limits the time.
pub fn dial(
    target: &Target,
    family: Family,
    resolver: &Resolver,
    cx: &mut ControlCx<'_>,
    done: impl FnOnce(io::Result<OwnedFd>, &mut ControlCx<'_>) + 'static,
) {
    let done: Done = Box::new(done);
    match target {
        Target::Tcp { host, port } => {
            resolver.resolve(host, *port, family, cx, move |answer, cx| match answer {
                Ok(addresses) => begin(addresses.into_iter().map(Address::Tcp).collect(), done, cx),
                Err(error) => done(Err(error), cx),
            });
        }
        Target::Unix(path) => match SocketAddrUnix::new(path) {
            Ok(address) => begin(vec![Address::Unix(address, cx.now() + UNIX_TIMEOUT)], done, cx),
            Err(error) => done(Err(error.into()), cx),
        },
    }
}

enum Address {
    Tcp(SocketAddr),
    /// Path, and the time until which connecting is retried while the queue is full.
    Unix(SocketAddrUnix, Instant),
}

/// A connect in progress.
struct Connecting {
    step: Step,
    /// Addresses to try, the next one last.
    rest: Vec<Address>,
    last_error: io::Error,
    done: Option<Done>,
}

enum Step {
    Next,
    Waiting(OwnedFd),
    Pause(Instant),
}

fn begin(mut addresses: Vec<Address>, done: Done, cx: &mut ControlCx<'_>) {
    addresses.reverse();
    let last_error = io::ErrorKind::NotFound.into();
    let mut connecting = Connecting { step: Step::Next, rest: addresses, last_error, done: Some(done) };
    connecting.proceed(cx);
    if !connecting.finished() {
        cx.add_source(Box::new(connecting));
    }
}

impl Connecting {
    fn proceed(&mut self, cx: &mut ControlCx<'_>) {
        while let Some(address) = self.rest.pop() {
            match try_one(&address) {
                Ok((socket, true)) => return self.end(Ok(socket), cx),
                Ok((socket, false)) => {
                    self.step = Step::Waiting(socket);
                    return;
                }
                Err(Errno::AGAIN) => {
                    if let Address::Unix(_, until) = &address
                        && Instant::now() < *until
                    {
                        self.rest.push(address);
                        self.step = Step::Pause(Instant::now() + UNIX_PAUSE);
                        return;
                    }
                    self.last_error = Errno::AGAIN.into();
                }
                Err(error) => self.last_error = error.into(),
            }
        }
        let error = std::mem::replace(&mut self.last_error, io::ErrorKind::NotFound.into());
        self.end(Err(error), cx);
    }

    fn end(&mut self, result: io::Result<OwnedFd>, cx: &mut ControlCx<'_>) {
        self.step = Step::Next;
        if let Some(done) = self.done.take() {
            done(result, cx);
        }
    }
}

/// Starts one connect. The flag is true when the socket is connected already.
fn try_one(address: &Address) -> Result<(OwnedFd, bool), Errno> {
    let (socket, result) = match address {
        Address::Tcp(address) => {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = lh_sys::socket::stream(family)?;
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            lh_sys::tuning::unpaced_within_machine(&socket, address);
            let result = connect(&socket, address);
            (socket, result)
        }
        Address::Unix(address, _) => {
            let socket = lh_sys::socket::stream(AddressFamily::UNIX)?;
            let result = connect(&socket, address);
            (socket, result)
        }
    };
    match result {
        Ok(()) => Ok((socket, true)),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok((socket, false)),
        Err(error) => Err(error),
    }
}

impl Source for Connecting {
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if let Step::Waiting(socket) = &self.step {
            out.add(0, socket.as_fd(), Interest::WRITE);
        }
    }

    fn on_ready(&mut self, _token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        let Step::Waiting(socket) = std::mem::replace(&mut self.step, Step::Next) else { return };
        match sockopt::socket_error(&socket) {
            Ok(Ok(())) => self.end(Ok(socket), cx),
            Ok(Err(error)) | Err(error) => {
                self.last_error = error.into();
                self.proceed(cx);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        match self.step {
            Step::Pause(until) => Some(until),
            _ => None,
        }
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        self.step = Step::Next;
        self.proceed(cx);
    }

    fn finished(&self) -> bool {
        self.done.is_none()
    }
}
