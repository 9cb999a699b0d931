//! Connecting, running the session, and reporting its result.

use std::path::PathBuf;
use std::time::Instant;

use lh_client::forward::TunnelEnd;
use lh_client::{
    Client, ClientError, LogLevel, Options, Purpose, Start, SystemEnvironment, TerminalUi, UserInterface,
    connect,
};
use lh_config::enums::{RequestTty, SessionType};
use lh_config::forward::Endpoint;
use lh_driver::Target;
use lh_sys::termios::is_terminal;
use rustix::stdio::{stderr, stdin, stdout};

use crate::command_line::ControlCommand;
use crate::session::session;
use crate::{FAILURE, passenger};

/// Runs everything after the command line has been parsed. Returns the exit status.
pub(crate) fn run(options: &Options, wanted: Wanted, ui: &mut TerminalUi) -> u8 {
    debug(options, ui, || lh_cli::flags::SSH.version());
    let proxy = wanted.control == Some(ControlCommand::Proxy);
    if let Some(command) = wanted.control.filter(|_| !proxy) {
        return passenger::command(options, command, ui);
    }
    let plan = match Plan::new(options, wanted, ui) {
        Ok(plan) => plan,
        Err(text) => return report(options, &ClientError::Config(text), ui),
    };
    if !proxy && let Some(status) = passenger::ride_along(options, &plan, ui) {
        return status;
    }
    let options = &Options { purpose: plan.purpose(), ..options.clone() };
    let started = Instant::now();
    let client = if proxy { passenger::share(options) } else { connect(options, ui) };
    let mut client = match client {
        Ok(client) => client,
        Err(error) => return report(options, &error, ui),
    };
    let tunnel = match open_tunnel(options, ui) {
        Ok(tunnel) => tunnel,
        Err(error) => return report(options, &error, ui),
    };
    run_local_command(options, tunnel.as_ref(), ui);
    set_service_quality(options, &mut client, plan.tty);
    let status = match session(options, plan, tunnel, &mut client, ui) {
        Ok(status) => status,
        // The error must be the last line, where scripts look for it.
        Err(error) => return report(options, &error, ui),
    };
    if options.log_level >= LogLevel::Verbose {
        let transport = client.driver().link().transport();
        let (sent, received) = (transport.bytes_out(), transport.bytes_in());
        let seconds = started.elapsed().as_secs_f64();
        let rate = |bytes: u64| bytes as f64 / seconds.max(0.001);
        ui.say(&format!("Transferred: sent {sent}, received {received} bytes, in {seconds:.1} seconds"));
        ui.say(&format!("Bytes per second: sent {:.1}, received {:.1}", rate(sent), rate(received)));
    }
    debug(options, ui, || format!("Exit status {status}"));
    status
}

/// Settings of the command line that are not in the configuration.
pub(crate) struct Wanted {
    /// The command, its words joined by blanks.
    pub(crate) command: Option<Vec<u8>>,
    /// `-W`.
    pub(crate) stdio: Option<Endpoint>,
    /// `-O`.
    pub(crate) control: Option<ControlCommand>,
    /// `-E`.
    pub(crate) log_file: Option<PathBuf>,
}

/// Settings of the session.
pub(crate) struct Plan {
    /// `None` for no session at all (`-N`).
    pub(crate) start: Option<Start>,
    /// Forward standard input and output to this target instead.
    pub(crate) stdio: Option<Target>,
    pub(crate) tty: bool,
    pub(crate) null_input: bool,
    pub(crate) background: bool,
    /// File for log messages.
    pub(crate) log_file: Option<PathBuf>,
}

impl Plan {
    /// True when there is a session or a stdio forward, not only forwards.
    pub(crate) const fn has_session(&self) -> bool {
        self.start.is_some() || self.stdio.is_some()
    }

    /// Purpose of the connection.
    const fn purpose(&self) -> Purpose {
        match &self.start {
            _ if self.tty => Purpose::Terminal,
            _ if self.stdio.is_some() => Purpose::Forwards,
            None => Purpose::Forwards,
            Some(Start::Shell) => Purpose::Shell,
            Some(Start::Exec(_) | Start::Subsystem(_)) => Purpose::Command,
        }
    }

    /// Removes the session, which another process runs; only forwards remain.
    pub(crate) fn forget_session(&mut self) {
        self.start = None;
        self.stdio = None;
        self.tty = false;
        self.null_input = true;
    }

    fn new(options: &Options, wanted: Wanted, ui: &mut TerminalUi) -> Result<Self, String> {
        let Wanted { command, stdio, log_file, .. } = wanted;
        let config = &options.config;
        let remote = config.remote_command.command();
        if command.is_some() && remote.is_some() && !matches!(*config.session_type, SessionType::None) {
            return Err("Cannot execute command-line and remote command.".to_owned());
        }
        let command = match (command, remote) {
            (Some(command), _) => Some(command),
            // The loader has expanded its tokens.
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
        Ok(Self {
            start,
            stdio: stdio.as_ref().map(lh_client::forward::target),
            tty,
            null_input,
            background,
            log_file,
        })
    }
}

/// Opens the device of `Tunnel`, where configured.
fn open_tunnel(options: &Options, ui: &mut TerminalUi) -> Result<Option<TunnelEnd>, ClientError> {
    const TEXT: &str = "Could not request tunnel forwarding.";
    match TunnelEnd::open(&options.config) {
        None => Ok(None),
        Some(Ok(tunnel)) => Ok(Some(tunnel)),
        Some(Err(why)) => {
            if options.log_level >= LogLevel::Error {
                ui.say(&format!("Tunnel device open failed: {}", lh_driver::error_words(&why)));
            }
            if *options.config.exit_on_forward_failure {
                return Err(ClientError::Local(TEXT.to_owned()));
            }
            if options.log_level >= LogLevel::Error {
                ui.say(TEXT);
            }
            Ok(None)
        }
    }
}

/// Runs `LocalCommand`, where permitted.
fn run_local_command(options: &Options, tunnel: Option<&TunnelEnd>, ui: &mut TerminalUi) {
    let config = &options.config;
    if !*config.permit_local_command {
        return;
    }
    let Some(command) = config.local_command.command() else { return };
    let device = tunnel.map_or("NONE", TunnelEnd::name);
    let tokens = config.tokens(&SystemEnvironment).with('T', device);
    let failed = match tokens.expand_command(command) {
        Ok(command) => run_in_shell(&command).err().map(|error| error.to_string()),
        Err(why) => Some(why),
    };
    if let Some(why) = failed.filter(|_| options.log_level >= LogLevel::Error) {
        ui.say(&format!("LocalCommand: {why}"));
    }
}

/// Runs a command in the user's shell on our own standard descriptors, and waits for it. It receives signals
/// that this process blocks.
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
        // 0 is the default of a new socket.
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

/// Reports an error, unless the log level forbids it.
fn report(options: &Options, error: &ClientError, ui: &mut TerminalUi) -> u8 {
    if options.log_level >= LogLevel::Fatal {
        ui.say(&error.to_string());
    }
    FAILURE
}
