//! Values that the library allocates, each released once, and the texts of its errors.
#![expect(unsafe_code, reason = "libgssapi_krb5 and libkrb5 are C libraries")]

use std::ptr::null_mut;

use zeroize::Zeroize as _;

use super::interface::*;
use crate::gssapi::{GssError, KERBEROS, Step};

/// Upper limit of texts for one status; the library has one or two.
const MOST_TEXTS: usize = 8;

/// The library's form of [`KERBEROS`], with a static lifetime.
pub(super) fn kerberos() -> Oid {
    static CONTENTS: &[u8] = KERBEROS.split_at(2).1;
    Oid { length: CONTENTS.len() as u32, elements: CONTENTS.as_ptr() }
}

/// A buffer for bytes of ours that the library reads; valid as long as they are.
pub(super) fn lend(bytes: &[u8]) -> Buffer {
    Buffer { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
}

/// A buffer that the library fills, wiped and released on drop.
pub(super) struct Filled {
    api: &'static Api,
    pub(super) buffer: Buffer,
}

impl Filled {
    pub(super) const fn empty(api: &'static Api) -> Self {
        Self { api, buffer: Buffer { length: 0, value: null_mut() } }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        if self.buffer.value.is_null() {
            return &[];
        }
        // SAFETY: the library has written that many bytes there, and they stay valid until the buffer is
        // released.
        unsafe { std::slice::from_raw_parts(self.buffer.value.cast::<u8>(), self.buffer.length) }
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        if self.buffer.value.is_null() {
            return;
        }
        // SAFETY: as in `bytes`; no other reference exists, and the library releases its own allocation.
        unsafe {
            std::slice::from_raw_parts_mut(self.buffer.value.cast::<u8>(), self.buffer.length).zeroize();
            (self.api.gss_release_buffer)(&mut 0, &mut self.buffer);
        }
    }
}

/// An owned name, or null.
pub(super) struct OwnName {
    api: &'static Api,
    pub(super) handle: Name,
}

impl OwnName {
    /// Creates an empty value: no name yet, or the default.
    pub(super) const fn none(api: &'static Api) -> Self {
        Self { api, handle: null_mut() }
    }

    /// The name `host@NAME`.
    pub(super) fn of_host(api: &'static Api, host: &str) -> Result<Self, GssError> {
        let text = format!("host@{host}");
        let kind = Oid { length: HOST_BASED_SERVICE.len() as u32, elements: HOST_BASED_SERVICE.as_ptr() };
        let (mut minor, mut name) = (0, null_mut());
        // SAFETY: all pointers refer to live values, which the library copies.
        let major = unsafe { (api.gss_import_name)(&mut minor, &lend(text.as_bytes()), &kind, &mut name) };
        api.check(major, minor).map(|()| Self { api, handle: name })
    }
}

impl Drop for OwnName {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the name is ours and not used again.
            unsafe { (self.api.gss_release_name)(&mut 0, &mut self.handle) };
        }
    }
}

/// An owned credential, or null, which stands for the default.
pub(super) struct OwnCredential {
    api: &'static Api,
    pub(super) handle: Credential,
}

impl OwnCredential {
    /// Creates an empty value: no credential yet, or the default.
    pub(super) const fn none(api: &'static Api) -> Self {
        Self { api, handle: null_mut() }
    }
}

impl Drop for OwnCredential {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the credential is ours and not used again.
            unsafe { (self.api.gss_release_cred)(&mut 0, &mut self.handle) };
        }
    }
}

/// A context, or null before its first step.
pub(super) struct Context {
    api: &'static Api,
    pub(super) handle: ContextHandle,
}

impl Context {
    /// Creates an empty value: no context yet.
    pub(super) const fn none(api: &'static Api) -> Self {
        Self { api, handle: null_mut() }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the context is ours and not used again; no token for the peer is requested.
            unsafe { (self.api.gss_delete_sec_context)(&mut 0, &mut self.handle, null_mut()) };
        }
    }
}

impl Api {
    /// Turns a status into an error with the library's text.
    pub(super) fn check(&'static self, major: u32, minor: u32) -> Result<(), GssError> {
        if major & ERRORS == 0 { Ok(()) } else { Err(GssError::new(self.words(major, minor))) }
    }

    /// Text of a status from the library.
    fn words(&'static self, major: u32, minor: u32) -> String {
        let mut texts = Vec::new();
        for (status, kind) in [(major, GSS_C_GSS_CODE), (minor, GSS_C_MECH_CODE)] {
            let mut more = 0;
            while texts.len() < MOST_TEXTS {
                let mut text = Filled::empty(self);
                let mechanism = kerberos();
                // SAFETY: all pointers refer to live values.
                let failed = unsafe {
                    (self.gss_display_status)(&mut 0, status, kind, &mechanism, &mut more, &mut text.buffer)
                };
                if failed & ERRORS != 0 {
                    break;
                }
                texts.push(String::from_utf8_lossy(text.bytes()).trim().to_owned());
                if more == 0 {
                    break;
                }
            }
        }
        texts.retain(|text| !text.is_empty());
        texts.join(": ")
    }

    /// Result of `gss_init_sec_context` or `gss_accept_sec_context`.
    pub(super) fn stepped(&'static self, major: u32, minor: u32, output: &Filled) -> Result<Step, GssError> {
        let token = output.bytes().to_vec();
        if major & ERRORS != 0 {
            return Err(GssError { text: self.words(major, minor), token });
        }
        Ok(Step { token, complete: major & CONTINUE_NEEDED == 0 })
    }
}
