//! The user that a client names: the account, and the settings that apply to it.

use std::io;

use lh_config::ServerConfig;
use lh_config::server_table::ServerSettings;
use lh_crypto::PublicKey;
use lh_sys::time::now_unix;
use lh_sys::users::{self, Shadow, User};

use super::chains;
use super::client::Client;
use super::lookups::Lookups;
use crate::account;
use crate::hosts::shown_endpoint;
use crate::key_options::KeyOptions;
use crate::log::{Field, error, info, shown_name};
use crate::resuming::ClientHost;

/// The user that a client wants to log in as, whether or not it exists.
pub(super) struct Candidate {
    pub(super) name: String,
    /// `Some` only when the account exists and may log in.
    pub(super) user: Option<User>,
    pub(super) shadow: Option<Shadow>,
    pub(super) settings: ServerSettings,
    /// Methods that remain in each alternative of `AuthenticationMethods`; empty when any one method is
    /// enough.
    pub(super) chains: Vec<Vec<String>>,
    pub(super) options: KeyOptions,
    pub(super) must_change_password: bool,
    /// Keys that have already succeeded: a second `publickey` step needs another key.
    pub(super) used_keys: Vec<PublicKey>,
    /// The methods that have succeeded, one on each line.
    pub(super) proofs: String,
    /// The client's host, once a host-based login has succeeded.
    pub(super) host: Option<ClientHost>,
    /// Messages to the client, after the login, about the keys that have succeeded.
    pub(super) remarks: Vec<String>,
    /// The session that a ticket joins; `None` without a ticket.
    pub(super) joined: Option<Joined>,
}

/// The session that a connection joins by a ticket.
pub(super) struct Joined {
    /// Process id of the connection that logged in.
    pub(super) pid: u32,
    /// The session identifier of that connection.
    pub(super) session_id: Vec<u8>,
}

impl Candidate {
    /// Returns a description for the log: `ada from ADDRESS port PORT`, with `invalid user` in front where
    /// the user does not exist.
    pub(super) fn described(&self, client: &Client) -> String {
        let invalid = if self.user.is_none() { "invalid user " } else { "" };
        format!("{invalid}{} from {}", shown_name(&self.name), shown_endpoint(client.peer))
    }

    /// Looks up the account and applies the matching `Match` blocks. The part after a colon is a style
    /// (`name:style`, as in BSD authentication): signatures cover it, but it is not part of the account's
    /// name.
    pub(super) fn meet(name: &str, config: &ServerConfig, client: &Client, lookups: &Lookups) -> Self {
        let log = &client.log;
        let account = name.split_once(':').map_or(name, |(account, _)| account);
        log.set_field(Field::User, account);
        let mut user = account::find(account).unwrap_or_else(|problem| {
            error!(log, "cannot look up user {}: {problem}", shown_name(account));
            lookups.set_doubt();
            None
        });
        let mut groups: &[String] = &[];
        let known = user.as_ref().map(|user| lookups.groups(user)).transpose();
        match &known {
            Ok(None) => {}
            Ok(Some(known)) => {
                groups = &known.names;
                if !known.is_complete {
                    lookups.set_doubt();
                }
            }
            Err(problem) => {
                // The groups are unknown, so rules about groups could not be applied.
                error!(log, "cannot look up the groups of user {account}: {problem}");
                lookups.set_doubt();
                user = None;
            }
        }
        let facts = crate::facts::with_user(&client.facts(), account, user.as_ref(), groups);
        let (settings, mut user) = match config.for_connection(&facts) {
            Ok(config) => (config.settings, user),
            Err(problem) => {
                // With rules that cannot be evaluated, every login is refused.
                error!(log, "{problem}");
                lookups.set_doubt();
                (config.settings.clone(), None)
            }
        };
        // A level from a `Match` block takes precedence over a flag, even if it logs less, as in sshd.
        // Otherwise a flag counts.
        let own_level = settings.log_level.value != config.settings.log_level.value;
        if let Some(level) = Some(settings.log_level.value).filter(|_| own_level) {
            log.set_level(level);
        }
        log.set_places(&settings.log_verbose);
        let found = user.as_ref().map_or(Ok(None), |user| users::shadow(&user.name));
        let shadow = needed_entry(found, crate::pam_use::uses_pam(&settings)).unwrap_or_else(|problem| {
            error!(log, "cannot look up the shadow entry of user {account}: {problem}");
            lookups.set_doubt();
            user = None;
            None
        });
        let user = match user {
            None => {
                let shown = shown_name(name);
                info!(log, "Invalid user {shown} from {}", shown_endpoint(client.peer));
                None
            }
            Some(user) => {
                match account::judge(&user, shadow.as_ref(), groups, &settings, client.origin(), now_unix()) {
                    Ok(()) => Some(user),
                    Err(refusal) => {
                        info!(log, "{refusal}");
                        None
                    }
                }
            }
        };
        let chains = chains::usable(&settings, log);
        Self {
            name: name.to_owned(),
            user,
            shadow,
            settings,
            chains,
            options: KeyOptions::default(),
            must_change_password: false,
            used_keys: Vec::new(),
            joined: None,
            proofs: String::new(),
            host: None,
            remarks: Vec::new(),
        }
    }
}

/// Returns the result of looking up a shadow entry, which says whether the account is locked or has expired.
/// An entry that this process may not read counts as missing, as in OpenSSH.
///
/// # Errors
/// The look-up has failed, and PAM does not check the account.
fn needed_entry(found: io::Result<Option<Shadow>>, pam: bool) -> io::Result<Option<Shadow>> {
    match found {
        Err(problem) if !pam && problem.kind() != io::ErrorKind::PermissionDenied => Err(problem),
        found => Ok(found.ok().flatten()),
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_failed_look_up_of_the_lock_refuses_without_pam() {
        let failed = |errno: Errno| Err(io::Error::from(errno));
        for pam in [false, true] {
            assert!(matches!(needed_entry(Ok(None), pam), Ok(None)));
            assert!(matches!(needed_entry(failed(Errno::ACCESS), pam), Ok(None)));
            assert_eq!(needed_entry(failed(Errno::IO), pam).is_err(), !pam);
        }
    }
}
