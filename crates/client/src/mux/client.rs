//! The mux client: sends requests to a master, passes descriptors, waits for the end. All calls block,
//! because there is nothing else to do.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use lh_config::forward::Forward;
use lh_driver::Target;
use lh_sys::errno_text;

use super::wire::{self, Kind, MasterMessage, NewSession, Reply, Request};

/// Time limit for the master's greeting; one that exceeds it is stopped or stuck.
const GREETING_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a master's request failed.
#[derive(Debug, thiserror::Error)]
pub enum MuxError {
    /// The control connection failed.
    #[error("{}", errno_text(.0))]
    Io(#[from] io::Error),
    /// The master broke the protocol.
    #[error("master said something unexpected: {0}")]
    Protocol(String),
    /// The master speaks another version.
    #[error("unsupported multiplexing protocol version {0} (expected {version})", version = wire::VERSION)]
    Version(u32),
    /// The master does not permit the request.
    #[error("{0}")]
    Denied(String),
    /// The master could not carry out the request.
    #[error("{0}")]
    Failed(String),
}

impl MuxError {
    /// True if the master did not answer in time; it may still do what it was asked.
    pub fn is_timeout(&self) -> bool {
        // A socket's time limit is reported as the first of the two on Linux.
        matches!(self, Self::Io(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }
}

/// Why no master is reachable at a path.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The path does not exist.
    #[error("{}", errno_text(.0))]
    Missing(io::Error),
    /// The path is a socket without a listener: its master has ended.
    #[error("{}", errno_text(.0))]
    Stale(io::Error),
    /// The path is too long for a socket. OpenSSH treats this as a mistake in the configuration.
    #[error("ControlPath too long ('{0}' >= {limit} bytes)", limit = LONGEST_PATH + 1)]
    TooLong(String),
    /// Any other error.
    #[error("{}", errno_text(.0))]
    Other(io::Error),
}

/// Longest path of a socket, bytes: the kernel's `sun_path` holds a null byte behind it.
const LONGEST_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// The end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The session's program ended with this exit status.
    Exit(u32),
    /// The master has exited, or the program was killed.
    Lost,
}

/// A connection to a master.
#[derive(Debug)]
pub struct MuxClient {
    socket: UnixStream,
    next: u32,
    pid: u32,
    /// The master answers [`Request::Information`].
    information: bool,
}

impl MuxClient {
    /// Connects, without a greeting.
    ///
    /// # Errors
    /// No master is reachable.
    pub fn connect(path: &Path) -> Result<Self, ConnectError> {
        if path.as_os_str().len() > LONGEST_PATH {
            return Err(ConnectError::TooLong(path.display().to_string()));
        }
        let socket = UnixStream::connect(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ConnectError::Missing(error),
            io::ErrorKind::ConnectionRefused => ConnectError::Stale(error),
            _ => ConnectError::Other(error),
        })?;
        Ok(Self { socket, next: 0, pid: 0, information: false })
    }

    /// Exchanges greetings and learns the master's process id.
    ///
    /// # Errors
    /// The master closes the connection (it belongs to another user), does not reply, or speaks another
    /// version.
    pub fn greet(&mut self) -> Result<(), MuxError> {
        let (id, greeting) = self.greeting();
        self.socket.write_all(&greeting)?;
        self.receive_greeting(id)
    }

    /// Like [`greet`](Self::greet) and [`open_session`](Self::open_session), without waiting in between: that
    /// would be most of the time that a short command takes over a master.
    ///
    /// # Errors
    /// The outer ones are those of [`greet`](Self::greet), the inner ones those of
    /// [`open_session`](Self::open_session).
    pub fn greet_and_open_session(
        &mut self,
        session: NewSession,
        descriptors: [BorrowedFd<'_>; 3],
    ) -> Result<Result<u32, MuxError>, MuxError> {
        let (id, mut greeting) = self.greeting();
        let session_id = self.next_id();
        put_message(&mut greeting, &Request::NewSession(Box::new(session)).encode(session_id));
        self.socket.set_write_timeout(Some(GREETING_TIMEOUT))?;
        let sent = self.send_with_descriptors(&greeting, &descriptors);
        self.socket.set_write_timeout(None)?;
        // A master that does not serve this client may have closed the connection before all was sent. What
        // it said before that tells why.
        self.receive_greeting(id)?;
        Ok(sent.map_err(MuxError::from).and_then(|()| self.opened(session_id)))
    }

    /// Returns the greeting, and the id that its reply has. A master of another version closes the connection
    /// at the first of the two messages.
    fn greeting(&mut self) -> (u32, Vec<u8>) {
        let id = self.next_id();
        let mut framed = Vec::new();
        put_message(&mut framed, &wire::hello());
        put_message(&mut framed, &Request::Alive.encode(id));
        (id, framed)
    }

    fn receive_greeting(&mut self, id: u32) -> Result<(), MuxError> {
        self.socket.set_read_timeout(Some(GREETING_TIMEOUT))?;
        match self.receive()? {
            MasterMessage::Hello { version: wire::VERSION, information } => self.information = information,
            MasterMessage::Hello { version, .. } => return Err(MuxError::Version(version)),
            message => return Err(unexpected(&message)),
        }
        match self.reply(id)? {
            Reply::Alive(pid) => self.pid = pid,
            reply => return Err(unexpected(&reply)),
        }
        self.socket.set_read_timeout(None)?;
        Ok(())
    }

    /// Returns the master's process id.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the socket, to detect the master's end in a poll.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks the master to exit (`-O exit`).
    ///
    /// # Errors
    /// The master refuses, or has exited.
    pub fn terminate(&mut self) -> Result<(), MuxError> {
        match self.expect_ok(&Request::Terminate) {
            // OpenSSH's master exits before it sends a reply.
            Err(MuxError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            result => result,
        }
    }

    /// Asks the master to accept no further clients (`-O stop`).
    ///
    /// # Errors
    /// The master refuses, or has exited.
    pub fn stop_listening(&mut self) -> Result<(), MuxError> {
        self.expect_ok(&Request::StopListening)
    }

    /// Returns the master's lines about the connection or its channels (`-O conninfo`, `-O channels`).
    ///
    /// # Errors
    /// The master cannot answer, or has exited.
    pub fn information(&mut self, what: &str) -> Result<String, MuxError> {
        if !self.information {
            return Err(MuxError::Failed("information request not supported by the master".to_owned()));
        }
        match self.ask(&Request::Information(what.to_owned()))? {
            Reply::Information(text) => Ok(text),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Switches to proxy mode (`-O proxy`): from here on the socket carries messages of the connection
    /// protocol.
    ///
    /// # Errors
    /// The master cannot do it, or has exited.
    pub fn into_proxy(mut self) -> Result<UnixStream, MuxError> {
        match self.ask(&Request::Proxy)? {
            Reply::Proxy => Ok(self.socket),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Adds a forward; returns the port if the server chose it.
    ///
    /// # Errors
    /// The forward failed.
    pub fn open_forward(&mut self, kind: Kind, forward: &Forward) -> Result<Option<u16>, MuxError> {
        match self.ask(&Request::OpenForward(kind, forward.clone()))? {
            Reply::Ok => Ok(None),
            Reply::RemotePort(port) => Ok(Some(port)),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Removes a forward.
    ///
    /// # Errors
    /// There is no such forward.
    pub fn close_forward(&mut self, kind: Kind, forward: &Forward) -> Result<(), MuxError> {
        self.expect_ok(&Request::CloseForward(kind, forward.clone()))
    }

    /// Starts a session with these descriptors as standard input, output and error.
    ///
    /// # Errors
    /// The master or the server refuses it.
    pub fn open_session(
        &mut self,
        session: NewSession,
        descriptors: [BorrowedFd<'_>; 3],
    ) -> Result<u32, MuxError> {
        self.open(&Request::NewSession(Box::new(session)), &descriptors)
    }

    /// Connects these descriptors, input and output, to `target` (`-W`).
    ///
    /// # Errors
    /// The master or the server refuses it.
    pub fn open_stdio(&mut self, target: &Target, descriptors: [BorrowedFd<'_>; 2]) -> Result<u32, MuxError> {
        self.open(&Request::StdioForward(target.clone()), &descriptors)
    }

    fn open(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<u32, MuxError> {
        let (id, framed) = self.framed(request);
        self.send_with_descriptors(&framed, descriptors)?;
        self.opened(id)
    }

    fn send_with_descriptors(&mut self, framed: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.socket.write_all(framed)?;
        descriptors.iter().try_for_each(|descriptor| lh_sys::pass::send_fd(&self.socket, *descriptor))
    }

    fn opened(&mut self, id: u32) -> Result<u32, MuxError> {
        match self.reply(id)? {
            Reply::SessionOpened(session) => Ok(session),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Waits for the next message about the session. `Ok(None)` means that it gets no terminal.
    ///
    /// # Errors
    /// The master broke the protocol.
    pub fn next(&mut self, session: u32) -> Result<Option<Ended>, MuxError> {
        loop {
            match self.receive() {
                Ok(MasterMessage::Exit(id, status)) if id == session => return Ok(Some(Ended::Exit(status))),
                Ok(MasterMessage::NoTerminal(id)) if id == session => return Ok(None),
                Ok(MasterMessage::Unknown(_)) => {}
                Ok(message) => return Err(unexpected(&message)),
                Err(MuxError::Io(_)) => return Ok(Some(Ended::Lost)),
                Err(error) => return Err(error),
            }
        }
    }

    fn expect_ok(&mut self, request: &Request) -> Result<(), MuxError> {
        match self.ask(request)? {
            Reply::Ok => Ok(()),
            reply => Err(unexpected(&reply)),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, MuxError> {
        let id = self.request(request)?;
        self.reply(id)
    }

    fn request(&mut self, request: &Request) -> Result<u32, MuxError> {
        let (id, framed) = self.framed(request);
        self.socket.write_all(&framed)?;
        Ok(id)
    }

    /// Returns a request as it is sent, and the id that its reply has.
    fn framed(&mut self, request: &Request) -> (u32, Vec<u8>) {
        let id = self.next_id();
        let mut framed = Vec::new();
        put_message(&mut framed, &request.encode(id));
        (id, framed)
    }

    const fn next_id(&mut self) -> u32 {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        id
    }

    fn reply(&mut self, id: u32) -> Result<Reply, MuxError> {
        match self.receive()? {
            MasterMessage::Reply(to, Reply::PermissionDenied(why)) if to == id => Err(MuxError::Denied(why)),
            MasterMessage::Reply(to, Reply::Failure(why)) if to == id => Err(MuxError::Failed(why)),
            MasterMessage::Reply(to, reply) if to == id => Ok(reply),
            message => Err(unexpected(&message)),
        }
    }

    fn receive(&mut self) -> Result<MasterMessage, MuxError> {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > wire::MESSAGE_MAX {
            return Err(MuxError::Protocol(format!("a message of {length} bytes")));
        }
        let mut message = vec![0; length];
        self.socket.read_exact(&mut message)?;
        MasterMessage::decode(&message).map_err(|error| MuxError::Protocol(error.to_string()))
    }
}

/// Appends a message, with its length before it.
fn put_message(framed: &mut Vec<u8>, message: &[u8]) {
    lh_wire::Writer::put_string(framed, message);
}

fn unexpected(message: &dyn std::fmt::Debug) -> MuxError {
    MuxError::Protocol(format!("{message:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Runs `master` on the accepted connection, and a client's greeting and request on the other end.
    fn open_session(master: impl FnOnce(UnixStream) + Send) -> Result<Result<u32, MuxError>, MuxError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("master");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::scope(|scope| {
            let served = scope.spawn(move || master(listener.accept().unwrap().0));
            let mut client = MuxClient::connect(&path).unwrap();
            let null = lh_sys::fd::null().unwrap();
            let session = NewSession { command: b"true".to_vec(), ..NewSession::default() };
            let opened = client.greet_and_open_session(session, [null.as_fd(), null.as_fd(), null.as_fd()]);
            served.join().unwrap();
            opened
        })
    }

    fn read_message(mut socket: &UnixStream) -> Vec<u8> {
        let mut length = [0; 4];
        socket.read_exact(&mut length).unwrap();
        let mut message = vec![0; u32::from_be_bytes(length) as usize];
        socket.read_exact(&mut message).unwrap();
        message
    }

    /// Takes the descriptors of the standard streams that follow a request for a session.
    fn take_streams(socket: &UnixStream) {
        for _ in 0..3 {
            assert!(lh_sys::pass::wait_for_fd(socket).unwrap().is_some());
        }
    }

    fn say(mut socket: &UnixStream, messages: &[Vec<u8>]) {
        let mut framed = Vec::new();
        messages.iter().for_each(|message| put_message(&mut framed, message));
        socket.write_all(&framed).unwrap();
    }

    #[test]
    fn session_is_requested_without_waiting_for_the_greeting() {
        let opened = open_session(|socket| {
            // A client that waited would wait forever here.
            socket.set_read_timeout(Some(GREETING_TIMEOUT)).unwrap();
            assert_eq!(wire::read_hello(&read_message(&socket)).unwrap(), wire::VERSION);
            assert_eq!(Request::decode(&read_message(&socket)).unwrap(), (0, Some(Request::Alive)));
            let (id, request) = Request::decode(&read_message(&socket)).unwrap();
            assert!(matches!(request, Some(Request::NewSession(session)) if session.command == b"true"));
            take_streams(&socket);
            let alive = Reply::Alive(12).encode(0);
            say(&socket, &[wire::master_hello(), alive, Reply::SessionOpened(id + 6).encode(id)]);
        });
        assert_eq!(opened.unwrap().unwrap(), 7);
    }

    #[test]
    fn refused_session_is_told_from_a_refused_greeting() {
        let refused = Reply::PermissionDenied("no".to_owned()).encode(1);
        let opened = open_session(|socket| {
            // A master that closes its end with requests unread resets the connection.
            for _ in 0..3 {
                read_message(&socket);
            }
            take_streams(&socket);
            say(&socket, &[wire::master_hello(), Reply::Alive(12).encode(0), refused]);
        });
        assert!(matches!(opened, Ok(Err(MuxError::Denied(why))) if why == "no"));
        assert!(matches!(open_session(drop), Err(MuxError::Io(_))));
    }

    #[test]
    fn master_of_another_version_is_named() {
        // It closes the connection at the client's greeting.
        let opened = open_session(|socket| {
            let mut hello = wire::hello();
            hello[7] = 9;
            say(&socket, &[hello]);
            read_message(&socket);
        });
        assert!(matches!(opened, Err(MuxError::Version(9))), "{opened:?}");
    }
}
