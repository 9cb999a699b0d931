//! Log lines about the programs that sessions start.

use std::ffi::OsStr;
use std::path::Path;

use crate::hosts::shown_endpoint;
use crate::log::{error, info, shown_name, verbose};
use crate::session::command::{self, Decision, Plan, RequestedProgram};
use crate::session::shared::Shared;

/// Logs which SFTP server runs, where the configuration or the client names OpenSSH's.
fn log_sftp(shared: &Shared, decision: &Decision, wanted: &RequestedProgram) {
    let settings = &shared.settings;
    let named: Option<&OsStr> = match (settings.force_command.command(), &shared.options.command, wanted) {
        (Some(command), ..) => Some(command.as_ref()),
        (None, Some(command), _) => Some(command.as_ref()),
        (None, None, RequestedProgram::Subsystem(name)) => settings.subsystem.find(name).map(OsStr::new),
        (None, None, RequestedProgram::Command(command)) => Some(command),
        (None, None, RequestedProgram::Shell) => None,
    };
    let Some(command) = named.and_then(command::sftp_server) else { return };
    match decision.plan {
        Plan::InternalSftp(_) => {
            info!(
                shared.requests_log,
                "serving SFTP by internal-sftp in place of {command} (LonghaulSftp internal)"
            );
        }
        Plan::Program { .. } => {
            info!(
                shared.requests_log,
                "serving SFTP by {command}, not by internal-sftp (LonghaulSftp, its arguments, or the user's shell)"
            );
        }
        Plan::Message(..) | Plan::SftpOnly | Plan::Nothing => {}
    }
}

/// Logs, once per session, that `UploadHook` does not see the files that this program writes.
fn log_unchecked(shared: &Shared, decision: &Decision) {
    let bypasses = shared.settings.upload_hook.0.is_some() && matches!(decision.plan, Plan::Program { .. });
    if bypasses && !shared.files.unchecked_logged.replace(true) {
        error!(
            shared.requests_log,
            "UploadHook checks no files that {} of {} writes; ForceCommand internal-sftp permits checked uploads alone",
            decision.what,
            shared.user.name
        );
    }
}

/// Logs the requested and the started program, for the channel with this number.
pub(super) fn log_start(
    shared: &Shared,
    decision: &Decision,
    wanted: &RequestedProgram,
    number: u32,
    terminal: Option<&Path>,
) {
    let peer = shared.client.peer.get();
    let (user, from) = (&shared.user.name, shown_endpoint(peer));
    let what = &decision.what;
    match (&decision.plan, wanted) {
        (Plan::Nothing, RequestedProgram::Subsystem(name)) => {
            let name = shown_name(name);
            info!(
                shared.requests_log,
                "subsystem request for {name} by user {user} failed, subsystem not found"
            );
            return;
        }
        (_, RequestedProgram::Subsystem(name)) => {
            let name = shown_name(name);
            info!(shared.requests_log, "subsystem request for {name} by user {user}");
        }
        _ => {}
    }
    log_sftp(shared, decision, wanted);
    log_unchecked(shared, decision);
    let on = terminal.map_or_else(String::new, |name| {
        format!(" on {}", name.strip_prefix("/dev").unwrap_or(name).display())
    });
    verbose!(shared.requests_log, "Starting session: {what}{on} for {user} from {from} id {number}");
}
