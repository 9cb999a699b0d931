//! The server's end of a context, and its information about the client.
#![expect(unsafe_code, reason = "libgssapi_krb5 and libkrb5 are C libraries")]

use std::ptr::{null, null_mut};

use zeroize::Zeroizing;

use super::handles::{Context, Filled, OwnCredential, OwnName, kerberos, lend};
use super::interface::*;
use crate::gssapi::{GssError, Step};

/// The server's end of a context.
pub struct Acceptor {
    api: &'static Api,
    credential: OwnCredential,
    context: Context,
    source: OwnName,
    delegated: OwnCredential,
    complete: bool,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").field("complete", &self.complete).finish_non_exhaustive()
    }
}

impl Acceptor {
    /// An acceptor for a client's context. `host` is the name of this host that clients must use; `None`
    /// accepts any name with a key in the key table.
    ///
    /// # Errors
    /// The library is missing, or there is no key table, or it has no suitable key.
    pub fn new(host: Option<&str>) -> Result<Self, GssError> {
        let api = Api::load()?;
        let name = host.map_or(Ok(OwnName::none(api)), |host| OwnName::of_host(api, host))?;
        let mechanism = kerberos();
        let mechanisms = OidSet { count: 1, elements: &mechanism };
        let (mut minor, mut credential) = (0, OwnCredential::none(api));
        // SAFETY: the name is live or null, which stands for the default; the set lives during the call;
        // unused results are null.
        let major = unsafe {
            (api.gss_acquire_cred)(
                &mut minor,
                name.handle,
                0,
                &mechanisms,
                GSS_C_ACCEPT,
                &mut credential.handle,
                null_mut(),
                null_mut(),
            )
        };
        api.check(major, minor)?;
        Ok(Self {
            api,
            credential,
            context: Context::none(api),
            source: OwnName::none(api),
            delegated: OwnCredential::none(api),
            complete: false,
        })
    }

    /// Continues with a token from the client.
    ///
    /// # Errors
    /// The token is not valid, or the context is complete already.
    pub fn step(&mut self, token: &[u8]) -> Result<Step, GssError> {
        if self.complete {
            return Err(GssError::new("the context is complete"));
        }
        // An earlier step has left no value in these, but RFC 2744 does not guarantee it.
        self.source = OwnName::none(self.api);
        self.delegated = OwnCredential::none(self.api);
        let mut output = Filled::empty(self.api);
        let mut minor = 0;
        // SAFETY: the handles are ours, null or live. Every other pointer is null where that is allowed (no
        // channel bindings, unused results) or refers to a live value, and the library keeps none of them.
        let major = unsafe {
            (self.api.gss_accept_sec_context)(
                &mut minor,
                &mut self.context.handle,
                self.credential.handle,
                &lend(token),
                null(),
                &mut self.source.handle,
                null_mut(),
                &mut output.buffer,
                null_mut(),
                null_mut(),
                &mut self.delegated.handle,
            )
        };
        let step = self.api.stepped(major, minor, &output)?;
        self.complete = step.complete;
        Ok(step)
    }

    /// True when `mic` is the client's checksum over `data`.
    pub fn is_mic(&self, data: &[u8], mic: &[u8]) -> bool {
        if !self.complete || self.context.handle.is_null() {
            return false;
        }
        // SAFETY: the context is live; the buffers live during the call.
        let major = unsafe {
            (self.api.gss_verify_mic)(&mut 0, self.context.handle, &lend(data), &lend(mic), null_mut())
        };
        major == 0
    }

    /// Principal of the client: `name@REALM`.
    ///
    /// # Errors
    /// The context is not established, or the name is not UTF-8.
    pub fn principal(&self) -> Result<String, GssError> {
        if !self.complete || self.source.handle.is_null() {
            return Err(GssError::new("no context"));
        }
        let mut text = Filled::empty(self.api);
        let mut minor = 0;
        // SAFETY: the name is live; the kind of name is not requested.
        let major = unsafe {
            (self.api.gss_display_name)(&mut minor, self.source.handle, &mut text.buffer, null_mut())
        };
        self.api.check(major, minor)?;
        let text = std::str::from_utf8(text.bytes()).map_err(|_| GssError::new("principal is not UTF-8"))?;
        Ok(text.to_owned())
    }

    /// Returns the credentials that the client has delegated, serialized for [`store`](crate::gssapi::store)
    /// in another process. `None`: it has delegated none.
    ///
    /// # Errors
    /// They cannot be serialized.
    pub fn delegated(&self) -> Result<Option<Zeroizing<Vec<u8>>>, GssError> {
        if !self.complete || self.delegated.handle.is_null() {
            return Ok(None);
        }
        let mut token = Filled::empty(self.api);
        let mut minor = 0;
        // SAFETY: the credential is live.
        let major =
            unsafe { (self.api.gss_export_cred)(&mut minor, self.delegated.handle, &mut token.buffer) };
        self.api.check(major, minor)?;
        Ok(Some(Zeroizing::new(token.bytes().to_vec())))
    }
}
