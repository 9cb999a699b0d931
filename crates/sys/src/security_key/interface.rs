//! OpenSSH's C interface (`sk-api.h`): types, inputs and outputs.
#![expect(unsafe_code, reason = "memory that C allocates, and functions of C")]

use std::ffi::{CString, c_char, c_int};
use std::ptr::{null, null_mut};

use zeroize::{Zeroize as _, Zeroizing};

/// Why a library failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The library cannot be loaded or is not a provider; the message says why.
    #[error("{0}")]
    Unusable(String),
    /// The library refused, with one of `SSH_SK_ERR_…`.
    #[error("the provider failed with {0}")]
    Refused(i32),
    /// The library's answer is not valid, or the request cannot be expressed in C.
    #[error("the provider's answer makes no sense")]
    Nonsense,
}

/// A newly enrolled key.
pub struct Enrolled {
    /// Flag bits of the key: what its use requires.
    pub flags: u8,
    /// The public key; for ECDSA an uncompressed point.
    pub public: Vec<u8>,
    /// Key handle, by which the authenticator finds the key.
    pub handle: Zeroizing<Vec<u8>>,
    /// The authenticator's signature over the challenge.
    pub signature: Vec<u8>,
    /// Certificate of the attestation key that made this signature.
    pub certificate: Vec<u8>,
    /// The other signed data.
    pub authenticator_data: Vec<u8>,
}

/// Upper limit of a data item from a library, bytes; real ones are a few kilobytes.
const LONGEST: usize = 64 * 1024;

#[repr(C)]
pub(super) struct RawOption {
    pub(super) name: *mut c_char,
    pub(super) value: *mut c_char,
    pub(super) required: u8,
}

#[repr(C)]
pub(super) struct RawEnrolled {
    pub(super) flags: u8,
    pub(super) public: *mut u8,
    pub(super) public_len: usize,
    pub(super) handle: *mut u8,
    pub(super) handle_len: usize,
    pub(super) signature: *mut u8,
    pub(super) signature_len: usize,
    pub(super) certificate: *mut u8,
    pub(super) certificate_len: usize,
    pub(super) authenticator_data: *mut u8,
    pub(super) authenticator_data_len: usize,
}

#[repr(C)]
pub(super) struct RawSigned {
    pub(super) flags: u8,
    pub(super) counter: u32,
    pub(super) r: *mut u8,
    pub(super) r_len: usize,
    pub(super) s: *mut u8,
    pub(super) s_len: usize,
}

#[repr(C)]
pub(super) struct RawResident {
    pub(super) algorithm: u32,
    pub(super) slot: usize,
    pub(super) application: *mut c_char,
    pub(super) key: RawEnrolled,
    pub(super) flags: u8,
    pub(super) user: *mut u8,
    pub(super) user_len: usize,
}

pub(super) type VersionFn = unsafe extern "C" fn() -> u32;
pub(super) type EnrollFn = unsafe extern "C" fn(
    u32,
    *const u8,
    usize,
    *const c_char,
    u8,
    *const c_char,
    *mut *mut RawOption,
    *mut *mut RawEnrolled,
) -> c_int;
pub(super) type SignFn = unsafe extern "C" fn(
    u32,
    *const u8,
    usize,
    *const c_char,
    *const u8,
    usize,
    u8,
    *const c_char,
    *mut *mut RawOption,
    *mut *mut RawSigned,
) -> c_int;
pub(super) type LoadFn =
    unsafe extern "C" fn(*const c_char, *mut *mut RawOption, *mut *mut *mut RawResident, *mut usize) -> c_int;

pub(super) fn text(text: &str) -> Result<CString, ProviderError> {
    CString::new(text).map_err(|_| ProviderError::Nonsense)
}

/// Copies an allocation of the library, then wipes and frees it. Null gives an empty vector.
///
/// # Safety
/// `from` is null, or comes from malloc with `len` bytes and has no other user.
pub(super) unsafe fn take(from: *mut u8, len: usize) -> Result<Vec<u8>, ProviderError> {
    if from.is_null() {
        return Ok(Vec::new());
    }
    if len > LONGEST {
        return Err(ProviderError::Nonsense);
    }
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = std::slice::from_raw_parts_mut(from, len);
        let copy = bytes.to_vec();
        bytes.zeroize();
        libc::free(from.cast());
        Ok(copy)
    }
}

/// Takes the members of a response.
///
/// # Safety
/// `raw` points to a response whose members satisfy [`take`]'s conditions.
pub(super) unsafe fn take_enrolled(raw: *mut RawEnrolled) -> Result<Enrolled, ProviderError> {
    // SAFETY: the caller's promise.
    unsafe {
        Ok(Enrolled {
            flags: (*raw).flags,
            public: take((*raw).public, (*raw).public_len)?,
            handle: Zeroizing::new(take((*raw).handle, (*raw).handle_len)?),
            signature: take((*raw).signature, (*raw).signature_len)?,
            certificate: take((*raw).certificate, (*raw).certificate_len)?,
            authenticator_data: take((*raw).authenticator_data, (*raw).authenticator_data_len)?,
        })
    }
}

/// A PIN as a C string that is wiped on drop.
pub(super) struct Pin(Zeroizing<Vec<u8>>);

impl Pin {
    pub(super) fn new(pin: &str) -> Result<Self, ProviderError> {
        if pin.contains('\0') {
            return Err(ProviderError::Nonsense);
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(pin.len() + 1));
        bytes.extend_from_slice(pin.as_bytes());
        bytes.push(0);
        Ok(Self(bytes))
    }

    pub(super) fn pointer(pin: Option<&Self>) -> *const c_char {
        pin.map_or(null(), |pin| pin.0.as_ptr().cast())
    }
}

/// Options in the interface's form: a list of pointers that ends in null.
pub(super) struct Options {
    /// The strings that the options point to.
    _texts: Vec<CString>,
    /// Not in a box: moving a box claims unique access to its content, which would invalidate the pointers to
    /// it.
    _options: Vec<RawOption>,
    pointers: Vec<*mut RawOption>,
}

impl Options {
    pub(super) fn new(options: &[(&str, &str)]) -> Result<Self, ProviderError> {
        // All strings are stored before pointers to them are taken. Each string is a box, too.
        let mut texts = Vec::new();
        for (name, value) in options.iter().filter(|(_, value)| !value.is_empty()) {
            texts.extend([text(name)?, text(value)?]);
        }
        let pairs = texts.as_chunks().0;
        let option = |[name, value]: &[CString; 2]| RawOption {
            name: name.as_ptr().cast_mut(),
            value: value.as_ptr().cast_mut(),
            required: 0,
        };
        let mut options_of_c: Vec<RawOption> = pairs.iter().map(option).collect();
        // The vector does not grow from here on, so its content stays where it is.
        let pointers = options_of_c.iter_mut().map(|option| &raw mut *option).chain([null_mut()]).collect();
        Ok(Self { _texts: texts, _options: options_of_c, pointers })
    }

    /// The list; null when it is empty, as in OpenSSH.
    pub(super) fn pointer(&mut self) -> *mut *mut RawOption {
        if self.pointers.len() > 1 { self.pointers.as_mut_ptr() } else { null_mut() }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// Returns memory as a library would allocate it.
    fn allocated(bytes: &[u8]) -> *mut u8 {
        // SAFETY: malloc returns null or space for as many bytes as are written.
        unsafe {
            let to = libc::malloc(bytes.len()).cast::<u8>();
            assert!(!to.is_null());
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            to
        }
    }

    #[test]
    fn responses_are_copied_and_freed() {
        let mut raw = RawEnrolled {
            flags: 5,
            public: allocated(b"public"),
            public_len: 6,
            handle: allocated(b"handle"),
            handle_len: 6,
            signature: null_mut(),
            signature_len: 9,
            certificate: allocated(b"c"),
            certificate_len: 1,
            authenticator_data: allocated(b"data"),
            authenticator_data_len: 4,
        };
        // SAFETY: the members come from malloc with their lengths, and are not used again.
        let enrolled = unsafe { take_enrolled(&raw mut raw) }.unwrap();
        assert_eq!(
            (enrolled.flags, &*enrolled.public, &**enrolled.handle),
            (5, &b"public"[..], &b"handle"[..])
        );
        assert_eq!((enrolled.signature.len(), &*enrolled.certificate), (0, &b"c"[..]));
        assert_eq!(enrolled.authenticator_data, b"data");
    }

    #[test]
    fn options_can_be_read_after_moves() {
        let options = Options::new(&[("device", "x"), ("user", ""), ("application", "ssh:")]).unwrap();
        let mut moved = Box::new(std::convert::identity(options));
        let list = moved.pointer();
        // SAFETY: the list ends in null, and everything that it points to belongs to `moved`.
        let read = |at: usize| unsafe {
            let option = *list.add(at);
            let text = |from: *mut c_char| CStr::from_ptr(from).to_str().unwrap().to_owned();
            (!option.is_null()).then(|| (text((*option).name), text((*option).value), (*option).required))
        };
        assert_eq!(read(0), Some(("device".to_owned(), "x".to_owned(), 0)));
        assert_eq!(read(1), Some(("application".to_owned(), "ssh:".to_owned(), 0)));
        assert_eq!(read(2), None);
        assert!(Options::new(&[("user", "")]).unwrap().pointer().is_null());
    }
}
