//! A server at the other end of an SSH connection of this process.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_client::Start;
use lh_config::client::Request;
use lh_driver::{ChannelCx, ChannelEvent, ChannelHandler, ChannelId, Interest, Interests, Ready};
use lh_sftp_shell::{Carrier, Conversation, Watch, say};
use lh_ssh_transfer::Connection;
use lh_sys::signals;
use lh_sys::termios::is_in_foreground;
use lh_terminal::TerminalUi;
use lh_transfer::JobHandler;
use rustix::process::Signal;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// Subsystem or command of the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    /// A subsystem.
    Subsystem(String),
    /// A command.
    Command(Vec<u8>),
}

/// A conversation's channel.
pub(crate) struct Channel {
    connection: Connection,
    start: Start,
    /// Channels or connections that the user has asked for (`-j`).
    channels: Option<usize>,
    id: ChannelId,
    /// The driver of a copy that has begun, for the handler.
    next: Rc<Cell<Option<JobHandler>>>,
    /// The signal that ends this program.
    ended: Rc<Cell<Option<u8>>>,
    terminal: SavedTerminal,
    /// A user waits for the commands.
    has_user: bool,
    /// For messages about the connection.
    ui: TerminalUi,
}

/// Time for taking leave of the server when a signal ends this program. A command of this host may be
/// running.
const LEAVE: Duration = Duration::from_millis(3500);

/// The keys that end a program whose connection is lost.
const END_KEYS: &str = "^C";

/// The modes of the terminal before lines were edited on it, if standard input is one.
#[derive(Clone)]
struct SavedTerminal(Option<Termios>);

impl SavedTerminal {
    fn new() -> Self {
        Self(tcgetattr(std::io::stdin()).ok())
    }

    /// Sets the modes again: a signal may come in the middle of a line.
    fn restore(&self) {
        let stdin = std::io::stdin();
        // In the background, this would stop the program.
        if let Some(modes) = &self.0
            && is_in_foreground(&stdin).unwrap_or(false)
        {
            let _ = tcsetattr(&stdin, OptionalActions::Now, modes);
        }
    }
}

/// Ends this program because of a signal.
fn end_by(number: u8, terminal: &SavedTerminal) -> ! {
    terminal.restore();
    if i32::from(number) == Signal::QUIT.as_raw() {
        signals::end_by(Signal::QUIT);
    }
    std::process::exit(128 + i32::from(number))
}

/// Returns a socket on which a signal that ends this program arrives as its number. Without a word of
/// farewell the server would keep the session, for a client that may come back.
fn ending(terminal: SavedTerminal) -> Option<UnixStream> {
    let (ours, mut theirs) = UnixStream::pair().ok()?;
    ours.set_nonblocking(true).ok()?;
    let act = move |signal: Signal| {
        // A second signal ends the program at once, but for SIGHUP: a terminal that is closed sends it twice,
        // itself and by the shell.
        signals::restore_defaults(&[Signal::INT, Signal::TERM, Signal::QUIT]);
        let number = u8::try_from(signal.as_raw()).unwrap_or_default();
        let _ = theirs.write_all(&[number]);
        std::thread::sleep(LEAVE);
        end_by(number, &terminal);
    };
    // Those that are collected for the running command, as that of ^C may be, do not arrive here.
    signals::on_first(&lh_client::farewell::END_SIGNALS, act).ok()?;
    Some(ours)
}

/// Why there is no channel.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// No connection, no login or no session; the reason has been shown.
    #[error("Connection closed")]
    NoConnection,
}

/// Connects, opens the channel and logs in. INIT is sent with the login where the server allows it. Copies
/// use `channels` channels, if the user has set a number.
///
/// # Errors
/// Why there is no channel.
pub(crate) fn open(
    request: &Request,
    server: &Server,
    channels: Option<usize>,
    conversation: &Rc<RefCell<Conversation>>,
) -> Result<Channel, OpenError> {
    let start = match server {
        Server::Subsystem(name) => Start::Subsystem(name.clone()),
        Server::Command(command) => Start::Exec(command.clone()),
    };
    let watch = conversation.borrow().watch();
    let next = Rc::new(Cell::new(None));
    let (ending, ended) = (Rc::new(OnceCell::new()), Rc::new(Cell::new(None)));
    let handler = Handler {
        conversation: Rc::clone(conversation),
        watch,
        open: false,
        next: Rc::clone(&next),
        copy: None,
        ending: Rc::clone(&ending),
        ended: Rc::clone(&ended),
        was_away: false,
    };
    conversation.borrow_mut().wait_for_login();
    let mut ui = TerminalUi::default();
    let mut connection =
        Connection::connect_unauthenticated(request, &mut ui).ok_or(OpenError::NoConnection)?;
    let opened = connection.start_session(start.clone(), Box::new(handler), &mut ui);
    let id = opened.map_err(|error| {
        connection.report(&error, &mut ui);
        OpenError::NoConnection
    })?;
    {
        let mut conversation = conversation.borrow_mut();
        conversation.limit_wait_for_version(connection.version_timeout());
        conversation.logged_in(Instant::now());
    }
    // Until here a signal ends the program at once: a login may wait for the user.
    let terminal = SavedTerminal::new();
    if let Some(socket) = self::ending(terminal.clone()) {
        let _ = ending.set(socket);
    }
    connection.signals_are_handled();
    Ok(Channel { connection, start, channels, id, next, ended, terminal, has_user: false, ui })
}

impl Channel {
    /// Tells the user at the terminal while a command waits for a lost connection.
    pub(crate) fn tell_user(&mut self) {
        self.has_user = true;
    }
}

impl Carrier for Channel {
    fn run(&mut self, conversation: &Rc<RefCell<Conversation>>) {
        if conversation.borrow().settled() {
            return;
        }
        let copy = conversation.borrow().copy();
        let connector = copy.and_then(|(job, side)| {
            let (handler, connector) = self.connection.begin(&job, side, self.channels, &self.start);
            self.next.set(Some(handler));
            connector
        });
        // Not at the prompt, where ^C gives up a line.
        let is_command = self.has_user && !conversation.borrow().wants_console();
        self.connection.show_breaks(is_command.then_some(END_KEYS));
        let (result, control) = self.connection.run(Some(self.id), connector.clone());
        let refused = control.refused;
        if let Some(number) = self.ended.get() {
            self.connection.close_early();
            if self.has_user {
                // The cursor is behind ^C, or in the middle of a line.
                let _ = std::io::stderr().write_all(b"\r\n");
            }
            end_by(number, &self.terminal);
        }
        if let Some(request) = refused {
            self.connection.report_refusal(request, &mut self.ui);
        }
        if let Err(error) = result {
            if conversation.borrow().loss().is_none() {
                self.connection.report(&error, &mut self.ui);
            }
            conversation.borrow_mut().lose("Connection closed");
        }
        if refused.is_some() {
            conversation.borrow_mut().lose("Connection closed");
        }
        if let Some(connector) = connector {
            connector.end();
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.connection.close();
    }
}

struct Handler {
    conversation: Rc<RefCell<Conversation>>,
    watch: Rc<Watch>,
    open: bool,
    next: Rc<Cell<Option<JobHandler>>>,
    /// Drives the copy that uses the session.
    copy: Option<JobHandler>,
    /// See [`ending`]; empty before the login.
    ending: Rc<OnceCell<UnixStream>>,
    ended: Rc<Cell<Option<u8>>>,
    /// The session had no connection when this was last looked at.
    was_away: bool,
}

/// Tokens of the awaited descriptors.
const CONSOLE: usize = 0;
const SIGNALS: usize = 1;
const BELL: usize = 2;
const ENDING: usize = 3;

impl Handler {
    fn run(&mut self, cx: &mut ChannelCx<'_>) {
        self.run_with(cx, JobHandler::on_batch_end);
    }

    /// Advances the conversation. A running copy is notified by `pass_on`.
    fn run_with(
        &mut self,
        cx: &mut ChannelCx<'_>,
        pass_on: impl FnOnce(&mut JobHandler, &mut ChannelCx<'_>),
    ) {
        if self.open {
            if let Some(mut copy) = self.next.take() {
                copy.take_over(cx);
                self.copy = Some(copy);
                self.conversation.borrow_mut().begun();
            } else if let Some(copy) = self.copying() {
                pass_on(copy, cx);
            } else {
                let now = cx.now();
                let is_away = cx.is_away();
                let mut conversation = self.conversation.borrow_mut();
                if std::mem::replace(&mut self.was_away, is_away) || is_away {
                    // A server that cannot be reached is not silent.
                    conversation.extend_wait_for_version(now);
                }
                conversation.advance(cx, now);
            }
        }
        if self.conversation.borrow().settled() {
            cx.stop(0);
        }
    }

    /// The driver of the running copy.
    fn copying(&mut self) -> Option<&mut JobHandler> {
        if self.conversation.borrow().copy().is_none() {
            self.copy = None;
        }
        self.copy.as_mut()
    }

    /// Ends this program because of the signal of this number.
    fn end(&mut self, number: u8, cx: &mut ChannelCx<'_>) {
        self.ended.set(Some(number));
        self.lose("interrupted", cx);
    }

    fn lose(&mut self, reason: &str, cx: &mut ChannelCx<'_>) {
        self.open = false;
        self.conversation.borrow_mut().lose(reason);
        cx.stop(0);
    }
}

impl ChannelHandler for Handler {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            ChannelEvent::Opened { .. } => {
                self.open = true;
                let server = cx.peer_identification().map(str::to_owned);
                let own = cx.own_identification();
                self.conversation.borrow_mut().set_server(server.as_deref(), Some(&own));
                if cx.is_promised() {
                    self.conversation.borrow_mut().ask_home();
                }
                self.run(cx);
            }
            ChannelEvent::Data { ext: None, data } => {
                if let Some(copy) = self.copying() {
                    return copy.on_event(ChannelEvent::Data { ext: None, data }, cx);
                }
                let len = data.len();
                self.conversation.borrow_mut().received(data, cx.now());
                cx.consumed(len);
            }
            ChannelEvent::Data { ext: Some(_), data } => {
                let _ = std::io::stderr().write_all(&data);
                self.conversation.borrow_mut().extend_wait_for_version(cx.now());
                cx.consumed(data.len());
            }
            ChannelEvent::Eof | ChannelEvent::Closed => self.lose("Connection closed", cx),
            ChannelEvent::OpenFailed { description, .. } => {
                let text = lh_transfer::display_name(description.as_bytes());
                say(&format!("channel 0: open failed: {text}"));
                self.lose("Connection closed", cx);
            }
            ChannelEvent::Request { want_reply: true, .. } => cx.reply(false),
            _ => {}
        }
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.run(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.run(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if self.conversation.borrow().wants_console() {
            out.add(CONSOLE, self.watch.console(), Interest::READ);
        }
        if let Some(signals) = self.watch.signals() {
            out.add(SIGNALS, signals, Interest::READ);
        }
        if let Some(copy) = &self.copy {
            copy.bell_interest(BELL, out);
        }
        if let Some(ending) = self.ending.get() {
            out.add(ENDING, ending.as_fd(), Interest::READ);
        }
    }

    fn on_ready(&mut self, token: usize, _ready: Ready, cx: &mut ChannelCx<'_>) {
        match token {
            CONSOLE => self.conversation.borrow_mut().wake(),
            // A command that waits for the connection cannot end.
            SIGNALS if cx.is_away() => {
                if self.watch.take_signals() {
                    return self.end(Signal::INT.as_raw() as u8, cx);
                }
            }
            SIGNALS => self.conversation.borrow_mut().look_for_signals(),
            ENDING => {
                let mut number = [0];
                if self.ending.get().is_some_and(|mut ending| ending.read_exact(&mut number).is_ok()) {
                    let [number] = number;
                    return self.end(number, cx);
                }
            }
            _ => self.copy.iter().for_each(JobHandler::drain_notifications),
        }
        self.run(cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        // Before the channel is open there is nothing to advance.
        let of_copy = self.copy.as_ref().and_then(JobHandler::next_deadline);
        self.conversation.borrow().next_deadline().into_iter().chain(of_copy).min().filter(|_| self.open)
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.run_with(cx, JobHandler::on_timeout);
    }
}
