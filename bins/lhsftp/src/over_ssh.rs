//! A server at the other end of an SSH connection of this process.

use std::cell::RefCell;
use std::io::{IoSliceMut, Write};
use std::rc::Rc;
use std::time::Instant;

use lh_client::{
    AgentForward, Client, ClientError, LogLevel, Options as ClientOptions, SessionNote, SessionSetup, Start,
    TerminalUi, answer_by_default, arrive_or_share,
};
use lh_config::client::Request;
use lh_driver::{
    ChannelCx, ChannelEvent, ChannelHandler, ChannelOptions, Control, ControlCx, ControlEvent, Interest,
    Interests, Ready,
};
use lh_sftp::server::Output;
use lh_sftp_shell::{Carrier, Conversation, Watch, say};

/// What the channel runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    /// A subsystem.
    Subsystem(String),
    /// A command.
    Command(Vec<u8>),
}

/// A conversation's channel.
pub(crate) struct Channel {
    client: Client,
    /// `-A`.
    agent: AgentForward,
}

/// Connects, opens the channel and logs in: the conversation's first words go out with the login where they can.
///
/// # Errors
/// The last line to be said.
pub(crate) fn open(
    request: &Request,
    server: &Server,
    conversation: &Rc<RefCell<Conversation>>,
) -> Result<Channel, String> {
    let mut ui = TerminalUi::default();
    let closed = |ui: &mut TerminalUi, text: &str| {
        ui.say(text);
        "Connection closed".to_owned()
    };
    let options =
        ClientOptions::load(request).map_err(|error| closed(&mut ui, error.to_string().trim_end()))?;
    let failed = |ui: &mut TerminalUi, error: ClientError| {
        if options.log_level >= LogLevel::Fatal {
            ui.say(&error.to_string());
        }
        "Connection closed".to_owned()
    };
    let mut client = arrive_or_share(&options, &mut ui).map_err(|error| failed(&mut ui, error))?;
    // `IPQoS`: copies are bulk. 0 is what a new socket has.
    let service = options.config.ip_qos.bulk.filter(|&service| service != 0);
    if let (Some(_), Some(service)) = (client.address(), service) {
        let _ = lh_sys::socket::set_tos(client.driver().link().stream().write_fd(), service);
    }
    let agent = client
        .agent_forward(&options, ui.voice(options.log_level))
        .map_err(|error| closed(&mut ui, &error.to_string()))?;
    let start = match server {
        Server::Subsystem(name) => Start::Subsystem(name.clone()),
        Server::Command(command) => Start::Exec(command.clone()),
    };
    let watch = conversation.borrow().watch();
    let handler = Handler { conversation: Rc::clone(conversation), watch, open: false };
    let setup = SessionSetup { agent_request: agent.request(), ..SessionSetup::new(start) };
    client
        .open_session(setup, &ChannelOptions::default(), Box::new(handler))
        .map_err(|error| error.to_string())?;
    client.log_in(&mut ui).map_err(|error| failed(&mut ui, error))?;
    Ok(Channel { client, agent })
}

impl Carrier for Channel {
    fn run(&mut self, conversation: &Rc<RefCell<Conversation>>) {
        if conversation.borrow().settled() {
            return;
        }
        let mut control = Conversing { agent: &self.agent, refused: None };
        let result = self.client.run(&mut control);
        let refused = control.refused;
        if let Some(request) = refused {
            say(&format!("{request} request failed on channel 0"));
        }
        if let Err(error) = result {
            if conversation.borrow().loss().is_none() {
                say(&error.to_string());
            }
            conversation.borrow_mut().lose("Connection closed");
        }
        if refused.is_some() {
            conversation.borrow_mut().lose("Connection closed");
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.client.close();
    }
}

struct Handler {
    conversation: Rc<RefCell<Conversation>>,
    watch: Rc<Watch>,
    open: bool,
}

/// Names of what is waited for.
const CONSOLE: usize = 0;
const SIGNALS: usize = 1;

impl Handler {
    fn run(&self, cx: &mut ChannelCx<'_>) {
        let mut conversation = self.conversation.borrow_mut();
        if self.open {
            let now = cx.now();
            conversation.advance(&mut ChannelOutput(cx), now);
        }
        if conversation.settled() {
            cx.stop(0);
        }
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
                if cx.is_promised() {
                    self.conversation.borrow_mut().ask_home();
                }
                self.run(cx);
            }
            ChannelEvent::Data { ext: None, data } => {
                let len = data.len();
                self.conversation.borrow_mut().received(data, cx.now());
                cx.consumed(len);
            }
            ChannelEvent::Data { ext: Some(_), data } => {
                let _ = std::io::stderr().write_all(&data);
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
    }

    fn on_ready(&mut self, token: usize, _ready: Ready, cx: &mut ChannelCx<'_>) {
        {
            let mut conversation = self.conversation.borrow_mut();
            match token {
                CONSOLE => conversation.wake(),
                _ => conversation.look_for_signals(),
            }
        }
        self.run(cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        // Before the channel is open nobody can be helped.
        self.conversation.borrow().next_deadline().filter(|_| self.open)
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.run(cx);
    }
}

struct ChannelOutput<'a, 'b>(&'a mut ChannelCx<'b>);

impl Output for ChannelOutput<'_, '_> {
    fn budget(&mut self) -> usize {
        self.0.budget()
    }

    fn send(&mut self, data: &[u8]) -> usize {
        self.0.send(data)
    }

    fn send_in_place(&mut self, want: usize, fill: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> usize) -> usize {
        self.0.send_in_place(want, fill)
    }
}

/// The control of a connection whose server may open nothing, but to the agent with `-A`.
struct Conversing<'a> {
    agent: &'a AgentForward,
    refused: Option<&'static str>,
}

impl Control for Conversing<'_> {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        match event {
            ControlEvent::Note { note, .. } => {
                if let Some(SessionNote::StartRefused { request }) = note.downcast_ref::<SessionNote>() {
                    self.refused = Some(request);
                    cx.stop(0);
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
