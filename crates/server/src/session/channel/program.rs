//! Starts the program of a session channel: its environment, the scripts that run before it, and its terminal
//! or pipes.

use std::io;

use lh_sftp_server::{CLIENT_IDENTIFICATION, SERVER_IDENTIFICATION};
use lh_sys::pty::Pty;
use lh_sys::spawn::Program;

use crate::session::auth_info::AuthInfo;
use crate::session::command::{Decision, Plan, RequestedProgram};
use crate::session::command_usage::Files;
use crate::session::environment::{self, ClientVariables, Sources, UserFile};
use crate::session::process::{Errors, Process};
use crate::session::shared::Shared;
use crate::session::x11::Display;
use crate::session::{rc, recording};

/// A terminal that was requested and waits for its program.
pub(super) struct Terminal {
    pub(super) pty: Pty,
    pub(super) kind: String,
}

impl Terminal {
    /// Returns the terminal's name in login records.
    pub(super) fn line(&self) -> Option<String> {
        self.pty.name().strip_prefix("/dev").ok().map(|line| line.display().to_string())
    }
}

/// What the client has requested before the program.
pub(super) struct Requested<'a> {
    pub(super) variables: &'a ClientVariables,
    pub(super) display: Option<&'a Display>,
    pub(super) terminal: Option<Terminal>,
}

/// Runs the decided program. `files` collects the files that it transfers, for the log.
/// `identifications` are the client's identification line and our own, for programs that need them.
pub(super) fn run(
    shared: &Shared,
    decision: &Decision,
    wanted: &RequestedProgram,
    user_file: &UserFile,
    files: Option<&Files>,
    identifications: Option<[String; 2]>,
    requested: Requested<'_>,
) -> io::Result<Process> {
    let Plan::Program { path, arg0, args, .. } = &decision.plan else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let Requested { variables: client_variables, display, terminal } = requested;
    let agent = shared.programs.agent.borrow();
    let environment = environment::build(&Sources {
        client: client_variables,
        user: &shared.user,
        key: &shared.programs.key_environment,
        set_env: &shared.settings.set_env.0,
        user_file: &user_file.variables,
        credentials: shared.programs.credentials.as_ref().map(|credentials| credentials.name()),
        pam: crate::pam_use::uses_pam(&shared.settings),
        modules: &shared.modules.environment,
        connection: shared.client.endpoints.get(),
        agent: agent.as_deref(),
        display: display.map(Display::name),
        terminal: terminal.as_ref().map(|terminal| (terminal.pty.name(), terminal.kind.as_str())),
        original_command: decision.original.as_ref(),
        auth_info: shared.programs.auth_info.as_ref().map(AuthInfo::path),
    });
    let mut variables = environment.into_variables();
    let told = files.map(Files::for_command).transpose()?;
    if let Some([client, own]) = identifications {
        variables.push((CLIENT_IDENTIFICATION.into(), client.into()));
        variables.push((SERVER_IDENTIFICATION.into(), own.into()));
    }
    if let Some((_, (name, value))) = &told {
        variables.push((name.into(), value.into()));
    }
    let mut program = Program::new(path).arg0(arg0).env(variables);
    if let Some((fd, _)) = told {
        program = program.keep(fd);
    }
    for arg in args {
        program = program.arg(arg);
    }
    let mut before = None;
    // With a forced command or a subsystem, no script of the user's may run before it.
    if !matches!(wanted, RequestedProgram::Subsystem(_))
        && !shared.restricted()
        && shared.settings.force_command.command().is_none()
    {
        let allowed = shared.options.user_rc && shared.settings.permit_user_rc.value;
        let input = display.map(Display::for_rc).unwrap_or_default();
        before = rc::program(&shared.user, allowed, &input)?;
    }
    if before.is_none()
        && let Some(display) = display
    {
        // The user's own script calls xauth itself.
        before = Some(display.xauth()?);
    }
    if let Some(before) = before {
        program = program.before(before);
    }
    match terminal {
        Some(terminal) => {
            let recording =
                recording::open(shared, &terminal.kind, rustix::termios::tcgetwinsize(&terminal.pty)?)?;
            let shown = terminal.line().map(|line| shared.programs.title.with_terminal(line));
            Process::in_terminal(program, terminal.pty, shown, recording)
        }
        None if matches!(wanted, RequestedProgram::Subsystem(_)) => {
            Process::with_pipes(program, Errors::Discarded)
        }
        None => Process::with_pipes(program, Errors::Sent),
    }
}
