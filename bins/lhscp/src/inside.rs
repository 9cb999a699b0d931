//! Connections of this process's own, and what runs on their channels.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};

use lh_client::{
    AgentForward, Client, ClientError, LogLevel, Options as ClientOptions, SessionChannel, SessionNote,
    SessionSetup, Start, TICKET_REQUEST, TerminalUi, answer_by_default, arrive_or_share,
};
use lh_config::client::Request;
use lh_driver::{ChannelHandler, ChannelId, ChannelOptions, Control, ControlCx, ControlEvent};
use lh_transfer::rcp::{self, Outcome, Party};
use lh_transfer::{Further, Job, Side};

use crate::NO_CONNECTION;
use crate::command_line::Arguments;
use crate::further::Connector;
use crate::place::Host;
use crate::show::{Show, say};

/// A host that somebody is logged in to, and the agent that `-A` lends it.
pub(crate) struct Connection {
    client: Client,
    agent: AgentForward,
    /// What has been opened and not run.
    begun: Option<Begun>,
    /// How it was made, for further ones.
    options: ClientOptions,
}

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

/// Connects and logs in; says why when it cannot.
pub(crate) fn log_in(arguments: &Arguments, host: &Host, ui: &mut TerminalUi) -> Option<Connection> {
    let mut connection = arrive(&arguments.request(host), ui)?;
    connection.log_in(ui).then_some(connection)
}

/// Connects; [`Connection::log_in`] is still to be called. Says why when it cannot.
pub(crate) fn arrive(request: &Request, ui: &mut TerminalUi) -> Option<Connection> {
    let options = match ClientOptions::load(request) {
        Ok(options) => options,
        Err(error) => {
            ui.say(error.to_string().trim_end());
            say("Connection closed");
            return None;
        }
    };
    match arrive_or_share(&options, ui) {
        Ok(mut client) => {
            mark_as_bulk(&mut client, &options);
            match client.agent_forward(&options, ui.voice(options.log_level)) {
                Ok(agent) => Some(Connection { client, agent, begun: None, options }),
                Err(error) => {
                    ui.say(&error.to_string());
                    say("Connection closed");
                    None
                }
            }
        }
        Err(error) => {
            tell(&error, &options, ui);
            None
        }
    }
}

/// Says why there is no connection.
fn tell(error: &ClientError, options: &ClientOptions, ui: &mut TerminalUi) {
    if options.log_level >= LogLevel::Fatal {
        ui.say(&error.to_string());
    }
    say("Connection closed");
}

impl Connection {
    /// Logs in, where that is not done; says why when it cannot. What has been [begun](begin) goes out with it.
    pub(crate) fn log_in(&mut self, ui: &mut TerminalUi) -> bool {
        let result = self.client.log_in(ui);
        result.map_err(|error| tell(&error, &self.options, ui)).is_ok()
    }
}

/// `IPQoS`: a copy is bulk.
pub(crate) fn mark_as_bulk(client: &mut Client, options: &ClientOptions) {
    // 0 is what a new socket has.
    let service = options.config.ip_qos.bulk.filter(|&service| service != 0);
    if let (Some(_), Some(service)) = (client.address(), service) {
        let _ = lh_sys::socket::set_tos(client.driver().link().stream().write_fd(), service);
    }
}

/// A further channel for the data of a copy.
fn as_session(handler: Box<dyn ChannelHandler>) -> Box<dyn ChannelHandler> {
    Box::new(SessionChannel::new(SessionSetup::new(Start::Subsystem("sftp".to_owned())), handler))
}

/// One side of a job that is to run.
struct Begun {
    /// None could be had.
    channel: Result<ChannelId, String>,
    /// Makes further connections.
    connector: Option<Arc<Connector>>,
}

/// Opens the channel for one side of the job.
/// `channels`: how many the user has asked for. With none, and with several, further connections may be made too.
pub(crate) fn begin(connection: &mut Connection, job: &Job, side: Side, channels: Option<usize>) {
    let Connection { client, agent, options, begun } = connection;
    let several = channels != Some(1) && !client.is_relayed();
    let connector =
        several.then(|| Connector::new(job, side, options, client.driver().link().stream().write_fd()));
    let start = Start::Subsystem("sftp".to_owned());
    let setup = SessionSetup { agent_request: agent.request(), ..SessionSetup::new(start) };
    let further = connector.clone().map(|connector| connector as Arc<dyn Further>);
    let handler = Box::new(job.handler(side).with_more_channels(as_session).with_further(further));
    let channel = client.open_session(setup, &ChannelOptions::default(), handler);
    *begun = Some(Begun { channel: channel.map_err(|error| error.to_string()), connector });
}

/// Runs what has been [begun](begin); false when the connection is of no more use.
pub(crate) fn carry_out(connection: &mut Connection, job: &Job, side: Side, ui: &mut TerminalUi) -> bool {
    let Connection { client, agent, begun, .. } = connection;
    let Some(Begun { channel, connector }) = begun.take() else { return false };
    let channel = match channel {
        Ok(channel) => channel,
        Err(why) => {
            job.lost(side, &why);
            return false;
        }
    };
    let mut control = Copying { channel: Some(channel), connector, ..Copying::new(agent) };
    let result = client.run(&mut control);
    let connector = control.connector.take();
    if let Some(request) = control.refused {
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

/// The control of a connection that copies: the server may open nothing, but to the agent with `-A`.
struct Copying<'a> {
    agent: &'a AgentForward,
    /// The one that counts, where there are several.
    channel: Option<ChannelId>,
    refused: Option<&'static str>,
    /// Of the remote program.
    status: Option<u32>,
    /// Makes further connections.
    connector: Option<Arc<Connector>>,
}

impl<'a> Copying<'a> {
    const fn new(agent: &'a AgentForward) -> Self {
        Self { agent, channel: None, refused: None, status: None, connector: None }
    }
}

impl Control for Copying<'_> {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        match event {
            ControlEvent::Note { id, .. } if self.channel.is_some_and(|channel| channel != id) => {}
            ControlEvent::Note { note, .. } => match note.downcast_ref::<SessionNote>() {
                Some(SessionNote::StartRefused { request }) => {
                    self.refused = Some(request);
                    cx.stop(NO_CONNECTION.into());
                }
                Some(SessionNote::ExitStatus(status)) => self.status = Some(*status),
                _ => {}
            },
            ControlEvent::GlobalReply { name, ok, .. } if name == TICKET_REQUEST => {
                if let Some(connector) = &self.connector {
                    connector.replied(ok);
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

/// How a remote `scp` ended.
pub(crate) struct Ended {
    /// The connection is still good.
    pub(crate) connected: bool,
    /// The program ended, with status 0.
    pub(crate) well: bool,
}

/// Runs `party` with `command` at the other end.
pub(crate) fn run_party(
    connection: &mut Connection,
    command: Vec<u8>,
    party: Box<dyn Party>,
    show: Show,
    receive_limit: Option<u64>,
    ui: &mut TerminalUi,
) -> (Outcome, Ended) {
    let handler = rcp::Handler::new(party, Box::new(show), receive_limit);
    let outcome = handler.outcome();
    let ended = run_command(connection, command, Box::new(handler), ui);
    let outcome = *outcome.lock().unwrap_or_else(PoisonError::into_inner);
    (outcome, ended)
}

/// Runs `command` with `handler` for its channel, until that stops the driver.
pub(crate) fn run_command(
    connection: &mut Connection,
    command: Vec<u8>,
    handler: Box<dyn ChannelHandler>,
    ui: &mut TerminalUi,
) -> Ended {
    let Connection { client, agent, .. } = connection;
    let setup = SessionSetup { agent_request: agent.request(), ..SessionSetup::new(Start::Exec(command)) };
    let mut control = Copying::new(agent);
    let result = client
        .open_session(setup, &ChannelOptions::default(), handler)
        .map_err(|error| error.to_string())
        .and_then(|_| client.run(&mut control).map_err(|error| error.to_string()));
    if let Err(why) = &result {
        ui.say(why);
    }
    if let Some(request) = control.refused {
        ui.say(&format!("{request} request failed on channel 0"));
    }
    Ended { connected: result.is_ok() && control.refused.is_none(), well: control.status == Some(0) }
}
