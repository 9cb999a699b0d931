//! One session of the load generator: a non-blocking socket and the protocol's state machines.

use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use lh_auth::client::{Client as Login, Event as LoginEvent};
use lh_connection::{
    ChannelId, ChannelOptions, Config as ConnectionConfig, Connection, Event as ConnectionEvent,
};
use lh_crypto::{PrivateKey, SystemRandom};
use lh_transport::{AcceptedHostKey, Config, Event, Transport};
use lh_wire::{PacketSink, Writer};

/// Type of the user's key, and its signature algorithm.
const ALGORITHM: &str = "ssh-ed25519";

/// Bytes that an upload keeps ready for its socket.
const READY: usize = 256 << 10;

/// Time between the echo of a keystroke and the next keystroke.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// Data of uploads.
static ZEROS: [u8; 32 << 10] = [0; 32 << 10];

/// Activity of a session after its login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Receives zeros without end.
    Download,
    /// Sends zeros without end.
    Upload,
    /// A terminal that does nothing.
    Idle,
    /// A terminal at which a key is pressed after each echo of the previous one.
    Keys,
}

impl Task {
    const fn command(self) -> &'static str {
        match self {
            Self::Download => "exec cat /dev/zero",
            Self::Upload => "exec cat > /dev/null",
            // `cat` in raw mode: one key, one echo.
            Self::Idle | Self::Keys => "stty raw -echo; echo ready; exec cat",
        }
    }

    const fn has_terminal(self) -> bool {
        matches!(self, Self::Idle | Self::Keys)
    }
}

/// User name and key of all sessions.
pub(crate) struct Account<'a> {
    pub(crate) user: &'a str,
    pub(crate) key: &'a PrivateKey,
}

/// A session.
pub(super) struct Session<'a> {
    account: &'a Account<'a>,
    task: Task,
    stream: TcpStream,
    transport: Transport,
    login: Option<Login>,
    connection: Option<Connection>,
    channel: Option<ChannelId>,
    /// The command runs.
    runs: bool,
    /// Bytes of data received and sent.
    moved: u64,
    pressed: Option<Instant>,
    next_key: Option<Instant>,
    /// Time from each key to its echo.
    echoes: Vec<Duration>,
}

impl<'a> Session<'a> {
    /// Connects to a server. `cipher` is the only one offered.
    pub(super) fn connect(
        server: (&str, u16),
        account: &'a Account<'a>,
        task: Task,
        cipher: &str,
    ) -> Result<Self, String> {
        let stream = TcpStream::connect(server).map_err(|error| format!("connect: {error}"))?;
        stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true))
            .map_err(|error| format!("socket: {error}"))?;
        let mut config = Config::client();
        config.algorithms.cipher_c2s = vec![cipher.to_owned()];
        config.algorithms.cipher_s2c = vec![cipher.to_owned()];
        Ok(Self {
            account,
            task,
            stream,
            transport: Transport::new(config, Box::new(SystemRandom), Instant::now()),
            login: None,
            connection: None,
            channel: None,
            runs: false,
            moved: 0,
            pressed: None,
            next_key: None,
            echoes: Vec::new(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(super) const fn task(&self) -> Task {
        self.task
    }

    /// True when the command runs.
    pub(super) const fn runs(&self) -> bool {
        self.runs
    }

    /// Bytes of data so far.
    pub(super) const fn moved(&self) -> u64 {
        self.moved
    }

    /// Takes the times from key to echo since the last call.
    pub(super) fn take_echoes(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.echoes)
    }

    /// Reads what has arrived, acts on it, and writes as much as the socket takes. Returns true when there is
    /// more to write.
    pub(super) fn advance(&mut self) -> Result<bool, String> {
        let now = Instant::now();
        self.read()?;
        while let Some(event) = self.transport.poll(now).map_err(|error| error.to_string())? {
            self.on_event(event, now)?;
        }
        if self.task == Task::Upload && self.runs {
            self.send_zeros();
        }
        let waits = self.write(now)?;
        // Without a window there is nothing to write, until a message brings one.
        Ok(waits || (self.task == Task::Upload && self.runs && self.has_window()))
    }

    fn has_window(&self) -> bool {
        let (Some(id), Some(connection)) = (self.channel, &self.connection) else { return false };
        connection.send_budget(id) > 0
    }

    /// Presses a key when its time has come. Returns the time of the next one.
    pub(super) fn press_key(&mut self, now: Instant) -> Result<Option<Instant>, String> {
        if self.next_key.is_some_and(|at| at <= now)
            && let (Some(id), Some(connection)) = (self.channel, &mut self.connection)
        {
            self.next_key = None;
            self.pressed = Some(Instant::now());
            connection.send(id, None, b"x", &mut self.transport);
            self.write(now)?;
        }
        Ok(self.next_key)
    }

    fn read(&mut self) -> Result<(), String> {
        match self.stream.read(self.transport.recv_space()) {
            Ok(0) => Err("the server closed the connection".to_owned()),
            Ok(n) => {
                self.transport.received(n);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(format!("read: {error}")),
        }
    }

    fn write(&mut self, now: Instant) -> Result<bool, String> {
        self.transport.output(now);
        let mut slices: Vec<IoSlice<'_>> = Vec::new();
        self.transport.output_slices(&mut slices);
        if slices.is_empty() {
            return Ok(false);
        }
        match self.stream.write_vectored(&slices) {
            Ok(n) => self.transport.written(n),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(format!("write: {error}")),
        }
        Ok(self.transport.unsent_bytes() > 0)
    }

    fn send_zeros(&mut self) {
        let (Some(id), Some(connection)) = (self.channel, &mut self.connection) else { return };
        while self.transport.unsent_bytes() < READY && self.transport.can_send_bulk() {
            let n = connection.send_budget(id).min(ZEROS.len());
            let sent = connection.send(id, None, &ZEROS[..n], &mut self.transport);
            if sent == 0 {
                return;
            }
            self.moved += sent as u64;
            self.transport.output(Instant::now());
        }
    }

    fn on_event(&mut self, event: Event, now: Instant) -> Result<(), String> {
        match event {
            Event::HostKey { blob, .. } => {
                // The server is the benchmark's own.
                let accepted = AcceptedHostKey::dangerous_vouch_for(&blob);
                self.transport.host_key_accepted(&accepted).map_err(|error| error.to_string())
            }
            Event::KexDone { first: true, .. } => {
                let session = self.transport.session_id().unwrap_or_default();
                let mut login = Login::new(self.account.user, session, self.transport.host_key());
                login.start(&mut self.transport);
                self.login = Some(login);
                Ok(())
            }
            Event::Packet(payload) => match &mut self.connection {
                None => self.on_login(&payload),
                Some(connection) => {
                    connection
                        .handle(payload, now, &mut self.transport)
                        .map_err(|error| error.to_string())?;
                    self.on_connection(now)
                }
            },
            Event::Disconnected { .. } => Err("the server disconnected".to_owned()),
            _ => Ok(()),
        }
    }

    fn on_login(&mut self, payload: &[u8]) -> Result<(), String> {
        let Some(login) = &mut self.login else { return Err("a message before the keys".to_owned()) };
        match login.handle(payload).map_err(|error| error.to_string())? {
            LoginEvent::Ready => {
                let (key, blob) = (self.account.key, self.account.key.public().blob());
                let data = login.signature_data(ALGORITHM, blob);
                let signature = key.sign(ALGORITHM, &data).map_err(|error| error.to_string())?;
                login.signed_key(ALGORITHM, blob, &signature, &mut self.transport);
            }
            LoginEvent::Success => {
                self.transport.set_authenticated();
                let mut connection = Connection::new(ConnectionConfig::default());
                self.channel =
                    connection.open("session", b"", &ChannelOptions::default(), &mut self.transport).ok();
                self.connection = Some(connection);
            }
            LoginEvent::ChooseMethod { .. } | LoginEvent::Methods(_) => {
                return Err("the server refused the key".to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    fn on_connection(&mut self, now: Instant) -> Result<(), String> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let sink: &mut dyn PacketSink = &mut self.transport;
        while let Some(event) = connection.poll_event() {
            match event {
                ConnectionEvent::Opened { id, .. } => {
                    if self.task.has_terminal() {
                        connection.request(id, "pty-req", false, &terminal(), sink);
                    }
                    let mut command = Vec::new();
                    command.put_string(self.task.command().as_bytes());
                    connection.request(id, "exec", true, &command, sink);
                }
                ConnectionEvent::OpenFailed { description, .. } => {
                    return Err(format!("no session: {description}"));
                }
                ConnectionEvent::RequestReply { ok, .. } => {
                    if !ok {
                        return Err("the server refused the command".to_owned());
                    }
                    // A terminal is ready when its program reports it.
                    self.runs = !self.task.has_terminal();
                }
                ConnectionEvent::Data { id, data, .. } => {
                    connection.consumed(id, data.len(), now, sink);
                    if self.task.has_terminal() && !self.runs {
                        self.runs = data.contains(&b'y');
                        self.next_key = (self.task == Task::Keys && self.runs).then(|| now + PAUSE);
                    } else if let Some(pressed) = self.pressed.take() {
                        self.echoes.push(pressed.elapsed());
                        self.next_key = Some(now + PAUSE);
                    } else {
                        self.moved += data.len() as u64;
                    }
                }
                ConnectionEvent::Closed { .. } | ConnectionEvent::Eof { .. } => {
                    return Err("the command ended".to_owned());
                }
                ConnectionEvent::GlobalRequest { want_reply: true, .. } => {
                    connection.reply_global(false, b"", sink);
                }
                ConnectionEvent::OpenRequested { id, .. } => {
                    connection.refuse(id, 1, "not asked for", sink);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Fields of `pty-req`: 80 columns, 24 rows (RFC 4254, section 6.2).
fn terminal() -> Vec<u8> {
    let mut fields = Vec::new();
    fields.put_string(b"xterm");
    [80, 24, 0, 0].iter().for_each(|&number| fields.put_u32(number));
    fields.put_string(&[0]);
    fields
}
