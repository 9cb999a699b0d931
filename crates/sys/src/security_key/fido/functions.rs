//! libfido2's functions, and owners of what they allocate.
#![expect(unsafe_code, reason = "functions and memory of a C library")]

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::dynamic::{Library, LoadError, functions};

/// Upper limit of a data item from the library, bytes; real ones are a few kilobytes.
const LONGEST: usize = 64 * 1024;

functions! {
/// The functions in use. Debian 12's libfido2, version 1.12, has all of them.
pub(super) struct Api {
    fn fido_init(flags: c_int);
    fn fido_strerr(code: c_int) -> *const c_char;
    fn fido_dev_info_new(most: usize) -> *mut c_void;
    fn fido_dev_info_manifest(list: *mut c_void, most: usize, found: *mut usize) -> c_int;
    fn fido_dev_info_ptr(list: *const c_void, at: usize) -> *const c_void;
    fn fido_dev_info_path(info: *const c_void) -> *const c_char;
    fn fido_dev_info_free(list: *mut *mut c_void, most: usize);
    fn fido_dev_new() -> *mut c_void;
    fn fido_dev_free(device: *mut *mut c_void);
    fn fido_dev_open(device: *mut c_void, path: *const c_char) -> c_int;
    fn fido_dev_close(device: *mut c_void) -> c_int;
    fn fido_dev_cancel(device: *mut c_void) -> c_int;
    fn fido_dev_get_touch_begin(device: *mut c_void) -> c_int;
    fn fido_dev_get_touch_status(device: *mut c_void, touched: *mut c_int, milliseconds: c_int) -> c_int;
    fn fido_dev_has_pin(device: *const c_void) -> bool;
    fn fido_dev_has_uv(device: *const c_void) -> bool;
    fn fido_dev_supports_cred_prot(device: *const c_void) -> bool;
    fn fido_dev_supports_credman(device: *const c_void) -> bool;
    fn fido_dev_make_cred(device: *mut c_void, cred: *mut c_void, pin: *const c_char) -> c_int;
    fn fido_dev_get_assert(device: *mut c_void, assert: *mut c_void, pin: *const c_char) -> c_int;
    fn fido_cred_new() -> *mut c_void;
    fn fido_cred_free(cred: *mut *mut c_void);
    fn fido_cred_set_type(cred: *mut c_void, algorithm: c_int) -> c_int;
    fn fido_cred_set_clientdata(cred: *mut c_void, data: *const u8, len: usize) -> c_int;
    fn fido_cred_set_rp(cred: *mut c_void, id: *const c_char, name: *const c_char) -> c_int;
    fn fido_cred_set_user(
        cred: *mut c_void,
        id: *const u8,
        len: usize,
        name: *const c_char,
        display_name: *const c_char,
        icon: *const c_char,
    ) -> c_int;
    fn fido_cred_set_rk(cred: *mut c_void, resident: c_int) -> c_int;
    fn fido_cred_set_uv(cred: *mut c_void, verify: c_int) -> c_int;
    fn fido_cred_set_prot(cred: *mut c_void, protection: c_int) -> c_int;
    fn fido_cred_verify(cred: *const c_void) -> c_int;
    fn fido_cred_verify_self(cred: *const c_void) -> c_int;
    fn fido_cred_type(cred: *const c_void) -> c_int;
    fn fido_cred_prot(cred: *const c_void) -> c_int;
    fn fido_cred_id_ptr(cred: *const c_void) -> *const u8;
    fn fido_cred_id_len(cred: *const c_void) -> usize;
    fn fido_cred_pubkey_ptr(cred: *const c_void) -> *const u8;
    fn fido_cred_pubkey_len(cred: *const c_void) -> usize;
    fn fido_cred_sig_ptr(cred: *const c_void) -> *const u8;
    fn fido_cred_sig_len(cred: *const c_void) -> usize;
    fn fido_cred_x5c_ptr(cred: *const c_void) -> *const u8;
    fn fido_cred_x5c_len(cred: *const c_void) -> usize;
    fn fido_cred_authdata_ptr(cred: *const c_void) -> *const u8;
    fn fido_cred_authdata_len(cred: *const c_void) -> usize;
    fn fido_cred_user_id_ptr(cred: *const c_void) -> *const u8;
    fn fido_cred_user_id_len(cred: *const c_void) -> usize;
    fn fido_assert_new() -> *mut c_void;
    fn fido_assert_free(assert: *mut *mut c_void);
    fn fido_assert_set_clientdata(assert: *mut c_void, data: *const u8, len: usize) -> c_int;
    fn fido_assert_set_rp(assert: *mut c_void, id: *const c_char) -> c_int;
    fn fido_assert_allow_cred(assert: *mut c_void, id: *const u8, len: usize) -> c_int;
    fn fido_assert_set_up(assert: *mut c_void, presence: c_int) -> c_int;
    fn fido_assert_set_uv(assert: *mut c_void, verify: c_int) -> c_int;
    fn fido_assert_count(assert: *const c_void) -> usize;
    fn fido_assert_flags(assert: *const c_void, at: usize) -> u8;
    fn fido_assert_sigcount(assert: *const c_void, at: usize) -> u32;
    fn fido_assert_sig_ptr(assert: *const c_void, at: usize) -> *const u8;
    fn fido_assert_sig_len(assert: *const c_void, at: usize) -> usize;
    fn fido_assert_user_id_ptr(assert: *const c_void, at: usize) -> *const u8;
    fn fido_assert_user_id_len(assert: *const c_void, at: usize) -> usize;
    fn fido_credman_rp_new() -> *mut c_void;
    fn fido_credman_rp_free(list: *mut *mut c_void);
    fn fido_credman_get_dev_rp(device: *mut c_void, list: *mut c_void, pin: *const c_char) -> c_int;
    fn fido_credman_rp_count(list: *const c_void) -> usize;
    fn fido_credman_rp_id(list: *const c_void, at: usize) -> *const c_char;
    fn fido_credman_rk_new() -> *mut c_void;
    fn fido_credman_rk_free(list: *mut *mut c_void);
    fn fido_credman_get_dev_rk(
        device: *mut c_void,
        rp: *const c_char,
        list: *mut c_void,
        pin: *const c_char,
    ) -> c_int;
    fn fido_credman_rk_count(list: *const c_void) -> usize;
    fn fido_credman_rk(list: *const c_void, at: usize) -> *const c_void;
}
}

impl Api {
    /// Returns the library, which the first call loads. Fails if it is not installed or too old.
    pub(super) fn load() -> Result<&'static Self, LoadError> {
        static API: OnceLock<Result<Api, LoadError>> = OnceLock::new();
        let api = API.get_or_init(|| {
            let api = Library::open(c"libfido2.so.1").and_then(Self::find)?;
            // SAFETY: the library's function, called once and before all others; no flags are set.
            unsafe { (api.fido_init)(0) };
            Ok(api)
        });
        api.as_ref().map_err(LoadError::clone)
    }
}

pub(super) type FreeFn = unsafe extern "C" fn(*mut *mut c_void);

/// An object of the library, which dropping frees.
pub(super) struct Object {
    raw: *mut c_void,
    free: FreeFn,
}

impl Object {
    /// Owns what one of the library's `…_new` functions returned; `None` for null.
    ///
    /// # Safety
    /// `raw` is null, or an object that `free` frees and that has no other owner.
    pub(super) unsafe fn new(raw: *mut c_void, free: FreeFn) -> Option<Self> {
        (!raw.is_null()).then_some(Self { raw, free })
    }

    pub(super) fn raw(&self) -> *mut c_void {
        self.raw
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: `new`'s promise; the pointer is not used afterwards.
        unsafe { (self.free)(&raw mut self.raw) };
    }
}

/// Copies data that an object of the library owns. Null gives an empty vector; `None`: too long.
///
/// # Safety
/// `from` is null, or points to `len` bytes that stay unchanged during the call.
pub(super) unsafe fn copy(from: *const u8, len: usize) -> Option<Vec<u8>> {
    if from.is_null() {
        return Some(Vec::new());
    }
    if len > LONGEST {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(from, len) }.to_vec())
}
