//! Users' public keys: which are in their files, which are revoked, which signatures are right.

use std::path::Path;
use std::rc::Rc;

use lh_auth::KeyRequest;
use lh_auth::server::PublicKeyAttempt;
use lh_config::algorithms::AlgorithmList;
use lh_config::server_table::ServerSettings;
use lh_config::token::Tokens;
use lh_crypto::{Attested, Certificate, PublicKey, key_algorithms};
use lh_sys::ids::with_effective;
use lh_sys::users::User;

use super::external::External;
use super::revoked::Revocation;
use super::{Candidate, Monitor, describe};
use crate::authorized_keys::{self, Line};
use crate::hosts::endpoints;
use crate::key_options::KeyOptions;
use crate::log::{debug, error, info, verbose};
use crate::strict::{self, StrictError};

/// What a key is worth.
pub(super) enum KeyVerdict {
    WouldDo,
    Proven(Box<KeyOptions>),
}

impl Monitor {
    pub(super) fn key_right(&self, candidate: &Candidate, attempt: &PublicKeyAttempt) -> Option<KeyVerdict> {
        let settings = &candidate.settings;
        let accepted = ("PubkeyAcceptedAlgorithms", &settings.pubkey_accepted_algorithms.value);
        let key = self.usable_key(settings, &attempt.key, &attempt.algorithm, accepted)?;
        if candidate.used_keys.iter().any(|used| used == key.plain()) {
            debug!(self.log, "Refusing key, already used: {}", describe(settings, &key));
            return None;
        }
        let user = candidate.user.as_ref()?;
        if self.is_revoked(settings, &key) {
            return None;
        }
        let options = self.find_key(settings, user, &key)?;
        match &attempt.signature {
            None => Some(KeyVerdict::WouldDo),
            Some(signature) => {
                let signed = self.signed(&candidate.name, attempt);
                match key.verify_attested(&attempt.algorithm, &signed, signature) {
                    Ok(attested) => self
                        .attestation_enough(candidate, &options, &key, attested)
                        .then(|| KeyVerdict::Proven(Box::new(options))),
                    Err(problem) => {
                        debug!(self.log, "signature of user {}: {problem}", user.name);
                        None
                    }
                }
            }
        }
    }

    /// A key whose signatures with this algorithm count by the list of this keyword; under a certificate only where that is
    /// sound.
    pub(super) fn usable_key(
        &self,
        settings: &ServerSettings,
        blob: &[u8],
        algorithm: &str,
        (keyword, accepted): (&str, &AlgorithmList),
    ) -> Option<PublicKey> {
        if !accepted.apply(&key_algorithms::DEFAULT).iter().any(|name| name == algorithm) {
            let method = if keyword == "HostbasedAcceptedAlgorithms" { "hostbased" } else { "pubkey" };
            info!(self.log, "userauth_{method}: signature algorithm {algorithm} not in {keyword} [preauth]");
            return None;
        }
        let key = PublicKey::from_blob(blob).ok()?;
        if !key.signature_algorithms().contains(&algorithm) {
            return None;
        }
        let least = settings.required_rsa_size.value as usize;
        if key.plain().key_type() == "ssh-rsa" && key.bits() < least {
            info!(self.log, "refusing RSA key: Invalid key length");
            return None;
        }
        if let Some(certificate) = key.certificate() {
            self.sound(settings, certificate)?;
        }
        Some(key)
    }

    /// Whether the key or the authority that certified it is revoked, or may be.
    pub(super) fn is_revoked(&self, settings: &ServerSettings, key: &PublicKey) -> bool {
        self.revocation(settings, key) != Revocation::No
    }

    /// Whether the key or the authority that certified it is revoked.
    pub(super) fn revocation(&self, settings: &ServerSettings, key: &PublicKey) -> Revocation {
        let own = self.revoked.check(settings, key, &self.log);
        match key.certificate().map(Certificate::authority) {
            Some(authority) if own != Revocation::Yes => {
                own.max(self.revoked.check(settings, authority, &self.log))
            }
            _ => own,
        }
    }

    /// Whether the authority's signature is right and of a kind that counts. Whether anybody trusts the authority is another
    /// question.
    fn sound(&self, settings: &ServerSettings, certificate: &Certificate) -> Option<()> {
        let allowed = settings.ca_signature_algorithms.apply(&key_algorithms::AUTHORITY);
        let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
        match certificate.verify(&allowed) {
            Ok(()) => Some(()),
            Err(problem) => {
                let algorithm = certificate.signature_algorithm();
                info!(self.log, "certificate signature algorithm {algorithm}: {problem}");
                None
            }
        }
    }

    /// Whether a security key has done what is asked of it.
    fn attestation_enough(
        &self,
        candidate: &Candidate,
        options: &KeyOptions,
        key: &PublicKey,
        attested: Option<Attested>,
    ) -> bool {
        let Some(attested) = attested else { return true };
        let wanted = candidate.settings.pubkey_auth_options.value;
        let touch = wanted.touch_required || !options.no_touch_required;
        let verify = wanted.verify_required || options.verify_required;
        let missing = if touch && !attested.present {
            "user presence (authenticator touch)"
        } else if verify && !attested.verified {
            "user verification"
        } else {
            return true;
        };
        let (name, ip, port) = (&candidate.name, self.peer.ip(), self.peer.port());
        error!(
            self.log,
            "public key {} signature for {name} from {ip} port {port} rejected: {missing} requirement not met",
            describe(&candidate.settings, key)
        );
        false
    }

    /// What the signature must cover: this session, this user, this request. Put together here, so that no
    /// signature for anything else counts.
    fn signed(&self, user: &str, attempt: &PublicKeyAttempt) -> Vec<u8> {
        let request = KeyRequest {
            algorithm: &attempt.algorithm,
            key: &attempt.key,
            host_key: attempt.hostbound.then_some(&self.host_key[..]),
        };
        lh_auth::signed_data(&self.session_id, user.as_bytes(), &request)
    }

    /// Looks for the key where it may be trusted: the user's files, the server's authorities, the server's command.
    pub(super) fn find_key(
        &self,
        settings: &ServerSettings,
        user: &User,
        key: &PublicKey,
    ) -> Option<KeyOptions> {
        let tokens = user_tokens(user);
        for pattern in
            settings.authorized_keys_file.list().iter().filter(|name| !name.eq_ignore_ascii_case("none"))
        {
            let path = match tokens.expand(pattern) {
                Ok(path) => user.home.join(path),
                Err(problem) => {
                    error!(self.log, "AuthorizedKeysFile: {problem}");
                    continue;
                }
            };
            for path in self.files_of_pattern(user, "AuthorizedKeysFile", pattern, path) {
                let Some(text) = self.user_file(settings, user, "authorized keys", &path) else { continue };
                if let Some(options) = self.search(settings, user, key, &text, &path.display().to_string()) {
                    return Some(options);
                }
            }
        }
        if let Some(certificate) = key.certificate()
            && let Some(options) = self.trusted_authority(settings, user, key, certificate)
        {
            return Some(options);
        }
        self.ask_for_keys(settings, user, key)
    }

    /// A file of the user's, read with the user's rights. What keeps it from being read is logged.
    pub(super) fn user_file(
        &self,
        settings: &ServerSettings,
        user: &User,
        kind: &'static str,
        path: &Path,
    ) -> Option<Rc<str>> {
        // Once for each connection: a client that asks about a thousand keys does not have them read a thousand times.
        if let Some(known) = self.files.borrow().get(path) {
            return known.clone();
        }
        let text = self.read_user_file(settings, user, kind, path).map(Rc::from);
        self.files.borrow_mut().insert(path.to_owned(), text.clone());
        text
    }

    fn read_user_file(
        &self,
        settings: &ServerSettings,
        user: &User,
        kind: &'static str,
        path: &Path,
    ) -> Option<String> {
        let strict = settings.strict_modes.value;
        let read = self.groups.of(user).and_then(|groups| {
            with_effective(&groups.ids, || strict::read(kind, path, &user.home, user.uid, strict))
        });
        match read {
            Ok(Ok(content)) => Some(String::from_utf8_lossy(&content).into_owned()),
            Ok(Err(problem @ StrictError::Missing(_))) => {
                debug!(self.log, "{}: {problem}", path.display());
                None
            }
            Ok(Err(problem)) => {
                info!(self.log, "{problem}");
                self.doubt.set(self.doubt.get() || problem.is_failure());
                None
            }
            Err(problem) => {
                error!(self.log, "cannot read files as user {}: {problem}", user.name);
                self.doubt.set(true);
                None
            }
        }
    }

    /// `AuthorizedKeysCommand`.
    fn ask_for_keys(&self, settings: &ServerSettings, user: &User, key: &PublicKey) -> Option<KeyOptions> {
        let command = settings.authorized_keys_command.0.as_deref()?;
        let tokens = self
            .connection_tokens(user_tokens(user))
            .with('t', key.key_type())
            .with('f', super::fingerprint(settings, key))
            .with('k', key.to_base64());
        let external = External {
            keyword: "AuthorizedKeysCommand",
            command,
            user: settings.authorized_keys_command_user.as_deref(),
            default_argument: Some(&user.name),
            tokens: &tokens,
            deadline: self.deadline,
        };
        match external.run() {
            Ok(text) => self.search(settings, user, key, &text, &external.path()),
            Err(problem) => {
                error!(self.log, "{problem}");
                self.doubt.set(true);
                None
            }
        }
    }

    /// `%C` and `%D`.
    pub(super) fn connection_tokens(&self, tokens: Tokens) -> Tokens {
        tokens.with('C', endpoints(self.peer, self.local)).with('D', "")
    }

    /// Looks for a key, or the authority of a certificate, in the text of an `authorized_keys` file.
    fn search(
        &self,
        settings: &ServerSettings,
        user: &User,
        key: &PublicKey,
        text: &str,
        file: &str,
    ) -> Option<KeyOptions> {
        let certificate = key.certificate();
        let kind = if certificate.is_some() { "CA" } else { "key" };
        let wanted = certificate.map_or(key, Certificate::authority);
        for (number, line) in authorized_keys::find(text, wanted, certificate.is_some()) {
            let place = format!("{file}:{number}");
            let options = match line {
                Line::Entry(entry) => entry.options,
                Line::BadOptions(why) => {
                    debug!(self.log, "{place}: bad key options: {why}");
                    continue;
                }
                Line::Blank | Line::Malformed => continue,
            };
            debug!(self.log, "{place}: matching {kind} found: {}", describe(settings, wanted));
            if !self.permitted(&options, &place, user, true) {
                error!(self.log, "Refused by key options");
                continue;
            }
            let Some(certificate) = certificate else {
                verbose!(self.log, "Accepted key {} found at {place}", describe(settings, key));
                return Some(options);
            };
            match self.certificate_of_line(user, certificate, &options, &place) {
                Ok(options) => {
                    let (id, serial) = (certificate.key_id(), certificate.serial());
                    let authority = describe(settings, wanted);
                    verbose!(
                        self.log,
                        "Accepted certificate ID \"{id}\" (serial {serial}) signed by CA {authority} found at {place}"
                    );
                    return Some(options);
                }
                Err(why) => error!(self.log, "{why}"),
            }
        }
        None
    }
}

/// The tokens of `AuthorizedKeysFile` and its relatives.
pub(super) fn user_tokens(user: &User) -> Tokens {
    Tokens::new()
        .with('h', user.home.to_string_lossy())
        .with('u', user.name.as_str())
        .with('U', user.uid.to_string())
}
