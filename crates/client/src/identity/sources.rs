//! Sources of identities: files, certificates beside them, the agent.

use std::path::{Path, PathBuf};

use lh_crypto::{CertificateKind, KeyFileError, PrivateKey, PublicKey};
use lh_security_key::FileKey;
use zeroize::Zeroizing;

use super::key::{Broken, Identity, IdentityConfig, SessionProof, Source};
use crate::agent::{Agent, AgentKey};
use crate::key_file::{self, ReadFailure};
use crate::log::Log;

/// Returns the keys in `IdentityFile`s, each followed by the certificate beside it.
pub(super) fn files(config: &IdentityConfig, log: &mut Log<'_>) -> Vec<Identity> {
    let mut found = Vec::new();
    for path in &config.files {
        found.push(from_file(path, config.explicit));
        if config.certificates.is_empty() {
            // The certificate of `id` is in `id-cert.pub`, and so it is for `-i id.pub`.
            let private = path.extension().filter(|end| *end == "pub").map(|_| path.with_extension(""));
            let beside = key_file::with_suffix(private.as_deref().unwrap_or(path), "-cert.pub");
            let certificate = key_file::public_in(&beside).map(|(key, _)| key);
            found.extend(certificate.and_then(|key| user_certificate(key, path, config.explicit, log)));
        }
    }
    found
}

/// Logs which key files exist, and their types, in the lines that scripts search for in `ssh -v`.
pub(crate) fn announce(files: &[PathBuf], log: &mut Log<'_>) {
    for path in files {
        let mut say = |path: &Path, kind: i32| {
            log.debug(|| format!("identity file {} type {kind}", path.display()));
        };
        let key = public_file(path).or_else(|| key_file::public_in(path).map(|(key, _)| key));
        say(path, key.map_or(-1, |key| type_number(&key)));
        let certificate = key_file::with_suffix(path, "-cert");
        let beside = key_file::public_in(&key_file::with_suffix(&certificate, ".pub"));
        say(&certificate, beside.map_or(-1, |(key, _)| type_number(&key)));
    }
}

/// Returns OpenSSH's number of a key type; -1 for unknown types.
fn type_number(key: &PublicKey) -> i32 {
    let plain = match key.plain().key_type() {
        "ssh-rsa" => 0,
        "ssh-dss" => 1,
        "ssh-ed25519" => 3,
        "sk-ecdsa-sha2-nistp256@openssh.com" => 10,
        "sk-ssh-ed25519@openssh.com" => 12,
        name if name.starts_with("ecdsa-sha2-") => 2,
        _ => return -1,
    };
    match (key.certificate().is_some(), plain) {
        (false, number) => number,
        (true, number @ 10..) => number + 1,
        (true, number) => number + 4,
    }
}

/// Returns the certificates in `CertificateFile`s.
pub(super) fn certificates(config: &IdentityConfig, log: &mut Log<'_>) -> Vec<Identity> {
    let mut found = Vec::new();
    for path in &config.certificates {
        match key_file::load_public(path) {
            Ok((key, _)) => found.extend(user_certificate(key, path, true, log)),
            Err(error) => {
                let why = lh_sys::errno_text(&error);
                log.debug(|| format!("certificate file {}: {why}", path.display()));
            }
        }
    }
    found
}

fn user_certificate(key: PublicKey, path: &Path, explicit: bool, log: &mut Log<'_>) -> Option<Identity> {
    let name = path.display().to_string();
    if key.certificate().is_none_or(|certificate| certificate.kind() != CertificateKind::User) {
        log.debug(|| format!("ignoring certificate {name}: not a user certificate"));
        return None;
    }
    Some(Identity { name, public: Some(key), explicit, from: Source::Certificate })
}

/// Connects to the agent, binds it to the session and lists its keys.
pub(super) fn ask_agent(
    path: &Path,
    session: Option<&SessionProof>,
    log: &mut Log<'_>,
) -> (Option<Agent>, Vec<AgentKey>) {
    let mut agent = match Agent::connect(path) {
        Ok(agent) => agent,
        Err(error) => {
            log.debug(|| format!("get_agent_identities: ssh_get_authentication_socket: {error}"));
            return (None, Vec::new());
        }
    };
    if let Some(session) = session {
        match session.bind(&mut agent, false) {
            Ok(()) => log.debug(|| "get_agent_identities: bound agent to hostkey".to_owned()),
            Err(error) => log.debug2(|| format!("get_agent_identities: ssh_agent_bind_hostkey: {error}")),
        }
    }
    match agent.identities() {
        Ok(keys) => {
            log.debug(|| format!("get_agent_identities: agent returned {} keys", keys.len()));
            (Some(agent), keys)
        }
        Err(error) => {
            log.debug(|| format!("get_agent_identities: ssh_fetch_identitylist: {error}"));
            (None, Vec::new())
        }
    }
}

/// Reads one `IdentityFile`. Errors are reported when the key is needed, not here.
fn from_file(path: &Path, explicit: bool) -> Identity {
    let name = path.display().to_string();
    let read = match key_file::read(path) {
        Ok(bytes) if key_file::public_line(&bytes).is_none() => {
            return private_identity(path.to_path_buf(), bytes, name, explicit);
        }
        other => other,
    };
    // `-i key.pub` names a key that an agent or a token holds. The private key beside it is not used: by
    // naming the public half, the user may rely on the agent's constraints.
    let broken = match read {
        Ok(_) => Broken::Unusable(format!("Load key \"{name}\": {}", KeyFileError::InvalidFormat)),
        Err(ReadFailure::Open(error)) => {
            let why = lh_sys::errno_text(&error);
            match std::fs::metadata(path) {
                Ok(_) => Broken::Unusable(format!("Load key \"{name}\": {why}")),
                Err(_) => Broken::Missing(why),
            }
        }
        Err(ReadFailure::TooOpen(mode)) => {
            let warning = key_file::unprotected(&name, mode);
            Broken::Unusable(format!("{warning}\nLoad key \"{name}\": bad permissions"))
        }
    };
    let public = key_file::public_in(path).map(|(key, _)| key).or_else(|| public_file(path));
    Identity { name, public, explicit, from: Source::Broken(broken) }
}

fn private_identity(path: PathBuf, bytes: Zeroizing<Vec<u8>>, name: String, explicit: bool) -> Identity {
    match FileKey::parse(&bytes, None) {
        Ok((key, comment)) => {
            let public =
                certificate_from_pub_file(&path, key.public()).or_else(|| Some(key.public().clone()));
            Identity { name, public, explicit, from: Source::Loaded(key, comment) }
        }
        Err(KeyFileError::PassphraseNeeded | KeyFileError::WrongPassphrase) => {
            let public = match PrivateKey::parse_public(&bytes) {
                Ok(key) => certificate_from_pub_file(&path, &key).or(Some(key)),
                Err(_) => public_file(&path),
            };
            Identity { name, public, explicit, from: Source::File(path, bytes) }
        }
        Err(error) => {
            let broken = Broken::Unusable(format!("Load key \"{name}\": {error}"));
            Identity { name, public: public_file(&path), explicit, from: Source::Broken(broken) }
        }
    }
}

/// Returns the certificate in the `.pub` file of a private key: the key is then presented only with it.
fn certificate_from_pub_file(path: &Path, key: &PublicKey) -> Option<PublicKey> {
    let usable = |public: &PublicKey| {
        public.certificate().is_some_and(|certificate| certificate.kind() == CertificateKind::User)
            && public.plain() == key
    };
    public_file(path).filter(usable)
}

/// Returns the key in `path`.pub, or in `path` itself if that is a `.pub` file.
fn public_file(path: &Path) -> Option<PublicKey> {
    let beside = if path.extension().is_some_and(|e| e == "pub") {
        path.to_path_buf()
    } else {
        key_file::with_suffix(path, ".pub")
    };
    let bytes = std::fs::File::open(beside).ok()?;
    let size = bytes.metadata().ok()?.len();
    key_file::public_line(&key_file::read_limited(bytes, size).ok()?).map(|(key, _)| key)
}
