//! Keys on FIDO security keys: permitted libraries (of tokens too), permitted data, and signing.

use std::path::Path;

use lh_agent::SecurityKey;
use lh_cli::prompt::{Kind, Prompter, Require};
use lh_config::pattern::{ListMatch, match_list};
use lh_security_key::{INTERNAL, flags};
use lh_wire::{Reader, WireError};

use crate::error::{LibraryRefused, OptionsError, WhyRefused, WorkError};
use crate::permit::LoginRequest;

/// Default of `-P`: patterns of permitted libraries, as in OpenSSH.
const ALLOWED: &str = "/usr/lib*/*,/usr/local/lib*/*";
/// Default of `websafe-allow`: applications whose keys may sign any data, as in OpenSSH.
const OURS: &str = "ssh:*";

/// Rules for security keys from `-P` and `-O`.
#[derive(Debug)]
pub(crate) struct Rules {
    allowed: String,
    from_remote: bool,
    restrict_websafe: bool,
    websafe: Option<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { allowed: ALLOWED.to_owned(), from_remote: false, restrict_websafe: true, websafe: None }
    }
}

impl Rules {
    /// Sets the patterns of `-P`.
    pub(crate) fn allow(&mut self, patterns: String) {
        self.allowed = patterns;
    }

    /// Adds an `-O` option.
    ///
    /// # Errors
    /// The option is unknown, or given a second time.
    pub(crate) fn add(&mut self, option: &str) -> Result<(), OptionsError> {
        match option {
            "no-restrict-websafe" => self.restrict_websafe = false,
            "allow-remote-pkcs11" => self.from_remote = true,
            _ => match option.strip_prefix("websafe-allow=") {
                Some(_) if self.websafe.is_some() => return Err(OptionsError::WebsafeTwice),
                Some(patterns) => self.websafe = Some(patterns.to_owned()),
                None => return Err(OptionsError::UnknownOption),
            },
        }
        Ok(())
    }

    /// Resolves and checks a provider library that a client names. `remote`: the client is on another host,
    /// which could thereby have files of this host executed.
    ///
    /// # Errors
    /// The library is not permitted.
    pub(crate) fn provider(&self, named: &str, remote: bool) -> Result<String, LibraryRefused> {
        if named.eq_ignore_ascii_case(INTERNAL) {
            return Ok(named.to_owned());
        }
        self.library("failed add of SK provider", named, remote)
    }

    /// Resolves and checks a PKCS#11 library that a client names.
    ///
    /// # Errors
    /// The library is not permitted.
    pub(crate) fn token_library(&self, named: &str, remote: bool) -> Result<String, LibraryRefused> {
        self.library("failed PKCS#11 add of", named, remote)
    }

    fn library(&self, task: &'static str, named: &str, remote: bool) -> Result<String, LibraryRefused> {
        self.resolve(named, remote).map_err(|why| LibraryRefused { task, named: named.to_owned(), why })
    }

    fn resolve(&self, named: &str, remote: bool) -> Result<String, WhyRefused> {
        if remote && !self.from_remote {
            return Err(WhyRefused::Remote);
        }
        // Resolved, so that a symbolic link cannot lead out of the permitted directories.
        let real = Path::new(named).canonicalize().map_err(WhyRefused::Path)?;
        let real = real.to_str().ok_or(WhyRefused::NotText)?;
        match match_list(real, &self.allowed, false) {
            ListMatch::Yes => Ok(real.to_owned()),
            _ => Err(WhyRefused::NotAllowed),
        }
    }

    /// Returns whether a key may sign this data. Keys of other applications may sign SSH's data only: a host
    /// with access to the agent must not be able to log in to a web site with the site's key.
    pub(crate) fn permit(&self, key: &SecurityKey, data: &[u8]) -> bool {
        let application = String::from_utf8_lossy(key.application()).into_owned();
        !self.restrict_websafe
            || match_list(&application, self.websafe.as_deref().unwrap_or(OURS), false) == ListMatch::Yes
            || LoginRequest::parse(data, &key.public).is_ok()
            || is_file_signature(data).is_ok()
    }
}

/// Checks the form of the data that `ssh-keygen -Y sign` signs (OpenSSH's PROTOCOL.sshsig).
fn is_file_signature(data: &[u8]) -> Result<(), WireError> {
    let signed = data.strip_prefix(b"SSHSIG").ok_or(WireError::Invalid { what: "signature of a file" })?;
    let mut reader = Reader::new(signed);
    for _field in ["namespace", "reserved", "hash", "digest"] {
        reader.string()?;
    }
    reader.finish()
}

/// A signature by a security key, which waits for its owner.
pub(crate) struct Job {
    pub(crate) key: Box<SecurityKey>,
    pub(crate) provider: String,
    pub(crate) data: Vec<u8>,
    /// Fingerprint for messages.
    pub(crate) fingerprint: String,
}

impl Job {
    /// Makes the signature.
    ///
    /// # Errors
    /// [`WorkError::SecurityKey`].
    pub(crate) fn run(&self) -> Result<Vec<u8>, WorkError> {
        // An agent has no terminal, so an askpass program shows the notice and the prompt.
        let prompter = Prompter { require: Require::Force, ..Prompter::from_environment() };
        let kind = self.key.public.display_type();
        let touch = self.key.flags & flags::USER_PRESENCE != 0;
        let text = format!("Confirm user presence for key {kind} {}", self.fingerprint);
        let notice = if touch { Prompter::from_environment().notify(&text) } else { None };
        let and_touch = if touch { " and confirm user presence" } else { "" };
        let mut pin = || {
            let question = format!("Enter PIN{and_touch} for {kind} key {}: ", self.fingerprint);
            prompter.ask(&question, Kind::Secret).ok()
        };
        let signed = lh_security_key::sign(&self.key, &self.provider, &self.data, false, &mut pin);
        drop(notice);
        signed.map_err(|source| {
            let fingerprint = self.fingerprint.clone();
            WorkError::SecurityKey { kind, fingerprint, source }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::PublicKey;
    use lh_wire::Writer as _;

    fn key(application: &str) -> SecurityKey {
        let mut blob = Vec::new();
        blob.put_string(b"sk-ssh-ed25519@openssh.com");
        blob.put_string(&[7; 32]);
        blob.put_string(application.as_bytes());
        let public = PublicKey::from_blob(&blob).expect("a key");
        SecurityKey { public, flags: 1, handle: b"h".to_vec().into(), reserved: Vec::new() }
    }

    fn file_signature() -> Vec<u8> {
        let mut data = b"SSHSIG".to_vec();
        for field in ["file", "", "sha512", "digest"] {
            data.put_string(field.as_bytes());
        }
        data
    }

    #[test]
    fn web_site_keys_sign_only_ssh_data() {
        let mut rules = Rules::default();
        assert!(rules.permit(&key("ssh:work"), b"anything"));
        assert!(!rules.permit(&key("https://example.com"), b"anything"));
        assert!(rules.permit(&key("https://example.com"), &file_signature()));
        assert!(!rules.permit(&key("https://example.com"), &[&file_signature()[..], b"x"].concat()));
        assert_eq!(rules.add("websafe-allow=https://example.com,ssh:*"), Ok(()));
        assert!(rules.permit(&key("https://example.com"), b"anything"));
        assert!(!rules.permit(&key("https://example.org"), b"anything"));
        assert_eq!(rules.add("websafe-allow=x"), Err(OptionsError::WebsafeTwice));
        assert_eq!(rules.add("no-restrict-websafe"), Ok(()));
        assert!(rules.permit(&key("https://example.org"), b"anything"));
        assert_eq!(rules.add("something"), Err(OptionsError::UnknownOption));
    }

    #[test]
    fn providers_must_be_in_allowed_directories() {
        let directory = tempfile::tempdir().expect("a directory");
        let real = directory.path().canonicalize().expect("its path");
        let library = real.join("library.so");
        std::fs::write(&library, "").expect("written");
        let link = real.join("link.so");
        std::os::unix::fs::symlink("/etc/passwd", &link).expect("linked");
        let (library, link) = (library.display().to_string(), link.display().to_string());
        let mut rules = Rules::default();
        assert_eq!(rules.provider("Internal", true).ok().as_deref(), Some("Internal"));
        let refused = rules.provider(&library, false).expect_err("not in a permitted directory");
        assert_eq!(
            refused.to_string(),
            format!("failed add of SK provider \"{library}\": provider not allowed")
        );
        rules.allow(format!("{}/*", real.display()));
        assert_eq!(rules.provider(&library, false).ok(), Some(library.clone()));
        assert!(rules.provider(&link, false).is_err());
        assert!(rules.provider("/nonexistent", false).is_err());
        assert!(rules.provider(&library, true).is_err());
        assert_eq!(rules.token_library(&library, false).ok(), Some(library.clone()));
        let refused = rules.token_library(&library, true).expect_err("named by another host");
        assert!(matches!(refused.why, WhyRefused::Remote), "{refused}");
        assert!(rules.token_library(&link, false).is_err());
        assert!(rules.token_library("internal", false).is_err());
        assert_eq!(rules.add("allow-remote-pkcs11"), Ok(()));
        assert!(rules.provider(&library, true).is_ok());
    }
}
