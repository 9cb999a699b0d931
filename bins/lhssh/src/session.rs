//! The session: its channel, its terminal, its signals, and its end.

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_client::forward::TunnelEnd;
use lh_client::mux::Master;
use lh_client::{
    AgentForward, Client, ClientError, Forwards, HostKeyUpdate, LogLevel, Logger, Options, Pty, SessionNote,
    SessionSetup, UserInterface, X11Forward, answer_by_default, sanitise,
};
use lh_config::enums::{ControlMaster, RequestTty};
use lh_config::special::ControlPersist;
use lh_driver::{
    ChannelId, ChannelOptions, Control, ControlCx, ControlEvent, Direction, FdPump, HandlerId, IdleChannels,
    Interest,
};
use lh_driver::{Interests, LocalFd, Ready};
use lh_sys::signals::Signals;
use lh_sys::termios::{RawMode, encode_modes, is_terminal, window_size};
use lh_terminal::TerminalUi;
use rustix::process::Signal;
use rustix::stdio::{stderr, stdin, stdout};

use crate::escapes::{Background, Disconnect, Escapes, Terminal, send_window_size};
use crate::keystrokes::{SharedTiming, Slots, Timing, Typing};
use crate::plan::{Plan, terminal_type};
use crate::report::{FAILURE, debug};
use crate::{background, master};

/// Runs the session to its end.
pub(crate) fn session(
    options: &Options,
    mut plan: Plan,
    tunnel: Option<TunnelEnd>,
    client: &mut Client,
    ui: &mut TerminalUi,
) -> Result<u8, ClientError> {
    let local = |error: std::io::Error| ClientError::Local(error.to_string());
    let logger = ui.logger(options.log_level).with_places(&options.config.log_verbose);
    // Runs `xauth`, which signals can still interrupt, because they are not blocked yet.
    let x11 = if client.is_relayed() && *options.config.forward_x11 {
        logger.say(LogLevel::Info, "X11 is forwarded by the master, not by its clients in proxy mode");
        X11Forward::none(logger.clone())
    } else {
        X11Forward::new(&options.config, logger.clone())
    };
    let signals = Signals::collect(&[Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::WINCH])
        .map_err(local)?;
    let terminal: Terminal = Rc::new(RefCell::new(None));
    let forwards = Forwards::new(&options.config, logger.clone());
    let mut control = Session {
        signals,
        channel: None,
        main: None,
        stdio: plan.stdio.is_some(),
        tty: plan.tty,
        needs_tty: matches!(*options.config.request_tty, RequestTty::Yes | RequestTty::Force),
        refused: false,
        status: None,
        ending: Ending::Normal,
        terminal: Rc::clone(&terminal),
        forwards: forwards.clone(),
        master: None,
        serves_others_only: false,
        persist: None,
        idle_since: None,
        idle_channels: options
            .config
            .channel_timeout
            .of_all_channels()
            .map(|limit| IdleChannels::new(limit, Instant::now())),
        agent: client.agent_forward(options, logger.clone()),
        x11,
        settling: false,
        over: false,
        note: None,
        announcement: Vec::new(),
        update: client.take_host_key_update(),
        ui: ui.clone(),
        logger,
    };
    forwards.start(client.is_relayed(), &mut client.driver().control());
    if let Some(tunnel) = tunnel {
        forwards.open_tunnel(tunnel, &mut client.driver().control());
    }
    let fatal = || forwards.fatal().map_or(Ok(()), |text| Err(ClientError::Config(text)));
    fatal()?;
    control.master = master::listen(options, client, &forwards, control.agent.request(), &control.x11, ui);
    let persistent = control.master.is_some() && *options.config.control_persist != ControlPersist::No;
    if plan.background || persistent {
        if forwards.pending() {
            // The process that waits for this one relies on the forwards when this one leaves the foreground.
            control.settling = true;
            client.run(&mut control)?;
            control.settling = false;
            fatal()?;
        }
        let in_background = |error| ClientError::Local(format!("cannot go to the background: {error}"));
        if persistent && plan.has_session() {
            // The session becomes the first mux client of the master that stays.
            if lh_sys::background::split().map_err(in_background)?.is_some() {
                master::become_mux_client(options, &plan);
            }
            plan.forget_session();
            master::detach(options).map_err(local)?;
        } else {
            background::enter(options, &plan, &control.logger, ui).map_err(in_background)?;
        }
        if persistent && let ControlPersist::Seconds(seconds) = *options.config.control_persist {
            control.persist = Some(Duration::from_secs(seconds));
        }
    }
    control.serves_others_only = persistent || !plan.has_session();
    let without_session = plan.start.is_none();
    open(options, &mut plan, client, &mut control)?;
    if *options.config.control_master == ControlMaster::No && client.forgo_sessions() {
        debug(options, ui, || "Requesting no-more-sessions@openssh.com".to_owned());
    }
    debug(options, ui, || "Entering interactive session.".to_owned());
    let result = client.run(&mut control);
    // The terminal is restored before any message.
    terminal.borrow_mut().take();
    if let Some(text) = control.note.take()
        && options.log_level >= LogLevel::Error
    {
        ui.say(&text);
    }
    match control.ending {
        Ending::Signal(signal) => {
            client.close();
            // Without a session there is no status to return, and being ended is what service managers do.
            if signal == Signal::TERM && without_session {
                return Ok(0);
            }
            if options.log_level >= LogLevel::Verbose {
                ui.say(&format!("Killed by signal {}.", signal.as_raw()));
            }
            return Ok(FAILURE);
        }
        Ending::Background => {
            // Output continues; there is no input any more.
            lh_sys::background::continue_in_background().map_err(local)?;
            let status = client.run(&mut control)?;
            client.close();
            return Ok(u8::try_from(status).unwrap_or(FAILURE));
        }
        Ending::Normal => {}
    }
    let status = result?;
    fatal()?;
    client.close();
    if plan.tty && !control.refused && options.log_level >= LogLevel::Info {
        ui.say(&format!("Connection to {} closed.", client.host()));
    }
    Ok(u8::try_from(status).unwrap_or(FAILURE))
}

/// Opens the session's channel, if there is a session.
fn open(
    options: &Options,
    plan: &mut Plan,
    client: &mut Client,
    control: &mut Session,
) -> Result<(), ClientError> {
    let local = |error: std::io::Error| ClientError::Local(error.to_string());
    let channel = if let Some(target) = &plan.stdio {
        let output = LocalFd::inherited(stdout(), Direction::Write).map_err(local)?;
        let input = input(plan.null_input).map_err(local)?;
        let mut cx = client.driver().control();
        control
            .forwards
            .open_stdio(target, input, output, &mut cx)
            .map_err(|error| ClientError::Local(error.to_string()))?
    } else if let Some(start) = plan.start.take() {
        let mut setup =
            SessionSetup::new(start).with_environment(&options.config).with_timeout(&options.config);
        setup.agent_request = control.agent.request();
        setup.x11 = control.x11.request();
        if plan.tty {
            setup.pty = Some(local_pty(terminal_type(options)));
            if is_terminal(stdin()) && !plan.null_input {
                *control.terminal.borrow_mut() = RawMode::enter(stdin()).ok();
            }
        }
        let timing = keystroke_timing(options, plan, client);
        let pump = pump(options, plan, control, timing.as_ref()).map_err(local)?;
        let debugs = control.logger.level() >= LogLevel::Debug1;
        let asks = debugs.then(|| setup.clone());
        let channel = client.open_session(setup, &ChannelOptions::default(), Box::new(pump))?;
        let number = channel.number();
        control.logger.debug(|| format!("channel {number}: new session [client-session]"));
        control.announcement = asks.map_or_else(Vec::new, |setup| setup.announcement(number));
        if let Some(timing) = timing {
            let slots = Slots { timing, channel, logger: control.logger.clone() };
            client.driver().control().add_source(Box::new(slots));
        }
        channel
    } else {
        return Ok(());
    };
    control.channel = Some(channel);
    control.main = client.driver().control().handler_of(channel);
    Ok(())
}

/// `ObscureKeystrokeTiming`: only for typed input, and where the server answers PINGs.
fn keystroke_timing(options: &Options, plan: &Plan, client: &mut Client) -> Option<SharedTiming> {
    let interval = options.config.obscure_keystroke_timing.0?;
    let typed = plan.tty && !plan.null_input && is_terminal(stdin());
    let answers = client.driver().link().transport().answers_pings();
    (typed && answers).then(|| {
        let chance = |below: u32| {
            let mut bytes = [0; 4];
            lh_crypto::Random::fill(&mut lh_crypto::SystemRandom, &mut bytes);
            u32::from_le_bytes(bytes) % below.max(1)
        };
        Rc::new(RefCell::new(Timing::new(interval, Box::new(chance))))
    })
}

/// Connects the standard descriptors to the channel.
fn pump(
    options: &Options,
    plan: &Plan,
    control: &Session,
    timing: Option<&SharedTiming>,
) -> std::io::Result<FdPump> {
    let input = input(plan.null_input)?;
    let mut pump = FdPump::new()
        .input(input)
        .output(LocalFd::inherited(stdout(), Direction::Write)?)
        .output_ext(LocalFd::inherited(stderr(), Direction::Write)?)
        .tell_broken_output();
    if plan.tty {
        let (terminal, logger) = (Rc::clone(&control.terminal), control.logger.clone());
        let escapes =
            Box::new(Escapes::new(&options.config, terminal, control.forwards.clone(), logger.clone()));
        pump = match timing {
            Some(timing) => pump.filter(Box::new(Typing::new(escapes, Rc::clone(timing), logger))),
            None => pump.filter(escapes),
        };
    }
    Ok(pump)
}

/// Type, size and modes of the local terminal, for `pty-req`.
fn local_pty(term: String) -> Pty {
    let size = window_size(stdin());
    let modes = rustix::termios::tcgetattr(stdin()).map_or_else(|_| vec![0], |modes| encode_modes(&modes));
    Pty {
        term,
        columns: size.ws_col.into(),
        rows: size.ws_row.into(),
        width: size.ws_xpixel.into(),
        height: size.ws_ypixel.into(),
        modes,
    }
}

/// Source of the session's input.
fn input(null: bool) -> std::io::Result<LocalFd> {
    if null { LocalFd::owned(lh_sys::fd::null()?) } else { LocalFd::inherited(stdin(), Direction::Read) }
}

enum Ending {
    Normal,
    Signal(Signal),
    Background,
}

/// Control of a session: handles signals, the exit status and the end.
struct Session {
    signals: Signals,
    channel: Option<ChannelId>,
    main: Option<HandlerId>,
    /// The channel is a forward (`-W`).
    stdio: bool,
    tty: bool,
    /// The user asked for a terminal by name (`-t`, `RequestTTY yes`): without one nothing is run.
    needs_tty: bool,
    /// The server has refused what the session is for.
    refused: bool,
    status: Option<u8>,
    ending: Ending,
    terminal: Terminal,
    forwards: Forwards,
    /// Serves mux clients that share the connection.
    master: Option<Master>,
    /// True without a session of its own (`-N`, or `ControlPersist` after the first session).
    serves_others_only: bool,
    /// Time without use after which the connection ends (`ControlPersist`).
    persist: Option<Duration>,
    /// Time of the last use.
    idle_since: Option<Instant>,
    /// `ChannelTimeout global`.
    idle_channels: Option<IdleChannels>,
    agent: AgentForward,
    x11: X11Forward,
    /// The loop runs only until the forwards are set up.
    settling: bool,
    /// The session is over; forwarded connections may still be open.
    over: bool,
    /// Message for the time after the terminal is restored.
    note: Option<String>,
    /// Debug messages to log when the channel is open.
    announcement: Vec<String>,
    /// `UpdateHostKeys`, until it is done.
    update: Option<HostKeyUpdate>,
    ui: TerminalUi,
    logger: Logger,
}

impl Session {
    /// Time at which an unused connection ends (`ControlPersist`).
    fn unused_deadline(&self) -> Option<Instant> {
        self.idle_since.zip(self.persist).map(|(since, persist)| since + persist)
    }

    /// Passes the event to `UpdateHostKeys`; true when that handled it.
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
        update.on_event(event, cx, &mut self.ui, self.logger.level(), &mut ask)
    }

    /// Logs a channel request of the server about the session.
    fn log_request(&self, request: &str) {
        let number = self.channel.map_or(0, ChannelId::number);
        self.logger.debug(|| format!("client_input_channel_req: channel {number} rtype {request} reply 0"));
    }

    /// Ends without what the session is for.
    fn end_refused(&mut self, cx: &mut ControlCx<'_>) {
        self.refused = true;
        self.status = Some(FAILURE);
        cx.stop(FAILURE.into());
    }

    fn on_note(&mut self, note: &SessionNote, cx: &mut ControlCx<'_>) {
        match note {
            SessionNote::OpenFailed { reason, description } => {
                let (number, words) = (self.channel.map_or(0, ChannelId::number), reason_words(*reason));
                let text = format!("channel {number}: open failed: {words}: {}", sanitise(description));
                if self.stdio {
                    self.logger.say(LogLevel::Info, &text);
                    self.note = Some("stdio forwarding failed".to_owned());
                } else {
                    self.note = Some(text);
                }
            }
            SessionNote::PtyRefused => {
                self.note = Some("PTY allocation request failed on channel 0".to_owned());
                self.tty = false;
                self.terminal.borrow_mut().take();
                if self.needs_tty {
                    self.end_refused(cx);
                }
            }
            SessionNote::X11Refused => {
                self.logger.say(LogLevel::Error, "X11 forwarding request failed on channel 0");
            }
            SessionNote::Idle => {
                let text = "channel 0: closing after the time ChannelTimeout allows without traffic";
                self.logger.say(LogLevel::Debug1, text);
            }
            // A stdio forward has no exit status; opening it is success.
            SessionNote::Started if self.stdio => self.status = Some(0),
            SessionNote::Opened => {
                self.announcement.drain(..).for_each(|line| self.logger.say(LogLevel::Debug1, &line));
            }
            SessionNote::Started => {}
            SessionNote::StartRefused { request } => {
                self.note = Some(format!("{request} request failed on channel 0"));
                self.end_refused(cx);
            }
            // A shell sees only 8 bits.
            SessionNote::ExitStatus(status) => {
                self.log_request("exit-status");
                self.status = Some((status & 0xff) as u8);
            }
            // Like ssh: there is no exit status, so report failure.
            SessionNote::ExitSignal { .. } => {
                self.log_request("exit-signal");
                self.status = Some(FAILURE);
            }
        }
    }
}

impl Control for Session {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        if self.update_host_keys(&event, cx) {
            return;
        }
        let event = match &self.master {
            Some(master) => master.on_event(event, cx),
            None => Some(event),
        };
        let Some(event) = event.and_then(|event| self.forwards.on_event(event, cx)) else { return };
        let Some(event) = self.agent.on_event(event, cx) else { return };
        let Some(event) = self.x11.on_event(event, cx) else { return };
        match event {
            ControlEvent::Note { note, .. } => {
                if let Some(note) = note.downcast_ref::<SessionNote>() {
                    self.on_note(note, cx);
                } else if note.is::<Disconnect>() {
                    self.status = Some(FAILURE);
                    cx.stop(FAILURE.into());
                } else if note.is::<Background>() {
                    self.forwards.stop_listening(cx);
                    self.ending = Ending::Background;
                    cx.stop(0);
                }
            }
            ControlEvent::ChannelGone { handler, .. } => {
                if self.main == Some(handler) {
                    self.main = None;
                    self.channel = None;
                    self.over = true;
                    // Forwarded connections continue to their end; the terminal belongs to the shell again.
                    self.terminal.borrow_mut().take();
                }
            }
            ControlEvent::KexDone { .. } => self.logger.say(LogLevel::Debug1, lh_client::NEWKEYS),
            ControlEvent::Debug { always_display, text } => {
                let (level, line) = lh_client::remote_debug(always_display, &text);
                self.logger.say(level, &line);
            }
            event => answer_by_default(event, cx),
        }
    }

    fn before_wait(&mut self, cx: &mut ControlCx<'_>) {
        if let Some(master) = &self.master {
            master.before_wait();
        }
        self.over |= self.serves_others_only && self.master.as_ref().is_some_and(Master::has_stopped);
        let used = cx.handler_count() > 0 || self.master.as_ref().is_some_and(Master::is_used);
        if self.over && !used {
            // Without an exit status the program was killed, or the server is faulty: not a success.
            cx.stop(self.status.unwrap_or(FAILURE).into());
        } else if self.settling && !self.forwards.pending() {
            cx.stop(0);
        }
        self.idle_since = match self.idle_since {
            _ if self.persist.is_none() || used => None,
            None => Some(cx.now()),
            since => since,
        };
        if let Some(idle) = &mut self.idle_channels {
            idle.before_wait(cx);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let idle = self.idle_channels.as_ref().and_then(IdleChannels::next_deadline);
        [self.unused_deadline(), idle].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        if self.idle_channels.as_mut().is_some_and(|idle| idle.on_timeout(cx) > 0) {
            let text = "global channel timeout: closing all channels";
            self.logger.say(LogLevel::Info, text);
        }
        if self.unused_deadline().is_none_or(|deadline| deadline > cx.now()) {
            return;
        }
        self.idle_since = None;
        self.persist = None;
        cx.stop(0);
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
                if let Some(master) = &self.master {
                    // A mux client's process forwards the signal to us when its terminal changes.
                    master.window_changed(cx);
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
