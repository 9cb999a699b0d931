//! What all channels of one session process share.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lh_config::pattern::{ListMatch, match_list};
use lh_config::server_table::ServerSettings;
use lh_config::server_values::PermitUserEnvironment;
use lh_session_list::Programs;
use lh_sys::users::User;

use super::auth_info::AuthInfo;
use super::become_user::Start;
use super::credentials::Credentials;
use super::environment::{self, UserFile, UserFileError};
use super::parts::Parts;
use super::sftp::mounts::Mounts;
use super::sftp::workers::Workers;
use crate::key_options::KeyOptions;
use crate::log::{Field, Log};
use crate::monitor_ipc::{MonitorRequest, MonitorSocket};

/// The user who has logged in, the rules, and what the session has.
pub(super) struct Shared {
    pub(super) user: User,
    pub(super) settings: ServerSettings,
    pub(super) options: KeyOptions,
    pub(super) must_change_password: bool,
    /// Another connection has logged in to this session, which this one has joined.
    pub(super) joined: bool,
    pub(super) log: Log,
    /// The same log, for lines about requests.
    pub(super) requests_log: Log,
    pub(super) client: ClientLink,
    pub(super) modules: ModulesSession,
    /// A program or subsystem was asked for: what PAM's modules say is for the first one alone, as with sshd.
    pub(super) has_begun: Cell<bool>,
    pub(super) programs: ProgramContext,
    pub(super) files: FileAccess,
    /// The monitor, for what only root may do.
    pub(super) monitor: RefCell<MonitorSocket>,
    /// Programs that run, as the monitor has been told.
    pub(super) running: Cell<Programs>,
    /// Usage is recorded: `TransferLog` or `PrometheusListen` is set.
    pub(super) accounts: bool,
    /// Requests over SFTP that change something or are denied are recorded: `TransferLogOperations`.
    pub(super) operations: bool,
}

/// The connection to the client, which may be another one later.
pub(super) struct ClientLink {
    pub(super) peer: Cell<SocketAddr>,
    /// Both addresses, where the connection has any.
    pub(super) endpoints: Cell<Option<(SocketAddr, SocketAddr)>>,
    /// The connection's socket, for options that depend on what it is used for.
    pub(super) socket: RefCell<Option<OwnedFd>>,
}

impl ClientLink {
    /// The session goes on over another connection.
    fn moved(&self, peer: SocketAddr, local: SocketAddr, socket: OwnedFd) {
        self.peer.set(peer);
        self.endpoints.set(Some((peer, local)));
        self.socket.replace(Some(socket));
    }

    fn set_tos(&self, tos: u8) {
        if let Some(socket) = &*self.socket.borrow() {
            // A network that ignores marks works as well.
            let _ = lh_sys::socket::set_tos(socket, tos);
        }
    }
}

/// What PAM's modules have made of the login.
pub(super) struct ModulesSession {
    /// PAM decides about logins here.
    pub(super) decide: bool,
    /// Why PAM has opened no session: then nothing must be run.
    pub(super) problem: Option<String>,
    /// What modules want the user to read.
    pub(super) said: String,
    /// What modules have set.
    pub(super) environment: Vec<(OsString, OsString)>,
}

/// What programs of the session get.
pub(super) struct ProgramContext {
    /// Where programs and SFTP start.
    pub(super) start: Start,
    /// `environment=` of the key, as far as `PermitUserEnvironment` lets it through.
    pub(super) key_environment: Vec<(String, String)>,
    /// The file of `ExposeAuthInfo`.
    pub(super) auth_info: Option<AuthInfo>,
    /// Kerberos credentials that the client has given away.
    pub(super) credentials: Option<Credentials>,
    /// Where programs find the forwarded agent, once a session has asked for it.
    pub(super) agent: RefCell<Option<PathBuf>>,
}

/// How the session's SFTP servers reach files.
pub(super) struct FileAccess {
    /// What is mounted, which decides who makes calls on files.
    pub(super) mounts: Mounts,
    /// Threads for calls on files that may block.
    pub(super) workers: Workers,
    /// Uploads whose record waits for their final name.
    pub(super) parts: RefCell<Parts>,
    /// Other connections may join this one: they may write the same files.
    pub(super) shares_files: Arc<AtomicBool>,
    /// It has been logged that `UploadHook` does not see all that this session writes.
    pub(super) unchecked_logged: Cell<bool>,
}

impl FileAccess {
    pub(super) fn new(mounts: Mounts) -> Self {
        Self {
            mounts,
            workers: Workers::default(),
            parts: RefCell::default(),
            shares_files: Arc::default(),
            unchecked_logged: Cell::default(),
        }
    }
}

impl Shared {
    /// True where the login is good for nothing but changing the password, or for reading why there is no session: no forwards, no
    /// agent, no display, no tunnels, no tickets, no scripts of the user's.
    pub(super) fn restricted(&self) -> bool {
        self.must_change_password || self.modules.problem.is_some()
    }

    /// `~/.ssh/environment`, as far as `PermitUserEnvironment` lets it through. Read with the user's rights, which this process has.
    ///
    /// # Errors
    /// [`environment::read_user_file`]'s.
    pub(super) fn user_environment(&self) -> Result<UserFile, UserFileError> {
        let permit = &self.settings.permit_user_environment.value;
        if *permit == PermitUserEnvironment::No {
            return Ok(UserFile::default());
        }
        let mut file = environment::read_user_file(&self.user.home.join(".ssh/environment"))?;
        file.variables.retain(|(name, _)| permits(permit, &name.to_string_lossy()));
        Ok(file)
    }

    /// Tells the monitor what runs now (`longhaul sessions`).
    pub(super) fn change_programs(&self, change: impl FnOnce(&mut Programs)) {
        let mut programs = self.running.get();
        change(&mut programs);
        self.running.set(programs);
        // Without the monitor the session ends soon.
        let _ = self.monitor.borrow().send(&MonitorRequest::Programs(programs).encode());
    }

    /// The session goes on over another connection.
    pub(super) fn moved(&self, peer: SocketAddr, local: SocketAddr, socket: OwnedFd) {
        self.log.set_field(Field::RemoteAddr, &peer.ip().to_string());
        self.client.moved(peer, local, socket);
    }

    /// Marks packets for the network by what the connection carries (`IPQoS`).
    pub(super) fn set_interactive(&self, interactive: bool) {
        let qos = self.settings.ip_qos.value;
        let tos = if interactive { qos.interactive } else { qos.bulk };
        if let Some(tos) = tos {
            self.client.set_tos(tos);
        }
    }
}

/// The variables of a key that `PermitUserEnvironment` lets through.
pub(super) fn permitted_environment(
    permit: &PermitUserEnvironment,
    variables: &[(String, String)],
) -> Vec<(String, String)> {
    variables.iter().filter(|(name, _)| permits(permit, name)).cloned().collect()
}

fn permits(permit: &PermitUserEnvironment, name: &str) -> bool {
    match permit {
        PermitUserEnvironment::No => false,
        PermitUserEnvironment::Yes => true,
        PermitUserEnvironment::Only(list) => match_list(name, list, false) == ListMatch::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_decides_which_variables_of_a_key_count() {
        let variables = [("LANG".to_owned(), "C".to_owned()), ("PATH".to_owned(), "/x".to_owned())];
        assert!(permitted_environment(&PermitUserEnvironment::No, &variables).is_empty());
        assert_eq!(permitted_environment(&PermitUserEnvironment::Yes, &variables).len(), 2);
        let some = permitted_environment(&PermitUserEnvironment::Only("L*,!LD_*".to_owned()), &variables);
        assert_eq!(some, [("LANG".to_owned(), "C".to_owned())]);
    }
}
