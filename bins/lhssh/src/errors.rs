//! Why a run of the program ends before there is a session, in OpenSSH's words. All mean exit status 255.

use lh_cli::flags::SSH;
use lh_client::destination::DestinationError;
use lh_client::mux::{ConnectError, MuxError};
use lh_config::{ConfigError, ExpandError};
use lh_sys::errno_text;

/// A mistake on the command line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandLineError {
    /// No destination, or none that can be one.
    #[error("{}", SSH.usage())]
    Usage,
    /// A wrong `-o` on a command line without a destination.
    #[error(transparent)]
    Option(ConfigError),
    #[error(transparent)]
    Destination(DestinationError),
    /// `-s` without a command.
    #[error("You must specify a subsystem to invoke.\n{}", SSH.usage())]
    NoSubsystem,
    /// `-N` after `-s` or another `SessionType`.
    #[error("Cannot specify -N with -s/SessionType")]
    NoneAndSession,
    /// `-s` after `-N`, `-W` or another `SessionType`.
    #[error("Cannot specify -s with -N/SessionType")]
    SubsystemAndSession,
    /// `kind` is local, remote, dynamic or stdio.
    #[error("Bad {kind} forwarding specification '{spec}'")]
    Forward { kind: &'static str, spec: String },
    /// A second `-W`.
    #[error("stdio forward already specified")]
    SecondStdio,
    /// `-c`, `-m`; `kind` is cipher or mac.
    #[error("Unknown {kind} type '{list}'")]
    Algorithm { kind: &'static str, list: String },
    #[error("Bad port '{0}'")]
    Port(String),
    #[error("Bad escape character '{0}'.")]
    Escape(String),
    /// `-w`.
    #[error("Bad tun device '{0}'")]
    Tunnel(String),
    #[error("Only a single -J option is permitted (use commas to separate multiple jump hops)")]
    SecondJump,
    #[error("Cannot specify -J with ProxyCommand")]
    JumpAndProxy,
    #[error("Invalid -J argument")]
    Jump,
    /// `-O`.
    #[error("Invalid multiplex command.")]
    Control,
}

/// The command line and the configuration contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("Cannot execute command-line and remote command.")]
    TwoCommands,
    #[error("You must specify a subsystem to invoke.")]
    NoSubsystem,
    /// A shell in the background.
    #[error("Cannot fork into background without a command to execute.")]
    NoCommand,
}

/// A token in `LocalCommand` that it does not have.
#[derive(Debug, thiserror::Error)]
#[error("LocalCommand: {0}")]
pub(crate) struct LocalCommandError(#[from] ExpandError);

/// Why `-O` has no answer of a master.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    #[error("No ControlPath specified for \"-O\" command")]
    NoPath,
    #[error("Control socket connect({path}): {source}")]
    Connect { path: String, source: ConnectError },
    #[error(transparent)]
    TooLong(ConnectError),
    /// The master refuses, or breaks the protocol.
    #[error(transparent)]
    Master(#[from] MuxError),
    /// The socket to the master cannot be used for a session of this process.
    #[error("{}", errno_text(.0))]
    Socket(std::io::Error),
}
