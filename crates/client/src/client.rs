//! A connection to a host: its login, its sessions, its event loop and its end.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use lh_config::client_table::ClientSettings;
use lh_driver::{
    ChannelHandler, ChannelId, ChannelOptions, Control, Driver, DriverError, Leave, LinkError, WindowPolicy,
};
use lh_sys::errno_text;
use rustix::event::{PollFd, PollFlags, poll};

use crate::AgentForward;
use crate::carrier::Carrier;
use crate::error::ClientError;
use crate::failure::{PeerName, link_failed};
use crate::farewell::{DISCONNECT_TIMEOUT, FAREWELL_TIMEOUT, LEAVE_ALONE, LEAVE_QUIET, LEAVE_TEXT, Watch};
use crate::log::Logger;
use crate::login::Needed;
use crate::login_setup::session_proof;
use crate::metrics::{Metered, Metrics};
use crate::options::Options;
use crate::pending::Pending;
use crate::resumable;
use crate::resume::{Joined, JoinedWatch, ResumeLimit, Resumed, Resuming};
use crate::service_quality::mark_packets;
use crate::session::{SessionChannel, SessionSetup};
use crate::ui::{LogLevel, UserInterface};
use crate::update_host_keys::HostKeyUpdate;

/// An authenticated connection.
pub struct Client {
    /// Kept so that a command ends with the connection, unless `resuming` has it. Dropped before the driver,
    /// as OpenSSH does it: a command that still writes gets its signal before its pipes close, and does not
    /// complain about them.
    carrier: Option<Carrier>,
    /// The session's resumption (`Resume`), where the server has offered it. Dropped before the driver, too.
    resuming: Option<Resuming>,
    driver: Driver,
    /// The resolved host, for messages.
    host: String,
    peer: PeerName,
    /// Peer of the TCP connection; `None` behind a proxy.
    address: Option<SocketAddr>,
    untrusted_host: bool,
    update: Option<HostKeyUpdate>,
    /// Connection metrics (`Metrics`).
    metrics: Option<Metrics>,
    /// Whether the logins, jump hosts included, have needed the user; `None` before the login.
    needed: Option<Needed>,
    /// The prepared login; `None` when it is done.
    pending: Option<Box<Pending>>,
    relayed: bool,
    /// Watches for signals between the login and the loop, where the server keeps the session.
    watch: Option<Watch>,
    /// Watches the path of a connection that has joined a session.
    joined: Option<JoinedWatch>,
}

impl Client {
    /// Returns a connection whose host key is checked but whose login has not begun.
    pub(crate) fn new(
        driver: Driver,
        pending: Pending,
        update: Option<HostKeyUpdate>,
        carrier: Option<Carrier>,
    ) -> Self {
        Self {
            driver,
            host: pending.options.config.host.clone(),
            peer: pending.peer.clone(),
            address: pending.address,
            untrusted_host: pending.untrusted,
            update,
            metrics: None,
            needed: None,
            pending: Some(Box::new(pending)),
            relayed: false,
            resuming: None,
            watch: None,
            joined: None,
            carrier,
        }
    }

    /// Returns a connection that another process, a mux master, has opened and authenticated.
    pub(crate) fn from_master(driver: Driver, options: &Options) -> Self {
        Self {
            driver,
            host: options.config.host.clone(),
            peer: PeerName::unknown(),
            address: None,
            untrusted_host: false,
            update: None,
            metrics: None,
            needed: None,
            pending: None,
            relayed: true,
            resuming: None,
            watch: None,
            joined: None,
            carrier: None,
        }
    }

    /// Logs in, unless that is done already or the connection belongs to a mux master.
    ///
    /// # Errors
    /// As [`connect`](crate::connect()).
    pub fn log_in(&mut self, ui: &mut dyn UserInterface) -> Result<(), ClientError> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        self.driver.send_early_data();
        let (needed, watch) = pending.log_in(self.driver.link(), &mut pending.options.log(ui))?;
        self.needed = Some(needed);
        self.driver.logged_in();
        self.resuming = Resuming::new(&pending, self.driver.link(), &mut self.carrier);
        if self.resuming.is_some() {
            self.watch = watch;
            self.driver.control().survive_breaks(None);
            if pending.options.config.server_alive_interval.duration().is_none() {
                let (interval, count) = resumable::KEEPALIVE;
                self.driver.set_keepalive(interval, count);
            }
        }
        if pending.options.ticket.is_some() {
            self.joined = Some(JoinedWatch::begin(&pending.options.resumptions, &self.driver.control()));
        }
        self.metrics = Metrics::start(&pending.options, self.driver.link());
        Ok(())
    }

    /// True if the connection belongs to a mux master, which then handles agent and X11 channels that the
    /// server opens.
    pub const fn is_relayed(&self) -> bool {
        self.relayed
    }

    /// True if another login to the same host needs no user, as far as this one tells: it took a key without
    /// a passphrase, an agent or Kerberos, not a password or a touch, at jump hosts too.
    pub fn may_log_in_again(&self) -> bool {
        self.needed == Some(Needed::Nobody)
    }

    /// Returns the event loop, to open channels, add sources and run.
    pub const fn driver(&mut self) -> &mut Driver {
        &mut self.driver
    }

    /// Opens a session channel. `handler` gets its data; the control gets the program's start and end as
    /// [`SessionNote`](crate::SessionNote)s.
    ///
    /// # Errors
    /// All channels are in use.
    pub fn open_session(
        &mut self,
        setup: SessionSetup,
        options: &ChannelOptions,
        handler: Box<dyn ChannelHandler>,
    ) -> Result<ChannelId, ClientError> {
        let handler = Box::new(SessionChannel::new(setup, handler));
        self.driver
            .control()
            .open("session", b"", options, handler)
            .map_err(|error| ClientError::Local(error.to_string()))
    }

    /// Promises the server that this connection will open no further session
    /// (`no-more-sessions@openssh.com`). An attacker who later controls this process can then run nothing at
    /// the server. Returns false if the server does not support it, or if the connection belongs to a mux
    /// master, which may open sessions for other clients.
    pub fn forgo_sessions(&mut self) -> bool {
        let known = self.driver.link().peer().limits().knows_no_more_sessions;
        let asked = known && !self.relayed;
        if asked {
            self.driver.control().global_request("no-more-sessions@openssh.com", false, b"");
        }
        asked
    }

    /// Runs the loop until the control or a handler stops it, and returns the exit status that they gave.
    ///
    /// # Errors
    /// The connection ended: [`ClientError::Lost`] with OpenSSH's words.
    pub fn run(&mut self, control: &mut dyn Control) -> Result<i32, ClientError> {
        let mut metered;
        let control: &mut dyn Control = match &mut self.metrics {
            Some(metrics) => {
                metered = Metered { inner: control, metrics };
                &mut metered
            }
            None => control,
        };
        let result = match &mut self.resuming {
            Some(resuming) => {
                resuming.begin();
                // Now the loop watches, or the program does; what is pending takes effect.
                self.watch = None;
                let result = self.driver.run(&mut Resumed { inner: control, resuming });
                if let Some(running) = resuming.end() {
                    self.close_early();
                    drop(running);
                    // The thread that has the signal ends the process.
                    loop {
                        std::thread::park();
                    }
                }
                result
            }
            None => match &mut self.joined {
                Some(watch) => self.driver.run(&mut Joined { inner: control, watch }),
                None => self.driver.run(control),
            },
        };
        result.map_err(|error| self.ended(&error))
    }

    /// Returns the error message for a connection that ended while channels were open.
    pub fn ended(&self, error: &DriverError) -> ClientError {
        let (host, at) = (&self.host, self.peer.text());
        // OpenSSH does not log the lines of level QUIET but writes them: `-q` does not hide them.
        let (level, text) = match error {
            DriverError::Link(LinkError::Closed { .. }) => {
                (LogLevel::Quiet, format!("Connection to {host} closed by remote host."))
            }
            DriverError::Link(LinkError::Io { source, .. }) => {
                let text = if source.kind() == std::io::ErrorKind::BrokenPipe {
                    format!("Connection to {host} closed by remote host.")
                } else {
                    format!("Read from remote host {host}: {}", errno_text(source))
                };
                (LogLevel::Quiet, text)
            }
            DriverError::Link(error) => return link_failed(error, &self.peer),
            DriverError::KeepaliveTimeout => {
                (LogLevel::Info, format!("Timeout, server {host} not responding."))
            }
            DriverError::Disconnected { reason, description } => {
                return crate::failure::disconnected(*reason, description, &self.peer);
            }
            error => (LogLevel::Info, format!("Connection to {at}: {error}")),
        };
        ClientError::lost(level, text)
    }

    /// Returns the host as resolved by the configuration.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Logs what becomes of a connection that breaks with `logger`, not to standard error.
    pub fn log_to(&mut self, logger: Logger) {
        if let Some(resuming) = &mut self.resuming {
            resuming.log_to(logger);
        }
    }

    /// Shows a line on the terminal while the session has no connection and the loop runs, where standard
    /// error is a terminal and messages are shown. `keys`: those that end the program, such as `^C`; with
    /// `None` there is no line. Sessions with a terminal (`Purpose::Terminal`) begin with `~.`, others with
    /// `None`.
    pub fn show_breaks(&mut self, keys: Option<&'static str>) {
        if let Some(resuming) = &mut self.resuming {
            resuming.show_breaks(keys);
        }
    }

    /// Limits for how long the session is kept when its connection breaks, until another limit replaces this
    /// one. Without effect where the session ends with its connection.
    pub fn limit_resumption(&mut self, limit: Box<dyn ResumeLimit>) {
        if let Some(resuming) = &mut self.resuming {
            resuming.limit_by(limit);
        }
    }

    /// Evaluates `ForwardAgent` for the sessions of this connection.
    pub fn agent_forward(&mut self, options: &Options, logger: Logger) -> AgentForward {
        let link = self.driver.link();
        let registered = link.peer_extension(lh_agent::names::AGENT_FORWARD) == Some(b"0");
        let session = session_proof(link);
        AgentForward::new(options, session, registered, logger)
    }

    /// Returns the peer of the TCP connection; `None` behind a proxy or jump host.
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Sets the packets' traffic class (`IPQoS`) of an authenticated connection, by its purpose. Without
    /// effect behind a proxy or jump host.
    pub fn mark_packets(&mut self, options: &Options) {
        if self.address.is_some() {
            mark_packets(options, self.driver.link());
        }
    }

    /// True if the host key was accepted only because checking is off: send nothing that an attacker in the
    /// middle must not learn.
    pub const fn host_is_untrusted(&self) -> bool {
        self.untrusted_host
    }

    /// Returns the handler for further host keys that the server announces (`UpdateHostKeys`); the caller
    /// passes it the control's events. `None` when this connection must not learn any keys.
    pub const fn take_host_key_update(&mut self) -> Option<HostKeyUpdate> {
        self.update.take()
    }

    /// Waits until `done` is readable, for a program that does something else after the login before it runs
    /// the loop. A signal that ends the process meanwhile ends the session, where the server would keep it:
    /// the server is told.
    pub fn wait_for(&mut self, done: BorrowedFd<'_>) {
        match &mut self.watch {
            Some(watch) => watch.wait_for(done, self.driver.link()),
            None => {
                let mut fds = [PollFd::from_borrowed_fd(done, PollFlags::IN)];
                while poll(&mut fds, None).is_err() {}
            }
        }
    }

    /// Ends the collection of signals that began with the login, because the caller collects them now, and
    /// has blocked them.
    pub fn signals_are_collected(&mut self) {
        self.watch.take().into_iter().for_each(Watch::hand_over);
    }

    /// Ends the collection of signals that began with the login, because the caller handles them now. Those
    /// that are pending take effect.
    pub fn signals_are_handled(&mut self) {
        self.watch = None;
    }

    /// Sends DISCONNECT and writes queued data, for at most a short time. Where the server has closed the
    /// connection before, or may have while it was silent, this is like [`close_early`](Self::close_early).
    pub fn close(&mut self) {
        self.leave(self.resuming.as_ref().is_some_and(Resuming::has_been_silent));
    }

    /// Like [`close`](Self::close), where sessions have not come to their end: the server may be sending, and
    /// much may be on its way. A server that would keep the session for another connection gets up to
    /// `FAREWELL_TIMEOUT` to hear of the end. It is told over a new connection where the present one does not
    /// deliver, or breaks: ^C at a terminal ends a `ProxyCommand` as well.
    pub fn close_early(&mut self) {
        self.leave(true);
    }

    /// `may_send`: the server may be sending, or may have lost the connection.
    fn leave(&mut self, may_send: bool) {
        let deadline = Instant::now() + FAREWELL_TIMEOUT;
        self.finish_metrics();
        if let Some(mut leaving) = self.driver.begin_leaving(LEAVE_TEXT, may_send, DISCONNECT_TIMEOUT) {
            let bound = if may_send { LEAVE_ALONE } else { LEAVE_QUIET };
            let state = self.driver.link().go_on_leaving(&mut leaving, bound);
            let is_told = !may_send && state != Leave::Broken;
            if let Some(resuming) = self.resuming.as_mut().filter(|_| !is_told) {
                resuming.leave_again(&mut self.driver, leaving, state, deadline);
            }
        }
        self.hang_up_attempts();
    }

    /// Ends attempts to resume the session: a command among them may ask for a password.
    fn hang_up_attempts(&self) {
        if let Some(resuming) = &self.resuming {
            resuming.hang_up_attempts();
        }
    }

    fn finish_metrics(&mut self) {
        if let Some(metrics) = &mut self.metrics {
            metrics.finish(&mut self.driver);
        }
    }
}

/// Returns the configuration of channel windows.
pub(crate) fn channels(settings: &ClientSettings) -> lh_connection::Config {
    let bulk_window = if *settings.hpn_disabled {
        WindowPolicy::configured(false, None)
    } else {
        WindowPolicy::configured(*settings.tcp_rcv_buf_poll, settings.hpn_buffer_size.bytes())
    };
    lh_connection::Config { bulk_window, ..lh_connection::Config::default() }
}
