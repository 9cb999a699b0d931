//! `direct-tcpip`: the client asks for a connection from here to somewhere (`-W`, `-L`, ProxyJump).

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};

use lh_driver::{ChannelId, ChannelOptions, ControlCx, FdPump, Interest, Interests, LocalFd, Ready, Source};
use lh_wire::msg::open_failure;
use lh_wire::{Reader, WireError};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

/// Where the client wants to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Target {
    /// Reads the fields of the open (RFC 4254 section 7.2).
    pub(super) fn decode(fields: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(fields);
        let host = reader.text()?.to_owned();
        let port = u16::try_from(reader.u32()?).map_err(|_| WireError::Invalid { what: "port" })?;
        let _originator = (reader.string()?, reader.u32()?);
        reader.finish()?;
        Ok(Self { host, port })
    }
}

/// A connection on its way; it accepts or refuses its channel when that is decided.
pub(super) struct Connecting {
    channel: ChannelId,
    step: Step,
    rest: Vec<SocketAddr>,
    last_error: io::Error,
}

enum Step {
    /// A thread asks the resolver, which may take seconds. The socket wakes us.
    Resolving {
        wake: UnixStream,
        answer: Receiver<io::Result<Vec<SocketAddr>>>,
    },
    Connecting(OwnedFd),
    Done,
}

impl Connecting {
    /// Starts. Addresses need no resolver, so they are tried at once.
    pub(super) fn start(channel: ChannelId, target: &Target, cx: &mut ControlCx<'_>) -> Option<Self> {
        let last_error = io::Error::from(io::ErrorKind::NotFound);
        if let Ok(ip) = target.host.parse() {
            let rest = vec![SocketAddr::new(ip, target.port)];
            let mut connecting = Self { channel, step: Step::Done, rest, last_error };
            connecting.next(cx);
            return (!connecting.finished()).then_some(connecting);
        }
        match resolve(target) {
            Ok(step) => Some(Self { channel, step, rest: Vec::new(), last_error }),
            Err(problem) => {
                cx.refuse(channel, open_failure::CONNECT_FAILED, &problem.to_string());
                None
            }
        }
    }

    /// Tries the next address; with none left the channel is refused.
    fn next(&mut self, cx: &mut ControlCx<'_>) {
        while !self.rest.is_empty() {
            let address = self.rest.remove(0);
            match begin(address) {
                Ok(socket) => {
                    self.step = Step::Connecting(socket);
                    return;
                }
                Err(error) => self.last_error = error,
            }
        }
        self.step = Step::Done;
        let text = self.last_error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        cx.refuse(self.channel, open_failure::CONNECT_FAILED, text);
    }

    fn connected(&mut self, socket: OwnedFd, cx: &mut ControlCx<'_>) {
        let _ = lh_sys::socket::set_nodelay(&socket, true);
        match LocalFd::owned(socket) {
            Ok(fd) => {
                let pump = Box::new(FdPump::socket(fd));
                cx.accept(self.channel, &ChannelOptions::default(), b"", pump);
            }
            Err(problem) => cx.refuse(self.channel, open_failure::CONNECT_FAILED, &problem.to_string()),
        }
    }
}

fn resolve(target: &Target) -> io::Result<Step> {
    let (wake, waker) = UnixStream::pair()?;
    let (sender, answer) = channel();
    let (host, port) = (target.host.clone(), target.port);
    std::thread::Builder::new().name("resolve".to_owned()).spawn(move || {
        let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // Nobody listens any more when the connection has gone.
        let _ = sender.send(addresses);
        drop(waker);
    })?;
    Ok(Step::Resolving { wake, answer })
}

fn begin(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

impl Source for Connecting {
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        match &self.step {
            Step::Resolving { wake, .. } => out.add(0, wake.as_fd(), Interest::READ),
            Step::Connecting(socket) => out.add(0, socket.as_fd(), Interest::WRITE),
            Step::Done => {}
        }
    }

    fn on_ready(&mut self, _token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        match std::mem::replace(&mut self.step, Step::Done) {
            Step::Resolving { answer, .. } => {
                match answer.recv() {
                    Ok(Ok(addresses)) => self.rest = addresses,
                    Ok(Err(error)) => self.last_error = error,
                    Err(_) => {}
                }
                self.next(cx);
            }
            Step::Connecting(socket) => match sockopt::socket_error(&socket) {
                Ok(Ok(())) => self.connected(socket, cx),
                Ok(Err(error)) | Err(error) => {
                    self.last_error = error.into();
                    self.next(cx);
                }
            },
            Step::Done => {}
        }
    }

    fn finished(&self) -> bool {
        matches!(self.step, Step::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_wire::Writer;

    #[test]
    fn fields_of_the_open() {
        let mut fields = Vec::new();
        fields.put_string(b"example.org");
        fields.put_u32(443);
        fields.put_string(b"127.0.0.1");
        fields.put_u32(65_535);
        assert_eq!(Target::decode(&fields).unwrap(), Target { host: "example.org".to_owned(), port: 443 });
        assert!(Target::decode(&fields[..fields.len() - 1]).is_err());
        let mut fields = Vec::new();
        fields.put_string(b"h");
        fields.put_u32(70_000);
        fields.put_string(b"");
        fields.put_u32(0);
        assert!(Target::decode(&fields).is_err());
    }
}
