//! A connection for copies, and the control of its loop.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use lh_client::{
    AgentForward, Client, ClientError, LogLevel, Logger, NEWKEYS, Options as ClientOptions, SessionChannel,
    SessionNote, SessionSetup, Start, TICKET_REQUEST, answer_by_default, connect_or_share_unauthenticated,
    connect_unauthenticated, remote_debug,
};
use lh_config::client::Request;
use lh_driver::{ChannelHandler, ChannelId, ChannelOptions, Control, ControlCx, ControlEvent};
use lh_terminal::TerminalUi;
use lh_transfer::{AdditionalConnections, AsSession, Job, JobHandler, Side};

use crate::additional::{Asked, Connector};
use crate::load::{LoadMeter, Measure};
use crate::shared;

/// Status with which the loop stops when the server does not start the requested program.
const NOT_STARTED: i32 = 255;

/// Least time that a server may take for the first message of SFTP.
pub const VERSION_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// A connection to a host, and the agent that `-A` forwards to it.
pub struct Connection {
    client: Client,
    agent: AgentForward,
    /// Options of the connection, for additional ones.
    options: ClientOptions,
    /// For messages while the loop runs (`-v`).
    logger: Logger,
    measure: Option<Measure>,
    asked: Asked,
    /// The channel that is opened but does not run yet.
    begun: Option<Begun>,
    /// The connection ended by itself while a program ran on it.
    died: bool,
}

/// Reason why there is no connection. The message has been shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoConnection {
    /// The host was not reached, or the connection ended: a later attempt may succeed.
    Unreachable,
    /// Another attempt would fail too: host key, login, configuration, or no common algorithms.
    Refused,
}

impl NoConnection {
    fn of(error: &ClientError) -> Self {
        // The peer ended the connection for a lasting reason.
        let lasting = ["Unable to negotiate", "Too many authentication failures"];
        match error {
            ClientError::Unreachable(_) | ClientError::Refused(_) => Self::Unreachable,
            ClientError::Lost(loss) if !loss.mentions(&lasting) => Self::Unreachable,
            _ => Self::Refused,
        }
    }
}

/// The channel for one side of a job, or the error of opening it, and the connector for additional
/// connections.
type Begun = (Result<ChannelId, ClientError>, Option<Arc<Connector>>);

impl Deref for Connection {
    type Target = Client;
    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Connection {
    /// Connects and logs in, or uses the connection of a master. Returns `None` after a failure, whose
    /// message has been shown.
    pub fn log_in(request: &Request, ui: &mut TerminalUi) -> Option<Self> {
        let mut connection = Self::connect_unauthenticated(request, ui)?;
        connection.authenticate(ui).then_some(connection)
    }

    /// Logs in, unless that is done already. Sends the requests of [`open`](Self::open) together with the
    /// login. Returns false after a failure, whose message has been shown.
    pub fn authenticate(&mut self, ui: &mut TerminalUi) -> bool {
        self.try_authenticate(ui).is_ok()
    }

    /// Like [`authenticate`](Self::authenticate), with the reason of a failure.
    ///
    /// # Errors
    /// States whether a later attempt may succeed.
    pub fn try_authenticate(&mut self, ui: &mut TerminalUi) -> Result<(), NoConnection> {
        let opened = match &self.begun {
            Some((Err(error), _)) => Err(error.clone()),
            _ => Ok(()),
        };
        opened.and_then(|()| self.client.log_in(ui)).map_err(|error| {
            self.report(&error, ui);
            NoConnection::of(&error)
        })?;
        // The channel that was opened before the login was sent with it.
        if let Some((_, Some(connector))) = &self.begun {
            connector.logged_in(self.client.may_log_in_again());
        }
        Ok(())
    }

    /// True when the connection ended by itself while a program ran; false when the server had no such
    /// program.
    pub const fn has_died(&self) -> bool {
        self.died
    }

    /// Like [`log_in`](Self::log_in), without the login, which [`authenticate`](Self::authenticate) does.
    pub fn connect_unauthenticated(request: &Request, ui: &mut TerminalUi) -> Option<Self> {
        Self::try_connect_unauthenticated(request, ui).ok()
    }

    /// Like [`connect_unauthenticated`](Self::connect_unauthenticated), with the reason of a failure.
    ///
    /// # Errors
    /// States whether a later attempt may succeed.
    pub fn try_connect_unauthenticated(request: &Request, ui: &mut TerminalUi) -> Result<Self, NoConnection> {
        let options = match ClientOptions::load(request) {
            Ok(options) => options,
            Err(error) => {
                if let Some(text) = error.logged() {
                    ui.say(text.trim_end());
                }
                return Err(NoConnection::Refused);
            }
        };
        let client = match connect_or_share_unauthenticated(&options, ui) {
            Ok(client) => client,
            Err(error) => {
                error.show(options.log_level, ui);
                return Err(NoConnection::of(&error));
            }
        };
        let logger = ui.logger(options.log_level).with_places(&options.config.log_verbose);
        let (client, agent) = prepared(client, &options, &logger);
        let asked = Asked::default();
        Ok(Self { client, agent, options, logger, measure: None, asked, begun: None, died: false })
    }

    /// Replaces the kernel's counters by `measure` for deciding on additional connections.
    pub fn measured_by(&mut self, measure: Measure) {
        self.measure = Some(measure);
    }

    /// Returns the time that an attempt to connect may take (`ConnectTimeout`).
    pub fn connect_timeout(&self) -> Option<Duration> {
        self.options.config.connect_timeout.duration()
    }

    /// Returns the time that the SFTP server may take for its first message: five minutes, or
    /// `ConnectTimeout` where that is longer. A shorter one does not count: it is for a host that does not
    /// answer, while a session may begin with a home directory to mount, or with a question to the user's
    /// phone.
    pub fn version_timeout(&self) -> Duration {
        self.connect_timeout().map_or(VERSION_TIMEOUT, |timeout| timeout.max(VERSION_TIMEOUT))
    }

    /// Returns the session requests for `start`, and for the agent if it is forwarded.
    pub fn setup(&self, start: Start) -> SessionSetup {
        SessionSetup { agent_request: self.agent.request(), ..SessionSetup::new(start) }
    }

    /// Returns the handler for the first channel of a copy, on which `start` has been requested, and the
    /// connector for its additional connections. Give the connector to the [`Copying`] that runs meanwhile,
    /// and call [`Connector::end`] when the copy is over. `channels`: the number that the user has requested.
    /// With `None`, or more than one, there may be additional ones.
    pub fn begin(
        &mut self,
        job: &Job,
        side: Side,
        channels: Option<usize>,
        start: &Start,
    ) -> (JobHandler, Option<Arc<Connector>>) {
        let Self { client, options, measure, asked, .. } = self;
        if let Some(round_trip) = lh_sys::socket::round_trip(client.driver().link().stream().write_fd()) {
            job.expect_round_trip(round_trip);
        }
        job.share_connection(client.is_relayed());
        let several = channels != Some(1) && !client.is_relayed();
        let connector = several.then(|| {
            let socket = client.driver().link().stream().write_fd();
            let load = LoadMeter::new(socket, side, measure.clone());
            Connector::new(job, side, options, start.clone(), load, asked.clone())
        });
        if let Some(connector) = &connector {
            connector.logged_in(client.may_log_in_again());
        }
        let additional = connector.clone().map(|connector| connector as Arc<dyn AdditionalConnections>);
        let handler =
            job.handler(side).with_more_channels(as_session(start.clone())).with_additional(additional);
        (handler, connector)
    }

    /// Opens the channel for one side of the job, where [`start_session`](Self::start_session) would.
    /// `channels` as for [`Connection::begin`]. [`authenticate`](Self::authenticate) returns its failure.
    pub fn open(&mut self, job: &Job, side: Side, channels: Option<usize>, ui: &mut TerminalUi) {
        let start = Start::Subsystem("sftp".to_owned());
        let (handler, mut connector) = self.begin(job, side, channels, &start);
        let channel =
            self.request_session(start.clone(), Box::new(handler), ui).and_then(|opened| match opened {
                Opened::Here(id) => Ok(id),
                // A connection of its own can have additional ones.
                Opened::Refused(_) => {
                    let (handler, another) = self.begin(job, side, channels, &start);
                    connector = another;
                    self.open_session(start, Box::new(handler))
                }
            });
        self.begun = Some((channel, connector));
    }

    /// Opens a session, and logs in unless that is done already. Where the server permits a master's
    /// connection no more sessions, a connection of its own takes the place of this one, as with `ssh`.
    ///
    /// # Errors
    /// There is no session. The error has not been shown.
    pub fn start_session(
        &mut self,
        start: Start,
        handler: Box<dyn ChannelHandler>,
        ui: &mut TerminalUi,
    ) -> Result<ChannelId, ClientError> {
        let id = match self.request_session(start.clone(), handler, ui)? {
            Opened::Here(id) => id,
            Opened::Refused(handler) => self.open_session(start, handler)?,
        };
        self.client.log_in(ui)?;
        Ok(id)
    }

    /// Opens a session here, without waiting for the answer.
    fn open_session(
        &mut self,
        start: Start,
        handler: Box<dyn ChannelHandler>,
    ) -> Result<ChannelId, ClientError> {
        let setup = self.setup(start);
        self.client.open_session(setup, &ChannelOptions::default(), handler)
    }

    /// Opens a session. A master's connection that is refused has been replaced by another one, which has
    /// not logged in yet.
    fn request_session(
        &mut self,
        start: Start,
        handler: Box<dyn ChannelHandler>,
        ui: &mut TerminalUi,
    ) -> Result<Opened, ClientError> {
        if !self.client.is_relayed() {
            return self.open_session(start, handler).map(Opened::Here);
        }
        let setup = self.setup(start);
        let timeout = self.version_timeout();
        let (reason, handler) = match shared::open_session(&mut self.client, setup, handler, timeout)? {
            Ok(id) => return Ok(Opened::Here(id)),
            Err(refused) => refused,
        };
        self.client.close();
        if self.shows(LogLevel::Error) {
            let words = "mux_client_request_session: session request failed: Session open refused by peer";
            ui.say(&format!("{words}: {reason}"));
        }
        let client = connect_unauthenticated(&self.options, ui)?;
        (self.client, self.agent) = prepared(client, &self.options, &self.logger);
        Ok(Opened::Refused(handler))
    }

    /// Runs one side of the job, which is [opened](Self::open) first if needed. Returns false when the
    /// connection is no longer usable.
    pub fn carry_out(&mut self, job: &Job, side: Side, channels: Option<usize>, ui: &mut TerminalUi) -> bool {
        if self.begun.is_none() {
            self.open(job, side, channels, ui);
        }
        if !self.authenticate(ui) {
            job.lost(side, "Connection closed");
            return false;
        }
        let Some((Ok(channel), connector)) = self.begun.take() else { return false };
        job.expect_version(side, Some(self.version_timeout()));
        let (result, control) = self.run(Some(channel), connector.clone());
        if let Some(request) = control.refused {
            self.report_refusal(request, ui);
        }
        let good = match result {
            Ok(_) if job.is_finished() => true,
            // A signal has stopped the copy. The connection works, but it is not needed any more.
            Ok(_) if job.is_stopped() => false,
            Ok(_) => {
                job.lost(side, "Connection closed");
                false
            }
            Err(error) => {
                self.died = true;
                // The other side's failure may have ended the copy before this side's failure is reported.
                if !job.is_finished() {
                    self.report(&error, ui);
                    job.lost(side, "Connection closed");
                }
                false
            }
        };
        if let Some(connector) = connector {
            connector.end();
        }
        good
    }

    /// Shows why the connection failed or ended, as far as the log level shows it.
    pub fn report(&self, error: &ClientError, ui: &mut TerminalUi) {
        error.show(self.options.log_level, ui);
    }

    /// True if messages of this level are shown.
    pub fn shows(&self, level: LogLevel) -> bool {
        level <= self.options.log_level
    }

    /// Shows that the server has refused `request` (`exec`, `subsystem`), which is a fatal error to `ssh`.
    pub fn report_refusal(&self, request: &str, ui: &mut TerminalUi) {
        if self.shows(LogLevel::Fatal) {
            ui.say(&format!("{request} request failed on channel 0"));
        }
    }

    /// Runs the loop until it is stopped. `main`: the channel whose status counts, if there are several.
    ///
    /// # Errors
    /// The reason why the connection ended.
    pub fn run(
        &mut self,
        main: Option<ChannelId>,
        connector: Option<Arc<Connector>>,
    ) -> (Result<i32, ClientError>, Copying<'_>) {
        let asked = self.asked.clone();
        let Self { client, agent, logger, .. } = self;
        let mut control = Copying { agent, logger, main, refused: None, status: None, connector, asked };
        let result = client.run(&mut control);
        (result, control)
    }
}

/// The answer to the request for a session.
enum Opened {
    /// The connection has the session, or will have it.
    Here(ChannelId),
    /// The master's server has refused it: the handler is for the connection in its place.
    Refused(Box<dyn ChannelHandler>),
}

/// Prepares a new connection for copies: it is marked as bulk, and has the agent if that is forwarded.
fn prepared(mut client: Client, options: &ClientOptions, logger: &Logger) -> (Client, AgentForward) {
    client.mark_packets(options);
    let agent = client.agent_forward(options, logger.clone());
    (client, agent)
}

/// Wraps handlers of additional channels in sessions that run `start`.
fn as_session(start: Start) -> AsSession {
    Arc::new(move |handler: Box<dyn ChannelHandler>| -> Box<dyn ChannelHandler> {
        Box::new(SessionChannel::new(SessionSetup::new(start.clone()), handler))
    })
}

/// The control of a connection for copies: the server may open no channels, except to the agent with `-A`.
pub struct Copying<'a> {
    agent: &'a AgentForward,
    logger: &'a Logger,
    /// The channel whose status counts, if there are several.
    main: Option<ChannelId>,
    /// The request that the server has refused.
    pub refused: Option<&'static str>,
    /// Exit status of the remote program.
    pub status: Option<u32>,
    /// Makes additional connections.
    connector: Option<Arc<Connector>>,
    asked: Asked,
}

impl Control for Copying<'_> {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        match event {
            ControlEvent::Note { id, .. } if self.main.is_some_and(|main| main != id) => {}
            ControlEvent::Note { note, .. } => match note.downcast_ref::<SessionNote>() {
                Some(SessionNote::StartRefused { request }) => {
                    self.refused = Some(request);
                    cx.stop(NOT_STARTED);
                }
                Some(SessionNote::ExitStatus(status)) => self.status = Some(*status),
                _ => {}
            },
            ControlEvent::KexDone { .. } => self.logger.say(LogLevel::Debug1, NEWKEYS),
            ControlEvent::Debug { always_display, text } => {
                let (level, line) = remote_debug(always_display, &text);
                self.logger.say(level, &line);
            }
            ControlEvent::GlobalReply { name, ok, .. } if name == TICKET_REQUEST => {
                if let (Some((ticket, purpose)), Some(connector)) = (self.asked.oldest(), &self.connector) {
                    connector.replied(ticket, purpose, ok);
                }
            }
            event => {
                if let Some(event) = self.agent.on_event(event, cx) {
                    answer_by_default(event, cx);
                }
            }
        }
    }
}
