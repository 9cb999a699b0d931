//! State that all channels of one session process share.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
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
use super::title::UserTitle;
use crate::key_options::KeyOptions;
use crate::log::{Field, Log};
use crate::monitor_ipc::{MonitorRequest, MonitorSocket};

/// The authenticated user, the rules, and the state of the session.
pub(super) struct Shared {
    pub(super) user: User,
    pub(super) settings: ServerSettings,
    pub(super) options: KeyOptions,
    pub(super) must_change_password: bool,
    /// Another connection has logged in to this session, and this one has joined it.
    pub(super) joined: bool,
    pub(super) log: Log,
    /// The log for lines about requests, with a rate limit.
    pub(super) requests_log: Log,
    pub(super) client: ClientLink,
    pub(super) modules: ModulesSession,
    pub(super) programs: ProgramContext,
    pub(super) files: FileAccess,
    /// The socket to the monitor, for operations that need root's rights.
    pub(super) monitor: RefCell<MonitorSocket>,
    /// Usage is recorded, because `TransferLog` or `PrometheusListen` is set.
    pub(super) accounts: bool,
    /// SFTP requests that change something or are denied are recorded (`TransferLogOperations`).
    pub(super) operations: bool,
}

/// The connection to the client; a resumption replaces it.
pub(super) struct ClientLink {
    pub(super) peer: Cell<SocketAddr>,
    /// Peer and local address; `None` where the connection is not over a network.
    pub(super) endpoints: Cell<Option<(SocketAddr, SocketAddr)>>,
    /// The connection's socket, for options that depend on its use.
    pub(super) socket: RefCell<Option<OwnedFd>>,
    /// The session has lost its connection, and waits for its client.
    pub(super) is_away: Cell<bool>,
}

impl ClientLink {
    /// Records that the session has moved to another connection.
    fn moved(&self, peer: SocketAddr, local: SocketAddr, socket: OwnedFd) {
        self.peer.set(peer);
        self.endpoints.set(Some((peer, local)));
        self.socket.replace(Some(socket));
    }

    fn set_tos(&self, tos: u8) {
        if let Some(socket) = &*self.socket.borrow() {
            // Ignored: the mark is only a hint to the network.
            let _ = lh_sys::socket::set_tos(socket, tos);
        }
    }
}

/// The results of PAM's modules for the session.
pub(super) struct ModulesSession {
    /// PAM decides about logins.
    pub(super) decide: bool,
    /// Why PAM has opened no session: then no program may run.
    pub(super) problem: Option<String>,
    /// Messages of modules for the user.
    pub(super) said: String,
    /// Environment variables that modules have set.
    pub(super) environment: Vec<(OsString, OsString)>,
}

/// The programs of the session: the state that they start with, and how many run.
pub(super) struct ProgramContext {
    /// The directory, and whether it is in a chroot, where programs and SFTP start.
    pub(super) start: Start,
    /// `environment=` of the key, as far as `PermitUserEnvironment` allows.
    pub(super) key_environment: Vec<(String, String)>,
    /// The file for `ExposeAuthInfo`.
    pub(super) auth_info: Option<AuthInfo>,
    /// Kerberos credentials that the client has delegated.
    pub(super) credentials: Option<Credentials>,
    /// Path of the forwarded agent's socket, once a session has requested it.
    pub(super) agent: RefCell<Option<PathBuf>>,
    /// The title of this process.
    pub(super) title: Rc<UserTitle>,
    /// A program or subsystem was requested. As in sshd, only the first one shows the messages of PAM's
    /// modules.
    pub(super) has_begun: Cell<bool>,
    /// Numbers of running programs, as reported to the monitor.
    pub(super) running: Cell<Programs>,
}

/// The session's access to files through SFTP.
pub(super) struct FileAccess {
    /// The mount table, which decides whether the loop or a thread makes file system calls.
    pub(super) mounts: Mounts,
    /// Threads for file system calls that may block.
    pub(super) workers: Workers,
    /// Uploads whose records wait until they get their final name.
    pub(super) parts: RefCell<Parts>,
    /// Other connections may join this session and write to its files.
    pub(super) shares_files: Arc<AtomicBool>,
    /// The log line that `UploadHook` does not see all files has been written.
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
    /// Returns whether the login permits only changing the password, or reading why there is no session: no
    /// forwarding, no agent, no display, no tunnels, no tickets, and none of the user's scripts.
    pub(super) fn restricted(&self) -> bool {
        self.must_change_password || self.modules.problem.is_some()
    }

    /// Reads `~/.ssh/environment`, as far as `PermitUserEnvironment` allows, with the user's rights, which
    /// this process has.
    ///
    /// # Errors
    /// [`environment::read_user_file`]'s errors.
    pub(super) fn user_environment(&self) -> Result<UserFile, UserFileError> {
        let permit = &self.settings.permit_user_environment.value;
        if *permit == PermitUserEnvironment::No {
            return Ok(UserFile::default());
        }
        let mut file = environment::read_user_file(&self.user.home.join(".ssh/environment"))?;
        file.variables.retain(|(name, _)| permits(permit, &name.to_string_lossy()));
        Ok(file)
    }

    /// Changes the numbers of running programs and reports them to the monitor (`longhaul sessions`).
    pub(super) fn change_programs(&self, change: impl FnOnce(&mut Programs)) {
        let mut programs = self.programs.running.get();
        change(&mut programs);
        self.programs.running.set(programs);
        // Ignored: without the monitor the session ends soon.
        let _ = self.monitor.borrow().send(&MonitorRequest::Programs(programs).encode());
    }

    /// Moves the session to another connection.
    pub(super) fn moved(&self, peer: SocketAddr, local: SocketAddr, socket: OwnedFd) {
        self.log.set_field(Field::RemoteAddr, &peer.ip().to_string());
        self.client.moved(peer, local, socket);
    }

    /// Sets the packets' traffic class by the connection's use (`IPQoS`).
    pub(super) fn set_interactive(&self, interactive: bool) {
        let qos = self.settings.ip_qos.value;
        let tos = if interactive { qos.interactive } else { qos.bulk };
        if let Some(tos) = tos {
            self.client.set_tos(tos);
        }
    }
}

/// Returns the key's variables that `PermitUserEnvironment` allows.
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
