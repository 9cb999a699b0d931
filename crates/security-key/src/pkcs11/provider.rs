//! Client of the PKCS#11 helper.

use std::io;
use std::process::{Child, ChildStdin, ChildStdout};

use lh_crypto::{Hash, PublicKey, key_algorithms};

use super::TokenError;
use super::messages::{Reply, Request, TokenKey, VERSION};
use crate::messages::Secret;
use crate::program;

/// Name of the helper program.
const HELPER: &str = "lhssh-pkcs11-helper";

/// Asks the user for the PIN of the token with this label; `None` when none can be obtained.
pub type Pin<'a> = &'a mut dyn FnMut(&str) -> Secret;

/// A library that a helper has loaded. The helper ends when this is dropped.
pub struct Provider {
    path: String,
    /// `None` once the helper is being ended.
    child: Option<Child>,
    to: Option<ChildStdin>,
    from: ChildStdout,
}

impl Provider {
    /// Starts a helper for the library at `library` and lists the keys of its tokens. With a PIN it logs in
    /// to those that require it; without one, `ask` is called only if a token shows no keys before a login.
    ///
    /// # Errors
    /// See [`TokenError`]; [`TokenError::NoKeys`] where the list is empty.
    pub fn open(library: &str, pin: Secret, ask: Pin<'_>) -> Result<(Self, Vec<TokenKey>), TokenError> {
        let path = program::find(HELPER, "SSH_PKCS11_HELPER");
        let failed = |source| TokenError::Helper { path: path.display().to_string(), source };
        let mut child = program::start(&path).map_err(failed)?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let from = from.ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        let mut provider = Self { path: path.display().to_string(), child: Some(child), to, from };
        let request = |pin| Request::Open { provider: library.to_owned(), pin };
        let reply = provider.ask_with_pin(pin, &request, ask)?;
        match reply {
            Reply::Keys(keys) if keys.is_empty() => Err(TokenError::NoKeys),
            Reply::Keys(keys) => Ok((provider, keys)),
            Reply::Failed(why) => Err(TokenError::Token(why)),
            Reply::Signature(_) | Reply::PinWanted(_) => Err(TokenError::Invalid),
        }
    }

    /// Signs `data` with the key of this blob; `algorithm` may be a certificate's name for it. Asks for the
    /// PIN where the token wants one.
    ///
    /// # Errors
    /// See [`TokenError`]. The call blocks as long as the token does.
    pub fn sign(
        &mut self,
        key: &[u8],
        algorithm: &str,
        data: &[u8],
        ask: Pin<'_>,
    ) -> Result<Vec<u8>, TokenError> {
        let algorithm = key_algorithms::plain(algorithm);
        let digest = hash(&algorithm).map_or_else(Vec::new, |hash| hash.digest(&[data]).as_ref().to_vec());
        let request = |pin| Request::Sign {
            key: key.to_vec(),
            algorithm: algorithm.to_string(),
            data: data.to_vec(),
            digest: digest.clone(),
            pin,
        };
        match self.ask_with_pin(None, &request, ask)? {
            Reply::Signature(blob) => verified(key, &algorithm, data, blob),
            Reply::Failed(why) => Err(TokenError::Token(why)),
            Reply::Keys(_) | Reply::PinWanted(_) => Err(TokenError::Invalid),
        }
    }

    /// Sends a request, and once more with a PIN if the token wants one. Only once: each wrong PIN brings the
    /// token closer to locking itself.
    fn ask_with_pin(
        &mut self,
        pin: Secret,
        request: &dyn Fn(Secret) -> Request,
        ask: Pin<'_>,
    ) -> Result<Reply, TokenError> {
        match self.converse(&request(pin))? {
            Reply::PinWanted(label) => {
                let pin = ask(&label).filter(|pin| !pin.is_empty()).ok_or(TokenError::NoPin)?;
                self.converse(&request(Some(pin)))
            }
            reply => Ok(reply),
        }
    }

    fn converse(&mut self, request: &Request) -> Result<Reply, TokenError> {
        let to = self.to.as_mut().ok_or(TokenError::Died)?;
        let result = program::send(to, VERSION, &request.encode())
            .and_then(|()| program::receive(&mut self.from, VERSION));
        match result {
            Ok(Some(body)) => Reply::parse(&body).map_err(|_| TokenError::Invalid),
            Ok(None) => Err(TokenError::Died),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(TokenError::Died),
            Err(source) => Err(TokenError::Helper { path: self.path.clone(), source }),
        }
    }
}

/// Returns the hash of a signature algorithm; `None` for those that sign the data themselves.
fn hash(algorithm: &str) -> Option<Hash> {
    Some(match algorithm {
        "ssh-rsa" => Hash::Sha1,
        "rsa-sha2-256" | "ecdsa-sha2-nistp256" => Hash::Sha256,
        "ecdsa-sha2-nistp384" => Hash::Sha384,
        "rsa-sha2-512" | "ecdsa-sha2-nistp521" => Hash::Sha512,
        _ => return None,
    })
}

/// Returns the signature if it is valid for `data` and this key. Otherwise the token has signed something
/// else, or with another key of the same id.
fn verified(key: &[u8], algorithm: &str, data: &[u8], signature: Vec<u8>) -> Result<Vec<u8>, TokenError> {
    match PublicKey::from_blob(key).map(|key| key.verify(algorithm, data, &signature)) {
        Ok(Ok(())) => Ok(signature),
        _ => Err(TokenError::InvalidSignature),
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // The helper ends at the end of its input. A library that hangs must not block its user, so a thread
        // waits for the helper. If no thread can be started, the child stays a zombie until this process
        // ends.
        self.to = None;
        if let Some(mut child) = self.child.take() {
            let _ = std::thread::Builder::new().name("reap".to_owned()).spawn(move || child.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_crypto::{KeyType, PrivateKey};

    #[test]
    fn digests_are_those_of_the_algorithms() {
        for (name, length) in [
            ("ssh-rsa", 20),
            ("rsa-sha2-256", 32),
            ("rsa-sha2-512", 64),
            ("ecdsa-sha2-nistp256", 32),
            ("ecdsa-sha2-nistp384", 48),
            ("ecdsa-sha2-nistp521", 64),
        ] {
            let digest = hash(name).map(|hash| hash.digest(&[b"data"]).as_ref().len());
            assert_eq!(digest, Some(length), "{name}");
        }
        assert!(hash("ssh-ed25519").is_none());
    }

    #[test]
    fn signatures_of_other_keys_and_data_are_refused() {
        let make = || PrivateKey::generate(KeyType::Ed25519, None).expect("a key");
        let (key, other) = (make(), make());
        let signature = key.sign("ssh-ed25519", b"data").expect("signs");
        let check = |key: &PrivateKey, data: &[u8]| {
            verified(key.public().blob(), "ssh-ed25519", data, signature.clone())
        };
        assert_eq!(check(&key, b"data").ok(), Some(signature.clone()));
        assert!(matches!(check(&key, b"other"), Err(TokenError::InvalidSignature)));
        assert!(matches!(check(&other, b"data"), Err(TokenError::InvalidSignature)));
        assert!(verified(b"no key", "ssh-ed25519", b"data", signature.clone()).is_err());
    }
}
