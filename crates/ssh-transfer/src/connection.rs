//! A connection that copies, and the control of its loop.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use lh_client::{
    AgentForward, Client, ClientError, LogLevel, Logger, NEWKEYS, Options as ClientOptions, SessionChannel,
    SessionNote, SessionSetup, Start, TICKET_REQUEST, answer_by_default, connect_or_share_unauthenticated,
    remote_debug,
};
use lh_config::client::Request;
use lh_driver::{ChannelHandler, ChannelId, ChannelOptions, Control, ControlCx, ControlEvent};
use lh_terminal::TerminalUi;
use lh_transfer::{AdditionalConnections, AsSession, Job, JobHandler, Side};

use crate::additional::{Asked, Connector};
use crate::load::{Gauge, Measure};

/// Status with which the loop stops when the server does not start what was asked for.
const NOT_STARTED: i32 = 255;

/// A host with a login, and the agent that `-A` lends it.
pub struct Connection {
    client: Client,
    agent: AgentForward,
    /// Options that it was made with, for additional ones.
    options: ClientOptions,
    /// For messages while the loop runs (`-v`).
    logger: Logger,
    measure: Option<Measure>,
    asked: Asked,
    /// The channel that was opened and has not run.
    begun: Option<Begun>,
    /// It ended by itself while something ran.
    died: bool,
}

/// Why there is no connection; the message has been shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoConnection {
    /// The host was not reached, or the connection ended: it may answer later.
    Unreachable,
    /// Trying again changes nothing: the host key, the login, the configuration, no common algorithms.
    Refused,
}

impl NoConnection {
    fn of(error: &ClientError) -> Self {
        // The peer ended it, but not for something that passes.
        let lasting = ["Unable to negotiate", "Too many authentication failures"];
        match error {
            ClientError::Unreachable(_) => Self::Unreachable,
            ClientError::Lost(text) if !lasting.iter().any(|part| text.contains(part)) => Self::Unreachable,
            _ => Self::Refused,
        }
    }
}

/// The channel for one side of a job, unless none could be had, and who makes additional connections.
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
    /// Connects and logs in, or uses the connection of a master. `None` when it cannot be had: why has been said.
    pub fn log_in(request: &Request, ui: &mut TerminalUi) -> Option<Self> {
        let mut connection = Self::connect_unauthenticated(request, ui)?;
        connection.authenticate(ui).then_some(connection)
    }

    /// Logs in, where that is not done; false when it cannot be: why has been said. What has been [opened](Self::open) goes out with it.
    pub fn authenticate(&mut self, ui: &mut TerminalUi) -> bool {
        self.try_authenticate(ui).is_ok()
    }

    /// As [`authenticate`](Self::authenticate).
    ///
    /// # Errors
    /// Tells if a later attempt may succeed.
    pub fn try_authenticate(&mut self, ui: &mut TerminalUi) -> Result<(), NoConnection> {
        self.client.log_in(ui).map_err(|error| {
            tell(&error, &self.options, ui);
            NoConnection::of(&error)
        })?;
        // What was begun before the login goes out with it.
        if let Some((_, Some(connector))) = &self.begun {
            connector.logged_in(self.client.may_log_in_again());
        }
        Ok(())
    }

    /// True when the connection ended by itself while something ran: not when the server had nothing to run.
    pub const fn has_died(&self) -> bool {
        self.died
    }

    /// The same but for the login, which [`authenticate`](Self::authenticate) does.
    pub fn connect_unauthenticated(request: &Request, ui: &mut TerminalUi) -> Option<Self> {
        Self::try_connect_unauthenticated(request, ui).ok()
    }

    /// As [`connect_unauthenticated`](Self::connect_unauthenticated).
    ///
    /// # Errors
    /// Tells if a later attempt may succeed.
    pub fn try_connect_unauthenticated(request: &Request, ui: &mut TerminalUi) -> Result<Self, NoConnection> {
        let options = match ClientOptions::load(request) {
            Ok(options) => options,
            Err(error) => {
                ui.say(error.to_string().trim_end());
                return Err(NoConnection::Refused);
            }
        };
        let mut client = match connect_or_share_unauthenticated(&options, ui) {
            Ok(client) => client,
            Err(error) => {
                tell(&error, &options, ui);
                return Err(NoConnection::of(&error));
            }
        };
        client.mark_packets(&options);
        let logger = ui.logger(options.log_level).with_places(&options.config.log_verbose);
        let agent = client.agent_forward(&options, logger.clone());
        let asked = Asked::default();
        Ok(Self { client, agent, options, logger, measure: None, asked, begun: None, died: false })
    }

    /// Has the decision whether to make additional connections taken on what `measure` says.
    pub fn measured_by(&mut self, measure: Measure) {
        self.measure = Some(measure);
    }

    /// Requests for `start`, and for the agent where it is lent.
    pub fn setup(&self, start: Start) -> SessionSetup {
        SessionSetup { agent_request: self.agent.request(), ..SessionSetup::new(start) }
    }

    /// The handler for the first channel of a copy, on which `start` has been asked for, and who makes
    /// additional connections for it: to be given to the [`Copying`] that runs meanwhile, and told when it is
    /// over ([`Connector::end`]).
    /// `channels`: how many the user has asked for. With none, and with several, there may be more.
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
        let several = channels != Some(1) && !client.is_relayed();
        let connector = several.then(|| {
            let socket = client.driver().link().stream().write_fd();
            let load = Gauge::new(socket, side, measure.clone());
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

    /// Opens the channel for one side of the job. `channels` as for [`Connection::begin`].
    pub fn open(&mut self, job: &Job, side: Side, channels: Option<usize>) {
        let start = Start::Subsystem("sftp".to_owned());
        let (handler, connector) = self.begin(job, side, channels, &start);
        let setup = self.setup(start);
        let channel = self.client.open_session(setup, &ChannelOptions::default(), Box::new(handler));
        self.begun = Some((channel, connector));
    }

    /// Runs one side of the job, which is [opened](Self::open) where it has not been; false when the connection is of no more use.
    pub fn carry_out(&mut self, job: &Job, side: Side, channels: Option<usize>, ui: &mut TerminalUi) -> bool {
        if self.begun.is_none() {
            self.open(job, side, channels);
        }
        let Some((channel, connector)) = self.begun.take() else { return false };
        let channel = match channel {
            Ok(channel) => channel,
            Err(error) => {
                job.lost(side, &error.to_string());
                return false;
            }
        };
        let (result, control) = self.run(Some(channel), connector.clone());
        let refused = control.refused;
        if let Some(request) = refused {
            ui.say(&format!("{request} request failed on channel 0"));
        }
        let good = match result {
            Ok(_) if job.is_finished() => true,
            // Stopped by a signal: nothing is wrong with the connection, but it is no longer needed.
            Ok(_) if job.is_stopped() => false,
            Ok(_) => {
                job.lost(side, "Connection closed");
                false
            }
            Err(error) => {
                self.died = true;
                // The other side's failure may have ended the copy before this one's news came.
                if !job.is_finished() {
                    ui.say(&error.to_string());
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

    /// Runs the loop until something stops it. `main`: the channel that counts, where there are several.
    ///
    /// # Errors
    /// Why the connection ended.
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

/// Says why there is no connection.
fn tell(error: &ClientError, options: &ClientOptions, ui: &mut TerminalUi) {
    if options.log_level >= LogLevel::Fatal {
        ui.say(&error.to_string());
    }
}

/// Additional channels for the data of a copy run the same.
fn as_session(start: Start) -> AsSession {
    Arc::new(move |handler: Box<dyn ChannelHandler>| -> Box<dyn ChannelHandler> {
        Box::new(SessionChannel::new(SessionSetup::new(start.clone()), handler))
    })
}

/// The control of a connection that copies: the server may open nothing, but to the agent with `-A`.
pub struct Copying<'a> {
    agent: &'a AgentForward,
    logger: &'a Logger,
    /// The one that counts, where there are several.
    main: Option<ChannelId>,
    /// The request that the server has refused.
    pub refused: Option<&'static str>,
    /// Of the remote program.
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
