//! A loaded library and its tokens.

use std::path::Path;

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::Error;
use lh_cli::helper::say;
use lh_security_key::pkcs11::TokenKey;
use lh_security_key::pkcs11::messages::{MAX_KEYS, Reply};

use crate::error::TokenError;
use crate::sign::Signed;
use crate::token::{Login, Token};

/// A library, initialised.
pub(crate) struct Library {
    /// Before `context`: sessions are closed before the library is released.
    tokens: Vec<Token>,
    _context: Pkcs11,
}

impl Library {
    /// Loads the library and opens a session with each of its tokens.
    ///
    /// # Errors
    /// The library cannot be used, or has no token.
    pub(crate) fn load(provider: &str) -> Result<Self, TokenError> {
        // A bare name would be searched for in the system's library directories.
        let path = Path::new(provider);
        if !path.is_absolute() && !provider.contains('/') {
            return Err(TokenError::NotAPath(provider.to_owned()));
        }
        let failed = |source: Error| TokenError::Library { provider: provider.to_owned(), source };
        let context = Pkcs11::new(path).map_err(|error| match error {
            Error::LibraryLoading(why) => {
                TokenError::Load { provider: provider.to_owned(), why: why.to_string() }
            }
            error => failed(error),
        })?;
        context.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).map_err(failed)?;
        let mut tokens = Vec::new();
        for slot in context.get_slots_with_initialized_token().map_err(failed)? {
            match Token::open(&context, slot) {
                Ok(token) => tokens.push(token),
                // Other tokens of the library may work.
                Err(error) => say(&format!("provider {provider} slot {slot}: {error}")),
            }
        }
        if tokens.is_empty() {
            return Err(TokenError::NoSlots(provider.to_owned()));
        }
        Ok(Self { tokens, _context: context })
    }

    /// Logs in with the PIN, if there is one, and lists the keys.
    ///
    /// # Errors
    /// Every token with keys refuses the PIN.
    pub(crate) fn open(&mut self, pin: Option<&str>) -> Result<Reply, TokenError> {
        let mut refused = None;
        for token in &mut self.tokens {
            let refusal = match pin {
                Some(pin) => token.log_in(Some(pin)).err(),
                None => None,
            };
            match refusal {
                // Its keys could not sign.
                Some(why) => {
                    token.forget();
                    refused = Some(why);
                }
                None => token.list(),
            }
        }
        let mut found = self.keys();
        if found.is_empty() && pin.is_none() {
            // Some tokens show their keys only after a login.
            for token in &mut self.tokens {
                match token.login() {
                    Login::Needed => return Ok(Reply::PinWanted(token.label().to_owned())),
                    Login::OnTheReader => {
                        token.log_in(None)?;
                        token.list();
                    }
                    Login::Done => {}
                }
            }
            found = self.keys();
        }
        match refused {
            Some(why) if found.is_empty() => Err(why),
            _ => Ok(Reply::Keys(found)),
        }
    }

    fn keys(&self) -> Vec<TokenKey> {
        let mut found: Vec<TokenKey> = Vec::new();
        for key in self.tokens.iter().flat_map(Token::keys) {
            if found.len() < MAX_KEYS && found.iter().all(|known| known.blob != key.public.blob()) {
                found.push(TokenKey { blob: key.public.blob().to_vec(), label: key.label.clone() });
            }
        }
        found
    }

    /// Signs with the key of this blob.
    ///
    /// # Errors
    /// No token has the key, or its token refuses the login or the signature.
    pub(crate) fn sign(
        &mut self,
        blob: &[u8],
        algorithm: &str,
        signed: &Signed<'_>,
        pin: Option<&str>,
    ) -> Result<Reply, TokenError> {
        let holds = |token: &Token| token.keys().any(|key| key.public.blob() == blob);
        let token = self.tokens.iter_mut().find(|token| holds(token)).ok_or(TokenError::NoToken)?;
        match token.login() {
            Login::Needed if pin.is_none() => return Ok(Reply::PinWanted(token.label().to_owned())),
            Login::Needed => token.log_in(pin)?,
            Login::OnTheReader => token.log_in(None)?,
            Login::Done => {}
        }
        token.sign(blob, algorithm, signed, pin)
    }
}
