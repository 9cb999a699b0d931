//! Mux client: sessions over another process's connection through its control socket, and `-O`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use lh_client::mux::wire::{Kind, NewSession};
use lh_client::mux::{ConnectError, Ended, MuxClient, MuxError};
use lh_client::{Client, ClientError, LogLevel, Options, SessionSetup, Start};
use lh_config::enums::ControlMaster;
use lh_config::forward::Forward;
use lh_config::special::ForwardAgent;
use lh_sys::errno_text;
use lh_sys::signals::Signals;
use lh_sys::termios::{RawMode, is_terminal};
use lh_terminal::TerminalUi;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::stdio::{stderr, stdin, stdout};

use crate::background::release_stdio;
use crate::command_line::ControlCommand;
use crate::errors::ControlError;
use crate::plan::{Plan, terminal_type};
use crate::report::{FAILURE, debug};

/// Executes `-O`. Returns the exit status.
pub(crate) fn command(options: &Options, command: ControlCommand, ui: &mut TerminalUi) -> u8 {
    let result = connect(options).and_then(|mut master| {
        master.greet()?;
        Ok(execute(options, command, &mut master, ui)?)
    });
    match result {
        Ok(()) => 0,
        Err(error) => {
            ui.say(&error.to_string());
            FAILURE
        }
    }
}

/// `-O proxy`: uses the master's connection for a session that runs here.
pub(crate) fn share(options: &Options) -> Result<Client, ClientError> {
    let client = connect(options).and_then(|mut master| {
        master.greet()?;
        Client::relayed(master.into_proxy()?, options).map_err(ControlError::Socket)
    });
    client.map_err(|error| ClientError::Local(error.to_string()))
}

fn connect(options: &Options) -> Result<MuxClient, ControlError> {
    let path = options.config.control_path.as_deref().ok_or(ControlError::NoPath)?;
    MuxClient::connect(Path::new(path)).map_err(|error| match error {
        ConnectError::TooLong(_) => ControlError::TooLong(error),
        source => ControlError::Connect { path: path.to_owned(), source },
    })
}

fn execute(
    options: &Options,
    command: ControlCommand,
    master: &mut MuxClient,
    ui: &mut TerminalUi,
) -> Result<(), MuxError> {
    match command {
        ControlCommand::Check => ui.say(&format!("Master running (pid={})", master.pid())),
        ControlCommand::Exit => {
            master.terminate()?;
            confirm(options, ui, "Exit request sent.");
        }
        ControlCommand::Stop => {
            master.stop_listening()?;
            confirm(options, ui, "Stop listening request sent.");
        }
        ControlCommand::Information => print!("{}", master.information("connection")?),
        ControlCommand::Channels => print!("{}", master.information("channels")?),
        // Proxy runs as a session, elsewhere.
        ControlCommand::Proxy => {}
        ControlCommand::Forward => {
            for (kind, forward) in forwards(options)? {
                let port = request(master, kind, &forward).map_err(|error| {
                    ui.say(&format!("mux_client_forward: {error}"));
                    MuxError::Failed("muxclient: master forward request failed".to_owned())
                })?;
                if let Some(port) = port {
                    println!("{port}");
                }
            }
        }
        ControlCommand::Cancel => {
            for (kind, forward) in forwards(options)? {
                // Like ssh, this is no failure: the forward does not exist afterwards.
                if let Err(error) = master.close_forward(kind, &forward) {
                    ui.say(&format!("mux_client_forward: forwarding request failed: {error}"));
                    ui.say("muxclient: master cancel forward request failed");
                }
            }
        }
    }
    Ok(())
}

/// Confirms a command on the terminal, at every log level but `QUIET`, as `ssh` does.
fn confirm(options: &Options, ui: &mut TerminalUi, text: &str) {
    if options.log_level > LogLevel::Quiet {
        ui.say(text);
    }
}

fn request(master: &mut MuxClient, kind: Kind, forward: &Forward) -> Result<Option<u16>, MuxError> {
    master
        .open_forward(kind, forward)
        .map_err(|error| MuxError::Failed(format!("forwarding request failed: {error}")))
}

/// Forwards of the configuration.
fn forwards(options: &Options) -> Result<Vec<(Kind, Forward)>, MuxError> {
    let (local, remote) = lh_client::forward::configured(&options.config);
    let local = local
        .into_iter()
        .map(|forward| (if forward.connect.is_some() { Kind::Local } else { Kind::Dynamic }, forward));
    Ok(local.chain(remote.into_iter().map(|forward| (Kind::Remote, forward))).collect())
}

/// Runs the session as a mux client, if a master exists and the configuration permits it. `None`: make a new
/// connection.
pub(crate) fn mux_through_master(options: &Options, plan: &Plan, ui: &mut TerminalUi) -> Option<u8> {
    let config = &options.config;
    let path = config.control_path.as_deref()?;
    match *config.control_master {
        ControlMaster::Yes | ControlMaster::Ask => return None,
        ControlMaster::Auto | ControlMaster::AutoAsk => {
            debug(options, ui, || format!("auto-mux: Trying existing master at '{path}'"));
        }
        ControlMaster::No => {}
    }
    let master = match MuxClient::connect(Path::new(path)) {
        Ok(master) => master,
        Err(ConnectError::Missing(_)) => {
            debug(options, ui, || format!("Control socket \"{path}\" does not exist"));
            return None;
        }
        Err(ConnectError::Stale(_)) if *config.control_master != ControlMaster::No => {
            debug(options, ui, || format!("Stale control socket {path}, unlinking"));
            let _ = std::fs::remove_file(path);
            return None;
        }
        Err(error @ ConnectError::TooLong(_)) => {
            complain(options, ui, &error.to_string());
            return Some(FAILURE);
        }
        Err(error) => {
            complain(options, ui, &format!("Control socket connect({path}): {error}"));
            return None;
        }
    };
    run_over_master(options, plan, master, ui)
}

/// Like [`mux_through_master`], with the master that has just split off from this process.
pub(crate) fn mux_through_new_master(options: &Options, plan: &Plan, ui: &mut TerminalUi) -> u8 {
    let path = options.config.control_path.as_deref().unwrap_or_default();
    let status = match MuxClient::connect(Path::new(path)) {
        Ok(master) => run_over_master(options, plan, master, ui),
        Err(_) => None,
    };
    status.unwrap_or_else(|| {
        complain(options, ui, "Failed to connect to new control master");
        FAILURE
    })
}

fn complain(options: &Options, ui: &mut TerminalUi, text: &str) {
    if options.log_level >= LogLevel::Error {
        ui.say(text);
    }
}

/// Runs the session over `master`. `None`: the master cannot do it, so a new connection is needed.
fn run_over_master(options: &Options, plan: &Plan, mut master: MuxClient, ui: &mut TerminalUi) -> Option<u8> {
    let null = lh_sys::fd::null().ok()?;
    let forwards = forwards(options);
    // Nothing has to be known before the session may be requested.
    let at_once =
        plan.start.as_ref().filter(|_| plan.stdio.is_none() && forwards.as_ref().is_ok_and(Vec::is_empty));
    let opened = match at_once {
        Some(start) => {
            let session = new_session(options, plan, start);
            master.greet_and_open_session(session, [input(plan, &null), stdout(), stderr()]).map(Some)
        }
        None => master.greet().map(|()| None),
    };
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => {
            complain(options, ui, &format!("muxclient: master hello exchange failed: {error}"));
            // The master may be stopped, and run the requested session when it goes on. A new connection
            // would run it a second time.
            return (at_once.is_some() && error.is_timeout()).then_some(FAILURE);
        }
    };
    let requested = forwards.and_then(|all| {
        all.into_iter().try_for_each(|(kind, forward)| {
            let port = request(&mut master, kind, &forward)?;
            if let Some(text) = port.and_then(|port| lh_client::forward::allocated(&forward, port)) {
                debug(options, ui, || text);
            }
            Ok(())
        })
    });
    if let Err(error) = requested {
        complain(options, ui, &format!("mux_client_forward: {error}"));
        complain(options, ui, "muxclient: master forward request failed");
        return None;
    }
    if let Some(target) = &plan.stdio {
        return Some(run_stdio_over_master(options, plan, target, master, ui));
    }
    let Some(start) = &plan.start else {
        // The command line has only forwards.
        return Some(wait(options, plan, &mut master, None, ui).status());
    };
    let opened = opened.unwrap_or_else(|| {
        let session = new_session(options, plan, start);
        master.open_session(session, [input(plan, &null), stdout(), stderr()])
    });
    match opened {
        Ok(session) => Some(run_session(options, plan, &mut master, session, ui)),
        Err(error) => {
            complain(
                options,
                ui,
                &match error {
                    MuxError::Denied(why) => format!("Master refused session request: {why}"),
                    error => format!("mux_client_request_session: session request failed: {error}"),
                },
            );
            None
        }
    }
}

fn run_session(
    options: &Options,
    plan: &Plan,
    master: &mut MuxClient,
    session: u32,
    ui: &mut TerminalUi,
) -> u8 {
    // Not before: the master reads the modes for `pty-req` from this terminal before it answers.
    let terminal = (plan.tty && is_terminal(stdin()) && !plan.null_input)
        .then(|| RawMode::enter(stdin()).ok())
        .flatten();
    let status = wait(options, plan, master, Some(session), ui).status();
    drop(terminal);
    if plan.tty && options.log_level >= LogLevel::Info {
        ui.say(&format!("Shared connection to {} closed.", options.config.host));
    }
    status
}

fn run_stdio_over_master(
    options: &Options,
    plan: &Plan,
    target: &lh_driver::Target,
    mut master: MuxClient,
    ui: &mut TerminalUi,
) -> u8 {
    let Ok(null) = lh_sys::fd::null() else { return FAILURE };
    match master.open_stdio(target, [input(plan, &null), stdout()]) {
        Ok(session) => match wait(options, plan, &mut master, Some(session), ui) {
            // A stdio forward has no exit status; opening it is success.
            Waited::Gone => 0,
            waited => waited.status(),
        },
        Err(error) => {
            complain(
                options,
                ui,
                &match error {
                    MuxError::Denied(why) => format!("Master refused stdio forwarding request: {why}"),
                    error => format!("Stdio forwarding request failed: {error}"),
                },
            );
            FAILURE
        }
    }
}

/// Result of waiting.
enum Waited {
    /// The program ended with this status.
    Exit(u32),
    /// The master closed the control connection without an exit status.
    Gone,
    /// A signal told this process to end.
    Signal,
}

impl Waited {
    fn status(&self) -> u8 {
        match self {
            // A shell sees only 8 bits.
            Self::Exit(status) => (status & 0xff) as u8,
            Self::Gone | Self::Signal => FAILURE,
        }
    }
}

/// Waits until the session is over. The master has our descriptors and does the work.
fn wait(
    options: &Options,
    plan: &Plan,
    master: &mut MuxClient,
    session: Option<u32>,
    ui: &mut TerminalUi,
) -> Waited {
    if plan.background {
        if lh_sys::background::continue_in_background().is_err() {
            complain(options, ui, "cannot go to the background");
        } else if let Err(error) = release_stdio(options) {
            complain(options, ui, &format!("cannot open /dev/null: {}", errno_text(&error)));
        }
    }
    // Ignored signals stay ignored (`nohup`).
    let ending = lh_sys::signals::not_ignored(&[Signal::HUP, Signal::INT, Signal::TERM]);
    let Ok(signals) = Signals::collect(&[&ending[..], &[Signal::WINCH]].concat()) else {
        return Waited::Signal;
    };
    let mut ended = None;
    loop {
        let ready = {
            let mut fds = [
                PollFd::from_borrowed_fd(master.socket(), PollFlags::IN),
                PollFd::new(&signals, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Waited::Gone,
            }
            !fds[0].revents().is_empty()
        };
        while let Ok(Some(signal)) = signals.take() {
            if signal != Signal::WINCH {
                return Waited::Signal;
            }
            // Only the master can read our terminal's size and send it to the server.
            if let Some(pid) = i32::try_from(master.pid()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::WINCH);
            }
        }
        if !ready {
            continue;
        }
        match master.next(session.unwrap_or(u32::MAX)) {
            Ok(Some(Ended::Exit(status))) => ended = Some(status),
            // All output has been written by now.
            Ok(Some(Ended::Lost)) => return ended.map_or(Waited::Gone, Waited::Exit),
            Ok(None) => complain(options, ui, "PTY allocation request failed"),
            Err(error) => {
                complain(options, ui, &format!("mux_client_read_packet: {error}"));
                return Waited::Gone;
            }
        }
    }
}

fn input<'a>(plan: &Plan, null: &'a OwnedFd) -> BorrowedFd<'a> {
    if plan.null_input { null.as_fd() } else { stdin() }
}

fn new_session(options: &Options, plan: &Plan, start: &Start) -> NewSession {
    let config = &options.config;
    let environment = SessionSetup::new(start.clone()).with_environment(config).env;
    NewSession {
        tty: plan.tty,
        x11: *config.forward_x11,
        agent: *config.forward_agent != ForwardAgent::No,
        subsystem: matches!(start, Start::Subsystem(_)),
        escape: config.escape_char.0,
        term: terminal_type(options),
        command: match start {
            Start::Shell => Vec::new(),
            Start::Exec(command) => command.clone(),
            Start::Subsystem(name) => name.clone().into_bytes(),
        },
        environment: environment
            .into_iter()
            .map(|(name, value)| format!("{name}={value}").into_bytes())
            .collect(),
    }
}
