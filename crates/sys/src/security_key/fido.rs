//! FIDO security keys through libfido2, which is loaded when it is first used.
//!
//! The library finds the devices (with udev on Linux), speaks CTAP 2 and U2F with them, and checks the
//! attestation of new keys.
#![expect(unsafe_code, reason = "libfido2 is a C library")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null;

use zeroize::Zeroizing;

use super::interface::{Enrolled, Pin};
use super::{Algorithm, MOST_KEYS};
use crate::dynamic::LoadError;
use functions::{Api, FreeFn, Object};

mod functions;

/// Upper limit of devices.
const MOST_DEVICES: usize = 64;

/// `FIDO_OPT_FALSE` and `FIDO_OPT_TRUE`.
const OPTION: [c_int; 2] = [1, 2];
/// COSE's numbers of the signature algorithms.
const ES256: c_int = -7;
const EDDSA: c_int = -8;
/// Protection of a credential: usable without verification of the user only if its id is known.
const VERIFY_UNLESS_ID_KNOWN: c_int = 2;
/// Protection of a credential: usable after verification of the user only.
const VERIFY_ALWAYS: c_int = 3;

/// An error number of libfido2: positive ones are those of CTAP, which the device sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FidoError(pub i32);

impl FidoError {
    /// The device does not support the key type.
    pub const UNSUPPORTED_ALGORITHM: Self = Self(0x26);
    /// The device has no space for another resident key.
    pub const KEY_STORE_FULL: Self = Self(0x28);
    /// The device does not support an option of the request.
    pub const UNSUPPORTED_OPTION: Self = Self(0x2b);
    /// An option of the request is not valid for the device.
    pub const INVALID_OPTION: Self = Self(0x2c);
    /// The device has no such key.
    pub const NO_CREDENTIALS: Self = Self(0x2e);
    /// The user did not touch the device in time.
    pub const USER_ACTION_TIMEOUT: Self = Self(0x2f);
    /// The PIN is wrong.
    pub const PIN_INVALID: Self = Self(0x31);
    /// The PIN is blocked until the device is reset.
    pub const PIN_BLOCKED: Self = Self(0x32);
    /// The PIN is blocked until the device is unplugged.
    pub const PIN_AUTH_BLOCKED: Self = Self(0x34);
    /// The device has no PIN yet.
    pub const PIN_NOT_SET: Self = Self(0x35);
    /// The request requires a PIN.
    pub const PIN_REQUIRED: Self = Self(0x36);
    /// The user did not act in time.
    pub const ACTION_TIMEOUT: Self = Self(0x3a);
    /// Built-in verification of the user, such as by fingerprint, is blocked.
    pub const UV_BLOCKED: Self = Self(0x3c);
    /// Built-in verification of the user failed.
    pub const UV_INVALID: Self = Self(0x3f);
    /// The device has the key, whose use requires a touch.
    pub const USER_PRESENCE_REQUIRED: Self = Self(-8);
    /// The library failed, or its answer makes no sense.
    pub const INTERNAL: Self = Self(-9);
}

impl std::fmt::Display for FidoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Api::load() {
            // SAFETY: the function returns a static C string for any number.
            Ok(api) => f.write_str(&unsafe { CStr::from_ptr((api.fido_strerr)(self.0)) }.to_string_lossy()),
            Err(_) => write!(f, "error {}", self.0),
        }
    }
}

impl std::error::Error for FidoError {}

fn check(code: c_int) -> Result<(), FidoError> {
    if code == 0 { Ok(()) } else { Err(FidoError(code)) }
}

fn text(text: &str) -> Result<CString, FidoError> {
    CString::new(text).map_err(|_| FidoError::INTERNAL)
}

/// Owns an object of the library.
///
/// # Safety
/// As for [`Object::new`].
unsafe fn own(raw: *mut c_void, free: FreeFn) -> Result<Object, FidoError> {
    // SAFETY: the caller's promise.
    unsafe { Object::new(raw, free) }.ok_or(FidoError::INTERNAL)
}

/// Copies data of an object of the library.
///
/// # Safety
/// As for [`functions::copy`].
unsafe fn copy(from: *const u8, len: usize) -> Result<Vec<u8>, FidoError> {
    // SAFETY: the caller's promise.
    unsafe { functions::copy(from, len) }.ok_or(FidoError::INTERNAL)
}

fn pin(pin: Option<&str>) -> Result<Option<Pin>, FidoError> {
    pin.map(Pin::new).transpose().map_err(|_| FidoError::PIN_INVALID)
}

fn algorithm(number: c_int) -> Option<Algorithm> {
    match number {
        ES256 => Some(Algorithm::Ecdsa),
        EDDSA => Some(Algorithm::Ed25519),
        _ => None,
    }
}

/// Parameters of a new key.
pub struct NewKey<'a> {
    /// Key type.
    pub algorithm: Algorithm,
    /// Data whose SHA-256 hash the device signs.
    pub challenge: &'a [u8],
    /// The application (relying party).
    pub application: &'a str,
    /// User id.
    pub user: &'a [u8],
    /// Whether the device stores the key.
    pub resident: bool,
    /// Whether use of the key requires verification of the user.
    pub verify: bool,
}

/// Parameters of signatures.
pub struct ToSign<'a> {
    /// The application (relying party).
    pub application: &'a str,
    /// Data whose SHA-256 hash the device signs.
    pub data: &'a [u8],
    /// The key; `None` for all resident keys of the application.
    pub handle: Option<&'a [u8]>,
    /// Whether the user must touch the device.
    pub touch: bool,
    /// Whether the device must verify the user without a PIN, such as by fingerprint.
    pub verify: bool,
}

/// A signature in COSE's form: that of ECDSA is DER.
pub struct Assertion {
    /// Flags of the signature.
    pub flags: u8,
    /// The key's signature counter.
    pub counter: u32,
    /// The signature.
    pub signature: Vec<u8>,
    /// User id of a resident key.
    pub user: Vec<u8>,
}

/// A resident key.
pub struct StoredKey {
    /// Key type; `None` for one that SSH does not support.
    pub algorithm: Option<Algorithm>,
    /// The key. Its flags are empty.
    pub key: Enrolled,
    /// Whether each use requires verification of the user.
    pub verify: bool,
    /// User id.
    pub user: Vec<u8>,
}

/// Loads the library, which the first use does otherwise.
///
/// # Errors
/// It is not installed or too old.
pub fn load() -> Result<(), LoadError> {
    Api::load().map(drop)
}

fn api() -> Result<&'static Api, FidoError> {
    Api::load().map_err(|_| FidoError::INTERNAL)
}

/// Returns the paths of the devices to which the process has access.
///
/// # Errors
/// See [`FidoError`].
pub fn devices() -> Result<Vec<CString>, FidoError> {
    let api = api()?;
    let mut found = 0;
    // SAFETY: the list has room for the number of devices that is passed, is used only here, and is freed
    // with the same number. Paths are null or C strings that the list owns.
    unsafe {
        let mut list = (api.fido_dev_info_new)(MOST_DEVICES);
        if list.is_null() {
            return Err(FidoError::INTERNAL);
        }
        let code = (api.fido_dev_info_manifest)(list, MOST_DEVICES, &raw mut found);
        let paths = (0..found.min(MOST_DEVICES)).filter_map(|at| {
            let path = (api.fido_dev_info_path)((api.fido_dev_info_ptr)(list, at));
            (!path.is_null()).then(|| CStr::from_ptr(path).to_owned())
        });
        let paths = if code == 0 { paths.collect() } else { Vec::new() };
        (api.fido_dev_info_free)(&raw mut list, MOST_DEVICES);
        check(code).map(|()| paths)
    }
}

/// An open security key. Dropping it closes it.
pub struct Device {
    api: &'static Api,
    object: Object,
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// See [`FidoError`].
    pub fn open(path: &CStr) -> Result<Self, FidoError> {
        let api = api()?;
        // SAFETY: the library's functions for such objects; the path is a C string, which the library copies.
        let (object, code) = unsafe {
            let object = own((api.fido_dev_new)(), api.fido_dev_free)?;
            let code = (api.fido_dev_open)(object.raw(), path.as_ptr());
            (object, code)
        };
        check(code)?;
        Ok(Self { api, object })
    }

    /// True when the device has a PIN.
    pub fn has_pin(&self) -> bool {
        // SAFETY: an open device.
        unsafe { (self.api.fido_dev_has_pin)(self.object.raw()) }
    }

    /// True when the device verifies the user by itself, such as by fingerprint, and is set up for it.
    pub fn has_verification(&self) -> bool {
        // SAFETY: an open device.
        unsafe { (self.api.fido_dev_has_uv)(self.object.raw()) }
    }

    /// True when the device can require verification of the user for a key.
    pub fn can_protect(&self) -> bool {
        // SAFETY: an open device.
        unsafe { (self.api.fido_dev_supports_cred_prot)(self.object.raw()) }
    }

    /// True when the device lists its resident keys.
    pub fn can_list(&self) -> bool {
        // SAFETY: an open device.
        unsafe { (self.api.fido_dev_supports_credman)(self.object.raw()) }
    }

    /// Starts to wait for a touch: the device blinks.
    ///
    /// # Errors
    /// See [`FidoError`].
    pub fn begin_touch(&self) -> Result<(), FidoError> {
        // SAFETY: an open device.
        check(unsafe { (self.api.fido_dev_get_touch_begin)(self.object.raw()) })
    }

    /// Waits for the touch, at most for this time.
    ///
    /// # Errors
    /// See [`FidoError`].
    pub fn wait_for_touch(&self, milliseconds: i32) -> Result<bool, FidoError> {
        let mut touched = 0;
        // SAFETY: an open device; the other pointer is valid during the call.
        check(unsafe {
            (self.api.fido_dev_get_touch_status)(self.object.raw(), &raw mut touched, milliseconds)
        })?;
        Ok(touched != 0)
    }

    /// Ends what the device waits for.
    pub fn cancel(&self) {
        // SAFETY: an open device. Failures have no consequence: the wait ends by itself.
        unsafe { (self.api.fido_dev_cancel)(self.object.raw()) };
    }

    /// Creates a key, and checks the attestation.
    ///
    /// # Errors
    /// See [`FidoError`].
    pub fn make_key(&self, wanted: &NewKey<'_>, with_pin: Option<&str>) -> Result<Enrolled, FidoError> {
        let (api, pin) = (self.api, pin(with_pin)?);
        let application = text(wanted.application)?;
        let number = if wanted.algorithm == Algorithm::Ecdsa { ES256 } else { EDDSA };
        let name = c"openssh".as_ptr();
        // SAFETY: an object of the library, whose setters copy what their arguments point to: data of the
        // given length, and C strings. An icon may be null.
        unsafe {
            let made = own((api.fido_cred_new)(), api.fido_cred_free)?;
            let raw = made.raw();
            check((api.fido_cred_set_type)(raw, number))?;
            check((api.fido_cred_set_clientdata)(raw, wanted.challenge.as_ptr(), wanted.challenge.len()))?;
            check((api.fido_cred_set_rp)(raw, application.as_ptr(), null()))?;
            let (user, len) = (wanted.user.as_ptr(), wanted.user.len());
            check((api.fido_cred_set_user)(raw, user, len, name, name, null()))?;
            if wanted.resident {
                check((api.fido_cred_set_rk)(raw, OPTION[1]))?;
            }
            if wanted.resident || wanted.verify {
                let protection = if wanted.verify { VERIFY_ALWAYS } else { VERIFY_UNLESS_ID_KNOWN };
                check((api.fido_cred_set_prot)(raw, protection))?;
            }
            if wanted.verify && pin.is_none() {
                check((api.fido_cred_set_uv)(raw, OPTION[1]))?;
            }
            check((api.fido_dev_make_cred)(self.object.raw(), raw, Pin::pointer(pin.as_ref())))?;
            let attested_by_other = !(api.fido_cred_x5c_ptr)(raw).is_null();
            let verify = if attested_by_other { api.fido_cred_verify } else { api.fido_cred_verify_self };
            check(verify(raw))?;
            self.enrolled(raw)
        }
    }

    /// Copies a key.
    ///
    /// # Safety
    /// `raw` is a key of the library.
    unsafe fn enrolled(&self, raw: *const c_void) -> Result<Enrolled, FidoError> {
        let api = self.api;
        // SAFETY: the caller's promise. The key owns its data, whose lengths these functions return.
        unsafe {
            let mut public = copy((api.fido_cred_pubkey_ptr)(raw), (api.fido_cred_pubkey_len)(raw))?;
            if (api.fido_cred_type)(raw) == ES256 {
                // SSH's form of a point has the prefix of uncompressed ones.
                public.insert(0, 4);
            }
            Ok(Enrolled {
                flags: 0,
                public,
                handle: Zeroizing::new(copy((api.fido_cred_id_ptr)(raw), (api.fido_cred_id_len)(raw))?),
                signature: copy((api.fido_cred_sig_ptr)(raw), (api.fido_cred_sig_len)(raw))?,
                certificate: copy((api.fido_cred_x5c_ptr)(raw), (api.fido_cred_x5c_len)(raw))?,
                authenticator_data: copy(
                    (api.fido_cred_authdata_ptr)(raw),
                    (api.fido_cred_authdata_len)(raw),
                )?,
            })
        }
    }

    /// Signs, once for each key of the request.
    ///
    /// # Errors
    /// See [`FidoError`].
    pub fn sign(&self, request: &ToSign<'_>, with_pin: Option<&str>) -> Result<Vec<Assertion>, FidoError> {
        let (api, pin) = (self.api, pin(with_pin)?);
        let application = text(request.application)?;
        // SAFETY: as in `make_key`.
        unsafe {
            let made = own((api.fido_assert_new)(), api.fido_assert_free)?;
            let raw = made.raw();
            check((api.fido_assert_set_clientdata)(raw, request.data.as_ptr(), request.data.len()))?;
            check((api.fido_assert_set_rp)(raw, application.as_ptr()))?;
            if let Some(handle) = request.handle {
                check((api.fido_assert_allow_cred)(raw, handle.as_ptr(), handle.len()))?;
            }
            check((api.fido_assert_set_up)(raw, OPTION[usize::from(request.touch)]))?;
            if request.verify && pin.is_none() {
                check((api.fido_assert_set_uv)(raw, OPTION[1]))?;
            }
            check((api.fido_dev_get_assert)(self.object.raw(), raw, Pin::pointer(pin.as_ref())))?;
            let count = (api.fido_assert_count)(raw).min(MOST_KEYS);
            let assertion = |at| {
                let user = (api.fido_assert_user_id_ptr)(raw, at);
                Ok(Assertion {
                    flags: (api.fido_assert_flags)(raw, at),
                    counter: (api.fido_assert_sigcount)(raw, at),
                    signature: copy((api.fido_assert_sig_ptr)(raw, at), (api.fido_assert_sig_len)(raw, at))?,
                    user: copy(user, (api.fido_assert_user_id_len)(raw, at))?,
                })
            };
            (0..count).map(assertion).collect()
        }
    }

    /// Returns the applications of the resident keys.
    ///
    /// # Errors
    /// See [`FidoError`].
    pub fn applications(&self, with_pin: Option<&str>) -> Result<Vec<CString>, FidoError> {
        let (api, pin) = (self.api, pin(with_pin)?);
        // SAFETY: an object of the library, which owns the C strings.
        unsafe {
            let list = own((api.fido_credman_rp_new)(), api.fido_credman_rp_free)?;
            let code =
                (api.fido_credman_get_dev_rp)(self.object.raw(), list.raw(), Pin::pointer(pin.as_ref()));
            check(code)?;
            let count = (api.fido_credman_rp_count)(list.raw()).min(MOST_KEYS);
            let name = |at| {
                let id: *const c_char = (api.fido_credman_rp_id)(list.raw(), at);
                (!id.is_null()).then(|| CStr::from_ptr(id).to_owned())
            };
            Ok((0..count).filter_map(name).collect())
        }
    }

    /// Returns the resident keys of an application.
    ///
    /// # Errors
    /// See [`FidoError`].
    pub fn stored_keys(
        &self,
        application: &CStr,
        with_pin: Option<&str>,
    ) -> Result<Vec<StoredKey>, FidoError> {
        let (api, pin) = (self.api, pin(with_pin)?);
        // SAFETY: an object of the library, which owns the keys of its list and their data.
        unsafe {
            let list = own((api.fido_credman_rk_new)(), api.fido_credman_rk_free)?;
            let (device, pin) = (self.object.raw(), Pin::pointer(pin.as_ref()));
            check((api.fido_credman_get_dev_rk)(device, application.as_ptr(), list.raw(), pin))?;
            let count = (api.fido_credman_rk_count)(list.raw()).min(MOST_KEYS);
            let mut keys = Vec::with_capacity(count);
            for at in 0..count {
                let raw = (api.fido_credman_rk)(list.raw(), at);
                if raw.is_null() {
                    return Err(FidoError::INTERNAL);
                }
                keys.push(StoredKey {
                    algorithm: algorithm((api.fido_cred_type)(raw)),
                    key: self.enrolled(raw)?,
                    verify: (api.fido_cred_prot)(raw) == VERIFY_ALWAYS,
                    user: copy((api.fido_cred_user_id_ptr)(raw), (api.fido_cred_user_id_len)(raw))?,
                });
            }
            Ok(keys)
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: an open device, which is not used afterwards but to be freed.
        unsafe { (self.api.fido_dev_close)(self.object.raw()) };
    }
}
