//! Connecting, running the session, and reporting its result.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use lh_client::forward::TunnelEnd;
use lh_client::{Client, ClientError, LogLevel, Options, SystemEnvironment, connect};
use lh_terminal::TerminalUi;
use rustix::stdio::{stderr, stdin, stdout};

use crate::command_line::ControlCommand;
use crate::errors::LocalCommandError;
use crate::mux_client;
use crate::plan::{CommandLineSettings, Plan};
use crate::report::{debug, report, report_connection};
use crate::session::session;

/// Runs everything after the command line has been parsed. Returns the exit status.
pub(crate) fn run(options: &Options, wanted: CommandLineSettings, ui: &mut TerminalUi) -> u8 {
    debug(options, ui, || lh_cli::flags::SSH.version());
    let proxy = wanted.control == Some(ControlCommand::Proxy);
    if let Some(command) = wanted.control.filter(|_| !proxy) {
        return mux_client::command(options, command, ui);
    }
    let plan = match Plan::new(options, wanted, ui) {
        Ok(plan) => plan,
        Err(error) => return report(options, &error, ui),
    };
    if !proxy && let Some(status) = mux_client::mux_through_master(options, &plan, ui) {
        return status;
    }
    let options = &Options { purpose: plan.purpose(), ..options.clone() };
    let started = Instant::now();
    let client = if proxy { mux_client::share(options) } else { connect(options, ui) };
    let mut client = match client {
        Ok(client) => client,
        Err(error) => return report_connection(options, &error, ui),
    };
    let tunnel = match open_tunnel(options, ui) {
        Ok(tunnel) => tunnel,
        Err(error) => return leave(&mut client, options, &error, ui),
    };
    if let Err(error) = run_local_command(options, tunnel.as_ref(), &mut client, ui) {
        client.close();
        return report(options, &error, ui);
    }
    client.mark_packets(options);
    let status = match session(options, plan, tunnel, &mut client, ui) {
        Ok(status) => status,
        // The error must be the last line, where scripts look for it.
        Err(error) => return leave(&mut client, options, &error, ui),
    };
    if options.log_level >= LogLevel::Verbose {
        let link = client.driver().link();
        let (sent, received) = (link.bytes_out(), link.bytes_in());
        let seconds = started.elapsed().as_secs_f64();
        let rate = |bytes: u64| bytes as f64 / seconds.max(0.001);
        ui.say(&format!("Transferred: sent {sent}, received {received} bytes, in {seconds:.1} seconds"));
        ui.say(&format!("Bytes per second: sent {:.1}, received {:.1}", rate(sent), rate(received)));
    }
    debug(options, ui, || format!("Exit status {status}"));
    status
}

/// Ends a connection that has logged in because of an error, and reports it. The server is told: one that
/// keeps sessions (`ResumeGrace`) would keep this one and its forwards otherwise.
fn leave(client: &mut Client, options: &Options, error: &ClientError, ui: &mut TerminalUi) -> u8 {
    if !matches!(error, ClientError::Lost(_)) {
        client.close();
    }
    report_connection(options, error, ui)
}

/// Opens the device of `Tunnel`, where configured.
fn open_tunnel(options: &Options, ui: &mut TerminalUi) -> Result<Option<TunnelEnd>, ClientError> {
    const TEXT: &str = "Could not request tunnel forwarding.";
    match TunnelEnd::open(&options.config) {
        None => Ok(None),
        Some(Ok(tunnel)) => Ok(Some(tunnel)),
        Some(Err(why)) => {
            if options.log_level >= LogLevel::Error {
                ui.say(&format!("Tunnel device open failed: {}", lh_sys::errno_text(&why)));
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

/// Runs `LocalCommand`, where permitted. A command that cannot be started is logged and has no other effect.
///
/// # Errors
/// A token that the keyword does not have.
fn run_local_command(
    options: &Options,
    tunnel: Option<&TunnelEnd>,
    client: &mut Client,
    ui: &mut TerminalUi,
) -> Result<(), LocalCommandError> {
    let config = &options.config;
    if !*config.permit_local_command {
        return Ok(());
    }
    let Some(command) = config.local_command.command() else { return Ok(()) };
    let device = tunnel.map_or("NONE", TunnelEnd::name);
    let tokens = config.tokens(&SystemEnvironment).with('T', device);
    let command = tokens.expand_command(command)?;
    let shell = lh_client::user_shell();
    if let Err(error) = run_in_shell(&shell, &command, client)
        && options.log_level >= LogLevel::Error
    {
        let why = lh_sys::errno_text(&error);
        ui.say(&format!("Couldn't execute {} -c \"{command}\": {why}", shell.display()));
    }
    Ok(())
}

/// Runs a command in a shell on our own standard descriptors, and waits for it. It receives signals
/// that this process blocks. One that ends this process meanwhile ends the session.
fn run_in_shell(shell: &Path, command: &str, client: &mut Client) -> std::io::Result<()> {
    let [input, output, error] = [stdin(), stdout(), stderr()]
        .map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(std::io::Error::from));
    let (done, ended) = UnixStream::pair()?;
    let mut child =
        lh_sys::spawn::Program::new(shell).arg("-c").arg(command).stdio(input?, output?, error?).spawn()?;
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || {
            let result = child.wait();
            // Readable for the other thread, at the end of the file.
            drop(ended);
            result
        });
        client.wait_for(done.as_fd());
        waits.join().map_or_else(|_| Err(std::io::Error::other("no status")), |result| result.map(drop))
    })
}
