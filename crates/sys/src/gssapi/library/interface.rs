//! Declarations of the C interface: RFC 2744's, and the functions that MIT's library adds.
#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::dynamic::{Library, LoadError, functions};
use crate::gssapi::GssError;

/// `GSS_S_CONTINUE_NEEDED`: another token is needed.
pub(super) const CONTINUE_NEEDED: u32 = 1;
/// Bits of a status that indicate errors.
pub(super) const ERRORS: u32 = 0xffff_0000;
pub(super) const GSS_C_INITIATE: c_int = 1;
pub(super) const GSS_C_ACCEPT: c_int = 2;
pub(super) const GSS_C_DELEG_FLAG: u32 = 1;
pub(super) const GSS_C_MUTUAL_FLAG: u32 = 2;
pub(super) const GSS_C_INTEG_FLAG: u32 = 32;
pub(super) const GSS_C_GSS_CODE: c_int = 1;
pub(super) const GSS_C_MECH_CODE: c_int = 2;

/// The contents of `GSS_C_NT_HOSTBASED_SERVICE` (1.2.840.113554.1.2.1.4): `service@host`.
pub(super) const HOST_BASED_SERVICE: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x01, 0x04];

pub(super) type Name = *mut c_void;
pub(super) type Credential = *mut c_void;
pub(super) type ContextHandle = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Oid {
    pub(super) length: u32,
    pub(super) elements: *const u8,
}

#[repr(C)]
pub(super) struct OidSet {
    pub(super) count: usize,
    pub(super) elements: *const Oid,
}

#[repr(C)]
pub(super) struct Buffer {
    pub(super) length: usize,
    pub(super) value: *mut c_void,
}

#[repr(C)]
pub(super) struct KeyValue {
    pub(super) key: *const c_char,
    pub(super) value: *const c_char,
}

#[repr(C)]
pub(super) struct KeyValues {
    pub(super) count: u32,
    pub(super) elements: *const KeyValue,
}

functions! {
/// The library's functions, and some of libkrb5, which it is linked to.
pub(super) struct Api {
    fn gss_import_name(
        minor: *mut u32,
        text: *const Buffer,
        kind: *const Oid,
        name: *mut Name,
    ) -> u32;
    fn gss_release_name(minor: *mut u32, name: *mut Name) -> u32;
    fn gss_display_name(
        minor: *mut u32,
        name: Name,
        text: *mut Buffer,
        kind: *mut *const Oid,
    ) -> u32;
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
    fn gss_delete_sec_context(
        minor: *mut u32,
        context: *mut ContextHandle,
        output: *mut Buffer,
    ) -> u32;
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
    fn krb5_init_context(context: *mut *mut c_void) -> c_int;
    fn krb5_free_context(context: *mut c_void);
    fn krb5_parse_name(
        context: *mut c_void,
        name: *const c_char,
        principal: *mut *mut c_void,
    ) -> c_int;
    fn krb5_free_principal(context: *mut c_void, principal: *mut c_void);
    fn krb5_kuserok(context: *mut c_void, principal: *mut c_void, user: *const c_char) -> c_uint;
}

}

impl Api {
    /// Returns the library, which the first call loads.
    ///
    /// # Errors
    /// It is not installed, or not MIT's.
    pub(super) fn load() -> Result<&'static Self, GssError> {
        static API: OnceLock<Result<Api, LoadError>> = OnceLock::new();
        let api = API.get_or_init(|| Library::open_for_others(c"libgssapi_krb5.so.2").and_then(Self::find));
        api.as_ref().map_err(|error| GssError::new(error.to_string()))
    }
}
