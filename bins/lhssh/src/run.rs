//! Connecting, the session, and what becomes of it.

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;

use lh_client::{
    Client, ClientError, HostKeyUpdate, LogLevel, Options, Pty, SessionNote, SessionSetup, Start,
    SystemEnvironment, TerminalUi, UserInterface, Voice, answer_by_default, connect, sanitise,
};
use lh_config::enums::{RequestTty, SessionType};
use lh_driver::{ChannelId, ChannelOptions, Control, ControlCx, ControlEvent, Direction, FdPump, Interest};
use lh_driver::{Interests, LocalFd, Ready};
use lh_sys::signals::Signals;
use lh_sys::termios::{RawMode, encode_modes, is_terminal, window_size};
use rustix::process::Signal;
use rustix::stdio::{stderr, stdin, stdout};

use crate::FAILURE;
use crate::escapes::{Background, Disconnect, Escapes, Terminal, send_window_size};
use crate::keystrokes::{SharedTiming, Slots, Timing, Typing};

/// Everything behind the command line. Returns the exit status.
pub(crate) fn run(options: &Options, command: Option<Vec<u8>>, ui: &mut TerminalUi) -> u8 {
    let plan = match Plan::new(options, command, ui) {
        Ok(plan) => plan,
        Err(text) => return report(options, &ClientError::Config(text), ui),
    };
    let started = Instant::now();
    let mut client = match connect(options, ui) {
        Ok(client) => client,
        Err(error) => return report(options, &error, ui),
    };
    run_local_command(options, ui);
    if plan.background
        && let Err(error) = lh_sys::background::continue_in_background()
    {
        return report(options, &ClientError::Local(format!("cannot go to the background: {error}")), ui);
    }
    set_service_quality(options, &mut client, plan.tty);
    let status = match session(options, plan, &mut client, ui) {
        Ok(status) => status,
        Err(error) => report(options, &error, ui),
    };
    debug(options, ui, || {
        let transport = client.driver().link().transport();
        let seconds = started.elapsed().as_secs_f64();
        format!(
            "Transferred: sent {}, received {} bytes, in {seconds:.1} seconds\nExit status {status}",
            transport.bytes_out(),
            transport.bytes_in()
        )
    });
    status
}

/// What kind of session it is to be.
struct Plan {
    /// `None` for no session at all (`-N`).
    start: Option<Start>,
    tty: bool,
    null_input: bool,
    background: bool,
}

impl Plan {
    fn new(options: &Options, command: Option<Vec<u8>>, ui: &mut TerminalUi) -> Result<Self, String> {
        let config = &options.config;
        let remote = config.remote_command.command();
        if command.is_some() && remote.is_some() && !matches!(*config.session_type, SessionType::None) {
            return Err("Cannot execute command-line and remote command.".to_owned());
        }
        let command = match (command, remote) {
            (Some(command), _) => Some(command),
            // The loader has expanded it.
            (None, Some(text)) => Some(text.as_bytes().to_vec()),
            (None, None) => None,
        };
        let start = match (*config.session_type, command) {
            (SessionType::None, _) => None,
            (SessionType::Subsystem, Some(name)) => {
                Some(Start::Subsystem(String::from_utf8_lossy(&name).into_owned()))
            }
            (SessionType::Subsystem, None) => {
                return Err("You must specify a subsystem to invoke.".to_owned());
            }
            (SessionType::Default, Some(command)) => Some(Start::Exec(command)),
            (SessionType::Default, None) => Some(Start::Shell),
        };
        let background = *config.fork_after_authentication;
        if background && matches!(start, Some(Start::Shell)) {
            return Err("Cannot fork into background without a command to execute.".to_owned());
        }
        let null_input = *config.stdin_null || background;
        let request = *config.request_tty;
        let mut tty = match request {
            RequestTty::No => false,
            RequestTty::Yes | RequestTty::Force => start.is_some(),
            RequestTty::Auto => matches!(start, Some(Start::Shell)),
        };
        if tty && request != RequestTty::Force && (null_input || !is_terminal(stdin())) {
            if options.log_level >= LogLevel::Info {
                ui.say("Pseudo-terminal will not be allocated because stdin is not a terminal.");
            }
            tty = false;
        }
        Ok(Self { start, tty, null_input, background })
    }
}

/// Runs the session to its end.
fn session(
    options: &Options,
    plan: Plan,
    client: &mut Client,
    ui: &mut TerminalUi,
) -> Result<u8, ClientError> {
    let local = |error: std::io::Error| ClientError::Local(error.to_string());
    let signals = Signals::collect(&[Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::WINCH])
        .map_err(local)?;
    let terminal: Terminal = Rc::new(RefCell::new(None));
    let mut control = Session {
        signals,
        channel: None,
        tty: plan.tty,
        status: None,
        ending: Ending::Normal,
        terminal: Rc::clone(&terminal),
        note: None,
        update: client.take_host_key_update(),
        ui: ui.clone(),
        voice: ui.voice(options.log_level),
    };
    if let Some(start) = plan.start.clone() {
        let mut setup =
            SessionSetup::new(start).with_environment(&options.config).with_timeout(&options.config);
        if plan.tty {
            setup.pty = Some(local_pty());
            if is_terminal(stdin()) && !plan.null_input {
                *terminal.borrow_mut() = RawMode::enter(stdin()).ok();
            }
        }
        let timing = keystroke_timing(options, &plan, client);
        let typing =
            plan.tty.then_some(Keys { terminal: &terminal, timing: timing.as_ref(), voice: &control.voice });
        let pump = pump(options, typing, plan.null_input).map_err(local)?;
        let channel = client.open_session(setup, &ChannelOptions::default(), Box::new(pump))?;
        control.channel = Some(channel);
        if let Some(timing) = timing {
            let slots = Slots { timing, channel, voice: control.voice.clone() };
            client.driver().control().add_source(Box::new(slots));
        }
    }
    debug(options, ui, || "Entering interactive session.".to_owned());
    let result = client.run(&mut control);
    // The terminal is itself again before anything is said.
    terminal.borrow_mut().take();
    if let Some(text) = control.note.take()
        && options.log_level >= LogLevel::Error
    {
        ui.say(&text);
    }
    match control.ending {
        Ending::Signal(signal) => {
            client.close();
            if options.log_level >= LogLevel::Verbose {
                ui.say(&format!("Killed by signal {}.", signal.as_raw()));
            }
            return Ok(FAILURE);
        }
        Ending::Background => {
            // Output goes on; there is nobody left to type.
            lh_sys::background::continue_in_background().map_err(local)?;
            let status = client.run(&mut control)?;
            client.close();
            return Ok(u8::try_from(status).unwrap_or(FAILURE));
        }
        Ending::Normal => {}
    }
    let status = result?;
    client.close();
    if plan.tty && options.log_level >= LogLevel::Info {
        ui.say(&format!("Connection to {} closed.", client.host()));
    }
    Ok(u8::try_from(status).unwrap_or(FAILURE))
}

/// `ObscureKeystrokeTiming`: only where a person types, and the server answers PINGs.
fn keystroke_timing(options: &Options, plan: &Plan, client: &mut Client) -> Option<SharedTiming> {
    let interval = options.config.obscure_keystroke_timing.0?;
    let typed = plan.tty && !plan.null_input && is_terminal(stdin());
    let answers = client.driver().link().transport().peer_extension("ping@openssh.com") == Some(b"0");
    (typed && answers).then(|| {
        let chance = |below: u32| {
            let mut bytes = [0; 4];
            lh_crypto::Random::fill(&mut lh_crypto::SystemRandom, &mut bytes);
            u32::from_le_bytes(bytes) % below.max(1)
        };
        Rc::new(RefCell::new(Timing::new(interval, Box::new(chance))))
    })
}

/// What looks at the keys typed in a terminal session.
struct Keys<'a> {
    terminal: &'a Terminal,
    timing: Option<&'a SharedTiming>,
    voice: &'a Voice,
}

/// Joins the standard descriptors and the channel.
fn pump(options: &Options, keys: Option<Keys<'_>>, null_input: bool) -> std::io::Result<FdPump> {
    let input = if null_input {
        LocalFd::owned(lh_sys::fd::null()?)?
    } else {
        LocalFd::inherited(stdin(), Direction::Read)?
    };
    let mut pump = FdPump::new()
        .input(input)
        .output(LocalFd::inherited(stdout(), Direction::Write)?)
        .output_ext(LocalFd::inherited(stderr(), Direction::Write)?)
        .tell_broken_output();
    if let Some(Keys { terminal, timing, voice }) = keys {
        let escape = options.config.escape_char.0;
        let escapes = Box::new(Escapes::new(escape, Rc::clone(terminal), voice.clone()));
        pump = match timing {
            Some(timing) => pump.filter(Box::new(Typing::new(escapes, Rc::clone(timing), voice.clone()))),
            None => pump.filter(escapes),
        };
    }
    Ok(pump)
}

/// The local terminal as the server is to make one like it.
fn local_pty() -> Pty {
    let size = window_size(stdin());
    let modes = rustix::termios::tcgetattr(stdin()).map_or_else(|_| vec![0], |modes| encode_modes(&modes));
    Pty {
        term: std::env::var("TERM").unwrap_or_default(),
        columns: size.ws_col.into(),
        rows: size.ws_row.into(),
        width: size.ws_xpixel.into(),
        height: size.ws_ypixel.into(),
        modes,
    }
}

enum Ending {
    Normal,
    Signal(Signal),
    Background,
}

/// The control of a session: signals, the exit status, the end.
struct Session {
    signals: Signals,
    channel: Option<ChannelId>,
    tty: bool,
    status: Option<u8>,
    ending: Ending,
    terminal: Terminal,
    /// What to say when the terminal is itself again.
    note: Option<String>,
    /// `UpdateHostKeys`, until it has done its work.
    update: Option<HostKeyUpdate>,
    ui: TerminalUi,
    voice: Voice,
}

impl Session {
    /// Shows the event to `UpdateHostKeys`; true when it was about that.
    fn update_host_keys(&mut self, event: &ControlEvent, cx: &mut ControlCx<'_>) -> bool {
        let Some(update) = &mut self.update else { return false };
        let mut person = self.ui.clone();
        let terminal = &self.terminal;
        let mut ask = |question: &str| {
            let raw = terminal.borrow();
            if let Some(raw) = &*raw {
                let _ = raw.leave();
            }
            let answer = person.ask(question).map(|answer| answer.to_string());
            if let Some(raw) = &*raw {
                let _ = raw.reenter();
            }
            answer
        };
        update.on_event(event, cx, &mut self.ui, self.voice.level(), &mut ask)
    }

    fn on_note(&mut self, note: &SessionNote, cx: &mut ControlCx<'_>) {
        match note {
            SessionNote::OpenFailed { reason, description } => {
                self.note = Some(format!(
                    "channel 0: open failed: {}: {}",
                    reason_words(*reason),
                    sanitise(description)
                ));
            }
            SessionNote::PtyRefused => {
                self.note = Some("PTY allocation request failed on channel 0".to_owned());
                self.tty = false;
                self.terminal.borrow_mut().take();
            }
            SessionNote::Idle => {
                let text = "channel 0: closing after the time ChannelTimeout allows without traffic";
                self.voice.say(LogLevel::Debug1, text);
            }
            SessionNote::Started => {}
            SessionNote::StartRefused { request } => {
                self.note = Some(format!("{request} request failed on channel 0"));
                self.status = Some(FAILURE);
                cx.stop(FAILURE.into());
            }
            // Only 8 bits reach a shell anywhere.
            SessionNote::ExitStatus(status) => self.status = Some((status & 0xff) as u8),
            // As ssh: no status of its own, so the exit status says that something went wrong.
            SessionNote::ExitSignal { .. } => self.status = Some(FAILURE),
        }
    }
}

impl Control for Session {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        if self.update_host_keys(&event, cx) {
            return;
        }
        match event {
            ControlEvent::Note { note, .. } => {
                if let Some(note) = note.downcast_ref::<SessionNote>() {
                    self.on_note(note, cx);
                } else if note.is::<Disconnect>() {
                    self.status = Some(FAILURE);
                    cx.stop(FAILURE.into());
                } else if note.is::<Background>() {
                    self.ending = Ending::Background;
                    cx.stop(0);
                }
            }
            ControlEvent::ChannelGone { id, .. } if self.channel == Some(id) => {
                // A program that ended without a status was killed, or the server is odd: not a success.
                cx.stop(self.status.unwrap_or(FAILURE).into());
            }
            event => answer_by_default(event, cx),
        }
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        out.add(0, self.signals.as_fd(), Interest::READ);
    }

    fn on_ready(&mut self, _token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        while let Ok(Some(signal)) = self.signals.take() {
            if signal == Signal::WINCH {
                if let Some(mut channel) = self.channel.filter(|_| self.tty).and_then(|id| cx.channel(id)) {
                    send_window_size(&mut channel);
                }
            } else {
                self.ending = Ending::Signal(signal);
                cx.stop(FAILURE.into());
            }
        }
    }
}

fn reason_words(reason: u32) -> &'static str {
    use lh_wire::msg::open_failure;
    match reason {
        open_failure::ADMINISTRATIVELY_PROHIBITED => "administratively prohibited",
        open_failure::CONNECT_FAILED => "connect failed",
        open_failure::UNKNOWN_CHANNEL_TYPE => "unknown channel type",
        open_failure::RESOURCE_SHORTAGE => "resource shortage",
        _ => "unknown reason",
    }
}

/// `LocalCommand`, where permitted.
fn run_local_command(options: &Options, ui: &mut TerminalUi) {
    let config = &options.config;
    if !*config.permit_local_command {
        return;
    }
    let Some(command) = config.local_command.command() else { return };
    // No tunnel is ever opened: %T says so.
    let tokens = config.tokens(&SystemEnvironment).with('T', "NONE");
    let failed = match tokens.expand(command) {
        Ok(command) => run_in_shell(&command).err().map(|error| error.to_string()),
        Err(why) => Some(why),
    };
    if let Some(why) = failed.filter(|_| options.log_level >= LogLevel::Error) {
        ui.say(&format!("LocalCommand: {why}"));
    }
}

/// Runs a command in the user's shell on our own standard descriptors, and waits for it. Signals that we hold back reach it.
fn run_in_shell(command: &str) -> std::io::Result<()> {
    let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let [input, output, error] = [stdin(), stdout(), stderr()]
        .map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(std::io::Error::from));
    let mut child =
        lh_sys::spawn::Program::new(shell).arg("-c").arg(command).stdio(input?, output?, error?).spawn()?;
    child.wait().map(|_| ())
}

/// `IPQoS`: marks the packets of the connection as interactive or bulk.
fn set_service_quality(options: &Options, client: &mut Client, tty: bool) {
    let qos = *options.config.ip_qos;
    if client.address().is_some()
        && let Some(tos) = if tty { qos.interactive } else { qos.bulk }
        // 0 is what a new socket has.
        && tos != 0
    {
        let _ = lh_sys::socket::set_tos(client.driver().link().stream().write_fd(), tos);
    }
}

fn debug(options: &Options, ui: &mut TerminalUi, text: impl FnOnce() -> String) {
    if options.log_level >= LogLevel::Debug1 {
        ui.message(LogLevel::Debug1, &text());
    }
}

/// Says what went wrong, unless nothing is to be said.
fn report(options: &Options, error: &ClientError, ui: &mut TerminalUi) -> u8 {
    if options.log_level >= LogLevel::Fatal {
        ui.say(&error.to_string());
    }
    FAILURE
}
