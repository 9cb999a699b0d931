//! Bindings to MIT's library, whose interface is RFC 2744's with a few additional functions.
#![expect(unsafe_code, reason = "libgssapi_krb5 and libkrb5 are C libraries")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use zeroize::{Zeroize, Zeroizing};

use super::{GssError, KERBEROS, Step};

/// `GSS_S_CONTINUE_NEEDED`: another token is needed.
const CONTINUE_NEEDED: u32 = 1;
/// Bits of a status that indicate errors.
const ERRORS: u32 = 0xffff_0000;
const GSS_C_INITIATE: c_int = 1;
const GSS_C_ACCEPT: c_int = 2;
const GSS_C_DELEG_FLAG: u32 = 1;
const GSS_C_MUTUAL_FLAG: u32 = 2;
const GSS_C_INTEG_FLAG: u32 = 32;
const GSS_C_GSS_CODE: c_int = 1;
const GSS_C_MECH_CODE: c_int = 2;

/// The contents of `GSS_C_NT_HOSTBASED_SERVICE` (1.2.840.113554.1.2.1.4): `service@host`.
const HOST_BASED_SERVICE: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x01, 0x04];

/// Upper limit of texts for one status; the library has one or two.
const MOST_TEXTS: usize = 8;

type Name = *mut c_void;
type Credential = *mut c_void;
type ContextHandle = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy)]
struct Oid {
    length: u32,
    elements: *const u8,
}

#[repr(C)]
struct OidSet {
    count: usize,
    elements: *const Oid,
}

#[repr(C)]
struct Buffer {
    length: usize,
    value: *mut c_void,
}

#[repr(C)]
struct KeyValue {
    key: *const c_char,
    value: *const c_char,
}

#[repr(C)]
struct KeyValues {
    count: u32,
    elements: *const KeyValue,
}

#[link(name = "gssapi_krb5")]
unsafe extern "C" {
    fn gss_import_name(minor: *mut u32, text: *const Buffer, kind: *const Oid, name: *mut Name) -> u32;
    fn gss_release_name(minor: *mut u32, name: *mut Name) -> u32;
    fn gss_display_name(minor: *mut u32, name: Name, text: *mut Buffer, kind: *mut *const Oid) -> u32;
    fn gss_init_sec_context(
        minor: *mut u32,
        credential: Credential,
        context: *mut ContextHandle,
        target: Name,
        mechanism: *const Oid,
        flags: u32,
        time: u32,
        bindings: *const c_void,
        input: *const Buffer,
        actual: *mut *const Oid,
        output: *mut Buffer,
        flags_given: *mut u32,
        time_given: *mut u32,
    ) -> u32;
    fn gss_accept_sec_context(
        minor: *mut u32,
        context: *mut ContextHandle,
        credential: Credential,
        input: *const Buffer,
        bindings: *const c_void,
        source: *mut Name,
        mechanism: *mut *const Oid,
        output: *mut Buffer,
        flags: *mut u32,
        time: *mut u32,
        delegated: *mut Credential,
    ) -> u32;
    fn gss_delete_sec_context(minor: *mut u32, context: *mut ContextHandle, output: *mut Buffer) -> u32;
    fn gss_acquire_cred(
        minor: *mut u32,
        name: Name,
        time: u32,
        mechanisms: *const OidSet,
        usage: c_int,
        credential: *mut Credential,
        actual: *mut *mut OidSet,
        time_given: *mut u32,
    ) -> u32;
    fn gss_release_cred(minor: *mut u32, credential: *mut Credential) -> u32;
    fn gss_release_buffer(minor: *mut u32, buffer: *mut Buffer) -> u32;
    fn gss_get_mic(
        minor: *mut u32,
        context: ContextHandle,
        quality: u32,
        message: *const Buffer,
        mic: *mut Buffer,
    ) -> u32;
    fn gss_verify_mic(
        minor: *mut u32,
        context: ContextHandle,
        message: *const Buffer,
        mic: *const Buffer,
        quality: *mut u32,
    ) -> u32;
    fn gss_display_status(
        minor: *mut u32,
        status: u32,
        kind: c_int,
        mechanism: *const Oid,
        more: *mut u32,
        text: *mut Buffer,
    ) -> u32;
    fn gss_export_cred(minor: *mut u32, credential: Credential, token: *mut Buffer) -> u32;
    fn gss_import_cred(minor: *mut u32, token: *const Buffer, credential: *mut Credential) -> u32;
    fn gss_store_cred_into(
        minor: *mut u32,
        credential: Credential,
        usage: c_int,
        mechanism: *const Oid,
        overwrite: u32,
        default: u32,
        store: *const KeyValues,
        stored: *mut *mut OidSet,
        usage_stored: *mut c_int,
    ) -> u32;
}

#[link(name = "krb5")]
unsafe extern "C" {
    fn krb5_init_context(context: *mut *mut c_void) -> c_int;
    fn krb5_free_context(context: *mut c_void);
    fn krb5_parse_name(context: *mut c_void, name: *const c_char, principal: *mut *mut c_void) -> c_int;
    fn krb5_free_principal(context: *mut c_void, principal: *mut c_void);
    fn krb5_kuserok(context: *mut c_void, principal: *mut c_void, user: *const c_char) -> c_uint;
}

/// The library's form of [`KERBEROS`], with a static lifetime.
fn kerberos() -> Oid {
    static CONTENTS: &[u8] = KERBEROS.split_at(2).1;
    Oid { length: CONTENTS.len() as u32, elements: CONTENTS.as_ptr() }
}

/// A buffer for bytes of ours that the library reads; valid as long as they are.
fn lend(bytes: &[u8]) -> Buffer {
    Buffer { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
}

/// A buffer that the library fills, wiped and released on drop.
struct Filled(Buffer);

impl Filled {
    const fn empty() -> Self {
        Self(Buffer { length: 0, value: null_mut() })
    }

    fn bytes(&self) -> &[u8] {
        if self.0.value.is_null() {
            return &[];
        }
        // SAFETY: the library has written that many bytes there, and they stay valid until the buffer is
        // released.
        unsafe { std::slice::from_raw_parts(self.0.value.cast::<u8>(), self.0.length) }
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        if self.0.value.is_null() {
            return;
        }
        // SAFETY: as in `bytes`; no other reference exists, and the library releases its own allocation.
        unsafe {
            std::slice::from_raw_parts_mut(self.0.value.cast::<u8>(), self.0.length).zeroize();
            gss_release_buffer(&mut 0, &mut self.0);
        }
    }
}

/// An owned name, or null.
struct OwnName(Name);

impl OwnName {
    /// The name `host@NAME`.
    fn of_host(host: &str) -> Result<Self, GssError> {
        let text = format!("host@{host}");
        let kind = Oid { length: HOST_BASED_SERVICE.len() as u32, elements: HOST_BASED_SERVICE.as_ptr() };
        let (mut minor, mut name) = (0, null_mut());
        // SAFETY: all pointers refer to live values, which the library copies.
        let major = unsafe { gss_import_name(&mut minor, &lend(text.as_bytes()), &kind, &mut name) };
        check(major, minor).map(|()| Self(name))
    }
}

impl Drop for OwnName {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the name is ours and not used again.
            unsafe { gss_release_name(&mut 0, &mut self.0) };
        }
    }
}

/// An owned credential, or null, which stands for the default.
struct OwnCredential(Credential);

impl Drop for OwnCredential {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the credential is ours and not used again.
            unsafe { gss_release_cred(&mut 0, &mut self.0) };
        }
    }
}

/// A context, or null before its first step.
struct Context(ContextHandle);

impl Drop for Context {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the context is ours and not used again; no token for the peer is requested.
            unsafe { gss_delete_sec_context(&mut 0, &mut self.0, null_mut()) };
        }
    }
}

fn check(major: u32, minor: u32) -> Result<(), GssError> {
    if major & ERRORS == 0 { Ok(()) } else { Err(GssError::new(words(major, minor))) }
}

/// Text of a status from the library.
fn words(major: u32, minor: u32) -> String {
    let mut texts = Vec::new();
    for (status, kind) in [(major, GSS_C_GSS_CODE), (minor, GSS_C_MECH_CODE)] {
        let mut more = 0;
        while texts.len() < MOST_TEXTS {
            let mut text = Filled::empty();
            // SAFETY: all pointers refer to live values.
            let failed =
                unsafe { gss_display_status(&mut 0, status, kind, &kerberos(), &mut more, &mut text.0) };
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
fn stepped(major: u32, minor: u32, output: &Filled) -> Result<Step, GssError> {
    let token = output.bytes().to_vec();
    if major & ERRORS != 0 {
        return Err(GssError { text: words(major, minor), token });
    }
    Ok(Step { token, complete: major & CONTINUE_NEEDED == 0 })
}

/// The client's end of a context.
pub struct Initiator {
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
    /// The host name is not valid.
    pub fn new(host: &str, delegate: bool) -> Result<Self, GssError> {
        let delegation = if delegate { GSS_C_DELEG_FLAG } else { 0 };
        let flags = GSS_C_MUTUAL_FLAG | GSS_C_INTEG_FLAG | delegation;
        Ok(Self { target: OwnName::of_host(host)?, context: Context(null_mut()), flags })
    }

    /// Continues with a token from the server; with an empty one at first. Contacts the key distribution
    /// centre, which may take seconds.
    ///
    /// # Errors
    /// No credentials, unknown host, or a token that is not valid.
    pub fn step(&mut self, token: &[u8]) -> Result<Step, GssError> {
        let mut output = Filled::empty();
        let mut minor = 0;
        // SAFETY: the handles are ours, null or live. Every other pointer is null where that is allowed (no
        // channel bindings, unused results) or refers to a live value, and the library keeps none of them.
        let major = unsafe {
            gss_init_sec_context(
                &mut minor,
                null_mut(),
                &mut self.context.0,
                self.target.0,
                &kerberos(),
                self.flags,
                0,
                null(),
                &lend(token),
                null_mut(),
                &mut output.0,
                null_mut(),
                null_mut(),
            )
        };
        stepped(major, minor, &output)
    }

    /// A checksum over `data` that only the two ends of the context can compute.
    ///
    /// # Errors
    /// The context is not established yet, or has expired.
    pub fn mic(&self, data: &[u8]) -> Result<Vec<u8>, GssError> {
        let mut mic = Filled::empty();
        let mut minor = 0;
        if self.context.0.is_null() {
            return Err(GssError::new("no context"));
        }
        // SAFETY: the context is live; the buffers live during the call.
        let major = unsafe { gss_get_mic(&mut minor, self.context.0, 0, &lend(data), &mut mic.0) };
        check(major, minor).map(|()| mic.bytes().to_vec())
    }
}

/// The server's end of a context.
pub struct Acceptor {
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
    /// There is no key table, or it has no suitable key.
    pub fn new(host: Option<&str>) -> Result<Self, GssError> {
        let name = host.map_or(Ok(OwnName(null_mut())), OwnName::of_host)?;
        let mechanism = kerberos();
        let mechanisms = OidSet { count: 1, elements: &mechanism };
        let (mut minor, mut credential) = (0, null_mut());
        // SAFETY: the name is live or null, which stands for the default; the set lives during the call;
        // unused results are null.
        let major = unsafe {
            gss_acquire_cred(
                &mut minor,
                name.0,
                0,
                &mechanisms,
                GSS_C_ACCEPT,
                &mut credential,
                null_mut(),
                null_mut(),
            )
        };
        check(major, minor)?;
        Ok(Self {
            credential: OwnCredential(credential),
            context: Context(null_mut()),
            source: OwnName(null_mut()),
            delegated: OwnCredential(null_mut()),
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
        self.source = OwnName(null_mut());
        self.delegated = OwnCredential(null_mut());
        let mut output = Filled::empty();
        let mut minor = 0;
        // SAFETY: the handles are ours, null or live. Every other pointer is null where that is allowed (no
        // channel bindings, unused results) or refers to a live value, and the library keeps none of them.
        let major = unsafe {
            gss_accept_sec_context(
                &mut minor,
                &mut self.context.0,
                self.credential.0,
                &lend(token),
                null(),
                &mut self.source.0,
                null_mut(),
                &mut output.0,
                null_mut(),
                null_mut(),
                &mut self.delegated.0,
            )
        };
        let step = stepped(major, minor, &output)?;
        self.complete = step.complete;
        Ok(step)
    }

    /// True when `mic` is the client's checksum over `data`.
    pub fn is_mic(&self, data: &[u8], mic: &[u8]) -> bool {
        if !self.complete || self.context.0.is_null() {
            return false;
        }
        // SAFETY: the context is live; the buffers live during the call.
        let major = unsafe { gss_verify_mic(&mut 0, self.context.0, &lend(data), &lend(mic), null_mut()) };
        major == 0
    }

    /// Principal of the client: `name@REALM`.
    ///
    /// # Errors
    /// The context is not established, or the name is not UTF-8.
    pub fn principal(&self) -> Result<String, GssError> {
        if !self.complete || self.source.0.is_null() {
            return Err(GssError::new("no context"));
        }
        let mut text = Filled::empty();
        let mut minor = 0;
        // SAFETY: the name is live; the kind of name is not requested.
        let major = unsafe { gss_display_name(&mut minor, self.source.0, &mut text.0, null_mut()) };
        check(major, minor)?;
        let text = std::str::from_utf8(text.bytes()).map_err(|_| GssError::new("principal is not UTF-8"))?;
        Ok(text.to_owned())
    }

    /// True when the client may log in as this user of the system: according to `~/.k5login` where it exists,
    /// otherwise by the name alone (`krb5_kuserok`).
    ///
    /// # Errors
    /// The context is not established, or Kerberos is not configured.
    /// There is no context yet, or Kerberos is not configured.
    pub fn may_be(&self, user: &str) -> Result<bool, GssError> {
        let principal = CString::new(self.principal()?).unwrap_or_default();
        let Ok(user) = CString::new(user) else { return Ok(false) };
        let failed = |what: &str, code: c_int| GssError::new(format!("{what}: error {code}"));
        let mut context = null_mut();
        // SAFETY: the context is released below, once, and the principal before it; the strings live during
        // the calls.
        unsafe {
            let code = krb5_init_context(&mut context);
            if code != 0 {
                return Err(failed("krb5_init_context", code));
            }
            let mut parsed = null_mut();
            let code = krb5_parse_name(context, principal.as_ptr(), &mut parsed);
            let answer = if code == 0 {
                let may = krb5_kuserok(context, parsed, user.as_ptr()) != 0;
                krb5_free_principal(context, parsed);
                Ok(may)
            } else {
                Err(failed("krb5_parse_name", code))
            };
            krb5_free_context(context);
            answer
        }
    }

    /// Credentials that the client has delegated, serialized for [`store`] in another process. `None`: none.
    ///
    /// # Errors
    /// They cannot be serialized.
    pub fn delegated(&self) -> Result<Option<Zeroizing<Vec<u8>>>, GssError> {
        if !self.complete || self.delegated.0.is_null() {
            return Ok(None);
        }
        let mut token = Filled::empty();
        let mut minor = 0;
        // SAFETY: the credential is live.
        let major = unsafe { gss_export_cred(&mut minor, self.delegated.0, &mut token.0) };
        check(major, minor)?;
        Ok(Some(Zeroizing::new(token.bytes().to_vec())))
    }
}

/// Writes credentials from [`Acceptor::delegated`] to a file: a credential cache that only this process's
/// user may read.
///
/// # Errors
/// The bytes are not credentials, or the file cannot be written.
pub fn store(exported: &[u8], file: &Path) -> Result<(), GssError> {
    let cache = CString::new(format!("FILE:{}", file.display()))
        .map_err(|_| GssError::new("NUL in the file's name"))?;
    let mut credential = OwnCredential(null_mut());
    let mut minor = 0;
    // SAFETY: the buffer lives during the call.
    let major = unsafe { gss_import_cred(&mut minor, &lend(exported), &mut credential.0) };
    check(major, minor)?;
    let entry = KeyValue { key: c"ccache".as_ptr(), value: cache.as_ptr() };
    let entries = KeyValues { count: 1, elements: &entry };
    // SAFETY: the credential is live; names and values are strings that live during the call.
    let major = unsafe {
        gss_store_cred_into(
            &mut minor,
            credential.0,
            GSS_C_INITIATE,
            &kerberos(),
            1,
            0,
            &entries,
            null_mut(),
            null_mut(),
        )
    };
    check(major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_host_fails_with_a_text() {
        // No realm has such a host, and the user of the tests need not have a ticket.
        let mut initiator = Initiator::new("no-such-host.invalid", true).unwrap();
        let error = initiator.step(b"").unwrap_err();
        assert!(!error.text.is_empty());
        assert!(initiator.mic(b"data").is_err());
    }

    #[test]
    fn invalid_credentials_are_not_stored() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("cache");
        for bytes in [&b""[..], b"x", &[0; 64], &[0xff; 4096]] {
            assert!(store(bytes, &file).is_err());
            assert!(!file.exists());
        }
    }
}
