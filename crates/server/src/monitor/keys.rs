//! Users' public keys: which are in their files, which are revoked, which signatures are right.

use lh_auth::KeyRequest;
use lh_auth::server::PublicKeyAttempt;
use lh_config::enums::ServerFingerprintHash;
use lh_config::server_table::ServerSettings;
use lh_config::token::Tokens;
use lh_crypto::{FingerprintHash, PublicKey};
use lh_sys::ids::{Ids, with_effective};
use lh_sys::time::now_unix;
use lh_sys::users::User;

use super::{Candidate, Monitor, USER_KEY_ALGORITHMS};
use crate::authorized_keys::{self, Line};
use crate::key_options::KeyOptions;
use crate::log::{debug, error, info, verbose};
use crate::strict::{self, StrictError};

/// What a key is worth.
pub(super) enum KeyVerdict {
    WouldDo,
    Proven(KeyOptions),
}

impl Monitor {
    pub(super) fn key_right(&self, candidate: &Candidate, attempt: &PublicKeyAttempt) -> Option<KeyVerdict> {
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
            Some(signature) => {
                match key.verify(&attempt.algorithm, &self.signed(&user.name, attempt), signature) {
                    Ok(()) => Some(KeyVerdict::Proven(options)),
                    Err(problem) => {
                        debug!(self.log, "signature of user {}: {problem}", user.name);
                        None
                    }
                }
            }
        }
    }

    /// What the signature must cover: this session, this user, this request. Put together here, so that no
    /// signature for anything else is worth anything, whoever brings it.
    fn signed(&self, user: &str, attempt: &PublicKeyAttempt) -> Vec<u8> {
        let request = KeyRequest {
            algorithm: &attempt.algorithm,
            key: &attempt.key,
            host_key: attempt.hostbound.then_some(&self.host_key[..]),
        };
        lh_auth::signed_data(&self.session_id, user.as_bytes(), &request)
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
}

/// `ED25519 SHA256:…`, as log lines have it.
pub(super) fn describe(settings: &ServerSettings, key: &PublicKey) -> String {
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
