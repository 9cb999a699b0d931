//! The keys a user can log in with: which ones there are, in which order they are tried, and how they sign.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lh_crypto::{FingerprintHash, KeyFileError, PrivateKey, PublicKey};
use zeroize::Zeroizing;

use crate::agent::{Agent, AgentKey};
use crate::log::Log;
use crate::ui::LogLevel;

/// Longest key file that is read: OpenSSH's limit.
const MAX_KEY_FILE: u64 = 1024 * 1024;

/// A key that may be tried.
pub(crate) struct Identity {
    /// How the user knows it: a file name, or the agent's comment.
    pub(crate) name: String,
    /// Known for all but encrypted keys in old formats without a `.pub` file beside them.
    pub(crate) public: Option<PublicKey>,
    /// Someone named this file; it is not one of the defaults.
    explicit: bool,
    from: Source,
}

enum Source {
    /// The agent signs.
    Agent(Vec<u8>),
    /// A file that has not been opened with its passphrase yet.
    File(PathBuf, Zeroizing<Vec<u8>>),
    /// A key whose private half is in memory.
    Loaded(PrivateKey),
    /// A passphrase was wrong, or the file is no key.
    Useless,
}

/// What the configuration says about identities.
#[derive(Debug, Clone)]
pub(crate) struct IdentityConfig {
    /// `IdentityFile`s in order, tokens expanded; `explicit` tells whether someone named them.
    pub(crate) files: Vec<PathBuf>,
    /// The files were configured, so a missing one is worth a word.
    pub(crate) explicit: bool,
    /// `IdentitiesOnly`.
    pub(crate) only: bool,
    /// The agent's socket, if there is to be an agent.
    pub(crate) agent: Option<PathBuf>,
    /// `NumberOfPasswordPrompts` also counts tries at a passphrase.
    pub(crate) passphrase_tries: u32,
    /// For messages.
    pub(crate) fingerprint: FingerprintHash,
}

/// Why a key did not sign.
pub(crate) enum SignFailure {
    /// Go on with the next key; what is to be said has been said.
    Skip,
}

/// All identities in the order to try them, and the agent that signs for some.
pub(crate) struct Identities {
    pub(crate) list: Vec<Identity>,
    agent: Option<Agent>,
    config: IdentityConfig,
}

impl Identities {
    /// Finds the keys. Order: configured files whose key the agent holds, the agent's other keys, the files left.
    pub(crate) fn gather(config: IdentityConfig, log: &mut Log<'_>) -> Self {
        let mut files: Vec<Identity> =
            config.files.iter().filter_map(|path| from_file(path, config.explicit, log)).collect();
        let (agent, held) = match &config.agent {
            Some(path) => ask_agent(path, log),
            None => (None, Vec::new()),
        };
        let mut list = Vec::new();
        let mut others = Vec::new();
        for key in held {
            let Ok(public) = PublicKey::from_blob(&key.blob) else {
                continue;
            };
            let at = files.iter().position(|f| f.public.as_ref().is_some_and(|p| p.blob() == key.blob));
            let identity = |name: String, explicit| Identity {
                name,
                public: Some(public),
                explicit,
                from: Source::Agent(key.blob.clone()),
            };
            match at {
                Some(at) => {
                    let file = files.remove(at);
                    list.push(identity(file.name, file.explicit));
                }
                None if !config.only => others.push(identity(key.comment.clone(), false)),
                None => {}
            }
        }
        list.append(&mut others);
        list.append(&mut files);
        // A .pub file alone is of use only with an agent that has the key.
        list.retain(|identity| !matches!(identity.from, Source::Useless));
        if log.shows(LogLevel::Debug1) {
            for identity in &list {
                let line = identity.describe(config.fingerprint);
                log.debug(|| format!("Will attempt key: {line}"));
            }
        }
        Self { list, agent, config }
    }

    /// Signs with the identity at `index`; asks for a passphrase where one is needed.
    pub(crate) fn sign(
        &mut self,
        index: usize,
        algorithm: &str,
        data: &[u8],
        log: &mut Log<'_>,
    ) -> Result<Vec<u8>, SignFailure> {
        let config = &self.config;
        let Some(identity) = self.list.get_mut(index) else {
            return Err(SignFailure::Skip);
        };
        let result = match &identity.from {
            Source::Agent(blob) => match &mut self.agent {
                Some(agent) => agent.sign(blob, algorithm, data).map_err(|error| error.to_string()),
                None => return Err(SignFailure::Skip),
            },
            Source::Loaded(key) => key.sign(algorithm, data).map_err(|error| error.to_string()),
            Source::File(..) | Source::Useless => {
                identity.unlock(config, log)?;
                match &identity.from {
                    Source::Loaded(key) => key.sign(algorithm, data).map_err(|error| error.to_string()),
                    _ => return Err(SignFailure::Skip),
                }
            }
        };
        result.map_err(|why| {
            let kind = identity.public.as_ref().map_or_else(String::new, |key| short_type(key.key_type()));
            let agent = if matches!(identity.from, Source::Agent(_)) { " from agent" } else { "" };
            log.error(&format!(
                "sign_and_send_pubkey: signing failed for {kind} \"{}\"{agent}: {why}",
                identity.name
            ));
            SignFailure::Skip
        })
    }

    /// Makes sure that the public half of the identity at `index` is known, which may take its passphrase.
    pub(crate) fn load(&mut self, index: usize, log: &mut Log<'_>) -> Result<(), SignFailure> {
        let identity = self.list.get_mut(index).ok_or(SignFailure::Skip)?;
        if identity.public.is_some() { Ok(()) } else { identity.unlock(&self.config, log) }
    }
}

impl Identity {
    /// True when signing needs nobody: the private key is in memory, in clear.
    pub(crate) const fn is_ready(&self) -> bool {
        matches!(self.from, Source::Loaded(_))
    }

    /// `NAME TYPE FINGERPRINT explicit agent`, as `-v` shows keys.
    pub(crate) fn describe(&self, hash: FingerprintHash) -> String {
        let mut line = self.name.clone();
        if let Some(key) = &self.public {
            line.push_str(&format!(" {} {}", short_type(key.key_type()), key.fingerprint(hash)));
        }
        if self.explicit {
            line.push_str(" explicit");
        }
        if matches!(self.from, Source::Agent(_)) {
            line.push_str(" agent");
        }
        line
    }

    /// Turns a file into a loaded key, asking for its passphrase.
    fn unlock(&mut self, config: &IdentityConfig, log: &mut Log<'_>) -> Result<(), SignFailure> {
        let Source::File(path, bytes) = std::mem::replace(&mut self.from, Source::Useless) else {
            return Err(SignFailure::Skip);
        };
        let prompt = format!("Enter passphrase for key '{}': ", path.display());
        for _ in 0..config.passphrase_tries {
            let Some(passphrase) = log.ask_secret(&prompt) else {
                log.debug2(|| "no passphrase given, try next key".to_owned());
                break;
            };
            if passphrase.is_empty() {
                log.debug2(|| "no passphrase given, try next key".to_owned());
                break;
            }
            match PrivateKey::parse(&bytes, Some(passphrase.as_bytes())) {
                Ok((key, _)) => {
                    self.public.get_or_insert_with(|| key.public().clone());
                    self.from = Source::Loaded(key);
                    return Ok(());
                }
                Err(KeyFileError::WrongPassphrase | KeyFileError::PassphraseNeeded) => {
                    log.debug2(|| "bad passphrase given, try again...".to_owned());
                }
                Err(error) => {
                    log.error(&format!("Load key \"{}\": {error}", path.display()));
                    break;
                }
            }
        }
        Err(SignFailure::Skip)
    }
}

fn ask_agent(path: &Path, log: &mut Log<'_>) -> (Option<Agent>, Vec<AgentKey>) {
    let mut agent = match Agent::connect(path) {
        Ok(agent) => agent,
        Err(error) => {
            log.debug(|| format!("get_agent_identities: ssh_get_authentication_socket: {error}"));
            return (None, Vec::new());
        }
    };
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

/// Looks at one `IdentityFile`. `None` when there is nothing to try.
fn from_file(path: &Path, explicit: bool, log: &mut Log<'_>) -> Option<Identity> {
    let name = path.display().to_string();
    let (bytes, private_path) = match read_private(path) {
        Ok(bytes) => (Some(bytes), path.to_path_buf()),
        Err(ReadFailure::Open(error)) => {
            // `-i key.pub` names the private key beside it, or a key that only the agent has.
            let beside = (path.extension().is_some_and(|e| e == "pub")).then(|| path.with_extension(""));
            let found = beside.and_then(|p| read_private(&p).ok().map(|bytes| (Some(bytes), p)));
            match found {
                Some(found) => found,
                None if public_file(path).is_some() => (None, path.to_path_buf()),
                None => {
                    let level = if explicit { LogLevel::Info } else { LogLevel::Debug3 };
                    let why = crate::dial::errno_text(&error);
                    log.say(level, &format!("no such identity: {name}: {why}"));
                    return None;
                }
            }
        }
        Err(ReadFailure::TooOpen(mode)) => {
            log.error(&unprotected(&name, mode));
            return None;
        }
    };
    let Some(bytes) = bytes else {
        return Some(Identity { name, public: public_file(path), explicit, from: Source::Useless });
    };
    // A public key given as identity: only the agent can hold its other half, unless the file is there too.
    if let Some(public) =
        std::str::from_utf8(&bytes).ok().and_then(|text| PublicKey::from_openssh_line(text.trim()))
    {
        let beside = path.with_extension("");
        if path.extension().is_some_and(|e| e == "pub")
            && let Ok(bytes) = read_private(&beside)
        {
            return Some(private_identity(beside, bytes, name, explicit, log)).flatten();
        }
        return Some(Identity { name, public: Some(public.0), explicit, from: Source::Useless });
    }
    private_identity(private_path, bytes, name, explicit, log)
}

fn private_identity(
    path: PathBuf,
    bytes: Zeroizing<Vec<u8>>,
    name: String,
    explicit: bool,
    log: &mut Log<'_>,
) -> Option<Identity> {
    match PrivateKey::parse(&bytes, None) {
        Ok((key, _)) => {
            Some(Identity { name, public: Some(key.public().clone()), explicit, from: Source::Loaded(key) })
        }
        Err(KeyFileError::PassphraseNeeded | KeyFileError::WrongPassphrase) => {
            let public = PrivateKey::parse_public(&bytes).ok().or_else(|| public_file(&path));
            Some(Identity { name, public, explicit, from: Source::File(path, bytes) })
        }
        Err(error) => {
            log.error(&format!("Load key \"{name}\": {error}"));
            None
        }
    }
}

/// The key in `path`.pub, or in `path` itself when that is a `.pub` file.
fn public_file(path: &Path) -> Option<PublicKey> {
    let beside = if path.extension().is_some_and(|e| e == "pub") {
        path.to_path_buf()
    } else {
        let mut name = path.as_os_str().to_owned();
        name.push(".pub");
        PathBuf::from(name)
    };
    let text = read_limited(&File::open(beside).ok()?).ok()?;
    let text = std::str::from_utf8(&text).ok()?;
    PublicKey::from_openssh_line(text.lines().next()?.trim()).map(|(key, _)| key)
}

enum ReadFailure {
    Open(io::Error),
    /// Others may read it: the file's mode.
    TooOpen(u32),
}

fn read_private(path: &Path) -> Result<Zeroizing<Vec<u8>>, ReadFailure> {
    let file = File::open(path).map_err(ReadFailure::Open)?;
    let meta = file.metadata().map_err(ReadFailure::Open)?;
    if meta.is_dir() {
        return Err(ReadFailure::Open(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    // A public key may be seen by all; so only what claims to be private is judged, as OpenSSH judges
    // files of the user's own only.
    let bytes = read_limited(&file).map_err(ReadFailure::Open)?;
    let private = memmem(&bytes, b"PRIVATE KEY-----");
    if private && meta.uid() == rustix::process::getuid().as_raw() && meta.mode() & 0o077 != 0 {
        return Err(ReadFailure::TooOpen(meta.mode() & 0o777));
    }
    Ok(bytes)
}

fn memmem(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn read_limited(file: &File) -> io::Result<Zeroizing<Vec<u8>>> {
    // Sized beforehand: a growing buffer would leave copies of a secret behind.
    let size = file.metadata()?.len().min(MAX_KEY_FILE);
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1));
    file.take(MAX_KEY_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unprotected(name: &str, mode: u32) -> String {
    format!(
        "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n\
         @         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\n\
         @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n\
         Permissions {mode:04o} for '{name}' are too open.\n\
         It is required that your private key files are NOT accessible by others.\n\
         This private key will be ignored.\n\
         Load key \"{name}\": bad permissions"
    )
}

/// `ED25519`, `RSA`, `ECDSA`: key types as messages name them.
pub(crate) fn short_type(key_type: &str) -> String {
    let (plain, cert) = match key_type.strip_suffix("-cert-v01@openssh.com") {
        Some(plain) => (plain, "-CERT"),
        None => (key_type, ""),
    };
    let name = match plain.trim_end_matches("@openssh.com") {
        "ssh-ed25519" => "ED25519",
        "ssh-rsa" => "RSA",
        "sk-ssh-ed25519" => "ED25519-SK",
        "sk-ecdsa-sha2-nistp256" => "ECDSA-SK",
        other if other.starts_with("ecdsa-sha2-") => "ECDSA",
        other => other,
    };
    format!("{name}{cert}")
}
