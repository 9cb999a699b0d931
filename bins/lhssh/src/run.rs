//! Connecting, the session, and what becomes of it.

use std::process::Command;
use std::time::Instant;

use lh_client::{
    Client, ClientError, LogLevel, Options, Start, SystemEnvironment, TerminalUi, UserInterface, connect,
};
use lh_config::enums::{RequestTty, SessionType};
use lh_config::forward::Endpoint;
use lh_driver::Target;
use lh_sys::termios::is_terminal;
use rustix::stdio::stdin;

use crate::FAILURE;
use crate::session::session;

/// Everything behind the command line. Returns the exit status.
pub(crate) fn run(options: &Options, wanted: Wanted, ui: &mut TerminalUi) -> u8 {
    let plan = match Plan::new(options, wanted, ui) {
        Ok(plan) => plan,
        Err(text) => return report(options, &ClientError::Config(text), ui),
    };
    let started = Instant::now();
    let mut client = match connect(options, ui) {
        Ok(client) => client,
        Err(error) => return report(options, &error, ui),
    };
    run_local_command(options);
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

/// What the command line wants besides what the configuration says.
pub(crate) struct Wanted {
    /// The command, words joined by blanks.
    pub(crate) command: Option<Vec<u8>>,
    /// `-W`.
    pub(crate) stdio: Option<Endpoint>,
}

/// What kind of session it is to be.
pub(crate) struct Plan {
    /// `None` for no session at all (`-N`).
    pub(crate) start: Option<Start>,
    /// Standard input and output are forwarded there instead.
    pub(crate) stdio: Option<Target>,
    pub(crate) tty: bool,
    pub(crate) null_input: bool,
    pub(crate) background: bool,
}

impl Plan {
    fn new(options: &Options, wanted: Wanted, ui: &mut TerminalUi) -> Result<Self, String> {
        let Wanted { command, stdio } = wanted;
        let config = &options.config;
        let remote = config.remote_command.command();
        if command.is_some() && remote.is_some() && !matches!(*config.session_type, SessionType::None) {
            return Err("Cannot execute command-line and remote command.".to_owned());
        }
        let command = match (command, remote) {
            (Some(command), _) => Some(command),
            (None, Some(text)) => {
                let expanded = config.tokens(&SystemEnvironment).expand(text);
                Some(expanded.map_err(|why| format!("RemoteCommand: {why}"))?.into_bytes())
            }
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
        Ok(Self { start, stdio: stdio.as_ref().map(lh_client::forward::target), tty, null_input, background })
    }
}

/// `LocalCommand`, where permitted.
fn run_local_command(options: &Options) {
    let config = &options.config;
    if !*config.permit_local_command {
        return;
    }
    let Some(command) = config.local_command.command() else { return };
    // No tunnel is ever opened: %T says so.
    let tokens = config.tokens(&SystemEnvironment).with('T', "NONE");
    if let Ok(command) = tokens.expand(command) {
        let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| "/bin/sh".into());
        let _ = Command::new(shell).arg("-c").arg(command).status();
    }
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

pub(crate) fn debug(options: &Options, ui: &mut TerminalUi, text: impl FnOnce() -> String) {
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
