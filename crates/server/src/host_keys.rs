//! The server's own keys: loaded and checked once by the listener, handed to each session as file content.
//!
//! A session parses only the key that its client chose, and only to sign with it: most of the cost of parsing
//! is in the private half.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lh_crypto::{CryptoError, Hash, KeyFileError, PrivateKey, PublicKey};
use lh_wire::{Reader, WireError, Writer};
use zeroize::Zeroizing;

use crate::host_key_agent;

/// Largest key file that is read, bytes. Private keys have a few kilobytes; a larger file is a mistake.
const LARGEST_FILE: u64 = 64 * 1024;

/// Why a host key cannot be used from an agent. `Display` is the line to print.
#[derive(Debug, thiserror::Error)]
pub enum AgentKeyError {
    /// Neither the file nor the one with `.pub` appended has a public key.
    #[error("Unable to load host key: {}", .0.display())]
    NoPublicKey(PathBuf),
    /// The agent does not answer.
    #[error("Could not connect to agent \"{}\": {problem}", socket.display())]
    Agent {
        /// The agent's socket.
        socket: PathBuf,
        /// The error of the socket.
        problem: io::Error,
    },
    /// The agent does not hold this file's key.
    #[error("The agent does not hold host key {}", .0.display())]
    NotHeld(PathBuf),
}

/// Why a certificate of a host key cannot be used. `Display` is the line to print.
#[derive(Debug, thiserror::Error)]
pub enum HostCertificateError {
    /// The file cannot be read.
    #[error("Could not load host certificate \"{}\": {}", path.display(), lh_sys::errno_text(.error))]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of reading.
        error: io::Error,
    },
    /// The file holds no public key.
    #[error("Could not load host certificate \"{}\": invalid format", .0.display())]
    Format(PathBuf),
    /// The file holds a key without a certificate.
    #[error("Certificate file is not a certificate: {}", .0.display())]
    NoCertificate(PathBuf),
    /// The certificate is for none of the host keys.
    #[error("No matching private key for certificate: {}", .0.display())]
    NoKey(PathBuf),
}

/// Why a host key file cannot be used. `Display` is what sshd prints, line by line.
#[derive(Debug, thiserror::Error)]
pub enum HostKeyError {
    /// The file cannot be read.
    #[error("Unable to load host key \"{path}\": {}", lh_sys::errno_text(.error))]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of reading.
        error: io::Error,
    },
    /// The file is readable or writable by group or others.
    #[error(
        "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n\
         @         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\n\
         @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n\
         Permissions 0{mode:03o} for '{path}' are too open.\n\
         It is required that your private key files are NOT accessible by others.\n\
         This private key will be ignored.\n\
         Unable to load host key \"{path}\": bad permissions"
    )]
    Permissions {
        /// The file.
        path: PathBuf,
        /// The file's permission bits.
        mode: u32,
    },
    /// The file holds no private key, or an encrypted one.
    #[error("Unable to load host key \"{path}\": {error}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The error of parsing.
        error: KeyFileError,
    },
}

/// A host key: a key pair, or a certificate with the private half of the certified key.
pub struct HostKey {
    public: PublicKey,
    file: Zeroizing<Vec<u8>>,
    private: Option<PrivateKey>,
    /// Socket of the agent that holds the private half; `None` for a key from a file.
    agent: Option<PathBuf>,
}

impl std::fmt::Debug for HostKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostKey").field("type", &self.public.key_type()).finish_non_exhaustive()
    }
}

impl HostKey {
    /// Loads a host key file and checks its permissions.
    pub fn load(path: &Path) -> Result<Self, HostKeyError> {
        let failed = |error| HostKeyError::Read { path: path.to_owned(), error };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        let mode = metadata.mode() & 0o777;
        // As in OpenSSH: permissions are checked only for files of the user that this server runs as.
        if metadata.uid() == rustix::process::getuid().as_raw() && mode & 0o077 != 0 {
            return Err(HostKeyError::Permissions { path: path.to_owned(), mode });
        }
        if metadata.len() > LARGEST_FILE {
            let error = KeyFileError::InvalidFormat;
            return Err(HostKeyError::Parse { path: path.to_owned(), error });
        }
        let file = Zeroizing::new(std::fs::read(path).map_err(failed)?);
        Self::from_file_content(file).map_err(|error| HostKeyError::Parse { path: path.to_owned(), error })
    }

    fn from_file_content(file: Zeroizing<Vec<u8>>) -> Result<Self, KeyFileError> {
        let (private, _comment) = PrivateKey::parse(&file, None)?;
        let public = private.public().clone();
        Ok(Self { public, file, private: Some(private), agent: None })
    }

    /// Finds a key in an agent (`HostKeyAgent`). The public half is read from the file, or from the file with
    /// `.pub` appended.
    ///
    /// # Errors
    /// There is no public key, no agent, or the agent does not hold the key.
    pub fn in_agent(path: &Path, agent: &str) -> Result<Self, AgentKeyError> {
        let socket = match agent {
            host_key_agent::VARIABLE => std::env::var_os(agent).unwrap_or_default().into(),
            path => PathBuf::from(path),
        };
        let mut beside = path.as_os_str().to_owned();
        beside.push(".pub");
        let public = [path, Path::new(&beside)]
            .into_iter()
            .filter_map(|path| std::fs::read_to_string(path).ok())
            .find_map(|text| PublicKey::from_openssh_line(text.lines().next().unwrap_or_default()))
            .map(|(public, _comment)| public)
            .ok_or_else(|| AgentKeyError::NoPublicKey(path.to_owned()))?;
        let keys = host_key_agent::keys(&socket)
            .map_err(|problem| AgentKeyError::Agent { socket: socket.clone(), problem })?;
        if !keys.contains(&public) {
            return Err(AgentKeyError::NotHeld(path.to_owned()));
        }
        Ok(Self { public, file: Zeroizing::default(), private: None, agent: Some(socket) })
    }

    /// Returns one of `keys` with the certificate in the file (`HostCertificate`).
    ///
    /// # Errors
    /// The file holds no certificate, or one for none of `keys`.
    pub fn certified(keys: &[Self], path: &Path) -> Result<Self, HostCertificateError> {
        let read = || {
            if std::fs::metadata(path)?.len() > LARGEST_FILE {
                return Err(io::Error::other("file too large"));
            }
            std::fs::read_to_string(path)
        };
        let text = read().map_err(|error| HostCertificateError::Read { path: path.to_owned(), error })?;
        let (public, _comment) = PublicKey::from_openssh_line(text.lines().next().unwrap_or_default())
            .ok_or_else(|| HostCertificateError::Format(path.to_owned()))?;
        if public.certificate().is_none() {
            return Err(HostCertificateError::NoCertificate(path.to_owned()));
        }
        let key = keys
            .iter()
            .find(|key| key.public.certificate().is_none() && key.public == *public.plain())
            .ok_or_else(|| HostCertificateError::NoKey(path.to_owned()))?;
        Ok(Self { public, file: key.file.clone(), private: None, agent: key.agent.clone() })
    }

    /// Returns the public half.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// SHA-256 of the public half, by which listeners and monitors of one server recognise it.
    pub(crate) fn mark(&self) -> Vec<u8> {
        Hash::Sha256.digest(&[self.public.blob()]).as_ref().to_vec()
    }

    /// Returns the transport's description of the key, with SHA-1 signatures only when `sha1`.
    pub fn for_transport(&self, sha1: bool) -> lh_transport::HostKey {
        for_transport(&self.public, sha1)
    }

    /// Signs `data`; parses the private half first if it has not been parsed.
    pub fn sign(&mut self, algorithm: &str, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        if let Some(socket) = &self.agent {
            return host_key_agent::sign(socket, &self.public, algorithm, data);
        }
        if self.private.is_none() {
            let (private, _comment) = PrivateKey::parse(&self.file, None)
                .map_err(|_| CryptoError::Unsupported { what: "this host key" })?;
            self.private = Some(private);
        }
        match &self.private {
            Some(private) => private.sign(algorithm, data),
            None => Err(CryptoError::Unsupported { what: "this host key" }),
        }
    }

    /// Appends the key, private half included, to a hand-over.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.put_string(self.public.blob());
        out.put_string(&self.file);
        let agent = self.agent.as_ref().map(|path| path.as_os_str().as_bytes());
        out.put_string(agent.unwrap_or_default());
    }

    /// Reads what [`write_to`](Self::write_to) wrote. The private half is parsed by the first signature.
    pub fn read_from(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let public = PublicKey::from_blob(reader.string()?)?;
        let file = Zeroizing::new(reader.string()?.to_vec());
        let agent = OsStr::from_bytes(reader.string()?);
        let agent = (!agent.is_empty()).then(|| agent.into());
        Ok(Self { public, file, private: None, agent })
    }
}

/// Returns the transport's description of a key, with SHA-1 signatures only when `sha1`.
pub(crate) fn for_transport(public: &PublicKey, sha1: bool) -> lh_transport::HostKey {
    let algorithms = public.signature_algorithms().iter().filter(|name| sha1 || !name.starts_with("ssh-rsa"));
    let algorithms = algorithms.map(|name| (*name).to_owned()).collect();
    lh_transport::HostKey { algorithms, blob: public.blob().to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::KeyType;
    use std::os::unix::fs::PermissionsExt;

    fn key_file(directory: &Path, name: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        let key = PrivateKey::generate(KeyType::Ed25519, None).unwrap();
        std::fs::write(&path, key.to_openssh("host", None).unwrap().as_bytes()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_key_signs_on_both_ends_of_the_hand_over() {
        let directory = tempfile::tempdir().unwrap();
        let key = HostKey::load(&key_file(directory.path(), "key", 0o600)).unwrap();
        let mut bytes = Vec::new();
        key.write_to(&mut bytes);
        let mut reader = Reader::new(&bytes);
        let mut copy = HostKey::read_from(&mut reader).unwrap();
        reader.finish().unwrap();
        let signature = copy.sign("ssh-ed25519", b"data").unwrap();
        key.public().verify("ssh-ed25519", b"data", &signature).unwrap();
        assert_eq!(key.for_transport(false).algorithms, ["ssh-ed25519"]);
        assert!(!format!("{key:?}").contains("file"));
    }

    #[test]
    fn certificates_need_their_key() {
        let directory = tempfile::tempdir().unwrap();
        let file = key_file(directory.path(), "key", 0o600);
        let keys = [HostKey::load(&file).unwrap()];
        let public = directory.path().join("key.pub");
        std::fs::write(&public, keys[0].public().to_openssh_line("x")).unwrap();
        let text = HostKey::certified(&keys, &public).unwrap_err().to_string();
        assert_eq!(text, format!("Certificate file is not a certificate: {}", public.display()));
        let missing = directory.path().join("none");
        let text = HostKey::certified(&keys, &missing).unwrap_err().to_string();
        let expected =
            format!("Could not load host certificate \"{}\": No such file or directory", missing.display());
        assert_eq!(text, expected);
        std::fs::write(&missing, "no key").unwrap();
        let text = HostKey::certified(&keys, &missing).unwrap_err().to_string();
        assert_eq!(
            text,
            format!("Could not load host certificate \"{}\": invalid format", missing.display())
        );
    }

    #[test]
    fn keys_in_agents_need_a_public_half_and_an_agent() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        let agent = directory.path().join("no-agent");
        let refused = || HostKey::in_agent(&file, agent.to_str().unwrap()).unwrap_err().to_string();
        assert_eq!(refused(), format!("Unable to load host key: {}", file.display()));
        let public = PrivateKey::generate(lh_crypto::KeyType::Ed25519, None).unwrap();
        std::fs::write(directory.path().join("key.pub"), public.public().to_openssh_line("")).unwrap();
        let expected = format!("Could not connect to agent \"{}\": ", agent.display());
        assert!(refused().starts_with(&expected), "{}", refused());
    }

    #[test]
    fn unusable_files_are_told_apart_in_openssh_s_words() {
        let directory = tempfile::tempdir().unwrap();
        let open = key_file(directory.path(), "open", 0o644);
        let text = HostKey::load(&open).unwrap_err().to_string();
        assert!(text.contains("WARNING: UNPROTECTED PRIVATE KEY FILE!"), "{text}");
        assert!(text.contains(&format!("Permissions 0644 for '{}' are too open.", open.display())), "{text}");
        let missing = directory.path().join("missing");
        let text = HostKey::load(&missing).unwrap_err().to_string();
        let expected =
            format!("Unable to load host key \"{}\": No such file or directory", missing.display());
        assert_eq!(text, expected);
        let junk = directory.path().join("junk");
        std::fs::write(&junk, "junk").unwrap();
        std::fs::set_permissions(&junk, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(HostKey::load(&junk), Err(HostKeyError::Parse { .. })));
    }
}
