//! The client's end of a context.
#![expect(unsafe_code, reason = "libgssapi_krb5 and libkrb5 are C libraries")]

use std::ptr::{null, null_mut};

use super::handles::{Context, Filled, OwnName, kerberos, lend};
use super::interface::*;
use crate::gssapi::{GssError, Step};

/// The client's end of a context.
pub struct Initiator {
    api: &'static Api,
    target: OwnName,
    context: Context,
    flags: u32,
}

impl std::fmt::Debug for Initiator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Initiator").finish_non_exhaustive()
    }
}

impl Initiator {
    /// A context with the service `host` of a host, using the user's default credentials. With `delegate`,
    /// the host gets them too, where they may be forwarded.
    ///
    /// # Errors
    /// The library is missing, or the host name is not valid.
    pub fn new(host: &str, delegate: bool) -> Result<Self, GssError> {
        let api = Api::load()?;
        let delegation = if delegate { GSS_C_DELEG_FLAG } else { 0 };
        let flags = GSS_C_MUTUAL_FLAG | GSS_C_INTEG_FLAG | delegation;
        Ok(Self { api, target: OwnName::of_host(api, host)?, context: Context::none(api), flags })
    }

    /// Continues with a token from the server; with an empty one at first. Contacts the key distribution
    /// centre, which may take seconds.
    ///
    /// # Errors
    /// No credentials, unknown host, or a token that is not valid.
    pub fn step(&mut self, token: &[u8]) -> Result<Step, GssError> {
        let mut output = Filled::empty(self.api);
        let mut minor = 0;
        // SAFETY: the handles are ours, null or live. Every other pointer is null where that is allowed (no
        // channel bindings, unused results) or refers to a live value, and the library keeps none of them.
        let major = unsafe {
            (self.api.gss_init_sec_context)(
                &mut minor,
                null_mut(),
                &mut self.context.handle,
                self.target.handle,
                &kerberos(),
                self.flags,
                0,
                null(),
                &lend(token),
                null_mut(),
                &mut output.buffer,
                null_mut(),
                null_mut(),
            )
        };
        self.api.stepped(major, minor, &output)
    }

    /// A checksum over `data` that only the two ends of the context can compute.
    ///
    /// # Errors
    /// The context is not established yet, or has expired.
    pub fn mic(&self, data: &[u8]) -> Result<Vec<u8>, GssError> {
        let mut minor = 0;
        if self.context.handle.is_null() {
            return Err(GssError::new("no context"));
        }
        let mut mic = Filled::empty(self.api);
        // SAFETY: the context is live; the buffers live during the call.
        let major = unsafe {
            (self.api.gss_get_mic)(&mut minor, self.context.handle, 0, &lend(data), &mut mic.buffer)
        };
        self.api.check(major, minor).map(|()| mic.bytes().to_vec())
    }
}
