//! The session: its channel, its terminal, and its end.

mod control;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_client::farewell;
use lh_client::forward::TunnelEnd;
use lh_client::{Client, ClientError, Forwards, LogLevel, Options, Pty, SessionSetup, X11Forward};
use lh_config::enums::{ControlMaster, RequestTty};
use lh_config::special::ControlPersist;
use lh_driver::{ChannelOptions, Direction, FdPump, IdleChannels, LocalFd};
use lh_sys::signals::Signals;
use lh_sys::termios::{RawMode, encode_modes, is_terminal, window_size};
use lh_terminal::TerminalUi;
use rustix::process::Signal;
use rustix::stdio::{stderr, stdin, stdout};

use crate::escapes::{Escapes, Terminal};
use crate::keystrokes::{SharedTiming, Slots, Timing, Typing};
use crate::plan::{Plan, terminal_type};
use crate::report::{FAILURE, debug};
use crate::{background, master};
use control::{Ending, MainChannel, Outcome, Session, Unused};

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
    client.log_to(logger.clone());
    // What runs in the background has no keys, and the standard input and output of -W are another program's.
    if !plan.tty && !plan.background && plan.stdio.is_none() {
        client.show_breaks(Some("^C"));
    }
    let x11 = if client.is_relayed() && *options.config.forward_x11 {
        logger.say(LogLevel::Info, "X11 is forwarded by the master, not by its clients in proxy mode");
        X11Forward::none(logger.clone())
    } else {
        X11Forward::new(&options.config, logger.clone(), &mut |done| client.wait_for(done))
    };
    let signals = lh_sys::signals::not_ignored(&farewell::END_SIGNALS);
    let signals = Signals::collect(&[&signals[..], &[Signal::WINCH]].concat()).map_err(local)?;
    client.signals_are_collected();
    let terminal: Terminal = Rc::new(RefCell::new(None));
    let forwards = Forwards::new(&options.config, logger.clone());
    let idle_channels = options.config.channel_timeout.of_all_channels();
    let mut control = Session {
        signals,
        main: MainChannel {
            channel: None,
            handler: None,
            stdio: plan.stdio.is_some(),
            tty: plan.tty,
            needs_tty: matches!(*options.config.request_tty, RequestTty::Yes | RequestTty::Force),
            announcement: Vec::new(),
        },
        outcome: Outcome { status: None, refused: false, over: false, ending: Ending::Normal, note: None },
        unused: Unused {
            persist: None,
            since: None,
            channels: idle_channels.map(|limit| IdleChannels::new(limit, Instant::now())),
        },
        terminal: Rc::clone(&terminal),
        resumptions: options.resumptions.clone(),
        forwards: forwards.clone(),
        master: None,
        serves_others_only: false,
        agent: client.agent_forward(options, logger.clone()),
        x11,
        settling: false,
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
    control.master = master::listen(options, client, &forwards, control.agent.request(), &control.x11, ui)?;
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
            control.unused.persist = Some(Duration::from_secs(seconds));
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
    if let Some((level, text)) = control.outcome.note.take()
        && options.log_level >= level
    {
        ui.say(&text);
    }
    match control.outcome.ending {
        Ending::Signal(signal) => {
            client.close_early();
            // Without a session there is no status to return, and being ended is what service managers do.
            if signal == Signal::TERM && without_session {
                return Ok(0);
            }
            if !farewell::STATUS_SIGNALS.contains(&signal) {
                drop(control);
                lh_sys::signals::end_by(signal);
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
    // A master may end in the middle of its clients' sessions, as `~.` ends this one.
    if control.serves_others_only || !control.outcome.over {
        client.close_early()
    } else {
        client.close()
    }
    if plan.tty && !control.outcome.refused && options.log_level >= LogLevel::Info {
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
        control.main.announcement = asks.map_or_else(Vec::new, |setup| setup.announcement(number));
        if let Some(timing) = timing {
            let slots = Slots { timing, channel, logger: control.logger.clone() };
            client.driver().control().add_source(Box::new(slots));
        }
        channel
    } else {
        return Ok(());
    };
    control.main.channel = Some(channel);
    control.main.handler = client.driver().control().handler_of(channel);
    Ok(())
}

/// `ObscureKeystrokeTiming`: only for typed input, and where the server answers PINGs.
fn keystroke_timing(options: &Options, plan: &Plan, client: &mut Client) -> Option<SharedTiming> {
    let interval = options.config.obscure_keystroke_timing.0?;
    let typed = plan.tty && !plan.null_input && is_terminal(stdin());
    let answers = client.driver().link().answers_pings();
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
