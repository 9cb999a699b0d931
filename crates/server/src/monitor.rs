//! The monitor: everything about a login that needs rights or secrets is decided here.
//!
//! Questions go in and answers come out as values ([`Monitor::decide`], [`Monitor::sign`]); it never sees a byte of the
//! network, and the protocol code never calls users, keys or files up by itself. Today both live in one process;
//! the same values can cross a socket when they no longer do.

use std::net::SocketAddr;

use lh_auth::server::{Attempt, Method, PublicKeyAttempt};
use lh_config::enums::{PermitRootLogin, ServerFingerprintHash};
use lh_config::server_table::ServerSettings;
use lh_config::token::Tokens;
use lh_config::{ConfigError, ConnectionFacts, ServerConfig};
use lh_crypto::{CryptoError, FingerprintHash, PublicKey};
use lh_sys::ids::{Ids, with_effective};
use lh_sys::time::now_unix;
use lh_sys::users::{self, Shadow, User};

use crate::account::{self, Origin, PasswordAge};
use crate::authorized_keys::{self, Line};
use crate::host_keys::HostKey;
use crate::key_options::KeyOptions;
use crate::log::{Log, debug, error, info, verbose};
use crate::passwords;
use crate::strict::{self, StrictError};

/// Signature algorithms of users' keys that can be checked here, best first.
pub(crate) const USER_KEY_ALGORITHMS: [&str; 6] = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
];

/// What keyboard-interactive asks.
const PASSWORD_PROMPT: &str = "Password: ";

/// What becomes of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The user is in: [`Monitor::into_login`] says as whom.
    Accept,
    /// Not that way. `partial`: the attempt was right but is not enough.
    Reject { methods: Vec<&'static str>, partial: bool },
    /// The key would do; let the client sign.
    KeyOk,
    /// Ask the user this.
    Prompt(&'static str),
    /// Too many failures: end the connection.
    TooMany,
}

/// Who has logged in, and under which rules.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) user: User,
    pub(crate) ids: Ids,
    /// The configuration with the `Match` blocks of this user applied.
    pub(crate) settings: ServerSettings,
    /// What the key that was used allows and forces.
    pub(crate) options: KeyOptions,
    /// The password is too old: nothing but changing it is allowed.
    pub(crate) must_change_password: bool,
}

/// The user a client says it is, whether or not there is one.
struct Candidate {
    name: String,
    /// Present only when the account exists and may log in.
    user: Option<User>,
    shadow: Option<Shadow>,
    settings: ServerSettings,
    /// What is left of each alternative of `AuthenticationMethods`; empty when any method will do.
    chains: Vec<Vec<String>>,
    options: KeyOptions,
    must_change_password: bool,
}

/// See the module documentation.
pub(crate) struct Monitor {
    config: ServerConfig,
    facts: ConnectionFacts,
    peer: SocketAddr,
    host_name: Option<String>,
    host_keys: Vec<HostKey>,
    log: Log,
    candidate: Option<Candidate>,
    failures: u32,
    attempts: u32,
}

impl Monitor {
    pub(crate) fn new(
        config: ServerConfig,
        host_keys: Vec<HostKey>,
        peer: SocketAddr,
        local: SocketAddr,
        log: Log,
    ) -> Self {
        let host_name = None;
        let facts = crate::facts::of_connection(peer, local, host_name.as_deref());
        Self { config, facts, peer, host_name, host_keys, log, candidate: None, failures: 0, attempts: 0 }
    }

    /// The rules for this connection as long as nobody has said who it is.
    pub(crate) fn connection_settings(&self) -> Result<ServerSettings, ConfigError> {
        Ok(self.config.for_connection(&self.facts)?.settings)
    }

    /// How long a login may take.
    pub(crate) fn login_grace_time(&self) -> Option<std::time::Duration> {
        self.config.login_grace_time.value.0.map(std::time::Duration::from_secs)
    }

    /// The public halves of the host keys, as the transport wants them.
    pub(crate) fn host_keys(&self, sha1: bool) -> Vec<lh_transport::HostKey> {
        self.host_keys.iter().map(|key| key.for_transport(sha1)).collect()
    }

    /// Signs with a host key.
    pub(crate) fn sign(
        &mut self,
        key_index: usize,
        algorithm: &str,
        data: &[u8],
    ) -> Result<Vec<u8>, CryptoError> {
        match self.host_keys.get_mut(key_index) {
            Some(key) => key.sign(algorithm, data),
            None => Err(CryptoError::Unsupported { what: "this host key" }),
        }
    }

    /// How log lines name the client: `user root`, `invalid user x`, or nothing yet.
    pub(crate) fn client_name(&self) -> Option<String> {
        self.candidate.as_ref().map(|candidate| match candidate.user {
            Some(_) => format!("authenticating user {}", candidate.name),
            None => format!("invalid user {}", candidate.name),
        })
    }

    /// Text of the `Banner` file for this user.
    pub(crate) fn banner(&self) -> Option<String> {
        /// A login banner is a page, not a book.
        const LARGEST: usize = 100 * 1024;
        let settings = &self.candidate.as_ref()?.settings;
        let path = settings.banner.as_deref()?;
        let text = std::fs::read(path).ok().filter(|text| text.len() <= LARGEST)?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// Decides about one attempt.
    pub(crate) fn decide(&mut self, attempt: &Attempt) -> Verdict {
        self.attempts += 1;
        let candidate = match self.candidate.take() {
            Some(candidate) => candidate,
            None => self.meet(&attempt.user),
        };
        let mut candidate = candidate;
        let verdict = self.judge(&mut candidate, &attempt.method);
        self.log_attempt(&candidate, &attempt.method, &verdict);
        let verdict = self.count(&candidate, &attempt.method, verdict);
        self.candidate = Some(candidate);
        verdict
    }

    /// The result of an accepted login, and the monitor's keys, which later key exchanges need.
    pub(crate) fn into_login(self) -> Option<(Login, Vec<HostKey>)> {
        let candidate = self.candidate?;
        let user = candidate.user?;
        let ids = Ids::of(&user).ok()?;
        let login = Login {
            user,
            ids,
            settings: candidate.settings,
            options: candidate.options,
            must_change_password: candidate.must_change_password,
        };
        Some((login, self.host_keys))
    }

    fn origin(&self) -> Origin<'_> {
        Origin { address: self.peer.ip(), name: self.host_name.as_deref() }
    }

    /// The first word about a user: looks the account up and applies the `Match` blocks that fit it.
    fn meet(&self, name: &str) -> Candidate {
        let user = account::look_up(name);
        let groups = user.as_ref().map(account::group_names).unwrap_or_default();
        let facts = crate::facts::with_user(&self.facts, name, user.as_ref(), &groups);
        let (settings, user) = match self.config.for_connection(&facts) {
            Ok(config) => (config.settings, user),
            Err(problem) => {
                // Rules that cannot be read let nobody in.
                error!(self.log, "{problem}");
                (self.config.settings.clone(), None)
            }
        };
        if let Some(level) = crate::log::Level::by_name(settings.log_level.value.word()) {
            self.log.set_level(self.log.level().max(level));
        }
        let shadow = user.as_ref().and_then(|user| users::shadow(&user.name).ok().flatten());
        let user = match user {
            None => {
                info!(self.log, "Invalid user {name} from {} port {}", self.peer.ip(), self.peer.port());
                None
            }
            Some(user) => {
                match account::judge(&user, shadow.as_ref(), &groups, &settings, self.origin(), now_unix()) {
                    Ok(()) => Some(user),
                    Err(refusal) => {
                        info!(self.log, "{refusal}");
                        None
                    }
                }
            }
        };
        let chains = settings.authentication_methods.0.clone();
        Candidate {
            name: name.to_owned(),
            user,
            shadow,
            settings,
            chains,
            options: KeyOptions::default(),
            must_change_password: false,
        }
    }

    fn judge(&self, candidate: &mut Candidate, method: &Method) -> Verdict {
        let name = method.name().to_owned();
        let right = match method {
            // An empty password without being asked for one: only where that is allowed, and only for a user.
            Method::None => {
                candidate.settings.permit_empty_passwords.value && {
                    candidate.settings.password_authentication.value && self.password_right(candidate, b"")
                }
            }
            _ if !self.offered(candidate).contains(&name.as_str()) => false,
            Method::Password(password) => self.password_right(candidate, password),
            Method::KeyboardInteractive => return Verdict::Prompt(PASSWORD_PROMPT),
            Method::Responses(responses) => match responses.as_slice() {
                [password] => self.password_right(candidate, password),
                _ => false,
            },
            Method::PublicKey(key) => match self.key_right(candidate, key) {
                Some(KeyVerdict::WouldDo) => return Verdict::KeyOk,
                Some(KeyVerdict::Proven(options)) => {
                    candidate.options = options;
                    true
                }
                None => false,
            },
            Method::PasswordChange | Method::Other(_) => false,
        };
        if !right || !self.root_may(candidate, &name) {
            return Verdict::Reject { methods: self.offered(candidate), partial: false };
        }
        if candidate.chains.is_empty() {
            return Verdict::Accept;
        }
        advance(&mut candidate.chains, &name);
        if candidate.chains.iter().any(Vec::is_empty) {
            return Verdict::Accept;
        }
        Verdict::Reject { methods: self.offered(candidate), partial: true }
    }

    /// The methods this user may try now, in OpenSSH's order.
    fn offered(&self, candidate: &Candidate) -> Vec<&'static str> {
        let settings = &candidate.settings;
        let passwords = lh_sys::ids::is_root();
        let enabled = [
            ("publickey", settings.pubkey_authentication.value),
            ("password", settings.password_authentication.value && passwords),
            ("keyboard-interactive", settings.kbd_interactive_authentication.value && passwords),
        ];
        let next = |name: &str| {
            candidate.chains.is_empty()
                || candidate.chains.iter().any(|chain| chain.first().is_some_and(|first| base(first) == name))
        };
        enabled.into_iter().filter(|(name, on)| *on && next(name)).map(|(name, _)| name).collect()
    }

    fn password_right(&self, candidate: &mut Candidate, password: &[u8]) -> bool {
        let allowed = candidate.user.is_some()
            && (!password.is_empty() || candidate.settings.permit_empty_passwords.value);
        // The hash is computed for nobody too, so that the time does not tell who exists.
        let hash =
            candidate.shadow.as_ref().filter(|_| candidate.user.is_some()).map(|shadow| &shadow.hash[..]);
        let right = passwords::check(password, hash, &self.log);
        if !(right && allowed) {
            return false;
        }
        if let Some(shadow) = &candidate.shadow {
            candidate.must_change_password =
                account::password_age(shadow, now_unix()) == PasswordAge::MustChange;
        }
        true
    }

    /// `PermitRootLogin`, applied to what would otherwise be a success.
    fn root_may(&self, candidate: &Candidate, method: &str) -> bool {
        if candidate.user.as_ref().is_none_or(|user| user.uid != 0) {
            return true;
        }
        let allowed = match candidate.settings.permit_root_login.value {
            PermitRootLogin::Yes => true,
            PermitRootLogin::No => false,
            PermitRootLogin::ProhibitPassword => method == "publickey",
            PermitRootLogin::ForcedCommandsOnly => {
                let forced = candidate.options.command.is_some();
                if forced {
                    info!(self.log, "Root login accepted for forced command.");
                }
                forced
            }
        };
        if !allowed {
            let (ip, port) = (self.peer.ip(), self.peer.port());
            info!(self.log, "ROOT LOGIN REFUSED FROM {ip} port {port}");
        }
        allowed
    }

    fn key_right(&self, candidate: &Candidate, attempt: &PublicKeyAttempt) -> Option<KeyVerdict> {
        let settings = &candidate.settings;
        let accepted = settings.pubkey_accepted_algorithms.apply(&USER_KEY_ALGORITHMS);
        if !accepted.contains(&attempt.algorithm) {
            let algorithm = &attempt.algorithm;
            debug!(self.log, "signature algorithm {algorithm} not in PubkeyAcceptedAlgorithms");
            return None;
        }
        let key = PublicKey::from_blob(&attempt.key).ok()?;
        if !key.signature_algorithms().contains(&attempt.algorithm.as_str()) {
            return None;
        }
        let least = settings.required_rsa_size.value as usize;
        if key.key_type() == "ssh-rsa" && key.bits() < least {
            info!(self.log, "refusing RSA key: Invalid key length");
            return None;
        }
        if self.revoked(settings, &key) {
            return None;
        }
        let user = candidate.user.as_ref()?;
        let options = self.find_key(settings, user, &key)?;
        match &attempt.signature {
            None => Some(KeyVerdict::WouldDo),
            Some(signature) => match key.verify(&attempt.algorithm, &attempt.signed, signature) {
                Ok(()) => Some(KeyVerdict::Proven(options)),
                Err(problem) => {
                    debug!(self.log, "signature of user {}: {problem}", user.name);
                    None
                }
            },
        }
    }

    /// Looks for the key in the user's files, with the user's rights.
    fn find_key(&self, settings: &ServerSettings, user: &User, key: &PublicKey) -> Option<KeyOptions> {
        let tokens = Tokens::new()
            .with('h', user.home.to_string_lossy())
            .with('u', user.name.as_str())
            .with('U', user.uid.to_string());
        let ids = Ids::of(user).ok()?;
        for pattern in settings.authorized_keys_file.list() {
            let path = match tokens.expand(pattern) {
                Ok(path) => user.home.join(path),
                Err(problem) => {
                    error!(self.log, "AuthorizedKeysFile: {problem}");
                    continue;
                }
            };
            let strict = settings.strict_modes.value;
            let content = match with_effective(&ids, || strict::read(&path, &user.home, user.uid, strict)) {
                Ok(Ok(content)) => content,
                Ok(Err(problem)) => {
                    match problem {
                        StrictError::Missing(_) => debug!(self.log, "{}: {problem}", path.display()),
                        _ => info!(self.log, "{problem}"),
                    }
                    continue;
                }
                Err(problem) => {
                    error!(self.log, "cannot read files as user {}: {problem}", user.name);
                    return None;
                }
            };
            let text = String::from_utf8_lossy(&content);
            for (number, line) in authorized_keys::find(&text, key) {
                let place = format!("{}:{number}", path.display());
                match line {
                    Line::Entry(entry) => {
                        let origin = self.origin();
                        match entry.options.check(origin.address, origin.name, now_unix()) {
                            Ok(()) => {
                                verbose!(
                                    self.log,
                                    "Accepted key {} found at {place}",
                                    describe(settings, key)
                                );
                                return Some(entry.options);
                            }
                            Err(why) => {
                                info!(self.log, "Authentication tried for {} with {why}", user.name);
                            }
                        }
                    }
                    Line::BadOptions(why) => info!(self.log, "{place}: bad key options: {why}"),
                    Line::Blank | Line::Malformed => {}
                }
            }
        }
        None
    }

    /// `RevokedKeys`: a file that cannot be read revokes every key, so that no accident lets a revoked one in.
    fn revoked(&self, settings: &ServerSettings, key: &PublicKey) -> bool {
        for path in settings.revoked_keys.list() {
            let Ok(text) = std::fs::read(path) else {
                error!(
                    self.log,
                    "Error checking authentication key {} in revoked keys file {path}",
                    describe(settings, key)
                );
                return true;
            };
            if text.starts_with(b"SSHKRL\n\0") {
                error!(
                    self.log,
                    "revoked keys file {path} is a KRL, which is not supported: all keys are refused"
                );
                return true;
            }
            if authorized_keys::find(&String::from_utf8_lossy(&text), key).next().is_some() {
                error!(self.log, "Authentication key {} revoked by file {path}", describe(settings, key));
                return true;
            }
        }
        false
    }

    fn log_attempt(&self, candidate: &Candidate, method: &Method, verdict: &Verdict) {
        let word = match verdict {
            Verdict::Accept => "Accepted",
            Verdict::Reject { partial: true, .. } => "Partial",
            Verdict::Reject { .. } | Verdict::TooMany => "Failed",
            Verdict::KeyOk | Verdict::Prompt(_) => "Postponed",
        };
        let invalid = if candidate.user.is_none() { "invalid user " } else { "" };
        let key = match method {
            Method::PublicKey(key) => match PublicKey::from_blob(&key.key) {
                Ok(key) => format!(": {}", describe(&candidate.settings, &key)),
                Err(_) => String::new(),
            },
            _ => String::new(),
        };
        let most = candidate.settings.max_auth_tries.value;
        let loud = matches!(verdict, Verdict::Accept)
            || !matches!(verdict, Verdict::KeyOk | Verdict::Prompt(_))
                && (candidate.user.is_none()
                    || self.failures >= most / 2
                    || matches!(method, Method::Password(_)));
        let level = if loud { crate::log::Level::Info } else { crate::log::Level::Verbose };
        let (name, ip, port) = (&candidate.name, self.peer.ip(), self.peer.port());
        let shown = match method {
            Method::KeyboardInteractive | Method::Responses(_) => "keyboard-interactive/pam",
            other => other.name(),
        };
        let line = format_args!("{word} {shown} for {invalid}{name} from {ip} port {port} ssh2{key}");
        match verdict {
            // A step on the way, which in OpenSSH the other process logs.
            Verdict::KeyOk | Verdict::Prompt(_) => self.log.preauth().line(level, line),
            _ => self.log.line(level, line),
        }
    }

    /// Counts failures; the first `none` is a question and no failure.
    fn count(&mut self, candidate: &Candidate, method: &Method, verdict: Verdict) -> Verdict {
        if !matches!(verdict, Verdict::Reject { partial: false, .. }) {
            return verdict;
        }
        if self.attempts > 1 || !matches!(method, Method::None) {
            self.failures += 1;
        }
        if self.failures < candidate.settings.max_auth_tries.value {
            return verdict;
        }
        let invalid = if candidate.user.is_none() { "invalid user " } else { "" };
        let (name, ip, port) = (&candidate.name, self.peer.ip(), self.peer.port());
        error!(
            self.log,
            "maximum authentication attempts exceeded for {invalid}{name} from {ip} port {port} ssh2"
        );
        Verdict::TooMany
    }
}

enum KeyVerdict {
    WouldDo,
    Proven(KeyOptions),
}

/// `ED25519 SHA256:…`, as log lines have it.
fn describe(settings: &ServerSettings, key: &PublicKey) -> String {
    let kind = match key.key_type() {
        "ssh-ed25519" => "ED25519",
        "ssh-rsa" => "RSA",
        "ssh-dss" => "DSA",
        other if other.starts_with("ecdsa-") => "ECDSA",
        other => other,
    };
    let hash = match settings.fingerprint_hash.value {
        ServerFingerprintHash::Sha256 => FingerprintHash::Sha256,
        ServerFingerprintHash::Md5 => FingerprintHash::Md5,
    };
    format!("{kind} {}", key.fingerprint(hash))
}

/// A method without its submethod (`keyboard-interactive:pam`).
fn base(method: &str) -> &str {
    method.split(':').next().unwrap_or(method)
}

/// One method has succeeded: it is taken off the chains that begin with it.
fn advance(chains: &mut [Vec<String>], method: &str) {
    for chain in chains {
        if chain.first().is_some_and(|first| base(first) == method) {
            chain.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_methods_end_when_one_is_used_up() {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut chains = vec![list("publickey,password"), list("publickey,keyboard-interactive:pam")];
        advance(&mut chains, "password");
        assert_eq!(chains[0], ["publickey", "password"]);
        advance(&mut chains, "publickey");
        assert_eq!(chains, [list("password"), list("keyboard-interactive:pam")]);
        advance(&mut chains, "keyboard-interactive");
        assert!(chains[1].is_empty() && !chains[0].is_empty());
    }
}
