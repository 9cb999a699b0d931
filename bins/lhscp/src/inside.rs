//! Connections of this process's own, and what runs on their channels.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use lh_client::Start;
use lh_config::client::Request;
use lh_driver::ChannelHandler;
pub(crate) use lh_ssh_transfer::{Connection, NoConnection};
use lh_terminal::TerminalUi;
use lh_transfer::rcp::{self, Outcome, RcpRole};

use crate::command_line::Arguments;
use crate::place::Host;
use crate::resumption;
use crate::retry::Attempts;
use crate::show::{Show, say};

/// Connects and logs in; says why when it cannot, and that there is nothing behind it.
pub(crate) fn log_in(arguments: &Arguments, host: &Host, ui: &mut TerminalUi) -> Option<Connection> {
    say_closed_if_none(log_in_silently(arguments, host, ui))
}

/// Connects and logs in; the log names the failure.
pub(crate) fn log_in_silently(arguments: &Arguments, host: &Host, ui: &mut TerminalUi) -> Option<Connection> {
    let mut connection = Connection::log_in(&arguments.request(host), ui)?;
    limit_resumption(&mut connection, arguments);
    Some(connection)
}

/// Limits the attempts to resume the session of a connection that has logged in.
pub(crate) fn limit_resumption(connection: &mut Connection, arguments: &Arguments) {
    let attempts = Arc::new(Mutex::new(Attempts::new(arguments.retry_limit, arguments.messages.json)));
    resumption::limit(connection, attempts, None, arguments);
}

/// Connection of the last step, for the next one.
pub(crate) type ReusedConnection = Option<(Host, Connection)>;

/// The connection to `host`: the one that was kept, or a new one, as by [`log_in_silently`].
pub(crate) fn connected(
    arguments: &Arguments,
    host: &Host,
    kept: &mut ReusedConnection,
    ui: &mut TerminalUi,
) -> Option<Connection> {
    take_kept(host, kept).or_else(|| log_in_silently(arguments, host, ui))
}

/// The connection that was kept, if it is to `host`.
pub(crate) fn take_kept(host: &Host, kept: &mut ReusedConnection) -> Option<Connection> {
    match kept.take() {
        Some((same, client)) if same == *host => Some(client),
        other => {
            if let Some((_, mut client)) = other {
                client.close();
            }
            None
        }
    }
}

/// Connects; [`authenticate`] is still to be called. Says why when it cannot.
pub(crate) fn connect_unauthenticated(
    request: &Request,
    ui: &mut TerminalUi,
) -> Result<Connection, NoConnection> {
    Connection::try_connect_unauthenticated(request, ui).inspect_err(|_| say("Connection closed"))
}

/// Logs in; says why when it cannot.
pub(crate) fn authenticate(connection: &mut Connection, ui: &mut TerminalUi) -> Result<(), NoConnection> {
    connection.try_authenticate(ui).inspect_err(|_| say("Connection closed"))
}

/// Tells the thread of one connection, by [`await_login`], whether the other connection has logged in.
pub(crate) fn announce_login(mut to: UnixStream, has_logged_in: bool) {
    // An error means that the other thread has ended.
    let _ = to.write_all(&[u8::from(has_logged_in)]);
}

/// Waits for the login of the other connection, during which a signal ends the session of this one. False
/// where there is none.
pub(crate) fn await_login(connection: &mut Connection, mut from: UnixStream) -> bool {
    connection.wait_for(from.as_fd());
    let mut answer = [0];
    from.read_exact(&mut answer).is_ok() && answer == [1]
}

/// Says that there is no connection, behind the reason, as OpenSSH does.
fn say_closed_if_none<T>(got: Option<T>) -> Option<T> {
    if got.is_none() {
        say("Connection closed");
    }
    got
}

/// Result of a remote `scp`.
pub(crate) struct Ended {
    /// The connection is still good.
    pub(crate) connected: bool,
    /// The program ended, with status 0.
    pub(crate) well: bool,
}

/// Runs a role of the old protocol with `command` at the other end.
pub(crate) fn run_role(
    arguments: &Arguments,
    connection: &mut Connection,
    command: Vec<u8>,
    role: Box<dyn RcpRole>,
    show: Show,
    ui: &mut TerminalUi,
) -> (Outcome, Ended) {
    let handler = rcp::Handler::new(role, Box::new(show), arguments.options.limits.bits_per_second);
    let outcome = handler.outcome();
    let ended = run_command(arguments, connection, command, Box::new(handler), ui);
    let outcome = *outcome.lock().unwrap_or_else(PoisonError::into_inner);
    (outcome, ended)
}

/// Runs `command` with `handler` for its channel, until that stops the driver.
pub(crate) fn run_command(
    arguments: &Arguments,
    connection: &mut Connection,
    command: Vec<u8>,
    handler: Box<dyn ChannelHandler>,
    ui: &mut TerminalUi,
) -> Ended {
    let was_shared = connection.is_relayed();
    if let Err(error) = connection.start_session(Start::Exec(command), handler, ui) {
        connection.report(&error, ui);
        return Ended { connected: false, well: false };
    }
    if was_shared {
        limit_resumption(connection, arguments);
    }
    let (result, control) = connection.run(None, None);
    let (refused, status) = (control.refused, control.status);
    if let Err(error) = &result {
        connection.report(error, ui);
    }
    if let Some(request) = refused {
        connection.report_refusal(request, ui);
    }
    Ended { connected: result.is_ok() && refused.is_none(), well: status == Some(0) }
}
