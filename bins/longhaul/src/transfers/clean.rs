//! Removes what an unfinished copy has left: unfinished files here or on its server, then the journal.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;

use lh_cli::copying::Connecting;
use lh_client::local_account;
use lh_sftp::{ReplyBody, Request, StatusCode};
use lh_ssh_transfer::place::{Host, Place};
use lh_ssh_transfer::{Connection, take_leave};
use lh_sys::errno_text;
use lh_terminal::TerminalUi;
use lh_transfer::journal::{self, Saved, SavedPart};
use lh_transfer::{display_name, status_text};

use super::origin::Origin;
use crate::fault::{Fault, say};
use crate::sftp::{Sftp, over_connection};

/// Removes what a copy has left; false where something stays, which is said.
pub(super) fn clean(saved: &Saved) -> bool {
    let (parts, others): (Vec<&SavedPart>, Vec<&SavedPart>) =
        saved.parts.iter().partition(|part| part.is_ours());
    for other in others {
        say(&format!("{}: {} is left as it is: not a name of lhscp", saved.id, display_name(&other.name)));
    }
    let Some(origin) = Origin::of(saved) else {
        for part in &parts {
            say(&format!(
                "{}: {} is left: the journal does not say where it is",
                saved.id,
                display_name(&part.name)
            ));
        }
        return parts.is_empty() & remove_journal(saved);
    };
    let removed = match (&origin.target, &parts[..]) {
        (_, []) => Ok(true),
        (Place::Local(_), _) => Ok(remove_here(&origin, &parts)),
        (Place::Remote { host, .. }, _) => remove_there(&origin, host, &parts),
    };
    match removed {
        Ok(true) => remove_journal(saved),
        Ok(false) => false,
        Err(why) => {
            say(&format!("{}: its unfinished files and the journal are left: {why}", saved.id));
            false
        }
    }
}

fn remove_journal(saved: &Saved) -> bool {
    let removed = journal::remove(saved);
    if let Err(error) = &removed {
        say(&format!("{}: {}", saved.path.display(), errno_text(error)));
    }
    removed.is_ok()
}

fn remove_here(origin: &Origin, parts: &[&SavedPart]) -> bool {
    let mut all = true;
    for part in parts {
        let path = origin.directory.join(std::ffi::OsStr::from_bytes(&part.name));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                say(&format!("{}: {}", path.display(), errno_text(&error)));
                all = false;
            }
            _ => {}
        }
    }
    all
}

/// Removes files of the target's server, which is reached as the copy reached it.
fn remove_there(origin: &Origin, host: &Host, parts: &[&SavedPart]) -> Result<bool, Fault> {
    if let Some(flag) = ['S', 'D'].into_iter().find(|&flag| origin.parsed.has(flag)) {
        return Err(Fault::Refused(format!("it was reached by the program of -{flag}")));
    }
    // Files that the flags name may be relative.
    std::env::set_current_dir(&origin.directory).map_err(Fault::file(&origin.directory))?;
    let account = local_account()?;
    let connecting = Connecting::new(&origin.parsed, 'B', &account);
    let request = connecting.request(&host.name, host.port, host.user.as_deref(), account);
    let mut ui = TerminalUi::default();
    take_leave(|_| ());
    let connection = Connection::log_in(&request, &mut ui)
        .ok_or_else(|| Fault::Refused(format!("no connection to {}", host.name)))?;
    over_connection(connection, |stream| remove_over(stream, parts))
}

fn remove_over(stream: UnixStream, parts: &[&SavedPart]) -> Result<bool, Fault> {
    let mut sftp = Sftp::start(stream)?;
    let mut all = true;
    for part in parts {
        match sftp.ask(&Request::Remove { path: &part.name })? {
            ReplyBody::Status(status) if matches!(status.code, StatusCode::OK | StatusCode::NO_SUCH_FILE) => {
            }
            ReplyBody::Status(status) => {
                say(&format!("{}: {}", display_name(&part.name), status_text(&status)));
                all = false;
            }
            _ => return Err(Fault::BrokenRules),
        }
    }
    Ok(all)
}
